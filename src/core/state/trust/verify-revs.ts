// verifyRevs: what `windlass trust verify` and other callers run over many revs: roots parsed once, one judgement a rev.
// Reading the repository is the caller's function; nothing here opens a file.

import { type Judgement, type JudgeOptions, judge, type RawGitObject, refuseUnread } from './judge.ts';
import type { RefusalCode } from './reason.ts';
import { parseTrustRoots, type TrustRoots, type TrustRootsInput } from './roots.ts';

/** What reading one rev gave: the raw object, or why there is none. */
export type ReadOutcome =
  | ({ readonly kind: 'object' } & RawGitObject)
  | { readonly kind: 'refused'; readonly reason: RefusalCode; readonly detail: string; readonly oid: string | null };

export interface RevJudgement extends Judgement {
  readonly rev: string;
}

export interface VerifyRevsInput extends TrustRootsInput, JudgeOptions {
  readonly gitDir: string;
  readonly at: Date;
  readonly revs: readonly string[];
  /** Resolves a rev in `gitDir`; a rejection refuses that rev only. */
  readonly readObject: (gitDir: string, rev: string) => Promise<ReadOutcome>;
  /** Told once, before the first judgement, what in the roots grants nothing. */
  readonly onRoots?: (roots: TrustRoots) => void;
}

/** Yields one judgement a rev, in order, and never fails. */
export function verifyRevs(input: VerifyRevsInput): AsyncIterableIterator<RevJudgement> {
  const revs = [...input.revs];
  let roots: Promise<TrustRoots> | undefined;
  const iterator: AsyncIterableIterator<RevJudgement> = {
    [Symbol.asyncIterator]: () => iterator,
    next: () => {
      const rev = revs.shift();
      if (rev === undefined) return Promise.resolve({ done: true, value: undefined });
      roots ??= parseTrustRoots(input).then((parsed) => {
        input.onRoots?.(parsed);
        return parsed;
      });
      return roots
        .then((parsed) => judgeRev(input, rev, parsed))
        .catch((error: unknown) => refuseUnread('internal-error', error instanceof Error ? error.message : ''))
        .then((judgement) => ({ done: false, value: { rev, ...judgement } }));
    },
  };
  return iterator;
}

function judgeRev(input: VerifyRevsInput, rev: string, roots: TrustRoots): Promise<Judgement> {
  return Promise.resolve(input.readObject(input.gitDir, rev)).then((outcome) =>
    outcome.kind === 'object'
      ? judge(outcome, roots, input.at, input)
      : refuseUnread(outcome.reason, outcome.detail, outcome.oid),
  );
}

/** One line of `windlass trust verify --json`: the seven fields of the contract, in order. */
export function formatRevJudgement(judgement: RevJudgement): string {
  const { rev, oid, verdict, format, principal, fingerprint, reason } = judgement;
  return JSON.stringify({ rev, oid, verdict, format, principal, fingerprint, reason });
}
