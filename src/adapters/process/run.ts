// Starts programs: an argument list, a complete environment, a deadline, bounded output, redacted words. The only place
// that does. Never a shell. A non-zero exit code is an answer; what we ended ourselves is a ProcessError.
import { statSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { execa } from 'execa';
import { EndsKeeper, LineSplitter } from './bounded-text.ts';
import { ProcessError, type ProcessErrorKind } from './process-error.ts';
import { adoptGroup, endGroup, releaseGroup, signalGroup } from './process-group.ts';
import { redactor } from './redact.ts';

export { cleanEnvironment } from './environment.ts';
export { ProcessError, type ProcessErrorKind } from './process-error.ts';

const DEFAULT_MAX_OUTPUT_BYTES = 16 * 1024 * 1024;
const MAX_STDERR_LENGTH = 128 * 1024;
const DEFAULT_GRACE_MS = 2_000;
/** How long somebody in the group may go on holding our pipes after the program itself has ended. */
const DRAIN_MS = 1_000;

export type OutputStream = 'stdout' | 'stderr';

export interface ProgramInput {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** Complete: nothing is inherited. See `cleanEnvironment`. */
  readonly env: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Between TERM and KILL when we end it. Default 2 s. */
  readonly graceMs?: number;
  /** The process id, which is also the id of its group, as soon as it runs. */
  readonly onStart?: (pid: number) => void;
}

export interface RunInput extends ProgramInput {
  /** What it reads; without it standard input is empty. */
  readonly input?: string | Uint8Array;
  readonly deadlineMs: number;
  /** Standard output beyond this ends the program with kind `output`. Default 16 MiB. */
  readonly maxOutputBytes?: number;
  /** `all` (default), or `ends`: lines, redacted, head and tail only, never too much. */
  readonly keepStdout?: 'all' | 'ends';
  /** Each line of either stream, redacted, without its newline. */
  readonly onLine?: ((stream: OutputStream, line: string) => void) | undefined;
}

export interface RunOutput<Text extends string | Uint8Array = string> {
  /** -1 when it was ended by a signal. */
  readonly exitCode: number;
  /** As printed: NOT redacted (except with `keepStdout: 'ends'`). */
  readonly stdout: Text;
  /** Redacted; head and tail when long. */
  readonly stderr: string;
  readonly signal: string | null;
  readonly durationMs: number;
}

export interface Run {
  /** Standard output as bytes. */
  (input: RunInput & { readonly encoding: 'buffer' }): Promise<RunOutput<Uint8Array>>;
  /** Standard output as UTF-8 text. */
  (input: RunInput): Promise<RunOutput>;
}

type AnyRunInput = RunInput & { readonly encoding?: 'buffer' };

/** Runs one program to its end. Throws ProcessError, or what `onLine` threw. */
export const run: Run = async (input: AnyRunInput): Promise<never> => {
  const startedAt = performance.now();
  const stderr = new EndsKeeper(MAX_STDERR_LENGTH);
  const fail = failureOf(input, startedAt, () => stderr.text());
  if (input.signal?.aborted) throw fail('cancelled', input.signal.reason);

  const child = start(input, input.input === undefined ? 'ignore' : 'pipe');
  let ended: Promise<void> | undefined;
  let endedFor: ProcessErrorKind | undefined;
  const end = (kind: ProcessErrorKind): void => {
    if (endedFor !== undefined || child.pid === undefined) return;
    endedFor = kind;
    ended = endGroup(child.pid, input.graceMs ?? DEFAULT_GRACE_MS);
  };
  const onAbort = (): void => end('cancelled');
  // A mistake in a listener belongs to who called, not to the stream that it was called from: there it would end us all.
  let mistake: { readonly error: unknown } | undefined;
  const onLine = (stream: OutputStream, line: string): void => {
    try {
      input.onLine?.(stream, line);
    } catch (error) {
      mistake ??= { error };
      end('cancelled');
    }
  };
  const deadline = setTimeout(() => end('deadline'), input.deadlineMs);
  input.signal?.addEventListener('abort', onAbort, { once: true });

  try {
    const stdout = collectStdout(child.stdout, input, onLine, () => end('output'));
    const stderrLines = new LineSplitter(redactor, (line) => {
      stderr.add(line);
      onLine('stderr', line);
    });
    child.stderr.on('data', (chunk: Uint8Array) => stderrLines.write(chunk));
    if (input.input !== undefined) child.stdin?.end(input.input);

    const exit = await child.exited;
    if (exit.error !== undefined) throw fail(startFailureKind(exit.error, input.cwd), exit.error);
    await drain(child);
    await ended;
    stderrLines.end();
    stdout.end();
    if (mistake !== undefined) throw mistake.error;
    if (endedFor !== undefined) throw fail(endedFor, endedFor === 'cancelled' ? input.signal?.reason : undefined);
    return {
      exitCode: exit.exitCode,
      stdout: stdout.value(),
      stderr: stderr.text(),
      signal: exit.signal,
      durationMs: performance.now() - startedAt,
    } as never;
  } finally {
    clearTimeout(deadline);
    input.signal?.removeEventListener('abort', onAbort);
    child.release();
  }
};

export interface StreamedChild {
  readonly pid: number;
  readonly stdin: Writable;
  /**
   * Paused: read it by `for await`, `pipe` or `readable` events, or call `resume()` after adding a `data` listener.
   * Back-pressure is the bound: what nobody reads stays in the pipe. NOT redacted.
   */
  readonly stdout: Readable;
  /** Head and tail of what it has said so far, redacted. */
  stderr(): string;
  /** Never rejects. */
  readonly exited: Promise<{ readonly exitCode: number; readonly signal: string | null }>;
  /** Ends it and all that it started; resolves when they are gone. */
  kill(): Promise<void>;
}

/** Starts a program that lives on, with open streams. Throws ProcessError when it cannot be started. */
export async function spawnStream(input: ProgramInput): Promise<StreamedChild> {
  const startedAt = performance.now();
  const stderr = new EndsKeeper(MAX_STDERR_LENGTH);
  const fail = failureOf(input, startedAt, () => stderr.text());
  if (input.signal?.aborted) throw fail('cancelled', input.signal.reason);
  const child = start(input, 'pipe');
  const { pid } = child;
  if (pid === undefined) {
    const { error } = await child.exited;
    throw fail(startFailureKind(error, input.cwd), error);
  }
  const lines = new LineSplitter(redactor, (line) => stderr.add(line));
  child.stderr.on('data', (chunk: Uint8Array) => lines.write(chunk));
  // Whoever writes learns of a dead child from `exited`; an unheard EPIPE would end our own process.
  child.stdin?.on('error', () => {});
  child.stdout.on('error', () => {});
  // Otherwise execa would start to throw the output away when nobody reads it in the first moment.
  child.stdout.pause();
  const kill = async (): Promise<void> => {
    await endGroup(pid, input.graceMs ?? DEFAULT_GRACE_MS);
    await exited;
  };
  const onAbort = (): void => void kill();
  input.signal?.addEventListener('abort', onAbort, { once: true });
  const exited = child.exited.then(({ exitCode, signal }) => {
    input.signal?.removeEventListener('abort', onAbort);
    lines.end();
    child.release();
    return { exitCode, signal };
  });
  return { pid, stdin: child.stdin!, stdout: child.stdout, stderr: () => stderr.text(), exited, kill };
}

/** The two ways of starting a program, to be handed to adapters so that tests may put something else in their place. */
export interface Programs {
  readonly run: Run;
  readonly spawnStream: typeof spawnStream;
}

interface Started {
  readonly pid: number | undefined;
  readonly stdin: Writable | null;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly closed: Promise<void>;
  readonly exited: Promise<{ exitCode: number; signal: string | null; error?: NodeJS.ErrnoException }>;
  release(): void;
}

function start(input: ProgramInput, stdin: 'ignore' | 'pipe'): Started {
  const child = execa(input.program, [...input.args], {
    cwd: input.cwd,
    env: { ...input.env },
    extendEnv: false,
    shell: false,
    stdin,
    stdout: 'pipe',
    stderr: 'pipe',
    buffer: false,
    encoding: 'buffer',
    reject: false,
    // Its own group, so that what it starts can be ended with it; ending is ours then, also when we exit.
    detached: true,
    cleanup: false,
  });
  const { pid } = child;
  if (pid !== undefined) {
    adoptGroup(pid);
    input.onStart?.(pid);
  }
  const closed = new Promise<void>((resolve) => {
    void child.then(
      () => resolve(),
      () => resolve(),
    );
  });
  const exited = new Promise<{ exitCode: number; signal: string | null; error?: NodeJS.ErrnoException }>((resolve) => {
    child.nodeChildProcess.once('exit', (code: number | null, signal: string | null) =>
      resolve({ exitCode: code ?? -1, signal }),
    );
    if (pid === undefined) {
      void child.then((result) => resolve({ exitCode: -1, signal: null, error: startError(result) }));
    }
  });
  return {
    pid,
    stdin: child.stdin ?? null,
    stdout: child.stdout,
    stderr: child.stderr,
    closed,
    exited,
    release: () => {
      if (pid !== undefined) releaseGroup(pid);
    },
  };
}

function startError(result: object): NodeJS.ErrnoException {
  const cause = 'cause' in result ? result.cause : undefined;
  return cause instanceof Error ? cause : new Error('it could not be started');
}

/** Waits until the pipes are closed; ends leftovers of the group that still hold them. */
async function drain(child: Started): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), DRAIN_MS);
  });
  const first = await Promise.race([child.closed, late]);
  clearTimeout(timer);
  if (child.pid === undefined) return;
  signalGroup(child.pid, 'SIGKILL');
  if (first !== 'late') return;
  // Somebody who left the group may still hold the pipes: we do not read on for them.
  await Promise.race([child.closed, new Promise((resolve) => setTimeout(resolve, 100))]);
  child.stdout.destroy();
  child.stderr.destroy();
}

interface Collector {
  end(): void;
  value(): string | Uint8Array;
}

function collectStdout(
  stream: Readable,
  input: AnyRunInput,
  onLine: (stream: OutputStream, line: string) => void,
  onTooMuch: () => void,
): Collector {
  const keepAll = input.keepStdout !== 'ends';
  const maxBytes = input.maxOutputBytes ?? DEFAULT_MAX_OUTPUT_BYTES;
  const chunks: Uint8Array[] = [];
  const ends = new EndsKeeper(maxBytes);
  let sizeBytes = 0;
  const lines =
    keepAll && input.onLine === undefined
      ? null
      : new LineSplitter(redactor, (line) => {
          if (!keepAll) ends.add(line);
          onLine('stdout', line);
        });
  stream.on('data', (chunk: Uint8Array) => {
    lines?.write(chunk);
    if (!keepAll) return;
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) {
      chunks.length = 0;
      onTooMuch();
      return;
    }
    chunks.push(chunk);
  });
  return {
    end: () => lines?.end(),
    value: () => {
      if (!keepAll) return input.encoding === 'buffer' ? Buffer.from(ends.text()) : ends.text();
      const bytes = Buffer.concat(chunks);
      return input.encoding === 'buffer' ? bytes : bytes.toString('utf8');
    },
  };
}

const WORDS: Readonly<Record<ProcessErrorKind, (input: ProgramInput & { deadlineMs?: number }) => string>> = {
  missing: () => 'no such program is in PATH',
  refused: () => 'it could not be started',
  directory: (input) => `its working directory ${input.cwd} is not there`,
  deadline: (input) => `it did not end within ${input.deadlineMs} ms and was ended`,
  cancelled: () => 'it was called off',
  output: () => 'it printed more than it may and was ended',
};

function failureOf(input: ProgramInput, startedAt: number, stderr: () => string) {
  return (kind: ProcessErrorKind, cause?: unknown): ProcessError => {
    const words = cause instanceof Error && kind === 'refused' ? `: ${cause.message}` : '';
    return new ProcessError(
      kind,
      redactor.redact(`${input.program}: ${WORDS[kind](input)}${words}`),
      {
        program: redactor.redact(input.program),
        args: input.args.map((arg) => redactor.redact(arg)),
        stderr: stderr(),
        durationMs: performance.now() - startedAt,
      },
      // The error of execa holds arguments and environment in clear; only an abort reason is handed on.
      kind === 'cancelled' ? cause : undefined,
    );
  };
}

function startFailureKind(error: NodeJS.ErrnoException | undefined, cwd: string): ProcessErrorKind {
  if (error?.code !== 'ENOENT') {
    return error?.code === 'ENOTDIR' && !isDirectory(cwd) ? 'directory' : 'refused';
  }
  return isDirectory(cwd) ? 'missing' : 'directory';
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
