// Compose scan: what a Compose file points to in the repository, and what it says to Windlass (`x-windlass`). It decides nothing that
// Compose decides: no interpolation, no merging; a superset of what Compose will read is enough.
import type { OnFileChange } from '../state/desired.ts';
import type { Diagnostic, Place } from './diagnostic.ts';
import type { Parsed, Path } from './document.ts';
import { isSecretRef, parseMint } from './ref.ts';
import { didYouMean } from './suggest.ts';

export type ReferenceKind = 'include' | 'extends' | 'env_file' | 'label_file' | 'config' | 'secret' | 'bind' | 'build';

export interface Reference {
  readonly kind: ReferenceKind;
  /** As written. */
  readonly text: string;
  readonly place: Place;
  /** Of an `extends`: which service of the file. */
  readonly service?: string;
  /** Of an `include`: all its files and its project folder, as written. */
  readonly files?: readonly string[];
  readonly projectDirectory?: string;
}

export interface Extension {
  readonly onFileChange?: OnFileChange;
  readonly oneShot?: boolean;
}

export interface ComposeScan {
  /** Top-level `name`, when it is plain. */
  readonly name: string | null;
  readonly services: readonly string[];
  readonly references: readonly Reference[];
  readonly extensions: Readonly<Record<string, Extension>>;
  readonly diagnostics: readonly Diagnostic[];
}

type Loose = Readonly<Record<string, unknown>>;

const mapOf = (value: unknown): Loose =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Loose) : {};
const listOf = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

/** Build contexts and includes that Compose fetches by itself. */
export const isRemote = (text: string): boolean =>
  /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ||
  /^git@/.test(text) ||
  /^github\.com\//.test(text) ||
  /^(?:service|target|docker-image|oci-layout):/.test(text);

const startsAsPath = (text: string): boolean => /^(?:\.|\/|~|\$)/.test(text);

/** Scans one file; with `only`, just that service of it and those it extends in the same file. */
export function scanCompose(parsed: Parsed, only: string | null = null): ComposeScan {
  const root = mapOf(parsed.value);
  const references: Reference[] = [];
  const diagnostics: Diagnostic[] = [];
  const extensions: Record<string, Extension> = {};
  const services = mapOf(root.services);
  const add = (kind: ReferenceKind, text: unknown, path: Path, more: Partial<Reference> = {}) => {
    if (isText(text)) references.push({ kind, text, place: parsed.place(path), ...more });
  };

  const scanService = (name: string, service: Loose): void => {
    const at = (...path: Path): Path => ['services', name, ...path];
    const { extends: extended, env_file: envFile, label_file: labelFile, build, volumes } = service;
    const file = mapOf(extended).file;
    if (isText(file)) {
      const from = mapOf(extended).service;
      add('extends', file, at('extends', 'file'), { service: isText(from) ? from : name });
    }
    for (const [index, item] of listOf(envFile).entries())
      add(
        'env_file',
        isText(item) ? item : mapOf(item).path,
        at('env_file', ...(Array.isArray(envFile) ? [index] : [])),
      );
    for (const [index, item] of listOf(labelFile).entries())
      add('label_file', item, at('label_file', ...(Array.isArray(labelFile) ? [index] : [])));
    for (const [index, item] of listOf(volumes).entries()) {
      if (isText(item)) {
        const source = shortSource(item);
        if (source !== null) add('bind', source, at('volumes', index));
      } else if (mapOf(item).type === 'bind') add('bind', mapOf(item).source, at('volumes', index, 'source'));
    }
    scanEnvironment(service.environment, at('environment'));
    const secretFile = mapOf(service.credential_spec).file;
    add('config', secretFile, at('credential_spec', 'file'));
    scanBuild(build, at('build'));
    const said = service['x-windlass'];
    if (said !== undefined) {
      const extension = extensionOf(said, (path, of) => parsed.place(at('x-windlass', ...path), of));
      extensions[name] = extension.value;
      diagnostics.push(...extension.diagnostics);
    }
  };

  /** Nothing of a plain file is opened: such a value would be a password that everybody can read. */
  const scanEnvironment = (environment: unknown, path: Path): void => {
    const values = Array.isArray(environment)
      ? environment.map((item, at): [Path, unknown] => [
          [...path, at],
          isText(item) ? item.slice(item.indexOf('=') + 1) : item,
        ])
      : Object.entries(mapOf(environment)).map(([name, value]): [Path, unknown] => [[...path, name], value]);
    for (const [place, value] of values)
      if (isText(value) && (isSecretRef(value) || parseMint(value) !== null))
        diagnostics.push({
          severity: 'warning',
          code: 'SECRET_NOT_OPENED',
          summary: `${JSON.stringify(value)} stays as it is in a Compose file`,
          detail:
            'plain Compose files mean what Docker Compose means by them: the container gets this text as its value',
          help: 'name it under `vars:` of a stack.yaml beside this file, for example `vars: { PASSWORD: "…" }`, and write $PASSWORD here',
          place: parsed.place(place),
        });
  };

  const scanBuild = (build: unknown, path: Path): void => {
    const context = isText(build) ? build : mapOf(build).context;
    if (isText(context) && !isRemote(context)) {
      add('build', context, isText(build) ? path : [...path, 'context']);
      const dockerfile = mapOf(build).dockerfile;
      if (isText(dockerfile) && !dockerfile.startsWith('/'))
        add('build', `${context}/${dockerfile}`, [...path, 'dockerfile']);
    }
    const additional = mapOf(build).additional_contexts;
    const contexts = Array.isArray(additional)
      ? additional.map((item) => (isText(item) ? item.slice(item.indexOf('=') + 1) : null))
      : Object.values(mapOf(additional));
    for (const item of contexts)
      if (isText(item) && !isRemote(item)) add('build', item, [...path, 'additional_contexts']);
  };

  if (only === null) {
    for (const [index, item] of listOf(root.include).entries()) {
      const path: Path = ['include', index];
      const files = isText(item) ? [item] : listOf(mapOf(item).path).filter(isText);
      const directory = mapOf(item).project_directory;
      const first = files[0];
      if (first !== undefined)
        add('include', first, path, { files, ...(isText(directory) ? { projectDirectory: directory } : {}) });
      for (const envFile of listOf(mapOf(item).env_file)) add('env_file', envFile, [...path, 'env_file']);
    }
    for (const [name, service] of Object.entries(services)) scanService(name, mapOf(service));
    for (const [section, kind] of [
      ['configs', 'config'],
      ['secrets', 'secret'],
    ] as const)
      for (const [name, definition] of Object.entries(mapOf(root[section])))
        add(kind, mapOf(definition).file, [section, name, 'file']);
  } else {
    const seen = new Set<string>();
    for (let name: string | null = only; name !== null && !seen.has(name); ) {
      seen.add(name);
      const service = mapOf(services[name]);
      scanService(name, service);
      const extended = service.extends;
      const next: unknown = isText(extended)
        ? extended
        : mapOf(extended).file === undefined
          ? mapOf(extended).service
          : null;
      name = isText(next) ? next : null;
    }
  }
  return {
    name: isText(root.name) && !root.name.includes('$') ? root.name : null,
    services: Object.keys(services),
    references,
    extensions,
    diagnostics,
  };
}

/** The host path of a mount in short syntax; null when it names a volume or nothing. */
function shortSource(text: string): string | null {
  if (!startsAsPath(text)) return null;
  // A `:` inside `${NAME:-default}` does not end the source.
  let depth = 0;
  for (let index = 0; index < text.length; index++) {
    if (text.startsWith('${', index)) depth++;
    else if (text[index] === '}' && depth > 0) depth--;
    else if (text[index] === ':' && depth === 0) return text.slice(0, index);
  }
  return null;
}

const FILE_CHANGES = ['recreate', 'restart', 'ignore'] as const;

/** `x-windlass` of a service: `onFileChange` and `oneShot`, nothing else. */
export function extensionOf(
  said: unknown,
  place: (path: Path, of?: 'key' | 'value') => Place,
): { readonly value: Extension; readonly diagnostics: readonly Diagnostic[] } {
  const diagnostics: Diagnostic[] = [];
  const wrong = (path: Path, of: 'key' | 'value', summary: string, detail: string, more: { help?: string } = {}) =>
    diagnostics.push({ severity: 'error', code: 'SPEC_INVALID', summary, detail, ...more, place: place(path, of) });
  if (typeof said !== 'object' || said === null || Array.isArray(said)) {
    wrong([], 'value', 'wrong type for `x-windlass`', 'expected a map with `onFileChange` or `oneShot`');
    return { value: {}, diagnostics };
  }
  let value: Extension = {};
  for (const [key, item] of Object.entries(said)) {
    if (key === 'oneShot') {
      if (typeof item === 'boolean') value = { ...value, oneShot: item };
      else wrong([key], 'value', 'wrong type for `x-windlass.oneShot`', 'expected true or false');
    } else if (key === 'onFileChange') {
      const signal = typeof item === 'string' ? /^signal:((?:SIG)?[A-Z][A-Z0-9+-]{0,15})$/.exec(item) : null;
      const kind = FILE_CHANGES.find((word) => word === item);
      if (signal) value = { ...value, onFileChange: { kind: 'signal', signal: signal[1] ?? '' } };
      else if (kind) value = { ...value, onFileChange: { kind } };
      else
        wrong(
          [key],
          'value',
          'wrong value for `x-windlass.onFileChange`',
          'expected recreate, restart, ignore or signal:NAME such as signal:HUP',
          {
            ...(typeof item === 'string' ? didYouMean(item, FILE_CHANGES) : {}),
          },
        );
    } else
      wrong(
        [key],
        'key',
        `unknown key \`${key}\` in \`x-windlass\``,
        'expected one of onFileChange, oneShot',
        didYouMean(key, ['onFileChange', 'oneShot']),
      );
  }
  return { value, diagnostics };
}
