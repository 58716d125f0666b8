// Load: the files of one commit → its stacks, or diagnostics for those that cannot be read. Pure: a coroutine that asks for texts.
// Nothing that is declared is ever left out: what cannot be read is `broken` under its name, and where even the name is not certain
// an error about the fleet says so.
import { createHash } from 'node:crypto';
import { formatCycle, layersOf } from '../render/integrate.ts';

import { effectiveVar, isIndirect, valueMistake } from './app-vars.ts';
import { scheduleMistakes } from './backup.ts';
import {
  bundledAppsOf,
  type CatalogApp,
  fleetAppsOf,
  hookMistakes,
  jobNameMistakes,
  readBundledApp,
  readFleetApp,
  unknownService,
} from './catalog.ts';
import { type Checked, checkText, hasErrors, sorted } from './check.ts';
import type { Diagnostic, Place } from './diagnostic.ts';
import type { Path } from './document.ts';
import { parseDuration } from './duration.ts';
import type { Fleet } from './fleet.ts';
import { matchGlob, matchGlobs } from './glob.ts';
import { PHASES } from './hooks.ts';
import type { Job } from './job.ts';
import type { Declared, Kind } from './kind.ts';
import type { Layout, LoadedFleet, LoadedStack, LoadInput, Loading, Text } from './loaded.ts';
import { composeFileOf, defaultName, type PlainProject, readPlain, unreadable } from './plain.ts';
import { basename, dirname, join } from './repository-path.ts';
import type { Stack } from './stack.ts';
import { didYouMean, listed } from './suggest.ts';
import { type Reading, readText, together } from './together.ts';
import { Tree } from './tree.ts';

/** Parsed parts of earlier commits, keyed by what they were parsed from. A Map will do. */
export interface LoadCache {
  get(key: string): unknown;
  set(key: string, value: unknown): unknown;
  delete(key: string): unknown;
  keys(): Iterable<string>;
}

const DEFAULT_DISCOVER = ['.', '*/', 'stacks/*/', 'services/*/', 'apps/*/'] as const;
const NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/;
/** Of what a digest covers: raised when the same input is read differently. */
const DIGEST_VERSION = 1;

export function load(input: LoadInput, cache: LoadCache = new Map()): Loading {
  return new Loader(input, cache).run();
}

/** A declared stack, read or not. */
interface Found {
  readonly name: string;
  readonly isNameCertain: boolean;
  readonly place: Place;
  readonly stack: LoadedStack | null;
  readonly diagnostics: readonly Diagnostic[];
  /** Of a plain project that no Stack document speaks of: its first file. */
  readonly implicitFile: string | null;
  readonly includes: readonly string[];
  at(path: Path, of?: 'key' | 'value'): Place;
}

type Checks = Checked<'Stack'>;

class Loader {
  readonly #input: LoadInput;
  readonly #tree: Tree;
  readonly #cache: LoadCache;
  readonly #used = new Set<string>();
  readonly #apps = new Map<string, CatalogApp>();
  readonly #usedApps = new Set<string>();
  readonly #diagnostics: Diagnostic[] = [];
  #fleet: Fleet | null = null;

  constructor(input: LoadInput, cache: LoadCache) {
    this.#input = input;
    this.#tree = new Tree(input.listing);
    this.#cache = cache;
  }

  *run(): Loading {
    const isFrozen = !(yield* this.#readFleet());
    const found: Found[] = [];
    yield* together([...this.#appReadings(), ...this.#stackReadings(found)]);
    const declared = this.#withoutIncluded(found);
    for (const one of this.#apps.values())
      if (!this.#usedApps.has(one.name))
        this.#diagnostics.push(...one.diagnostics.map((wrong): Diagnostic => ({ ...wrong, severity: 'warning' })));
    const fleet = this.#assemble(declared, isFrozen);
    this.#forget();
    return fleet;
  }

  // --- reading

  #memo<T>(key: string, make: () => T): T {
    this.#used.add(key);
    const kept = this.#cache.get(key) as T | undefined;
    if (kept !== undefined) return kept;
    const made = make();
    this.#cache.set(key, made);
    return made;
  }

  /** Drops what this commit did not use, once it is more than a commit's worth. */
  #forget(): void {
    const stale = [...this.#cache.keys()].filter((key) => !this.#used.has(key));
    if (stale.length > this.#used.size + 100) for (const key of stale) this.#cache.delete(key);
  }

  #check = <K extends Kind>(kind: K, file: string, text: string): Checked<K> =>
    this.#memo(`document ${kind} ${file} ${this.#tree.entry(file)?.oid ?? ''} ${text.length}`, () =>
      checkText(kind, file, text),
    );

  /** A document of ours: a regular file. Its text is not asked for when it was checked before. */
  *#document<K extends Kind>(kind: K, file: string): Reading<Checked<K>> {
    const entry = this.#tree.entry(file);
    const key = `read ${kind} ${file} ${entry?.mode} ${entry?.oid}`;
    this.#used.add(key);
    const kept = this.#cache.get(key) as Checked<K> | undefined;
    if (kept) return kept;
    const isFile = entry?.mode === '100644' || entry?.mode === '100755';
    const text: Text = isFile ? yield* readText(file) : { refused: 'not-a-file' };
    const checked: Checked<K> =
      typeof text === 'string'
        ? checkText(kind, file, text)
        : {
            value: null,
            raw: null,
            place: () => ({ file, line: 0, column: 0 }),
            diagnostics: [unreadable(file, text)],
          };
    // A text that could not be had is asked for again next time.
    if (typeof text === 'string') this.#cache.set(key, checked);
    return checked;
  }

  /** False when the fleet's own document is wrong: then no stack may be acted on. */
  *#readFleet(): Reading<boolean> {
    const file = ['fleet.yaml', 'fleet.yml'].find((path) => this.#tree.entry(path));
    if (file === undefined) return true;
    const checked = yield* this.#document('Fleet', file);
    this.#fleet = checked.value;
    this.#diagnostics.push(...checked.diagnostics);
    for (const [index, window] of (checked.value?.defaults?.windows ?? []).entries())
      this.#diagnostics.push(
        ...zoneMistakes(window.timezone, checked.place(['defaults', 'windows', index, 'timezone'])),
      );
    return !hasErrors(this.#diagnostics);
  }

  *#plain(folder: string): Reading<PlainProject | null> {
    const fallback = folder === '' ? (this.#fleet?.name ?? 'root') : defaultName(folder);
    const key = `plain ${folder} ${fallback} ${this.#tree.identity(folder)}`;
    this.#used.add(key);
    const kept = this.#cache.get(key) as PlainProject | undefined;
    if (kept && [...kept.outside].every(([path, identity]) => this.#tree.identity(path) === identity)) return kept;
    const project = yield* readPlain(this.#tree, folder, fallback);
    const isReadable = !project?.diagnostics.some((one) => one.code === 'TEXT_UNREADABLE');
    if (project && isReadable) this.#cache.set(key, project);
    return project;
  }

  #appReadings(): Reading<void>[] {
    const { bundled } = this.#input;
    const own = fleetAppsOf(this.#tree);
    for (const name of bundledAppsOf(bundled)) if (!own.includes(name)) this.#bundledNames.add(name);
    const reading = function* (loader: Loader, name: string): Reading<void> {
      const key = `app ${name} ${loader.#tree.identity(`apps/${name}`)}`;
      loader.#used.add(key);
      let app = loader.#cache.get(key) as CatalogApp | undefined;
      if (!app) {
        app = yield* readFleetApp(loader.#tree, name, loader.#check);
        if (!app.diagnostics.some((one) => one.code === 'TEXT_UNREADABLE')) loader.#cache.set(key, app);
      }
      loader.#apps.set(name, app);
    };
    return own.map((name) => reading(this, name));
  }

  readonly #bundledNames = new Set<string>();

  /** An app by name; null when there is none. Bundled ones are read on use. */
  #app(name: string): CatalogApp | null {
    const known = this.#apps.get(name);
    if (known) {
      this.#usedApps.add(name);
      return known;
    }
    if (!this.#bundledNames.has(name)) return null;
    const app = readBundledApp(this.#input.bundled, name, checkText);
    this.#apps.set(name, app);
    this.#usedApps.add(name);
    return app;
  }

  // --- discovery

  /** One reading for each place where a stack may be declared. Apps are read in the same rounds, so nothing here looks at them. */
  #stackReadings(found: Found[]): Reading<void>[] {
    const tree = this.#tree;
    const globs = this.#fleet?.discover ?? DEFAULT_DISCOVER;
    const readings: Reading<void>[] = [];
    const paired = new Set<string>();
    for (const { path } of tree.below('stacks')) {
      const match = /^stacks\/([^/]+)\.ya?ml$/.exec(path);
      if (!match || path.endsWith('.job.yaml')) continue;
      const folder = `stacks/${match[1]}`;
      const isPaired = composeFileOf(tree, folder) !== null && stackFileOf(tree, folder) === null;
      if (isPaired) paired.add(folder);
      readings.push(this.#documentPlace(found, path, isPaired ? folder : null, match[1] ?? ''));
    }
    for (const folder of tree.folders()) {
      if (paired.has(folder) || (/^apps\/[^/]+$/.test(folder) && tree.entry(`${folder}/app.yaml`))) continue;
      const isStacks = /^stacks\/[^/.][^/]*$/.test(folder);
      const isDiscovered = matchGlobs(globs, folder);
      const stackFile = isDiscovered || isStacks ? stackFileOf(tree, folder) : null;
      const hasProject =
        isDiscovered && (composeFileOf(tree, folder) !== null || tree.entry(join(folder, '.env')) !== null);
      if (hasProject || stackFile !== null) readings.push(this.#folderPlace(found, folder, stackFile, isStacks));
    }
    return readings;
  }

  /** `stacks/<name>.yaml`, perhaps with a Compose project in `stacks/<name>/`. */
  *#documentPlace(found: Found[], file: string, folder: string | null, name: string): Reading<void> {
    const checked = yield* this.#document('Stack', file);
    if (checked.value?.app !== undefined || folder === null) {
      found.push(this.#later(() => this.#instance(file, checked, name)));
      if (folder === null) return;
      const project = yield* this.#plain(folder);
      if (project) found.push(this.#ofProject(project, null, null, new Map()));
      return;
    }
    const project = yield* this.#plain(folder);
    found.push(yield* this.#projectWithDocument(project, file, checked, name));
  }

  /** A folder with a Compose project, a `stack.yaml`, or both. */
  *#folderPlace(found: Found[], folder: string, stackFile: string | null, isStacks: boolean): Reading<void> {
    let checked: Checks | null = null;
    if (stackFile !== null) {
      checked = yield* this.#document('Stack', stackFile);
      // Elsewhere than below stacks/ the name may be another tool's.
      const said = (checked.raw as { apiVersion?: unknown } | null)?.apiVersion;
      if (!isStacks && !(typeof said === 'string' && said.startsWith('windlass/'))) {
        const empty = checked.diagnostics.find((one) => one.code === 'DOCUMENT_EMPTY');
        if (empty) this.#diagnostics.push({ ...empty, severity: 'warning', help: 'it says nothing: remove it' });
        checked = null;
      }
    }
    const project = yield* this.#plain(folder);
    if (checked === null || stackFile === null) {
      if (project) found.push(this.#ofProject(project, null, null, new Map()));
      return;
    }
    const name = folder === '' ? (this.#fleet?.name ?? 'root') : defaultName(folder);
    if (project && checked.value?.app !== undefined) {
      const wrong: Diagnostic = {
        severity: 'error',
        code: 'STACK_AMBIGUOUS',
        summary: `the stack names the app \`${checked.value.app}\` and has a Compose project beside it`,
        detail: 'expected one of the two',
        help: `remove \`app\`, or ${project.files[0] ?? 'the Compose file'}`,
        place: checked.place(['app'], 'key'),
      };
      found.push(this.#broken(checked.value.name ?? name, true, checked.place([]), [wrong]));
    } else if (project) found.push(yield* this.#projectWithDocument(project, stackFile, checked, name));
    else found.push(this.#later(() => this.#instance(stackFile, checked, name)));
  }

  /** Apps are known only when all readings are done. */
  readonly #deferred = new Map<Found, () => Found>();

  #later(make: () => Found): Found {
    const placeholder = this.#broken('', true, { file: '', line: 0, column: 0 }, []);
    this.#deferred.set(placeholder, make);
    return placeholder;
  }

  /** A project that another one includes is part of that one. */
  #withoutIncluded(found: readonly Found[]): readonly Found[] {
    const all = found.map((one) => this.#deferred.get(one)?.() ?? one);
    const includers = new Map<string, Found[]>();
    for (const one of all)
      for (const path of one.includes)
        if (path !== one.implicitFile) includers.set(path, [...(includers.get(path) ?? []), one]);
    const isIncluded = (one: Found): boolean => one.implicitFile !== null && includers.has(one.implicitFile);
    return all.filter((one) => {
      const by =
        one.implicitFile === null ? undefined : includers.get(one.implicitFile)?.find((other) => !isIncluded(other));
      if (!by) return true;
      this.#diagnostics.push({
        severity: 'warning',
        code: 'PROJECT_INCLUDED',
        summary: `${one.implicitFile} is part of the stack \`${by.name}\`, which includes it`,
        detail: 'it is no stack of its own',
        help: 'put a stack.yaml beside it to make it one',
        place: one.place,
      });
      return false;
    });
  }

  // --- one stack

  #broken(
    name: string,
    isNameCertain: boolean,
    place: Place,
    diagnostics: readonly Diagnostic[],
    includes: readonly string[] = [],
  ): Found {
    return { name, isNameCertain, place, stack: null, diagnostics, implicitFile: null, includes, at: () => place };
  }

  /** The name under which a Stack document that may be wrong is known. */
  #nameOf(checked: Checks, fallback: string): { name: string; isCertain: boolean } {
    const said = checked.raw === null ? undefined : (checked.raw as { name?: unknown }).name;
    if (typeof said === 'string' && NAME.test(said)) return { name: said, isCertain: true };
    return { name: fallback, isCertain: checked.raw !== null && said === undefined };
  }

  /** A Stack document that stands for an app. */
  #instance(file: string, checked: Checks, fallback: string): Found {
    const { name, isCertain } = this.#nameOf(checked, fallback);
    const place: Place = { file, line: 1, column: 1 };
    const doc = checked.value;
    if (!doc) return this.#broken(name, isCertain, place, checked.diagnostics);
    const diagnostics: Diagnostic[] = [];
    const error = (code: string, at: Place, summary: string, detail: string, more: { help?: string } = {}) =>
      diagnostics.push({ severity: 'error', code, summary, detail, ...more, place: at });
    if (doc.app === undefined) {
      error(
        'STACK_EMPTY',
        checked.place([]),
        'the stack has neither an app nor a Compose project',
        `expected \`app: NAME\`, or ${join(dirname(file), `${fallback}/compose.yaml`)}`,
      );
      return this.#broken(name, isCertain, place, diagnostics);
    }
    const entry = this.#app(doc.app);
    if (!entry) {
      const known = [...fleetAppsOf(this.#tree), ...this.#bundledNames].sort();
      error(
        'APP_UNKNOWN',
        checked.place(['app']),
        `unknown app \`${doc.app}\``,
        `expected one of ${listed(known)}`,
        didYouMean(doc.app, known),
      );
      return this.#broken(name, isCertain, place, diagnostics);
    }
    const { app, spec } = entry;
    if (!app || !spec) return this.#broken(name, isCertain, place, entry.diagnostics);
    diagnostics.push(...entry.diagnostics);
    const declared = spec.vars ?? {};
    for (const [key, value] of Object.entries(doc.vars ?? {})) {
      const declaration = Object.hasOwn(declared, key) ? declared[key] : undefined;
      if (!declaration) {
        const known = Object.keys(declared);
        error(
          'VAR_UNKNOWN',
          checked.place(['vars', key], 'key'),
          `the app \`${app.name}\` has no variable \`${key}\``,
          `expected one of ${listed(known)}`,
          didYouMean(key, known),
        );
        continue;
      }
      if (value === null) continue;
      const wrong = valueMistake(key, declaration, value);
      if (wrong)
        error(
          'VAR_INVALID',
          checked.place(['vars', key]),
          wrong.summary,
          wrong.detail,
          wrong.help === undefined ? {} : { help: wrong.help },
        );
      else if (declaration.secret && !isIndirect(value))
        diagnostics.push({
          severity: 'warning',
          code: 'SECRET_IN_CLEAR',
          summary: `the secret variable \`${key}\` stands in clear in the repository`,
          detail: 'expected `@secret!` or a ref such as ref+vault://NAME',
          help: 'put the value into the vault, and a ref to it here',
          place: checked.place(['vars', key]),
        });
    }
    const vars: Record<string, unknown> = {};
    for (const [key, declaration] of Object.entries(declared)) {
      vars[key] = effectiveVar(declaration, doc.vars?.[key]);
      if (declaration.required && vars[key] === null)
        error(
          'VAR_MISSING',
          checked.place(['vars']),
          `the variable \`${key}\` is missing`,
          `the app \`${app.name}\` needs it${declaration.description ? `: ${declaration.description}` : ''}`,
          {
            help: `write \`vars: { ${key}: … }\``,
          },
        );
    }
    const plugs = spec.plugs ?? {};
    for (const plug of Object.keys(doc.integrate ?? {}))
      if (!Object.hasOwn(plugs, plug)) {
        const known = Object.keys(plugs);
        error(
          'PLUG_UNKNOWN',
          checked.place(['integrate', plug], 'key'),
          `the app \`${app.name}\` has no plug \`${plug}\``,
          `expected one of ${listed(known)}`,
          didYouMean(plug, known),
        );
      }
    for (const [plug, wanted] of Object.entries(plugs))
      if (!wanted.optional && !Object.hasOwn(doc.integrate ?? {}, plug))
        error(
          'PLUG_MISSING',
          checked.place(['integrate']),
          `the plug \`${plug}\` is not integrated`,
          `the app \`${app.name}\` needs a stack that provides \`${wanted.interface}\``,
          {
            help: `write \`integrate: { ${plug}: STACK }\``,
          },
        );
    diagnostics.push(
      ...hookMistakes(doc.hooks, new Set(entry.jobs.keys()), entry.jobs, checked),
      ...this.#settingMistakes(doc, checked),
    );
    const hooks: Record<string, readonly unknown[]> = {};
    for (const phase of PHASES) {
      const actions = [...(spec.hooks?.[phase] ?? []), ...(doc.hooks?.[phase] ?? [])];
      if (actions.length > 0) hooks[phase] = actions;
    }
    const layout: Layout = { kind: 'app', app: { ...app, version: doc.version ?? app.version } };
    const settings = this.#settings(name, doc);
    const sourceDigest = digest([
      'app',
      name,
      settings.node,
      settings.group,
      settings.runtime,
      layout.app,
      entry.files.map((one) => [one.path, one.mode, one.oid]),
      vars,
      doc.integrate ?? {},
      doc.ports ?? {},
      doc.replicas ?? {},
    ]);
    const stack: LoadedStack = {
      name,
      place,
      layout,
      files: entry.files,
      sourceDigest,
      vars,
      ...settings,
      hooks,
      jobs: Object.fromEntries(entry.jobs),
      extensions: {},
      warnings: diagnostics.filter((one) => one.severity === 'warning'),
    };
    return this.#found(stack, isCertain, place, diagnostics, null, [], checked);
  }

  *#projectWithDocument(project: PlainProject | null, file: string, checked: Checks, fallback: string): Reading<Found> {
    const folder = project ? project.directory : dirname(file);
    const jobFiles = this.#tree
      .below(folder)
      .filter(
        (entry) => dirname(entry.path) === folder && entry.path.endsWith('.job.yaml') && entry.mode.startsWith('100'),
      );
    const jobs = new Map<string, Checked<'Job'>>();
    if (checked.value?.hooks) for (const { path } of jobFiles) jobs.set(path, yield* this.#document('Job', path));
    if (!project) {
      const { name, isCertain } = this.#nameOf(checked, fallback);
      return this.#broken(name, isCertain, checked.place([]), checked.diagnostics);
    }
    return this.#ofProject(project, file, checked, jobs);
  }

  /** A plain Compose project, with or without a Stack document. */
  #ofProject(
    project: PlainProject,
    file: string | null,
    checked: Checks | null,
    jobFiles: ReadonlyMap<string, Checked<'Job'>>,
  ): Found {
    const first = project.files[0] ?? join(project.directory, 'compose.yaml');
    const place: Place = { file: file ?? first, line: 1, column: 1 };
    const said = checked ? this.#nameOf(checked, project.name) : { name: project.name, isCertain: true };
    // A name that the document gives does not depend on what the Compose files say.
    const isNameSaid = checked?.raw !== null && (checked?.raw as { name?: unknown } | undefined)?.name !== undefined;
    const isNameCertain = said.isCertain && (isNameSaid || project.isNameCertain);
    const name = said.name;
    const diagnostics: Diagnostic[] = [...(checked?.diagnostics ?? []), ...project.diagnostics];
    const implicitFile = checked ? null : first;
    if (!NAME.test(name)) {
      diagnostics.push({
        severity: 'error',
        code: 'NAME_INVALID',
        summary: `${JSON.stringify(name)} is no name for a stack`,
        detail: 'expected lower-case letters, digits, `-` and `_`, at most 63, starting with a letter or digit',
        help: 'rename the folder, or write `name:` at the top of the Compose file',
        place,
      });
      const known = name === '' ? (project.directory === '' ? 'root' : project.directory) : name;
      return { ...this.#broken(known, isNameCertain, place, diagnostics, project.includes), implicitFile };
    }
    const doc = checked?.value ?? null;
    if (checked && !doc) return this.#broken(name, isNameCertain, place, diagnostics, project.includes);
    const jobNames = new Map<string, Job>();
    if (checked && doc) {
      for (const [path, job] of jobFiles) {
        diagnostics.push(...job.diagnostics);
        if (!job.value) continue;
        const jobName = basename(path).slice(0, -'.job.yaml'.length);
        jobNames.set(jobName, job.value);
        diagnostics.push(...jobNameMistakes(jobName, job.value, job));
        const { service } = job.value;
        if (service !== undefined && project.services && !project.services.includes(service))
          diagnostics.push(unknownService(service, project.services, job.place(['service']), 'error'));
      }
      const names = new Set([...jobFiles.keys()].map((path) => basename(path).slice(0, -'.job.yaml'.length)));
      diagnostics.push(
        ...hookMistakes(doc.hooks, names, jobNames, checked, project.services),
        ...this.#settingMistakes(doc, checked),
      );
      for (const key of ['ports', 'replicas'] as const)
        for (const service of Object.keys(doc[key] ?? {}))
          if (project.services && !project.services.includes(service))
            diagnostics.push({
              severity: 'error',
              code: 'SERVICE_UNKNOWN',
              summary: `unknown service \`${service}\` in \`${key}\``,
              detail: `expected one of ${listed(project.services)}`,
              ...didYouMean(service, project.services),
              place: checked.place([key, service], 'key'),
            });
      for (const [key, value] of Object.entries(doc.vars ?? {}))
        if (typeof value === 'object' && value !== null)
          diagnostics.push({
            severity: 'error',
            code: 'VAR_INVALID',
            summary: `wrong type for the variable \`${key}\``,
            detail:
              'expected a string, a number, true or false: a plain project gets its variables as Compose interpolates them',
            place: checked.place(['vars', key]),
          });
    }
    const settings = this.#settings(name, doc);
    const layout: Layout = {
      kind: 'compose',
      directory: project.directory,
      files: project.files,
      profiles: project.profiles,
    };
    const vars = { ...project.environment, ...doc?.vars };
    const sourceDigest = digest([
      'compose',
      name,
      settings.node,
      settings.runtime,
      layout,
      project.identities,
      vars,
      settings.integrate,
      settings.ports,
      settings.replicas,
    ]);
    const stack: LoadedStack = {
      name,
      place,
      layout,
      files: project.entries,
      sourceDigest,
      vars,
      ...settings,
      hooks: (doc?.hooks ?? {}) as LoadedStack['hooks'],
      jobs: Object.fromEntries(jobNames),
      extensions: project.extensions,
      warnings: diagnostics.filter((one) => one.severity === 'warning'),
    };
    return this.#found(stack, isNameCertain, place, diagnostics, implicitFile, project.includes, checked);
  }

  #found(
    stack: LoadedStack,
    isNameCertain: boolean,
    place: Place,
    diagnostics: readonly Diagnostic[],
    implicitFile: string | null,
    includes: readonly string[],
    checked: Checks | null,
  ): Found {
    return {
      name: stack.name,
      isNameCertain,
      place,
      stack: hasErrors(diagnostics) ? null : stack,
      diagnostics,
      implicitFile,
      includes,
      at: (path, of) => checked?.place(path, of) ?? place,
    };
  }

  #settings(name: string, doc: Stack | null) {
    const defaults = this.#fleet?.defaults ?? {};
    const said = <K extends keyof NonNullable<Fleet['defaults']>>(key: K) => doc?.[key] ?? defaults[key];
    const groups = Object.entries(this.#fleet?.groups ?? {});
    const group = doc?.group ?? groups.find(([, globs]) => globs.some((glob) => matchGlob(glob, name)))?.[0] ?? null;
    const timeout = said('timeout');
    return {
      group,
      integrate: doc?.integrate ?? {},
      ports: doc?.ports ?? {},
      replicas: doc?.replicas ?? {},
      node: said('node') ?? 'local',
      runtime: said('runtime') ?? 'compose',
      suspend: doc?.suspend
        ? { reason: doc.suspend.reason, untilMs: doc.suspend.until === undefined ? 0 : Date.parse(doc.suspend.until) }
        : null,
      drift: said('drift') ?? 'heal',
      prune: said('prune') ?? true,
      adopt: said('adopt') ?? false,
      onFailure: said('onFailure') ?? 'hold',
      timeoutMs: timeout === undefined ? null : parseDuration(timeout),
      windows: (said('windows') ?? []).map(windowOf),
      backup: doc?.backup ?? null,
    } satisfies Partial<LoadedStack>;
  }

  /** What a schema cannot say of settings. */
  #settingMistakes(doc: Stack, checked: Checks): Diagnostic[] {
    const diagnostics: Diagnostic[] = [];
    for (const [index, window] of (doc.windows ?? []).entries())
      diagnostics.push(...zoneMistakes(window.timezone, checked.place(['windows', index, 'timezone'])));
    if (doc.backup) diagnostics.push(...scheduleMistakes(doc.backup, (path) => checked.place(['backup', ...path])));
    if (doc.suspend?.until !== undefined && Number.isNaN(Date.parse(doc.suspend.until)))
      diagnostics.push({
        severity: 'error',
        code: 'SPEC_INVALID',
        summary: 'wrong value for `suspend.until`',
        detail: `expected a date that exists; found ${doc.suspend.until}`,
        place: checked.place(['suspend', 'until']),
      });
    return diagnostics;
  }

  // --- all stacks

  #assemble(found: readonly Found[], isFrozen: boolean): LoadedFleet {
    const broken = new Map<string, readonly Diagnostic[]>();
    const breakUp = (one: Pick<Found, 'name'>, diagnostics: readonly Diagnostic[]) =>
      broken.set(
        one.name,
        sorted([...(broken.get(one.name) ?? []), ...diagnostics].map((wrong) => ({ ...wrong, stack: one.name }))),
      );
    const byName = new Map<string, Found[]>();
    for (const one of found) byName.set(one.name, [...(byName.get(one.name) ?? []), one]);
    const stacks = new Map<string, { readonly stack: LoadedStack; readonly found: Found }>();
    for (const [name, ones] of [...byName].sort(([a], [b]) => (a < b ? -1 : 1))) {
      for (const one of ones)
        if (!one.isNameCertain)
          this.#diagnostics.push({
            severity: 'error',
            code: 'NAME_UNKNOWN',
            summary: `${one.place.file} cannot be read, so the name of its stack is not certain`,
            detail: `it is taken for \`${name}\`; no stack is removed until it can be read`,
            place: one.place,
          });
      const [first] = ones;
      if (ones.length > 1) {
        const files = ones.map((one) => one.place.file).sort();
        for (const one of ones)
          breakUp(one, [
            ...one.diagnostics.filter((wrong) => wrong.severity === 'error'),
            {
              severity: 'error',
              code: 'STACK_TWICE',
              summary: `the stack \`${name}\` is declared twice`,
              detail: `by ${files.join(' and ')}`,
              help: 'rename one of them with `name:`',
              place: one.place,
            },
          ]);
      } else if (first?.stack && isFrozen)
        breakUp(first, [
          {
            severity: 'error',
            code: 'FLEET_INVALID',
            summary: 'the fleet document is wrong, so nothing is changed',
            detail: 'defaults and discovery are not certain until it can be read',
            help: 'correct fleet.yaml',
            place: this.#diagnostics.find((one) => one.severity === 'error')?.place ?? first.place,
          },
        ]);
      else if (first?.stack) stacks.set(name, { stack: first.stack, found: first });
      else if (first) breakUp(first, first.diagnostics);
    }
    const names = new Set(byName.keys());
    for (const [name, { stack, found: one }] of stacks) {
      const wrong = this.#edgeMistakes(stack, one, names, stacks);
      if (wrong.length === 0) continue;
      breakUp(one, wrong);
      stacks.delete(name);
    }
    const { cycles } = layersOf(
      new Map([...stacks].map(([name, { stack }]) => [name, Object.values(stack.integrate)])),
    );
    for (const [name, cycle] of cycles) {
      const one = stacks.get(name);
      if (!one) continue;
      const plug =
        Object.entries(one.stack.integrate).find(([, provider]) => provider === (cycle[1] ?? name))?.[0] ?? '';
      breakUp(one.found, [
        {
          severity: 'error',
          code: 'DEPENDENCY_CYCLE',
          summary: `the stack depends on itself: ${formatCycle(cycle)}`,
          detail: 'expected `integrate` edges without a cycle',
          help: 'remove one of the edges',
          place: one.found.at(['integrate', plug]),
        },
      ]);
      stacks.delete(name);
    }
    const { layers } = layersOf(
      new Map([...stacks].map(([name, { stack }]) => [name, Object.values(stack.integrate)])),
    );
    this.#groupMistakes(names);
    return {
      commit: this.#input.listing.commit,
      stacks: new Map([...stacks].map(([name, { stack }]) => [name, stack])),
      broken,
      diagnostics: sorted(this.#diagnostics),
      layers,
    };
  }

  #edgeMistakes(
    stack: LoadedStack,
    found: Found,
    names: ReadonlySet<string>,
    stacks: ReadonlyMap<string, { readonly stack: LoadedStack }>,
  ): Diagnostic[] {
    const diagnostics: Diagnostic[] = [];
    for (const [plug, provider] of Object.entries(stack.integrate)) {
      const error = (code: string, summary: string, detail: string, more: { help?: string } = {}) =>
        diagnostics.push({ severity: 'error', code, summary, detail, ...more, place: found.at(['integrate', plug]) });
      if (!names.has(provider)) {
        const known = [...names].filter((name) => name !== stack.name);
        error(
          'PROVIDER_UNKNOWN',
          `unknown stack \`${provider}\``,
          `expected one of ${listed(known)}`,
          didYouMean(provider, known),
        );
        continue;
      }
      // A provider that is broken itself is waited for.
      const other = stacks.get(provider)?.stack;
      if (!other || stack.layout.kind !== 'app' || provider === stack.name) continue;
      const wanted = (stack.layout.app.spec as Declared['App']).plugs?.[plug]?.interface;
      const provided =
        other.layout.kind === 'app' ? Object.keys((other.layout.app.spec as Declared['App']).provides ?? {}) : [];
      if (wanted !== undefined && !provided.includes(wanted))
        error(
          'INTERFACE_NOT_PROVIDED',
          `the stack \`${provider}\` does not provide \`${wanted}\``,
          provided.length === 0 ? 'it provides nothing' : `it provides ${listed(provided)}`,
        );
      if (other.node !== stack.node)
        error(
          'PROVIDER_ELSEWHERE',
          `the stack \`${provider}\` is on another node`,
          `expected both on one engine; \`${stack.name}\` is on \`${stack.node}\`, \`${provider}\` on \`${other.node}\``,
        );
    }
    return diagnostics;
  }

  #groupMistakes(names: ReadonlySet<string>): void {
    for (const [group, globs] of Object.entries(this.#fleet?.groups ?? {}))
      for (const glob of globs)
        if (!/[*?]/.test(glob) && !names.has(glob))
          this.#diagnostics.push({
            severity: 'warning',
            code: 'GROUP_WITHOUT_STACK',
            summary: `the group \`${group}\` names \`${glob}\`, and there is no such stack`,
            detail: `expected one of ${listed([...names])}`,
            ...didYouMean(glob, names),
            place: { file: 'fleet.yaml', line: 0, column: 0 },
          });
  }
}

const stackFileOf = (tree: Tree, folder: string): string | null =>
  ['stack.yaml', 'stack.yml'].map((name) => join(folder, name)).find((path) => tree.entry(path)) ?? null;

const windowOf = (said: NonNullable<Stack['windows']>[number]) => ({
  allow: said.allow,
  durationMs: parseDuration(said.duration) ?? 0,
  timezone: said.timezone ?? 'UTC',
});

function zoneMistakes(zone: string | undefined, place: Place): Diagnostic[] {
  if (zone === undefined) return [];
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
    return [];
  } catch {
    return [
      {
        severity: 'error',
        code: 'TIMEZONE_UNKNOWN',
        summary: `unknown time zone ${JSON.stringify(zone)}`,
        detail: 'expected a name such as Europe/Berlin or UTC',
        place,
      },
    ];
  }
}

function digest(parts: readonly unknown[]): string {
  return createHash('sha256')
    .update(JSON.stringify([DIGEST_VERSION, ...parts]))
    .digest('hex');
}
