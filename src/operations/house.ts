// House: the ports and settings that every operation is handed. Made once, in wire.ts.
import type { Window } from '../core/status/window.ts';
import type { ArchiveHouse } from '../ports/archive-house.ts';
import type { Clock } from '../ports/clock.ts';
import type { Files } from '../ports/files.ts';
import type { Net } from '../ports/net.ts';
import type { OneShots } from '../ports/one-shots.ts';
import type { Payloads } from '../ports/payloads.ts';
import type { Runtime } from '../ports/runtime.ts';
import type { SecretProviders } from '../ports/secret-providers.ts';
import type { Source } from '../ports/source.ts';
import type { Store } from '../ports/store.ts';
import type { TrustHouse } from '../ports/trust-house.ts';
import type { Envelope, Vault } from '../ports/vault.ts';

export interface Settings {
  /** Absolute. */
  readonly stateDir: string;
  /** How long a stack must stay well before a deploy counts, and how often it is looked at in that time. */
  readonly settleMs: number;
  readonly settleSamples: number;
  /** Share of the stacks, 0–1, that may vanish at once before prune waits for a person. */
  readonly pruneLimit: number;
  readonly concurrency: number;
  /** Of a deploy, where its stack names none. */
  readonly timeoutMs: number;
  /** When changes may be made to stacks that name no windows; empty = always. */
  readonly windows: readonly Window[];
  /** Of Windlass itself. */
  readonly version: string;
  /** By name; `local` is always there. */
  readonly nodes: Readonly<Record<string, NodeFacts>>;
  /** Bundled apps: path below `apps/` → text. */
  readonly bundled: Readonly<Record<string, string>>;
  /** Told to people as the writer of leases: host and process. */
  readonly owner: string;
  /** Is the writer of a lease known to have ended? False when it cannot be told (another host). */
  readonly hasEnded: (owner: string) => boolean;
}

/** What is known of an engine; for runtime refs. */
export type NodeFacts = Readonly<Partial<Record<'id' | 'ip' | 'mesh-ip' | 'internal-ip' | 'hostname', string>>>;

export interface House {
  readonly clock: Clock;
  readonly files: Files;
  readonly runtime: Runtime;
  /** Jobs of hooks. */
  readonly oneShots: OneShots;
  readonly net: Net;
  readonly store: Store;
  /** Volumes as streams; null where they cannot be reached. */
  readonly payloads: Payloads | null;
  readonly archives: ArchiveHouse | null;
  readonly trust: TrustHouse | null;
  readonly vault: Vault | null;
  /** Where other secret refs than the vault's are read. */
  readonly providers?: SecretProviders;
  /** Seals secrets that leave and opens those that come. */
  readonly envelope?: Envelope;
  readonly source: Source;
  readonly settings: Settings;
  /** Removes secrets by value from anything that goes out. */
  readonly redact: (text: string) => string;
  /** From now on `redact` removes this value. */
  readonly hide: (value: string) => void;
}
