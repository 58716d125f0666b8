// `windlass completion`: completes verbs and flags in a shell.
import { type Command, UsageError } from '../command.ts';

export const command: Command = {
  words: ['completion'],
  summary: 'print a completion script',
  usage: 'bash|zsh|fish',
  example: 'windlass completion bash > /etc/bash_completion.d/windlass',
  arity: [1, 1],
  async run({ io, args, commands }) {
    const words = [...new Set(commands.map((one) => one.words[0] ?? ''))].sort();
    const inner = commands.filter((one) => one.words.length > 1);
    const groups = [...new Set(inner.map((one) => one.words[0] ?? ''))];
    if (args[0] === 'bash' || args[0] === 'zsh') {
      if (args[0] === 'zsh') io.data('autoload -U +X bashcompinit && bashcompinit');
      io.data(
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell's own variables
        '_windlass() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[1]}\n  if [ "$COMP_CWORD" -gt 1 ]; then case "$prev" in',
      );
      for (const group of groups)
        io.data(
          `    ${group}) COMPREPLY=($(compgen -W "${inner
            .filter((one) => one.words[0] === group)
            .map((one) => one.words[1])
            .join(' ')}" -- "$cur")); return;;`,
        );
      io.data(
        `  esac; return; fi\n  COMPREPLY=($(compgen -W "${words.join(' ')}" -- "$cur"))\n}\ncomplete -o default -F _windlass windlass`,
      );
    } else if (args[0] === 'fish') {
      for (const one of commands) {
        const [first = '', second] = one.words;
        io.data(
          second === undefined
            ? `complete -c windlass -n __fish_use_subcommand -a ${first} -d '${one.summary.replaceAll("'", '')}'`
            : `complete -c windlass -n '__fish_seen_subcommand_from ${first}' -a ${second} -d '${one.summary.replaceAll("'", '')}'`,
        );
      }
    } else throw new UsageError(`there is no completion for ${args[0]}; there is bash, zsh and fish`);
    return 0;
  },
};
