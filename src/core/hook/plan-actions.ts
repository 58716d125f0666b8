// Plan actions: the declared lists of app and stack → one sequence: merged, stably sorted by weight, numbered, defaults filled in.
import { parseDuration } from '../spec/duration.ts';
import { type Action as Declared, type HookPhase, misplaced, verbOf } from '../spec/hooks.ts';
import { type ConditionTest, DEFAULT_TIMEOUT_MS, describe, type HookAction, type ScaleTarget } from './action.ts';
import { callOf, environmentOf, type JobSpec } from './job.ts';
import { wordsOf } from './words.ts';

/** Time that a sleep may take beyond its own length. */
const SLEEP_SLACK_MS = 10_000;

export interface ActionLists {
  readonly phase: HookPhase;
  /** In the order in which equal weights run: the app's, then the stack's. Checked against their schema before. */
  readonly lists: readonly (readonly Declared[])[];
  readonly jobs: ReadonlyMap<string, JobSpec>;
}

/** Throws a plain error for what the loader should have refused: an unknown job, an action that cannot work in the phase. */
export function planActions(input: ActionLists): readonly HookAction[] {
  return numbered(input, input.lists.flat(), '');
}

function numbered(input: ActionLists, declared: readonly Declared[], prefix: string): readonly HookAction[] {
  return byWeight(declared).map((action, index) => actionOf(input, action, `${prefix}${index + 1}`));
}

function byWeight(declared: readonly Declared[]): readonly Declared[] {
  // Array sort is stable: equal weights keep their order.
  return [...declared].sort((left, right) => (left.weight ?? 0) - (right.weight ?? 0));
}

/** The way through the declared list to the action that is numbered `id` in the sequence: `2/then/1` → `[0, 'then', 0]`. */
export function declaredPath(declared: readonly Declared[], id: string): readonly [number, ...(string | number)[]] {
  const [number = '', branch, ...rest] = id.split('/');
  const action = byWeight(declared)[Number(number) - 1];
  if (!action) throw new Error(`there is no action ${id}`);
  const at = declared.indexOf(action);
  if (branch === undefined) return [at];
  const inside = branch === 'then' && 'if' in action ? action.then : 'if' in action ? action.else : undefined;
  return [at, branch, ...declaredPath(inside ?? [], rest.join('/'))];
}

function actionOf(input: ActionLists, declared: Declared, id: string): HookAction {
  const own = bodyOf(input, declared, id);
  const job = own.kind === 'job' ? own.job : null;
  const wrong = misplaced(input.phase, own.kind, job?.context ?? null);
  if (wrong) throw new Error(`action ${id}: ${wrong}`);
  const floor = own.kind === 'sleep' ? own.ms + SLEEP_SLACK_MS : 0;
  const common = {
    id,
    timeoutMs:
      (declared.timeout === undefined ? null : parseDuration(declared.timeout)) ??
      job?.timeoutMs ??
      Math.max(DEFAULT_TIMEOUT_MS, floor),
    onFailure: declared.on_failure ?? 'abort',
    weight: declared.weight ?? 0,
    retries: declared.retries ?? job?.retries ?? 0,
    once: declared.once ?? null,
  } as const;
  const unnamed: HookAction = { ...own, ...common, name: '' };
  return { ...unnamed, name: declared.name ?? describe(unnamed) };
}

/** Keeps what each kind of the union has of its own. */
type BodyOf<A> = A extends HookAction
  ? Omit<A, 'id' | 'name' | 'timeoutMs' | 'onFailure' | 'weight' | 'retries' | 'once'>
  : never;
type Body = BodyOf<HookAction>;

function bodyOf(input: ActionLists, declared: Declared, id: string): Body {
  if ('job' in declared) {
    const job = input.jobs.get(declared.job);
    if (!job) throw new Error(`action ${id}: there is no job ${declared.job}`);
    return { kind: 'job', job };
  }
  if ('scale' in declared) return { kind: 'scale', targets: declared.scale as Readonly<Record<string, ScaleTarget>> };
  if ('halt' in declared) return { kind: 'halt', reason: declared.halt === true ? '' : declared.halt };
  if ('wait-healthy' in declared) {
    const services = declared['wait-healthy'];
    return { kind: 'wait-healthy', services: services === true ? null : [services].flat() };
  }
  if ('exec' in declared) {
    const { service, command, user, environment } = declared.exec;
    return {
      kind: 'exec',
      service,
      command: wordsOf(command),
      user: user ?? null,
      environment: environmentOf(environment),
    };
  }
  if ('http' in declared) return { kind: 'http', call: callOf(declared.http) };
  if ('backup' in declared) return { kind: 'backup', reason: declared.backup === true ? '' : declared.backup.reason };
  if ('sleep' in declared) return { kind: 'sleep', ms: parseDuration(declared.sleep) ?? 0 };
  if ('if' in declared)
    return {
      kind: 'if',
      value: declared.if.value,
      test: testOf(declared.if),
      yes: numbered(input, declared.then, `${id}/then/`),
      no: numbered(input, declared.else ?? [], `${id}/else/`),
    };
  throw new Error(`action ${id}: no wrapper for ${verbOf(declared)}`);
}

type DeclaredCondition = Extract<Declared, { readonly if: unknown }>['if'];

function testOf(condition: DeclaredCondition): ConditionTest {
  if (condition.equals !== undefined) return { kind: 'equals', to: String(condition.equals) };
  if (condition.not_equals !== undefined) return { kind: 'not-equals', to: String(condition.not_equals) };
  if (condition.in !== undefined) return { kind: 'in', list: condition.in.map(String) };
  if (condition.empty !== undefined) return { kind: 'empty', expected: condition.empty };
  throw new Error('a condition that passed its schema tests nothing');
}
