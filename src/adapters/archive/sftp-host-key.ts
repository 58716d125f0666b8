// SFTP host key: whose key a server must show: one that is pinned by its fingerprint, or one of a known_hosts file. Nothing is learnt at the
// first contact, and a revoked key never counts.
import { createHash, createHmac } from 'node:crypto';

export interface HostKeys {
  /** Key types that the server may show, in the words of SSH; null = any. */
  readonly types: readonly string[] | null;
  isKnown(key: Uint8Array): boolean;
}

export const fingerprintOf = (key: Uint8Array): string =>
  `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;

export function pinnedKey(fingerprint: string): HostKeys {
  const wanted = fingerprint.replace(/=+$/, '');
  return { types: null, isKnown: (key) => fingerprintOf(key) === wanted };
}

/** Of a known_hosts file. Null when it names no key of this server. Lines with certificate authorities are passed over. */
export function knownHostKeys(text: string, host: string, port: number): HostKeys | null {
  const names = port === 22 ? [host.toLowerCase()] : [`[${host.toLowerCase()}]:${port}`];
  const known = new Map<string, string>();
  const revoked = new Set<string>();
  for (const line of text.split('\n')) {
    const fields = line.trim().split(/\s+/);
    const marker = fields[0]?.startsWith('@') ? fields.shift() : undefined;
    const [patterns = '', type = '', key = ''] = fields;
    if (patterns === '' || patterns.startsWith('#') || key === '' || !names.some((one) => matches(patterns, one)))
      continue;
    const bytes = Buffer.from(key, 'base64').toString('base64');
    if (marker === '@revoked') revoked.add(bytes);
    else if (marker === undefined) known.set(bytes, type);
  }
  for (const key of revoked) known.delete(key);
  if (known.size === 0) return null;
  return {
    types: [...new Set([...known.values()].flatMap(signaturesOf))],
    isKnown: (key) => known.has(Buffer.from(key).toString('base64')),
  };
}

/** An RSA key signs by SHA-2; its SHA-1 signature is not taken. */
const signaturesOf = (type: string): readonly string[] =>
  type === 'ssh-rsa' ? ['rsa-sha2-512', 'rsa-sha2-256'] : [type];

function matches(patterns: string, name: string): boolean {
  if (patterns.startsWith('|1|')) {
    const [, , salt = '', hash = ''] = patterns.split('|');
    return createHmac('sha1', Buffer.from(salt, 'base64')).update(name).digest('base64') === hash;
  }
  let isMatch = false;
  for (const pattern of patterns.toLowerCase().split(',')) {
    const isNot = pattern.startsWith('!');
    if (!globMatches(isNot ? pattern.slice(1) : pattern, name)) continue;
    if (isNot) return false;
    isMatch = true;
  }
  return isMatch;
}

/** `*` and `?` only; without going back more than once, so that no pattern takes long. */
function globMatches(pattern: string, name: string): boolean {
  let at = 0;
  let inName = 0;
  let star = -1;
  let from = 0;
  while (inName < name.length) {
    const wanted = pattern[at];
    if (wanted === '*') {
      star = at++;
      from = inName;
    } else if (wanted === '?' || wanted === name[inName]) {
      at += 1;
      inName += 1;
    } else if (star >= 0) {
      at = star + 1;
      inName = ++from;
    } else return false;
  }
  while (pattern[at] === '*') at += 1;
  return at === pattern.length;
}
