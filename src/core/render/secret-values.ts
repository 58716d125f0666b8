// Secret values: which values of a project are secret, so that they are masked wherever else they stand. Judged by the name of the variable
// that holds them; in doubt a short or plain word is none, or half of every text would be blackened.
const NAME = /pass(word|wd|phrase)?$|password|secret|token$|api_?key|private_?key|credential/i;
const MIN_LENGTH = 8;
const LONG_WORD = 12;

// biome-ignore lint/suspicious/noExplicitAny: Compose's own output, read defensively below
type Loose = any;

/** Is this what `name` holds a secret to be hidden by value? Paths and plain words are not. */
export function isSecretValue(name: string, value: string): boolean {
  if (!NAME.test(name) || value.length < MIN_LENGTH || value.startsWith('/')) return false;
  return value.length >= LONG_WORD || !/^[a-z]+$/.test(value);
}

/** Of the environments and build arguments of a resolved project. */
export function secretValuesOf(model: Loose): readonly string[] {
  const found = new Set<string>();
  const collect = (variables: unknown): void => {
    if (typeof variables !== 'object' || variables === null) return;
    for (const [name, value] of Object.entries(variables))
      if (typeof value === 'string' && isSecretValue(name, value)) found.add(value);
  };
  for (const service of Object.values<Loose>(model.services ?? {})) {
    collect(service?.environment);
    collect(service?.build?.args);
  }
  return [...found];
}
