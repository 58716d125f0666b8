// Where the suites put what they throw away: in memory where there is some. They sync some ten thousand times, and end processes; none of them
// takes the power away, so a disk would only cost time.
import { readFileSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';

const MEMORY = '/dev/shm';
const ROOM_BYTES = 2 * 2 ** 30;

export function memoryFolder(): string {
  if (process.env['TMPDIR'] !== undefined) return tmpdir();
  try {
    const mount = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .find((line) => line.split(' ')[1] === MEMORY);
    const [, , type, options] = mount?.split(' ') ?? [];
    const { bavail, bsize } = statfsSync(MEMORY);
    const free = Math.min(bavail * bsize, process.availableMemory());
    if (type === 'tmpfs' && !options?.split(',').includes('noexec') && free >= ROOM_BYTES) return MEMORY;
  } catch {
    // Another system than Linux has neither; its disk does.
  }
  return tmpdir();
}
