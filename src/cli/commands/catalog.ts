// `windlass catalog`: the apps that stacks can be made from.
import { Fault } from '../../core/fault.ts';
import type { Command } from '../command.ts';
import { formatTable } from '../views/table.ts';

export const list: Command = {
  words: ['catalog', 'list'],
  summary: 'list the bundled apps',
  usage: '',
  example: 'windlass catalog list',
  arity: [0, 0],
  async run({ io, json, bundled }) {
    const { parse } = await import('yaml');
    const apps = Object.entries(await bundled())
      .filter(([path]) => /^[^/]+\/app\.yaml$/.test(path))
      .map(([path, text]) => {
        const spec = parse(text) as { name?: string; version?: string; description?: string };
        return {
          name: spec.name ?? path.split('/')[0] ?? '',
          version: String(spec.version ?? ''),
          description: spec.description ?? '',
        };
      });
    if (json) io.json(apps);
    else
      io.data(
        formatTable(
          ['APP', 'VERSION', 'DESCRIPTION'],
          apps.map((app) => [app.name, app.version, app.description]),
          io.width,
        ),
      );
    return 0;
  },
};

export const show: Command = {
  words: ['catalog', 'show'],
  summary: 'print the files of a bundled app',
  usage: 'APP',
  example: 'windlass catalog show postgres',
  arity: [1, 1],
  async run({ io, json, args, bundled }) {
    const files = Object.entries(await bundled()).filter(([path]) => path.startsWith(`${args[0]}/`));
    if (files.length === 0)
      throw new Fault('NOT_FOUND', `there is no bundled app ${args[0]}; \`windlass catalog list\` names them`);
    if (json) io.json(Object.fromEntries(files));
    else for (const [path, text] of files) io.data(`# ${path}\n${text.trimEnd()}\n`);
    return 0;
  },
};
