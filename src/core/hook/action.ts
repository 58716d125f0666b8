// Action: the closed union of what a hook can do, with every default filled in and a number for each. Plain JSON without secrets.
import { replaceTokens } from '../render/token.ts';
import { formatDuration } from '../spec/duration.ts';
import type { HttpCall, JobSpec } from './job.ts';

export const DEFAULT_TIMEOUT_MS = 5 * 60_000;

interface ActionCommon {
  /** `3`, `3/then/1`: its place in the sequence that runs. */
  readonly id: string;
  /** For people. */
  readonly name: string;
  /** Of one try; ends the work. */
  readonly timeoutMs: number;
  readonly onFailure: 'abort' | 'continue';
  readonly weight: number;
  /** Tries after the first. */
  readonly retries: number;
  readonly once: 'revision' | null;
}

/** A replica count, or a runtime ref that gives one. */
export type ScaleTarget = number | string;

export type ConditionTest =
  | { readonly kind: 'equals'; readonly to: string }
  | { readonly kind: 'not-equals'; readonly to: string }
  | { readonly kind: 'in'; readonly list: readonly string[] }
  | { readonly kind: 'empty'; readonly expected: boolean };

export type HookAction = ActionCommon &
  (
    | { readonly kind: 'job'; readonly job: JobSpec }
    | { readonly kind: 'scale'; readonly targets: Readonly<Record<string, ScaleTarget>> }
    | { readonly kind: 'halt'; readonly reason: string }
    | { readonly kind: 'wait-healthy'; readonly services: readonly string[] | null }
    | {
        readonly kind: 'exec';
        readonly service: string;
        readonly command: readonly string[];
        readonly user: string | null;
        readonly environment: Readonly<Record<string, string>>;
      }
    | { readonly kind: 'http'; readonly call: HttpCall }
    | { readonly kind: 'backup'; readonly reason: string }
    | {
        readonly kind: 'if';
        readonly value: string;
        readonly test: ConditionTest;
        // Not `then`: a value with a function-like `then` beside it is too easily awaited.
        readonly yes: readonly HookAction[];
        readonly no: readonly HookAction[];
      }
    | { readonly kind: 'sleep'; readonly ms: number }
  );

export type ActionKind = HookAction['kind'];
export type ActionOf<Kind extends ActionKind> = Extract<HookAction, { readonly kind: Kind }>;

export const ACTION_KINDS = [
  'job',
  'scale',
  'halt',
  'wait-healthy',
  'exec',
  'http',
  'backup',
  'if',
  'sleep',
] as const satisfies readonly ActionKind[];

/** Every action of a list, also those inside of branches, in the order of the text. */
export function flattened(actions: readonly HookAction[]): readonly HookAction[] {
  return actions.flatMap((action) =>
    action.kind === 'if' ? [action, ...flattened(action.yes), ...flattened(action.no)] : [action],
  );
}

/** One line that says what an action does, with closed secrets as their refs. */
export const describe = (action: HookAction): string => replaceTokens(lineOf(action), (ref) => ref);

function lineOf(action: HookAction): string {
  switch (action.kind) {
    case 'job':
      return `job ${action.job.name}`;
    case 'scale':
      return `scale ${Object.entries(action.targets)
        .map(([service, target]) => `${service} to ${target}`)
        .join(', ')}`;
    case 'halt':
      return action.reason === '' ? 'halt' : `halt: ${action.reason}`;
    case 'wait-healthy':
      return `wait until ${action.services === null ? 'all services are' : action.services.join(', ')} healthy`;
    case 'exec':
      return `exec in ${action.service}: ${action.command.join(' ')}`;
    case 'http':
      return `${action.call.method} ${action.call.url}`;
    case 'backup':
      return 'backup';
    case 'if':
      return `if ${action.value} ${describeTest(action.test)}`;
    case 'sleep':
      return `sleep ${formatDuration(action.ms)}`;
  }
}

function describeTest(test: ConditionTest): string {
  switch (test.kind) {
    case 'equals':
      return `is ${JSON.stringify(test.to)}`;
    case 'not-equals':
      return `is not ${JSON.stringify(test.to)}`;
    case 'in':
      return `is one of ${test.list.map((one) => JSON.stringify(one)).join(', ')}`;
    case 'empty':
      return test.expected ? 'is empty' : 'is not empty';
  }
}
