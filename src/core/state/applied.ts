// Applied: what was last deployed of a stack and what it looked like when it had settled. Kept in the state store, never on containers.
import type { Desired } from './desired.ts';

export type Role = 'running' | 'completed';

export interface Applied {
  readonly stack: string;
  readonly project: string;
  readonly desired: Desired;
  /** Where the revision came from, to render it again for a rollback. */
  readonly source: string;
  readonly revision: string;
  readonly atMs: number;
  /** Image id that each service's tag named when it was deployed. */
  readonly imageIds: Readonly<Record<string, string>>;
  /** How each service settled. */
  readonly roles: Readonly<Record<string, Role>>;
  /** May its containers be removed when it leaves the fleet. */
  readonly prune: boolean;
  /** Digest of its hooks; '' = none; absent in records of before. They are no part of what is desired, but of what an uninstall runs. */
  readonly hooks?: string;
}

/** A try that has not ended well yet: which digest, which hook phases are done, since when. */
export interface Attempt {
  readonly stack: string;
  readonly digest: string;
  readonly revision: string;
  readonly count: number;
  readonly startedAtMs: number;
  /** What the hooks take it for; absent in records of before. */
  readonly operation?: 'install' | 'update' | 'scale' | 'rollback' | 'restore' | 'heal';
  readonly completedPhases: readonly string[];
  /** Set once converge succeeded: only settle and post hooks remain. */
  readonly converged: boolean;
  /** Set before the first call of converge, and kept by the tries that follow: what runs may be no longer what is on record as deployed. */
  readonly touched?: boolean;
  readonly lastFault: { readonly code: string; readonly message: string } | null;
}

/** What a person said about a stack from the command line. */
export interface Hold {
  readonly kind: 'suspended' | 'stopped' | 'held';
  readonly reason: string;
  readonly sinceMs: number;
  /** 0 = until resumed. */
  readonly untilMs: number;
  /** Only for one service of the stack; '' = all. */
  readonly service: string;
  /** It ends by itself when the stack is declared otherwise than by this digest of its source. */
  readonly whileDeclared?: string;
  /** What an operation on data left behind: it keeps what was `restored` from what git declares, a stack that was to come back from an archive
   * and did not (`unrestored`) from being made empty, or one that is or was `moved` from coming up beside its new name. */
  readonly because?: 'restored' | 'unrestored' | 'moved';
}
