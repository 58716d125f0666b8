// Echoes of a request in the history of a clone: other files of the same bytes, and what the same file was before. Which of them ran only
// the controller knows; that of two files of the same bytes none runs while both are there is certain.

import type { RawGitObject } from '../../core/state/trust/judge.ts';
import { sha256Of } from '../../core/state/trust/policy-file.ts';
import { idOfPath, requestPath } from '../../core/state/trust/request-file.ts';
import { parseStatement } from '../../core/state/trust/statement.ts';
import type { Clone, FileChange } from '../../ports/clone.ts';

export interface Echoes {
  /** Of HEAD, the paths of other requests of the same bytes. */
  readonly twins: readonly string[];
  /** Why a controller may know more against it, in whole sentences. */
  readonly doubts: readonly string[];
}

const MOST_EARLIER = 10;

/** `history`: of the folder of requests, the newest first. */
export async function echoesOf(
  clone: Pick<Clone, 'file' | 'files'>,
  history: readonly FileChange[],
  about: {
    readonly commit: string;
    readonly id: string;
    /** Of the file as HEAD has it. */
    readonly bytes: Uint8Array;
    readonly statements: readonly RawGitObject[];
  },
): Promise<Echoes> {
  const { commit, id, bytes, statements } = about;
  const path = requestPath(id);
  const sha256 = sha256Of(bytes);
  const same = (await clone.files(commit, 'requests')).filter((file) => sha256Of(file.bytes) === sha256);
  const blob = history.find((one) => one.path === path && one.oid !== null)?.oid ?? null;
  const twins = same.map((file) => file.path).filter((one) => one !== path && idOfPath(one) !== null);
  const doubts: string[] = [];
  const paths = new Set(
    history.flatMap((one) => (blob !== null && one.oid === blob && one.path !== path ? [one.path] : [])),
  );
  const gone = [...paths].filter((one) => idOfPath(one) !== null && !same.some((file) => file.path === one));
  if (gone.length > 0)
    doubts.push(
      `${gone.slice(0, MOST_EARLIER).join(', ')} held these very bytes before; if that ran, this is refused as request-replayed`,
    );
  const own = history.filter((one) => one.path === path);
  if (own.some((one) => one.oid === null))
    doubts.push(`${path} was removed and is there again; if it ran before, this is refused as request-claimed`);
  else if (await wasApproved(clone, own, sha256, statements))
    doubts.push(`${path} was approved with other words before; if that ran, this is refused as request-claimed`);
  return { twins: twins.sort(), doubts };
}

/** Whether somebody says to have approved what the file was before. */
async function wasApproved(
  clone: Pick<Clone, 'file'>,
  own: readonly FileChange[],
  sha256: string,
  statements: readonly RawGitObject[],
): Promise<boolean> {
  const approved = new Set(
    statements.flatMap((object) => {
      const parse = parseStatement(object);
      return parse.kind === 'claims' && parse.claims.type === 'approve' ? [parse.claims.subject] : [];
    }),
  );
  for (const { commit, path } of own.slice(0, MOST_EARLIER)) {
    const file = await clone.file(commit, path);
    const before = file === null ? sha256 : sha256Of(file.bytes);
    if (before !== sha256 && approved.has(before)) return true;
  }
  return false;
}
