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
  yield* through(inBlocks(plain), zstd);
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
      if (sizeBytes > maxBytes) {
        throw new Fault('PAYLOAD_CORRUPT', `the payload holds more than the ${maxBytes} bytes that its record names`, {
          data: { rule: 'SIZE' },
        });
      }
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

async function* through(source: AsyncIterable<Uint8Array>, transform: Transform): AsyncGenerator<Buffer> {
  // Its error arrives through the transform, which it destroys.
  pipeline(source, transform, () => {});
  yield* transform as AsyncIterable<Buffer>;
}

/** Few and equal pieces: each one is a trip to another thread. */
async function* inBlocks(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let block = Buffer.allocUnsafe(BLOCK_BYTES);
  let filled = 0;
  for await (const chunk of source) {
    let at = 0;
    while (at < chunk.length) {
      const take = Math.min(BLOCK_BYTES - filled, chunk.length - at);
      block.set(chunk.subarray(at, at + take), filled);
      filled += take;
      at += take;
      if (filled < BLOCK_BYTES) continue;
      yield block;
      // The one before may still be read by the other thread.
      block = Buffer.allocUnsafe(BLOCK_BYTES);
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}
