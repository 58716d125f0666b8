// Digest: the one name of a plan together with what was asked for and what was seen. Equal facts give equal text, whatever
// the order of their keys; a fact that JSON cannot hold is refused rather than dropped.
import { createHash } from 'node:crypto';

/** JSON with sorted keys and no white space; undefined members are left out. */
export function canonicalJson(value: unknown): string {
  return write(value, []);
}

function write(value: unknown, within: readonly unknown[]): string {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return JSON.stringify(value);
  if (typeof value === 'number' && Number.isFinite(value)) return JSON.stringify(value);
  if (typeof value !== 'object') throw new TypeError(`canonical JSON cannot hold ${String(value)} (${typeof value})`);
  if (within.includes(value)) throw new TypeError('canonical JSON cannot hold a cycle');
  const inside = [...within, value];
  if (Array.isArray(value)) return `[${value.map((item) => write(item, inside)).join(',')}]`;
  const shape = Object.getPrototypeOf(value);
  if (shape !== Object.prototype && shape !== null)
    throw new TypeError(`canonical JSON cannot hold a ${shape.constructor?.name ?? 'class instance'}`);
  const members = value as Record<string, unknown>;
  const written = Object.keys(members)
    .filter((key) => members[key] !== undefined)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${write(members[key], inside)}`);
  return `{${written.join(',')}}`;
}

export const sha256 = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`;

/** `desired` and `observed` are the caller's own digests (or any JSON) of what the plan was made from. */
export function planDigest(parts: {
  readonly plan: unknown;
  readonly desired: unknown;
  readonly observed: unknown;
}): string {
  return sha256(canonicalJson({ plan: parts.plan, desired: parts.desired, observed: parts.observed }));
}

/** A saved plan whose world has moved since. */
export class StalePlanError extends Error {
  override readonly name = 'StalePlanError';
  readonly saved: string;
  readonly current: string;
  constructor(saved: string, current: string) {
    super(`the plan is stale: it was made as ${saved}, and now it would be ${current}; make it anew`);
    this.saved = saved;
    this.current = current;
  }
}

export function assertFresh(savedDigest: string, currentDigest: string): void {
  if (savedDigest !== currentDigest) throw new StalePlanError(savedDigest, currentDigest);
}
