// `windlass vault set`: a secret from a pipe, a file or a hidden prompt. Never from an argument: those are seen by everybody on the host.
import { type Command, textFlag, UsageError } from '../command.ts';
import { EXIT } from '../exit.ts';
import { readBounded } from '../read-bounded.ts';
import { SCOPE_FLAG, scopeOf } from './vault.ts';

const VALUE_BYTES = 64 * 1024;

export const set: Command = {
  words: ['vault', 'set'],
  summary: 'put a secret into the vault, read from stdin, a file or a hidden prompt',
  usage: 'KEY',
  example: 'windlass vault set smtp-password --scope stack/shop --from-file password.txt',
  // One more than it takes, so that a value given by mistake is not repeated in the refusal.
  arity: [1, 2],
  flags: {
    scope: { ...SCOPE_FLAG, help: `${SCOPE_FLAG.help}; default: fleet` },
    'from-file': {
      type: 'string',
      value: 'FILE',
      help: 'read the value from a file; a line end at its end is dropped',
    },
  },
  async run({ io, json, flags, args, surface, stop }) {
    if (args.length > 1)
      throw new UsageError(
        'a value is not taken from the command line, where everybody on this host can read it\n  help     pipe it in, use --from-file, or leave it out to be asked; and change the one that was just given',
      );
    const name = { key: args[0] ?? '', scope: scopeOf(flags, 'fleet') };
    const file = textFlag(flags, 'from-file');
    const bytes =
      file === undefined
        ? await io.hidden({ question: `Value of ${name.key} (not shown): `, maxBytes: VALUE_BYTES + 2, signal: stop })
        : await readBounded(file, VALUE_BYTES + 2, 'a secret');
    const value = textOf(bytes);
    const desk = await surface('state');
    const done = await desk.vault.set(name, value);
    if (json) io.json({ ...name, result: done });
    io.words(
      done === 'same'
        ? `${name.key} of ${name.scope} has this value already`
        : `${name.key} of ${name.scope} is ${done}; stacks that use it are deployed again with the next look`,
    );
    if (done !== 'same') await desk.tell(name.scope.startsWith('stack/') ? name.scope.slice('stack/'.length) : '');
    return EXIT.done;
  },
};

/** What editors and `echo` leave at the end is no part of a secret. */
function textOf(bytes: Uint8Array): string {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes).replace(/\r?\n$/, '');
  } catch {
    throw new UsageError('the value is no UTF-8 text\n  help     store it in base64');
  }
  if (text === '') throw new UsageError('the value is empty\n  help     pipe it in, or use --from-file');
  return text;
}
