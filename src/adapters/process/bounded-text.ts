// Keeps the first and the last lines of a stream within a byte budget, and hands out whole lines, redacted.
// A line that is too long is cut after redaction, so that no cut ever halves a secret.
import { StringDecoder } from 'node:string_decoder';
import type { Redactor } from './redact.ts';

const MAX_LINE_LENGTH = 16 * 1024;

/** Splits chunks into lines; each is redacted before anyone sees it. */
export class LineSplitter {
  readonly #decoder = new StringDecoder('utf8');
  readonly #redactor: Redactor;
  readonly #onLine: (line: string) => void;
  #pending = '';
  #overlong = false;

  constructor(redactor: Redactor, onLine: (line: string) => void) {
    this.#redactor = redactor;
    this.#onLine = onLine;
  }

  write(chunk: Uint8Array): void {
    const lines = this.#decoder.write(chunk).split('\n');
    for (let at = 0; at < lines.length; at += 1) {
      this.#append(lines[at]!);
      if (at < lines.length - 1) this.#flush();
    }
  }

  end(): void {
    this.#append(this.#decoder.end());
    if (this.#pending !== '') this.#flush();
  }

  #append(text: string): void {
    // Enough beyond the visible part to recognise a secret that starts inside it.
    const room = MAX_LINE_LENGTH + this.#redactor.longest - this.#pending.length;
    if (text.length > room) this.#overlong = true;
    if (room > 0) this.#pending += text.slice(0, room);
  }

  #flush(): void {
    const text = this.#redactor.redact(this.#pending.endsWith('\r') ? this.#pending.slice(0, -1) : this.#pending);
    const cut = this.#overlong || text.length > MAX_LINE_LENGTH;
    this.#pending = '';
    this.#overlong = false;
    this.#onLine(cut ? `${text.slice(0, MAX_LINE_LENGTH)} … [line cut]` : text);
  }
}

/** The head and the tail of a text that may be endless. */
export class EndsKeeper {
  readonly #maxHalf: number;
  readonly #head: string[] = [];
  #headLength = 0;
  #tail: string[] = [];
  #tailLength = 0;
  #dropped = 0;

  constructor(maxLength: number) {
    this.#maxHalf = Math.max(1, Math.floor(maxLength / 2));
  }

  add(line: string): void {
    if (this.#tail.length === 0 && this.#dropped === 0 && this.#headLength + line.length <= this.#maxHalf) {
      this.#head.push(line);
      this.#headLength += line.length + 1;
      return;
    }
    this.#tail.push(line);
    this.#tailLength += line.length + 1;
    // Compact rarely: shifting a long array at every line would cost more than the lines.
    if (this.#tailLength > this.#maxHalf * 2) this.#compact();
  }

  text(): string {
    this.#compact();
    const middle = this.#dropped > 0 ? [`… [${this.#dropped} lines left out]`] : [];
    return [...this.#head, ...middle, ...this.#tail].join('\n');
  }

  #compact(): void {
    let from = 0;
    while (this.#tailLength > this.#maxHalf && from < this.#tail.length - 1) {
      this.#tailLength -= this.#tail[from]!.length + 1;
      from += 1;
    }
    if (from === 0) return;
    this.#dropped += from;
    this.#tail = this.#tail.slice(from);
  }
}
