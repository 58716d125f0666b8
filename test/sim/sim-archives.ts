// Archives for a simulated house: volumes that are maps of path → text, read as one stream each, and a real archive store in its folder.
// After `crash()` of the house it is given out again, over the same volumes and the same disk.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { exportArchive, importArchive } from '../../src/adapters/archive/bak.ts';
import { DirStore } from '../../src/adapters/archive/dir-store.ts';
import { checkSignature, openSigningKey } from '../../src/adapters/archive/signing.ts';
import { readThrough, writeWhole } from '../../src/adapters/files/whole-file.ts';
import { Fault } from '../../src/core/fault.ts';
import { TRUSTED_KEYS } from '../../src/operations/archive/archives.ts';
import type { House } from '../../src/operations/house.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import type { ArchiveHouse } from '../../src/ports/archive-house.ts';
import type { PayloadSource, Payloads } from '../../src/ports/payloads.ts';
import type { SimHouse } from './sim-house.ts';

const sha256 = (text: string | Uint8Array): string => createHash('sha256').update(text).digest('hex');
const nameOf = (source: PayloadSource): string => (source.kind === 'volume' ? source.name : source.path);

export class SimArchives {
  /** By the engine's name of the volume, or the folder's path. */
  readonly volumes = new Map<string, Record<string, string>>();
  /** What a reading of this volume fails with, in its middle. */
  readonly broken = new Map<string, Fault>();
  /** Called in the middle of each reading. */
  during: (name: string) => void | Promise<void> = () => {};
  readonly read: string[] = [];
  /** What was asked to be left out of what. */
  readonly excluded = new Map<string, readonly string[]>();
  /** Below the house's state directory. */
  readonly directory: string;
  readonly #sim: SimHouse;

  constructor(sim: SimHouse) {
    this.#sim = sim;
    this.directory = join(sim.dir, 'archives');
    this.open();
  }

  /** Into the house, with `more` of it; again after each crash. */
  open(more: Partial<House> = {}): void {
    this.#sim.house = { ...this.#sim.house, payloads: this.payloads(), archives: this.#archives(), ...more };
    this.#sim.bench = new Workbench(this.#sim.house);
  }

  /** Relative paths of all that lies in the store, with their bytes. */
  files(folder = this.directory): ReadonlyMap<string, Buffer> {
    const found = new Map<string, Buffer>();
    if (!existsSync(folder)) return found;
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true }))
      if (entry.isFile())
        found.set(
          join(entry.parentPath, entry.name).slice(folder.length + 1),
          readFileSync(join(entry.parentPath, entry.name)),
        );
    return found;
  }

  payloads(): Payloads {
    const refuse = () => Promise.reject(new Fault('PAYLOAD_NO_WAY', 'nothing is written here'));
    return {
      read: (source, { exclude = [] }) => {
        const name = nameOf(source);
        this.excluded.set(name, exclude);
        const {
          promise: done,
          resolve,
          reject,
        } = Promise.withResolvers<Awaited<ReturnType<Payloads['read']>['done']>>();
        done.catch(() => {});
        const self = this;
        async function* stream(): AsyncGenerator<Uint8Array> {
          try {
            self.read.push(name);
            const files = self.volumes.get(name);
            if (!files) throw new Fault('PAYLOAD_MISSING', `there is no volume ${name}`);
            const text = JSON.stringify(files);
            yield Buffer.from(text.slice(0, text.length >> 1));
            await self.during(name);
            const wrong = self.broken.get(name);
            if (wrong) throw wrong;
            yield Buffer.from(text.slice(text.length >> 1));
            resolve({
              plainDigest: sha256(text),
              plainBytes: text.length,
              entries: { count: Object.keys(files).length, digest: sha256(Object.keys(files).join('\n')) },
              root: { uid: 0, gid: 0, mode: '0755' },
              way: 'host-path',
              notCaptured: [],
            });
          } catch (error) {
            reject(error);
            throw error;
          }
        }
        return { stream: stream(), done };
      },
      write: refuse,
      createVolume: refuse,
      removeVolume: refuse,
      inspectVolume: async (name) =>
        this.volumes.has(name)
          ? { name, driver: 'local', driverOpts: {}, labels: {}, mountpoint: `/volumes/${name}`, createdAt: '1' }
          : null,
      volumeSizeBytes: async () => null,
      diskOf: async () => null,
      sweepHelpers: async () => [],
      close() {},
    };
  }

  #archives(): ArchiveHouse {
    const store = new DirStore({ directory: this.directory, nowMs: () => this.#sim.clock.nowMs() });
    const key = openSigningKey(this.#sim.dir);
    const check = (bytes: Uint8Array, signature: string, also: readonly string[] = []): string =>
      checkSignature(bytes, signature, [
        key.publicKey,
        ...also,
        ...((this.#sim.house.store.value(TRUSTED_KEYS) as readonly string[] | undefined) ?? []),
      ]);
    return {
      store,
      sign: (bytes) => key.sign(bytes),
      check,
      exportTo: (id, path, signal) => writeWhole(path, exportArchive(store, id, signal), signal),
      importFrom: (path, signal, also) =>
        importArchive(store, readThrough(path), {
          signal,
          check: (bytes, signature) => void check(bytes, signature, also),
        }),
      recipients: [],
    };
  }
}
