import { describe, expect, test } from 'vitest';
import { BuildError, Plan, type PlanData } from '../../src/engine/plan.ts';
import { type Barrier, NoopStep, type Step } from '../../src/engine/step.ts';
import { planOf, step, targets } from './fixture.ts';

const problems = (plan: Plan): readonly string[] => {
  try {
    plan.build();
  } catch (error) {
    return (error as BuildError).problems;
  }
  return [];
};

const broken = (change: (plan: Plan, phase: ReturnType<Plan['addPhase']>) => void): readonly string[] => {
  const plan = planOf([new NoopStep('look')]);
  change(plan, plan.phases[0]!);
  return problems(plan);
};

describe('a plan that is built', () => {
  test.each<[string, Parameters<typeof broken>[0], string]>([
    ['no phase at all', (plan) => plan.phases.pop(), 'it has no phases'],
    [
      'a phase without a name',
      (plan) =>
        plan
          .addPhase(' ')
          .addTargets(...targets('a'))
          .addStep(new NoopStep('x')),
      'phase 2 has no name',
    ],
    [
      'two phases of one name',
      (plan) =>
        plan
          .addPhase('only')
          .addTargets(...targets('a'))
          .addStep(new NoopStep('x')),
      'two phases are called "only"',
    ],
    ['a phase without steps', (plan) => plan.addPhase('more').addTargets(...targets('a')), 'phase "more" has no steps'],
    [
      'a phase without targets',
      (plan) => plan.addPhase('more').addStep(new NoopStep('x')),
      'phase "more" has no targets',
    ],
    [
      'a target without an id',
      (_, phase) => phase.addTargets(...targets('')),
      'phase "only" has a target without an id',
    ],
    ['a target twice', (_, phase) => phase.addTargets(...targets('a')), 'phase "only" has the target "a" twice'],
    ['a step twice', (_, phase) => phase.addStep(new NoopStep('look')), 'phase "only" has the step "look" twice'],
    ['a step without a name', (_, phase) => phase.addStep(new NoopStep('')), 'phase "only" has a step without a name'],
    [
      'a step that is nothing',
      (_, phase) => phase.addStep(undefined as unknown as Step),
      'phase "only" has a step that is nothing',
    ],
    [
      'a step that touches an unknown thing',
      (_, phase) => phase.addStep({ ...step('x'), touches: 'disk' as 'data' }),
      'phase "only" has the step "x" that touches disk; it must be nothing, runtime, data, vault',
    ],
    [
      'a step with a deadline of nothing',
      (_, phase) => phase.addStep({ ...step('x'), deadlineMs: 0 }),
      'phase "only" has the step "x" with a deadline of 0 ms',
    ],
    [
      'a step without execute',
      (_, phase) => phase.addStep({ ...step('x'), execute: undefined } as unknown as Step),
      'phase "only" has the step "x" without execute',
    ],
    [
      'concurrency 0',
      (_, phase) => Object.assign(phase, { concurrency: 0 }),
      'phase "only" has concurrency 0; it must be an integer of at least 1',
    ],
    [
      'concurrency 1.5',
      (_, phase) => Object.assign(phase, { concurrency: 1.5 }),
      'phase "only" has concurrency 1.5; it must be an integer of at least 1',
    ],
    [
      'a barrier without a name',
      (_, phase) => Object.assign(phase, { barrier: { name: '', evaluate() {} } }),
      'phase "only" has a barrier without a name or evaluate',
    ],
  ])('is refused for %s', (_name, change, problem) => {
    expect(broken(change)).toEqual([problem]);
  });

  test('names all its problems at once', () => {
    const plan = new Plan();
    plan.addPhase('one').concurrency = -1;
    expect(problems(plan)).toHaveLength(3);
  });

  test('has a concurrency of 4 unless it says otherwise', () => {
    const plan = new Plan();
    plan
      .addPhase('p')
      .addTargets(...targets('a'))
      .addStep(new NoopStep('s'));
    expect(plan.build().phases[0]!.concurrency).toBe(4);
  });

  test('reports planning once per phase and step, whatever the number of targets, even past a watcher that throws', () => {
    const plan = planOf([new NoopStep('one'), new NoopStep('two')], ['a', 'b', 'c']);
    plan
      .addPhase('later')
      .addTargets(...targets('a'))
      .addStep(new NoopStep('one'));
    const seen: string[] = [];
    const angry = {
      onPlanning() {
        throw new Error('watcher');
      },
    };
    plan.build(angry, { onPlanning: (phase, name) => void seen.push(`${phase}/${name}`) });
    expect(seen).toEqual(['only/one', 'only/two', 'later/one']);
  });

  test('does not see what is done to the builder afterwards', () => {
    const plan = planOf([new NoopStep('look')]);
    const built = plan.build();
    plan.phases[0]!.addTargets(...targets('b'));
    plan.addPhase('late');
    expect(built.toData().phases).toEqual([
      { name: 'only', steps: ['look'], targets: [{ id: 'a', payload: null }], concurrency: 4 },
    ]);
  });
});

describe('a plan as data', () => {
  const ready: Barrier = { name: 'all-ready', evaluate() {} };
  const registry = { steps: [new NoopStep('pull'), new NoopStep('up')], barriers: [ready] };
  const data: PlanData = {
    operation: 'deploy',
    phases: [
      {
        name: 'layer 1',
        steps: ['pull', 'up'],
        targets: [{ id: 'shop', payload: { kind: 'stack' } }],
        concurrency: 2,
        barrier: 'all-ready',
      },
      { name: 'layer 2', steps: ['up'], targets: [{ id: 'sso', payload: { kind: 'stack' } }], concurrency: 4 },
    ],
  };

  test('builds the plan that it describes, and comes back unchanged through JSON', () => {
    const built = Plan.fromData(JSON.parse(JSON.stringify(data)) as PlanData, registry).build();
    expect(built.toData()).toEqual(data);
    expect(built.phases[0]!.barrier).toBe(ready);
  });

  test.each<[string, unknown, string]>([
    [
      'an unknown step',
      { operation: 'x', phases: [{ name: 'p', steps: ['toString'], targets: targets('a') }] },
      'phase "p" names the step "toString", which is unknown; known: pull, up',
    ],
    [
      'an unknown barrier',
      { operation: 'x', phases: [{ name: 'p', steps: ['up'], targets: targets('a'), barrier: 'none' }] },
      'phase "p" names the barrier "none", which is unknown; known: all-ready',
    ],
    ['null', null, 'it is not {operation, phases: [{name, steps, targets}]}'],
    [
      'another shape',
      { operation: 'x', phases: [{ name: 'p', steps: 'up', targets: [] }] },
      'it is not {operation, phases: [{name, steps, targets}]}',
    ],
  ])('is refused for %s', (_name, value, problem) => {
    expect(() => Plan.fromData(value as PlanData, registry)).toThrow(BuildError);
    expect(() => Plan.fromData(value as PlanData, registry)).toThrow(problem);
  });

  test('is refused for a concurrency that is no number', () => {
    const odd = { operation: 'x', phases: [{ name: 'p', steps: ['up'], targets: targets('a'), concurrency: '2' }] };
    expect(() => Plan.fromData(odd as unknown as PlanData, registry).build()).toThrow('has concurrency 2');
  });

  test('is refused when its registry holds a name twice', () => {
    expect(() => Plan.fromData(data, { ...registry, steps: [...registry.steps, new NoopStep('up')] })).toThrow(
      'the registry has two steps called "up"',
    );
  });
});
