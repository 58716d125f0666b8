// Run: drives the compiled machine of a hook phase, and takes up again what a dead controller left. The only file that knows xstate.
import { type AnyActorLogic, assign, createActor, createMachine, fromPromise } from 'xstate';
import { Fault } from '../core/fault.ts';
import type { HookAction } from '../core/hook/action.ts';
import { ACTION_KINDS } from '../core/hook/action.ts';
import type { Ending, HookOutcome } from '../core/hook/chart.ts';
import { OUTCOMES } from '../core/hook/chart.ts';
import { compile } from '../core/hook/compile.ts';
import { isPre } from '../core/hook/phase.ts';
import type { HookRun, HookState } from '../core/hook/run-state.ts';
import { runKey } from '../core/hook/run-state.ts';
import type { HookJournal } from '../ports/hooks.ts';
import type { Outcome } from './outcome.ts';
import { ACTORS } from './registry.ts';
import { restoreServices } from './restore.ts';
import { type HookDeps, Session } from './session.ts';

export type { HookDeps, HookLimits } from './session.ts';

export interface HookInput {
  readonly run: HookRun;
  readonly revision: string;
  /** From `planActions`. */
  readonly actions: readonly HookAction[];
  /** Ends the current action's work; then everything is restored and the run is `cancelled`. */
  readonly signal?: AbortSignal;
}

export interface HookResult {
  readonly outcome: HookOutcome;
  /** Succeeded or halted: the operation goes on. */
  readonly isGood: boolean;
  /** The whole record of the run. */
  readonly state: HookState;
  /** What to throw when it is not good. */
  readonly fault: Fault | null;
}

export interface HookHandle {
  readonly result: Promise<HookResult>;
  /** A newer revision is there, or nothing is to be done any more. In a pre phase the current action ends, the rest is not run, everything is restored: true.
   * Any other phase runs to its end first: false, and nothing is done. */
  supersede(why?: string): boolean;
  /** A person wants it to stop: the current action ends, the rest is not run, everything is restored. */
  cancel(): void;
}

/** Runs a phase. The same run again gives what is on record, or takes it up where it was left. The result is rejected only when the
 * journal cannot be written. The caller clears the run from the journal once it has told the outcome to its own records. */
export function startHook(deps: HookDeps, input: HookInput): HookHandle {
  const known = deps.journal.load(runKey(input.run));
  if (known) return resumeHook(deps, known, input.signal ? { signal: input.signal } : {});
  const { run, actions } = input;
  const state: HookState = {
    version: 1,
    run,
    revision: input.revision,
    actions,
    chart: compile({ stack: run.stack, phase: run.phase, actions, actors: ACTORS }),
    snapshot: null,
    startedAtMs: deps.clock.nowMs(),
    resumes: 0,
    stop: '',
    ending: null,
    captured: {},
    outputs: {},
    records: [],
    current: null,
    changed: [],
    leftovers: [],
    unrestored: [],
    ended: null,
  };
  const session = new Session(deps, state, input.signal ?? new AbortController().signal);
  return handleOf(session, async (machine) => {
    // First: what is on record from here on is of this run.
    deps.journal.clearLogs(run);
    session.save();
    return machine();
  });
}

export interface ResumeOptions {
  readonly signal?: AbortSignal;
  /** Asked once everything is restored, of a sequence that has not come to an end: null = it goes on. Default: it goes on. */
  readonly decide?: (state: HookState) => Verdict | null | Promise<Verdict | null>;
}

/** Why a sequence that was interrupted does not go on. */
export interface Verdict {
  readonly ending: 'failed' | 'superseded';
  readonly why: string;
}

/** Takes up a run of a dead controller: ends what it left running, restores, then goes on after the last action whose end is on
 * record. A run that ended gives its record; one whose restore failed is restored again. */
export function resumeHook(deps: HookDeps, state: HookState, options: ResumeOptions = {}): HookHandle {
  const session = new Session(deps, state, options.signal ?? new AbortController().signal);
  if (state.ended && state.ended.outcome !== 'restoreFailed')
    return { result: Promise.resolve(resultOf(state)), supersede: () => false, cancel() {} };
  return handleOf(session, async (machine) => {
    session.update({ resumes: state.resumes + 1, ended: null });
    session.save();
    await session.endInterrupted();
    const isRestored = await restoreServices(session, true);
    // Whoever brings it back later does not go on with the sequence then.
    if (!isRestored && session.state.ending === null) session.update({ ending: 'failed' });
    if (!isRestored) return session.end('restoreFailed');
    const { ending } = session.state;
    if (ending) return session.end(ending);
    const verdict = (await options.decide?.(session.state)) ?? null;
    if (verdict) {
      session.update({ ending: verdict.ending });
      return session.end(verdict.ending, verdict.why);
    }
    return machine();
  });
}

/** Takes up every run that the journal holds, stacks beside each other; what has ended well gives its record. `depsOf` null = not now.
 * For the start of a controller, before anything else touches the stacks. What could not be taken up at all is thrown when the rest is done. */
export async function resumeHooks(
  journal: HookJournal,
  depsOf: (state: HookState) => HookDeps | null | Promise<HookDeps | null>,
  options: ResumeOptions = {},
): Promise<readonly HookResult[]> {
  const byStack = new Map<string, HookState[]>();
  for (const state of journal.all()) byStack.set(state.run.stack, [...(byStack.get(state.run.stack) ?? []), state]);
  const results: HookResult[] = [];
  const stacks = await Promise.allSettled(
    [...byStack.values()].map(async (states) => {
      for (const state of states) {
        const deps = await depsOf(state);
        if (deps) results.push(await resumeHook(deps, state, options).result);
      }
    }),
  );
  for (const one of stacks) if (one.status === 'rejected') throw one.reason;
  return results;
}

export function resultOf(state: HookState): HookResult {
  if (!state.ended) throw new Error(`${runKey(state.run)} has not ended`);
  const { outcome } = state.ended;
  return { outcome, isGood: outcome === 'succeeded' || outcome === 'halted', state, fault: faultOf(state) };
}

/** Lines of what failed that are told at once; there is more in the log that is kept. */
const TOLD_LINES = 10;

function faultOf({ ended, run, unrestored, records }: HookState): Fault | null {
  if (!ended) return null;
  const { outcome, message } = ended;
  const data = { stack: run.stack, phase: run.phase, outcome };
  const what = `${run.phase} of ${run.stack}`;
  switch (outcome) {
    case 'succeeded':
    case 'halted':
      return null;
    case 'failed': {
      const last = records.at(-1);
      const log = last?.result === 'failed' ? last.tail.slice(-TOLD_LINES) : [];
      const read = last ? { read: `windlass hooks log ${run.stack} ${run.phase} ${last.id}` } : {};
      return new Fault('HOOK_FAILED', `${what} failed: ${message}`, { data: { ...data, ...read, log } });
    }
    case 'cancelled':
    case 'superseded':
      return new Fault('CANCELLED', `${what} was ${outcome}`, {
        data: message === '' ? data : { ...data, why: message },
      });
    case 'restoreFailed':
      return new Fault('RESTORE_FAILED', `${what}: ${message}`, {
        data: { ...data, services: unrestored.map((one) => `${one.service}=${one.captured}`) },
      });
  }
}

function handleOf(session: Session, work: (machine: () => Promise<HookState>) => Promise<HookState>): HookHandle {
  let tell: ((event: 'CANCEL' | 'SUPERSEDE') => void) | null = null;
  const stop = (as: 'cancelled' | 'superseded', why?: string) => {
    if (session.state.ended || session.state.stop !== '') return;
    session.update({ stop: as, ...(why === undefined ? {} : { stopWhy: why }) });
    session.trySave();
    tell?.(as === 'cancelled' ? 'CANCEL' : 'SUPERSEDE');
  };
  const result = work(() =>
    drive(session, (send) => {
      tell = send;
    }),
  );
  return {
    result: result.then(resultOf),
    supersede(why) {
      if (!isPre(session.state.run.phase)) return false;
      stop('superseded', why);
      return true;
    },
    cancel: () => stop('cancelled'),
  };
}

/** From the persisted snapshot, or from the start. What is on record answers at once, so that nothing runs twice. */
function drive(session: Session, onReady: (send: (event: 'CANCEL' | 'SUPERSEDE') => void) => void): Promise<HookState> {
  const { chart, snapshot } = session.state;
  const perform = fromPromise<Outcome, { readonly id: string }>(({ input }) =>
    session.perform(input.id).catch((error: unknown) => {
      session.break(error);
      throw error;
    }),
  );
  const restore = fromPromise(async () => restoreServices(session, false));
  const actors: Record<string, AnyActorLogic> = { restore };
  for (const kind of ACTION_KINDS) actors[kind] = perform;
  const machine = createMachine(chart as unknown as Parameters<typeof createMachine>[0]).provide({
    actors: actors as never,
    guards: {
      outcome: ({ event }, params) => outputOf(event).result === is(params),
      branch: ({ event }, params) => outputOf(event).branch === is(params),
      restoreFailed: ({ event }) => (event as unknown as { readonly output: boolean }).output === false,
      stopped: ({ context }, params) => (context as Context).stop === (params as unknown as { as: string }).as,
      ending: ({ context }, params) => (context as Context).ending === is(params),
    },
    actions: {
      setStop: assign((_, params) => ({ stop: (params as unknown as { as: string }).as })),
      setEnding: assign((_, params) => {
        const ending = (params as unknown as { as: Ending }).as;
        session.update({ ending });
        return { ending };
      }),
    },
  });
  const actor = createActor(machine, snapshot === null ? {} : { snapshot: snapshot as never });
  return new Promise((resolve, reject) => {
    const settle = (name: string): void => {
      try {
        const outcome = OUTCOMES.find((one) => one === name);
        if (!outcome) throw new Error(`the machine of ${chart.id} ended in ${name}`);
        resolve(session.end(outcome));
      } catch (error) {
        reject(error);
      }
    };
    actor.subscribe({
      complete: () => settle(String(actor.getSnapshot().value)),
      error: reject,
    });
    session.watch(() => actor.getPersistedSnapshot());
    const send = (type: 'CANCEL' | 'SUPERSEDE') => actor.send({ type });
    actor.start();
    if (session.state.stop !== '') send(session.state.stop === 'cancelled' ? 'CANCEL' : 'SUPERSEDE');
    onReady(send);
  });
}

interface Context {
  readonly stop: string;
  readonly ending: string;
}

const outputOf = (event: unknown): Outcome => (event as { readonly output: Outcome }).output;
const is = (params: unknown): string => (params as { readonly is: string }).is;
