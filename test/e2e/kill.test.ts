// kill -9 of the controller at random moments of a ten-stack rollout: after every restart it goes on, and in the end exactly what was
// declared runs. WINDLASS_KILLS=50 for the long form; the moments come from the printed seed.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containersOf, docker, Fleet, sleep } from './fleet.ts';

const STACKS = Array.from({ length: 10 }, (_, index) => `wlt-kill-${index}`);
const KILLS = Number(process.env['WINDLASS_KILLS'] ?? 8);
const SEED = Number(process.env['WINDLASS_SEED'] ?? Date.now() % 1_000_000);

const compose = (round: number): string => `services:
  web: &base
    image: windlass-test/busybox:${1 + (round % 2)}
    command: sleep 2147483647
    network_mode: none
    init: true
    stop_grace_period: 0s
    environment: {ROUND: "${round}"}
`;

describe('a controller that is killed', () => {
  let fleet: Fleet;
  beforeAll(() => {
    fleet = new Fleet();
  });
  afterAll(() => fleet.dispose());

  it(
    `at ${KILLS} random moments of rollouts of ten stacks (seed ${SEED}): always converges after its restart`,
    async () => {
      let state = SEED;
      const random = (): number => {
        state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
        return state / 2_147_483_648;
      };
      for (let kill = 0; kill < KILLS; kill++) {
        // A new rollout every fourth kill: the kills between hit its first, second and third continuation.
        if (kill % 4 === 0)
          fleet.push(Object.fromEntries(STACKS.map((name) => [`stacks/${name}/compose.yaml`, compose(kill)])));
        const controller = fleet.start('--interval', '1h');
        await sleep(300 + random() * 4_000);
        await controller.kill('SIGKILL');
      }
      const last = KILLS - 1 - ((KILLS - 1) % 4);
      const controller = fleet.start('--interval', '1h');
      for (const name of STACKS) {
        const waited = await fleet.windlass('wait', name, '--revision', 'head', '--timeout', '60s');
        expect(waited.code, waited.out + waited.err).toBe(0);
      }
      await controller.kill('SIGTERM');
      for (const name of STACKS) {
        expect(Object.keys(containersOf(name))).toEqual([`${name}-web-1`]);
        expect(docker('exec', `${name}-web-1`, 'sh', '-c', 'echo $ROUND')).toBe(String(last));
      }
      const plan = await fleet.windlass('plan', '--detailed-exitcode');
      expect(plan.code, plan.out + plan.err).toBe(0);
      const runs = JSON.parse((await fleet.windlass('history', '-o', 'json', '--limit', '1000')).out) as {
        outcome: string;
      }[];
      expect(runs.filter((run) => run.outcome === 'running')).toEqual([]);
    },
    120_000 + KILLS * 10_000,
  );
});
