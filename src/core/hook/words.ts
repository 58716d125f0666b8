// Words: a command given as one string, cut into its words as Compose does: quotes and backslashes, nothing else of a shell.

/** Throws a plain error when a quote is not closed. */
export function wordsOf(command: string | readonly string[]): readonly string[] {
  if (typeof command !== 'string') return command;
  const words: string[] = [];
  let word: string | null = null;
  let quote = '';
  for (let at = 0; at < command.length; at++) {
    const char = command[at]!;
    if (char === '\\' && quote !== "'" && at + 1 < command.length) {
      at++;
      word = (word ?? '') + command[at];
    } else if (quote !== '') {
      if (char === quote) quote = '';
      else word = (word ?? '') + char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (/\s/.test(char)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? '') + char;
  }
  if (quote !== '') throw new Error(`a ${quote} is not closed in: ${command}`);
  if (word !== null) words.push(word);
  return words;
}
