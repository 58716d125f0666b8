// Change: one difference between what is desired and what is observed, with its cause and the smallest repair. Plain JSON, no secrets.

/** Why, in the order in which causes are looked for. Each has one sentence in CAUSES. */
export const CAUSES = {
  'foreign-project': 'a project of this name is there that is not on record in this state directory',
  'volume-changed': 'the definition of a volume that holds data changed',
  'network-unlabelled': 'a network of this name was made by hand',
  'network-duplicate': 'a second network has the same name',
  'new-service': 'the service is new',
  'container-missing': 'its container is gone',
  'scaled-up': 'more replicas are asked for',
  'scaled-down': 'fewer replicas are asked for',
  'service-removed': 'the service is no longer asked for',
  'not-by-compose': 'the container bears the name of this project but was not made by Compose',
  leftover: 'left behind by an interrupted recreate',
  'definition-changed': 'its definition changed',
  'definition-foreign': 'it was made from another definition',
  'build-changed': 'its build context changed',
  'content-changed': 'a mounted file changed',
  'file-edited': 'a mounted file was edited by hand',
  'image-moved': 'its tag now names another image',
  'parent-recreated': 'a container whose namespace it shares is made anew',
  'parent-gone': 'the container whose namespace it shares is gone',
  'network-changed': 'the definition of its network changed',
  'network-altered': 'its network was made by hand with other options',
  'network-missing': 'its network is gone',
  'volume-missing': 'a volume is not mounted',
  paused: 'it is paused',
  stopped: 'it is stopped',
  'never-started': 'it was created but never started',
  'one-shot-failed': 'the one-shot did not succeed',
  renamed: 'it was renamed',
  disconnected: 'it is not on its network',
  connected: 'it is on a network that is not its own',
  'alias-lost': 'its name no longer resolves on the network',
  'resources-changed': 'its limits were changed by hand',
  'port-deaf': 'nothing listens on its published port',
  'namespace-lost': 'a container whose namespace it shares was started after it',
  'dependency-anew': 'a service is made anew on which it depends with restart',
  'network-removed': 'the network is no longer asked for',
} as const;
export type Cause = keyof typeof CAUSES;

export type Repair =
  | 'refuse'
  | 'create'
  | 'recreate'
  | 'start'
  | 'restart'
  | 'signal'
  | 'remove'
  | 'unpause'
  | 'rename'
  | 'connect'
  | 'disconnect'
  | 'update'
  | 'remove-network';

export interface FieldChange {
  readonly path: string;
  /** Null = was absent. Masked values read `(secret)`. */
  readonly before: string | null;
  readonly after: string | null;
}

export interface Change {
  readonly repair: Repair;
  readonly cause: Cause;
  /** '' when it concerns the project as a whole. */
  readonly service: string;
  /** Container or network id; null when there is none yet. */
  readonly id: string | null;
  /** Container, network or volume name for people. */
  readonly name: string;
  /** What exactly, in a few words; '' when the cause says it all. */
  readonly detail: string;
  readonly fields: readonly FieldChange[];
  /** For connect and disconnect: the network; for rename: the right name; for signal: its name. */
  readonly argument: string;
  /** For connect. */
  readonly aliases: readonly string[];
}

/** What kind of difference a stack has as a whole. */
export type Situation =
  /** Nothing of it is deployed. */
  | 'install'
  /** The desired state changed since it was deployed. */
  | 'update'
  /** Only replica counts changed. */
  | 'scale'
  /** The desired state did not change; the engine differs. */
  | 'drift'
  /** No difference. */
  | 'same';

export interface StackDiff {
  readonly stack: string;
  readonly situation: Situation;
  readonly changes: readonly Change[];
  /** Services that no change touches. */
  readonly untouched: readonly string[];
  /** For people: odd but left alone. */
  readonly warnings: readonly string[];
  /** Those of them that tell of data which a service sees no more, because it gets a new volume in its place. Absent: none. */
  readonly leaves?: readonly string[];
  /** SHA-256 over what was observed of this stack; a saved plan is stale when it differs. */
  readonly observedDigest: string;
}
