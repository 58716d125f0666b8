// Behaviour: what the program in a simulated container does once it is started: serve, end, get healthy or never. Told by the
// test, or read from the few shell words that tests use in commands.
import type { LogLine } from '../../ports/runtime.ts';

export type Behaviour =
  /** Runs until it is stopped; with a healthcheck it is healthy after `readyMs` (default 500). */
  | { readonly kind: 'serve'; readonly readyMs?: number }
  /** Ends by itself; what comes then is up to its restart policy. */
  | { readonly kind: 'exit'; readonly code: number; readonly afterMs?: number }
  /** Runs; with a healthcheck it is unhealthy after `afterMs` (default 500). */
  | { readonly kind: 'unhealthy'; readonly afterMs?: number }
  /** The engine cannot start it. */
  | { readonly kind: 'refuse'; readonly message: string };

export const behaviours = {
  serve: { kind: 'serve' },
  exit0: { kind: 'exit', code: 0, afterMs: 100 },
  exit1: { kind: 'exit', code: 1, afterMs: 100 },
  /** With a restart policy it loops, without one it is down after the first try. */
  crashLoop: { kind: 'exit', code: 1, afterMs: 100 },
  unhealthy: { kind: 'unhealthy' },
  slowStart: (readyMs: number): Behaviour => ({ kind: 'serve', readyMs }),
} as const;

export interface Script {
  readonly lines: readonly { readonly atMs: number; readonly line: LogLine }[];
  /** Null: it goes on for ever. */
  readonly end: { readonly atMs: number; readonly code: number } | null;
}

const forever: Script = { lines: [], end: null };

/** `sh -c` (and `sh -e -c`) with echo, sleep, exit, true and false; `sleep N`; anything else serves. */
export function readScript(command: readonly string[]): Script {
  const [program = '', ...rest] = command;
  const name = program.split('/').at(-1) ?? '';
  const told = rest.indexOf('-c');
  if (name === 'sh' && told >= 0) return readShell(rest[told + 1] ?? '');
  if (name === 'sleep' || name === 'echo' || name === 'true' || name === 'false')
    return readShell([name, ...rest].join(' '));
  return forever;
}

function readShell(text: string): Script {
  const lines: { atMs: number; line: LogLine }[] = [];
  let atMs = 0;
  let code = 0;
  for (const part of text.split(/;|&&|\n/)) {
    const [word = '', ...rest] = part.trim().split(/\s+/);
    switch (word) {
      case '':
      case 'trap':
        break;
      case 'echo': {
        const isError = rest.at(-1) === '>&2';
        const said = (isError ? rest.slice(0, -1) : rest).join(' ').replace(/^(["'])(.*)\1$/, '$2');
        lines.push({ atMs, line: { stream: isError ? 'stderr' : 'stdout', text: said } });
        code = 0;
        break;
      }
      case 'sleep':
        if (rest[0] === 'infinity') return { lines, end: null };
        atMs += Math.round(Number(rest[0]) * 1000) || 0;
        code = 0;
        break;
      case 'true':
      case 'false':
        code = word === 'true' ? 0 : 1;
        break;
      case 'exit':
        return { lines, end: { atMs, code: Number(rest[0] ?? code) } };
      default:
        return { lines, end: null };
    }
  }
  return { lines, end: { atMs, code } };
}
