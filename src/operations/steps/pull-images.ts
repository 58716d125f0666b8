// Steps: every image that a new container needs is on the engine, pulled or built, before any container is touched.
import { imageNamed, type ObservedIndex } from '../../core/diff/index-observed.ts';
import { Fault } from '../../core/fault.ts';
import type { DesiredService } from '../../core/state/desired.ts';
import { LABELS } from '../../core/state/labels.ts';
import { planKey } from '../../engine/cache.ts';
import type { Step, StepContext } from '../../engine/step.ts';
import { type DeployRun, type DeployTarget, judgedOf } from '../deploy-run.ts';
import type { Judged } from '../survey.ts';

const DEADLINE_MS = 30 * 60_000;

interface Needs {
  readonly pull: readonly string[];
  readonly build: readonly DesiredService[];
}

/** `pull_policy: always` pulls once per deploy of a changed stack, not at each heal. */
function needsOf(judged: Judged, index: ObservedIndex, pulled: ReadonlySet<string>): Needs {
  const pull = new Set<string>();
  const build: DesiredService[] = [];
  for (const service of judged.resolved.desired.services) {
    const changes = judged.diff.changes.filter(
      (change) => change.service === service.name && (change.repair === 'create' || change.repair === 'recreate'),
    );
    if (changes.length === 0) continue;
    const there = imageNamed(index, service.image);
    if (service.build) {
      if (there?.labels[LABELS.build] !== service.build.digest) build.push(service);
    } else if (!there) {
      if (service.pullPolicy === 'never')
        throw new Fault('IMAGE_MISSING', `image ${service.image} is not on the engine and its pull_policy is never`, {
          data: { image: service.image, service: service.name },
        });
      pull.add(service.image);
    } else if (service.pullPolicy === 'always' && judged.diff.situation !== 'drift' && !pulled.has(service.image))
      pull.add(service.image);
  }
  return { pull: [...pull], build };
}

const pulledKey = planKey<ReadonlySet<string>>('pulled images');

async function lookFor(run: DeployRun, ctx: StepContext, stack: string): Promise<{ judged: Judged; needs: Needs }> {
  const judged = await judgedOf(run, ctx, stack);
  const index = ctx.fresh ? await run.bench.look.fresh('known') : judged.index;
  return { judged, needs: needsOf(judged, index, ctx.cache.get(pulledKey.at(stack)) ?? new Set()) };
}

const noteOf = (words: readonly string[]) => ({
  satisfied: words.length === 0,
  ...(words.length > 0 ? { note: words.join('\n') } : {}),
});

/** Before the files are written: a pull takes minutes and fails often, and what runs sees its mounted files. */
export function pullImages(run: DeployRun): Step<DeployTarget> {
  const { runtime } = run.house;
  return {
    name: 'pull-images',
    title: 'pull the images',
    touches: 'runtime',
    deadlineMs: DEADLINE_MS,
    applicable: () => true,
    async check(ctx, { payload }) {
      const { needs } = await lookFor(run, ctx, payload.stack);
      return noteOf(needs.pull.map((image) => `pull ${image}`));
    },
    async execute(ctx, { payload }) {
      const { needs } = await lookFor(run, ctx, payload.stack);
      const release = await run.worker?.acquire(ctx.signal);
      try {
        for (const image of needs.pull) {
          ctx.note(`pull ${image}`);
          await runtime.pull(image, ctx.signal);
        }
        ctx.cache.set(pulledKey.at(payload.stack), new Set(needs.pull));
      } finally {
        release?.();
      }
    },
  };
}

export function buildImages(run: DeployRun): Step<DeployTarget> {
  const { runtime } = run.house;
  return {
    name: 'build-images',
    title: 'build the images',
    touches: 'runtime',
    deadlineMs: DEADLINE_MS,
    applicable: () => true,
    async check(ctx, { payload }) {
      const { needs } = await lookFor(run, ctx, payload.stack);
      return noteOf(needs.build.map((one) => `build ${one.image}`));
    },
    async execute(ctx, { payload }) {
      const { judged, needs } = await lookFor(run, ctx, payload.stack);
      const { desired } = judged.resolved;
      const release = await run.worker?.acquire(ctx.signal);
      try {
        await runtime.build({
          project: desired.project,
          projectDir: desired.projectDir,
          model: await judged.resolved.model(ctx.signal),
          services: needs.build.map((service) => service.name),
          signal: ctx.signal,
          note: (line) => ctx.note(line),
        });
      } finally {
        release?.();
      }
    },
  };
}
