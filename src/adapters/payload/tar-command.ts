// Tar command: the one argument list that makes equal tars of equal trees, the one that extracts them, and what GNU tar's exit code
// and complaints mean. Whatever it could not read makes the capture fail; a warning that is not known here does too.
import { finished } from 'node:stream/promises';
import { Fault, type FaultData } from '../../core/fault.ts';
import { aborted } from '../compose/api-client.ts';
import type { StreamedChild } from '../process/run.ts';
import { leave, moving, within } from './stall.ts';

export const TAR_ENVIRONMENT = { LC_ALL: 'C' } as const;

export function createArguments(directory: string, exclude: readonly string[]): readonly string[] {
  return [
    '--create',
    '--file=-',
    `--directory=${directory}`,
    '--sort=name',
    '--numeric-owner',
    '--format=posix',
    // Without the process id that the default puts into these names; times of reading are no property of the data.
    '--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime',
    '--xattrs',
    '--xattrs-include=*',
    '--acls',
    '--sparse',
    '--sparse-version=0.0',
    '--anchored',
    '--wildcards',
    '--no-wildcards-match-slash',
    ...exclude.map((pattern) => `--exclude=./${pattern.replace(/^(?:\.?\/)+/, '').replace(/\/+$/, '')}`),
    '.',
  ];
}

export function extractArguments(directory: string): readonly string[] {
  return [
    '--extract',
    '--file=-',
    `--directory=${directory}`,
    '--numeric-owner',
    '--same-owner',
    '--same-permissions',
    '--xattrs',
    '--xattrs-include=*',
    '--acls',
    // A clock that runs behind is no failure.
    '--warning=no-timestamp',
  ];
}

export interface ReadTarOptions {
  readonly signal: AbortSignal;
  readonly allowChanging: boolean;
  /** What is read, for messages. */
  readonly what: string;
  readonly stallMs: number;
  readonly onNotCaptured: (words: string) => void;
  /** Told while nothing comes, before it is given up. */
  readonly onStill?: ((words: string) => void) | undefined;
}

/** The plain tar that `child` prints; its end is a whole one. Left early or failed, the child is ended before it returns. */
export async function* readTar(child: StreamedChild, options: ReadTarOptions): AsyncGenerator<Buffer> {
  let isOver = false;
  try {
    child.stdin.end();
    const still = `the reading of ${options.what} stood still`;
    yield* moving(child.stdout as AsyncIterable<Buffer>, options.stallMs, still, options.onStill);
    const { exitCode } = await within(child.exited, options.stallMs, still, options.onStill);
    isOver = true;
    if (options.signal.aborted) throw aborted(options.signal);
    judgeRead(exitCode, child.stderr(), options);
  } finally {
    if (!isOver) await leave(child.kill());
  }
}

export interface WriteTarOptions {
  readonly signal: AbortSignal;
  /** What is written, for messages. */
  readonly what: string;
  /** The folder that it lies in, for whoever has to make room there. */
  readonly folder: string;
  readonly stallMs: number;
}

/** Feeds a plain tar to `child`. The source's own error goes first. */
export async function writeTar(
  child: StreamedChild,
  bytes: AsyncIterable<Uint8Array>,
  options: WriteTarOptions,
): Promise<void> {
  const still = `the writing of ${options.what} stood still`;
  let isOver = false;
  child.stdout.resume();
  try {
    for await (const chunk of bytes) {
      if (child.stdin.destroyed) break;
      if (!child.stdin.write(chunk)) await within(drained(child), options.stallMs, still);
    }
    child.stdin.end();
    await within(
      // How the process ended says why it took no more.
      finished(child.stdin).catch(() => {}),
      options.stallMs,
      still,
    );
    const { exitCode } = await within(child.exited, options.stallMs, still);
    isOver = true;
    if (options.signal.aborted) throw aborted(options.signal);
    const complaints = linesOf(child.stderr());
    if (exitCode !== 0 || complaints.length > 0) {
      const full = complaints.filter((line) => isOfRoom(line));
      if (full.length > 0) throw noRoom(options, shown(full, exitCode), { exitCode, complaints: full.slice(0, 20) });
      throw new Fault('PAYLOAD_FAILED', `${options.what} could not be written: ${shown(complaints, exitCode)}`, {
        data: { exitCode, complaints: complaints.slice(0, 20) },
      });
    }
  } finally {
    if (!isOver) await leave(child.kill());
  }
}

/** Until it takes more, or is gone. */
function drained({ stdin, exited }: StreamedChild): Promise<unknown> {
  if (!stdin.writableNeedDrain || stdin.destroyed) return Promise.resolve();
  return new Promise<void>((resolve) => {
    const go = (): void => {
      stdin.off('drain', go).off('close', go);
      resolve();
    };
    stdin.on('drain', go).on('close', go);
    void exited.then(go);
  });
}

/** At the end of a line: what is before may be the name of a file. A write that took only a part met the end of a disk, a quota or a limit. */
const OF_ROOM = [/: (?:no space left on device|disk quota exceeded)\.?$/i, /: Wrote only \d+ of \d+ bytes$/];
export const isOfRoom = (line: string): boolean => OF_ROOM.some((pattern) => pattern.test(line.trimEnd()));

export const noRoom = (
  { what, folder }: Pick<WriteTarOptions, 'what' | 'folder'>,
  words: string,
  data: FaultData = {},
): Fault =>
  new Fault('PAYLOAD_NO_SPACE', `${what} could not be written: there is no room left at ${folder}: ${words}`, { data });

const IGNORED_SOCKET = /^tar: (.*): socket ignored$/;
const CHANGED = /^tar: (.*): file changed as we read it$/;
const SUMMARY = /^tar: Exiting with failure status due to previous errors$/;

function judgeRead(exitCode: number, stderr: string, options: ReadTarOptions): void {
  const complaints = linesOf(stderr).filter((line) => !SUMMARY.test(line));
  const changed = complaints.filter((line) => CHANGED.test(line));
  const others = complaints.filter((line) => !CHANGED.test(line) && !IGNORED_SOCKET.test(line));
  const data = { exitCode, complaints: complaints.slice(0, 20) };
  const isExpected = exitCode === 0 || (exitCode === 1 && changed.length > 0);
  if (!isExpected || others.length > 0) {
    throw new Fault('PAYLOAD_FAILED', `${options.what} could not be read as a whole: ${shown(others, exitCode)}`, {
      data,
    });
  }
  if (changed.length > 0 && !options.allowChanging) {
    throw new Fault('PAYLOAD_CHANGED', `${options.what} changed while it was read: ${shown(changed, exitCode)}`, {
      data,
    });
  }
  for (const line of complaints) {
    const socket = IGNORED_SOCKET.exec(line)?.[1];
    if (socket !== undefined) options.onNotCaptured(`socket ${socket.replace(/^\.\//, '')}`);
  }
}

const linesOf = (text: string): string[] => text.split('\n').filter((line) => line.trim() !== '');

function shown(lines: readonly string[], exitCode: number): string {
  if (lines.length === 0) return `tar ended with exit code ${exitCode}`;
  const more = lines.length > 3 ? ` (and ${lines.length - 3} more)` : '';
  return `${lines.slice(0, 3).join('; ')}${more}`;
}
