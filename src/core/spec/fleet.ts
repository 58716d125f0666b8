// Fleet: what holds for the whole repository: where plain projects are looked for, defaults, groups.
import { type Static, Type } from 'typebox';
import { Glob, head, mapOf, Name, strict } from './scalar.ts';
import { settings } from './stack.ts';

export const Fleet = Type.Object(
  {
    ...head('Fleet'),
    name: Type.Optional(Name),
    description: Type.Optional(Type.String()),
    discover: Type.Optional(
      Type.Array(Glob, {
        maxItems: 100,
        description: 'globs of folders in which Compose projects are looked for, `.` for the root, `!` to leave out',
        default: ['.', '*/', 'stacks/*/', 'services/*/', 'apps/*/'],
      }),
    ),
    defaults: Type.Optional(
      Type.Object(settings, { ...strict, description: 'settings for stacks that do not say otherwise' }),
    ),
    groups: Type.Optional(
      mapOf(Name, Type.Array(Type.String({ minLength: 1, maxLength: 200 })), 'group → names or globs of its stacks'),
    ),
  },
  { ...strict, title: 'Windlass Fleet', description: 'What holds for all stacks of a repository.' },
);
export type Fleet = Static<typeof Fleet>;
