// Archive source: a source that also knows commits which were made from archives, so that a restored stack is rendered, deployed, backed up
// and rolled back by the code that does so for commits of git. Everything that it does not know is asked of the source behind it.
import { createHash } from 'node:crypto';
import { Fault } from '../../core/fault.ts';
import type { Generation, Variant } from '../../core/render/variant.ts';
import type { Listing, TreeEntry } from '../../core/state/listing.ts';
import { canonicalJson } from '../../engine/digest.ts';
import type { ArchiveStore } from '../../ports/archive.ts';
import type { CommitFacts, SignedObject, Source } from '../../ports/source.ts';
import type { Store } from '../../ports/store.ts';

/** A file of a made commit: out of the archive by its digest, written here as text, or an object of the source behind. */
export interface MadeFile {
  readonly path: string;
  readonly mode: '100644' | '100755' | '120000';
  /** As git would call it. */
  readonly oid: string;
  readonly blob?: { readonly digest: string; readonly sizeBytes: number };
  readonly text?: string;
}

/** Plain JSON without secrets. */
export interface MadeCommit {
  readonly archive: string;
  /** The stack that it declares. */
  readonly stack: string;
  readonly subject: string;
  readonly madeAtMs: number;
  readonly files: readonly MadeFile[];
  readonly ports?: Variant['ports'];
  readonly isolated?: boolean;
  readonly enclosed?: Variant['enclosed'];
  /** Variables that its document takes out of the vault → how the original asked to have them minted. */
  readonly minted?: Readonly<Record<string, string>>;
}

const madeKey = (commit: string): string => `restored/${commit}`;

const sha1 = (bytes: string | Uint8Array): string => createHash('sha1').update(bytes).digest('hex');

export const blobOid = (bytes: Uint8Array): string =>
  createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');

/** The same content has the same id. */
export const commitIdOf = (made: MadeCommit): string => sha1(`windlass-made ${canonicalJson(made)}`);

export const textFile = (path: string, text: string): MadeFile => ({
  path,
  mode: '100644',
  oid: blobOid(Buffer.from(text)),
  text,
});

export const putMade = (store: Store, made: MadeCommit): string => {
  const commit = commitIdOf(made);
  store.putValue(madeKey(commit), made);
  return commit;
};

export const madeCommit = (store: Store, commit: string): MadeCommit | null =>
  (store.value(madeKey(commit)) as MadeCommit | undefined) ?? null;

/** Those of a stack that nothing refers to any more. */
export function forgetMade(store: Store, stack: string, needed: ReadonlySet<string>): void {
  for (const [key, made] of store.values('restored/')) {
    const commit = key.slice('restored/'.length);
    if ((made as MadeCommit).stack === stack && !needed.has(commit)) store.deleteValue(key);
  }
}

/** Pins of archives that no made commit needs any more. */
export function releaseMadePins(store: Store): void {
  const needed = new Set(([...store.values('restored/').values()] as MadeCommit[]).map((one) => one.archive));
  for (const [key, why] of store.values('archive-pin/'))
    if (/ is restored from it$/.test(String(why)) && !needed.has(key.slice('archive-pin/'.length)))
      store.deleteValue(key);
}

export class ArchiveSource implements Source {
  readonly #behind: Source;
  readonly #store: Store;
  readonly #archives: ArchiveStore;
  readonly #offered = new Map<string, { readonly made: MadeCommit; readonly generation: Generation | null }>();
  readonly #byOid = new Map<string, MadeFile>();
  readonly #known = new Map<string, MadeCommit>();

  constructor(behind: Source, store: Store, archives: ArchiveStore) {
    this.#behind = behind;
    this.#store = store;
    this.#archives = archives;
  }

  /** For a plan: known to this object alone, on this generation. Returns its id. */
  offer(made: MadeCommit, generation: Generation | null): string {
    const commit = commitIdOf(made);
    this.#offered.set(commit, { made, generation });
    return commit;
  }

  get spec() {
    return this.#behind.spec;
  }

  fetch(signal?: AbortSignal): Promise<string> {
    return this.#behind.fetch(signal);
  }

  tip(): Promise<string | null> {
    return this.#behind.tip();
  }

  async commit(id: string): Promise<CommitFacts> {
    const made = this.#made(id);
    if (!made) return this.#behind.commit(id);
    const { subject, madeAtMs: committedAtMs } = made;
    return { id, tree: sha1(`tree ${id}`), parents: [], subject, author: '', committedAtMs };
  }

  async descends(descendant: string, ancestor: string): Promise<boolean> {
    if (this.#made(descendant) || this.#made(ancestor)) return descendant === ancestor;
    return this.#behind.descends(descendant, ancestor);
  }

  async list(commit: string): Promise<Listing> {
    const made = this.#made(commit);
    return made ? listingOf(commit, made.files) : this.#behind.list(commit);
  }

  async blob(oid: string, maxBytes: number): Promise<Uint8Array> {
    let file = this.#byOid.get(oid);
    if (!file)
      try {
        return await this.#behind.blob(oid, maxBytes);
      } catch (error) {
        this.#index();
        file = this.#byOid.get(oid);
        if (!file) throw error;
      }
    const { path } = file;
    const tooLarge = (size: number) => new Fault('GIT_TOO_LARGE', `${path} has ${size} bytes`);
    if (file.text !== undefined) {
      const bytes = Buffer.from(file.text);
      if (bytes.length > maxBytes) throw tooLarge(bytes.length);
      return bytes;
    }
    const { digest, sizeBytes } = file.blob!;
    if (sizeBytes > maxBytes) throw tooLarge(sizeBytes);
    const bytes = await readWhole(this.#archives, digest, sizeBytes);
    if (blobOid(bytes) !== oid) throw new Fault('ARCHIVE_DAMAGED', `${path} is not what it was`);
    return bytes;
  }

  object(oid: string): Promise<SignedObject> {
    return this.#behind.object(oid);
  }

  commitsSince(tip: string, without: string | null, most: number): Promise<readonly string[]> {
    return this.#behind.commitsSince(tip, without, most);
  }

  tags(): Promise<readonly string[]> {
    return this.#behind.tags();
  }

  /** What a made commit needs is kept by the archive store. */
  async pin(keep: string, commit: string): Promise<void> {
    if (!this.#made(commit)) await this.#behind.pin(keep, commit);
  }

  variant(commit: string): Variant | null {
    const made = this.#made(commit);
    if (!made) return this.#behind.variant?.(commit) ?? null;
    const generation = this.#offered.get(commit)?.generation ?? null;
    const { ports, isolated, enclosed } = made;
    return {
      ...(ports ? { ports } : {}),
      ...(isolated ? { isolated } : {}),
      ...(enclosed ? { enclosed } : {}),
      ...(generation ? { generation } : {}),
    };
  }

  close(): Promise<void> {
    return this.#behind.close();
  }

  #made(commit: string): MadeCommit | null {
    const offered = this.#offered.get(commit)?.made;
    if (offered) return offered;
    const known = this.#known.get(commit);
    if (known) return known;
    const made = madeCommit(this.#store, commit);
    if (made) this.#known.set(commit, made);
    return made;
  }

  /** Of every made commit there is: providers lend their files to each other. */
  #index(): void {
    const all = [
      ...[...this.#offered.values()].map(({ made }) => made),
      ...([...this.#store.values('restored/').values()] as MadeCommit[]),
    ];
    for (const { files } of all)
      for (const file of files) if (file.text !== undefined || file.blob) this.#byOid.set(file.oid, file);
  }
}

export async function readWhole(
  archives: ArchiveStore,
  digest: string,
  sizeBytes: number,
  signal?: AbortSignal,
): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of archives.readBlob(digest, signal)) {
    size += chunk.length;
    if (size > sizeBytes) throw new Fault('ARCHIVE_DAMAGED', `the blob ${digest} is longer than its manifest says`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function listingOf(commit: string, files: readonly MadeFile[]): Listing {
  const entries: TreeEntry[] = files.map(({ path, mode, oid }) => ({ path, mode, oid }));
  entries.sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
  const below = new Map<string, string[]>([['', []]]);
  for (const { path, mode, oid } of entries) {
    const parts = path.split('/');
    for (let depth = 0; depth < parts.length; depth++) {
      const folder = parts.slice(0, depth).join('/');
      const list = below.get(folder) ?? [];
      list.push(`${mode} ${path.slice(folder === '' ? 0 : folder.length + 1)} ${oid}`);
      below.set(folder, list);
    }
  }
  // No trees of git, but equal exactly when what lies below is equal.
  const trees = new Map([...below].map(([folder, list]) => [folder, sha1(`made tree\n${list.join('\n')}`)]));
  return { commit, entries, trees };
}
