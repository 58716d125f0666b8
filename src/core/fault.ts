// Fault: the world refused (engine, git, disk, vault). One closed table gives every code its retry class and its cure.
// Never for mistakes in a declaration (those are Diagnostics) and never for our own bugs (those are plain errors).

/** How a failure is come back to: `retry` by itself with backoff, `wait` until something named changes, `person` until somebody acts. */
export type RetryClass = 'retry' | 'wait' | 'person';

interface FaultRow {
  readonly retry: RetryClass;
  readonly help: string;
}

export const FAULTS = {
  ENGINE_UNREACHABLE: {
    retry: 'retry',
    help: 'check that the Docker engine runs and that its socket may be opened; `windlass doctor` tests both',
  },
  ENGINE_REFUSED: { retry: 'retry', help: 'read the message of the engine; the stack is tried again by itself' },
  ENGINE_TOO_OLD: { retry: 'person', help: 'upgrade the engine, or remove the option that it does not know' },
  ENGINE_TIMEOUT: { retry: 'retry', help: 'the engine did not answer in time; look at its load and its log' },
  COMPOSE_MISSING: { retry: 'person', help: 'install the Docker Compose plugin, version 2.40 or newer' },
  COMPOSE_INVALID: {
    retry: 'person',
    help: 'correct the Compose file; `docker compose config` in its folder shows the same message',
  },
  COMPOSE_FAILED: {
    retry: 'retry',
    help: 'read the last lines of Compose above; the real state is looked at again before the next try',
  },
  IMAGE_MISSING: { retry: 'retry', help: 'push or load the image, or correct its name' },
  IMAGE_PULL_FAILED: { retry: 'retry', help: 'check the name, the registry and the credentials of the engine' },
  BUILD_FAILED: { retry: 'retry', help: 'read the last lines of the build above' },
  PORT_TAKEN: { retry: 'retry', help: 'free the port or publish another one' },
  NAME_TAKEN: { retry: 'retry', help: 'give one of them another `container_name`, or none' },
  VOLUME_CHANGED: {
    retry: 'person',
    help: 'the definition of a volume that holds data changed; give the new volume another name, or move the data by a request',
  },
  FILE_IN_THE_WAY: {
    retry: 'retry',
    help: 'move what the message names away in the project folder, or rename the one in git',
  },
  FILE_REWRITTEN: {
    retry: 'person',
    help: 'say `x-windlass: { onFileChange: ignore }` for the service, or let it write elsewhere',
  },
  DATA_LEFT_BEHIND: {
    retry: 'person',
    help: 'move the folder back in git, or move what the message names by hand: stop the stack first, a running service would go on in the old place',
  },
  NETWORK_CONFLICT: { retry: 'person', help: 'remove the network that was made by hand, or declare it as external' },
  PROJECT_CONFLICT: {
    retry: 'person',
    help: 'set `adopt: true` for the stack to take the project over, or rename the stack',
  },
  SERVICE_UNHEALTHY: { retry: 'retry', help: 'read the last log lines of the service' },
  SERVICE_CRASHED: { retry: 'retry', help: 'read the last log lines of the service' },
  ONE_SHOT_FAILED: { retry: 'retry', help: 'read the last log lines of the one-shot service' },
  SETTLE_TIMEOUT: {
    retry: 'retry',
    help: 'the stack did not become stable in its `timeout`; read the services named above',
  },
  DEPENDENCY_NOT_READY: { retry: 'wait', help: 'the stack waits for its provider and is woken by it' },
  GIT_UNREACHABLE: { retry: 'retry', help: 'check the address, the network and the credentials of the source' },
  GIT_AUTH: { retry: 'person', help: 'correct the credentials of the source' },
  GIT_REF_MISSING: { retry: 'person', help: 'create the branch or correct `ref`' },
  GIT_OBJECT_MISSING: { retry: 'retry', help: 'the repository lacks an object; fetch again or repair the repository' },
  GIT_TOO_LARGE: { retry: 'person', help: 'the message names what is too large and the limit: make it smaller' },
  GIT_REFUSED: { retry: 'person', help: 'the repository holds something Windlass does not read; the message names it' },
  NOT_VERIFIED: {
    retry: 'person',
    help: 'sign the commit with a key that may deploy; under `trust.deploy: all` an older one is cured otherwise: look at what it brought, push a signed commit on top, then `windlass trust accept TIP`; what was verified last keeps running',
  },
  HISTORY_REWRITTEN: { retry: 'person', help: 'check who rewrote the branch, then `windlass trust accept TIP`' },
  TREE_REFUSED: { retry: 'person', help: 'rename or remove the file that the message names' },
  FILES_FAILED: { retry: 'retry', help: 'check free space and permissions of the state directory' },
  STATE_CORRUPT: { retry: 'person', help: 'restore the state directory from its copy, or move it away and start anew' },
  STATE_TOO_NEW: { retry: 'person', help: 'the state directory was written by a newer Windlass; use that version' },
  LOCK_HELD: { retry: 'retry', help: 'wait for the other run, or `windlass unlock` when its process is gone' },
  PLAN_STALE: { retry: 'person', help: 'make a new plan: what the saved one saw has changed' },
  PRUNE_GUARD: { retry: 'person', help: 'read the list, then `windlass prune --confirm DIGEST`' },
  CANCELLED: { retry: 'retry', help: 'run the same command again: finished work is not repeated' },
  VAULT_KEY_WRONG: {
    retry: 'person',
    help: 'put back the age key that sealed the vault (age.key in the state directory, or WINDLASS_AGE_KEY)',
  },
  VAULT_KEY_EXPOSED: { retry: 'person', help: 'chmod 600 the key file, and think about who may have read it' },
  VAULT_UNREACHABLE: {
    retry: 'retry',
    help: 'check the address and the health of the vault; nothing is deployed meanwhile',
  },
  VAULT_DENIED: {
    retry: 'retry',
    help: 'give the token of the controller a policy that allows it, or a new token; nothing is deployed meanwhile',
  },
  SECRET_REFUSED: {
    retry: 'person',
    help: 'allow or correct what the message names; the reference is not opened before',
  },
  SECRET_MISSING: {
    retry: 'person',
    help: 'put the value where the reference names it: into the environment of the controller, its file, or the SOPS file in git',
  },
  VAULT_SECRET_MISSING: { retry: 'person', help: 'set it with `windlass vault set`' },
  ARCHIVE_MISSING: {
    retry: 'person',
    help: '`windlass backups list` shows what there is; an archive that lies elsewhere is brought in with `windlass backups import`, one of a replica with `windlass backups fetch`',
  },
  ARCHIVE_DAMAGED: {
    retry: 'person',
    help: 'do not restore from it: fetch another copy (`windlass backups fetch ID --from REPLICA`), and look at the disk that held this one. Where there is none, `windlass backups remove ID` lets the others be kept by rule again',
  },
  ARCHIVE_NO_SPACE: {
    retry: 'retry',
    help: 'free space on the disk of the archive store, or lower `keep`; nothing was listed',
  },
  ARCHIVE_HOSTILE: {
    retry: 'person',
    help: 'the archive holds what Windlass never writes, as the message says; find out who made it',
  },
  ARCHIVE_INVALID: { retry: 'person', help: 'this is no archive of Windlass, or not a whole one; fetch it again' },
  ARCHIVE_UNTRUSTED: {
    retry: 'person',
    help: 'it was signed by no key that this controller knows. If it is your own and its controller is gone: `windlass backups import FILE --trust-key KEY` (`windlass backups fetch` takes it too), with the key that `backups export` or `backups show` told there; else check where it comes from',
  },
  ARCHIVE_TOO_NEW: { retry: 'person', help: 'the archive was made by a newer Windlass; use that version' },
  ARCHIVE_IN_USE: {
    retry: 'person',
    help: 'wait until what the message names has ended; a group archive goes before its members: `windlass backups remove ID`',
  },
  ARCHIVE_UNREACHABLE: {
    retry: 'retry',
    help: 'check the address and the network of the archive store; nothing in it counts as missing meanwhile',
  },
  ARCHIVE_DENIED: {
    retry: 'person',
    help: 'correct what windlass.yaml says of the store: place, credentials, host key or certificate; the message says which was refused',
  },
  ARCHIVE_FAILED: { retry: 'retry', help: 'check the disk and the permissions of the archive store' },
  RESTIC_UNFIT: {
    retry: 'person',
    help: 'install restic 0.18 or newer where the controller runs (Debian 12 has 0.14: take the package of Debian 13, or the binary of its makers); nothing was touched',
  },
  REPOSITORY_REFUSED: {
    retry: 'person',
    help: 'put right what the message names: `archives.restic` in windlass.yaml, the password file, or the repository itself; nothing was touched',
  },
  REPOSITORY_LOCKED: {
    retry: 'retry',
    help: 'wait for the process that the message names; when it is gone for sure, `restic unlock` removes its lock',
  },
  SIGNING_KEY_WRONG: {
    retry: 'person',
    help: 'put back the signing key of the controller from its copy, or move it away: a new one is made and old archives stay readable',
  },
  HOOK_FAILED: {
    retry: 'retry',
    help: 'correct what the failed action said; a deploy tries its hooks again by itself, what a person ran is run again by hand',
  },
  RESTORE_FAILED: {
    retry: 'person',
    help: 'remove what keeps the services from their counts: `windlass apply` then brings them back, and so does the controller',
  },
  PAYLOAD_MISSING: {
    retry: 'person',
    help: 'the volume or folder to capture is not there; correct its name, or deploy the stack first',
  },
  PAYLOAD_FAILED: {
    retry: 'retry',
    help: 'not everything could be read or written, so nothing counts; the message names the file and the cause',
  },
  PAYLOAD_STALLED: {
    retry: 'retry',
    help: 'not a byte came or went for so long: look at what the volume or folder lies on (a network file system whose server is gone), and at the load of the machine',
  },
  PAYLOAD_CHANGED: {
    retry: 'retry',
    help: 'files changed while they were read: stop or pause the service meanwhile (`quiesce`), or allow changing files',
  },
  PAYLOAD_NO_SPACE: {
    retry: 'retry',
    help: 'free space on the disk that the message names: what is restored lies beside what is live, which stays for a while',
  },
  PAYLOAD_EXISTS: {
    retry: 'person',
    help: 'payloads are written only into fresh targets: choose another name, or remove what is there',
  },
  PAYLOAD_CORRUPT: {
    retry: 'person',
    help: 'the stored payload is damaged: `windlass backups verify` names all of them; take another archive or copy',
  },
  PAYLOAD_HOSTILE: {
    retry: 'person',
    help: 'the archive holds an entry that no honest one has; nothing was written. Find out who made it',
  },
  PAYLOAD_UNVERIFIED: {
    retry: 'retry',
    help: 'what was written reads back differently and was removed; check the disk and the file system of the target',
  },
  PAYLOAD_NO_WAY: {
    retry: 'person',
    help: 'run the controller as root on the host of the engine, or name a helper image with GNU tar',
  },
  SIGNING_FAILED: {
    retry: 'person',
    help: 'read the words of git above; `ssh-add -l` or `gpg --list-secret-keys` shows which keys can sign. Nothing was made',
  },
  CLONE_REFUSED: { retry: 'person', help: 'put right in the clone what the message names; nothing was made' },
  NOT_FOUND: { retry: 'person', help: '`windlass get` lists what there is' },
  USAGE: { retry: 'person', help: 'see `windlass --help`' },
} as const satisfies Record<string, FaultRow>;

export type FaultCode = keyof typeof FAULTS;

/** Plain JSON that goes with a fault. Never a secret. */
export type FaultData = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

export class Fault extends Error {
  override readonly name = 'Fault';
  readonly code: FaultCode;
  readonly data: FaultData;

  constructor(code: FaultCode, summary: string, options: { data?: FaultData; cause?: unknown } = {}) {
    super(summary, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.data = options.data ?? {};
  }

  get retry(): RetryClass {
    return FAULTS[this.code].retry;
  }

  get help(): string {
    return FAULTS[this.code].help;
  }
}

/** Any thrown value as a Fault; what is not one keeps its message under `fallback`. */
export function asFault(error: unknown, fallback: FaultCode): Fault {
  if (error instanceof Fault) return error;
  return new Fault(fallback, error instanceof Error ? error.message : String(error), { cause: error });
}
