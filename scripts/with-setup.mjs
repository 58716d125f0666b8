// Runs a command after the set-up it needs, with the project's own tools first on PATH.
//   node scripts/with-setup.mjs [engine] [images] [--cwd user|root] -- COMMAND ARGS
import { ensureDependencies, ensureEngine, ensureImages, main, root, run, say, userFolder } from './set-up.mjs';

const split = process.argv.indexOf('--');
const words = process.argv.slice(2, split);
const [command, ...args] = process.argv.slice(split + 1);
let cwd = root;
const needs = new Set();
let wrong = split === -1 || command === undefined;
for (let at = 0; at < words.length && !wrong; at += 1) {
  const word = words[at];
  if (word === 'engine' || word === 'images') needs.add(word);
  else if (word === '--cwd' && ['user', 'root'].includes(words[at + 1])) {
    at += 1;
    if (words[at] === 'user') cwd = userFolder();
  } else wrong = true;
}

await main(async () => {
  if (wrong) {
    say('usage: node scripts/with-setup.mjs [engine] [images] [--cwd user|root] -- COMMAND ARGS');
    return 2;
  }
  await ensureDependencies();
  if (needs.has('engine')) await ensureEngine();
  if (needs.has('images')) await ensureImages();
  return await run(command, args, { cwd });
});
