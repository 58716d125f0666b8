// Raw git objects for the signature verifier: resolves revs in a repository on disk and hands over exact bytes.
// It applies no replace refs and no grafts, peels no tag on its own, starts no program and judges nothing.

import fs from 'node:fs';
import path from 'node:path';
import { RawStore, StoreError } from './raw-packs.ts';
import { readRegular } from './regular-file.ts';

export interface RawObject {
  readonly kind: 'object';
  /** 40 hex: the id that the rev resolved to. The bytes are not checked against it here. */
  readonly oid: string;
  readonly type: string;
  readonly bytes: Uint8Array;
}

export interface RawObjectRefusal {
  readonly kind: 'refused';
  readonly reason:
    | 'unknown-rev'
    | 'ambiguous-rev'
    | 'unreadable-object'
    | 'unreadable-repository'
    | 'sha256-repository'
    | 'not-commit-or-tag'
    | 'object-too-large';
  readonly detail: string;
  readonly oid: string | null;
}

export interface RawObjectReader {
  /** Resolves a rev and reads its object; never rejects. */
  readonly read: (rev: string) => Promise<RawObject | RawObjectRefusal>;
}

const LARGEST_OBJECT_BYTES = 64 * 1024 * 1024;
const LARGEST_TEXT_BYTES = 1024 * 1024;
const OID = /^[0-9a-f]{40}$/;

interface Repository {
  /** HEAD is read here; a linked work tree has its own. */
  readonly gitDir: string;
  /** Objects, refs and config. */
  readonly commonDir: string;
  /** The common object folder first, then its alternates. */
  readonly stores: readonly RawStore[];
}

/** Loaded on first use: it is large, and full ids need no refs. */
const library = () => import('isomorphic-git');

class Unread extends Error {
  readonly reason: RawObjectRefusal['reason'];
  readonly oid: string | null;

  constructor(reason: RawObjectRefusal['reason'], detail: string, oid: string | null = null) {
    super(detail);
    this.reason = reason;
    this.oid = oid;
  }
}

/** Opens a bare repository, a `.git` directory or file, or a work tree. Never rejects: each read reports the failure. */
export function openRawObjects(directory: string): RawObjectReader {
  let repository: Repository | Unread | undefined;
  return {
    read: async (rev) => {
      try {
        repository ??= locate(directory);
        if (repository instanceof Unread) throw repository;
        const oid = await resolveRev(repository, rev);
        return readRaw(repository, oid);
      } catch (error) {
        if (error instanceof Unread)
          return { kind: 'refused', reason: error.reason, detail: error.message, oid: error.oid };
        const detail = error instanceof Error ? error.message : String(error);
        return { kind: 'refused', reason: 'unreadable-object', detail, oid: null };
      }
    },
  };
}

/** The shape that `verifyRevs` asks for; readers are kept by directory, with their caches. */
export function rawObjectSource(): (gitDir: string, rev: string) => Promise<RawObject | RawObjectRefusal> {
  const readers = new Map<string, RawObjectReader>();
  return (gitDir, rev) => {
    let reader = readers.get(gitDir);
    if (!reader) {
      reader = openRawObjects(gitDir);
      readers.set(gitDir, reader);
    }
    return reader.read(rev);
  };
}

/** Files of a few lines. */
const textOf = (file: string): string => readRegular(file, LARGEST_TEXT_BYTES).toString('utf8');

function locate(directory: string): Repository | Unread {
  try {
    const gitDir = findGitDir(path.resolve(directory));
    if (!gitDir) return new Unread('unreadable-repository', 'no git repository there');
    const commonFile = path.join(gitDir, 'commondir');
    const commonDir = fs.existsSync(commonFile) ? path.resolve(gitDir, textOf(commonFile).trim()) : gitDir;
    const format = objectFormat(path.join(commonDir, 'config'));
    if (format !== 'sha1') return new Unread('sha256-repository', `object format ${format}`);
    return { gitDir, commonDir, stores: storesOf(commonDir) };
  } catch (error) {
    return new Unread('unreadable-repository', error instanceof Error ? error.message : String(error));
  }
}

function storesOf(commonDir: string): RawStore[] {
  const folders = [path.join(commonDir, 'objects')];
  for (let at = 0; at < folders.length && folders.length < 16; at++) {
    const list = path.join(folders[at]!, 'info', 'alternates');
    if (!fs.existsSync(list)) continue;
    for (const line of textOf(list).split('\n')) {
      const folder = line === '' || line.startsWith('#') ? null : path.resolve(folders[at]!, line);
      if (folder && !folders.includes(folder)) folders.push(folder);
    }
  }
  return folders.map((folder) => new RawStore(folder, LARGEST_OBJECT_BYTES));
}

function findGitDir(directory: string): string | null {
  if (!fs.existsSync(directory)) return null;
  if (fs.statSync(directory).isFile()) return followGitFile(directory);
  const isGitDir =
    fs.existsSync(path.join(directory, 'HEAD')) &&
    (fs.existsSync(path.join(directory, 'objects')) || fs.existsSync(path.join(directory, 'commondir')));
  if (isGitDir) return directory;
  const inner = path.join(directory, '.git');
  return fs.existsSync(inner) ? findGitDir(inner) : null;
}

/** `.git` files of linked work trees and submodules: `gitdir: PATH`. */
function followGitFile(file: string): string | null {
  const match = /^gitdir: (.+?)\s*$/.exec(textOf(file));
  return match ? path.resolve(path.dirname(file), match[1]!) : null;
}

/** `extensions.objectFormat` of the repository's own config; git takes it from no other file. */
function objectFormat(configFile: string): string {
  if (!fs.existsSync(configFile)) return 'sha1';
  let section = '';
  let format = 'sha1';
  for (const line of textOf(configFile).split('\n')) {
    const header = /^\s*\[\s*([^\]\s"]+)[^\]]*\](.*)$/.exec(line);
    if (header) section = header[1]!.toLowerCase();
    const setting = /^\s*objectformat\s*=\s*"?([^\s"#;]*)/i.exec(header ? header[2]! : line);
    if (setting && section === 'extensions') format = setting[1]!.toLowerCase();
  }
  return format;
}

/** Full and short ids, HEAD, refs as git names them, each followed by any of `~N`, `^N`, `^{}`, `^{commit}`. */
async function resolveRev(repository: Repository, rev: string): Promise<string> {
  const split = /^(.*?)((?:~[0-9]*|\^[0-9]*|\^\{(?:commit)?\})*)$/s.exec(rev)!;
  let oid = await resolveName(repository, split[1]!);
  for (const [step] of split[2]!.matchAll(/~[0-9]*|\^\{(?:commit)?\}|\^[0-9]*/g)) {
    const isPeel = step.startsWith('^{');
    const count = step.length === 1 || isPeel ? 1 : Number(step.slice(1));
    oid = peel(repository, oid);
    if (isPeel || (step[0] === '^' && count === 0)) continue;
    if (step[0] === '^') oid = parentOf(repository, oid, count);
    else for (let back = 0; back < count; back++) oid = parentOf(repository, oid, 1);
  }
  return oid;
}

async function resolveName(repository: Repository, name: string): Promise<string> {
  if (OID.test(name)) return name;
  if (/^[0-9A-Fa-f]{40}$/.test(name)) return name.toLowerCase();
  if (/^[0-9A-Fa-f]{64}$/.test(name)) throw new Unread('sha256-repository', 'a SHA-256 object id');
  if (isRefName(name)) {
    const oid = await resolveRefName(repository, name === '@' ? 'HEAD' : name);
    if (oid !== null) return oid;
  }
  if (/^[0-9A-Fa-f]{4,39}$/.test(name)) return expand(repository, name.toLowerCase());
  throw new Unread('unknown-rev', 'no such object or ref');
}

/** git-check-ref-format's rules, so that a rev can never name a file outside the refs. */
function isRefName(name: string): boolean {
  if (name === '' || name.startsWith('-') || name.endsWith('/') || name.endsWith('.')) return false;
  if (/[\0-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\//.test(name)) return false;
  return name.split('/').every((part) => part !== '' && !part.startsWith('.') && !part.endsWith('.lock'));
}

async function resolveRefName(repository: Repository, name: string): Promise<string | null> {
  let ref = name;
  if (name === 'HEAD') {
    const head = textOf(path.join(repository.gitDir, 'HEAD')).trim();
    ref = head.startsWith('ref: ') ? head.slice('ref: '.length).trim() : head;
    if (OID.test(ref)) return ref;
    if (!isRefName(ref)) return null;
  }
  // Only HEAD-like names live at the top; `config` or `description` is no ref.
  const isTopLevel = /^[A-Z_]+$/.test(ref);
  const candidates = ref.startsWith('refs/')
    ? [ref, `refs/tags/${ref}`, `refs/heads/${ref}`]
    : [
        ...(isTopLevel ? [ref] : []),
        `refs/${ref}`,
        `refs/tags/${ref}`,
        `refs/heads/${ref}`,
        `refs/remotes/${ref}`,
        `refs/remotes/${ref}/HEAD`,
      ];
  const { resolveRef } = await library();
  const isOdd = (name: string): boolean => {
    const facts = fs.statSync(path.join(repository.commonDir, name), { throwIfNoEntry: false });
    return facts !== undefined && !facts.isFile() && !facts.isDirectory();
  };
  if (isOdd('packed-refs')) return null;
  for (const candidate of candidates) {
    try {
      if (isOdd(candidate)) continue;
      const oid = await resolveRef({ fs, gitdir: repository.commonDir, ref: candidate });
      if (OID.test(oid)) return oid;
    } catch {
      // not under this name
    }
  }
  return null;
}

function expand(repository: Repository, short: string): string {
  const [oid, ...more] = new Set(repository.stores.flatMap((store) => store.startingWith(short)));
  if (oid === undefined) throw new Unread('unknown-rev', 'no such object or ref');
  if (more.length > 0) throw new Unread('ambiguous-rev', 'several objects start so');
  return oid;
}

function readRaw(repository: Repository, oid: string): RawObject {
  try {
    for (const store of repository.stores) {
      const object = store.read(oid);
      if (object) return { kind: 'object', oid, ...object };
    }
  } catch (error) {
    const isLarge = error instanceof StoreError && error.kind === 'too-large';
    const detail = error instanceof Error ? error.message : String(error);
    throw new Unread(isLarge ? 'object-too-large' : 'unreadable-object', detail, oid);
  }
  throw new Unread('unknown-rev', 'no such object', oid);
}

function peel(repository: Repository, oid: string): string {
  let at = oid;
  for (let depth = 0; depth < 16; depth++) {
    const { type, bytes } = readRaw(repository, at);
    if (type !== 'tag') return at;
    const match = /^object ([0-9a-f]{40})\n/.exec(Buffer.from(bytes).toString('latin1', 0, 48));
    if (!match) throw new Unread('unreadable-object', 'malformed tag', at);
    at = match[1]!;
  }
  throw new Unread('unreadable-object', 'tags nested too deep', oid);
}

function parentOf(repository: Repository, oid: string, which: number): string {
  const { type, bytes } = readRaw(repository, peel(repository, oid));
  const head = Buffer.from(bytes).toString('latin1', 0, 48 * (which + 2));
  const parents = type === 'commit' ? [...head.matchAll(/(?<=\n)parent ([0-9a-f]{40})(?=\n)/g)] : [];
  const parent = parents[which - 1]?.[1];
  if (!parent) throw new Unread('unknown-rev', 'no such parent');
  return parent;
}
