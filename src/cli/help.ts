// Help: made from the records of the commands, so that it cannot lie about a flag.
import type { Command, Flag } from './command.ts';
import { formatTable } from './views/table.ts';

export const GLOBAL_FLAGS: Readonly<Record<string, Flag>> = {
  source: {
    type: 'string',
    value: 'URL-OR-PATH',
    help: 'the repository; also WINDLASS_SOURCE, or `sources` in windlass.yaml',
  },
  ref: { type: 'string', value: 'BRANCH', help: 'its branch; default main' },
  state: { type: 'string', value: 'DIR', help: 'the state directory; also WINDLASS_STATE' },
  config: {
    type: 'string',
    value: 'FILE',
    help: 'a kind: Controller document; default windlass.yaml here, if there is one',
  },
  host: { type: 'string', value: 'unix:///…', help: 'the engine; default: as the docker client finds it' },
  settle: { type: 'string', value: '10s', help: 'how long a stack must stay well before a deploy counts' },
  output: { type: 'string', short: 'o', value: 'json', help: 'json for machines' },
  help: { type: 'boolean', short: 'h', help: 'this text' },
};

const flagRow = ([name, flag]: [string, Flag]): string[] => [
  `  ${flag.short ? `-${flag.short}, ` : '    '}--${name}${flag.value ? ` ${flag.value}` : ''}`,
  flag.help,
];

const commandRow = (one: Command): string[] => [`  ${`${one.words.join(' ')} ${one.usage}`.trimEnd()}`, one.summary];
const table = (title: string, rows: readonly string[][]): string =>
  formatTable([title, ''], rows, Number.POSITIVE_INFINITY);

export function formatHelp(commands: readonly Command[]): string {
  return [
    'windlass: keeps Docker Compose stacks as a git repository asks',
    '',
    'usage:   windlass COMMAND [ARGUMENTS] [FLAGS]',
    'example: windlass plan --source https://git.example.org/fleet.git',
    '',
    table('commands', commands.map(commandRow)),
    '',
    table('flags of every command', Object.entries(GLOBAL_FLAGS).map(flagRow)),
    '',
    '`windlass COMMAND --help` says more of a command, `windlass explain CODE` of an error.',
    'exit codes: 0 done, 1 failed, 2 changes present, 3 usage or invalid spec, 4 declined, 5 refused by trust, 6 locked',
  ].join('\n');
}

export function formatGroupHelp(word: string, group: readonly Command[]): string {
  return [
    table(`windlass ${word}`, group.map(commandRow)),
    '',
    `example: ${group[0]?.example ?? ''}`,
    `\`windlass ${word} ${group[0]?.words[1] ?? ''} --help\` says more.`,
  ].join('\n');
}

export function formatCommandHelp(command: Command): string {
  const outputs = command.outputs ?? ['json'];
  const shared = Object.entries(GLOBAL_FLAGS)
    .filter(([name]) => name !== 'output' || outputs.length > 0)
    .map(([name, flag]): [string, Flag] =>
      name === 'output' ? [name, { ...flag, value: outputs.join('|'), help: 'for machines' }] : [name, flag],
    );
  const own = Object.entries(command.flags ?? {});
  return [
    command.summary,
    '',
    `usage:   windlass ${command.words.join(' ')} ${command.usage}`.trimEnd(),
    `example: ${command.example}`,
    '',
    ...(own.length > 0 ? [table('flags', own.map(flagRow)), ''] : []),
    table('flags of every command', shared.map(flagRow)),
  ].join('\n');
}
