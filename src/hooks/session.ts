// Session: one run of a hook phase as it is remembered: performs single actions, captures counts, writes everything down before and
// after. It knows no order: which action comes next is the machine's.

import { Fault } from '../core/fault.ts';
import type { HookAction, ScaleTarget } from '../core/hook/action.ts';
import { flattened } from '../core/hook/action.ts';
import type { HookOutcome } from '../core/hook/chart.ts';
import type { ActionRecord, ActionResult, Captured, ChangedCount, HookState } from '../core/hook/run-state.ts';
import { actionKey, describeChanged, jobContainerName, runKey } from '../core/hook/run-state.ts';
import type { Clock } from '../ports/clock.ts';
import type { HookJournal, HookPorts } from '../ports/hooks.ts';
import type { RefContext, Refs } from '../refs/registry.ts';
import { NotEnded, Outages, outlast, pauseMs, withDeadline } from './deadline.ts';
import { ActionLog } from './log.ts';
import { type ActionContext, cancelled, failed, halted, type Outcome, skipped } from './outcome.ts';
import { leftoverOf, runAction } from './registry.ts';

export interface HookLimits {
  /** For bringing one service back to its count, tries included. */
  readonly restoreMs: number;
  /** For ending a work whose time is over. */
  readonly killMs: number;
}

const DEFAULT_LIMITS: HookLimits = { restoreMs: 5 * 60_000, killMs: 60_000 };
const MAX_REPLICAS = 10_000;
const PREVIOUS = 'ref+hook://previous';

export interface HookDeps {
  /** About the stack of the run. */
  readonly ports: HookPorts;
  readonly journal: HookJournal;
  readonly clock: Clock;
  readonly refs: Refs;
  /** Removes secrets by value from whatever is kept or told. */
  readonly redact: (text: string) => string;
  /** One line of progress. */
  readonly note?: (line: string) => void;
  /** An action has ended, and it is on record: the moment in which a sequence may be told to stop. */
  readonly afterAction?: () => void;
  readonly limits?: Partial<HookLimits>;
}

export class Session {
  readonly deps: HookDeps;
  readonly limits: HookLimits;
  readonly clock: Clock;
  readonly outages = new Outages((line) => this.note(line));
  readonly key: string;
  readonly #actions: ReadonlyMap<string, HookAction>;
  readonly #signal: AbortSignal;
  #state: HookState;
  /** Asks the machine for its snapshot; null before it runs. */
  #snapshotOf: (() => unknown) | null = null;
  /** What a dead controller left: which try, and whether that try may be made again, is used up, or may still run. */
  #interrupted: {
    readonly id: string;
    readonly attempt: number;
    readonly verdict: 'again' | 'used' | 'lost';
    readonly why: string;
  } | null = null;
  /** Counts that the sequence had set before the controller died have been set again. */
  #isReapplied = true;
  /** Why the machine left the sequence without a record that tells it. */
  #broken: string | null = null;

  constructor(deps: HookDeps, state: HookState, signal: AbortSignal) {
    this.deps = deps;
    this.clock = deps.clock;
    this.limits = { ...DEFAULT_LIMITS, ...deps.limits };
    this.key = runKey(state.run);
    this.#actions = new Map(flattened(state.actions).map((action) => [action.id, action]));
    this.#signal = signal;
    this.#state = state;
  }

  get state(): HookState {
    return this.#state;
  }

  watch(snapshotOf: () => unknown): void {
    this.#snapshotOf = snapshotOf;
  }

  update(patch: Partial<HookState>): void {
    this.#state = { ...this.#state, ...patch };
  }

  /** On disk when it returns. Throws when it could not be written: then nothing may be begun. */
  save(): void {
    if (this.#snapshotOf) this.update({ snapshot: this.#snapshotOf() });
    this.deps.journal.save(this.key, this.#state);
  }

  /** For what must go on although nothing can be written. */
  trySave(): void {
    try {
      this.save();
    } catch (error) {
      this.note(`the journal cannot be written: ${messageOf(error)}`);
    }
  }

  note(line: string): void {
    this.deps.note?.(this.deps.redact(line));
  }

  break(error: unknown): void {
    this.#broken ??= this.deps.redact(messageOf(error));
  }

  end(outcome: HookOutcome, message = this.#messageOf(outcome)): HookState {
    this.update({ ended: { outcome, message, atMs: this.deps.clock.nowMs() } });
    this.save();
    return this.#state;
  }

  // --- one action ---

  /** Never runs again what has ended, whoever asks. */
  async perform(id: string): Promise<Outcome> {
    const action = this.#actions.get(id);
    if (!action) throw new Error(`there is no action ${id}`);
    const known = this.#state.records.find((record) => record.id === id);
    if (known) {
      await this.#tidy(action, known);
      return known;
    }
    if (this.#signal.aborted) return cancelled();
    const startedAtMs = this.deps.clock.nowMs();
    const log = new ActionLog(this.deps.redact);
    const ran = action.once === 'revision' ? this.deps.journal.ranOnce(actionKey(this.#state.run, action)) : null;
    if (ran?.digest === this.#state.run.digest) {
      const message = 'it ran before for this desired state';
      const outcome: Outcome = { ...halted(message), result: ran.halted ? 'halted' : 'skipped' };
      return this.#finish(action, outcome, log, { attempt: 0, startedAtMs, outputs: ran.outputs });
    }
    const left = this.#interrupted?.id === id ? this.#interrupted : null;
    let attempt = left?.attempt ?? 1;
    // It was told to stop and died before it could: nothing more is begun, and the machine leaves by itself.
    if (this.#state.stop !== '')
      return left ? this.#finish(action, cancelled(left.why), log, { attempt, startedAtMs }) : skipped();
    if (left) log.note('(the controller died while this ran)');
    if (left && left.verdict !== 'again') {
      log.note(left.why);
      // No further try beside one that may still run.
      if (left.verdict === 'lost' || attempt > action.retries)
        return this.#finish(action, failed(left.why), log, { attempt, startedAtMs });
      attempt++;
    }
    for (;;) {
      this.update({ current: { id, attempt, startedAtMs } });
      this.save();
      this.note(`${action.id} ${action.name}${attempt > 1 ? ` (try ${attempt})` : ''}`);
      const outcome = await this.#try(action, attempt, log);
      const isOver =
        outcome.result !== 'failed' ||
        attempt > action.retries ||
        this.#signal.aborted ||
        this.#state.stop !== '' ||
        // No further try beside one that may still run.
        this.#mayRun(action);
      if (isOver) return this.#finish(action, outcome, log, { attempt, startedAtMs });
      log.note(`(try ${attempt} failed: ${outcome.message})`);
      const isCancelled = await this.deps.clock.sleep(pauseMs(attempt), this.#signal).then(
        () => false,
        () => true,
      );
      if (isCancelled) return this.#finish(action, cancelled(), log, { attempt, startedAtMs });
      log.forgetSignals();
      attempt++;
    }
  }

  async #try(action: HookAction, attempt: number, log: ActionLog): Promise<Outcome> {
    const { ports, clock } = this.deps;
    try {
      return await withDeadline({
        clock,
        ms: action.timeoutMs,
        // Ending a work has its own deadlines, one after the other; this one is only for what forgets them.
        graceMs: 3 * this.limits.killMs,
        signal: this.#signal,
        work: async (signal) => {
          await this.#reapply(action, signal);
          const ctx: ActionContext = {
            run: this.#state.run,
            action,
            attempt,
            ports,
            clock,
            outages: this.outages,
            signal,
            log,
            killMs: this.limits.killMs,
            resolve: (text, service) => this.#resolve(text, service),
            scale: (service, target, ending) => this.#scale(service, target, ending),
          };
          return runAction(ctx, action);
        },
      });
    } catch (error) {
      if (error instanceof NotEnded) this.#leave(action, attempt);
      const message = this.deps.redact(messageOf(error));
      return this.#signal.aborted ? cancelled(message) : failed(message);
    }
  }

  /** Writes the end of an action down, then tidies up: a crash in between leaves a container, never a second run. */
  async #finish(
    action: HookAction,
    outcome: Outcome,
    log: ActionLog,
    about: {
      readonly attempt: number;
      readonly startedAtMs: number;
      readonly outputs?: Readonly<Record<string, string>>;
    },
  ): Promise<Outcome> {
    const { journal, clock } = this.deps;
    const { run } = this.#state;
    const outputs = isGood(outcome.result) ? (about.outputs ?? log.outputs) : {};
    const record: ActionRecord = {
      id: action.id,
      name: action.name,
      kind: action.kind,
      result: outcome.result,
      branch: outcome.branch,
      message: outcome.message,
      exitCode: outcome.exitCode,
      tries: about.attempt,
      startedAtMs: about.startedAtMs,
      endedAtMs: clock.nowMs(),
      tail: log.tail(),
    };
    journal.saveLog(run, { id: action.id, name: action.name, text: log.text() });
    // Before the record: a crash in between finds that it ran.
    if (action.once === 'revision' && isGood(outcome.result) && about.attempt > 0)
      journal.saveRanOnce(actionKey(run, action), {
        digest: run.digest,
        halted: outcome.result === 'halted',
        outputs,
      });
    this.#interrupted = null;
    this.update({
      records: [...this.#state.records, record],
      outputs: { ...this.#state.outputs, ...outputs },
      current: null,
    });
    this.save();
    this.note(`${action.id} ${action.name}: ${outcome.result}${outcome.message === '' ? '' : ` (${outcome.message})`}`);
    await this.#tidy(action, record);
    this.deps.afterAction?.();
    // Not even `on_failure: continue` begins anything beside it.
    if (outcome.result === 'failed' && this.#mayRun(action)) throw new NotEnded(`${action.name}: ${outcome.message}`);
    return outcome;
  }

  /** The container of a job that ended goes as its delete_policy says. What is cancelled did not succeed. */
  async #tidy(action: HookAction, { result, tries }: Pick<ActionRecord, 'result' | 'tries'>): Promise<void> {
    if (action.kind !== 'job' || action.job.context !== 'container' || tries === 0) return;
    const { success, failure } = action.job.deleteAfter;
    if (!(isGood(result) ? success : failure) || this.#mayRun(action)) return;
    const { clock, ports } = this.deps;
    const { killMs } = this.limits;
    const name = jobContainerName(this.#state.run, action, tries);
    await withDeadline({
      clock,
      ms: killMs,
      graceMs: killMs,
      signal: new AbortController().signal,
      work: (signal) => ports.removeJob(name, signal),
    }).catch((error: unknown) => this.note(`a job's container could not be removed: ${messageOf(error)}`));
  }

  #mayRun(action: HookAction): boolean {
    return this.#state.leftovers.some((one) => one.actionId === action.id);
  }

  // --- counts ---

  #resolve(text: string, service: string | null): Promise<string> {
    const context: RefContext = {
      stack: this.#state.run.stack,
      service,
      hook: {
        previous: (name) => own(this.#state.captured, name)?.count ?? null,
        output: (name) => own(this.#state.outputs, name) ?? null,
      },
    };
    return this.deps.refs.resolve(text, context);
  }

  async #scale(service: string, target: ScaleTarget, signal: AbortSignal): Promise<void> {
    const { ports } = this.deps;
    const found = await outlast(this, signal, () => ports.replicas(service, signal));
    if (!own(this.#state.captured, service)) {
      this.capture(service, { count: found, aim: found, ours: [found, found], isReleased: false });
      this.save();
    }
    const text = await this.#resolve(String(target), service);
    const count = /^[0-9]{1,6}$/.test(text) ? Number(text) : Number.NaN;
    if (!(count <= MAX_REPLICAS)) {
      const value = text === '' ? `${target} has no value now` : `${JSON.stringify(text)} is no replica count`;
      throw new Fault('HOOK_FAILED', `${service} cannot be scaled: ${value}`, { data: { service } });
    }
    // What the sequence itself has stopped may start again.
    const isUntouched = found === 0 && this.#capturedOf(service).count === 0;
    if (count > 0 && isUntouched && (await outlast(this, signal, () => ports.hasFinished(service, signal))))
      throw new Fault(
        'HOOK_FAILED',
        `${service} runs to its end once, and has: scaled to ${count} it would run again`,
        {
          data: { service },
        },
      );
    await this.#setCount(service, count, found, target === PREVIOUS, signal);
  }

  /** `isReturn`: back to the count at hook entry, which never overwrites what somebody else chose meanwhile. */
  async #setCount(
    service: string,
    count: number,
    found: number,
    isReturn: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const { ports } = this.deps;
    const before = this.#capturedOf(service);
    if (isReturn && before.isReleased) return;
    // Also one that was left alone so far, and is now set to what the sequence needs.
    const isForeign = before.isReleased ? found !== count : !isWithin(found, before.ours);
    if (isForeign) this.report(service, found, !isReturn && found !== count);
    if (isForeign && isReturn && found !== count) {
      this.capture(service, { ...before, isReleased: true });
      return;
    }
    const kept =
      before.kept ?? (count > found ? await outlast(this, signal, () => ports.numbers(service, signal)) : null);
    this.capture(service, {
      ...before,
      ...(kept === null ? {} : { kept }),
      isReleased: false,
      ours: [Math.min(found, count), Math.max(found, count)],
    });
    this.save();
    await outlast(this, signal, () => ports.scale(service, count, signal));
    this.capture(service, { ...this.#capturedOf(service), aim: count, ours: [count, count] });
  }

  /** After a crash everything was brought back first: what the sequence had set is set again before it goes on. */
  async #reapply(action: HookAction, signal: AbortSignal): Promise<void> {
    if (this.#isReapplied || action.kind === 'halt' || action.kind === 'sleep' || action.kind === 'if') return;
    const { ports } = this.deps;
    for (const [service, { aim, ours, isReleased }] of Object.entries(this.#state.captured)) {
      if (isReleased || (ours[0] === aim && ours[1] === aim)) continue;
      if (action.kind === 'scale' && Object.hasOwn(action.targets, service)) continue;
      const found = await outlast(this, signal, () => ports.replicas(service, signal));
      this.note(`${service} is scaled to ${aim} again, as it was before the interruption`);
      await this.#setCount(service, aim, found, false, signal);
    }
    this.#isReapplied = true;
  }

  #capturedOf(service: string): Captured {
    const captured = own(this.#state.captured, service);
    if (!captured) throw new Error(`${service} was not captured`);
    return captured;
  }

  capture(service: string, captured: Captured): void {
    this.update({ captured: { ...this.#state.captured, [service]: captured } });
  }

  /** A count that is not ours: said, whatever is done about it. */
  report(service: string, found: number, isOverwritten: boolean): void {
    const { count, ours } = this.#capturedOf(service);
    const changed: ChangedCount = { service, captured: count, expected: ours[1], found, isOverwritten };
    this.update({ changed: [...this.#state.changed, changed] });
    this.note(describeChanged(changed));
  }

  // --- after a crash ---

  /** Ends what the dead controller's action left running, before anything else is touched. */
  async endInterrupted(): Promise<void> {
    this.#isReapplied = false;
    const { current } = this.#state;
    const action = current ? this.#actions.get(current.id) : undefined;
    if (!current || !action) return;
    const { clock } = this.deps;
    const { killMs } = this.limits;
    const left = { id: current.id, attempt: current.attempt };
    try {
      const isUsed = await withDeadline({
        clock,
        ms: killMs,
        graceMs: killMs,
        signal: new AbortController().signal,
        work: (signal) => outlast(this, signal, () => this.#endLeftover(action, current.attempt, signal)),
      });
      this.#interrupted = { ...left, verdict: isUsed ? 'used' : 'again', why: 'the controller died while it ran' };
    } catch (error) {
      const why = `the controller died while it ran, and it could not be ended: ${this.deps.redact(messageOf(error))}`;
      this.#interrupted = { ...left, verdict: 'lost', why };
      this.#leave(action, current.attempt);
    }
  }

  #leave(action: HookAction, attempt: number): void {
    this.update({ leftovers: [...this.#state.leftovers, { actionId: action.id, attempt }] });
  }

  /** Ends what could not be ended in its own time. False when it still cannot; never throws. */
  async endLeftovers(): Promise<boolean> {
    const { clock } = this.deps;
    for (const leftover of this.#state.leftovers) {
      const action = this.#actions.get(leftover.actionId);
      if (!action) continue;
      try {
        await withDeadline({
          clock,
          ms: this.limits.restoreMs,
          graceMs: this.limits.killMs,
          signal: new AbortController().signal,
          work: async (signal) => {
            for (let tries = 0; ; tries++)
              try {
                return await this.#endLeftover(action, leftover.attempt, signal);
              } catch (error) {
                await clock.sleep(pauseMs(tries), signal).catch(() => {
                  throw error;
                });
              }
          },
        });
        this.update({ leftovers: this.#state.leftovers.filter((one) => one !== leftover) });
        this.trySave();
      } catch (error) {
        this.note(`${action.id} ${action.name} may still run and cannot be ended: ${messageOf(error)}`);
      }
    }
    return this.#state.leftovers.length === 0;
  }

  /** True when that try is used up; false when it may be made (or taken up) again as if nothing had happened. */
  async #endLeftover(action: HookAction, attempt: number, signal: AbortSignal): Promise<boolean> {
    const { ports } = this.deps;
    const name = jobContainerName(this.#state.run, action, attempt);
    switch (leftoverOf(action)) {
      case 'nothing':
        return false;
      case 'unknown':
        return true;
      case 'exec': {
        const where = action.kind === 'job' ? action.job : action;
        if (!('service' in where) || where.service === null) throw new Error(`${action.id} has no service`);
        await ports.endExec({ service: where.service, mark: name }, signal);
        return true;
      }
      case 'container': {
        const { kind } = await ports.findJob(name, signal);
        if (kind !== 'running') return false;
        await ports.killJob(name, signal);
        return true;
      }
    }
  }

  #messageOf(outcome: HookOutcome): string {
    if (outcome === 'restoreFailed')
      return [
        ...this.#state.unrestored.map(
          (one) => `${one.service} had ${one.captured} and has ${one.found ?? 'an unknown number'} now: ${one.message}`,
        ),
        ...this.#state.leftovers.map(
          ({ actionId }) => `${this.#actions.get(actionId)?.name ?? actionId} may still run and cannot be ended`,
        ),
      ].join('; ');
    if (outcome === 'succeeded')
      return this.#state.records
        .filter((one) => one.result === 'failed')
        .map((one) => `${one.name} failed and was passed over: ${one.message}`)
        .join('; ');
    if (outcome === this.#state.stop && this.#state.stopWhy !== undefined) return this.#state.stopWhy;
    // What failed before and was to go on is not why it ended.
    if (outcome === 'failed' && this.#broken !== null) return this.#broken;
    const last = this.#state.records.at(-1);
    if (last?.result === outcome) return last.message === '' ? last.name : `${last.name}: ${last.message}`;
    return this.#state.resumes > 0 ? 'the controller died in the middle of it' : '';
  }
}

/** Names come from people and jobs: `constructor` is one like any other. */
function own<T>(of: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(of, name) ? of[name] : undefined;
}

const isGood = (result: ActionResult): boolean => result === 'done' || result === 'halted' || result === 'skipped';

export function isWithin(count: number, [low, high]: readonly [number, number]): boolean {
  return count >= low && count <= high;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
