// Whole file: a large file that is there as a whole or not at all, and one that is read from its beginning to its end.
import { constants } from 'node:fs';
import { link, open, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Fault } from '../../core/fault.ts';

/** Throws USAGE when `path` is taken, FILES_FAILED when the disk refuses; what the source throws is thrown on. */
export async function writeWhole(
  path: string,
  source: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<{ readonly sizeBytes: number }> {
  const part = `${path}.part-${process.pid}`;
  let sizeBytes = 0;
  try {
    const file = await open(part, 'wx', 0o600);
    try {
      for await (const chunk of source) {
        signal.throwIfAborted();
        await file.writeFile(chunk);
        sizeBytes += chunk.length;
      }
      await file.sync();
    } finally {
      await file.close();
    }
    // A link is refused where a rename would replace.
    await link(part, path);
    const folder = await open(dirname(path), 'r');
    await folder.sync().finally(() => folder.close());
    return { sizeBytes };
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === 'EEXIST') throw new Fault('USAGE', `${path} is there already; name another file`);
    if (error instanceof Fault || code === undefined) throw error;
    throw new Fault('FILES_FAILED', `${path} cannot be written: ${(error as Error).message}`, { cause: error });
  } finally {
    await rm(part, { force: true });
  }
}

/** Throws FILES_FAILED when it cannot be read, or is no regular file. */
export async function* readThrough(path: string): AsyncGenerator<Uint8Array> {
  try {
    // Without O_NONBLOCK the opening of a pipe waits for its writer, and nothing ends that.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      if (!(await file.stat()).isFile()) throw new Fault('FILES_FAILED', `${path} is no regular file`);
      yield* file.createReadStream({ highWaterMark: 1024 * 1024, autoClose: false }) as AsyncIterable<Uint8Array>;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof Fault || typeof (error as { code?: string }).code !== 'string') throw error;
    throw new Fault('FILES_FAILED', `${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}
