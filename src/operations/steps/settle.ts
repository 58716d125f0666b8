// Step: the stack is well and stays well for the settle window. "The command exited 0" is not success.

import { projectContainers } from '../../core/diff/diff.ts';
import { Fault } from '../../core/fault.ts';
import { type Health, healthOf, type Problem } from '../../core/status/health.ts';
import { planKey } from '../../engine/cache.ts';
import type { Step } from '../../engine/step.ts';
import { type DeployRun, type DeployTarget, judgedOf, supersededFault } from '../deploy-run.ts';
import { lastLines } from '../last-lines.ts';

export const settledKey = planKey<Health>('settled');

export function settle(run: DeployRun, timeoutOf: (stack: string) => number): Step<DeployTarget> {
  const { clock, settings } = run.house;
  return {
    name: 'settle',
    title: 'wait until it is stable',
    touches: 'nothing',
    applicable: () => true,
    async check(ctx, { payload }) {
      const judged = await judgedOf(run, ctx, payload.stack);
      const known = ctx.cache.get(settledKey.at(payload.stack)) !== undefined;
      const inSync =
        judged.diff.changes.length === 0 && judged.applied?.desired.digest === judged.resolved.desired.digest;
      return { satisfied: known || (inSync && judged.health.state === 'healthy') };
    },
    async execute(ctx, { payload }) {
      const superseded = run.superseded?.get(payload.stack);
      const either = superseded ? AbortSignal.any([ctx.signal, superseded]) : ctx.signal;
      const begun = clock.nowMs();
      const deadline = begun + timeoutOf(payload.stack);
      const first = new Map<string, number>();
      let goodSince: number | null = null;
      let samples = 0;
      const pause = Math.max(50, Math.floor(settings.settleMs / settings.settleSamples));
      for (;;) {
        ctx.signal.throwIfAborted();
        // Nobody needs to know whether a revision is stable that is to be replaced.
        if (superseded?.aborted) throw supersededFault();
        const judged = await judgedOf(run, { cache: ctx.cache, fresh: true }, payload.stack);
        const { desired } = judged.resolved;
        const containers = projectContainers(judged.index, desired.project);
        const restarts = new Map<string, number>();
        for (const one of containers) {
          const count = one.detail?.restartCount ?? 0;
          if (!first.has(one.id)) first.set(one.id, count);
          restarts.set(one.id, count - (first.get(one.id) ?? 0));
        }
        const health = healthOf(desired, containers, judged.applied, restarts);
        const now = clock.nowMs();
        if (health.state === 'failed') throw await faultOf(run, health.problems);
        if (health.state === 'healthy') {
          goodSince ??= now;
          samples++;
          if (now - goodSince >= settings.settleMs && samples >= settings.settleSamples) {
            ctx.cache.set(settledKey.at(payload.stack), health);
            return;
          }
        } else {
          goodSince = null;
          samples = 0;
        }
        if (now >= deadline) throw await faultOf(run, health.problems);
        await clock.sleep(Math.min(pause, Math.max(10, deadline - now)), either).catch(() => {
          ctx.signal.throwIfAborted();
        });
      }
    },
    verify: () => {},
  };
}

async function faultOf(run: DeployRun, problems: readonly Problem[]): Promise<Fault> {
  const [worst] = [...problems].sort(
    (a, b) => Number(a.code === 'SETTLE_TIMEOUT') - Number(b.code === 'SETTLE_TIMEOUT'),
  );
  if (!worst) return new Fault('SETTLE_TIMEOUT', 'the stack did not settle in time');
  const tail = worst.containerId ? await lastLines(run.house, worst.containerId) : [];
  return new Fault(worst.code, problems.map((problem) => problem.message).join('; '), {
    data: { service: worst.service, ...(tail.length > 0 ? { log: tail } : {}) },
  });
}
