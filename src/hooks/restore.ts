// Restore: every service that a run captured goes back to its count, each on a deadline of its own, with tries. A count that somebody
// else chose meanwhile is said and left alone.
import { Fault } from '../core/fault.ts';
import type { Unrestored } from '../core/hook/run-state.ts';
import { isOutage, pauseMs, withDeadline } from './deadline.ts';
import { isWithin, messageOf, type Session } from './session.ts';

/** False when some service could not be brought back, or work could not be ended; which ones is in the state. Never throws. */
export async function restoreServices(session: Session, afterCrash: boolean): Promise<boolean> {
  const names = Object.keys(session.state.captured);
  session.update({ unrestored: [] });
  session.trySave();
  // First what may still work on a service that is down for it.
  const isQuiet = await session.endLeftovers();
  const results = await Promise.all(names.map((service) => restoreOne(session, service, afterCrash)));
  const unrestored = results.filter((one): one is Unrestored => one !== null);
  session.update({ unrestored });
  for (const one of unrestored)
    session.note(
      `RESTORE FAILED: ${one.service} had ${one.captured} containers and has ${one.found ?? 'an unknown number'}: ${one.message}`,
    );
  session.trySave();
  return isQuiet && unrestored.length === 0;
}

const REMOVE_TRIES = 3;

/** What the sequence had made beyond what was there is stopped by now. Where it cannot be removed the count is right all the same. */
async function removeMade(
  session: Session,
  service: string,
  kept: readonly number[],
  signal: AbortSignal,
): Promise<void> {
  const { clock, ports } = session.deps;
  for (let tries = 1; ; tries++)
    try {
      return await ports.removeOthers(service, kept, signal);
    } catch (error) {
      if (!(error instanceof Fault) || isOutage(error) || signal.aborted) throw error;
      if (tries === REMOVE_TRIES)
        return session.note(`what this hook made of ${service} could not be removed: ${messageOf(error)}`);
      await clock.sleep(pauseMs(tries), signal);
    }
}

async function restoreOne(session: Session, service: string, afterCrash: boolean): Promise<Unrestored | null> {
  const { clock, ports } = session.deps;
  const captured = session.state.captured[service];
  if (!captured || captured.isReleased) return null;
  const { count } = captured;
  let found: number | null = null;
  let failure: unknown = null;

  /** True when there is nothing (more) to do. */
  const once = async (signal: AbortSignal): Promise<boolean> => {
    found = await ports.replicas(service, signal);
    session.outages.back();
    const before = session.state.captured[service] ?? captured;
    if (found === count) {
      if (before.kept) await removeMade(session, service, before.kept, signal);
      session.capture(service, { ...before, ours: [count, count] });
      return true;
    }
    if (!isWithin(found, before.ours)) {
      // After a crash, fewer than we left is most likely what the crash of the whole host left: no stack may stay scaled down by a hook.
      const isOverwritten = afterCrash && found < before.ours[0];
      session.report(service, found, isOverwritten);
      if (!isOverwritten) {
        session.capture(service, { ...before, isReleased: true });
        return true;
      }
    }
    session.capture(service, { ...before, ours: [Math.min(found, count), Math.max(found, count)] });
    session.trySave();
    session.note(`restore: ${service} from ${found} to ${count}`);
    await ports.scale(service, count, signal);
    return false;
  };

  try {
    await withDeadline({
      clock,
      ms: session.limits.restoreMs,
      graceMs: session.limits.killMs,
      signal: new AbortController().signal,
      work: async (signal) => {
        // A scale is believed only after another look.
        for (let tries = 0; ; tries++) {
          try {
            if (await once(signal)) return;
            if (await once(signal)) return;
            failure = new Error(`it does not stay at ${count}`);
          } catch (error) {
            if (isOutage(error)) session.outages.away(error);
            if (signal.aborted) throw error;
            failure = error;
          }
          await clock.sleep(pauseMs(tries), signal);
        }
      },
    });
    return null;
  } catch (error) {
    return { service, captured: count, found, message: session.deps.redact(messageOf(failure ?? error)) };
  }
}
