// Step: remember what is deployed. The last of a deploy: "deployed" is true only when everything before it is done.
import { imageNamed } from '../../core/diff/index-observed.ts';
import type { Applied } from '../../core/state/applied.ts';
import type { Step } from '../../engine/step.ts';
import { type DeployRun, type DeployTarget, judgedOf } from '../deploy-run.ts';
import { forgetInstalling } from '../gone.ts';
import { hooksDigestOf } from '../hooks-of.ts';
import type { Judged } from '../survey.ts';
import { isRecorded } from '../workbench.ts';
import { settledKey } from './settle.ts';

export function appliedOf(run: DeployRun, judged: Judged, roles: Applied['roles']): Applied {
  const { desired } = judged.resolved;
  return {
    stack: judged.name,
    project: desired.project,
    desired,
    source: judged.at.revision.source,
    revision: judged.at.revision.commit,
    atMs: run.house.clock.nowMs(),
    imageIds: Object.fromEntries(
      desired.services.map((service) => [service.name, imageNamed(judged.index, service.image)?.id ?? '']),
    ),
    roles,
    prune: judged.stack.prune,
    hooks: hooksDigestOf(judged.stack),
  };
}

export function record(run: DeployRun): Step<DeployTarget> {
  const { store, source } = run.house;
  return {
    name: 'record',
    title: 'remember what is deployed',
    touches: 'nothing',
    applicable: () => true,
    async check(ctx, { payload }) {
      const judged = await judgedOf(run, { cache: ctx.cache, fresh: false }, payload.stack);
      const applied = store.applied(payload.stack);
      return isRecorded(judged, applied) && store.attempt(payload.stack) === null;
    },
    async execute(ctx, { payload }) {
      const judged = await judgedOf(run, { cache: ctx.cache, fresh: false }, payload.stack);
      const before = store.applied(payload.stack);
      await source.pin(`stack-${payload.stack}`, judged.at.revision.commit);
      if (before && before.desired.digest !== judged.resolved.desired.digest) {
        await source.pin(`stack-${payload.stack}-previous`, before.revision);
        store.putValue(`previous/${payload.stack}`, { revision: before.revision, digest: before.desired.digest });
      }
      const health = ctx.cache.get(settledKey.at(payload.stack)) ?? judged.health;
      store.putApplied(appliedOf(run, judged, health.roles));
      store.deleteAttempt(payload.stack);
      forgetInstalling(store, payload.stack);
    },
    verify: () => {},
  };
}
