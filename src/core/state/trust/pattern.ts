// OpenSSH patterns: `*`, `?`, and comma lists with `!` negation. Case sensitive. Pure text.

/** True when the whole text fits the pattern. Linear in text × pattern, without backtracking blow-up. */
export function fitsPattern(text: string, pattern: string): boolean {
  let textAt = 0;
  let patternAt = 0;
  let starAt = -1;
  let resumeAt = 0;
  while (textAt < text.length) {
    const sign = pattern[patternAt];
    if (sign === '*') {
      starAt = patternAt++;
      resumeAt = textAt;
    } else if (sign !== undefined && (sign === '?' || sign === text[textAt])) {
      patternAt++;
      textAt++;
    } else if (starAt >= 0) {
      patternAt = starAt + 1;
      textAt = ++resumeAt;
    } else {
      return false;
    }
  }
  while (pattern[patternAt] === '*') patternAt++;
  return patternAt === pattern.length;
}

/** True when some pattern of the list fits and no negated one does. */
export function fitsPatternList(text: string, patterns: readonly string[]): boolean {
  let fits = false;
  for (const pattern of patterns) {
    if (pattern.startsWith('!')) {
      if (fitsPattern(text, pattern.slice(1))) return false;
    } else if (fitsPattern(text, pattern)) {
      fits = true;
    }
  }
  return fits;
}

/** True when the entry names one text exactly: no wildcard, no negation. */
export function isLiteral(pattern: string): boolean {
  return pattern !== '' && !pattern.startsWith('!') && !/[*?]/.test(pattern);
}
