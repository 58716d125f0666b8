// Hooks: the closed union of actions and the closed list of phases in which they may stand.
import { type Static, Type } from 'typebox';
import { wordsOf } from '../hook/words.ts';
import { RUNTIME_SCHEMES } from './ref.ts';
import {
  Duration,
  mapOf,
  Name,
  oneOf,
  Plain,
  Service,
  strict,
  Timeout,
  WITHOUT_CONTROLS,
  WITHOUT_NUL,
} from './scalar.ts';

export const OPERATIONS = [
  'install',
  'update',
  'uninstall',
  'scale',
  'backup',
  'restore',
  'recover',
  'clone',
  'move',
  'rollback',
] as const;

export const PHASES = [
  ...OPERATIONS.flatMap((operation) => [`pre_${operation}`, `post_${operation}`] as const),
  'post_deployed',
  'test',
] as const;
export type HookPhase = (typeof PHASES)[number];

const common = {
  name: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      pattern: WITHOUT_CONTROLS,
      description: 'one line without control characters: how the action is called in previews and logs',
    }),
  ),
  timeout: Type.Optional(Timeout),
  on_failure: Type.Optional(oneOf(['abort', 'continue'], { description: '`abort` or `continue`', default: 'abort' })),
  weight: Type.Optional(
    Type.Integer({
      minimum: -1_000_000,
      maximum: 1_000_000,
      description: 'an integer; lower ones run first',
      default: 0,
    }),
  ),
  retries: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 100, description: 'how often a failed action is tried again', default: 0 }),
  ),
  once: Type.Optional(
    oneOf(['revision'], { description: '`revision`: not again for a desired state for which it already ran' }),
  ),
};

export const RuntimeRef = Type.String({
  pattern: `^ref\\+(?:${RUNTIME_SCHEMES.join('|')})://[a-z0-9]\\S{0,500}$`,
  description: 'a runtime ref such as "ref+hook://previous"',
});

const word = { pattern: WITHOUT_NUL, description: 'text without NUL characters' };

export const Command = Type.Union(
  [Type.String({ minLength: 1, ...word }), Type.Array(Type.String(word), { minItems: 1, maxItems: 1000 })],
  { description: 'a command as one string or as a list of its words, without NUL characters' },
);

/** With `{{ … }}` in apps, whatever spaces are in it; what a template gives is checked once it is rendered. */
const CallUrl = Type.String({
  pattern: '^https?://(?:[^\\s{]|\\{(?!\\{)|\\{\\{[^{}\\r\\n]*\\}\\})+$',
  maxLength: 2000,
  description: 'an http or https URL',
});

export const Environment = mapOf(
  { pattern: '^[A-Za-z_][A-Za-z0-9_]*$', description: 'the name of an environment variable' },
  Type.Union([Type.String(word), Type.Number(), Type.Boolean()], {
    description: 'a string without NUL characters, a number, true or false',
  }),
  'environment variables',
);

export const Call = Type.Object(
  {
    url: CallUrl,
    method: Type.Optional(
      oneOf(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'], { description: 'an HTTP method', default: 'GET' }),
    ),
    headers: Type.Optional(
      mapOf(
        { pattern: '^[A-Za-z0-9-]{1,100}$', description: 'the name of a header' },
        Type.String({ pattern: WITHOUT_CONTROLS, description: 'one line without control characters' }),
        'request headers',
      ),
    ),
    body: Type.Optional(Type.String({ description: 'the body of the request' })),
    status: Type.Optional(
      Type.Array(Type.Integer({ minimum: 100, maximum: 599, description: 'an HTTP status' }), {
        minItems: 1,
        description: 'the statuses that are success; default: any 2xx',
      }),
    ),
  },
  { ...strict, description: 'an HTTP request' },
);

const Condition = Type.Object(
  {
    value: Type.String({ description: 'the value to look at, usually a ref such as "ref+hook://outputs/NAME"' }),
    equals: Type.Optional(Plain),
    not_equals: Type.Optional(Plain),
    in: Type.Optional(Type.Array(Plain, { minItems: 1, description: 'a list of values' })),
    empty: Type.Optional(Type.Boolean({ description: 'true or false' })),
  },
  {
    ...strict,
    minProperties: 2,
    maxProperties: 2,
    description: '`value` and one of `equals`, `not_equals`, `in`, `empty`',
  },
);

/** A map that is not empty. */
const someOf: typeof mapOf = (key, value, description) =>
  Type.Unsafe({ ...mapOf(key, value, description), minProperties: 1 });

const simple = {
  job: Type.Object(
    { job: { ...Name, description: 'the name of a job: NAME.job.yaml beside the app' }, ...common },
    strict,
  ),
  scale: Type.Object(
    {
      scale: someOf(
        Service,
        Type.Union([Type.Integer({ minimum: 0, maximum: 10_000 }), RuntimeRef], {
          description: 'a replica count or a runtime ref such as "ref+hook://previous"',
        }),
        'service → replica count',
      ),
      ...common,
    },
    strict,
  ),
  halt: Type.Object(
    {
      halt: Type.Union([Type.Literal(true), Type.String({ minLength: 1 })], {
        description: '`true`, or why the rest is skipped',
      }),
      ...common,
    },
    strict,
  ),
  'wait-healthy': Type.Object(
    {
      'wait-healthy': Type.Union([Type.Literal(true), Service, Type.Array(Service, { minItems: 1 })], {
        description: 'a service, a list of services, or `true` for all',
      }),
      ...common,
    },
    strict,
  ),
  exec: Type.Object(
    {
      exec: Type.Object(
        {
          service: Service,
          command: Command,
          user: Type.Optional(Type.String({ minLength: 1, ...word })),
          environment: Type.Optional(Environment),
        },
        { ...strict, description: '`service` and `command`' },
      ),
      ...common,
    },
    strict,
  ),
  http: Type.Object({ http: Call, ...common }, strict),
  backup: Type.Object(
    {
      backup: Type.Union([Type.Literal(true), Type.Object({ reason: Type.String({ minLength: 1 }) }, strict)], {
        description: '`true`, or `reason`',
      }),
      ...common,
    },
    strict,
  ),
  sleep: Type.Object({ sleep: Duration, ...common }, strict),
};

type SimpleAction = { [Verb in keyof typeof simple]: Static<(typeof simple)[Verb]> }[keyof typeof simple];
export type Action = SimpleAction | IfAction;

export interface IfAction {
  readonly if: Static<typeof Condition>;
  readonly then: readonly Action[];
  readonly else?: readonly Action[];
  readonly name?: string;
  readonly timeout?: string;
  readonly on_failure?: 'abort' | 'continue';
  readonly weight?: number;
  readonly retries?: number;
  readonly once?: 'revision';
}

// `then` and `else` hold actions again: the schema points to itself, the type is written out.
const Nested = Type.Unsafe<readonly Action[]>({
  type: 'array',
  items: { $ref: '#/$defs/action' },
  minItems: 1,
  description: 'a list of actions',
});

const actions = {
  ...simple,
  // biome-ignore lint/suspicious/noThenProperty: a word of the hook language; the schema is never awaited
  if: Type.Object({ if: Condition, then: Nested, else: Type.Optional(Nested), ...common }, strict),
};

export const ACTIONS = Object.keys(actions) as readonly (keyof typeof actions)[];

/** Goes into `$defs` of every kind that has hooks. */
export const actionDefinition = {
  action: { anyOf: Object.values(actions), description: `an action: one of ${ACTIONS.join(', ')}` },
};

export const Hooks = Type.Unsafe<Partial<Record<HookPhase, readonly Action[]>>>({
  type: 'object',
  properties: Object.fromEntries(
    PHASES.map((phase) => [
      phase,
      { type: 'array', items: { $ref: '#/$defs/action' }, maxItems: 200, description: 'a list of actions, in order' },
    ]),
  ),
  additionalProperties: false,
  description: 'hook phases and their actions',
});

/** Which of an action's keys says what it does. */
export function verbOf(action: Action): keyof typeof actions {
  const verb = ACTIONS.find((word) => word in action);
  if (!verb) throw new Error('an action that passed its schema has no verb');
  return verb;
}

/** The services that an action names, with where they stand in it. */
export function servicesOf(
  action: Action,
): readonly { readonly service: string; readonly path: readonly (string | number)[] }[] {
  if ('scale' in action) return Object.keys(action.scale).map((service) => ({ service, path: ['scale', service] }));
  if ('exec' in action) return [{ service: action.exec.service, path: ['exec', 'service'] }];
  const named = 'wait-healthy' in action ? action['wait-healthy'] : true;
  if (named === true) return [];
  if (typeof named === 'string') return [{ service: named, path: ['wait-healthy'] }];
  return named.map((service, at) => ({ service, path: ['wait-healthy', at] }));
}

/** Why a command is none; null when it is one. */
export function commandMistake(command: string | readonly string[] | undefined): string | null {
  if (command === undefined) return null;
  try {
    return wordsOf(command).length === 0 ? 'expected at least one word' : null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** In an app such a URL is judged once it is rendered. */
export const hasTemplate = (url: string): boolean => /\{[{%]/.test(url);

/** Why nobody can be asked at a URL; null when somebody might. */
export function urlMistake(url: string): string | null {
  if (/[\s\u0000-\u001f\u007f]/.test(url)) return 'expected no spaces or control characters in it';
  return /^https?:\/\//.test(url) && URL.canParse(url) ? null : 'expected an http or https URL';
}

/** Phases in which no container of the stack can be counted on: nothing may look into one. */
const WITHOUT_STACK: ReadonlySet<HookPhase> = new Set([
  'pre_install',
  'post_uninstall',
  'pre_restore',
  'pre_recover',
  'pre_rollback',
]);
/** Phases in which the stack is not there at all. */
const WITHOUT_SERVICES: ReadonlySet<HookPhase> = new Set(['pre_install', 'post_uninstall']);

/** Why an action cannot work in a phase; null when it can. */
export function misplaced(phase: HookPhase, verb: string, context: string | null): string | null {
  if (verb === 'exec' || (verb === 'job' && context === 'exec'))
    return WITHOUT_STACK.has(phase) ? `nothing can exec into a stack that may not be there in ${phase}` : null;
  if (verb === 'scale' || verb === 'wait-healthy' || verb === 'backup')
    return WITHOUT_SERVICES.has(phase) ? `there are no services of the stack in ${phase}` : null;
  return null;
}
