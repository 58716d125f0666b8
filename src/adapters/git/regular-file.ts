// Regular files of a repository that nobody vouches for: a pipe in the place of one would wait for ever, and a device never ends.
import fs from 'node:fs';

/** A descriptor. Throws for everything but a regular file. */
export function openRegular(file: string): number {
  // Without O_NONBLOCK the opening of a pipe waits for its writer.
  const fd = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  if (fs.fstatSync(fd).isFile()) return fd;
  fs.closeSync(fd);
  throw new Error(`${file} is no regular file`);
}

/** Throws for everything but a regular file of at most `mostBytes`. */
export function readRegular(file: string, mostBytes: number): Buffer {
  const fd = openRegular(file);
  try {
    const { size } = fs.fstatSync(fd);
    if (size > mostBytes) throw new Error(`${file} is larger than ${mostBytes} bytes`);
    const bytes = Buffer.alloc(size);
    let length = 0;
    while (length < size) {
      const read = fs.readSync(fd, bytes, length, size - length, length);
      if (read === 0) break;
      length += read;
    }
    return bytes.subarray(0, length);
  } finally {
    fs.closeSync(fd);
  }
}
