// Restore: deploy of what an archive holds, on data that was put back beside the live one. Every step is on record before it changes
// anything and is found done when it is taken up again, so that it ends in the old data whole or the new data whole, whenever it is cut.
import { asFault, Fault } from '../../core/fault.ts';
import type { Generation } from '../../core/render/variant.ts';
import type { Hold } from '../../core/state/applied.ts';
import type { Store } from '../../ports/store.ts';
import { restoredHold } from '../by-request.ts';
import { forgetInstalling } from '../gone.ts';
import type { House } from '../house.ts';
import { type HeldLeases, holdLeases } from '../leases.ts';
import { treeDirOf } from '../resolve.ts';
import { settleStack } from '../settle-stack.ts';
import { takeUpHooks } from '../steps/run-hook.ts';
import type { Judged } from '../survey.ts';
import { needsWork, type Workbench } from '../workbench.ts';
import { commitIdOf, forgetMade, putMade, releaseMadePins } from './archive-source.ts';
import { bootName, deployAs, dropFirstBoot, firstBoot } from './first-boot.ts';
import { GRACE_MS, generationOf, keep, mergeGenerations, putGeneration, safetyPin } from './generations.ts';
import { judge, liveFleet, type RestorePlan, readArchive, toolsOf } from './plan-restore.ts';
import { wake } from './quiesce.ts';
import { formatReport, reportRestore } from './restore-report.ts';
import { copiesTold, openVaultValues, type VaultBefore, vaultWrites } from './vault-values.ts';

export interface RestoreOptions {
  readonly signal: AbortSignal;
  readonly note?: (line: string) => void;
  /** Archives the live data; gives the id of the archive. The lease of the stack is held. */
  readonly backup: (stack: string, purpose: 'safety') => Promise<string>;
  /** Names the restore for `resumeRestore`; default: a new one. */
  readonly id?: string;
}

export type RestorePhase =
  | 'begun'
  | 'archived'
  | 'vault'
  | 'staged'
  | 'booted'
  | 'switched'
  | 'deployed'
  | 'done'
  /** The live data is being brought back. */
  | 'back'
  | 'failed';

/** On disk as `restore/<id>`. Secrets only sealed. */
export interface RestoreRecord {
  readonly id: string;
  readonly plan: RestorePlan;
  readonly phase: RestorePhase;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly before: {
    readonly generation: Generation | null;
    readonly hold: Hold | null;
    /** Volumes of the target's project in the engine. */
    readonly volumes: readonly string[];
  };
  readonly safetyArchive: string | null;
  /** What the vault held under the keys that are put back, sealed to this controller. */
  readonly vaultBefore: string | null;
  /** Volumes and folders that are written and verified. */
  readonly staged: readonly string[];
  readonly isBooting: boolean;
  readonly fault: { readonly code: string; readonly message: string } | null;
  /** What is the case of each thing, for people. */
  readonly items: Readonly<Record<string, string>>;
}

export const recordKey = (id: string): string => `restore/${id}`;
const RESTORE_LABEL = 'dev.windlass.restore';
const pinKey = (archive: string): string => `archive-pin/${archive}`;
/** Why an archive is kept that a stack runs from. */
export const restorePin = (target: string): string => `the stack ${target} is restored from it`;

export const restoreRecord = (house: Pick<House, 'store'>, id: string): RestoreRecord | null =>
  (house.store.value(recordKey(id)) as RestoreRecord | undefined) ?? null;

/** Ids of restores that are rehearsals: one that was cut is taken away, never brought to its end. No request can bear such a name. */
export const DRILL_IDS = 'drill/';

/** Those that a dead controller left under way, oldest first. */
export const unfinishedRestores = ({ store }: Pick<House, 'store'>): readonly RestoreRecord[] =>
  ([...store.values('restore/').values()] as RestoreRecord[])
    .filter((one) => one.endedAtMs === 0 && !one.id.startsWith(DRILL_IDS))
    .sort((a, b) => a.startedAtMs - b.startedAtMs);

/** Restores that this very process is at: leases know processes only. */
const atWork = new WeakMap<Store, Set<string>>();

function runningHere(store: Store): Set<string> {
  const known = atWork.get(store) ?? new Set<string>();
  atWork.set(store, known);
  return known;
}

export const isRunningHere = ({ store }: Pick<House, 'store'>, id: string): boolean => runningHere(store).has(id);

/** Throws PLAN_STALE when the live stack is another one than the plan saw, LOCK_HELD, or what made it fail; the live data is back then. */
export async function restore(bench: Workbench, plan: RestorePlan, options: RestoreOptions): Promise<void> {
  const { store, clock } = bench.house;
  if (commitIdOf(plan.made) !== plan.commit) throw new Fault('PLAN_STALE', 'the plan is not what it was made as');
  if ((store.applied(plan.target)?.desired.digest ?? null) !== plan.live)
    throw new Fault('PLAN_STALE', `the stack ${plan.target} was changed since the plan was made`);
  const other = unfinishedRestores(bench.house).find((one) => one.plan.target === plan.target);
  if (other) throw new Fault('LOCK_HELD', `the restore ${other.id} of ${plan.target} is not finished`);
  const id = options.id ?? clock.id();
  if (restoreRecord(bench.house, id)) throw new Fault('USAGE', `there was a restore ${id} already`);
  const volumes = await volumesOf(bench, plan.target);
  // No deploy of this process may be at it: what the restore deploys itself comes inside of this lease.
  const leases = holdLeases(bench.house, leased(plan), () => {}, { first: true });
  let record: RestoreRecord;
  try {
    record = begun(bench.house, id, plan, volumes);
    store.putValue(recordKey(id), record);
  } catch (error) {
    leases.release();
    throw error;
  }
  await new Restoring(bench, record, leases, options).run();
}

const begun = ({ store, clock }: House, id: string, plan: RestorePlan, volumes: readonly string[]): RestoreRecord => ({
  id,
  plan,
  phase: 'begun',
  startedAtMs: clock.nowMs(),
  endedAtMs: 0,
  before: {
    generation: generationOf(store, plan.target),
    hold: store.holds(plan.target).find((one) => one.kind === 'held' && one.service === '') ?? null,
    volumes,
  },
  safetyArchive: null,
  vaultBefore: null,
  staged: [],
  isBooting: false,
  fault: null,
  items: {},
});

/** Brings one that a dead controller left to its end: the new data whole, or the old. Nothing to do for one that ended. */
export async function resumeRestore(bench: Workbench, id: string, options: Omit<RestoreOptions, 'id'>): Promise<void> {
  const record = restoreRecord(bench.house, id);
  if (!record) throw new Fault('NOT_FOUND', `there is no restore ${id}`);
  if (record.endedAtMs > 0) return;
  if (isRunningHere(bench.house, id)) throw new Fault('LOCK_HELD', `the restore ${id} is under way in this process`);
  // Not beside whoever brings its hooks and services to their end at the start of a controller.
  const leases = holdLeases(bench.house, leased(record.plan), () => {}, { first: true });
  await new Restoring(bench, record, leases, options).run();
}

async function volumesOf(bench: Workbench, project: string): Promise<readonly string[]> {
  const { volumes } = (await bench.look.fresh('known')).observed;
  return volumes.filter((one) => one.project === project).map((one) => one.name);
}

const leased = (plan: RestorePlan): readonly string[] => [plan.target, bootName(plan.target)];

class Restoring {
  readonly #bench: Workbench;
  readonly #house: House;
  readonly #options: RestoreOptions;
  readonly #plan: RestorePlan;
  readonly #leases: HeldLeases;
  #record: RestoreRecord;

  constructor(bench: Workbench, record: RestoreRecord, leases: HeldLeases, options: RestoreOptions) {
    this.#bench = bench;
    this.#house = bench.house;
    this.#options = options;
    this.#record = record;
    this.#plan = record.plan;
    this.#leases = leases;
  }

  async run(): Promise<void> {
    const running = runningHere(this.#house.store);
    running.add(this.#record.id);
    try {
      if (this.#record.phase !== 'back') {
        try {
          await this.#forward();
          return;
        } catch (error) {
          const fault = asFault(error, this.#options.signal.aborted ? 'CANCELLED' : 'RESTORE_FAILED');
          // The new data is in place and runs: what is left is only to be written down.
          if (this.#record.phase === 'deployed') throw fault;
          this.#save({
            phase: 'back',
            fault: { code: fault.code, message: this.#house.redact(fault.message) },
          });
          await this.#back();
          throw fault;
        }
      }
      await this.#back();
      const { code, message } = this.#record.fault ?? { code: 'RESTORE_FAILED', message: 'it failed' };
      throw new Fault(code as Fault['code'], message);
    } finally {
      running.delete(this.#record.id);
      this.#leases.release();
    }
  }

  #save(change: Partial<RestoreRecord>): void {
    this.#record = { ...this.#record, ...change };
    this.#house.store.putValue(recordKey(this.#record.id), this.#record);
  }

  #say(item: string, state: string, change: Partial<RestoreRecord> = {}): void {
    this.#save({ ...change, items: { ...this.#record.items, [item]: state } });
    this.#options.note?.(`${item}: ${state}`);
  }

  get #phase(): RestorePhase {
    return this.#record.phase;
  }

  async #forward(): Promise<void> {
    const { store, clock } = this.#house;
    const { signal, note = () => {} } = this.#options;
    const { target, commit } = this.#plan;
    this.#prepare();
    if (this.#phase === 'begun') {
      await takeUpHooks(this.#bench, [target], { signal, note });
      await wake(this.#bench, target, signal);
      const safetyArchive = this.#plan.safety ? await this.#options.backup(target, 'safety') : null;
      if (safetyArchive === null) this.#save({ phase: 'archived' });
      else {
        store.putValue(pinKey(safetyArchive), safetyPin(this.#record.id));
        this.#say('live data', `archived as ${safetyArchive}`, { phase: 'archived', safetyArchive });
      }
    }
    signal.throwIfAborted();
    if (this.#phase === 'archived') await this.#fillVault();
    signal.throwIfAborted();
    if (this.#phase === 'vault') {
      await this.#stage();
      this.#save({ phase: 'staged' });
    }
    if (this.#phase === 'staged') await this.#firstBoot();
    signal.throwIfAborted();
    if (this.#phase === 'booted') {
      putGeneration(store, target, mergeGenerations(this.#record.before.generation, this.#plan.generation));
      this.#say('reference', 'switched to the restored data', { phase: 'switched' });
    }
    if (this.#phase === 'switched') {
      const judged = await judge(this.#bench, target, commit);
      const applied = store.applied(target);
      const isDeployed =
        applied?.revision === commit &&
        applied.desired.digest === judged.resolved.desired.digest &&
        applied.atMs >= this.#record.startedAtMs &&
        store.attempt(target) === null;
      const after = isDeployed ? judged : await deployAs(this.#bench, judged, 'restore', signal);
      settleStack(this.#house, target, { judged: after, newest: commit, outcome: { kind: 'deployed' }, failures: 0 });
      this.#say('beside its archive', await this.#reported(after));
      this.#say(target, 'deployed and healthy', { phase: 'deployed' });
    }
    await this.#finish(clock.nowMs());
  }

  /** A report that cannot be made is said, and stops nothing. */
  async #reported(judged: Judged): Promise<string> {
    const { archives } = toolsOf(this.#house);
    const { signal } = this.#options;
    try {
      const { manifest } = await readArchive(archives, this.#plan.archive);
      return this.#house.redact(formatReport(await reportRestore(this.#bench, this.#plan, manifest, judged, signal)));
    } catch (error) {
      signal.throwIfAborted();
      return `not compared: ${this.#house.redact(asFault(error, 'ENGINE_REFUSED').message)}`;
    }
  }

  #prepare(): void {
    const { store, clock } = this.#house;
    const { plan, id } = this.#record;
    store.putHold(plan.target, {
      kind: 'held',
      reason: `the restore ${id} is under way`,
      sinceMs: clock.nowMs(),
      untilMs: 0,
      service: '',
    });
    store.putValue(pinKey(plan.archive), restorePin(plan.target));
    putMade(store, plan.made);
  }

  /** Before the render: whatever is to be minted is found. */
  async #fillVault(): Promise<void> {
    const { vault, envelope, archives } = this.#house;
    const { stack, target } = this.#plan;
    if (this.#plan.vaultKeys.length > 0) {
      if (!vault || !envelope || !archives) throw new Fault('VAULT_UNREACHABLE', 'there is no vault');
      const { manifest } = await readArchive(archives, this.#plan.archive);
      const content = {
        values: await openVaultValues(this.#house, manifest, this.#options.signal),
        stack,
        target,
        group: manifest.group,
      };
      const sealed = this.#record.vaultBefore;
      // Decided by what was there before the first write, however often it is taken up.
      const known = sealed === null ? null : (JSON.parse(await envelope.open(sealed)) as readonly VaultBefore[]);
      const { writes, before } = await vaultWrites(content, async (key, scope) => {
        const one = known?.find((held) => held.key === key && held.scope === scope);
        if (one && (one.value !== null || scope === `stack/${target}`)) return one.value;
        const now = await vault.find(key, [scope]);
        // Where a group or the fleet had none there is what was written here, or what a person set since.
        return one && now === one.written ? null : now;
      });
      this.#save({ vaultBefore: await envelope.seal([await envelope.recipient()], JSON.stringify(before)) });
      for (const { scope, key, value, isOthers } of writes) {
        const now = await vault.find(key, [scope]);
        if (isOthers ? now === null : now !== value) await vault.put(key, scope, value);
      }
      for (const { item, state } of copiesTold(writes)) this.#say(item, state);
    }
    this.#say('secrets', `${this.#plan.vaultKeys.length} are in the vault as the archive holds them`, {
      phase: 'vault',
    });
  }

  async #stage(): Promise<void> {
    const { files, settings } = this.#house;
    const { archives, payloads } = toolsOf(this.#house);
    const { signal } = this.#options;
    const { target } = this.#plan;
    const { manifest } = await readArchive(archives, this.#plan.archive);
    const recordOf = (kind: string, name: string) => {
      const found = manifest.payloads.find((one) => one.kind === kind && one.name === name);
      if (!found) throw new Error(`the plan names the payload ${name}, which the archive does not hold`);
      return found;
    };
    const isStaged = (name: string): boolean => this.#record.staged.includes(name);
    const done = (name: string, kind: string): void =>
      this.#say(`${kind} ${name}`, 'written and verified', { staged: [...this.#record.staged, name] });
    for (const one of this.#plan.volumes) {
      if (isStaged(one.name)) continue;
      await this.#dropVolume(one.name, signal);
      const volume = {
        kind: 'volume' as const,
        name: one.name,
        driverOpts: one.driverOpts,
        labels: {
          ...one.labels,
          'com.docker.compose.project': target,
          'com.docker.compose.volume': one.key,
          'com.docker.compose.config-hash': one.hash,
          [RESTORE_LABEL]: this.#record.id,
        },
      };
      if (one.payload === null) await payloads.createVolume(volume, signal);
      else {
        const expected = recordOf('volume', one.payload);
        const open = () => archives.store.readBlob(expected.blob.digest, signal);
        const { notRestored } = await payloads.write(open, volume, { signal, expected });
        for (const lost of notRestored) this.#options.note?.(`volume ${one.name}: not restored: ${lost}`);
      }
      done(one.name, 'volume');
    }
    const tree = treeDirOf(settings.stateDir, target);
    for (const one of this.#plan.folders) {
      const path = `${tree}/${one.to}`;
      if (isStaged(path)) continue;
      this.#refuseLive(one.to);
      const expected = recordOf('bind', one.payload);
      // Half of an earlier try: nothing else writes below a generation's folder before it is mounted.
      await files.removeFolder(path);
      await files.ensureFolder(path.slice(0, path.lastIndexOf('/')));
      await payloads.write(
        () => archives.store.readBlob(expected.blob.digest, signal),
        { kind: 'folder', path, within: tree },
        { signal, expected },
      );
      done(path, 'folder');
    }
  }

  /** A folder that the live stack mounts is never written to nor removed, whatever the plan says. */
  #refuseLive(folder: string): void {
    const { before } = this.#record;
    if (Object.values(before.generation?.folders ?? {}).includes(folder))
      throw new Fault('PLAN_STALE', `${folder} holds the live data of ${this.#plan.target}`);
  }

  /** Only one that this restore made. */
  async #dropVolume(name: string, signal: AbortSignal): Promise<void> {
    const { payloads } = toolsOf(this.#house);
    const found = await payloads.inspectVolume(name, signal);
    if (found?.labels[RESTORE_LABEL] === this.#record.id) await payloads.removeVolume(name, signal);
    // Its next namesake gets its owner anew.
    if (found === null || found.labels[RESTORE_LABEL] === this.#record.id)
      this.#house.store.deleteValue(`owned/${name}`);
  }

  /** Ended jobs of the restore's hooks keep the staged volumes in use. */
  async #dropJobs(signal: AbortSignal): Promise<void> {
    const names = new Set(this.#plan.volumes.map((one) => one.name));
    const { containers } = (await this.#bench.look.fresh('known')).observed;
    for (const one of containers)
      if (one.project === this.#plan.target && one.mounts.some((mount) => names.has(mount.name)))
        await this.#house.runtime.remove(one.id, signal);
  }

  async #dropStaged(signal: AbortSignal): Promise<void> {
    const { files, settings } = this.#house;
    const tree = treeDirOf(settings.stateDir, this.#plan.target);
    for (const { name } of this.#plan.volumes) await this.#dropVolume(name, signal);
    for (const { to } of this.#plan.folders) {
      this.#refuseLive(to);
      await files.removeFolder(`${tree}/${to}`);
    }
    this.#save({ staged: [] });
  }

  async #firstBoot(): Promise<void> {
    const { signal, note = () => {} } = this.#options;
    if (this.#plan.boot.kind === 'double') {
      if (this.#record.isBooting) {
        // How far it came is not known: it begins again with what the archive holds.
        await dropFirstBoot(this.#bench, this.#plan, signal);
        await this.#dropStaged(signal);
        await this.#stage();
      }
      this.#save({ isBooting: true });
      await firstBoot(this.#bench, this.#plan, { signal, note });
      await dropFirstBoot(this.#bench, this.#plan, signal);
      this.#say('first boot', 'done, and taken away');
    }
    this.#save({ phase: 'booted', isBooting: false });
  }

  async #finish(nowMs: number): Promise<void> {
    const { store, clock } = this.#house;
    const { plan, id } = this.#record;
    const { target } = plan;
    for (const { kind, name } of plan.replaced) {
      keep(store, { kind, name, stack: target, restore: id, sinceMs: nowMs, untilMs: nowMs + GRACE_MS });
      this.#say(`${kind} ${name}`, `of before, kept until ${new Date(nowMs + GRACE_MS).toISOString()}`);
    }
    const live = await liveFleet(this.#bench).catch(() => null);
    const declared = live?.fleet.stacks.get(target)?.sourceDigest;
    if (plan.followGit) store.deleteHold(target, 'held', '');
    else
      store.putHold(target, {
        ...restoredHold(plan.archive, nowMs),
        ...(declared === undefined ? {} : { whileDeclared: declared }),
      });
    this.#forgetUnneeded();
    store.appendEvent({
      atMs: nowMs,
      stack: target,
      level: 'info',
      reason: 'Restored',
      message: `from archive ${plan.archive}${target === plan.stack ? '' : ` of ${plan.stack}`}`,
      revision: plan.commit,
    });
    this.#save({ phase: 'done', endedAtMs: clock.nowMs(), vaultBefore: null });
  }

  #putHoldBack(): void {
    const { store } = this.#house;
    const { hold } = this.#record.before;
    if (hold) store.putHold(this.#plan.target, hold);
    else store.deleteHold(this.#plan.target, 'held', '');
  }

  /** Made commits that neither runs nor may be gone back to, and pins of archives that none of them needs. */
  #forgetUnneeded(): void {
    const { store } = this.#house;
    const { target } = this.#plan;
    const previous = store.value(`previous/${target}`) as { readonly revision: string } | undefined;
    const refused = store.value(`refused/${target}`) as { readonly instead: string } | undefined;
    const needed = [store.applied(target)?.revision, previous?.revision, refused?.instead];
    forgetMade(store, target, new Set(needed.filter((one) => one !== undefined)));
    releaseMadePins(store);
  }

  /** The live data and its stack as they were. Idempotent; when it cannot be done now it is taken up again. */
  async #back(): Promise<void> {
    const { store, clock, runtime, files, settings } = this.#house;
    const { signal } = new AbortController();
    const { plan, before } = this.#record;
    const { target } = plan;
    try {
      await dropFirstBoot(this.#bench, plan, signal);
      putGeneration(store, target, before.generation);
      await this.#emptyVault();
      if (store.attempt(target)?.operation === 'restore') store.deleteAttempt(target);
      const applied = store.applied(target);
      if (applied && plan.live !== null) {
        // What a sequence cannot bring back, the deploy below does.
        await takeUpHooks(this.#bench, [target], { signal }).catch(() => []);
        await wake(this.#bench, target, signal);
        const judged = await judge(this.#bench, target, applied.revision);
        if (needsWork(judged)) await deployAs(this.#bench, judged, 'heal', signal);
        this.#say(target, 'runs on its data of before');
      } else if (plan.live === null) {
        await runtime.down(target, signal);
        const { payloads } = toolsOf(this.#house);
        for (const name of await volumesOf(this.#bench, target))
          if (!before.volumes.includes(name)) await payloads.removeVolume(name, signal);
        await files.materialize({
          directory: treeDirOf(settings.stateDir, target),
          files: [],
          before: store.written(target),
          read: () => Promise.reject(new Error('nothing is written here')),
        });
        store.forget(target);
        forgetInstalling(store, target);
        this.#say(target, 'taken away again');
      }
      await this.#dropJobs(signal);
      await this.#dropStaged(signal);
      for (const { name } of plan.volumes) this.#say(`volume ${name}`, 'removed again');
      this.#putHoldBack();
      this.#forgetUnneeded();
    } catch (error) {
      const fault = asFault(error, 'RESTORE_FAILED');
      this.#say('going back', `not done yet: ${this.#house.redact(fault.message)}`);
      throw new Fault(
        'RESTORE_FAILED',
        `the restore of ${target} failed (${this.#record.fault?.message ?? ''}), and going back is not done yet: ${fault.message}`,
        { data: { restore: this.#record.id }, cause: error },
      );
    }
    store.appendEvent({
      atMs: clock.nowMs(),
      stack: target,
      level: 'error',
      reason: 'RestoreFailed',
      message: `${this.#record.fault?.message ?? ''}; ${plan.live === null ? 'nothing of it stays' : 'the data of before is in place'}`,
      revision: plan.commit,
    });
    this.#save({ phase: 'failed', endedAtMs: clock.nowMs(), vaultBefore: null });
  }

  async #emptyVault(): Promise<void> {
    const { vault, envelope } = this.#house;
    const sealed = this.#record.vaultBefore;
    if (sealed === null || !vault || !envelope) return;
    const values = JSON.parse(await envelope.open(sealed)) as readonly VaultBefore[];
    for (const { scope, key, value, written, isSpared } of values) {
      if (isSpared) continue;
      const now = await vault.find(key, [scope]);
      if (now === value) continue;
      // A person set it for others too.
      if (written !== undefined && now !== written)
        this.#say(`secret ${key}`, `was set in ${scope} since, and stays so`);
      else if (value === null) await vault.remove(key, scope);
      else await vault.put(key, scope, value);
    }
    this.#say('secrets', 'are in the vault as they were before');
  }
}
