// Hooks of a stack, rendered: one phase's declared actions and jobs → the sequence that runs, secrets closed, runtime refs left as they are.
// Texts of an app are templates where a value is expected (environment, image, http); scripts and commands are taken as they are written.
import { flattened, type HookAction } from '../hook/action.ts';
import { type HttpCall, type JobSpec, jobOf } from '../hook/job.ts';
import { type ActionLists, planActions } from '../hook/plan-actions.ts';
import { sorted } from '../spec/check.ts';
import type { Diagnostic, Place } from '../spec/diagnostic.ts';
import { type Action, type HookPhase, urlMistake } from '../spec/hooks.ts';
import type { Job } from '../spec/job.ts';
import type { LoadedStack } from '../spec/loaded.ts';
import { join } from '../spec/repository-path.ts';
import { WITHOUT_CONTROLS } from '../spec/scalar.ts';
import { type Closing, type ContextMistake, closeText, contextOf, type Fleet, type SecretRef } from './context.ts';
import { backupOf } from './render.ts';
import { renderTemplate } from './template.ts';
import { replaceTokens } from './token.ts';

export interface RenderedHooks {
  /** Empty when there are errors. */
  readonly actions: readonly HookAction[];
  /** The refs whose tokens stand in the actions. */
  readonly secrets: readonly SecretRef[];
  readonly diagnostics: readonly Diagnostic[];
}

type Loose = Readonly<Record<string, unknown>>;
type Fill = (text: string, name: string) => string;

const isMap = (value: unknown): value is Loose => typeof value === 'object' && value !== null && !Array.isArray(value);

/** What is declared for a phase, in the order of the documents: of the app, of the stack, and what stands in for it. */
export function declaredActions(
  stack: LoadedStack,
  phase: HookPhase,
): { readonly listed: readonly Action[]; readonly diagnostics: readonly Diagnostic[] } {
  // The jobs that backup.yaml calls `dump` stand behind what is declared for the phase before a backup.
  const backup = phase === 'pre_backup' && stack.layout.kind === 'app' ? backupOf(stack.layout.app) : null;
  if (backup?.value === null) return { listed: [], diagnostics: backup.diagnostics };
  const dumps = (backup?.value.dump ?? []).map((job) => ({ job }));
  return { listed: [...((stack.hooks[phase] ?? []) as readonly Action[]), ...dumps], diagnostics: [] };
}

/** What is wrong in the hooks of any phase; what several have in common, such as a job, is told once. */
export const renderMistakes = (stack: LoadedStack, fleet: Fleet): readonly Diagnostic[] =>
  sorted((Object.keys(stack.hooks) as HookPhase[]).flatMap((phase) => renderHooks(stack, fleet, phase).diagnostics));

const placeOfJob = ({ layout }: LoadedStack, job: string): Place => {
  const directory = layout.kind === 'app' ? layout.app.directory : layout.directory;
  return { file: join(directory, `${job}.job.yaml`), line: 0, column: 0 };
};

export function renderHooks(stack: LoadedStack, fleet: Fleet, phase: HookPhase): RenderedHooks {
  const { listed, diagnostics: unread } = declaredActions(stack, phase);
  if (listed.length === 0) return { actions: [], secrets: [], diagnostics: unread };
  const closing: Closing = { secrets: new Map(), forCompose: false };
  const diagnostics: Diagnostic[] = [];
  const wrong = (code: string, summary: string, detail: string, place: Place = stack.place): void => {
    diagnostics.push({ severity: 'error', code, summary, detail, place, stack: stack.name });
  };
  let context: Loose | null = null;
  if (stack.layout.kind === 'app') {
    const mistakes: ContextMistake[] = [];
    context = contextOf(stack, fleet, closing, mistakes);
    for (const one of mistakes) wrong('PROVIDER_INVALID', one.summary, one.detail);
  }
  const fillOf =
    (where: string, place?: Place): Fill =>
    (text, name) => {
      let value = text;
      if (context !== null && /\{[{%]/.test(text)) {
        const rendered = renderTemplate(text, context);
        if ('wrong' in rendered)
          wrong('TEMPLATE_FAILED', `${where}: ${rendered.wrong}`, `in ${name}: ${text.slice(0, 200)}`, place);
        else value = rendered.text;
      }
      return closeText(value, name, stack, stack, closing) ?? value;
    };
  const jobs = new Map<string, JobSpec>();
  for (const [name, job] of Object.entries(stack.jobs))
    jobs.set(name, jobOf(name, filledJob(job, fillOf(`job ${name}`, placeOfJob(stack, name)))));
  const declared = listed.map((action, index) => filledAction(action, fillOf(`${phase}, action ${index + 1}`)));
  if (diagnostics.length > 0) return { actions: [], secrets: [], diagnostics };
  const actions = planActions({ phase, lists: [declared as ActionLists['lists'][number]], jobs });
  for (const action of flattened(actions)) {
    const call =
      action.kind === 'http'
        ? action.call
        : action.kind === 'job' && action.job.context === 'http'
          ? action.job.call
          : null;
    const why = call === null ? null : callMistake(call);
    if (why !== null) wrong('HOOK_CALL_INVALID', `${phase}, action ${action.id}: nobody can be asked so`, why);
  }
  if (diagnostics.length > 0) return { actions: [], secrets: [], diagnostics };
  return { actions, secrets: [...closing.secrets.values()], diagnostics };
}

const MAX_URL = 4_000;

/** What templates made of a request is judged as what stands in a document is. Secrets are closed still. */
function callMistake({ url, headers }: HttpCall): string | null {
  const text = replaceTokens(url, () => 'x');
  if (text.length > MAX_URL) return `expected a URL of at most ${MAX_URL} characters`;
  const why = urlMistake(text);
  if (why !== null) return `${why}; found ${JSON.stringify(replaceTokens(url, (ref) => ref).slice(0, 200))}`;
  const header = Object.keys(headers).find((name) => !new RegExp(WITHOUT_CONTROLS, 'u').test(headers[name] ?? ''));
  return header === undefined ? null : `expected one line without control characters in the header ${header}`;
}

function filledJob(job: Job, fill: Fill): Job {
  return {
    ...job,
    ...(job.environment ? { environment: filledMap(job.environment, fill) as NonNullable<Job['environment']> } : {}),
    ...(job.image === undefined ? {} : { image: fill(job.image, 'image') }),
    ...(job.http ? { http: filledCall(job.http, fill) as NonNullable<Job['http']> } : {}),
  };
}

function filledAction(action: unknown, fill: Fill): unknown {
  if (!isMap(action)) return action;
  const list = (value: unknown): unknown =>
    Array.isArray(value) ? value.map((one) => filledAction(one, fill)) : value;
  const { exec, http } = action;
  return {
    ...action,
    ...(isMap(exec) && isMap(exec['environment'])
      ? { exec: { ...exec, environment: filledMap(exec['environment'], fill) } }
      : {}),
    ...(isMap(http) ? { http: filledCall(http, fill) } : {}),
    ...Object.fromEntries(['then', 'else'].filter((key) => key in action).map((key) => [key, list(action[key])])),
  };
}

function filledCall(call: Loose, fill: Fill): Loose {
  return {
    ...call,
    ...(typeof call['url'] === 'string' ? { url: fill(call['url'], 'url') } : {}),
    ...(typeof call['body'] === 'string' ? { body: fill(call['body'], 'body') } : {}),
    ...(isMap(call['headers']) ? { headers: filledMap(call['headers'], fill) } : {}),
  };
}

function filledMap(map: Loose, fill: Fill): Loose {
  return Object.fromEntries(
    Object.entries(map).map(([name, value]) => [name, typeof value === 'string' ? fill(value, name) : value]),
  );
}
