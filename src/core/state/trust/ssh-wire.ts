// Reads the SSH wire encoding (RFC 4251, section 5), refusing whatever is short, over-long or not canonical.

import type { RefusalCode } from './reason.ts';
import { quote, Refusal } from './refusal.ts';

export class SshWire {
  readonly #bytes: Buffer;
  readonly #code: RefusalCode;
  #at = 0;

  /** `code` is the refusal of everything that is malformed. */
  constructor(bytes: Buffer, code: RefusalCode) {
    this.#bytes = bytes;
    this.#code = code;
  }

  /** Bytes read so far. */
  get offset(): number {
    return this.#at;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  bytes(length: number): Buffer {
    if (length > this.#bytes.length - this.#at) throw new Refusal(this.#code, 'truncated');
    const taken = this.#bytes.subarray(this.#at, this.#at + length);
    this.#at += length;
    return taken;
  }

  uint8(): number {
    return this.bytes(1)[0]!;
  }

  uint32(): number {
    return this.bytes(4).readUInt32BE();
  }

  uint64(): bigint {
    return this.bytes(8).readBigUInt64BE();
  }

  string(): Buffer {
    return this.bytes(this.uint32());
  }

  /** A string that must be printable ASCII: names of types and algorithms. */
  name(): string {
    const text = this.string().toString('latin1');
    if (!/^[!-~]*$/.test(text)) throw new Refusal(this.#code, `name ${quote(text)}`);
    return text;
  }

  /** A positive integer in its one canonical form; big-endian magnitude without leading zeros. */
  positiveInteger(): Buffer {
    const bytes = this.string();
    const first = bytes[0];
    if (first === undefined) throw new Refusal(this.#code, 'integer is zero');
    if (first >= 0x80) throw new Refusal(this.#code, 'integer is negative');
    if (first !== 0) return bytes;
    if ((bytes[1] ?? 0) < 0x80) throw new Refusal(this.#code, 'integer has needless zeros');
    return bytes.subarray(1);
  }

  end(what: string): void {
    if (!this.isAtEnd) throw new Refusal(this.#code, `${this.#bytes.length - this.#at} bytes after ${what}`);
  }
}

/** The `string` form of a value. */
export function sshString(value: Uint8Array | string): Buffer {
  const bytes = typeof value === 'string' ? Buffer.from(value) : value;
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
