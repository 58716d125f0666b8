// Registry auth: the credentials that the docker client's own configuration holds for an image, as the engine's header wants
// them. Read for each pull and kept nowhere.
import type { Run } from '../process/run.ts';
import { dockerConfigFolder, type Environment, readDockerConfig } from './host.ts';

interface Credentials {
  readonly username?: string;
  readonly password?: string;
  readonly identitytoken?: string;
  readonly serveraddress: string;
}

const helperName = /^[a-zA-Z0-9._-]+$/;
const helperDeadlineMs = 15_000;
const defaultRegistry = 'https://index.docker.io/v1/';

/** Null when there are none; then the engine asks as anybody. */
export async function registryAuth(
  image: string,
  environment: Environment,
  run: Run,
  signal: AbortSignal,
): Promise<string | null> {
  const config = readDockerConfig(dockerConfigFolder(environment));
  const registry = registryOf(image);
  const found = (await fromHelper(config, registry, environment, run, signal)) ?? fromFile(config, registry);
  return found === null ? null : Buffer.from(JSON.stringify(found)).toString('base64url');
}

/** The docker client's rule: a first part with a dot, a colon or `localhost` is a registry. */
export function registryOf(image: string): string {
  const slash = image.indexOf('/');
  const first = slash < 0 ? '' : image.slice(0, slash);
  const named = first.includes('.') || first.includes(':') || first === 'localhost';
  return named && first !== 'docker.io' && first !== 'index.docker.io' ? first : defaultRegistry;
}

async function fromHelper(
  config: Readonly<Record<string, unknown>>,
  registry: string,
  environment: Environment,
  run: Run,
  signal: AbortSignal,
): Promise<Credentials | null> {
  const helpers = config['credHelpers'] as Record<string, unknown> | undefined;
  const helper = helpers?.[registry] ?? config['credsStore'];
  if (typeof helper !== 'string' || !helperName.test(helper)) return null;
  try {
    const output = await run({
      program: `docker-credential-${helper}`,
      args: ['get'],
      cwd: '/',
      env: { PATH: environment['PATH'] ?? '', HOME: environment['HOME'] ?? '/' },
      input: registry,
      deadlineMs: helperDeadlineMs,
      signal,
      maxOutputBytes: 256 * 1024,
    });
    if (output.exitCode !== 0) return null;
    const { Username, Secret } = JSON.parse(output.stdout) as { Username?: unknown; Secret?: unknown };
    if (typeof Username !== 'string' || typeof Secret !== 'string') return null;
    return Username === '<token>'
      ? { identitytoken: Secret, serveraddress: registry }
      : { username: Username, password: Secret, serveraddress: registry };
  } catch {
    // A helper that is missing or broken is no reason not to try a public image.
    signal.throwIfAborted();
    return null;
  }
}

function fromFile(config: Readonly<Record<string, unknown>>, registry: string): Credentials | null {
  const auths = config['auths'] as Record<string, { auth?: unknown; identitytoken?: unknown }> | undefined;
  const entry = auths?.[registry] ?? auths?.[`https://${registry}`] ?? auths?.[`https://${registry}/v1/`];
  if (typeof entry?.identitytoken === 'string' && entry.identitytoken !== '') {
    return { identitytoken: entry.identitytoken, serveraddress: registry };
  }
  if (typeof entry?.auth !== 'string') return null;
  const text = Buffer.from(entry.auth, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return colon < 0
    ? null
    : { username: text.slice(0, colon), password: text.slice(colon + 1), serveraddress: registry };
}
