// Host path: GNU tar of this host on the very folder, when this process is root and the engine's folders are really the ones it sees.
import { access, lstat, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../../core/fault.ts';
import type { ApiClient } from '../compose/api-client.ts';
import { cleanEnvironment, ProcessError, type Programs } from '../process/run.ts';
import {
  createArguments,
  extractArguments,
  isOfRoom,
  noRoom,
  readTar,
  TAR_ENVIRONMENT,
  writeTar,
} from './tar-command.ts';
import { folderOf, nameOf, type Way } from './way.ts';

const QUICK_MS = 30_000;
const SYNC_MS = 15 * 60_000;

/** The engine's own folder on this host. Null through a mounted socket of another host's engine, whose paths mean something else here. */
export async function engineFolder(client: ApiClient, signal: AbortSignal): Promise<string | null> {
  if (!client.host.url.startsWith('unix:')) return null;
  const info = await client.json<{ ID?: string; DockerRootDir?: string }>({ method: 'GET', path: '/info', signal });
  if (!info.ID || !info.DockerRootDir) return null;
  const id = await readFile(join(info.DockerRootDir, 'engine-id'), 'utf8').catch(() => '');
  return id.trim() === info.ID ? info.DockerRootDir : null;
}

export function openHostPath(options: {
  readonly programs: Programs;
  readonly client: ApiClient;
  readonly isRoot: boolean;
  readonly stallMs: number;
}): Way {
  const { programs, client, stallMs } = options;
  const env = cleanEnvironment(TAR_ENVIRONMENT);
  const program = (args: readonly string[], signal: AbortSignal) => ({ program: 'tar', args, cwd: '/', env, signal });

  async function hasGnuTar(signal: AbortSignal): Promise<boolean> {
    try {
      const { exitCode, stdout } = await programs.run({ ...program(['--version'], signal), deadlineMs: QUICK_MS });
      return exitCode === 0 && stdout.includes('GNU tar');
    } catch (error) {
      if (error instanceof ProcessError && error.kind === 'missing') return false;
      throw error;
    }
  }

  return {
    kind: 'host-path',
    fidelity: 'exact',
    async obstacle(place, { signal }) {
      if (!options.isRoot) return 'this process is not root';
      if (place.kind === 'volume' && !place.liesAtMountpoint) return 'the volume is mounted only for containers';
      if ((await engineFolder(client, signal)) === null) return "the engine's folders are not those of this process";
      const facts = await lstat(folderOf(place)).catch(() => null);
      if (!facts?.isDirectory()) return `${folderOf(place)} is not to be seen from here`;
      return (await hasGnuTar(signal)) ? null : 'there is no GNU tar here';
    },
    async *read(place, { signal, exclude, allowChanging, onNotCaptured, onStill }) {
      const child = await programs.spawnStream(program(createArguments(folderOf(place), exclude), signal));
      yield* readTar(child, { signal, allowChanging, what: nameOf(place), stallMs, onNotCaptured, onStill });
    },
    async write(place, tar, { signal }) {
      const folder = folderOf(place);
      await access(folder);
      const child = await programs.spawnStream(program(extractArguments(folder), signal));
      await writeTar(child, tar, { signal, what: nameOf(place), folder, stallMs });
      // Whoever switches to the copy may remove the original: it must be on the disk by then.
      const synced = await programs.run({
        program: 'sync',
        args: ['--file-system', folder],
        cwd: '/',
        env,
        signal,
        deadlineMs: SYNC_MS,
      });
      if (synced.exitCode !== 0) {
        // A file system may promise more than it has, and say so only now.
        if (isOfRoom(synced.stderr)) throw noRoom({ what: nameOf(place), folder }, synced.stderr.trim());
        throw new Fault('PAYLOAD_FAILED', `${nameOf(place)} could not be brought to the disk: ${synced.stderr}`);
      }
    },
  };
}
