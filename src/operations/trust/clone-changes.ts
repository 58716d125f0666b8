// Changes of trust/ between a branch of a clone and what it is merged into: which of them a controller would refuse or ignore, and what a
// next version of the policy still lacks. Decides from bytes that others have read.
import { ANCHOR_PATH, type AnchorHint, readAnchorHint } from '../../core/state/trust/anchor-hint.ts';
import { helpOf } from '../../core/state/trust/authority.ts';
import type { PolicyChain } from '../../core/state/trust/policy-chain.ts';
import { policyPath, versionOfPath } from '../../core/state/trust/policy-file.ts';
import { inOneLine } from '../../core/state/trust/unseen.ts';
import type { CloneFile } from '../../ports/clone.ts';

export interface TrustChange {
  readonly path: string;
  readonly says: string;
  /** '' when there is nothing to be done. */
  readonly help: string;
  /** A controller would refuse or ignore it. */
  readonly isRefused: boolean;
}

/** path → bytes, of everything regular in trust/ and trust/policy/. */
export type TrustFiles = ReadonlyMap<string, Uint8Array>;

export const trustFiles = (files: readonly CloneFile[]): TrustFiles =>
  new Map(files.map(({ path, bytes }) => [path, bytes]));

export interface TrustSides {
  readonly base: TrustFiles;
  /** Where the branch left it: what only came into the base since is no change of the branch. */
  readonly fork: TrustFiles;
  readonly head: TrustFiles;
  /** The number of the version that is in effect at the base; 0 = none. */
  readonly inEffect: number;
}

const same = (a: Uint8Array | undefined, b: Uint8Array | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && Buffer.compare(a, b) === 0);

/** What the branch makes otherwise, sorted. */
export function changedPaths({ base, fork, head }: TrustSides): readonly string[] {
  return [...new Set([...base.keys(), ...fork.keys(), ...head.keys()])]
    .filter((path) => !same(head.get(path), base.get(path)) && !same(head.get(path), fork.get(path)))
    .sort();
}

/** What takes something away from what is in effect. */
export function breaches(sides: TrustSides): readonly TrustChange[] {
  return changedPaths(sides).flatMap((path) => {
    const now = sides.head.get(path);
    const version = versionOfPath(path) ?? 0;
    if (path === ANCHOR_PATH && sides.base.has(path) && !isSameAnchor(now, sides.base.get(path)))
      return breach(
        path,
        now === undefined
          ? 'is removed: people could sign nothing in their clones any more'
          : 'names another anchor than before: a controller keeps its own, and what is signed for this one counts for nothing',
        'the anchor is never changed in git; a new one is for whoever owns the host of the controller',
      );
    if (version === 0 || version > sides.inEffect) return [];
    return breach(
      path,
      now === undefined
        ? 'is removed, and is in effect: a controller keeps to it and takes no newer version'
        : 'is altered, and is in effect as it was: a controller keeps to that and takes no newer version',
      'put it back as it was; changes go into a next version: windlass trust policy new',
    );
  });
}

const breach = (path: string, says: string, help: string): readonly TrustChange[] => [
  { path, says, help, isRefused: true },
];

function isSameAnchor(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  const hintOf = (bytes: Uint8Array | undefined): AnchorHint | null => {
    const read = bytes === undefined ? null : readAnchorHint(bytes);
    return read !== null && 'hint' in read ? read.hint : null;
  };
  const [before, after] = [hintOf(b), hintOf(a)];
  return after !== null && before !== null && JSON.stringify(after) === JSON.stringify(before);
}

/** What nothing stands against; `chain`: what would be in effect with the files and signatures of the branch. */
export function additions(sides: TrustSides, { effective, drift }: PolicyChain): readonly TrustChange[] {
  return changedPaths(sides).map((path): TrustChange => {
    const version = versionOfPath(path) ?? 0;
    const plain = { path, help: '', isRefused: false };
    if (!sides.head.has(path)) return { ...plain, says: 'is removed; it was not in effect' };
    if (version === 0) return { ...plain, says: 'is changed; no controller reads it' };
    if (effective !== null && version <= effective.version)
      return { ...plain, says: 'has all signatures, and is in effect once this is merged' };
    if (drift === null || drift.version !== version) {
      const first = drift === null ? '' : `; ${policyPath(drift.version)} comes first`;
      return { ...plain, says: `is not in effect${first}` };
    }
    if (drift.reason === 'policy-unsigned')
      return {
        ...plain,
        says: `is not in effect until ${drift.missing} of ${drift.mayStillSign.join(', ')} sign it`,
        help: `windlass trust policy sign ${version}`,
      };
    const detail = drift.detail === '' ? '' : `: ${inOneLine(drift.detail)}`;
    return { path, says: `is ignored: ${drift.reason}${detail}`, help: helpOf(drift.reason), isRefused: true };
  });
}
