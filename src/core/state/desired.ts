// Desired: what a revision asks for of one stack, resolved by Compose and hashed. Plain JSON without secrets, so it may rest in the
// state store. The resolved model itself (which may hold secrets) is `Model` and lives in memory only.

export interface Resources {
  /** Bytes; 0 = no limit. */
  readonly memoryBytes: number;
  readonly memoryReservationBytes: number;
  /** 1e9 = one CPU; 0 = no limit. */
  readonly nanoCpus: number;
  readonly cpuShares: number;
  readonly cpuset: string;
  /** 0 = no limit. */
  readonly pidsLimit: number;
  /** `no`, `always`, `unless-stopped`, `on-failure` or `on-failure:N`. */
  readonly restart: string;
}

export type OnFileChange =
  | { readonly kind: 'recreate' }
  | { readonly kind: 'restart' }
  | { readonly kind: 'signal'; readonly signal: string }
  | { readonly kind: 'ignore' };

/** Something from the repository that a service sees at run time: a bind mount, a config or a secret. */
export interface MountedContent {
  readonly kind: 'bind' | 'config' | 'secret';
  /** Absolute path in the stack's project folder; for inline content the name of the config or secret. */
  readonly source: string;
  readonly target: string;
  /** SHA-256 over content (files: bytes and mode; folders: every path, mode and blob id). */
  readonly digest: string;
  readonly onChange: OnFileChange;
}

export interface DesiredNetwork {
  readonly key: string;
  readonly name: string;
  readonly external: boolean;
  /** Compose's config hash of the definition; '' when external. */
  readonly hash: string;
  readonly internal: boolean;
}

export interface DesiredVolume {
  readonly key: string;
  readonly name: string;
  readonly external: boolean;
  readonly hash: string;
}

export interface PublishedPort {
  readonly hostIp: string;
  /** 0 = chosen by the engine. A range is expanded. */
  readonly published: number;
  readonly target: number;
  readonly protocol: string;
}

export interface DesiredService {
  readonly name: string;
  /** Equals the label `com.docker.compose.config-hash` of a container made from this definition. */
  readonly hash: string;
  /** The hash holds ids of containers that do not exist yet (`network_mode: service:x`, `volumes_from`): compare the label `dev.windlass.definition` instead. */
  readonly definition: string | null;
  /** Services whose containers this one shares namespaces or volumes with. */
  readonly parents: readonly string[];
  /** Containers of others whose namespaces this one shares, as the Compose file names them. Absent: none. */
  readonly strangers?: readonly string[];
  readonly image: string;
  readonly pullPolicy: 'missing' | 'always' | 'never' | 'build';
  readonly build: { readonly context: string; readonly digest: string } | null;
  readonly replicas: number;
  readonly containerName: string | null;
  readonly resources: Resources;
  readonly hasHealthcheck: boolean;
  /** True: some service waits for its completion, or `x-windlass: {oneShot: true}`; false: said so, published ports or a healthcheck; null: not told. */
  readonly oneShot: boolean | null;
  readonly networks: readonly { readonly name: string; readonly aliases: readonly string[] }[];
  /** Engine names of the named volumes it mounts. */
  readonly volumes: readonly string[];
  /** The same by target; absent in records of before. */
  readonly volumeAt?: Readonly<Record<string, string>>;
  readonly mounts: readonly MountedContent[];
  readonly ports: readonly PublishedPort[];
  readonly dependsOn: readonly {
    readonly service: string;
    readonly condition: string;
    /** It is to be started anew when that service is made anew. */
    readonly restart?: true;
  }[];
  /** Flattened definition, `path → value`, for "which key changed, old → new". Values that may be secret are salted digests `~…`. */
  readonly fields: Readonly<Record<string, string>>;
}

/** Numeric owner and mode of a volume's root, from the ownership suffix `:perm:uid:gid`. */
export interface VolumeOwner {
  readonly volume: string;
  readonly mode: string;
  readonly uid: number;
  readonly gid: number;
}

export interface Desired {
  readonly stack: string;
  /** Compose project name. */
  readonly project: string;
  /** The stable project folder, absolute. */
  readonly projectDir: string;
  readonly revision: string;
  /** SHA-256 of every input; equal inputs need no resolve. */
  readonly inputDigest: string;
  /** SHA-256 of everything below: what "changed" means. */
  readonly digest: string;
  /** The same without replica counts: differs from `digest` alone = only scaled. */
  readonly digestUnscaled: string;
  readonly composeVersion: string;
  readonly recipe: number;
  readonly services: readonly DesiredService[];
  readonly networks: readonly DesiredNetwork[];
  readonly volumes: readonly DesiredVolume[];
  readonly owners: readonly VolumeOwner[];
}

/** The resolved project as JSON text for `docker compose -f -`. May hold secrets: memory only, never stored or logged. */
export interface Model {
  readonly text: string;
  /** For `configs` and `secrets` that take their content from a variable: Compose does not put it into the text. */
  readonly environment?: Readonly<Record<string, string>>;
}
