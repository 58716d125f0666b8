// The sftp store against a server that fails as servers do. What every store keeps to is in the contract suite.
import { createHmac, randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { RemoteStore } from '../../../src/adapters/archive/remote-store.ts';
import { fingerprintOf, knownHostKeys, pinnedKey } from '../../../src/adapters/archive/sftp-host-key.ts';
import type { SftpPlace } from '../../../src/adapters/archive/sftp-link.ts';
import { SftpObjects } from '../../../src/adapters/archive/sftp-objects.ts';
import { encodeManifest } from '../../../src/core/archive/manifest.ts';
import { Fault } from '../../../src/core/fault.ts';
import { SAMPLE_TEXTS, sampleManifest } from '../../core/archive/sample.ts';
import { PASSWORD, SftpDouble } from './sftp-double.ts';
import { asks, chunksOf, eachOnDouble, faultOf, putArchives, readAll, sftpPlaceOf } from './store-fixture.ts';

const PATIENCE = { tries: 3, deadlineMs: 700, pauseMs: 2 };

describe('the sftp store', () => {
  const bench = eachOnDouble(SftpDouble.start);
  let double: SftpDouble;
  beforeEach(() => {
    double = bench.double;
  });

  const open = (change: Partial<SftpPlace> = {}, more: { mostKeys?: number } = {}): RemoteStore => {
    const objects = new SftpObjects({ place: sftpPlaceOf(double, change), patience: PATIENCE, ...more });
    return bench.keep(new RemoteStore({ objects, patience: PATIENCE }));
  };

  const partsLeft = async (): Promise<readonly string[]> =>
    (await readdir(double.pathOf('/archives/incoming')).catch(() => [])).filter((name) => name.endsWith('.part'));

  it('talks to no server that shows another key than the known one, and names the key that it saw', async () => {
    const store = open({ hostKeys: async () => pinnedKey(`SHA256:${'A'.repeat(43)}`) });
    const fault = await faultOf(store.list());
    expect(fault.code).toBe('ARCHIVE_DENIED');
    expect(fault.message).toContain(double.fingerprint);
    expect(double.calls).toEqual([]);
  });

  it('takes a server by its line in known_hosts, and no other', async () => {
    const line = `[127.0.0.1]:${double.port} ssh-ed25519 ${double.hostKey.toString('base64')}`;
    const of = (text: string) => async () => {
      const keys = knownHostKeys(text, '127.0.0.1', double.port);
      if (keys === null) throw new Fault('ARCHIVE_DENIED', 'unknown host');
      return keys;
    };
    expect(await open({ hostKeys: of(`# mine\n${line}\n`) }).list()).toEqual([]);
    const other = line.replace(/AAAA[^ ]{20}/, (key) => `${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`);
    for (const text of [other, `@revoked ${line}\n${line}`, line.replace('127.0.0.1', '127.0.0.2')])
      expect((await faultOf(open({ hostKeys: of(text) }).list())).code, text).toBe('ARCHIVE_DENIED');
  });

  it('logs in by key or by password, and says neither when it is refused', async () => {
    expect(await open({ login: async () => ({ password: PASSWORD }) }).list()).toEqual([]);
    const fault = await faultOf(open({ login: async () => ({ password: 'a wrong one of mine' }) }).list());
    expect(fault.code).toBe('ARCHIVE_DENIED');
    expect(JSON.stringify([fault.message, fault.data, String(fault.cause)])).not.toContain('a wrong one');
    expect((await faultOf(open({ login: async () => ({ privateKey: 'no key' }) }).list())).code).toBe('ARCHIVE_DENIED');
  });

  it('says that nobody answers', async () => {
    const store = open();
    await double.stop();
    const fault = await faultOf(store.list());
    expect(fault.code).toBe('ARCHIVE_UNREACHABLE');
    expect(fault.message).toContain('ECONNREFUSED');
    bench.double = await SftpDouble.start();
  });

  it('leaves nothing in place when the connection is cut in the middle of a write, and takes it all the next time', async () => {
    const store = open();
    const content = randomBytes(900_000);
    double.behave = ({ name, nth }) => (name === 'WRITE' && nth === 12 ? 'cut' : null);
    expect((await faultOf(store.putBlob(chunksOf(content)))).code).toBe('ARCHIVE_UNREACHABLE');
    const blob = await store.putBlob(chunksOf(content));
    expect((await readAll(store.readBlob(blob.digest))).equals(content)).toBe(true);
    expect(double.connections).toBe(2);
  });

  it('writes nothing of one file into another after a connection was lost', async () => {
    const store = open();
    const contents = Array.from({ length: 4 }, () => randomBytes(700_000));
    let writes = 0;
    double.behave = ({ name }) => (name === 'WRITE' && ++writes === 30 ? 'cut' : null);
    const ended = await Promise.allSettled(contents.map((content) => store.putBlob(chunksOf(content))));
    double.behave = () => null;
    for (const [at, one] of ended.entries())
      if (one.status === 'fulfilled')
        expect((await readAll(store.readBlob(one.value.digest))).equals(contents[at]!)).toBe(true);
    for (const content of contents) {
      const { digest } = await store.putBlob(chunksOf(content));
      expect((await readAll(store.readBlob(digest))).equals(content)).toBe(true);
    }
  });

  it.each([
    ['a failure without a reason, as of a full disk', 4, 'ARCHIVE_FAILED', 'full disk'],
    ['no permission', 3, 'ARCHIVE_DENIED', ''],
  ])('tells %s while writing, and leaves nothing of it', async (_, status, code, words) => {
    const store = open();
    await store.release([(await store.putBlob(chunksOf('first'))).digest]);
    // The note of the writer is small; the blob is what does not fit.
    double.behave = ({ name, nth }) => (name === 'WRITE' && nth > 6 ? { status } : null);
    const fault = await faultOf(store.putBlob(chunksOf(randomBytes(400_000))));
    expect(fault.code).toBe(code);
    expect(fault.message).toContain(words);
    double.behave = () => null;
    expect(await partsLeft()).toEqual([]);
  });

  it.each([
    ['no permission', { status: 3 }, 'ARCHIVE_DENIED'],
    ['a failure', { status: 4 }, 'ARCHIVE_FAILED'],
    ['a cut connection', 'cut', 'ARCHIVE_UNREACHABLE'],
    ['silence', 'hang', 'ARCHIVE_UNREACHABLE'],
  ] as const)('never takes %s for something that is not there', async (_, how, code) => {
    const store = open();
    const { digest } = await store.putBlob(chunksOf('there'));
    double.behave = ({ name }) => (/LSTAT|OPENDIR|OPEN|READ/.test(name) ? how : null);
    for (const work of asks(store, digest)) expect((await faultOf(work())).code).toBe(code);
  });

  it('goes on where a read broke off', async () => {
    const store = open();
    const content = randomBytes(8_000_000);
    const { digest } = await store.putBlob(chunksOf(content));
    double.behave = ({ name, nth }) => (name === 'READ' && nth % 150 === 0 ? 'cut' : null);
    expect((await readAll(store.readBlob(digest))).equals(content)).toBe(true);
    expect(double.connections).toBeGreaterThan(2);
  });

  it('refuses a list that is longer than any store has, rather than hold it or a part of it', async () => {
    const store = open();
    await putArchives(store, 4);
    const fault = await faultOf(open({}, { mostKeys: 7 }).list());
    expect(fault).toMatchObject({ code: 'ARCHIVE_FAILED', message: expect.stringContaining('more than 7') });
    expect(await open({}, { mostKeys: 8 }).list()).toHaveLength(4);
  });

  it('gives up a list of nothing that does not end, and asks no further', async () => {
    const store = open();
    await putArchives(store, 1);
    double.behave = ({ name }) => (name === 'READDIR' ? 'nothing' : null);
    expect(await faultOf(store.list())).toMatchObject({
      code: 'ARCHIVE_FAILED',
      message: expect.stringContaining('holds nothing and has no end'),
    });
    const asked = double.calls.length;
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(double.calls).toHaveLength(asked);
    double.behave = ({ name, nth }) => (name === 'READDIR' && nth % 2 === 0 ? 'nothing' : null);
    expect(await store.list()).toHaveLength(1);
  });

  it('gives up a server that lets it in and offers nothing, and goes on with one that does', async () => {
    double.offersSftp = false;
    const store = open();
    expect((await faultOf(store.list())).code).toBe('ARCHIVE_UNREACHABLE');
    double.offersSftp = true;
    await new Promise((resolve) => setTimeout(resolve, PATIENCE.deadlineMs));
    expect(await store.list()).toEqual([]);
  });

  it('lists no archive whose manifest did not get through', async () => {
    const store = open();
    for (const text of SAMPLE_TEXTS) await store.putBlob(chunksOf(text));
    double.behave = ({ name, path }) => (name === 'RENAME' && path.endsWith('.json') ? 'cut' : null);
    const { bytes } = encodeManifest(sampleManifest());
    expect((await faultOf(store.putManifest(bytes, 'signed'))).code).toBe('ARCHIVE_UNREACHABLE');
    double.behave = () => null;
    expect(await store.list()).toEqual([]);
    await store.putManifest(bytes, 'signed');
    expect(await store.list()).toHaveLength(1);
  });
});

describe('known hosts', () => {
  const key = randomBytes(51).toString('base64');
  const salt = randomBytes(20);
  const hashed = `|1|${salt.toString('base64')}|${createHmac('sha1', salt).update('nas.example').digest('base64')}`;

  it.each([
    ['by name', `nas.example ssh-ed25519 ${key}`, 'nas.example', 22, true],
    ['in another case', `nas.example ssh-ed25519 ${key}`, 'NAS.example', 22, true],
    ['among others', `a,nas.example,b ssh-ed25519 ${key} a comment`, 'nas.example', 22, true],
    ['by a pattern', `*.example ssh-ed25519 ${key}`, 'nas.example', 22, true],
    ['but not one that is excluded', `*.example,!nas.example ssh-ed25519 ${key}`, 'nas.example', 22, false],
    ['hashed', `${hashed} ssh-ed25519 ${key}`, 'nas.example', 22, true],
    ['not hashed of another', `${hashed} ssh-ed25519 ${key}`, 'other.example', 22, false],
    ['at its port', `[nas.example]:2222 ssh-ed25519 ${key}`, 'nas.example', 2222, true],
    ['not at another port', `nas.example ssh-ed25519 ${key}`, 'nas.example', 2222, false],
    ['not by an authority', `@cert-authority *.example ssh-ed25519 ${key}`, 'nas.example', 22, false],
    [
      'not when it is revoked',
      `nas.example ssh-ed25519 ${key}\n@revoked * ssh-ed25519 ${key}`,
      'nas.example',
      22,
      false,
    ],
    ['not in a comment', `# nas.example ssh-ed25519 ${key}`, 'nas.example', 22, false],
  ])('know a key %s', (_, text, host, port, isKnown) => {
    const keys = knownHostKeys(text, host, port);
    expect(keys?.isKnown(Buffer.from(key, 'base64')) ?? false).toBe(isKnown);
    expect(keys?.isKnown(randomBytes(51)) ?? false).toBe(false);
  });

  it('ask for the kinds of keys that are known, and never for an RSA signature by SHA-1', () => {
    const keys = knownHostKeys(`h ssh-rsa ${key}\nh ssh-ed25519 ${randomBytes(51).toString('base64')}`, 'h', 22);
    expect(keys?.types).toEqual(['rsa-sha2-512', 'rsa-sha2-256', 'ssh-ed25519']);
  });

  it('are fingerprinted as ssh-keygen prints them', () => {
    const blob = Buffer.from('AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl', 'base64');
    expect(fingerprintOf(blob)).toBe('SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU');
    expect(pinnedKey('SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU').isKnown(blob)).toBe(true);
  });
});
