// What the README says of hooks is true: it names every phase, action, key and job field, its limits are the code's, its example runs.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { MAX_OUTPUT_LENGTH, MAX_OUTPUTS } from '../../src/core/hook/signal.ts';
import { checkText } from '../../src/core/spec/check.ts';
import { ACTIONS, OPERATIONS, PHASES } from '../../src/core/spec/hooks.ts';
import { schemaOf } from '../../src/core/spec/kind.ts';
import { ActionLog } from '../../src/hooks/log.ts';
import { SimHouse } from '../sim/sim-house.ts';

const README = readFileSync(join(resolve(import.meta.dirname, '../..'), 'README.md'), 'utf8');
const HOOKS = /\n## Hooks\n([\s\S]*?)\n## /.exec(README)?.[1] ?? '';
const prose = HOOKS.replaceAll(/```[\s\S]*?```/g, '');
const words = new Set([...prose.matchAll(/`([^`]+)`/g)].flatMap((match) => match[1]!.split(/[:\s]/)));
const examples = [...HOOKS.matchAll(/```yaml\n([\s\S]*?)```/g)].map((match) => match[1]!);

const houses: SimHouse[] = [];
afterEach(() => {
  for (const house of houses.splice(0)) house.dispose();
});

describe('the README, of hooks,', () => {
  it('names every phase', () => {
    const told = new Set([
      ...words,
      ...OPERATIONS.flatMap((one) => (words.has(one) ? [`pre_${one}`, `post_${one}`] : [])),
    ]);
    expect(PHASES.filter((phase) => !told.has(phase))).toEqual([]);
  });

  it('names every action and the keys that all have', () => {
    expect(ACTIONS.filter((verb) => !words.has(verb))).toEqual([]);
    const keys = ['name', 'timeout', 'retries', 'on_failure', 'weight', 'once'];
    expect(keys.filter((key) => !words.has(key))).toEqual([]);
  });

  it('names every field of a job', () => {
    const { properties } = schemaOf('Job') as { readonly properties: Readonly<Record<string, unknown>> };
    const fields = Object.keys(properties).filter((key) => key !== 'apiVersion' && key !== 'kind');
    expect(fields.filter((key) => !words.has(key))).toEqual([]);
  });

  it('tells the limits that hold', () => {
    const { $defs, properties } = schemaOf('Stack') as {
      readonly $defs: unknown;
      readonly properties: Readonly<
        Record<string, { readonly properties?: Readonly<Record<string, { maxItems?: number }>> }>
      >;
    };
    expect($defs).toBeDefined();
    const actions = properties['hooks']?.properties?.['test']?.maxItems;
    const many = (count: number, name: (at: number) => string) => {
      const log = new ActionLog((text) => text);
      for (let at = 0; at < count; at++) log.take({ stream: 'stdout', text: name(at) });
      return log.text();
    };
    const lines = many(10_000, (at) => `${at}`)
      .split('\n')
      .filter((line) => /^\d+$/.test(line)).length;
    const bytes = Buffer.byteLength(many(1_000, () => 'x'.repeat(1_000)));
    const { retries } = (
      $defs as {
        readonly action: {
          readonly anyOf: readonly { readonly properties: { readonly retries: { readonly maximum: number } } }[];
        };
      }
    ).action.anyOf[0]!.properties;
    expect(HOOKS).toContain(
      `${actions} actions a phase, ${MAX_OUTPUTS} outputs of ${MAX_OUTPUT_LENGTH.toLocaleString('en')} characters`,
    );
    expect(HOOKS).toContain(`at most ${retries.maximum} |`);
    expect(lines).toBeLessThanOrEqual(2_000);
    expect(lines).toBeGreaterThan(1_900);
    expect(bytes).toBeLessThanOrEqual(257 * 1024);
    expect(bytes).toBeGreaterThan(200 * 1024);
    expect(HOOKS).toContain('2,000 lines and 256 KiB kept');
  });

  it('shows an example that runs', async () => {
    const [stack = '', job = ''] = examples;
    expect(checkText('Job', 'migrate.job.yaml', job).diagnostics).toEqual([]);
    const sim = new SimHouse();
    houses.push(sim);
    const image = (version: number) => ({
      'stacks/shop/compose.yaml': `services:\n  web:\n    image: windlass-test/web:${version}\n  worker:\n    image: windlass-test/busybox:1\n`,
    });
    // The simulated engine knows a few words of a shell only.
    const script = job.replace(/script: .*/, 'script: "echo ::windlass:set schema=7::"');
    expect(script).not.toBe(job);
    sim.source.push({ ...image(1), 'stacks/shop/stack.yaml': stack, 'stacks/shop/migrate.job.yaml': script });
    await sim.apply();
    sim.source.push(image(2));
    await sim.apply();
    const [run] = sim.house.store.runs({ stack: 'shop', limit: 1 });
    expect(run?.outcome).toBe('succeeded');
    expect(run?.hooks?.map((one) => `${one.phase} ${one.outcome}`)).toEqual([
      'pre_update succeeded',
      'post_deployed succeeded',
    ]);
    expect(run?.hooks?.[0]?.actions.map((one) => `${one.name} ${one.result}`)).toEqual([
      'scale worker to 0 done',
      'job migrate done',
      'scale worker to ref+hook://previous done',
    ]);
  });
});
