// Surface: the use cases that the CLI and a later API both offer. Words in, plain data out; it prints nothing and asks nobody.
import { Controller, FLEET } from './controller/controller.ts';
import { Nudges } from './controller/nudges.ts';
import type { StackDiff } from './core/diff/change.ts';
import { asFault, Fault } from './core/fault.ts';
import type { Diagnostic } from './core/spec/diagnostic.ts';
import type { Applied, Attempt, Hold } from './core/state/applied.ts';
import { formatRevision } from './core/state/revision.ts';
import type { Condition, ConditionType } from './core/status/condition.ts';
import type { RunRecord, StackEvent } from './core/status/event.ts';
import { type Outcome, settle } from './core/status/settle.ts';
import type { Observer } from './engine/observer.ts';
import { type ByHand, byHand } from './operations/by-hand.ts';
import { type DeployOptions, type DeployOutcome, deploy, planDeploy } from './operations/deploy.ts';
import type { FleetAt } from './operations/fleet-at.ts';
import { type Gone, goneOf } from './operations/gone.ts';
import type { House } from './operations/house.ts';
import { maskModel } from './operations/mask-model.ts';
import { manualRollback } from './operations/rollback.ts';
import type { Judged, Surveyed } from './operations/survey.ts';
import { type Orphan, orphans, uninstall } from './operations/uninstall.ts';
import { needsWork, Workbench } from './operations/workbench.ts';

export interface PlanView {
  readonly at: FleetAt;
  readonly surveyed: readonly Surveyed[];
  /** Those that have something to do. */
  readonly work: readonly Judged[];
  readonly layers: readonly (readonly string[])[];
  readonly gone: Gone;
  /** '' when nothing is to be done. */
  readonly digest: string;
}

/** What `plan --out` writes: what was seen, not what to do; apply makes the plan again and compares. */
export interface SavedPlan {
  readonly windlass: 'plan';
  readonly version: 1;
  readonly source: string;
  readonly revision: string;
  readonly stacks: readonly string[];
  readonly digest: string;
  readonly madeAtMs: number;
}

export interface StackStatus {
  readonly name: string;
  readonly conditions: readonly Condition[];
  readonly applied: Applied | null;
  readonly attempt: Attempt | null;
  readonly holds: readonly Hold[];
}

export interface Traced {
  readonly container: string;
  readonly service: string;
  readonly stack: string;
  readonly image: string;
  readonly revision: string;
  readonly subject: string;
  readonly author: string;
  readonly signer: string | null;
}

/** Without a sign of life for this long a controller on another host counts as gone. */
const BEAT_MS = 15_000;

export class Surface {
  readonly house: House;
  readonly bench: Workbench;

  constructor(house: House) {
    this.house = house;
    this.bench = new Workbench(house);
  }

  /** The declared fleet at the newest commit. */
  async fleet(): Promise<FleetAt> {
    return this.bench.reader.read(await this.house.source.fetch());
  }

  /** Every diagnostic of the newest commit, by place. Resolves every stack, so Compose's own complaints are among them. */
  async validate(): Promise<{
    readonly at: FleetAt;
    readonly diagnostics: readonly Diagnostic[];
    readonly faults: readonly Fault[];
  }> {
    const at = await this.fleet();
    const diagnostics: Diagnostic[] = [...at.fleet.diagnostics];
    for (const broken of at.fleet.broken.values()) diagnostics.push(...broken);
    const faults: Fault[] = [];
    await Promise.all(
      [...at.fleet.stacks.values()].map(async (stack) => {
        diagnostics.push(...stack.warnings);
        try {
          await this.bench.resolver.resolve(stack, at);
        } catch (error) {
          if (error instanceof Error && 'diagnostics' in error)
            diagnostics.push(...(error.diagnostics as Diagnostic[]));
          else faults.push(asFault(error, 'COMPOSE_FAILED'));
        }
      }),
    );
    const key = (one: Diagnostic): string =>
      `${one.place?.file ?? ''}\0${String(one.place?.line ?? 0).padStart(8, '0')}\0${String(one.place?.column ?? 0).padStart(6, '0')}`;
    diagnostics.sort((a, b) => (key(a) < key(b) ? -1 : 1));
    return { at, diagnostics, faults };
  }

  /** The resolved Compose project, secrets masked. */
  async render(name: string): Promise<unknown> {
    const at = await this.fleet();
    const stack = at.fleet.stacks.get(name);
    if (!stack) throw this.#unknown(name, at);
    const resolved = await this.bench.resolver.resolve(stack, at);
    return maskModel((await resolved.model()).text, resolved.desired, this.house.redact);
  }

  async plan(stacks: readonly string[] = []): Promise<PlanView> {
    const at = await this.fleet();
    const all = [...at.fleet.stacks.keys(), ...at.fleet.broken.keys()];
    for (const name of stacks) if (!all.includes(name)) throw this.#unknown(name, at);
    const names = stacks.length > 0 ? stacks : all;
    const index = await this.bench.look.fresh('all');
    const surveyed = await this.bench.survey(names, at, index);
    const work = surveyed.filter((one): one is Judged => one.kind === 'judged' && needsWork(one));
    const gone = goneOf(
      at.fleet,
      stacks.length > 0 ? [] : this.house.store.allApplied(),
      this.house.settings.pruneLimit,
    );
    const digest = work.length > 0 ? planDeploy(work, at.fleet.layers, this.house.settings.concurrency).digest : '';
    return { at, surveyed, work, layers: at.fleet.layers, gone, digest };
  }

  savePlan(view: PlanView, stacks: readonly string[]): SavedPlan {
    return {
      windlass: 'plan',
      version: 1,
      source: this.house.source.spec.name,
      revision: view.at.revision.commit,
      stacks,
      digest: view.digest,
      madeAtMs: this.house.clock.nowMs(),
    };
  }

  /** Makes a saved plan again. Throws PLAN_STALE when the repository or the engine moved since. */
  async again(saved: SavedPlan): Promise<PlanView> {
    const view = await this.plan(saved.stacks);
    if (view.digest !== saved.digest)
      throw new Fault(
        'PLAN_STALE',
        `the plan was made at ${saved.revision.slice(0, 12)} and would be another one now`,
        {
          data: { saved: saved.digest, now: view.digest },
        },
      );
    return view;
  }

  /** Executes a plan view: deploys, then removes what left the fleet unless the guard says no. Conditions are settled as by the controller. */
  async apply(
    view: PlanView,
    options: Pick<DeployOptions, 'signal' | 'stop' | 'progress' | 'trigger'> & { readonly prune: boolean },
  ): Promise<{
    readonly outcome: DeployOutcome | null;
    readonly removed: readonly RunRecord[];
    readonly failures: ReadonlyMap<string, Fault>;
  }> {
    const held = new Set(view.work.filter((one) => this.#hold(one.name)).map((one) => one.name));
    const work = view.work.filter((one) => !held.has(one.name));
    const failures = new Map<string, Fault>();
    let outcome: DeployOutcome | null = null;
    if (work.length > 0) {
      outcome = await deploy({
        house: this.house,
        look: this.bench.look,
        surveyor: this.bench.surveyor,
        judged: work,
        layers: view.layers,
        ...options,
      });
      for (const [name, fault] of outcome.failures) failures.set(name, fault);
      for (const one of work) await this.#settle(one, failures.get(one.name));
    }
    const removed: RunRecord[] = [];
    if (options.prune && view.gone.guard === null)
      for (const one of view.gone.removable)
        try {
          removed.push(
            await uninstall(
              this.house,
              this.bench.look,
              one,
              options.trigger,
              options.signal ?? new AbortController().signal,
            ),
          );
        } catch (error) {
          failures.set(one.stack, asFault(error, 'ENGINE_REFUSED'));
        }
    return { outcome, removed, failures };
  }

  #hold(name: string): boolean {
    return this.house.store
      .holds(name)
      .some((hold) => hold.service === '' && (hold.untilMs === 0 || hold.untilMs > this.house.clock.nowMs()));
  }

  async #settle(one: Judged, fault: Fault | undefined): Promise<void> {
    if (fault?.code === 'CANCELLED') return;
    const { store, clock } = this.house;
    const after = await this.bench.surveyor.again(one, await this.bench.look.fresh('known'));
    const outcome: Outcome = fault
      ? { kind: 'failed', fault }
      : one.diff.situation === 'drift' && one.diff.changes.length > 0
        ? { kind: 'healed', healsInARow: 1, changes: one.diff.changes.length }
        : { kind: 'deployed' };
    const settled = settle({
      nowMs: clock.nowMs(),
      previous: store.conditions(one.name),
      revision: one.at.revision.commit,
      appliedRevision: store.applied(one.name)?.revision ?? '',
      rolledBack: null,
      verified: { kind: 'disabled' },
      outcome,
      health: { state: after.health.state, detail: after.health.problems.map((problem) => problem.message).join('; ') },
      failures: 0,
    });
    store.putConditions(one.name, settled.conditions);
    if (settled.event)
      store.appendEvent({
        atMs: clock.nowMs(),
        stack: one.name,
        revision: one.at.revision.commit,
        ...settled.event,
        message: this.house.redact(settled.event.message),
      });
  }

  status(): readonly StackStatus[] {
    const { store } = this.house;
    const conditions = store.allConditions();
    const holds = store.allHolds();
    const names = new Set([...conditions.keys(), ...store.allApplied().map((one) => one.stack), ...holds.keys()]);
    return [...names].sort().map((name) => ({
      name,
      conditions: conditions.get(name) ?? [],
      applied: store.applied(name),
      attempt: store.attempt(name),
      holds: holds.get(name) ?? [],
    }));
  }

  /** Throws NOT_FOUND for a name that neither the state nor the newest fetched commit knows. */
  async statusOf(name: string): Promise<StackStatus> {
    const known = this.status().find((one) => one.name === name);
    if (known) return known;
    const at = await this.fleet();
    if (!at.fleet.stacks.has(name) && !at.fleet.broken.has(name)) throw this.#unknown(name, at);
    return { name, conditions: [], applied: null, attempt: null, holds: [] };
  }

  async diff(name: string): Promise<Surveyed> {
    const [one] = (await this.plan([name])).surveyed;
    if (!one) throw new Fault('NOT_FOUND', `there is no stack ${name}`);
    return one;
  }

  /** The controller that runs on this state directory, if any. */
  controller(): { readonly owner: string; readonly sinceMs: number } | null {
    const known = this.house.store.value('controller') as
      | { owner: string; sinceMs: number; beatMs?: number }
      | undefined;
    if (!known || this.house.settings.hasEnded(known.owner)) return null;
    return this.house.clock.nowMs() - (known.beatMs ?? known.sinceMs) < BEAT_MS ? known : null;
  }

  /** Asks the running controller to look now; resolves when it heard. False when none runs. */
  async nudge(stack: string, fetch: boolean, timeoutMs: number): Promise<boolean> {
    if (!this.controller()) return false;
    const { store, clock } = this.house;
    const nudges = new Nudges(store);
    const nudge = { id: clock.id(), stack, fetch, atMs: clock.nowMs() };
    nudges.add(nudge);
    const end = clock.nowMs() + timeoutMs;
    while (!nudges.heard(nudge)) {
      if (clock.nowMs() > end)
        throw new Fault('ENGINE_TIMEOUT', `the controller did not answer within ${Math.round(timeoutMs / 1000)} s`);
      await clock.sleep(50);
    }
    return true;
  }

  /** Resolves to the condition when it is True (and, with a revision, speaks of it), or null at the end of the time. */
  async wait(
    stack: string,
    type: ConditionType,
    timeoutMs: number,
    revision: string | null,
    signal?: AbortSignal,
  ): Promise<Condition | null> {
    const { store, clock } = this.house;
    const end = clock.nowMs() + timeoutMs;
    for (;;) {
      const found = store.conditions(stack).find((one) => one.type === type);
      if (found?.status === 'True' && (revision === null || found.revision.startsWith(revision))) return found;
      if (clock.nowMs() >= end) return null;
      await clock.sleep(100, signal);
    }
  }

  history(stack: string | undefined, limit: number): readonly RunRecord[] {
    return this.house.store.runs({ ...(stack === undefined ? {} : { stack }), limit });
  }

  events(filter: {
    readonly stack?: string;
    readonly afterSeq?: number;
    readonly limit?: number;
  }): readonly StackEvent[] {
    return this.house.store.events(filter);
  }

  /** A stack's containers, or one container by name or id: back to the commit that asked for it. */
  async trace(subject: string): Promise<readonly Traced[]> {
    const index = await this.bench.look.fresh('known');
    const found = index.observed.containers.filter(
      (one) => one.project === subject || one.name === subject || (subject.length >= 6 && one.id.startsWith(subject)),
    );
    if (found.length === 0) throw new Fault('NOT_FOUND', `no stack and no container is called ${subject}`);
    return Promise.all(
      found.map(async (one) => {
        const applied = this.house.store.allApplied().find((record) => record.project === one.project);
        const commit = applied ? await this.house.source.commit(applied.revision).catch(() => null) : null;
        return {
          container: one.name,
          service: one.service,
          stack: applied?.stack ?? '',
          image: one.image,
          revision: applied?.revision ?? '',
          subject: commit?.subject ?? '',
          author: commit?.author ?? '',
          signer: null,
        };
      }),
    );
  }

  hold(stack: string, hold: Omit<Hold, 'sinceMs' | 'service'>): void {
    this.house.store.putHold(stack, { ...hold, service: '', sinceMs: this.house.clock.nowMs() });
  }

  /** Stop is remembered first, so that nothing heals what is being stopped; start forgets it last. */
  async byHand(stack: string, act: ByHand, signal: AbortSignal): Promise<readonly string[]> {
    await this.statusOf(stack);
    if (act === 'stop') this.hold(stack, { kind: 'stopped', reason: 'stopped by a person', untilMs: 0 });
    const done = await byHand(this.bench, stack, act, signal);
    if (act === 'start') this.house.store.deleteHold(stack, 'stopped', '');
    await this.nudge(stack, false, 10_000);
    return done;
  }

  async logs(
    stack: string,
    service: string | undefined,
    options: { readonly tail: number; readonly follow: boolean; readonly signal: AbortSignal },
    say: (container: string, line: string) => void,
  ): Promise<void> {
    const index = await this.bench.look.fresh('known');
    const containers = (index.containers.get(stack) ?? []).filter(
      (one) => service === undefined || one.service === service,
    );
    if (containers.length === 0)
      throw new Fault('NOT_FOUND', `there is no container of ${service ? `service ${service} of ` : ''}stack ${stack}`);
    await Promise.all(
      containers.map(async (one) => {
        try {
          for await (const line of this.house.runtime.logs(one.id, options))
            say(one.name, this.house.redact(line.text));
        } catch (error) {
          if (!options.signal.aborted) throw error;
        }
      }),
    );
  }

  /** Takes a tip that does not descend from the last accepted commit. */
  async accept(said: string): Promise<string> {
    const { source, store } = this.house;
    const tip = await source.fetch();
    if (!tip.startsWith(said)) throw new Fault('PLAN_STALE', `${source.spec.ref} is at ${tip}, not at ${said}`);
    store.putValue(`accepted/${source.spec.name}`, tip);
    await this.nudge('', true, 10_000);
    return tip;
  }

  /** Which holds were lifted. */
  release(stack: string): readonly Hold[] {
    const { store } = this.house;
    const lifted = store.holds(stack);
    for (const hold of lifted) store.deleteHold(stack, hold.kind, hold.service);
    store.deleteValue(`refused/${stack}`);
    return lifted;
  }

  async rollback(stack: string, to: string | undefined): Promise<{ readonly from: string; readonly to: string }> {
    const { at } = await this.plan([stack]);
    return manualRollback(this.bench, stack, at, to);
  }

  async prunable(): Promise<{ readonly gone: Gone; readonly orphans: readonly Orphan[] }> {
    const at = await this.fleet();
    return {
      gone: goneOf(at.fleet, this.house.store.allApplied(), this.house.settings.pruneLimit),
      orphans: orphans(this.house),
    };
  }

  async prune(gone: Gone, signal: AbortSignal): Promise<readonly RunRecord[]> {
    const done: RunRecord[] = [];
    for (const one of gone.removable) done.push(await uninstall(this.house, this.bench.look, one, 'prune', signal));
    return done;
  }

  newController(options: {
    readonly pollMs: number;
    readonly intervalMs: number;
    readonly log: (line: string) => void;
    readonly progress?: (stack: string) => Observer;
  }): Controller {
    return new Controller({ house: this.house, ...options });
  }

  #unknown(name: string, at: FleetAt): Fault {
    const known = [...at.fleet.stacks.keys(), ...at.fleet.broken.keys()].sort();
    const near = known.filter((one) => one.includes(name) || name.includes(one)).slice(0, 3);
    return new Fault('NOT_FOUND', `there is no stack ${name} at ${formatRevision(at.revision)}`, {
      data: near.length > 0 ? { near } : { known: known.slice(0, 10) },
    });
  }
}

export type { StackDiff };
export { FLEET };
