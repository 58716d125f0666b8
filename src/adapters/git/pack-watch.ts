// Watches how much a fetch brings in, while it does: git itself has no limit for it.
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

const LOOK_MS = 100;

export interface PackWatch {
  /** Bytes that came in since the start. */
  sizeBytes(): Promise<number>;
  /** Takes away the packs that came in since the start. */
  discard(): Promise<void>;
  /** How many packs there are now. */
  count(): Promise<number>;
  stop(): void;
}

/** Calls `onTooMuch` once when more than `maxBytes` have come in. */
export async function watchPacks(mirrorDir: string, maxBytes: number, onTooMuch: () => void): Promise<PackWatch> {
  const folder = join(mirrorDir, 'objects', 'pack');
  const before = new Set(await readdir(folder).catch(() => []));
  const added = async (): Promise<readonly string[]> =>
    (await readdir(folder).catch(() => [])).filter((name) => !before.has(name));
  const sizeBytes = async (): Promise<number> => {
    let sum = 0;
    for (const name of await added()) {
      if (!/^tmp_pack|\.pack$|\.temp$/.test(name)) continue;
      sum += (await stat(join(folder, name)).catch(() => null))?.size ?? 0;
    }
    return sum;
  };
  const timer = setInterval(() => {
    void sizeBytes().then((size) => {
      if (size <= maxBytes) return;
      clearInterval(timer);
      onTooMuch();
    });
  }, LOOK_MS).unref();
  return {
    sizeBytes,
    discard: async () => {
      for (const name of await added()) await rm(join(folder, name), { force: true });
    },
    count: async () => (await readdir(folder).catch(() => [])).filter((name) => name.endsWith('.pack')).length,
    stop: () => clearInterval(timer),
  };
}
