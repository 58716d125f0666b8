// Cli: words in, exit code out. Finds the command, parses its flags, opens the house only when the command asks for it.
import { parseArgs } from 'node:util';
import { nearest } from '../core/spec/suggest.ts';
import type { Clone } from '../surface/clone-desk.ts';
import {
  type Command,
  type CommandContext,
  type Flag,
  type Flags,
  type Needs,
  type Opened,
  type RawObjectSource,
  UsageError,
} from './command.ts';
import { EXIT } from './exit.ts';
import { formatCommandHelp, formatGroupHelp, formatHelp, GLOBAL_FLAGS } from './help.ts';
import type { Io } from './io.ts';
import { COMMANDS } from './registry.ts';

export interface CliOptions {
  readonly io: Io;
  readonly argv: readonly string[];
  readonly open: (flags: Flags, needs: Needs) => Promise<Opened>;
  readonly rawObjects?: () => Promise<RawObjectSource>;
  readonly clone?: () => Promise<Clone>;
  readonly bundled?: () => Promise<Readonly<Record<string, string>>>;
  readonly stop: AbortSignal;
  readonly now: AbortSignal;
  /** Told once the command is known, before it runs. */
  readonly onCommand?: (command: Command) => void;
}

export async function runCli(options: CliOptions): Promise<number> {
  const { io } = options;
  let opened: Promise<Opened> | null = null;
  try {
    const asked = route(options.argv);
    if (asked.kind === 'help') {
      if (asked.code === EXIT.done) io.data(asked.text);
      else io.words(asked.text);
      return asked.code;
    }
    const { command } = asked;
    options.onCommand?.(command);
    const { flags, args } = parse(command, asked.rest);
    if (flags['help']) {
      io.data(formatCommandHelp(command));
      return EXIT.done;
    }
    const output = flags['output'];
    const outputs = command.outputs ?? ['json'];
    if (typeof output === 'string' && !outputs.includes(output))
      throw new UsageError(
        outputs.length === 0
          ? `windlass ${command.words.join(' ')} takes no -o`
          : `-o takes ${outputs.join(' or ')}, not ${output}`,
      );
    checkArity(command, args);
    const open: CommandContext['open'] = (needs = 'source', instead = {}) => {
      opened ??= options.open({ ...flags, ...instead }, needs);
      return opened;
    };
    const code = await command.run({
      io,
      flags,
      args,
      json: output === 'json',
      commands: COMMANDS,
      open,
      surface: async (needs) => (await open(needs)).surface,
      ...(options.rawObjects ? { rawObjects: options.rawObjects } : {}),
      ...(options.clone ? { clone: options.clone } : {}),
      bundled: options.bundled ?? (async () => ({})),
      // Who only reads for a pipe has nothing left to do when the pipe is closed; who changes things finishes.
      stop: command.drains ? options.stop : AbortSignal.any([options.stop, io.closed]),
      now: options.now,
    });
    return code;
  } catch (error) {
    if (io.closed.aborted && !options.stop.aborted) return EXIT.done;
    const { sayError } = await import('./say-error.ts');
    return sayError(io, error);
  } finally {
    await (opened as Promise<Opened> | null)?.then(
      (one) => one.close(),
      () => {},
    );
  }
}

type Asked =
  | { readonly kind: 'help'; readonly text: string; readonly code: number }
  | { readonly kind: 'run'; readonly command: Command; readonly rest: readonly string[] };

/** Which command is meant. Flags of every command may stand before its words. */
function route(argv: readonly string[]): Asked {
  const wantsHelp = argv.includes('--help') || argv.includes('-h');
  const places = wordPlaces(argv);
  const [first, second, third] = places.map((place) => argv[place] ?? '');
  if (first === undefined) {
    const stray = argv.find((one) => one.startsWith('-') && !isGlobal(one));
    if (stray !== undefined) throw new UsageError(unknownFlag(stray, GLOBAL_FLAGS, 'windlass --help'));
    return { kind: 'help', text: formatHelp(COMMANDS), code: wantsHelp ? EXIT.done : EXIT.usage };
  }
  if (first === 'help') return helpOn(second, third);
  const group = COMMANDS.filter((one) => one.words[0] === first);
  const [only] = group;
  if (only?.words.length === 1) return { kind: 'run', command: only, rest: without(argv, places.slice(0, 1)) };
  if (only) {
    const command = group.find((one) => one.words[1] === second);
    if (command) return { kind: 'run', command, rest: without(argv, places.slice(0, 2)) };
    if (second === undefined)
      return { kind: 'help', text: formatGroupHelp(first, group), code: wantsHelp ? EXIT.done : EXIT.usage };
    const verbs = group.map((one) => one.words[1] ?? '');
    const near = nearest(second, verbs);
    throw new UsageError(
      `there is no command ${first} ${second}${near ? `; did you mean ${first} ${near}?` : ''}\n  known    ${verbs.join(', ')}\n  help     windlass ${first} --help`,
    );
  }
  throw new UsageError(`${unknownCommand(first)}\n  help     windlass --help`);
}

function unknownCommand(word: string): string {
  const near = nearest(word, new Set(COMMANDS.map((one) => one.words[0] ?? '')));
  const verb = near === null ? COMMANDS.find((one) => one.words[1] === word) : undefined;
  const meant = near ?? verb?.words.join(' ');
  return `there is no command ${word}${meant === undefined ? '' : `; did you mean ${meant}?`}`;
}

function helpOn(first: string | undefined, second: string | undefined): Asked {
  if (first === undefined) return { kind: 'help', text: formatHelp(COMMANDS), code: EXIT.done };
  const group = COMMANDS.filter((one) => one.words[0] === first);
  const command = group.find((one) => one.words.length === 1 || one.words[1] === second);
  if (command) return { kind: 'help', text: formatCommandHelp(command), code: EXIT.done };
  if (group.length > 0) return { kind: 'help', text: formatGroupHelp(first, group), code: EXIT.done };
  throw new UsageError(`${unknownCommand(first)}\n  help     windlass --help`);
}

/** Where the words of the line stand: everything but flags and the values of flags that every command has. */
function wordPlaces(argv: readonly string[]): number[] {
  const places: number[] = [];
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at] ?? '';
    if (word === '--') break;
    if (!word.startsWith('-') || word === '-') places.push(at);
    else if (globalFlag(word)?.type === 'string' && !/^--.*=|^-[^-]./.test(word)) at++;
  }
  return places;
}

const globalFlag = (word: string): Flag | undefined =>
  word.startsWith('--')
    ? GLOBAL_FLAGS[word.slice(2).split('=')[0] ?? '']
    : Object.values(GLOBAL_FLAGS).find((flag) => flag.short !== undefined && flag.short === word[1]);
const isGlobal = (word: string): boolean => globalFlag(word) !== undefined;

const without = (argv: readonly string[], places: readonly number[]): string[] =>
  argv.filter((_, at) => !places.includes(at));

function checkArity(command: Command, args: readonly string[]): void {
  const [least, most] = command.arity;
  if (args.length >= least && args.length <= most) return;
  const words = `windlass ${command.words.join(' ')}`;
  throw new UsageError(
    `${args.length < least ? 'an argument is missing' : `${args[most]} is one argument too many`}\n  usage    ${`${words} ${command.usage}`.trimEnd()}\n  example  ${command.example}\n  help     ${words} --help`,
  );
}

function parse(command: Command, rest: readonly string[]): { readonly flags: Flags; readonly args: readonly string[] } {
  const known: Readonly<Record<string, Flag>> = { ...GLOBAL_FLAGS, ...command.flags };
  const options = Object.fromEntries(
    Object.entries(known).map(([name, flag]) => [
      name,
      { type: flag.type, ...(flag.short ? { short: flag.short } : {}), ...(flag.multiple ? { multiple: true } : {}) },
    ]),
  );
  try {
    const { values, positionals } = parseArgs({ args: [...rest], options, allowPositionals: true, strict: true });
    return { flags: values as Flags, args: positionals };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const help = `windlass ${command.words.join(' ')} --help`;
    const flag = /'(--?[^'\s,]+)/.exec(message)?.[1] ?? '';
    if (/^Unknown option/.test(message)) throw new UsageError(unknownFlag(flag, known, help));
    throw new UsageError(`${message.split('\n')[0]}\n  help     ${help}`);
  }
}

function unknownFlag(said: string, known: Readonly<Record<string, Flag>>, help: string): string {
  const name = said.replace(/^-+/, '').split('=')[0] ?? '';
  const near = name.length > 1 ? nearest(name, Object.keys(known)) : null;
  return `there is no flag ${said.split('=')[0]}${near ? `; did you mean --${near}?` : ''}\n  help     ${help}`;
}
