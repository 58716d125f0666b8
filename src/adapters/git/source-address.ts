// Decides which addresses and refs may be spoken to at all: a short list of forms, nothing that git could take for an
// option or a helper program, never a credential in an address.
import { fileURLToPath } from 'node:url';
import { Fault } from '../../core/fault.ts';
import { redactor } from '../process/redact.ts';

export type SourceAddress =
  | { readonly kind: 'http'; readonly scheme: 'http' | 'https'; readonly url: string }
  | { readonly kind: 'ssh'; readonly url: string }
  | { readonly kind: 'local'; readonly path: string };

const MAX_LENGTH = 2_048;
/** user@host:path, without anything that a shell, ssh or git could take for something else. */
const SCP_LIKE = /^[A-Za-z0-9_][A-Za-z0-9._-]*@([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):(?![-:])[^\s\\]+$/;
const HOST = /^([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])$/;

/** Throws USAGE with the cure in its summary. */
export function parseAddress(text: string): SourceAddress {
  if (text === '') throw refuse('the address of the source is empty');
  if (text.length > MAX_LENGTH) throw refuse('the address of the source is too long');
  if (/[\s\x00-\x1f\x7f]/.test(text) && !text.startsWith('/')) throw refuse('the address of the source holds a space');
  if (/[\x00-\x1f\x7f]/.test(text)) throw refuse('the address of the source holds a control character');
  if (text.startsWith('/')) return { kind: 'local', path: text };
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(text)?.[1]?.toLowerCase();
  if (scheme === undefined) {
    if (SCP_LIKE.test(text)) return { kind: 'ssh', url: text };
    throw refuse(`"${printable(text)}" is not an address that Windlass reads`);
  }
  const url = URL.parse(text);
  if (url === null) throw refuse('the address of the source is not a URL');
  refuseCredentials(url, scheme);
  if (scheme === 'file') {
    if (url.host !== '') throw refuse('a file:// address has three slashes: file:///path');
    return { kind: 'local', path: fileURLToPath(url) };
  }
  if (scheme !== 'http' && scheme !== 'https' && scheme !== 'ssh') {
    throw refuse(`"${scheme}" is not a scheme that Windlass reads`);
  }
  if (!HOST.test(url.hostname)) throw refuse('the host in the address of the source is not a host name');
  if (scheme === 'ssh') {
    if (url.username !== '' && !/^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(url.username)) {
      throw refuse('the user in the address of the source is not a user name');
    }
    if (url.pathname.startsWith('/-')) throw refuse('the path in the address of the source starts with "-"');
    return { kind: 'ssh', url: url.href };
  }
  return { kind: 'http', scheme, url: url.href };
}

function refuseCredentials(url: URL, scheme: string): void {
  const mayHaveUser = scheme === 'ssh';
  if (url.password === '' && (url.username === '' || mayHaveUser) && url.search === '' && url.hash === '') return;
  for (const part of [url.password, mayHaveUser ? '' : url.username]) {
    redactor.add(part);
    redactor.add(safeDecode(part));
  }
  if (url.search !== '' || url.hash !== '') throw refuse('the address of the source ends in a query or a fragment');
  throw new Fault(
    'USAGE',
    `the address of the source at ${url.host} holds a credential; take it out and name it by \`credentials\` (an environment variable or a file)`,
  );
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function refuse(problem: string): Fault {
  return new Fault(
    'USAGE',
    `${problem}; use https://host/path, http://…, ssh://user@host/path, user@host:path, file:///path or an absolute path`,
  );
}

/** The full name of a branch or ref. Throws USAGE for what git would not accept as one. */
export function parseRef(text: string): string {
  const full = text.startsWith('refs/') ? text : `refs/heads/${text}`;
  const wrong =
    text === '' ||
    text.length > 255 ||
    text.startsWith('-') ||
    text === 'HEAD' ||
    !full.isWellFormed() ||
    full.endsWith('/') ||
    full.endsWith('.') ||
    full.includes('..') ||
    full.includes('@{') ||
    /[\x00-\x20\x7f~^:?*[\\]/.test(full) ||
    full.split('/').some((part) => part === '' || part.startsWith('.') || part.endsWith('.lock')) ||
    full.split('/').length < 3;
  if (wrong) throw new Fault('USAGE', `"${printable(text)}" is not the name of a branch; give one like "main"`);
  return full;
}

function printable(text: string): string {
  return text.slice(0, 200).replace(/[^\x20-\x7e]/g, '?');
}
