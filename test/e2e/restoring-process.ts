// A process that restores in place, or recovers to a TARGET of another name, and dies of kill -9 before its AT-th call that changes something:
// STATE URL STACK TARGET ARCHIVE ID [AT]. What was begun under ID is brought to its end instead. The number of calls is printed.
import { planRestore } from '../../src/operations/archive/plan-restore.ts';
import { planRecover, type RecoverPlan, recover } from '../../src/operations/archive/recover.ts';
import { restore, restoreRecord, resumeRestore } from '../../src/operations/archive/restore.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import { openHouse } from '../../src/wire.ts';

const [stateDir = '', url = '', stack = '', target = '', archive = '', id = '', at = 'Infinity'] =
  process.argv.slice(2);
const { signal } = new AbortController();
let calls = 0;

/** Reads change nothing. */
const READS =
  /^(?:find|mark|list|read|inspectVolume|volumeSizeBytes|close|info|observe|events|resolve|logs|value|values|applied|allApplied|holds|leases|renew|attempt|written|conditions|journalOf|changeCounter|runs|scratch)/;
const dying = <T extends object>(inner: T): T =>
  new Proxy(inner, {
    get(target, key) {
      const value = Reflect.get(target, key, target);
      if (typeof value !== 'function' || typeof key !== 'string') return value;
      return (...args: unknown[]): unknown => {
        if (READS.test(key)) return Reflect.apply(value, target, args);
        calls += 1;
        if (calls === Number(at)) process.kill(process.pid, 'SIGKILL');
        return Reflect.apply(value, target, args);
      };
    },
  });

const house = await openHouse({
  stateDir,
  source: { name: 'main', url, ref: 'main' },
  settleMs: 100,
  settleSamples: 2,
});
const { store, runtime, payloads, vault, files } = house;
const bench = new Workbench({
  ...house,
  store: dying(store),
  runtime: dying(runtime),
  files: dying(files),
  payloads: payloads && dying(payloads),
  vault: vault && dying(vault),
});
const backup = (): Promise<string> => Promise.reject(new Error('no safety archive is asked for'));
/** A request keeps its plan as it claims; this process has no request. */
const PLAN = `plan-of-test/${id}`;
try {
  if (target !== stack) {
    let plan = house.store.value(PLAN) as RecoverPlan | undefined;
    if (plan === undefined) {
      const wanted = { stacks: [stack], archive, rename: { [stack]: target } };
      const answer = await planRecover(bench, wanted, signal);
      if (answer.kind === 'wait') throw new Error(answer.why);
      plan = answer.plan;
      house.store.putValue(PLAN, plan);
    }
    calls = 0;
    await recover(bench, plan, { signal, backup, id });
  } else if (restoreRecord(house, id)) await resumeRestore(bench, id, { signal, backup });
  else {
    const answer = await planRestore(bench, { stack, archive, safety: 'none' }, signal);
    if (answer.kind === 'wait') throw new Error(answer.why);
    calls = 0;
    await restore(bench, answer.plan, { signal, backup, id });
  }
} finally {
  console.log(calls);
  await house.close();
}
