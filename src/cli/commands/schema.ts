// `windlass schema`: the JSON Schema of a kind, for editors.
import { KINDS, type Kind, schemaOf } from '../../core/spec/kind.ts';
import { type Command, UsageError } from '../command.ts';

export const command: Command = {
  words: ['schema'],
  summary: 'print the JSON Schema of a kind',
  usage: 'KIND',
  example: 'windlass schema Stack > stack.schema.json',
  arity: [1, 1],
  async run({ io, args }) {
    const kinds = Object.keys(KINDS);
    const kind = kinds.find((one) => one.toLowerCase() === (args[0] ?? '').toLowerCase());
    if (!kind) throw new UsageError(`there is no kind ${args[0]}; there are ${kinds.join(', ')}`);
    io.json(schemaOf(kind as Kind));
    return 0;
  },
};
