// kill -9 of the controller at random moments of a ten-stack rollout: after every restart it goes on, and in the end exactly what was
// declared runs. WINDLASS_KILLS=50 for the long form; the moments come from the printed seed.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containersOf, docker, Fleet, sleep, until } from './fleet.ts';

const STACKS = Array.from({ length: 10 }, (_, index) => `wlt-kill-${index}`);
const KILLS = Number(process.env['WINDLASS_KILLS'] ?? 12);
const SEED = Number(process.env['WINDLASS_SEED'] ?? Date.now() % 1_000_000);

/** Every other stack has a second service. */
const servicesOf = (name: string): readonly string[] => (STACKS.indexOf(name) % 2 === 0 ? ['web'] : ['beside', 'web']);

const compose = (name: string, round: number): string => `services:
  web: &base
    image: windlass-test/busybox:${1 + (round % 2)}
    command: sleep 2147483647
    network_mode: none
    init: true
    stop_grace_period: 0s
    environment: {ROUND: "${round}"}
${servicesOf(name).length > 1 ? '  beside: *base\n' : ''}`;

interface Status {
  readonly name: string;
  readonly conditions: readonly { readonly type: string; readonly status: string; readonly revision: string }[];
}

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
          fleet.push(Object.fromEntries(STACKS.map((name) => [`stacks/${name}/compose.yaml`, compose(name, kill)])));
        const controller = fleet.start('--interval', '1h');
        await sleep(300 + random() * 4_000);
        await controller.kill('SIGKILL');
      }
      const last = KILLS - 1 - ((KILLS - 1) % 4);
      const controller = fleet.start('--interval', '1h');
      const head = fleet.git(fleet.clone, 'rev-parse', 'HEAD');
      await until(
        async () => JSON.parse((await fleet.windlass('get', '-o', 'json')).out) as Status[],
        (all) =>
          STACKS.every((name) =>
            all
              .find((one) => one.name === name)
              ?.conditions.some((one) => one.type === 'Ready' && one.status === 'True' && one.revision === head),
          ),
        90_000,
      );
      await controller.kill('SIGTERM');
      for (const name of STACKS) {
        const declared = servicesOf(name).map((service) => `${name}-${service}-1`);
        expect(Object.keys(containersOf(name)).sort()).toEqual(declared);
        for (const container of declared)
          expect(docker('exec', container, 'sh', '-c', 'echo $ROUND')).toBe(String(last));
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
