// `windlass init`: a first stack in a git work tree. Overwrites nothing.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type Command, UsageError } from '../command.ts';

const FILES: Readonly<Record<string, string>> = {
  'fleet.yaml': `# Where the stacks are, and what holds for all of them. \`windlass schema Fleet\` prints all keys.
apiVersion: windlass/v1
kind: Fleet
`,
  'stacks/hello/compose.yaml': `services:
  web:
    image: nginx:1
    ports: ["127.0.0.1:8080:80"]
    volumes: ["./index.html:/usr/share/nginx/html/index.html:ro"]
`,
  'stacks/hello/index.html': '<h1>Hello from git</h1>\n',
};

export const command: Command = {
  words: ['init'],
  summary: 'write a first fleet.yaml and an example stack into a git work tree; overwrites nothing',
  usage: '[FOLDER]',
  example: 'windlass init .',
  arity: [0, 1],
  async run({ io, json, args }) {
    const folder = args[0] ?? '.';
    if (!isInWorkTree(resolve(folder)))
      throw new UsageError(`${folder} is no git work tree\n  help     make one first: git init -b main ${folder}`);
    const there = Object.keys(FILES).filter((file) => existsSync(join(folder, file)));
    if (there.length > 0) throw new UsageError(`${there.join(', ')} is there already; nothing was written`);
    for (const [file, text] of Object.entries(FILES)) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), text, { flag: 'wx' });
    }
    const written = Object.keys(FILES).map((file) => join(folder, file));
    if (json) io.json(written);
    else io.data(written.join('\n'));
    io.words(`commit them, then: windlass plan --source ${folder}`);
    return 0;
  },
};

/** A folder of ours or above it holds `.git`: a folder, or the file of a linked work tree. */
function isInWorkTree(folder: string): boolean {
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(join(at, '.git'))) return true;
    if (at === dirname(at)) return false;
  }
}
