// Action `wait-healthy`: waits until services are healthy, at most for the action's timeout.
import type { ActionOf } from '../../core/hook/action.ts';
import { outlast } from '../deadline.ts';
import { type ActionContext, done, type Outcome } from '../outcome.ts';

const POLL_MS = 1_000;

export async function waitHealthy(ctx: ActionContext, action: ActionOf<'wait-healthy'>): Promise<Outcome> {
  const { clock, ports, signal, log } = ctx;
  let said = '';
  for (;;) {
    const missing = await outlast(ctx, signal, () => ports.unhealthy(action.services, signal));
    if (missing.length === 0) return done();
    const now = `not healthy yet: ${missing.join(', ')}`;
    if (now !== said) log.note(now);
    said = now;
    await clock.sleep(POLL_MS, signal);
  }
}
