// Predates: what a ledger without memory makes of the requests that it finds.
import { advance, isTerminal, observe } from '../../core/request/life.ts';
import type { House } from '../house.ts';
import { lookAtTrust } from './look.ts';

/** For a ledger without any memory: what ran before it is not known, so whatever is asked for already is refused and must be asked anew. */
export async function refuseWhatPredates(house: House, tip: string): Promise<void> {
  const look = await lookAtTrust(house, tip);
  const atMs = house.clock.nowMs();
  for (const { id, evaluation } of look.requests) {
    const kept = look.ledger.snapshot(id) ?? observe(id, evaluation.subject, atMs);
    if (isTerminal(kept.state)) continue;
    look.ledger.putSnapshot(kept);
    const detail =
      'it is older than the memory of this controller, which cannot tell whether it ran; make a new request';
    look.ledger.putSnapshot(advance(kept, ['VERIFY', 'REFUSE'], { atMs, reason: 'predates-ledger', detail }));
  }
}
