// Manifest: everything that reconstructs one stack, as one canonical JSON text whose SHA-256 is the archive's id. Made from what was
// captured; read as hostile input. It names payloads by digest and holds no secret: values lie in a blob that is sealed with age.
import { type Static, type TSchema, Type } from 'typebox';
import { Fault } from '../fault.ts';
import { BOOTS, QUIESCE } from '../spec/backup.ts';
import { mapOf, oneOf, strict } from '../spec/scalar.ts';
import { canonicalBytes, depthOf, MAX_DEPTH, sha256Hex } from './canonical.ts';
import type { InRepository, PayloadRecord } from './payload.ts';
import { pathMistake } from './safe-path.ts';
import { mistakeOf } from './schema-check.ts';

export const ARCHIVE_FORMAT = 'windlass-archive';
export const GROUP_FORMAT = 'windlass-group';
/** 2: payloads in a restic repository. A manifest has the lowest version that can say what it says. */
export const MANIFEST_VERSION = 2;
/** More is none of ours: payloads and files are blobs, not text of the manifest. */
export const MAX_MANIFEST_BYTES = 16 * 1024 * 1024;

const Digest = Type.String({ pattern: '^[0-9a-f]{64}$' });
const Bytes = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Id = Type.Integer({ minimum: 0, maximum: 0xffffffff });
const Mode = Type.String({ pattern: '^[0-7]{3,5}$' });
const AtMs = Type.Integer({ minimum: 0, maximum: 8_640_000_000_000_000 });
const Name = Type.String({ pattern: '^[a-z0-9][a-z0-9_-]{0,62}$' });
const Service = Type.String({ pattern: '^[A-Za-z0-9._-]{1,255}$' });
const Line = Type.String({ maxLength: 4_096, pattern: '^[^\\u0000-\\u001f]*$' });
const Path = Type.String({ minLength: 1, maxLength: 4_096, pattern: '^[^\\u0000]*$' });
const Text = Type.String({ maxLength: 4_096 });
const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

const Blob = Type.Object({ digest: Digest, sizeBytes: Bytes }, strict);
export type BlobRef = Static<typeof Blob>;

/** A small file that lies in the store as it is: its blob's digest is the SHA-256 of its content; of a link, of its target. */
const FileRecord = Type.Object({ path: Path, mode: oneOf(['100644', '100755', '120000']), blob: Blob }, strict);
export type FileRecord = Static<typeof FileRecord>;

const Payload = Type.Object(
  {
    kind: oneOf(['volume', 'bind', 'file']),
    name: Path,
    format: oneOf(['tar+zstd', 'raw+zstd', 'tar']),
    plainDigest: Digest,
    plainBytes: Bytes,
    blob: Blob,
    restic: Type.Optional(Type.Object({ repository: Digest, snapshot: Digest, tree: Digest }, strict)),
    entries: Type.Object({ count: Count, digest: Digest }, strict),
    root: orNull(Type.Object({ uid: Id, gid: Id, mode: Mode }, strict)),
    way: oneOf(['host-path', 'helper-container', 'engine-api', 'memory']),
    notCaptured: Type.Array(Text),
  },
  strict,
);

const Var = Type.Union([
  Type.Object({ kind: Type.Literal('plain'), value: Type.Unknown() }, strict),
  /** Its value is in the sealed blob under this scope and key. */
  Type.Object({ kind: Type.Literal('secret'), scope: Line, key: Line }, strict),
  /** A ref that is opened anew: its value is kept elsewhere. */
  Type.Object({ kind: Type.Literal('ref'), ref: Line }, strict),
]);
export type ManifestVar = Static<typeof Var>;

/** Fields without which an archive is none. */
const identity = {
  format: Type.Literal(ARCHIVE_FORMAT),
  version: Type.Integer({ minimum: 1, maximum: MANIFEST_VERSION }),
  madeAtMs: AtMs,
  stack: Name,
  payloads: Type.Array(Payload, { maxItems: 100_000 }),
};

/** Fields that an older manifest may lack; what each is taken for then is in `EMPTY`. */
const inputs = {
  purpose: oneOf(['backup', 'safety']),
  /** Compose project. */
  project: Name,
  group: orNull(Name),
  node: Line,
  runtime: oneOf(['compose', 'swarm']),
  revision: orNull(Type.Object({ source: Line, ref: Line, commit: Line }, strict)),
  /** The stack's own document with the fleet's defaults applied. */
  spec: mapOf({ type: 'string' }, Type.Unknown(), 'the resolved stack'),
  /** How Compose reads it: files of the project in order, or the template of the packaged app. */
  layout: Type.Union([
    Type.Object(
      {
        kind: Type.Literal('compose'),
        directory: Text,
        files: Type.Array(Path, { maxItems: 1_000 }),
        profiles: Type.Array(Line, { maxItems: 1_000 }),
      },
      strict,
    ),
    Type.Object({ kind: Type.Literal('app') }, strict),
  ]),
  app: orNull(
    Type.Object(
      {
        name: Name,
        version: Line,
        /** Where the catalog has it, so that the restored stack stays upgradeable. */
        catalog: orNull(Type.Object({ origin: oneOf(['fleet', 'bundled']), directory: Path }, strict)),
        /** The packaged source: everything below the app's folder. */
        source: Type.Array(FileRecord, { maxItems: 100_000 }),
      },
      strict,
    ),
  ),
  vars: mapOf({ type: 'string' }, Var, 'variables of the app'),
  ports: mapOf(Service, Type.Array(Line, { maxItems: 10_000 }), 'service → further published ports'),
  replicas: mapOf(Service, Count, 'service → replica count'),
  integrate: mapOf(
    { type: 'string' },
    Type.Object({ provider: Name, app: orNull(Name) }, strict),
    'plug → provider, and the app that it is an instance of',
  ),
  /** Project files from git, by their path in the project folder. */
  files: Type.Array(FileRecord, { maxItems: 100_000 }),
  images: Type.Array(
    Type.Object({ service: Service, reference: Line, digest: orNull(Line), imageId: orNull(Line) }, strict),
    { maxItems: 10_000 },
  ),
  volumes: Type.Array(
    Type.Object(
      {
        /** In the Compose file. */
        key: Line,
        /** In the engine. */
        name: Line,
        external: Type.Boolean(),
        driver: Line,
        driverOpts: mapOf({ type: 'string' }, Text, 'options of the driver'),
        labels: mapOf({ type: 'string' }, Text, 'labels'),
        /** Name of the payload of kind `volume` that holds its data; null when it was not captured. */
        payload: orNull(Path),
      },
      strict,
    ),
    { maxItems: 10_000 },
  ),
  /** Declared ownership: `:perm:uid:gid`. */
  owners: Type.Array(Type.Object({ volume: Line, mode: Text, uid: Id, gid: Id }, strict), { maxItems: 10_000 }),
  vault: Type.Object(
    {
      keys: Type.Array(Type.Object({ scope: Line, key: Line }, strict), { maxItems: 100_000 }),
      /** Values of those keys, sealed with age to `recipients`; null when there are none. */
      sealed: orNull(Blob),
      recipients: Type.Array(Line, { maxItems: 1_000 }),
    },
    strict,
  ),
  boot: Type.Object({ kind: oneOf(BOOTS), why: Line }, strict),
  /** Jobs of the packaged app that rebuild data from its dumps, in this order. */
  restoreJobs: Type.Array(Name, { maxItems: 100 }),
  quiesced: Type.Array(Type.Object({ service: Service, how: oneOf(QUIESCE) }, strict), { maxItems: 10_000 }),
  /** What no payload holds although it is part of the stack's state, in words. */
  notCaptured: Type.Array(Text, { maxItems: 100_000 }),
  engine: Type.Object({ version: Line, apiVersion: Line, composeVersion: Line }, strict),
  /** Version that made it. */
  windlass: Line,
};

const Manifest = Type.Object({ ...identity, ...inputs }, strict);
export type Manifest = Readonly<Omit<Static<typeof Manifest>, 'payloads'>> & {
  readonly payloads: readonly PayloadRecord[];
};

export type DerivedField = keyof typeof inputs;

/** What a missing field is taken for until whoever reads it derives it anew; `project` is that of the stack, and `volumes` are those whose
 * data the archive holds. */
const EMPTY: Readonly<Record<Exclude<DerivedField, 'project' | 'volumes'>, unknown>> = {
  purpose: 'backup',
  group: null,
  node: 'local',
  runtime: 'compose',
  revision: null,
  spec: {},
  layout: { kind: 'app' },
  app: null,
  vars: {},
  ports: {},
  replicas: {},
  integrate: {},
  files: [],
  images: [],
  owners: [],
  vault: { keys: [], sealed: null, recipients: [] },
  // In doubt twice: a database that is replayed from its dump needs it.
  boot: { kind: 'double', why: 'the archive does not say, and in doubt it is booted twice' },
  restoreJobs: [],
  quiesced: [],
  notCaptured: [],
  engine: { version: '', apiVersion: '', composeVersion: '' },
  windlass: '',
};

const Edge = Type.Object({ consumer: Name, plug: Line, provider: Name }, strict);
const Group = Type.Object(
  {
    format: Type.Literal(GROUP_FORMAT),
    version: Type.Integer({ minimum: 1, maximum: MANIFEST_VERSION }),
    madeAtMs: AtMs,
    group: Name,
    /** Stack → the id of its archive. */
    members: Type.Array(Type.Object({ stack: Name, archive: Digest }, strict), { minItems: 1, maxItems: 10_000 }),
    /** Who integrates whom; a provider may be outside of the group. */
    edges: Type.Array(Edge, { maxItems: 100_000 }),
    windlass: Line,
  },
  strict,
);
export type GroupManifest = Readonly<Static<typeof Group>>;

const Read = Type.Object(
  {
    ...identity,
    ...(Object.fromEntries(
      Object.entries(inputs).map(([key, schema]) => [key, Type.Optional(schema as TSchema)]),
    ) as Record<string, TSchema>),
  },
  strict,
);

export interface ReadArchive {
  readonly kind: 'archive';
  readonly id: string;
  readonly manifest: Manifest;
  /** Fields that the archive lacks, because an older version made it: the plan derives each anew and says so. */
  readonly derived: readonly DerivedField[];
}

export interface ReadGroup {
  readonly kind: 'group';
  readonly id: string;
  readonly manifest: GroupManifest;
}

export interface Encoded {
  /** SHA-256 of `bytes`, 64 hex digits: what a request pins. */
  readonly id: string;
  readonly bytes: Uint8Array;
}

export const archiveIdOf = (bytes: Uint8Array): string => sha256Hex(bytes);

/** Throws a plain error for a manifest that could not be read again: that is a mistake of ours. */
export function encodeManifest(manifest: Manifest): Encoded {
  return encode(manifest, Manifest, archiveMistake);
}

export function encodeGroup(manifest: GroupManifest): Encoded {
  return encode(manifest, Group, groupMistake);
}

function encode<T>(manifest: T, schema: TSchema, mistake: (manifest: T) => string | null): Encoded {
  const wrong = mistakeOf(schema, manifest) ?? mistake(manifest);
  if (wrong !== null) throw new Error(`a manifest that could not be read again: ${wrong}`);
  const bytes = canonicalBytes(manifest);
  if (bytes.length > MAX_MANIFEST_BYTES) throw new Error(`a manifest of ${bytes.length} bytes`);
  return { id: archiveIdOf(bytes), bytes };
}

/**
 * Reads the manifest of an archive or of a group. Throws ARCHIVE_INVALID for what is none, ARCHIVE_TOO_NEW for what a newer version made,
 * ARCHIVE_HOSTILE for what no version would make.
 */
export function readManifest(bytes: Uint8Array): ReadArchive | ReadGroup {
  const value = parse(bytes);
  const { format, version } = value as { format?: unknown; version?: unknown };
  if (format !== ARCHIVE_FORMAT && format !== GROUP_FORMAT)
    throw new Fault('ARCHIVE_INVALID', 'this is not the manifest of an archive');
  if (typeof version === 'number' && Number.isSafeInteger(version) && version > MANIFEST_VERSION)
    throw new Fault(
      'ARCHIVE_TOO_NEW',
      `the archive has version ${version}; this Windlass reads up to ${MANIFEST_VERSION}`,
    );
  const id = archiveIdOf(bytes);
  const wrong = mistakeOf(format === GROUP_FORMAT ? Group : Read, value);
  if (wrong !== null)
    throw new Fault('ARCHIVE_INVALID', `the manifest is malformed: ${wrong}`, { data: { archive: id } });
  if (format === GROUP_FORMAT) {
    const manifest = value as GroupManifest;
    refuse(groupMistake(manifest), id);
    return { kind: 'group', id, manifest };
  }
  const found = value as Partial<Manifest> & Pick<Manifest, 'stack' | 'payloads'>;
  const derived = (Object.keys(inputs) as DerivedField[]).filter((field) => !Object.hasOwn(found, field));
  const project = found.project ?? found.stack;
  const filled = Object.fromEntries(
    derived.map((field) => {
      if (field === 'project') return [field, project];
      return [field, field === 'volumes' ? volumesOf(project, found.payloads) : structuredClone(EMPTY[field])];
    }),
  );
  const manifest = { ...found, ...filled } as Manifest;
  refuse(archiveMistake(manifest), id);
  return { kind: 'archive', id, manifest, derived };
}

/** A payload bears the key of its volume; of one that is not captured nothing is known. */
const volumesOf = (project: string, payloads: Manifest['payloads']): Manifest['volumes'][number][] =>
  payloads
    .filter(({ kind }) => kind === 'volume')
    .map(({ name }) => ({
      key: name,
      name: `${project}_${name}`,
      external: false,
      driver: 'local',
      driverOpts: {},
      labels: {},
      payload: name,
    }));

function refuse(mistake: string | null, archive: string): void {
  if (mistake !== null) throw new Fault('ARCHIVE_HOSTILE', `the manifest ${mistake}`, { data: { archive } });
}

function parse(bytes: Uint8Array): object {
  if (bytes.length > MAX_MANIFEST_BYTES)
    throw new Fault('ARCHIVE_INVALID', `the manifest has ${bytes.length} bytes; ${MAX_MANIFEST_BYTES} are read`);
  let value: unknown;
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    if (depthOf(text) > MAX_DEPTH) throw new Error('nested too deep');
    value = JSON.parse(text);
    // One meaning, one text: a key that stands twice, or another spelling of the same, would let two readers disagree under one id.
    if (!Buffer.from(canonicalBytes(value)).equals(bytes)) throw new Error('not in canonical form');
  } catch (error) {
    throw new Fault('ARCHIVE_INVALID', `the manifest is not canonical JSON: ${(error as Error).message.slice(0, 200)}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Fault('ARCHIVE_INVALID', 'this is not the manifest of an archive');
  return value;
}

/** Every blob that a manifest names, each once, in the order of their digests. */
export function blobsOf(read: ReadArchive | ReadGroup): readonly BlobRef[] {
  if (read.kind === 'group') return [];
  const byDigest = new Map(mentions(read.manifest).map((blob) => [blob.digest, blob]));
  return [...byDigest.values()].sort((a, b) => (a.digest < b.digest ? -1 : 1));
}

/** Where a blob lies when it need not lie in the store; null when only the store can hold it. */
export function placeOf(read: ReadArchive | ReadGroup, digest: string): InRepository | null {
  if (read.kind === 'group') return null;
  const { payloads, files, app, vault } = read.manifest;
  const small = [...files, ...(app?.source ?? [])].map(({ blob }) => blob.digest);
  if (small.includes(digest) || vault.sealed?.digest === digest) return null;
  const those = payloads.filter(({ blob }) => blob.digest === digest);
  return those.every(({ restic }) => restic !== undefined) ? (those[0]?.restic ?? null) : null;
}

const mentions = (manifest: Manifest): readonly BlobRef[] => [
  ...manifest.payloads.map((payload) => payload.blob),
  ...manifest.files.map((file) => file.blob),
  ...(manifest.app?.source ?? []).map((file) => file.blob),
  ...(manifest.vault.sealed === null ? [] : [manifest.vault.sealed]),
];

/** What a schema cannot say of an archive. */
function archiveMistake(manifest: Manifest): string | null {
  const sizes = new Map<string, number>();
  for (const { digest, sizeBytes } of mentions(manifest)) {
    const known = sizes.get(digest);
    if (known !== undefined && known !== sizeBytes) return `gives one blob two sizes: ${digest}`;
    sizes.set(digest, sizeBytes);
  }
  const names = new Set<string>();
  for (const { kind, name, format, blob, plainDigest, plainBytes, restic } of manifest.payloads) {
    if (names.has(`${kind} ${name}`)) return `names the payload ${JSON.stringify(name)} twice`;
    names.add(`${kind} ${name}`);
    // `.` is the project folder itself.
    if (kind !== 'volume' && name !== '.' && pathMistake(name) !== null)
      return `has a payload with an unsafe path: ${JSON.stringify(name)}`;
    if (format === 'tar' && manifest.version < 2)
      return `has a payload that its version does not know: ${JSON.stringify(name)}`;
    if (format === 'tar' && (blob.digest !== plainDigest || blob.sizeBytes !== plainBytes))
      return `has a plain payload whose blob is another one: ${JSON.stringify(name)}`;
    if (restic !== undefined && format !== 'tar')
      return `has a compressed payload in a restic repository: ${JSON.stringify(name)}`;
  }
  for (const { key, payload } of manifest.volumes)
    if (payload !== null && !names.has(`volume ${payload}`))
      return `names a payload for the volume ${JSON.stringify(key)} that it does not hold`;
  const held = new Set(manifest.volumes.map(({ payload }) => payload));
  for (const { kind, name } of manifest.payloads)
    if (kind === 'volume' && !held.has(name))
      return `has the payload ${JSON.stringify(name)} for a volume that it does not name`;
  for (const files of [manifest.files, manifest.app?.source ?? []]) {
    const wrong = filesMistake(files);
    if (wrong !== null) return wrong;
  }
  if (manifest.layout.kind === 'compose')
    for (const path of manifest.layout.files)
      if (pathMistake(path) !== null) return `has an unsafe path: ${JSON.stringify(path)}`;
  if (manifest.vault.keys.length > 0 && manifest.vault.sealed === null) return 'names vault keys without their values';
  return null;
}

function filesMistake(files: readonly FileRecord[]): string | null {
  const paths = new Set<string>();
  for (const { path } of files) {
    // Only the plain spelling, so that one file has one name.
    const isPlain = path.split('/').every((part) => part !== '' && part !== '.');
    if (!isPlain || pathMistake(path) !== null) return `has an unsafe path: ${JSON.stringify(path)}`;
    if (paths.has(path)) return `names the file ${JSON.stringify(path)} twice`;
    paths.add(path);
  }
  for (const path of paths)
    for (let cut = path.indexOf('/'); cut >= 0; cut = path.indexOf('/', cut + 1))
      if (paths.has(path.slice(0, cut))) return `has a file below a file: ${JSON.stringify(path)}`;
  return null;
}

function groupMistake(manifest: GroupManifest): string | null {
  const stacks = new Set<string>();
  const archives = new Set<string>();
  for (const { stack, archive } of manifest.members) {
    if (stacks.has(stack)) return `names the stack ${stack} twice`;
    if (archives.has(archive)) return `names the archive ${archive} twice`;
    stacks.add(stack);
    archives.add(archive);
  }
  for (const { consumer } of manifest.edges)
    if (!stacks.has(consumer)) return `has an edge of ${consumer}, which is no member`;
  return null;
}
