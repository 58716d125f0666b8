#!/usr/bin/env node
// Process entry: argv in, exit code out. Heavy modules are loaded by the command that needs them.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Flags, Needs, Opened } from './cli/command.ts';
import type { SourceSpec } from './ports/source.ts';

// Node says that node:sqlite is new; that is no news for a user.
process.removeAllListeners('warning');
process.on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') process.stderr.write(`${warning.name}: ${warning.message}\n`);
});

/** What a signal asked for and did not get within this time is not waited for. */
const GRACE_MS = 5_000;

const argv = process.argv.slice(2);
if (argv[0] === '--version' || argv[0] === 'version') {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  process.stdout.write(`windlass ${version}\n`);
} else process.exitCode = await main();

async function main(): Promise<number> {
  const [{ Io }, { runCli }, { redactor }, { Fault }] = await Promise.all([
    import('./cli/io.ts'),
    import('./cli/cli.ts'),
    import('./adapters/process/redact.ts'),
    import('./core/fault.ts'),
  ]);
  const io = new Io(
    { out: process.stdout, err: process.stderr, in: process.stdin },
    { redact: (text) => redactor.redact(text) },
  );
  const stop = new AbortController();
  const now = new AbortController();
  let drains = false;
  const leave = (): void => {
    setTimeout(() => process.exit(1), GRACE_MS).unref();
    now.abort(new Fault('CANCELLED', 'stopped at once'));
  };
  const onSignal = (): void => {
    if (now.signal.aborted) process.exit(1);
    if (drains && !stop.signal.aborted)
      io.words('finishing what runs; press again to leave at once. Run the same command again to go on');
    else if (drains) io.words('leaving at once; run the same command again to go on');
    const isSecond = stop.signal.aborted;
    stop.abort(new Fault('CANCELLED', 'stopped'));
    if (isSecond || !drains) leave();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  const code = await runCli({
    io,
    argv,
    rawObjects: async () => (await import('./adapters/git/raw-objects.ts')).rawObjectSource(),
    clone: async () => (await import('./adapters/git/clone.ts')).cloneHere(),
    bundled: async () => (await import('./wire.ts')).bundledApps(),
    stop: stop.signal,
    now: now.signal,
    onCommand: (command) => {
      drains = command.drains ?? false;
    },
    open: (flags, needs) => open(flags, needs, (line) => io.words(line)),
  });
  process.off('SIGINT', onSignal);
  process.off('SIGTERM', onSignal);
  return code;
}

/** What a command works on: which repository and state directory are meant. Throws UsageError and Faults of the state directory. */
async function open(flags: Flags, needs: Needs, say: (line: string) => void): Promise<Opened> {
  const { cloneAround, settingsOf } = await import('./settings.ts');
  const detached = needs === 'scratch';
  let settings = await settingsOf(flags, { detached });
  if (settings.source === null && needs === 'scratch')
    settings = await settingsOf({ ...flags, source: cloneAround('.'), ref: 'HEAD' }, { detached });
  const { source, unheard, pollMs, intervalMs, ...said } = settings;
  if (unheard.length > 0) say(`warning: windlass.yaml says what this version does not do: ${unheard.join(', ')}`);
  const { NAME_A_SOURCE, NO_SOURCE, unnamedSource } = await import('./operations/unnamed-source.ts');
  if (source === null && needs !== 'state') {
    const { UsageError } = await import('./cli/command.ts');
    throw new UsageError(`${NO_SOURCE}\n  help     ${NAME_A_SOURCE}`);
  }
  const [{ openHouse }, { Surface }, { SOURCE_KEY }] = await Promise.all([
    import('./wire.ts'),
    import('./surface.ts'),
    import('./operations/lineage.ts'),
  ]);
  // Only the flag asks for a lasting one: what a controller of this machine works with must not see another repository.
  const isScratch = needs === 'scratch' && flags['state'] === undefined;
  const scratch = isScratch ? mkdtempSync(join(tmpdir(), 'windlass-')) : null;
  const options = { ...said, stateDir: scratch ?? said.stateDir };
  // An address that is never asked, until the state says which repository it belongs to.
  const nowhere: SourceSpec = { name: 'main', url: options.stateDir, ref: 'main' };
  let house = await openHouse({ ...options, source: source ?? nowhere });
  if (source === null) {
    const remembered = house.store.value(SOURCE_KEY) as SourceSpec | undefined;
    if (remembered) {
      await house.close();
      house = await openHouse({ ...options, source: remembered });
    } else house = { ...house, source: unnamedSource(nowhere.name) };
  }
  return {
    surface: new Surface(house),
    ...(pollMs === undefined ? {} : { pollMs }),
    ...(intervalMs === undefined ? {} : { intervalMs }),
    async close() {
      await house.close();
      if (scratch) rmSync(scratch, { recursive: true, force: true });
    },
  };
}
