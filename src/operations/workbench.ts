// Workbench: the tools of every operation over one house: reader, resolver, surveyor, look. Also what "the stack at the revision that
// counts for it" means: usually the fleet's, but the applied one after a refused (rolled back) try.

import type { ObservedIndex } from '../core/diff/index-observed.ts';
import { asFault } from '../core/fault.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import type { Applied } from '../core/state/applied.ts';
import { ArchiveSource } from './archive/archive-source.ts';
import { vaultOfStacks } from './archive/boot-secrets.ts';
import { isMoved, isUnrestored, livesByRequest } from './by-request.ts';
import type { FleetAt } from './fleet-at.ts';
import { FleetReader } from './fleet-at.ts';
import { hooksDigestOf } from './hooks-of.ts';
import type { House } from './house.ts';
import { Look } from './look.ts';
import type { Leaving } from './ports-claimed.ts';
import { Resolver } from './resolve.ts';
import { holdOf, type Judged, type Surveyed, Surveyor } from './survey.ts';

export interface Refused {
  /** Desired digest that failed and was rolled back. */
  readonly digest: string;
  readonly revision: string;
  /** The revision that runs instead. */
  readonly instead: string;
  readonly reason: string;
}

export const refusedKey = (stack: string): string => `refused/${stack}`;

export class Workbench {
  readonly house: House;
  readonly reader: FleetReader;
  readonly resolver: Resolver;
  readonly surveyor: Surveyor;
  readonly look: Look;
  /** What the hook action `backup` does; handed in by who opens the bench. */
  makeArchive: ((stack: string, signal: AbortSignal) => Promise<void>) | null = null;

  constructor(from: House) {
    // A stack that was restored runs at a commit that only its archive knows.
    const { archives, source, store, vault } = from;
    const isWrapped = source instanceof ArchiveSource;
    const restorable = {
      ...from,
      source: archives && !isWrapped ? new ArchiveSource(source, store, archives.store) : source,
    };
    const house = archives && vault ? { ...restorable, vault: vaultOfStacks(vault, store) } : restorable;
    this.house = house;
    this.reader = new FleetReader(house);
    this.resolver = new Resolver(house);
    this.surveyor = new Surveyor(house, this.resolver);
    this.look = new Look(house.runtime);
  }

  refused(stack: string): Refused | null {
    return (this.house.store.value(refusedKey(stack)) as Refused | null) ?? null;
  }

  /** The old name of what is being moved, or was; and what is held while nothing of it is deployed, unless a request has yet to bring it back. */
  #isAbsent(stack: LoadedStack): boolean {
    const { store, clock } = this.house;
    const hold = holdOf(stack, store.holds(stack.name), clock.nowMs());
    if (hold === null) return false;
    const isDeployed = store.applied(stack.name) !== null || store.attempt(stack.name) !== null;
    return isMoved(hold) || (!isDeployed && !isUnrestored(hold));
  }

  /** Surveys stacks at `at`; one whose desired state was refused before is judged at the revision that runs instead, and one that lives by
   * a request at the commit that was made for it. */
  async survey(
    names: readonly string[],
    at: FleetAt,
    index: ObservedIndex,
    leaving?: Leaving,
  ): Promise<readonly Surveyed[]> {
    const byRequest = new Map(livesByRequest(this.house.store, at.fleet).map((one) => [one.stack, one.revision]));
    const surveyed = await this.surveyor.survey(
      names.filter((name) => !byRequest.has(name)),
      at,
      index,
      leaving,
      (stack) => this.#isAbsent(stack),
    );
    const made = names.flatMap((name) => {
      const commit = byRequest.get(name);
      return commit === undefined ? [] : [this.#asMade(name, commit, index)];
    });
    return Promise.all([
      ...made,
      ...surveyed.map(async (one) => {
        const refused = one.kind === 'judged' ? this.refused(one.name) : null;
        if (one.kind !== 'judged' || !refused || refused.digest !== one.resolved.desired.digest) return one;
        const instead = await this.reader.read(refused.instead);
        const [other] = await this.surveyor.survey([one.name], instead, index);
        if (other?.kind !== 'judged') return other ?? one;
        const { sourceDigest } = one.stack;
        return { ...other, insteadOf: { revision: at.revision.commit, sourceDigest, reason: refused.reason } };
      }),
    ]);
  }

  async #asMade(name: string, commit: string, index: ObservedIndex): Promise<Surveyed> {
    try {
      const [one] = await this.surveyor.survey([name], await this.reader.read(commit), index);
      if (one) return one;
      throw new Error(`${name} was not surveyed`);
    } catch (error) {
      // Its archive cannot be read now: that says nothing of the others.
      return { kind: 'refused', name, stack: null, fault: asFault(error, 'ARCHIVE_FAILED'), judged: null };
    }
  }

  /** Where `survey` judges a stack, told from the declarations alone: `at`, unless what it declares is what was refused. */
  async effective(name: string, at: FleetAt): Promise<FleetAt> {
    const refused = this.refused(name);
    const wanted = at.fleet.stacks.get(name);
    if (!refused || !wanted) return at;
    const before = (await this.reader.read(refused.revision)).fleet.stacks.get(name);
    return before?.sourceDigest === wanted.sourceDigest ? this.reader.read(refused.instead) : at;
  }

  /** The stack as it was deployed last, if it has drifted since: for the time in which what is asked for now cannot be deployed. Null when
   * nothing differs, nothing is on record, a try is under way, or that revision cannot be read or judged. */
  async drifted(name: string, index: ObservedIndex): Promise<Judged | null> {
    const applied = this.house.store.applied(name);
    if (!applied || this.house.store.attempt(name)) return null;
    const at = await this.reader.read(applied.revision).catch(() => null);
    if (!at) return null;
    const [one] = await this.surveyor.survey([name], at, index);
    return one?.kind === 'judged' && one.diff.situation === 'drift' ? one : null;
  }
}

/** Is there anything to do for a stack, be it only to remember what it is? */
export function needsWork(judged: Judged): boolean {
  return judged.diff.changes.length > 0 || judged.attempt !== null || !isRecorded(judged, judged.applied);
}

/** Is what is on record what is asked for, hooks included? */
export function isRecorded(judged: Judged, applied: Applied | null): boolean {
  if (applied?.desired.digest !== judged.resolved.desired.digest) return false;
  return applied.hooks === undefined || applied.hooks === hooksDigestOf(judged.stack);
}
