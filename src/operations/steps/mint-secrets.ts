// Step: every secret that the stack asks Windlass to make is in the vault, and what is desired is known with it. Changes the vault only.
import type { Step } from '../../engine/step.ts';
import { type DeployRun, type DeployTarget, judgedOf, setJudged } from '../deploy-run.ts';

export function mintSecrets(run: DeployRun): Step<DeployTarget> {
  const { store } = run.house;
  const unmintedOf = async (ctx: Parameters<typeof judgedOf>[1], stack: string) =>
    (await judgedOf(run, { cache: ctx.cache, fresh: false }, stack)).resolved.unminted;
  return {
    name: 'mint-secrets',
    title: 'make the secrets',
    touches: 'vault',
    deadlineMs: 2 * 60_000,
    applicable: async (ctx, { payload }) => (await unmintedOf(ctx, payload.stack)).length > 0,
    async check(ctx, { payload }) {
      const unminted = await unmintedOf(ctx, payload.stack);
      const note = unminted.map(({ key, scopes }) => `mint ${key} of ${scopes[0] ?? 'fleet'}`).join('\n');
      return { satisfied: unminted.length === 0, ...(note === '' ? {} : { note }) };
    },
    async execute(ctx, { payload }) {
      const planned = await judgedOf(run, { cache: ctx.cache, fresh: false }, payload.stack);
      const judged = await run.bench.surveyor.mint(planned, ctx.signal);
      setJudged(run, ctx, judged);
      // The attempt was begun with what was desired as far as it was known.
      const attempt = store.attempt(payload.stack);
      if (attempt) store.putAttempt({ ...attempt, digest: judged.resolved.desired.digest });
    },
    verify: async (ctx, { payload }) => (await unmintedOf(ctx, payload.stack)).length === 0,
  };
}
