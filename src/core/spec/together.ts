// Together: several coroutines that ask for texts, run side by side, so that what they want is asked for in few large batches.
import type { Text } from './loaded.ts';

export type Reading<T> = Generator<readonly string[], T, ReadonlyMap<string, Text>>;

export function* together<T>(readings: readonly Reading<T>[]): Reading<T[]> {
  const results: T[] = [];
  let waiting: { index: number; reading: Reading<T>; wanted: readonly string[] }[] = [];
  const advance = (index: number, reading: Reading<T>, step: IteratorResult<readonly string[], T>) => {
    if (step.done) results[index] = step.value;
    else waiting.push({ index, reading, wanted: step.value });
  };
  for (const [index, reading] of readings.entries()) advance(index, reading, reading.next());
  while (waiting.length > 0) {
    const wanted = new Set(waiting.flatMap((one) => one.wanted));
    const texts = yield [...wanted];
    const round = waiting;
    waiting = [];
    for (const { index, reading } of round) advance(index, reading, reading.next(texts));
  }
  return results;
}

/** One text; missing when the reader gave none. */
export function* readText(path: string): Reading<Text> {
  const texts = yield [path];
  return texts.get(path) ?? { refused: 'missing' };
}
