import { describe, expect, it } from 'vitest';
import { flattened } from '../../../src/core/hook/action.ts';
import { jobOf } from '../../../src/core/hook/job.ts';
import { declaredPath, planActions } from '../../../src/core/hook/plan-actions.ts';
import type { Action } from '../../../src/core/spec/hooks.ts';
import type { Job } from '../../../src/core/spec/job.ts';

const job = (name: string, more: Partial<Job> = {}) =>
  [name, jobOf(name, { apiVersion: 'windlass/v1', kind: 'Job', service: 'app', ...more } as Job)] as const;
const plan = (...lists: Action[][]) =>
  planActions({ phase: 'post_update', lists, jobs: new Map([job('a'), job('b', { timeout: '1m', retries: 3 })]) });

describe('the sequence of a phase', () => {
  it('is the lists one after the other, stably sorted by weight, so that app and stack interleave', () => {
    const app: Action[] = [
      { sleep: '1s', name: 'app 0' },
      { sleep: '1s', name: 'app 5', weight: 5 },
      { sleep: '1s', name: 'app 0b' },
    ];
    const stack: Action[] = [
      { sleep: '1s', name: 'stack 0' },
      { sleep: '1s', name: 'stack -1', weight: -1 },
    ];
    expect(plan(app, stack).map((action) => `${action.id} ${action.name}`)).toEqual([
      '1 stack -1',
      '2 app 0',
      '3 app 0b',
      '4 stack 0',
      '5 app 5',
    ]);
  });

  it('numbers what is inside of branches', () => {
    const list = plan([
      // biome-ignore lint/suspicious/noThenProperty: a word of the hook language
      { if: { value: 'x', empty: false }, then: [{ halt: true }], else: [{ job: 'a' }, { job: 'b' }] },
    ]);
    expect(flattened(list).map((action) => action.id)).toEqual(['1', '1/then/1', '1/else/1', '1/else/2']);
  });

  it.each<[Action, object]>([
    [{ job: 'a' }, { timeoutMs: 300_000, retries: 0, onFailure: 'abort', once: null, name: 'job a' }],
    [{ job: 'b' }, { timeoutMs: 60_000, retries: 3 }],
    [
      { job: 'b', timeout: '2s', retries: 0 },
      { timeoutMs: 2_000, retries: 0 },
    ],
    [{ sleep: '10m' }, { ms: 600_000, timeoutMs: 610_000 }],
    [{ 'wait-healthy': true }, { services: null }],
    [{ 'wait-healthy': 'web' }, { services: ['web'] }],
    [{ exec: { service: 'db', command: 'psql -c "select 1"' } }, { command: ['psql', '-c', 'select 1'], user: null }],
    [{ halt: 'no need' }, { reason: 'no need' }],
    [{ scale: { app: 'ref+hook://previous' } }, { name: 'scale app to ref+hook://previous' }],
  ])('%j gets its defaults', (declared, expected) => expect(plan([declared])[0]).toMatchObject(expected));

  it('refuses a job that is not there', () => expect(() => plan([{ job: 'c' }])).toThrow('no job c'));

  it('refuses an action that cannot work in its phase', () => {
    const jobs = new Map([job('a', { context: 'exec', command: 'true' })]);
    expect(() => planActions({ phase: 'pre_install', lists: [[{ job: 'a' }]], jobs })).toThrow(/nothing can exec/);
    expect(() => planActions({ phase: 'pre_install', lists: [[{ scale: { app: 0 } }]], jobs })).toThrow(/no services/);
  });
});

describe('a job', () => {
  it.each<[Partial<Job>, object]>([
    [{}, { context: 'container', service: 'app', image: null, entrypoint: null, command: null, ttlMs: null }],
    [{ script: 'a\nb' }, { entrypoint: [], command: ['/bin/sh', '-e', '-c', 'a\nb'] }],
    [{ command: 'a b' }, { entrypoint: null, command: ['a', 'b'] }],
    [
      { delete_policy: 'succeeded', ttl: '1h' },
      { deleteAfter: { success: true, failure: false }, ttlMs: 3_600_000 },
    ],
    [{ delete_policy: ['before-creation', 'failed'] }, { deleteAfter: { success: false, failure: true } }],
    [{ environment: { A: 1, B: true, C: 'x' } }, { environment: { A: '1', B: 'true', C: 'x' } }],
    [
      { context: 'exec', command: ['ls'] },
      { context: 'exec', command: ['ls'] },
    ],
    [{ context: 'http', http: { url: 'http://x/' } }, { call: { method: 'GET', statuses: null, body: null } }],
  ])('%j has every default filled in', (declared, expected) =>
    expect(job('j', declared as Partial<Job>)[1]).toMatchObject(expected),
  );
});

it('the way back from the number of an action leads to where it is declared, whatever the weights', () => {
  // biome-ignore lint/suspicious/noThenProperty: a word of the hook language
  const branch: Action = { if: { value: 'x', empty: false }, then: [{ halt: 'b', weight: 2 }, { halt: 'a' }] };
  const declared: Action[] = [{ sleep: '1s', weight: 9 }, branch, { halt: true, weight: -1 }];
  const ids = flattened(plan(declared)).map((action) => action.id);
  expect(ids.map((id) => [id, ...declaredPath(declared, id)])).toEqual([
    ['1', 2],
    ['2', 1],
    ['2/then/1', 1, 'then', 1],
    ['2/then/2', 1, 'then', 0],
    ['3', 0],
  ]);
  expect(() => declaredPath(declared, '2/else/1')).toThrow('there is no action 1');
});
