// Scalar: the small schemas that several kinds share. The description of each reads after "expected": it is what a diagnostic says.
import { type Static, type TSchema, Type } from 'typebox';

/** An object whose keys are all known. */
export const strict = { additionalProperties: false } as const;

export const Name = Type.String({
  pattern: '^[a-z0-9][a-z0-9_-]{0,62}$',
  description: 'a name of lower-case letters, digits, `-` and `_`, at most 63 long, starting with a letter or digit',
});

/** Names that templates reach as `vars.name` and `plugs.name`. */
export const Identifier = Type.String({
  pattern: '^[A-Za-z_][A-Za-z0-9_]{0,62}$',
  description: 'an identifier of letters, digits and `_`, not starting with a digit',
});

/** A service of a Compose project. */
export const Service = Type.String({
  pattern: '^(?!__proto__$)[A-Za-z0-9._-]{1,255}$',
  description: 'the name of a service',
});

export const Duration = Type.String({
  pattern: '^(?:[0-9]{1,9}(?:ms|s|m|h|d)){1,5}$',
  description: 'a duration such as "30s", "10m", "1h30m" or "2d"',
});

/** How long something may take at most. */
export const Timeout = Type.String({
  pattern: '^(?=[^1-9]*[1-9])(?:[0-9]{1,9}(?:ms|s|m|h|d)){1,5}$',
  description: 'a duration above zero such as "30s", "10m" or "1h30m"',
});

/** What is given to programs: their words and variables end at a NUL. */
export const WITHOUT_NUL = '^[^\\u0000]*$';
/** What is one line for people or on a wire. */
export const WITHOUT_CONTROLS = '^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]*$';

export const Timestamp = Type.String({
  pattern:
    '^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\\.[0-9]{1,9})?)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2}))?$',
  description: 'a date and time such as 2026-12-01T00:00:00Z',
});

export const Cron = Type.String({
  pattern: '^[ \\t]*(?:[A-Za-z0-9*/,?LW#-]+[ \\t]+){4,5}[A-Za-z0-9*/,?LW#-]+[ \\t]*$',
  maxLength: 200,
  description: 'a cron expression of five fields such as "0 3 * * *"',
});

export const Window = Type.Object(
  {
    allow: Cron,
    duration: Duration,
    timezone: Type.Optional(
      Type.String({ pattern: '^[A-Za-z0-9_+/-]{1,64}$', description: 'a time zone such as Europe/Berlin' }),
    ),
  },
  { ...strict, description: 'a window in which changes may be made' },
);

export const Port = Type.String({
  pattern: '^[0-9A-Za-z.:\\[\\]/-]{1,100}$',
  description: 'a published port in Compose short syntax such as "8443:8443" or "127.0.0.1:8080:80/tcp"',
});

export const Glob = Type.String({
  pattern: '^!?[^/\\\\\\u0000-\\u001f][^\\\\\\u0000-\\u001f]{0,199}$',
  description: 'a glob of folders below the root of the repository, with `/` and without a leading one',
});

export const Url = Type.String({
  pattern: '^https?://[^\\s]{1,2000}$',
  description: 'an http or https URL',
});

/** One of a closed list of words. */
export const oneOf = <const T extends readonly string[]>(
  words: T,
  options: { description?: string; default?: T[number] } = {},
) => Type.Unsafe<T[number]>({ type: 'string', enum: [...words], ...options });

/** A map whose keys are all checked by `key`, a string schema. */
export const mapOf = <V extends TSchema>(key: object, value: V, description: string) =>
  Type.Unsafe<Record<string, Static<V>>>({
    type: 'object',
    propertyNames: key,
    additionalProperties: value,
    description,
  });

/** A value that may stand where an environment variable or a template value is given. */
export const Plain = Type.Union([Type.String(), Type.Number(), Type.Boolean()], {
  description: 'a string, a number, true or false',
});

/** `apiVersion` and `kind`, with which every document starts. */
export const head = <const K extends string>(kind: K) => ({
  apiVersion: Type.Literal('windlass/v1', { description: 'the version of the format' }),
  kind: Type.Literal(kind, { description: 'what the document declares' }),
});
