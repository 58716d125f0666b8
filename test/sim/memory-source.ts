// A source in memory: commits are maps of path → text. Object ids are those of git, so that digests are stable.
import { createHash } from 'node:crypto';
import { Fault } from '../../src/core/fault.ts';
import type { Listing, TreeEntry } from '../../src/core/state/listing.ts';
import type { CommitFacts, SignedObject, Source, SourceSpec } from '../../src/ports/source.ts';

type Tree = Readonly<Record<string, string>>;

const oidOf = (kind: string, bytes: Buffer): string =>
  createHash('sha1').update(`${kind} ${bytes.length}\0`).update(bytes).digest('hex');

export class MemorySource implements Source {
  readonly spec: SourceSpec = { name: 'main', url: '/memory', ref: 'main' };
  readonly #blobs = new Map<string, Buffer>();
  readonly #commits = new Map<string, { facts: CommitFacts; listing: Listing }>();
  readonly pins = new Map<string, string>();
  head: string | null = null;
  reachable = true;
  #files: Tree = {};

  /** Files of the new tip; null removes. Returns the commit. */
  push(files: Readonly<Record<string, string | null>>, parents = this.head === null ? [] : [this.head]): string {
    const next: Record<string, string> = { ...this.#files };
    for (const [path, text] of Object.entries(files)) {
      if (text !== null) next[path] = text;
      else
        for (const known of Object.keys(next)) if (known === path || known.startsWith(`${path}/`)) delete next[known];
    }
    this.#files = next;
    const entries: TreeEntry[] = Object.entries(next).map(([path, text]) => {
      const bytes = Buffer.from(text);
      const oid = oidOf('blob', bytes);
      this.#blobs.set(oid, bytes);
      return { path, mode: '100644', oid };
    });
    entries.sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
    const folders = new Set(['']);
    for (const { path } of entries) {
      const parts = path.split('/');
      for (let depth = 1; depth < parts.length; depth++) folders.add(parts.slice(0, depth).join('/'));
    }
    const trees = new Map<string, string>();
    for (const folder of folders) {
      const below = entries.filter((entry) => folder === '' || entry.path.startsWith(`${folder}/`));
      trees.set(folder, oidOf('tree', Buffer.from(below.map((entry) => `${entry.path}\0${entry.oid}`).join('\n'))));
    }
    const id = oidOf('commit', Buffer.from(JSON.stringify([trees.get(''), parents, this.#commits.size])));
    const facts = {
      id,
      tree: trees.get('')!,
      parents,
      subject: 'change',
      author: 'Test <test@example.org>',
      committedAtMs: 0,
    };
    this.#commits.set(id, { facts, listing: { commit: id, entries, trees } });
    this.head = id;
    return id;
  }

  async fetch(): Promise<string> {
    if (!this.reachable) throw new Fault('GIT_UNREACHABLE', 'the source does not answer');
    if (this.head === null) throw new Fault('GIT_REF_MISSING', 'there is no commit yet');
    return this.head;
  }

  async tip(): Promise<string | null> {
    return this.head;
  }

  async commit(id: string): Promise<CommitFacts> {
    return this.#get(id).facts;
  }

  async descends(descendant: string, ancestor: string): Promise<boolean> {
    const open = [descendant];
    const seen = new Set<string>();
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      if (id === ancestor) return true;
      if (seen.has(id)) continue;
      seen.add(id);
      open.push(...this.#get(id).facts.parents);
    }
    return false;
  }

  async list(commit: string): Promise<Listing> {
    return this.#get(commit).listing;
  }

  async blob(oid: string, maxBytes: number): Promise<Uint8Array> {
    const bytes = this.#blobs.get(oid);
    if (!bytes) throw new Fault('GIT_OBJECT_MISSING', `there is no object ${oid}`, { data: { oid } });
    if (bytes.length > maxBytes) throw new Fault('GIT_TOO_LARGE', `object ${oid} has ${bytes.length} bytes`);
    return bytes;
  }

  /** Nothing here is signed. */
  async object(oid: string): Promise<SignedObject> {
    const { facts } = this.#get(oid);
    const parents = facts.parents.map((parent) => `parent ${parent}\n`).join('');
    return { oid, type: 'commit', bytes: Buffer.from(`tree ${facts.tree}\n${parents}\n${facts.subject}\n`) };
  }

  async commitsSince(tip: string, without: string | null): Promise<readonly string[]> {
    const seen = new Set([tip]);
    for (const id of seen) if (id !== without) for (const parent of this.#get(id).facts.parents) seen.add(parent);
    if (without !== null) seen.delete(without);
    return [...seen];
  }

  async tags(): Promise<readonly string[]> {
    return [];
  }

  async pin(keep: string, commit: string): Promise<void> {
    this.pins.set(keep, commit);
  }

  /** As when a branch was rewritten and its old commits were collected. */
  lose(commit: string): void {
    this.#commits.delete(commit);
  }

  async close(): Promise<void> {}

  #get(id: string): { facts: CommitFacts; listing: Listing } {
    const found = this.#commits.get(id);
    if (!found) throw new Fault('GIT_OBJECT_MISSING', `there is no commit ${id}`, { data: { oid: id } });
    return found;
  }
}
