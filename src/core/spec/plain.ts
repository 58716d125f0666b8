// Plain: one Compose project without an app: which files make it up, what they pull in from elsewhere in the repository, its name.
// What the files mean is left to Compose.
import type { TreeEntry } from '../state/listing.ts';
import { type ComposeScan, type Extension, isRemote, type Reference, scanCompose } from './compose-scan.ts';
import type { Diagnostic, Place } from './diagnostic.ts';
import { parseDocuments } from './document.ts';
import { listOf, parseDotenv } from './dotenv.ts';
import { inspect, linkTarget } from './hygiene.ts';
import type { Text } from './loaded.ts';
import { basename, dirname, isBelow, join, resolvePath } from './repository-path.ts';
import { type Reading, readText } from './together.ts';
import type { Tree } from './tree.ts';

/** In Compose's own order of preference. */
const FILES = ['compose.yaml', 'compose.yml', 'docker-compose.yml', 'docker-compose.yaml'] as const;
const OVERRIDES = [
  'compose.override.yml',
  'compose.override.yaml',
  'docker-compose.override.yml',
  'docker-compose.override.yaml',
] as const;

/** More files than any project has; a chain of includes that never ends stops here. */
const MOST_FILES = 200;
const MOST_LINKS = 16;

export interface PlainProject {
  /** Compose's project directory: that of the first file. */
  readonly directory: string;
  readonly files: readonly string[];
  readonly profiles: readonly string[];
  readonly name: string;
  /** False when a file that may name the project could not be read. */
  readonly isNameCertain: boolean;
  /** Null when some file that may declare services is not known here. */
  readonly services: readonly string[] | null;
  /** Compose files that this project includes. */
  readonly includes: readonly string[];
  readonly extensions: Readonly<Record<string, Extension>>;
  /** Variables of the folder's `.env` that Compose would not find by itself, because the first file lies elsewhere. */
  readonly environment: Readonly<Record<string, string>>;
  readonly entries: readonly TreeEntry[];
  /** Identities of all that `entries` holds, folders by their tree id. */
  readonly identities: readonly string[];
  /** What was looked at outside the folder: path → identity then. */
  readonly outside: ReadonlyMap<string, string>;
  readonly diagnostics: readonly Diagnostic[];
}

export const composeFileOf = (tree: Tree, folder: string): string | null =>
  FILES.map((name) => join(folder, name)).find((path) => tree.entry(path)) ?? null;

/** As Compose makes a project name of a folder's name. */
export const normaliseName = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^a-z0-9_-]/g, '')
    .replace(/^[_-]+/, '');

const whole = (file: string): Place => ({ file, line: 0, column: 0 });

/** The diagnostic for a text that could not be read. */
export function unreadable(file: string, text: Exclude<Text, string>): Diagnostic {
  const reasons: Record<typeof text.refused, string> = {
    missing: 'it is not in the commit',
    'too-large': 'it is larger than 1 MiB',
    'not-utf8': 'it is not UTF-8 text',
    'not-a-file': 'it is not a regular file',
  };
  return {
    severity: 'error',
    code: 'TEXT_UNREADABLE',
    summary: `${file} cannot be read: ${reasons[text.refused]}`,
    detail: 'expected a regular file of at most 1 MiB of UTF-8 text',
    place: whole(file),
  };
}

/** Where a path really lies, through links in its folders and at its end; null when a link is refused, there are too many, or it is a submodule. */
export function* followLinks(
  tree: Tree,
  path: string,
  seen: (link: string) => void = () => {},
): Reading<string | null> {
  let at = path;
  for (let count = 0; count <= MOST_LINKS; count++) {
    const link = firstLink(tree, at);
    if (link === null) return tree.entry(at)?.mode === '160000' ? null : at;
    seen(link);
    const text = yield* readText(link);
    const target = typeof text === 'string' ? linkTarget(link, text) : null;
    if (!target || 'wrong' in target) return null;
    const rest = at.slice(link.length + 1);
    at = rest === '' ? target.path : join(target.path, rest);
  }
  return null;
}

function firstLink(tree: Tree, path: string): string | null {
  for (let end = path.indexOf('/'); ; end = path.indexOf('/', end + 1)) {
    const prefix = end < 0 ? path : path.slice(0, end);
    if (tree.entry(prefix)?.mode === '120000') return prefix;
    if (end < 0) return null;
  }
}

/** Reads the project in `folder`. Null when nothing there says that there is one. */
export function* readPlain(tree: Tree, folder: string, fallbackName: string): Reading<PlainProject | null> {
  const reader = new PlainReader(tree, folder);
  return yield* reader.read(fallbackName);
}

interface Wanted {
  readonly path: string;
  /** Folder against which its relative paths are resolved. */
  readonly base: string;
  /** Null: the whole file. */
  readonly service: string | null;
  readonly from: Reference | null;
}

class PlainReader {
  readonly #tree: Tree;
  readonly #folder: string;
  readonly #diagnostics: Diagnostic[] = [];
  readonly #outside = new Map<string, string>();
  /** Paths outside the folder whose entries belong to the project, and what in it leads there. */
  readonly #taken = new Map<string, Place>();
  readonly #includes = new Set<string>();
  readonly #services = new Set<string>();
  readonly #extensions: Record<string, Extension> = {};
  #isComplete = true;
  #isNameCertain = true;
  #declaredName: string | null = null;

  constructor(tree: Tree, folder: string) {
    this.#tree = tree;
    this.#folder = folder;
  }

  *read(fallbackName: string): Reading<PlainProject | null> {
    const tree = this.#tree;
    const dotenvPath = join(this.#folder, '.env');
    const dotenv = tree.entry(dotenvPath) ? yield* this.#dotenv(dotenvPath) : {};
    const chosen = this.#choose(dotenv, dotenvPath);
    if (chosen.length === 0 && this.#diagnostics.length === 0) return null;
    const files = chosen.map(({ path }) => path);
    const directory = files[0] === undefined ? this.#folder : dirname(files[0]);
    for (const { path, place } of chosen) this.#take(path, place);
    yield* this.#closure(
      chosen.map(({ path, place }) => ({ path, base: directory, service: null, from: null, place })),
    );
    const entries = yield* this.#entries();
    const declared = dotenv.COMPOSE_PROJECT_NAME || this.#declaredName;
    return {
      directory,
      files,
      profiles: listOf(dotenv.COMPOSE_PROFILES, ','),
      name: declared || fallbackName,
      isNameCertain: this.#isNameCertain,
      services: this.#isComplete ? [...this.#services] : null,
      includes: [...this.#includes],
      extensions: this.#extensions,
      environment: directory === this.#folder ? {} : dotenv,
      entries,
      identities: [
        `own ${this.#folder} ${tree.identity(this.#folder)}`,
        ...[...this.#taken.keys()].sort().map((path) => `${path} ${tree.identity(path)}`),
      ],
      outside: this.#outside,
      diagnostics: this.#diagnostics,
    };
  }

  #error(code: string, place: Place, summary: string, detail?: string, help?: string): void {
    this.#diagnostics.push({
      severity: 'error',
      code,
      summary,
      ...(detail === undefined ? {} : { detail }),
      ...(help === undefined ? {} : { help }),
      place,
    });
  }

  *#dotenv(path: string): Reading<Readonly<Record<string, string>>> {
    const real = yield* followLinks(this.#tree, path, (link) => this.#look(link));
    const text: Text = real === null ? { refused: 'not-a-file' } : yield* readText(real);
    if (typeof text === 'string') return parseDotenv(text);
    // It may hold COMPOSE_FILE or the project's name, so the project is not known without it.
    this.#isNameCertain = false;
    this.#diagnostics.push(unreadable(path, text));
    return {};
  }

  /** The project's files in order: COMPOSE_FILE, or the default one and its override. */
  #choose(dotenv: Readonly<Record<string, string>>, dotenvPath: string): { path: string; place: Place }[] {
    const said = listOf(dotenv.COMPOSE_FILE, dotenv.COMPOSE_PATH_SEPARATOR || ':');
    if (said.length > 0) {
      const chosen: { path: string; place: Place }[] = [];
      for (const text of said) {
        const path = resolvePath(this.#folder, text);
        if (path === null)
          this.#error(
            'PATH_OUTSIDE',
            whole(dotenvPath),
            `COMPOSE_FILE names ${JSON.stringify(text)}, outside the repository`,
            'expected files of the repository',
          );
        else chosen.push({ path, place: whole(dotenvPath) });
      }
      return chosen;
    }
    const main = composeFileOf(this.#tree, this.#folder);
    if (main === null) return [];
    const unused = FILES.map((name) => join(this.#folder, name)).filter(
      (path) => path !== main && this.#tree.entry(path),
    );
    if (unused.length > 0)
      this.#diagnostics.push({
        severity: 'warning',
        code: 'COMPOSE_FILE_UNUSED',
        summary: `${main} is used, and ${unused.join(' and ')} beside it is not`,
        detail: 'as Docker Compose chooses where a folder has several files under its default names',
        help: 'remove or rename what is not meant, or name the files in COMPOSE_FILE of the `.env` beside them',
        place: whole(main),
      });
    const override = OVERRIDES.map((name) => join(this.#folder, name)).find((path) => this.#tree.entry(path));
    return [main, ...(override === undefined ? [] : [override])].map((path) => ({ path, place: whole(path) }));
  }

  /** Notes that the answer depends on what lies at `path`. */
  #look(path: string): string {
    const identity = this.#tree.identity(path);
    if (!isBelow(path, this.#folder)) this.#outside.set(path, identity);
    return identity;
  }

  /** Makes what lies at `path` part of the project, because of what stands at `by`. */
  #take(path: string, by: Place): boolean {
    if (this.#look(path) === '') return false;
    if (!isBelow(path, this.#folder) && !this.#taken.has(path)) this.#taken.set(path, this.#origin(by));
    return true;
  }

  /** What in the folder leads to a place outside of it. */
  #origin(by: Place): Place {
    if (isBelow(by.file, this.#folder)) return by;
    for (const [path, place] of this.#taken) if (isBelow(by.file, path)) return place;
    return by;
  }

  /** Compose files, and those that they include or extend, breadth first. */
  *#closure(first: readonly (Wanted & { readonly place: Place })[]): Reading<void> {
    const seen = new Set<string>();
    let round: readonly (Wanted & { readonly place: Place })[] = first;
    while (round.length > 0) {
      const fresh = round.filter((one) => {
        const key = JSON.stringify([one.path, one.base, one.service]);
        return !seen.has(key) && seen.add(key);
      });
      if (seen.size > MOST_FILES) {
        this.#error(
          'COMPOSE_TOO_MANY_FILES',
          whole(first[0]?.path ?? ''),
          `the project reads more than ${MOST_FILES} Compose files`,
        );
        return;
      }
      const reals: (string | null)[] = [];
      for (const one of fresh)
        reals.push(
          yield* followLinks(this.#tree, one.path, (link) => {
            this.#take(link, one.place);
          }),
        );
      const present = reals.filter(
        (path, index): path is string => path !== null && this.#take(path, fresh[index]?.place ?? whole(path)),
      );
      const texts: ReadonlyMap<string, Text> = present.length === 0 ? new Map() : yield present;
      const next: (Wanted & { readonly place: Place })[] = [];
      for (const [index, one] of fresh.entries()) {
        const real = reals[index] ?? null;
        const text: Text =
          real === null
            ? { refused: 'not-a-file' }
            : this.#look(real) === ''
              ? { refused: 'missing' }
              : (texts.get(real) ?? { refused: 'missing' });
        next.push(...this.#scan(one, text));
      }
      round = next;
    }
  }

  #scan(wanted: Wanted & { readonly place: Place }, text: Text): (Wanted & { readonly place: Place })[] {
    const isMain = wanted.from === null;
    if (typeof text !== 'string') {
      if (isMain) this.#isNameCertain = false;
      this.#isComplete = false;
      if (wanted.from === null) this.#diagnostics.push(unreadable(wanted.path, text));
      else
        this.#error(
          'REFERENCE_MISSING',
          wanted.place,
          `\`${wanted.from.kind}\` names ${JSON.stringify(wanted.from.text)}, which cannot be read`,
          `expected the file ${wanted.path} in the repository`,
          'correct the path, or commit the file',
        );
      return [];
    }
    const { parsed, diagnostics } = parseDocuments(wanted.path, text);
    this.#diagnostics.push(...diagnostics);
    if (diagnostics.length > 0) {
      if (isMain) {
        this.#isNameCertain = false;
        // So that a stack with a mistake in it keeps the name under which it is known.
        const guess = /^name:\s*["']?([a-z0-9][a-z0-9_-]*)["']?\s*(?:#.*)?$/m.exec(text)?.[1];
        if (guess !== undefined) this.#declaredName = guess;
      }
      // What it includes must not become stacks of their own because of a mistake elsewhere in the file.
      if (/^include\s*:/m.test(text))
        for (const [path] of text.matchAll(/[\w./-]+\.ya?ml/g)) {
          const included = resolvePath(wanted.base, path);
          if (included !== null && included !== wanted.path) this.#includes.add(included);
        }
      this.#isComplete = false;
    }
    if (parsed.length === 0 && diagnostics.length === 0)
      this.#error('DOCUMENT_EMPTY', whole(wanted.path), `${wanted.path} is empty`, 'expected a Compose file');
    const next: (Wanted & { readonly place: Place })[] = [];
    for (const document of parsed) {
      if (typeof document.value !== 'object' || document.value === null || Array.isArray(document.value)) {
        this.#error(
          'COMPOSE_INVALID',
          document.place([]),
          `${wanted.path} is no Compose file`,
          'expected a map with `services`',
        );
        continue;
      }
      const scan = scanCompose(document, wanted.service);
      if (isMain && scan.name !== null) this.#declaredName = scan.name;
      this.#note(scan, wanted.service);
      for (const reference of scan.references) next.push(...this.#refer(reference, wanted.base));
    }
    return next;
  }

  #note(scan: ComposeScan, only: string | null): void {
    this.#diagnostics.push(...scan.diagnostics);
    if (only !== null) return;
    for (const service of scan.services) this.#services.add(service);
    for (const [service, extension] of Object.entries(scan.extensions))
      this.#extensions[service] = { ...this.#extensions[service], ...extension };
  }

  /** What one reference adds: entries of the repository, and Compose files to read. */
  #refer(reference: Reference, base: string): (Wanted & { readonly place: Place })[] {
    const { kind, place } = reference;
    if (kind === 'include') {
      const files = (reference.files ?? [reference.text]).filter((text) => this.#isHere(text, reference, base));
      const paths = files.map((text) => this.#inside(text, reference, base)).filter((path) => path !== null);
      const first = paths[0];
      if (first === undefined) return [];
      const said = reference.projectDirectory;
      const directory = said === undefined || said.includes('$') ? dirname(first) : this.#inside(said, reference, base);
      if (directory === null) return [];
      this.#take(join(directory, '.env'), place);
      for (const path of paths) this.#includes.add(path);
      return paths.map((path) => ({ path, base: directory, service: null, from: reference, place }));
    }
    if (kind === 'extends') {
      if (!this.#isHere(reference.text, reference, base)) return [];
      const path = this.#inside(reference.text, reference, base);
      if (path === null) return [];
      return [{ path, base: dirname(path), service: reference.service ?? null, from: reference, place }];
    }
    const path = this.#inside(staticPart(reference.text), reference, base);
    if (path !== null) this.#take(path, place);
    return [];
  }

  /** False for a file whose place only Compose can know: fetched by it, or named through a variable. */
  #isHere(text: string, reference: Reference, base: string): boolean {
    if (!isRemote(text) && !text.includes('$')) return true;
    this.#isComplete = false;
    if (isRemote(text))
      this.#diagnostics.push({
        severity: 'warning',
        code: 'REFERENCE_REMOTE',
        summary: `\`${reference.kind}\` fetches ${JSON.stringify(text)} from elsewhere`,
        detail: 'what it holds is not part of the commit: a change there is not seen',
        help: 'copy the file into the repository',
        place: reference.place,
      });
    else {
      const path = this.#inside(staticPart(text), reference, base);
      if (path !== null) this.#take(path, reference.place);
    }
    return false;
  }

  /** The repository path of a reference; null, with a diagnostic where it matters, when it is not in the repository. */
  #inside(text: string, reference: Reference, base: string): string | null {
    const { kind, place } = reference;
    const isAbsolute = text.startsWith('/') || text.startsWith('~');
    const path = isAbsolute ? null : resolvePath(base, text);
    if (path !== null) return path;
    // Host paths are legal where Compose mounts or reads them; a relative path out of the repository would reach the controller's own state.
    const isLegal = isAbsolute && ['bind', 'build', 'config', 'secret'].includes(kind);
    if (!isLegal)
      this.#error(
        'PATH_OUTSIDE',
        place,
        `\`${kind}\` names ${JSON.stringify(reference.text)}, outside the repository`,
        isAbsolute ? 'expected a file of the repository' : 'expected a path that stays inside the repository',
        kind === 'bind' ? 'write an absolute path for a folder of the host' : 'put the file into the repository',
      );
    return null;
  }

  /** All entries of the project, inspected, with what their links point to. */
  *#entries(): Reading<readonly TreeEntry[]> {
    const tree = this.#tree;
    const chosen = new Map<string, TreeEntry>();
    let fresh: readonly TreeEntry[] = tree.below(this.#folder);
    const pending = new Set(this.#taken.keys());
    const refusals: Diagnostic[] = [];
    for (let round = 0; round <= MOST_LINKS; round++) {
      for (const path of pending) {
        const entry = tree.entry(path);
        fresh = [...fresh, ...(entry ? [entry] : tree.below(path))];
      }
      pending.clear();
      fresh = fresh.filter((entry) => !chosen.has(entry.path));
      if (fresh.length === 0) break;
      for (const entry of fresh) chosen.set(entry.path, entry);
      const inspected = yield* inspect(fresh);
      refusals.push(...inspected.refusals);
      for (const { link, target } of inspected.targets)
        if (!isBelow(target, this.#folder) && !this.#taken.has(target) && this.#take(target, whole(link)))
          pending.add(target);
      fresh = [];
    }
    for (const one of refusals) this.#diagnostics.push(this.#fromHere(one));
    return [...chosen.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  /** A refusal of something outside the folder stands where the folder leads to it: there it can be mended. */
  #fromHere(refusal: Diagnostic): Diagnostic {
    const file = refusal.place?.file;
    if (file === undefined || isBelow(file, this.#folder)) return refusal;
    const place = this.#origin(whole(file));
    return place.file === file
      ? refusal
      : { ...refusal, detail: `${place.file} leads there; ${refusal.detail}`, place };
  }
}

/** The folder in front of the first variable; the whole text when there is none. */
function staticPart(text: string): string {
  const at = text.search(/\$(?!\$)/);
  if (at < 0) return text.replaceAll('$$', '$');
  const folder = text.slice(0, at);
  return folder.includes('/') ? folder.slice(0, folder.lastIndexOf('/') + 1) || '/' : '.';
}

export const defaultName = (folder: string): string => normaliseName(basename(folder));
