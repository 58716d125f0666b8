// Exec: one command in a running container, to its end. The engine cannot end an exec, so each gets a mark in its environment:
// what carries the mark is ended from inside the container (or on this host), children included, and seen to be gone.
import { readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Fault } from '../../core/fault.ts';
import type { Clock } from '../../ports/clock.ts';
import type { LogLine, RunResult } from '../../ports/runtime.ts';
import type { ApiClient } from './api-client.ts';
import { FrameReader } from './lines.ts';

const markName = 'WINDLASS_EXEC';
const termGraceMs = 2_000;
const killRounds = 20;
const sweepMs = 10_000;

// Run by the container's own shell: signals every process with the mark; exit 0 = there was none, 1 = there was one.
// Not with -F: that of BusyBox ends at the first NUL.
const sweepScript = `command -v grep >/dev/null 2>&1 || exit 3
n=0
for d in /proc/[0-9]*; do
  if grep -q "$1" "$d/environ" 2>/dev/null; then kill -"$2" "\${d#/proc/}" 2>/dev/null; n=1; fi
done
exit $n`;

export interface ExecInput {
  readonly command: readonly string[];
  readonly user?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  readonly onLine: (line: LogLine) => void;
}

interface ExecState {
  readonly Running: boolean;
  readonly ExitCode: number | null;
  readonly Pid: number;
}

/** Throws ENGINE_REFUSED when an aborted command cannot be ended: then it may still run. */
export async function execIn(client: ApiClient, clock: Clock, id: string, input: ExecInput): Promise<RunResult> {
  if (input.signal.aborted) return { exitCode: -1, timedOut: true };
  const mark = `${markName}=${clock.id()}`;
  const environment = Object.entries(input.environment ?? {}).map(([name, value]) => `${name}=${value}`);
  const exec = await create(client, id, {
    command: input.command,
    user: input.user ?? '',
    environment: [...environment, mark],
    privileged: false,
  });
  if (input.signal.aborted) return { exitCode: -1, timedOut: true };
  const opening = start(client, exec);
  let ended: Promise<void> | null = null;
  const stopReading = new AbortController();
  const onAbort = () => {
    // Only what has been started can be found and ended.
    const ending = opening
      .then(
        () => endMarked(client, clock, id, exec, mark),
        () => {},
      )
      .finally(() => stopReading.abort());
    ending.catch(() => {});
    ended = ending;
  };
  input.signal.addEventListener('abort', onAbort, { once: true });
  try {
    await read(await opening, input.onLine, stopReading.signal);
  } catch (error) {
    const code = startFailure(error);
    if (code !== null) {
      input.onLine({ stream: 'stderr', text: (error as Fault).message });
      return { exitCode: code, timedOut: false };
    }
    if (ended === null) throw error;
  } finally {
    input.signal.removeEventListener('abort', onAbort);
  }
  if (ended !== null) await (ended as Promise<void>);
  const state = await settled(client, clock, exec);
  return { exitCode: state.ExitCode ?? -1, timedOut: ended !== null };
}

async function create(
  client: ApiClient,
  id: string,
  input: {
    readonly command: readonly string[];
    readonly user: string;
    readonly environment: readonly string[];
    readonly privileged: boolean;
  },
): Promise<string> {
  const { Id } = await client.json<{ Id: string }>({
    method: 'POST',
    path: `/containers/${encodeURIComponent(id)}/exec`,
    body: {
      AttachStdout: true,
      AttachStderr: true,
      Tty: false,
      Cmd: input.command,
      User: input.user,
      Env: input.environment,
      Privileged: input.privileged,
    },
  });
  return Id;
}

function start(client: ApiClient, exec: string): Promise<IncomingMessage> {
  return client.stream({ method: 'POST', path: `/exec/${exec}/start`, body: { Detach: false, Tty: false } });
}

async function read(body: IncomingMessage, onLine: (line: LogLine) => void, signal: AbortSignal): Promise<void> {
  const reader = new FrameReader();
  const onAbort = () => body.destroy();
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) for (const line of reader.push(chunk)) onLine(line);
  } catch (error) {
    if (!signal.aborted) throw new Fault('ENGINE_UNREACHABLE', 'the engine was lost during an exec', { cause: error });
  } finally {
    signal.removeEventListener('abort', onAbort);
    for (const line of reader.flush()) onLine(line);
    body.destroy();
  }
}

/** The stream ends a moment before the engine has written down the exit code. */
async function settled(client: ApiClient, clock: Clock, exec: string): Promise<ExecState> {
  for (let tries = 0; ; tries += 1) {
    const state = await client.json<ExecState>({ method: 'GET', path: `/exec/${exec}/json` });
    if (!state.Running || tries === 40) return state;
    await clock.sleep(50);
  }
}

async function endMarked(client: ApiClient, clock: Clock, id: string, exec: string, mark: string): Promise<void> {
  const state = await client.json<ExecState>({ method: 'GET', path: `/exec/${exec}/json` });
  await endMarkedIn(client, clock, id, mark);
  if ((await settled(client, clock, exec)).Running && state.Pid !== 0) throw notEnded(id);
}

/** For what another process began, too. Throws ENGINE_REFUSED when it cannot be ended. */
export async function endMarkedIn(
  client: ApiClient,
  clock: Clock,
  id: string,
  mark: string,
  signal?: AbortSignal,
): Promise<void> {
  if (await sweep(client, clock, id, mark, 'TERM')) return;
  const untilMs = clock.nowMs() + termGraceMs;
  let gone = false;
  while (!gone && clock.nowMs() < untilMs) {
    await clock.sleep(100, signal);
    gone = await sweep(client, clock, id, mark, '0');
  }
  // Again and again: what is killed may just have started a child.
  for (let round = 0; !gone; round += 1) {
    if (round === killRounds) throw notEnded(id);
    gone = await sweep(client, clock, id, mark, 'KILL');
    if (!gone) await clock.sleep(50, signal);
  }
}

/** True when nothing carries the mark. */
async function sweep(client: ApiClient, clock: Clock, id: string, mark: string, signalName: string): Promise<boolean> {
  const exec = await create(client, id, {
    command: ['/bin/sh', '-c', sweepScript, 'sh', mark, signalName],
    user: '0',
    environment: [],
    // Root without it may not see the environment of another user's process.
    privileged: true,
  }).catch((error: unknown) => {
    // A container that has stopped took its processes with it; in a paused one they only sleep.
    const status = error instanceof Fault ? error.data['status'] : null;
    if (status === 404 || (status === 409 && !/is paused/i.test((error as Fault).message))) return null;
    throw error;
  });
  if (exec === null) return true;
  const code = await start(client, exec).then(
    async (body) => {
      await read(body, () => {}, AbortSignal.timeout(sweepMs));
      return (await settled(client, clock, exec)).ExitCode;
    },
    (error: unknown) => startFailure(error),
  );
  return code === 0 || code === 1 ? code === 0 : sweepHost(mark, signalName, id);
}

/** For images without a shell or `grep`, when their processes are visible here. */
function sweepHost(mark: string, signalName: string, id: string): boolean {
  let gone = true;
  let isVisible = false;
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      isVisible ||= readFileSync(`/proc/${entry}/cgroup`, 'latin1').includes(id);
      if (!readFileSync(`/proc/${entry}/environ`, 'latin1').includes(mark)) continue;
      gone = false;
      if (signalName !== '0') process.kill(Number(entry), `SIG${signalName}`);
    } catch {
      // Ended meanwhile, or not ours to see.
    }
  }
  if (gone && !isVisible) throw notEnded(id);
  return gone;
}

/** The exit code of a command that the container does not have or cannot run; null for any other error. */
function startFailure(error: unknown): number | null {
  if (
    !(error instanceof Fault) ||
    !/OCI runtime exec failed|exec failed|executable file not found/i.test(error.message)
  )
    return null;
  return /permission denied/i.test(error.message) ? 126 : 127;
}

function notEnded(id: string): Fault {
  return new Fault('ENGINE_REFUSED', 'a command in the container was to end and could not be ended', {
    data: { container: id, reason: 'exec-not-ended' },
  });
}
