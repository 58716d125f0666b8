// Scale by hand: another number of containers of a suspended stack's services, as an operator needs it in an emergency. The declared
// count comes back when the stack is resumed. It deploys nothing: a service that differs from git in more than its count is refused.
import type { Cause } from '../core/diff/change.ts';
import { projectContainers } from '../core/diff/diff.ts';
import { asFault, Fault } from '../core/fault.ts';
import { formatChange } from '../core/plan/format.ts';
import { neverDeployed } from '../core/spec/unknown-stack.ts';
import type { Model } from '../core/state/desired.ts';
import type { HookRecord, RunRecord } from '../core/status/event.ts';
import { isOnRecord } from './gone.ts';
import { isOneShot } from './hook-check.ts';
import { holdLeases } from './leases.ts';
import { takeUpHooks, withHooks } from './steps/run-hook.ts';
import { holdOf, type Judged } from './survey.ts';
import type { Workbench } from './workbench.ts';

const COUNTS = new Set<Cause>(['scaled-up', 'scaled-down', 'container-missing']);

export interface Scaled {
  readonly service: string;
  readonly before: number;
  readonly after: number;
}

/** Throws USAGE for what may not be scaled and NOT_FOUND where nothing is deployed, before anything is touched. */
export async function scaleStack(
  bench: Workbench,
  judged: Judged,
  wanted: ReadonlyMap<string, number>,
  signal: AbortSignal,
): Promise<readonly Scaled[]> {
  const { house, look } = bench;
  const { desired } = judged.resolved;
  // A project of that name may be somebody else's.
  if (!isOnRecord(house.store, judged.name)) throw neverDeployed(judged.name);
  const hold = holdOf(judged.stack, house.store.holds(judged.name), house.clock.nowMs());
  if (hold?.kind !== 'suspended')
    throw new Fault(
      'USAGE',
      `stack ${judged.name} follows git, and any other count is healed at once: set \`replicas\` in its stack.yaml (or deploy.replicas in its Compose file) and push, or \`windlass suspend ${judged.name}\` first`,
    );
  for (const [service, count] of wanted) refuseUnfit(judged, service, count);

  const leases = holdLeases(house, [judged.name], undefined, { first: true });
  const { store, clock } = house;
  const revision = judged.at.revision.commit;
  const done: Scaled[] = [];
  const hooks: HookRecord[] = [];
  /** Whether or not that can be written down. */
  let isDone = false;
  const record: RunRecord = {
    id: clock.id(),
    stack: judged.name,
    operation: 'scale',
    trigger: 'cli',
    revision,
    digest: desired.digest,
    startedAtMs: clock.nowMs(),
    endedAtMs: 0,
    outcome: 'running',
    message: '',
    changes: [],
  };
  const recordNow = (end: Partial<RunRecord> = {}): void =>
    store.putRun({ ...record, hooks, changes: done.map(lineOf), ...end });
  try {
    recordNow();
    await takeUpHooks(bench, [judged.name], { signal });
    const ended = (hook: HookRecord): void => {
      hooks.push(hook);
      recordNow();
    };
    const options = { signal, attempt: record.startedAtMs, ended };
    await withHooks(bench, { ...judged, runs: 'this' }, 'scale', options, scaleAll);
    isDone = true;
    recordNow({ endedAtMs: clock.nowMs(), outcome: 'succeeded' });
    store.appendEvent({
      atMs: clock.nowMs(),
      stack: judged.name,
      level: 'info',
      reason: 'ScaledByHand',
      message: done.map(lineOf).join(', '),
      revision,
    });
    return done;

    async function scaleAll(): Promise<void> {
      // After the hooks: they may have left another count than there was.
      const index = await look.fresh([judged.name]);
      for (const [service, after] of wanted) {
        signal.throwIfAborted();
        const containers = projectContainers(index, desired.project)
          .filter((one) => one.service === service && !one.oneOff)
          .sort((a, b) => a.number - b.number);
        for (const extra of containers.slice(after)) await house.runtime.remove(extra.id, signal);
        if (containers.length < after)
          await house.runtime.up({
            project: desired.project,
            projectDir: desired.projectDir,
            model: withCount(await judged.resolved.model(signal), service, after),
            services: [service],
            forceRecreate: false,
            signal,
          });
        done.push({ service, before: containers.length, after });
      }
    }
  } catch (error) {
    if (isDone) throw error;
    const { code, message } = asFault(error, 'ENGINE_REFUSED');
    const outcome = code === 'CANCELLED' || signal.aborted ? 'cancelled' : 'failed';
    recordNow({ endedAtMs: clock.nowMs(), outcome, message: house.redact(message) });
    throw error;
  } finally {
    leases.release();
  }
}

const lineOf = ({ service, before, after }: Scaled): string => `${service}: ${before} → ${after}`;

function refuseUnfit(judged: Judged, service: string, count: number): void {
  const { services } = judged.resolved.desired;
  const spec = services.find((one) => one.name === service);
  if (!spec)
    throw new Fault(
      'USAGE',
      `stack ${judged.name} has no service ${service}; it has ${services.map((one) => one.name).join(', ')}`,
    );
  if (spec.containerName !== null && count > 1)
    throw new Fault('USAGE', `service ${service} has a container_name, so there can be one of it only`);
  if (count > 0 && isOneShot(service, judged.resolved.desired, judged.applied) === true)
    throw new Fault('USAGE', `service ${service} runs to its end once; a scale would run it again`);
  const others = judged.diff.changes.filter((one) => one.service === service && !COUNTS.has(one.cause));
  if (others.length > 0)
    throw new Fault(
      'USAGE',
      `service ${service} differs from git in more than its count, and a scale deploys nothing`,
      {
        data: { stack: judged.name, differs: others.map(formatChange) },
      },
    );
}

/** Both places in which Compose reads a count must agree. The hash of a service does not hold its count. */
function withCount(model: Model, service: string, count: number): Model {
  const project = JSON.parse(model.text) as {
    services: Record<string, { scale?: number; deploy?: Record<string, unknown> }>;
  };
  const spec = project.services[service];
  if (!spec) throw new Error(`the resolved project has no service ${service}`);
  if (spec.deploy) spec.deploy['replicas'] = count;
  else spec.scale = count;
  if (spec.scale !== undefined) spec.scale = count;
  return { ...model, text: JSON.stringify(project) };
}
