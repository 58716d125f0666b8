// Plan: built by hand or from plain JSON, validated as a whole, then frozen into an ExecutablePlan that can be shown, probed and run.
import { type BuildObserver, multiplex } from './observer.ts';
import type { ExecuteOptions, ProbeOptions } from './options.ts';
import { DEFAULT_CONCURRENCY, type ExecutablePhase, Phase } from './phase.ts';
import { formatPreview, formatStyledPreview, type PlanDisplayHints } from './preview.ts';
import { type Preview, probePhases } from './probe.ts';
import { type RunOutcome, runPhases } from './run.ts';
import { type Barrier, type Step, type Target, TOUCHES } from './step.ts';
import { asError } from './thrown.ts';

/** A plan as plain JSON: steps and barriers by name, so that it can be stored, shown and run again. */
export interface PlanData<P = unknown> {
  readonly operation: string;
  readonly phases: readonly PhaseData<P>[];
}

export interface PhaseData<P = unknown> {
  readonly name: string;
  readonly steps: readonly string[];
  readonly targets: readonly Target<P>[];
  readonly concurrency?: number;
  readonly barrier?: string;
}

/** Where the names of a plan's data are looked up. */
export interface PlanRegistry<P = unknown> {
  readonly steps: Iterable<Step<P>>;
  readonly barriers?: Iterable<Barrier>;
}

/** Everything that is wrong with a plan, at once. */
export class BuildError extends Error {
  override readonly name = 'BuildError';
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(`the plan cannot be built: ${problems.join('; ')}`);
    this.problems = problems;
  }
}

export class Plan<P = unknown> {
  readonly operation: string;
  readonly phases: Phase<P>[] = [];

  constructor(operation = 'plan') {
    this.operation = operation;
  }

  /** Refuses a shape that is not PlanData and names that the registry does not have; `build` judges the rest. */
  static fromData<P = unknown>(data: PlanData<P>, registry: PlanRegistry<P>): Plan<P> {
    const problems: string[] = [];
    const steps = byName('step', registry.steps, problems);
    const barriers = byName('barrier', registry.barriers ?? [], problems);
    if (!isPlanData(data))
      throw new BuildError([...problems, 'it is not {operation, phases: [{name, steps, targets}]}']);
    const plan = new Plan<P>(data.operation);
    for (const written of data.phases) {
      const phase = plan.addPhase(written.name).addTargets(...written.targets);
      phase.concurrency = written.concurrency ?? DEFAULT_CONCURRENCY;
      for (const name of written.steps) {
        const step = steps.get(name);
        if (step) phase.addStep(step);
        else problems.push(unknownName('step', name, written.name, steps));
      }
      if (written.barrier === undefined) continue;
      phase.barrier = barriers.get(written.barrier);
      if (!phase.barrier) problems.push(unknownName('barrier', written.barrier, written.name, barriers));
    }
    if (problems.length > 0) throw new BuildError(problems);
    return plan;
  }

  addPhase(name: string): Phase<P> {
    const phase = new Phase<P>(name);
    this.phases.push(phase);
    return phase;
  }

  /** Validates, reports each (phase, step) once, and freezes: later changes of this builder are not seen. */
  build(...observers: readonly (BuildObserver | undefined)[]): ExecutablePlan<P> {
    const problems = problemsOf(this);
    if (problems.length > 0) throw new BuildError(problems);
    const phases = this.phases.map(({ name, targets, steps, concurrency, barrier }) =>
      Object.freeze({ name, targets: [...targets], steps: [...steps], concurrency, barrier }),
    );
    const watching = multiplex(...observers);
    for (const phase of phases) for (const step of phase.steps) watching.onPlanning(phase.name, step.name);
    return new ExecutablePlan(this.operation, phases);
  }
}

/** What `build` makes of a plan. */
export class ExecutablePlan<P = unknown> {
  readonly operation: string;
  readonly phases: readonly ExecutablePhase<P>[];

  constructor(operation: string, phases: readonly ExecutablePhase<P>[]) {
    this.operation = operation;
    this.phases = Object.freeze([...phases]);
  }

  toData(): PlanData<P> {
    return {
      operation: this.operation,
      phases: this.phases.map(({ name, steps, targets, concurrency, barrier }) => ({
        name,
        steps: steps.map((step) => step.name),
        targets: targets.map(({ id, payload }) => ({ id, payload })),
        concurrency,
        ...(barrier && { barrier: barrier.name }),
      })),
    };
  }

  probe(options: ProbeOptions = {}): Promise<Preview> {
    return probePhases(this.phases, options);
  }

  /** Probes, then plain text. Hints win over the options. */
  async describe(hints: PlanDisplayHints = {}, options: ProbeOptions = {}): Promise<string> {
    return formatPreview(this.operation, await this.probe(withHints(options, hints)));
  }

  /** Probes, then a tree of at most `width` columns. */
  async describeStyled(width: number, hints: PlanDisplayHints = {}, options: ProbeOptions = {}): Promise<string> {
    return formatStyledPreview(this.operation, await this.probe(withHints(options, hints)), width, hints);
  }

  /** Never rejects: answers every cell that started, and the error if there was one. A dry run only probes. */
  async run(options: ExecuteOptions = {}): Promise<RunOutcome> {
    if (!options.dryRun) return runPhases(this.operation, this.phases, options);
    try {
      return { cells: [], preview: await this.probe(options) };
    } catch (thrown) {
      return { cells: [], error: asError(thrown) };
    } finally {
      await options.cache?.close();
    }
  }

  /** As `run`, and rejects with the error. */
  async execute(options: ExecuteOptions = {}): Promise<RunOutcome> {
    const outcome = await this.run(options);
    if (outcome.error) throw outcome.error;
    return outcome;
  }
}

function withHints(options: ProbeOptions, { dryRun, skipPhases }: PlanDisplayHints): ProbeOptions {
  return { ...options, ...(dryRun !== undefined && { dryRun }), ...(skipPhases && { skipPhases }) };
}

function problemsOf<P>(plan: Plan<P>): string[] {
  const problems: string[] = [];
  if (blank(plan.operation)) problems.push('its operation has no name');
  if (plan.phases.length === 0) problems.push('it has no phases');
  for (const name of twice(plan.phases)) problems.push(`two phases are called "${name}"`);
  for (const [at, phase] of plan.phases.entries()) {
    const where = blank(phase.name) ? `phase ${at + 1}` : `phase "${phase.name}"`;
    const say = (problem: string) => problems.push(`${where} ${problem}`);
    if (blank(phase.name)) say('has no name');
    if (!Number.isInteger(phase.concurrency) || phase.concurrency < 1)
      say(`has concurrency ${phase.concurrency}; it must be an integer of at least 1`);
    if (phase.targets.length === 0) say('has no targets');
    if (phase.targets.some((target) => blank(target?.id))) say('has a target without an id');
    for (const id of twice(phase.targets.map((target) => ({ name: target?.id })))) say(`has the target "${id}" twice`);
    if (phase.steps.length === 0) say('has no steps');
    for (const name of twice(phase.steps)) say(`has the step "${name}" twice`);
    for (const step of phase.steps) {
      if (blank(step?.name)) say(step ? 'has a step without a name' : 'has a step that is nothing');
      else for (const problem of stepProblems(step)) say(`has the step "${step.name}" ${problem}`);
    }
    if (phase.barrier && (blank(phase.barrier.name) || typeof phase.barrier.evaluate !== 'function'))
      say('has a barrier without a name or evaluate');
  }
  return problems;
}

function* stepProblems<P>(step: Step<P>): Iterable<string> {
  if (!TOUCHES.includes(step.touches)) yield `that touches ${String(step.touches)}; it must be ${TOUCHES.join(', ')}`;
  if (step.deadlineMs !== undefined && !(Number.isFinite(step.deadlineMs) && step.deadlineMs > 0))
    yield `with a deadline of ${step.deadlineMs} ms`;
  for (const method of ['applicable', 'check', 'execute'] as const)
    if (typeof step[method] !== 'function') yield `without ${method}`;
}

const blank = (name: unknown): boolean => typeof name !== 'string' || name.trim() === '';

/** Names that occur more than once, each named once; nameless ones are complained of elsewhere. */
function twice(named: readonly ({ readonly name: string } | null | undefined)[]): ReadonlySet<string> {
  const names = named.map((item) => item?.name).filter((name): name is string => !blank(name));
  const seen = new Set<string>();
  return new Set(names.filter((name) => seen.size === seen.add(name).size));
}

function byName<T extends { readonly name: string }>(kind: string, items: Iterable<T>, problems: string[]) {
  const found = new Map<string, T>();
  for (const item of items) {
    if (found.has(item.name)) problems.push(`the registry has two ${kind}s called "${item.name}"`);
    found.set(item.name, item);
  }
  return found;
}

function unknownName(kind: string, name: string, phase: string, known: ReadonlyMap<string, unknown>): string {
  return `phase "${phase}" names the ${kind} "${name}", which is unknown; known: ${[...known.keys()].join(', ') || 'none'}`;
}

function isPlanData(data: unknown): boolean {
  const plan = data as Partial<PlanData> | null;
  return (
    typeof plan === 'object' &&
    typeof plan?.operation === 'string' &&
    Array.isArray(plan.phases) &&
    plan.phases.every(
      (phase: Partial<PhaseData> | null) =>
        typeof phase?.name === 'string' &&
        Array.isArray(phase.steps) &&
        Array.isArray(phase.targets) &&
        phase.targets.every((target: Partial<Target> | null) => typeof target?.id === 'string'),
    )
  );
}
