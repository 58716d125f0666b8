// Settings of one call: flags before environment before windlass.yaml before defaults. Reads, decides nothing else.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { durationFlag, type Flags, textFlag, UsageError } from './cli/command.ts';
import { type SaidStore, type StorePlace, storePlaceOf } from './core/archive/store-place.ts';
import type { Controller } from './core/spec/controller.ts';
import { parseDuration } from './core/spec/duration.ts';
import { problemOfWindow, type Window } from './core/status/window.ts';
import type { ArchiveOptions, HouseOptions } from './wire.ts';

const CONFIG_BYTES = 1024 * 1024;

export class InvalidConfig extends Error {
  override readonly name = 'InvalidConfig';
  readonly diagnostics: readonly unknown[];
  constructor(diagnostics: readonly unknown[]) {
    super('the controller configuration is invalid');
    this.diagnostics = diagnostics;
  }
}

export interface Said extends Omit<HouseOptions, 'source'> {
  /** Null = nobody named one. */
  readonly source: HouseOptions['source'] | null;
  readonly pollMs?: number;
  readonly intervalMs?: number;
  /** What windlass.yaml says and this version does not do. */
  readonly unheard: readonly string[];
}

/** `detached`: a local clone without a branch is read at its HEAD, as CI leaves it; nobody follows that. Throws UsageError, InvalidConfig. */
export async function settingsOf(flags: Flags, { detached = false } = {}): Promise<Said> {
  const config = await configOf(textFlag(flags, 'config'));
  const declared = config?.sources?.[0];
  const named = textFlag(flags, 'source') ?? (process.env['WINDLASS_SOURCE'] || undefined);
  const url = named ?? declared?.url;
  // The ref of windlass.yaml belongs to the repository that it names.
  const ref = textFlag(flags, 'ref') ?? (named === undefined ? declared?.ref : undefined);
  const state = textFlag(flags, 'state') ?? (process.env['WINDLASS_STATE'] || undefined) ?? config?.state;
  const settleMs =
    flags['settle'] === undefined ? duration(config?.reconcile?.settle) : durationFlag(flags, 'settle', 0);
  const host = textFlag(flags, 'host') ?? config?.nodes?.['local']?.host;
  const { concurrency, pruneLimit, interval, timeout, windows = [] } = config?.reconcile ?? {};
  const timeoutMs = duration(timeout);
  const pollMs = duration(declared?.poll);
  const intervalMs = duration(interval);
  return {
    stateDir: stateDirOf(state),
    source: url ? sourceOf(declared?.name ?? 'main', addressOf(url), ref, detached) : null,
    ...(named === undefined || named === declared?.url ? accessOf(declared) : {}),
    ...(host ? { host } : {}),
    ...(settleMs === undefined ? {} : { settleMs }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    windows: windows.map(windowOf),
    ...(pruneLimit === undefined ? {} : { pruneLimit: pruneLimit / 100 }),
    ...(pollMs === undefined ? {} : { pollMs }),
    ...(intervalMs === undefined ? {} : { intervalMs }),
    nodes: nodesOf(config),
    ...trustOf(config),
    ...archivesOf(config),
    ...vaultOf(config),
    unheard: unheardOf(config),
  };
}

async function configOf(named: string | undefined): Promise<Controller | null> {
  const file = named ?? 'windlass.yaml';
  if (!existsSync(file)) {
    if (named === undefined) return null;
    throw new UsageError(`there is no file ${file}`);
  }
  if (statSync(file).size > CONFIG_BYTES) throw new UsageError(`${file} is too large for a configuration`);
  const { checkText } = await import('./core/spec/check.ts');
  const checked = checkText('Controller', basename(file), readFileSync(file, 'utf8'));
  if (checked.value === null) throw new InvalidConfig(checked.diagnostics);
  return checked.value;
}

function archivesOf(config: Controller | null): Pick<HouseOptions, 'archives'> {
  const { recipients, restic, replicas = [], trustedKeys, ...main } = config?.archives ?? {};
  const place = storeOf(main, 'archives');
  const names = new Set<string>();
  for (const { name } of replicas) {
    if (names.has(name)) throw new UsageError(`windlass.yaml names two replicas of the archives ${name}`);
    names.add(name);
  }
  return {
    archives: {
      ...(restic ? { restic: resticOf(restic) } : {}),
      ...(place.kind === 'dir' && place.directory === null ? {} : { place }),
      ...(replicas.length === 0
        ? {}
        : {
            replicas: replicas.map(({ name, ...said }) => ({
              name,
              place: storeOf(said, `archives.replicas.${name}`),
            })),
          }),
      ...(recipients ? { recipients } : {}),
      ...(trustedKeys ? { trustedKeys } : {}),
    },
  };
}

/** Paths of files count from where the command was started, as all of windlass.yaml. */
function storeOf(said: SaidStore, field: string): StorePlace {
  const paths = ['directory', 'caFile', 'credentialsFile', 'sshKeyFile', 'knownHostsFile'] as const;
  const absolute = Object.fromEntries(
    paths.flatMap((key) => (said[key] === undefined ? [] : [[key, resolve(said[key])]])),
  );
  const place = storePlaceOf({ ...said, ...absolute }, field);
  if ('wrong' in place) throw new UsageError(`windlass.yaml: ${place.wrong}`);
  if (field !== 'archives' && place.kind === 'dir' && place.directory === null)
    throw new UsageError(`windlass.yaml: ${field}.directory is missing: name the folder of the replica`);
  return place;
}

function resticOf({
  repository,
  passwordFile,
  environmentFile,
}: NonNullable<NonNullable<Controller['archives']>['restic']>): NonNullable<ArchiveOptions['restic']> {
  // `sftp:…` and the like are not ours to read; what has no scheme is a folder.
  const isFolder = !/^[a-z0-9]+:/.test(repository);
  return {
    repository: isFolder ? resolve(repository) : repository,
    passwordFile: resolve(passwordFile),
    ...(environmentFile === undefined ? {} : { environmentFile: resolve(environmentFile) }),
  };
}

const CLOCK_SKEW_MS = 5 * 60_000;
const MAX_LIFETIME_MS = 30 * 24 * 3600_000;

function trustOf(config: Controller | null): Pick<HouseOptions, 'trust'> {
  const { trust } = config ?? {};
  if (!trust) return {};
  const { deploy = 'none', anchor, allowedSignersFile, keyringFile, revokedFile } = trust;
  // Nobody's key would count, so nothing would ever be deployed: rather say so at once.
  if (deploy !== 'none' && !anchor && !allowedSignersFile && !keyringFile)
    throw new UsageError(
      `windlass.yaml asks for trust.deploy: ${deploy} and names nobody whose signature counts\n  help     add trust.anchor (from \`windlass trust init\`), or trust.allowedSignersFile`,
    );
  return {
    trust: {
      deploy,
      anchor: anchor
        ? {
            fleetId: anchor.fleet,
            ref: anchor.ref,
            genesis: anchor.genesis,
            environment: anchor.environment,
            policySha256: anchor.policy,
            clockSkewMs: duration(trust.clockSkew) ?? CLOCK_SKEW_MS,
            maxLifetimeMs: duration(trust.maxLifetime) ?? MAX_LIFETIME_MS,
          }
        : null,
      ...(allowedSignersFile ? { allowedSignersFile } : {}),
      ...(keyringFile ? { keyringFile } : {}),
      ...(revokedFile ? { revokedFile } : {}),
    },
  };
}

function unheardOf(config: Controller | null): readonly string[] {
  if (!config) return [];
  const { sources = [], nodes = {}, vault } = config;
  return [
    ...(sources.length > 1 ? ['sources after the first'] : []),
    ...Object.keys(nodes)
      .filter((name) => name !== 'local')
      .map((name) => `nodes.${name}`),
    ...(vault?.kind === 'openbao'
      ? []
      : (['address', 'mount', 'prefix', 'tokenFile'] as const)
          .filter((key) => vault?.[key] !== undefined)
          .map((key) => `vault.${key} without vault.kind: openbao`)),
    ...(vault?.kind === 'sops' ? ['vault.kind: sops (ref+sops works with each kind)'] : []),
    ...(['api', 'notify'] as const).filter((key) => config[key] !== undefined),
  ];
}

function windowOf(
  { allow, duration: lasts, timezone = 'UTC' }: NonNullable<NonNullable<Controller['reconcile']>['windows']>[number],
  at: number,
): Window {
  const window = { allow, durationMs: duration(lasts) ?? 0, timezone };
  const problem = problemOfWindow(window);
  if (problem !== null) throw new UsageError(`windlass.yaml: reconcile.windows[${at}]: ${problem}`);
  return window;
}

/** Of the repository that windlass.yaml names, and of no other: a credential goes nowhere else. */
function accessOf(source: NonNullable<Controller['sources']>[number] | undefined): Pick<HouseOptions, 'access'> {
  if (!source) return {};
  const { username } = source;
  const files = (['passwordFile', 'sshKeyFile', 'knownHostsFile', 'caFile'] as const).flatMap((key) =>
    source[key] === undefined ? [] : [[key, resolve(source[key])]],
  );
  return { access: { ...(username === undefined ? {} : { username }), ...Object.fromEntries(files) } };
}

function nodesOf(config: Controller | null): NonNullable<HouseOptions['nodes']> {
  return Object.fromEntries(
    Object.entries(config?.nodes ?? {}).map(([name, { id, ip, meshIp, internalIp, hostname }]) => [
      name,
      Object.fromEntries(
        Object.entries({ id, ip, 'mesh-ip': meshIp, 'internal-ip': internalIp, hostname }).filter(([, value]) => value),
      ),
    ]),
  );
}

function vaultOf(config: Controller | null): Pick<HouseOptions, 'vault' | 'secrets'> {
  const { vault, secrets } = config ?? {};
  const { environment, directory } = secrets ?? {};
  const more = secrets
    ? {
        secrets: {
          ...(environment ? { environment } : {}),
          ...(directory === undefined ? {} : { directory: resolve(directory) }),
        },
      }
    : {};
  const file = vault?.identityFile === undefined ? {} : { identityFile: resolve(vault.identityFile) };
  if (vault?.kind !== 'openbao') return { ...more, vault: { kind: 'embedded', ...file } };
  const { address, tokenFile, mount = 'secret', prefix = 'windlass' } = vault;
  if (address === undefined)
    throw new UsageError(
      'windlass.yaml says vault.kind: openbao without vault.address\n  help     set it to the URL of the vault',
    );
  const token = tokenFile === undefined ? {} : { tokenFile: resolve(tokenFile) };
  return { ...more, vault: { kind: 'openbao', address, mount, prefix, ...file, ...token } };
}

const duration = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : (parseDuration(text) ?? undefined);

/** Without a ref: `main`, or what a local repository has checked out when it has no `main`. `HEAD` is the latter in any case. */
function sourceOf(name: string, url: string, said: string | undefined, detached: boolean): HouseOptions['source'] {
  if (said !== undefined && said !== 'HEAD') return { name, url, ref: said };
  const repository = url.startsWith('/') ? gitDirOf(url) : null;
  if (!repository) return { name, url, ref: 'main' };
  const head = branchOf(repository);
  if (said === undefined && (head === null || hasBranch(repository, 'main'))) return { name, url, ref: 'main' };
  if (head === null && detached) return { name, url, ref: 'HEAD' };
  if (head === null)
    throw new UsageError(
      `${url} has no branch checked out\n  help     name one with --ref, or make one: git switch -c here`,
    );
  return { name, url, ref: head };
}

/** The top of the clone around a folder, as git finds it; the folder itself where there is none. */
export function cloneAround(folder: string): string {
  for (let at = resolve(folder); ; at = dirname(at)) {
    if (existsSync(join(at, '.git'))) return at;
    if (dirname(at) === at) return resolve(folder);
  }
}

interface Repository {
  /** With HEAD: a linked work tree has one of its own. */
  readonly own: string;
  /** With the branches. */
  readonly common: string;
}

/** Null when `path` is no repository. */
function gitDirOf(path: string): Repository | null {
  const inside = join(path, '.git');
  const own = !existsSync(inside)
    ? path
    : statSync(inside).isDirectory()
      ? inside
      : resolve(path, firstLine(inside).replace(/^gitdir: /, ''));
  if (!existsSync(join(own, 'HEAD'))) return null;
  const link = join(own, 'commondir');
  return { own, common: existsSync(link) ? resolve(own, firstLine(link)) : own };
}

function branchOf({ own }: Repository): string | null {
  return /^ref: refs\/heads\/(\S+)/.exec(firstLine(join(own, 'HEAD')))?.[1] ?? null;
}

function hasBranch({ common }: Repository, name: string): boolean {
  if (existsSync(join(common, 'refs', 'heads', name))) return true;
  const packed = join(common, 'packed-refs');
  return (
    existsSync(packed) &&
    readFileSync(packed, 'utf8')
      .split('\n')
      .some((line) => line.endsWith(` refs/heads/${name}`))
  );
}

const firstLine = (file: string): string => readFileSync(file, 'utf8').split('\n')[0] ?? '';

/** A path of a local repository becomes absolute; everything else is left to the source to judge. */
function addressOf(url: string): string {
  const remote = /^[a-z][a-z0-9+.-]*:\/\//i.test(url) || (/^[^/\s]+@?[^/\s]*:/.test(url) && !existsSync(url));
  return remote || isAbsolute(url) ? url : resolve(url);
}

function stateDirOf(said: string | undefined): string {
  // An unset variable of a script must not reach the state of a production controller.
  if (said === '') throw new UsageError('--state is empty: name a directory');
  if (said) return resolve(said);
  if (process.getuid?.() === 0) return '/var/lib/windlass';
  return join(process.env['XDG_STATE_HOME'] || join(homedir(), '.local', 'state'), 'windlass');
}
