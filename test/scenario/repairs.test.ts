// Repairs that concern more than one container of a stack, on the simulated world: who comes first, and that one apply is enough.
import { afterEach, describe, expect, it } from 'vitest';
import { byHand } from '../../src/operations/by-hand.ts';
import { SimHouse } from '../sim/sim-house.ts';

const FILE = 'stacks/shop/compose.yaml';
const image = 'image: windlass-test/busybox:1';

describe('one apply', () => {
  let sim: SimHouse;
  afterEach(() => sim.dispose());

  async function deployed(text: string): Promise<void> {
    sim = new SimHouse();
    sim.source.push({ [FILE]: text });
    await applied();
  }
  async function applied(): Promise<void> {
    sim.world.clearCalls();
    const outcome = await sim.apply();
    expect([...(outcome?.failures.values() ?? [])].map(String)).toEqual([]);
    const calls = sim.world.mutatingCalls().map((call) => `${call.method} ${nameOf(call.target)}`);
    sim.world.clearCalls();
    expect(await sim.apply()).toBeNull();
    expect(sim.world.mutatingCalls()).toEqual([]);
    said = calls;
  }
  let said: readonly string[] = [];
  const nameOf = (target: string): string => sim.world.engine.containers.get(target)?.name ?? target;
  const idOf = (name: string): string => sim.world.container(name).id;
  /** Is it in the namespaces of `parent` as it runs now? */
  function shares(child: string, parent: string): boolean {
    const [inner, outer] = [sim.world.container(child), sim.world.container(parent)];
    const isOf = inner.spec.shares?.every(({ id }) => id === outer.id) ?? false;
    return isOf && inner.state === 'running' && outer.state === 'running' && inner.startOrder > outer.startOrder;
  }

  const shared = (kind: string, v = 1) => `services:
  vpn: {${image}, environment: {V: "${v}"}}
  app: {${image}, ${kind}}
`;
  for (const kind of ['network_mode: "service:vpn"', 'pid: "service:vpn"', 'ipc: "service:vpn"', 'volumes_from: [vpn]'])
    describe(`with ${kind}`, () => {
      const isShared = (): boolean => shares('shop-app-1', 'shop-vpn-1');
      it('makes the child anew after its parent', async () => {
        await deployed(shared(kind));
        expect(isShared()).toBe(true);
        sim.source.push({ [FILE]: shared(kind, 2) });
        await applied();
        expect(isShared()).toBe(true);
      });
      it('makes a parent again that is gone, and its child after it', async () => {
        await deployed(shared(kind));
        sim.world.remove('shop-vpn-1');
        await applied();
        expect(isShared()).toBe(true);
      });
      it('starts a parent again that died, and what is in its namespace after it', async () => {
        await deployed(shared(kind));
        const before = idOf('shop-app-1');
        sim.world.kill('shop-vpn-1');
        await applied();
        if (!kind.startsWith('volumes')) expect(isShared()).toBe(true);
        expect(idOf('shop-app-1')).toBe(before);
      });
      it('makes a child again that is gone while its parent is down', async () => {
        await deployed(shared(kind));
        sim.world.remove('shop-app-1');
        sim.world.kill('shop-vpn-1');
        await applied();
        expect(isShared()).toBe(true);
      });
    });

  it('repairs a child that another program left with a parent that is gone', async () => {
    await deployed(shared('network_mode: "service:vpn"'));
    const app = sim.world.container('shop-app-1');
    (app.spec as { shares: unknown }).shares = [{ what: 'network', id: 'gone' }];
    sim.world.kill('shop-vpn-1');
    await applied();
    expect(shares('shop-app-1', 'shop-vpn-1')).toBe(true);
  });

  it('starts a child again whose parent the engine itself started again', async () => {
    await deployed(shared('network_mode: "service:vpn", restart: always'));
    sim.world.kill('shop-vpn-1');
    sim.world.start('shop-vpn-1');
    await applied();
    expect(said).toEqual(['restart shop-app-1']);
  });

  const restarting = (v: number) => `services:
  db: {${image}, environment: {V: "${v}"}}
  web: {${image}, depends_on: {db: {condition: service_started, restart: true}}}
  other: {${image}, depends_on: [db]}
`;
  it('starts who depends with restart anew, after what was made anew, and nobody else', async () => {
    await deployed(restarting(1));
    const [web, other] = [idOf('shop-web-1'), sim.world.container('shop-other-1').startOrder];
    sim.source.push({ [FILE]: restarting(2) });
    await applied();
    expect(said).toEqual(['stop shop-web-1', 'up shop: db web']);
    expect(idOf('shop-web-1')).toBe(web);
    expect(sim.world.container('shop-web-1').startOrder).toBeGreaterThan(sim.world.container('shop-db-1').startOrder);
    expect(sim.world.container('shop-other-1').startOrder).toBe(other);
  });
  it('leaves who depends with restart alone when the dependency died', async () => {
    await deployed(restarting(1));
    sim.world.kill('shop-db-1');
    await applied();
    expect(said).toEqual(['start shop-db-1']);
  });
  it('starts who depends with restart also when the process died right after it was stopped', async () => {
    await deployed(restarting(1));
    sim.source.push({ [FILE]: restarting(2) });
    sim.world.crashAt(2, 'before', 'mutating');
    await sim.apply().catch(() => {});
    sim.crash();
    await sim.clock.advance(60_000);
    await applied();
    expect(sim.world.containersOf('shop').map((one) => one.state)).toEqual(['running', 'running', 'running']);
  });

  const pair = (v = 1) => `services:\n  a: {${image}, environment: {V: "${v}"}}\n  b: {${image}}\n  c: {${image}}\n`;
  it('gives exchanged names back, in a pair and in a ring', async () => {
    await deployed(pair());
    const ids = ['a', 'b', 'c'].map((name) => idOf(`shop-${name}-1`));
    for (const ring of [
      ['a', 'b'],
      ['a', 'b', 'c'],
    ]) {
      const turned = ring.map((name) => idOf(`shop-${name}-1`));
      for (const [at, id] of turned.entries()) sim.world.rename(id, `tmp-${at}`);
      for (const [at, id] of turned.entries()) sim.world.rename(id, `shop-${ring[(at + 1) % ring.length]}-1`);
      await applied();
      expect(['a', 'b', 'c'].map((name) => idOf(`shop-${name}-1`))).toEqual(ids);
    }
  });
  it('gives exchanged names back when one of the two is made anew', async () => {
    await deployed(pair());
    const [a, b] = [idOf('shop-a-1'), idOf('shop-b-1')];
    sim.world.rename(a, 'tmp');
    sim.world.rename(b, 'shop-a-1');
    sim.world.rename(a, 'shop-b-1');
    sim.source.push({ [FILE]: pair(2) });
    await applied();
    expect(idOf('shop-b-1')).toBe(b);
  });
  it('takes no name from a container that is not ours', async () => {
    await deployed(pair());
    sim.world.rename('shop-a-1', 'mine');
    const stranger = sim.world.addForeign('shop-a-1');
    const outcome = await sim.apply();
    expect(outcome?.failures.get('shop')?.message).toMatch(/already in use/);
    expect(idOf('shop-a-1')).toBe(stranger);
  });

  const hooked = `services:
  web: {${image}, ports: ["8080"], post_start: [{command: ["true"]}]}
  side: {${image}, pre_stop: [{command: ["true"]}], network_mode: "service:web"}
  plain: {${image}}
`;
  it('starts and restarts through Compose what Compose runs hooks of its own in', async () => {
    await deployed(hooked);
    sim.world.kill('shop-web-1');
    sim.world.kill('shop-plain-1');
    await applied();
    expect(said).toEqual(['up shop: web', 'start shop-plain-1', 'stopServices shop: side', 'up shop: side']);
    expect(shares('shop-side-1', 'shop-web-1')).toBe(true);
  });
  it('does so too when a person stops, starts and restarts the stack, parents first', async () => {
    await deployed(hooked);
    const act = async (what: 'start' | 'stop' | 'restart'): Promise<readonly string[]> => {
      sim.world.clearCalls();
      await byHand(sim.bench, 'shop', what, new AbortController().signal);
      return sim.world.mutatingCalls().map((call) => `${call.method} ${nameOf(call.target)}`);
    };
    expect(await act('stop')).toEqual(['stopServices shop: side', 'stopServices shop: web', 'stop shop-plain-1']);
    sim.world.moveTag('windlass-test/busybox:1', 'other');
    expect(await act('start')).toEqual(['start shop-plain-1', 'up shop: web', 'up shop: side']);
    expect(shares('shop-side-1', 'shop-web-1')).toBe(true);
    const ids = sim.world.containersOf('shop').map(({ id }) => id);
    expect(await act('restart')).toEqual([
      'restart shop-plain-1',
      'stopServices shop: web',
      'up shop: web',
      'stopServices shop: side',
      'up shop: side',
    ]);
    expect(shares('shop-side-1', 'shop-web-1')).toBe(true);
    expect(sim.world.containersOf('shop').map(({ id }) => id)).toEqual(ids);
  });
  it('lets a person stop a stack also when what was deployed is lost', async () => {
    await deployed(hooked);
    sim.crash();
    sim.source.lose(await sim.source.fetch());
    await byHand(sim.bench, 'shop', 'stop', new AbortController().signal);
    expect(sim.world.containersOf('shop').map((one) => one.state)).toEqual(['exited', 'exited', 'exited']);
  });
});
