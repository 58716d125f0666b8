// `node scripts/bundle.mjs FOLDER`: the program in a few files, FOLDER/bundle/main.mjs, from the sources as they are. For tests that
// start it some hundred times: most of a start from src/ is finding and reading more than a thousand modules.
import { symlinkSync } from 'node:fs';
import path from 'node:path';
import { build } from 'vite';
import { main, root } from './set-up.mjs';

await main(async () => {
  const folder = path.resolve(process.argv[2]);
  // What the program looks for beside the folder that it is in; and what stays outside, for it brings files of its own.
  for (const name of ['package.json', 'apps', 'node_modules'])
    symlinkSync(path.join(root, name), path.join(folder, name));
  await build({
    root,
    configFile: false,
    publicDir: false,
    logLevel: 'error',
    build: {
      ssr: 'src/main.ts',
      outDir: path.join(folder, 'bundle'),
      minify: false,
      target: 'node24',
      rolldownOptions: { output: { entryFileNames: 'main.mjs', chunkFileNames: '[name]-[hash].mjs' } },
    },
    ssr: { target: 'node', noExternal: true, external: ['minijinja-js', 'ssh2'] },
  });
  return 0;
});
