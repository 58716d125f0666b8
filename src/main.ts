#!/usr/bin/env node
// Process entry: argv in, exit code out. Heavy modules are loaded by the command that needs them.
import { readFileSync } from 'node:fs';

// Node says that node:sqlite is new; that is no news for a user.
process.removeAllListeners('warning');
process.on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') process.stderr.write(`${warning.name}: ${warning.message}\n`);
});

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
  const io = new Io({ out: process.stdout, err: process.stderr, in: process.stdin });
  const stop = new AbortController();
  const now = new AbortController();
  const onSignal = (): void => {
    if (stop.signal.aborted) {
      now.abort(new Fault('CANCELLED', 'stopped at once'));
      io.words('leaving at once; run the same command again to go on');
      return;
    }
    io.words('finishing what runs; press again to leave at once. Run the same command again to go on');
    stop.abort(new Fault('CANCELLED', 'stopped'));
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  const code = await runCli({
    io,
    argv,
    redact: (text) => redactor.redact(text),
    rawObjects: async () => (await import('./adapters/git/raw-objects.ts')).rawObjectSource(),
    stop: stop.signal,
    now: now.signal,
    open: async (flags) => {
      const [{ openHouse }, { Surface }, { settingsOf }] = await Promise.all([
        import('./wire.ts'),
        import('./surface.ts'),
        import('./settings.ts'),
      ]);
      const house = await openHouse(await settingsOf(flags));
      return { surface: new Surface(house), close: () => house.close() };
    },
  });
  process.off('SIGINT', onSignal);
  process.off('SIGTERM', onSignal);
  return code;
}
