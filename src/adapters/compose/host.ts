// Host: which engine to speak to, found the way the docker client finds it (DOCKER_HOST, the current context, the socket).
// It reads; it never connects.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { Fault } from '../../core/fault.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface EngineHost {
  /** What the docker client would be told: `unix:///…`, `tcp://…` or `ssh://…`. */
  readonly url: string;
  /** Folder with ca.pem, cert.pem and key.pem when the connection is encrypted. */
  readonly certificates: string | null;
}

export type Address =
  | { readonly kind: 'socket'; readonly path: string }
  | { readonly kind: 'tcp'; readonly hostname: string; readonly port: number };

const defaultHost = 'unix:///var/run/docker.sock';
const contextName = /^[a-zA-Z0-9][a-zA-Z0-9_.+-]*$/;
const largestConfigBytes = 1024 * 1024;

export function dockerConfigFolder(environment: Environment): string {
  return environment['DOCKER_CONFIG'] || join(environment['HOME'] || homedir(), '.docker');
}

/** The client's own configuration; empty when there is none or it cannot be read. */
export function readDockerConfig(folder: string): Readonly<Record<string, unknown>> {
  return readJson(join(folder, 'config.json')) ?? {};
}

export function findHost(environment: Environment): EngineHost {
  const certificates = environment['DOCKER_TLS_VERIFY']
    ? environment['DOCKER_CERT_PATH'] || dockerConfigFolder(environment)
    : null;
  if (environment['DOCKER_HOST']) return { url: environment['DOCKER_HOST'], certificates };
  const folder = dockerConfigFolder(environment);
  const configured = readDockerConfig(folder)['currentContext'];
  const context = environment['DOCKER_CONTEXT'] || (typeof configured === 'string' ? configured : '');
  if (context === '' || context === 'default') return { url: defaultHost, certificates: null };
  return contextHost(folder, context);
}

export function addressOf(url: string): Address {
  if (url.startsWith('unix://')) return { kind: 'socket', path: url.slice('unix://'.length) };
  if (/^(tcp|https?):\/\//.test(url)) {
    // As tcp the standard parser would keep no default port.
    const { hostname, port } = new URL(url.replace(/^tcp:/, 'http:'));
    return { kind: 'tcp', hostname: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || 2375 };
  }
  throw new Fault('ENGINE_UNREACHABLE', `the engine address ${url} is neither a unix socket nor tcp`, {
    data: { host: url },
  });
}

function contextHost(folder: string, name: string): EngineHost {
  const missing = (): never => {
    throw new Fault('ENGINE_UNREACHABLE', `the docker context "${name}" cannot be read`, { data: { context: name } });
  };
  if (!contextName.test(name)) return missing();
  const id = createHash('sha256').update(name).digest('hex');
  const meta = readJson(join(folder, 'contexts', 'meta', id, 'meta.json'));
  const endpoints = meta?.['Endpoints'] as { docker?: { Host?: unknown } } | undefined;
  const url = endpoints?.docker?.Host;
  if (typeof url !== 'string' || url === '') return missing();
  const certificates = join(folder, 'contexts', 'tls', id, 'docker');
  return {
    url,
    certificates: url.startsWith('tcp:') && isReadable(join(certificates, 'ca.pem')) ? certificates : null,
  };
}

function readJson(path: string): Record<string, unknown> | null {
  try {
    const bytes = readFileSync(path);
    if (bytes.length > largestConfigBytes) return null;
    const value: unknown = JSON.parse(bytes.toString('utf8'));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function isReadable(path: string): boolean {
  try {
    readFileSync(path);
    return true;
  } catch {
    return false;
  }
}
