// The environment a child gets: never ours as a whole, because ours may hold credentials.

const KEPT = ['PATH', 'HOME', 'LANG'] as const;

/** PATH, HOME and LANG of this process, and `extra` over them. */
export function cleanEnvironment(extra: Readonly<Record<string, string>> = {}): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const name of KEPT) {
    const value = process.env[name];
    if (value !== undefined) environment[name] = value;
  }
  return { ...environment, ...extra };
}
