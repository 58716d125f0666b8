// `windlass doctor`: is everything there that Windlass needs? One line a check, with its cure.
import { access, constants, statfs } from 'node:fs/promises';
import { asFault, Fault } from '../../core/fault.ts';
import { helpOf } from '../../core/state/trust/authority.ts';
import { inOneLine } from '../../core/state/trust/unseen.ts';
import { formatAge } from '../../core/status/format-condition.ts';
import type { ListedArchive, Surface } from '../../surface.ts';
import type { Command } from '../command.ts';
import { EXIT } from '../exit.ts';
import { deniedInWords } from '../views/denied-tip.ts';
import { plural } from '../views/diagnostic.ts';

const FREE_BYTES = 1024 ** 3;
const LEAST_COMPOSE: readonly [number, number] = [2, 40];
/** A commit this far ahead of our clock means that one of the two clocks is wrong. Source: SPEC 12, clock skew. */
const SKEW_MS = 5 * 60_000;
/** Nothing of Windlass is older: a clock before it was never set. */
const FIRST_DAY_MS = Date.UTC(2025, 0, 1);

/** Something is there and not as it must be. */
class Unfit extends Error {
  /** Where it differs from that of the check. */
  readonly help: string | null;
  constructor(message: string, help: string | null = null) {
    super(message);
    this.help = help;
  }
}

interface Check {
  readonly check: string;
  readonly ok: boolean;
  readonly says: string;
  readonly help: string;
}

export const command: Command = {
  words: ['doctor'],
  summary: 'check state directory, engine, Compose, source, clock, trust, archive stores, locks and controller',
  usage: '',
  example: 'windlass doctor',
  arity: [0, 0],
  async run({ io, json, surface, now }) {
    const checks: Check[] = [];
    const check = async (name: string, help: string, look: () => Promise<string>): Promise<void> => {
      try {
        checks.push({ check: name, ok: true, says: await look(), help: '' });
      } catch (error) {
        const fault = asFault(error, 'ENGINE_REFUSED');
        const own = error instanceof Unfit ? error.help : null;
        // Nobody is sent to where they are.
        const cure = own ?? (error instanceof Fault ? fault.help.replace(/; `windlass doctor`[^;]*$/, '') : help);
        checks.push({ check: name, ok: false, says: fault.message, help: cure });
      }
    };
    let desk: Surface | null = null;
    await check('state', 'make room, or name another directory with --state', async () => {
      desk = await surface('state');
      return look.state(desk);
    });
    if (desk !== null) {
      const there: Surface = desk;
      await check('engine', '', () => look.engine(there));
      await check('compose', 'install the Docker Compose plugin, version 2.40 or newer', () => look.compose(there));
      let tip = '';
      await check('source', 'name it with --source', async () => {
        const { source } = there.house;
        if (source.spec.url === '') return 'none is named; give --source to check one';
        tip = await source.fetch();
        return `${source.spec.url} ${source.spec.ref} is at ${tip.slice(0, 12)}`;
      });
      await check('clock', 'set the clock of this machine, for example with an NTP client', () =>
        look.clock(there, tip),
      );
      await check('trust', 'run `windlass trust status`', () => look.trust(there, tip));
      for (const asked of storesOf(there))
        await check(asked.name, '', () => look.store(asked, () => there.archivesOf(asked.replica).list()));
      const { repository } = there.house.archives ?? {};
      if (repository) await check('restic', '', () => look.repository(repository, now));
      await check('locks', 'run `windlass unlock STACK`', async () => look.locks(there));
      await check('controller', '', async () => look.controller(there));
    }
    if (json) io.json(checks);
    else
      for (const one of checks) {
        io.data(`${one.ok ? io.paint('green', 'ok  ') : io.paint('red', 'FAIL')} ${one.check.padEnd(10)} ${one.says}`);
        if (!one.ok) io.data(`     ${''.padEnd(10)} help: ${one.help}`);
      }
    return checks.every((one) => one.ok) ? EXIT.done : EXIT.failed;
  },
};

type ArchiveHouse = NonNullable<Surface['house']['archives']>;
type ArchiveStore = ArchiveHouse['store'];

interface Asked {
  readonly name: string;
  readonly store: ArchiveStore;
  readonly replica: string | undefined;
}

/** The main store by itself, and each replica. */
function storesOf({ house: { archives } }: Surface): readonly Asked[] {
  if (!archives) return [];
  const replicas = (archives.replicas ?? []).map(({ name, store }) => ({
    name: `replica ${name}`,
    store,
    replica: name,
  }));
  return [{ name: 'archives', store: archives.own ?? archives.store, replica: undefined }, ...replicas];
}

const MOST_NAMED = 5;

/** No archive has it. */
const NO_ARCHIVE = '0'.repeat(64);

/** Each answers what it found, or throws what is wrong. */
const look = {
  /** One question, whose answer is known: it takes the way, the credentials and the right to read. Then the manifests of what lies there, and
   * whether a blob of it was found wrong before; no blob is read. */
  async store({ store, replica }: Asked, list: () => Promise<readonly ListedArchive[]>): Promise<string> {
    await store.manifest(NO_ARCHIVE).catch((error: unknown) => {
      if (!(error instanceof Fault && error.code === 'ARCHIVE_MISSING')) throw error;
    });
    const free = await store.freeBytes();
    if (free !== null && free < FREE_BYTES)
      throw new Fault('ARCHIVE_NO_SPACE', `it answers, and only ${Math.round(free / 2 ** 20)} MiB are free`);
    const listed = await list();
    const wrong = (ids: readonly string[], how: string): readonly string[] => {
      const more = ids.length > MOST_NAMED ? ` and ${ids.length - MOST_NAMED} more` : '';
      const named = ids.slice(0, MOST_NAMED).map((id) => id.slice(0, 12));
      return ids.length === 0 ? [] : [`${plural(ids.length, 'archive')} ${how}: ${named.join(', ')}${more}`];
    };
    const unread = listed.flatMap(({ listed: { kind, id } }) => (kind === 'damaged' ? [id] : []));
    const damaged = listed.flatMap(({ listed: { kind, id }, damagedAtMs }) =>
      kind !== 'damaged' && damagedAtMs !== null ? [id] : [],
    );
    const said = [...wrong(unread, 'cannot be read'), ...wrong(damaged, 'found to be damaged')];
    const there = replica === undefined ? '' : ` --store ${replica}`;
    if (said.length > 0)
      throw new Unfit(
        `it answers, and ${said.join('; ')}`,
        unread.length > 0
          ? `run \`windlass backups list${there}\`, which tells why; until they are mended or taken away with \`windlass backups remove${there}\`, nothing that \`keep\` does not keep can go`
          : `run \`windlass backups verify${there}\` on each again once its disk is mended, or take it away with \`windlass backups remove${there}\``,
      );
    return free === null ? 'it answers' : `it answers, ${Math.round(free / 2 ** 30)} GiB free`;
  },

  async repository(repository: NonNullable<ArchiveHouse['repository']>, now: AbortSignal): Promise<string> {
    const id = await repository.look(now);
    return id === null ? 'it opens; the first backup makes it' : `repository ${id.slice(0, 12)} opens`;
  },

  async state({ house }: Surface): Promise<string> {
    const { stateDir } = house.settings;
    await access(stateDir, constants.R_OK | constants.W_OK);
    const facts = await statfs(stateDir);
    const free = facts.bavail * facts.bsize;
    if (free < FREE_BYTES) throw new Unfit(`only ${Math.round(free / 2 ** 20)} MiB are free in ${stateDir}`);
    return `${stateDir}, ${Math.round(free / 2 ** 30)} GiB free`;
  },

  async engine({ house }: Surface): Promise<string> {
    const info = await house.runtime.info();
    return `${info.version} (API ${info.apiVersion}) ${info.name}`;
  },

  async compose({ house }: Surface): Promise<string> {
    const { composeVersion } = await house.runtime.info();
    const [major = 0, minor = 0] = composeVersion.replace(/^v/, '').split('.').map(Number);
    const [leastMajor, leastMinor] = LEAST_COMPOSE;
    if (major < leastMajor || (major === leastMajor && minor < leastMinor))
      throw new Unfit(`Compose ${composeVersion} is older than ${LEAST_COMPOSE.join('.')}`);
    return composeVersion;
  },

  async clock({ house }: Surface, tip: string): Promise<string> {
    const now = house.clock.nowMs();
    const iso = new Date(now).toISOString();
    if (now < FIRST_DAY_MS) throw new Unfit(`it is ${iso} here, which is long ago`);
    const { committedAtMs } = tip === '' ? { committedAtMs: 0 } : await house.source.commit(tip);
    if (committedAtMs > now + SKEW_MS)
      throw new Unfit(`it is ${iso} here, and the newest commit is from ${new Date(committedAtMs).toISOString()}`);
    return iso;
  },

  /** Whether a signature could count at all: the list of revoked keys, the anchor, the ledger and the policy, in the order of what stops most. */
  async trust(desk: Surface, tip: string): Promise<string> {
    const { trust } = desk.house;
    const acceptable = async (): Promise<void> => {
      const denied = tip === '' ? null : await desk.deniedTip();
      if (denied === null) return;
      const { why, help } = deniedInWords(denied, trust?.deploy ?? 'none');
      throw new Unfit(why, help);
    };
    if (!trust) {
      await acceptable();
      return 'no signature is asked for, and no request runs';
    }
    const { deploy, anchor, ledger } = trust;
    const { revoked, allowedSigners, keyring } = await trust.files();
    const unread = Object.entries({ revokedFile: revoked, allowedSignersFile: allowedSigners, keyringFile: keyring });
    for (const [name, content] of unread)
      if (content === null)
        throw new Unfit(
          `the file of trust.${name} cannot be read, so no signature counts`,
          `put the file there, readable for the controller${name === 'revokedFile' ? '; an empty one revokes nothing' : ''}`,
        );
    const { parseTrustRoots } = await import('../../core/state/trust/roots.ts');
    const names = {
      revoked: 'trust.revokedFile',
      allowedSigners: 'trust.allowedSignersFile',
      keyring: 'trust.keyringFile',
    };
    const { refusal } = await parseTrustRoots({
      ...(revoked ? { revoked } : {}),
      ...(allowedSigners ? { allowedSigners } : {}),
      ...(keyring ? { keyring } : {}),
      names,
    });
    if (refusal !== null) throw new Unfit(`${inOneLine(refusal.detail)}, so no signature counts`, helpOf(refusal.code));
    if (!anchor || !ledger) {
      await acceptable();
      if (deploy !== 'none') return `deploy: ${deploy}, by the files of this host; no anchor, so no request runs`;
      return 'deploy: none, no anchor: no signature is asked for, and no request runs';
    }
    if (tip === '') return `deploy: ${deploy}, fleet ${anchor.fleetId}; the source was not seen`;
    const { chain, descendsFromGenesis, descendsFromAccepted } = await desk.trustStatus().catch((error: unknown) => {
      // The anchor is for another ref than the one that is watched.
      if (error instanceof Fault && error.code === 'USAGE')
        throw new Unfit(error.message, 'name the ref of the anchor in `sources`, or make an anchor for this one');
      throw error;
    });
    if (!descendsFromGenesis)
      throw new Unfit(
        `${tip.slice(0, 12)} does not descend from ${anchor.genesis.slice(0, 12)}, the genesis commit of the anchor`,
        'name the repository in `sources` for which `windlass trust init` made the anchor',
      );
    if (!descendsFromAccepted) throw new Unfit('the branch was rewritten', helpOf('history-rewritten'));
    const { effective, drift } = chain;
    if (effective === null)
      throw new Unfit(
        `no policy is in effect: ${inOneLine(`${drift?.reason ?? ''} ${drift?.detail ?? ''}`.trim())}`,
        drift === null ? helpOf('policy-absent') : helpOf(drift.reason),
      );
    await acceptable();
    const since = ledger.acceptedTip();
    const memory =
      since === null
        ? 'the ledger is new: what is signed before the first commit is accepted counts for nothing'
        : `ledger at ${since.slice(0, 12)}`;
    return `deploy: ${deploy}, policy version ${effective.version}, ${memory}`;
  },

  locks({ house }: Surface): string {
    const held = house.store.leases().filter((one) => one.expiresAtMs > house.clock.nowMs());
    if (held.length === 0) return 'nothing is locked';
    const words = held.map(
      (one) => `${one.name}${house.settings.hasEnded(one.owner) ? ' (its process has ended)' : ''}`,
    );
    return `locked: ${words.join(', ')}`;
  },

  controller(desk: Surface): string {
    const found = desk.controller();
    if (!found) return 'does not run on this state directory';
    return `runs since ${formatAge(desk.house.clock.nowMs() - found.sinceMs)}: ${found.owner}`;
  },
};
