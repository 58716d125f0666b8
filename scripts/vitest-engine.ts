// Fails every test file that needs an engine, with the cure, when none answers: such tests are never skipped.
import { execFileSync } from 'node:child_process';

try {
  execFileSync('docker', ['version', '--format', '{{.Server.Version}}'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: 15_000,
  });
} catch (cause) {
  throw new Error(
    'No Docker engine answers, and this suite needs a real one.\n  cure: run scripts/engine, then the test again',
    {
      cause,
    },
  );
}
