// Tree: one commit's listing, asked by path and by folder. Relies on the listing's order: what lies below a folder stands together.
import type { Listing, TreeEntry } from '../state/listing.ts';
import { dirname, isBelow } from './repository-path.ts';

export class Tree {
  readonly listing: Listing;
  readonly #byPath = new Map<string, TreeEntry>();
  /** Folder → from, to (exclusive). */
  readonly #ranges = new Map<string, { from: number; to: number }>();

  constructor(listing: Listing) {
    this.listing = listing;
    for (const [index, entry] of listing.entries.entries()) {
      this.#byPath.set(entry.path, entry);
      for (let folder = dirname(entry.path); ; folder = dirname(folder)) {
        const range = this.#ranges.get(folder);
        if (!range) this.#ranges.set(folder, { from: index, to: index + 1 });
        else range.to = index + 1;
        if (folder === '') break;
      }
    }
  }

  entry(path: string): TreeEntry | null {
    return this.#byPath.get(path) ?? null;
  }

  hasFolder(path: string): boolean {
    return this.#ranges.has(path);
  }

  folders(): IterableIterator<string> {
    return this.#ranges.keys();
  }

  /** Every entry below a folder. */
  below(folder: string): readonly TreeEntry[] {
    const range = this.#ranges.get(folder);
    if (!range) return [];
    const entries = this.listing.entries.slice(range.from, range.to);
    return entries.every((entry) => isBelow(entry.path, folder))
      ? entries
      : entries.filter((entry) => isBelow(entry.path, folder));
  }

  /** What identifies a path's content: kind and object id; '' when nothing is there. */
  identity(path: string): string {
    const entry = this.#byPath.get(path);
    if (entry) return `${entry.mode} ${entry.oid}`;
    const tree = this.listing.trees.get(path);
    if (tree !== undefined) return `tree ${tree}`;
    // A listing without tree ids still has an identity, only a longer one.
    return this.hasFolder(path)
      ? `list ${this.below(path)
          .map((one) => `${one.path} ${one.mode} ${one.oid}`)
          .join('\n')}`
      : '';
  }
}
