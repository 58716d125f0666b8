// Observed: what the engine reports, for all projects at once. Only what a decision needs.
import type { Resources } from './desired.ts';

export type ContainerState = 'created' | 'running' | 'paused' | 'restarting' | 'removing' | 'exited' | 'dead';

/** What the list call does not tell; read once per container and again after an event about it. */
export interface ContainerDetail {
  readonly resources: Resources;
  /** Network name → aliases. */
  readonly aliases: Readonly<Record<string, readonly string[]>>;
  /** Containers by id whose namespaces or volumes it was made to share. They stay in this list when they are gone. */
  readonly shares: readonly { readonly what: 'network' | 'pid' | 'ipc' | 'volumes'; readonly id: string }[];
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly restartCount: number;
  readonly oomKilled: boolean;
  readonly error: string;
}

export interface ObservedContainer {
  readonly id: string;
  /** Without the leading `/`. */
  readonly name: string;
  readonly project: string;
  readonly service: string;
  /** 1-based; 0 when the label is missing. */
  readonly number: number;
  readonly oneOff: boolean;
  /** '' when it has none (then Compose does not see it). */
  readonly configHash: string;
  readonly state: ContainerState;
  readonly health: 'none' | 'starting' | 'healthy' | 'unhealthy';
  /** Null while it runs or was never started. */
  readonly exitCode: number | null;
  readonly image: string;
  readonly imageId: string;
  readonly workingDir: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly networks: readonly { readonly name: string; readonly id: string }[];
  readonly mounts: readonly {
    readonly kind: string;
    readonly name: string;
    readonly source: string;
    readonly destination: string;
  }[];
  readonly createdAtMs: number;
  readonly ports: readonly {
    readonly hostIp: string;
    readonly published: number;
    readonly target: number;
    readonly protocol: string;
  }[];
  /** Published TCP ports of a running container on which nothing listens, although others of this engine are seen to listen here. */
  readonly deafPorts: readonly number[];
  /** A `kill` or `stop` by a person was seen for its last end. */
  readonly stoppedByHand: boolean;
  readonly detail: ContainerDetail | null;
}

export interface ObservedNetwork {
  readonly id: string;
  readonly name: string;
  readonly project: string;
  readonly key: string;
  readonly configHash: string;
  readonly internal: boolean;
}

export interface ObservedVolume {
  readonly name: string;
  readonly project: string;
  readonly key: string;
  readonly configHash: string;
}

export interface ObservedImage {
  readonly id: string;
  readonly tags: readonly string[];
  readonly digests: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

export interface Observed {
  readonly engineId: string;
  readonly atMs: number;
  readonly containers: readonly ObservedContainer[];
  readonly networks: readonly ObservedNetwork[];
  readonly volumes: readonly ObservedVolume[];
  readonly images: readonly ObservedImage[];
}

/** An event of the engine, reduced to what a watcher needs: look again at `project` (or at everything when it is ''). */
export interface EngineEvent {
  readonly kind: 'container' | 'network' | 'volume' | 'image';
  readonly action: string;
  readonly id: string;
  readonly project: string;
  readonly service: string;
  readonly atMs: number;
  readonly exitCode: number | null;
}
