// Request words: arguments and flags → the plain content of a request document. Whether it is valid is for the reader of requests to say.
import { type Flags, listFlag, textFlag, UsageError } from './command.ts';

type Content = Readonly<Record<string, unknown>>;

const head = (kind: string): Content => ({ apiVersion: 'windlass/v1', kind });

/** What was said, without what was not. */
const said = (content: Content): Content =>
  Object.fromEntries(Object.entries(content).filter(([, value]) => value !== undefined));

function needed(flags: Flags, name: string, example: string): string {
  const text = textFlag(flags, name);
  if (text === undefined) throw new UsageError(`--${name} is missing\n  example  --${name} ${example}`);
  return text;
}

const commaList = (text: string): readonly string[] =>
  text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');

function pairs(flags: Flags, name: string): readonly (readonly [string, string])[] {
  return listFlag(flags, name).map((text) => {
    const [, key = '', value = ''] = /^([^=]+)=([\s\S]*)$/.exec(text) ?? [];
    if (key === '') throw new UsageError(`--${name} takes NAME=VALUE, not ${text}`);
    return [key, value];
  });
}

function mapped<T>(flags: Flags, name: string, read: (text: string) => T): Readonly<Record<string, T>> | undefined {
  const found = pairs(flags, name);
  if (found.length === 0) return undefined;
  const map = new Map<string, T>();
  for (const [key, value] of found) {
    if (map.has(key)) throw new UsageError(`--${name} ${key} is given twice`);
    map.set(key, read(value));
  }
  return Object.fromEntries(map);
}

/** Numbers, true, false, lists and maps as JSON writes them; `1.10` and everything else is text, also what stands in JSON quotes. */
function varValue(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'number' && String(value) !== text) return text;
    return value === null ? text : value;
  } catch {
    return text;
  }
}

function portsOf(flags: Flags): Readonly<Record<string, readonly string[]>> | undefined {
  const ports = new Map<string, string[]>();
  for (const [service, port] of pairs(flags, 'port')) ports.set(service, [...(ports.get(service) ?? []), port]);
  return ports.size === 0 ? undefined : Object.fromEntries(ports);
}

const skipped = (flags: Flags): readonly string[] | undefined => {
  const plugs = listFlag(flags, 'skip-integration');
  return plugs.length === 0 ? undefined : plugs;
};

const overridesOf = (flags: Flags): Content => ({
  vars: mapped(flags, 'var', varValue),
  ports: portsOf(flags),
  integrate: mapped(flags, 'integrate', (text) => text),
  skipIntegration: skipped(flags),
});

/** `aftermath`: `safety` and `then`. */
const aftermathOf = (flags: Flags): readonly (readonly [string, unknown])[] => [
  ['safety', textFlag(flags, 'safety')],
  ['then', textFlag(flags, 'then')],
];

export function purgeOf([stack]: readonly string[], flags: Flags): Content {
  const volumes = needed(flags, 'volumes', 'pgdata,uploads');
  return said({ ...head('Purge'), stack, volumes: volumes === 'all' ? 'all' : commaList(volumes) });
}

export function restoreOf([stack]: readonly string[], flags: Flags): Content {
  return said({
    ...head('Restore'),
    stack,
    target: textFlag(flags, 'target'),
    archive: needed(flags, 'archive', 'HEX64, the full id from `windlass backups list`'),
    ...overridesOf(flags),
    ...Object.fromEntries(aftermathOf(flags)),
  });
}

export function recoverOf(_: readonly string[], flags: Flags): Content {
  return said({
    ...head('Recover'),
    stacks: commaList(needed(flags, 'stacks', 'pg,sso')),
    archive: needed(flags, 'archive', 'HEX64, the full id from `windlass backups list`'),
    rename: mapped(flags, 'rename', (text) => text),
    skipIntegration: skipped(flags),
    ...Object.fromEntries(aftermathOf(flags)),
  });
}

export function cloneOf([stack]: readonly string[], flags: Flags): Content {
  return said({
    ...head('Clone'),
    stack,
    target: needed(flags, 'target', 'shop-test'),
    archive: textFlag(flags, 'archive'),
    node: textFlag(flags, 'node'),
    secrets: textFlag(flags, 'secrets'),
    ...overridesOf(flags),
  });
}

export function moveOf([stack]: readonly string[], flags: Flags): Content {
  return said({
    ...head('Move'),
    stack,
    target: textFlag(flags, 'target'),
    node: textFlag(flags, 'node'),
    archive: textFlag(flags, 'archive'),
    ...overridesOf(flags),
  });
}
