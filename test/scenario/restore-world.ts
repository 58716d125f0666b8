// A world for restores: the simulated engine with volumes that hold text, a real archive store on disk, a vault in memory, and a process
// that can be made to die at any write, payload or engine call.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DirStore } from '../../src/adapters/archive/dir-store.ts';
import { CrashError } from '../../src/adapters/sim/world.ts';
import { encodeManifest, type Manifest } from '../../src/core/archive/manifest.ts';
import type { PayloadRecord } from '../../src/core/archive/payload.ts';
import { Fault } from '../../src/core/fault.ts';
import { blobOid } from '../../src/operations/archive/archive-source.ts';
import type { House } from '../../src/operations/house.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import type { Disk, Payloads, PayloadTarget, VolumeFacts } from '../../src/ports/payloads.ts';
import type { Scope, Vault } from '../../src/ports/vault.ts';
import { SimHouse } from '../sim/sim-house.ts';

export const never = new AbortController().signal;
const sha = (text: string | Uint8Array): string => createHash('sha256').update(text).digest('hex');

/** The process that runs: dies before or after its `at`-th call that changes something. */
export class Process {
  calls = 0;
  dead = false;
  readonly #at: number;
  readonly #when: 'before' | 'after';
  readonly story: string[] = [];
  /** Dies before this call, whenever it comes. */
  dieAt = '';

  constructor(at = Number.POSITIVE_INFINITY, when: 'before' | 'after' = 'before') {
    this.#at = at;
    this.#when = when;
  }

  guard<T extends object>(name: string, inner: T, changes: (method: string) => boolean): T {
    return new Proxy(inner, {
      get: (target, key) => {
        const value = Reflect.get(target, key, target);
        if (typeof value !== 'function' || typeof key !== 'string') return value;
        return (...args: unknown[]): unknown => {
          if (this.dead && key !== 'close') throw new CrashError('the process is dead');
          const call = (): unknown => Reflect.apply(value, target, args);
          if (!changes(key)) return call();
          this.calls += 1;
          this.story.push(`${name}.${key}`);
          const isMine = this.calls === this.#at;
          if ((isMine && this.#when === 'before') || `${name}.${key}` === this.dieAt) this.#die();
          const result = call();
          if (!isMine) return result;
          if (result instanceof Promise)
            return result.then(
              () => this.#die(),
              () => this.#die(),
            );
          return this.#die();
        };
      },
    });
  }

  #die(): never {
    this.dead = true;
    throw new CrashError('the process died here');
  }
}

/** At which calls of a story, from 1, it is worth dying: of alike calls in a row at the first and the last. */
export const crashPoints = (story: readonly string[]): readonly number[] =>
  story.flatMap((name, at) => (name === story[at - 1] && name === story[at + 1] ? [] : [at + 1]));

export class RestoreWorld {
  readonly sim: SimHouse;
  readonly archives: DirStore;
  /** Volume or absolute folder → its text. */
  readonly data = new Map<string, string>();
  readonly secrets = new Map<string, string>();
  /** How a secret was asked to be minted: `<scope> <key>` → `<length> <alphabet>`. */
  readonly policies: Record<string, string> = {};
  process = new Process();
  bench: Workbench;
  safety: string[] = [];

  constructor(seed = 1) {
    this.sim = new SimHouse(seed);
    this.archives = new DirStore({ directory: join(this.sim.dir, 'archives') });
    this.bench = this.#open();
  }

  /** As after kill -9: everything in memory is gone. */
  restart(process = new Process()): void {
    this.sim.crash();
    this.process = process;
    this.bench = this.#open();
  }

  #open(): Workbench {
    const { process } = this;
    const { house } = this.sim;
    const reads =
      /^(find|mark|list|read|inspectVolume|volumeSizeBytes|diskOf|sweepHelpers|close|info|observe|events|resolve|logs)/;
    const opened: House = {
      ...house,
      store: process.guard('store', house.store, (name) => /^(put|delete|append|journal$|forget)/.test(name)),
      runtime: process.guard('runtime', house.runtime, (name) => !reads.test(name)),
      oneShots: process.guard('oneShots', house.oneShots, (name) => /^(start|remove|kill)$/.test(name)),
      payloads: process.guard('payloads', this.payloads(), (name) => !reads.test(name)),
      vault: process.guard('vault', this.vault(), (name) => /^(put|remove|mint)$/.test(name)),
      envelope: {
        recipient: async () => 'age1controller',
        seal: async (_recipients, text) => Buffer.from(text).toString('base64'),
        open: async (sealed) => Buffer.from(sealed, 'base64').toString(),
      },
      archives: {
        store: this.archives,
        sign: () => 'signed\n',
        check: (_bytes, signature) => {
          if (signature !== 'signed\n') throw new Fault('ARCHIVE_UNTRUSTED', 'it is not signed');
          return 'key';
        },
        recipients: [],
        exportTo: () => Promise.reject(new Error('not here')),
        importFrom: () => Promise.reject(new Error('not here')),
      },
    };
    this.sim.house = opened;
    this.sim.bench = new Workbench(opened);
    return this.sim.bench;
  }

  /** Of the engine, and of the state directory; null = not to be seen. */
  readonly disks: Record<'volumes' | 'folders', Disk | null> = { volumes: null, folders: null };
  /** Of what lies below these folders; the longest one wins. */
  readonly mounted = new Map<string, Disk>();

  vault(): Vault {
    const { secrets, policies } = this;
    const find = async (key: string, scopes: readonly Scope[]): Promise<string | null> => {
      for (const scope of scopes) {
        const value = secrets.get(`${scope} ${key}`);
        if (value !== undefined) return value;
      }
      return null;
    };
    return {
      find,
      async mint(key, scope, { length, alphabet }) {
        policies[`${scope} ${key}`] = `${length} ${alphabet}`;
        const value = secrets.get(`${scope} ${key}`) ?? `minted ${secrets.size}`;
        secrets.set(`${scope} ${key}`, value);
        return value;
      },
      async put(key, scope, value) {
        secrets.set(`${scope} ${key}`, value);
      },
      async mark(key, scopes) {
        const value = await find(key, scopes);
        return value === null ? null : sha(value);
      },
      remove: async (key, scope) => secrets.delete(`${scope} ${key}`),
      list: async () => [],
    };
  }

  payloads(): Payloads {
    const { engine } = this.sim.world;
    const { data } = this;
    const inspectVolume = async (name: string): Promise<VolumeFacts | null> => {
      const found = engine.volumes.get(name);
      if (!found) return null;
      return { name, driver: 'local', driverOpts: {}, labels: found.labels, mountpoint: `/v/${name}`, createdAt: '1' };
    };
    const make = async (target: PayloadTarget): Promise<string> => {
      if (target.kind === 'folder') {
        if (existsSync(target.path)) throw new Fault('PAYLOAD_EXISTS', `${target.path} is there`);
        mkdirSync(target.path);
        return target.path;
      }
      if (engine.volumes.has(target.name)) throw new Fault('PAYLOAD_EXISTS', `${target.name} is there`);
      engine.addVolume(target.name, { ...target.labels });
      return target.name;
    };
    return {
      read: (source) => {
        const text = source.kind === 'volume' ? (data.get(source.name) ?? '') : '';
        const facts = {
          plainDigest: sha(`plain ${text}`),
          plainBytes: 10,
          entries: { count: 1, digest: sha('entries') },
        };
        async function* stream(): AsyncGenerator<Uint8Array> {
          yield Buffer.from(text);
        }
        return { stream: stream(), done: Promise.resolve({ ...facts, root: null, way: 'memory', notCaptured: [] }) };
      },
      async write(open, target, { expected }) {
        const chunks: Uint8Array[] = [];
        for await (const chunk of open()) chunks.push(chunk);
        const text = Buffer.concat(chunks).toString();
        if (sha(`plain ${text}`) !== expected.plainDigest) throw new Fault('PAYLOAD_CORRUPT', 'not the recorded one');
        const name = await make(target);
        if (target.kind === 'folder') writeFileSync(join(name, 'content'), text);
        else data.set(name, text);
        return { way: 'memory', verifiedBy: 'bytes', notRestored: [] };
      },
      async createVolume(volume) {
        await make(volume);
      },
      async removeVolume(name) {
        engine.removeVolume(name);
        data.delete(name);
      },
      inspectVolume,
      volumeSizeBytes: async () => 3 * 1024 * 1024,
      diskOf: async (where) => {
        if (where === 'volumes') return this.disks.volumes;
        const at = [...this.mounted.keys()].filter((folder) => `${where.folder}/`.startsWith(`${folder}/`));
        const longest = at.sort((a, b) => b.length - a.length)[0];
        return longest === undefined ? this.disks.folders : (this.mounted.get(longest) ?? null);
      },
      sweepHelpers: async () => [],
      close: () => {},
    };
  }

  /** What the running container of a service sees in its volume or folder. */
  sees(container: string, target: string): string {
    const mount = this.sim.world.container(container).spec.mounts.find((one) => one.destination === target);
    if (!mount) throw new Error(`${container} mounts nothing at ${target}`);
    if (mount.kind === 'volume') return this.data.get(mount.name) ?? '';
    const file = join(mount.source, 'content');
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  async blob(text: string) {
    return this.archives.putBlob(
      (async function* () {
        yield Buffer.from(text);
      })(),
    );
  }

  async payload(kind: 'volume' | 'bind', name: string, text: string): Promise<PayloadRecord> {
    return {
      kind,
      name,
      format: 'tar+zstd',
      plainDigest: sha(`plain ${text}`),
      plainBytes: 10,
      blob: await this.blob(text),
      entries: { count: 1, digest: sha('entries') },
      root: null,
      way: 'memory',
      notCaptured: [],
    };
  }

  /** An archive of the stack as it is declared at the tip, with `volumes` (key → text) and `folders` (path → text). */
  async archive(
    stack: string,
    content: {
      readonly volumes: Readonly<Record<string, string>>;
      /** Keys of volumes that are not captured. */
      readonly left?: readonly string[];
      readonly folders?: Readonly<Record<string, string>>;
      readonly secrets?: Readonly<Record<string, string>>;
      readonly change?: Partial<Manifest>;
      readonly without?: readonly (keyof Manifest)[];
    },
  ): Promise<string> {
    const at = await this.bench.reader.read(await this.sim.source.fetch());
    const declared = at.fleet.stacks.get(stack)!;
    const { layout } = declared;
    const files: Manifest['files'][number][] = [];
    for (const { path, mode, oid } of declared.files)
      files.push({
        path,
        mode: mode as '100644',
        blob: await this.blob(Buffer.from(await this.sim.source.blob(oid, 1e9)).toString()),
      });
    const source: Manifest['files'][number][] = [];
    if (layout.kind === 'app')
      for (const { path, mode, oid } of at.listing.entries)
        if (path.startsWith(`${layout.app.directory}/`))
          source.push({
            path,
            mode: mode as '100644',
            blob: await this.blob(Buffer.from(await this.sim.source.blob(oid, 1e9)).toString()),
          });
    const keys = Object.keys(content.secrets ?? {}).map((key) => ({ scope: `stack/${stack}`, key }));
    const sealed = Buffer.from(
      JSON.stringify(keys.map((one) => ({ ...one, value: content.secrets?.[one.key] }))),
    ).toString('base64');
    const manifest: Manifest = {
      format: 'windlass-archive',
      version: 1,
      madeAtMs: this.sim.clock.nowMs(),
      stack,
      purpose: 'backup',
      project: stack,
      group: null,
      node: 'local',
      runtime: 'compose',
      revision: null,
      spec: { apiVersion: 'windlass/v1', kind: 'Stack', hooks: declared.hooks },
      layout:
        layout.kind === 'compose'
          ? { kind: 'compose', directory: layout.directory, files: [...layout.files], profiles: [] }
          : { kind: 'app' },
      app:
        layout.kind === 'app'
          ? {
              name: layout.app.name,
              version: layout.app.version,
              catalog: { origin: 'fleet', directory: layout.app.directory },
              source,
            }
          : null,
      vars: Object.fromEntries(
        Object.entries(declared.vars).map(([name, value]) => [
          name,
          String(value).startsWith('@secret')
            ? { kind: 'secret' as const, scope: `stack/${stack}`, key: name }
            : { kind: 'plain' as const, value },
        ]),
      ),
      ports: {},
      replicas: {},
      integrate: Object.fromEntries(
        Object.entries(declared.integrate).map(([plug, provider]) => [plug, { provider, app: null }]),
      ),
      files,
      images: [],
      volumes: [...Object.keys(content.volumes), ...(content.left ?? [])].map((key) => ({
        key,
        name: `${stack}_${key}`,
        external: false,
        driver: 'local',
        driverOpts: {},
        labels: {},
        payload: Object.hasOwn(content.volumes, key) ? key : null,
      })),
      owners: [],
      vault: {
        keys,
        sealed: keys.length === 0 ? null : await this.blob(sealed),
        recipients: keys.length === 0 ? [] : ['age1controller'],
      },
      boot: { kind: 'single', why: 'its data is files' },
      restoreJobs: [],
      quiesced: [],
      payloads: [
        ...(await Promise.all(Object.entries(content.volumes).map(([key, text]) => this.payload('volume', key, text)))),
        ...(await Promise.all(
          Object.entries(content.folders ?? {}).map(([path, text]) => this.payload('bind', path, text)),
        )),
      ],
      notCaptured: [],
      engine: { version: '1', apiVersion: '1', composeVersion: '1' },
      windlass: '0.0.0',
      ...content.change,
    };
    const older = Object.fromEntries(
      Object.entries(manifest).filter(([key]) => !content.without?.includes(key as keyof Manifest)),
    );
    const { bytes } =
      content.without === undefined
        ? encodeManifest(manifest)
        : { bytes: Buffer.from(JSON.stringify(sortedDeep(older))) };
    return this.archives.putManifest(bytes, 'signed\n');
  }

  readonly backup = async (stack: string): Promise<string> => {
    const text = `safety ${this.safety.length}`;
    this.safety.push(stack);
    return sha(text);
  };

  dispose(): void {
    this.sim.dispose();
  }
}

/** Whatever else was thrown is thrown on. */
export async function faultOf(work: Promise<unknown>): Promise<Fault> {
  const error = await work.then(
    () => new Error('it did not fail'),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof Fault)) throw error;
  return error;
}

const sortedDeep = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sortedDeep)
    : typeof value === 'object' && value !== null
      ? Object.fromEntries(
          Object.entries(value)
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([key, one]) => [key, sortedDeep(one)]),
        )
      : value;

export { blobOid };
