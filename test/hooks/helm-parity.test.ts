// The table for people who know Helm says the truth: every row names a test, and that test is there.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { PHASES } from '../../src/core/hook/phase.ts';
import { SimHouse } from '../sim/sim-house.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const TABLE = readFileSync(join(ROOT, 'src/hooks/README.md'), 'utf8');
const NAMED = /`(test\/[\w/.-]+\.test\.ts)`: "([^"]+)" \|$/;
const rows = TABLE.slice(TABLE.indexOf('## For people who know Helm'))
  .split('\n')
  .filter((line) => line.startsWith('| ') && !/^\| (?:Helm|here) \|/.test(line));

/** What a title of a test looks like in the text of its file. */
const inText = (file: string): string => readFileSync(join(ROOT, file), 'utf8').replaceAll("\\'", "'");

describe('the table for people who know Helm', () => {
  it('has a row for every hook of Helm', () => {
    const told = rows.map((row) => row.split(' | ')[0]).join('\n');
    for (const hook of ['install', 'delete', 'upgrade', 'rollback'])
      for (const when of ['pre', 'post']) expect(told).toContain(`\`${when}-${hook}\``);
    for (const word of ['test', 'hook-weight', 'before-hook-creation', 'hook-succeeded', 'hook-failed'])
      expect(told).toContain(word);
  });

  it('names only phases that there are', () => {
    const named = [...TABLE.matchAll(/`((?:pre|post)_\w+)`/g)].map((match) => match[1] ?? '');
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((phase) => !(PHASES as readonly string[]).includes(phase))).toEqual([]);
  });

  it.each(rows)('names a test that is there: %s', (row) => {
    const [, file = '', name = ''] = NAMED.exec(row) ?? [];
    expect(file, row).not.toBe('');
    expect(
      ["'", '`', '"'].some((quote) => inText(file).includes(`${quote}${name}${quote}`)),
      `${file} has no test called "${name}"`,
    ).toBe(true);
  });
});

describe('resources of hooks', () => {
  it('a job container that was kept is no difference', async () => {
    const sim = new SimHouse();
    try {
      sim.source.push({
        'stacks/shop/compose.yaml': 'services:\n  web:\n    image: windlass-test/busybox:1\n',
        'stacks/shop/stack.yaml': 'apiVersion: windlass/v1\nkind: Stack\nhooks: {post_install: [{job: seed}]}\n',
        'stacks/shop/seed.job.yaml': 'apiVersion: windlass/v1\nkind: Job\nservice: web\ncommand: [echo, seeded]\n',
      });
      expect((await sim.apply())?.failures.size).toBe(0);
      const kept = sim.world.containersOf('shop').filter((one) => one.name !== 'shop-web-1');
      expect(kept.map((one) => one.state)).toEqual(['exited']);
      expect(await sim.apply()).toBeNull();
      expect(sim.world.container(kept[0]?.id ?? '').state).toBe('exited');
    } finally {
      sim.dispose();
    }
  });
});
