// Lines: byte streams of the engine cut into bounded lines, with or without the engine's frames of two mixed streams.
// Nothing here grows without limit, whatever the other side sends.
import type { LogLine } from '../../ports/runtime.ts';

export const longestLineBytes = 64 * 1024;

/** Cuts text at line feeds; a line above the limit is cut short and its rest dropped. */
export class LineCutter {
  readonly #maxBytes: number;
  #parts: Buffer[] = [];
  #size = 0;
  #cut = false;

  constructor(maxBytes = longestLineBytes) {
    this.#maxBytes = maxBytes;
  }

  push(chunk: Buffer): { readonly text: string; readonly cut: boolean }[] {
    const lines: { text: string; cut: boolean }[] = [];
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(0x0a, from);
      this.#keep(end < 0 ? chunk.subarray(from) : chunk.subarray(from, end));
      if (end < 0) return lines;
      lines.push(this.#take());
      from = end + 1;
    }
  }

  /** What was not ended by a line feed. */
  flush(): { readonly text: string; readonly cut: boolean }[] {
    return this.#size === 0 && !this.#cut ? [] : [this.#take()];
  }

  #keep(bytes: Buffer): void {
    const room = this.#maxBytes - this.#size;
    if (bytes.length > room) this.#cut = true;
    if (room <= 0 || bytes.length === 0) return;
    const kept = bytes.subarray(0, room);
    this.#parts.push(kept);
    this.#size += kept.length;
  }

  #take(): { text: string; cut: boolean } {
    const text = Buffer.concat(this.#parts).toString('utf8').replace(/\r$/, '');
    const line = { text, cut: this.#cut };
    this.#parts = [];
    this.#size = 0;
    this.#cut = false;
    return line;
  }
}

/** Takes the engine's frames apart: 1 byte stream, 3 of zero, 4 of length, then so many bytes. */
export class FrameReader {
  readonly #cutters = { stdout: new LineCutter(), stderr: new LineCutter() };
  #header = Buffer.alloc(0);
  #stream: LogLine['stream'] = 'stdout';
  #left = 0;

  push(chunk: Buffer): LogLine[] {
    const lines: LogLine[] = [];
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#left > 0) {
        const part = rest.subarray(0, this.#left);
        this.#left -= part.length;
        rest = rest.subarray(part.length);
        for (const { text } of this.#cutters[this.#stream].push(part)) lines.push({ stream: this.#stream, text });
        continue;
      }
      const missing = 8 - this.#header.length;
      this.#header = Buffer.concat([this.#header, rest.subarray(0, missing)]);
      rest = rest.subarray(missing);
      if (this.#header.length < 8) continue;
      this.#stream = this.#header[0] === 2 ? 'stderr' : 'stdout';
      this.#left = this.#header.readUInt32BE(4);
      this.#header = Buffer.alloc(0);
    }
    return lines;
  }

  flush(): LogLine[] {
    return (['stdout', 'stderr'] as const).flatMap((stream) =>
      this.#cutters[stream].flush().map(({ text }) => ({ stream, text })),
    );
  }
}

/** A container with a terminal has one stream without frames. */
export class PlainReader {
  readonly #cutter = new LineCutter();

  push(chunk: Buffer): LogLine[] {
    return this.#cutter.push(chunk).map(({ text }) => ({ stream: 'stdout', text }));
  }

  flush(): LogLine[] {
    return this.#cutter.flush().map(({ text }) => ({ stream: 'stdout', text }));
  }
}
