// The `windlass` command from the sources, in the user's folder: dependencies, then src/main.ts.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { ensureDependencies, main, projectNode, root, run, userFolder } from './set-up.mjs';

const entry = path.join(root, 'src', 'main.ts');

await main(async () => {
  await ensureDependencies();
  // `npm run` finds the project's own Node first: then no second process is needed.
  if (Number(process.versions.node.split('.')[0]) >= 24) {
    process.chdir(userFolder());
    process.argv[1] = entry;
    await import(pathToFileURL(entry).href);
    return process.exitCode;
  }
  return await run(projectNode, [entry, ...process.argv.slice(2)], { cwd: userFolder(), oneSignal: true });
});
