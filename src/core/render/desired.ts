// Desired from a resolved Compose project: pure reading of `docker compose config --format json`, hashed the way Compose labels containers.
// Two passes: `overrideFor` says which labels must be added (content of mounted files, build inputs), `desiredOf` reads the final text.
import { createHash } from 'node:crypto';
import type {
  Desired,
  DesiredNetwork,
  DesiredService,
  DesiredVolume,
  MountedContent,
  OnFileChange,
  PublishedPort,
  Resources,
  VolumeOwner,
} from '../state/desired.ts';
import { LABELS } from '../state/labels.ts';
import type { TreeEntry } from '../state/listing.ts';
import { entriesOf, fieldOf, HASH_RECIPE, hashesOf, readRaw, toJs, writeRaw } from './config-hash.ts';
import { secretValuesOf } from './secret-values.ts';
import { findTokens, replaceTokens, spelledByGo } from './token.ts';
import { withLabels } from './variant.ts';

/** `x-windlass` of one service. */
export interface ServiceExtension {
  readonly onFileChange?: OnFileChange;
  readonly oneShot?: boolean;
}

export interface ProjectContext {
  readonly stack: string;
  readonly revision: string;
  readonly project: string;
  /** Root of the stack's stable tree; repository paths lie below it. */
  readonly treeDir: string;
  readonly projectDir: string;
  readonly inputDigest: string;
  readonly composeVersion: string;
  readonly files: readonly TreeEntry[];
  readonly extensions: Readonly<Record<string, ServiceExtension>>;
  /** Owners of volumes by their key in the Compose file. */
  readonly owners: readonly VolumeOwner[];
  /** What `environment:` of configs and secrets names: Compose puts only the name into the text. Closed or open as the text is. */
  readonly environment: Readonly<Record<string, string>>;
  /** Values of opened secrets: whatever holds one is masked. */
  readonly opened?: readonly string[];
  /** Makes digests of maybe-secret values useless elsewhere. */
  readonly salt: string;
}

// biome-ignore lint/suspicious/noExplicitAny: Compose's own output, read defensively below
type Loose = any;

const sha = (...parts: readonly string[]): string => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part).update('\0');
  return hash.digest('hex');
};

/** Digest of what lies at an absolute path of the stable tree; null when it is not from the repository. */
function contentDigest(context: ProjectContext, path: string): string | null {
  const root = `${context.treeDir}/`;
  if (path !== context.treeDir && !path.startsWith(root)) return null;
  const inside = path === context.treeDir ? '' : path.slice(root.length).replace(/\/+$/, '');
  const under: string[] = [];
  for (const entry of context.files) {
    if (entry.path === inside) return sha(entry.mode, entry.oid);
    if (inside === '' || entry.path.startsWith(`${inside}/`)) under.push(entry.path, entry.mode, entry.oid);
  }
  return under.length === 0 ? null : sha(...under);
}

/** What Compose writes into a container when it makes it. Digested with the salt only: it may be a secret. */
function injectedOf(context: ProjectContext, definition: Loose): readonly (string | null)[] {
  const { content = null, environment = null } = definition;
  if (environment === null) return [content, null];
  const isSet = Object.hasOwn(context.environment, environment);
  return [content, environment, isSet ? (context.environment[environment] ?? null) : null];
}

function mountsOf(context: ProjectContext, model: Loose, name: string): MountedContent[] {
  const service = model.services[name];
  const onChange = context.extensions[name]?.onFileChange ?? { kind: 'recreate' };
  const mounts: MountedContent[] = [];
  for (const volume of service.volumes ?? []) {
    if (volume.type !== 'bind') continue;
    const digest = contentDigest(context, volume.source);
    if (digest) mounts.push({ kind: 'bind', source: volume.source, target: volume.target, digest, onChange });
  }
  for (const kind of ['config', 'secret'] as const) {
    for (const use of service[`${kind}s`] ?? []) {
      const definition = model[`${kind}s`]?.[use.source];
      if (!definition || definition.external) continue;
      const target = use.target ?? (kind === 'config' ? `/${use.source}` : `/run/secrets/${use.source}`);
      const digest = definition.file
        ? contentDigest(context, definition.file)
        : sha(context.salt, JSON.stringify(injectedOf(context, definition)));
      // Content that Compose injects at creation cannot be refreshed in place, whatever onFileChange says.
      const injected = !definition.file;
      if (digest)
        mounts.push({
          kind,
          source: definition.file ?? use.source,
          target,
          digest,
          onChange: injected ? { kind: 'recreate' } : onChange,
        });
    }
  }
  return mounts;
}

function buildOf(context: ProjectContext, service: Loose): DesiredService['build'] {
  const build = service.build;
  if (!build) return null;
  const content = contentDigest(context, build.context) ?? '';
  const extra = Object.values(build.additional_contexts ?? {}).map(
    (path) => contentDigest(context, String(path)) ?? '',
  );
  const { labels: _ours, ...inputs } = build;
  return { context: build.context, digest: sha(content, ...extra, JSON.stringify(inputs)) };
}

const recreating = (mounts: readonly MountedContent[]): readonly MountedContent[] =>
  mounts.filter((mount) => mount.onChange.kind === 'recreate');

/** The override file (JSON text) that carries our labels, or null when none is needed. */
export function overrideFor(context: ProjectContext, text: string): string | null {
  const model: Loose = JSON.parse(text);
  const services: Record<string, unknown> = {};
  const { services: hashes } = hashesOf(text);
  for (const name of Object.keys(model.services ?? {})) {
    const labels: Record<string, string> = {};
    const mounts = recreating(mountsOf(context, model, name));
    if (mounts.length > 0) labels[LABELS.content] = sha(...mounts.flatMap((mount) => [mount.target, mount.digest]));
    const build = buildOf(context, model.services[name]);
    if (build) labels[LABELS.build] = build.digest;
    const hash = hashes.get(name);
    if (hash?.needsIds) labels[LABELS.definition] = sha(hash.hash, JSON.stringify(labels));
    if (Object.keys(labels).length === 0) continue;
    services[name] = build ? { labels, build: { labels: { [LABELS.build]: build.digest } } } : { labels };
  }
  if (Object.keys(services).length === 0) return null;
  const asked = environmentAsked(model);
  return JSON.stringify({ services, ...(Object.keys(asked).length > 0 ? { [ENVIRONMENT]: asked } : {}) });
}

/** Top-level key under which the override lets Compose say what the variables hold that configs and secrets name. */
const ENVIRONMENT = 'x-windlass-environment';
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

function environmentAsked(model: Loose): Readonly<Record<string, string>> {
  const definitions = [...Object.values<Loose>(model.configs ?? {}), ...Object.values<Loose>(model.secrets ?? {})];
  const names = definitions.map((one) => one?.environment).filter((name) => VARIABLE.test(name ?? ''));
  return Object.fromEntries(names.map((name) => [name, `\${${name}-}`]));
}

/** Takes the answer out of the text again: it is no part of the project. */
export function takeEnvironment(text: string): { text: string; environment: Readonly<Record<string, string>> } {
  const project = readRaw(text);
  const asked = fieldOf(project, ENVIRONMENT);
  if (asked === undefined) return { text, environment: {} };
  const rest = entriesOf(project).filter(({ key }) => key !== ENVIRONMENT);
  return {
    text: writeRaw({ kind: 'object', entries: rest }),
    environment: toJs(asked) as Readonly<Record<string, string>>,
  };
}

/**
 * The closed text with its secrets opened as Compose spells them. What a container bears for what is written into it was made from names
 * and refs: it moves with the values too, or Compose would see no difference when one of them changes.
 */
export function openText(context: ProjectContext, closed: string, open: (ref: string) => string): string {
  // As Compose writes it, `$` doubled: the model is read as a Compose file again, and what is hashed is the spelling.
  const opened = (text: string) => replaceTokens(text, (ref) => spelledByGo(open(ref)).replaceAll('$', '$$$$'));
  const labels = labelsByValue(context, closed, open);
  return opened(labels.size === 0 ? closed : withLabels(closed, labels));
}

/** By service: its labels that stand for a secret or for what a variable holds. Salted: a label is seen by whoever sees the container. */
function labelsByValue(
  context: ProjectContext,
  closed: string,
  open: (ref: string) => string,
): ReadonlyMap<string, Readonly<Record<string, string>>> {
  const model: Loose = JSON.parse(closed);
  const found = new Map<string, Readonly<Record<string, string>>>();
  for (const [name, service] of Object.entries<Loose>(model.services ?? {})) {
    const injected = (['configs', 'secrets'] as const).flatMap((kind) =>
      (service[kind] ?? []).map((use: Loose) => injectedOf(context, model[kind]?.[use.source] ?? {})),
    );
    const values = injected.filter(([, variable]) => variable !== null);
    const moved: Record<string, string> = {};
    const move = (label: string, held: string): void => {
      const before = service.labels?.[label];
      const refs = findTokens(held);
      if (before === undefined || refs.length + values.length === 0) return;
      moved[label] = sha(context.salt, before, JSON.stringify([values, refs.map((ref) => [ref, open(ref)])]));
    };
    move(LABELS.content, JSON.stringify(injected));
    // Of a service that nothing else tells apart: whatever of it holds secrets.
    move(LABELS.definition, JSON.stringify([injected, service]));
    if (Object.keys(moved).length > 0) found.set(name, moved);
  }
  return found;
}

const bytes = (value: unknown): number => Number(value ?? 0) || 0;

function restartOf(service: Loose): string {
  const policy = service.deploy?.restart_policy;
  if (policy) {
    const condition = {
      'on-failure': 'on-failure',
      'unless-stopped': 'unless-stopped',
      any: 'always',
      always: 'always',
    }[policy.condition as string];
    if (condition === 'on-failure' && policy.max_attempts) return `on-failure:${policy.max_attempts}`;
    return condition ?? 'no';
  }
  return service.restart || 'no';
}

function resourcesOf(service: Loose): Resources {
  const limits = service.deploy?.resources?.limits ?? {};
  const reservations = service.deploy?.resources?.reservations ?? {};
  return {
    memoryBytes: bytes(limits.memory) || bytes(service.mem_limit),
    memoryReservationBytes: bytes(reservations.memory) || bytes(service.mem_reservation),
    nanoCpus: Math.round((Number(limits.cpus ?? 0) || Number(service.cpus ?? 0) || 0) * 1e9),
    cpuShares: bytes(service.cpu_shares),
    cpuset: service.cpuset ?? '',
    pidsLimit: Math.max(0, bytes(limits.pids) || bytes(service.pids_limit)),
    restart: restartOf(service),
  };
}

const SECRET_NAME = /pass|secret|token|key|credential|auth|private|dsn|_url$|^url$/i;

/** `path → value`, so that a preview can say which key changed. Values that may be secret become salted digests. */
export function fieldsOf(service: Loose, salt: string, known: readonly string[] = []): Record<string, string> {
  const fields: Record<string, string> = {};
  const mask = (text: string) => `~${sha(salt, text).slice(0, 12)}`;
  const walk = (value: unknown, path: string, secret: boolean): void => {
    if (value === null || value === undefined) return;
    if (typeof value === 'object') {
      const inner = path === 'environment' || path === 'build.args';
      for (const [key, child] of Object.entries(value))
        walk(child, path === '' ? key : `${path}.${key}`, secret || (inner && SECRET_NAME.test(key)));
      return;
    }
    const text = String(value);
    fields[path] =
      secret ||
      findTokens(text).length > 0 ||
      /:\/\/[^/\s]*:[^/\s]*@/.test(text) ||
      known.some((value) => text.includes(value))
        ? mask(text)
        : text.slice(0, 400);
  };
  const { depends_on: _order, profiles: _profiles, pull_policy: _pull, scale: _scale, ...rest } = service;
  walk(rest, '', false);
  for (const path of Object.keys(fields)) if (path.endsWith(`labels.${LABELS.content}`)) delete fields[path];
  return fields;
}

function portsOf(service: Loose): PublishedPort[] {
  const ports: PublishedPort[] = [];
  for (const port of service.ports ?? []) {
    const [from, to] = String(port.published ?? '').split('-');
    const first = Number(from) || 0;
    const ranged = to !== undefined && Number(to) !== first;
    ports.push({
      hostIp: port.host_ip ?? '',
      published: ranged ? 0 : first,
      target: Number(port.target) || 0,
      protocol: port.protocol ?? 'tcp',
    });
  }
  return ports;
}

function oneShotOf(model: Loose, name: string, extension: ServiceExtension | undefined): boolean | null {
  for (const other of Object.values<Loose>(model.services))
    if (other.depends_on?.[name]?.condition === 'service_completed_successfully') return true;
  if (extension?.oneShot !== undefined) return extension.oneShot;
  const service = model.services[name];
  if ((service.ports ?? []).length > 0 || (service.healthcheck && !service.healthcheck.disable)) return false;
  return null;
}

const namesOf = (definitions: Loose, key: string, project: string): string =>
  definitions?.[key]?.name ?? `${project}_${key}`;

function strangersOf(service: Loose): Pick<DesiredService, 'strangers'> {
  const modes: readonly unknown[] = [service.network_mode, service.pid, service.ipc];
  const names = modes.flatMap((mode) =>
    typeof mode === 'string' && /^container:./.test(mode) ? [mode.slice(10)] : [],
  );
  return names.length === 0 ? {} : { strangers: [...new Set(names)] };
}

function imageOf(project: string, name: string, service: Loose): string {
  return service.image ?? `${project}-${name}`;
}

/** Reads the final text (paths of the stable tree, secrets opened). Pure; throws only on text that is not Compose's. */
export function desiredOf(context: ProjectContext, text: string): Desired {
  const model: Loose = JSON.parse(text);
  const hashes = hashesOf(text);
  const project = context.project;
  const known = [...new Set([...secretValuesOf(model), ...(context.opened ?? [])])].filter((one) => one.length >= 4);
  const services: DesiredService[] = Object.keys(model.services ?? {})
    .sort()
    .map((name) => {
      const service = model.services[name];
      const hash = hashes.services.get(name);
      if (!hash) throw new Error(`no hash for service ${name}`);
      const labels: Record<string, string> = service.labels ?? {};
      const named: [string, string][] = (service.volumes ?? [])
        .filter((volume: Loose) => volume.type === 'volume' && volume.source)
        .map((volume: Loose) => [volume.target, namesOf(model.volumes, volume.source, project)]);
      const networks = service.network_mode
        ? []
        : Object.entries<Loose>(service.networks ?? { default: null }).map(([key, use]) => ({
            name: namesOf(model.networks, key, project),
            aliases: [name, ...((use?.aliases ?? []) as string[])],
          }));
      return {
        name,
        hash: hash.hash,
        definition: hash.needsIds ? (labels[LABELS.definition] ?? null) : null,
        parents: hash.parents,
        ...strangersOf(service),
        image: imageOf(project, name, service),
        pullPolicy: pullPolicyOf(service),
        build: service.build ? { context: service.build.context, digest: labels[LABELS.build] ?? '' } : null,
        replicas: service.scale ?? service.deploy?.replicas ?? 1,
        containerName: service.container_name ?? null,
        resources: resourcesOf(service),
        hasHealthcheck: Boolean(service.healthcheck && !service.healthcheck.disable),
        oneShot: oneShotOf(model, name, context.extensions[name]),
        networks,
        volumes: named.map(([, volume]) => volume),
        volumeAt: Object.fromEntries(named),
        mounts: mountsOf(context, model, name),
        ports: portsOf(service),
        dependsOn: Object.entries<Loose>(service.depends_on ?? {}).map(([other, rule]) => ({
          service: other,
          condition: rule?.condition ?? 'service_started',
          ...(rule?.restart === true ? { restart: true as const } : {}),
        })),
        fields: fieldsOf(service, context.salt, known),
      } satisfies DesiredService;
    });
  const networks: DesiredNetwork[] = Object.entries<Loose>(model.networks ?? {}).map(([key, network]) => ({
    key,
    name: network?.name ?? `${project}_${key}`,
    external: Boolean(network?.external),
    hash: network?.external ? '' : (hashes.networks.get(key) ?? ''),
    internal: Boolean(network?.internal),
  }));
  const volumes: DesiredVolume[] = Object.entries<Loose>(model.volumes ?? {}).map(([key, volume]) => ({
    key,
    name: volume?.name ?? `${project}_${key}`,
    external: Boolean(volume?.external),
    hash: volume?.external ? '' : (hashes.volumes.get(key) ?? ''),
  }));
  const owners = context.owners.map((owner) => ({ ...owner, volume: namesOf(model.volumes, owner.volume, project) }));
  const identity = (scaled: boolean) =>
    sha(
      JSON.stringify([
        project,
        services.map((service) => [
          service.name,
          service.definition ?? service.hash,
          service.image,
          service.build?.digest ?? '',
          service.oneShot,
          service.mounts.map((mount) => [mount.target, mount.digest, mount.onChange]),
          scaled ? service.replicas : 0,
        ]),
        networks,
        volumes,
        owners,
      ]),
    );
  return {
    stack: context.stack,
    project,
    projectDir: context.projectDir,
    revision: context.revision,
    inputDigest: context.inputDigest,
    digest: identity(true),
    digestUnscaled: identity(false),
    composeVersion: context.composeVersion,
    recipe: HASH_RECIPE,
    services,
    networks,
    volumes,
    owners,
  };
}

function pullPolicyOf(service: Loose): DesiredService['pullPolicy'] {
  const policy = service.pull_policy;
  if (policy === 'always' || policy === 'never' || policy === 'build') return policy;
  return 'missing';
}
