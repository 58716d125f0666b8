// App vars: the values that a stack gives, against what its app declares. Says nothing of secrets' values, which are not known here.
import type { Var } from './app.ts';
import { shown } from './check.ts';
import type { Path } from './document.ts';
import { parseMint, parseRef } from './ref.ts';

export interface VarMistake {
  /** Below `vars`. */
  readonly path: Path;
  readonly of: 'key' | 'value';
  readonly severity: 'error' | 'warning';
  readonly summary: string;
  readonly detail: string;
  readonly help?: string;
}

const TYPE_WORDS: Readonly<Record<string, string>> = {
  string: 'a string',
  integer: 'an integer',
  number: 'a number',
  boolean: 'true or false',
  list: 'a list',
  map: 'a map',
};

function hasType(value: unknown, type: string): boolean {
  switch (type) {
    case 'string':
      return typeof value === 'string';
    case 'integer':
      return Number.isSafeInteger(value);
    case 'number':
      return typeof value === 'number' && Number.isFinite(value);
    case 'boolean':
      return typeof value === 'boolean';
    case 'list':
      return Array.isArray(value);
    default:
      return typeof value === 'object' && value !== null && !Array.isArray(value);
  }
}

/** A value that stands for another one: a ref or `@secret!`. */
export const isIndirect = (value: unknown): boolean =>
  typeof value === 'string' && (parseRef(value) !== null || parseMint(value) !== null);

/** What is wrong with one value; null when nothing is. */
export function valueMistake(
  name: string,
  declared: Var,
  value: unknown,
): { readonly summary: string; readonly detail: string; readonly help?: string } | null {
  if (isIndirect(value)) return null;
  const type = declared.type ?? 'string';
  const found = declared.secret ? 'found something else' : `found ${shown(value)}`;
  if (!hasType(value, type)) {
    const quote = type === 'string' && (typeof value === 'number' || typeof value === 'boolean');
    return {
      summary: `wrong type for the variable \`${name}\``,
      detail: `expected ${TYPE_WORDS[type] ?? type}; ${found}`,
      ...(quote && !declared.secret ? { help: `write it in quotes: "${String(value)}"` } : {}),
    };
  }
  if (declared.enum && !declared.enum.some((one) => one === value))
    return {
      summary: `wrong value for the variable \`${name}\``,
      detail: `expected one of ${declared.enum.map(String).join(', ')}; ${found}`,
    };
  if (
    declared.pattern !== undefined &&
    typeof value === 'string' &&
    !new RegExp(`^(?:${declared.pattern})$`, 'u').test(value)
  )
    return {
      summary: `wrong value for the variable \`${name}\``,
      detail: `expected text that matches ${declared.pattern}; ${found}`,
    };
  if (typeof value === 'number') {
    if (declared.minimum !== undefined && value < declared.minimum)
      return {
        summary: `wrong value for the variable \`${name}\``,
        detail: `expected at least ${declared.minimum}; ${found}`,
      };
    if (declared.maximum !== undefined && value > declared.maximum)
      return {
        summary: `wrong value for the variable \`${name}\``,
        detail: `expected at most ${declared.maximum}; ${found}`,
      };
  }
  return null;
}

/** Mistakes in the declarations themselves, by variable. */
export function declarationMistakes(
  vars: Readonly<Record<string, Var>>,
): readonly { readonly path: Path; readonly summary: string; readonly detail: string }[] {
  const mistakes: { path: Path; summary: string; detail: string }[] = [];
  for (const [name, declared] of Object.entries(vars)) {
    if (declared.pattern !== undefined) {
      try {
        new RegExp(`^(?:${declared.pattern})$`, 'u');
      } catch {
        mistakes.push({
          path: [name, 'pattern'],
          summary: `the pattern of \`${name}\` is no regular expression`,
          detail: `expected a regular expression; found ${shown(declared.pattern)}`,
        });
        continue;
      }
    }
    if (declared.default === undefined) continue;
    const wrong = valueMistake(name, declared, declared.default);
    if (wrong)
      mistakes.push({ path: [name, 'default'], summary: `${wrong.summary}, in its default`, detail: wrong.detail });
  }
  return mistakes;
}

/** The value that holds: the stack's, the default, a minted secret, or nothing. */
export function effectiveVar(declared: Var, given: unknown): unknown {
  if (given !== undefined && given !== null) return given;
  if (declared.default !== undefined && declared.default !== null) return declared.default;
  return declared.secret && !declared.required ? '@secret!' : null;
}
