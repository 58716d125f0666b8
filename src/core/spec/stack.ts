// Stack: one deployable unit: an instance of an app, or settings of the plain Compose project beside it.
import { type Static, Type } from 'typebox';
import { Version } from './app.ts';
import { actionDefinition, Hooks } from './hooks.ts';
import {
  Cron,
  Duration,
  head,
  Identifier,
  mapOf,
  Name,
  oneOf,
  Port,
  Service,
  strict,
  Timestamp,
  Window,
} from './scalar.ts';

/** What a stack may say and `fleet.yaml` may give as a default. */
export const settings = {
  node: Type.Optional(Name),
  runtime: Type.Optional(oneOf(['compose', 'swarm'], { description: '`compose` or `swarm`', default: 'compose' })),
  drift: Type.Optional(oneOf(['heal', 'warn', 'off'], { description: '`heal`, `warn` or `off`', default: 'heal' })),
  prune: Type.Optional(
    Type.Boolean({
      description: 'true or false: may its containers be removed when it leaves the fleet',
      default: true,
    }),
  ),
  adopt: Type.Optional(
    Type.Boolean({
      description: 'true or false: may a project of the same name that Windlass did not create be taken over',
      default: false,
    }),
  ),
  onFailure: Type.Optional(oneOf(['hold', 'rollback'], { description: '`hold` or `rollback`', default: 'hold' })),
  timeout: Type.Optional(Duration),
  windows: Type.Optional(Type.Array(Window, { description: 'windows in which changes may be made; none = always' })),
};

const Count = Type.Integer({ minimum: 1, maximum: 100_000, description: 'how many are kept' });

export const VolumeGlob = Type.String({
  pattern: '^[^\\\\\\u0000-\\u001f]{1,200}$',
  description:
    'a glob of volumes (by their key in the Compose file), or of mounted folders as the Compose file writes them, such as ./data',
});

export const BackupSettings = Type.Object(
  {
    schedule: Type.Optional(Cron),
    keep: Type.Optional(
      Type.Object(
        {
          last: Type.Optional(Count),
          daily: Type.Optional(Count),
          weekly: Type.Optional(Count),
          monthly: Type.Optional(Count),
        },
        { ...strict, minProperties: 1, description: 'how many archives are kept' },
      ),
    ),
    drill: Type.Optional(Type.Object({ schedule: Cron }, { ...strict, description: 'when a restore is rehearsed' })),
    restic: Type.Optional(
      Type.Array(VolumeGlob, {
        maxItems: 100,
        description: 'which volumes and folders lie in the restic repository of windlass.yaml; none = [], all = "**"',
      }),
    ),
  },
  { ...strict, description: 'when archives are made and how many are kept' },
);

export const Stack = Type.Object(
  {
    ...head('Stack'),
    name: Type.Optional(Name),
    description: Type.Optional(Type.String()),
    app: Type.Optional(Name),
    version: Type.Optional(Version),
    group: Type.Optional(Name),
    vars: Type.Optional(mapOf(Identifier, Type.Unknown(), 'values of the variables of the app')),
    integrate: Type.Optional(mapOf(Identifier, Name, 'plug → the stack that provides it')),
    ports: Type.Optional(mapOf(Service, Type.Array(Port), 'service → further published ports')),
    replicas: Type.Optional(
      mapOf(
        Service,
        Type.Integer({ minimum: 0, maximum: 10_000, description: 'a replica count' }),
        'service → replica count',
      ),
    ),
    ...settings,
    suspend: Type.Optional(
      Type.Object(
        { reason: Type.String({ minLength: 1, description: 'why' }), until: Type.Optional(Timestamp) },
        { ...strict, description: '`reason`, and `until` if it ends by itself' },
      ),
    ),
    backup: Type.Optional(BackupSettings),
    hooks: Type.Optional(Hooks),
  },
  {
    ...strict,
    $defs: actionDefinition,
    title: 'Windlass Stack',
    description: 'An instance of an app, or settings of the Compose project beside it.',
  },
);
export type Stack = Static<typeof Stack>;
