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
  /** Service → its published ports in the place of those that its files publish. */
  readonly ports?: Readonly<Record<string, readonly string[]>>;
  /** Nothing is published and no container has a name of its own, so that it can run beside the original. */
  readonly isolated?: boolean;
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

/** The override that puts ports in; null when there are none. */
export function portsOverride({ ports = {}, isolated = false }: Variant): string | null {
  if (isolated || Object.keys(ports).length === 0) return null;
  return JSON.stringify({
    services: Object.fromEntries(Object.entries(ports).map(([service, published]) => [service, { ports: published }])),
  });
}

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
