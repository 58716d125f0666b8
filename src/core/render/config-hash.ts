// Config hash: the labels that Compose will write, computed from the exact text of `docker compose config --format json`.
// It never goes through JSON.parse: key order and the spelling of scalars are part of what Compose hashes.
import { createHash } from 'node:crypto';
import { Fault } from '../fault.ts';

/** Raised when a hash changes for the same text; a new number re-baselines what was applied, it does not deploy. */
export const HASH_RECIPE = 1;

export interface RawEntry {
  readonly key: string;
  /** The key as it is spelled in the text, with its quotes. */
  readonly rawKey: string;
  readonly value: RawValue;
}

/** JSON with its spelling kept: entries in the order of the text, scalars as written. */
export type RawValue =
  | { readonly kind: 'object'; readonly entries: readonly RawEntry[] }
  | { readonly kind: 'array'; readonly items: readonly RawValue[] }
  | { readonly kind: 'scalar'; readonly raw: string };

export interface ServiceHash {
  /** Without container ids: the label itself unless `needsIds`. */
  readonly hash: string;
  /** What is hashed: compact, without the fields that Compose leaves out, `$$` turned back into `$`. */
  readonly text: string;
  /** The label holds ids of the parents' containers: ask `hashWithIds`. */
  readonly needsIds: boolean;
  /** Services whose containers this one shares a namespace or volumes with. */
  readonly parents: readonly string[];
}

export interface Hashes {
  readonly services: ReadonlyMap<string, ServiceHash>;
  /** By key; '' for an external one, which has no label. */
  readonly networks: ReadonlyMap<string, string>;
  readonly volumes: ReadonlyMap<string, string>;
}

// Deeper than any Compose file; keeps a hostile text from exhausting the stack.
const deepestLevel = 200;

const unhashedFields = new Set(['build', 'pull_policy', 'scale', 'depends_on', 'profiles']);
const NO_IDS: ReadonlyMap<string, string> = new Map();
const sharedNamespaces = new Set(['network_mode', 'ipc', 'pid']);

/** Throws COMPOSE_FAILED when the text is not one JSON value. */
export function readRaw(text: string): RawValue {
  let at = 0;

  const fail = (): never => {
    throw new Fault('COMPOSE_FAILED', `the output of docker compose config is not JSON at character ${at}`);
  };
  const skipSpace = (): void => {
    for (;;) {
      const code = text.charCodeAt(at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      at += 1;
    }
  };
  const expect = (character: string): void => {
    if (text[at] !== character) fail();
    at += 1;
  };
  const readMatch = (pattern: RegExp): string => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found === undefined) return fail();
    at += found.length;
    return found;
  };
  const readString = (): string => {
    const start = at;
    expect('"');
    for (;;) {
      const code = text.charCodeAt(at);
      if (Number.isNaN(code) || code < 0x20) return fail();
      at += code === 0x5c ? 2 : 1;
      if (code === 0x22) return text.slice(start, at);
    }
  };
  const readValue = (level: number): RawValue => {
    if (level > deepestLevel) return fail();
    skipSpace();
    const first = text[at];
    if (first === '{') {
      at += 1;
      const entries: RawEntry[] = [];
      skipSpace();
      if (text[at] === '}') {
        at += 1;
        return { kind: 'object', entries };
      }
      for (;;) {
        skipSpace();
        const rawKey = readString();
        skipSpace();
        expect(':');
        const value = readValue(level + 1);
        entries.push({ key: decode(rawKey, fail), rawKey, value });
        skipSpace();
        if (text[at] === ',') {
          at += 1;
          continue;
        }
        expect('}');
        return { kind: 'object', entries };
      }
    }
    if (first === '[') {
      at += 1;
      const items: RawValue[] = [];
      skipSpace();
      if (text[at] === ']') {
        at += 1;
        return { kind: 'array', items };
      }
      for (;;) {
        items.push(readValue(level + 1));
        skipSpace();
        if (text[at] === ',') {
          at += 1;
          continue;
        }
        expect(']');
        return { kind: 'array', items };
      }
    }
    if (first === '"') return { kind: 'scalar', raw: readString() };
    return { kind: 'scalar', raw: readMatch(/true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y) };
  };

  const value = readValue(0);
  skipSpace();
  if (at !== text.length) fail();
  return value;
}

/** The value as JavaScript would have it; key order and number spelling are lost here. */
export function toJs(value: RawValue): unknown {
  switch (value.kind) {
    case 'object':
      return Object.fromEntries(value.entries.map((entry) => [entry.key, toJs(entry.value)]));
    case 'array':
      return value.items.map(toJs);
    case 'scalar':
      return JSON.parse(value.raw);
  }
}

/** Compact text, keys and scalars spelled as they were read. */
export function writeRaw(value: RawValue): string {
  switch (value.kind) {
    case 'object':
      return `{${value.entries.map((entry) => `${entry.rawKey}:${writeRaw(entry.value)}`).join(',')}}`;
    case 'array':
      return `[${value.items.map(writeRaw).join(',')}]`;
    case 'scalar':
      return value.raw;
  }
}

/** The value under `key`, or undefined when there is none or `value` is no object. */
export function fieldOf(value: RawValue | undefined, key: string): RawValue | undefined {
  return entriesOf(value).find((entry) => entry.key === key)?.value;
}

/** Entries of an object, nothing for anything else. */
export function entriesOf(value: RawValue | undefined): readonly RawEntry[] {
  return value?.kind === 'object' ? value.entries : [];
}

/** Throws COMPOSE_FAILED when `text` is not the JSON of a project. */
export function hashesOf(text: string): Hashes {
  return hashesOfRaw(readRaw(text));
}

export function hashesOfRaw(project: RawValue): Hashes {
  if (project.kind !== 'object') {
    throw new Fault('COMPOSE_FAILED', 'the output of docker compose config is not a JSON object');
  }
  const services = new Map<string, ServiceHash>();
  for (const { key, value } of entriesOf(fieldOf(project, 'services'))) services.set(key, serviceHash(value));
  const networks = new Map<string, string>();
  for (const { key, value } of entriesOf(fieldOf(project, 'networks'))) networks.set(key, networkHash(value));
  const volumes = new Map<string, string>();
  for (const { key, value } of entriesOf(fieldOf(project, 'volumes'))) volumes.set(key, volumeHash(value));
  return { services, networks, volumes };
}

/**
 * The label of a service that shares something with its parents, once those have containers: of each parent the id of
 * the one whose name sorts first. Null while a parent has none.
 */
export function hashWithIds(service: ServiceHash, ids: ReadonlyMap<string, string>): string | null {
  if (!service.needsIds) return service.hash;
  let complete = true;
  const idOf = (name: string): string => {
    const id = ids.get(name);
    if (id === undefined) complete = false;
    return id ?? '';
  };
  const substituted = entriesOf(readRaw(service.text)).map((entry): RawEntry => {
    if (sharedNamespaces.has(entry.key)) {
      const parent = parentOfNamespace(entry.value);
      return parent === null ? entry : { ...entry, value: scalar(`container:${idOf(parent)}`) };
    }
    if (entry.key === 'volumes_from' && entry.value.kind === 'array') {
      const items = entry.value.items.map((item) => {
        const source = volumesFrom(item);
        if (source === null) return item;
        return scalar(source.kind === 'service' ? idOf(source.name) : source.name);
      });
      return { ...entry, value: { kind: 'array', items } };
    }
    return entry;
  });
  return complete ? sha256(writeRaw({ kind: 'object', entries: substituted })) : null;
}

function serviceHash(service: RawValue): ServiceHash {
  const entries: RawEntry[] = [];
  const parents = new Set<string>();
  let needsIds = false;
  for (const entry of entriesOf(service)) {
    if (unhashedFields.has(entry.key)) continue;
    if (entry.key === 'deploy' && entry.value.kind === 'object') {
      const kept = entry.value.entries.filter((inner) => inner.key !== 'replicas');
      entries.push({ ...entry, value: { kind: 'object', entries: kept } });
      continue;
    }
    if (sharedNamespaces.has(entry.key)) {
      const parent = parentOfNamespace(entry.value);
      if (parent !== null) parents.add(parent);
    }
    if (entry.key === 'volumes_from' && entry.value.kind === 'array') {
      for (const item of entry.value.items) {
        const source = volumesFrom(item);
        if (source?.kind === 'service') parents.add(source.name);
        // Even a foreign container is written into the label without its access mode.
        if (source !== null) needsIds = true;
      }
    }
    entries.push(entry);
  }
  const text = unescapeDollars(writeRaw({ kind: 'object', entries }));
  const found = { hash: sha256(text), text, needsIds: needsIds || parents.size > 0, parents: [...parents] };
  // Of a foreign container Compose writes the name, which is known now.
  return needsIds && parents.size === 0
    ? { ...found, hash: hashWithIds(found, NO_IDS) ?? found.hash, needsIds: false }
    : found;
}

function networkHash(network: RawValue): string {
  return isExternal(network) ? '' : sha256(unescapeDollars(writeRaw(network)));
}

// Compose fills in the default driver before it hashes, and the driver is written right after the name.
function volumeHash(volume: RawValue): string {
  if (isExternal(volume)) return '';
  const entries = entriesOf(volume);
  const driver = fieldOf(volume, 'driver');
  if (driver !== undefined && !(driver.kind === 'scalar' && driver.raw === '""')) {
    return sha256(unescapeDollars(writeRaw(volume)));
  }
  const rest = entries.filter((entry) => entry.key !== 'driver');
  const after = rest.findIndex((entry) => entry.key === 'name') + 1;
  const filled = [
    ...rest.slice(0, after),
    { key: 'driver', rawKey: '"driver"', value: scalar('local') },
    ...rest.slice(after),
  ];
  return sha256(unescapeDollars(writeRaw({ kind: 'object', entries: filled })));
}

function isExternal(value: RawValue): boolean {
  const external = fieldOf(value, 'external');
  return external?.kind === 'scalar' && external.raw === 'true';
}

function parentOfNamespace(value: RawValue): string | null {
  const mode = stringOf(value);
  return mode?.startsWith('service:') ? mode.slice('service:'.length) : null;
}

// `service`, `service:ro` or `container:name:ro`; the access mode is not part of the label.
function volumesFrom(value: RawValue): { readonly kind: 'service' | 'container'; readonly name: string } | null {
  const parts = stringOf(value)?.split(':');
  if (parts?.[0] === undefined) return null;
  return parts[0] === 'container' ? { kind: 'container', name: parts[1] ?? '' } : { kind: 'service', name: parts[0] };
}

function stringOf(value: RawValue): string | null {
  return value.kind === 'scalar' && value.raw.startsWith('"') ? JSON.parse(value.raw) : null;
}

function scalar(value: string): RawValue {
  return { kind: 'scalar', raw: JSON.stringify(value) };
}

// `config` doubles every `$` so that its output can be read again; the hash is made of the value itself.
function unescapeDollars(text: string): string {
  return text.replace(/\$\$/g, () => '$');
}

function decode(rawKey: string, fail: () => never): string {
  try {
    return JSON.parse(rawKey);
  } catch {
    return fail();
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
