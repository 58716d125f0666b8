// Hidden input: a secret from a pipe, or typed by a person without an echo. It is never shown and never kept.
import { Fault } from '../core/fault.ts';

/** Return, line feed, Ctrl-D. */
const LINE_ENDS = new Set([0x0d, 0x0a, 0x04]);
/** Ctrl-C: a terminal that does not echo does not turn it into a signal. */
const INTERRUPT = 0x03;

export interface HiddenInput {
  /** Asked when a person is there. */
  readonly question: string;
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/** The bytes as they came; a typed line without its end. Throws USAGE above `maxBytes`, CANCELLED. */
export async function readHidden(
  input: NodeJS.ReadStream,
  say: (text: string) => void,
  { question, maxBytes, signal }: HiddenInput,
): Promise<Buffer> {
  const typed = Boolean(input.isTTY);
  const chunks: Buffer[] = [];
  let size = 0;
  const take = (bytes: Buffer): void => {
    size += bytes.length;
    if (size > maxBytes) throw new Fault('USAGE', `the value is larger than ${maxBytes} bytes`);
    chunks.push(bytes);
  };
  if (typed) {
    say(question);
    input.setRawMode?.(true);
  }
  try {
    await new Promise<void>((resolve, reject) => {
      const onData = (data: Buffer | string): void => {
        try {
          const bytes = Buffer.from(data as string);
          if (!typed) take(bytes);
          else
            for (const byte of bytes) {
              if (LINE_ENDS.has(byte) || byte === INTERRUPT) {
                end(byte === INTERRUPT ? new Fault('CANCELLED', 'stopped') : undefined);
                break;
              }
              if (byte === 0x7f || byte === 0x08) size -= chunks.splice(lastCharacter(chunks)).length;
              else take(Buffer.from([byte]));
            }
        } catch (error) {
          end(error);
        }
      };
      const onEnd = (): void => end();
      const onAbort = (): void => end(new Fault('CANCELLED', 'stopped'));
      const end = (error?: unknown): void => {
        input.off('data', onData);
        input.off('end', onEnd);
        input.off('error', end);
        signal.removeEventListener('abort', onAbort);
        input.pause();
        if (error === undefined) resolve();
        else reject(error);
      };
      input.on('data', onData);
      input.once('end', onEnd);
      input.once('error', end);
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
    });
  } finally {
    if (typed) {
      input.setRawMode?.(false);
      say('\n');
    }
  }
  return Buffer.concat(chunks);
}

/** Where the last character of UTF-8 begins, one chunk a byte. */
function lastCharacter(chunks: readonly Buffer[]): number {
  let at = chunks.length - 1;
  while (at > 0 && ((chunks[at]?.[0] ?? 0) & 0xc0) === 0x80) at--;
  return Math.max(at, 0);
}
