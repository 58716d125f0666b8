// Request: one file that asks for one operation on data. It says what is wanted; who may have it is for the policy and the signatures.
import { type Static, Type } from 'typebox';
import { head, Identifier, mapOf, Name, oneOf, Port, Service, strict } from './scalar.ts';

/** UTC to the second, in one form only: two readers of a signed file must not differ on a time. */
export const Instant = Type.String({
  pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$',
  description: 'a time in UTC such as 2026-12-01T00:00:00Z',
});

/** Milliseconds since the epoch; null for another form, or a time that does not exist. */
export function parseInstant(text: string): number | null {
  if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/.test(text)) return null;
  const ms = Date.parse(text);
  return Number.isFinite(ms) && formatInstant(ms) === text ? ms : null;
}

export const formatInstant = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

const Archive = Type.String({
  pattern: '^[0-9a-f]{64}$',
  description: 'the full id of an archive, 64 lower-case hex digits; a name, tag or short id pins nothing',
});

const life = {
  reason: Type.String({ minLength: 1, maxLength: 2_000, description: 'why it is asked for' }),
  notBefore: Type.Optional(Instant),
  expires: Instant,
  plan: Type.Optional(
    Type.String({
      pattern: '^(?:sha256:)?[0-9a-f]{64}$',
      description: 'the digest of the plan that approvers saw: it runs as that plan or not at all',
    }),
  ),
};

const skipIntegration = Type.Optional(
  Type.Array(Identifier, { uniqueItems: true, maxItems: 200, description: 'plugs that are left unconnected' }),
);

const overrides = {
  vars: Type.Optional(mapOf(Identifier, Type.Unknown(), 'values in the place of those in the archive')),
  ports: Type.Optional(
    mapOf(
      Service,
      Type.Array(Port),
      'service → published ports; one number alone is another host port for the one that it publishes',
    ),
  ),
  integrate: Type.Optional(mapOf(Identifier, Name, 'plug → the stack that provides it')),
  skipIntegration,
};

const safety = Type.Optional(
  oneOf(['archive', 'none'], {
    description: '`archive` keeps an archive of the live data first, `none` does not',
    default: 'archive',
  }),
);
/** What holds after a restore: see the word `then` in the file. */
const afterwards = Type.Optional(
  oneOf(['hold', 'follow-git'], {
    description: '`hold` keeps the stack at what was restored, `follow-git` lets deploys go on',
    default: 'hold',
  }),
);
const secrets = Type.Optional(
  oneOf(['copy', 'mint'], { description: '`copy` takes the secrets along, `mint` makes new ones', default: 'mint' }),
);

export const Restore = Type.Object(
  {
    ...head('Restore'),
    stack: Name,
    target: Type.Optional(Name),
    archive: Archive,
    ...overrides,
    safety,
    // biome-ignore lint/suspicious/noThenProperty: the word of the file format
    then: afterwards,
    ...life,
  },
  { ...strict, title: 'Windlass Restore', description: 'Asks for one stack as an archive holds it.' },
);
export type Restore = Static<typeof Restore>;

export const Recover = Type.Object(
  {
    ...head('Recover'),
    stacks: Type.Array(Name, {
      minItems: 1,
      maxItems: 500,
      uniqueItems: true,
      description: 'the stacks of the group that are recovered',
    }),
    archive: Archive,
    rename: Type.Optional(mapOf(Name, Name, 'stack → the name under which it is recovered')),
    skipIntegration,
    safety,
    // biome-ignore lint/suspicious/noThenProperty: the word of the file format
    then: afterwards,
    ...life,
  },
  { ...strict, title: 'Windlass Recover', description: 'Asks for the stacks of a group archive, in their order.' },
);
export type Recover = Static<typeof Recover>;

export const Clone = Type.Object(
  {
    ...head('Clone'),
    stack: Name,
    target: Name,
    archive: Type.Optional(Archive),
    node: Type.Optional(Name),
    secrets,
    ...overrides,
    ...life,
  },
  { ...strict, title: 'Windlass Clone', description: 'Asks for a copy of a stack under another name.' },
);
export type Clone = Static<typeof Clone>;

export const Move = Type.Object(
  {
    ...head('Move'),
    stack: Name,
    target: Type.Optional(Name),
    node: Type.Optional(Name),
    archive: Type.Optional(Archive),
    ...overrides,
    ...life,
  },
  { ...strict, title: 'Windlass Move', description: 'Asks for a stack on another node or under another name.' },
);
export type Move = Static<typeof Move>;

export const Purge = Type.Object(
  {
    ...head('Purge'),
    stack: Name,
    volumes: Type.Union(
      [
        Type.Literal('all'),
        Type.Array(
          Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,254}$', description: 'the name of a volume' }),
          {
            minItems: 1,
            maxItems: 500,
            uniqueItems: true,
          },
        ),
      ],
      { description: '`all`, or a list of names of volumes' },
    ),
    ...life,
  },
  { ...strict, title: 'Windlass Purge', description: 'Asks for the removal of volumes and the data in them.' },
);
export type Purge = Static<typeof Purge>;

export const REQUEST_KINDS = ['Restore', 'Recover', 'Clone', 'Move', 'Purge'] as const;
export type RequestKind = (typeof REQUEST_KINDS)[number];
export type Request = Restore | Recover | Clone | Move | Purge;
export type RequestOperation = Lowercase<RequestKind>;

export const operationOf = (request: Request): RequestOperation => request.kind.toLowerCase() as RequestOperation;

/** Every stack whose data or secrets the request reads, writes or names anew; a policy must allow each of them. Sorted, each once. */
export function touchedStacks(request: Request): readonly string[] {
  const touched = new Set<string>();
  if (request.kind === 'Recover') {
    for (const stack of request.stacks) touched.add(stack);
    for (const name of Object.values(request.rename ?? {})) touched.add(name);
  } else {
    touched.add(request.stack);
    if (request.kind !== 'Purge' && request.target !== undefined) touched.add(request.target);
  }
  return [...touched].sort();
}
