// Made stack: the commit that an archive stands for: its stack's own document under the name of the target with what the request overrides,
// its files, its packaged app, and the providers as they are declared or deployed here. Says what it had to derive; deploys nothing.
import type { DerivedField, FileRecord, Manifest, ManifestVar } from '../../core/archive/manifest.ts';
import { Fault } from '../../core/fault.ts';
import { isHostPort } from '../../core/render/variant.ts';
import { parseDocument, stringifyDocument } from '../../core/spec/document.ts';
import type { LoadedStack } from '../../core/spec/loaded.ts';
import type { ArchiveStore } from '../../ports/archive.ts';
import type { FleetAt } from '../fleet-at.ts';
import { FILE_BYTES } from '../resolve.ts';
import type { Workbench } from '../workbench.ts';
import { blobOid, type MadeCommit, type MadeFile, readWhole, textFile } from './archive-source.ts';

export interface Overrides {
  readonly vars?: Readonly<Record<string, unknown>>;
  readonly ports?: Readonly<Record<string, readonly string[]>>;
  readonly integrate?: Readonly<Record<string, string>>;
  readonly skipIntegration?: readonly string[];
  /** `mint`: the values of the archive are left alone, and what can be minted is minted anew. Default `copy`. */
  readonly secrets?: 'copy' | 'mint';
  /** Apart from everything but these projects, which are apart as well: for a drill. */
  readonly enclosed?: readonly string[];
}

export interface MadeStackInput {
  readonly bench: Workbench;
  readonly archive: string;
  readonly manifest: Manifest;
  readonly derived: readonly DerivedField[];
  readonly target: string;
  readonly overrides: Overrides;
  /** What is declared here now; null when no repository can be read. */
  readonly live: FleetAt | null;
  /** Providers that will be deployed before it → the made commit that they will run at. */
  readonly beside: ReadonlyMap<string, string>;
  /** Verified blobs are read again for their ids of git. */
  readonly archives: ArchiveStore;
  readonly signal: AbortSignal;
}

export interface MadeStack {
  readonly made: MadeCommit;
  /** plug → provider, after what the request says. */
  readonly integrate: Readonly<Record<string, string>>;
  readonly lines: readonly string[];
}

type Doc = Record<string, unknown>;

const DEFAULT_COMPOSE = /^(?:docker-)?compose\.ya?ml$/;
const dirname = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')));
const join = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);

export async function madeStack(input: MadeStackInput): Promise<MadeStack> {
  const { manifest, target, overrides, live } = input;
  const lines: string[] = [];
  const declared = live?.fleet.stacks.get(manifest.stack) ?? null;
  const missing = (field: DerivedField): boolean => input.derived.includes(field);
  for (const field of input.derived)
    if (DERIVED_FROM_FLEET.has(field) && declared)
      lines.push(`the archive does not say \`${field}\`: taken from the stack ${manifest.stack} as it is declared now`);
    else lines.push(`the archive does not say \`${field}\`: taken for ${DERIVED_WORDS[field] ?? 'empty'}`);

  const isApp =
    missing('app') && missing('layout') && declared ? declared.layout.kind === 'app' : manifest.app !== null;
  const integrate = edgesOf(manifest, missing('integrate') ? declared : null, overrides);
  const own = await ownFiles(input, declared, isApp);
  const folder = isApp ? '' : projectFolder(manifest, declared, own);
  const document = documentOf(input, { declared, isApp, integrate, missing });
  const docPath = isApp ? `stacks/${target}.yaml` : join(folder, 'stack.yaml');

  const byPath = new Map<string, MadeFile>();
  const folders = new Set<string>(isApp ? [] : [folder]);
  for (const provider of await providerFiles(input, integrate, folders)) byPath.set(provider.path, provider);
  for (const file of own) byPath.set(file.path, file);
  for (const name of ['stack.yaml', 'stack.yml']) if (!isApp) byPath.delete(join(folder, name));
  byPath.set(docPath, textFile(docPath, stringifyDocument(document)));
  byPath.delete('fleet.yml');
  byPath.set('fleet.yaml', textFile('fleet.yaml', stringifyDocument(await fleetDocument(input, folders))));
  const { ports, enclosed } = overrides;
  const made: MadeCommit = {
    archive: input.archive,
    stack: target,
    subject: `archive ${input.archive.slice(0, 12)} of ${manifest.stack}`,
    madeAtMs: manifest.madeAtMs,
    files: [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1)),
    ...(ports && Object.keys(ports).length > 0 ? { ports } : {}),
    ...(enclosed ? { enclosed: [...enclosed] } : {}),
    ...mintedOf(manifest, overrides),
  };
  return { made, integrate, lines };
}

const DERIVED_FROM_FLEET = new Set<DerivedField>([
  'spec',
  'layout',
  'app',
  'vars',
  'ports',
  'replicas',
  'integrate',
  'files',
  'group',
]);
const DERIVED_WORDS: Partial<Record<DerivedField, string>> = {
  purpose: 'a backup',
  project: 'the name of the stack',
  node: '`local`',
  runtime: '`compose`',
  volumes: 'those whose data it holds, each of the driver `local`',
  boot: 'two boots, since in doubt there are two',
};

function edgesOf(
  manifest: Manifest,
  declared: LoadedStack | null,
  { integrate = {}, skipIntegration = [] }: Overrides,
): Record<string, string> {
  const said = declared
    ? declared.integrate
    : Object.fromEntries(Object.entries(manifest.integrate).map(([plug, edge]) => [plug, edge.provider]));
  const edges: Record<string, string> = { ...said, ...integrate };
  for (const plug of skipIntegration) delete edges[plug];
  return edges;
}

async function ownFiles(
  { manifest, derived, live, archives, signal, bench }: MadeStackInput,
  declared: LoadedStack | null,
  isApp: boolean,
): Promise<readonly MadeFile[]> {
  const fromFleet = (isApp ? derived.includes('app') : derived.includes('files')) && declared && live;
  if (fromFleet) {
    const directory = declared.layout.kind === 'app' ? declared.layout.app.directory : null;
    const entries =
      directory === null ? declared.files : live.listing.entries.filter((one) => one.path.startsWith(`${directory}/`));
    const files: MadeFile[] = entries.flatMap(({ path, mode, oid }) =>
      mode === '160000' ? [] : [{ path, mode, oid }],
    );
    if (files.length > 0 || declared.layout.kind !== 'app') return files;
    const { name } = declared.layout.app;
    return Object.entries(bench.house.settings.bundled).flatMap(([path, text]) =>
      path.startsWith(`${name}/`) ? [textFile(`apps/${path}`, text)] : [],
    );
  }
  const name = manifest.app?.name ?? '';
  const records: FileRecord[] = isApp
    ? (manifest.app?.source ?? []).map((one) => ({
        ...one,
        path: one.path.startsWith(`apps/${name}/`) ? one.path : `apps/${name}/${one.path}`,
      }))
    : [...manifest.files];
  const files: MadeFile[] = [];
  for (const { path, mode, blob } of records) {
    if (blob.sizeBytes > FILE_BYTES)
      throw new Fault('ARCHIVE_INVALID', `${path} has ${blob.sizeBytes} bytes, more than a file of a project may have`);
    const bytes = await readWhole(archives, blob.digest, blob.sizeBytes, signal);
    files.push({ path, mode: mode as MadeFile['mode'], oid: blobOid(bytes), blob: { ...blob } });
  }
  return files;
}

/** The folder in which the loader finds the project: that of its Compose file, or of the `.env` that names it. */
function projectFolder(manifest: Manifest, declared: LoadedStack | null, files: readonly MadeFile[]): string {
  const layout = manifest.layout.kind === 'compose' ? manifest.layout : declared?.layout;
  if (layout?.kind !== 'compose') throw new Fault('ARCHIVE_INVALID', 'the archive holds neither an app nor a project');
  const has = (path: string): boolean => files.some((file) => file.path === path);
  for (let folder = layout.directory; ; folder = dirname(folder)) {
    const hasDefault = files.some(
      (file) =>
        dirname(file.path) === folder && DEFAULT_COMPOSE.test(file.path.slice(folder === '' ? 0 : folder.length + 1)),
    );
    if (hasDefault || has(join(folder, '.env'))) return folder;
    if (folder === '') return layout.directory;
  }
}

function documentOf(
  { manifest, target, overrides, live }: MadeStackInput,
  facts: {
    readonly declared: LoadedStack | null;
    readonly isApp: boolean;
    readonly integrate: Readonly<Record<string, string>>;
    readonly missing: (field: DerivedField) => boolean;
  },
): Doc {
  const { declared, isApp, missing } = facts;
  const from = <K extends 'ports' | 'replicas'>(key: K): Doc =>
    (missing(key) && declared ? declared[key] : manifest[key]) as Doc;
  // What is about git and its clock, not about what runs.
  const { suspend: _suspend, windows: _windows, adopt: _adopt, onFailure: _onFailure, ...spec } = manifest.spec as Doc;
  const vars: Doc =
    missing('vars') && declared
      ? { ...declared.vars }
      : Object.fromEntries(
          Object.entries(manifest.vars).flatMap(([name, one]) => {
            if (one.kind !== 'secret' || overrides.secrets !== 'mint') return [[name, varOf(one, manifest, target)]];
            const mint = mintSaid(manifest, name);
            // What its document does not say, its app does, and goes on to.
            return mint !== null ? [[name, mint]] : isApp ? [] : [[name, '@secret!']];
          }),
        );
  const hooks = spec['hooks'] ?? (missing('spec') && declared?.layout.kind === 'compose' ? declared.hooks : undefined);
  const group = manifest.group ?? (missing('group') ? declared?.group : null);
  return {
    ...spec,
    apiVersion: 'windlass/v1',
    kind: 'Stack',
    name: target,
    ...(isApp ? { app: manifest.app?.name ?? (declared?.layout.kind === 'app' ? declared.layout.app.name : '') } : {}),
    ...(group ? { group } : {}),
    node: manifest.node || 'local',
    runtime: manifest.runtime,
    vars: { ...vars, ...overrides.vars },
    integrate: facts.integrate,
    ports: Object.fromEntries(
      Object.entries(from('ports')).filter(
        // A host port alone is one for the port that stands here.
        ([service]) => !Object.hasOwn(overrides.ports ?? {}, service) || isHostPort(overrides.ports?.[service] ?? []),
      ),
    ),
    replicas: from('replicas'),
    ...(hooks === undefined ? {} : { hooks }),
    // What the fleet does not declare would else be taken for something that left it.
    ...(live?.fleet.stacks.has(target) || live?.fleet.broken.has(target) ? {} : { prune: false }),
  };
}

/** As the stack's own document asks for it; null where only its app does. */
function mintSaid(manifest: Manifest, name: string): string | null {
  const said = (manifest.spec as { vars?: Record<string, unknown> }).vars?.[name];
  return typeof said === 'string' && said.startsWith('@secret') ? said : null;
}

/** So that an archive of what is restored asks for its secrets as this one does. */
function mintedOf(manifest: Manifest, { vars = {}, secrets }: Overrides): Pick<MadeCommit, 'minted'> {
  if (secrets === 'mint') return {};
  const said = Object.entries(manifest.vars).flatMap(([name, { kind }]) => {
    const mint = kind === 'secret' && !Object.hasOwn(vars, name) ? mintSaid(manifest, name) : null;
    return mint === null ? [] : [[name, mint] as const];
  });
  return said.length === 0 ? {} : { minted: Object.fromEntries(said) };
}

/** As the target's document declares it, its secrets taken along. */
export function varOf(one: ManifestVar, manifest: Manifest, target: string): unknown {
  if (one.kind === 'plain') return one.value;
  if (one.kind === 'secret') return `ref+vault://${scopeFor(one.scope, manifest.stack, target)}/${one.key}`;
  return one.ref.replace(`ref+vault://stack/${manifest.stack}/`, `ref+vault://stack/${target}/`);
}

/** Throws USAGE for a number alone where it does not say which port it is for. `found`: the service's published ports as they would be. */
export function refuseBarePorts(ports: Overrides['ports'], found: (service: string, port: number) => boolean): void {
  for (const [service, published] of Object.entries(ports ?? {}))
    for (const port of published)
      if (/^[0-9]+$/.test(port) && !(isHostPort(published) && found(service, Number(port))))
        throw new Fault(
          'USAGE',
          `the port ${port} of ${service} does not say which of its container it is for, as ${service} does not publish exactly one: write it as ${port}:CONTAINERPORT, or ADDRESS:${port}:CONTAINERPORT`,
          { data: { service, port } },
        );
}

/** What was the stack's own is the target's. */
export const scopeFor = (scope: string, stack: string, target: string): string =>
  scope === `stack/${stack}` ? `stack/${target}` : scope;

async function fleetDocument({ live, bench }: MadeStackInput, folders: ReadonlySet<string>): Promise<Doc> {
  const file = live?.listing.entries.find(({ path }) => path === 'fleet.yaml' || path === 'fleet.yml');
  const text = file ? Buffer.from(await bench.house.source.blob(file.oid, FILE_BYTES)).toString('utf8') : '';
  const said = text === '' ? null : (parseDocument('fleet.yaml', text).parsed?.value as Doc | null | undefined);
  const defaults = said?.['defaults'];
  return {
    apiVersion: 'windlass/v1',
    kind: 'Fleet',
    discover: [...folders].sort().map((folder) => (folder === '' ? '.' : `${folder}/`)),
    ...(defaults ? { defaults } : {}),
  };
}

/** Files of the providers and of theirs, as they are declared here, or deployed where they are not declared. Throws NOT_FOUND. */
async function providerFiles(
  { bench, live, beside, target, manifest }: MadeStackInput,
  integrate: Readonly<Record<string, string>>,
  folders: Set<string>,
): Promise<readonly MadeFile[]> {
  const files: MadeFile[] = [];
  const seen = new Set<string>([target]);
  const open = Object.entries(integrate);
  for (let edge = open.pop(); edge !== undefined; edge = open.pop()) {
    const [plug, name] = edge;
    if (seen.has(name)) continue;
    seen.add(name);
    const at = await declaredAt(bench, live, beside, name);
    const stack = at?.fleet.stacks.get(name);
    if (!at || !stack) {
      const was = manifest.integrate[plug]?.app;
      throw new Fault(
        'NOT_FOUND',
        `the plug \`${plug}\` needs the stack ${name}${was ? ` (an instance of ${was})` : ''}, which is not here; name another one with \`integrate\`, or leave it out with \`skipIntegration\``,
        { data: { plug, provider: name } },
      );
    }
    const { layout } = stack;
    const isOurs = (path: string): boolean =>
      path === stack.place.file ||
      stack.files.some((file) => file.path === path) ||
      (layout.kind === 'app' && path.startsWith(`${layout.app.directory}/`));
    for (const { path, mode, oid } of at.listing.entries)
      if (mode !== '160000' && isOurs(path)) files.push({ path, mode, oid });
    if (layout.kind === 'compose') folders.add(layout.directory);
    if (stack.place.file.endsWith('/stack.yaml')) folders.add(dirname(stack.place.file));
    open.push(...Object.entries(stack.integrate));
  }
  return files;
}

async function declaredAt(
  bench: Workbench,
  live: FleetAt | null,
  beside: ReadonlyMap<string, string>,
  name: string,
): Promise<FleetAt | null> {
  const made = beside.get(name);
  if (made !== undefined) return bench.reader.read(made);
  if (live?.fleet.stacks.has(name)) return live;
  const applied = bench.house.store.applied(name);
  return applied ? bench.reader.read(applied.revision) : null;
}
