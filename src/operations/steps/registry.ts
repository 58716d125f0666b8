// Registry of the deploy's steps, by name.
import type { Step } from '../../engine/step.ts';
import type { DeployRun, DeployTarget } from '../deploy-run.ts';
import { converge } from './converge.ts';
import { materialize } from './materialize.ts';
import { mintSecrets } from './mint-secrets.ts';
import { buildImages, pullImages } from './pull-images.ts';
import { record } from './record.ts';
import { finishHooks, runHooks } from './run-hook.ts';
import { settle } from './settle.ts';

export function deploySteps(run: DeployRun): readonly Step<DeployTarget>[] {
  const { timeoutMs } = run.house.settings;
  const timeoutOf = (stack: string): number => run.judged.get(stack)?.stack.timeoutMs ?? timeoutMs;
  const longest = Math.max(timeoutMs, ...[...run.judged.keys()].map(timeoutOf));
  return [
    finishHooks(run),
    mintSecrets(run),
    pullImages(run),
    materialize(run),
    buildImages(run),
    runHooks(run, 'before'),
    converge(run, longest),
    settle(run, timeoutOf),
    runHooks(run, 'after'),
    record(run),
  ];
}
