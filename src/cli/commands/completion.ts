// `windlass completion`: completes verbs and flags in a shell. Made from the records of the commands.
import { type Command, UsageError } from '../command.ts';
import { GLOBAL_FLAGS } from '../help.ts';

const SHELLS = ['bash', 'zsh', 'fish'];

export const command: Command = {
  words: ['completion'],
  summary: 'print a completion script',
  usage: SHELLS.join('|'),
  example: 'windlass completion bash > /etc/bash_completion.d/windlass',
  arity: [1, 1],
  outputs: [],
  async run({ io, args, commands }) {
    if (args[0] === 'bash') io.data(bash(commands));
    else if (args[0] === 'zsh') io.data(`autoload -U +X bashcompinit && bashcompinit\n${bash(commands)}`);
    else if (args[0] === 'fish') io.data(fish(commands));
    else throw new UsageError(`there is no completion for ${args[0]}; there is ${SHELLS.join(', ')}`);
    return 0;
  },
};

const flagsOf = (one: Command): string[] =>
  Object.keys({ ...one.flags, ...GLOBAL_FLAGS })
    .filter((name) => name !== 'output' || one.outputs?.length !== 0)
    .map((name) => `--${name}`);

const firstWords = (commands: readonly Command[]): string[] => [...new Set(commands.map((one) => one.words[0] ?? ''))];

/** One `case` over the words typed so far; files are completed where nothing else fits. */
function bash(commands: readonly Command[]): string {
  const groups = firstWords(commands).filter((word) => commands.some((one) => one.words[0] === word && one.words[1]));
  const rows = [
    ...commands.map((one) => [one.words.join(' '), flagsOf(one).join(' ')]),
    ...groups.map((word) => [
      word,
      commands
        .filter((one) => one.words[0] === word)
        .map((one) => one.words[1])
        .join(' '),
    ]),
  ];
  return [
    '_windlass() {',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell's own variables
    '  local cur="${COMP_WORDS[COMP_CWORD]}" one="${COMP_WORDS[1]}" two="${COMP_WORDS[2]}" words=""',
    '  COMPREPLY=()',
    `  if [ "$COMP_CWORD" -eq 1 ]; then words="${firstWords(commands).join(' ')} --help --version"`,
    '  else',
    '    case "$one" in',
    `      ${groups.join('|')}) [ "$COMP_CWORD" -gt 2 ] && one="$one $two" ;;`,
    '      *) case "$cur" in -*) ;; *) return ;; esac ;;',
    '    esac',
    '    case "$one" in',
    ...rows.map(([word, answers]) => `      '${word}') words="${answers}" ;;`),
    '    esac',
    '  fi',
    '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
    '}',
    'complete -o default -F _windlass windlass',
  ].join('\n');
}

function fish(commands: readonly Command[]): string {
  const quote = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const lines = ['complete -c windlass -f'];
  for (const word of firstWords(commands)) {
    const inner = commands.filter((one) => one.words[0] === word);
    const [only] = inner;
    const about = inner.length === 1 ? (only?.summary ?? '') : inner.map((one) => one.words[1]).join(', ');
    lines.push(`complete -c windlass -n __fish_use_subcommand -a ${word} -d ${quote(about)}`);
  }
  for (const one of commands) {
    const [first = '', second] = one.words;
    const seen =
      second === undefined
        ? `__fish_seen_subcommand_from ${first}`
        : `__fish_seen_subcommand_from ${first}; and __fish_seen_subcommand_from ${second}`;
    if (second !== undefined)
      lines.push(
        `complete -c windlass -n ${quote(`__fish_seen_subcommand_from ${first}`)} -a ${second} -d ${quote(one.summary)}`,
      );
    for (const [name, flag] of Object.entries(one.flags ?? {}))
      lines.push(
        `complete -c windlass -n ${quote(seen)} -l ${name}${flag.short ? ` -s ${flag.short}` : ''}${flag.type === 'string' ? ' -r' : ''} -d ${quote(flag.help)}`,
      );
  }
  for (const [name, flag] of Object.entries(GLOBAL_FLAGS))
    lines.push(
      `complete -c windlass -l ${name}${flag.short ? ` -s ${flag.short}` : ''}${flag.type === 'string' ? ' -rF' : ''} -d ${quote(flag.help)}`,
    );
  return lines.join('\n');
}
