import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FAULTS, type FaultCode } from '../../../src/core/fault.ts';
import { CONDITION_TYPES, type Condition, type ConditionType, REASONS } from '../../../src/core/status/condition.ts';
import { FAULT_REASONS } from '../../../src/core/status/fault-reason.ts';
import { type Outcome, SETTLE_RULES, type Settled, type SettleInput, settle } from '../../../src/core/status/settle.ts';

const A = 'a'.repeat(40);
const B = 'b'.repeat(40);
const healthy = { state: 'healthy', detail: '' } as const;
const failing = { state: 'failed', detail: 'service web ended with exit code 1' } as const;
const starting = { state: 'waiting', detail: 'service web is still starting' } as const;

const base: SettleInput = {
  nowMs: 1_000,
  previous: [],
  revision: A,
  appliedRevision: A,
  rolledBack: null,
  verified: { kind: 'disabled' },
  outcome: { kind: 'in-sync' },
  health: healthy,
  failures: 0,
};
const fault = (code: FaultCode, message = code) => ({ code, message });
const failed = (code: FaultCode): Outcome => ({ kind: 'failed', fault: fault(code) });
const lost: Outcome = { kind: 'unknown', fault: fault('ENGINE_UNREACHABLE') };
const refusal = {
  kind: 'refused',
  reason: 'NotVerified',
  message: 'commit bbbbbbb is not signed',
  revision: B,
} as const;

const of = (settled: { conditions: readonly Condition[] }, type: ConditionType) =>
  settled.conditions.find((one) => one.type === type)!;
const words = (settled: Settled, type: ConditionType) => `${of(settled, type).status} ${of(settled, type).reason}`;

/** A story: each step sees the conditions of the one before, a minute later. Returns what each step settled. */
function story(...steps: readonly Partial<SettleInput>[]): readonly Settled[] {
  let previous: readonly Condition[] = [];
  return steps.map((step, at) => {
    const settled = settle({ ...base, nowMs: at * 60_000, previous, ...step });
    previous = settled.conditions;
    return settled;
  });
}
const says = (settled: readonly Settled[]) =>
  settled.map(({ event }) => (event === null ? '-' : `${event.level} ${event.reason}`));

describe('one outcome', () => {
  // outcome, Ready, Reconciling, Stalled, come back
  it.each<[string, Partial<SettleInput>, string, string, string, unknown]>([
    ['in sync', {}, 'True Succeeded', 'False Idle', 'False Idle', 'interval'],
    ['deployed', { outcome: { kind: 'deployed' } }, 'True Succeeded', 'False Idle', 'False Idle', 'interval'],
    [
      'deployed, health not seen again',
      { outcome: { kind: 'deployed' }, health: null },
      'True Succeeded',
      'False Idle',
      'False Idle',
      'interval',
    ],
    [
      'healed',
      { outcome: { kind: 'healed', healsInARow: 1, changes: 1 } },
      'True Succeeded',
      'False Idle',
      'False Idle',
      'interval',
    ],
    ['in sync, failing', { health: failing }, 'False Unhealthy', 'False Idle', 'False Idle', 'interval'],
    [
      'in sync, starting',
      { health: starting },
      'Unknown Progressing',
      'True Progressing',
      'False Idle',
      { afterMs: 5_000 },
    ],
    ['in sync, health not seen', { health: null }, 'Unknown Unknown', 'False Idle', 'False Idle', 'interval'],
    [
      'drift left by policy',
      { outcome: { kind: 'drift-found', policy: 'warn', changes: 1 } },
      'True Succeeded',
      'False Idle',
      'False Idle',
      'interval',
    ],
    [
      'drift to be healed later',
      { outcome: { kind: 'drift-found', policy: 'heal', changes: 1, healAtMs: 9_000 } },
      'False DriftDetected',
      'True DriftDetected',
      'False Idle',
      { afterMs: 8_000 },
    ],
    [
      'in work',
      { outcome: { kind: 'progressing' } },
      'Unknown Progressing',
      'True Progressing',
      'False Idle',
      'interval',
    ],
    [
      'waiting',
      { outcome: { kind: 'waiting', provider: 'db' } },
      'False DependencyNotReady',
      'True DependencyNotReady',
      'False Idle',
      'interval',
    ],
    [
      'waiting, as a fault',
      { outcome: failed('DEPENDENCY_NOT_READY') },
      'False DependencyNotReady',
      'True DependencyNotReady',
      'False Idle',
      'interval',
    ],
    [
      'outside its window',
      { outcome: { kind: 'outside-window', nextOpenMs: 61_000 } },
      'False OutsideWindow',
      'True OutsideWindow',
      'False Idle',
      { afterMs: 60_000 },
    ],
    [
      'outside a window that never opens',
      { outcome: { kind: 'outside-window', nextOpenMs: 0 } },
      'False OutsideWindow',
      'True OutsideWindow',
      'False Idle',
      'never',
    ],
    [
      'suspended',
      { outcome: { kind: 'suspended', reason: 'audit' } },
      'Unknown Suspended',
      'False Idle',
      'False Idle',
      'never',
    ],
    [
      'suspended for a while',
      { outcome: { kind: 'suspended', reason: 'audit', untilMs: 3_000 } },
      'Unknown Suspended',
      'False Idle',
      'False Idle',
      { afterMs: 2_000 },
    ],
    ['stopped', { outcome: { kind: 'stopped', reason: '' } }, 'False Stopped', 'False Idle', 'False Idle', 'never'],
    ['held', { outcome: { kind: 'held', reason: '' } }, 'False Held', 'False Idle', 'False Idle', 'never'],
    [
      'invalid',
      { outcome: { kind: 'invalid', diagnostics: [] } },
      'False InvalidSpec',
      'False Idle',
      'True InvalidSpec',
      'never',
    ],
    [
      'guarded from pruning',
      { outcome: { kind: 'prune-guarded', message: '9 of 10 vanish' } },
      'False PruneGuarded',
      'False Idle',
      'True PruneGuarded',
      'interval',
    ],
    [
      'superseded',
      { outcome: { kind: 'superseded' } },
      'Unknown Superseded',
      'True Superseded',
      'False Idle',
      { afterMs: 0 },
    ],
    ['cancelled', { outcome: failed('CANCELLED') }, 'Unknown Superseded', 'True Superseded', 'False Idle', 'backoff'],
    [
      'held by another run',
      { outcome: failed('LOCK_HELD') },
      'Unknown Progressing',
      'True Progressing',
      'False Idle',
      'backoff',
    ],
    ['failed', { outcome: failed('IMAGE_MISSING') }, 'False ImageMissing', 'True Retrying', 'False Idle', 'backoff'],
    [
      'failed for a person to cure',
      { outcome: failed('PROJECT_CONFLICT') },
      'False Conflict',
      'False Idle',
      'True Conflict',
      'interval',
    ],
    [
      'services not brought back',
      { outcome: failed('RESTORE_FAILED') },
      'False RestoreFailed',
      'False Idle',
      'True RestoreFailed',
      'never',
    ],
    [
      'engine away',
      { outcome: lost, health: null },
      'Unknown EngineUnreachable',
      'True EngineUnreachable',
      'False Idle',
      'backoff',
    ],
    [
      'rolled back',
      { rolledBack: 'SERVICE_CRASHED', revision: B },
      'False RolledBack',
      'False Idle',
      'True RolledBack',
      'interval',
    ],
    [
      'a rollback that fails',
      { rolledBack: 'x', outcome: failed('COMPOSE_FAILED') },
      'False Failed',
      'True Retrying',
      'False Idle',
      'backoff',
    ],
    [
      'newest refused, the last verified one runs',
      { verified: refusal },
      'True Succeeded',
      'False Idle',
      'False Idle',
      'interval',
    ],
    [
      'nothing verified ever',
      { verified: refusal, revision: '', appliedRevision: '', health: null },
      'False NotVerified',
      'False Idle',
      'True NotVerified',
      'never',
    ],
  ])('%s', (_, input, ready, reconciling, stalled, comeBack) => {
    const settled = settle({ ...base, ...input });
    expect([words(settled, 'Ready'), words(settled, 'Reconciling'), words(settled, 'Stalled')]).toEqual([
      ready,
      reconciling,
      stalled,
    ]);
    expect(settled.comeBack).toEqual(comeBack);
  });

  it('each condition speaks of its own revision', () => {
    const settled = settle({
      ...base,
      revision: B,
      appliedRevision: A,
      verified: { ...refusal, revision: 'c'.repeat(40) },
      outcome: failed('IMAGE_MISSING'),
    });
    expect(Object.fromEntries(settled.conditions.map((one) => [one.type, one.revision[0]]))).toEqual({
      Ready: 'b',
      Reconciling: 'b',
      Stalled: 'b',
      Healthy: 'a',
      Drifted: 'a',
      Verified: 'c',
    });
  });

  it('an invalid spec is told by its first error, with its place', () => {
    const place = { file: 'stacks/shop.yaml', line: 4, column: 7 };
    const settled = settle({
      ...base,
      outcome: {
        kind: 'invalid',
        diagnostics: [
          { severity: 'warning', code: 'W', summary: 'a warning' },
          { severity: 'error', code: 'KEY_UNKNOWN', summary: 'unknown key', place },
          { severity: 'error', code: 'X', summary: 'other' },
        ],
      },
    });
    expect(of(settled, 'Stalled').message).toBe('stacks/shop.yaml:4:7: unknown key (and 1 more)');
  });

  it.each([
    ['DEPENDENCY_CYCLE', 'DependencyCycle'],
    ['RENDER_UNDEFINED', 'RenderFailed'],
    ['TEMPLATE_SYNTAX', 'RenderFailed'],
    ['KEY_UNKNOWN', 'InvalidSpec'],
  ])('a diagnostic %s stalls as %s', (code, reason) => {
    const diagnostics = [{ severity: 'error', code, summary: '' }] as const;
    expect(words(settle({ ...base, outcome: { kind: 'invalid', diagnostics } }), 'Stalled')).toBe(`True ${reason}`);
  });

  it.each<[string, Partial<SettleInput>, string]>([
    ['healthy', {}, 'True Settled'],
    ['failing', { health: failing }, 'False Unhealthy'],
    ['failing, as the failed deploy says', { health: failing, outcome: failed('SERVICE_CRASHED') }, 'False CrashLoop'],
    ['failing beside another fault', { health: failing, outcome: failed('BUILD_FAILED') }, 'False Unhealthy'],
    ['old one well while the new one fails', { outcome: failed('BUILD_FAILED') }, 'True Settled'],
    ['starting', { health: starting }, 'Unknown Progressing'],
    ['stopped by hand', { outcome: { kind: 'stopped', reason: '' } }, 'False Stopped'],
    ['suspended but running', { outcome: { kind: 'suspended', reason: '' } }, 'True Settled'],
    ['engine away', { outcome: lost }, 'Unknown EngineUnreachable'],
    ['not looked at', { outcome: failed('COMPOSE_INVALID'), health: null }, 'Unknown Unknown'],
  ])('health: %s', (_, input, expected) => {
    expect(words(settle({ ...base, ...input }), 'Healthy')).toBe(expected);
  });

  it.each<[string, SettleInput['verified'], string]>([
    ['disabled', { kind: 'disabled' }, 'Unknown VerifyDisabled'],
    ['ok', { kind: 'ok', signer: 'ada' }, 'True Verified'],
    ['refused', refusal, 'False NotVerified'],
    ['history rewritten', { ...refusal, reason: 'HistoryRewritten' }, 'False HistoryRewritten'],
  ])('trust: %s', (_, verified, expected) => {
    expect(words(settle({ ...base, verified }), 'Verified')).toBe(expected);
  });
});

describe('the tables', () => {
  it('every fault code has a reason of the closed list', () => {
    expect(Object.keys(FAULT_REASONS).sort()).toEqual(Object.keys(FAULTS).sort());
    for (const reason of Object.values(FAULT_REASONS)) expect(REASONS).toContain(reason);
  });

  it('every fault code settles, with a come-back that its retry class asks for', () => {
    for (const code of Object.keys(FAULTS) as FaultCode[]) {
      const { comeBack } = settle({ ...base, outcome: failed(code) });
      const expected = { retry: ['backoff'], wait: ['interval'], person: ['interval', 'never', 'backoff'] };
      expect(expected[FAULTS[code].retry], code).toContain(comeBack);
    }
  });

  it('each rule says what it does in a sentence of its own', () => {
    const sentences = SETTLE_RULES.map((rule) => rule.says);
    expect(new Set(sentences).size).toBe(sentences.length);
  });
});

describe('stories', () => {
  it('an outage of ten looks is no news of the stack, and its end is none (the fleet tells both)', () => {
    const settled = story({}, ...Array(10).fill({ outcome: lost, health: null }), {});
    expect(says(settled)).toEqual(Array(12).fill('-'));
    expect(words(settled[5]!, 'Ready')).toBe('Unknown EngineUnreachable');
    expect(words(settled[11]!, 'Ready')).toBe('True Succeeded');
  });

  it('a failing stack is told once, through retries and an outage, and its recovery once', () => {
    const fail = { outcome: failed('SERVICE_UNHEALTHY'), health: failing };
    const work = { outcome: { kind: 'progressing' } as const };
    const out = { outcome: lost, health: null };
    const settled = story({}, fail, work, fail, work, fail, out, out, work, fail, {});
    expect(says(settled)).toEqual(['-', 'warning Unhealthy', ...Array(8).fill('-'), 'info Recovered']);
    expect(words(settled[2]!, 'Ready')).toBe('False Unhealthy');
    expect(words(settled[2]!, 'Reconciling')).toBe('True Retrying');
  });

  it('a stalled stack is told once, through the looks of a person and an outage', () => {
    const stalled = { outcome: failed('VOLUME_CHANGED') };
    const work = { outcome: { kind: 'progressing' } as const };
    const settled = story(stalled, stalled, work, stalled, { outcome: lost }, stalled, {});
    expect(says(settled)).toEqual(['error VolumeChanged', '-', '-', '-', '-', '-', 'info Recovered']);
  });

  it('a failure that turns into another is told without an alarm, one that now needs a person with one', () => {
    const settled = story(
      { outcome: failed('IMAGE_MISSING') },
      { outcome: failed('SERVICE_CRASHED') },
      { outcome: failed('VOLUME_CHANGED') },
    );
    expect(says(settled)).toEqual(['warning ImageMissing', 'info CrashLoop', 'error VolumeChanged']);
  });

  it('failing again at a newer revision is told without an alarm', () => {
    const work = { outcome: { kind: 'progressing' } as const, revision: B };
    const fail = { outcome: failed('BUILD_FAILED') };
    const settled = story(fail, work, { ...fail, revision: B }, { ...fail, revision: B });
    expect(says(settled)).toEqual(['warning BuildFailed', '-', 'info BuildFailed', '-']);
    expect(words(settled[1]!, 'Ready')).toBe('Unknown Progressing');
  });

  it('a commit that does not touch a broken declaration is no news of it, one that breaks it otherwise is', () => {
    const broken = (revision: string, summary: string) => ({
      revision,
      outcome: { kind: 'invalid', diagnostics: [{ severity: 'error', code: 'X', summary }] } as const,
    });
    const settled = story(broken(A, 'unknown key a'), broken(B, 'unknown key a'), broken(A, 'unknown key b'));
    expect(says(settled)).toEqual(['error InvalidSpec', '-', 'info InvalidSpec']);
  });

  it('a deploy tells itself, a commit that changes nothing does not', () => {
    const settled = story({ outcome: { kind: 'progressing' } }, { outcome: { kind: 'deployed' } }, { revision: B }, {});
    expect(says(settled)).toEqual(['-', 'info Deployed', '-', '-']);
    expect(of(settled[2]!, 'Ready').revision).toBe(B);
    expect(of(settled[2]!, 'Healthy').revision).toBe(A);
  });

  it('a service that starts anew is not news, one that stays unhealthy is', () => {
    const settled = story({}, { health: starting }, {}, { health: failing }, { health: starting }, {});
    expect(says(settled)).toEqual(['-', '-', '-', 'warning Unhealthy', '-', 'info Recovered']);
  });

  it('what people do is told when it begins and when it ends', () => {
    const suspended = { outcome: { kind: 'suspended', reason: 'audit' } as const };
    const settled = story({}, suspended, suspended, {}, { outcome: { kind: 'stopped', reason: '' } }, {});
    expect(says(settled)).toEqual(['-', 'info Suspended', '-', 'info Resumed', 'info Stopped', 'info Resumed']);
    expect(of(settled[1]!, 'Ready').message).toBe('suspended: audit');
  });

  it('waits are told once', () => {
    const waiting = { outcome: { kind: 'waiting', provider: 'db' } as const };
    const window = { outcome: { kind: 'outside-window', nextOpenMs: 9e9 } as const };
    expect(says(story(waiting, waiting, window, window, { outcome: { kind: 'deployed' } }))).toEqual([
      'info DependencyNotReady',
      '-',
      'info OutsideWindow',
      '-',
      'info Deployed',
    ]);
  });

  it('a rollback is told after the failure, and stays until a new revision', () => {
    const back = { rolledBack: 'it crashed', revision: B };
    const settled = story(
      { outcome: failed('SERVICE_CRASHED'), revision: B },
      { ...back, outcome: { kind: 'progressing' } },
      { ...back, outcome: { kind: 'deployed' } },
      back,
      { revision: 'c'.repeat(40), outcome: { kind: 'deployed' } },
    );
    expect(says(settled)).toEqual(['warning CrashLoop', '-', 'error RolledBack', '-', 'info Deployed']);
    expect(words(settled[3]!, 'Healthy')).toBe('True Settled');
  });

  it('drift that is only warned about is told once, and its end once, also through an outage', () => {
    const drift = { outcome: { kind: 'drift-found', policy: 'warn', changes: 2 } as const };
    const settled = story({}, drift, drift, { outcome: lost }, drift, {});
    expect(says(settled)).toEqual(['-', 'warning DriftDetected', '-', '-', '-', 'info DriftEnded']);
    expect(words(settled[1]!, 'Drifted')).toBe('True DriftDetected');
    expect(words(settled[3]!, 'Drifted')).toBe('Unknown DriftDetected');
    expect(words(settled[5]!, 'Drifted')).toBe('False InSync');
  });

  it('drift whose heal failed is there still, and is over when a heal succeeds', () => {
    const taken = { outcome: failed('ENGINE_REFUSED') };
    const healed = { outcome: { kind: 'healed', healsInARow: 1, changes: 2 } as const };
    const settled = story({}, { ...taken, drift: 2 }, { outcome: lost }, healed);
    expect(settled.map((one) => words(one, 'Drifted'))).toEqual([
      'False InSync',
      'True DriftDetected',
      'Unknown DriftDetected',
      'False DriftHealed',
    ]);
    expect(of(settled[1]!, 'Drifted').message).toBe('2 changes not healed');
  });

  it('drift that is off is shown and never told', () => {
    const drift = { outcome: { kind: 'drift-found', policy: 'off', changes: 1 } as const };
    const settled = story({}, drift, drift, {});
    expect(says(settled)).toEqual(['-', '-', '-', '-']);
    expect(words(settled[1]!, 'Drifted')).toBe('True DriftIgnored');
  });

  it('heals are told one by one until drift is persistent, and then only its begin and end', () => {
    const heal = (count: number) => ({ outcome: { kind: 'healed', healsInARow: count, changes: 1 } as const });
    const settled = story(
      ...[1, 2, 3, 4, 5, 6, 7].flatMap((count) => [heal(count), {}]),
      { recentHeals: 1 },
      { recentHeals: 0 },
      { recentHeals: 0 },
    );
    expect(says(settled).filter((one) => one !== '-')).toEqual([
      'info DriftHealed',
      'info DriftHealed',
      'info DriftHealed',
      'info DriftHealed',
      'warning PersistentDrift',
      'info DriftEnded',
    ]);
    expect(words(settled[1]!, 'Drifted')).toBe('False DriftHealed');
    expect(words(settled[13]!, 'Drifted')).toBe('True PersistentDrift');
    expect(words(settled[16]!, 'Drifted')).toBe('False InSync');
  });

  it('persistent drift ends after an hour where the caller counts no heals', () => {
    const settled = story(
      { outcome: { kind: 'healed', healsInARow: 5, changes: 1 } },
      { nowMs: 3_599_999 },
      { nowMs: 3_600_000 },
    );
    expect(settled.map((one) => words(one, 'Drifted'))).toEqual([
      'True PersistentDrift',
      'True PersistentDrift',
      'False InSync',
    ]);
  });

  it('each refused commit is told once, and the next verified one too', () => {
    const settled = story(
      { verified: { kind: 'ok' } },
      { verified: refusal },
      { verified: refusal },
      { verified: { ...refusal, revision: 'c'.repeat(40) } },
      { verified: { kind: 'ok', signer: 'ada' } },
      { verified: { kind: 'ok', signer: 'ada' } },
    );
    expect(says(settled)).toEqual(['-', 'warning NotVerified', '-', 'warning NotVerified', 'info Verified', '-']);
    expect(of(settled[1]!, 'Verified').message).toBe('commit bbbbbbb is not signed; aaaaaaa keeps running');
  });

  it('news of one pass are one event, named by the gravest', () => {
    const [, settled] = story({}, { verified: refusal, outcome: failed('VOLUME_CHANGED') });
    expect(settled!.event).toEqual({
      level: 'error',
      reason: 'VolumeChanged',
      message: 'VOLUME_CHANGED; NotVerified: commit bbbbbbb is not signed; aaaaaaa keeps running',
    });
  });

  it('a time says since when status and reason are what they are', () => {
    const settled = story(
      {},
      {},
      { outcome: failed('IMAGE_MISSING') },
      { outcome: failed('IMAGE_PULL_FAILED'), failures: 1 },
    );
    expect(settled.map((one) => of(one, 'Ready').sinceMs)).toEqual([0, 0, 120_000, 120_000]);
    expect(settled.map((one) => of(one, 'Healthy').sinceMs)).toEqual([0, 0, 0, 0]);
    expect(of(settled[3]!, 'Ready').message).toBe('IMAGE_PULL_FAILED');
  });
});

describe('whatever happens', () => {
  const codes = Object.keys(FAULTS) as FaultCode[];
  const anyFault = fc.constantFrom(...codes).map((code) => fault(code));
  const anyOutcome: fc.Arbitrary<Outcome> = fc.oneof(
    fc.constantFrom<Outcome>(
      { kind: 'in-sync' },
      { kind: 'deployed' },
      { kind: 'progressing' },
      { kind: 'superseded' },
      { kind: 'waiting', provider: 'db' },
      { kind: 'outside-window', nextOpenMs: 5_000 },
      { kind: 'outside-window', nextOpenMs: 0 },
      { kind: 'suspended', reason: '' },
      { kind: 'stopped', reason: '' },
      { kind: 'held', reason: '' },
      { kind: 'invalid', diagnostics: [] },
      { kind: 'prune-guarded', message: '' },
    ),
    fc.integer({ min: 1, max: 9 }).map((healsInARow): Outcome => ({ kind: 'healed', healsInARow, changes: 1 })),
    fc
      .constantFrom('heal' as const, 'warn' as const, 'off' as const)
      .map((policy): Outcome => ({ kind: 'drift-found', policy, changes: 1 })),
    anyFault.map((one): Outcome => ({ kind: 'failed', fault: one })),
    anyFault.map((one): Outcome => ({ kind: 'unknown', fault: one })),
  );
  const anyStep = fc.record({
    outcome: anyOutcome,
    revision: fc.constantFrom(A, B),
    health: fc.constantFrom(healthy, failing, starting, null),
    rolledBack: fc.constantFrom(null, null, 'it crashed'),
    verified: fc.constantFrom<SettleInput['verified']>({ kind: 'disabled' }, { kind: 'ok' }, refusal),
  });

  it('six conditions come out, Ready is True only where it may be, and saying it again changes nothing', () => {
    const reached = new Set<string>();
    fc.assert(
      fc.property(fc.array(anyStep, { minLength: 1, maxLength: 8 }), (steps) => {
        let previous: readonly Condition[] = [];
        steps.forEach((step, at) => {
          const input = { ...base, ...step, previous, nowMs: at * 1_000 };
          const settled = settle(input);
          expect(settled.conditions.map((one) => one.type)).toEqual(CONDITION_TYPES);
          const kind = step.outcome.kind;
          if (of(settled, 'Ready').status === 'True') {
            expect(['in-sync', 'deployed', 'healed', 'drift-found']).toContain(kind);
            expect(step.rolledBack).toBeNull();
            expect(step.health?.state ?? 'healthy').toBe('healthy');
            expect(of(settled, 'Ready').revision).toBe(step.revision);
            expect(of(settled, 'Stalled').status).toBe('False');
            expect(of(settled, 'Reconciling').status).toBe('False');
          }
          const again = settle({ ...input, previous: settled.conditions, nowMs: at * 1_000 + 1 });
          expect(again.conditions).toEqual(settled.conditions);
          if (kind !== 'deployed' && kind !== 'healed') expect(again.event).toBeNull();
          reached.add(kind);
          previous = settled.conditions;
        });
      }),
      { numRuns: 500 },
    );
    expect(reached.size).toBe(15);
  });
});
