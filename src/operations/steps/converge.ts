// Step: the engine has what the stack desires. Its check is the diff itself, so that after an apply the diff is empty.
import type { Change } from '../../core/diff/change.ts';
import { Fault } from '../../core/fault.ts';
import { formatChange } from '../../core/plan/format.ts';
import type { Step } from '../../engine/step.ts';
import { converge as carryOut } from '../converge.ts';
import { type DeployRun, type DeployTarget, judgedOf } from '../deploy-run.ts';
import { editedKey, type Judged } from '../survey.ts';

/** A repair may uncover another (a started container shows its lost alias); more rounds than this is a fight with somebody. */
const ROUNDS = 3;

/** What ended again right after its start is for settle to report: starting it twice would run a failing migration twice. */
const isForUs = (change: Change): boolean => change.repair !== 'start' || change.cause === 'never-started';

function stillDiffers(changes: readonly Change[]): Fault {
  const said = `still differs after ${ROUNDS} rounds: ${changes.map(formatChange).join('; ')}`;
  return changes.every((change) => change.cause === 'file-edited')
    ? new Fault('FILE_REWRITTEN', `the service writes into a file of git each time it starts; ${said}`)
    : new Fault('COMPOSE_FAILED', said);
}

/** Before the new volume is there: from then on nothing tells that it was empty. */
function tellOfLeft({ house }: DeployRun, judged: Judged, ctx: { note(line: string): void }): void {
  for (const message of judged.diff.leaves ?? []) {
    ctx.note(message);
    house.store.appendEvent({
      atMs: house.clock.nowMs(),
      stack: judged.name,
      level: 'warning',
      reason: 'VolumeLeft',
      message,
      revision: judged.at.revision.commit,
    });
  }
}

export function converge(run: DeployRun, deadlineMs: number): Step<DeployTarget> {
  const { store } = run.house;
  return {
    name: 'converge',
    title: 'converge',
    touches: 'runtime',
    deadlineMs,
    applicable: () => true,
    async check(ctx, { payload }) {
      const judged = await judgedOf(run, ctx, payload.stack);
      const { changes } = judged.diff;
      return {
        satisfied: changes.length === 0,
        ...(changes.length > 0 ? { note: changes.map(formatChange).join('\n') } : {}),
      };
    },
    async execute(ctx, { payload }) {
      const release = await run.worker?.acquire(ctx.signal);
      try {
        for (let round = 1; ; round++) {
          const judged = await judgedOf(run, { cache: ctx.cache, fresh: round > 1 || ctx.fresh }, payload.stack);
          const changes = round === 1 ? judged.diff.changes : judged.diff.changes.filter(isForUs);
          if (changes.length === 0) break;
          if (round === 1) await run.makeRoom?.(judged, ctx);
          if (round > ROUNDS) throw stillDiffers(changes);
          if (round === 1) {
            const attempt = store.attempt(payload.stack);
            if (attempt) store.putAttempt({ ...attempt, touched: true });
            tellOfLeft(run, judged, ctx);
          }
          await carryOut(run.house, { ...judged, diff: { ...judged.diff, changes } }, ctx);
          store.deleteValue(editedKey(payload.stack));
        }
        const attempt = store.attempt(payload.stack);
        if (attempt) store.putAttempt({ ...attempt, converged: true });
      } finally {
        release?.();
      }
    },
    // What a container does by itself right after it started is for settle to judge.
    verify: () => {},
  };
}
