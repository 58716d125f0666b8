// Phase named: the hook phase that a person means, or what they may have meant.
import { type HookPhase, PHASES } from '../core/hook/phase.ts';
import { nearest } from '../core/spec/suggest.ts';
import { UsageError } from './command.ts';

/** Throws a UsageError. */
export function phaseNamed(text: string): HookPhase {
  const phase = PHASES.find((one) => one === text);
  if (phase) return phase;
  const near = nearest(text, PHASES);
  throw new UsageError(
    `there is no hook phase ${text}${near === null ? '' : `; did you mean ${near}?`}\n  help     there are ${PHASES.join(', ')}`,
  );
}
