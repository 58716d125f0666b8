// `windlass backups replicate` and `windlass backups fetch`: copies archives to the other stores of windlass.yaml, and one of theirs back.
import { type Command, textFlag, UsageError } from '../command.ts';
import { EXIT } from '../exit.ts';
import { plural } from '../views/diagnostic.ts';
import { formatSize } from '../views/size.ts';
import { oneLine } from '../views/table.ts';

export const replicate: Command = {
  words: ['backups', 'replicate'],
  summary: 'copy archives that a replica lacks to it now; by default all, to every replica of windlass.yaml',
  usage: '[ID…]',
  example: 'windlass backups replicate --to offsite',
  arity: [0, 100],
  flags: { to: { type: 'string', value: 'NAME', help: 'only to this replica' } },
  async run({ io, json, flags, args, surface, now }) {
    const desk = await surface('state');
    const ids = [];
    for (const said of args) ids.push(await desk.archives.find(said));
    const ended = await desk.replicate({
      signal: now,
      note: (line) => io.words(oneLine(line)),
      ...(ids.length > 0 ? { ids } : {}),
      ...(textFlag(flags, 'to') === undefined ? {} : { to: textFlag(flags, 'to') as string }),
    });
    if (ended.length === 0)
      throw new UsageError(
        'windlass.yaml names no replica\n  help     write one under archives.replicas; `windlass schema controller` shows how',
      );
    if (json) io.json(ended.map(({ name, done, fault }) => ({ replica: name, ...done, fault })));
    else
      for (const { name, done, fault } of ended) {
        if (done)
          io.data(
            `${name}: ${plural(done.archives.length, 'archive')}, ${plural(done.blobs, 'blob')}, ${formatSize(done.sizeBytes)} copied`,
          );
        for (const one of done?.failures ?? [])
          io.data(`  ${one.id.slice(0, 12)}: ${one.code}: ${oneLine(one.message)}`);
        if (fault && !done?.failures.length)
          io.data(`${name}: failed: ${fault.code}: ${oneLine(fault.message)}\n  help     ${fault.help}`);
      }
    const [first] = ended.flatMap(({ name, done }) => (done?.archives ?? []).map((id) => ({ name, id })));
    if (first) {
      const { signedBy } = await desk.archives.show(first.id);
      io.words(
        `to have one on another machine: windlass backups fetch ${first.id.slice(0, 12)} --from ${first.name} --trust-key ${signedBy}`,
      );
    }
    return ended.every((one) => one.fault === null) ? EXIT.done : EXIT.failed;
  },
};

export const fetchOne: Command = {
  words: ['backups', 'fetch'],
  summary: 'bring an archive of a replica back into the archive store; every digest and its signature is checked',
  usage: 'ID',
  example: 'windlass backups fetch 4be1c2d0c7f1 --from offsite --trust-key BASE64',
  arity: [1, 1],
  flags: {
    from: { type: 'string', value: 'NAME', help: 'the replica of windlass.yaml' },
    'trust-key': {
      type: 'string',
      value: 'KEY',
      help: 'the signing key of the controller that made it, when this is another one',
    },
  },
  async run({ io, json, flags, args, surface, now }) {
    const from = textFlag(flags, 'from');
    if (from === undefined) throw new UsageError('name the replica with --from NAME');
    const desk = await surface('state');
    const id = await desk.archivesOf(from).find(args[0] ?? '');
    const done = await desk.bringBack(from, id, textFlag(flags, 'trust-key'), now);
    if (json) io.json({ id, ...done });
    else io.data(`${id}: ${plural(done.blobs, 'blob')}, ${formatSize(done.sizeBytes)} copied`);
    return EXIT.done;
  },
};
