import { expect, it } from 'vitest';
import type { HookState } from '../../src/core/hook/run-state.ts';
import { storeJournal } from '../../src/hooks/journal.ts';
import { RUN } from './fake-world.ts';

function memory() {
  const values = new Map<string, string>();
  return {
    value: (key: string) => (values.has(key) ? JSON.parse(values.get(key)!) : undefined),
    putValue: (key: string, value: unknown) => void values.set(key, JSON.stringify(value)),
    deleteValue: (key: string) => void values.delete(key),
    values: (prefix: string) =>
      new Map([...values].filter(([key]) => key.startsWith(prefix)).map(([key, text]) => [key, JSON.parse(text)])),
  };
}

it('keeps runs until they are cleared, and logs beyond', () => {
  const journal = storeJournal(memory());
  const state = { version: 1, run: RUN } as unknown as HookState;
  expect(journal.load('k')).toBeNull();
  journal.save('k', state);
  const logs = ['10', '3', '3/then/1'].map((id) => ({ id, name: `job ${id}`, text: 'text' }));
  for (const log of logs) journal.saveLog(RUN, log);
  journal.saveLog({ ...RUN, phase: 'post_update' }, { id: '1', name: 'job', text: 'other' });
  expect(journal.all()).toEqual([state]);
  journal.clear('k');
  expect(journal.all()).toEqual([]);
  expect(journal.logs('sso', 'post_install').map((one) => one.id)).toEqual(['3', '3/then/1', '10']);
  journal.clearLogs(RUN);
  expect(journal.logs('sso', 'post_install')).toEqual([]);
  expect(journal.logs('sso', 'post_update')).toEqual([{ id: '1', name: 'job', text: 'other' }]);
});

it('remembers `once` for the newest wording of an action only', () => {
  const journal = storeJournal(memory());
  const ran = { digest: 'd', halted: false, outputs: {} };
  journal.saveRanOnce('sso/post_install/3/aaa', ran);
  journal.saveRanOnce('sso/post_install/3/then/1/ccc', ran);
  journal.saveRanOnce('sso/post_install/3/bbb', ran);
  expect(journal.ranOnce('sso/post_install/3/aaa')).toBeNull();
  expect(journal.ranOnce('sso/post_install/3/bbb')).toEqual(ran);
  expect(journal.ranOnce('sso/post_install/3/then/1/ccc')).toEqual(ran);
});
