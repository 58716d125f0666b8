// What the disk of an archive store refuses, as a Fault that says whether space is what is missing.
import { Fault } from '../../core/fault.ts';

const NO_SPACE: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

export const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException | null)?.code;

/** Faults stay what they are. */
export function asArchiveFault(error: unknown, what: string): Fault {
  if (error instanceof Fault) return error;
  // SQLite has a number of its own for it.
  const code = (error as { errcode?: number } | null)?.errcode === 13 ? 'ENOSPC' : codeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  if (NO_SPACE.has(code)) return new Fault('ARCHIVE_NO_SPACE', `${what}: no space is left`, { cause: error });
  return new Fault('ARCHIVE_FAILED', `${what}: ${message}`, { cause: error });
}

export function throwIfCancelled(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new Fault('CANCELLED', 'the archive store was told to stop', { cause: signal.reason });
}

/** SQLite says it as 8 (READONLY) or 14 (CANTOPEN). */
export function isReadOnly(error: unknown): boolean {
  const code = codeOf(error);
  const primary = ((error as { errcode?: number } | null)?.errcode ?? 0) % 256;
  return code === 'EROFS' || code === 'EACCES' || code === 'EPERM' || primary === 8 || primary === 14;
}
