// Suggest: the known word that was probably meant.

/** Edits (insert, delete, replace, swap of neighbours) from one word to the other; stops counting above `limit`. */
export function editDistance(from: string, to: string, limit: number): number {
  if (Math.abs(from.length - to.length) > limit) return limit + 1;
  let before: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const next = [row];
    let least = row;
    for (let column = 1; column <= to.length; column++) {
      const same = from[row - 1] === to[column - 1];
      let cost = Math.min(
        (last[column] ?? 0) + 1,
        (next[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
      );
      if (row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1])
        cost = Math.min(cost, (before[column - 2] ?? 0) + 1);
      next.push(cost);
      least = Math.min(least, cost);
    }
    if (least > limit) return limit + 1;
    before = last;
    last = next;
  }
  return last[to.length] ?? limit + 1;
}

const plain = (word: string): string => word.toLowerCase().replace(/[-_ .]/g, '');

/** The nearest of `known`, or null when none is near. Case and the choice of `-`, `_` or camel case never count. */
export function nearest(word: string, known: Iterable<string>): string | null {
  const wanted = plain(word.slice(0, 100));
  const limit = Math.max(1, Math.floor(wanted.length / 3));
  let best: string | null = null;
  let bestDistance = limit + 1;
  for (const candidate of known) {
    const distance = editDistance(wanted, plain(candidate), limit);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `did you mean …?`, or nothing; to be spread into a diagnostic. */
export function didYouMean(word: string, known: Iterable<string>): { help?: string } {
  const found = nearest(word, known);
  return found === null ? {} : { help: `did you mean \`${found}\`?` };
}

/** A list for people, cut when it is long. */
export function listed(words: readonly string[], most = 24): string {
  const shown = words.slice(0, most).join(', ');
  return words.length > most ? `${shown}, … (${words.length} in all)` : shown;
}
