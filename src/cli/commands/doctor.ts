// `windlass doctor`: is everything there that Windlass needs? One line a check, with its cure.
import { access, constants, statfs } from 'node:fs/promises';
import { asFault } from '../../core/fault.ts';
import type { Command } from '../command.ts';
import { EXIT } from '../exit.ts';

const FREE_BYTES = 1024 ** 3;
const LEAST_COMPOSE = [2, 40];

export const command: Command = {
  words: ['doctor'],
  summary: 'check engine, Compose, source, state directory and controller',
  usage: '',
  example: 'windlass doctor',
  arity: [0, 0],
  async run({ io, json, surface }) {
    const desk = await surface();
    const { house } = desk;
    const checks: { check: string; ok: boolean; says: string; help: string }[] = [];
    const check = async (name: string, look: () => Promise<string>): Promise<void> => {
      try {
        checks.push({ check: name, ok: true, says: await look(), help: '' });
      } catch (error) {
        const fault = asFault(error, 'ENGINE_REFUSED');
        checks.push({ check: name, ok: false, says: house.redact(fault.message), help: fault.help });
      }
    };
    await check('engine', async () => {
      const info = await house.runtime.info();
      return `${info.version} (API ${info.apiVersion}) ${info.name}`;
    });
    await check('compose', async () => {
      const { composeVersion } = await house.runtime.info();
      const [major = 0, minor = 0] = composeVersion.replace(/^v/, '').split('.').map(Number);
      if (major < LEAST_COMPOSE[0]! || (major === LEAST_COMPOSE[0] && minor < LEAST_COMPOSE[1]!))
        throw new Error(`Compose ${composeVersion} is older than ${LEAST_COMPOSE.join('.')}`);
      return composeVersion;
    });
    await check('source', async () => `${house.source.spec.url} is at ${(await house.source.fetch()).slice(0, 12)}`);
    await check('state', async () => {
      await access(house.settings.stateDir, constants.R_OK | constants.W_OK);
      const facts = await statfs(house.settings.stateDir);
      const free = facts.bavail * facts.bsize;
      if (free < FREE_BYTES)
        throw new Error(`only ${Math.round(free / 2 ** 20)} MiB are free in ${house.settings.stateDir}`);
      return `${house.settings.stateDir}, ${Math.round(free / 2 ** 30)} GiB free`;
    });
    const controller = desk.controller();
    checks.push({
      check: 'controller',
      ok: true,
      says: controller ? `runs: ${controller.owner}` : 'does not run on this state directory',
      help: '',
    });
    if (json) io.json(checks);
    else
      for (const one of checks) {
        io.data(`${one.ok ? io.paint('green', 'ok  ') : io.paint('red', 'FAIL')} ${one.check.padEnd(10)} ${one.says}`);
        if (!one.ok) io.data(`     ${''.padEnd(10)} help: ${one.help}`);
      }
    return checks.every((one) => one.ok) ? EXIT.done : EXIT.failed;
  },
};
