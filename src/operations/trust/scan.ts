// Scan: which commits and tags carry words of ours, and about which files: found once and remembered, so that a look reads only what concerns
// the files of its tip. Whoever may push may write as many as they like: what is too much is told, and the caller authorises nothing by it.
import { Fault } from '../../core/fault.ts';
import { readGitObject } from '../../core/state/trust/git-object.ts';
import { mentionsOf, parseStatement } from '../../core/state/trust/statement.ts';
import type { SignedObject } from '../../ports/source.ts';
import type { House } from '../house.ts';
import { hasGoneOn } from '../lineage.ts';

const MOST_COMMITS = 200_000;
/** Commits with words that are remembered: years of requests. */
const MOST_REMEMBERED = 50_000;
/** What one squash merges is about a few files. */
const MOST_SUBJECTS = 5;
/** Of one look, all together. */
export const MOST_READ_BYTES = 64 * 1024 * 1024;
/** About one policy version: years of its admins' signatures, and half a second to judge. */
const MOST_SOME = 500;
export const MOST_SOME_BYTES = 16 * 1024 * 1024;
const AT_ONCE = 32;
const MOST_HELD = 256;

/** What one commit or tag speaks of, whatever it is worth. */
export interface Words {
  readonly oid: string;
  readonly isPolicy: boolean;
  /** SHA-256 of the files; a tag without words has none. */
  readonly subjects: readonly string[];
}

interface Scanned {
  readonly tip: string;
  readonly commits: readonly Words[];
  readonly tags: readonly Words[];
  /** There were more than can be remembered. */
  readonly isFull: boolean;
}

export interface Scan {
  /** Tags, then commits, what was pushed last first. */
  readonly words: readonly Words[];
  /** Why these are not all: a rejection may be among the others. */
  readonly incomplete: Fault | null;
}

export async function scanWords(house: House, tip: string): Promise<Scan> {
  const { source, store } = house;
  const key = `trust-words/${source.spec.name}`;
  const before = store.value(key) as Scanned | undefined;
  const goesOn = before !== undefined && (await hasGoneOn(house, tip, before.tip));
  const tags = await tagsOf(house, before?.tags ?? []);
  let { commits, isFull } = goesOn ? before : { commits: [] as readonly Words[], isFull: false };
  if (!goesOn || before.tip !== tip) {
    let fresh: readonly string[];
    try {
      fresh = await source.commitsSince(tip, goesOn ? before.tip : null, MOST_COMMITS);
    } catch (error) {
      if (!(error instanceof Fault && error.code === 'GIT_TOO_LARGE')) throw error;
      return { words: [...tags.words, ...commits], incomplete: error };
    }
    const found: Words[] = [];
    for await (const one of wordsOfAll(house, fresh)) {
      if (one.subjects.length === 0) continue;
      if (commits.length + found.length < MOST_REMEMBERED) found.push(one);
      else isFull = true;
    }
    commits = [...found, ...commits];
  }
  if (!goesOn || before.tip !== tip || tags.words !== before.tags)
    store.putValue(key, { tip, commits, tags: tags.words, isFull } satisfies Scanned);
  const full = isFull
    ? new Fault('GIT_TOO_LARGE', `more than ${MOST_REMEMBERED} commits of this history carry words of statements`)
    : null;
  return { words: [...tags.words, ...commits], incomplete: tags.incomplete ?? full };
}

async function tagsOf(
  house: House,
  before: readonly Words[],
): Promise<{ readonly words: readonly Words[]; readonly incomplete: Fault | null }> {
  let oids: readonly string[];
  try {
    oids = await house.source.tags();
  } catch (error) {
    if (error instanceof Fault && (error.code === 'GIT_TOO_LARGE' || error.code === 'GIT_UNREACHABLE'))
      return { words: before, incomplete: error };
    throw error;
  }
  const there = new Set(oids);
  const known = new Set(before.map((one) => one.oid));
  if (there.size === known.size && oids.every((oid) => known.has(oid))) return { words: before, incomplete: null };
  // Whatever name it has: who signs after a flood comes before it.
  const unknown = [...there].filter((oid) => !known.has(oid));
  const fresh: Words[] = [];
  for await (const one of wordsOfAll(house, unknown)) fresh.push(one);
  return { words: [...fresh, ...before.filter((one) => there.has(one.oid))], incomplete: null };
}

async function* wordsOfAll(house: House, oids: readonly string[]): AsyncGenerator<Words> {
  for (let at = 0; at < oids.length; at += AT_ONCE) {
    const part = oids.slice(at, at + AT_ONCE);
    const objects = await Promise.all(part.map((oid) => readable(house, oid)));
    for (const [index, oid] of part.entries()) yield wordsOf(oid, objects[index] ?? null);
  }
}

function wordsOf(oid: string, object: SignedObject | null): Words {
  const parse = object === null ? null : parseStatement(object);
  if (object === null || parse === null || parse.kind === 'none') return { oid, isPolicy: false, subjects: [] };
  if (parse.kind === 'refused') return { oid, isPolicy: false, subjects: mentionsOf(object).slice(0, MOST_SUBJECTS) };
  const { type, subject } = parse.claims;
  return { oid, isPolicy: type === 'policy', subjects: [subject] };
}

/** The first of them: for what each that is missing can only take something away from, so that a flood stops nothing else. */
export async function readSomeWords(house: House, words: readonly Words[]): Promise<ReadonlyMap<string, SignedObject>> {
  const found = new Map<string, SignedObject>();
  let sizeBytes = 0;
  for (const { oid } of words.slice(0, MOST_SOME)) {
    const object = await readable(house, oid);
    if (object === null || sizeBytes + object.bytes.length > MOST_SOME_BYTES) continue;
    sizeBytes += object.bytes.length;
    found.set(oid, object);
  }
  return found;
}

/** The objects themselves. Throws GIT_TOO_LARGE when they are too large together. */
export async function readWords(house: House, words: readonly Words[]): Promise<ReadonlyMap<string, SignedObject>> {
  const found = new Map<string, SignedObject>();
  let sizeBytes = 0;
  for (const { oid } of words) {
    const object = await readable(house, oid);
    if (object === null) continue;
    sizeBytes += object.bytes.length;
    if (sizeBytes > MOST_READ_BYTES)
      throw new Fault(
        'GIT_TOO_LARGE',
        `the statements about the files of one commit are larger than ${MOST_READ_BYTES / 1024 / 1024} MiB together; remove requests that are done`,
      );
    found.set(oid, object);
  }
  return found;
}

/** All of them, some at a time: however many there are, few are held at once. */
export async function* eachOf(house: House, words: readonly Words[]): AsyncGenerator<readonly SignedObject[]> {
  for (let at = 0; at < words.length; at += MOST_HELD) {
    const part = words.slice(at, at + MOST_HELD);
    const found: SignedObject[] = [];
    for (let from = 0; from < part.length; from += AT_ONCE)
      for (const object of await Promise.all(part.slice(from, from + AT_ONCE).map(({ oid }) => readable(house, oid))))
        if (object !== null) found.push(object);
    yield found;
  }
}

/** A file as it was where a statement was made: in the commit that says it, or that its tag names. Null when it is not there, or too large. */
export async function fileWhereSaid(
  { source }: House,
  { oid, type, bytes }: SignedObject,
  path: string,
  mostBytes: number,
): Promise<Uint8Array | null> {
  const tag = type === 'tag' ? readGitObject(type, bytes, { strict: true }) : null;
  if (tag !== null && (tag.kind !== 'parsed' || tag.object.kind !== 'tag')) return null;
  try {
    const commit = tag?.kind === 'parsed' && tag.object.kind === 'tag' ? tag.object.target : oid;
    const entry = (await source.list(commit)).entries.find((one) => one.path === path);
    return entry === undefined ? null : await source.blob(entry.oid, mostBytes);
  } catch (error) {
    if (error instanceof Fault && NOT_THERE.has(error.code)) return null;
    throw error;
  }
}

const NOT_THERE: ReadonlySet<string> = new Set(['GIT_OBJECT_MISSING', 'GIT_TOO_LARGE', 'GIT_REFUSED', 'TREE_REFUSED']);

/** One that is too large or of another kind is no statement, and stops nothing. */
async function readable({ source }: House, oid: string): Promise<SignedObject | null> {
  try {
    return await source.object(oid);
  } catch (error) {
    if (error instanceof Fault && (error.code === 'GIT_TOO_LARGE' || error.code === 'GIT_REFUSED')) return null;
    throw error;
  }
}
