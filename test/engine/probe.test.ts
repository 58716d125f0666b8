import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { columnsOf } from '../../src/engine/display.ts';
import { CancelledError } from '../../src/engine/fan-out.ts';
import { Plan } from '../../src/engine/plan.ts';
import { countPreview, formatStyledPreview } from '../../src/engine/preview.ts';
import { errorOf, planOf, step, targets } from './fixture.ts';

const fail = (message: string) => () => {
  throw new Error(message);
};

const everyStatus = (log: string[] = []) => {
  const plan = new Plan('deploy');
  plan
    .addPhase('layer 1')
    .addTargets(...targets('shop', 'sso'))
    .addStep(
      step('materialize', log, { check: () => true }),
      step('converge', log, { check: () => ({ satisfied: false, note: 'recreate web\n  image changed' }) }),
      step('settle', log, { applicable: () => false }),
      step('ask', log, { applicable: fail('no such node') }),
      step('look', log, { check: fail('engine is down') }),
    );
  plan
    .addPhase('layer 2')
    .addTargets(...targets('wiki'))
    .addStep(step('converge', log));
  return plan.build();
};

describe('a probe', () => {
  test('names every status exactly, goes on past errors, and changes nothing', async () => {
    const log: string[] = [];
    const preview = await everyStatus(log).probe({ skipPhases: ['layer 2'] });
    const row = ['satisfied', 'will execute', 'not applicable', 'applicable: no such node', 'check: engine is down'];
    expect(preview.map((cell) => cell.status)).toEqual([...row, ...row, 'skipped (phase)']);
    expect(log.some((line) => /execute|verify/.test(line))).toBe(false);
    expect(log.some((line) => line.startsWith('wiki'))).toBe(false);
    expect(countPreview(preview)).toEqual({ execute: 2, satisfied: 2, notApplicable: 2, skipped: 1, errors: 4 });
  });

  test('of a dry run says would execute', async () => {
    const preview = await planOf([step('s')])
      .build()
      .probe({ dryRun: true });
    expect(preview).toEqual([{ phase: 'only', targetId: 'a', step: 's', touches: 'runtime', status: 'would execute' }]);
  });

  test('carries title, note, detail and error along', async () => {
    const [seen, broken] = await planOf([
      step('s', [], { title: 'See', touches: 'data', check: () => ({ satisfied: true, note: 'n', detail: [1] }) }),
      step('t', [], { check: fail('x') }),
    ])
      .build()
      .probe();
    expect(seen).toMatchObject({ title: 'See', touches: 'data', note: 'n', detail: [1] });
    expect(broken?.error?.message).toBe('x');
  });

  test('that is cancelled rejects and asks nothing more', async () => {
    const abort = new AbortController();
    const log: string[] = [];
    const plan = planOf([
      step('s', log, {
        check() {
          abort.abort();
          return true;
        },
      }),
      step('t', log),
    ]);
    expect(await errorOf(plan.build().probe({ signal: abort.signal }))).toBeInstanceOf(CancelledError);
    expect(log).toEqual(['a s applicable', 'a s check']);
  });

  test('refuses to skip a phase that does not exist', async () => {
    expect((await errorOf(everyStatus().probe({ skipPhases: ['layer 3'] }))).message).toContain('"layer 1", "layer 2"');
  });
});

describe('a preview', () => {
  test('in plain text shows phase, target, step, status and note', async () => {
    expect(await everyStatus().describe({ skipPhases: ['layer 2'] })).toBe(
      `deploy
  layer 1
    shop
      materialize  satisfied
      converge     will execute  recreate web
                   image changed
      settle       not applicable
      ask          applicable: no such node
      look         check: engine is down
    sso
      materialize  satisfied
      converge     will execute  recreate web
                   image changed
      settle       not applicable
      ask          applicable: no such node
      look         check: engine is down
  layer 2
    wiki
      converge     skipped (phase)
2 will execute, 2 satisfied, 2 not applicable, 1 skipped, 4 could not be read`,
    );
  });

  test('styled is a tree in colour', async () => {
    const styled = await planOf([step('s')], ['a', 'b'])
      .build()
      .describeStyled(60, { dryRun: true });
    expect(styled).toContain('\x1b[33mwould execute\x1b[0m');
    expect(stripVTControlCharacters(styled)).toBe(
      `test
└─ only
   ├─ a
   │  └─ s  would execute
   └─ b
      └─ s  would execute
2 would execute, 0 satisfied`,
    );
  });

  test.each([1, 5, 12, 20, 40, 80])('styled is never wider than %i columns', async (width) => {
    const preview = await everyStatus().probe();
    for (const line of formatStyledPreview('deploy 日本語', preview, width, {}).split('\n'))
      expect(columnsOf(stripVTControlCharacters(line))).toBeLessThanOrEqual(width);
  });

  test('styled without colour has no escape sequences', async () => {
    expect(await everyStatus().describeStyled(80, { colour: false })).not.toContain('\x1b');
  });

  test('lets no error or note move the cursor', async () => {
    const plan = planOf([step('s', [], { check: fail('bad\x1b[2J\r\nnews') })]).build();
    expect(await plan.describe()).toContain('check: bad news');
    expect(await plan.describe()).not.toContain('\x1b');
  });
});
