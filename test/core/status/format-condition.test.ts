import { describe, expect, it } from 'vitest';
import type { Condition } from '../../../src/core/status/condition.ts';
import {
  formatAge,
  formatCondition,
  formatConditions,
  formatState,
} from '../../../src/core/status/format-condition.ts';
import type { Outcome } from '../../../src/core/status/settle.ts';
import { settle } from '../../../src/core/status/settle.ts';

const commit = '4be1c2d'.padEnd(40, '0');
const conditionsOf = (
  outcome: Outcome,
  health: 'healthy' | 'failed' | null = 'healthy',
  previous: readonly Condition[] = [],
) =>
  settle({
    nowMs: 0,
    previous,
    revision: commit,
    appliedRevision: commit,
    rolledBack: null,
    verified: { kind: 'disabled' },
    outcome,
    health: health === null ? null : { state: health, detail: 'service web is unhealthy' },
    failures: 2,
  }).conditions;
const failed: Outcome = { kind: 'failed', fault: { code: 'IMAGE_MISSING', message: 'no image web:2\nsecond line' } };

it('a table for people', () => {
  expect(formatConditions(conditionsOf(failed), 190_000)).toBe(
    [
      'CONDITION    STATUS   REASON          AGE  REVISION  MESSAGE',
      'Ready        False    ImageMissing    3m   4be1c2d   no image web:2 …',
      'Reconciling  True     Retrying        3m   4be1c2d   failed 2 times, is tried again by itself',
      'Stalled      False    Idle            3m   4be1c2d',
      'Healthy      True     Settled         3m   4be1c2d',
      'Drifted      Unknown  Unknown         3m   4be1c2d   it was not looked at',
      'Verified     Unknown  VerifyDisabled  3m   4be1c2d   deploys need no signature (trust.deploy: none)',
    ].join('\n'),
  );
});

it('a line for people', () => {
  const [ready] = conditionsOf(failed);
  expect(formatCondition(ready!, 42_000)).toBe('Ready=False ImageMissing for 42s (4be1c2d): no image web:2 …');
  expect(formatCondition({ ...ready!, message: '', revision: '' }, 0)).toBe('Ready=False ImageMissing for 0s');
});

it('words of others cannot steer a terminal', () => {
  const [ready] = conditionsOf({ kind: 'failed', fault: { code: 'USAGE', message: 'a\u001b[2Jb\u0007' } });
  expect(formatCondition(ready!, 0)).toMatch(/: a \[2Jb $/);
});

describe('a word for a column', () => {
  it.each<[string, readonly Condition[]]>([
    ['New', []],
    ['Ready', conditionsOf({ kind: 'in-sync' })],
    ['Ready: DriftDetected', conditionsOf({ kind: 'drift-found', policy: 'warn', changes: 1 })],
    ['NotReady: Unhealthy', conditionsOf({ kind: 'in-sync' }, 'failed')],
    ['Unknown', conditionsOf({ kind: 'in-sync' }, null)],
    ['Progressing', conditionsOf({ kind: 'progressing' })],
    ['Retrying: ImageMissing', conditionsOf(failed)],
    ['Retrying: ImageMissing', conditionsOf({ kind: 'progressing' }, 'healthy', conditionsOf(failed))],
    ['Stalled: VolumeChanged', conditionsOf({ kind: 'failed', fault: { code: 'VOLUME_CHANGED', message: '' } })],
    ['Stalled: InvalidSpec', conditionsOf({ kind: 'invalid', diagnostics: [] })],
    ['Suspended', conditionsOf({ kind: 'suspended', reason: '' })],
    ['NotReady: Stopped', conditionsOf({ kind: 'stopped', reason: '' })],
    ['DependencyNotReady', conditionsOf({ kind: 'waiting', provider: 'db' })],
    ['OutsideWindow', conditionsOf({ kind: 'outside-window', nextOpenMs: 1 })],
    ['EngineUnreachable', conditionsOf({ kind: 'unknown', fault: { code: 'ENGINE_UNREACHABLE', message: '' } })],
  ])('%s', (expected, conditions) => {
    expect(formatState(conditions)).toBe(expected);
  });
});

it.each([
  [-5, '0s'],
  [59_999, '59s'],
  [60_000, '1m'],
  [3_600_000, '1h'],
  [18_720_000, '5h12m'],
  [86_400_000, '1d'],
  [792_000_000, '9d4h'],
  [8_643_600_000 * 2, '200d'],
])('an age of %i ms reads %s', (ms, words) => {
  expect(formatAge(ms)).toBe(words);
});
