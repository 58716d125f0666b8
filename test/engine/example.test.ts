// The runnable example of src/engine/README.md: files with a wanted content, in a folder of their own.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { planKey } from '../../src/engine/cache.ts';
import { execWithConfirm } from '../../src/engine/pipeline.ts';
import { Plan } from '../../src/engine/plan.ts';
import type { Barrier, Step } from '../../src/engine/step.ts';

interface Wanted {
  readonly path: string;
  readonly content: string;
}

// what a file holds now: read once for probe, check and every later step, and again after an execute
const contents = planKey<string | null>('content of a file');

const writeContent: Step<Wanted> = {
  name: 'write-content',
  touches: 'data',
  deadlineMs: 5_000,
  applicable: (_ctx, target) => !target.payload.path.endsWith('.lock'),
  async check(ctx, target) {
    const { path, content } = target.payload;
    const found = await ctx.cache.read(contents.at(path), ctx, () => readFile(path, 'utf8').catch(() => null));
    return { satisfied: found === content, note: found === null ? 'create' : `${found} → ${content}` };
  },
  execute: (ctx, target) => writeFile(target.payload.path, target.payload.content, { signal: ctx.signal }),
};

const allWritten: Barrier = {
  name: 'all-written',
  evaluate(_ctx, phase, results) {
    const written = results.filter((result) => result.executed || result.satisfied).length;
    if (written === 0) throw new Error(`nothing of ${phase} is in place`);
  },
};

const planFor = (folder: string) => {
  const plan = new Plan<Wanted>('write files');
  const phase = plan.addPhase('settings');
  phase.concurrency = 2;
  phase.barrier = allWritten;
  for (const name of ['one.txt', 'two.txt', 'one.lock'])
    phase.addTargets({ id: name, payload: { path: join(folder, name), content: name } });
  phase.addStep(writeContent);
  return plan;
};

test('a plan makes true what is not yet so, and the second run finds nothing to do', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'plan-example-'));
  try {
    await writeFile(join(folder, 'two.txt'), 'old');
    let shown = '';
    await execWithConfirm(planFor(folder), {
      out: { write: (text) => (shown += text) },
      confirm: (preview) => preview.every((cell) => !cell.error),
    });
    expect(shown).toBe(`write files
  settings
    one.txt
      write-content  will execute  create
    two.txt
      write-content  will execute  old → two.txt
    one.lock
      write-content  not applicable
2 will execute, 0 satisfied, 1 not applicable
`);
    expect(await readFile(join(folder, 'two.txt'), 'utf8')).toBe('two.txt');

    const again = await execWithConfirm(planFor(folder));
    expect(again.cells.map((cell) => cell.outcome)).toEqual(['satisfied', 'satisfied', 'skipped']);
  } finally {
    await rm(folder, { recursive: true });
  }
});
