// First boot: for data that is rebuilt from dumps. The archive's stack runs once under a name of its own, on the staged volumes, publishing
// nothing and on networks of its own; its restore jobs replay the dumps, then it is stopped cleanly and taken away. The live stack runs on.
import { Fault } from '../../core/fault.ts';
import { parseDocument, stringifyDocument } from '../../core/spec/document.ts';
import type { Attempt } from '../../core/state/applied.ts';
import type { Desired } from '../../core/state/desired.ts';
import { deploy } from '../deploy.ts';
import { treeDirOf } from '../resolve.ts';
import { forget, runPhase } from '../steps/run-hook.ts';
import type { Judged } from '../survey.ts';
import type { Workbench } from '../workbench.ts';
import { commitIdOf, type MadeCommit, putMade, textFile } from './archive-source.ts';
import { putSecretsOf } from './boot-secrets.ts';
import { containersOf, putGeneration } from './generations.ts';
import { judge, type RestorePlan, toolsOf } from './plan-restore.ts';

export interface BootOptions {
  readonly signal: AbortSignal;
  readonly note: (line: string) => void;
}

const SUFFIX = '-boot1';
export const bootName = (target: string): string => `${target.slice(0, 63 - SUFFIX.length)}${SUFFIX}`;

const hooksOf = ({ restoreJobs }: RestorePlan) => ({ post_restore: restoreJobs.map((job) => ({ job })) });

/** The same stack under the name of the boot, with no other hooks than its restore jobs. */
function bootCommit(plan: RestorePlan): MadeCommit {
  const name = bootName(plan.target);
  const files = plan.made.files.map((file) => {
    if (file.text === undefined || file.path === 'fleet.yaml') return file;
    const value = parseDocument(file.path, file.text).parsed?.value as Record<string, unknown> | undefined;
    if (value?.['kind'] !== 'Stack' || value['name'] !== plan.target) return file;
    const { hooks: _hooks, ports: _ports, ...rest } = value;
    const hooks = plan.restoreJobs.length > 0 ? { hooks: hooksOf(plan) } : {};
    return textFile(file.path, stringifyDocument({ ...rest, ...hooks, name, prune: false }));
  });
  const { ports: _ports, ...made } = plan.made;
  return { ...made, stack: name, files, isolated: true };
}

/** Throws what went wrong; what was made is taken away by `dropFirstBoot`. */
export async function firstBoot(bench: Workbench, plan: RestorePlan, { signal, note }: BootOptions): Promise<void> {
  const { house } = bench;
  const { store, settings, clock } = house;
  const name = bootName(plan.target);
  const tree = treeDirOf(settings.stateDir, plan.target);
  putGeneration(store, name, {
    volumes: plan.generation.volumes,
    folders: Object.fromEntries(plan.folders.map(({ path, to }) => [path, `${tree}/${to}`])),
  });
  putSecretsOf(store, name, plan.target);
  const commit = putMade(store, bootCommit(plan));
  note(`first boot as ${name}`);
  const judged = await deployAs(bench, await judge(bench, name, commit), 'heal', signal);
  if (plan.restoreJobs.length > 0) {
    // An app's own hooks of this phase belong to the restored stack, not to this one.
    const stack = { ...judged.stack, hooks: hooksOf(plan) as unknown as Judged['stack']['hooks'] };
    note(`running ${plan.restoreJobs.join(', ')}`);
    const result = await runPhase(
      bench,
      { ...judged, stack, runs: 'this' },
      { operation: 'restore', phase: 'post_restore', attempt: clock.nowMs() },
      { signal, note },
    );
    if (result) forget(bench, result);
    if (result?.fault) throw result.fault;
  }
  note(`stopping ${name}`);
  await stopCleanly(bench, judged.resolved.desired, signal);
}

/** Takes away whatever there is of a first boot, its own volumes too; the staged ones stay. Idempotent. */
export async function dropFirstBoot(bench: Workbench, plan: RestorePlan, signal: AbortSignal): Promise<void> {
  const { house } = bench;
  const { runtime, store, files, settings } = house;
  const { payloads } = toolsOf(house);
  const name = bootName(plan.target);
  // Nothing was ever made under it.
  if (store.value(`generation/${name}`) === undefined) return;
  await runtime.down(name, signal);
  const { volumes } = (await bench.look.fresh('known')).observed;
  for (const volume of volumes) if (volume.project === name) await payloads.removeVolume(volume.name, signal);
  await files.removeFolder(`${settings.stateDir}/stacks/${name}`);
  store.forget(name);
  store.deleteValue(`restored/${commitIdOf(bootCommit(plan))}`);
  putSecretsOf(store, name, null);
  putGeneration(store, name, null);
}

/** Those that others wait for go last, each within its own grace period. */
async function stopCleanly(bench: Workbench, desired: Desired, signal: AbortSignal): Promise<void> {
  const left = new Map(desired.services.map((service) => [service.name, service]));
  const containers = await containersOf(bench, desired.project);
  while (left.size > 0) {
    const needed = new Set([...left.values()].flatMap((one) => one.dependsOn.map(({ service }) => service)));
    const free = [...left.keys()].filter((service) => !needed.has(service));
    for (const service of free.length > 0 ? free : [...left.keys()]) {
      left.delete(service);
      for (const one of containers)
        if (one.service === service && one.state === 'running') await bench.house.runtime.stop(one.id, signal);
    }
  }
}

/** One deploy of one stack whose hooks are those of `operation`; a try at the same state that was begun so goes on. Throws its Fault. */
export async function deployAs(
  bench: Workbench,
  judged: Judged,
  operation: 'restore' | 'heal',
  signal: AbortSignal,
): Promise<Judged> {
  const { store, clock } = bench.house;
  const { digest } = judged.resolved.desired;
  const before = store.attempt(judged.name);
  const attempt: Attempt =
    before?.digest === digest && before.operation === operation
      ? before
      : {
          stack: judged.name,
          digest,
          revision: judged.at.revision.commit,
          count: 0,
          startedAtMs: clock.nowMs(),
          operation,
          completedPhases: [],
          converged: false,
          lastFault: null,
        };
  store.putAttempt(attempt);
  const outcome = await deploy({
    bench,
    judged: [{ ...judged, attempt }],
    layers: [[judged.name]],
    trigger: 'restore',
    operation: 'restore',
    signal,
  });
  const fault = outcome.failures.get(judged.name);
  if (fault) throw fault;
  if (store.attempt(judged.name) !== null)
    throw new Fault('CANCELLED', `the deploy of ${judged.name} was not done to its end`);
  return bench.surveyor.again(judged, await bench.look.fresh([judged.resolved.desired.project]));
}
