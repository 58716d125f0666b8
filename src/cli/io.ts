// Io: data to stdout, words to stderr, colour only for a person's terminal. A closed pipe ends the words, not the work.
import { createInterface } from 'node:readline/promises';
import { styleText } from 'node:util';

export type Style = 'bold' | 'red' | 'green' | 'yellow' | 'dim' | 'cyan';

export class Io {
  readonly #out: NodeJS.WriteStream;
  readonly #err: NodeJS.WriteStream;
  readonly #in: NodeJS.ReadStream;
  readonly #colour: boolean;

  constructor(streams: {
    readonly out: NodeJS.WriteStream;
    readonly err: NodeJS.WriteStream;
    readonly in: NodeJS.ReadStream;
  }) {
    this.#out = streams.out;
    this.#err = streams.err;
    this.#in = streams.in;
    this.#colour = Boolean(streams.out.isTTY) && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb';
    for (const stream of [streams.out, streams.err])
      stream.on('error', (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EPIPE') throw error;
      });
  }

  get interactive(): boolean {
    return Boolean(this.#in.isTTY) && Boolean(this.#err.isTTY);
  }

  get errStream(): NodeJS.WriteStream {
    return this.#err;
  }

  get width(): number {
    return this.#out.columns ?? 100;
  }

  data(text: string): void {
    this.#out.write(`${text}\n`);
  }

  json(value: unknown): void {
    this.data(JSON.stringify(value, null, 2));
  }

  words(text: string): void {
    this.#err.write(`${text}\n`);
  }

  paint(style: Style, text: string): string {
    return this.#colour ? styleText(style, text) : text;
  }

  /** Asks on the terminal; only `y` and `yes` are yes. */
  async confirm(question: string, signal: AbortSignal): Promise<boolean> {
    const lines = createInterface({ input: this.#in, output: this.#err });
    try {
      return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `, { signal })).trim());
    } catch {
      return false;
    } finally {
      lines.close();
    }
  }
}
