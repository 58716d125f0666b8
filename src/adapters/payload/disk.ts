// Disk: how much room there is where payloads will lie, as far as this process can see it. It reserves nothing.
import { stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Disk } from '../../ports/payloads.ts';

/** Of the next folder that is there; null when it may not be looked at. */
export async function diskAt(folder: string): Promise<Disk | null> {
  for (let path = folder; ; path = dirname(path))
    try {
      const { dev } = await stat(path);
      const { bavail, bsize } = await statfs(path);
      return { id: String(dev), path, freeBytes: bavail * bsize };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || path === dirname(path)) return null;
    }
}
