import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { type Programs, type RunInput, run, spawnStream } from '../../../src/adapters/process/run.ts';
import type { Source } from '../../../src/ports/source.ts';
import { makeBench, serve, type TestRepository } from './fixture.ts';

const bench = makeBench();
const { openHere } = bench;
let folder = '';
let mirror = '';
let repository: TestRepository;
beforeEach(() => {
  ({ folder, mirror, repository } = bench);
});

const _textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');
const _pathsOf = async (source: Source, commit: string): Promise<readonly string[]> =>
  (await source.list(commit)).entries.map(({ path }) => path);

/** Counts and shows what is run. */
function _watched(): { readonly programs: Programs; readonly runs: RunInput[] } {
  const runs: RunInput[] = [];
  const watchedRun = ((input: RunInput) => {
    runs.push(input);
    return run(input);
  }) as Programs['run'];
  return { runs, programs: { run: watchedRun, spawnStream } };
}

const _fetchesOf = (runs: readonly RunInput[]): number => runs.filter(({ args }) => args.includes('fetch')).length;

describe('after a crash', () => {
  const script = (url: string): string => `
    import { openSource } from ${JSON.stringify(join(import.meta.dirname, '../../../src/adapters/git/repository.ts'))};
    import { RealClock } from ${JSON.stringify(join(import.meta.dirname, '../../../src/adapters/clock/real-clock.ts'))};
    const source = openSource({ spec: { name: 'fleet', url: ${JSON.stringify(url)}, ref: 'main' }, mirrorDir: ${JSON.stringify(mirror)}, clock: new RealClock() });
    console.log(await source.tip());
    await source.fetch();
    console.log('fetched');
    setInterval(() => {}, 1000);
  `;
  const start = (url: string): ChildProcess =>
    spawn(process.execPath, ['--input-type=module', '-e', script(url)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const said = async (child: ChildProcess): Promise<void> => {
    await new Promise((resolve) => child.stdout!.once('data', resolve));
  };
  const killed = async (child: ChildProcess): Promise<void> => {
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
  };

  test('killed in the middle of a fetch: the next process ends what is left of it, and fetches', async () => {
    const first = repository.commit('one', { a: '1' });
    const server = await serve(folder);
    try {
      const before = openHere({ url: `${server.url}/fleet` });
      await before.fetch();
      await before.close();
      let release = (): void => {};
      server.options = {
        hold: new Promise((resolve) => {
          release = resolve;
        }),
      };
      const child = start(`${server.url}/fleet`);
      await said(child);
      const waiting = server.requests.length;
      for (let tries = 0; server.requests.length === waiting && tries < 300; tries += 1) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      await killed(child);
      const [note] = readdirSync(join(mirror, 'windlass-owners')).map(
        (name) => JSON.parse(readFileSync(join(mirror, 'windlass-owners', name), 'utf8')) as { child: { pid: number } },
      );
      expect(() => process.kill(note!.child.pid, 0)).not.toThrow();
      for (const left of [
        'refs/windlass/fetched.lock',
        'packed-refs.lock',
        'objects/pack/tmp_pack_AbCdEf',
        'objects/pack/pack-1.keep',
      ]) {
        writeFileSync(join(mirror, left), '');
      }
      const second = repository.commit('two', { a: '2' });
      const source = openHere({ url: `${server.url}/fleet` });
      expect(await source.tip()).toBe(first);
      release();
      expect(await source.fetch()).toBe(second);
      expect(readdirSync(join(mirror, 'objects/pack')).filter((name) => /tmp_|keep/.test(name))).toEqual([]);
      for (let tries = 0; existsSync(`/proc/${note!.child.pid}`) && tries < 100; tries += 1) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        if (readFileSync(`/proc/${note!.child.pid}/stat`, 'latin1').includes(') Z ')) break;
      }
    } finally {
      await server.close();
    }
  });

  test('locks of a living process are left alone', async () => {
    repository.commit('one');
    const child = start(repository.path);
    await said(child);
    await said(child);
    const lock = join(mirror, 'packed-refs.lock');
    writeFileSync(lock, '');
    const source = openHere();
    await source.tip();
    expect(existsSync(lock)).toBe(true);
    await source.close();
    await killed(child);
    await openHere().tip();
    expect(existsSync(lock)).toBe(false);
  });

  test('a fetch that fails takes away its own locks, and none that a pin is just written under', async () => {
    repository.commit('one');
    const source = openHere();
    await source.fetch();
    mkdirSync(join(mirror, 'refs/windlass/pins'), { recursive: true });
    for (const ref of ['pins/stack-web', 'fetched']) writeFileSync(join(mirror, 'refs/windlass', `${ref}.lock`), '');
    renameSync(repository.path, `${repository.path}-away`);
    await expect(source.fetch()).rejects.toThrow();
    expect(existsSync(join(mirror, 'refs/windlass/fetched.lock'))).toBe(false);
    expect(existsSync(join(mirror, 'refs/windlass/pins/stack-web.lock'))).toBe(true);
  });

  test('an empty ref, as power loss leaves it, heals by itself', async () => {
    const tip = repository.commit('one');
    const source = openHere();
    await source.fetch();
    await source.close();
    for (const ref of ['tip', 'fetched']) writeFileSync(join(mirror, 'refs/windlass', ref), '');
    const again = openHere();
    expect(await again.tip()).toBeNull();
    expect(await again.fetch()).toBe(tip);
  });

  test('killed between the fetch and its acceptance: the next fetch accepts it', async () => {
    repository.commit('one');
    const source = openHere();
    await source.fetch();
    await source.close();
    const tip = repository.commit('two');
    execFileSync('git', [
      `--git-dir=${mirror}`,
      'fetch',
      '-q',
      repository.path,
      '+refs/heads/main:refs/windlass/fetched',
    ]);
    const again = openHere();
    expect(await again.tip()).not.toBe(tip);
    expect(await again.fetch()).toBe(tip);
    expect(await again.tip()).toBe(tip);
  });

  test('a mirror that was only half made is made whole', async () => {
    const tip = repository.commit('one');
    mkdirSync(join(mirror, 'objects'), { recursive: true });
    writeFileSync(join(mirror, 'HEAD'), '');
    expect(await openHere().fetch()).toBe(tip);
    expect(statSync(mirror).mode & 0o777).toBe(0o755);
  });
});
