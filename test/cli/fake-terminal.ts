// The command line in one process: streams in memory, a simulated house behind it.
import { PassThrough } from 'node:stream';
import { type CliOptions, runCli } from '../../src/cli/cli.ts';
import { Io } from '../../src/cli/io.ts';
import { Surface } from '../../src/surface.ts';
import type { SimHouse } from '../sim/sim-house.ts';

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface TerminalOptions {
  /** stdout and stderr are a terminal, stdin too when `answer` is given. */
  readonly tty?: boolean;
  /** What the person types at the first question; '' = end of input. */
  readonly answer?: string;
  /** What is piped in; stdin is no terminal then. */
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly redact?: (text: string) => string;
  readonly stop?: AbortSignal;
  readonly bundled?: Readonly<Record<string, string>>;
  readonly clone?: CliOptions['clone'];
}

class Sink extends PassThrough {
  readonly isTTY: boolean;
  readonly columns = 120;
  readonly rows = 40;
  text = '';
  constructor(isTTY: boolean) {
    super();
    this.isTTY = isTTY;
    this.on('data', (chunk: Buffer) => {
      this.text += chunk.toString();
    });
  }
}

/** `sim` null = nothing may be opened. */
export async function windlass(
  sim: SimHouse | null,
  argv: readonly string[],
  options: TerminalOptions = {},
): Promise<Ran> {
  const out = new Sink(options.tty ?? false);
  const err = new Sink(options.tty ?? false);
  const input = Object.assign(new PassThrough(), { isTTY: options.answer !== undefined });
  if (options.answer !== undefined) {
    if (options.answer === '') input.end();
    else input.write(`${options.answer}\n`);
  }
  if (options.input !== undefined) input.end(options.input);
  const io = new Io(
    {
      out: out as unknown as NodeJS.WriteStream,
      err: err as unknown as NodeJS.WriteStream,
      in: input as unknown as NodeJS.ReadStream,
    },
    { env: options.env ?? {}, ...(options.redact ? { redact: options.redact } : {}) },
  );
  const work = runCli({
    io,
    argv,
    open: async () => {
      if (sim === null) throw new Error('this command must not open anything');
      return { surface: new Surface(sim.house), close: async () => {} };
    },
    bundled: async () => options.bundled ?? {},
    ...(options.clone ? { clone: options.clone } : {}),
    stop: options.stop ?? new AbortController().signal,
    now: new AbortController().signal,
  });
  const code = await (sim === null ? work : sim.run(work));
  await new Promise((resolve) => setImmediate(resolve));
  return { code, out: out.text, err: err.text };
}
