// Loaded: what a commit declares, after reading and checking, before rendering. Plain data; diagnostics say what could not be read.
import type { OnFileChange } from '../state/desired.ts';
import type { Listing, TreeEntry } from '../state/listing.ts';
import type { Diagnostic, Place } from './diagnostic.ts';
import type { Job } from './job.ts';

/** A document's text, or why there is none. */
export type Text = string | { readonly refused: 'missing' | 'too-large' | 'not-utf8' | 'not-a-file' };

export type Drift = 'heal' | 'warn' | 'off';
export type OnFailure = 'hold' | 'rollback';

export interface LoadedApp {
  readonly name: string;
  readonly version: string;
  /** `apps/<name>` in the repository, or of the bundled catalog. */
  readonly origin: 'fleet' | 'bundled';
  readonly directory: string;
  /** The validated app.yaml. */
  readonly spec: Readonly<Record<string, unknown>>;
  /** The Compose template. */
  readonly template: { readonly path: string; readonly text: string };
  /** Other templates and plain files by path below the app's folder (jobs, backup.yaml, files/…). */
  readonly texts: Readonly<Record<string, string>>;
}

export type Layout =
  /** A plain Compose project: Compose resolves `files` (repository paths, in order) in `directory` ('' = root). */
  | {
      readonly kind: 'compose';
      readonly directory: string;
      readonly files: readonly string[];
      readonly profiles: readonly string[];
    }
  /** An instance of an app: the template is rendered to one Compose text. */
  | { readonly kind: 'app'; readonly app: LoadedApp };

export interface LoadedStack {
  readonly name: string;
  readonly place: Place;
  readonly layout: Layout;
  /** Everything that belongs into the project folder, paths from the repository's root. */
  readonly files: readonly TreeEntry[];
  /** SHA-256 of all that this stack reads from the commit: equal digest = nothing to render again. */
  readonly sourceDigest: string;
  readonly group: string | null;
  readonly vars: Readonly<Record<string, unknown>>;
  /** plug → provider stack. */
  readonly integrate: Readonly<Record<string, string>>;
  /** service → extra publishes, Compose short syntax. */
  readonly ports: Readonly<Record<string, readonly string[]>>;
  readonly replicas: Readonly<Record<string, number>>;
  readonly node: string;
  readonly runtime: 'compose' | 'swarm';
  readonly suspend: { readonly reason: string; readonly untilMs: number } | null;
  readonly drift: Drift;
  readonly prune: boolean;
  readonly adopt: boolean;
  readonly onFailure: OnFailure;
  /** Null = as the controller is configured. */
  readonly timeoutMs: number | null;
  /** Empty = as the controller is configured. */
  readonly windows: readonly { readonly allow: string; readonly durationMs: number; readonly timezone: string }[];
  /** Validated `hooks:` of the app and then of the stack, phase → actions. */
  readonly hooks: Readonly<Record<string, readonly unknown[]>>;
  /** The checked `<name>.job.yaml` that hooks may name. */
  readonly jobs: Readonly<Record<string, Job>>;
  readonly backup: unknown;
  /** `x-windlass` of the Compose services, by service; Compose itself drops it. */
  readonly extensions: Readonly<Record<string, { readonly onFileChange?: OnFileChange; readonly oneShot?: boolean }>>;
  readonly warnings: readonly Diagnostic[];
}

export interface LoadedFleet {
  readonly commit: string;
  /** By name. */
  readonly stacks: ReadonlyMap<string, LoadedStack>;
  /** Stacks that are declared but cannot be read: name → why. They are never taken for gone. */
  readonly broken: ReadonlyMap<string, readonly Diagnostic[]>;
  /** About the fleet as a whole; an error here means that nothing may be removed. */
  readonly diagnostics: readonly Diagnostic[];
  /** Names in dependency order; stacks of one layer do not depend on each other. */
  readonly layers: readonly (readonly string[])[];
}

/** The loader is a coroutine: it yields the repository paths that it wants to read and is resumed with their texts, so that it stays pure. */
export type Loading = Generator<readonly string[], LoadedFleet, ReadonlyMap<string, Text>>;

export interface LoadInput {
  readonly listing: Listing;
  /** Bundled apps: path below `apps/` → text, for example `postgres/app.yaml`. */
  readonly bundled: Readonly<Record<string, string>>;
}
