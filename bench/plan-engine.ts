// The plan engine alone: 1,000 targets × 10 steps that do nothing, watched by nobody. Budget: 1 s.
import { silentObserver } from '../src/engine/observers/silent.ts';
import { Plan } from '../src/engine/plan.ts';
import { NoopStep } from '../src/engine/step.ts';

export async function bench(): Promise<{ bench: string; oursMs: number; cells: number }> {
  const build = () => {
    const plan = new Plan('bench');
    const phase = plan.addPhase('all');
    for (let at = 0; at < 1_000; at++) phase.addTargets({ id: `target-${at}`, payload: null });
    for (let at = 0; at < 10; at++) phase.addStep(new NoopStep(`step-${at}`));
    return plan.build();
  };
  const startedAt = performance.now();
  const { cells } = await build().execute({ progress: silentObserver });
  return { bench: 'plan-engine', oursMs: performance.now() - startedAt, cells: cells.length };
}
