// Leases: one writer per stack and engine. Held with a heartbeat while an operation runs; expire by themselves after a crash.
// An operation may run another inside of itself: the lease is let go with the last of them. One that stands alone shares it with nobody;
// one that is to be the first joins none that is under way.
import { Fault } from '../core/fault.ts';
import type { Store } from '../ports/store.ts';
import type { House } from './house.ts';
import { endRunsUnderLease } from './interrupted-runs.ts';

export const LEASE_MS = 30_000;

export const leaseName = (stack: string): string => `stack/${stack}`;

export interface HeldLeases {
  release(): void;
}

/** What this process holds: the store knows processes only. */
const heldHere = new WeakMap<Store, Map<string, { holders: number; readonly isAlone: boolean }>>();

/** Does a process that may be alive hold it? */
export function isHeld({ store, clock, settings }: House, stack: string): boolean {
  if (heldHere.get(store)?.has(stack)) return true;
  const lease = store.leases().find((one) => one.name === leaseName(stack));
  return lease !== undefined && lease.expiresAtMs > clock.nowMs() && !settings.hasEnded(lease.owner);
}

/** Would this process be refused it now, also for work inside of its own? */
export function isShut(house: House, stack: string): boolean {
  const here = heldHere.get(house.store)?.get(stack);
  return here ? here.isAlone : isHeld(house, stack);
}

/** All or nothing, in name order. Throws LOCK_HELD naming the owner. `lost` is called when a heartbeat finds the lease gone. */
export function holdLeases(
  house: House,
  stacks: readonly string[],
  lost: (stack: string) => void = () => {},
  options: { readonly alone?: boolean; readonly first?: boolean } = {},
): HeldLeases {
  const { store, clock, settings } = house;
  const { alone: isAlone = false, first: isFirst = false } = options;
  const here = heldHere.get(store) ?? new Map<string, { holders: number; readonly isAlone: boolean }>();
  heldHere.set(store, here);
  const held: string[] = [];
  const release = (): void => {
    clearInterval(timer);
    for (const stack of held.splice(0)) {
      const known = here.get(stack);
      if (known && --known.holders > 0) continue;
      here.delete(stack);
      store.release(leaseName(stack), settings.owner);
    }
  };
  const timer = setInterval(() => {
    for (const stack of held)
      try {
        if (!store.renew(leaseName(stack), settings.owner, LEASE_MS, clock.nowMs())) lost(stack);
      } catch {
        // a busy database: the next heartbeat comes well before the lease ends
      }
  }, LEASE_MS / 5);
  timer.unref();
  try {
    for (const stack of [...stacks].sort()) {
      const known = here.get(stack);
      if (known && (isAlone || isFirst || known.isAlone))
        throw new Fault('LOCK_HELD', `stack ${stack} is being worked on by another operation of this process`, {
          data: { stack, owner: settings.owner },
        });
      const acquire = () => store.acquire(leaseName(stack), settings.owner, LEASE_MS, clock.nowMs());
      const holder = () => store.leases().find((lease) => lease.name === leaseName(stack));
      let got = acquire();
      const dead = got ? undefined : holder();
      if (dead && settings.hasEnded(dead.owner)) {
        // Its process was killed on this very host: no need to wait for the lease to run out.
        store.release(leaseName(stack), dead.owner);
        got = acquire();
      }
      if (!got) {
        const other = holder();
        throw new Fault('LOCK_HELD', `stack ${stack} is being worked on by ${other?.owner ?? 'another process'}`, {
          data: { stack, owner: other?.owner ?? '' },
        });
      }
      held.push(stack);
      if (known) known.holders++;
      else {
        here.set(stack, { holders: 1, isAlone });
        endRunsUnderLease(house, stack);
      }
    }
  } catch (error) {
    release();
    throw error;
  }
  return { release };
}
