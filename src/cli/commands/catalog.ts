// `windlass catalog`: the apps that stacks can be made from.
import { parse } from 'yaml';
import { Fault } from '../../core/fault.ts';
import type { Command } from '../command.ts';

export const list: Command = {
  words: ['catalog', 'list'],
  summary: 'list the bundled apps',
  usage: '',
  example: 'windlass catalog list',
  arity: [0, 0],
  async run({ io, json, surface }) {
    const { bundled } = (await surface()).house.settings;
    const apps = Object.entries(bundled)
      .filter(([path]) => path.endsWith('/app.yaml'))
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
      for (const app of apps) io.data(`${app.name.padEnd(16)} ${app.version.padEnd(10)} ${app.description}`.trimEnd());
    return 0;
  },
};

export const show: Command = {
  words: ['catalog', 'show'],
  summary: 'print the files of a bundled app',
  usage: 'APP',
  example: 'windlass catalog show postgres',
  arity: [1, 1],
  async run({ io, args, surface }) {
    const { bundled } = (await surface()).house.settings;
    const files = Object.entries(bundled).filter(([path]) => path.startsWith(`${args[0]}/`));
    if (files.length === 0)
      throw new Fault('NOT_FOUND', `there is no bundled app ${args[0]}; \`windlass catalog list\` names them`);
    for (const [path, text] of files) io.data(`# ${path}\n${text.trimEnd()}\n`);
    return 0;
  },
};
