// Job: one piece of work that a hook runs: in a container of its own, in a running service, or as an HTTP request.
import { type Static, Type } from 'typebox';
import { mountOf } from '../hook/mount.ts';
import { Call, Command, commandMistake, Environment, hasTemplate, urlMistake } from './hooks.ts';
import { Duration, head, Name, oneOf, Service, strict, Timeout, WITHOUT_NUL } from './scalar.ts';

export const CONTEXTS = ['container', 'exec', 'http'] as const;

const DeletePolicy = oneOf(['before-creation', 'succeeded', 'failed'], {
  description: 'one of before-creation, succeeded, failed',
});

export const Job = Type.Object(
  {
    ...head('Job'),
    name: Type.Optional(Name),
    description: Type.Optional(Type.String()),
    context: Type.Optional(
      oneOf(CONTEXTS, { description: 'where it runs: container, exec or http', default: 'container' }),
    ),
    service: Type.Optional(Service),
    image: Type.Optional(Type.String({ minLength: 1, description: 'the image, when not that of `service`' })),
    entrypoint: Type.Optional(Command),
    command: Type.Optional(Command),
    script: Type.Optional(
      Type.String({ minLength: 1, pattern: WITHOUT_NUL, description: 'a shell script, without NUL characters' }),
    ),
    environment: Type.Optional(Environment),
    user: Type.Optional(Type.String({ minLength: 1, description: 'a user, or USER:GROUP' })),
    working_dir: Type.Optional(Type.String({ minLength: 1 })),
    networks: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), { description: 'networks instead of those of `service`' }),
    ),
    volumes: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), { description: 'mounts instead of those of `service`' }),
    ),
    http: Type.Optional(Call),
    timeout: Type.Optional(Timeout),
    retries: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
    delete_policy: Type.Optional(
      Type.Union([DeletePolicy, Type.Array(DeletePolicy, { uniqueItems: true })], {
        description: 'any of before-creation (always kept on), succeeded, failed',
      }),
    ),
    ttl: Type.Optional(Duration),
  },
  { ...strict, title: 'Windlass Job', description: 'Work that a hook runs.' },
);
export type Job = Static<typeof Job>;

/** What only a container of its own can have. */
const OF_CONTAINER = ['image', 'entrypoint', 'working_dir', 'volumes', 'networks', 'delete_policy', 'ttl'] as const;

/** What a schema cannot say of a job: key → why it is wrong; '' is the document itself. */
export function jobMistakes(
  job: Job,
): readonly { readonly key: string; readonly summary: string; readonly help: string; readonly index?: number }[] {
  const mistakes: { key: string; summary: string; help: string; index?: number }[] = [];
  const context = job.context ?? 'container';
  const add = (key: string, summary: string, help: string) => mistakes.push({ key, summary, help });
  if (context === 'http') {
    if (!job.http) add('', 'an http job needs `http`', 'write `http: { url: … }`');
    const why = job.http && !hasTemplate(job.http.url) ? urlMistake(job.http.url) : null;
    if (why !== null) add('http', 'nobody can be asked at `http.url`', why);
    for (const key of [...OF_CONTAINER, 'service', 'command', 'script', 'user', 'environment'] as const)
      if (job[key] !== undefined)
        add(key, `\`${key}\` means nothing in an http job`, `remove \`${key}\`, or use another context`);
    return mistakes;
  }
  for (const key of ['command', 'entrypoint'] as const) {
    const why = commandMistake(job[key]);
    if (why !== null) add(key, `\`${key}\` cannot be run`, why);
  }
  if (job.http) add('http', `\`http\` means nothing in a job with context ${context}`, 'write `context: http`');
  if (job.command !== undefined && job.script !== undefined)
    add('script', 'both `command` and `script` are given', 'keep one of them');
  if (context === 'exec') {
    if (!job.service) add('', 'an exec job needs `service`', 'name the service in which it runs');
    if (job.command === undefined && job.script === undefined)
      add('', 'an exec job needs `command` or `script`', 'write what it runs');
    for (const key of OF_CONTAINER)
      if (job[key] !== undefined)
        add(key, `\`${key}\` means nothing in an exec job`, `remove \`${key}\`, or use \`context: container\``);
  } else if (!job.service && !job.image)
    add('', 'a container job needs `service` or `image`', 'name the service whose image it uses');
  for (const [index, text] of (job.volumes ?? []).entries())
    if (mountOf(text) === null)
      mistakes.push({
        key: 'volumes',
        index,
        summary: `${JSON.stringify(text)} is no mount`,
        help: 'write VOLUME:/path, ./folder:/path or /folder:/path, with `:ro` behind it for reading only',
      });
  return mistakes;
}
