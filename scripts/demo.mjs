// `npm run demo`: the main job end to end on a scratch fleet, in about a minute, leaving nothing behind: a push, the plan, converge,
// a second plan that is empty, an edited mounted file, drift and heal, a failing push that disturbs nothing else, a hook sequence, a backup,
// and a restore that runs only once two people have signed for it.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
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
    volumes: ["notes:/notes"]
volumes: { notes: {} }
`;
const HOOKS = `apiVersion: windlass/v1
kind: Stack
hooks:
  post_update:
    - scale: { worker: 0 }
    - job: reindex
    - scale: { worker: "ref+hook://previous" }
`;
const REINDEX = `apiVersion: windlass/v1
kind: Job
service: worker
script: echo "nobody works while the index is made"
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
const PEOPLE = ['anna', 'bert', 'cleo'];
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
  const asPerson = (name) => {
    say(`# ${name} signs`);
    git('config', 'user.signingkey', path.join(folder, `${name}.pub`));
  };
  const quiet = (...args) =>
    execFileSync('docker', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  /** Runs the CLI as a user would; `expected` is the exit code that this moment of the demo stands for. */
  const windlass = (expected, ...args) =>
    program(expected, folder, [...args, '--source', bare, '--state', state, '--settle', '2s'], args);
  /** In the clone of a person; answers what it prints. */
  const inClone = (...args) => program(0, clone, args, args);
  const program = async (expected, cwd, command, shown) => {
    say(`$ windlass ${shown.join(' ')}`);
    let out = '';
    const code = await new Promise((resolve, reject) => {
      const main = path.join(root, 'src/main.ts');
      const child = spawn(projectNode, ['--disable-warning=ExperimentalWarning', main, ...command], {
        cwd,
        env: { ...projectEnvironment(), GIT_CONFIG_NOSYSTEM: '1', HOME: folder },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      child.stdout.on('data', (chunk) => {
        out += chunk;
        process.stdout.write(chunk);
      });
      child.once('error', reject);
      child.once('close', resolve);
    });
    if (code !== expected) throw new SetUpError(`demo: expected exit code ${expected}, got ${code}`, 1);
    return out.trim();
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
  const canSign = (process.env.PATH ?? '')
    .split(path.delimiter)
    .some((one) => existsSync(path.join(one, 'ssh-keygen')));
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

    if (canSign) {
      title('   Three people who may destroy data together, never alone; the controller is told who they are');
      for (const name of PEOPLE)
        execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', path.join(folder, name)]);
      for (const [key, value] of Object.entries({
        'user.name': 'Demo',
        'user.email': 'demo@localhost',
        'gpg.format': 'ssh',
      }))
        git('config', key, value);
      asPerson('anna');
      const admins = PEOPLE.flatMap((name) => ['--admin', `${name}=${path.join(folder, `${name}.pub`)}`]);
      const anchor = await inClone('trust', 'init', ...admins, '--threshold', '2');
      writeFileSync(path.join(folder, 'windlass.yaml'), `apiVersion: windlass/v1\nkind: Controller\n${anchor}\n`);
      git('push', '-q', 'origin', 'HEAD:main');
    } else say('\n  (no ssh-keygen on this machine: what needs signatures is left out)');

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
      { cwd: folder, env: projectEnvironment(), stdio: ['ignore', 'inherit', 'inherit'] },
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

    title('8. A hook sequence: after each update the worker rests while its index is made, and comes back');
    push(
      {
        'stacks/wlt-demo-jobs/stack.yaml': HOOKS,
        'stacks/wlt-demo-jobs/reindex.job.yaml': REINDEX,
        'stacks/wlt-demo-jobs/compose.yaml': JOBS('echo migrated once more'),
      },
      'Reindex after updates',
    );
    await windlass(0, 'wait', 'wlt-demo-jobs', '--for', 'Ready', '--revision', 'head', '--timeout', '60s');
    await windlass(0, 'hooks', 'show', 'wlt-demo-jobs');
    await windlass(0, 'history', 'wlt-demo-jobs', '--limit', '1');

    title('9. A backup: everything that reconstructs the stack, and its data');
    const notes = 'wlt-demo-shop-side-1';
    docker('exec', notes, 'sh', '-c', 'echo "three orders" > /notes/orders');
    const archive = await windlass(0, 'backup', 'wlt-demo-shop');
    docker('exec', notes, 'sh', '-c', 'echo "oops" > /notes/orders');

    if (canSign) {
      title('10. A restore is asked for in git, and runs only when two others have signed it; once');
      asPerson('anna');
      const about = ['--archive', archive, '--reason', 'the orders were overwritten', '--id', 'orders', '--yes'];
      await inClone('request', 'restore', 'wlt-demo-shop', ...about);
      asPerson('bert');
      await inClone('approve', 'orders', '--yes');
      git('push', '-q', 'origin', 'HEAD:main');
      await windlass(0, 'requests', 'orders');
      asPerson('cleo');
      await inClone('approve', 'orders', '--yes');
      git('push', '-q', 'origin', 'HEAD:main');
      const orders = () => {
        try {
          return quiet('exec', notes, 'cat', '/notes/orders');
        } catch {
          return '';
        }
      };
      await healed(() => orders() === 'three orders', 'the orders are back');
      await windlass(0, 'requests', 'orders');
    }
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
      const volumes = quiet('volume', 'ls', '-q', '--filter', label).split('\n').filter(Boolean);
      if (volumes.length > 0) quiet('volume', 'rm', ...volumes);
      const networks = quiet('network', 'ls', '-q', '--filter', label).split('\n').filter(Boolean);
      if (networks.length > 0) quiet('network', 'rm', ...networks);
    }
    rmSync(folder, { recursive: true, force: true });
  }
});
