// Io: data to stdout, words to stderr, each redacted, each in colour only for a person's terminal. A closed pipe is quiet.
import { createInterface } from 'node:readline/promises';
import { styleText } from 'node:util';
import { type HiddenInput, readHidden } from './hidden-input.ts';

export type Style = 'bold' | 'red' | 'green' | 'yellow' | 'dim' | 'cyan';

export interface Painter {
  paint(style: Style, text: string): string;
}

export interface Streams {
  readonly out: NodeJS.WriteStream;
  readonly err: NodeJS.WriteStream;
  readonly in: NodeJS.ReadStream;
}

export interface IoOptions {
  readonly redact?: (text: string) => string;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** What may reach a terminal beside printable text: line breaks, tabs and the few styles that `paint` makes. Foreign text could move the
 * cursor, hide a line of a plan or turn its reading order round otherwise. */
const ESCAPES =
  /\u001b\[(?:0|1|2|22|3[1-6]|39)m|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const forPeople = (text: string): string => text.replace(ESCAPES, (found) => (found.length > 1 ? found : ''));

export class Io implements Painter {
  /** Paints what goes to `words`; `paint` itself is for `data`. */
  readonly inWords: Painter;
  /** Aborted when nobody reads the data any more. */
  readonly closed: AbortSignal;
  readonly #out: NodeJS.WriteStream;
  readonly #err: NodeJS.WriteStream;
  readonly #in: NodeJS.ReadStream;
  readonly #redact: (text: string) => string;
  readonly #colour: { readonly out: boolean; readonly err: boolean };
  readonly #gone = new Set<NodeJS.WriteStream>();

  constructor(streams: Streams, { redact = (text) => text, env = process.env }: IoOptions = {}) {
    this.#out = streams.out;
    this.#err = streams.err;
    this.#in = streams.in;
    this.#redact = redact;
    const wanted = !env['NO_COLOR'] && env['TERM'] !== 'dumb';
    this.#colour = { out: wanted && Boolean(streams.out.isTTY), err: wanted && Boolean(streams.err.isTTY) };
    this.inWords = { paint: (style, text) => colour(this.#colour.err, style, text) };
    const closed = new AbortController();
    this.closed = closed.signal;
    for (const stream of [streams.out, streams.err])
      stream.on('error', (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EPIPE' && error.code !== 'ERR_STREAM_DESTROYED') throw error;
        this.#gone.add(stream);
        if (stream === streams.out) closed.abort();
      });
  }

  /** Somebody is there to answer a question. */
  get interactive(): boolean {
    return Boolean(this.#in.isTTY) && Boolean(this.#err.isTTY);
  }

  /** Columns of the terminal that gets the data; without one nothing is cut. */
  get width(): number {
    return this.#out.isTTY ? (this.#out.columns ?? 100) : Number.POSITIVE_INFINITY;
  }

  /** Where rows may be drawn over and over; null when stderr is no terminal. */
  get screen(): { write(text: string): void; readonly columns: number; readonly rows: number } | null {
    const stream = this.#err;
    if (!stream.isTTY) return null;
    return {
      write: (text) => {
        if (!this.#gone.has(stream)) stream.write(this.#redact(text));
      },
      get columns() {
        return stream.columns ?? 80;
      },
      get rows() {
        return stream.rows ?? 24;
      },
    };
  }

  data(text: string): void {
    this.#write(this.#out, text);
  }

  json(value: unknown): void {
    this.data(JSON.stringify(this.#clean(value), null, 2));
  }

  /** One line a value, for streams. */
  jsonLine(value: unknown): void {
    this.data(JSON.stringify(this.#clean(value)));
  }

  words(text: string): void {
    this.#write(this.#err, text);
  }

  /** Around the redaction: for what a person asked to see by `--reveal`, and for what is sealed. */
  reveal(text: string): void {
    if (!this.#gone.has(this.#out)) this.#out.write(`${text}\n`);
  }

  /** A secret from the input; a person is asked and types it unseen. */
  hidden(options: HiddenInput): Promise<Buffer> {
    return readHidden(this.#in, (text) => this.#err.write(text), options);
  }

  paint(style: Style, text: string): string {
    return colour(this.#colour.out, style, text);
  }

  /** Asks on the terminal; only `y` and `yes` are yes, an end of the input is no. */
  async confirm(question: string, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    const lines = createInterface({ input: this.#in, output: this.#err });
    const no = new AbortController();
    const onAbort = (): void => no.abort();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await new Promise<boolean>((resolve) => {
        const refuse = (): void => resolve(false);
        lines.once('close', refuse);
        lines.once('SIGINT', refuse);
        no.signal.addEventListener('abort', refuse, { once: true });
        lines
          .question(`${question} [y/N] `, { signal: no.signal })
          .then((answer) => resolve(/^y(es)?$/i.test(answer.trim())), refuse);
      });
    } finally {
      signal.removeEventListener('abort', onAbort);
      lines.close();
    }
  }

  #write(stream: NodeJS.WriteStream, text: string): void {
    if (this.#gone.has(stream)) return;
    const clean = this.#redact(text);
    // Words are for people wherever they go; data in a pipe is as it is.
    stream.write(`${stream.isTTY || stream === this.#err ? forPeople(clean) : clean}\n`);
  }

  /** Redacts strings before they are escaped: a secret with a quote in it would not be found afterwards. */
  #clean(value: unknown): unknown {
    if (typeof value === 'string') return this.#redact(value);
    if (Array.isArray(value)) return value.map((one) => this.#clean(one));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.#clean(one)]));
  }
}

const colour = (on: boolean, style: Style, text: string): string =>
  on ? styleText(style, text, { validateStream: false }) : text;
