// Exit: the codes of SPEC 13, and which fault means which.
import type { Fault } from '../core/fault.ts';

export const EXIT = { done: 0, failed: 1, changes: 2, usage: 3, declined: 4, refused: 5, locked: 6 } as const;

const FAULT_EXITS: Partial<Record<Fault['code'], number>> = {
  LOCK_HELD: EXIT.locked,
  USAGE: EXIT.usage,
  NOT_FOUND: EXIT.usage,
  COMPOSE_INVALID: EXIT.usage,
  CLONE_REFUSED: EXIT.usage,
  HISTORY_REWRITTEN: EXIT.refused,
  NOT_VERIFIED: EXIT.refused,
  ARCHIVE_UNTRUSTED: EXIT.refused,
};

export function exitOf(fault: Fault): number {
  return FAULT_EXITS[fault.code] ?? EXIT.failed;
}
