// A process that stores archives without end until it is killed; says the id of each once it is listed.
import { randomBytes } from 'node:crypto';
import { DirStore } from '../../../src/adapters/archive/dir-store.ts';
import { encodeManifest } from '../../../src/core/archive/manifest.ts';
import { payloadOf, SAMPLE_TEXTS, sampleManifest } from '../../core/archive/sample.ts';

const store = new DirStore({ directory: process.argv[2]! });

async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < text.length; at += 4_096) yield Buffer.from(text.slice(at, at + 4_096));
}

for (const text of SAMPLE_TEXTS) await store.putBlob(chunksOf(text));
for (let madeAtMs = 1; ; madeAtMs++) {
  const text = randomBytes(20_000).toString('hex');
  await store.putBlob(chunksOf(text));
  const { bytes } = encodeManifest(sampleManifest({ madeAtMs, payloads: [payloadOf('data', text)] }));
  const id = await store.putManifest(bytes, 'signed');
  process.stdout.write(`${id}\n`);
  if (madeAtMs % 3 === 0) {
    await store.remove(id);
    await store.collect();
  }
}
