// One-shots on a real engine, through its API: made as Compose would make them, watched through their log, ended and seen to be gone.
import { posix } from 'node:path';
import { Fault } from '../../core/fault.ts';
import type { Clock } from '../../ports/clock.ts';
import type { JobState } from '../../ports/hooks.ts';
import type { OneShotInput, OneShots } from '../../ports/one-shots.ts';
import type { LogLine } from '../../ports/runtime.ts';
import { type ApiClient, openApiClient } from './api-client.ts';
import { type Environment, findHost } from './host.ts';
import { FrameReader } from './lines.ts';
import {
  isBelow,
  jobLabels,
  type OneShotFile,
  type OneShotMount,
  type OneShotSpec,
  oneShotSpec,
} from './one-shot-spec.ts';
import { type ApiContainer, composeLabel } from './reading.ts';
import { chownVolumeRoot } from './volume-owner.ts';

// biome-ignore lint/suspicious/noExplicitAny: a resolved project, as JSON
type Loose = any;

export interface OneShotsOptions {
  /** As for the runtime. */
  readonly host?: string;
  readonly clock: Clock;
  readonly environment?: Environment;
  readonly callMs?: number;
}

const defaultCallMs = 30_000;
const stopGraceSeconds = 5;
const answerBytes = 64 * 1024 * 1024;
const pollMs = 100;

interface State {
  readonly Status: string;
  readonly Running: boolean;
  readonly ExitCode: number;
  readonly FinishedAt: string;
}

export function openOneShots(options: OneShotsOptions): OneShots {
  const { clock } = options;
  const environment = options.environment ?? process.env;
  const callMs = options.callMs ?? defaultCallMs;
  const host =
    options.host === undefined
      ? findHost(environment)
      : { ...findHost({ ...environment, DOCKER_HOST: options.host }), url: options.host };
  const client = openApiClient(host, { deadlineMs: callMs, maxBytes: answerBytes, maxSockets: 8 });
  const path = (name: string, rest = '') => `/containers/${encodeURIComponent(name)}${rest}`;

  async function stateOf(name: string, signal: AbortSignal): Promise<State | null> {
    try {
      return (await client.json<{ State: State }>({ method: 'GET', path: path(name, '/json'), signal })).State;
    } catch (error) {
      if (error instanceof Fault && error.data['status'] === 404) return null;
      throw error;
    }
  }

  async function list(labels: readonly string[], signal: AbortSignal): Promise<readonly ApiContainer[]> {
    const filters = JSON.stringify({ label: labels });
    return client.json({ method: 'GET', path: '/containers/json', query: { all: 1, filters }, signal });
  }

  async function until(what: string, signal: AbortSignal, isSo: () => Promise<boolean>): Promise<void> {
    const untilMs = clock.nowMs() + callMs;
    while (!(await isSo())) {
      if (clock.nowMs() > untilMs) throw new Fault('ENGINE_TIMEOUT', `${what} does not come to its end`);
      await clock.sleep(pollMs, signal);
    }
  }

  async function remove(name: string, signal: AbortSignal): Promise<void> {
    // Its own anonymous volumes go with it; named ones never do.
    await client
      .send({ method: 'DELETE', path: path(name), query: { force: true, v: true }, accept: [404], signal })
      .catch((error: unknown) => {
        if (!(error instanceof Fault) || !/already in progress/.test(error.message)) throw error;
      });
    await until(`the removal of ${name}`, signal, async () => (await stateOf(name, signal)) === null);
  }

  const started = (name: string, signal: AbortSignal) =>
    client.send({ method: 'POST', path: path(name, '/start'), accept: [304], signal });

  async function start(input: OneShotInput, signal: AbortSignal): Promise<void> {
    const before = await stateOf(input.name, signal);
    if (before !== null && before.Status !== 'created') return;
    // What is only half made (its files may be missing) is made again.
    // Of this project and this controller only: another one on the same engine may have a stack, or a project, of the same name.
    const ours = [`${jobLabels.owner}=${input.owner}`, `${composeLabel.project}=${input.desired.project}`];
    for (const { Id, Labels } of await list(ours, signal)) if (isBelow(input.home, Labels)) await remove(Id, signal);
    const spec = oneShotSpec(input);
    for (const key of spec.networks) await ensureNetwork(client, input, spec, key, signal);
    for (const mount of spec.mounts) if (mount.key !== null) await ensureVolume(client, input, spec, mount, signal);
    const [first, ...others] = spec.networks.map((key) => networkName(input, spec, key));
    const { Id: id } = await client.json<{ Id: string }>({
      method: 'POST',
      path: '/containers/create',
      query: { name: spec.name },
      body: createBody(spec, first ?? (await networkModeOf(client, input, spec, signal))),
      signal,
    });
    // One by one: older engines take only one network at the creation.
    for (const network of others)
      await client.send({
        method: 'POST',
        path: `/networks/${encodeURIComponent(network)}/connect`,
        body: { Container: id },
        signal,
      });
    if (spec.files.length > 0)
      await client.send({
        method: 'PUT',
        path: path(id, '/archive'),
        query: { path: '/' },
        body: archiveOf(spec.files),
        signal,
      });
    await started(id, signal);
  }

  async function watch(name: string, onLine: (line: LogLine) => void, signal: AbortSignal): Promise<number> {
    const body = await client.stream({
      method: 'GET',
      path: path(name, '/logs'),
      query: { stdout: true, stderr: true, follow: true, tail: 'all' },
      signal,
    });
    const reader = new FrameReader();
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) for (const line of reader.push(chunk)) onLine(line);
      for (const line of reader.flush()) onLine(line);
    } catch (error) {
      signal.throwIfAborted();
      throw new Fault('ENGINE_UNREACHABLE', 'the engine was lost while a job ran', { cause: error });
    } finally {
      body.destroy();
    }
    // The log ends a moment before the engine has written down the exit code; or with the engine itself.
    let exitCode: number | null = null;
    await until(`the job ${name}`, signal, async () => {
      const state = await stateOf(name, signal);
      if (state === null) throw new Fault('ENGINE_REFUSED', `the container ${name} was removed while its job ran`);
      if (!state.Running) exitCode = state.ExitCode;
      return exitCode !== null;
    });
    return exitCode ?? -1;
  }

  return {
    start,
    watch,
    async find(name, signal): Promise<JobState> {
      const state = await stateOf(name, signal);
      if (state === null) return { kind: 'absent' };
      if (state.Running || state.Status === 'restarting') return { kind: 'running' };
      return state.Status === 'created' ? { kind: 'created' } : { kind: 'ended', exitCode: state.ExitCode };
    },
    async kill(name, signal) {
      await client
        .send({
          method: 'POST',
          path: path(name, '/stop'),
          query: { t: stopGraceSeconds },
          accept: [304, 404],
          deadlineMs: callMs + stopGraceSeconds * 1_000,
          signal,
        })
        .catch((error: unknown) => {
          // A paused or stuck one is not stopped, and is killed below.
          if (!(error instanceof Fault) || error.code !== 'ENGINE_REFUSED') throw error;
        });
      await until(`the end of ${name}`, signal, async () => {
        const state = await stateOf(name, signal);
        if (!state?.Running) return true;
        await client.send({
          method: 'POST',
          path: path(name, '/kill'),
          query: { signal: 'KILL' },
          accept: [404, 409],
          signal,
        });
        return false;
      });
    },
    remove,
    async expired(home, nowMs, signal) {
      const names: string[] = [];
      for (const { Id, Labels } of await list([jobLabels.ttl], signal)) {
        if (!isBelow(home, Labels)) continue;
        const state = await stateOf(Id, signal);
        const ttlMs = Number(Labels?.[jobLabels.ttl]);
        // One that is just being made has no end yet.
        const hasEnded = state?.Status === 'exited' || state?.Status === 'dead';
        if (hasEnded && Date.parse(state.FinishedAt) + ttlMs <= nowMs) names.push(Id);
      }
      return names;
    },
    close: () => client.close(),
  };
}

function createBody(spec: OneShotSpec, networkMode: string): Loose {
  const { service } = spec;
  return {
    Image: spec.image,
    ...(spec.entrypoint === null ? {} : { Entrypoint: spec.entrypoint.length === 0 ? [''] : spec.entrypoint }),
    ...(spec.command === null ? {} : { Cmd: spec.command }),
    User: spec.user,
    WorkingDir: spec.workingDir,
    Env: Object.entries(spec.environment).map(([name, value]) => `${name}=${value}`),
    Labels: spec.labels,
    Healthcheck: { Test: ['NONE'] },
    Tty: false,
    HostConfig: {
      NetworkMode: networkMode,
      Mounts: spec.mounts.map(mountOf),
      RestartPolicy: { Name: 'no' },
      // Reaps what a script leaves behind.
      Init: true,
      // Signals and the outcome after a crash are read from the log: it is kept whatever the service's own driver is.
      LogConfig: { Type: 'json-file', Config: { 'max-size': '64m', 'max-file': '2' } },
      Privileged: service.privileged === true,
      ReadonlyRootfs: service.read_only === true,
      CapAdd: service.cap_add ?? null,
      CapDrop: service.cap_drop ?? null,
      SecurityOpt: service.security_opt ?? null,
      GroupAdd: (service.group_add ?? []).map(String),
      ExtraHosts: (service.extra_hosts ?? []).map((entry: string) => entry.replace('=', ':')),
      Dns: service.dns ?? [],
      DnsSearch: service.dns_search ?? [],
      DnsOptions: service.dns_opt ?? [],
      ...(service.userns_mode ? { UsernsMode: service.userns_mode } : {}),
      ...(service.shm_size ? { ShmSize: Number(service.shm_size) } : {}),
      Tmpfs: Object.fromEntries(
        [service.tmpfs ?? []].flat().map((entry: string) => {
          const [target = '', ...rest] = entry.split(':');
          return [target, rest.join(':')];
        }),
      ),
    },
  };
}

function mountOf(mount: OneShotMount): Loose {
  return {
    Type: mount.kind,
    Target: mount.target,
    ReadOnly: mount.readOnly,
    ...(mount.source === '' ? {} : { Source: mount.source }),
    ...(mount.kind === 'bind' ? { BindOptions: { CreateMountpoint: mount.createsHostPath } } : {}),
  };
}

function networkName(input: OneShotInput, spec: OneShotSpec, key: string): string {
  return spec.project.networks[key].name ?? `${input.desired.project}_${key}`;
}

async function networkModeOf(
  client: ApiClient,
  input: OneShotInput,
  spec: OneShotSpec,
  signal: AbortSignal,
): Promise<string> {
  const parent = /^service:(.+)$/.exec(spec.networkMode ?? '')?.[1];
  if (parent === undefined) return spec.networkMode ?? 'none';
  const label = [`${composeLabel.project}=${input.desired.project}`, `${composeLabel.service}=${parent}`];
  const [found] = await client.json<readonly ApiContainer[]>({
    method: 'GET',
    path: '/containers/json',
    query: { filters: JSON.stringify({ label: [...label, `${composeLabel.oneOff}=False`] }) },
    signal,
  });
  if (!found) throw new Fault('ENGINE_REFUSED', `${parent}, whose network the job shares, does not run`);
  return `container:${found.Id}`;
}

/** With Compose's own labels and hash: what a job needed first is what `up` will find. */
async function ensureNetwork(
  client: ApiClient,
  input: OneShotInput,
  spec: OneShotSpec,
  key: string,
  signal: AbortSignal,
): Promise<void> {
  const name = networkName(input, spec, key);
  const there = await client.json<readonly { readonly Name: string }[]>({
    method: 'GET',
    path: '/networks',
    query: { filters: JSON.stringify({ name: [name] }) },
    signal,
  });
  if (there.some((one) => one.Name === name)) return;
  const definition = spec.project.networks[key];
  if (definition.external) throw new Fault('ENGINE_REFUSED', `the external network ${name} does not exist`);
  const { desired } = input;
  const hash = desired.networks.find((one) => one.key === key)?.hash ?? '';
  const ipam = definition.ipam ?? {};
  await client.send({
    method: 'POST',
    path: '/networks/create',
    body: {
      Name: name,
      Driver: definition.driver ?? 'bridge',
      Options: definition.driver_opts ?? {},
      Internal: definition.internal === true,
      Attachable: definition.attachable === true,
      EnableIPv6: definition.enable_ipv6 === true,
      IPAM: {
        ...(ipam.driver ? { Driver: ipam.driver } : {}),
        Config: (ipam.config ?? []).map((one: Loose) => ({
          ...(one.subnet ? { Subnet: one.subnet } : {}),
          ...(one.ip_range ? { IPRange: one.ip_range } : {}),
          ...(one.gateway ? { Gateway: one.gateway } : {}),
          ...(one.aux_addresses ? { AuxiliaryAddresses: one.aux_addresses } : {}),
        })),
      },
      Labels: { ...(definition.labels ?? {}), ...ours(input, composeLabel.network, key, hash) },
    },
    signal,
  });
}

async function ensureVolume(
  client: ApiClient,
  input: OneShotInput,
  spec: OneShotSpec,
  mount: OneShotMount,
  signal: AbortSignal,
): Promise<void> {
  const key = mount.key ?? '';
  const known = `/volumes/${encodeURIComponent(mount.source)}`;
  if ((await client.send({ method: 'GET', path: known, accept: [404], signal })).status !== 404) return;
  const definition = spec.project.volumes[key];
  if (definition.external) throw new Fault('ENGINE_REFUSED', `the external volume ${mount.source} does not exist`);
  const { desired } = input;
  const hash = desired.volumes.find((one) => one.key === key)?.hash ?? '';
  await client.send({
    method: 'POST',
    path: '/volumes/create',
    body: {
      Name: mount.source,
      Driver: definition.driver ?? 'local',
      DriverOpts: definition.driver_opts ?? {},
      Labels: { ...(definition.labels ?? {}), ...ours(input, composeLabel.volume, key, hash) },
    },
    signal,
  });
  const owner = desired.owners.find((one) => one.volume === key || one.volume === mount.source);
  if (owner) await chownVolumeRoot(client, mount.source, owner, spec.image, signal);
}

function ours({ desired }: OneShotInput, label: string, key: string, hash: string): Record<string, string> {
  return {
    [composeLabel.project]: desired.project,
    [label]: key,
    'com.docker.compose.version': desired.composeVersion,
    ...(hash === '' ? {} : { [composeLabel.configHash]: hash }),
  };
}

/** A tar archive (ustar) of small files. */
function archiveOf(files: readonly OneShotFile[]): Buffer {
  const blocks: Buffer[] = [];
  for (const { path, mode, uid, gid, content } of files) {
    const bytes = Buffer.from(content, 'utf8');
    const name = path.replace(/^\/+/, '');
    const folder = Buffer.byteLength(name) <= 100 ? '' : posix.dirname(name);
    const base = folder === '' ? name : posix.basename(name);
    if (Buffer.byteLength(base) > 100 || Buffer.byteLength(folder) > 155)
      throw new Fault('ENGINE_REFUSED', `the path ${path} is too long`);
    const header = Buffer.alloc(512);
    const octal = (value: number, at: number, width: number) =>
      header.write(value.toString(8).padStart(width - 1, '0'), at, 'latin1');
    header.write(base, 0, 'utf8');
    octal(mode & 0o7777, 100, 8);
    octal(uid, 108, 8);
    octal(gid, 116, 8);
    octal(bytes.length, 124, 12);
    octal(0, 136, 12);
    header.write('        ', 148, 'latin1');
    header.write('0', 156, 'latin1');
    header.write('ustar\x0000', 257, 'latin1');
    header.write(folder, 345, 'utf8');
    const sum = header.reduce((total, byte) => total + byte, 0);
    header.write(`${sum.toString(8).padStart(6, '0')}\x00 `, 148, 'latin1');
    blocks.push(header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512));
  }
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}
