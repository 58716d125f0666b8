// Reads objects with isomorphic-git, where there is no git client. Slower, and a packed object is unfolded before its
// size is known: the caps of the fetch are what bounds it.
import fs from 'node:fs';
import {
  checkedObject,
  type GitObject,
  missingObject,
  type ObjectReader,
  requireOid,
  tooLargeObject,
} from './object-reader.ts';

export class InProcessReader implements ObjectReader {
  readonly #mirrorDir: string;
  /** Indexes of packs, kept by isomorphic-git; a new one after each fetch would be read anew, so it is thrown away then. */
  #cache: object = {};

  constructor(mirrorDir: string) {
    this.#mirrorDir = mirrorDir;
  }

  async read(oid: string, maxBytes: number): Promise<GitObject> {
    requireOid(oid);
    const { readObject } = await import('isomorphic-git');
    const found = await readObject({ fs, gitdir: this.#mirrorDir, oid, format: 'content', cache: this.#cache }).catch(
      (error: unknown) => {
        throw missingObject(oid, error);
      },
    );
    const bytes: unknown = found.object;
    if (!(bytes instanceof Uint8Array)) throw missingObject(oid);
    if (bytes.length > maxBytes) throw tooLargeObject(oid, bytes.length, maxBytes);
    return checkedObject(oid, found.type, new Uint8Array(bytes));
  }

  async close(): Promise<void> {
    this.#cache = {};
  }
}
