// `npm test`: set-up, checks, then every suite. With arguments it passes them to `vitest run` and skips the
// checks; the engine is then set up only when a suite that needs it is among the chosen ones.
// The last line is the count of real results, "N passed, N failed".
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import {
  ensureDependencies,
  ensureEngine,
  ensureImages,
  isPresent,
  main,
  root,
  run,
  SetUpError,
  say,
  scratchFolder,
} from './set-up.mjs';

const given = process.argv.slice(2);
// The options of vitest whose next word is their value, not a file filter.
const withValue =
  /^(-t|--testNamePattern|--project|--reporter|--outputFile|--testTimeout|--bail|--retry|--maxWorkers|--shard)$/;
const filters = given.filter((word, at) => !word.startsWith('-') && !withValue.test(given[at - 1] ?? ''));

await main(async () => {
  await ensureDependencies();
  if (needsEngine()) await setUpEngine();
  const checked = given.length > 0 ? 0 : await run('node', ['scripts/check.mjs']);
  const folder = scratchFolder('test');
  try {
    const results = path.join(folder, 'results.json');
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${results}`];
    // Tests start the CLI some hundred times; without this each start compiles all modules anew.
    process.env.NODE_COMPILE_CACHE ??= path.join(folder, 'compiled');
    await bundle(folder);
    const tested = await run('vitest', ['run', ...reporters, ...given]);
    if (checked !== 0) console.log('the checks before the tests failed, see above');
    const failed = printCount(results);
    return checked || tested || (failed > 0 ? 1 : 0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

function needsEngine() {
  const project = given.find((word, at) => word.startsWith('--project=') || given[at - 1] === '--project');
  if (project !== undefined) return !project.endsWith('unit');
  const files = ['test/e2e', 'test/contract'].flatMap((folder) => filesUnder(folder));
  return filters.length === 0 || files.some((file) => filters.some((filter) => matches(file, filter)));
}

function filesUnder(folder) {
  if (!isPresent(folder)) return [];
  return readdirSync(path.join(root, folder), { recursive: true }).map((file) => path.join(folder, file));
}

/** As vitest does: a filter is a part of the path; it may also be absolute, or end in a line number. */
function matches(file, filter) {
  const part = filter.replace(/:\d+$/, '').replace(/^\.\//, '').replace(/\/$/, '');
  return path.join(root, file).includes(part);
}

/** Without an engine the other suites still run; those that need it fail, each with the cure. */
async function setUpEngine() {
  try {
    await ensureEngine();
    await ensureImages();
  } catch (error) {
    if (!(error instanceof SetUpError)) throw error;
    say(`${error.message}: the suites in test/e2e and test/contract will fail`);
  }
}

/** Suites start the program from a bundle; where there is none, from the sources, which takes longer. */
async function bundle(folder) {
  const to = path.join(folder, 'program');
  mkdirSync(to);
  if ((await run('node', ['scripts/bundle.mjs', to])) === 0)
    process.env.WINDLASS_TEST_PROGRAM = path.join(to, 'bundle', 'main.mjs');
  else say('the program could not be bundled: the suites start it from the sources');
}

/** Prints the closing line; a file that could not even be loaded counts as one failure. */
function printCount(results) {
  let report;
  try {
    report = JSON.parse(readFileSync(results, 'utf8'));
  } catch {
    console.log('vitest left no results\n0 passed, 1 failed');
    return 1;
  }
  const broken = report.testResults.filter(
    (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
  ).length;
  const failed = report.numFailedTests + broken;
  const left = report.numPendingTests + report.numTodoTests;
  if (left > 0) console.log(`${left} not run (skipped, todo or left out by a name filter)`);
  console.log(`${report.numPassedTests} passed, ${failed} failed`);
  return failed;
}
