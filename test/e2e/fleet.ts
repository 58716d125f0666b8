// A throw-away fleet on the real engine: a bare repository, a clone to edit and push from, a state directory, and the CLI as a user types it.
// Projects are named `wlt-…`; everything is removed by project label at the end, by id, never anything else.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PROGRAM } from '../program.ts';

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface Running {
  readonly pid: number;
  readonly lines: readonly string[];
  /** Resolves with the first line that matches, seen already or to come. */
  line(pattern: RegExp, timeoutMs?: number): Promise<string>;
  kill(signal: NodeJS.Signals): Promise<void>;
}

export function docker(...args: string[]): string {
  return execFileSync('docker', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
}

export function inspect(name: string): {
  Id: string;
  State: { Status: string; StartedAt: string };
  [key: string]: unknown;
} {
  return JSON.parse(docker('inspect', name))[0];
}

/** Container ids of a project by name, running or not. */
export function containersOf(project: string): Record<string, string> {
  const lines = docker(
    'ps',
    '-a',
    '--no-trunc',
    '--filter',
    `label=com.docker.compose.project=${project}`,
    '--format',
    '{{.Names}} {{.ID}}',
  );
  return Object.fromEntries(
    lines
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split(' ') as [string, string]),
  );
}

export class Fleet {
  readonly dir: string;
  readonly bare: string;
  readonly clone: string;
  readonly state: string;
  readonly #projects = new Set<string>();
  readonly #running: Running[] = [];

  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), 'wlt-'));
    this.bare = join(this.dir, 'fleet.git');
    this.clone = join(this.dir, 'clone');
    this.state = join(this.dir, 'state');
    this.git(this.dir, 'init', '-q', '--bare', '-b', 'main', this.bare);
    this.git(this.dir, 'init', '-q', '-b', 'main', this.clone);
    this.git(this.clone, 'remote', 'add', 'origin', this.bare);
  }

  git(cwd: string, ...args: string[]): string {
    return execFileSync(
      'git',
      ['-c', 'user.name=Test', '-c', 'user.email=test@example.org', '-c', 'commit.gpgsign=false', ...args],
      {
        cwd,
        encoding: 'utf8',
        env: { PATH: process.env['PATH'] ?? '', HOME: this.dir, GIT_CONFIG_NOSYSTEM: '1' },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    ).trim();
  }

  /** Writes, commits and pushes; a null text removes the file. Returns the commit. */
  push(files: Record<string, string | null>, subject = 'change'): string {
    for (const [path, text] of Object.entries(files)) {
      const file = join(this.clone, path);
      if (text === null) rmSync(file, { recursive: true, force: true });
      else {
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, text);
      }
      const project = /^stacks\/([^/.]+)/.exec(path)?.[1];
      if (project) this.#projects.add(project);
    }
    this.git(this.clone, 'add', '-A');
    this.git(this.clone, 'commit', '-q', '--allow-empty', '-m', subject);
    this.git(this.clone, 'push', '-q', 'origin', 'HEAD:main');
    return this.git(this.clone, 'rev-parse', 'HEAD');
  }

  owns(...projects: string[]): void {
    for (const project of projects) this.#projects.add(project);
  }

  /** What a killed run of these tests left of the owned projects, known by the temporary folder that it was made in. */
  removeLeftovers(): void {
    for (const project of this.#projects) {
      const label = `label=com.docker.compose.project=${project}`;
      const format = '{{.ID}} {{.Label "com.docker.compose.project.working_dir"}}';
      const rows = docker('ps', '-a', '--filter', label, '--format', format).split('\n').filter(Boolean);
      const ours = rows.filter((row) => / .*\/(wlt|windlass)-/.test(row)).map((row) => row.split(' ')[0]!);
      if (ours.length > 0) docker('rm', '-fv', ...ours);
      if (ours.length < rows.length) continue;
      const networks = docker('network', 'ls', '-q', '--filter', label).split('\n').filter(Boolean);
      if (networks.length > 0) docker('network', 'rm', ...networks);
    }
  }

  #args(args: readonly string[]): string[] {
    return [PROGRAM, ...args, '--source', this.bare, '--state', this.state, '--settle', '1s'];
  }

  windlass(...args: string[]): Promise<Ran> {
    return new Promise((done) => {
      execFile(
        process.execPath,
        this.#args(args),
        { cwd: this.dir, encoding: 'utf8', maxBuffer: 64 << 20, timeout: 180_000 },
        (error, out, err) => {
          const code = error && typeof error.code === 'number' ? error.code : error ? -1 : 0;
          done({ code, out, err });
        },
      );
    });
  }

  /** Killed without a chance to clean up as soon as `when` holds. Throws when it ends before that. */
  async killed(args: readonly string[], when: () => boolean): Promise<void> {
    const child = spawn(process.execPath, this.#args(args), { cwd: this.dir, stdio: 'ignore' });
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
    while (!when()) {
      if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode} before it could be killed`);
      await sleep(20);
    }
    child.kill('SIGKILL');
    await ended;
  }

  /** `windlass run`, until it is killed. */
  start(...args: string[]): Running {
    const child = spawn(process.execPath, this.#args(['run', ...args]), {
      cwd: this.dir,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const lines: string[] = [];
    const waiting = new Set<() => void>();
    let rest = '';
    const take = (chunk: Buffer): void => {
      const parts = (rest + chunk.toString()).split('\n');
      rest = parts.pop() ?? '';
      lines.push(...parts);
      for (const wake of waiting) wake();
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
    const running: Running = {
      pid: child.pid ?? -1,
      lines,
      line: (pattern, timeoutMs = 60_000) =>
        new Promise((resolve, reject) => {
          const look = (): void => {
            const found = lines.find((line) => pattern.test(line));
            if (found === undefined) return;
            clearTimeout(timer);
            waiting.delete(look);
            resolve(found);
          };
          const timer = setTimeout(() => {
            waiting.delete(look);
            reject(new Error(`no line like ${pattern} in ${timeoutMs} ms:\n${lines.slice(-40).join('\n')}`));
          }, timeoutMs);
          waiting.add(look);
          look();
        }),
      kill: async (signal) => {
        if (child.exitCode === null && child.signalCode === null) child.kill(signal);
        await ended;
      },
    };
    this.#running.push(running);
    return running;
  }

  async dispose(): Promise<void> {
    for (const running of this.#running) await running.kill('SIGKILL');
    const labels = [...this.#projects].map((project) => `label=com.docker.compose.project=${project}`);
    const remove = (list: readonly string[], ...command: string[]): void => {
      for (const label of labels) {
        const ids = docker(...list, '--filter', label)
          .split('\n')
          .filter(Boolean);
        if (ids.length > 0) docker(...command, ...ids);
      }
    };
    // Kind by kind: a container of one project may be on the network of another.
    remove(['ps', '-aq'], 'rm', '-fv');
    remove(['network', 'ls', '-q'], 'network', 'rm');
    remove(['volume', 'ls', '-q'], 'volume', 'rm', '-f');
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export interface EngineEvent {
  readonly Type: string;
  readonly Action: string;
  readonly Actor: { readonly ID: string; readonly Attributes: Readonly<Record<string, string>> };
}

/** What the engine reports from now on, but for checks of health. Read as it happens: the engine remembers no more than the last 256. */
export async function watchEvents(): Promise<{ end(): Promise<readonly EngineEvent[]> }> {
  const child = spawn('docker', ['events', '--format', '{{json .}}'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const seen: EngineEvent[] = [];
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) seen.push(JSON.parse(line) as EngineEvent);
  });
  /** Everything that happened before has been read once this is. */
  const mark = async (): Promise<number> => {
    for (let tries = 0; tries < 100; tries++) {
      const name = `wlt-mark-${process.pid}-${seen.length}-${tries}`;
      docker('volume', 'create', name);
      docker('volume', 'rm', name);
      const at = () => seen.findIndex(({ Action, Actor }) => Action === 'destroy' && Actor.ID === name);
      for (let waits = 0; waits < 20 && at() < 0; waits++) await sleep(50);
      if (at() >= 0) return at();
    }
    throw new Error('the engine reports no events');
  };
  const begin = await mark();
  return {
    async end() {
      const end = await mark();
      child.kill();
      return seen
        .slice(begin + 1, end)
        .filter(({ Action, Actor }) => !/^(?:exec_|health_status)/.test(Action) && !/^wlt-mark-/.test(nameIn(Actor)));
    },
  };
}

/** A volume has no other id than its name. */
const nameIn = ({ ID, Attributes }: EngineEvent['Actor']): string => Attributes['name'] ?? ID;

/** Mutating calls that the engine reports while `work` runs, as `type action name`. */
export async function mutationsDuring(work: () => Promise<unknown>): Promise<readonly string[]> {
  const watch = await watchEvents();
  await work();
  return (await watch.end()).map(({ Type, Action, Actor }) => `${Type} ${Action} ${nameIn(Actor)}`);
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export async function until<T>(
  look: () => T | Promise<T>,
  good: (value: T) => boolean,
  timeoutMs = 60_000,
): Promise<T> {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const value = await look();
    if (good(value)) return value;
    if (Date.now() > end) throw new Error(`not reached in ${timeoutMs} ms: ${JSON.stringify(value)}`);
    await sleep(100);
  }
}
