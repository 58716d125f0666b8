import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { redactor } from '../../../src/adapters/process/redact.ts';
import { cleanEnvironment, ProcessError, type RunInput, run, spawnStream } from '../../../src/adapters/process/run.ts';

const folder = mkdtempSync(join(tmpdir(), 'windlass-run-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A small program of the tests: `sh` is only the child here, given as an argument list like any other program. */
function script(text: string, more: Partial<RunInput> = {}): RunInput {
  return {
    program: 'sh',
    args: ['-c', text],
    cwd: folder,
    env: cleanEnvironment(),
    deadlineMs: 10_000,
    graceMs: 200,
    ...more,
  };
}

async function failureOf(work: Promise<unknown>): Promise<ProcessError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ProcessError);
  return error as ProcessError;
}

async function waitForFile(name: string): Promise<string> {
  for (let tries = 0; tries < 200; tries += 1) {
    try {
      const text = readFileSync(join(folder, name), 'utf8');
      if (text.endsWith('\n')) return text.trim();
    } catch {}
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`${name} was not written`);
}

function isRunning(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' });
  return stdout.trim() !== '' && !stdout.startsWith('Z');
}

describe('running a program', () => {
  test('a non-zero exit code is returned, not thrown', async () => {
    const result = await run(script('echo out; echo err >&2; exit 3'));
    expect(result).toMatchObject({ exitCode: 3, stdout: 'out\n', stderr: 'err', signal: null });
  });

  test('the environment is complete: nothing of ours is inherited', async () => {
    process.env['WINDLASS_TEST_INHERITED'] = 'yes';
    const { stdout } = await run({
      ...script(''),
      program: 'env',
      args: [],
      env: { PATH: process.env['PATH']!, A: '1' },
    });
    delete process.env['WINDLASS_TEST_INHERITED'];
    expect(stdout.split('\n').filter((line) => !line.startsWith('PATH=') && line !== '')).toEqual(['A=1']);
  });

  test('standard input is empty unless it is given', async () => {
    expect((await run(script('cat; echo end'))).stdout).toBe('end\n');
    expect((await run(script('cat', { input: 'hello' }))).stdout).toBe('hello');
    const bytes = new Uint8Array([0, 255, 10]);
    const { stdout } = await run({ ...script('cat', { input: bytes }), encoding: 'buffer' });
    expect([...stdout]).toEqual([0, 255, 10]);
  });

  test('a program that does not read its input does not fail because of it', async () => {
    expect((await run(script('exit 0', { input: 'x'.repeat(1_000_000) }))).exitCode).toBe(0);
  });

  test('an argument is never read by a shell', async () => {
    const { stdout } = await run({ ...script(''), program: 'printf', args: ['%s', '$(id); `id` | "\n'] });
    expect(stdout).toBe('$(id); `id` | "\n');
  });

  test('a program that is not there, may not run, or has no folder to run in are told apart', async () => {
    expect((await failureOf(run({ ...script(''), program: 'no-such-program' }))).kind).toBe('missing');
    expect((await failureOf(run({ ...script(''), program: folder }))).kind).toBe('refused');
    expect((await failureOf(run(script('true', { cwd: join(folder, 'gone') })))).kind).toBe('directory');
  });

  test('a program killed by somebody else says by which signal', async () => {
    expect(await run(script('kill -KILL $$'))).toMatchObject({ exitCode: -1, signal: 'SIGKILL' });
  });
});

describe('ending a program', () => {
  test('a deadline ends the program and its grandchildren, also those that ignore TERM', async () => {
    const text = `trap '' TERM; sh -c "trap '' TERM; echo \\$\\$ > grandchild; while :; do sleep 1; done" & wait; sleep 60`;
    const failure = await failureOf(run(script(text, { deadlineMs: 700 })));
    expect(failure.kind).toBe('deadline');
    expect(isRunning(Number(await waitForFile('grandchild')))).toBe(false);
    expect(failure.durationMs).toBeLessThan(3_000);
  });

  test('TERM comes first, so that a program can say goodbye', async () => {
    const failure = await failureOf(
      run(
        script(`trap 'echo goodbye >&2; exit 0' TERM; while :; do sleep 0.02; done`, {
          deadlineMs: 200,
          graceMs: 3_000,
        }),
      ),
    );
    expect(failure.stderr).toContain('goodbye');
  });

  test('an abort ends it and keeps the reason', async () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error('superseded')), 50);
    const failure = await failureOf(run(script('sleep 60', { signal: controller.signal })));
    expect(failure.kind).toBe('cancelled');
    expect((failure.cause as Error).message).toBe('superseded');
    expect((await failureOf(run(script('true', { signal: controller.signal })))).kind).toBe('cancelled');
  });

  test('output over the limit ends it', async () => {
    const failure = await failureOf(run(script('yes', { maxOutputBytes: 100_000 })));
    expect(failure.kind).toBe('output');
  });

  test('a leftover in the background does not hold us, and is ended', async () => {
    const result = await run(script('sleep 60 & echo $! > leftover; echo done'));
    expect(result.stdout).toBe('done\n');
    expect(result.durationMs).toBeLessThan(3_000);
    expect(isRunning(Number(await waitForFile('leftover')))).toBe(false);
  });
});

describe('what it prints', () => {
  test('lines of both streams are handed out whole', async () => {
    const lines: string[] = [];
    await run(script('printf "a\\r\\nb"; echo c >&2', { onLine: (stream, line) => lines.push(`${stream} ${line}`) }));
    expect(lines.sort()).toEqual(['stderr c', 'stdout a', 'stdout b']);
  });

  test('a mistake in a listener ends the program and comes out where it was called', async () => {
    const running = run(
      script('echo one; sleep 60', {
        onLine: () => {
          throw new Error('a mistake');
        },
      }),
    );
    await expect(running).rejects.toThrow('a mistake');
  });

  test('endless standard error keeps its head and tail', async () => {
    const { stderr } = await run(script('i=0; while [ $i -lt 30000 ]; do echo "line $i"; i=$((i+1)); done >&2'));
    expect(stderr.startsWith('line 0\n')).toBe(true);
    expect(stderr.endsWith('line 29999')).toBe(true);
    expect(stderr).toMatch(/\[\d+ lines left out\]/);
    expect(stderr.length).toBeLessThan(200_000);
  });

  test('endless standard output may keep only its ends', async () => {
    const { stdout } = await run(script('seq 1 50000', { keepStdout: 'ends', maxOutputBytes: 1_000 }));
    expect(stdout.startsWith('1\n2\n')).toBe(true);
    expect(stdout.endsWith('50000')).toBe(true);
  });

  test('an endless line is cut, and its cut does not halve a secret', async () => {
    redactor.add('cut-secret-value');
    const lines: string[] = [];
    const pad = 16 * 1024 - 5;
    await run(
      script(`head -c ${pad} /dev/zero | tr '\\0' x; printf 'cut-secret-value'; head -c 90000 /dev/zero | tr '\\0' y`, {
        onLine: (_stream, line) => lines.push(line),
      }),
    );
    expect(lines).toHaveLength(1);
    expect(lines[0]).not.toContain('cut-s');
    expect(lines[0]!.length).toBeLessThan(17_000);
  });

  test('a secret is redacted in lines, standard error, error texts and argument lists', async () => {
    redactor.add('hunter2-run');
    const lines: string[] = [];
    const result = await run(
      script('echo hunter2-run; echo hunter2-run >&2', { onLine: (_stream, line) => lines.push(line) }),
    );
    expect(lines).toEqual(['[redacted]', '[redacted]']);
    expect(result.stderr).toBe('[redacted]');
    const failure = await failureOf(run(script('echo hunter2-run >&2; sleep 60', { deadlineMs: 200 })));
    expect(JSON.stringify([failure.message, failure.args, failure.stderr, failure.stack])).not.toContain('hunter2-run');
    const missing = await failureOf(run({ ...script(''), program: '/nowhere/hunter2-run' }));
    expect(`${missing.message} ${missing.program} ${missing.stack}`).not.toContain('hunter2-run');
  });
});

describe('a program with open streams', () => {
  test('it answers as long as it is written to, and ends with its input', async () => {
    const child = await spawnStream({ program: 'cat', args: [], cwd: folder, env: cleanEnvironment() });
    child.stdin.write('one\n');
    await new Promise((resolve) => setTimeout(resolve, 50));
    child.stdin.end('two\n');
    let text = '';
    for await (const chunk of child.stdout) text += String(chunk);
    expect(text).toBe('one\ntwo\n');
    expect(await child.exited).toEqual({ exitCode: 0, signal: null });
  });

  test('it is ended on demand with all that it started', async () => {
    const child = await spawnStream({
      program: 'sh',
      args: ['-c', 'sleep 60 & echo $! > streamed; wait'],
      cwd: folder,
      env: cleanEnvironment(),
      graceMs: 200,
    });
    const pid = Number(await waitForFile('streamed'));
    await child.kill();
    expect(isRunning(pid)).toBe(false);
    expect((await child.exited).signal).toBe('SIGTERM');
    child.stdin.write('to a dead program');
  });

  test('a program that is not there is refused at once', async () => {
    const failure = await failureOf(
      spawnStream({ program: 'no-such-program', args: [], cwd: folder, env: cleanEnvironment() }),
    );
    expect(failure.kind).toBe('missing');
  });

  test('programs still running when we exit are ended', async () => {
    const text = `
      import { spawnStream } from ${JSON.stringify(join(import.meta.dirname, '../../../src/adapters/process/run.ts'))};
      const child = await spawnStream({ program: 'sleep', args: ['60'], cwd: '/', env: { PATH: process.env.PATH } });
      process.stdout.write(String(child.pid));
      process.exit(0);
    `;
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', text], { encoding: 'utf8' });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(Number(stdout)).toBeGreaterThan(0);
    expect(isRunning(Number(stdout))).toBe(false);
  });
});
