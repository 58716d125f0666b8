// The `windlass` command from the sources, in the user's folder: dependencies, then src/main.ts.
import path from 'node:path';
import { ensureDependencies, main, projectNode, root, run, userFolder } from './set-up.mjs';

await main(async () => {
  await ensureDependencies();
  const args = ['--disable-warning=ExperimentalWarning', path.join(root, 'src', 'main.ts'), ...process.argv.slice(2)];
  return await run(projectNode, args, { cwd: userFolder() });
});
