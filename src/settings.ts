// Settings of one call: flags before environment before windlass.yaml before defaults. Reads, decides nothing else.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, isAbsolute, join, resolve } from 'node:path';
import { durationFlag, type Flags, textFlag, UsageError } from './cli/command.ts';
import type { Controller } from './core/spec/controller.ts';
import { parseDuration } from './core/spec/duration.ts';
import type { HouseOptions } from './wire.ts';

const CONFIG_BYTES = 1024 * 1024;

export class InvalidConfig extends Error {
  override readonly name = 'InvalidConfig';
  readonly diagnostics: readonly unknown[];
  constructor(diagnostics: readonly unknown[]) {
    super('the controller configuration is invalid');
    this.diagnostics = diagnostics;
  }
}

/** Throws UsageError, InvalidConfig. */
export async function settingsOf(flags: Flags): Promise<HouseOptions> {
  const config = await configOf(textFlag(flags, 'config'));
  const declared = config?.sources?.[0];
  const url = textFlag(flags, 'source') ?? process.env['WINDLASS_SOURCE'] ?? declared?.url;
  if (!url)
    throw new UsageError(
      'no repository is named\n  help     give --source URL-OR-PATH (for example --source . in a clone), set WINDLASS_SOURCE, or write it into windlass.yaml',
    );
  const settle = flags['settle'] === undefined ? duration(config?.reconcile?.settle) : durationFlag(flags, 'settle', 0);
  const host = textFlag(flags, 'host') ?? config?.nodes?.['local']?.host;
  const { concurrency, pruneLimit } = config?.reconcile ?? {};
  return {
    stateDir: stateDirOf(textFlag(flags, 'state') ?? process.env['WINDLASS_STATE'] ?? config?.state),
    source: {
      name: declared?.name ?? 'main',
      url: addressOf(url),
      ref: textFlag(flags, 'ref') ?? declared?.ref ?? 'main',
    },
    ...(host ? { host } : {}),
    ...(settle === undefined ? {} : { settleMs: settle }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(pruneLimit === undefined ? {} : { pruneLimit: pruneLimit / 100 }),
  };
}

async function configOf(named: string | undefined): Promise<Controller | null> {
  const file = named ?? 'windlass.yaml';
  if (!existsSync(file)) {
    if (named === undefined) return null;
    throw new UsageError(`there is no file ${file}`);
  }
  if (statSync(file).size > CONFIG_BYTES) throw new UsageError(`${file} is too large for a configuration`);
  const { checkText } = await import('./core/spec/check.ts');
  const checked = checkText('Controller', basename(file), readFileSync(file, 'utf8'));
  if (checked.value === null) throw new InvalidConfig(checked.diagnostics);
  return checked.value;
}

const duration = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : (parseDuration(text) ?? undefined);

/** A path of a local repository becomes absolute; everything else is left to the source to judge. */
function addressOf(url: string): string {
  const remote = /^[a-z][a-z0-9+.-]*:\/\//i.test(url) || (/^[^/\s]+@?[^/\s]*:/.test(url) && !existsSync(url));
  return remote || isAbsolute(url) ? url : resolve(url);
}

function stateDirOf(said: string | undefined): string {
  if (said) return resolve(said);
  if (process.getuid?.() === 0) return '/var/lib/windlass';
  return join(process.env['XDG_STATE_HOME'] || join(homedir(), '.local', 'state'), 'windlass');
}
