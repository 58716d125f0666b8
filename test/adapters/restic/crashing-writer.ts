// A writer that is killed in the middle of a payload: argv = directory of the traces, repository, password file, cache. Says `half` when
// restic has got some of it, and goes on for ever.
import { setTimeout as sleep } from 'node:timers/promises';
import { run, spawnStream } from '../../../src/adapters/process/run.ts';
import { ResticRepository } from '../../../src/adapters/restic/repository.ts';

const [directory = '', repository = '', passwordFile = '', cacheDirectory = ''] = process.argv.slice(2);
const signal = new AbortController().signal;

async function* endless(): AsyncGenerator<Uint8Array> {
  for (let chunk = 0; ; chunk++) {
    yield Buffer.alloc(1024 * 1024, chunk);
    if (chunk === 8) process.stdout.write('half\n');
    if (chunk >= 8) await sleep(50);
  }
}

const writer = await new ResticRepository({
  programs: { run, spawnStream },
  redactor: { add() {} },
  repository,
  passwordFile,
  cacheDirectory,
  directory,
}).open(signal);
await writer.put(endless(), { stack: 'shop', signal });
