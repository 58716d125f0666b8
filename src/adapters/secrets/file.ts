// `ref+file://path`: a file below one directory on the host of the controller. No link and no name leads out of it.
import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { Fault } from '../../core/fault.ts';
import type { SecretProvider } from '../../ports/secret-providers.ts';

export const MAX_SECRET_BYTES = 64 * 1024;

export interface FileSecretsInput {
  /** Null: nothing may be read. */
  readonly directory: string | null;
  readonly redactor: { add(value: string): void };
}

export function fileSecrets({ directory, redactor }: FileSecretsInput): SecretProvider {
  return {
    async read(path) {
      const refuse = (why: string): Fault =>
        new Fault('SECRET_REFUSED', `ref+file://${path.slice(0, 200)} ${why}`, { data: { path: path.slice(0, 200) } });
      if (directory === null)
        throw refuse('may not be read: name the directory of such files under secrets.directory in windlass.yaml');
      const parts = path.split('/');
      if (path.length > 1_000 || /[\\\u0000-\u001f\u007f]/.test(path) || parts.some((part) => /^\.{0,2}$/.test(part)))
        throw refuse('is no path below the directory of secrets: no leading /, no . or .. and no empty part');
      let root: string;
      let real: string;
      try {
        root = await realpath(directory);
      } catch (cause) {
        throw new Fault('FILES_FAILED', `the directory of secrets ${directory} cannot be read: ${codeOf(cause)}`, {
          cause,
        });
      }
      try {
        real = await realpath(join(root, ...parts));
      } catch (error) {
        if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return null;
        throw refuse(`cannot be read: ${codeOf(error)}`);
      }
      if (!real.startsWith(root + sep)) throw refuse(`leads out of ${directory} through a link`);
      const value = await readWhole(real, refuse);
      redactor.add(value);
      return value;
    },
  };
}

async function readWhole(real: string, refuse: (why: string) => Fault): Promise<string> {
  let file: FileHandle;
  try {
    // Without waiting for somebody who writes into a pipe.
    file = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    throw refuse(`cannot be read: ${codeOf(error)}`);
  }
  try {
    const facts = await file.stat();
    if (!facts.isFile()) throw refuse('is not a regular file');
    if (facts.size > MAX_SECRET_BYTES) throw refuse(`is larger than ${MAX_SECRET_BYTES} bytes`);
    // A folder on the way could have been exchanged for a link between the look and the opening.
    const again: Stats | null =
      (await realpath(real).catch(() => '')) === real ? await stat(real).catch(() => null) : null;
    if (again?.ino !== facts.ino || again.dev !== facts.dev) throw refuse('was exchanged while it was read: try again');
    const buffer = Buffer.alloc(MAX_SECRET_BYTES + 1);
    const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
    if (bytesRead > MAX_SECRET_BYTES) throw refuse(`is larger than ${MAX_SECRET_BYTES} bytes`);
    const text = textOf(buffer.subarray(0, bytesRead), () => refuse('is not UTF-8 text: store it in base64'));
    if (text === '') throw refuse('is empty');
    return text;
  } finally {
    await file.close();
  }
}

/** UTF-8, without the line end that editors and `echo` leave at the end. */
function textOf(bytes: Uint8Array, refusal: () => Fault): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes).replace(/\r?\n$/, '');
  } catch {
    throw refusal();
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? String(error);
}
