// Reads what is needed of a commit from its raw bytes. Tolerant where only words are wrong (author, date, message),
// strict where ids are: a commit without one well-formed tree is refused. It never judges signatures.
import { Fault } from '../../core/fault.ts';
import type { CommitFacts } from '../../ports/source.ts';

const MAX_TEXT_LENGTH = 300;
const LATEST_MS = 8.64e15;

/** Throws GIT_REFUSED. */
export function parseCommitFacts(id: string, bytes: Uint8Array): CommitFacts {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const blank = buffer.indexOf('\n\n', 0, 'latin1');
  const head = buffer.toString('latin1', 0, blank < 0 ? buffer.length : blank);
  const lines = head.split('\n');
  const tree = /^tree ([0-9a-f]{40})$/.exec(lines[0] ?? '')?.[1];
  if (tree === undefined || lines.slice(1).some((line) => line.startsWith('tree '))) {
    throw new Fault('GIT_REFUSED', `commit ${id.slice(0, 12)} does not name exactly one tree`, { data: { oid: id } });
  }
  const parents = readParents(id, lines);
  const after = lines.slice(1 + parents.length);
  const encoding = /^encoding ([\w-]{1,40})$/m.exec(head)?.[1];
  const author = after.find((line) => line.startsWith('author '))?.slice('author '.length) ?? '';
  const committer = after.find((line) => line.startsWith('committer '))?.slice('committer '.length) ?? '';
  const message = blank < 0 ? '' : firstLine(buffer.subarray(blank + 2));
  return {
    id,
    tree,
    parents,
    subject: printable(decode(message, encoding)),
    author: printable(decode(author.replace(/\s+-?\d+(\s+[+-]\d+)?\s*$/, ''), encoding)),
    committedAtMs: dateOf(committer),
  };
}

function readParents(id: string, lines: readonly string[]): readonly string[] {
  const parents: string[] = [];
  for (const line of lines.slice(1)) {
    if (!line.startsWith('parent ')) break;
    const parent = /^parent ([0-9a-f]{40})$/.exec(line)?.[1];
    if (parent === undefined) {
      throw new Fault('GIT_REFUSED', `commit ${id.slice(0, 12)} names a parent that is not an id`, {
        data: { oid: id },
      });
    }
    parents.push(parent);
  }
  // git reads parents only there; another one further down is made to be seen by some readers and not by others.
  if (lines.slice(1 + parents.length).some((line) => line.startsWith('parent '))) {
    throw new Fault('GIT_REFUSED', `commit ${id.slice(0, 12)} names a parent out of place`, { data: { oid: id } });
  }
  return parents;
}

/** The first line that is not empty, as raw bytes in a latin1 string. */
function firstLine(message: Buffer): string {
  const text = message.toString('latin1', 0, 64 * 1024);
  return text.split('\n').find((line) => line.trim() !== '') ?? '';
}

function decode(latin1: string, encoding: string | undefined): string {
  const bytes = Buffer.from(latin1, 'latin1');
  if (encoding === undefined) return bytes.toString('utf8');
  try {
    return new TextDecoder(encoding).decode(bytes);
  } catch {
    return bytes.toString('utf8');
  }
}

/** Without characters that are not seen, or that turn others around: it is shown in terminals. */
function printable(text: string): string {
  const plain = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return plain.length > MAX_TEXT_LENGTH ? `${plain.slice(0, MAX_TEXT_LENGTH)}…` : plain;
}

/** 0 when there is no date to be read. */
function dateOf(committer: string): number {
  const seconds = /> (\d{1,15})(?: [+-]\d{4})?$/.exec(committer)?.[1];
  const ms = seconds === undefined ? 0 : Number(seconds) * 1_000;
  return ms <= LATEST_MS ? ms : 0;
}
