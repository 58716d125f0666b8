// Survey: every stack's desired × observed × applied, judged. Reads only: `plan`, `get`, the controller's sweep and the deploy itself
// all look at the world through it.

import type { StackDiff } from '../core/diff/change.ts';
import { type DiffInput, diffStack, projectContainers } from '../core/diff/diff.ts';
import type { ObservedIndex } from '../core/diff/index-observed.ts';
import { asFault, Fault } from '../core/fault.ts';
import type { Diagnostic } from '../core/spec/diagnostic.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import type { Applied, Attempt, Hold } from '../core/state/applied.ts';
import { type Health, healthOf } from '../core/status/health.ts';
import { generationOf } from './archive/generations.ts';
import { forbidden } from './converge.ts';
import type { FleetAt } from './fleet-at.ts';
import { hookDiagnostics } from './hook-check.ts';
import type { House } from './house.ts';
import { clashesOf, type Leaving, NONE_LEAVING } from './ports-claimed.ts';
import { InvalidStack, type Resolved, type Resolver, treeDirOf } from './resolve.ts';

const LEFT_SHOWN = 5;

export const editedKey = (stack: string): string => `edited/${stack}`;

export interface Judged {
  readonly kind: 'judged';
  readonly name: string;
  readonly stack: LoadedStack;
  readonly at: FleetAt;
  readonly resolved: Resolved;
  readonly index: ObservedIndex;
  readonly diff: StackDiff;
  readonly health: Health;
  readonly applied: Applied | null;
  readonly attempt: Attempt | null;
  /** Judged at an older revision, since what this one asks for was refused; null when it is the one that was asked for. */
  readonly insteadOf: { readonly revision: string; readonly sourceDigest: string; readonly reason: string } | null;
}

export type Surveyed =
  | Judged
  | { readonly kind: 'invalid'; readonly name: string; readonly diagnostics: readonly Diagnostic[] }
  | {
      readonly kind: 'refused';
      readonly name: string;
      readonly stack: LoadedStack | null;
      readonly fault: Fault;
      readonly judged: Judged | null;
    };

export class Surveyor {
  readonly #house: House;
  readonly #resolver: Resolver;

  constructor(house: House, resolver: Resolver) {
    this.#house = house;
    this.#resolver = resolver;
  }

  /** Judges `names` at their effective revision against one observation. What leaves the fleet with them has no claim on its ports, and
   * what is not to come, as `absent` says, claims none. */
  async survey(
    names: readonly string[],
    at: FleetAt,
    index: ObservedIndex,
    leaving: Leaving = NONE_LEAVING,
    absent: (stack: LoadedStack) => boolean = () => false,
  ): Promise<readonly Surveyed[]> {
    const judged = await Promise.all(names.map((name) => this.one(name, at, index)));
    const clashes = clashesOf(
      judged.filter((one): one is Judged => one.kind === 'judged' && !absent(one.stack)),
      index,
      leaving,
    );
    const left = new Map<string, Fault>();
    for (const one of judged) {
      const fault = one.kind === 'judged' ? await this.#leftBehind(one) : null;
      if (fault) left.set(one.name, fault);
    }
    const unfit = new Set(judged.filter((one) => one.kind !== 'judged').map((one) => one.name));
    for (const name of [...clashes.keys(), ...left.keys()]) unfit.add(name);
    return judged.map((one) => {
      if (one.kind !== 'judged' || one.diff.changes.length === 0) return one;
      const fault = forbidden(one) ?? left.get(one.name) ?? clashes.get(one.name) ?? providerMissing(one, unfit);
      return fault ? { kind: 'refused', name: one.name, stack: one.stack, fault, judged: one } : one;
    });
  }

  async one(name: string, at: FleetAt, index: ObservedIndex, signal?: AbortSignal): Promise<Surveyed> {
    const broken = at.fleet.broken.get(name);
    if (broken) return { kind: 'invalid', name, diagnostics: broken };
    const stack = at.fleet.stacks.get(name);
    if (!stack)
      return {
        kind: 'refused',
        name,
        stack: null,
        fault: new Fault('NOT_FOUND', `there is no stack ${name}`),
        judged: null,
      };
    let resolved: Resolved;
    try {
      resolved = await this.#resolver.resolve(stack, at, signal);
      const ofHooks = await hookDiagnostics(this.#house, stack, at, resolved.desired);
      if (ofHooks.length > 0) return { kind: 'invalid', name, diagnostics: ofHooks };
    } catch (error) {
      if (error instanceof InvalidStack) return { kind: 'invalid', name, diagnostics: error.diagnostics };
      return { kind: 'refused', name, stack, fault: asFault(error, 'COMPOSE_FAILED'), judged: null };
    }
    return { ...(await this.#judge(stack, at, resolved, index)), name };
  }

  /** The same stack against another observation. Resolved again only while it has secrets that were not there. */
  async again(judged: Judged, index: ObservedIndex): Promise<Judged> {
    const { stack, at } = judged;
    const resolved = judged.resolved.unminted.length === 0 ? judged.resolved : await this.#resolver.resolve(stack, at);
    return { ...(await this.#judge(stack, at, resolved, index)), insteadOf: judged.insteadOf };
  }

  /** The same stack with every secret made that it asks for: only for a deploy that somebody said yes to. */
  async mint(judged: Judged, signal: AbortSignal): Promise<Judged> {
    const { stack, at } = judged;
    const resolved = await this.#resolver.resolve(stack, at, signal, { mint: true });
    return { ...(await this.#judge(stack, at, resolved, judged.index)), insteadOf: judged.insteadOf };
  }

  async #judge(stack: LoadedStack, at: FleetAt, resolved: Resolved, index: ObservedIndex): Promise<Judged> {
    const { store } = this.#house;
    const { desired } = resolved;
    const applied = store.applied(stack.name);
    const attempt = store.attempt(stack.name);
    const input: DiffInput = {
      desired,
      index,
      applied,
      adopt: stack.adopt,
      attempted: attempt !== null,
      edited: await this.edited(stack.name, resolved),
    };
    return {
      kind: 'judged',
      name: stack.name,
      stack,
      at,
      resolved,
      index,
      diff: diffStack(input),
      health: healthOf(desired, projectContainers(index, desired.project), applied),
      applied,
      attempt,
      insteadOf: null,
    };
  }

  /** A folder that moved in git has another place here: what the service wrote beside the files of git does not come along by itself. */
  async #leftBehind({ name, applied, resolved, at }: Judged): Promise<Fault | null> {
    const { files, settings, source, store } = this.#house;
    const directory = treeDirOf(settings.stateDir, name);
    const [from, to] = [applied?.desired.projectDir ?? '', resolved.desired.projectDir];
    // What comes from an archive brings its data along.
    if (from === to || !`${from}/`.startsWith(`${directory}/`) || source.variant?.(at.revision.commit)) return null;
    const restored = Object.entries(generationOf(store, name)?.folders ?? {})
      .filter(([path]) => `${directory}/${path}`.startsWith(`${from}/`))
      .map(([, path]) => `${directory}/${path}`);
    try {
      for (const folder of [from, ...restored]) {
        const left = await files.others({
          directory,
          written: store.written(name),
          folder,
          except: to,
          most: LEFT_SHOWN,
        });
        if (left.length === 0) continue;
        const shown = `${left.join(', ')}${left.length < LEFT_SHOWN ? '' : ' and more'}`;
        return new Fault(
          'DATA_LEFT_BEHIND',
          `the folder of ${name} moved, and ${shown} would stay behind in ${folder}: the new place is ${to}`,
          { data: { stack: name, from: folder, to, left } },
        );
      }
      return null;
    } catch (error) {
      return asFault(error, 'FILES_FAILED');
    }
  }

  /** Mounted files that somebody edited since Windlass wrote them. A file that is to be written anew anyway is no edit. */
  async edited(stack: string, { desired }: Resolved): Promise<readonly string[]> {
    const mounted = desired.services.flatMap((service) =>
      service.mounts.filter((mount) => mount.source.startsWith('/')).map((mount) => mount.source),
    );
    if (mounted.length === 0) return [];
    const { files, settings, store } = this.#house;
    const now = await files.edited({
      directory: treeDirOf(settings.stateDir, stack),
      written: store.written(stack),
      mounted,
    });
    // Files that were written again already, but whose containers may still see the edit.
    const before = (store.value(editedKey(stack)) as readonly string[] | undefined) ?? [];
    return [...new Set([...now, ...before])];
  }
}

/** What a deploy would change, be it refused now. */
export const comingOf = (surveyed: readonly Surveyed[]): readonly Judged[] =>
  surveyed.flatMap((one) => {
    const judged = one.kind === 'judged' ? one : one.kind === 'refused' ? one.judged : null;
    return judged && judged.diff.changes.length > 0 ? [judged] : [];
  });

/** A stack whose provider cannot be deployed is not begun: it would only fail at its network or its login. */
function providerMissing(one: Judged, unfit: ReadonlySet<string>): Fault | null {
  const provider = Object.values(one.stack.integrate).find((name) => unfit.has(name));
  if (provider === undefined || one.diff.situation === 'drift') return null;
  return new Fault('DEPENDENCY_NOT_READY', `stack ${one.name} waits for ${provider}, which cannot be deployed`, {
    data: { provider },
  });
}

/** Its time, if it has one, is not over. */
export const isInTime = ({ untilMs }: Pick<Hold, 'untilMs'>, nowMs: number): boolean =>
  untilMs === 0 || untilMs > nowMs;

/** Whether people or the file hold a stack: ordered, first that holds. */
export function holdOf(stack: LoadedStack, holds: readonly Hold[], nowMs: number): Hold | null {
  const active = holds.filter(
    (hold) =>
      hold.service === '' &&
      isInTime(hold, nowMs) &&
      (hold.whileDeclared === undefined || hold.whileDeclared === stack.sourceDigest),
  );
  const byKind = (kind: Hold['kind']) => active.find((hold) => hold.kind === kind);
  const suspended = byKind('suspended');
  if (suspended) return suspended;
  if (stack.suspend && isInTime(stack.suspend, nowMs))
    return { kind: 'suspended', reason: stack.suspend.reason, sinceMs: 0, untilMs: stack.suspend.untilMs, service: '' };
  return byKind('stopped') ?? byKind('held') ?? null;
}
