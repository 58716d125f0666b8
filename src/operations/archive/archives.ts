// Archives: what people ask of the archive store: list, show, verify, prune, carry out and in. Reads and removes; makes and restores none.
import { type ReadArchive, type ReadGroup, readManifest } from '../../core/archive/manifest.ts';
import { type Retained, retain, type Verdict } from '../../core/archive/retention.ts';
import { asFault, Fault } from '../../core/fault.ts';
import { isTerminal } from '../../core/request/life.ts';
import { effectiveSettings } from '../../core/spec/backup.ts';
import type { LoadedStack } from '../../core/spec/loaded.ts';
import type { ArchiveStore, Listed, Verification } from '../../ports/archive.ts';
import type { ArchiveHouse } from '../../ports/archive-house.ts';
import type { FleetAt } from '../fleet-at.ts';
import { backupOf } from '../hooks-of.ts';
import type { House } from '../house.ts';
import type { RequestWork } from '../trust/request-work.ts';
import type { MadeCommit } from './archive-source.ts';
import { archivedMessage, type LastBackup, lastBackupKey, tookKey } from './backup.ts';
import { GROUPING, GROUPING_MS, type Grouping } from './backup-group.ts';
import type { CloneRecord } from './clone.ts';
import { drilledAtMs, drillingRecords, lastVerifiedKey } from './drill-record.ts';
import { damagedKey, forgetProof, putRight, putWrongWithOthers, readKey } from './proof.ts';
import { replicaNamed, replicaStatuses } from './replicate.ts';
import { restorePin, unfinishedRestores } from './restore.ts';

/** Named value: public keys of other controllers that a person trusts, base64. */
export const TRUSTED_KEYS = 'archive-keys';

/** When an archive was last read as a whole and found right; null = never. */
export const readAtMs = ({ store }: Pick<House, 'store'>, id: string): number | null =>
  (store.value(readKey(id)) as number | undefined) ?? null;

/** When it was last found damaged; null = not since it was last found right or brought in. */
export const damagedAtMs = ({ store }: Pick<House, 'store'>, id: string): number | null =>
  (store.value(damagedKey(id)) as number | undefined) ?? null;

/** When a drill with it last ended well: nothing less proves an archive. */
export const verifiedAtMs = ({ store }: Pick<House, 'store'>, id: string): number | null => drilledAtMs(store, id);

/** Of the history, for one that cannot be read. */
const MOST_RUNS = 10_000;

type Archive = Extract<Listed, { kind: 'archive' }>;

export interface ListedArchive {
  readonly listed: Listed;
  /** When it was last read as a whole and found right; null = never. */
  readonly readAtMs: number | null;
  /** When a drill with it last ended well; null = never. */
  readonly verifiedAtMs: number | null;
  /** When it was last found damaged; null = not since it was last found right or brought in. Of a replica it is not known. */
  readonly damagedAtMs: number | null;
  /** How long it took to make; null = not on record. */
  readonly durationMs: number | null;
  /** Replicas that were seen to hold it. */
  readonly replicas: readonly string[];
  /** Of one that cannot be read: the stack that it is of, as far as that is on record; else null. */
  readonly wasOf: string | null;
}

export interface Removal {
  readonly id: string;
  /** What it is, for people. */
  readonly what: string;
  /** What is lost with it. */
  readonly warnings: readonly string[];
}

export class Archives {
  readonly #house: House;
  readonly #archives: ArchiveHouse;

  /** What is listed, read again and removed: of one store alone. */
  readonly #own: ArchiveStore;
  readonly #isReplica: boolean;

  /** Of the main store, or of a replica by its name. */
  constructor(house: House, replica?: string) {
    this.#house = house;
    if (!house.archives) throw new Fault('USAGE', 'there is no archive store here');
    this.#isReplica = replica !== undefined;
    this.#archives = house.archives;
    this.#own =
      replica === undefined ? (house.archives.own ?? house.archives.store) : replicaNamed(house, replica).store;
  }

  /** Newest first; of one stack with those that cannot be read, which may be of any. */
  async list(stack?: string): Promise<readonly ListedArchive[]> {
    const all = await this.#own.list();
    const replicas = replicaStatuses(this.#house);
    return all
      .filter((one) => stack === undefined || one.kind === 'damaged' || (one.kind === 'archive' && one.stack === stack))
      .map((listed) => ({
        listed,
        readAtMs: readAtMs(this.#house, listed.id),
        verifiedAtMs: verifiedAtMs(this.#house, listed.id),
        damagedAtMs: this.#isReplica ? null : damagedAtMs(this.#house, listed.id),
        durationMs: (this.#house.store.value(tookKey(listed.id)) as number | undefined) ?? null,
        replicas: replicas.filter((one) => one.has.has(listed.id)).map((one) => one.name),
        wasOf: listed.kind === 'damaged' ? this.#wasOf(listed.id, all) : null,
      }));
  }

  /** Told by its group, by what is on record of the newest ones, or by the history of backups. */
  #wasOf(id: string, all: readonly Listed[]): string | null {
    for (const one of all)
      if (one.kind === 'group') for (const member of one.members) if (member.archive === id) return member.stack;
    const { store } = this.#house;
    for (const about of [lastBackupKey(''), lastVerifiedKey('')])
      for (const [key, value] of store.values(about))
        if ((value as Pick<LastBackup, 'archive'>).archive === id) return key.slice(about.length);
    const made = archivedMessage(id);
    const run = store
      .runs({ outcome: 'succeeded', limit: MOST_RUNS })
      .find((one) => one.operation === 'backup' && one.message === made);
    return run?.stack ?? null;
  }

  /** The full id of the one archive that begins so. Throws ARCHIVE_MISSING, USAGE when it is not one. */
  async find(said: string): Promise<string> {
    if (!/^[0-9a-f]{8,64}$/.test(said))
      throw new Fault('USAGE', `name an archive by at least 8 hex digits of its id, not ${said}`);
    let found = (await this.#own.list()).filter((one) => one.id.startsWith(said));
    // What only a replica has is read from there.
    for (const { store } of this.#isReplica ? [] : (this.#archives.replicas ?? []))
      if (found.length === 0) found = (await store.list()).filter((one) => one.id.startsWith(said));
    if (found.length > 1) throw new Fault('USAGE', `${said} names ${found.length} archives; give more digits`);
    const [one] = found;
    if (!one) throw new Fault('ARCHIVE_MISSING', `there is no archive ${said}`);
    return one.id;
  }

  /** Throws ARCHIVE_UNTRUSTED. */
  async show(id: string): Promise<{ readonly read: ReadArchive | ReadGroup; readonly signedBy: string }> {
    const { bytes, signature } = await (this.#isReplica ? this.#own : this.#archives.store).manifest(id);
    return { read: readManifest(bytes), signedBy: this.#archives.check(bytes, signature) };
  }

  /** Reads everything again. Throws also what keeps it from being told which other archives are wrong then. */
  async verify(id: string, signal: AbortSignal): Promise<Verification> {
    await this.show(id);
    const verification = await this.#own.verify(id, signal);
    // Another copy proves nothing of this one.
    if (this.#isReplica) return verification;
    const { store, clock } = this.#house;
    if (verification.wrong.length === 0)
      for (const read of [id, ...(await this.#membersOf(id))]) putRight(store, read, clock.nowMs());
    else await putWrongWithOthers(store, this.#own, id, verification.wrong, clock.nowMs());
    return verification;
  }

  /** What `keep` of each stack leaves; removes the rest when `remove`. An archive of a stack that nobody declares any more is kept. What fails on
   * the way names those that are gone. */
  async prune(
    at: FleetAt,
    stack: string | undefined,
    remove: boolean,
  ): Promise<readonly (Verdict & { readonly stack: string })[]> {
    const all = await this.#own.list();
    const pins = new Map<string, string>();
    for (const one of all)
      if (one.kind === 'group')
        for (const member of one.members)
          pins.set(
            member.archive,
            `group archive ${one.id.slice(0, 12)}, until \`windlass backups remove\` takes that away`,
          );
    const pin = (found: ReadonlyMap<string, string>): void => {
      for (const [id, why] of found) pins.set(id, why);
    };
    pin(await this.#askedFor(at.revision.commit));
    pin(await this.#needed());
    const unread = all.find((one) => one.kind === 'damaged');
    // It may be a group, also one of a newer version, and name any of them.
    if (unread)
      for (const one of all) if (!pins.has(one.id)) pins.set(one.id, `${unread.id.slice(0, 12)}, which cannot be read`);
    const byStack = new Map<string, Archive[]>();
    for (const one of all)
      if (one.kind === 'archive' && (stack === undefined || one.stack === stack))
        byStack.set(one.stack, [...(byStack.get(one.stack) ?? []), one]);
    const verdicts: (Verdict & { stack: string })[] = [];
    for (const [name, archives] of byStack) {
      const declared = at.fleet.stacks.get(name);
      for (const verdict of retain({
        archives: archives.map((one) => this.#retained(one)),
        keep: (declared ? backupSettingsOf(declared).keep : null) ?? null,
        pins,
        nowMs: this.#house.clock.nowMs(),
      }))
        verdicts.push({ ...verdict, stack: name });
    }
    if (!remove) return verdicts;
    const removed: string[] = [];
    try {
      for (const [index, { id, stack: of, isKept }] of verdicts.entries()) {
        if (isKept) continue;
        // Somebody may have come to need it while others were removed: it stays, and the others go.
        const why = (await this.#needed()).get(id) ?? (await this.#takeUnlessNamed(id));
        if (why === null) removed.push(id);
        else verdicts[index] = { id, stack: of, isKept: true, why: [`pinned by ${why}`] };
      }
      await this.#own.collect();
    } catch (error) {
      throw afterRemoval(removed, error);
    }
    return verdicts;
  }

  /**
   * One that `keep` does not speak of, or that a person wants gone: an archive, a group without its members, or what cannot be read. Removes it
   * when `remove`; what fails after that says that it is gone. Faults: ARCHIVE_MISSING; ARCHIVE_IN_USE while a request, a stack, a drill or a group needs it, whatever the person says.
   */
  async removeOne(at: FleetAt, id: string, remove: boolean): Promise<Removal> {
    const all = await this.#own.list();
    const listed = all.find((one) => one.id === id);
    if (!listed) throw new Fault('ARCHIVE_MISSING', `there is no archive ${id}`, { data: { archive: id } });
    const why = (await this.#askedFor(at.revision.commit)).get(id) ?? (await this.#needed()).get(id);
    const group = all.find((one) => one.kind === 'group' && one.members.some(({ archive }) => archive === id));
    if (why !== undefined || group)
      throw new Fault(
        'ARCHIVE_IN_USE',
        `${id.slice(0, 12)} is needed by ${why ?? `the group archive ${group?.id.slice(0, 12)}`}`,
        { data: { archive: id } },
      );
    const removal = { id, what: whatIs(listed), warnings: this.#lostWith(listed, all) };
    if (!remove) return removal;
    await this.#take(id);
    // What cannot be read may keep the store from being collected, and is gone all the same.
    await this.#own.collect().catch((error: unknown) => {
      if (asFault(error, 'ARCHIVE_FAILED').code !== 'ARCHIVE_DAMAGED') throw afterRemoval([id], error);
    });
    return removal;
  }

  /** Null when it is gone, else what names it. */
  async #takeUnlessNamed(id: string): Promise<string | null> {
    try {
      await this.#take(id);
      return null;
    } catch (error) {
      if (!(error instanceof Fault && error.code === 'ARCHIVE_IN_USE')) throw error;
      return 'a group archive that was stored meanwhile';
    }
  }

  /** From the store, and what is on record of it. */
  async #take(id: string): Promise<void> {
    await this.#own.remove(id);
    if (this.#isReplica) return;
    const { store } = this.#house;
    forgetProof(store, id);
    store.deleteValue(damagedKey(id));
    store.deleteValue(tookKey(id));
    for (const about of [lastBackupKey(''), lastVerifiedKey('')])
      for (const [key, value] of store.values(about))
        if ((value as Pick<LastBackup, 'archive'>).archive === id) store.deleteValue(key);
  }

  #lostWith(listed: Listed, all: readonly Listed[]): readonly string[] {
    if (listed.kind === 'damaged')
      return ['its manifest cannot be read: what it names, and whether it is a group, is not known'];
    if (listed.kind === 'group') return ['its members stay, and `keep` of each stack decides of them from now on'];
    const { id, stack } = listed;
    const others = all.filter((one) => one.kind === 'archive' && one.stack === stack && one.purpose === 'backup');
    const rest = others.filter((one) => one.id !== id);
    const isRight = (one: Listed): boolean =>
      readAtMs(this.#house, one.id) !== null || verifiedAtMs(this.#house, one.id) !== null;
    return [
      ...(rest.length === 0 ? [`there is no other archive of ${stack} here`] : []),
      ...(rest.length > 0 && others[0]?.id === id ? [`it is the newest one of ${stack}`] : []),
      ...(isRight(listed) && !rest.some(isRight) ? [`it is the only one of ${stack} that was found right`] : []),
    ];
  }

  exportTo(id: string, path: string, signal: AbortSignal): Promise<{ readonly sizeBytes: number }> {
    return this.#archives.exportTo(id, path, signal);
  }

  /** `trust`: a public key of another controller, from now on trusted. */
  async importFrom(
    path: string,
    trust: string | undefined,
    signal: AbortSignal,
  ): ReturnType<ArchiveHouse['importFrom']> {
    const done = await this.trusting(trust, (also) => this.#archives.importFrom(path, signal, also));
    // Stored anew, every digest of it.
    for (const id of [done.id, ...done.archives]) this.#house.store.deleteValue(damagedKey(id));
    return done;
  }

  /** With the key of another controller, whose archives count from now on; not when the work fails, which nobody may have meant. */
  async trusting<T>(key: string | undefined, work: (also: readonly string[]) => Promise<T>): Promise<T> {
    if (key === undefined) return await work([]);
    if (!/^[A-Za-z0-9+/]{43}=$/.test(key)) throw new Fault('USAGE', 'a signing key is 32 bytes in base64');
    const done = await work([key]);
    this.#trust(key);
    return done;
  }

  #trust(key: string): void {
    const { store } = this.#house;
    const known = (store.value(TRUSTED_KEYS) as readonly string[] | undefined) ?? [];
    store.putValue(TRUSTED_KEYS, [...new Set([...known, key])]);
  }

  #retained({ id, madeAtMs, purpose }: Archive): Retained {
    return {
      id,
      madeAtMs,
      purpose,
      verifiedAtMs: verifiedAtMs(this.#house, id),
      readAtMs: readAtMs(this.#house, id),
      isDamaged: !this.#isReplica && damagedAtMs(this.#house, id) !== null,
    };
  }

  /** What is at work, or deployed, from which archive. */
  async #needed(): Promise<ReadonlyMap<string, string>> {
    const { store } = this.#house;
    const needed = new Map<string, string>();
    for (const [key, why] of store.values('archive-pin/')) needed.set(key.slice('archive-pin/'.length), String(why));
    // One pin holds one reason: whoever goes takes it along, also when others need the archive too.
    for (const { archive, stack } of store.values('restored/').values() as Iterable<MadeCommit>)
      needed.set(archive, restorePin(stack));
    for (const { plan } of unfinishedRestores(this.#house)) needed.set(plan.archive, restorePin(plan.target));
    for (const { stack, archives } of drillingRecords(store))
      for (const archive of archives) needed.set(archive, `the drill of ${stack}`);
    for (const { id, archive, endedAtMs } of store.values('clone/').values() as Iterable<CloneRecord>)
      if (endedAtMs === 0 && archive !== null && !this.#isOver(id)) needed.set(archive, `the request ${id}`);
    for (const { group, sinceMs, archives } of store.values(GROUPING).values() as Iterable<Grouping>)
      if (this.#house.clock.nowMs() - sinceMs < GROUPING_MS)
        for (const archive of archives) needed.set(archive, `the backup of the group ${group}`);
    // Under way: also when its file is gone from the tip, and of a recover also those whose turn has not come.
    const begun = store.values(INTENTS);
    if (begun.size === 0) return needed;
    const { archivesOf } = await import('../trust/request-work.ts');
    for (const [key, work] of begun) {
      const id = key.slice(INTENTS.length);
      // Written down before a claim that never came, or not taken away on a full disk.
      if (this.#isOver(id)) continue;
      for (const archive of archivesOf(work as RequestWork)) needed.set(archive, `the request ${id}`);
    }
    return needed;
  }

  /** A request of which nothing will come any more. */
  #isOver(id: string): boolean {
    const state = this.#house.trust?.ledger?.snapshot(id)?.state;
    return state !== undefined && isTerminal(state);
  }

  /** By requests that may still be carried out. Throws what keeps them from being read: then nothing is known to be superfluous. */
  async #askedFor(tip: string): Promise<ReadonlyMap<string, string>> {
    const asked = new Map<string, string>();
    if (!this.#house.trust?.anchor) return asked;
    const { lookAtTrust } = await import('../trust/look.ts');
    const { requests, ledger } = await lookAtTrust(this.#house, tip);
    for (const { id, evaluation } of requests) {
      const { request } = evaluation;
      const state = ledger.snapshot(id)?.state;
      if (request === null || !('archive' in request) || request.archive === undefined) continue;
      if (state !== undefined && isTerminal(state)) continue;
      asked.set(request.archive, `the request ${id}`);
      const members = await this.#membersOf(request.archive);
      for (const member of members) asked.set(member, `the request ${id}`);
    }
    return asked;
  }

  /** Also of a group that only a replica has. Throws what keeps it from being read. */
  async #membersOf(id: string): Promise<readonly string[]> {
    try {
      const read = readManifest((await (this.#isReplica ? this.#own : this.#archives.store).manifest(id)).bytes);
      return read.kind === 'group' ? read.manifest.members.map((one) => one.archive) : [];
    } catch (error) {
      if (asFault(error, 'ARCHIVE_FAILED').code === 'ARCHIVE_MISSING') return [];
      // While it is listed as damaged nothing goes at all.
      if ((await this.#own.list()).some((one) => one.id === id && one.kind === 'damaged')) return [];
      throw error;
    }
  }
}

/** As `intentKey` names them, which would load all that judges a request. */
const INTENTS = 'request-intent/';

function whatIs(listed: Listed): string {
  if (listed.kind === 'damaged') return `what cannot be read: ${listed.why}`;
  const madeAt = new Date(listed.madeAtMs).toISOString();
  return listed.kind === 'group'
    ? `the archive of the group ${listed.group}, made ${madeAt}, with ${listed.members.length} members`
    : `the ${listed.purpose} archive of ${listed.stack}, made ${madeAt}`;
}

/** Who hears of the failure only would look for what is no longer there. */
function afterRemoval(removed: readonly string[], error: unknown): unknown {
  if (removed.length === 0) return error;
  const { code, message, data } = asFault(error, 'ARCHIVE_FAILED');
  const names = removed.map((id) => id.slice(0, 12)).join(', ');
  const said = `${removed.length === 1 ? 'the archive' : 'the archives'} ${names} ${removed.length === 1 ? 'is' : 'are'} removed`;
  return new Fault(code, `${said}; what was to follow failed: ${message}`, {
    data: { ...data, removed },
    cause: error,
  });
}

type Settings = ReturnType<typeof effectiveSettings>;
const settings = new WeakMap<LoadedStack, Settings>();

/** When archives of the stack are made and how many are kept: what it says itself wins over its app. Throws InvalidStack. */
export function backupSettingsOf(stack: LoadedStack): Settings {
  const known = settings.get(stack);
  if (known) return known;
  const own = stack.backup as Parameters<typeof effectiveSettings>[1];
  const found = effectiveSettings(backupOf(stack), own);
  settings.set(stack, found);
  return found;
}
