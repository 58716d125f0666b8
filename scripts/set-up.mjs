// What every `npm run` command needs before it: installed dependencies, an engine, test images.
// Each part does nothing when nothing is missing. Plain Node 20 without dependencies: it runs before `npm ci`.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const modules = path.join(root, 'node_modules');
const stamp = path.join(modules, '.windlass-lock');
const lockFile = path.join(root, 'package-lock.json');

/** The project's own Node: newer than the one that may be installed on the machine. */
export const projectNode = path.join(modules, 'node', 'bin', 'node');

export const say = (text) => process.stderr.write(`${text}\n`);
const seconds = (sinceMs) => `${((performance.now() - sinceMs) / 1000).toFixed(1)} s`;

/** Where the user stood: npm itself moves to the project's root and leaves the first folder in INIT_CWD. */
export function userFolder() {
  const here = process.cwd();
  const fromNpm = process.env.npm_lifecycle_event !== undefined && here === root;
  return fromNpm ? (process.env.INIT_CWD ?? here) : here;
}

/** The environment in which `node`, `tsc`, `vitest`, `biome` are the project's own. */
export function projectEnvironment() {
  return { ...process.env, PATH: [path.join(modules, '.bin'), process.env.PATH].join(path.delimiter) };
}

/**
 * Runs a program on our terminal and resolves to its exit code (128 + signal number when a signal ended it).
 * A signal sent to us goes on to it; Ctrl-C on a terminal reaches it without us. `oneSignal` is for a program to
 * which a second signal means "leave at once".
 */
export function run(
  command,
  args,
  { cwd = root, env = projectEnvironment(), stdio = 'inherit', oneSignal = false } = {},
) {
  return new Promise((resolve, reject) => {
    const onTerminal = process.stdin.isTTY || process.stderr.isTTY;
    // In a group of its own a signal to our whole group does not reach it twice: directly and through us.
    const child = spawn(command, args, { cwd, env, stdio, detached: oneSignal && !onTerminal });
    let lastMs = Number.NEGATIVE_INFINITY;
    const forward = (signal) => {
      if (signal === 'SIGINT' && onTerminal) return;
      // npm sends on what reached us directly as well.
      if (performance.now() - lastMs < 300) return;
      lastMs = performance.now();
      child.kill(signal);
    };
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
    for (const signal of signals) process.on(signal, forward);
    const finished = () => {
      for (const signal of signals) process.off(signal, forward);
    };
    child.on('error', (error) => {
      finished();
      reject(error);
    });
    child.on('exit', (code, signal) => {
      finished();
      resolve(signal === null ? (code ?? 1) : 128 + constants.signals[signal]);
    });
  });
}

/** Installs the dependencies that package-lock.json names, unless just those are installed. */
export async function ensureDependencies() {
  const wanted = digestOfLockFile();
  if (installedDigest() === wanted) return;
  const release = await takeInstallLock();
  try {
    if (installedDigest() === wanted) return;
    if (!installedByHand()) await install();
    writeFileSync(stamp, wanted);
  } finally {
    release();
  }
}

function digestOfLockFile() {
  return createHash('sha256').update(readFileSync(lockFile)).digest('hex');
}

function installedDigest() {
  try {
    return readFileSync(stamp, 'utf8');
  } catch {
    return undefined;
  }
}

/** Somebody ran `npm ci` or `npm install`: npm's own record then holds all that the lock file asks for. */
function installedByHand() {
  try {
    const installed = JSON.parse(readFileSync(path.join(modules, '.package-lock.json'), 'utf8')).packages;
    const wanted = JSON.parse(readFileSync(lockFile, 'utf8')).packages;
    return Object.entries(wanted).every(([name, entry]) => {
      if (name === '') return true;
      const found = installed[name];
      return found === undefined ? entry.optional === true : found.version === entry.version;
    });
  } catch {
    return false;
  }
}

async function install() {
  const since = performance.now();
  say('dependencies: npm ci');
  const heartbeat = setInterval(() => say(`dependencies: still busy (${seconds(since)})`), 10_000);
  const inNpm = process.env.npm_execpath?.endsWith('.js') === true;
  const [command, first] = inNpm ? [process.execPath, [process.env.npm_execpath]] : ['npm', []];
  // Our Node and its `node` package are newer than the installed one: npm's words about that are noise.
  const args = [...first, 'ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'];
  try {
    const code = await run(command, args, { env: process.env, stdio: ['ignore', 2, 2] });
    if (code !== 0) throw new SetUpError(`dependencies: npm ci failed with exit code ${code}`, code);
  } finally {
    clearInterval(heartbeat);
  }
  say(`dependencies: installed (${seconds(since)})`);
}

/** One install at a time: two `npm ci` in one folder delete each other's files. Outlives no process. */
async function takeInstallLock() {
  const name = `windlass-install-${createHash('sha256').update(root).digest('hex').slice(0, 12)}`;
  const file = path.join(tmpdir(), name);
  for (let waited = false; ; waited = true) {
    try {
      writeFileSync(file, String(process.pid), { flag: 'wx' });
      return () => rmSync(file, { force: true });
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (!holderLives(file)) {
      rmSync(file, { force: true });
      continue;
    }
    if (!waited) say('dependencies: another run is installing them; waiting for it');
    await sleep(200);
  }
}

function holderLives(file) {
  try {
    // Empty for the moment between its making and its writing.
    return isAlive(Number(readFileSync(file, 'utf8')) || process.pid);
  } catch {
    return false;
  }
}

export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** A failed set-up whose own words are already on the terminal. */
export class SetUpError extends Error {
  constructor(message, exitCode) {
    super(message);
    this.exitCode = exitCode;
  }
}

export async function ensureEngine() {
  const code = await run(path.join(root, 'scripts', 'engine'), ['ensure']);
  if (code !== 0) throw new SetUpError('engine: not ready', code);
}

export async function ensureImages(...names) {
  const code = await run(path.join(root, 'scripts', 'images'), names);
  if (code !== 0) throw new SetUpError('images: not ready', code);
}

/** Runs a script's work and ends the process with the exit code that it returns. */
export async function main(work) {
  try {
    process.exitCode = await work();
  } catch (error) {
    if (!(error instanceof SetUpError)) throw error;
    say(error.message);
    process.exitCode = error.exitCode;
  }
}

/** A folder for one run's files, outside the repository. */
export function scratchFolder(name) {
  const folder = path.join(tmpdir(), `windlass-${name}-${process.pid}`);
  mkdirSync(folder, { recursive: true });
  return folder;
}

export const isPresent = (...parts) => existsSync(path.join(root, ...parts));
