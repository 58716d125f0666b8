// Next policy: the text of the version after one, with its number and back hash; the rest is left to whoever edits it.
import { stringifyDocument } from '../../spec/document.ts';
import { decodeUtf8, type PolicyVersion, policyPath, readPolicy } from './policy-file.ts';

/** Comments stay when the file is written in lines; of any other form the plain content is written anew. */
export function nextPolicy({ version, sha256, bytes, policy }: PolicyVersion): string {
  const next = version + 1;
  const lines = (decodeUtf8(bytes) ?? '').split('\n').filter((line) => !/^previous[ \t]*:/.test(line));
  const edited = lines
    .map((line) => (/^version[ \t]*:/.test(line) ? `version: ${next}\nprevious: ${JSON.stringify(sha256)}` : line))
    .join('\n');
  const read = readPolicy({ path: policyPath(next), bytes: Buffer.from(edited) }).version;
  if (read !== null && read.policy.previous === sha256) return edited;
  const { apiVersion, kind, version: _, previous: __, ...rest } = policy;
  return stringifyDocument({ apiVersion, kind, version: next, previous: sha256, ...rest });
}
