// Cli: words in, exit code out. Finds the command, parses its flags, opens the house only when the command asks for it.
import { parseArgs } from 'node:util';
import { nearest } from '../core/spec/suggest.ts';
import type { Surface } from '../surface.ts';
import { type Command, type Flags, type RawObjectSource, UsageError } from './command.ts';
import { sayError } from './exit.ts';
import { formatCommandHelp, formatHelp, GLOBAL_FLAGS } from './help.ts';
import type { Io } from './io.ts';
import { COMMANDS } from './registry.ts';

export interface CliOptions {
  readonly io: Io;
  readonly argv: readonly string[];
  readonly open: (flags: Flags) => Promise<{ readonly surface: Surface; close(): Promise<void> }>;
  readonly rawObjects?: () => Promise<RawObjectSource>;
  readonly redact: (text: string) => string;
  readonly stop: AbortSignal;
  readonly now: AbortSignal;
}

export async function runCli(options: CliOptions): Promise<number> {
  const { io, argv } = options;
  let opened: { readonly surface: Surface; close(): Promise<void> } | null = null;
  try {
    const words = argv.filter((word, index) => index < 2 && !word.startsWith('-'));
    if (words.length === 0 || words[0] === 'help') {
      io.data(formatHelp(COMMANDS));
      return words.length === 0 && !argv.includes('--help') && !argv.includes('-h') ? 3 : 0;
    }
    const command = find(argv);
    const { flags, args } = parse(command, argv.slice(command.words.length));
    if (flags['help']) {
      io.data(formatCommandHelp(command));
      return 0;
    }
    const [least, most] = command.arity;
    if (args.length < least || args.length > most)
      throw new UsageError(`usage: windlass ${command.words.join(' ')} ${command.usage}\nexample: ${command.example}`);
    const output = flags['output'];
    if (output !== undefined && output !== 'json' && !(output === 'ndjson' && command.words[0] === 'apply'))
      throw new UsageError(`-o takes json${command.words[0] === 'apply' ? ' or ndjson' : ''}, not ${String(output)}`);
    return await command.run({
      io,
      flags,
      args,
      json: output === 'json',
      commands: COMMANDS,
      surface: async () => {
        opened ??= await options.open(flags);
        return opened.surface;
      },
      ...(options.rawObjects ? { rawObjects: options.rawObjects } : {}),
      stop: options.stop,
      now: options.now,
    });
  } catch (error) {
    return sayError(io, error, options.redact);
  } finally {
    await (opened as { close(): Promise<void> } | null)?.close();
  }
}

function find(argv: readonly string[]): Command {
  const [first = '', second = ''] = argv;
  const inner = COMMANDS.filter((one) => one.words[0] === first);
  const found = inner.find((one) => one.words.length === 1 || one.words[1] === second);
  if (found) return found;
  if (inner.length > 0)
    throw new UsageError(
      `windlass ${first} takes ${inner.map((one) => one.words[1]).join(', ')}, not ${second || 'nothing'}`,
    );
  const near = nearest(first, [...new Set(COMMANDS.map((one) => one.words[0] ?? ''))]);
  throw new UsageError(
    `there is no command ${first}${near ? `; did you mean ${near}?` : ''}\n  help     windlass --help`,
  );
}

function parse(command: Command, rest: readonly string[]): { readonly flags: Flags; readonly args: readonly string[] } {
  const known = { ...GLOBAL_FLAGS, ...command.flags };
  const config = Object.fromEntries(
    Object.entries(known).map(([name, flag]) => [
      name,
      { type: flag.type, ...(flag.short ? { short: flag.short } : {}), ...(flag.multiple ? { multiple: true } : {}) },
    ]),
  );
  try {
    const { values, positionals } = parseArgs({
      args: [...rest],
      options: config,
      allowPositionals: true,
      strict: true,
    });
    return { flags: values as Flags, args: positionals };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const flag = /'(--?[^'\s]+)/.exec(message)?.[1];
    const near = flag ? nearest(flag.replace(/^-+/, ''), Object.keys(known)) : null;
    const words = /Unknown option/.test(message) ? `there is no flag ${flag}` : message.split('.')[0];
    throw new UsageError(
      `${words}${near && near !== flag?.replace(/^-+/, '') ? `; did you mean --${near}?` : ''}\n  help     windlass ${command.words.join(' ')} --help`,
    );
  }
}
