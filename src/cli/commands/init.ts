// `windlass init`: a first stack in a git work tree. Overwrites nothing.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Command, UsageError } from '../command.ts';

const FILES: Readonly<Record<string, string>> = {
  'fleet.yaml': 'apiVersion: windlass/v1\nkind: Fleet\n',
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
  summary: 'write a first fleet.yaml and an example stack; overwrites nothing',
  usage: '[FOLDER]',
  example: 'windlass init .',
  arity: [0, 1],
  async run({ io, args }) {
    const folder = args[0] ?? '.';
    const there = Object.keys(FILES).filter((file) => existsSync(join(folder, file)));
    if (there.length > 0) throw new UsageError(`${there.join(', ')} is there already; nothing was written`);
    for (const [file, text] of Object.entries(FILES)) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), text, { flag: 'wx' });
      io.data(join(folder, file));
    }
    io.words(`commit them, then: windlass plan --source ${folder}`);
    return 0;
  },
};
