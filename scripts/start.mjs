// `npm start`: runs the controller from the sources. Without --source or --config it serves a scratch copy
// of a sample fleet, a git repository in a temporary folder, and says which file to edit.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  ensureDependencies,
  ensureEngine,
  ensureImages,
  isAlive,
  isPresent,
  main,
  projectNode,
  root,
  run,
  SetUpError,
  say,
  userFolder,
} from './set-up.mjs';

const sample = path.join('fixtures', 'compose-fleet');
const given = process.argv.slice(2);
const names = (...flags) => given.some((word) => flags.some((flag) => word === flag || word.startsWith(`${flag}=`)));

await main(async () => {
  await ensureDependencies();
  const command = [path.join(root, 'src', 'main.ts'), 'run'];
  if (names('--help', '-h')) return await controller([...command, ...given]);
  await ensureEngine();
  if (names('--source', '--config')) return await controller([...command, ...given]);
  return await withSampleFleet(async (fleet, state) => {
    process.env.WINDLASS_STATE ??= state;
    return await controller([...command, '--source', fleet, ...given]);
  });
});

async function controller(args) {
  return await run(projectNode, args, { cwd: userFolder(), oneSignal: true });
}

/** Runs the work over the scratch fleet; at the end the fleet and what was deployed from it go. */
async function withSampleFleet(work) {
  if (!isPresent(sample)) {
    throw new SetUpError(`start: the sample fleet ${sample} is missing\n  cure: npm start -- --source URL-OR-PATH`, 1);
  }
  await ensureImages();
  // One folder for all runs: a run that was killed is gone on with, as its stacks may still be there.
  const folder = path.join(tmpdir(), 'windlass-start');
  const fleet = path.join(folder, 'fleet');
  const state = path.join(folder, 'state');
  mkdirSync(folder, { recursive: true });
  claim(path.join(folder, 'pid'));
  try {
    if (!existsSync(path.join(fleet, '.git', 'refs', 'heads', 'main'))) layFleet(fleet);
    mkdirSync(state, { recursive: true });
    const file = composeFiles(fleet)[0];
    say(`start: sample fleet in ${fleet} (at the end it is removed, and so are its stacks)`);
    if (file !== undefined) {
      say(`start: to see a change, edit ${file}, then`);
      say(`         git -C ${fleet} commit -am "Change it"`);
    }
    return await work(fleet, state);
  } finally {
    await removeStacks(folder);
    rmSync(folder, { recursive: true, force: true });
  }
}

function claim(file) {
  if (existsSync(file) && isAlive(Number(readFileSync(file, 'utf8')))) {
    throw new SetUpError(`start: another \`npm start\` serves the sample fleet (${path.dirname(file)})`, 6);
  }
  writeFileSync(file, String(process.pid));
}

function layFleet(fleet) {
  rmSync(fleet, { recursive: true, force: true });
  cpSync(path.join(root, sample), fleet, { recursive: true });
  const git = (...args) => execFileSync('git', ['-C', fleet, ...args], { stdio: ['ignore', 'ignore', 'inherit'] });
  git('init', '--quiet', '--initial-branch', 'main');
  git('config', 'user.name', 'Windlass sample');
  git('config', 'user.email', 'sample@localhost');
  git('config', 'commit.gpgsign', 'false');
  git('add', '--all');
  git('commit', '--quiet', '--message', 'Sample fleet');
}

/** Only projects whose own folder lies under ours: the samples' names may be somebody's elsewhere. */
async function removeStacks(folder) {
  const label = 'com.docker.compose.project';
  const format = `{{.Label "${label}"}}\t{{.Label "${label}.working_dir"}}`;
  const list = execFileSync('docker', ['ps', '--all', '--filter', `label=${label}`, '--format', format], {
    encoding: 'utf8',
  });
  const ours = list.split('\n').flatMap((line) => {
    const [name, at = ''] = line.split('\t');
    return at.startsWith(`${folder}/`) ? [name] : [];
  });
  const projects = [...new Set(ours)];
  if (projects.length === 0) return;
  say(`start: removing ${projects.join(', ')}`);
  const down = ['down', '--volumes', '--rmi', 'local', '--remove-orphans', '--timeout', '1'];
  const quiet = { cwd: folder, stdio: ['ignore', 'ignore', 'ignore'] };
  await Promise.all(projects.map((name) => run('docker', ['compose', '--project-name', name, ...down], quiet)));
}

/** The plain Compose files of a fleet, the shallowest first. */
function composeFiles(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((file) => /(^|\/)(docker-)?compose\.ya?ml$/.test(file) && !file.startsWith('apps/'))
    .sort((a, b) => a.split('/').length - b.split('/').length || a.localeCompare(b))
    .map((file) => path.join(folder, file));
}
