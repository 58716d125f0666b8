// Earlier words: of a request file about which nothing is signed, whether other words under its name were, so that people are told that it was
// changed and not only that a signature lacks. For people; it authorises nothing, and looks in bounds.
import { sha256Of } from '../../core/state/trust/policy-file.ts';
import type { PolicySigners } from '../../core/state/trust/policy-signers.ts';
import { idOfPath } from '../../core/state/trust/request-file.ts';
import { verifyStatement } from '../../core/state/trust/statement.ts';
import type { TrustAnchor } from '../../core/state/trust/trust-anchor.ts';
import type { SignedObject } from '../../ports/source.ts';
import type { Store } from '../../ports/store.ts';
import type { House } from '../house.ts';
import { fileWhereSaid, readSomeWords, type Words } from './scan.ts';

const MOST_FILES = 20;
/** Statements of which it is looked whether they are about one of them: those that came last. */
const MOST_LOOKED_AT = 200;
const REQUEST_BYTES = 1024 * 1024;
const MOST_REMEMBERED = 20_000;
/** Statement and path → SHA-256 of the file there; null = none. Objects never change, and to read one lists a whole tree. */
const files = new WeakMap<Store, Map<string, string | null>>();

/** Path → what was signed under its name, in words. `words`: those that speak of no file of the tip. */
export async function earlierWords(
  house: House,
  { anchor, signers, atMs }: { readonly anchor: TrustAnchor; readonly signers: PolicySigners; readonly atMs: number },
  paths: readonly string[],
  words: readonly Words[],
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  const open = paths.filter((path) => idOfPath(path) !== null).slice(0, MOST_FILES);
  if (open.length === 0) return found;
  for (const object of (await readSomeWords(house, words.slice(0, MOST_LOOKED_AT))).values()) {
    const reading = await verifyStatement(object, signers, new Date(atMs), anchor.clockSkewMs);
    if (reading.kind !== 'statement') continue;
    const { type, subject, principal, fleet, oid } = reading.statement;
    if ((type !== 'request' && type !== 'approve') || fleet !== anchor.fleetId) continue;
    for (const path of open) {
      if (found.has(path)) continue;
      if ((await digestWhereSaid(house, object, path)) !== subject) continue;
      found.set(path, `changed after ${oid.slice(0, 12)} (${principal}) signed it as sha256:${subject}`);
    }
    if (found.size === open.length) break;
  }
  return found;
}

async function digestWhereSaid(house: House, object: SignedObject, path: string): Promise<string | null> {
  const known = files.get(house.store) ?? new Map<string, string | null>();
  files.set(house.store, known);
  const key = `${object.oid} ${path}`;
  const found = known.get(key);
  if (found !== undefined) return found;
  const bytes = await fileWhereSaid(house, object, path, REQUEST_BYTES);
  const digest = bytes === null ? null : sha256Of(bytes);
  if (known.size >= MOST_REMEMBERED) known.clear();
  known.set(key, digest);
  return digest;
}
