// Payloads without an engine: a socket answers what an engine would say of its volumes, tar is the real one or a script that misbehaves.
// What only a real engine can show (helper containers, owners, setuid) is in test/e2e/payload.test.ts.
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPayloads, type PayloadsOptions } from '../../../src/adapters/payload/payloads.ts';
import { type Programs, type RunInput, run, spawnStream } from '../../../src/adapters/process/run.ts';
import { TarListing } from '../../../src/core/archive/tar-listing.ts';
import { Fault } from '../../../src/core/fault.ts';
import type {
  PayloadFacts,
  PayloadReading,
  PayloadSource,
  Payloads,
  PayloadTarget,
} from '../../../src/ports/payloads.ts';
import { blocksOf, END, file, folder, type MadeEntry, tarOf } from './made-tar.ts';

interface FakeVolume {
  readonly Options?: Record<string, string>;
  readonly Labels?: Record<string, string>;
  readonly CreatedAt: string;
}

/** An engine that knows volumes and nothing else. */
class FakeEngine {
  readonly dir = realpathSync(mkdtempSync(join(tmpdir(), 'wlt-payload-')));
  readonly volumes = new Map<string, FakeVolume>();
  readonly calls: string[] = [];
  images: readonly { readonly Id: string }[] = [];
  readonly #server: Server;
  id = 'engine-one';

  constructor() {
    writeFileSync(join(this.dir, 'engine-id'), 'engine-one');
    this.#server = createServer((request, answer) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const path = (request.url ?? '').replace(/^\/v[\d.]+/, '').replace(/\?.*/, '');
        if (request.method !== 'GET') this.calls.push(`${request.method} ${path}`);
        // Of the helper of the engine's archive API: it begins, and says no more.
        if (path.endsWith('/archive')) return void answer.writeHead(200).write('tar');
        const [status, body] = this.#answer(request.method ?? '', path, Buffer.concat(chunks).toString());
        answer.writeHead(status, { 'content-type': 'application/json' }).end(body === null ? '' : JSON.stringify(body));
      });
    });
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(join(this.dir, 'sock'), resolve));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.dir, { recursive: true, force: true });
  }

  get host(): string {
    return `unix://${join(this.dir, 'sock')}`;
  }

  pathOf(name: string): string {
    return join(this.dir, 'volumes', name);
  }

  add(name: string, more: Partial<FakeVolume> = {}): string {
    mkdirSync(this.pathOf(name), { recursive: true });
    this.volumes.set(name, { CreatedAt: `made ${this.volumes.size}`, ...more });
    return this.pathOf(name);
  }

  #answer(method: string, path: string, body: string): [number, unknown] {
    if (path === '/version') return [200, { ApiVersion: '1.45', MinAPIVersion: '1.24', Version: '26.1' }];
    if (path === '/info') return [200, { ID: this.id, DockerRootDir: this.dir }];
    if (path === '/images/json') return [200, this.images];
    if (path === '/containers/create') return [201, { Id: 'helper' }];
    if (path === '/images/helper/json') return [200, { Id: 'helper' }];
    if (path === '/containers/helper' || path.startsWith('/containers/windlass-payload-'))
      return [500, { message: 'it is stuck' }];
    if (path === '/system/df') {
      return [
        200,
        { Volumes: [...this.volumes.keys()].map((Name) => ({ Name, UsageData: { Size: Name === 'odd' ? -1 : 42 } })) },
      ];
    }
    if (path === '/volumes/create') {
      const asked = JSON.parse(body) as {
        Name: string;
        DriverOpts: Record<string, string>;
        Labels: Record<string, string>;
      };
      this.add(asked.Name, { Options: asked.DriverOpts, Labels: asked.Labels });
      return [201, {}];
    }
    const name = /^\/volumes\/(.+)$/.exec(path)?.[1] ?? '';
    const found = this.volumes.get(name);
    if (found === undefined) return [404, { message: 'no such thing' }];
    if (method === 'DELETE') {
      this.volumes.delete(name);
      rmSync(this.pathOf(name), { recursive: true, force: true });
      return [204, null];
    }
    return [200, { Name: name, Driver: 'local', Mountpoint: this.pathOf(name), ...found }];
  }
}

let engine: FakeEngine;
const opened: Payloads[] = [];
beforeEach(async () => {
  engine = new FakeEngine();
  await engine.listen();
});
afterEach(async () => {
  for (const one of opened.splice(0)) one.close();
  await engine.close();
});

const never = new AbortController().signal;

function payloads(options: Partial<PayloadsOptions> = {}): Payloads {
  const made = openPayloads({
    host: engine.host,
    programs: { run, spawnStream },
    helperImage: null,
    isRoot: true,
    ...options,
  });
  opened.push(made);
  return made;
}

/** In the place of tar: a shell script; the real one is `$TAR`. */
function tarThat(script: string): Programs {
  const path = join(engine.dir, 'tar-script');
  const real = '/usr/bin/env tar';
  writeFileSync(path, `#!/bin/sh\nTAR='${real}'\n${script}\n`);
  chmodSync(path, 0o755);
  return {
    run,
    spawnStream: (input) => spawnStream({ ...input, program: input.program === 'tar' ? path : input.program }),
  };
}

async function taken(reading: PayloadReading): Promise<{ blob: Buffer; facts: PayloadFacts }> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of reading.stream) chunks.push(chunk);
  return { blob: Buffer.concat(chunks), facts: await reading.done };
}

const read = (from: Payloads, source: string | PayloadSource, exclude: readonly string[] = [], allowChanging = false) =>
  taken(
    from.read(typeof source === 'string' ? { kind: 'volume', name: source } : source, {
      signal: never,
      exclude,
      allowChanging,
    }),
  );

async function faultOf(work: Promise<unknown>): Promise<Fault> {
  try {
    await work;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
  throw new Error('it was no mistake');
}

/** A blob with the record that its maker would have written, honest or not. */
function recorded(tar: Buffer): { blob: Buffer; facts: PayloadFacts } {
  const listing = new TarListing();
  let summary = { entries: { count: 0, digest: '' }, root: null } as Pick<PayloadFacts, 'entries' | 'root'>;
  try {
    listing.write(tar);
    summary = listing.end();
  } catch {
    // Refused as a tar already; the record does not matter then.
  }
  return {
    blob: zstdCompressSync(tar),
    facts: {
      plainDigest: createHash('sha256').update(tar).digest('hex'),
      plainBytes: tar.length,
      entries: summary.entries,
      root: summary.root,
      way: 'host-path',
      notCaptured: [],
    },
  };
}

const write = (
  to: Payloads,
  blob: Buffer,
  expected: PayloadFacts,
  target: PayloadTarget = { kind: 'volume', name: 'fresh' },
  signal = never,
) =>
  to.write(
    async function* () {
      for (let at = 0; at < blob.length; at += 10_000) yield blob.subarray(at, at + 10_000);
    },
    target,
    { signal, expected },
  );

function fill(path: string): void {
  chmodSync(path, 0o750);
  writeFileSync(join(path, 'plain'), 'content');
  chmodSync(join(path, 'plain'), 0o640);
  writeFileSync(join(path, 'zero'), '');
  linkSync(join(path, 'plain'), join(path, 'hard'));
  symlinkSync('plain', join(path, 'soft'));
  symlinkSync('/away/from here', join(path, 'dangling'));
  mkdirSync(join(path, 'empty'), { mode: 0o700 });
  const deep = join(path, 'x'.repeat(200), 'y'.repeat(200));
  mkdirSync(deep, { recursive: true });
  for (const name of ['-dash', 'new\nline', 'ünï 日本', 'star*?[', 'back\\slash', 'quote\'"']) {
    writeFileSync(join(deep, name), name);
  }
  writeFileSync(join(path, 'holes'), 'begin');
  truncateSync(join(path, 'holes'), 3_000_000);
}

describe('reading a volume', () => {
  it('says what a tar of it is: digest, size, entries, owner and mode of its root', async () => {
    fill(engine.add('data'));
    const { blob, facts } = await read(payloads(), 'data');
    const plain = zstdDecompressSync(blob);
    expect(facts).toMatchObject({
      plainDigest: createHash('sha256').update(plain).digest('hex'),
      plainBytes: plain.length,
      entries: { count: 16 },
      root: { mode: '0750', uid: process.getuid?.() },
      way: 'host-path',
      notCaptured: [],
    });
    // The hole is no part of it.
    expect(plain.length).toBeLessThan(100_000);
  });

  it('gives the same bytes twice, and of a copy', async () => {
    fill(engine.add('data'));
    const one = await read(payloads(), 'data');
    const two = await read(payloads(), 'data');
    expect(two.blob.equals(one.blob)).toBe(true);
    await write(payloads(), one.blob, one.facts);
    const copy = await read(payloads(), 'fresh');
    expect(copy.facts).toEqual(one.facts);
    expect(copy.blob.equals(one.blob)).toBe(true);
  });

  it('gives the plain tar when that is asked for, and writes it back from there', async () => {
    fill(engine.add('data'));
    const source = { kind: 'volume', name: 'data' } as const;
    const plain = await taken(payloads().read(source, { signal: never, plain: true }));
    const packed = await read(payloads(), 'data');
    expect(plain.facts).toEqual(packed.facts);
    expect(createHash('sha256').update(plain.blob).digest('hex')).toBe(plain.facts.plainDigest);
    expect(zstdDecompressSync(packed.blob).equals(plain.blob)).toBe(true);
    const expected = { ...plain.facts, format: 'tar' as const };
    for (const wrong of [plain.blob.subarray(0, -1), Buffer.concat([plain.blob, Buffer.alloc(512)]), packed.blob])
      expect((await faultOf(write(payloads(), wrong, expected))).code).toBe('PAYLOAD_CORRUPT');
    expect(existsSync(engine.pathOf('fresh'))).toBe(false);
    await write(payloads(), plain.blob, expected);
    expect((await read(payloads(), 'fresh')).facts).toEqual(packed.facts);
  });

  it('leaves out what is excluded, with all below it, and nothing of the same name elsewhere', async () => {
    const path = engine.add('data');
    for (const name of ['cache', 'cache/sub', 'keep', 'keep/cache']) mkdirSync(join(path, name));
    for (const name of ['cache/a', 'cache/sub/b', 'keep/cache/c', 'one.log', 'keep/two.log']) {
      writeFileSync(join(path, name), '');
    }
    const { blob } = await read(payloads(), 'data', ['cache/', '/*.log']);
    const names: string[] = [];
    const listing = new TarListing({ onEntry: (entry) => void names.push(entry.path) });
    listing.write(zstdDecompressSync(blob));
    expect(names).toEqual(['./', './keep/', './keep/cache/', './keep/cache/c', './keep/two.log']);
  });

  it('fails for a volume that is not there, and does not make it', async () => {
    expect((await faultOf(read(payloads(), 'absent'))).code).toBe('PAYLOAD_MISSING');
    expect(engine.calls).toEqual([]);
  });

  it('fails for a volume that was made anew while it was read', async () => {
    engine.add('data');
    const programs: Programs = {
      run,
      spawnStream: (input) => {
        engine.volumes.set('data', { CreatedAt: 'later' });
        return spawnStream(input);
      },
    };
    const work = read(payloads({ programs }), 'data');
    expect((await faultOf(work)).code).toBe('PAYLOAD_MISSING');
  });

  const complaints: readonly (readonly [string, string, string, number])[] = [
    ['could not be read', 'PAYLOAD_FAILED', 'tar: ./x: Cannot open: Permission denied', 2],
    ['vanished', 'PAYLOAD_FAILED', 'tar: ./x: File removed before we read it', 1],
    ['shrank', 'PAYLOAD_FAILED', 'tar: ./x: File shrank by 5 bytes; padding with zeros', 1],
    ['changed', 'PAYLOAD_CHANGED', 'tar: ./x: file changed as we read it', 1],
    ['hides its attributes', 'PAYLOAD_FAILED', 'tar: ./x: Warning: Cannot llistxattr: Operation not permitted', 0],
    ['makes tar die', 'PAYLOAD_FAILED', '', 137],
  ];
  it.each([
    ['says nothing', 'exec sleep 60'],
    ['stands still in the middle', '$TAR "$@" | head -c 600; exec sleep 60'],
    ['does not end', '$TAR "$@"; exec >&-; exec sleep 60'],
  ])('gives up a tar that %s, in an error of its own', async (_, script) => {
    writeFileSync(join(engine.add('data'), 'f'), 'content');
    const told: string[] = [];
    const reading = payloads({ programs: tarThat(script), stallMs: 600 }).read(
      { kind: 'volume', name: 'data' },
      { signal: never, onStill: (words) => void told.push(words) },
    );
    const fault = await faultOf(taken(reading));
    expect(fault).toMatchObject({ code: 'PAYLOAD_STALLED', message: expect.stringContaining('the volume data') });
    // Before it is given up.
    expect(told).toEqual([expect.stringContaining('the reading of the volume data stood still for 0.3 s')]);
  });

  it('tells of an engine that stands still, also when its helper cannot be taken away', async () => {
    engine.add('data');
    engine.images = [{ Id: 'any' }];
    const fault = await faultOf(read(payloads({ ways: ['engine-api'], stallMs: 300 }), 'data'));
    expect(fault).toMatchObject({ code: 'PAYLOAD_STALLED', message: expect.stringContaining('the volume data') });
    expect(engine.calls).toContain('DELETE /containers/helper');
  });

  it('tells why a helper could not be started, also when it cannot be taken away', async () => {
    engine.add('data');
    const refused: Programs = {
      spawnStream,
      run: async () => ({ exitCode: 125, stdout: '', stderr: 'docker: the engine has no memory left' }) as never,
    };
    const options = { ways: ['helper-container'], helperImage: 'helper', programs: refused } as const;
    expect((await faultOf(read(payloads(options), 'data'))).message).toContain('the engine has no memory left');
    expect(engine.calls).toEqual([expect.stringContaining('DELETE /containers/windlass-payload-')]);
  });

  it('does not blame tar while whoever takes its bytes takes his time', async () => {
    writeFileSync(join(engine.add('data'), 'f'), randomBytes(400_000));
    const reading = payloads({ stallMs: 250 }).read({ kind: 'volume', name: 'data' }, { signal: never, plain: true });
    let sizeBytes = 0;
    for await (const chunk of reading.stream) {
      if (sizeBytes === 0) await new Promise((resolve) => setTimeout(resolve, 500));
      sizeBytes += chunk.length;
    }
    expect((await reading.done).plainBytes).toBe(sizeBytes);
  });

  it.each(complaints)('fails when a file %s: %s', async (_, code, words, exitCode) => {
    engine.add('data');
    const programs = tarThat(`$TAR "$@"; echo '${words}' >&2; exit ${exitCode}`);
    const reading = payloads({ programs }).read({ kind: 'volume', name: 'data' }, { signal: never });
    const fault = await faultOf(taken(reading));
    expect(fault.code).toBe(code);
    expect(fault.message).toContain(words === '' ? 'exit code 137' : words);
    expect(await faultOf(reading.done)).toBe(fault);
  });

  it('takes a file that changes when that is allowed, and none that vanishes', async () => {
    engine.add('data');
    const changed = "echo 'tar: ./x: file changed as we read it' >&2";
    const one = await read(payloads({ programs: tarThat(`$TAR "$@"; ${changed}; exit 1`) }), 'data', [], true);
    expect(one.facts.entries.count).toBe(1);
    const gone = "echo 'tar: ./y: File removed before we read it' >&2";
    const other = read(payloads({ programs: tarThat(`$TAR "$@"; ${changed}; ${gone}; exit 1`) }), 'data', [], true);
    expect((await faultOf(other)).code).toBe('PAYLOAD_FAILED');
  });

  it('names the sockets that it left out', async () => {
    const path = engine.add('data');
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(path, 's'), resolve));
    const { facts } = await read(payloads(), 'data');
    server.close();
    expect(facts.notCaptured).toEqual(['socket s']);
  });

  it('fails when tar ends well but its stream is cut', async () => {
    engine.add('data');
    const fault = await faultOf(read(payloads({ programs: tarThat('$TAR "$@" | head -c 600') }), 'data'));
    expect([fault.code, fault.data['rule']]).toEqual(['PAYLOAD_CORRUPT', 'TAR_TRUNCATED']);
  });

  it('ends tar when it is called off, and when the stream is left', async () => {
    engine.add('data');
    const pids: number[] = [];
    const slow = tarThat('cat /dev/zero | head -c 100000000 & sleep 60');
    const programs: Programs = {
      run,
      spawnStream: async (input) => {
        const child = await slow.spawnStream(input);
        pids.push(child.pid);
        return child;
      },
    };
    const abort = new AbortController();
    const reading = payloads({ programs }).read({ kind: 'volume', name: 'data' }, { signal: abort.signal });
    setTimeout(() => abort.abort(), 300);
    expect((await faultOf(taken(reading))).code).toBe('CANCELLED');

    engine.add('noise');
    writeFileSync(join(engine.pathOf('noise'), 'f'), '');
    const long = tarThat('$TAR "$@" --sort=name /dev/null | head -c 1024; head -c 20000000 /dev/urandom; sleep 60');
    const left = payloads({
      programs: {
        run,
        spawnStream: async (input) => {
          const child = await long.spawnStream(input);
          pids.push(child.pid);
          return child;
        },
      },
    }).read({ kind: 'volume', name: 'noise' }, { signal: never });
    const failed = faultOf(left.done);
    await faultOf(
      (async () => {
        for await (const _ of left.stream) break;
        throw new Fault('CANCELLED', 'left');
      })(),
    );
    expect(['CANCELLED', 'PAYLOAD_CORRUPT']).toContain((await failed).code);
    expect(pids).toHaveLength(2);
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });

  it('does not read a volume whose engine is another host’s', async () => {
    engine.add('data');
    engine.id = 'engine-two';
    const fault = await faultOf(read(payloads(), 'data'));
    expect(fault.code).toBe('PAYLOAD_NO_WAY');
    expect(fault.data['obstacles']).toEqual([
      "host-path: the engine's folders are not those of this process",
      'helper-container: no helper image is named',
      'engine-api: the engine has no image to make a helper of',
    ]);
  });

  it('does not take the empty mountpoint of a volume that is mounted only for containers', async () => {
    engine.add('data', { Options: { type: 'none', o: 'bind', device: '/elsewhere' } });
    expect((await faultOf(read(payloads(), 'data'))).message).toContain('the volume is mounted only for containers');
  });

  it('does not go by the host path when it may not read everything', async () => {
    engine.add('data');
    expect((await faultOf(read(payloads({ isRoot: false }), 'data'))).message).toContain('this process is not root');
  });
});

describe('reading a bind mount of the project folder', () => {
  it('gives what a volume with the same content gives, and writes it back', async () => {
    const within = join(engine.dir, 'project');
    const path = join(within, 'data');
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, 'f'), 'x');
    symlinkSync('f', join(path, 'l'));
    const { blob, facts } = await read(payloads(), { kind: 'folder', path, within });
    rmSync(path, { recursive: true });
    await write(payloads(), blob, facts, { kind: 'folder', path, within });
    expect(readFileSync(join(path, 'l'), 'utf8')).toBe('x');
    expect((await read(payloads(), { kind: 'folder', path, within })).facts).toEqual(facts);
  });

  it('follows no link out of the project folder', async () => {
    const within = join(engine.dir, 'project');
    mkdirSync(join(engine.dir, 'outside', 'data'), { recursive: true });
    mkdirSync(within);
    symlinkSync(join(engine.dir, 'outside'), join(within, 'link'));
    const at = (path: string) => faultOf(read(payloads(), { kind: 'folder', path, within }));
    expect((await at(join(within, 'link'))).code).toBe('PAYLOAD_MISSING');
    expect((await at(join(within, 'link', 'data'))).message).toContain('lies outside of');
    expect((await at(join(within, '..', 'outside'))).message).toContain('lies outside of');
    expect((await at(join(within, 'absent'))).code).toBe('PAYLOAD_MISSING');
  });

  it('writes no link into a project folder that leads out of it, though it would into a volume', async () => {
    const within = join(engine.dir, 'project');
    mkdirSync(within);
    const { blob, facts } = recorded(tarOf([folder('./'), { path: './l', type: '2', link: '/etc', mode: 0o777 }]));
    const fault = await faultOf(write(payloads(), blob, facts, { kind: 'folder', path: join(within, 'd'), within }));
    expect([fault.code, fault.data['rule']]).toEqual(['PAYLOAD_HOSTILE', 'ENTRY_LINK_ESCAPE']);
    expect(readdirSync(within)).toEqual([]);
    expect((await write(payloads(), blob, facts)).way).toBe('host-path');
  });
});

describe('writing into a volume', () => {
  const small = () => recorded(tarOf([folder('./', { mode: 0o700 }), file('./f', 'content', { mode: 0o600 })]));
  const isGone = () => {
    expect(engine.volumes.has('fresh')).toBe(false);
    expect(existsSync(engine.pathOf('fresh'))).toBe(false);
  };

  it('restores a tree of odd names, links, holes and modes, and has verified it', async () => {
    const path = engine.add('data');
    fill(path);
    const { blob, facts } = await read(payloads(), 'data');
    const target: PayloadTarget = { kind: 'volume', name: 'fresh', labels: { a: 'b' }, driverOpts: { o: 'size=1g' } };
    expect(await write(payloads(), blob, facts, target)).toEqual({
      way: 'host-path',
      verifiedBy: 'bytes',
      notRestored: [],
    });
    const copy = engine.pathOf('fresh');
    expect(readdirSync(copy, { recursive: true }).sort()).toEqual(readdirSync(path, { recursive: true }).sort());
    for (const name of ['.', 'plain', 'zero', 'hard', 'soft', 'empty', 'holes']) {
      const [one, other] = [
        lstatSync(join(path, name), { bigint: true }),
        lstatSync(join(copy, name), { bigint: true }),
      ];
      expect([other.mode, other.uid, other.gid, other.mtimeNs, other.nlink]).toEqual([
        one.mode,
        one.uid,
        one.gid,
        one.mtimeNs,
        one.nlink,
      ]);
    }
    expect(lstatSync(join(copy, 'hard')).ino).toBe(lstatSync(join(copy, 'plain')).ino);
    expect(lstatSync(join(copy, 'holes')).blocks * 512).toBeLessThan(1_000_000);
    expect(await payloads().inspectVolume('fresh', never)).toMatchObject({
      labels: { a: 'b' },
      driverOpts: { o: 'size=1g' },
    });
  });

  it('takes a tar that another program made, by its content', async () => {
    const { blob, facts } = small();
    expect(await write(payloads(), blob, facts)).toMatchObject({ verifiedBy: 'content' });
  });

  const data = folder('./');
  const hostile: readonly (readonly [string, readonly MadeEntry[]])[] = [
    ['ENTRY_ABSOLUTE', [data, file('/etc/x')]],
    ['ENTRY_PARENT', [data, file('./a/../../x')]],
    ['ENTRY_PARENT', [data, file('..')]],
    ['ENTRY_NAME_EMPTY', [data, file('')]],
    ['ENTRY_NAME_NUL', [data, file('x', '', { pax: { path: 'a\0b' } })]],
    ['ENTRY_NAME_NUL', [data, { path: 'l', type: '2', pax: { linkpath: 'a\0b' } }]],
    ['ENTRY_NAME_LONG', [data, file(`./${'n'.repeat(300)}`)]],
    ['ENTRY_DEVICE', [data, { path: './sda', type: '4' }]],
    ['ENTRY_DEVICE', [data, { path: './mem', type: '3' }]],
    ['ENTRY_DUPLICATE', [data, file('./f', 'a'), file('f', 'b')]],
    ['ENTRY_LINK_ESCAPE', [data, { path: './h', type: '1', link: '/etc/passwd' }]],
    ['ENTRY_LINK_ESCAPE', [data, { path: './h', type: '1', link: '../../x' }]],
    ['ENTRY_LINK_DANGLING', [data, { path: './h', type: '1', link: './not-there' }]],
    ['ENTRY_THROUGH_LINK', [data, { path: './l', type: '2', link: '/etc' }, file('./l/x')]],
    ['ENTRY_BELOW_FILE', [data, file('./f'), file('./f/x')]],
    ['TAR_TYPE', [data, { path: './x', type: 'V' }]],
    ['TAR_SPARSE', [data, file('./x', 'y', { pax: { 'GNU.sparse.size': '9007199254740991' } })]],
    [
      'ENTRY_TOO_LARGE',
      [
        data,
        file('./bomb', '', {
          pax: [
            ['GNU.sparse.size', '9007199254740991'],
            ['GNU.sparse.offset', '9007199254740991'],
            ['GNU.sparse.numbytes', '0'],
          ],
        }),
      ],
    ],
  ];
  it.each(hostile)('refuses an archive with %s before anything is made', async (rule, entries) => {
    const { blob, facts } = recorded(tarOf([...entries, file('./after', 'x')]));
    const fault = await faultOf(write(payloads(), blob, facts));
    expect([fault.code, fault.data['rule']]).toEqual(['PAYLOAD_HOSTILE', rule]);
    expect(engine.calls).toEqual([]);
  });

  it('refuses every blob with a flipped byte or a missing end before anything is made', async () => {
    const { blob, facts } = small();
    for (let at = 0; at < blob.length; at += 1) {
      const flipped = Buffer.from(blob);
      flipped[at] = flipped[at]! ^ 0x10;
      if (zstdEquals(flipped, blob)) continue;
      const fault = await faultOf(write(payloads(), flipped, facts));
      expect(fault.code, `byte ${at}`).toBe('PAYLOAD_CORRUPT');
    }
    for (const size of [0, 1, 20, blob.length - 1]) {
      expect((await faultOf(write(payloads(), blob.subarray(0, size), facts))).code).toBe('PAYLOAD_CORRUPT');
    }
    expect(engine.calls).toEqual([]);
  });

  it('refuses a whole payload that is another than the recorded one', async () => {
    const { blob, facts } = small();
    const wrong = (change: Partial<PayloadFacts>) => faultOf(write(payloads(), blob, { ...facts, ...change }));
    expect((await wrong({ plainDigest: '0'.repeat(64) })).message).toContain('digest');
    expect((await wrong({ plainBytes: facts.plainBytes + 1 })).message).toContain('size');
    expect((await wrong({ plainBytes: facts.plainBytes - 1 })).message).toContain('more than');
    expect((await wrong({ entries: { ...facts.entries, count: 3 } })).message).toContain('list of entries');
    expect((await wrong({ root: { uid: 1, gid: 0, mode: '0700' } })).message).toContain('root');
    expect(engine.calls).toEqual([]);
  });

  it('stops a blob that unpacks to more than its record at that size', async () => {
    const { facts } = small();
    const bomb = zstdCompressSync(Buffer.concat([...blocksOf(file('./f', Buffer.alloc(64 * 1024 * 1024))), END]));
    expect((await faultOf(write(payloads(), bomb, facts))).data['rule']).toBe('SIZE');
  });

  it('does not write into a volume that is there, empty or not', async () => {
    const { blob, facts } = small();
    engine.add('fresh');
    expect((await faultOf(write(payloads(), blob, facts))).code).toBe('PAYLOAD_EXISTS');
    expect(engine.volumes.has('fresh')).toBe(true);
    expect(readdirSync(engine.pathOf('fresh'))).toEqual([]);
  });

  it('leaves alone what is in a new volume already', async () => {
    const { blob, facts } = small();
    mkdirSync(engine.pathOf('fresh'), { recursive: true });
    writeFileSync(join(engine.pathOf('fresh'), 'theirs'), 'x');
    expect((await faultOf(write(payloads(), blob, facts))).code).toBe('PAYLOAD_EXISTS');
    expect(readdirSync(engine.pathOf('fresh'))).toEqual(['theirs']);
  });

  it('does not write into a folder that holds something', async () => {
    const { blob, facts } = small();
    const within = join(engine.dir, 'project');
    mkdirSync(join(within, 'd'), { recursive: true });
    writeFileSync(join(within, 'd', 'theirs'), 'x');
    const target: PayloadTarget = { kind: 'folder', path: join(within, 'd'), within };
    expect((await faultOf(write(payloads(), blob, facts, target))).code).toBe('PAYLOAD_EXISTS');
    expect(readdirSync(join(within, 'd'))).toEqual(['theirs']);
  });

  it.each([
    ['fails', 'PAYLOAD_FAILED', 'echo "tar: ./f: Cannot open: Permission denied" >&2; exit 2'],
    ['fails for a name', 'PAYLOAD_FAILED', 'echo "tar: ./a: No space left on device: Cannot open: Denied" >&2; exit 2'],
    ['finds a full disk', 'PAYLOAD_NO_SPACE', 'echo "tar: ./f: Cannot write: No space left on device" >&2; exit 2'],
    ['meets a quota', 'PAYLOAD_NO_SPACE', 'echo "tar: ./f: Cannot mkdir: Disk quota exceeded" >&2; exit 2'],
    ['writes a part', 'PAYLOAD_NO_SPACE', 'echo "tar: ./f: Wrote only 3072 of 10240 bytes" >&2; exit 2'],
    ['dies at once', 'PAYLOAD_FAILED', 'exec <&-; exit 2'],
    ['complains', 'PAYLOAD_FAILED', '$TAR "$@"; echo "tar: ./f: Cannot lsetxattr" >&2'],
    ['writes something else', 'PAYLOAD_UNVERIFIED', '$TAR "$@"; for last; do :; done; echo more >>"$FOLDER/f"'],
    ['loses a file', 'PAYLOAD_UNVERIFIED', '$TAR "$@"; rm "$FOLDER/f"'],
    ['forgets an owner or mode', 'PAYLOAD_UNVERIFIED', '$TAR "$@"; chmod 0777 "$FOLDER"'],
  ])('leaves nothing when tar %s: %s', async (_, code, script) => {
    const { blob, facts } = small();
    const wrapped = `case "$1" in --create) exec $TAR "$@";; esac\nFOLDER='${engine.pathOf('fresh')}'\n${script}`;
    expect((await faultOf(write(payloads({ programs: tarThat(wrapped) }), blob, facts))).code).toBe(code);
    isGone();
  });

  it('names the place that is full, and what tar said of it', async () => {
    const { blob, facts } = small();
    const words = ['tar: ./a: Cannot open: Permission denied', 'tar: ./big: Wrote only 3072 of 10240 bytes'];
    const wrapped = `case "$1" in --create) exec $TAR "$@";; esac\nprintf '%s\\n' '${words.join("' '")}' >&2; exit 2`;
    const fault = await faultOf(write(payloads({ programs: tarThat(wrapped) }), blob, facts));
    expect(fault.code).toBe('PAYLOAD_NO_SPACE');
    expect(fault.message).toContain(`no room left at ${engine.pathOf('fresh')}: ${words[1]}`);
    isGone();
  });

  it('says so also of a disk that promised more than it has', async () => {
    const { blob, facts } = small();
    const script = 'echo "sync: error syncing: No space left on device" >&2; exit 1';
    const failing = (input: RunInput) =>
      input.program === 'sync' ? { ...input, program: 'sh', args: ['-c', script] } : input;
    const programs: Programs = { spawnStream, run: ((input: RunInput) => run(failing(input))) as Programs['run'] };
    expect((await faultOf(write(payloads({ programs }), blob, facts))).code).toBe('PAYLOAD_NO_SPACE');
    isGone();
  });

  it('gives up a tar that takes no more, and leaves nothing', async () => {
    const { blob, facts } = recorded(tarOf([folder('./'), file('./f', randomBytes(1_000_000))]));
    const wrapped = 'case "$1" in --create) exec $TAR "$@";; esac\nexec sleep 60';
    const fault = await faultOf(write(payloads({ programs: tarThat(wrapped), stallMs: 500 }), blob, facts));
    expect(fault).toMatchObject({ code: 'PAYLOAD_STALLED', message: expect.stringContaining('the volume fresh') });
    isGone();
  });

  it('leaves nothing when the blob changes between the check and the writing', async () => {
    const { blob, facts } = small();
    const other = recorded(tarOf([folder('./', { mode: 0o700 }), file('./f', 'CONTENT', { mode: 0o600 })]));
    const blobs = [blob, other.blob];
    const work = payloads().write(
      async function* () {
        yield blobs.shift()!;
      },
      { kind: 'volume', name: 'fresh' },
      { signal: never, expected: facts },
    );
    expect((await faultOf(work)).code).toBe('PAYLOAD_CORRUPT');
    isGone();
  });

  it('leaves nothing when the store breaks off in the middle', async () => {
    const { blob, facts } = small();
    let opens = 0;
    const work = payloads().write(
      async function* () {
        opens += 1;
        yield blob.subarray(0, 30);
        if (opens === 2) throw new Fault('FILES_FAILED', 'the disk is gone');
        yield blob.subarray(30);
      },
      { kind: 'volume', name: 'fresh' },
      { signal: never, expected: facts },
    );
    expect((await faultOf(work)).code).toBe('FILES_FAILED');
    isGone();
  });

  it('leaves nothing when it is called off in the middle', async () => {
    const { blob, facts } = small();
    const abort = new AbortController();
    const programs = tarThat('case "$1" in --create) exec $TAR "$@";; esac\nsleep 60');
    setTimeout(() => abort.abort(), 500);
    const work = write(payloads({ programs }), blob, facts, { kind: 'volume', name: 'fresh' }, abort.signal);
    expect((await faultOf(work)).code).toBe('CANCELLED');
    isGone();
  });
});

describe('volumes', () => {
  it('are made once, removed without complaint, and have a size or none', async () => {
    const one = payloads();
    await one.createVolume({ kind: 'volume', name: 'v', labels: { x: 'y' } }, never);
    expect((await faultOf(one.createVolume({ kind: 'volume', name: 'v' }, never))).code).toBe('PAYLOAD_EXISTS');
    expect(await one.inspectVolume('v', never)).toEqual({
      name: 'v',
      driver: 'local',
      driverOpts: {},
      labels: { x: 'y' },
      mountpoint: engine.pathOf('v'),
      createdAt: 'made 0',
    });
    engine.add('odd');
    expect(await one.volumeSizeBytes('v', never)).toBe(42);
    expect(await one.volumeSizeBytes('odd', never)).toBeNull();
    await one.removeVolume('v', never);
    await one.removeVolume('v', never);
    expect(await one.inspectVolume('v', never)).toBeNull();
  });
});

describe('the disk', () => {
  it('of volumes is seen where the folders of the engine are ours, that of a folder also before it is there', async () => {
    const folder = join(engine.dir, 'not', 'yet', 'there');
    const disk = await payloads().diskOf({ folder }, never);
    expect(disk).toMatchObject({ path: engine.dir });
    expect(disk?.freeBytes).toBeGreaterThan(0);
    expect(await payloads().diskOf('volumes', never)).toMatchObject({ id: disk?.id });
    engine.id = 'of another host';
    expect(await payloads().diskOf('volumes', never)).toBeNull();
  });
});

/** Some bits of a frame say nothing about its content. */
function zstdEquals(left: Buffer, right: Buffer): boolean {
  try {
    return zstdDecompressSync(left).equals(zstdDecompressSync(right));
  } catch {
    return false;
  }
}
