// Job: a checked `<name>.job.yaml` with every default filled in. Secrets in it stay closed: whoever runs it opens them.
import { parseDuration } from '../spec/duration.ts';
import type { Job as Declared } from '../spec/job.ts';
import { wordsOf } from './words.ts';

export interface HttpCall {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** Statuses that are success; null = any 2xx. */
  readonly statuses: readonly number[] | null;
}

interface JobCommon {
  readonly name: string;
  /** Null = that of the action, or the default. */
  readonly timeoutMs: number | null;
  readonly retries: number | null;
  /** Values as declared: a whole runtime ref is resolved when the job runs. */
  readonly environment: Readonly<Record<string, string>>;
}

export interface ContainerJob extends JobCommon {
  readonly context: 'container';
  /** What is not given is taken from this service. */
  readonly service: string | null;
  readonly image: string | null;
  /** Empty = none, not even that of the image. */
  readonly entrypoint: readonly string[] | null;
  readonly command: readonly string[] | null;
  readonly user: string | null;
  readonly workingDir: string | null;
  readonly networks: readonly string[] | null;
  readonly volumes: readonly string[] | null;
  /** The container of an earlier run is always removed first. */
  readonly deleteAfter: { readonly success: boolean; readonly failure: boolean };
  /** How long what is kept is kept; null = until the next run. */
  readonly ttlMs: number | null;
}

export interface ExecJob extends JobCommon {
  readonly context: 'exec';
  readonly service: string;
  readonly command: readonly string[];
  readonly user: string | null;
}

export interface HttpJob extends JobCommon {
  readonly context: 'http';
  readonly call: HttpCall;
}

export type JobSpec = ContainerJob | ExecJob | HttpJob;

/** A script ends at its first command that fails. */
export const scriptCommand = (script: string): readonly string[] => ['/bin/sh', '-e', '-c', script];

export function callOf(call: NonNullable<Declared['http']>): HttpCall {
  return {
    url: call.url,
    method: call.method ?? 'GET',
    headers: call.headers ?? {},
    body: call.body ?? null,
    statuses: call.status ?? null,
  };
}

export const environmentOf = (declared: Readonly<Record<string, unknown>> | undefined): Record<string, string> =>
  Object.fromEntries(
    Object.entries(declared ?? {}).map(([name, value]) => [
      name,
      value === null || value === undefined ? '' : String(value),
    ]),
  );

/** Of a document that passed its schema and `jobMistakes`. */
export function jobOf(name: string, declared: Declared): JobSpec {
  const common: JobCommon = {
    name,
    timeoutMs: durationOf(declared.timeout),
    retries: declared.retries ?? null,
    environment: environmentOf(declared.environment),
  };
  const context = declared.context ?? 'container';
  if (context === 'http') {
    if (!declared.http) throw new Error(`the http job ${name} has no request`);
    return { ...common, context, call: callOf(declared.http) };
  }
  const command =
    declared.script !== undefined
      ? scriptCommand(declared.script)
      : declared.command !== undefined
        ? wordsOf(declared.command)
        : null;
  if (context === 'exec') {
    if (!declared.service || !command) throw new Error(`the exec job ${name} lacks its service or its command`);
    return { ...common, context, service: declared.service, command, user: declared.user ?? null };
  }
  const policy = [declared.delete_policy ?? []].flat();
  // A script brings its shell along: the image's entrypoint would take it for arguments.
  const shell = declared.script !== undefined && declared.entrypoint === undefined;
  return {
    ...common,
    context,
    service: declared.service ?? null,
    image: declared.image ?? null,
    entrypoint: shell ? [] : declared.entrypoint === undefined ? null : wordsOf(declared.entrypoint),
    command,
    user: declared.user ?? null,
    workingDir: declared.working_dir ?? null,
    networks: declared.networks ?? null,
    volumes: declared.volumes ?? null,
    deleteAfter: { success: policy.includes('succeeded'), failure: policy.includes('failed') },
    ttlMs: durationOf(declared.ttl),
  };
}

function durationOf(text: string | undefined): number | null {
  return text === undefined ? null : parseDuration(text);
}
