// Zstd streams: bytes in, bytes out, memory flat, the same output for the same input whatever pieces it came in. Nothing is judged
// but the form of the compressed bytes.
import { pipeline, type Transform } from 'node:stream';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import { Fault } from '../../core/fault.ts';

const BLOCK_BYTES = 256 * 1024;

/** The error of `plain` is the error of the answer. */
export async function* compressed(plain: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const zstd = createZstdCompress({
    chunkSize: BLOCK_BYTES,
    params: { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_checksumFlag]: 1 },
  });
  const feeding = feed(plain, zstd);
  feeding.catch((error: unknown) => zstd.destroy(error as Error));
  try {
    yield* zstd as AsyncIterable<Buffer>;
    await feeding;
  } finally {
    zstd.destroy();
    // Until the source has ended too: what it started is gone then.
    await feeding.catch(() => {});
  }
}

/** PAYLOAD_CORRUPT when it is not zstd, or not all of it; more than `maxBytes` are never made. */
export async function* decompressed(blob: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Buffer> {
  const zstd = createZstdDecompress({
    chunkSize: BLOCK_BYTES,
    // Ours need 2^21; one that asks for more wants our memory.
    params: { [constants.ZSTD_d_windowLogMax]: 24 },
  });
  let sizeBytes = 0;
  try {
    for await (const chunk of through(blob, zstd)) {
      sizeBytes += chunk.length;
      if (sizeBytes > maxBytes) throw tooLarge(maxBytes);
      yield chunk;
    }
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? '';
    if (!/^(?:ZSTD_|Z_|ERR_ZSTD)/.test(code)) throw cause;
    throw new Fault('PAYLOAD_CORRUPT', `the stored payload cannot be decompressed: ${(cause as Error).message}`, {
      data: { rule: 'ZSTD' },
      cause,
    });
  }
}

export const tooLarge = (maxBytes: number): Fault =>
  new Fault('PAYLOAD_CORRUPT', `the payload holds more than the ${maxBytes} bytes that its record names`, {
    data: { rule: 'SIZE' },
  });

async function* through(source: AsyncIterable<Uint8Array>, transform: Transform): AsyncGenerator<Buffer> {
  // Its error arrives through the transform, which it destroys.
  pipeline(source, transform, () => {});
  yield* transform as AsyncIterable<Buffer>;
}

/**
 * In few and equal pieces, since each one is a trip to another thread: one is filled while the other is compressed, and none is
 * filled again before the stream has said that it is done with it.
 */
async function feed(source: AsyncIterable<Uint8Array>, zstd: Transform): Promise<void> {
  let block = Buffer.allocUnsafe(BLOCK_BYTES);
  let other = Buffer.allocUnsafe(BLOCK_BYTES);
  let filled = 0;
  let writing: Promise<void> = Promise.resolve();
  const write = (bytes: Buffer): Promise<void> =>
    new Promise((resolve, reject) => zstd.write(bytes, (error) => (error ? reject(error) : resolve())));
  for await (const chunk of source) {
    let at = 0;
    while (at < chunk.length) {
      const take = Math.min(BLOCK_BYTES - filled, chunk.length - at);
      block.set(chunk.subarray(at, at + take), filled);
      filled += take;
      at += take;
      if (filled < BLOCK_BYTES) continue;
      await writing;
      if (zstd.destroyed) return;
      writing = write(block);
      writing.catch(() => {});
      [block, other] = [other, block];
      filled = 0;
    }
  }
  await writing;
  if (filled > 0) await write(block.subarray(0, filled));
  zstd.end();
}
