// `windlass schema`: the JSON Schema of a kind, for editors.
import type { Kind } from '../../core/spec/kind.ts';
import { type Command, UsageError } from '../command.ts';

export const command: Command = {
  words: ['schema'],
  summary: 'print the JSON Schema of a kind',
  usage: 'KIND',
  example: 'windlass schema Stack > stack.schema.json',
  arity: [1, 1],
  async run({ io, args }) {
    const [{ KINDS, schemaOf }, { nearest }] = await Promise.all([
      import('../../core/spec/kind.ts'),
      import('../../core/spec/suggest.ts'),
    ]);
    const said = args[0] ?? '';
    const kinds = Object.keys(KINDS);
    const kind = kinds.find((one) => one.toLowerCase() === said.toLowerCase());
    if (!kind) {
      const near = nearest(said, kinds);
      throw new UsageError(
        `there is no kind ${said}${near ? `; did you mean ${near}?` : ''}\n  known    ${kinds.join(', ')}`,
      );
    }
    io.json(schemaOf(kind as Kind));
    return 0;
  },
};
