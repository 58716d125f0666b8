// Anchor hint: `trust/anchor.yaml`, by which people's tools know the fleet in a clone. It authorises nothing: a controller believes only
// the anchor in its own configuration, whose text is made here too.
import { parseDocument } from '../../spec/document.ts';
import { decodeUtf8 } from './policy-file.ts';

export interface AnchorHint {
  readonly fleet: string;
  /** The full ref. */
  readonly ref: string;
  readonly environment: string;
  /** 40 hex. */
  readonly genesis: string;
  /** SHA-256 of the file of policy version 1, 64 hex. */
  readonly policy: string;
}

export const ANCHOR_PATH = 'trust/anchor.yaml';

const KEYS = ['fleet', 'ref', 'environment', 'genesis', 'policy'] as const;

export const ANCHOR_FORM: Readonly<Record<keyof AnchorHint, RegExp>> = {
  fleet: /^[0-9a-zA-Z-]{8,64}$/,
  ref: /^refs\/[^\s~^:?*[\\\x00-\x1f\x7f]{1,250}$/,
  environment: /^[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]{0,98}[^\s\x00-\x1f\x7f])?$/,
  genesis: /^[0-9a-f]{40}$/,
  policy: /^[0-9a-f]{64}$/,
};

/** The hint, or what is wrong with it. */
export function readAnchorHint(bytes: Uint8Array): { readonly hint: AnchorHint } | { readonly wrong: string } {
  const text = decodeUtf8(bytes);
  if (text === null) return { wrong: 'it is not UTF-8' };
  const { parsed, diagnostics } = parseDocument(ANCHOR_PATH, text);
  if (parsed === null) return { wrong: diagnostics[0]?.summary ?? 'it is not YAML' };
  const value = parsed.value as Readonly<Record<string, unknown>> | null;
  if (typeof value !== 'object' || value === null || value['kind'] !== 'TrustAnchor')
    return { wrong: 'it is no kind: TrustAnchor' };
  const bad = KEYS.find((key) => {
    const said = value[key];
    return typeof said !== 'string' || !ANCHOR_FORM[key].test(said);
  });
  if (bad !== undefined) return { wrong: `its \`${bad}\` is missing or malformed` };
  const take = (key: keyof AnchorHint): string => value[key] as string;
  return {
    hint: {
      fleet: take('fleet'),
      ref: take('ref'),
      environment: take('environment'),
      genesis: take('genesis'),
      policy: take('policy'),
    },
  };
}

const rows = (hint: AnchorHint, indent: string): string =>
  KEYS.map((key) => `${indent}${key}: ${JSON.stringify(hint[key])}\n`).join('');

export const formatAnchorHint = (hint: AnchorHint): string =>
  `# For the tools of people in their clones. No controller reads it: what counts is trust.anchor in its own windlass.yaml.
apiVersion: windlass/v1
kind: TrustAnchor
${rows(hint, '')}`;

/** What belongs into the configuration of the controller. */
export const formatAnchorBlock = (hint: AnchorHint): string =>
  `trust:\n  deploy: none\n  anchor:\n${rows(hint, '    ')}`;
