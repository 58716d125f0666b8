// Wire: the one place where adapters are made and handed over.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { exportArchive, importArchive } from './adapters/archive/bak.ts';
import { DirStore } from './adapters/archive/dir-store.ts';
import { openRemoteStore, type StoreTools } from './adapters/archive/open-store.ts';
import { withRepository } from './adapters/archive/repository-store.ts';
import { checkSignature, openSigningKey, type SigningKey } from './adapters/archive/signing.ts';
import { withReplicas } from './adapters/archive/with-replicas.ts';
import { RealClock } from './adapters/clock/real-clock.ts';
import { openOneShots } from './adapters/compose/one-shot.ts';
import { openRuntime } from './adapters/compose/runtime.ts';
import { ProjectFolders } from './adapters/files/project-folder.ts';
import { readThrough, writeWhole } from './adapters/files/whole-file.ts';
import { credentialsFrom, type SourceAccess } from './adapters/git/access.ts';
import { networkEnvironment } from './adapters/git/git-command.ts';
import { openSource } from './adapters/git/repository.ts';
import { lookup } from './adapters/http/dns-lookup.ts';
import { httpCall } from './adapters/http/http-call.ts';
import { openLedger } from './adapters/journal/ledger.ts';
import { openStore } from './adapters/journal/store.ts';
import { openPayloads } from './adapters/payload/payloads.ts';
import { isAlive, ownIdentity } from './adapters/process/identity.ts';
import { redactor } from './adapters/process/redact.ts';
import { run, spawnStream } from './adapters/process/run.ts';
import { ResticRepository, type ResticRepositoryOptions } from './adapters/restic/repository.ts';
import { envSecrets } from './adapters/secrets/env.ts';
import { fileSecrets } from './adapters/secrets/file.ts';
import { sopsSecrets } from './adapters/secrets/sops.ts';
import { ageEnvelope, openWith, recipientOf } from './adapters/vault/age.ts';
import { openVault } from './adapters/vault/embedded.ts';
import { identityFile } from './adapters/vault/identity.ts';
import { openKv2 } from './adapters/vault/kv2.ts';
import { readToken } from './adapters/vault/token.ts';
import type { InRepository } from './core/archive/payload.ts';
import type { StorePlace } from './core/archive/store-place.ts';
import { Fault } from './core/fault.ts';
import { parseRef } from './core/spec/ref.ts';
import { TRUSTED_KEYS } from './operations/archive/archives.ts';
import type { House } from './operations/house.ts';
import type { ArchiveHouse } from './ports/archive-house.ts';
import type { SourceSpec } from './ports/source.ts';
import type { TrustHouse } from './ports/trust-house.ts';

export interface HouseOptions {
  /** Made when missing, mode 0700. */
  readonly stateDir: string;
  readonly source: SourceSpec;
  /** What opens the source when it is private. */
  readonly access?: SourceAccess;
  /** Engine address; default: as the docker client finds it. */
  readonly host?: string;
  readonly settleMs?: number;
  readonly settleSamples?: number;
  readonly pruneLimit?: number;
  readonly concurrency?: number;
  readonly timeoutMs?: number;
  readonly windows?: House['settings']['windows'];
  /** Default: embedded in the state directory. */
  readonly vault?:
    | { readonly kind: 'embedded'; readonly identityFile?: string }
    | {
        readonly kind: 'openbao';
        readonly address: string;
        readonly mount: string;
        readonly prefix: string;
        /** Opens SOPS files; default: `age.key` of the state directory. */
        readonly identityFile?: string;
        /** Default: the token in `WINDLASS_VAULT_TOKEN`. */
        readonly tokenFile?: string;
      };
  /** What `ref+env` may read beside WINDLASS_SECRET_…, and the directory of `ref+file`. */
  readonly secrets?: { readonly environment?: readonly string[]; readonly directory?: string };
  readonly nodes?: House['settings']['nodes'];
  readonly trust?: TrustOptions;
  readonly archives?: ArchiveOptions;
}

export interface ArchiveOptions {
  /** Default: `archives` in the state directory. */
  readonly place?: StorePlace;
  /** Get a copy of each archive. */
  readonly replicas?: readonly { readonly name: string; readonly place: StorePlace }[];
  readonly recipients?: readonly string[];
  /** Public keys of other controllers whose archives are taken, base64. */
  readonly trustedKeys?: readonly string[];
  /** Default: there is no restic repository. */
  readonly restic?: Pick<ResticRepositoryOptions, 'repository' | 'passwordFile' | 'environmentFile'>;
}

export interface TrustOptions extends Pick<TrustHouse, 'deploy' | 'anchor'> {
  readonly allowedSignersFile?: string;
  readonly keyringFile?: string;
  readonly revokedFile?: string;
}

export interface OpenHouse extends House {
  close(): Promise<void>;
}

const SETTLE_MS = 10_000;
const SETTLE_SAMPLES = 3;
const PRUNE_LIMIT = 0.3;
const CONCURRENCY = 4;
const TIMEOUT_MS = 10 * 60_000;
const BUNDLED_BYTES = 256 * 1024;

/** Throws Faults of the state directory; engine and source are first asked when they are needed. */
export async function openHouse(options: HouseOptions): Promise<OpenHouse> {
  const stateDir = resolve(options.stateDir);
  // Made below /proc a directory is sought for ever.
  if (/^\/(proc|sys|dev)(\/|$)/.test(stateDir))
    throw new Fault('USAGE', `${stateDir} is no place for a state directory`);
  try {
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new Fault('FILES_FAILED', `the state directory ${stateDir} cannot be made`, { cause });
  }
  const clock = new RealClock();
  const store = openStore({ directory: stateDir });
  const key = process.env['WINDLASS_AGE_KEY'];
  const kept = options.vault ?? { kind: 'embedded' };
  const identity = identityFile({
    directory: stateDir,
    redactor,
    key: key || undefined,
    file: kept.identityFile,
  });
  const embedded = kept.kind === 'embedded' ? openVault({ directory: stateDir, identity, clock, redactor }) : null;
  const vault =
    kept.kind === 'embedded'
      ? embedded
      : openKv2({
          ...kept,
          clock,
          redactor,
          token: () => readToken(kept.tokenFile, process.env['WINDLASS_VAULT_TOKEN']),
        });
  const runtime = openRuntime({
    run,
    clock,
    redact: (text) => redactor.redact(text),
    ...(options.host ? { host: options.host } : {}),
  });
  const oneShots = openOneShots({ clock, ...(options.host ? { host: options.host } : {}) });
  const source = openSource({
    spec: options.source,
    mirrorDir: join(stateDir, 'git', `${options.source.name}.git`),
    clock,
    programs: { run, spawnStream },
    tags: Boolean(options.trust?.anchor),
    credentials: credentialsFrom(options.access ?? {}, process.env),
    network: { ...networkEnvironment(), ...(options.access?.caFile ? { GIT_SSL_CAINFO: options.access.caFile } : {}) },
  });
  const payloads = openPayloads({
    programs: { run, spawnStream },
    helperImage: null,
    owner: OWNER,
    ...(options.host ? { host: options.host } : {}),
  });
  const env = envSecrets({ env: process.env, allowed: options.secrets?.environment ?? [], redactor });
  const file = fileSecrets({ directory: options.secrets?.directory ?? null, redactor });
  /** Of what windlass.yaml itself refers to, never of a fleet. */
  const secret = async (text: string): Promise<string> => {
    const ref = parseRef(text);
    const nothing = { commit: '', entries: [], trees: new Map() };
    const found =
      ref?.scheme === 'vault'
        ? await vault?.find(ref.path, ['fleet'])
        : ref?.scheme === 'env'
          ? await env.read(ref.path, nothing)
          : ref?.scheme === 'file'
            ? await file.read(ref.path, nothing)
            : null;
    if (!found) throw new Fault('SECRET_REFUSED', `there is no secret ${text}, which windlass.yaml names`);
    redactor.add(found);
    return found;
  };
  const { anchor } = options.trust ?? {};
  const ledger = anchor ? openLedger({ directory: stateDir, fleet: anchor.fleetId }) : null;
  const archives = archivesOf(
    stateDir,
    options.archives ?? {},
    { secret, env: process.env, redactor },
    () => (store.value(TRUSTED_KEYS) as readonly string[] | undefined) ?? [],
  );
  return {
    clock,
    store,
    vault,
    envelope: ageEnvelope(identity),
    providers: {
      env,
      file,
      sops: sopsSecrets({
        blob: (oid, maxBytes) => source.blob(oid, maxBytes),
        identity: () => identity.read(),
        open: (own, sealed) => openWith([own], sealed),
        recipientOf,
        redactor,
      }),
    },
    runtime,
    oneShots,
    net: { http: httpCall, lookup },
    payloads,
    archives,
    trust: options.trust ? trustOf(options.trust, ledger) : null,
    source,
    files: new ProjectFolders(stateDir),
    redact: (text) => redactor.redact(text),
    hide: (value) => redactor.add(value),
    settings: {
      stateDir,
      settleMs: options.settleMs ?? SETTLE_MS,
      settleSamples: options.settleSamples ?? SETTLE_SAMPLES,
      pruneLimit: options.pruneLimit ?? PRUNE_LIMIT,
      concurrency: options.concurrency ?? CONCURRENCY,
      timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
      windows: options.windows ?? [],
      version: versionOf(),
      nodes: { ...options.nodes, local: { hostname: hostname(), ...options.nodes?.['local'] } },
      bundled: bundledApps(),
      owner: OWNER,
      hasEnded,
    },
    async close() {
      // A store that is out of reach keeps nobody from leaving: its note there loses its force by itself.
      await archives.store.close().catch(() => {});
      await source.close();
      oneShots.close();
      payloads.close();
      ledger?.close();
      await runtime.close();
      embedded?.close();
      store.close();
    },
  };
}

function versionOf(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { readonly version: string }).version;
}

/** The signing key is read, and made, when it is first needed. */
function archivesOf(
  stateDir: string,
  options: ArchiveOptions,
  tools: StoreTools,
  learnt: () => readonly string[],
): ArchiveHouse {
  let opened: SigningKey | null = null;
  const key = (): SigningKey => {
    opened ??= openSigningKey(stateDir);
    return opened;
  };
  const { place } = options;
  const directory = (place?.kind === 'dir' ? place.directory : null) ?? join(stateDir, 'archives');
  const repository = options.restic
    ? new ResticRepository({
        ...options.restic,
        programs: { run, spawnStream },
        redactor,
        cacheDirectory: join(stateDir, 'restic-cache'),
        directory: join(directory, 'restic'),
      })
    : null;
  const holdsElsewhere = async (place: InRepository): Promise<boolean> => (await repository?.holds(place)) ?? false;
  const main =
    place === undefined || place.kind === 'dir'
      ? new DirStore({ directory, holdsElsewhere })
      : openRemoteStore(place, { ...tools, holdsElsewhere });
  const replicas = (options.replicas ?? []).map((one) => ({
    name: one.name,
    // A copy is whole by itself: also what lies in the repository is in it.
    store:
      one.place.kind === 'dir'
        ? new DirStore({ directory: one.place.directory ?? join(directory, 'replica') })
        : openRemoteStore(one.place, tools),
  }));
  const own = withRepository(main, repository);
  const store = withReplicas(own, replicas);
  const check = (bytes: Uint8Array, signature: string, also: readonly string[] = []): string =>
    checkSignature(bytes, signature, [key().publicKey, ...(options.trustedKeys ?? []), ...learnt(), ...also]);
  return {
    store,
    own,
    isRemote: place !== undefined && place.kind !== 'dir',
    ...(place === undefined || place.kind === 'dir' ? { directory } : {}),
    replicas,
    repository,
    sign: (bytes) => key().sign(bytes),
    check,
    exportTo: (id, path, signal) => writeWhole(path, exportArchive(store, id, signal), signal),
    importFrom: (path, signal, also) =>
      importArchive(store, readThrough(path), {
        signal,
        check: (bytes, signature) => void check(bytes, signature, also),
      }),
    recipients: options.recipients ?? [],
  };
}

const TRUST_BYTES = 16 * 1024 * 1024;

function trustOf(options: TrustOptions, ledger: TrustHouse['ledger']): TrustHouse {
  const { deploy, anchor, allowedSignersFile, keyringFile, revokedFile } = options;
  // A file that was named and cannot be read refuses everything; it never counts as empty.
  const read = (file: string): Uint8Array | null => {
    try {
      const facts = statSync(file);
      return facts.isFile() && facts.size <= TRUST_BYTES ? readFileSync(file) : null;
    } catch {
      return null;
    }
  };
  return {
    deploy,
    anchor,
    ledger,
    files: async () => ({
      ...(allowedSignersFile ? { allowedSigners: textOf(read(allowedSignersFile)) } : {}),
      ...(keyringFile ? { keyring: read(keyringFile) } : {}),
      ...(revokedFile ? { revoked: read(revokedFile) } : {}),
    }),
  };
}

const textOf = (bytes: Uint8Array | null): string | null =>
  bytes === null ? null : Buffer.from(bytes).toString('utf8');

const OWNER = `${hostname()}:${ownIdentity.pid}:${ownIdentity.born}`;

/** An owner is `host:pid:birth`; only this host's processes can be looked up. */
function hasEnded(owner: string): boolean {
  const [host, pid, ...born] = owner.split(':');
  if (host !== hostname() || !/^\d+$/.test(pid ?? '')) return false;
  return !isAlive({ pid: Number(pid), born: born.join(':') });
}

/** The catalog that comes with Windlass: small text files below `apps/`. */
export function bundledApps(): Readonly<Record<string, string>> {
  const root = resolve(import.meta.dirname, '..', 'apps');
  const texts: Record<string, string> = {};
  if (!existsSync(root)) return texts;
  for (const path of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    const file = join(root, path);
    const facts = statSync(file);
    if (facts.isFile() && facts.size <= BUNDLED_BYTES) texts[path] = readFileSync(file, 'utf8');
  }
  return texts;
}
