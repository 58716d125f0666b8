// Hook subject: for which stack, at which commit, a hook phase runs; and what of it is left when that commit is lost. Reads only.
import { Fault } from '../core/fault.ts';
import { operationPhases } from '../core/hook/situation.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import type { Applied } from '../core/state/applied.ts';
import type { Model } from '../core/state/desired.ts';
import type { FleetAt } from './fleet-at.ts';
import { type HookPreview, previewPhases } from './hooks-of.ts';
import { InvalidStack, type Resolved } from './resolve.ts';
import type { Workbench } from './workbench.ts';

/** What a phase runs for: the stack at a commit. */
export interface HookSubject {
  readonly stack: LoadedStack;
  readonly at: FleetAt;
  readonly resolved: Resolved;
  /** Before a change, what is deployed runs; afterwards, what was deployed. */
  readonly runs: 'deployed' | 'this';
}

/** Throws NOT_FOUND. */
export async function stackAt(
  bench: Workbench,
  revision: string,
  name: string,
): Promise<{ readonly at: FleetAt; readonly stack: LoadedStack }> {
  const at = await bench.reader.read(revision);
  const stack = at.fleet.stacks.get(name);
  if (!stack) throw new Fault('NOT_FOUND', `commit ${revision.slice(0, 12)} holds no readable stack ${name}`);
  return { at, stack };
}

/** The stack as it was last deployed: for what is done to it when the fleet does not ask for it any more. */
export async function deployedSubject(bench: Workbench, applied: Applied, signal: AbortSignal): Promise<HookSubject> {
  const { at, stack } = await stackAt(bench, applied.revision, applied.stack);
  return { stack, at, resolved: await bench.resolver.resolve(stack, at, signal), runs: 'deployed' };
}

const AGAIN_MS = 1_000;
/** Proved: the source answered that it has no such object, or this Windlass itself cannot read any more what the commit says. That a program
 * ended without an answer proves nothing, and of Compose it cannot be told apart from what it says of a file. */
export const isLost = (error: unknown): error is Error =>
  error instanceof InvalidStack
    ? !isOfCompose(error)
    : error instanceof Fault &&
      (error.code === 'NOT_FOUND' || (error.code === 'GIT_OBJECT_MISSING' && 'oid' in error.data));

const isOfCompose = ({ diagnostics }: InvalidStack): boolean =>
  diagnostics.some(({ code }) => code.startsWith('COMPOSE_'));

const isUnreadable = (error: unknown): boolean =>
  error instanceof InvalidStack || (error instanceof Fault && error.code === 'GIT_OBJECT_MISSING') || isLost(error);

/** The same, or why nobody can tell any more what the stack declared. */
export async function deployedOrLost(
  bench: Workbench,
  applied: Applied,
  signal: AbortSignal,
): Promise<HookSubject | { readonly lost: string }> {
  for (let tries = 1; ; tries++)
    try {
      return await deployedSubject(bench, applied, signal);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      if (tries > 1) {
        if (isLost(error)) return { lost: lossOf(bench, applied, error) };
        throw error instanceof InvalidStack ? unresolved(bench, applied, error) : error;
      }
      // Once more before anything is given up for it: most trouble that reads like this is of the moment.
      await bench.house.clock.sleep(AGAIN_MS, signal);
    }
}

const unresolved = ({ house }: Workbench, { stack, revision }: Applied, error: InvalidStack): Fault =>
  new Fault(
    'COMPOSE_FAILED',
    `the hooks of ${stack} cannot be made ready at ${revision.slice(0, 12)}: ${house.redact(error.message)}`,
    {
      data: {
        cure: 'it is tried again by itself; where this Compose refuses that commit for good, deploy one that it takes, and go on from there',
      },
      cause: error,
    },
  );

const lossOf = ({ house }: Workbench, { revision }: Applied, error: Error): string =>
  `the commit ${revision.slice(0, 12)} that it was deployed from ${error instanceof InvalidStack ? 'cannot be read any more' : 'is lost'}: ${house.redact(error.message)}`;

/** What an uninstall would run around itself; `lost`: why that cannot be told, and will not run. Reads declarations only. */
export async function previewUninstall(
  bench: Workbench,
  applied: Applied,
): Promise<{ readonly hooks: readonly HookPreview[]; readonly lost: string | null }> {
  if (!applied.hooks) return { hooks: [], lost: null };
  try {
    const { at, stack } = await stackAt(bench, applied.revision, applied.stack);
    return { hooks: previewPhases(stack, at, operationPhases('uninstall')), lost: null };
  } catch (error) {
    if (isLost(error)) return { hooks: [], lost: lossOf(bench, applied, error) };
    throw error;
  }
}

/** What Compose is given for the stack at a commit. */
export async function modelAt(bench: Workbench, revision: string, name: string, signal: AbortSignal): Promise<Model> {
  const { at, stack } = await stackAt(bench, revision, name);
  return (await bench.resolver.resolve(stack, at, signal)).model(signal);
}
