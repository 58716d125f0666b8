// Drill record: what is on disk of rehearsals: the one under way, with everything that it may have made, and how the last one of a stack went.
import type { Store } from '../../ports/store.ts';

/** On disk as `drilling/<id>` from before the first change until everything is taken away. */
export interface DrillingRecord {
  readonly id: string;
  readonly stack: string;
  readonly startedAtMs: number;
  /** Needed until its end. */
  readonly archives: readonly string[];
  /** Projects that it may have made, in their order. */
  readonly names: readonly string[];
  /** Why each archive was kept before; null = nobody needed it. */
  readonly pinsBefore: Readonly<Record<string, string | null>>;
}

/** On disk as `last-drill/<stack>`. */
export interface LastDrill {
  /** '' when there was none. */
  readonly archive: string;
  readonly outcome: 'verified' | 'failed';
  /** Of the fault; '' when all is well. */
  readonly code: string;
  /** Redacted. */
  readonly message: string;
  readonly atMs: number;
  readonly durationMs: number;
}

export const drillKey = (id: string): string => `drilling/${id}`;
export const drillingRecords = (store: Store): readonly DrillingRecord[] =>
  [...store.values('drilling/').values()] as DrillingRecord[];

export const lastDrillKey = (stack: string): string => `last-drill/${stack}`;
export const lastDrill = (store: Store, stack: string): LastDrill | null =>
  (store.value(lastDrillKey(stack)) as LastDrill | undefined) ?? null;

/** On disk: the archive of the last drill that ended well, and when. */
export const lastVerifiedKey = (stack: string): string => `last-verified/${stack}`;

/** When a drill with the archive last ended well. */
export const drilledKey = (archive: string): string => `archive-drilled/${archive}`;
export const drilledAtMs = (store: Store, archive: string): number | null =>
  (store.value(drilledKey(archive)) as number | undefined) ?? null;
