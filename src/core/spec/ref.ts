// Ref: the one parser of `ref+<scheme>://<path>`, and the closed list of schemes. Resolves nothing.

/** Opened when a stack is rendered for the engine; closed everywhere before. */
export const SECRET_SCHEMES = ['vault', 'sops', 'env', 'file'] as const;
/** Resolved only at run time, in a scale target or as a whole job environment value. */
export const RUNTIME_SCHEMES = ['hook', 'node', 'cluster', 'dns', 'stack'] as const;

export const NODE_KEYS = ['ip', 'id', 'mesh-ip', 'internal-ip', 'hostname'] as const;
export const CLUSTER_KEYS = ['leader-ip', 'node-count'] as const;
export const DNS_KINDS = ['a', 'aaaa', 'srv'] as const;

/** What each runtime scheme knows, as people write it: NAME and SERVICE stand for any. */
export const RUNTIME_PATHS: Readonly<Record<(typeof RUNTIME_SCHEMES)[number], readonly string[]>> = {
  hook: ['previous', 'outputs/NAME'],
  node: NODE_KEYS,
  cluster: CLUSTER_KEYS,
  dns: DNS_KINDS.map((kind) => `NAME/${kind}`),
  stack: ['NAME/revision', 'NAME/service/SERVICE/container-id'],
};

export type SecretScheme = (typeof SECRET_SCHEMES)[number];
export type RuntimeScheme = (typeof RUNTIME_SCHEMES)[number];

export interface Ref {
  readonly scheme: string;
  readonly path: string;
}

/** Null when `text` as a whole is no ref. */
export function parseRef(text: string): Ref | null {
  const match = /^ref\+([^:/\s]*):\/\/(\S*)$/.exec(text);
  return match ? { scheme: match[1] ?? '', path: match[2] ?? '' } : null;
}

export const isSecretScheme = (scheme: string): scheme is SecretScheme =>
  (SECRET_SCHEMES as readonly string[]).includes(scheme);
export const isRuntimeScheme = (scheme: string): scheme is RuntimeScheme =>
  (RUNTIME_SCHEMES as readonly string[]).includes(scheme);

/** The paths that the scheme of a runtime ref knows, when the ref's own is none of them. One with a template in it is judged at run time. */
export function unknownPath({ scheme, path }: Ref): readonly string[] | null {
  if (!isRuntimeScheme(scheme) || path === '' || path.includes('{')) return null;
  const known = RUNTIME_PATHS[scheme];
  const any = scheme === 'hook' ? '[A-Za-z_][A-Za-z0-9_-]*' : '[^/]+';
  const isKnown = known.some((one) => new RegExp(`^${one.replace(/NAME|SERVICE/g, any)}$`).test(path));
  return isKnown ? null : known;
}

/** A ref that stays closed until the render is given to the engine. */
export function isSecretRef(text: string): boolean {
  const ref = parseRef(text);
  return ref !== null && ref.path !== '' && isSecretScheme(ref.scheme);
}

export interface MintPolicy {
  readonly length: number;
  readonly alphabet: 'alnum' | 'hex' | 'ascii';
}

const ALPHABETS = ['alnum', 'hex', 'ascii'] as const;

/** `@secret!` or `@secret(32,alnum)!`; null when it is neither, a message when it is a wrong one. */
export function parseMint(text: string): MintPolicy | { readonly wrong: string } | null {
  if (!/^@secret\b/.test(text)) return null;
  const match = /^@secret(?:\(\s*(\d{1,4})\s*(?:,\s*([a-z]+)\s*)?\))?!$/.exec(text);
  if (!match) return { wrong: 'expected `@secret!` or `@secret(LENGTH,ALPHABET)!`, for example `@secret(32,alnum)!`' };
  const length = match[1] === undefined ? 32 : Number(match[1]);
  const alphabet = ALPHABETS.find((word) => word === (match[2] ?? 'alnum'));
  if (!alphabet) return { wrong: `expected the alphabet ${ALPHABETS.join(', ')}, found \`${match[2]}\`` };
  if (length < 8 || length > 1024) return { wrong: `expected a length from 8 to 1024, found ${length}` };
  return { length, alphabet };
}
