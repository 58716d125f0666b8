// Around: the hooks of an operation on the data of stacks: what comes before on the stack that it starts from, what comes after on the one
// that it ends in, each where it is deployed. A phase that is on record as done is not done again after a crash.
import { operationPhases } from '../../core/hook/situation.ts';
import { deployedSubject } from '../hook-subject.ts';
import { holdLeases } from '../leases.ts';
import { takeUpHooks, withHooks } from '../steps/run-hook.ts';
import type { Workbench } from '../workbench.ts';

export interface PhaseMemory {
  has(phase: string): boolean;
  add(phase: string): void;
}

export interface AroundOptions {
  readonly signal: AbortSignal;
  readonly note?: (line: string) => void;
  readonly startedAtMs: number;
  readonly memory: PhaseMemory;
}

/** Throws the Fault of a phase that did not end well; then the rest is not done. */
export async function around<T>(
  bench: Workbench,
  operation: 'recover' | 'clone' | 'move',
  stacks: { readonly from: string; readonly to: string },
  options: AroundOptions,
  work: () => Promise<T>,
): Promise<T> {
  const { before, after } = operationPhases(operation);
  await phasesOn(bench, operation, stacks.from, before, 'deployed', options);
  const done = await work();
  await phasesOn(bench, operation, stacks.to, after, 'this', options);
  return done;
}

async function phasesOn(
  bench: Workbench,
  operation: 'recover' | 'clone' | 'move',
  stack: string,
  phases: readonly string[],
  runs: 'deployed' | 'this',
  { signal, note, startedAtMs, memory }: AroundOptions,
): Promise<void> {
  const open = phases.filter((phase) => !memory.has(phase));
  if (open.length === 0) return;
  const applied = bench.house.store.applied(stack);
  if (applied) {
    const leases = holdLeases(bench.house, [stack]);
    try {
      const said = note ? { note } : {};
      for (const { state, fault } of await takeUpHooks(bench, [stack], { signal, ...said }))
        if (!fault && open.includes(state.run.phase)) memory.add(state.run.phase);
      const subject = { ...(await deployedSubject(bench, applied, signal)), runs };
      const completed = { has: (phase: string) => !open.includes(phase) || memory.has(phase), add: memory.add };
      await withHooks(bench, subject, operation, { signal, ...said, attempt: startedAtMs, completed }, async () => {});
    } finally {
      leases.release();
    }
  }
  // Also where there was nothing to do: what is deployed there later is what the operation itself made.
  for (const phase of open) if (!memory.has(phase)) memory.add(phase);
}
