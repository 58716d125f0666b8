// Catalog: apps by name, the repository's own before the bundled ones. A broken app is told by its diagnostics, never left out.
import { isPre } from '../hook/phase.ts';
import type { TreeEntry } from '../state/listing.ts';
import type { App } from './app.ts';
import { declarationMistakes } from './app-vars.ts';
import { backupMistakes } from './backup.ts';
import { type Checked, hasErrors, sorted } from './check.ts';
import type { Diagnostic } from './diagnostic.ts';
import { matchGlobs } from './glob.ts';
import {
  type Action,
  commandMistake,
  type HookPhase,
  hasTemplate,
  misplaced,
  servicesOf,
  urlMistake,
  verbOf,
} from './hooks.ts';
import { inspect } from './hygiene.ts';
import type { Job } from './job.ts';
import type { Kind } from './kind.ts';
import type { LoadedApp, Text } from './loaded.ts';
import { composeFileOf, unreadable } from './plain.ts';
import { basename, join } from './repository-path.ts';
import { didYouMean, listed, nearest } from './suggest.ts';
import type { Reading } from './together.ts';
import type { Tree } from './tree.ts';

export interface CatalogApp {
  readonly name: string;
  /** Null when it is broken. */
  readonly app: LoadedApp | null;
  readonly spec: App | null;
  /** Below files/, to go into the project folder. */
  readonly files: readonly TreeEntry[];
  readonly jobs: ReadonlyMap<string, Job>;
  readonly diagnostics: readonly Diagnostic[];
}

export type CheckDocument = <K extends Kind>(kind: K, file: string, text: string) => Checked<K>;

const JOB_SUFFIX = '.job.yaml';

/** `name.job.yaml` → the job it declares. */
export function readJobs(
  texts: ReadonlyMap<string, string>,
  check: CheckDocument,
): { readonly jobs: ReadonlyMap<string, Job>; readonly diagnostics: readonly Diagnostic[] } {
  const jobs = new Map<string, Job>();
  const diagnostics: Diagnostic[] = [];
  for (const [path, text] of texts) {
    if (!path.endsWith(JOB_SUFFIX)) continue;
    const checked = check('Job', path, text);
    diagnostics.push(...checked.diagnostics);
    const name = basename(path).slice(0, -JOB_SUFFIX.length);
    if (!checked.value) continue;
    diagnostics.push(...jobNameMistakes(name, checked.value, checked));
    jobs.set(name, checked.value);
  }
  return { jobs, diagnostics };
}

/** A job is called as its file is: hooks name it so. */
export const jobNameMistakes = (
  name: string,
  job: Job,
  checked: Pick<Checked<'Job'>, 'place'>,
): readonly Diagnostic[] =>
  job.name === undefined || job.name === name
    ? []
    : [
        {
          severity: 'error',
          code: 'NAME_MISMATCH',
          summary: `the job in ${name}${JOB_SUFFIX} calls itself \`${job.name}\``,
          detail: `expected \`${name}\`, as the file is named`,
          place: checked.place(['name']),
        },
      ];

/** Hooks against what there is: named jobs, and phases in which an action can work. */
export function hookMistakes(
  hooks: Readonly<Partial<Record<HookPhase, readonly Action[]>>> | undefined,
  jobs: ReadonlySet<string>,
  contexts: ReadonlyMap<string, Job>,
  checked: Pick<Checked<'App'>, 'place'>,
  /** Null where they are not known: a template is not rendered yet, or another file may add some. */
  services: readonly string[] | null = null,
): readonly Diagnostic[] {
  const diagnostics: Diagnostic[] = [];
  const visit = (phase: HookPhase, actions: readonly Action[], path: readonly (string | number)[]): void => {
    for (const [index, action] of actions.entries()) {
      const at = [...path, index];
      const verb = verbOf(action);
      const job = 'job' in action ? action.job : null;
      if (job !== null && !jobs.has(job)) {
        const near = nearest(job, jobs);
        diagnostics.push({
          severity: 'error',
          code: 'JOB_UNKNOWN',
          summary: `unknown job \`${job}\``,
          detail:
            jobs.size === 0
              ? `expected a file ${job}${JOB_SUFFIX} beside it; there are no jobs`
              : `expected one of ${listed([...jobs].sort())}`,
          help: near === null ? `write ${job}${JOB_SUFFIX}` : `did you mean \`${near}\`?`,
          place: checked.place([...at, 'job']),
        });
      }
      const context = job === null ? null : (contexts.get(job)?.context ?? 'container');
      const why = misplaced(phase, verb, context);
      if (why !== null)
        diagnostics.push({
          severity: 'error',
          code: 'HOOK_MISPLACED',
          summary: `\`${verb}\` cannot work in ${phase}`,
          detail: why,
          help:
            verb === 'exec' || context === 'exec' ? 'use a job with `context: container`' : 'move it to a later phase',
          place: checked.place([...at, verb], 'key'),
        });
      for (const { service, path: inside } of services === null ? [] : servicesOf(action))
        if (!services?.includes(service))
          diagnostics.push(
            unknownService(
              service,
              services ?? [],
              checked.place([...at, ...inside], verb === 'scale' ? 'key' : 'value'),
              // What runs before a change runs beside what is deployed, which may have had it.
              isPre(phase) ? 'warning' : 'error',
            ),
          );
      const unrun = 'exec' in action ? commandMistake(action.exec.command) : null;
      if (unrun !== null)
        diagnostics.push({
          severity: 'error',
          code: 'SPEC_INVALID',
          summary: 'this command cannot be run',
          detail: unrun,
          place: checked.place([...at, 'exec', 'command']),
        });
      const unasked = 'http' in action && !hasTemplate(action.http.url) ? urlMistake(action.http.url) : null;
      if (unasked !== null)
        diagnostics.push({
          severity: 'error',
          code: 'SPEC_INVALID',
          summary: 'nobody can be asked at this URL',
          detail: unasked,
          place: checked.place([...at, 'http', 'url']),
        });
      if ('if' in action) {
        visit(phase, action.then, [...at, 'then']);
        if (action.else) visit(phase, action.else, [...at, 'else']);
      }
    }
  };
  for (const [phase, actions] of Object.entries(hooks ?? {}))
    visit(phase as HookPhase, actions ?? [], ['hooks', phase]);
  return diagnostics;
}

export function unknownService(
  service: string,
  services: readonly string[],
  place: Diagnostic['place'],
  severity: Diagnostic['severity'],
): Diagnostic {
  return {
    severity,
    code: 'SERVICE_UNKNOWN',
    summary: `unknown service \`${service}\``,
    detail: `${severity === 'warning' ? 'unless it is deployed now, ' : ''}expected one of ${listed(services)}`,
    ...didYouMean(service, services),
    ...(place ? { place } : {}),
  };
}

interface Sources {
  readonly name: string;
  readonly origin: LoadedApp['origin'];
  readonly directory: string;
  readonly spec: string;
  readonly template: { readonly path: string; readonly text: string } | null;
  /** By path below the app's folder. */
  readonly texts: Readonly<Record<string, string>>;
  readonly entries: readonly TreeEntry[];
  readonly diagnostics: readonly Diagnostic[];
}

function assemble(sources: Sources, check: CheckDocument): CatalogApp {
  const { name, directory } = sources;
  const file = join(directory, 'app.yaml');
  const checked = check('App', file, sources.spec);
  const jobTexts = new Map(Object.entries(sources.texts).map(([path, text]) => [join(directory, path), text]));
  const { jobs, diagnostics: jobMistakes } = readJobs(jobTexts, check);
  const declared = new Set(
    Object.keys(sources.texts)
      .filter((path) => path.endsWith(JOB_SUFFIX))
      .map((path) => path.slice(0, -JOB_SUFFIX.length)),
  );
  const diagnostics: Diagnostic[] = [
    ...sources.diagnostics,
    ...checked.diagnostics,
    ...jobMistakes,
    ...readBackup(sources, [...declared], check),
  ];
  const spec = checked.value;
  if (spec) {
    if (spec.name !== undefined && spec.name !== name)
      diagnostics.push({
        severity: 'error',
        code: 'NAME_MISMATCH',
        summary: `the app in ${directory} calls itself \`${spec.name}\``,
        detail: `expected \`${name}\`, as its folder is named`,
        place: checked.place(['name']),
      });
    for (const wrong of declarationMistakes(spec.vars ?? {}))
      diagnostics.push({
        severity: 'error',
        code: 'VAR_INVALID',
        summary: wrong.summary,
        detail: wrong.detail,
        place: checked.place(['vars', ...wrong.path]),
      });
    diagnostics.push(...hookMistakes(spec.hooks, declared, jobs, checked));
  }
  if (!sources.template)
    diagnostics.push({
      severity: 'error',
      code: 'TEMPLATE_MISSING',
      summary: `the app \`${name}\` has no template`,
      detail: `expected ${join(directory, 'compose.yaml')}`,
      place: { file, line: 0, column: 0 },
    });
  const globs = spec?.files;
  const files = globs
    ? sources.entries.filter((entry) => matchGlobs(globs, entry.path.slice(directory.length + 1)))
    : sources.entries;
  const all = sorted(diagnostics);
  const app: LoadedApp | null =
    spec && sources.template && !hasErrors(all)
      ? {
          name,
          version: spec.version,
          origin: sources.origin,
          directory,
          spec,
          template: sources.template,
          texts: sources.texts,
        }
      : null;
  return { name, app, spec, files, jobs, diagnostics: all };
}

/** Services are known only once the template is rendered; the render refuses those that there are not. */
function readBackup(
  { directory, texts }: Pick<Sources, 'directory' | 'texts'>,
  jobs: readonly string[],
  check: CheckDocument,
): readonly Diagnostic[] {
  const text = texts['backup.yaml'];
  if (text === undefined) return [];
  const checked = check('Backup', join(directory, 'backup.yaml'), text);
  return checked.value === null
    ? checked.diagnostics
    : [...checked.diagnostics, ...backupMistakes(checked.value, { jobs, services: null }, checked.place)];
}

export const fleetAppsOf = (tree: Tree): readonly string[] =>
  [...tree.folders()]
    .filter((folder) => /^apps\/[^/]+$/.test(folder) && tree.entry(`${folder}/app.yaml`))
    .map(basename);

/** An app of the repository. */
export function* readFleetApp(tree: Tree, name: string, check: CheckDocument): Reading<CatalogApp> {
  const directory = `apps/${name}`;
  const template = composeFileOf(tree, directory);
  const entries = tree.below(directory);
  const isText = (path: string) => !path.includes('/') && (path.endsWith(JOB_SUFFIX) || path === 'backup.yaml');
  const wanted = entries.map((entry) => entry.path).filter((path) => isText(path.slice(directory.length + 1)));
  const paths = [`${directory}/app.yaml`, ...(template === null ? [] : [template]), ...wanted];
  const read: ReadonlyMap<string, Text> = yield paths;
  const diagnostics: Diagnostic[] = [];
  const textOf = (path: string): string | null => {
    const entry = tree.entry(path);
    const isFile = entry?.mode === '100644' || entry?.mode === '100755';
    const text: Text = isFile ? (read.get(path) ?? { refused: 'missing' }) : { refused: 'not-a-file' };
    if (typeof text === 'string') return text;
    diagnostics.push(unreadable(path, text));
    return null;
  };
  const spec = textOf(`${directory}/app.yaml`);
  const templateText = template === null ? null : textOf(template);
  const texts: Record<string, string> = {};
  for (const path of wanted) {
    const text = textOf(path);
    if (text !== null) texts[path.slice(directory.length + 1)] = text;
  }
  const files = entries.filter((entry) => entry.path.startsWith(`${directory}/files/`));
  const inspected = yield* inspect(files);
  diagnostics.push(...inspected.refusals);
  if (!/^[a-z0-9][a-z0-9_-]{0,62}$/.test(name))
    diagnostics.push({
      severity: 'error',
      code: 'NAME_INVALID',
      summary: `${JSON.stringify(name)} is no name for an app`,
      detail: 'expected lower-case letters, digits, `-` and `_`',
      place: { file: `${directory}/app.yaml`, line: 0, column: 0 },
    });
  if (spec === null)
    return { name, app: null, spec: null, files: [], jobs: new Map(), diagnostics: sorted(diagnostics) };
  return assemble(
    {
      name,
      origin: 'fleet',
      directory,
      spec,
      template: template !== null && templateText !== null ? { path: template, text: templateText } : null,
      texts,
      entries: files,
      diagnostics,
    },
    check,
  );
}

export const bundledAppsOf = (bundled: Readonly<Record<string, string>>): readonly string[] =>
  Object.keys(bundled).flatMap((path) => (/^[^/]+\/app\.yaml$/.test(path) ? [path.slice(0, path.indexOf('/'))] : []));

/** An app that came with Windlass; its files have no object id, so they stay texts. */
export function readBundledApp(
  bundled: Readonly<Record<string, string>>,
  name: string,
  check: CheckDocument,
): CatalogApp {
  const directory = `apps/${name}`;
  const texts: Record<string, string> = {};
  for (const [path, text] of Object.entries(bundled))
    if (path.startsWith(`${name}/`) && !/^[^/]+\/(?:app\.yaml|compose\.yaml|README\.md)$/.test(path))
      texts[path.slice(name.length + 1)] = text;
  const template = bundled[`${name}/compose.yaml`];
  return assemble(
    {
      name,
      origin: 'bundled',
      directory,
      spec: bundled[`${name}/app.yaml`] ?? '',
      template: template === undefined ? null : { path: `${directory}/compose.yaml`, text: template },
      texts,
      entries: [],
      diagnostics: [],
    },
    check,
  );
}
