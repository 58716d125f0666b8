// The ledger: at most once, whatever dies; never back; each fleet by itself.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LEDGER_FILE, openLedger } from '../../../src/adapters/journal/ledger.ts';
import { advance, type LifeEvent, observe, type RequestSnapshot } from '../../../src/core/request/life.ts';
import type { Claim, Ledger, Receipt } from '../../../src/ports/ledger.ts';

const FLEET = 'fleet-4b1d2c';
let directory: string;
let opened: Ledger[];
let children: ChildProcess[];

beforeEach(() => {
  directory = join(mkdtempSync(join(tmpdir(), 'ledger-')), 'state');
  opened = [];
  children = [];
});
afterEach(() => {
  for (const child of children) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
  for (const ledger of opened) ledger.close();
  rmSync(join(directory, '..'), { recursive: true });
});

function open(fleet = FLEET): Ledger {
  const ledger = openLedger({ directory, fleet });
  opened.push(ledger);
  return ledger;
}

const subject = (digit: string) => digit.repeat(64);
const claimOf = (id: string, more: Partial<Claim> = {}): Claim => ({
  id,
  subject: subject('a'),
  nonces: [`${id}-1`, `${id}-2`],
  tip: 'b'.repeat(40),
  policy: 'c'.repeat(64),
  plan: null,
  claimedAtMs: 5,
  ...more,
});
const through = (id: string, ...events: readonly LifeEvent[]): RequestSnapshot =>
  advance(observe(id, subject('a'), 1), events, { atMs: 2, reason: 'authorised' });
const receiptOf = (id: string, more: Partial<Receipt> = {}): Receipt => ({
  id,
  subject: subject('a'),
  requestBase64: 'QQ==',
  statements: [{ oid: 'b'.repeat(40), type: 'commit', base64: 'QQ==' }],
  policyBase64: 'QQ==',
  tip: 'b'.repeat(40),
  plan: null,
  claimedAtMs: 1,
  outcome: null,
  detail: '',
  endedAtMs: null,
  ...more,
});
const claimed = (id: string) => through(id, 'VERIFY', 'SCHEDULE', 'CLAIM');

describe('a claim', () => {
  it('is made once for each id, content and nonce', () => {
    const ledger = open();
    expect(ledger.claim(claimOf('one'), claimed('one'), receiptOf('one'))).toEqual({ kind: 'claimed' });
    const again = (claim: Claim) => {
      const answer = ledger.claim(claim, claimed(claim.id), receiptOf(claim.id));
      return answer.kind === 'refused' ? answer.reason : answer.kind;
    };
    expect(again(claimOf('one'))).toBe('request-claimed');
    expect(again(claimOf('one', { subject: subject('b'), nonces: ['x'] }))).toBe('request-claimed');
    expect(again(claimOf('two'))).toBe('request-replayed');
    expect(again(claimOf('two', { subject: subject('b'), nonces: ['two', 'one-2'] }))).toBe('nonce-replayed');
    expect(again(claimOf('two', { subject: subject('b'), nonces: ['two', 'two'] }))).toBe('nonce-replayed');
    expect(again(claimOf('two', { subject: subject('b') }))).toBe('claimed');
    expect(ledger.claims().map(({ id }) => id)).toEqual(['one', 'two']);
  });

  it('writes nothing when it is refused', () => {
    const ledger = open();
    ledger.claim(claimOf('one'), claimed('one'), receiptOf('one'));
    ledger.claim(
      claimOf('two', { subject: subject('b'), nonces: ['fresh', 'one-1'] }),
      claimed('two'),
      receiptOf('two'),
    );
    expect(ledger.claimOf('two')).toBeNull();
    expect(ledger.snapshot('two')).toBeNull();
    expect(ledger.spent().nonces).toEqual(new Set(['one-1', 'one-2']));
  });

  it('brings its snapshot with it, and spends what evaluations refuse, except for its own look', () => {
    const ledger = open();
    ledger.claim(claimOf('one'), claimed('one'), receiptOf('one'));
    expect(ledger.snapshot('one')?.state).toBe('claimed');
    expect(ledger.claimOf('one')).toEqual(claimOf('one'));
    expect(ledger.spent()).toEqual({
      ids: new Set(['one']),
      subjects: new Set([subject('a')]),
      nonces: new Set(['one-1', 'one-2']),
      sinceMs: null,
    });
    expect(ledger.spent('one')).toEqual({ ids: new Set(), subjects: new Set(), nonces: new Set(), sinceMs: null });
  });

  it('is all or nothing when its snapshot cannot follow', () => {
    const ledger = open();
    ledger.putSnapshot(through('one', 'VERIFY', 'REJECT'));
    expect(() => ledger.claim(claimOf('one'), claimed('one'), receiptOf('one'))).toThrow(
      'is rejected and cannot become claimed',
    );
    expect([ledger.claimOf('one'), ledger.spent().nonces.size, ledger.snapshot('one')?.state]).toEqual([
      null,
      0,
      'rejected',
    ]);
  });

  it('is our mistake without nonces, or with the snapshot of something else', () => {
    const ledger = open();
    expect(() => ledger.claim(claimOf('one', { nonces: [] }), claimed('one'), receiptOf('one'))).toThrow(
      'a claim of one',
    );
    expect(() => ledger.claim(claimOf('one'), claimed('two'), receiptOf('one'))).toThrow('a claim of one');
    expect(() => ledger.claim(claimOf('one'), through('one', 'VERIFY', 'SCHEDULE'), receiptOf('one'))).toThrow(
      'a claim of one',
    );
  });

  it('is never forgotten, nor is what waits or is over: only what nothing came of', () => {
    const ledger = open();
    ledger.claim(claimOf('one'), claimed('one'), receiptOf('one'));
    ledger.putSnapshot(through('two', 'VERIFY', 'REJECT'));
    ledger.putSnapshot(through('three', 'VERIFY', 'AWAIT'));
    ledger.putSnapshot(through('four', 'VERIFY'));
    for (const { id } of ledger.snapshots()) ledger.forget(id);
    expect(ledger.snapshots().map(({ id }) => id)).toEqual(['one', 'three', 'two']);
  });

  it('of one fleet is none of another', () => {
    open().claim(claimOf('one'), claimed('one'), receiptOf('one'));
    const other = open('fleet-other');
    expect([other.claims(), other.spent().ids.size, other.snapshot('one')]).toEqual([[], 0, null]);
    expect(other.claim(claimOf('one'), claimed('one'), receiptOf('one'))).toEqual({ kind: 'claimed' });
  });

  it('is seen at once by whoever has the file open', () => {
    const [mine, theirs] = [open(), open()];
    mine.claim(claimOf('one'), claimed('one'), receiptOf('one'));
    expect(theirs.claim(claimOf('one'), claimed('one'), receiptOf('one'))).toEqual({
      kind: 'refused',
      reason: 'request-claimed',
    });
    expect(theirs.spent().ids).toEqual(new Set(['one']));
  });
});

describe('a process that dies', () => {
  const start = async (id: string, nonce: string): Promise<{ child: ChildProcess; said: string }> => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'claimer.ts'), directory, id, nonce], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(child);
    const [chunk] = await once(child.stdout!, 'data');
    return { child, said: String(chunk).trim() };
  };
  const kill = async (child: ChildProcess): Promise<void> => {
    const gone = once(child, 'exit');
    process.kill(child.pid!, 'SIGKILL');
    await gone;
  };

  it('between claim and act leaves a claim that nobody makes again', async () => {
    const { child, said } = await start('one', 'n1');
    expect(said).toBe('claimed');
    await kill(child);
    const ledger = open();
    expect(ledger.snapshot('one')?.state).toBe('claimed');
    expect(ledger.spent()).toEqual({
      ids: new Set(['one']),
      subjects: new Set([subject('a')]),
      nonces: new Set(['n1']),
      sinceMs: null,
    });
    expect(ledger.claim(claimOf('one'), claimed('one'), receiptOf('one'))).toEqual({
      kind: 'refused',
      reason: 'request-claimed',
    });
    ledger.putSnapshot(advance(ledger.snapshot('one')!, ['DOUBT'], { atMs: 9, reason: 'interrupted' }));
    expect(ledger.snapshot('one')?.state).toBe('indeterminate');
    // The next one, started after the crash, is refused as well.
    const next = await start('one', 'n2');
    expect(next.said).toBe('request-claimed');
    await kill(next.child);
  });

  it('among several that claim at the same moment, exactly one has it', async () => {
    const all = await Promise.all(['n1', 'n2', 'n3', 'n4'].map((nonce) => start('one', nonce)));
    for (const { child } of all) await kill(child);
    expect(all.map(({ said }) => said).sort()).toEqual([
      'claimed',
      'request-claimed',
      'request-claimed',
      'request-claimed',
    ]);
    expect(open().spent().nonces.size).toBe(1);
  });
});

describe('a snapshot', () => {
  it('only ever follows the one that is kept', () => {
    const ledger = open();
    ledger.putSnapshot(through('one', 'VERIFY', 'AWAIT'));
    ledger.putSnapshot(through('one', 'VERIFY', 'SCHEDULE'));
    ledger.claim(claimOf('one'), claimed('one'), receiptOf('one'));
    expect(() => ledger.putSnapshot(through('one', 'VERIFY', 'AWAIT'))).toThrow(
      'is claimed and cannot become awaitingApprovals',
    );
    ledger.putSnapshot(through('one', 'VERIFY', 'SCHEDULE', 'CLAIM', 'EXECUTE', 'SUCCEED'));
    for (const events of [
      ['VERIFY'],
      ['VERIFY', 'SCHEDULE', 'CLAIM'],
      ['VERIFY', 'SCHEDULE', 'CLAIM', 'EXECUTE', 'FAIL'],
    ] as LifeEvent[][])
      expect(() => ledger.putSnapshot(through('one', ...events))).toThrow('is succeeded and cannot become');
    expect(ledger.snapshots().map(({ id, state }) => `${id} ${state}`)).toEqual(['one succeeded']);
  });

  it('of something that runs is our mistake without a claim', () => {
    const ledger = open();
    for (const events of [
      ['CLAIM'],
      ['CLAIM', 'EXECUTE'],
      ['CLAIM', 'EXECUTE', 'SUCCEED'],
      ['CLAIM', 'DOUBT'],
    ] as LifeEvent[][])
      expect(() => ledger.putSnapshot(through('one', 'VERIFY', 'SCHEDULE', ...events))).toThrow('was never claimed');
    expect(ledger.snapshot('one')).toBeNull();
  });
});

describe('what is remembered', () => {
  it('is when a statement was first seen, whenever it is asked again', () => {
    const ledger = open();
    expect(ledger.firstSeenOf('s')).toBeNull();
    expect([100, 50, 900].map((atMs) => ledger.firstSeen('s', atMs, 1_000))).toEqual([100, 100, 100]);
    ledger.close();
    expect(open().firstSeenOf('s')).toBe(100);
  });

  it('is no sight of a statement that has expired long ago, and every other one', () => {
    const ledger = open();
    const day = 24 * 3_600_000;
    ledger.firstSeen('short', 0, day);
    ledger.firstSeen('long', 0, 20 * day);
    ledger.firstSeen('next', 90 * day, 91 * day);
    expect(ledger.firstSeenOf('short')).toBe(0);
    ledger.firstSeen('last', 92 * day, 93 * day);
    expect(['short', 'long', 'next', 'last'].map((one) => ledger.firstSeenOf(one))).toEqual([
      null,
      0,
      90 * day,
      92 * day,
    ]);
  });

  it('is every rejection and withdrawal, byte by byte, once each and for good', () => {
    const object = { oid: 'd'.repeat(40), type: 'tag' as const, bytes: Uint8Array.of(0, 255, 10) };
    open().keepStop('s1', object);
    open().keepStop('s1', { ...object, oid: 'e'.repeat(40) });
    expect(open().stops()).toEqual([{ statementId: 's1', object }]);
    expect(open('fleet-other').stops()).toEqual([]);
  });

  it('is the accepted tip, moved only from the one that the caller knows', () => {
    const ledger = open();
    expect(ledger.acceptedTip()).toBeNull();
    expect(ledger.acceptTip('a'.repeat(40), 'f'.repeat(40), 1)).toBe(false);
    expect(ledger.acceptTip('a'.repeat(40), null, 7)).toBe(true);
    expect(ledger.acceptTip('b'.repeat(40), null, 8)).toBe(false);
    expect(open().acceptTip('b'.repeat(40), 'a'.repeat(40), 9)).toBe(true);
    expect(ledger.acceptedTip()).toBe('b'.repeat(40));
  });

  it('begins with the first tip that is accepted, and what knew its tip before goes back to its own beginning', () => {
    const ledger = open();
    ledger.acceptTip('a'.repeat(40), 'f'.repeat(40), 1);
    expect(ledger.spent().sinceMs).toBeNull();
    ledger.acceptTip('a'.repeat(40), null, 7_999);
    ledger.acceptTip('b'.repeat(40), 'a'.repeat(40), 9_000);
    expect([ledger.spent().sinceMs, open('fleet-other').spent().sinceMs]).toEqual([7_000, null]);
    for (const one of opened) one.close();
    const raw = new DatabaseSync(join(directory, LEDGER_FILE));
    raw.exec(
      'DROP TABLE beginnings; DROP TABLE stops; DROP INDEX seen_until; ALTER TABLE seen DROP COLUMN until_ms; PRAGMA user_version=1;',
    );
    raw.close();
    expect(open().spent().sinceMs).toBe(0);
  });

  it('is the policy in effect, byte by byte, and never an older one above the same anchor', () => {
    const ledger = open();
    const memory = (version: number, sha256: string, anchor = 'x') => ({
      anchor,
      version,
      sha256,
      bytes: Uint8Array.of(0, 255, version),
    });
    expect(ledger.effectivePolicy()).toBeNull();
    ledger.putEffectivePolicy(memory(2, 's2'));
    ledger.putEffectivePolicy(memory(2, 's2'));
    expect(() => ledger.putEffectivePolicy(memory(1, 's1'))).toThrow('policy version 2 is in effect');
    expect(() => ledger.putEffectivePolicy(memory(2, 'other'))).toThrow('policy version 2 is in effect');
    ledger.putEffectivePolicy(memory(3, 's3'));
    expect(open().effectivePolicy()).toEqual(memory(3, 's3'));
    ledger.putEffectivePolicy(memory(1, 'n1', 'y'));
    expect(ledger.effectivePolicy()).toEqual(memory(1, 'n1', 'y'));
  });

  it('is the receipt: there with the claim, and closed with the last state of the request, never anew', () => {
    const ledger = open();
    expect(() => ledger.claim(claimOf('one'), claimed('one'), receiptOf('two'))).toThrow('a claim of one');
    expect(() => ledger.claim(claimOf('one'), claimed('one'), receiptOf('one', { outcome: 'failed' }))).toThrow('open');
    ledger.claim(claimOf('one'), claimed('one'), receiptOf('one'));
    ledger.claim(claimOf('two'), claimed('two'), receiptOf('two'));
    expect([open().receipt('one'), ledger.receipts(), ledger.receipt('two')]).toEqual([
      receiptOf('one'),
      [receiptOf('one')],
      null,
    ]);
    ledger.putSnapshot(advance(claimed('one'), ['EXECUTE'], { atMs: 3, reason: 'executing' }));
    expect(ledger.receipt('one')?.outcome).toBeNull();
    const done = advance(ledger.snapshot('one')!, ['SUCCEED'], { atMs: 4, reason: 'done', detail: 'removed it' });
    ledger.putSnapshot(done);
    ledger.putSnapshot({ ...done, detail: 'something else', sinceMs: 9 });
    expect(open().receipt('one')).toEqual(
      receiptOf('one', { outcome: 'succeeded', detail: 'removed it', endedAtMs: 4 }),
    );
  });
});

it('lies in a file of its own that its owner alone can read, with a write-ahead log', () => {
  open().firstSeen('s', 1, 2);
  const path = join(directory, LEDGER_FILE);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const raw = new DatabaseSync(path, { readOnly: true });
  expect(raw.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' });
  raw.close();
});
