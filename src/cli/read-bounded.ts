// Reads a file that a person named, up to a size. Its refusal is a mistake in the words, and never repeats what was read.
import { open } from 'node:fs/promises';
import { UsageError } from './command.ts';

export async function readBounded(path: string, maxBytes: number, what: string): Promise<Buffer> {
  try {
    const file = await open(path, 'r');
    try {
      const chunks: Buffer[] = [];
      let size = 0;
      for await (const chunk of file.createReadStream({ autoClose: false }) as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > maxBytes) throw new UsageError(`${path} is too large for ${what}`);
        chunks.push(chunk);
      }
      return Buffer.concat(chunks);
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code ?? String(error)}`);
  }
}
