// kill -9 of a process in the middle of a restore or a recover, at moments from its first call to its last: the live data stays whole meanwhile,
// and whoever takes it up ends in the old data whole or the new data whole.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { recoverRecord } from '../../src/operations/archive/recover.ts';
import { restoreRecord } from '../../src/operations/archive/restore.ts';
import { openHouse } from '../../src/wire.ts';
import { docker, Fleet, inspect } from './fleet.ts';

const STACK = 'wlt-rkill';
const KILLS = Number(process.env['WINDLASS_KILLS'] ?? 10);
/** Of a recover. */
const RECOVERS = Math.ceil(KILLS / 2);
const PROCESS = join(import.meta.dirname, 'restoring-process.ts');
const COMPOSE = `services:
  web:
    image: windlass-test/busybox:1
    command: sleep 1d
    network_mode: none
    stop_grace_period: 0s
    user: "0"
    environment: { PASSWORD: $PASSWORD }
    volumes: [data:/data, ./files:/files]
volumes: { data: {} }
`;

describe('a restore whose process is killed', () => {
  let fleet: Fleet;
  let archive = '';

  const restoring = (
    id: string,
    { at, target = STACK }: { at?: number; target?: string } = {},
  ): Promise<{ signal: string | null; calls: number; err: string }> =>
    new Promise((done) => {
      const args = [PROCESS, fleet.state, fleet.bare, STACK, target, archive, id];
      if (at !== undefined) args.push(String(at));
      execFile(process.execPath, args, { encoding: 'utf8', timeout: 120_000 }, (error, out, err) =>
        done({ signal: error?.signal ?? null, calls: Number(out.trim() || -1), err }),
      );
    });
  const inside = (stack: string, ...command: string[]): string => docker('exec', `${stack}-web-1`, ...command);
  /** Of what the container sees: the words of every file, each once. */
  const sides = (stack = STACK): readonly string[] => [
    ...new Set(inside(stack, 'cat', '/data/a', '/data/b', '/files/c').split('\n')),
  ];
  const write = (word: string): void =>
    void inside(STACK, 'sh', '-c', `for file in /data/a /data/b /files/c; do echo ${word} > $file; done; sync`);
  /** `count` moments from the first call to the last but `spared`. */
  const moments = (count: number, calls: number, spared: number): readonly number[] =>
    Array.from({ length: count }, (_, kill) => 1 + Math.floor((kill * (calls - 1 - spared)) / (count - 1)));

  beforeAll(async () => {
    fleet = new Fleet();
    fleet.owns(STACK);
    fleet.removeLeftovers();
    fleet.push({
      [`stacks/${STACK}/stack.yaml`]: 'apiVersion: windlass/v1\nkind: Stack\nvars: { PASSWORD: "@secret!" }\n',
      [`stacks/${STACK}/compose.yaml`]: COMPOSE,
    });
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
    write('archived');
    const made = await fleet.windlass('backup', STACK);
    expect(made.code, made.err).toBe(0);
    archive = made.out.trim();
  }, 300_000);
  afterAll(() => fleet.dispose());

  it(
    `at ${KILLS} moments of it: never a mixture, never both lost`,
    async () => {
      write('live');
      const whole = await restoring('whole');
      expect([whole.signal, sides()], whole.err).toEqual([null, ['archived']]);
      expect(whole.calls).toBeGreaterThan(KILLS);
      const ends: string[] = [];
      // The later ones find more in memory, and make fewer calls.
      for (const at of moments(KILLS, whole.calls, 13)) {
        const id = `kill-${ends.length}`;
        write(id);
        const killed = await restoring(id, { at });
        expect([at, killed.signal]).toEqual([at, 'SIGKILL']);
        // Nobody wrote into the live data: it is still somewhere, whole.
        const kept = docker('volume', 'ls', '-q', '--filter', `label=com.docker.compose.project=${STACK}`).split('\n');
        expect(kept.length).toBeGreaterThan(0);
        const taken = await restoring(id);
        const found = sides();
        expect(found, `at call ${at}: ${taken.err}`).toHaveLength(1);
        expect(['archived', id]).toContain(found[0]);
        const house = await openHouse({
          stateDir: fleet.state,
          source: { name: 'main', url: fleet.bare, ref: 'main' },
        });
        const record = restoreRecord(house, id);
        await house.close();
        expect([at, record?.phase]).toEqual([at, found[0] === 'archived' ? 'done' : 'failed']);
        ends.push(`${at}: ${found[0] === 'archived' ? 'the archived data' : 'the live data'}`);
      }
      console.log(`of ${whole.calls} calls, killed before ${ends.join(', ')}`);
    },
    60_000 + KILLS * 30_000,
  );

  it(
    `and at ${RECOVERS} moments of a recover to another name: what was archived comes, the original is not touched`,
    async () => {
      write('running');
      const names = Array.from({ length: RECOVERS + 1 }, (_, nth) => `${STACK}-${nth}`);
      for (const name of names) fleet.owns(name);
      const original = inspect(`${STACK}-web-1`).Id;
      const whole = await restoring('recover-whole', { target: `${STACK}-0` });
      expect([whole.signal, sides(`${STACK}-0`)], whole.err).toEqual([null, ['archived']]);
      expect(whole.calls).toBeGreaterThan(RECOVERS);
      const points = moments(RECOVERS, whole.calls, 13);
      for (const [nth, at] of points.entries()) {
        const target = `${STACK}-${nth + 1}`;
        const id = `recover-${nth}`;
        const killed = await restoring(id, { at, target });
        expect([at, killed.signal]).toEqual([at, 'SIGKILL']);
        const taken = await restoring(id, { target });
        const house = await openHouse({
          stateDir: fleet.state,
          source: { name: 'main', url: fleet.bare, ref: 'main' },
        });
        const outcome = recoverRecord(house, id)?.outcomes[target]?.state;
        await house.close();
        expect([at, outcome, sides(target)], taken.err).toEqual([at, 'done', ['archived']]);
        expect([inspect(`${STACK}-web-1`).Id, sides()]).toEqual([original, ['running']]);
      }
      console.log(`of ${whole.calls} calls of a recover, killed before ${points.join(', ')}`);
    },
    60_000 + RECOVERS * 30_000,
  );
});
