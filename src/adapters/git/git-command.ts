// How the git client is called: nothing of the user's or the machine's configuration, one protocol, no hooks, no
// prompts, no helpers. Credentials travel in its environment, never in arguments, addresses or configuration files.
import { randomBytes } from 'node:crypto';
import { readFile, realpath, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Fault } from '../../core/fault.ts';
import { redactor } from '../process/redact.ts';
import type { SourceAddress } from './source-address.ts';

export interface Credentials {
  /** For http(s), with `password`. */
  readonly username?: string;
  /** Token or password for http(s). */
  readonly password?: string;
  /** Private key for ssh; without it the keys of the user and the agent are tried. */
  readonly sshKeyFile?: string;
  /** Known hosts for ssh, strictly checked. Default: `known_hosts` in the folder of the mirrors. */
  readonly knownHostsFile?: string;
}

/** What forges take as the user beside a token. */
const TOKEN_USER = 'x-access-token';

/** Mistakes of old or odd tools that harm nobody: a wrong date must not stop a fleet. Everything else is refused. */
const HARMLESS = [
  'badDate',
  'badDateOverflow',
  'badEmail',
  'badName',
  'badTimezone',
  'missingAuthor',
  'missingCommitter',
  'missingEmail',
  'missingNameBeforeEmail',
  'missingSpaceBeforeDate',
  'missingSpaceBeforeEmail',
  'multipleAuthors',
  'nulInCommit',
  'zeroPaddedDate',
  'zeroPaddedFilemode',
];

const MIB = 1024 * 1024;
/** A single piece of memory that git may ask for; a pack that unfolds beyond it is refused instead. */
const ALLOCATION_LIMIT = '512m';

/** Variables of ours that a client behind a proxy or a private authority cannot do without. */
const NETWORK_VARIABLES = [
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'all_proxy',
  'HTTPS_PROXY',
  'NO_PROXY',
  'ALL_PROXY',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'GIT_SSL_CAINFO',
];

export function networkEnvironment(from: NodeJS.ProcessEnv = process.env): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of NETWORK_VARIABLES) {
    const value = from[name];
    if (value === undefined) continue;
    found[name] = value;
    const password = URL.parse(value)?.password;
    if (password) redactor.add(decodeURIComponent(password));
  }
  return found;
}

/** The part of the environment that every call has; it reaches the helper programs of git too. */
export function gitEnvironment(mirrorDir: string): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin',
    // Not the user's home: it may hold .netrc and .gitconfig.
    HOME: mirrorDir,
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: globalConfigPath(mirrorDir),
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: 'true',
    SSH_ASKPASS: 'true',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_NO_LAZY_FETCH: '1',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_ALLOC_LIMIT: ALLOCATION_LIMIT,
  };
}

/** The environment of a fetch: transport and credentials on top. */
export function fetchEnvironment(
  mirrorDir: string,
  address: SourceAddress,
  credentials: Credentials,
  network: Readonly<Record<string, string>>,
): Record<string, string> {
  const environment = gitEnvironment(mirrorDir);
  if (address.kind === 'http') return { ...environment, ...network, ...headerVariables(address.url, credentials) };
  if (address.kind === 'ssh') return { ...environment, ...sshVariables(mirrorDir, credentials) };
  return environment;
}

function headerVariables(url: string, credentials: Credentials): Record<string, string> {
  const header = authorization(credentials);
  if (header === null) return {};
  return {
    GIT_CONFIG_COUNT: '2',
    // Bound to the origin, and no redirects: the header goes to the host that was named and to nobody else.
    GIT_CONFIG_KEY_0: `http.${new URL(url).origin}/.extraHeader`,
    GIT_CONFIG_VALUE_0: `Authorization: ${header}`,
    GIT_CONFIG_KEY_1: 'http.followRedirects',
    GIT_CONFIG_VALUE_1: 'false',
  };
}

/** The value of the Authorization header, made known to the redactor; null without a password. */
export function authorization(credentials: Credentials): string | null {
  const { password } = credentials;
  if (password === undefined || password === '') return null;
  if (/[\r\n\0]/.test(password)) throw new Fault('USAGE', 'the token of the source holds a line break');
  const basic = Buffer.from(`${credentials.username ?? TOKEN_USER}:${password}`).toString('base64');
  redactor.add(password);
  redactor.add(basic);
  return `Basic ${basic}`;
}

function sshVariables(mirrorDir: string, credentials: Credentials): Record<string, string> {
  const knownHosts = credentials.knownHostsFile ?? join(dirname(mirrorDir), 'known_hosts');
  const options = [
    '-F',
    '/dev/null',
    ...['BatchMode=yes', 'StrictHostKeyChecking=yes', 'GlobalKnownHostsFile=/dev/null'].flatMap(asOption),
    ...[`UserKnownHostsFile="${plainPath(knownHosts)}"`, 'ForwardAgent=no', 'ForwardX11=no'].flatMap(asOption),
    ...['ClearAllForwardings=yes', 'PermitLocalCommand=no', 'ControlMaster=no', 'ControlPath=none'].flatMap(asOption),
    ...['ConnectTimeout=20', 'ServerAliveInterval=15', 'ServerAliveCountMax=4', 'UpdateHostKeys=no'].flatMap(asOption),
  ];
  if (credentials.sshKeyFile !== undefined) {
    options.push('-i', plainPath(credentials.sshKeyFile), '-o', 'IdentitiesOnly=yes');
  }
  const agent = credentials.sshKeyFile === undefined ? process.env['SSH_AUTH_SOCK'] : undefined;
  return {
    GIT_SSH_COMMAND: ['ssh', ...options.map(quoted)].join(' '),
    GIT_SSH_VARIANT: 'ssh',
    ...(agent === undefined ? {} : { SSH_AUTH_SOCK: agent }),
  };
}

function asOption(setting: string): readonly string[] {
  return ['-o', setting];
}

function plainPath(path: string): string {
  if (/["'%\\$`\x00-\x1f]/.test(path)) {
    throw new Fault('USAGE', `${JSON.stringify(path)} cannot be handed to ssh: choose a path without quotes and signs`);
  }
  return path;
}

/** git splits this variable as a shell would; single quotes end all meaning but their own. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** Options before the verb that hold for every call on the mirror. */
export function mirrorArguments(mirrorDir: string): readonly string[] {
  const settings = [
    'core.hooksPath=/dev/null',
    'core.fsmonitor=false',
    'core.askPass=true',
    'credential.helper=',
    'gc.auto=0',
    'maintenance.auto=false',
    'pack.threads=1',
    `core.bigFileThreshold=${16 * MIB}`,
    'core.packedGitLimit=128m',
    'pack.windowMemory=64m',
  ];
  return ['--no-pager', `--git-dir=${mirrorDir}`, ...settings.flatMap((setting) => ['-c', setting])];
}

export function fetchArguments(
  mirrorDir: string,
  address: SourceAddress,
  ref: string,
  into: string,
  more: readonly string[] = [],
): readonly string[] {
  return [
    ...networkArguments(mirrorDir, address),
    '-c',
    'transfer.fsckObjects=true',
    ...HARMLESS.flatMap((id) => ['-c', `fetch.fsck.${id}=ignore`]),
    // Always one pack: its size can be watched while it comes in.
    '-c',
    'fetch.unpackLimit=1',
    '-c',
    'fetch.writeCommitGraph=false',
    'fetch',
    '--quiet',
    '--no-tags',
    '--no-recurse-submodules',
    '--no-write-fetch-head',
    '--no-auto-maintenance',
    '--no-show-forced-updates',
    '--atomic',
    '--end-of-options',
    addressArgument(address),
    `+${ref}:${into}`,
    ...more,
  ];
}

/** Names of the branches that there are; to tell more about a missing one. */
export function listBranchesArguments(mirrorDir: string, address: SourceAddress): readonly string[] {
  return [
    ...networkArguments(mirrorDir, address),
    'ls-remote',
    '--heads',
    '--end-of-options',
    addressArgument(address),
  ];
}

function networkArguments(mirrorDir: string, address: SourceAddress): readonly string[] {
  const protocol = address.kind === 'local' ? 'file' : address.kind === 'ssh' ? 'ssh' : address.scheme;
  return [
    ...mirrorArguments(mirrorDir),
    '-c',
    'protocol.allow=never',
    '-c',
    `protocol.${protocol}.allow=always`,
    '-c',
    'protocol.version=2',
    '-c',
    'submodule.recurse=false',
    '-c',
    'http.lowSpeedLimit=1',
    '-c',
    'http.lowSpeedTime=60',
  ];
}

function addressArgument(address: SourceAddress): string {
  return address.kind === 'local' ? address.path : address.url;
}

function globalConfigPath(mirrorDir: string): string {
  return join(mirrorDir, 'windlass-gitconfig');
}

/**
 * The only "user" configuration our git reads: it says that the source's folder may belong to somebody else. Naming
 * it as the source is the operator's consent; git lets no other place than this file say so for a local source.
 */
export async function writeGlobalConfig(mirrorDir: string, address: SourceAddress): Promise<void> {
  let text = '[safe]\n';
  if (address.kind === 'local') {
    const real = await realpath(address.path).catch(() => address.path);
    for (const path of new Set([address.path, real])) {
      for (const folder of [path, join(path, '.git')]) text += `\tdirectory = ${configValue(folder)}\n`;
    }
  }
  const path = globalConfigPath(mirrorDir);
  if ((await readFile(path, 'utf8').catch(() => null)) === text) return;
  const temporary = `${path}.${randomBytes(6).toString('hex')}`;
  await writeFile(temporary, text);
  await rename(temporary, path);
}

function configValue(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\t', '\\t')}"`;
}
