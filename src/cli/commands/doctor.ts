// `windlass doctor`: is everything there that Windlass needs? One line a check, with its cure.
import { access, constants, statfs } from 'node:fs/promises';
import { asFault, Fault } from '../../core/fault.ts';
import { formatAge } from '../../core/status/format-condition.ts';
import type { Surface } from '../../surface.ts';
import type { Command } from '../command.ts';
import { EXIT } from '../exit.ts';

const FREE_BYTES = 1024 ** 3;
const LEAST_COMPOSE: readonly [number, number] = [2, 40];
/** A commit this far ahead of our clock means that one of the two clocks is wrong. Source: SPEC 12, clock skew. */
const SKEW_MS = 5 * 60_000;
/** Nothing of Windlass is older: a clock before it was never set. */
const FIRST_DAY_MS = Date.UTC(2025, 0, 1);

/** Something is there and not as it must be. */
class Unfit extends Error {}

interface Check {
  readonly check: string;
  readonly ok: boolean;
  readonly says: string;
  readonly help: string;
}

export const command: Command = {
  words: ['doctor'],
  summary: 'check state directory, engine, Compose, source, clock, archive stores, locks and controller',
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
        checks.push({ check: name, ok: false, says: fault.message, help: error instanceof Fault ? fault.help : help });
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
      for (const { name, store } of storesOf(there)) await check(name, '', () => look.store(store));
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

/** The main store by itself, and each replica. */
function storesOf({
  house: { archives },
}: Surface): readonly { readonly name: string; readonly store: ArchiveStore }[] {
  if (!archives) return [];
  const replicas = (archives.replicas ?? []).map(({ name, store }) => ({ name: `replica ${name}`, store }));
  return [{ name: 'archives', store: archives.own ?? archives.store }, ...replicas];
}

/** No archive has it. */
const NO_ARCHIVE = '0'.repeat(64);

/** Each answers what it found, or throws what is wrong. */
const look = {
  /** One question, whose answer is known: it takes the way, the credentials and the right to read. */
  async store(store: ArchiveStore): Promise<string> {
    await store.manifest(NO_ARCHIVE).catch((error: unknown) => {
      if (!(error instanceof Fault && error.code === 'ARCHIVE_MISSING')) throw error;
    });
    const free = await store.freeBytes();
    if (free !== null && free < FREE_BYTES)
      throw new Fault('ARCHIVE_NO_SPACE', `it answers, and only ${Math.round(free / 2 ** 20)} MiB are free`);
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
