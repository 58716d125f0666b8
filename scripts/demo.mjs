// `npm run demo`: the main job end to end on a scratch fleet, in about a minute, leaving nothing behind: a push, the plan, converge,
// a second plan that is empty, an edited mounted file, drift and heal, a failing push that disturbs nothing else.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import {
  ensureDependencies,
  ensureEngine,
  ensureImages,
  main,
  projectEnvironment,
  projectNode,
  root,
  SetUpError,
  scratchFolder,
} from './set-up.mjs';

const say = (text = '') => process.stdout.write(`${text}\n`);
const title = (text) => say(process.stdout.isTTY ? `\n\x1b[1m── ${text}\x1b[0m` : `\n── ${text}`);
const WEB = (version) => `services:
  site:
    image: windlass-test/web:${version}
    ports: ["127.0.0.1:28070:8080"]
    volumes: ["./motd:/motd:ro"]
    init: true
    stop_grace_period: 1s
  side:
    image: windlass-test/busybox:1
    command: sleep 2147483647
    init: true
    stop_grace_period: 1s
`;
const JOBS = (command) => `services:
  migrate:
    image: windlass-test/busybox:1
    command: ["sh", "-c", "${command}"]
  worker:
    image: windlass-test/busybox:1
    command: sleep 2147483647
    init: true
    stop_grace_period: 1s
    depends_on: { migrate: { condition: service_completed_successfully } }
`;
const PROJECTS = ['wlt-demo-shop', 'wlt-demo-jobs'];

await main(async () => {
  await ensureDependencies();
  await ensureEngine();
  await ensureImages('busybox', 'web');
  const folder = scratchFolder('demo');
  const bare = path.join(folder, 'fleet.git');
  const clone = path.join(folder, 'clone');
  const state = path.join(folder, 'state');
  const git = (...args) =>
    execFileSync(
      'git',
      ['-c', 'user.name=Demo', '-c', 'user.email=demo@localhost', '-c', 'commit.gpgsign=false', ...args],
      {
        cwd: clone,
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    );
  const push = (files, subject) => {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(clone, name)), { recursive: true });
      writeFileSync(path.join(clone, name), text);
    }
    git('add', '-A');
    git('commit', '-q', '-m', subject);
    git('push', '-q', 'origin', 'HEAD:main');
    say(`$ git push    # ${subject}`);
  };
  const docker = (...args) => {
    say(`$ docker ${args.join(' ')}`);
    return execFileSync('docker', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  };
  const quiet = (...args) =>
    execFileSync('docker', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  /** Runs the CLI as a user would; `expected` is the exit code that this moment of the demo stands for. */
  const windlass = async (expected, ...args) => {
    say(`$ windlass ${args.join(' ')}`);
    const code = await new Promise((resolve, reject) => {
      const command = [path.join(root, 'src/main.ts'), ...args, '--source', bare, '--state', state, '--settle', '2s'];
      const child = spawn(projectNode, ['--disable-warning=ExperimentalWarning', ...command], {
        env: projectEnvironment(),
        stdio: ['ignore', 'inherit', 'inherit'],
      });
      child.once('error', reject);
      child.once('close', resolve);
    });
    if (code !== expected) throw new SetUpError(`demo: expected exit code ${expected}, got ${code}`, 1);
  };
  const healed = async (look, what) => {
    const began = Date.now();
    while (!look()) {
      if (Date.now() - began > 30_000) throw new SetUpError(`demo: ${what} did not happen in 30 s`, 1);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    say(`  ${what} after ${Date.now() - began} ms`);
  };
  const isRunning = (name) => {
    try {
      return quiet('inspect', '-f', '{{.State.Status}}', name) === 'running';
    } catch {
      return false;
    }
  };
  let controller;
  try {
    execFileSync('git', ['init', '-q', '--bare', '-b', 'main', bare]);
    execFileSync('git', ['init', '-q', '-b', 'main', clone]);
    git('remote', 'add', 'origin', bare);

    title('1. A repository of plain Compose files is pushed');
    push(
      {
        'stacks/wlt-demo-shop/compose.yaml': WEB(1),
        'stacks/wlt-demo-shop/motd': 'hello\n',
        'stacks/wlt-demo-jobs/compose.yaml': JOBS('echo migrated'),
      },
      'Two stacks',
    );
    title('2. What would happen');
    await windlass(2, 'plan', '--detailed-exitcode');
    title('3. Make it so');
    await windlass(0, 'apply', '--yes');
    title('4. Nothing left to do, and nothing is done');
    await windlass(0, 'plan', '--detailed-exitcode');
    title('5. A mounted file changes: only the service that mounts it is recreated, and the plan says why');
    push({ 'stacks/wlt-demo-shop/motd': 'hello again\n' }, 'Another greeting');
    await windlass(2, 'plan', '--detailed-exitcode');

    title('6. The controller takes over: pushes converge and drift heals without a command');
    say('$ windlass run');
    controller = spawn(
      projectNode,
      [
        '--disable-warning=ExperimentalWarning',
        path.join(root, 'src/main.ts'),
        'run',
        '--source',
        bare,
        '--state',
        state,
        '--settle',
        '2s',
      ],
      { env: projectEnvironment(), stdio: ['ignore', 'inherit', 'inherit'] },
    );
    const shop = 'wlt-demo-shop-site-1';
    const sees = (text) => {
      try {
        return quiet('exec', shop, 'cat', '/motd') === text;
      } catch {
        return false;
      }
    };
    await healed(() => sees('hello again'), 'the new file is mounted');
    push({ 'stacks/wlt-demo-shop/compose.yaml': WEB(2) }, 'Version 2');
    await healed(
      () => quiet('inspect', '-f', '{{.Config.Image}}', shop).endsWith(':2') && isRunning(shop),
      'version 2 runs',
    );
    await windlass(0, 'wait', 'wlt-demo-shop', '--for', 'Ready', '--revision', 'head', '--timeout', '30s');
    docker('kill', 'wlt-demo-shop-side-1');
    await healed(() => isRunning('wlt-demo-shop-side-1'), 'the killed container runs again');

    title('7. A failing migration stops its own stack and nothing else');
    push({ 'stacks/wlt-demo-jobs/compose.yaml': JOBS('echo cannot migrate; exit 1') }, 'A bad migration');
    await windlass(1, 'wait', 'wlt-demo-jobs', '--for', 'Ready', '--revision', 'head', '--timeout', '8s');
    await windlass(0, 'get');
    push({ 'stacks/wlt-demo-jobs/compose.yaml': JOBS('echo migrated again') }, 'Mend it');
    await windlass(0, 'wait', 'wlt-demo-jobs', '--for', 'Ready', '--revision', 'head', '--timeout', '60s');
    await windlass(0, 'history');
    say('\nThat is the main job. Point it at your own repository:  npm run windlass -- plan --source URL-OR-PATH');
    return 0;
  } finally {
    if (controller && controller.exitCode === null) {
      const ended = new Promise((resolve) => controller.once('close', resolve));
      controller.kill('SIGTERM');
      await ended;
    }
    for (const project of PROJECTS) {
      const label = `label=com.docker.compose.project=${project}`;
      const ids = quiet('ps', '-aq', '--filter', label).split('\n').filter(Boolean);
      if (ids.length > 0) quiet('rm', '-fv', ...ids);
      const networks = quiet('network', 'ls', '-q', '--filter', label).split('\n').filter(Boolean);
      if (networks.length > 0) quiet('network', 'rm', ...networks);
    }
    rmSync(folder, { recursive: true, force: true });
  }
});
