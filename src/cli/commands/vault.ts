// `windlass vault get|list|rm|key`: what is in the vault. A value is shown only to who asks for it by `--reveal`.
import { formatAge } from '../../core/status/format-condition.ts';
import type { SecretName } from '../../surface.ts';
import { type Command, type Flag, type Flags, textFlag, UsageError } from '../command.ts';
import { EXIT } from '../exit.ts';
import { formatTable } from '../views/table.ts';

type Scope = SecretName['scope'];

export const SCOPE_FLAG: Flag = { type: 'string', value: 'SCOPE', help: 'stack/NAME, group/NAME or fleet' };

/** Throws UsageError. `fallback` null = it must be said. */
export function scopeOf(flags: Flags, fallback: Scope | null): Scope {
  const said = textFlag(flags, 'scope');
  if (said === undefined) {
    if (fallback === null)
      throw new UsageError(
        'whose secret is meant?\n  help     name its scope: --scope stack/NAME, --scope group/NAME or --scope fleet',
      );
    return fallback;
  }
  if (said !== 'fleet' && !/^(stack|group)\/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(said))
    throw new UsageError(`--scope takes stack/NAME, group/NAME or fleet, not ${said}`);
  return said as Scope;
}

export const get: Command = {
  words: ['vault', 'get'],
  summary: 'tell whether a secret is there, or show it',
  usage: 'KEY',
  example: 'windlass vault get smtp-password --scope fleet --reveal',
  arity: [1, 1],
  flags: {
    scope: { ...SCOPE_FLAG, help: `${SCOPE_FLAG.help}; default: fleet` },
    reveal: { type: 'boolean', help: 'print the value itself, and nothing else, to stdout' },
  },
  async run({ io, json, flags, args, surface }) {
    const name = { key: args[0] ?? '', scope: scopeOf(flags, 'fleet') };
    const desk = await surface('state');
    if (flags['reveal']) {
      const value = await desk.vault.reveal(name);
      io.reveal(json ? JSON.stringify({ ...name, value }, null, 2) : value);
      return EXIT.done;
    }
    const about = await desk.vault.about(name);
    if (json) io.json(about);
    else {
      const age = formatAge(desk.house.clock.nowMs() - about.updatedAtMs);
      io.data(`${name.key} of ${name.scope} is there: set ${age} ago, ${about.length}`);
    }
    return EXIT.done;
  },
};

export const list: Command = {
  words: ['vault', 'list'],
  summary: 'list the names of the secrets',
  usage: '',
  example: 'windlass vault list',
  arity: [0, 0],
  flags: { scope: { ...SCOPE_FLAG, help: `only those of ${SCOPE_FLAG.help}` } },
  async run({ io, json, flags, surface }) {
    const scope = flags['scope'] === undefined ? null : scopeOf(flags, null);
    const desk = await surface('state');
    const secrets = (await desk.vault.list()).filter((one) => scope === null || one.scope === scope);
    const now = desk.house.clock.nowMs();
    if (json) io.json(secrets);
    else if (secrets.length === 0) io.words('the vault holds no secret');
    else
      io.data(
        formatTable(
          ['SCOPE', 'KEY', 'SET'],
          secrets.map((one) => [one.scope, one.key, `${formatAge(now - one.updatedAtMs)} ago`]),
          io.width,
        ),
      );
    return EXIT.done;
  },
};

export const rm: Command = {
  words: ['vault', 'rm'],
  summary: 'remove a secret for good',
  usage: 'KEY',
  example: 'windlass vault rm smtp-password --scope fleet --yes',
  arity: [1, 1],
  flags: { scope: SCOPE_FLAG, yes: { type: 'boolean', short: 'y', help: 'do not ask' } },
  async run({ io, json, flags, args, surface, stop }) {
    const name = { key: args[0] ?? '', scope: scopeOf(flags, null) };
    const desk = await surface('state');
    if (!flags['yes']) {
      await desk.vault.about(name);
      if (!io.interactive)
        throw new UsageError('nobody is there to say yes\n  help     a removed secret does not come back; give --yes');
      if (!(await io.confirm(`Remove ${name.key} of ${name.scope} for good?`, stop))) {
        const { DeclinedError } = await import('../../engine/pipeline.ts');
        throw new DeclinedError();
      }
    }
    await desk.vault.remove(name);
    if (json) io.json({ ...name, removed: true });
    io.words(`${name.key} of ${name.scope} is removed; a stack that has it minted gets a new one with its next deploy`);
    return EXIT.done;
  },
};

export const key: Command = {
  words: ['vault', 'key'],
  summary: 'print the age recipient of this controller, to encrypt for it',
  usage: '',
  example: 'windlass vault key',
  arity: [0, 0],
  async run({ io, json, surface }) {
    const recipient = await (await surface('state')).vault.recipient();
    if (json) io.json({ recipient });
    else io.data(recipient);
    return EXIT.done;
  },
};
