// Helper container: GNU tar of an image, run once on the volume or folder with no network, no log and only the rights that it needs.
// The helper is always removed, also when this side was called off.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Fault } from '../../core/fault.ts';
import type { ApiClient } from '../compose/api-client.ts';
import { refusal } from '../compose/refusal.ts';
import { helperLabel, helperOwnerLabel } from '../compose/volume-owner.ts';
import type { Programs } from '../process/run.ts';
import { removeAfter } from './sweep-helpers.ts';
import { createArguments, extractArguments, readTar, TAR_ENVIRONMENT, writeTar } from './tar-command.ts';
import { folderOf, nameOf, type Place, type Way } from './way.ts';

const MOUNT_POINT = '/payload';
const PROBE_MS = 60_000;
const REMOVE_MS = 30_000;
const POLL_MS = 50;

/** What reading everything takes: other users' files, and attributes that the kernel shows only to an administrator. */
const READ_RIGHTS = ['DAC_READ_SEARCH', 'SYS_ADMIN'];
const WRITE_RIGHTS = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'MKNOD', 'SETFCAP'];

export function openHelperContainer(options: {
  readonly programs: Programs;
  readonly client: ApiClient;
  /** For the docker client: complete. */
  readonly env: Readonly<Record<string, string>>;
  /** Holds GNU tar; never pulled. */
  readonly image: string | null;
  /** Of this process, for whoever sweeps. */
  readonly owner: string;
  readonly stallMs: number;
}): Way {
  const { programs, client, env, image, stallMs } = options;
  const probed = new Map<string, boolean>();

  function runArguments(
    name: string,
    place: Place | null,
    mode: 'read' | 'write',
    rights: readonly string[],
  ): string[] {
    return [
      'run',
      `--name=${name}`,
      `--label=${helperLabel}=payload`,
      `--label=${helperOwnerLabel}=${options.owner}`,
      '--rm',
      '--sig-proxy=false',
      ...(mode === 'write' ? ['--interactive'] : []),
      '--pull=never',
      '--network=none',
      // Else the engine would keep a copy of the whole stream.
      '--log-driver=none',
      '--user=0:0',
      '--workdir=/',
      '--read-only',
      '--security-opt=no-new-privileges',
      '--security-opt=label=disable',
      '--cap-drop=ALL',
      ...rights.map((right) => `--cap-add=${right}`),
      ...Object.entries(TAR_ENVIRONMENT).map(([key, value]) => `--env=${key}=${value}`),
      ...(place === null ? [] : [`--mount=${mountOf(place, mode)}`]),
      '--entrypoint=tar',
      image ?? '',
    ];
  }

  const newName = (): string => `windlass-payload-${randomUUID()}`;
  const start = (args: readonly string[], signal: AbortSignal) =>
    programs.spawnStream({ program: 'docker', args, cwd: '/', env, signal });

  /** Until it is gone: as long as it is there its volume cannot be removed. */
  async function remove(name: string): Promise<void> {
    const signal = AbortSignal.timeout(REMOVE_MS);
    for (;;) {
      const { status } = await client.send({
        method: 'DELETE',
        path: `/containers/${name}`,
        query: { force: true, v: false },
        accept: [404, 409],
        signal,
      });
      if (status === 404) return;
      await pause(POLL_MS, undefined, { signal }).catch(() => {});
    }
  }

  async function hasGnuTar(id: string, signal: AbortSignal): Promise<boolean> {
    const known = probed.get(id);
    if (known !== undefined) return known;
    const name = newName();
    let hasFailed = false;
    try {
      const args = [...runArguments(name, null, 'read', []), '--version'];
      const call = { program: 'docker', args, cwd: '/', env, signal, deadlineMs: PROBE_MS };
      const { exitCode, stdout, stderr } = await programs.run(call);
      if (exitCode === 125) throw refusal(stderr, 'ENGINE_REFUSED', { exitCode });
      const has = exitCode === 0 && stdout.includes('GNU tar');
      probed.set(id, has);
      return has;
    } catch (error) {
      hasFailed = true;
      throw error;
    } finally {
      await removeAfter(remove(name), hasFailed);
    }
  }

  return {
    kind: 'helper-container',
    fidelity: 'exact',
    async obstacle(_place, { signal }) {
      if (image === null) return 'no helper image is named';
      const path = `/images/${encodeURIComponent(image)}/json`;
      const { status, body } = await client.send({ method: 'GET', path, accept: [404], signal });
      if (status === 404) return `the helper image ${image} is not on the engine`;
      const { Id: id } = JSON.parse(body.toString('utf8')) as { Id: string };
      return (await hasGnuTar(id, signal)) ? null : `the helper image ${image} has no GNU tar`;
    },
    async *read(place, { signal, exclude, allowChanging, onNotCaptured, onStill }) {
      const name = newName();
      let hasFailed = false;
      try {
        const create = createArguments(MOUNT_POINT, exclude);
        const helper = await start([...runArguments(name, place, 'read', READ_RIGHTS), ...create], signal);
        yield* readTar(helper, { signal, allowChanging, what: nameOf(place), stallMs, onNotCaptured, onStill });
      } catch (error) {
        hasFailed = true;
        throw ofTheClient(error);
      } finally {
        await removeAfter(remove(name), hasFailed);
      }
    },
    async write(place, tar, { signal, hasTrustedAttributes }) {
      const name = newName();
      let hasFailed = false;
      const rights = hasTrustedAttributes ? [...WRITE_RIGHTS, 'SYS_ADMIN'] : WRITE_RIGHTS;
      try {
        const extract = extractArguments(MOUNT_POINT);
        const helper = await start([...runArguments(name, place, 'write', rights), ...extract], signal);
        await writeTar(helper, tar, { signal, what: nameOf(place), folder: folderOf(place), stallMs });
      } catch (error) {
        hasFailed = true;
        throw ofTheClient(error);
      } finally {
        await removeAfter(remove(name), hasFailed);
      }
    },
  };
}

/** The docker client's own failures are none of tar's. */
function ofTheClient(error: unknown): unknown {
  if (!(error instanceof Fault) || (error.code !== 'PAYLOAD_FAILED' && error.code !== 'PAYLOAD_NO_SPACE')) return error;
  const { exitCode, complaints } = error.data;
  if (exitCode === 137) return new Fault('PAYLOAD_FAILED', 'the helper container was killed', { data: { exitCode } });
  if (exitCode !== 125 || !Array.isArray(complaints)) return error;
  return refusal(complaints.join('\n'), 'ENGINE_REFUSED', { exitCode });
}

/** One line of CSV, as the docker client reads it. */
function mountOf(place: Place, mode: 'read' | 'write'): string {
  const field = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const fields =
    place.kind === 'volume'
      ? ['type=volume', `source=${place.name}`, `target=${MOUNT_POINT}`, 'volume-nocopy']
      : ['type=bind', `source=${place.path}`, `target=${MOUNT_POINT}`];
  return [...fields, ...(mode === 'read' ? ['readonly'] : [])].map(field).join(',');
}
