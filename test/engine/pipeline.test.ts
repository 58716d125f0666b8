import { describe, expect, test } from 'vitest';
import { planKey } from '../../src/engine/cache.ts';
import { CancelledError } from '../../src/engine/fan-out.ts';
import { DeclinedError, execWithConfirm } from '../../src/engine/pipeline.ts';
import { BuildError, Plan } from '../../src/engine/plan.ts';
import { errorOf, planOf, step } from './fixture.ts';

const setUp = () => {
  const log: string[] = [];
  return { log, plan: planOf([step('s', log)]), out: { write: (text: string) => log.push(text) } };
};

describe('the pipeline', () => {
  test('builds, probes, previews, confirms and executes, in this order', async () => {
    const { log, plan, out } = setUp();
    const outcome = await execWithConfirm(plan, {
      out,
      buildProgress: { onPlanning: (phase, name) => void log.push(`planning ${phase} ${name}`) },
      confirm: async (preview) => {
        log.push(`confirm ${preview.map((cell) => cell.status)}`);
        return true;
      },
    });
    expect(log).toEqual([
      'planning only s',
      'a s applicable',
      'a s check',
      'test\n  only\n    a\n      s  will execute\n1 will execute, 0 satisfied\n',
      'confirm will execute',
      'a s applicable',
      'a s check',
      'a s execute',
      'a s check',
    ]);
    expect(outcome.preview).toHaveLength(1);
    expect(outcome.cells.map((cell) => cell.outcome)).toEqual(['done']);
  });

  test('takes silence for yes when nobody is there to confirm', async () => {
    const { log, plan } = setUp();
    await execWithConfirm(plan);
    expect(log).toContain('a s execute');
  });

  test('executes nothing when declined, and says so with its own error', async () => {
    const { log, plan } = setUp();
    expect(await errorOf(execWithConfirm(plan, { confirm: () => false }))).toBeInstanceOf(DeclinedError);
    expect(log).not.toContain('a s execute');
  });

  test('ends a dry run after the preview, without asking', async () => {
    const { log, plan, out } = setUp();
    await execWithConfirm(plan, {
      out,
      dryRun: true,
      confirm() {
        throw new Error('must not be asked');
      },
    });
    expect(log.at(-1)).toContain('would execute');
    expect(log).not.toContain('a s execute');
  });

  test('writes a tree within the width when pretty', async () => {
    const { log, plan, out } = setUp();
    await execWithConfirm(plan, { out, pretty: true, width: 10, hints: { colour: false }, dryRun: true });
    expect(log.at(-1)).toBe('test\n└─ only\n   └─ a\n      └─ …\n1 would e…\n');
  });

  test('rejects with what is wrong with the plan, the question or the run', async () => {
    expect(await errorOf(execWithConfirm(new Plan()))).toBeInstanceOf(BuildError);
    const asked = execWithConfirm(setUp().plan, { confirm: () => Promise.reject(new Error('no terminal')) });
    expect((await errorOf(asked)).message).toBe('no terminal');
    const broken = planOf([step('s', [], { execute: () => Promise.reject(new Error('boom')) })]);
    expect((await errorOf(execWithConfirm(broken))).message).toBe('boom');
  });

  test('that is stopped while it probes does not ask', async () => {
    const stop = new AbortController();
    const plan = planOf([
      step('s', [], {
        check() {
          stop.abort();
          return false;
        },
      }),
    ]);
    const confirm = () => {
      throw new Error('must not be asked');
    };
    expect(await errorOf(execWithConfirm(plan, { stop: stop.signal, confirm }))).toBeInstanceOf(CancelledError);
  });

  test('shares one cache and closes it once, also when declined', async () => {
    const seen = planKey<number>('looks');
    for (const answer of [true, false]) {
      let closed = 0;
      let looks = 0;
      const plan = planOf([
        step('s', [], {
          check: async (ctx) => {
            await ctx.cache.read(seen, ctx, () => {
              ctx.cache.registerCloser(() => closed++);
              return ++looks;
            });
            return true;
          },
        }),
      ]);
      await execWithConfirm(plan, { confirm: () => answer }).catch(() => {});
      expect([looks, closed]).toEqual([1, 1]);
    }
  });
});
