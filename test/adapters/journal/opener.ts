// Opener: a process of its own that opens the store, counts a shared value up under a lease, and ends.
import { openStore } from '../../../src/adapters/journal/store.ts';

const [directory, owner] = process.argv.slice(2);
const store = openStore({ directory: directory! });
for (let done = 0; done < 25; ) {
  if (store.acquire('counter', owner!, 60_000, Date.now()) === null) continue;
  store.putValue('count', Number(store.value('count') ?? 0) + 1);
  store.release('counter', owner!);
  done += 1;
}
store.close();
