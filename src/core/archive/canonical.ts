// Canonical JSON (RFC 8785): one value has exactly one text, so that its SHA-256 is its identity. Refuses what JSON cannot hold exactly.
import { createHash } from 'node:crypto';

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | {
      readonly [key: string]: Json;
    };

/** Nothing of ours is nested deeper; a hostile text must not exhaust the stack. */
export const MAX_DEPTH = 64;

/** Keys in the order of their UTF-16 units, no white space. Throws a plain error for what is no JSON: undefined, NaN, a lone surrogate. */
export function canonicalText(value: unknown, depth = 0): string {
  if (depth > MAX_DEPTH) throw new Error(`nested deeper than ${MAX_DEPTH}`);
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new Error(`${value} is no JSON`);
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw new Error(`${value} is not exact`);
    return JSON.stringify(value);
  }
  if (typeof value === 'string') return textOf(value);
  if (Array.isArray(value)) return `[${value.map((item) => canonicalText(item, depth + 1)).join(',')}]`;
  if (typeof value === 'object') {
    const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    return `{${fields.map(([key, item]) => `${textOf(key)}:${canonicalText(item, depth + 1)}`).join(',')}}`;
  }
  throw new Error(`${typeof value} is no JSON`);
}

function textOf(text: string): string {
  if (!text.isWellFormed()) throw new Error('a text with half a surrogate pair has no UTF-8');
  return JSON.stringify(text);
}

export const canonicalBytes = (value: unknown): Uint8Array => Buffer.from(canonicalText(value), 'utf8');

export const sha256Hex = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** How deep the brackets of a JSON text are nested, found without building anything. */
export function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit === 0x22) {
      for (index++; index < text.length && text.charCodeAt(index) !== 0x22; index++)
        if (text.charCodeAt(index) === 0x5c) index++;
    } else if (unit === 0x5b || unit === 0x7b) deepest = Math.max(deepest, ++depth);
    else if (unit === 0x5d || unit === 0x7d) depth--;
  }
  return deepest;
}
