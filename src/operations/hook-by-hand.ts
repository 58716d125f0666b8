// Hook by hand: a person runs one phase of a stack, for a test or after a repair. It changes nothing that a deploy remembers.
import { asFault, Fault } from '../core/fault.ts';
import type { HookPhase } from '../core/hook/phase.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import { neverDeployed, unknownStack } from '../core/spec/unknown-stack.ts';
import type { Applied } from '../core/state/applied.ts';
import type { HookRecord, RunRecord } from '../core/status/event.ts';
import { unfinishedRestores } from './archive/restore.ts';
import type { FleetAt } from './fleet-at.ts';
import { isOnRecord } from './gone.ts';
import { deployedOrLost, type HookSubject } from './hook-subject.ts';
import { hooksDigestOf } from './hooks-of.ts';
import { holdLeases } from './leases.ts';
import { InvalidStack } from './resolve.ts';
import { forget, type PhaseOptions, recordOf, runPhase, takeUpHooks } from './steps/run-hook.ts';
import type { Workbench } from './workbench.ts';

/** As the stack is deployed; one whose first deploy did not end well, as `at` declares it. Null when the phase has no actions. Throws
 * NOT_FOUND for a stack of which nothing was ever begun: there is nothing that its actions could work on. */
export async function runByHand(
  bench: Workbench,
  at: FleetAt,
  name: string,
  phase: HookPhase,
  options: PhaseOptions,
): Promise<HookRecord | null> {
  const { house } = bench;
  const { store, clock } = house;
  const applied = store.applied(name);
  const declared = at.fleet.stacks.get(name);
  if (!applied && !declared) {
    const broken = at.fleet.broken.get(name);
    throw broken ? new InvalidStack(broken) : unknownStack(name, at.fleet, at.revision);
  }
  if (!isOnRecord(store, name)) throw neverDeployed(name);
  const restoring = unfinishedRestores(house).find(({ plan }) => plan.target === name);
  if (restoring) throw new Fault('LOCK_HELD', `the restore ${restoring.id} of ${name} is not finished`);
  const leases = holdLeases(house, [name]);
  try {
    await takeUpHooks(bench, [name], options);
    const subject = applied
      ? await subjectOf(bench, applied, at, options.signal)
      : await declaredSubject(bench, declared!, at, options.signal, true);
    const begun: RunRecord = {
      id: clock.id(),
      stack: name,
      operation: phase === 'test' ? 'test' : 'hook',
      trigger: 'cli',
      revision: subject.at.revision.commit,
      digest: subject.resolved.desired.digest,
      startedAtMs: clock.nowMs(),
      endedAtMs: 0,
      outcome: 'running',
      message: '',
      changes: [],
    };
    store.putRun(begun);
    const end = (outcome: RunRecord['outcome'], message: string, hooks: readonly HookRecord[]): void =>
      store.putRun({ ...begun, endedAtMs: clock.nowMs(), outcome, message: house.redact(message), hooks });
    let result: Awaited<ReturnType<typeof runPhase>>;
    try {
      const which = { operation: 'by-hand', phase, attempt: begun.startedAtMs };
      result = await runPhase(bench, { ...subject, runs: 'this' }, which, options);
    } catch (error) {
      end('failed', asFault(error, 'HOOK_FAILED').message, []);
      throw error;
    }
    if (!result) {
      end('succeeded', 'the phase has no actions', []);
      return null;
    }
    const record = recordOf(result.state);
    const outcome = result.fault ? (result.fault.code === 'CANCELLED' ? 'cancelled' : 'failed') : 'succeeded';
    end(outcome, result.fault?.message ?? '', [record]);
    forget(bench, result);
    if (result.fault) throw result.fault;
    return record;
  } finally {
    leases.release();
  }
}

/** As it was deployed. Where that commit is lost, what is declared now may be the very same. */
async function subjectOf(bench: Workbench, applied: Applied, at: FleetAt, signal: AbortSignal): Promise<HookSubject> {
  const subject = await deployedOrLost(bench, applied, signal);
  if (!('lost' in subject)) return subject;
  const stack = at.fleet.stacks.get(applied.stack);
  if (stack) {
    const declared = await declaredSubject(bench, stack, at, signal, false);
    const isSame =
      declared.resolved.desired.digest === applied.desired.digest && hooksDigestOf(stack) === applied.hooks;
    if (isSame) return declared;
  }
  const cure =
    stack || at.fleet.broken.has(applied.stack)
      ? `\`windlass apply --stack ${applied.stack}\` deploys what is declared now, whose hooks can be run`
      : 'it left the fleet: `windlass prune` takes it away without its hooks';
  throw new Fault('GIT_OBJECT_MISSING', `no hook of ${applied.stack} can be run: ${subject.lost}`, { data: { cure } });
}

async function declaredSubject(
  bench: Workbench,
  stack: LoadedStack,
  at: FleetAt,
  signal: AbortSignal,
  mint: boolean,
): Promise<HookSubject> {
  return { stack, at, resolved: await bench.resolver.resolve(stack, at, signal, { mint }), runs: 'this' };
}
