// Mount: what one line of a job's `volumes` says, in Compose's short syntax.

export interface Mount {
  readonly kind: 'bind' | 'volume';
  /** A path as written, a volume's key; '' = an anonymous volume. */
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
}

/** Null when it is none. */
export function mountOf(text: string): Mount | null {
  const [first = '', second, mode, ...more] = text.split(':');
  if (text.includes('\0') || more.length > 0) return null;
  const target = second ?? first;
  if (!target.startsWith('/')) return null;
  if (second === undefined) return { kind: 'volume', source: '', target, readOnly: false };
  if (first === '') return null;
  const kind = /^[./~]/.test(first) ? 'bind' : 'volume';
  return { kind, source: first, target, readOnly: (mode ?? '').split(',').includes('ro') };
}
