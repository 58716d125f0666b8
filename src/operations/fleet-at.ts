// The declared side of the corridor: a commit of the source, read by object id and loaded. Reads only; keeps what it parsed.

import { type LoadCache, load } from '../core/spec/load.ts';
import type { LoadedFleet, Text } from '../core/spec/loaded.ts';
import type { Listing } from '../core/state/listing.ts';
import type { Revision } from '../core/state/revision.ts';
import type { House } from './house.ts';

/** Specs larger than this are refused. Source: SPEC 2. */
export const SPEC_BYTES = 1024 * 1024;

const REVISIONS_KEPT = 3;

export interface FleetAt {
  readonly revision: Revision;
  readonly listing: Listing;
  readonly fleet: LoadedFleet;
}

export class FleetReader {
  readonly #house: House;
  readonly #cache: LoadCache = new Map();
  readonly #kept = new Map<string, FleetAt>();

  constructor(house: House) {
    this.#house = house;
  }

  /** What `commit` declares. The last few answers are kept. */
  async read(commit: string): Promise<FleetAt> {
    const known = this.#kept.get(commit);
    if (known) return known;
    const { source } = this.#house;
    const facts = await source.commit(commit);
    const listing = await source.list(commit);
    const byPath = new Map(listing.entries.map((entry) => [entry.path, entry]));
    const loading = load({ listing, bundled: this.#house.settings.bundled }, this.#cache);
    let step = loading.next();
    while (!step.done) {
      const texts = new Map<string, Text>();
      for (const path of step.value) texts.set(path, await this.#text(byPath.get(path)?.oid));
      step = loading.next(texts);
    }
    const at: FleetAt = {
      revision: {
        source: source.spec.name,
        ref: source.spec.ref.startsWith('refs/') ? source.spec.ref : `refs/heads/${source.spec.ref}`,
        commit,
        tree: facts.tree,
        subject: facts.subject,
        author: facts.author,
        committedAtMs: facts.committedAtMs,
        signer: null,
      },
      listing,
      fleet: step.value,
    };
    this.#kept.set(commit, at);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > REVISIONS_KEPT && oldest !== undefined) this.#kept.delete(oldest);
    return at;
  }

  async #text(oid: string | undefined): Promise<Text> {
    if (!oid) return { refused: 'missing' };
    let bytes: Uint8Array;
    try {
      bytes = await this.#house.source.blob(oid, SPEC_BYTES);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'GIT_TOO_LARGE') return { refused: 'too-large' };
      throw error;
    }
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch {
      return { refused: 'not-utf8' };
    }
  }
}
