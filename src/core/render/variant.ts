// Variant: how a resolved project differs from what its files say: volumes and folders of another generation, other published ports, none at
// all. Works on the text of `docker compose config`, spelling kept, so that it is hashed as Compose will hash it.
import { entriesOf, fieldOf, type RawEntry, type RawValue, readRaw, toJs, writeRaw } from './config-hash.ts';

/** Where the data of a stack lies since it was last restored; what is not named lies where its files say. */
export interface Generation {
  /** Key of the volume → its name in the engine. */
  readonly volumes: Readonly<Record<string, string>>;
  /** Path of a mounted folder below the stack's tree → the path that is mounted in its place, below the tree too unless it is absolute. */
  readonly folders: Readonly<Record<string, string>>;
}

export interface Variant {
  /** Service → its published ports in the place of those that its files publish. A number alone is another host port for the one that they
   * publish, at its address. */
  readonly ports?: Readonly<Record<string, readonly string[]>>;
  /** Nothing is published and no container has a name of its own, so that it can run beside the original. */
  readonly isolated?: boolean;
  /** Nothing outside notices it, and it reaches nothing outside: networks of its own without a way out, volumes of its own, no folder of the
   * host. Networks of these projects stay, for providers that are enclosed as well. */
  readonly enclosed?: readonly string[];
  /** In the place of the one on record. */
  readonly generation?: Generation;
}

/** Null when nothing is to be changed before ports are put in. */
export function withoutPorts(text: string, { ports = {}, isolated = false }: Variant): string | null {
  const services = new Set(Object.keys(ports));
  if (services.size === 0 && !isolated) return null;
  const dropped = (key: string, service: string): boolean =>
    (key === 'ports' && (isolated || services.has(service))) || (key === 'container_name' && isolated);
  const project = mapField(readRaw(text), 'services', (all) =>
    mapEntries(all, (service) => ({
      ...service,
      value: {
        kind: 'object',
        entries: entriesOf(service.value).filter(({ key }) => !dropped(key, service.key)),
      },
    })),
  );
  return writeRaw(project);
}

/** What lets others find a container, or lets it act on others: names and labels that routers watch, logs that are shipped, the host's own. */
const OPENINGS = new Set([
  ...['ports', 'container_name', 'labels', 'logging', 'external_links', 'volumes_from', 'mac_address', 'annotations'],
  ...['pid', 'ipc', 'uts', 'userns_mode', 'cgroup', 'cgroup_parent', 'privileged', 'devices', 'device_cgroup_rules'],
  ...['gpus', 'use_api_socket', 'provider'],
]);
const OWN_NETWORK_MODES = /^(?:none$|service:)/;

/** `directory`: of the project's files, in this very text. */
export function enclose(text: string, projects: readonly string[], directory: string): string {
  let project = readRaw(text);
  const nameOf = (entry: RawEntry): string => {
    const name = fieldOf(entry.value, 'name');
    return name ? String(toJs(name)) : entry.key;
  };
  const own = fieldOf(project, 'name');
  const prefix = own ? String(toJs(own)) : '';
  const isTheirs = (entry: RawEntry): boolean => projects.some((one) => nameOf(entry).startsWith(`${one}_`));
  const object = (fields: Readonly<Record<string, RawValue>>): RawValue => ({
    kind: 'object',
    entries: Object.entries(fields).map(([key, value]) => ({ key, rawKey: JSON.stringify(key), value })),
  });
  const network = (key: string): RawEntry => ({
    key,
    rawKey: JSON.stringify(key),
    value: object({ name: scalar(`${prefix}_${key}`), internal: { kind: 'scalar', raw: 'true' } }),
  });
  const networks = entriesOf(fieldOf(project, 'networks')).map((one) => (isTheirs(one) ? one : network(one.key)));
  // Compose makes it for whoever names none, and would give it a way out.
  if (!networks.some((one) => one.key === 'default')) networks.push(network('default'));
  const rest = entriesOf(project).filter(({ key }) => key !== 'networks');
  project = {
    kind: 'object',
    entries: [...rest, { key: 'networks', rawKey: '"networks"', value: { kind: 'object', entries: networks } }],
  };
  project = mapField(project, 'volumes', (all) =>
    mapEntries(all, (volume) => ({ ...volume, value: object({ name: scalar(`${prefix}_${volume.key}`) }) })),
  );
  const isInside = (mount: RawValue): boolean => {
    const field = (key: string): string => {
      const found = fieldOf(mount, key);
      return found ? String(toJs(found)) : '';
    };
    if (field('type') !== 'bind') return ['volume', 'tmpfs'].includes(field('type'));
    const source = field('source');
    return source.startsWith(`${directory}/`) && !source.split('/').includes('..');
  };
  project = mapField(project, 'services', (all) =>
    mapEntries(all, (service) => {
      const isBuilt = fieldOf(service.value, 'build') !== undefined;
      const entries = entriesOf(service.value).filter(
        ({ key, value }) =>
          !OPENINGS.has(key) &&
          !(key === 'network_mode' && !OWN_NETWORK_MODES.test(String(toJs(value)))) &&
          // Under a name of its own: what is built is never taken for the image of the original.
          !(key === 'image' && isBuilt),
      );
      let value: RawValue = { kind: 'object', entries };
      value = mapField(value, 'volumes', (mounts) =>
        mounts.kind !== 'array' ? mounts : { kind: 'array', items: mounts.items.filter(isInside) },
      );
      // No address of its own: the original has it.
      value = mapField(value, 'networks', (networks) =>
        mapEntries(networks, (one) => ({
          ...one,
          value:
            one.value.kind === 'object'
              ? { kind: 'object', entries: entriesOf(one.value).filter(({ key }) => key === 'aliases') }
              : one.value,
        })),
      );
      return { ...service, value };
    }),
  );
  return writeRaw(project);
}

/** The override that puts ports in; null when there are none. `text`: of the project with the ports that its files publish. */
export function portsOverride(text: string, { ports = {}, isolated = false, enclosed }: Variant): string | null {
  if (isolated || enclosed || Object.keys(ports).length === 0) return null;
  const services = fieldOf(readRaw(text), 'services');
  const own = (service: string): readonly Readonly<Record<string, unknown>>[] => {
    const found = entriesOf(services).find(({ key }) => key === service);
    const list = found && fieldOf(found.value, 'ports');
    return list ? (toJs(list) as readonly Readonly<Record<string, unknown>>[]) : [];
  };
  const placed = (service: string, published: readonly string[]): readonly unknown[] => {
    const [only, ...others] = own(service);
    if (!isHostPort(published) || only === undefined || others.length > 0) return published;
    return [{ ...only, published: published[0] }];
  };
  return JSON.stringify({
    services: Object.fromEntries(
      Object.entries(ports).map(([service, published]) => [service, { ports: placed(service, published) }]),
    ),
  });
}

/** Another host port, and nothing said of the rest. */
export const isHostPort = (published: readonly string[]): boolean =>
  published.length === 1 && /^[0-9]+$/.test(published[0] ?? '');

/** The same project on the volumes and folders of a generation. */
export function withGeneration(text: string, generation: Generation, treeDir: string): string {
  const { volumes, folders } = generation;
  if (Object.keys(volumes).length + Object.keys(folders).length === 0) return text;
  const sources = new Map(
    Object.entries(folders).map(([path, to]) => [`${treeDir}/${path}`, to.startsWith('/') ? to : `${treeDir}/${to}`]),
  );
  let project = mapField(readRaw(text), 'volumes', (all) =>
    mapEntries(all, (volume) => {
      const name = Object.hasOwn(volumes, volume.key) ? volumes[volume.key] : undefined;
      return name === undefined ? volume : { ...volume, value: mapField(volume.value, 'name', () => scalar(name)) };
    }),
  );
  project = mapField(project, 'services', (all) =>
    mapEntries(all, (service) => ({
      ...service,
      value: mapField(service.value, 'volumes', (mounts) =>
        mounts.kind !== 'array' ? mounts : { kind: 'array', items: mounts.items.map((mount) => moved(mount, sources)) },
      ),
    })),
  );
  return writeRaw(project);
}

/** The same project with other values of labels that its services have. */
export function withLabels(text: string, labels: ReadonlyMap<string, Readonly<Record<string, string>>>): string {
  const project = mapField(readRaw(text), 'services', (all) =>
    mapEntries(all, (service) => {
      const own = labels.get(service.key);
      if (!own) return service;
      const value = mapField(service.value, 'labels', (found) =>
        mapEntries(found, (label) => {
          const other = Object.hasOwn(own, label.key) ? own[label.key] : undefined;
          return other === undefined ? label : { ...label, value: scalar(other) };
        }),
      );
      return { ...service, value };
    }),
  );
  return writeRaw(project);
}

function moved(mount: RawValue, sources: ReadonlyMap<string, string>): RawValue {
  const type = fieldOf(mount, 'type');
  const source = fieldOf(mount, 'source');
  if (!type || !source || toJs(type) !== 'bind') return mount;
  const to = sources.get(String(toJs(source)));
  return to === undefined ? mount : mapField(mount, 'source', () => scalar(to));
}

const scalar = (value: string): RawValue => ({ kind: 'scalar', raw: JSON.stringify(value) });

function mapEntries(value: RawValue, change: (entry: RawEntry) => RawEntry): RawValue {
  return value.kind === 'object' ? { kind: 'object', entries: value.entries.map(change) } : value;
}

const mapField = (value: RawValue, key: string, change: (field: RawValue) => RawValue): RawValue =>
  mapEntries(value, (entry) => (entry.key === key ? { ...entry, value: change(entry.value) } : entry));
