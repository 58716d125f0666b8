// Drill: the newest archive of a stack, and those of its providers, restored under scratch names by the code that restores everything, apart
// from all that lives; then the app's `test` hooks say whether it is any good, and all of it is taken away. It reads nothing but the archives.
import { asFault, Fault } from '../../core/fault.ts';
import type { HookRecord, RunRecord } from '../../core/status/event.ts';
import type { Store } from '../../ports/store.ts';
import { deployedSubject } from '../hook-subject.ts';
import type { House } from '../house.ts';
import { type HeldLeases, holdLeases } from '../leases.ts';
import { forget, recordOf, runPhase } from '../steps/run-hook.ts';
import { Workbench } from '../workbench.ts';
import { forgetMade } from './archive-source.ts';
import { takenBy } from './clone.ts';
import {
  type DrillingRecord,
  drilledKey,
  drillingRecords,
  drillKey,
  type LastDrill,
  lastDrillKey,
  lastVerifiedKey,
} from './drill-record.ts';
import { drillVault } from './drill-vault.ts';
import { bootName } from './first-boot.ts';
import { putGeneration } from './generations.ts';
import { liveFleet, planRestore, readArchive, toolsOf } from './plan-restore.ts';
import { forgetProof } from './proof.ts';
import { DRILL_IDS, recordKey, restore, restorePin } from './restore.ts';

/** One at a time, whoever asks: there is one lease for all of them. */
const LEASE = '@drill';
const SUFFIX = '-drill';
export const scratchName = (stack: string): string => `${stack.slice(0, 63 - SUFFIX.length)}${SUFFIX}`;
const pinKey = (archive: string): string => `archive-pin/${archive}`;

export interface DrillOptions {
  readonly signal: AbortSignal;
  readonly note?: (line: string) => void;
  readonly trigger?: string;
}

/** Throws ARCHIVE_MISSING when there is nothing to rehearse with, LOCK_HELD while another one runs, and what made it fail; whatever it made is
 * gone then, or listed and tried again. */
export async function drill(bench: Workbench, stack: string, options: DrillOptions): Promise<LastDrill> {
  const { house } = bench;
  const { store, clock, redact } = house;
  toolsOf(house);
  const leases = holdLeases(house, [LEASE], undefined, { alone: true });
  try {
    await takeAwayAll(bench, options.signal);
    const begun: RunRecord = {
      id: clock.id(),
      stack,
      operation: 'drill',
      trigger: options.trigger ?? 'cli',
      revision: store.applied(stack)?.revision ?? '',
      digest: '',
      startedAtMs: clock.nowMs(),
      endedAtMs: 0,
      outcome: 'running',
      message: '',
      changes: [],
    };
    const hooks: HookRecord[] = [];
    const ended = (outcome: RunRecord['outcome'], message: string): void =>
      store.putRun({ ...begun, hooks, endedAtMs: clock.nowMs(), outcome, message });
    store.putRun(begun);
    let archive = '';
    try {
      const rehearsed = await rehearse(bench, stack, begun.id, options, (id) => (archive = id), hooks);
      return end(house, begun, { archive, outcome: 'verified', code: '', message: rehearsed }, ended);
    } catch (error) {
      const fault = asFault(error, options.signal.aborted ? 'CANCELLED' : 'RESTORE_FAILED');
      if (options.signal.aborted || fault.code === 'CANCELLED') ended('cancelled', redact(fault.message));
      else end(house, begun, { archive, outcome: 'failed', code: fault.code, message: redact(fault.message) }, ended);
      throw fault;
    } finally {
      // Not by the signal: a drill that is called off leaves nothing either. What cannot go now stays on record.
      await takeAwayAll(bench, new AbortController().signal).catch((error: unknown) =>
        options.note?.(`not all of the drill is taken away yet: ${redact(asFault(error, 'ENGINE_REFUSED').message)}`),
      );
    }
  } finally {
    leases.release();
  }
}

function end(
  { store, clock }: House,
  begun: RunRecord,
  how: Pick<LastDrill, 'archive' | 'outcome' | 'code' | 'message'>,
  ended: (outcome: RunRecord['outcome'], message: string) => void,
): LastDrill {
  const { stack, startedAtMs } = begun;
  const last: LastDrill = { ...how, atMs: clock.nowMs(), durationMs: clock.nowMs() - startedAtMs };
  const isGood = how.outcome === 'verified';
  store.putValue(lastDrillKey(stack), last);
  if (isGood) {
    store.putValue(drilledKey(how.archive), last.atMs);
    store.putValue(lastVerifiedKey(stack), { archive: how.archive, atMs: last.atMs });
  }
  // An archive that turned out not to be whole was never what it was taken for.
  else if (/^(?:ARCHIVE|PAYLOAD)_(?:DAMAGED|MISSING|CORRUPT|INVALID|HOSTILE)$/.test(how.code))
    forgetProof(store, how.archive);
  const of = how.archive === '' ? '' : `archive ${how.archive.slice(0, 12)}: `;
  store.appendEvent({
    atMs: last.atMs,
    stack,
    level: isGood ? 'info' : 'error',
    reason: isGood ? 'Drilled' : 'DrillFailed',
    message: `${of}${how.message}`,
    revision: begun.revision,
  });
  ended(isGood ? 'succeeded' : 'failed', `${of}${how.message}`);
  return last;
}

/** What was found, in words. */
async function rehearse(
  bench: Workbench,
  stack: string,
  id: string,
  { signal, note = () => {} }: DrillOptions,
  found: (archive: string) => void,
  hooks: HookRecord[],
): Promise<string> {
  const { house } = bench;
  const { store, clock } = house;
  const order = await castOf(house, stack, found);
  const cast = order.map((one) => ({ ...one, scratch: scratchName(one.stack) }));
  await refuseTaken(bench, cast);
  const names = cast.flatMap(({ scratch }) => [bootName(scratch), scratch]);
  const record: DrillingRecord = {
    id,
    stack,
    startedAtMs: clock.nowMs(),
    archives: cast.map((one) => one.archive),
    names,
    pinsBefore: Object.fromEntries(
      cast.map(({ archive }) => [archive, (store.value(pinKey(archive)) as string | undefined) ?? null]),
    ),
  };
  // Before the first thing is made: whoever comes after a crash knows what to take away.
  store.putValue(drillKey(id), record);
  const inside = enclosedBench(bench);
  for (const [index, { stack: of, archive, scratch, providers }] of cast.entries()) {
    signal.throwIfAborted();
    note(`restoring ${of} as ${scratch} from ${archive.slice(0, 12)}`);
    const planned = await planRestore(
      inside,
      {
        stack: of,
        target: scratch,
        archive,
        safety: 'none',
        integrate: Object.fromEntries(Object.entries(providers).map(([plug, name]) => [plug, scratchName(name)])),
        enclosed: Object.values(providers).map(scratchName),
      },
      signal,
    );
    if (planned.kind === 'wait') throw new Fault('RESTORE_FAILED', planned.why);
    await restore(inside, planned.plan, {
      signal,
      id: `${DRILL_IDS}${id}-${index}`,
      note: (line) => note(`${scratch}: ${line}`),
      backup: () => Promise.reject(new Error('there is nothing live in a drill')),
    });
  }
  const scratch = scratchName(stack);
  const applied = store.applied(scratch);
  if (!applied) throw new Error(`${scratch} is restored and not on record`);
  note('running the test hooks');
  const subject = { ...(await deployedSubject(inside, applied, signal)), runs: 'this' as const };
  const which = { operation: 'drill', phase: 'test' as const, attempt: clock.nowMs() };
  const result = await runPhase(inside, subject, which, { signal, note });
  if (!result) return 'it was restored and became healthy; there are no `test` hooks';
  hooks.push(recordOf(result.state));
  forget(inside, result);
  if (result.fault) throw result.fault;
  return 'it was restored, and its `test` hooks are content';
}

interface Cast {
  readonly stack: string;
  readonly archive: string;
  /** Plug → stack. */
  readonly providers: Readonly<Record<string, string>>;
}

/** Providers first, each by its own newest archive: a live one is never reached. */
async function castOf(house: House, stack: string, found: (archive: string) => void): Promise<readonly Cast[]> {
  const { archives } = toolsOf(house);
  // Newest first.
  const listed = await archives.store.list();
  const cast: Cast[] = [];
  const seen = new Set<string>();
  const add = async (name: string, plug: string | null): Promise<void> => {
    if (seen.has(name)) return;
    seen.add(name);
    const newest = listed.find((one) => one.kind === 'archive' && one.stack === name && one.purpose === 'backup');
    if (!newest)
      throw new Fault(
        'ARCHIVE_MISSING',
        plug === null
          ? `there is no archive of ${name} to rehearse with: back it up first`
          : `the plug \`${plug}\` needs the stack ${name}, of which there is no archive; a drill never reaches a live one`,
      );
    if (plug === null) found(newest.id);
    const { manifest } = await readArchive(archives, newest.id);
    const providers = Object.fromEntries(Object.entries(manifest.integrate).map(([key, edge]) => [key, edge.provider]));
    for (const [key, provider] of Object.entries(providers)) await add(provider, key);
    cast.push({ stack: name, archive: newest.id, providers });
  };
  await add(stack, null);
  return cast;
}

/** Under a name that anything else bears nothing is made, and so nothing is taken away. */
async function refuseTaken(bench: Workbench, cast: readonly { readonly scratch: string }[]): Promise<void> {
  const live = await liveFleet(bench);
  const names = new Set<string>();
  for (const { scratch } of cast) {
    if (names.has(scratch)) throw new Fault('USAGE', `two stacks of the drill would be called ${scratch}`);
    names.add(scratch);
    for (const name of [scratch, bootName(scratch)]) {
      const isDeclared = live?.fleet.stacks.has(name) || live?.fleet.broken.has(name);
      const taken = isDeclared ? 'a stack of the fleet' : await takenBy(bench, name);
      if (taken !== null) throw new Fault('USAGE', `a drill needs the name ${name}, and it is taken: ${taken}`);
    }
  }
}

/** Secrets in memory alone, no requests to anybody, no archives of what is only rehearsed. */
function enclosedBench({ house }: Workbench): Workbench {
  const inside = new Workbench({
    ...house,
    vault: drillVault(house.clock, house.hide),
    net: {
      http: ({ url }) =>
        Promise.reject(
          new Fault(
            'HOOK_FAILED',
            `${url} is not asked: a drill reaches nothing outside of itself; use a job in a container`,
          ),
        ),
      lookup: async () => [],
    },
  });
  inside.makeArchive = async () => {};
  return inside;
}

/** What hooks of a cut drill left on record is nobody's to finish. At once, before anything is taken up again; a drill that another process
 * is at stays as it is. */
export function disownDrills(house: House): void {
  const { store } = house;
  const leases = drillingRecords(store).length === 0 ? null : leaseUnlessHeld(house);
  if (leases === null) return;
  for (const { names } of drillingRecords(store)) for (const name of names) store.forget(name);
  leases.release();
}

function leaseUnlessHeld(house: House): HeldLeases | null {
  try {
    return holdLeases(house, [LEASE], undefined, { alone: true });
  } catch (error) {
    if (error instanceof Fault && error.code === 'LOCK_HELD') return null;
    throw error;
  }
}

/** Leftovers of drills whose process ended; nothing while one runs. Which were taken away. */
export async function sweepDrills(bench: Workbench, signal: AbortSignal): Promise<readonly string[]> {
  if (drillingRecords(bench.house.store).length === 0) return [];
  const leases = leaseUnlessHeld(bench.house);
  if (leases === null) return [];
  try {
    return await takeAwayAll(bench, signal);
  } finally {
    leases.release();
  }
}

/** With the lease held. Idempotent; the record goes last. */
async function takeAwayAll(bench: Workbench, signal: AbortSignal): Promise<readonly string[]> {
  const { store } = bench.house;
  const gone: string[] = [];
  for (const record of drillingRecords(store)) {
    // Consumers before their providers, and all containers before the first volume: a first boot mounts those of another project.
    const names = [...record.names].reverse();
    for (const name of names) {
      store.forget(name);
      await bench.house.runtime.down(name, signal);
    }
    for (const name of names) await takeAway(bench, name, signal);
    forgetRecords(store, record);
    store.deleteValue(drillKey(record.id));
    gone.push(record.stack);
  }
  return gone;
}

async function takeAway(bench: Workbench, name: string, signal: AbortSignal): Promise<void> {
  const { house } = bench;
  const { store, files, settings } = house;
  const { payloads } = toolsOf(house);
  const { volumes } = (await bench.look.fresh('known')).observed;
  for (const volume of volumes)
    if (volume.project === name) {
      await payloads.removeVolume(volume.name, signal);
      store.deleteValue(`owned/${volume.name}`);
    }
  await files.removeFolder(`${settings.stateDir}/stacks/${name}`);
  forgetMade(store, name, new Set());
  putGeneration(store, name, null);
  for (const about of ['previous', 'refused', 'installing', 'heals', 'secrets']) store.deleteValue(`${about}/${name}`);
  // Deploys of it may have ended since.
  store.forget(name);
}

function forgetRecords(store: Store, { id, names, pinsBefore }: DrillingRecord): void {
  for (const key of store.values(`${recordKey(`${DRILL_IDS}${id}`)}-`).keys()) store.deleteValue(key);
  for (const [archive, why] of Object.entries(pinsBefore)) {
    // Whoever came to need the archive meanwhile goes on needing it.
    if (!names.some((name) => store.value(pinKey(archive)) === restorePin(name))) continue;
    if (why === null) store.deleteValue(pinKey(archive));
    else store.putValue(pinKey(archive), why);
  }
}
