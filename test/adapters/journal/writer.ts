// Writer: a process of its own that writes journal entries as fast as it can and says each one that was acknowledged. It is killed by the test.
import { openStore } from '../../../src/adapters/journal/store.ts';

const [directory, run] = process.argv.slice(2);
const store = openStore({ directory: directory! });
for (let at = 0; ; at += 1) {
  store.journal({ run: run!, phase: 'p', target: 't', step: String(at), event: 'start', outcome: 'started', atMs: at });
  // Something bigger in between, so that kills also meet half-written transactions of several pages.
  store.putValue('filler', 'x'.repeat(20_000) + at);
  process.stdout.write(`${at}\n`);
}
