// Backup: what an app says of its own backup, in backup.yaml: how services are brought to rest, what is captured, which jobs dump and
// replay, how many archives are kept. Decides which volumes are meant and how often a restored stack boots; captures nothing itself.
import { type Static, Type } from 'typebox';
import { problemOfSchedule } from '../status/schedule.ts';
import type { Diagnostic, Place } from './diagnostic.ts';
import { matchGlob } from './glob.ts';
import { head, mapOf, Name, oneOf, Service, strict } from './scalar.ts';
import { BackupSettings, VolumeGlob } from './stack.ts';
import { didYouMean, listed } from './suggest.ts';

export const QUIESCE = ['stop', 'pause', 'none'] as const;
export type Quiesce = (typeof QUIESCE)[number];

const PathGlob = Type.String({
  pattern: '^(?!/)(?!(?:.*/)?\\.\\.(?:/|$))[^\\\\\\u0000-\\u001f]{1,500}$',
  description: 'a glob below the root of the volume; `*` matches no slash, and a folder leaves with all that is in it',
});

const JobNames = Type.Array(Name, { minItems: 1, maxItems: 100, uniqueItems: true, description: 'names of jobs' });

export const Backup = Type.Object(
  {
    ...head('Backup'),
    description: Type.Optional(Type.String()),
    quiesce: Type.Optional(
      mapOf(
        Service,
        oneOf(QUIESCE, { description: '`stop`, `pause` or `none`' }),
        'service → what is done with it while its data is read; a service that is not named is stopped when it mounts what is captured',
      ),
    ),
    volumes: Type.Optional(
      Type.Object(
        {
          include: Type.Optional(Type.Array(VolumeGlob, { minItems: 1, maxItems: 100 })),
          exclude: Type.Optional(Type.Array(VolumeGlob, { minItems: 1, maxItems: 100 })),
        },
        { ...strict, minProperties: 1, description: 'which volumes are captured; all when nothing is said' },
      ),
    ),
    exclude: Type.Optional(
      mapOf(
        VolumeGlob,
        Type.Array(PathGlob, { minItems: 1, maxItems: 100 }),
        'volume or mounted folder → what in it is not captured: caches, sockets, device nodes; the archive says so',
      ),
    ),
    dump: Type.Optional({ ...JobNames, description: 'jobs that write dumps, run in pre_backup, in this order' }),
    restore: Type.Optional({ ...JobNames, description: 'jobs that rebuild data from its dumps, in this order' }),
    'x-windlass-restore': Type.Optional(
      Type.Object(
        {
          singleBoot: Type.Boolean({
            description: 'true or false: is a restored stack right at its first boot; false = booted twice',
          }),
        },
        { ...strict, description: 'how a restored stack is booted, when the jobs do not tell' },
      ),
    ),
    ...BackupSettings.properties,
  },
  { ...strict, title: 'Windlass Backup', description: 'What an app says of its own backup (backup.yaml).' },
);
export type Backup = Static<typeof Backup>;

/** What a glob of volumes and folders may mean. */
export type Holder =
  /** By its key. */
  | { readonly kind: 'volume'; readonly name: string }
  /** By its path below the tree, as the files of the stack say it whichever generation is mounted; `written`: as seen from the folder of
   * the Compose file, without the leading `./`. */
  | { readonly kind: 'bind'; readonly name: string; readonly written: string };

/** `./x` is the folder x beside the Compose file, as that writes it. */
const isWritten = (glob: string): boolean => /^\.\.?(?:\/|$)/.test(glob);

const means = (glob: string, one: Holder): boolean =>
  one.kind === 'volume'
    ? !isWritten(glob) && matchGlob(glob, one.name)
    : matchGlob(glob, one.name) || (isWritten(glob) && matchGlob(glob, one.written));

/** Everything is captured, unless the app says otherwise. */
export function captures(backup: Backup | null, one: Holder): boolean {
  const { include, exclude } = backup?.volumes ?? {};
  const isNamed = (globs: readonly string[]): boolean => globs.some((glob) => means(glob, one));
  return (include === undefined || isNamed(include)) && !(exclude !== undefined && isNamed(exclude));
}

/** What is left out of it, below its root. */
export const leftOut = (backup: Backup | null, one: Holder): readonly string[] =>
  Object.entries(backup?.exclude ?? {}).flatMap(([glob, paths]) => (means(glob, one) ? paths : []));

/** Does it lie in the restic repository? */
export const isForRestic = (settings: Pick<Static<typeof BackupSettings>, 'restic'>, one: Holder): boolean =>
  (settings.restic ?? []).some((glob) => means(glob, one));

export interface IdleGlob {
  readonly glob: string;
  readonly path: readonly (string | number)[];
}

/** Globs that mean none of what there is: mistyped, or left behind. What only says `all` is none. */
export function idleGlobs(
  backup: Pick<Backup, 'volumes' | 'exclude' | 'restic'>,
  all: readonly Holder[],
): readonly IdleGlob[] {
  const listOf = (globs: readonly string[] = [], path: readonly string[]): readonly IdleGlob[] =>
    globs.map((glob, index) => ({ glob, path: [...path, index] }));
  return [
    ...listOf(backup.volumes?.include, ['volumes', 'include']),
    ...listOf(backup.volumes?.exclude, ['volumes', 'exclude']),
    ...Object.keys(backup.exclude ?? {}).map((glob) => ({ glob, path: ['exclude', glob] })),
    ...listOf(backup.restic, ['restic']),
  ].filter(({ glob }) => !/^(?:\.\/)?[*/]+$/.test(glob) && !all.some((one) => means(glob, one)));
}

/** As it would be written in a glob. */
export const globOf = (one: Holder): string =>
  one.kind === 'volume' ? one.name : isWritten(one.written) ? one.written : `./${one.written}`;

export const BOOTS = ['single', 'double'] as const;
export type BootKind = (typeof BOOTS)[number];

export interface Boot {
  readonly kind: BootKind;
  /** Why, as the plan prints it. */
  readonly why: string;
}

interface BootFacts {
  readonly backup: Backup | null;
  /** Does a `pre_restore` hook run a job or a command: it may rebuild data. */
  readonly hasRestoreHook: boolean;
}

/** First match wins. A database that is rebuilt from a dump must boot afresh on what was rebuilt; in doubt twice. */
const BOOT_RULES: readonly {
  readonly when: (facts: BootFacts) => boolean;
  readonly kind: BootKind;
  readonly why: string;
}[] = [
  {
    when: ({ backup }) => backup?.['x-windlass-restore']?.singleBoot === true,
    kind: 'single',
    why: 'backup.yaml says `singleBoot: true`',
  },
  {
    when: ({ backup }) => backup?.['x-windlass-restore']?.singleBoot === false,
    kind: 'double',
    why: 'backup.yaml says `singleBoot: false`',
  },
  {
    when: ({ backup }) => (backup?.restore ?? []).length > 0,
    kind: 'double',
    why: 'its `restore` jobs rebuild data, which needs a clean boot afterwards',
  },
  {
    when: ({ hasRestoreHook }) => hasRestoreHook,
    kind: 'double',
    why: 'a `pre_restore` hook may rebuild data, which needs a clean boot afterwards',
  },
  {
    when: ({ backup }) => (backup?.dump ?? []).length > 0,
    kind: 'double',
    why: 'it makes dumps without a `restore` job, so what replays them is not known',
  },
  { when: () => true, kind: 'single', why: 'its data is files in volumes: no job rebuilds any' },
];

export function bootOf(facts: BootFacts): Boot {
  const { kind, why } = BOOT_RULES.find((rule) => rule.when(facts))!;
  return { kind, why };
}

/** What the stack says wins over what its app says, key by key. */
export function effectiveSettings(
  app: Backup | null,
  stack: Static<typeof BackupSettings> | null,
): Static<typeof BackupSettings> {
  const schedule = stack?.schedule ?? app?.schedule;
  const keep = stack?.keep ?? app?.keep;
  const drill = stack?.drill ?? app?.drill;
  const restic = stack?.restic ?? app?.restic;
  return {
    ...(schedule === undefined ? {} : { schedule }),
    ...(keep === undefined ? {} : { keep }),
    ...(drill === undefined ? {} : { drill }),
    ...(restic === undefined ? {} : { restic }),
  };
}

/** Schedules that croner cannot read, or that never come. */
export function scheduleMistakes(
  settings: Static<typeof BackupSettings>,
  place: (path: readonly (string | number)[]) => Place,
): readonly Diagnostic[] {
  const found: Diagnostic[] = [];
  const look = (schedule: string | undefined, path: readonly string[]): void => {
    const problem = schedule === undefined ? null : problemOfSchedule(schedule);
    if (problem !== null)
      found.push({
        severity: 'error',
        code: 'SPEC_INVALID',
        summary: `wrong value for \`${path.join('.')}\``,
        detail: `${problem}; found ${schedule}`,
        help: 'five fields: minute, hour, day, month, weekday; times are those of UTC',
        place: place(path),
      });
  };
  look(settings.schedule, ['schedule']);
  look(settings.drill?.schedule, ['drill', 'schedule']);
  return found;
}

/** What the schema cannot say: jobs and services that there are not, and jobs that cannot work in their place. */
export function backupMistakes(
  backup: Backup,
  known: {
    /** Null when they, and the schedules, have been judged. */
    readonly jobs: readonly string[] | null;
    /** Null while the services are not known: before the template is rendered. */
    readonly services: readonly string[] | null;
  },
  place: (path: readonly (string | number)[], of?: 'key' | 'value') => Place,
): readonly Diagnostic[] {
  const diagnostics: Diagnostic[] = [...(known.jobs === null ? [] : scheduleMistakes(backup, place))];
  const { jobs } = known;
  if (jobs !== null)
    for (const list of ['dump', 'restore'] as const)
      for (const [index, job] of (backup[list] ?? []).entries())
        if (!jobs.includes(job))
          diagnostics.push({
            severity: 'error',
            code: 'JOB_UNKNOWN',
            summary: `unknown job \`${job}\``,
            detail:
              jobs.length === 0
                ? `expected a file ${job}.job.yaml beside it; there are no jobs`
                : `expected one of ${listed([...jobs].sort())}`,
            ...didYouMean(job, jobs),
            place: place([list, index]),
          });
  if (known.services !== null)
    for (const service of Object.keys(backup.quiesce ?? {}))
      if (!known.services.includes(service))
        diagnostics.push({
          severity: 'error',
          code: 'SERVICE_UNKNOWN',
          summary: `unknown service \`${service}\``,
          detail: `expected one of ${listed([...known.services].sort())}`,
          ...didYouMean(service, known.services),
          place: place(['quiesce', service], 'key'),
        });
  return diagnostics;
}
