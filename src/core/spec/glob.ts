// Glob: `*` and `?` inside one name, `**` over any number of folders. As in a shell, a wildcard does not match a leading dot.

function matchName(pattern: string, name: string): boolean {
  if (name.startsWith('.') && !pattern.startsWith('.')) return false;
  // Greedy with one way back to the last star: linear in practice, never exponential.
  let at = 0;
  let star = -1;
  let mark = 0;
  let index = 0;
  while (index < name.length) {
    const wanted = pattern[at];
    if (wanted === '*') {
      star = at++;
      mark = index;
    } else if (wanted === '?' || wanted === name[index]) {
      at++;
      index++;
    } else if (star >= 0) {
      at = star + 1;
      index = ++mark;
    } else return false;
  }
  while (pattern[at] === '*') at++;
  return at === pattern.length;
}

/** `dead` remembers what failed, so that several `**` cost no more than pattern × path. */
function matchParts(
  pattern: readonly string[],
  parts: readonly string[],
  p: number,
  n: number,
  dead: Set<string>,
): boolean {
  if (p === pattern.length) return n === parts.length;
  const key = `${p} ${n}`;
  if (dead.has(key)) return false;
  const name = parts[n];
  const wanted = pattern[p] ?? '';
  const matched =
    wanted === '**'
      ? matchParts(pattern, parts, p + 1, n, dead) ||
        (name !== undefined && !name.startsWith('.') && matchParts(pattern, parts, p, n + 1, dead))
      : name !== undefined && matchName(wanted, name) && matchParts(pattern, parts, p + 1, n + 1, dead);
  if (!matched) dead.add(key);
  return matched;
}

const split = (path: string): string[] => path.split('/').filter((part) => part !== '' && part !== '.');

/** Does `path` ('' = the root) match `glob`. Leading `./` and a trailing `/` mean nothing. */
export function matchGlob(glob: string, path: string): boolean {
  return matchParts(split(glob), split(path), 0, 0, new Set());
}

/** Globs in order; one that starts with `!` takes away. */
export function matchGlobs(globs: readonly string[], path: string): boolean {
  let matched = false;
  for (const glob of globs) {
    if (glob.startsWith('!')) matched = matched && !matchGlob(glob.slice(1), path);
    else matched = matched || matchGlob(glob, path);
  }
  return matched;
}
