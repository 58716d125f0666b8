// What a row of the drift matrix promises, from the plan to the repaired project.
import { expect } from 'vitest';
import { containersOf, type Fleet } from './fleet.ts';

/** After `act` the plan says `words` (exit 2), apply repairs it, the next plan is empty; the containers are the same but for `recreated`. */
export async function repairs(
  fleet: Fleet,
  project: string,
  act: () => void,
  words: RegExp,
  recreated: readonly string[] = [],
): Promise<void> {
  const before = containersOf(project);
  act();
  const plan = await fleet.windlass('plan', '--detailed-exitcode');
  expect(plan.out + plan.err).toMatch(words);
  expect(plan.code).toBe(2);
  const applied = await fleet.windlass('apply', '--yes');
  expect(applied.code, applied.err).toBe(0);
  const again = await fleet.windlass('plan', '--detailed-exitcode');
  expect(again.code, again.out).toBe(0);
  const after = containersOf(project);
  expect(Object.keys(after).sort()).toEqual(Object.keys(before).sort());
  const fresh = Object.keys(after).filter((name) => after[name] !== before[name]);
  expect(fresh.sort()).toEqual([...recreated].sort());
}
