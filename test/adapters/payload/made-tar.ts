// Tars made by hand, honest and hostile ones: every field as the test wants it.
import { Buffer } from 'node:buffer';

export interface MadeEntry {
  readonly path: string | Buffer;
  /** `0` file, `1` hard link, `2` symlink, `3` and `4` devices, `5` folder, `6` fifo. */
  readonly type?: string;
  readonly mode?: number;
  readonly uid?: number;
  readonly gid?: number;
  readonly mtime?: number;
  readonly link?: string;
  readonly content?: string | Buffer;
  /** What the header says, whatever the content is. */
  readonly size?: number;
  readonly pax?: Readonly<Record<string, string>> | readonly (readonly [string, string | Buffer])[];
}

export const folder = (path: string, more: Partial<MadeEntry> = {}): MadeEntry => ({
  path,
  type: '5',
  mode: 0o755,
  ...more,
});
export const file = (path: string, content: string | Buffer = '', more: Partial<MadeEntry> = {}): MadeEntry => ({
  path,
  content,
  ...more,
});

export const END = Buffer.alloc(1024);

export function tarOf(entries: readonly MadeEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(blocksOf), END]);
}

export function blocksOf(entry: MadeEntry): Buffer[] {
  const name = Buffer.isBuffer(entry.path) ? entry.path : Buffer.from(entry.path, 'utf8');
  const records: (readonly [string, string | Buffer])[] = [];
  if (name.length > 100) records.push(['path', name]);
  const link = Buffer.from(entry.link ?? '', 'utf8');
  if (link.length > 100) records.push(['linkpath', link]);
  records.push(...(Array.isArray(entry.pax) ? entry.pax : Object.entries(entry.pax ?? {})));
  const content = Buffer.from(entry.content ?? '');
  const head = headerOf(entry, name.subarray(0, 100), link.subarray(0, 100), entry.size ?? content.length);
  const body = [head, content, padding(content.length)];
  if (records.length === 0) return body;
  const extended = Buffer.concat(records.map(([key, value]) => recordOf(key, Buffer.from(value))));
  const extendedHead = headerOf({ path: '', type: 'x' }, Buffer.from('pax'), Buffer.alloc(0), extended.length);
  return [extendedHead, extended, padding(extended.length), ...body];
}

export const padding = (size: number): Buffer => Buffer.alloc((512 - (size % 512)) % 512);

function recordOf(key: string, value: Buffer): Buffer {
  const rest = Buffer.concat([Buffer.from(` ${key}=`), value, Buffer.from('\n')]);
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}

export function headerOf(entry: MadeEntry, name: Buffer, link: Buffer, size: number): Buffer {
  const header = Buffer.alloc(512);
  const octal = (value: number, at: number, width: number) =>
    header.write(value.toString(8).padStart(width - 1, '0'), at, 'latin1');
  name.copy(header, 0);
  octal(entry.mode ?? 0o644, 100, 8);
  octal(entry.uid ?? 0, 108, 8);
  octal(entry.gid ?? 0, 116, 8);
  octal(size, 124, 12);
  octal(entry.mtime ?? 1_700_000_000, 136, 12);
  header.write('        ', 148, 'latin1');
  header.write(entry.type ?? '0', 156, 'latin1');
  link.copy(header, 157);
  header.write('ustar\x0000', 257, 'latin1');
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\x00 `, 148, 'latin1');
  return header;
}
