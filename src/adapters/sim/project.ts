// Project: the part of Compose's file language that tests use, resolved to the JSON form of `docker compose config`.
// Simulated world only; what it does not know it refuses rather than guess.
import { isAbsolute, join, resolve } from 'node:path';
import { parse } from 'yaml';
import { Fault } from '../../core/fault.ts';

// biome-ignore lint/suspicious/noExplicitAny: YAML of any form, read defensively below
type Loose = any;
type Tree = Record<string, Loose>;

export interface ProjectInput {
  readonly project: string;
  readonly directory: string;
  /** Contents in the order in which they are laid over each other. */
  readonly texts: readonly { readonly name: string; readonly text: string }[];
  readonly profiles: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
  /** Reads an env_file; null when it is not there. */
  readonly readFile: (path: string) => string | null;
}

const serviceKeys = new Set([
  'annotations',
  'attach',
  'build',
  'cap_add',
  'cap_drop',
  'cgroup',
  'command',
  'configs',
  'container_name',
  'cpu_shares',
  'cpus',
  'cpuset',
  'depends_on',
  'deploy',
  'develop',
  'devices',
  'dns',
  'dns_opt',
  'dns_search',
  'domainname',
  'entrypoint',
  'env_file',
  'environment',
  'expose',
  'external_links',
  'extra_hosts',
  'group_add',
  'healthcheck',
  'hostname',
  'image',
  'init',
  'ipc',
  'label_file',
  'labels',
  'links',
  'logging',
  'mac_address',
  'mem_limit',
  'mem_reservation',
  'mem_swappiness',
  'memswap_limit',
  'network_mode',
  'networks',
  'pid',
  'pids_limit',
  'platform',
  'ports',
  'post_start',
  'pre_stop',
  'privileged',
  'profiles',
  'pull_policy',
  'read_only',
  'restart',
  'scale',
  'secrets',
  'security_opt',
  'shm_size',
  'stdin_open',
  'stop_grace_period',
  'stop_signal',
  'sysctls',
  'tmpfs',
  'tty',
  'ulimits',
  'user',
  'userns_mode',
  'volumes',
  'volumes_from',
  'working_dir',
]);
const topKeys = new Set(['name', 'version', 'services', 'networks', 'volumes', 'configs', 'secrets']);
const replacedKeys = new Set(['command', 'entrypoint']);

/** Throws COMPOSE_INVALID. */
export function resolveProject(input: ProjectInput): string {
  let merged: Tree = {};
  for (const { name, text } of input.texts) {
    merged = mergeFile(merged, normalFile(interpolate(readYaml(name, text), input.variables, ''), name, input));
  }
  const everyService: Tree = merged['services'] ?? {};
  const services: Tree = {};
  for (const name of Object.keys(everyService).sort()) {
    const profiles: readonly string[] = everyService[name].profiles ?? [];
    const isActive =
      profiles.length === 0 ||
      profiles.some((profile) => input.profiles.includes(profile) || input.profiles.includes('*'));
    if (isActive) services[name] = finishService(everyService[name], name);
  }
  for (const [name, service] of Object.entries(services)) checkService(service, name, services, merged);

  const used = usedKeys(services);
  const resources = (kind: string, finish: (value: Tree, key: string) => Tree): Tree =>
    Object.fromEntries(
      Object.entries<Tree>({ ...(kind === 'networks' ? { default: null } : {}), ...(merged[kind] ?? {}) })
        .filter(([key]) => used[kind]?.has(key))
        .sort(([left], [right]) => (left < right ? -1 : 1))
        .map(([key, value]) => [key, finish(value ?? {}, key)]),
    );
  const named = (value: Tree, key: string) => value['name'] ?? (value['external'] ? key : `${input.project}_${key}`);
  const fileObject = (value: Tree, key: string): Tree => ({
    name: named(value, key),
    ...(value['file'] === undefined ? {} : { file: absolute(value['file'], input.directory) }),
    ...pick(value, ['environment', 'content', 'external', 'labels']),
  });
  const project: Tree = {
    configs: resources('configs', fileObject),
    name: input.project,
    networks: resources('networks', (value, key) => ({
      name: named(value, key),
      ...pick(value, ['driver', 'driver_opts']),
      ipam: value['ipam'] ?? {},
      ...pick(value, ['external', 'internal', 'attachable', 'labels']),
    })),
    secrets: resources('secrets', fileObject),
    services,
    volumes: resources('volumes', (value, key) => ({
      name: named(value, key),
      ...pick(value, ['driver', 'driver_opts', 'external', 'labels']),
    })),
    ...extensionsOf(merged),
  };
  for (const kind of ['configs', 'networks', 'secrets', 'volumes'])
    if (Object.keys(project[kind]).length === 0) delete project[kind];
  return spell(project);
}

/** What the model says of a service's name for its image. */
export function imageOfService(project: string, name: string, service: Tree): string {
  return service['image'] ?? `${project}-${name}`;
}

/** The variables of a `.env` file, without quotes. */
export function readEnvFile(text: string): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const line of text.split('\n')) {
    const found = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*$/.exec(line);
    if (found) variables[found[1]!] = found[2]!.replace(/^(["'])(.*)\1$/, '$2');
  }
  return variables;
}

export function invalid(message: string): Fault {
  return new Fault('COMPOSE_INVALID', message, { data: { exitCode: 1, lines: [message] } });
}

function readYaml(name: string, text: string): Tree {
  let value: unknown;
  try {
    value = parse(text, { merge: true });
  } catch (error) {
    throw invalid(`failed to parse ${name}: yaml: ${(error as Error).message.split('\n')[0]}`);
  }
  if (value === null) throw invalid(`empty compose file`);
  if (typeof value !== 'object' || Array.isArray(value)) throw invalid(`${name}: top-level object must be a mapping`);
  return value as Tree;
}

function interpolate(value: Loose, variables: Readonly<Record<string, string>>, path: string): Loose {
  if (typeof value === 'string') return interpolateText(value, variables, path);
  if (Array.isArray(value)) return value.map((item, index) => interpolate(item, variables, `${path}.${index}`));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      interpolate(inner, variables, path === '' ? key : `${path}.${key}`),
    ]),
  );
}

function interpolateText(text: string, variables: Readonly<Record<string, string>>, path: string): string {
  return text.replace(
    /\$(?:\$|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])([^}]*))?\})/g,
    (
      whole,
      bare: string | undefined,
      braced: string | undefined,
      operator: string | undefined,
      rest: string | undefined,
    ) => {
      if (whole === '$$') return '$';
      const name = bare ?? braced ?? '';
      const value = variables[name];
      const isSet = value !== undefined && !(operator?.startsWith(':') && value === '');
      if (operator?.endsWith('?') && !isSet) {
        throw invalid(`error while interpolating ${path}: required variable ${name} is missing a value: ${rest ?? ''}`);
      }
      if (operator?.endsWith('+')) return isSet ? (rest ?? '') : '';
      if (operator?.endsWith('-') && !isSet) return rest ?? '';
      return value ?? '';
    },
  );
}

function normalFile(file: Tree, name: string, input: ProjectInput): Tree {
  for (const key of Object.keys(file)) {
    if (!topKeys.has(key) && !key.startsWith('x-')) {
      throw invalid(`validating ${name}: additional properties '${key}' not allowed`);
    }
  }
  const services: Tree = {};
  for (const [service, value] of Object.entries<Tree>(file['services'] ?? {})) {
    if (typeof value !== 'object' || value === null)
      throw invalid(`validating ${name}: services.${service} must be a mapping`);
    for (const key of Object.keys(value)) {
      if (!serviceKeys.has(key) && !key.startsWith('x-')) {
        throw invalid(`validating ${name}: services.${service} additional properties '${key}' not allowed`);
      }
    }
    services[service] = normalService(value, input);
  }
  return { ...extensionsOf(file), ...pick(file, ['networks', 'volumes', 'configs', 'secrets']), services };
}

function normalService(raw: Tree, input: ProjectInput): Tree {
  const service: Tree = Object.fromEntries(Object.entries(raw).filter(([key]) => !key.startsWith('x-')));
  for (const key of ['command', 'entrypoint']) if (typeof service[key] === 'string') service[key] = words(service[key]);
  const fromFiles: Tree = {};
  for (const file of asList(service['env_file'])) {
    const { path, required } = typeof file === 'string' ? { path: file, required: true } : { required: true, ...file };
    const text = input.readFile(absolute(path, input.directory));
    if (text === null && required) throw invalid(`env file ${absolute(path, input.directory)} not found`);
    Object.assign(fromFiles, readEnvFile(text ?? ''));
  }
  delete service['env_file'];
  if (service['environment'] !== undefined || Object.keys(fromFiles).length > 0) {
    const own = asMap(service['environment']);
    for (const [key, value] of Object.entries(own))
      own[key] = value === null ? (input.variables[key] ?? null) : String(value);
    service['environment'] = sorted({ ...fromFiles, ...own });
  }
  if (service['labels'] !== undefined) {
    service['labels'] = sorted(
      Object.fromEntries(Object.entries(asMap(service['labels'])).map(([key, value]) => [key, String(value ?? '')])),
    );
  }
  if (service['ports'] !== undefined) service['ports'] = asList(service['ports']).flatMap(normalPort);
  if (service['volumes'] !== undefined)
    service['volumes'] = asList(service['volumes']).map((volume) => normalVolume(volume, input.directory));
  if (Array.isArray(service['networks']))
    service['networks'] = Object.fromEntries(service['networks'].map((key) => [key, null]));
  if (service['depends_on'] !== undefined) {
    const rules = Array.isArray(service['depends_on'])
      ? Object.fromEntries(service['depends_on'].map((key) => [key, {}]))
      : service['depends_on'];
    service['depends_on'] = Object.fromEntries(
      Object.entries<Tree>(rules).map(([key, rule]) => [
        key,
        { condition: 'service_started', ...rule, required: rule?.['required'] ?? true },
      ]),
    );
  }
  if (typeof service['healthcheck']?.test === 'string') {
    service['healthcheck'] = { ...service['healthcheck'], test: ['CMD-SHELL', service['healthcheck'].test] };
  }
  for (const kind of ['configs', 'secrets'] as const) {
    if (service[kind] === undefined) continue;
    service[kind] = asList(service[kind]).map((use) => {
      const long = typeof use === 'string' ? { source: use } : use;
      return kind === 'secrets' && long.target === undefined
        ? { ...long, target: `/run/secrets/${long.source}` }
        : long;
    });
  }
  if (service['build'] !== undefined) {
    const build = typeof service['build'] === 'string' ? { context: service['build'] } : service['build'];
    service['build'] = {
      ...build,
      context: absolute(build.context ?? '.', input.directory),
      dockerfile: build.dockerfile ?? 'Dockerfile',
      ...(build.args === undefined ? {} : { args: sorted(asMap(build.args)) }),
      ...(build.labels === undefined ? {} : { labels: sorted(asMap(build.labels)) }),
    };
  }
  for (const key of ['mem_limit', 'mem_reservation', 'memswap_limit', 'shm_size']) {
    if (service[key] !== undefined) service[key] = String(bytesOf(service[key]));
  }
  if (service['deploy'] !== undefined) {
    const deploy = {
      ...service['deploy'],
      resources: service['deploy'].resources ?? {},
      placement: service['deploy'].placement ?? {},
    };
    for (const part of Object.values<Tree>(deploy.resources)) {
      if (part['memory'] !== undefined) part['memory'] = String(bytesOf(part['memory']));
      if (part['cpus'] !== undefined) part['cpus'] = Number(part['cpus']);
    }
    service['deploy'] = deploy;
  }
  return service;
}

function normalPort(port: Loose): Tree[] {
  if (typeof port === 'object') {
    return [
      {
        mode: 'ingress',
        ...port,
        ...(port.published === undefined ? {} : { published: String(port.published) }),
        protocol: port.protocol ?? 'tcp',
      },
    ];
  }
  const [address = '', protocol = 'tcp'] = String(port).split('/');
  const parts = /^(?:(?:(\[[^\]]+\]|[^:[\]]+):)?([\d-]*):)?([\d-]+)$/.exec(address);
  if (parts === null) throw invalid(`invalid port specification: "${port}"`);
  const [, hostIp, published = '', target = ''] = parts;
  const targets = range(target);
  const hosts = published === '' ? [] : range(published);
  if (hosts.length > 0 && hosts.length !== targets.length)
    throw invalid(`invalid ranges specified for container and host Ports: "${port}"`);
  return targets.map((each, index) => ({
    mode: 'ingress',
    ...(hostIp === undefined ? {} : { host_ip: hostIp.replace(/^\[|\]$/g, '') }),
    target: each,
    ...(hosts[index] === undefined ? {} : { published: String(hosts[index]) }),
    protocol,
  }));
}

function normalVolume(volume: Loose, directory: string): Tree {
  if (typeof volume === 'object') {
    return volume.type === 'bind' && typeof volume.source === 'string'
      ? { ...volume, source: absolute(volume.source, directory) }
      : volume;
  }
  const parts = String(volume).split(':');
  if (parts.length === 1) return { type: 'volume', target: parts[0], volume: {} };
  const [source = '', target = '', mode = ''] = parts;
  const isPath = /^[./~]/.test(source);
  return {
    type: isPath ? 'bind' : 'volume',
    source: isPath ? absolute(source, directory) : source,
    target,
    ...(mode.split(',').includes('ro') ? { read_only: true } : {}),
    ...(isPath ? { bind: { create_host_path: true } } : { volume: {} }),
  };
}

/** A later file over an earlier one: maps by key, lists appended (one entry a target), commands replaced. */
function mergeFile(under: Tree, over: Tree): Tree {
  const services: Tree = { ...(under['services'] ?? {}) };
  for (const [name, service] of Object.entries<Tree>(over['services'] ?? {})) {
    services[name] = services[name] === undefined ? service : mergeService(services[name], service);
  }
  const merged: Tree = { ...extensionsOf(under), ...extensionsOf(over), services };
  for (const kind of ['networks', 'volumes', 'configs', 'secrets']) {
    const entries: Tree = { ...(under[kind] ?? {}) };
    for (const [key, value] of Object.entries<Loose>(over[kind] ?? {}))
      entries[key] = { ...(entries[key] ?? {}), ...(value ?? {}) };
    merged[kind] = entries;
  }
  return merged;
}

const extensionsOf = (file: Tree): Tree =>
  Object.fromEntries(Object.entries(file).filter(([key]) => key.startsWith('x-')));

function mergeService(under: Tree, over: Tree): Tree {
  const merged: Tree = { ...under };
  for (const [key, value] of Object.entries(over)) {
    const before = merged[key];
    if (Array.isArray(value) && Array.isArray(before) && !replacedKeys.has(key)) {
      const byTarget = new Map<string, Loose>();
      for (const item of [...before, ...value]) {
        byTarget.set(
          typeof item === 'object'
            ? `${item.target ?? item.source} ${item.published ?? ''} ${item.protocol ?? ''}`
            : String(item),
          item,
        );
      }
      merged[key] = [...byTarget.values()];
    } else if (isMap(value) && isMap(before) && key !== 'healthcheck') {
      merged[key] = key === 'deploy' || key === 'build' ? mergeService(before, value) : { ...before, ...value };
    } else {
      merged[key] = isMap(value) && isMap(before) ? { ...before, ...value } : value;
    }
  }
  for (const key of ['environment', 'labels']) if (merged[key] !== undefined) merged[key] = sorted(merged[key]);
  return merged;
}

function finishService(service: Tree, name: string): Tree {
  const shared: Tree = {};
  for (const key of ['network_mode', 'ipc', 'pid']) {
    const parent = /^service:(.+)$/.exec(String(service[key] ?? ''))?.[1];
    if (parent !== undefined) shared[parent] = { condition: 'service_started', restart: true, required: true };
  }
  for (const from of asList(service['volumes_from'])) {
    const parent = String(from).split(':')[0]!;
    if (parent !== 'container') shared[parent] = { condition: 'service_started', required: true };
  }
  const dependsOn = sorted({ ...shared, ...(service['depends_on'] ?? {}) });
  const filled: Tree = {
    ...service,
    command: service['command'] ?? null,
    entrypoint: service['entrypoint'] ?? null,
    ...(Object.keys(dependsOn).length === 0 ? {} : { depends_on: dependsOn }),
    ...(service['network_mode'] === undefined ? { networks: sorted(service['networks'] ?? { default: null }) } : {}),
  };
  if (filled['network_mode'] !== undefined && service['networks'] !== undefined) {
    throw invalid(
      `service ${name} declares mutually exclusive \`network_mode\` and \`networks\`: invalid compose project`,
    );
  }
  const { profiles, ...rest } = filled;
  return { ...(profiles === undefined ? {} : { profiles }), ...sorted(rest) };
}

function checkService(service: Tree, name: string, services: Tree, merged: Tree): void {
  if (service['image'] === undefined && service['build'] === undefined) {
    throw invalid(`service "${name}" has neither an image nor a build context specified: invalid compose project`);
  }
  for (const [other, rule] of Object.entries<Tree>(service['depends_on'] ?? {})) {
    if (services[other] === undefined && rule['required']) {
      throw invalid(`service "${name}" depends on undefined service "${other}": invalid compose project`);
    }
  }
  const refer = (kind: string, noun: string, keys: Iterable<string>) => {
    for (const key of keys) {
      if (merged[kind]?.[key] === undefined)
        throw invalid(`service "${name}" refers to undefined ${noun} ${key}: invalid compose project`);
    }
  };
  refer(
    'networks',
    'network',
    Object.keys(service['networks'] ?? {}).filter((key) => key !== 'default'),
  );
  refer(
    'volumes',
    'volume',
    (service['volumes'] ?? [])
      .filter((volume: Tree) => volume['type'] === 'volume' && volume['source'])
      .map((volume: Tree) => volume['source']),
  );
  for (const kind of ['configs', 'secrets'])
    refer(
      kind,
      kind.slice(0, -1),
      (service[kind] ?? []).map((use: Tree) => use['source']),
    );
}

function usedKeys(services: Tree): Record<string, Set<string>> {
  const used = {
    networks: new Set<string>(),
    volumes: new Set<string>(),
    configs: new Set<string>(),
    secrets: new Set<string>(),
  };
  for (const service of Object.values<Tree>(services)) {
    for (const key of Object.keys(service['networks'] ?? {})) used.networks.add(key);
    for (const volume of service['volumes'] ?? [])
      if (volume.type === 'volume' && volume.source) used.volumes.add(volume.source);
    for (const use of service['configs'] ?? []) used.configs.add(use.source);
    for (const use of service['secrets'] ?? []) used.secrets.add(use.source);
  }
  return used;
}

/** Spelled as Compose prints it: some characters escaped, every dollar doubled. */
function spell(project: Tree): string {
  return JSON.stringify(project, null, 2)
    .replace(/[<>&\u2028\u2029]/g, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .replaceAll('$', '$$$$');
}

function words(text: string): string[] {
  return [...text.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+)/g)].map(
    (found) => found[1] ?? found[2] ?? found[3] ?? '',
  );
}

function range(text: string): number[] {
  const [from = '', to = from] = text.split('-');
  const count = Math.min(Math.max(Number(to) - Number(from) + 1, 1), 1000);
  return Array.from({ length: count }, (_, index) => Number(from) + index);
}

export function bytesOf(value: unknown): number {
  const found = /^(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?$/i.exec(String(value).trim());
  if (found === null) throw invalid(`invalid size: '${value}'`);
  return Math.round(Number(found[1]) * 1024 ** ' kmgt'.indexOf((found[2] || ' ').toLowerCase()));
}

function asList(value: Loose): Loose[] {
  return value === undefined || value === null ? [] : Array.isArray(value) ? value : [value];
}

function asMap(value: Loose): Tree {
  if (!Array.isArray(value)) return { ...(value ?? {}) };
  return Object.fromEntries(
    value.map((item) => {
      const at = String(item).indexOf('=');
      return at < 0 ? [String(item), null] : [String(item).slice(0, at), String(item).slice(at + 1)];
    }),
  );
}

function isMap(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function sorted(map: Tree): Tree {
  return Object.fromEntries(Object.entries(map).sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0)));
}

function pick(map: Tree, keys: readonly string[]): Tree {
  return Object.fromEntries(keys.filter((key) => map[key] !== undefined).map((key) => [key, map[key]]));
}

function absolute(path: string, directory: string): string {
  return isAbsolute(path) ? path : resolve(join(directory, path));
}
