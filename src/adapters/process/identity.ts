// Says whether the process that wrote a note is still the same one: a pid alone is used again after it dies.
import { readFileSync } from 'node:fs';

export interface ProcessIdentity {
  readonly pid: number;
  /** Boot and start time of the process; '' where the system does not tell. */
  readonly born: string;
}

/** Null when there is no such process. */
export function identityOf(pid: number): ProcessIdentity | null {
  const born = bornOf(pid);
  if (born !== null) return { pid, born };
  try {
    process.kill(pid, 0);
    return { pid, born: '' };
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? { pid, born: '' } : null;
  }
}

export const ownIdentity: ProcessIdentity = identityOf(process.pid) ?? { pid: process.pid, born: '' };

export function isAlive(identity: ProcessIdentity): boolean {
  return identityOf(identity.pid)?.born === identity.born;
}

/** A well-formed identity out of untrusted JSON, or null. */
export function parseIdentity(value: unknown): ProcessIdentity | null {
  if (typeof value !== 'object' || value === null || !('pid' in value) || !('born' in value)) return null;
  const { pid, born } = value;
  // A pid of 1 or less would mean "everybody" or the init process to `kill`.
  if (typeof pid !== 'number' || !Number.isInteger(pid) || pid < 1 || typeof born !== 'string') return null;
  return { pid, born };
}

function bornOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name in parentheses may hold anything, so fields are counted from the last one.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z') return null;
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()}:${fields[19]}`;
  } catch {
    return null;
  }
}
