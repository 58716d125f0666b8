// Probe: asks every cell whether it applies and is satisfied, and names what a run would do. It changes nothing;
// an error becomes a status, so that the preview shows all of them.
import { contextFor, type Shared, sharedFrom } from './context.ts';
import { openDeadline } from './deadline.ts';
import { CancelledError, fanOut } from './fan-out.ts';
import { type ProbeOptions, skippedPhases } from './options.ts';
import type { ExecutablePhase } from './phase.ts';
import { asCheck, type Json, type Step, type Target, type Touches } from './step.ts';
import { asError } from './thrown.ts';

export type ProbeStatus =
  | 'will execute'
  | 'would execute'
  | 'satisfied'
  | 'not applicable'
  | 'skipped (phase)'
  | `applicable: ${string}`
  | `check: ${string}`;

export interface ProbeCell {
  readonly phase: string;
  readonly targetId: string;
  readonly step: string;
  readonly title?: string;
  readonly touches: Touches;
  readonly status: ProbeStatus;
  readonly error?: Error;
  readonly note?: string;
  readonly detail?: Json;
}

/** In the plan's order: phases, then targets, then steps. */
export type Preview = readonly ProbeCell[];

export async function probePhases<P>(
  phases: readonly ExecutablePhase<P>[],
  options: ProbeOptions = {},
): Promise<Preview> {
  const skipped = skippedPhases(
    phases.map((phase) => phase.name),
    options.skipPhases,
  );
  const shared = sharedFrom(options);
  const willRun = options.dryRun ? 'would execute' : 'will execute';
  const { halted } = shared;
  try {
    const cells: ProbeCell[] = [];
    for (const phase of phases) {
      if (halted()) break;
      if (skipped.has(phase.name)) {
        for (const target of phase.targets)
          for (const step of phase.steps) cells.push(cellOf(phase.name, step, target, { status: 'skipped (phase)' }));
        continue;
      }
      const rows = await fanOut(phase.targets, phase.concurrency, halted, async (target, slot) => {
        const row: ProbeCell[] = [];
        for (const step of phase.steps) {
          if (halted()) break;
          row.push(cellOf(phase.name, step, target, await ask(shared, willRun, phase.name, step, target, slot)));
        }
        return row;
      });
      cells.push(...rows.flat());
    }
    if (halted()) throw new CancelledError([], cellCount(phases), shared.reason());
    return cells;
  } finally {
    if (!options.cache) await shared.cache.close();
  }
}

export const cellCount = (
  phases: readonly { readonly targets: readonly unknown[]; readonly steps: readonly unknown[] }[],
): number => phases.reduce((sum, phase) => sum + phase.targets.length * phase.steps.length, 0);

type Found = Pick<ProbeCell, 'status' | 'error' | 'note' | 'detail'>;

function cellOf<P>(phase: string, step: Step<P>, target: Target<P>, found: Found): ProbeCell {
  const title = step.title === undefined ? {} : { title: step.title };
  return { phase, targetId: target.id, step: step.name, ...title, touches: step.touches, ...found };
}

async function ask<P>(
  shared: Shared,
  willRun: ProbeStatus,
  phase: string,
  step: Step<P>,
  target: Target<P>,
  slot: number,
): Promise<Found> {
  const deadline = openDeadline(step, target.id, shared);
  const ctx = contextFor(shared, { signal: deadline.signal, phase, slot });
  let asking: 'applicable' | 'check' = 'applicable';
  try {
    if (!(await deadline.call(() => step.applicable(ctx, target)))) return { status: 'not applicable' };
    asking = 'check';
    const { satisfied, note, detail } = asCheck(await deadline.call(() => step.check(ctx, target)));
    return {
      status: satisfied ? 'satisfied' : willRun,
      ...(note !== undefined && { note }),
      ...(detail !== undefined && { detail }),
    };
  } catch (thrown) {
    const error = asError(thrown);
    return { status: `${asking}: ${error.message}`, error };
  } finally {
    deadline.close();
  }
}
