// Check of the trust documents of one commit: every request and policy file, as it is written. It judges nobody's right to anything, and what
// it finds stops no stack.

import { Fault } from '../../core/fault.ts';
import type { Diagnostic } from '../../core/spec/diagnostic.ts';
import type { TreeEntry } from '../../core/state/listing.ts';
import { readPolicy } from '../../core/state/trust/policy-file.ts';
import { readRequest } from '../../core/state/trust/request-file.ts';
import type { House } from '../house.ts';

const FILE_BYTES = 1024 * 1024;
const IS_DOCUMENT = /^(?:requests\/.+|trust\/policy\/[^/]+)\.ya?ml$/i;

export async function checkTrustDocuments(
  { source }: Pick<House, 'source'>,
  entries: readonly TreeEntry[],
): Promise<readonly Diagnostic[]> {
  const found: Diagnostic[] = [];
  for (const { path, mode, oid } of entries) {
    if (!IS_DOCUMENT.test(path)) continue;
    const code = path.startsWith('requests/') ? 'REQUEST_INVALID' : 'POLICY_INVALID';
    const whole = (summary: string): void =>
      void found.push({ severity: 'error', code, summary, place: { file: path, line: 0, column: 0 } });
    if (!mode.startsWith('100')) {
      whole(`${path} is no regular file, so nobody reads it`);
      continue;
    }
    try {
      const bytes = await source.blob(oid, FILE_BYTES);
      found.push(...(code === 'REQUEST_INVALID' ? readRequest(path, bytes) : readPolicy({ path, bytes })).diagnostics);
    } catch (error) {
      if (!(error instanceof Fault && error.code === 'GIT_TOO_LARGE')) throw error;
      whole(`${path} is larger than 1 MiB`);
    }
  }
  return found;
}
