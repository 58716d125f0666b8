// Replicating process: copies one archive from a folder to an S3 server and says how far it is, so that a test can kill it in the middle.
import { DirStore } from '../../src/adapters/archive/dir-store.ts';
import { RemoteStore } from '../../src/adapters/archive/remote-store.ts';
import { S3Objects } from '../../src/adapters/archive/s3-objects.ts';
import { copyArchive } from '../../src/operations/archive/replicate.ts';

const [directory = '', endpoint = '', bucket = '', region = '', accessKeyId = '', secretAccessKey = '', id = ''] =
  process.argv.slice(2);

const objects = new S3Objects({
  place: {
    endpoint,
    bucket,
    region,
    prefix: '',
    pathStyle: true,
    ca: null,
    credentials: async () => ({ accessKeyId, secretAccessKey }),
  },
});
const to = new RemoteStore({ objects });
let mostBytes = 0;
const watch = setInterval(() => {
  mostBytes = Math.max(mostBytes, process.memoryUsage.rss());
}, 20);
const copied = await copyArchive(id, {
  from: new DirStore({ directory }),
  to,
  check: () => 'key',
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  signal: new AbortController().signal,
});
clearInterval(watch);
await to.close();
process.stdout.write(`${JSON.stringify({ ...copied, mostBytes })}\n`);
