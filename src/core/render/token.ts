// Token: a closed secret ref as a word of letters and digits, so that it survives YAML, Compose and hashing untouched until it is opened.

const OPEN = 'WLREF';
const SHUT = 'FERLW';
const TOKEN = /WLREF((?:[0-9a-f]{2})+)FERLW/g;

export const encodeToken = (ref: string): string => `${OPEN}${Buffer.from(ref, 'utf8').toString('hex')}${SHUT}`;

const decode = (hex: string): string => Buffer.from(hex, 'hex').toString('utf8');

/** The refs of all tokens in a text, each once, in order of appearance. */
export function findTokens(text: string): readonly string[] {
  if (!text.includes(OPEN)) return [];
  return [...new Set(Array.from(text.matchAll(TOKEN), (match) => decode(match[1] ?? '')))];
}

/** A value inside a JSON string as programs in Go spell it, Compose and the engine among them. */
export const spelledByGo = (value: string): string =>
  JSON.stringify(value)
    .slice(1, -1)
    .replace(/[<>&\u2028\u2029]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);

export const replaceTokens = (text: string, open: (ref: string) => string): string =>
  text.includes(OPEN) ? text.replace(TOKEN, (_, hex: string) => open(decode(hex))) : text;
