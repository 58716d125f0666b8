// ObjectReader: reads one object of the mirror by its full id. Every object is checked against its id, so that a
// damaged or tampered mirror is noticed and two ways of reading cannot give different answers.
import { createHash } from 'node:crypto';
import { Fault } from '../../core/fault.ts';

export interface GitObject {
  readonly type: 'commit' | 'tree' | 'blob' | 'tag';
  readonly bytes: Uint8Array;
}

export interface ObjectReader {
  /** Throws GIT_OBJECT_MISSING, GIT_TOO_LARGE above `maxBytes`, or GIT_UNREACHABLE for what could not be read now. */
  read(oid: string, maxBytes: number): Promise<GitObject>;
  close(): Promise<void>;
}

const OID = /^[0-9a-f]{40}$/;

export function isOid(text: string): boolean {
  return OID.test(text);
}

/** Throws for what is not a full id: a shorter one could be ambiguous, another word could be a ref. */
export function requireOid(text: string): string {
  if (!isOid(text)) throw new Fault('GIT_OBJECT_MISSING', `${JSON.stringify(text.slice(0, 80))} is not an object id`);
  return text;
}

export function missingObject(oid: string, cause?: unknown): Fault {
  return new Fault('GIT_OBJECT_MISSING', `the mirror has no object ${oid}`, { data: { oid }, cause });
}

export function tooLargeObject(oid: string, sizeBytes: number, maxBytes: number): Fault {
  return new Fault('GIT_TOO_LARGE', `object ${oid} has ${sizeBytes} bytes; the limit is ${maxBytes}`, {
    data: { oid, sizeBytes, maxBytes },
  });
}

/** The object, or GIT_OBJECT_MISSING when the bytes are not those of the id. */
export function checkedObject(oid: string, type: string, bytes: Uint8Array): GitObject {
  if (type !== 'commit' && type !== 'tree' && type !== 'blob' && type !== 'tag') {
    throw new Fault('GIT_OBJECT_MISSING', `object ${oid} is of an unknown kind`, { data: { oid } });
  }
  const actual = createHash('sha1').update(`${type} ${bytes.length}\0`).update(bytes).digest('hex');
  if (actual !== oid) {
    throw new Fault('GIT_OBJECT_MISSING', `object ${oid} is damaged in the mirror`, { data: { oid } });
  }
  return { type, bytes };
}
