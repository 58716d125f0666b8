// Help: made from the records of the commands, so that it cannot lie about a flag.
import type { Command, Flag } from './command.ts';
import { formatTable } from './views/table.ts';

export const GLOBAL_FLAGS: Readonly<Record<string, Flag>> = {
  source: {
    type: 'string',
    value: 'URL-OR-PATH',
    help: 'the repository; also WINDLASS_SOURCE, or `sources` in windlass.yaml',
  },
  ref: { type: 'string', value: 'main', help: 'its branch' },
  state: { type: 'string', value: 'DIR', help: 'the state directory; also WINDLASS_STATE' },
  config: {
    type: 'string',
    value: 'FILE',
    help: 'a kind: Controller document; default windlass.yaml here, if there is one',
  },
  host: { type: 'string', value: 'unix:///…', help: 'the engine; default: as the docker client finds it' },
  settle: { type: 'string', value: '10s', help: 'how long a stack must stay well before a deploy counts' },
  output: { type: 'string', short: 'o', value: 'json', help: 'json for machines (apply: also ndjson)' },
  help: { type: 'boolean', short: 'h', help: 'this text' },
};

const flagRow = ([name, flag]: [string, Flag]): string[] => [
  `  ${flag.short ? `-${flag.short}, ` : '    '}--${name}${flag.value ? ` ${flag.value}` : ''}`,
  flag.help,
];

export function formatHelp(commands: readonly Command[]): string {
  const rows = commands.map((one) => [`  ${one.words.join(' ')} ${one.usage}`.trimEnd(), one.summary]);
  return [
    'windlass: keeps Docker Compose stacks as a git repository asks',
    '',
    'usage: windlass COMMAND [ARGUMENTS] [FLAGS]     windlass COMMAND --help for more',
    '',
    formatTable(['commands', ''], rows, 0),
    '',
    formatTable(['flags of every command', ''], Object.entries(GLOBAL_FLAGS).map(flagRow), 0),
    '',
    'exit codes: 0 done, 1 failed, 2 changes present, 3 usage or invalid spec, 4 declined, 5 refused by trust, 6 locked',
  ].join('\n');
}

export function formatCommandHelp(command: Command): string {
  const flags = { ...command.flags, ...GLOBAL_FLAGS };
  return [
    command.summary,
    '',
    `usage:   windlass ${command.words.join(' ')} ${command.usage}`.trimEnd(),
    `example: ${command.example}`,
    '',
    formatTable(['flags', ''], Object.entries(flags).map(flagRow), 0),
  ].join('\n');
}
