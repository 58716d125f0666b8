// Compose words: Docker Compose tells a mistake by names, people look for lines. Which key of the file a complaint is about, and which
// known key was probably meant. Pure; what it does not understand it leaves alone.
import type { Parsed, Path } from './document.ts';
import { nearest } from './suggest.ts';

/** Keys of the Compose specification, for suggestions only: Compose itself judges. */
const ROOT_KEYS = 'name version services networks volumes secrets configs include models'.split(' ');
const SERVICE_KEYS =
  `annotations attach blkio_config build cap_add cap_drop cgroup cgroup_parent command configs container_name
  cpu_count cpu_percent cpu_period cpu_quota cpu_rt_period cpu_rt_runtime cpu_shares cpus cpuset credential_spec depends_on deploy develop
  device_cgroup_rules devices dns dns_opt dns_search domainname entrypoint env_file environment expose extends external_links extra_hosts
  gpus group_add healthcheck hostname image init ipc isolation label_file labels links logging mac_address mem_limit mem_reservation
  mem_swappiness memswap_limit models network_mode networks oom_kill_disable oom_score_adj pid pids_limit platform ports post_start
  pre_stop privileged profiles provider pull_policy read_only restart runtime scale secrets security_opt shm_size stdin_open
  stop_grace_period stop_signal storage_opt sysctls tmpfs tty ulimits use_api_socket user userns_mode uts volumes volumes_from
  working_dir`.split(/\s+/);
const PER_SERVICE: Readonly<Record<string, string>> = {
  volume: 'volumes',
  network: 'networks',
  config: 'configs',
  secret: 'secrets',
  service: 'depends_on',
};

interface Row {
  readonly pattern: RegExp;
  readonly path: (found: readonly string[], root: unknown) => Path | null;
}

const ROOTS = '(?:services|networks|volumes|configs|secrets)';

/** First that matches wins. */
const ROWS: readonly Row[] = [
  {
    pattern: new RegExp(`(?:^|[\\s:'])(${ROOTS}(?:[.[][^\\s.[\\]:']+\\]?)*)? additional propert(?:y|ies) '([^']+)'`),
    path: ([path = '', extra = '']) => [...keysOf(path), extra],
  },
  {
    pattern: /service "([^"]+)" (?:refers to|depends on) undefined (volume|network|config|secret|service)/,
    path: ([service = '', kind = '']) => ['services', service, PER_SERVICE[kind] ?? ''],
  },
  { pattern: /service "([^"]+)"/, path: ([service = '']) => ['services', service] },
  { pattern: /dependency cycle detected: (\S+) ->/, path: ([service = '']) => ['services', service, 'depends_on'] },
  { pattern: /circular reference:\s+(\S+) in /i, path: ([service = '']) => ['services', service, 'extends'] },
  { pattern: /include cycle detected/, path: () => ['include'] },
  {
    pattern: /invalid (?:host|container)port: (\S+)/i,
    path: ([port = ''], root) => inServices(root, 'ports', (text) => text.split(/[:/-]/).includes(port)),
  },
  {
    pattern: /env file (\S+) not found/,
    path: ([path = ''], root) =>
      inServices(root, 'env_file', (text) => path === text || path.endsWith(`/${text.replace(/^\.\//, '')}`)) ??
      inServices(root, 'env_file', (text) => text.replace(/^\.\//, '') === path),
  },
  { pattern: new RegExp(`(?:^|[\\s'"])(${ROOTS}(?:\\.[\\w-]+|\\[[\\w-]+\\])+)`), path: ([path = '']) => keysOf(path) },
  { pattern: new RegExp(`^(?:[^:]*: )?(${ROOTS}) must be `), path: ([key = '']) => [key] },
];

function keysOf(path: string): Path {
  return path
    .split(/[.[\]]/)
    .filter((key) => key !== '')
    .map((key) => (/^\d+$/.test(key) ? Number(key) : key));
}

/** The entry of some service's list (or its one text) under `key` that the complaint is about. */
function inServices(root: unknown, key: string, isIt: (text: string) => boolean): Path | null {
  for (const [name, service] of Object.entries(mapOf(mapOf(root)['services']))) {
    const value = mapOf(service)[key];
    const list = Array.isArray(value) ? value : [value];
    const index = list.findIndex((one) => {
      const texts = typeof one === 'object' && one !== null ? Object.values(one) : [one];
      return texts.some((text) => (typeof text === 'string' || typeof text === 'number') && isIt(String(text)));
    });
    if (index >= 0) return ['services', name, key, ...(Array.isArray(value) ? [index] : [])];
  }
  return null;
}

const mapOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

function holds(value: unknown, [key, ...rest]: Path): boolean {
  if (key === undefined) return true;
  return Object.hasOwn(mapOf(value), key) && holds(mapOf(value)[key], rest);
}

/** Where in this file that stands which Compose complains about; null when nothing of it is there. */
export function pathOfWords(words: string, { value }: Pick<Parsed, 'value'>): Path | null {
  for (const { pattern, path } of ROWS) {
    const found = pattern.exec(words);
    const keys = found && path(found.slice(1), value);
    if (!keys) continue;
    // A key that an override or an extended file brings is looked for as its service.
    for (let length = keys.length; length > 0; length--) {
      const part = keys.slice(0, length);
      if (holds(value, part)) return length === keys.length || length >= 2 ? part : null;
    }
    return null;
  }
  return null;
}

/** The known key that was meant by one that Compose does not know. */
export function keyMeant(words: string): string | null {
  const row = ROWS[0];
  const found = row?.pattern.exec(words);
  const path = found && row?.path(found.slice(1), null);
  if (!path) return null;
  const extra = String(path.at(-1));
  if (path.length === 1) return nearest(extra, ROOT_KEYS);
  return path.length === 3 && path[0] === 'services' ? nearest(extra, SERVICE_KEYS) : null;
}
