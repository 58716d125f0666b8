// App: a catalog entry that stacks instantiate: variables, plugs, what it provides, hooks.
import { type Static, Type } from 'typebox';
import { actionDefinition, Hooks } from './hooks.ts';
import { head, Identifier, mapOf, Name, oneOf, Plain, Port, Service, strict } from './scalar.ts';

export const VAR_TYPES = ['string', 'integer', 'number', 'boolean', 'list', 'map'] as const;

const Var = Type.Object(
  {
    type: Type.Optional(oneOf(VAR_TYPES, { description: `a type: ${VAR_TYPES.join(', ')}`, default: 'string' })),
    default: Type.Optional(Type.Unknown({ description: 'its value when the stack gives none' })),
    required: Type.Optional(Type.Boolean({ description: 'true or false', default: false })),
    secret: Type.Optional(
      Type.Boolean({
        description: 'true or false: kept in the vault; without a value and a default it is minted',
        default: false,
      }),
    ),
    description: Type.Optional(Type.String()),
    enum: Type.Optional(Type.Array(Plain, { minItems: 1, description: 'the values that are allowed' })),
    pattern: Type.Optional(
      Type.String({ minLength: 1, maxLength: 500, description: 'a regular expression that the whole text matches' }),
    ),
    minimum: Type.Optional(Type.Number()),
    maximum: Type.Optional(Type.Number()),
  },
  { ...strict, description: 'the declaration of a variable' },
);
export type Var = Static<typeof Var>;

const Plug = Type.Object(
  {
    interface: Name,
    optional: Type.Optional(Type.Boolean({ description: 'true or false', default: false })),
    description: Type.Optional(Type.String()),
  },
  { ...strict, description: 'a plug: the interface that it needs of another stack' },
);

const Version = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$',
  description: 'a version, quoted, such as "26.0"',
});

export const App = Type.Object(
  {
    ...head('App'),
    name: Type.Optional(Name),
    version: Version,
    description: Type.Optional(Type.String()),
    vars: Type.Optional(mapOf(Identifier, Var, 'variables of the app')),
    plugs: Type.Optional(mapOf(Identifier, Plug, 'what the app needs of other stacks')),
    provides: Type.Optional(
      mapOf(Name, mapOf(Identifier, Plain, 'values of the interface; templates are allowed'), 'interface → its values'),
    ),
    hooks: Type.Optional(Hooks),
    ports: Type.Optional(mapOf(Service, Type.Array(Port), 'service → ports that are published by default')),
    files: Type.Optional(
      Type.Array(
        Type.String({ pattern: '^files/[^\\\\\\u0000-\\u001f]{0,200}$', description: 'a glob below files/' }),
        {
          description: 'which files of the app go into the project folder; default: all below files/',
        },
      ),
    ),
  },
  {
    ...strict,
    $defs: actionDefinition,
    title: 'Windlass App',
    description: 'A catalog entry that stacks instantiate.',
  },
);
export type App = Static<typeof App>;
export { Version };
