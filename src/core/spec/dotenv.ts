// Dotenv: the variables of a `.env` file that say which Compose files and profiles make up a project. Compose itself reads the rest.

/** Later lines win. Values that span lines or use other variables are taken as far as they are literal. */
export function parseDotenv(text: string): Readonly<Record<string, string>> {
  const values: Record<string, string> = {};
  for (const line of text.split(/\r?\n/)) {
    const match = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*[=:]\s*(.*)$/.exec(line);
    if (!match) continue;
    const raw = (match[2] ?? '').trim();
    const quoted = /^(["'])(.*?)\1/.exec(raw);
    values[match[1] ?? ''] = quoted ? (quoted[2] ?? '') : raw.replace(/\s+#.*$/, '').trim();
  }
  return values;
}

export const listOf = (text: string | undefined, separator: string): readonly string[] =>
  (text ?? '')
    .split(separator)
    .map((part) => part.trim())
    .filter((part) => part !== '');
