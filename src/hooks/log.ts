// Log: what an action printed: redacted, bounded at its head and its tail, however much comes. Signals are read from the same lines.
import { MAX_OUTPUTS, readSignal } from '../core/hook/signal.ts';
import type { LogLine } from '../ports/runtime.ts';

const MAX_LINES = 2_000;
const MAX_BYTES = 256 * 1024;
const MAX_LINE_LENGTH = 4 * 1024;
const TAIL_LINES = 20;
const TAIL_LINE_LENGTH = 300;
/** Lines on either side of a cut over which a secret may go on. */
const OVERLAP = 50;

export class ActionLog {
  readonly #redact: (text: string) => string;
  #head: string[] = [];
  #headBytes = 0;
  #tail: string[] = [];
  #tailBytes = 0;
  #dropped = 0;
  #headIsFull = false;
  readonly #outputs = new Map<string, string>();
  #halted = false;
  #refusal: string | null = null;

  constructor(redact: (text: string) => string) {
    this.#redact = redact;
  }

  /** A line of the work itself: it may be a signal. */
  readonly take = (line: LogLine): void => {
    const signal = readSignal(line.text);
    this.note(line.text);
    if (signal?.kind === 'halt') this.#halted = true;
    if (signal?.kind === 'unknown') this.note(`(not a signal that Windlass knows: ${signal.summary})`);
    if (signal?.kind !== 'set') return;
    // Outputs rest in the state in clear.
    if (this.#redact(signal.value) !== signal.value)
      this.#refusal = `the output ${signal.name} holds a secret: keep secrets in the vault`;
    else if (!this.#outputs.has(signal.name) && this.#outputs.size >= MAX_OUTPUTS)
      this.#refusal = `more than ${MAX_OUTPUTS} outputs`;
    else this.#outputs.set(signal.name, signal.value);
  };

  /** A line of ours. */
  note(text: string): void {
    const clean = this.#redact(text);
    for (const line of clean.split('\n'))
      this.#keep(line.length > MAX_LINE_LENGTH ? `${line.slice(0, MAX_LINE_LENGTH)} … [line cut]` : line);
  }

  /** The work begins anew, or is read anew from its beginning: what it signalled before does not count. */
  forgetSignals(): void {
    this.#outputs.clear();
    this.#halted = false;
    this.#refusal = null;
  }

  get outputs(): Readonly<Record<string, string>> {
    return Object.fromEntries(this.#outputs);
  }

  get isHalted(): boolean {
    return this.#halted;
  }

  /** Why its outputs cannot be taken; null when they can. */
  get refusal(): string | null {
    return this.#refusal;
  }

  text(): string {
    this.#compact();
    const middle = this.#dropped > 0 ? [`… [${this.#dropped} lines left out]`] : [];
    // As a whole once more: what is secret may go on in the next line, or have become known after it was printed.
    return this.#redact([...this.#head, ...middle, ...this.#tail].join('\n'));
  }

  tail(): readonly string[] {
    const text = this.text();
    if (text === '') return [];
    const lines = text.split('\n').slice(-TAIL_LINES);
    return lines.map((line) => line.slice(0, TAIL_LINE_LENGTH));
  }

  #keep(line: string): void {
    const bytes = Buffer.byteLength(line) + 1;
    if (!this.#headIsFull) {
      if (this.#head.length < MAX_LINES / 2 && this.#headBytes + bytes <= MAX_BYTES / 2) {
        this.#head.push(line);
        this.#headBytes += bytes;
        return;
      }
      this.#headIsFull = true;
    }
    this.#tail.push(line);
    this.#tailBytes += bytes;
    // Rarely: shifting a long list at every line would cost more than the lines.
    if (this.#tail.length > MAX_LINES || this.#tailBytes > MAX_BYTES) this.#compact();
  }

  #compact(): void {
    let from = 0;
    while (this.#tail.length - from > MAX_LINES / 2 || this.#tailBytes > MAX_BYTES / 2) {
      this.#tailBytes -= Buffer.byteLength(this.#tail[from] ?? '') + 1;
      from++;
    }
    if (from === 0) return;
    // While both of its parts are there: half of a secret is not known for one.
    if (this.#dropped === 0) [this.#head, this.#tail] = this.#hidden(this.#head, this.#tail);
    [, this.#tail] = this.#hidden(this.#tail.slice(0, from), this.#tail.slice(from));
    this.#tailBytes = this.#tail.reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0);
    this.#dropped += from;
  }

  /** What goes on from one part into the next is hidden in both. */
  #hidden(before: readonly string[], after: readonly string[]): [string[], string[]] {
    const near = before.slice(-OVERLAP);
    const clean = this.#redact([...near, ...after.slice(0, OVERLAP)].join('\n')).split('\n');
    return [
      [...before.slice(0, before.length - near.length), ...clean.slice(0, near.length)],
      [...clean.slice(near.length), ...after.slice(OVERLAP)],
    ];
  }
}
