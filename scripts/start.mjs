// `npm start`: runs the controller from the sources. Without --source or --config it serves a scratch copy
// of a sample fleet, a git repository in a temporary folder, and says which file to edit.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import {
  ensureDependencies,
  ensureEngine,
  ensureImages,
  isPresent,
  main,
  projectNode,
  root,
  run,
  SetUpError,
  say,
  scratchFolder,
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
  return await run(projectNode, args, { cwd: userFolder() });
}

async function withSampleFleet(work) {
  if (!isPresent(sample)) {
    throw new SetUpError(`start: the sample fleet ${sample} is missing\n  cure: npm start -- --source URL-OR-PATH`, 1);
  }
  await ensureImages();
  const folder = scratchFolder('start');
  try {
    const fleet = path.join(folder, 'fleet');
    cpSync(path.join(root, sample), fleet, { recursive: true });
    const git = (...args) => execFileSync('git', ['-C', fleet, ...args], { stdio: ['ignore', 'ignore', 'inherit'] });
    git('init', '--quiet', '--initial-branch', 'main');
    git('config', 'user.name', 'Windlass sample');
    git('config', 'user.email', 'sample@localhost');
    git('config', 'commit.gpgsign', 'false');
    git('add', '--all');
    git('commit', '--quiet', '--message', 'Sample fleet');
    const file = composeFiles(fleet)[0];
    say(`start: sample fleet in ${fleet} (removed at the end)`);
    if (file !== undefined) {
      say(`start: to see a change, edit ${file}, then`);
      say(`         git -C ${fleet} commit -am "Change it"`);
    }
    const state = path.join(folder, 'state');
    mkdirSync(state);
    return await work(fleet, state);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The plain Compose files of a fleet, the shallowest first. */
function composeFiles(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((file) => /(^|\/)(docker-)?compose\.ya?ml$/.test(file) && !file.startsWith('apps/'))
    .sort((a, b) => a.split('/').length - b.split('/').length || a.localeCompare(b))
    .map((file) => path.join(folder, file));
}
