// `windlass vault export|import`: all secrets, sealed with age, out of one vault and into another.
import { writeFile } from 'node:fs/promises';
import { type Command, listFlag, textFlag, UsageError } from '../command.ts';
import { EXIT } from '../exit.ts';
import { readBounded } from '../read-bounded.ts';
import { plural } from '../views/diagnostic.ts';

const EXPORT_BYTES = 64 * 1024 * 1024;
const IDENTITY_BYTES = 64 * 1024;

export const exportAll: Command = {
  words: ['vault', 'export'],
  summary: 'write all secrets as one file, encrypted to age recipients',
  usage: '',
  example:
    'windlass vault export --recipient age1xmwwc06ly3ee5rytxm9mflaz2u56jjj36s0mypdrwsvlul66mv4q47ryef --out vault.age',
  arity: [0, 0],
  flags: {
    recipient: { type: 'string', value: 'AGE1…', multiple: true, help: 'who can open it; may be given several times' },
    out: { type: 'string', value: 'FILE', help: 'a new file; default: stdout' },
  },
  async run({ io, json, flags, surface }) {
    const recipients = listFlag(flags, 'recipient');
    if (recipients.length === 0)
      throw new UsageError(
        'who shall be able to open it?\n  help     --recipient age1…; that of another controller is printed there by `windlass vault key`',
      );
    for (const one of recipients)
      if (!/^age1[0-9a-z]{20,4000}$/.test(one))
        throw new UsageError(
          one.startsWith('AGE-SECRET-KEY-')
            ? '--recipient takes the public age1…, not a secret key; change the one that was just given'
            : `--recipient takes an age recipient (age1…), not ${one.slice(0, 80)}`,
        );
    const file = textFlag(flags, 'out');
    const { sealed, count } = await (await surface('state')).vault.export(recipients);
    if (file !== undefined)
      try {
        await writeFile(file, sealed, { mode: 0o600, flag: 'wx' });
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        throw new UsageError(`${file} cannot be written: ${code === 'EEXIST' ? 'it is there already' : code}`);
      }
    if (json) io.reveal(JSON.stringify({ secrets: count, recipients, ...(file ? { file } : { sealed }) }, null, 2));
    else if (file === undefined) io.reveal(sealed.trimEnd());
    io.words(
      `${plural(count, 'secret')} exported for ${plural(recipients.length, 'recipient')}${file ? ` to ${file}` : ''}`,
    );
    return EXIT.done;
  },
};

export const importAll: Command = {
  words: ['vault', 'import'],
  summary: 'take in the secrets of an export; what is there is kept',
  usage: 'FILE',
  example: 'windlass vault import vault.age',
  arity: [1, 1],
  flags: {
    identity: { type: 'string', value: 'FILE', help: 'the age key that opens it; default: that of this controller' },
    overwrite: { type: 'boolean', help: 'replace those that have another value here' },
  },
  async run({ io, json, flags, args, surface }) {
    const sealed = (await readBounded(args[0] ?? '', EXPORT_BYTES, 'an export')).toString('latin1');
    const keyFile = textFlag(flags, 'identity');
    const identity = keyFile === undefined ? null : await readBounded(keyFile, IDENTITY_BYTES, 'an age key');
    const desk = await surface('state');
    const { made, same, changed, kept } = await desk.vault.import(sealed, {
      ...(identity === null ? {} : { identity: identity.toString('utf8') }),
      overwrite: flags['overwrite'] === true,
    });
    if (json) io.json({ made, same, changed, kept });
    for (const { key, scope } of kept) io.words(`kept ${key} of ${scope}: it has another value here`);
    io.words(
      [
        `${made.length} made`,
        `${same.length} there already`,
        ...(changed.length > 0 ? [`${changed.length} overwritten`] : []),
        ...(kept.length > 0 ? [`${kept.length} kept with another value; \`--overwrite\` replaces them`] : []),
      ].join(', '),
    );
    if (made.length + changed.length > 0) await desk.tell('');
    return kept.length > 0 ? EXIT.failed : EXIT.done;
  },
};
