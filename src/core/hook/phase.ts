// Phase: what the name of a hook phase says: before or after its operation. The closed list itself is in core/spec/hooks.ts.
import type { HookPhase } from '../spec/hooks.ts';

export type { HookPhase } from '../spec/hooks.ts';
export { PHASES } from '../spec/hooks.ts';

/** Nothing of the operation has happened yet: a newer revision may still take its place. */
export const isPre = (phase: HookPhase): boolean => phase.startsWith('pre_');
