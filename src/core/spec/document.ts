// Document: YAML text → plain data, with the place of every key and value. Bounded in size, depth and expansion, so that no text
// from outside can stall or exhaust the process. Knows nothing of what the data means.
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
  stringify,
} from 'yaml';
import type { Diagnostic, Place } from './diagnostic.ts';

export const MAX_TEXT_BYTES = 1024 * 1024;
/** Deeper than any document of people. */
const MAX_DEPTH = 100;
/** Values after all aliases are followed. */
const MAX_VALUES = 200_000;
/** Of our own documents, whose mistakes are kept one by one. */
const MAX_OWN_VALUES = 20_000;

export type Path = readonly (string | number)[];

export interface Parsed {
  readonly file: string;
  readonly value: unknown;
  /** Where the value at `path` stands; with `key` where its key stands. What is not there is placed at its nearest parent. */
  place(path: Path, of?: 'key' | 'value'): Place;
}

export interface ParseResult {
  /** Null when there are errors. */
  readonly parsed: Parsed | null;
  readonly diagnostics: readonly Diagnostic[];
}

type Item = Node | null | undefined;
type Doc = Document.Parsed | Document;

class Refused extends Error {
  readonly node: Item;
  readonly code: string;
  readonly detail: string;
  constructor(node: Item, code: string, summary: string, detail: string) {
    super(summary);
    this.node = node;
    this.code = code;
    this.detail = detail;
  }
}

const keyOf = (pair: Pair): string | null => {
  if (!isScalar(pair.key)) return null;
  return typeof pair.key.value === 'string' ? pair.key.value : (pair.key.source ?? String(pair.key.value));
};

const isMergeKey = (pair: Pair): boolean => isScalar(pair.key) && pair.key.value === '<<' && pair.key.type === 'PLAIN';

const containsItself = (node: Item, alias = (node as { anchor?: string }).anchor ?? ''): Refused =>
  new Refused(
    node,
    'YAML_INVALID',
    `the alias \`*${alias}\` contains itself`,
    'expected the name of an anchor that does not stand around it',
  );

/** Plain data of one document. Own code, because the library's bounds count aliases, not what they expand to. */
class Reader {
  readonly #doc: Doc;
  readonly duplicates: { key: string; node: Item }[] = [];
  readonly #most: number;
  #values = 0;
  #depth = 0;
  /** Maps and lists that are being read: an alias of one of them has no end. */
  readonly #open = new Set<Item>();

  constructor(doc: Doc, most: number) {
    this.#doc = doc;
    this.#most = most;
  }

  resolve(alias: Alias): Item {
    const target = alias.resolve(this.#doc as Document);
    if (!target)
      throw new Refused(
        alias,
        'YAML_INVALID',
        `unknown alias \`*${alias.source}\``,
        'expected the name of an anchor above it',
      );
    return target;
  }

  read(node: Item): unknown {
    if (++this.#values > this.#most)
      throw new Refused(
        node,
        'YAML_TOO_LARGE',
        'the document expands to too much',
        `more than ${this.#most} values after aliases are followed`,
      );
    if (node === null || node === undefined) return null;
    // Compose's word for "as if it were not there".
    if (node.tag === '!reset') return null;
    if (isScalar(node)) return node.value ?? null;
    if (++this.#depth > MAX_DEPTH)
      throw new Refused(node, 'YAML_TOO_DEEP', 'the document is nested too deeply', `more than ${MAX_DEPTH} levels`);
    if (!isAlias(node)) {
      if (this.#open.has(node)) throw containsItself(node);
      this.#open.add(node);
    } else if (this.#open.has(this.resolve(node))) throw containsItself(node, node.source);
    let value: unknown;
    if (isAlias(node)) value = this.read(this.resolve(node));
    else if (isSeq(node)) value = node.items.map((item) => this.read(item as Item));
    else if (isMap(node)) value = this.#map(node.items as Pair[], node);
    else
      throw new Refused(node, 'YAML_INVALID', 'a value that is not understood', 'expected a map, a list or a scalar');
    this.#depth--;
    this.#open.delete(node);
    return value;
  }

  #map(pairs: readonly Pair[], node: Item): Record<string, unknown> {
    const own = new Map<string, unknown>();
    const merged = new Map<string, unknown>();
    for (const pair of pairs) {
      if (isMergeKey(pair)) {
        for (const source of this.#mergeSources(pair.value as Item)) {
          const value = this.read(source);
          if (typeof value !== 'object' || value === null || Array.isArray(value))
            throw new Refused(pair.value as Item, 'YAML_INVALID', 'wrong merge key', 'expected `<<` to name maps');
          for (const [key, inherited] of Object.entries(value)) if (!merged.has(key)) merged.set(key, inherited);
        }
        continue;
      }
      const key = keyOf(pair);
      if (key === null)
        throw new Refused(
          (pair.key as Item) ?? node,
          'YAML_INVALID',
          'a key is not a string',
          'expected a string as key',
        );
      if (own.has(key)) this.duplicates.push({ key, node: pair.key as Item });
      own.set(key, this.read(pair.value as Item));
    }
    const value: Record<string, unknown> = {};
    for (const entries of [merged, own])
      for (const [key, item] of entries) {
        // An assignment to this one would set the prototype.
        if (key === '__proto__')
          Object.defineProperty(value, key, { value: item, enumerable: true, writable: true, configurable: true });
        else value[key] = item;
      }
    return value;
  }

  #mergeSources(node: Item): Item[] {
    const target = isAlias(node) ? this.resolve(node) : node;
    return isSeq(target) ? (target.items as Item[]) : [target];
  }
}

/** The pair of `key` in a map, own before merged. */
function findPair(doc: Doc, node: Item, key: string, depth = 0): Pair | null {
  if (!isMap(node) || depth > MAX_DEPTH) return null;
  const pairs = node.items as Pair[];
  for (const pair of pairs) if (!isMergeKey(pair) && keyOf(pair) === key) return pair;
  for (const pair of pairs) {
    if (!isMergeKey(pair)) continue;
    const follow = (item: Item): Item => (isAlias(item) ? item.resolve(doc as Document) : item);
    const target = follow(pair.value as Item);
    for (const source of isSeq(target) ? (target.items as Item[]) : [target]) {
      const found = findPair(doc, follow(source), key, depth + 1);
      if (found) return found;
    }
  }
  return null;
}

function locate(doc: Doc, path: Path, of: 'key' | 'value'): number {
  let node: Item = doc.contents as Item;
  let offset = node?.range?.[0] ?? 0;
  for (const [index, step] of path.entries()) {
    const target: Item = isAlias(node) ? node.resolve(doc as Document) : node;
    let next: Item;
    if (isSeq(target)) next = target.items[Number(step)] as Item;
    else {
      const pair = findPair(doc, target, String(step));
      if (!pair) return offset;
      const keyOffset = (pair.key as Item)?.range?.[0];
      if (of === 'key' && index === path.length - 1) return keyOffset ?? offset;
      next = pair.value as Item;
      // `key:` without a value has no node of its own, or one of no width.
      if (keyOffset !== undefined) offset = keyOffset;
    }
    if (!next) return offset;
    if (next.range && (next.range[1] > next.range[0] || isAlias(next))) offset = next.range[0];
    node = next;
  }
  return offset;
}

function parsedOf(file: string, lines: LineCounter, doc: Doc, value: unknown): Parsed {
  return {
    file,
    value,
    place(path, of = 'value') {
      const { line, col } = lines.linePos(locate(doc, path, of));
      return { file, line, column: col };
    },
  };
}

function parse(file: string, text: string, most: number): { parsed: Parsed[]; diagnostics: Diagnostic[] } {
  const diagnostics: Diagnostic[] = [];
  const error = (code: string, place: Place, summary: string, detail?: string, help?: string) =>
    diagnostics.push({
      severity: 'error',
      code,
      summary,
      ...(detail === undefined ? {} : { detail }),
      ...(help === undefined ? {} : { help }),
      place,
    });
  const whole: Place = { file, line: 0, column: 0 };
  if (Buffer.byteLength(text) > MAX_TEXT_BYTES) {
    error('TEXT_TOO_LARGE', whole, `${file} is too large`, `at most ${MAX_TEXT_BYTES} bytes are read`);
    return { parsed: [], diagnostics };
  }
  const lines = new LineCounter();
  const placeOf = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { file, line, column: col };
  };
  const tooDeep = () =>
    error('YAML_TOO_DEEP', whole, 'the document is nested too deeply', `more than ${MAX_DEPTH} levels`);
  let docs: readonly Doc[];
  try {
    const all = parseAllDocuments(text, {
      lineCounter: lines,
      prettyErrors: false,
      uniqueKeys: false,
      merge: false,
      schema: 'core',
      logLevel: 'silent',
    });
    docs = Array.isArray(all) ? all : [];
  } catch (thrown) {
    if (!(thrown instanceof RangeError)) throw thrown;
    tooDeep();
    return { parsed: [], diagnostics };
  }
  const parsed: Parsed[] = [];
  for (const [index, doc] of docs.entries()) {
    // A `---` or `...` that only leads or trails makes an empty document.
    const { contents } = doc;
    if (
      (contents === null || (isScalar(contents) && contents.value === null && !contents.source)) &&
      doc.errors.length === 0
    )
      continue;
    if (parsed.length >= most && index > 0) {
      error(
        'YAML_SEVERAL_DOCUMENTS',
        placeOf(doc.range?.[0] ?? 0),
        'a second document in one file',
        'expected one document',
        'put it into a file of its own',
      );
      break;
    }
    if (doc.errors.some((wrong) => wrong.message.startsWith('Maximum call stack'))) {
      tooDeep();
      break;
    }
    for (const wrong of doc.errors.slice(0, 20))
      error(
        'YAML_INVALID',
        placeOf(wrong.pos[0]),
        wrong.message.split('\n')[0] ?? wrong.message,
        'expected valid YAML',
      );
    // Compose knows tags of its own; our documents have none.
    const tag = most === 1 ? doc.warnings.find((warning) => warning.code === 'TAG_RESOLVE_FAILED') : undefined;
    if (tag)
      error(
        'YAML_INVALID',
        placeOf(tag.pos[0]),
        'a tag that means nothing here',
        'expected plain values without `!` tags',
      );
    if (doc.errors.length > 0 || tag) continue;
    const reader = new Reader(doc, most === 1 ? MAX_OWN_VALUES : MAX_VALUES);
    try {
      const value = reader.read(doc.contents as Item);
      for (const { key, node } of reader.duplicates)
        error(
          'YAML_DUPLICATE_KEY',
          placeOf(node?.range?.[0] ?? 0),
          `the key \`${key}\` is given twice`,
          'expected each key once in a map',
          'remove one of them',
        );
      parsed.push(parsedOf(file, lines, doc, value));
    } catch (thrown) {
      if (thrown instanceof RangeError) tooDeep();
      else if (thrown instanceof Refused)
        error(thrown.code, placeOf(thrown.node?.range?.[0] ?? 0), thrown.message, thrown.detail);
      else throw thrown;
    }
  }
  return { parsed, diagnostics };
}

/** One document of ours. */
export function parseDocument(file: string, text: string): ParseResult {
  const { parsed, diagnostics } = parse(file, text, 1);
  const first = parsed[0];
  if (diagnostics.length > 0) return { parsed: null, diagnostics };
  if (!first)
    return {
      parsed: null,
      diagnostics: [
        {
          severity: 'error',
          code: 'DOCUMENT_EMPTY',
          summary: 'the document is empty',
          detail: 'expected a map that starts with `apiVersion` and `kind`',
          place: { file, line: 1, column: 1 },
        },
      ],
    };
  return { parsed: first, diagnostics };
}

/** All documents of a Compose file: Compose merges several. */
export function parseDocuments(
  file: string,
  text: string,
): { readonly parsed: readonly Parsed[]; readonly diagnostics: readonly Diagnostic[] } {
  return parse(file, text, 1_000);
}

/** Plain data as YAML that every reader takes alike: strings in quotes, no anchors, no folding. */
export const stringifyDocument = (value: unknown): string =>
  stringify(value, {
    aliasDuplicateObjects: false,
    defaultStringType: 'QUOTE_DOUBLE',
    defaultKeyType: 'PLAIN',
    lineWidth: 0,
  });
