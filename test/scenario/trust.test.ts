// Requests from git to the engine: real signed commits, a real ledger, a simulated engine. What authorises once, and what never does.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { openSource } from '../../src/adapters/git/repository.ts';
import { openLedger } from '../../src/adapters/journal/ledger.ts';
import { command as doctorCommand } from '../../src/cli/commands/doctor.ts';
import { command } from '../../src/cli/commands/requests.ts';
import { Controller } from '../../src/controller/controller.ts';
import { Fault } from '../../src/core/fault.ts';
import { formatInstant } from '../../src/core/spec/request.ts';
import { formatStatement, type StatementType } from '../../src/core/state/trust/statement.ts';
import type { House } from '../../src/operations/house.ts';
import { accept, brokenLineage } from '../../src/operations/lineage.ts';
import { checkTrustDocuments } from '../../src/operations/trust/check-documents.ts';
import { verifyDeploy } from '../../src/operations/trust/deploy-gate.ts';
import { lookAtTrust } from '../../src/operations/trust/look.ts';
import { runRequests } from '../../src/operations/trust/run-requests.ts';
import { unverified } from '../../src/operations/unverified.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import type { Payloads } from '../../src/ports/payloads.ts';
import { Surface } from '../../src/surface.ts';
import { memoryFolder } from '../sim/memory-folder.ts';
import { SimHouse } from '../sim/sim-house.ts';

const FLEET = 'fleet-0001';
const REF = 'refs/heads/main';
const HOUR = 3_600_000;

/** Of everybody, made once: each fleet has copies. */
let keys = '';
beforeAll(() => {
  keys = mkdtempSync(join(memoryFolder(), 'wlt-keys-'));
  for (const name of ['anna', 'bert', 'cleo', 'mallory'])
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', join(keys, name)]);
});
afterAll(() => rmSync(keys, { recursive: true, force: true }));

class Fleet {
  readonly sim = new SimHouse();
  readonly dir = mkdtempSync(join(memoryFolder(), 'wlt-trust-'));
  readonly clone = join(this.dir, 'clone');
  /** What the controller fetches from: the clone's own, so that a commit is a push. A real push starts eight programs. */
  readonly bare = join(this.clone, '.git');
  readonly genesis: string;
  readonly removed: string[] = [];
  readonly #made = new Map<string, string>();
  readonly #closers: (() => unknown)[] = [];
  /** Called in the middle of the removal of a volume. */
  onRemove: (name: string) => void = () => {};
  bench: Workbench;
  #nonce = 0;

  constructor(options: { readonly deploy?: 'none' | 'head' | 'all'; readonly minDelay?: string } = {}) {
    execFileSync('git', ['init', '-q', '-b', 'main', '--template=', this.clone]);
    for (const name of readdirSync(keys)) copyFileSync(join(keys, name), join(this.dir, name));
    this.genesis = this.commit({ 'README.md': 'a fleet' });
    this.commit({ 'trust/policy/v0001.yaml': this.policy(1, options.minDelay) });
    this.bench = this.open(options.deploy);
  }

  git(...args: string[]): string {
    const date = `${Math.floor(this.sim.clock.nowMs() / 1000)} +0000`;
    return execFileSync(
      'git',
      [
        ...['-c', 'user.name=T', '-c', 'user.email=t@example.org', '-c', 'gpg.format=ssh'],
        ...['-c', 'maintenance.auto=false', ...args],
      ],
      {
        cwd: this.clone,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, GIT_COMMITTER_DATE: date, GIT_AUTHOR_DATE: date, GIT_CONFIG_GLOBAL: '/dev/null' },
      },
    ).trim();
  }

  policy(version: number, minDelay?: string, more = ''): string {
    const key = (name: string) => readFileSync(join(this.dir, `${name}.pub`), 'utf8').trim();
    const previous = version === 1 ? '' : `previous: ${this.subject(`trust/policy/v000${version - 1}.yaml`)}\n`;
    return `apiVersion: windlass/v1
kind: Policy
version: ${version}
${previous}fleet: ${FLEET}
principals:
${['anna', 'bert', 'cleo'].map((name) => `  ${name}: { ssh: ["${key(name)}"] }\n`).join('')}${more}admins: { members: [anna, bert], threshold: 2 }
rules:
  - operation: purge
    stacks: ["*"]
    requesters: [anna]
    approvers: [bert, cleo]
    threshold: 2
${minDelay ? `    minDelay: ${minDelay}\n` : ''}  - { operation: deploy, stacks: ["*"], requesters: [anna] }
`;
  }

  file(path: string): string {
    return readFileSync(join(this.clone, path), 'utf8');
  }

  subject(path: string): string {
    return createHash('sha256')
      .update(readFileSync(join(this.clone, path)))
      .digest('hex');
  }

  /** Signed when a key is named. */
  commit(files: Readonly<Record<string, string>>, message = 'change', key?: string): string {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.clone, path)), { recursive: true });
      writeFileSync(join(this.clone, path), text);
    }
    const paths = Object.keys(files);
    if (paths.length > 0) this.git('add', ...paths);
    const file = join(this.dir, 'message');
    writeFileSync(file, message.endsWith('\n') ? message : `${message}\n`);
    const sign = key ? [`-S${join(this.dir, key)}`] : ['--no-gpg-sign'];
    this.git('commit', '-q', '--allow-empty', '--cleanup=verbatim', '-F', file, ...sign);
    const branch = readFileSync(join(this.bare, 'HEAD'), 'utf8').slice('ref: '.length).trim();
    const oid = readFileSync(join(this.bare, branch), 'utf8').trim();
    if (branch !== REF) this.git('update-ref', REF, oid);
    return oid;
  }

  message(
    type: StatementType,
    subject: string,
    more: {
      readonly fleet?: string;
      readonly environment?: string;
      readonly policy?: string;
      readonly body?: string;
    } = {},
  ): string {
    return formatStatement({
      title: `${type} something`,
      ...(more.body === undefined ? {} : { body: more.body }),
      type,
      fleet: more.fleet ?? FLEET,
      ref: REF,
      environment: more.environment ?? 'production',
      subject,
      policy: more.policy ?? this.subject('trust/policy/v0001.yaml'),
      expiresMs: Math.floor((this.sim.clock.nowMs() + 24 * HOUR) / 1000) * 1000,
      nonce: createHash('md5')
        .update(`${this.#nonce++}`)
        .digest('hex'),
    });
  }

  request(
    id: string,
    key: string | null = 'anna',
    volumes = 'all',
    more: Parameters<Fleet['message']>[2] = {},
  ): string {
    const expires = formatInstant(Math.floor((this.sim.clock.nowMs() + 48 * HOUR) / 1000) * 1000);
    const text = `apiVersion: windlass/v1\nkind: Purge\nstack: shop\nvolumes: ${volumes}\nreason: no longer needed ${id}\nexpires: ${expires}\n`;
    const path = `requests/${id}.yaml`;
    const subject = createHash('sha256').update(text).digest('hex');
    this.commit({ [path]: text }, this.message('request', subject, more), key ?? undefined);
    return subject;
  }

  approve(subject: string, key: string, more: Parameters<Fleet['message']>[2] = {}): string {
    return this.commit({}, this.message('approve', subject, more), key);
  }

  open(deploy: 'none' | 'head' | 'all' = 'none'): Workbench {
    const { sim } = this;
    const source = openSource({
      spec: { name: 'main', url: this.bare, ref: 'main' },
      mirrorDir: join(sim.dir, 'mirror.git'),
      clock: sim.clock,
      tags: true,
    });
    const ledger = openLedger({ directory: sim.dir, fleet: FLEET });
    this.#closers.push(
      () => source.close(),
      () => ledger.close(),
    );
    const { volumes } = sim.world.engine;
    const payloads = {
      inspectVolume: async (name: string) =>
        volumes.has(name) ? ({ name, createdAt: this.#made.get(name) ?? 'first' } as never) : null,
      volumeSizeBytes: async () => null,
      removeVolume: async (name: string) => {
        this.onRemove(name);
        volumes.delete(name);
        this.removed.push(name);
      },
    } as unknown as Payloads;
    const anchor = {
      fleetId: FLEET,
      ref: REF,
      genesis: this.genesis,
      environment: 'production',
      policySha256: this.subject('trust/policy/v0001.yaml'),
      clockSkewMs: 300_000,
      maxLifetimeMs: 30 * 24 * HOUR,
    };
    const revoked = join(this.dir, 'revoked');
    const house: House = {
      ...sim.house,
      source,
      payloads,
      trust: {
        deploy,
        anchor,
        ledger,
        files: async () => (existsSync(revoked) ? { revoked: readFileSync(revoked) } : {}),
      },
    };
    this.bench = new Workbench(house);
    return this.bench;
  }

  /** As a controller that starts with an empty state directory. */
  forgetLedger(): void {
    this.bench.house.trust!.ledger!.close();
    for (const suffix of ['', '-wal', '-shm']) rmSync(join(this.sim.dir, `ledger.db${suffix}`), { force: true });
    this.open();
  }

  remake(volume: string): void {
    this.sim.world.engine.addVolume(volume, {
      'com.docker.compose.project': 'shop',
      'com.docker.compose.volume': 'data',
    });
    this.#made.set(volume, String(this.#made.size + 2));
  }

  /** What a controller does at each look at the source. */
  async look(): Promise<Record<string, string>> {
    const { house } = this.bench;
    const tip = await house.source.fetch();
    await accept(house, tip);
    await this.sim.run(runRequests(this.bench, tip, new AbortController().signal));
    return this.states();
  }

  states(): Record<string, string> {
    const { ledger } = this.bench.house.trust!;
    return Object.fromEntries(ledger!.snapshots().map((one) => [one.id, `${one.state} ${one.reason}`]));
  }

  async dispose(): Promise<void> {
    for (const close of this.#closers) await close();
    this.sim.dispose();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

const fleets: Fleet[] = [];
const open = async (options: ConstructorParameters<typeof Fleet>[0] = {}): Promise<Fleet> => {
  const fleet = new Fleet(options);
  fleets.push(fleet);
  fleet.remake('shop_data');
  await fleet.look();
  return fleet;
};
afterEach(async () => {
  for (const fleet of fleets.splice(0)) await fleet.dispose();
});

describe('a request that is over', () => {
  it('still tells what was asked, why, and who signed, also after its file is gone', async () => {
    const fleet = await open();
    const subject = fleet.request('one');
    const bert = fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
    fleet.git('rm', '-q', 'requests/one.yaml');
    fleet.commit({ 'README.md': 'tidied up\n' });
    await fleet.look();
    const desk = new Surface(fleet.bench.house);
    const [view] = await desk.requests('one');
    expect(view).toMatchObject({ evaluation: null, claimed: { request: { kind: 'Purge', stack: 'shop' } } });
    const told: string[] = [];
    const io = { paint: (_: string, text: string) => text, data: (text: string) => void told.push(text), width: 120 };
    await command.run({ io, json: false, flags: {}, args: ['one'], surface: async () => desk } as never);
    const out = told.join('\n');
    expect(out).toMatch(/^one {2}Purge\n {2}state {6}succeeded$/m);
    expect(out).toMatch(/^ {2}reason {5}no longer needed one$/m);
    expect(out).toMatch(/^ {2}asked by {3}anna \([0-9a-f]{12}\)$/m);
    expect(out).toContain(`  approved   bert (${bert.slice(0, 12)})`);
    expect(out).toMatch(/^ {2}approved {3}cleo /m);
  });
});

/** What `windlass requests ID` prints. */
async function shown(fleet: Fleet, id: string): Promise<string> {
  const told: string[] = [];
  const io = { paint: (_: string, text: string) => text, data: (text: string) => void told.push(text), width: 120 };
  const desk = new Surface(fleet.bench.house);
  await command.run({ io, json: false, flags: {}, args: [id], surface: async () => desk } as never);
  return told.join('\n');
}

describe('a reason that somebody gives', () => {
  it('to reject is shown with the request and in its JSON, bounded, also after the file is gone; of a stranger it is not', async () => {
    const fleet = await open();
    const subject = fleet.request('one');
    const reject = (body: string) => fleet.message('reject', subject, { body });
    fleet.commit({}, reject('Reason: mallory was here'), 'mallory');
    fleet.commit({}, fleet.message('approve', subject, { body: 'Reason: fine with\nme' }), 'bert');
    // The eldest is told first, to the second.
    await fleet.sim.clock.advance(2_000);
    const oid = fleet.commit({}, reject(`Reason: not\twhile the audit runs ${'x'.repeat(900)}`), 'cleo').slice(0, 12);
    expect(await fleet.look()).toEqual({ one: 'rejected rejected-by-approver' });
    const told = await shown(fleet, 'one');
    expect(told).toMatch(/^ {2}said {7}bert \(approve, [0-9a-f]{12}\): fine with me$/m);
    expect(told).toMatch(
      new RegExp(`^ {2}said {7}cleo \\(reject, ${oid}\\): not\\\\u\\{9\\}while the audit runs x{400,490}…$`, 'm'),
    );
    expect(told).not.toMatch(/mallory was here/);
    const [view] = await new Surface(fleet.bench.house).requests('one');
    expect(view?.said.map(({ type, principal }) => `${principal} ${type}`)).toEqual(['bert approve', 'cleo reject']);
    fleet.git('rm', '-q', 'requests/one.yaml');
    fleet.commit({}, 'tidy up');
    expect(await shown(fleet, 'one')).toMatch(/cleo \(reject, [0-9a-f]{12}\): not/);
  });
});

describe('a request', () => {
  it('waits for two approvals, runs once, and never again', async () => {
    const fleet = await open();
    const subject = fleet.request('one');
    expect(await fleet.look()).toEqual({ one: 'awaitingApprovals approvals-missing' });
    fleet.approve(subject, 'bert');
    expect(await fleet.look()).toEqual({ one: 'awaitingApprovals approvals-missing' });
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'anna');
    expect(await fleet.look()).toEqual({ one: 'awaitingApprovals approvals-missing' });
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
    expect(fleet.removed).toEqual(['shop_data']);
    fleet.remake('shop_data');
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
    fleet.commit({ 'requests/two.yaml': fleet.file('requests/one.yaml') });
    expect(await fleet.look()).toMatchObject({ one: 'succeeded done', two: 'refused request-replayed' });
    expect(await shown(fleet, 'two')).toMatch(/request-replayed: ran as one \(succeeded\)/);
    expect(fleet.removed).toEqual(['shop_data']);
    const receipt = fleet.bench.house.trust!.ledger!.receipt('one');
    expect(receipt).toMatchObject({ outcome: 'succeeded', detail: 'removed shop_data' });
    expect(receipt?.statements).toHaveLength(3);
  });

  it('beside another file of the same bytes is held, as is that one, until one of them is removed: no copy takes its name away', async () => {
    const fleet = await open();
    const subject = fleet.request('q9');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    fleet.commit({ 'requests/a0.yaml': fleet.file('requests/q9.yaml') }, 'by nobody');
    const held = { a0: 'verifying request-copied', q9: 'verifying request-copied' };
    expect(await fleet.look()).toEqual(held);
    expect(fleet.removed).toEqual([]);
    expect(await shown(fleet, 'q9')).toMatch(
      /request-copied: the same bytes as requests\/a0\.yaml[\s\S]*anna[\s\S]*bert/,
    );
    expect(await shown(fleet, 'a0')).toMatch(/request-copied: the same bytes as requests\/q9\.yaml/);
    fleet.git('rm', '-q', 'requests/a0.yaml');
    fleet.commit({}, 'remove the copy');
    expect(await fleet.look()).toMatchObject({ q9: 'succeeded done' });
    expect(fleet.bench.house.trust!.ledger!.claims().map(({ id }) => id)).toEqual(['q9']);
  });

  it('that holds is still rejected by who may, and one that is claimed is finished whatever copy is pushed then', async () => {
    const fleet = await open();
    const subject = fleet.request('one');
    fleet.commit({ 'requests/copy.yaml': fleet.file('requests/one.yaml') });
    expect(await fleet.look()).toMatchObject({ one: 'verifying request-copied' });
    fleet.commit({}, fleet.message('reject', subject), 'cleo');
    expect(await fleet.look()).toMatchObject({
      one: 'rejected rejected-by-approver',
      copy: 'rejected rejected-by-approver',
    });
    const two = fleet.request('two');
    fleet.approve(two, 'bert');
    fleet.approve(two, 'cleo');
    const { house } = fleet.bench;
    fleet.commit({ 'requests/a2.yaml': fleet.file('requests/two.yaml') });
    const tip = await house.source.fetch();
    const standing = async (except?: string) =>
      (await lookAtTrust(house, tip, except === undefined ? {} : { except })).requests.find(({ id }) => id === 'two')
        ?.evaluation.state;
    expect([await standing(), await standing('two')]).toEqual(['refused', 'ready']);
  });

  it('counts nothing that is unsigned, signed by a stranger, for another fleet or environment, or of a key that was revoked', async () => {
    const fleet = await open();
    const subject = fleet.request('one');
    fleet.approve(subject, 'mallory');
    fleet.commit({}, fleet.message('approve', subject));
    fleet.approve(subject, 'bert', { environment: 'staging' });
    fleet.approve(subject, 'cleo', { fleet: 'fleet-0002' });
    expect(await fleet.look()).toEqual({ one: 'awaitingApprovals approvals-missing' });
    fleet.approve(subject, 'bert');
    writeFileSync(join(fleet.dir, 'revoked'), readFileSync(join(fleet.dir, 'cleo.pub')));
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({ one: 'awaitingApprovals approvals-missing' });
    expect(fleet.removed).toEqual([]);
  });

  it('altered after its approvals is another one', async () => {
    const fleet = await open();
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    fleet.commit({ 'requests/one.yaml': fleet.file('requests/one.yaml').replace('stack: shop', 'stack: bank') });
    const list = vi.spyOn(fleet.bench.house.source, 'list');
    for (const again of [1, 2]) {
      list.mockClear();
      expect((await fleet.look())['one']).toMatch(/^(verifying|refused) request-altered/);
      // The trees of earlier commits are large, and never change.
      const trees = new Set(list.mock.calls.map(([commit]) => commit)).size;
      expect([again, trees > 1]).toEqual([again, again === 1]);
      const { detail } = fleet.bench.house.trust!.ledger!.snapshot('one')!;
      expect(`${again} ${detail}`).toMatch(
        new RegExp(`${again} changed after [0-9a-f]{12} \\((cleo|bert|anna)\\) .*${subject}`),
      );
    }
    expect(await shown(fleet, 'one')).toMatch(/request-altered: changed after/);
    expect(fleet.removed).toEqual([]);
    fleet.commit({ 'requests/one.yaml': fleet.file('requests/one.yaml').replace('stack: bank', 'stack: shop') });
    expect((await fleet.look())['one']).toBe('succeeded done');
  });

  it('that was never signed is not said to be altered by words that a stranger signed under its name', async () => {
    const fleet = await open();
    fleet.request('one', 'mallory');
    fleet.commit({ 'requests/one.yaml': fleet.file('requests/one.yaml').replace('stack: shop', 'stack: bank') });
    expect((await fleet.look())['one']).toBe('verifying request-unsigned');
  });

  it('asked for by an unsigned commit is refused, whatever deploys are allowed', async () => {
    const fleet = await open();
    fleet.approve(fleet.request('one', null), 'bert');
    expect((await fleet.look())['one']).toMatch(/request-unsigned/);
  });

  it('whose signatures a squash destroyed is told how to be cured, and the cure works', async () => {
    const fleet = await open();
    fleet.git('switch', '-q', '-c', 'pr');
    const text = `apiVersion: windlass/v1\nkind: Purge\nstack: shop\nvolumes: all\nreason: squashed\nexpires: ${formatInstant(Math.floor((fleet.sim.clock.nowMs() + 48 * HOUR) / 1000) * 1000)}\n`;
    const subject = createHash('sha256').update(text).digest('hex');
    const asked = fleet.message('request', subject);
    fleet.git('switch', '-q', 'main');
    fleet.commit({ 'requests/one.yaml': text }, `squashed (#7)\n\n${asked}`);
    expect((await fleet.look())['one']).toMatch(/request-unsigned/);
    expect(await shown(fleet, 'one')).toMatch(/lost .* squash[\s\S]*cure +windlass request sign one --tag/);
    const file = join(fleet.dir, 'tag');
    for (const [type, key] of [
      ['request', 'anna'],
      ['approve', 'bert'],
      ['approve', 'cleo'],
    ] as const) {
      writeFileSync(file, fleet.message(type, subject));
      fleet.git('tag', '-u', join(fleet.dir, key), '--cleanup=verbatim', '-F', file, `windlass/one/${key}`);
    }
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
  });

  it('whose signature does not count is told why, each cause with its own cure: no squash is blamed for a revoked or unknown key', async () => {
    const fleet = await open();
    const revoked = join(fleet.dir, 'revoked');
    const subject = fleet.request('one', 'mallory');
    await fleet.look();
    let told = await shown(fleet, 'one');
    expect(told).toMatch(/stranger .* gives to nobody[\s\S]*cure .* with a key that the policy names/);
    expect(told).not.toMatch(/squash|--tag/);
    fleet.commit({}, fleet.message('request', subject), 'anna');
    fleet.approve(subject, 'cleo');
    writeFileSync(revoked, readFileSync(join(fleet.dir, 'cleo.pub')));
    await fleet.look();
    told = await shown(fleet, 'one');
    expect(told).toMatch(
      /revoked +[0-9a-f]{12} is signed with a key that is revoked[\s\S]*cure .* windlass approve one with a key/,
    );
    expect(told).not.toMatch(/squash|request sign/);
    writeFileSync(revoked, 'no key at all\n');
    await fleet.look();
    told = await shown(fleet, 'one');
    expect(told).toMatch(
      /unread .* cannot be read[\s\S]*cure +mend the file that trust\.revokedFile names.*nobody need sign again/,
    );
    expect(told).not.toMatch(/squash|request sign|windlass approve/);
  });

  it('is not disturbed by malformed commits anywhere in the history', async () => {
    const fleet = await open();
    const tree = fleet.git('rev-parse', 'HEAD^{tree}');
    const parent = fleet.git('rev-parse', 'HEAD');
    const odd = join(fleet.dir, 'odd');
    for (const lines of [
      `tree ${tree}\nparent ${parent}\nauthor A <a> 1 +0000\nauthor B <b> 2 +0000\ncommitter C <c> 3 +0000\ngpgsig -----BEGIN SSH SIGNATURE-----\n nonsense\n\nWindlass-Type: approve\n`,
      `tree ${tree}\nparent ${parent}\nauthor  <> 99999999999999999999 +9999\ncommitter x <y> z\n\n\u00ff\u0000`,
    ]) {
      writeFileSync(odd, Buffer.from(lines, 'latin1'));
      const made = fleet.git('hash-object', '-t', 'commit', '-w', '--literally', odd);
      fleet.git('update-ref', 'HEAD', fleet.git('commit-tree', tree, '-p', 'HEAD', '-p', made, '-m', 'merge'));
    }
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
  });

  it('is judged and carried out by object ids: a branch that moves meanwhile changes nothing', async () => {
    const fleet = await open();
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    const tip = fleet.approve(subject, 'cleo');
    const { house } = fleet.bench;
    await accept(house, await house.source.fetch());
    fleet.onRemove = () => {
      fleet.commit({ 'requests/one.yaml': fleet.file('requests/one.yaml').replace('stack: shop', 'stack: bank') });
    };
    await fleet.sim.run(runRequests(fleet.bench, tip, new AbortController().signal));
    expect([fleet.removed, fleet.states()]).toEqual([['shop_data'], { one: 'succeeded done' }]);
    expect(house.trust!.ledger!.receipt('one')?.tip).toBe(tip);
  });

  it('a key that a newer policy has retired approves nothing more, not even back-dated', async () => {
    const fleet = await open();
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'cleo', '-f', join(fleet.dir, 'cleo2')]);
    const key = (name: string) => readFileSync(join(fleet.dir, `${name}.pub`), 'utf8').trim();
    fleet.commit({ 'trust/policy/v0002.yaml': fleet.policy(2).replace(key('cleo'), key('cleo2')) });
    const policy = fleet.subject('trust/policy/v0002.yaml');
    for (const admin of ['anna', 'bert']) fleet.commit({}, fleet.message('policy', policy), admin);
    const subject = fleet.request('one', 'anna', 'all', { policy });
    fleet.approve(subject, 'bert', { policy });
    fleet.approve(subject, 'cleo', { policy });
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({ one: 'awaitingApprovals approvals-missing' });
    fleet.approve(subject, 'cleo2', { policy });
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
  });

  it('that leaves the tree again, by whose commit whatever, is not carried out', async () => {
    const fleet = await open({ minDelay: '2h' });
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({ one: 'scheduled delay-running' });
    fleet.git('rm', '-q', 'requests/one.yaml');
    fleet.commit({}, 'tidy up');
    await fleet.sim.clock.advance(3 * HOUR);
    expect(await shown(fleet, 'one')).toMatch(/state +gone\n.*it is not among the requests of the newest commit/);
    expect(await fleet.look()).toEqual({ one: 'verifying left-the-branch' });
    await fleet.look();
    const tip = fleet.git('rev-parse', '--short=12', 'HEAD');
    const said = `left-the-branch: requests/one.yaml is no longer on the branch at commit ${tip}`;
    expect(await shown(fleet, 'one')).toContain(`  state      gone\n  why        ${said}\n`);
    const events = () =>
      fleet.bench.house.store.events({}).filter(({ message }) => message.includes('left-the-branch'));
    expect(events().map(({ level, message }) => `${level} ${message}`)).toEqual([`warning one ${said}`]);
    expect(fleet.removed).toEqual([]);
    fleet.git('revert', '--no-edit', '--no-gpg-sign', 'HEAD');
    fleet.commit({}, 'bring it back');
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
  });

  it('that was renamed and ran is told under the name that was approved, with the name that ran', async () => {
    const fleet = await open();
    const subject = fleet.request('q9');
    fleet.approve(subject, 'bert');
    await fleet.look();
    fleet.approve(subject, 'cleo');
    fleet.git('mv', 'requests/q9.yaml', 'requests/a0.yaml');
    fleet.commit({}, 'another name');
    expect(await fleet.look()).toEqual({ a0: 'succeeded done', q9: 'verifying left-the-branch' });
    expect(await shown(fleet, 'q9')).toMatch(
      /no longer on the branch at commit .*; the same bytes ran as a0 \(succeeded\)/,
    );
  });

  it('that was never more than a bad file is forgotten when it is gone, and one of a claim never is', async () => {
    const fleet = await open();
    fleet.commit({ 'requests/bad.yaml': 'kind: Purge\n' });
    expect(await fleet.look()).toEqual({ bad: 'verifying request-invalid' });
    fleet.git('rm', '-q', 'requests/bad.yaml');
    fleet.commit({}, 'revert');
    expect(await fleet.look()).toEqual({});
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    await fleet.look();
    const ledger = fleet.bench.house.trust!.ledger!;
    ledger.forget('one');
    expect(ledger.snapshot('one')?.state).toBe('succeeded');
  });

  it('waits the delay of its rule after the last approval that was needed', async () => {
    const fleet = await open({ minDelay: '2h' });
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({ one: 'scheduled delay-running' });
    await fleet.sim.clock.advance(HOUR);
    expect(await fleet.look()).toEqual({ one: 'scheduled delay-running' });
    await fleet.sim.clock.advance(HOUR + 1000);
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
  });

  it('is not carried out on a look from before another one was: a rejection that came meanwhile is heard', async () => {
    const fleet = await open();
    fleet.remake('shop_more');
    const [one, two] = [fleet.request('one', 'anna', '[shop_data]'), fleet.request('two', 'anna', '[shop_more]')];
    for (const key of ['bert', 'cleo']) for (const subject of [one, two]) fleet.approve(subject, key);
    fleet.onRemove = () => void fleet.commit({}, fleet.message('reject', two), 'cleo');
    await fleet.look();
    fleet.onRemove = () => {};
    expect(await fleet.look()).toEqual({ one: 'succeeded done', two: 'rejected rejected-by-approver' });
    expect(fleet.removed).toEqual(['shop_data']);
  });

  it('runs after another one at the same look when nothing was pushed meanwhile', async () => {
    const fleet = await open();
    fleet.remake('shop_more');
    const [one, two] = [fleet.request('one', 'anna', '[shop_data]'), fleet.request('two', 'anna', '[shop_more]')];
    for (const key of ['bert', 'cleo']) for (const subject of [one, two]) fleet.approve(subject, key);
    expect(await fleet.look()).toEqual({ one: 'succeeded done', two: 'succeeded done' });
  });

  it('that an approver rejects, or its requester withdraws, is over', async () => {
    const fleet = await open();
    const one = fleet.request('one');
    fleet.approve(one, 'bert');
    fleet.commit({}, fleet.message('reject', one), 'cleo');
    const two = fleet.request('two');
    fleet.commit({}, fleet.message('withdraw', two), 'anna');
    expect(await fleet.look()).toEqual({
      one: 'rejected rejected-by-approver',
      two: 'withdrawn withdrawn-by-requester',
    });
    fleet.approve(one, 'cleo');
    expect((await fleet.look())['one']).toBe('rejected rejected-by-approver');
  });

  it('whose approval was withdrawn, or that was rejected, by a tag that is overwritten afterwards stays so', async () => {
    const fleet = await open();
    const tag = (type: StatementType, subject: string, key: string): void => {
      const file = join(fleet.dir, 'tag');
      writeFileSync(file, fleet.message(type, subject));
      fleet.git('tag', '-f', '-u', join(fleet.dir, key), '--cleanup=verbatim', '-F', file, 'windlass/said');
    };
    const one = fleet.request('one');
    fleet.approve(one, 'cleo');
    tag('withdraw', one, 'cleo');
    await fleet.look();
    // Nobody asks yet, so nothing is over by it.
    const two = fleet.request('two', null);
    tag('reject', two, 'bert');
    expect(await fleet.look()).toMatchObject({ two: expect.stringMatching(/^verifying/) });
    tag('policy', one, 'mallory');
    fleet.approve(one, 'bert');
    fleet.commit({}, fleet.message('request', two), 'anna');
    for (const name of ['bert', 'cleo']) fleet.approve(two, name);
    expect(await fleet.look()).toEqual({
      one: 'awaitingApprovals approvals-missing',
      two: 'rejected rejected-by-approver',
    });
  });

  it('waits while a container uses the volume, and spends nothing meanwhile', async () => {
    const fleet = await open();
    fleet.commit({
      'stacks/shop/compose.yaml':
        'services:\n  web:\n    image: windlass-test/busybox:1\n    volumes: [data:/d]\nvolumes: { data: {} }\n',
    });
    const { sim } = fleet;
    sim.source.push({ 'stacks/shop/compose.yaml': fleet.file('stacks/shop/compose.yaml') });
    await sim.apply();
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({ one: 'scheduled waits' });
    const told = () => fleet.bench.house.store.events({}).filter(({ reason }) => reason === 'Request').length;
    const before = told();
    expect(await fleet.look()).toEqual({ one: 'scheduled waits' });
    expect([told(), fleet.bench.house.trust!.ledger!.claims()]).toEqual([before, []]);
    sim.world.remove('shop-web-1');
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
  });
});

describe('a file that looks like a request and has a name that none can have', () => {
  it('is told once, listed with the reason, and found by a check', async () => {
    const fleet = await open();
    const text = 'apiVersion: windlass/v1\nkind: Purge\n';
    const paths = ['requests/Purge.yaml', 'requests/a b.yaml', 'requests/old/one.yaml', 'requests/two.yml'];
    fleet.commit(Object.fromEntries([...paths, 'requests/README.md'].map((path) => [path, text])));
    await fleet.look();
    await fleet.look();
    const { house } = fleet.bench;
    const told = house.store.events({}).filter(({ message }) => message.startsWith('nobody reads'));
    expect(told.map(({ message }) => message.match(/"[^"]+"/g))).toEqual([paths.map((path) => `"${path}"`)]);
    const { misnamed } = await lookAtTrust(house, (await house.source.tip())!);
    expect(misnamed.map(({ id, evaluation }) => `${id} ${evaluation.reason}`)).toEqual(
      paths.map((path) => `${path} request-path`),
    );
    const { entries } = await house.source.list((await house.source.tip())!);
    expect((await checkTrustDocuments(house, entries)).map(({ place }) => place?.file)).toEqual(paths);
  });
});

describe('the volumes of a purge', () => {
  const purge = async (fleet: Fleet, id: string, volumes: string): Promise<string> => {
    const subject = fleet.request(id, 'anna', volumes);
    for (const name of ['bert', 'cleo']) fleet.approve(subject, name);
    await fleet.look();
    const { state, reason, detail } = fleet.bench.house.trust!.ledger!.snapshot(id)!;
    return `${state} ${reason}: ${detail}`;
  };

  it('are named as the engine or as the Compose file names them, and a key stands for all its generations', async () => {
    const fleet = await open();
    fleet.remake('shop_data-2');
    fleet.sim.world.engine.addVolume('bank_data', {
      'com.docker.compose.project': 'bank',
      'com.docker.compose.volume': 'data',
    });
    expect(await purge(fleet, 'one', '[shop_data-2]')).toBe('succeeded done: removed shop_data-2');
    fleet.remake('shop_data-3');
    expect(await purge(fleet, 'two', '[data]')).toBe('succeeded done: removed shop_data, shop_data-3');
    expect([...fleet.sim.world.engine.volumes.keys()]).toEqual(['bank_data']);
  });

  it('are told with their size while people decide, while it runs, and once they are gone', async () => {
    const fleet = await open();
    const { payloads } = fleet.bench.house;
    const sizes = { volumeSizeBytes: async () => 3 * 1024 * 1024 };
    const removeVolume = payloads!.removeVolume.bind(payloads);
    const gone = { ...sizes, removeVolume: () => Promise.reject(new Fault('ENGINE_UNREACHABLE', 'it is away')) };
    Object.assign(payloads!, gone);
    const told = async (): Promise<readonly string[]> =>
      (await shown(fleet, 'one')).split('\n').filter((line) => /shop_data/.test(line));
    const subject = fleet.request('one', 'anna', '[data]');
    const discards = '  discards   volume shop_data (up to 3.0 MiB) is removed with all that is in it';
    expect(await told()).toEqual([discards]);
    for (const name of ['bert', 'cleo']) fleet.approve(subject, name);
    await fleet.look().catch(() => {});
    expect(fleet.states()).toEqual({ one: 'executing executing' });
    expect(await told()).toEqual([discards]);
    Object.assign(payloads!, { removeVolume });
    await fleet.look();
    expect(await told()).toEqual([
      '  why        done: removed shop_data',
      '  discarded  volume shop_data (up to 3.0 MiB), all of it',
    ]);
    const later = fleet.request('two', 'anna', '[data]');
    expect(await shown(fleet, 'two')).toContain(
      '  discards   cannot be told now, since its volumes are not to be found',
    );
    expect(later).not.toBe(subject);
  });

  it('that are waited for are told once in the log of a run, as is a request that lacks something', async () => {
    const fleet = await open();
    const { house } = fleet.bench;
    const told = async (): Promise<readonly string[]> =>
      (await runRequests(fleet.bench, await house.source.fetch(), new AbortController().signal)).told;
    const subject = fleet.request('one', 'anna', '[pgdata]');
    await accept(house, await house.source.fetch());
    expect(await told()).toEqual(['request one awaitingApprovals: approvals-missing: 2 more']);
    for (const name of ['bert', 'cleo']) fleet.approve(subject, name);
    expect(await told()).toEqual([
      'request one scheduled: authorised',
      'request one scheduled: waits: stack shop has no volume pgdata; it has data (shop_data)',
    ]);
    expect(await told()).toEqual([]);
  });

  it('that the stack does not have spend nothing: it waits, says which there are, and runs when they are there', async () => {
    const fleet = await open();
    expect(await purge(fleet, 'one', '[data, pgdata]')).toBe(
      'scheduled waits: stack shop has no volume pgdata; it has data (shop_data)',
    );
    fleet.sim.world.engine.addVolume('pgdata', { 'com.docker.compose.project': 'bank' });
    await fleet.look();
    const { ledger } = fleet.bench.house.trust!;
    expect(ledger!.snapshot('one')?.detail).toBe('the volume pgdata does not belong to stack shop');
    expect([ledger!.claims(), fleet.removed]).toEqual([[], []]);
    const told = fleet.bench.house.store.events({}).filter(({ message }) => message.includes('waits: stack shop'));
    expect(told.length).toBe(1);
    fleet.sim.world.engine.volumes.delete('shop_data');
    expect(await purge(fleet, 'two', 'all')).toBe('scheduled waits: the engine holds no volume of stack shop');
  });
});

describe('a request that waits, and is then written anew and approved', () => {
  it('is carried out and recorded as what it says by then', async () => {
    const fleet = await open();
    const one = fleet.request('one', 'anna', '[other]');
    for (const key of ['bert', 'cleo']) fleet.approve(one, key);
    expect(await fleet.look()).toEqual({ one: 'scheduled waits' });
    const two = fleet.request('one', 'anna', 'all');
    for (const key of ['bert', 'cleo']) fleet.approve(two, key);
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
    const { ledger } = fleet.bench.house.trust!;
    expect([ledger!.snapshot('one')?.subject, ledger!.claimOf('one')?.subject]).toEqual([two, two]);
  });
});

describe('after a crash', () => {
  const approved = async (): Promise<Fleet> => {
    const fleet = await open();
    fleet.remake('shop_more');
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    return fleet;
  };

  it('between claim and act it is judged once more and finished', async () => {
    const fleet = await approved();
    fleet.onRemove = () => {
      throw Object.assign(new Error('killed'), {});
    };
    const ledger = fleet.bench.house.trust!.ledger!;
    const { claim } = ledger;
    Object.assign(ledger, {
      claim: (...made: Parameters<typeof claim>) => {
        claim(...made);
        throw new Error('killed');
      },
    });
    await expect(fleet.look()).rejects.toThrow('killed');
    Object.assign(ledger, { claim });
    expect(fleet.states()).toEqual({ one: 'claimed claimed' });
    fleet.open();
    fleet.onRemove = () => {};
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
    expect(fleet.removed).toEqual(['shop_data', 'shop_more']);
    const receipt = fleet.bench.house.trust!.ledger!.receipt('one');
    expect(receipt).toMatchObject({ subject: fleet.subject('requests/one.yaml'), outcome: 'succeeded' });
    expect(receipt?.statements).toHaveLength(3);
  });

  it('without a word of what it was about to touch nothing is touched, and it is told as indeterminate', async () => {
    const fleet = await approved();
    const ledger = fleet.bench.house.trust!.ledger!;
    const { claim } = ledger;
    Object.assign(ledger, {
      claim: (...made: Parameters<typeof claim>) => {
        claim(...made);
        throw new Error('killed');
      },
    });
    await expect(fleet.look()).rejects.toThrow('killed');
    Object.assign(ledger, { claim });
    fleet.bench.house.store.deleteValue('request-intent/one');
    expect(await fleet.look()).toEqual({ one: 'indeterminate interrupted' });
    expect(await fleet.look()).toEqual({ one: 'indeterminate interrupted' });
    expect(fleet.removed).toEqual([]);
  });

  it('in the middle of the work only what was approved is finished: a volume that was made anew stays', async () => {
    const fleet = await approved();
    const { house } = fleet.bench;
    const ledger = house.trust!.ledger!;
    let isDead = false;
    fleet.onRemove = (name) => {
      if (name === 'shop_more') {
        isDead = true;
        throw new Error('killed');
      }
    };
    const put = ledger.putSnapshot;
    Object.assign(ledger, {
      putSnapshot: (snapshot: Parameters<typeof put>[0]) => {
        if (isDead) throw new Error('killed');
        put(snapshot);
      },
    });
    await expect(fleet.look()).rejects.toThrow('killed');
    expect(fleet.removed).toEqual(['shop_data']);
    fleet.open();
    fleet.onRemove = () => {};
    fleet.remake('shop_data');
    expect((await fleet.look())['one']).toBe('failed PLAN_STALE');
    expect(fleet.sim.world.engine.volumes.has('shop_data')).toBe(true);
  });

  const lose = async (fleet: Fleet): Promise<void> => {
    await fleet.sim.clock.advance(10_000);
    fleet.forgetLedger();
  };

  it('a lost ledger runs nothing that was signed before it, not even under another id, until it is signed again', async () => {
    const fleet = await approved();
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
    fleet.remake('shop_data');
    await lose(fleet);
    expect(await fleet.look()).toEqual({ one: 'verifying request-predates-ledger' });
    fleet.commit({ 'requests/two.yaml': fleet.file('requests/one.yaml') });
    expect(await fleet.look()).toEqual({
      one: 'verifying request-predates-ledger',
      two: 'verifying request-predates-ledger',
    });
    expect(fleet.sim.world.engine.volumes.has('shop_data')).toBe(true);
    fleet.git('rm', '-q', 'requests/two.yaml');
    const subject = fleet.subject('requests/one.yaml');
    fleet.commit({}, fleet.message('request', subject), 'anna');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    expect((await fleet.look())['one']).toBe('succeeded done');
  });

  it('a ledger that was copied to another host runs nothing there that ran here', async () => {
    const fleet = await approved();
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
    fleet.bench.house.trust!.ledger!.close();
    const copy = readFileSync(join(fleet.sim.dir, 'ledger.db'));
    await lose(fleet);
    fleet.bench.house.trust!.ledger!.close();
    for (const suffix of ['-wal', '-shm']) rmSync(join(fleet.sim.dir, `ledger.db${suffix}`), { force: true });
    writeFileSync(join(fleet.sim.dir, 'ledger.db'), copy);
    fleet.open();
    fleet.remake('shop_data');
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
    expect(fleet.sim.world.engine.volumes.has('shop_data')).toBe(true);
  });

  it('a clock that is set back neither shortens a delay, nor runs anything twice, nor wakes what has expired', async () => {
    const fleet = await open({ minDelay: '2h' });
    const { clock } = fleet.sim;
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    const over = fleet.request('over');
    expect(await fleet.look()).toMatchObject({ one: 'scheduled delay-running' });
    await clock.advance(HOUR);
    const now = clock.nowMs.bind(clock);
    clock.nowMs = () => now() - 3 * HOUR;
    expect((await fleet.look())['one']).toMatch(/^verifying request-unsigned/);
    clock.nowMs = now;
    expect((await fleet.look())['one']).toBe('scheduled delay-running');
    await clock.advance(HOUR + 1000);
    expect((await fleet.look())['one']).toBe('succeeded done');
    fleet.remake('shop_data');
    await clock.advance(48 * HOUR);
    expect((await fleet.look())['over']).toBe('expired request-expired');
    clock.nowMs = () => now() - 49 * HOUR;
    fleet.approve(over, 'bert');
    fleet.approve(over, 'cleo');
    clock.nowMs = () => now() - 24 * HOUR;
    expect(await fleet.look()).toEqual({ one: 'succeeded done', over: 'expired request-expired' });
    expect(fleet.removed).toEqual(['shop_data']);
  });
});

describe('a state directory that cannot be written', () => {
  const approved = async (): Promise<Fleet> => {
    const fleet = await open();
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    return fleet;
  };
  const full = (): never => {
    throw new Fault('FILES_FAILED', 'the disk is full');
  };
  type Break = (fleet: Fleet) => void;
  const onLedger =
    (name: 'claim' | 'firstSeen' | 'putSnapshot' | 'acceptTip', when: (said: string) => boolean): Break =>
    ({ bench }) => {
      const { ledger } = bench.house.trust!;
      const real = ledger![name] as (...args: unknown[]) => unknown;
      let isOver = false;
      const put = (...args: unknown[]) => {
        if (isOver || !when(JSON.stringify(args))) return real(...args);
        isOver = true;
        return full();
      };
      Object.assign(ledger!, { [name]: put });
    };
  const onStore =
    (name: 'putValue' | 'putRun' | 'deleteValue', when: (said: string) => boolean): Break =>
    ({ bench }) => {
      const { store } = bench.house;
      const real = store[name].bind(store) as (...args: unknown[]) => unknown;
      let isOver = false;
      const put = (...args: unknown[]) => {
        if (isOver || !when(JSON.stringify(args))) return real(...args);
        isOver = true;
        return full();
      };
      Object.assign(store, { [name]: put });
    };

  it.each<readonly [string, Break, readonly string[]]>([
    ['when an approval is first seen', onLedger('firstSeen', () => true), []],
    ['when its standing is noted', onLedger('putSnapshot', (said) => said.includes('"scheduled"')), []],
    ['at its intent', onStore('putValue', (said) => said.includes('request-intent')), []],
    ['at its claim', onLedger('claim', () => true), []],
    ['at the word that it runs', onLedger('putSnapshot', (said) => said.includes('"executing"')), []],
    ['at the record of its run', onStore('putRun', (said) => said.includes('running')), []],
    ['in the middle of its work', onStore('deleteValue', (said) => said.includes('orphaned/')), ['shop_data']],
    ['at the end of its run', onStore('putRun', (said) => said.includes('succeeded')), ['shop_data']],
    ['at its receipt', onLedger('putSnapshot', (said) => said.includes('"succeeded"')), ['shop_data']],
    ['behind its end', onStore('deleteValue', (said) => said.includes('request-intent')), ['shop_data']],
  ])('%s is told, and the request is carried out once, when there is room again', async (_, breaks, gone) => {
    const fleet = await approved();
    breaks(fleet);
    await expect(fleet.look()).rejects.toThrow('the disk is full');
    expect(fleet.removed).toEqual(gone);
    expect((await fleet.look())['one']).toBe('succeeded done');
    expect(fleet.removed).toEqual(['shop_data']);
    expect(fleet.bench.house.trust!.ledger!.receipt('one')?.outcome).toBe('succeeded');
    fleet.remake('shop_data');
    await fleet.look();
    expect(fleet.removed).toEqual(['shop_data']);
  });

  it('keeps the one that it stops from its end, and of the others only those of its stack, in their order', async () => {
    const fleet = await open();
    fleet.remake('shop_more');
    fleet.sim.world.engine.addVolume('blog_data', { 'com.docker.compose.project': 'blog' });
    const one = fleet.request('one', 'anna', '[shop_data]');
    const path = 'requests/two.yaml';
    const text = fleet
      .file('requests/one.yaml')
      .replace('stack: shop', 'stack: blog')
      .replace('shop_data', 'blog_data');
    const two = createHash('sha256').update(text).digest('hex');
    fleet.commit({ [path]: text }, fleet.message('request', two), 'anna');
    const three = fleet.request('three', 'anna', '[shop_more]');
    for (const subject of [one, two, three]) for (const name of ['bert', 'cleo']) fleet.approve(subject, name);
    const { house } = fleet.bench;
    const real = house.store.deleteValue.bind(house.store);
    const stuck = vi.spyOn(house.store, 'deleteValue').mockImplementation((key) => {
      if (key === 'orphaned/shop_data') full();
      real(key);
    });
    const log: string[] = [];
    const look = async () => {
      const tip = await house.source.fetch();
      await fleet.sim.run(
        runRequests(
          fleet.bench,
          tip,
          new AbortController().signal,
          () => false,
          (line) => log.push(line),
        ),
      );
      return fleet.states();
    };
    await expect(look()).rejects.toThrow('the disk is full');
    for (let looks = 0; looks < 2; looks++)
      expect(await look()).toEqual({ one: 'executing executing', two: 'succeeded done', three: 'scheduled waits' });
    expect(log.filter((line) => line.startsWith('error'))).toEqual(
      Array(2).fill('error request one: the disk is full; tried again at the next look'),
    );
    expect(log.filter((line) => line.startsWith('request three scheduled: waits'))).toEqual([
      'request three scheduled: waits: the request one of the same stack has not come to its end',
    ]);
    expect(fleet.removed).toEqual(['shop_data', 'blog_data']);
    stuck.mockRestore();
    expect(await look()).toEqual({ one: 'succeeded done', two: 'succeeded done', three: 'succeeded done' });
    expect(fleet.removed).toEqual(['shop_data', 'blog_data', 'shop_more']);
  });
});

describe('a clock that was a year ahead', () => {
  it('runs nothing early, and what it took for expired stays so: it is asked for anew', async () => {
    const fleet = await open({ minDelay: '2h' });
    const { clock } = fleet.sim;
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({ one: 'scheduled delay-running' });
    const now = clock.nowMs.bind(clock);
    clock.nowMs = () => now() + 365 * 24 * HOUR;
    expect(await fleet.look()).toEqual({ one: 'expired request-expired' });
    clock.nowMs = now;
    await clock.advance(3 * HOUR);
    expect([await fleet.look(), fleet.removed]).toEqual([{ one: 'expired request-expired' }, []]);
    const two = fleet.request('two');
    fleet.approve(two, 'bert');
    fleet.approve(two, 'cleo');
    expect((await fleet.look())['two']).toBe('scheduled delay-running');
    await clock.advance(2 * HOUR + 1000);
    expect((await fleet.look())['two']).toBe('succeeded done');
  });
});

describe('windlass doctor', () => {
  const doctor = async (fleet: Fleet, trust: Partial<NonNullable<House['trust']>> = {}) => {
    const told: { check: string; ok: boolean; says: string; help: string }[] = [];
    const { house } = fleet.bench;
    const desk = new Surface({ ...house, trust: { ...house.trust!, ...trust } });
    const io = { json: (value: typeof told) => void told.push(...value) };
    await doctorCommand.run({ io, json: true, surface: async () => desk, now: new AbortController().signal } as never);
    return told.find(({ check }) => check === 'trust');
  };

  it('tells in one line whether a signature could count, and the cure of what stops it', async () => {
    const fleet = await open();
    expect(await doctor(fleet)).toMatchObject({
      ok: true,
      says: expect.stringMatching(/^deploy: none, policy version 1, ledger at /),
    });
    expect(await doctor(fleet, { files: async () => ({ revoked: null }) })).toMatchObject({
      ok: false,
      says: 'the file of trust.revokedFile cannot be read, so no signature counts',
      help: expect.stringContaining('an empty one revokes nothing'),
    });
    expect(
      await doctor(fleet, { files: async () => ({ revoked: Buffer.from('# list\nnonsense\u001b\n') }) }),
    ).toMatchObject({
      ok: false,
      says: expect.stringMatching(/^trust\.revokedFile:2: .*nonsense.*so no signature counts$/),
      help: expect.stringContaining('mend or restore it'),
    });
    const { anchor } = fleet.bench.house.trust!;
    expect(await doctor(fleet, { anchor: { ...anchor!, ref: 'refs/heads/other' } })).toMatchObject({
      ok: false,
      says: expect.stringContaining('the trust anchor is for refs/heads/other'),
      help: expect.stringContaining('sources'),
    });
    expect(await doctor(fleet, { anchor: { ...anchor!, policySha256: 'f'.repeat(64) } })).toMatchObject({
      ok: false,
      says: expect.stringContaining('no policy is in effect: policy-not-anchored'),
      help: expect.stringContaining('anchor'),
    });
    mkdirSync(join(fleet.dir, 'empty'));
    const empty = openLedger({ directory: join(fleet.dir, 'empty'), fleet: FLEET });
    try {
      expect(await doctor(fleet, { ledger: empty })).toMatchObject({
        ok: true,
        says: expect.stringContaining('the ledger is new'),
      });
    } finally {
      empty.close();
    }
  });

  it('says so where no signature is asked for', async () => {
    const { house } = (await open()).bench;
    const told: string[] = [];
    const desk = new Surface({ ...house, trust: { deploy: 'none', files: async () => ({}) } as never });
    const io = { paint: (_: string, text: string) => text, data: (text: string) => void told.push(text) };
    await doctorCommand.run({ io, json: false, surface: async () => desk, now: new AbortController().signal } as never);
    expect(told.join('\n')).toMatch(
      /^ok {3}trust +deploy: none, no anchor: no signature is asked for, and no request runs$/m,
    );
  });
});

describe('files of odd kinds in requests/', () => {
  it('are refused with a reason each, and stop none that is right', async () => {
    const fleet = await open();
    const subject = fleet.request('one');
    const text = fleet.file('requests/one.yaml');
    symlinkSync('one.yaml', join(fleet.clone, 'requests/link.yaml'));
    mkdirSync(join(fleet.clone, 'requests/folder.yaml'));
    writeFileSync(join(fleet.clone, 'requests/folder.yaml/a.yaml'), text);
    fleet.git('add', 'requests');
    fleet.git('update-index', '--add', '--cacheinfo', `160000,${fleet.genesis},requests/module.yaml`);
    const odd: Readonly<Record<string, string>> = {
      big: `# ${'x'.repeat(10 * 1024 * 1024)}\n${text}`,
      crlf: text.replaceAll('\n', '\r\n'),
      bom: `\ufeff${text}`,
      twice: `${text}"stack": bank\n`,
      js: text.replace('reason: ', 'reason: !!js/function '),
      tab: text.replace('stack:', '\tstack:'),
      two: `${text}---\n${text}`,
    };
    fleet.commit(Object.fromEntries(Object.entries(odd).map(([id, words]) => [`requests/${id}.yaml`, words])));
    fleet.commit({ 'requests/two\nlines.yaml': text });
    fleet.commit({ 'requests/ü.yaml': text, 'requests/-a.yaml': text, [`requests/${'a'.repeat(200)}.yaml`]: text });
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({
      big: 'verifying request-too-large',
      bom: 'verifying request-unsigned',
      crlf: 'verifying request-unsigned',
      js: 'verifying request-invalid',
      link: 'verifying request-not-regular',
      module: 'verifying request-not-regular',
      one: 'succeeded done',
      tab: 'verifying request-invalid',
      twice: 'verifying request-invalid',
      two: 'verifying request-invalid',
    });
    const { misnamed } = await lookAtTrust(fleet.bench.house, (await fleet.bench.house.source.tip())!);
    expect(misnamed).toHaveLength(5);
    expect(misnamed.map(({ path }) => path)).toContain('requests/two\nlines.yaml');
  });
});

describe('the accepted tip', () => {
  it('is not forgotten with the state: a rewritten branch is refused by the ledger alone, and a person may take it', async () => {
    const fleet = await open();
    const good = fleet.commit({ 'a.txt': '1' });
    await fleet.look();
    const { house } = fleet.bench;
    house.store.deleteValue('accepted/main');
    fleet.git('reset', '-q', '--hard', `${good}~1`);
    const evil = fleet.commit({ 'a.txt': '2' });
    await house.source.fetch();
    expect((await brokenLineage(house, evil))?.code).toBe('HISTORY_REWRITTEN');
    await expect(accept(house, evil)).rejects.toMatchObject({ code: 'HISTORY_REWRITTEN' });
    expect(house.trust!.ledger!.acceptedTip()).toBe(good);
    await new Surface(house).accept(evil);
    expect(house.trust!.ledger!.acceptedTip()).toBe(evil);
  });

  it('is moved by one process only: who comes second is told and moves nothing', async () => {
    const fleet = await open();
    const { house } = fleet.bench;
    const ledger = house.trust!.ledger!;
    const first = ledger.acceptedTip();
    const tip = fleet.commit({ 'a.txt': '1' });
    await house.source.fetch();
    const late = { ...house, trust: { ...house.trust!, ledger: { ...ledger, acceptTip: () => false } } };
    await expect(accept(late, tip)).rejects.toMatchObject({ code: 'PLAN_STALE' });
    expect([ledger.acceptedTip(), house.store.value('accepted/main')]).toEqual([first, first]);
  });
});

describe('a flood of files', () => {
  it('stops neither a request that is on its way nor a deploy, and is told', async () => {
    const fleet = await open({ deploy: 'head', minDelay: '2h' });
    const subject = fleet.request('zebra');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({ zebra: 'scheduled delay-running' });
    for (let index = 0; index < 20; index++)
      writeFileSync(join(fleet.clone, `requests/a${index}.yaml`), `# ${'x'.repeat(1_000_000)} ${index}\n`);
    fleet.git('add', 'requests');
    fleet.commit({}, 'flood', 'anna');
    const { house, reader } = fleet.bench;
    const tip = await house.source.fetch();
    expect(await unverified(fleet.bench, await reader.read(tip))).toBeNull();
    await fleet.sim.clock.advance(3 * HOUR);
    expect((await fleet.look())['zebra']).toBe('succeeded done');
    const told = house.store.events({}).filter(({ message }) => message.includes('not looked at'));
    expect(told.map(({ message }) => message)).toEqual([
      '12 files in requests/ were not looked at: there are too many; remove those that are done',
    ]);
  }, 60_000);
});

describe('a flood of commits with words of statements', () => {
  it('refuses the request that it speaks of, for a rejection may be among them, and neither another one nor a deploy', async () => {
    const fleet = await open({ deploy: 'head' });
    const one = fleet.request('one', 'anna', '[shop_data]');
    const two = fleet.request('two', 'anna', '[shop_data]');
    const main = fleet.git('rev-parse', 'HEAD');
    const message = fleet.message('approve', one);
    const commits = Array.from(
      { length: 1_001 },
      (_, at) =>
        `commit refs/heads/flood\ncommitter M <m@example.org> ${1_700_000_000 + at} +0000\ndata ${message.length}\n${message}${at === 0 ? `from ${main}\n` : ''}\n`,
    );
    execFileSync('git', ['fast-import', '--quiet'], { cwd: fleet.clone, input: commits.join('') });
    fleet.git('merge', '-q', '--ff-only', 'flood');
    for (const subject of [one, two]) for (const name of ['bert', 'cleo']) fleet.approve(subject, name);
    fleet.commit({}, 'vouch', 'anna');
    const { house, reader } = fleet.bench;
    expect(await unverified(fleet.bench, await reader.read(await house.source.fetch()))).toBeNull();
    expect(await fleet.look()).toEqual({ one: 'verifying too-many-statements', two: 'succeeded done' });
  }, 60_000);

  it('about a policy, of 70 MiB, stops no deploy, and the admins still bring the version into effect by signing after it', async () => {
    const fleet = await open({ deploy: 'head' });
    fleet.commit({}, 'vouch', 'anna');
    await fleet.look();
    const text = fleet.policy(2);
    fleet.commit({ 'trust/policy/v0002.yaml': text }, 'draft', 'anna');
    const subject = fleet.subject('trust/policy/v0002.yaml');
    const policy = fleet.subject('trust/policy/v0001.yaml');
    const main = fleet.git('rev-parse', 'HEAD');
    const flood = (sizeBytes: number, count: number, from = '') => {
      const message = fleet.message('policy', subject, { policy, body: 'x'.repeat(sizeBytes) });
      return Array.from(
        { length: count },
        (_, at) =>
          `commit refs/heads/flood\ncommitter M <m@example.org> ${1_700_000_000 + at} +0000\ndata ${message.length}\n${message}${at === 0 ? from : ''}\n`,
      );
    };
    const input = [...flood(60_000, 700, `from ${main}\n`), ...flood(1_000_000, 28)].join('');
    execFileSync('git', ['fast-import', '--quiet', '--force'], { cwd: fleet.clone, input });
    fleet.git('merge', '-q', '--ff-only', 'flood');
    fleet.commit({}, 'vouch', 'anna');
    const { house, reader } = fleet.bench;
    const verdict = async () => unverified(fleet.bench, await reader.read(await house.source.fetch()));
    const version = async () => (await lookAtTrust(house, (await house.source.tip())!)).chain.effective?.version;
    expect([await verdict(), await version()]).toEqual([null, 1]);
    for (const admin of ['bert', 'anna']) fleet.commit({}, fleet.message('policy', subject, { policy }), admin);
    expect([await verdict(), await version()]).toEqual([null, 2]);
  }, 120_000);

  it('about many versions is held in bounds, and the next version still comes into effect', async () => {
    const fleet = await open({ deploy: 'head' });
    fleet.commit({}, 'vouch', 'anna');
    await fleet.look();
    const [path, policy] = ['trust/policy/v0002.yaml', fleet.subject('trust/policy/v0001.yaml')];
    const later = Array.from({ length: 6 }, (_, at) => [`trust/policy/v000${at + 3}.yaml`, `# ${at}\n`] as const);
    const main = fleet.commit({ [path]: fleet.policy(2), ...Object.fromEntries(later) }, 'draft', 'anna');
    const commits = later.flatMap(([file]) => {
      const message = fleet.message('policy', fleet.subject(file), { policy, body: 'x'.repeat(60_000) });
      return Array.from(
        { length: 280 },
        (_, at) =>
          `commit refs/heads/flood\ncommitter M <m@example.org> ${1_700_000_000 + at} +0000\ndata ${message.length}\n${message}${file === later[0]?.[0] && at === 0 ? `from ${main}\n` : ''}\n`,
      );
    });
    execFileSync('git', ['fast-import', '--quiet', '--force'], { cwd: fleet.clone, input: commits.join('') });
    fleet.git('merge', '-q', '--ff-only', 'flood');
    fleet.commit({}, 'vouch', 'anna');
    const { house } = fleet.bench;
    const version = async (tip: string) => (await lookAtTrust(house, tip)).chain.effective?.version;
    const tip = await house.source.fetch();
    expect(await version(tip)).toBe(1);
    const reads = vi.spyOn(house.source, 'object');
    expect(await version(tip)).toBe(1);
    const read = await Promise.all(reads.mock.results.map(({ value }) => value as Promise<{ bytes: Uint8Array }>));
    expect(read.reduce((sum, { bytes }) => sum + bytes.length, 0) / 1024 / 1024).toBeLessThan(66);
    reads.mockRestore();
    for (const admin of ['bert', 'anna'])
      fleet.commit({}, fleet.message('policy', fleet.subject(path), { policy }), admin);
    expect(await version(await house.source.fetch())).toBe(2);
  }, 120_000);

  it('about a policy, of tags, keeps no admin from bringing the version into effect by tags that come after it', async () => {
    const fleet = await open({ deploy: 'head' });
    const text = fleet.policy(2);
    const main = fleet.commit({ 'trust/policy/v0002.yaml': text }, 'draft', 'anna');
    const subject = fleet.subject('trust/policy/v0002.yaml');
    const policy = fleet.subject('trust/policy/v0001.yaml');
    const message = fleet.message('policy', subject, { policy });
    const tags = Array.from(
      { length: 501 },
      (_, at) =>
        `tag windlass/a${at}\nfrom ${main}\ntagger M <m@example.org> ${1_700_000_000 + at} +0000\ndata ${message.length}\n${message}\n`,
    );
    execFileSync('git', ['fast-import', '--quiet'], { cwd: fleet.clone, input: tags.join('') });
    const { house } = fleet.bench;
    const version = async () => (await lookAtTrust(house, await house.source.fetch())).chain.effective?.version;
    expect(await version()).toBe(1);
    const file = join(fleet.dir, 'tag');
    for (const key of ['anna', 'bert']) {
      writeFileSync(file, fleet.message('policy', subject, { policy }));
      fleet.git('tag', '-u', join(fleet.dir, key), '--cleanup=verbatim', '-F', file, `windlass/policy/${key}`);
    }
    expect(await version()).toBe(2);
    expect(await version()).toBe(2);
  }, 60_000);

  it('about a version that nobody reads is not read again for each file that could be one', async () => {
    const fleet = await open({ deploy: 'head' });
    fleet.commit({}, 'vouch', 'anna');
    await fleet.look();
    for (let version = 100; version < 200; version++)
      writeFileSync(join(fleet.clone, `trust/policy/v0${version}.yaml`), `# ${version}\n`);
    fleet.git('add', 'trust');
    const main = fleet.commit({}, 'far away');
    const unread = createHash('sha256')
      .update(new Uint8Array(1024 * 1024 + 1))
      .digest('hex');
    const message = fleet.message('policy', unread);
    const commits = Array.from(
      { length: 50 },
      (_, at) =>
        `commit refs/heads/flood\ncommitter M <m@example.org> ${1_700_000_000 + at} +0000\ndata ${message.length}\n${message}${at === 0 ? `from ${main}\n` : ''}\n`,
    );
    execFileSync('git', ['fast-import', '--quiet'], { cwd: fleet.clone, input: commits.join('') });
    fleet.git('merge', '-q', '--ff-only', 'flood');
    fleet.commit({}, 'vouch', 'anna');
    const { house, reader } = fleet.bench;
    const at = await reader.read(await house.source.fetch());
    const reads = vi.spyOn(house.source, 'object');
    expect(await unverified(fleet.bench, at)).toBeNull();
    expect(reads.mock.calls.length).toBeLessThan(200);
  }, 60_000);

  it('by tags stops requests, and no deploy of a controller that knows its policy', async () => {
    const fleet = await open({ deploy: 'head' });
    fleet.request('one');
    fleet.commit({}, 'vouch', 'anna');
    await fleet.look();
    const { house, reader } = fleet.bench;
    const tags = async () => {
      throw new Fault('GIT_TOO_LARGE', 'too many tags');
    };
    const source = Object.assign(Object.create(house.source), { tags }) as typeof house.source;
    for (const name of ['tip', 'fetch', 'commit', 'descends', 'list', 'blob', 'object', 'commitsSince'] as const)
      Object.assign(source, { [name]: (house.source[name] as (...args: unknown[]) => unknown).bind(house.source) });
    const bench = new Workbench({ ...house, source });
    const tip = await house.source.fetch();
    expect(await unverified(bench, await reader.read(tip))).toBeNull();
    await expect(lookAtTrust({ ...house, source }, tip)).rejects.toThrow('too many tags');
  });
});

describe('the policy', () => {
  it('takes effect when enough admins of the version before signed it, and not by being pushed', async () => {
    const fleet = await open();
    const { house } = fleet.bench;
    const version = async () => {
      const { chain } = await lookAtTrust(house, await house.source.fetch());
      return `${chain.effective?.version} ${chain.drift?.reason ?? ''}`;
    };
    fleet.commit(
      {
        'trust/policy/v0002.yaml': fleet
          .policy(2)
          .replace('approvers: [bert, cleo]\n    threshold: 2', 'approvers: [bert]\n    threshold: 1'),
      },
      'grant',
      'cleo',
    );
    expect(await version()).toBe('1 policy-unsigned');
    const subject = fleet.subject('trust/policy/v0002.yaml');
    fleet.commit({}, fleet.message('policy', subject), 'anna');
    expect(await version()).toBe('1 policy-unsigned');
    fleet.commit({}, fleet.message('policy', subject), 'bert');
    expect(await version()).toBe('2 ');
    fleet.git('rm', '-q', 'trust/policy/v0002.yaml');
    fleet.commit({}, 'roll back', 'anna');
    expect(await version()).toBe('2 policy-rolled-back');
  });

  describe('of a controller that remembers nothing', () => {
    const TWO = 'trust/policy/v0002.yaml';
    const at = async (fleet: Fleet) => {
      const { house } = fleet.bench;
      const { chain, requests } = await lookAtTrust(house, await house.source.fetch());
      const { effective, drift } = chain;
      const said = `${effective?.version ?? 'none'} ${drift?.reason ?? '-'}`;
      return { said, detail: drift?.detail ?? '', requests };
    };
    const agreed = (fleet: Fleet, signers = ['anna', 'bert'], text = fleet.policy(2, '1h')) => {
      fleet.commit({ [TWO]: text }, 'propose', 'anna');
      const subject = fleet.subject(TWO);
      const oids = signers.map((name) => fleet.commit({}, fleet.message('policy', subject), name));
      return { subject, oids, text };
    };
    const fresh = (options: ConstructorParameters<typeof Fleet>[0] = {}) => {
      const fleet = new Fleet(options);
      fleets.push(fleet);
      return fleet;
    };

    it('is nothing while a version that was agreed is removed, altered or renamed: nobody goes back by a push', async () => {
      const fleet = fresh({ deploy: 'head' });
      const { subject, oids, text } = agreed(fleet);
      fleet.git('mv', TWO, 'trust/policy/v0003.yaml');
      fleet.commit({}, 'renamed', 'anna');
      expect((await at(fleet)).said).toBe('none policy-missing');
      fleet.git('rm', '-q', 'trust/policy/v0003.yaml');
      fleet.commit({}, 'removed', 'anna');
      fleet.request('one');
      const { said, detail, requests } = await at(fleet);
      expect(said).toBe('none policy-missing');
      expect(detail).toContain(subject);
      for (const oid of oids) expect(detail).toContain(oid.slice(0, 12));
      expect(requests[0]?.evaluation).toMatchObject({ state: 'refused', reason: 'policy-absent' });
      const denied = await unverified(
        fleet.bench,
        await fleet.bench.reader.read(await fleet.bench.house.source.fetch()),
      );
      expect(denied).toMatchObject({ code: 'NOT_VERIFIED', data: { reason: 'policy-missing' } });
      expect(denied?.message).toContain(`policy-missing ${TWO} with sha256:${subject}`);
      expect(denied?.message).toContain('byte for byte');
      fleet.commit({ [TWO]: `${text}# altered\n` }, 'altered');
      expect((await at(fleet)).said).toBe('none policy-missing');
      fleet.commit({ [TWO]: text }, 'brought back', 'anna');
      expect((await at(fleet)).said).toBe('2 -');
    });

    it('is nothing while the file of a version is missing that was signed by tags', async () => {
      const fleet = fresh();
      const { subject } = agreed(fleet, []);
      for (const name of ['anna', 'bert']) {
        const file = join(fleet.dir, 'tag');
        writeFileSync(file, fleet.message('policy', subject));
        const tag = `windlass/policy/${name}`;
        fleet.git('tag', '-u', join(fleet.dir, name), '--cleanup=verbatim', '-F', file, tag);
      }
      fleet.git('rm', '-q', TWO);
      fleet.commit({}, 'removed');
      expect((await at(fleet)).said).toBe('none policy-missing');
    });

    it('is nothing when several that follow each other are missing, or only the last of them', async () => {
      const fleet = fresh();
      const { subject } = agreed(fleet);
      const three = 'trust/policy/v0003.yaml';
      fleet.commit({ [three]: fleet.policy(3, '2h') }, 'propose');
      const last = fleet.subject(three);
      for (const name of ['anna', 'bert']) fleet.commit({}, fleet.message('policy', last, { policy: subject }), name);
      fleet.git('rm', '-q', three);
      fleet.commit({}, 'removed');
      const one = await at(fleet);
      expect(one.said).toBe('none policy-missing');
      expect(one.detail).toContain(last);
      fleet.git('rm', '-q', TWO);
      fleet.commit({}, 'removed');
      const both = await at(fleet);
      expect(both.said).toBe('none policy-missing');
      expect(both.detail).toContain(subject);
    });

    it('is stopped by no proposal that too few signed, of the admins before or of its own, and by no word of a stranger', async () => {
      const fleet = fresh();
      agreed(fleet, ['anna', 'anna', 'mallory', 'cleo']);
      fleet.git('rm', '-q', TWO);
      fleet.commit({}, 'abandoned');
      expect((await at(fleet)).said).toBe('1 -');
      // The admins change with it, and the new ones never signed.
      agreed(fleet, ['anna', 'bert'], fleet.policy(2).replace('members: [anna, bert]', 'members: [anna, cleo]'));
      fleet.git('rm', '-q', TWO);
      fleet.commit({}, 'abandoned');
      fleet.forgetLedger();
      expect((await at(fleet)).said).toBe('1 -');
    });

    it('is stopped by nothing that was signed to follow an older version', async () => {
      const fleet = fresh();
      agreed(fleet, ['anna', 'bert'], fleet.policy(2, '3h'));
      agreed(fleet);
      expect((await at(fleet)).said).toBe('2 -');
    });
  });
});

describe('a deploy that needs signatures', () => {
  it('head: takes a tip that somebody who may deploy signed, and no other', async () => {
    const fleet = await open({ deploy: 'head' });
    const verdict = async (): Promise<string> => {
      const { house, reader } = fleet.bench;
      return String((await unverified(fleet.bench, await reader.read(await house.source.fetch())))?.message ?? 'ok');
    };
    const compose = { 'stacks/shop/compose.yaml': 'services: { web: { image: "windlass-test/busybox:1" } }\n' };
    fleet.commit(compose);
    expect(await verdict()).toMatch(/is not accepted/);
    fleet.commit({ 'a.txt': '1' }, 'change', 'mallory');
    expect(await verdict()).toMatch(/is not accepted/);
    fleet.commit({ 'a.txt': '2' }, 'change', 'bert');
    expect(await verdict()).toMatch(/bert may not deploy anything/);
    fleet.commit({ 'a.txt': '3' }, 'change', 'anna');
    expect(await verdict()).toBe('ok');
  });

  it('head, L23: a commit that brings a right into effect is judged without it, and the next one has it', async () => {
    const fleet = await open({ deploy: 'head' });
    const verdict = async (): Promise<string> => {
      const { house, reader } = fleet.bench;
      return String((await unverified(fleet.bench, await reader.read(await house.source.fetch())))?.message ?? 'ok');
    };
    const compose = { 'stacks/shop/compose.yaml': 'services: { web: { image: "windlass-test/busybox:1" } }\n' };
    const text = fleet
      .policy(2)
      .replace('stacks: ["*"], requesters: [anna]', 'stacks: ["*"], requesters: [anna, bert]');
    const subject = createHash('sha256').update(text).digest('hex');
    const policy = fleet.subject('trust/policy/v0001.yaml');
    fleet.commit({ 'trust/policy/v0002.yaml': text }, fleet.message('policy', subject, { policy }), 'anna');
    fleet.commit(compose, fleet.message('policy', subject, { policy }), 'bert');
    expect(await verdict()).toMatch(/bert may not deploy anything/);
    // Also when the version is remembered as the one in effect by then.
    const { house } = fleet.bench;
    expect((await lookAtTrust(house, (await house.source.tip())!)).chain.effective?.version).toBe(2);
    expect(await verdict()).toMatch(/bert may not deploy anything/);
    fleet.commit({ 'a.txt': '1' }, 'change', 'bert');
    expect(await verdict()).toBe('ok');
  });

  it('head, L23: a commit that adds the file of a version, whose signatures come by tags, is judged without it', async () => {
    const fleet = await open({ deploy: 'head' });
    const text = fleet
      .policy(2)
      .replace('stacks: ["*"], requesters: [anna]', 'stacks: ["*"], requesters: [anna, bert]');
    const subject = createHash('sha256').update(text).digest('hex');
    fleet.commit({ 'trust/policy/v0002.yaml': text, 'a.txt': '1' }, 'grant and use', 'bert');
    const file = join(fleet.dir, 'tag');
    for (const key of ['anna', 'bert']) {
      writeFileSync(file, fleet.message('policy', subject));
      fleet.git('tag', '-u', join(fleet.dir, key), '--cleanup=verbatim', '-F', file, `windlass/policy/${key}`);
    }
    const { house, reader } = fleet.bench;
    const denied = await unverified(fleet.bench, await reader.read(await house.source.fetch()));
    expect(denied?.message).toMatch(/bert may not deploy anything/);
  });

  describe('with a policy that changes', () => {
    const compose = { 'stacks/shop/compose.yaml': 'services: { web: { image: "windlass-test/busybox:1" } }\n' };
    const DEPLOYERS = 'stacks: ["*"], requesters: [anna]';
    const sha = (text: string) => createHash('sha256').update(text).digest('hex');
    const verdict = async (fleet: Fleet): Promise<string> => {
      const { house, reader } = fleet.bench;
      const denied = await unverified(fleet.bench, await reader.read(await house.source.fetch()));
      if (denied === null) await fleet.look();
      return String(denied?.message ?? 'ok');
    };
    /** The signatures of both admins, which move no branch. */
    const sign = (fleet: Fleet, subject: string, policy: string): void => {
      for (const key of ['anna', 'bert']) {
        const file = join(fleet.dir, 'tag');
        writeFileSync(file, fleet.message('policy', subject, { policy }));
        const name = `windlass/policy/${key}-${subject.slice(0, 8)}`;
        fleet.git('tag', '-u', join(fleet.dir, key), '--cleanup=verbatim', '-F', file, name);
      }
    };
    const begin = async (deploy: 'head' | 'all'): Promise<Fleet> => {
      const fleet = await open();
      fleet.commit({}, 'vouch', 'anna');
      fleet.open(deploy);
      await fleet.look();
      return fleet;
    };

    it('all: a right is not used before it is granted, though the tip grants it; and is after that, in the same push', async () => {
      const fleet = await begin('all');
      const text = fleet.policy(2).replace(DEPLOYERS, 'stacks: ["*"], requesters: [anna, bert]');
      const start = fleet.git('rev-parse', 'HEAD');
      const policy = fleet.subject('trust/policy/v0001.yaml');
      fleet.commit(compose, 'use it', 'bert');
      fleet.commit({ 'trust/policy/v0002.yaml': text }, 'grant it', 'anna');
      sign(fleet, sha(text), policy);
      expect(await verdict(fleet)).toMatch(/bert may not deploy anything/);
      fleet.git('reset', '-q', '--hard', start);
      fleet.commit({ 'trust/policy/v0002.yaml': text }, 'grant it', 'anna');
      fleet.commit(compose, 'use it', 'bert');
      expect(await verdict(fleet)).toBe('ok');
    });

    it('all: a right is not used between the file that grants it and the last signature that it needs', async () => {
      const fleet = await begin('all');
      const deploys = (who: string) => `stacks: ["*"], requesters: [${who}]`;
      const two = fleet.policy(2).replace(DEPLOYERS, deploys('anna, bert'));
      const one = fleet.subject('trust/policy/v0001.yaml');
      fleet.commit({ 'trust/policy/v0002.yaml': two }, 'draft', 'anna');
      sign(fleet, sha(two), one);
      expect(await verdict(fleet)).toBe('ok');
      const start = fleet.git('rev-parse', 'HEAD');
      const three = fleet.policy(3).replace(DEPLOYERS, deploys('anna, bert, cleo'));
      const says = () => fleet.message('policy', sha(three), { policy: sha(two) });
      fleet.commit({ 'trust/policy/v0003.yaml': three }, says(), 'anna');
      fleet.commit(compose, 'use it', 'cleo');
      fleet.commit({}, says(), 'bert');
      expect(await verdict(fleet)).toMatch(/cleo may not deploy anything/);
      fleet.git('reset', '-q', '--hard', start);
      fleet.commit({ 'trust/policy/v0003.yaml': three }, says(), 'anna');
      fleet.commit({}, says(), 'bert');
      fleet.commit(compose, 'use it', 'cleo');
      expect(await verdict(fleet)).toBe('ok');
    });

    it('all: to remove the file of a version does not hide that a right was used before it was granted', async () => {
      const fleet = await begin('all');
      const text = fleet.policy(2).replace(DEPLOYERS, 'stacks: ["*"], requesters: [anna, bert]');
      const policy = fleet.subject('trust/policy/v0001.yaml');
      fleet.commit({ ...compose, 'trust/policy/v0002.yaml': text }, 'grant and use', 'bert');
      sign(fleet, sha(text), policy);
      expect(await verdict(fleet)).toMatch(/bert may not deploy anything/);
      fleet.git('rm', '-q', 'trust/policy/v0002.yaml');
      fleet.commit({}, 'hide it', 'anna');
      expect(await verdict(fleet)).toMatch(/bert may not deploy anything/);
    });

    it('head: one commit that brings two versions into effect is judged by neither of them', async () => {
      const fleet = await begin('head');
      const two = fleet.policy(2).replace(DEPLOYERS, 'stacks: ["*"], requesters: [anna, bert]');
      const one = fleet.subject('trust/policy/v0001.yaml');
      const three = two.replace('version: 2', 'version: 3').replace(one, sha(two));
      sign(fleet, sha(two), one);
      sign(fleet, sha(three), sha(two));
      fleet.commit(
        { ...compose, 'trust/policy/v0002.yaml': two, 'trust/policy/v0003.yaml': three },
        'grant and use',
        'bert',
      );
      expect(await verdict(fleet)).toMatch(/bert may not deploy anything/);
    });

    it.each(['head', 'all'] as const)(
      '%s: whom it has taken the right from does not get it back by signing it once more',
      async (deploy) => {
        const fleet = await begin(deploy);
        const two = fleet.policy(2).replace(DEPLOYERS, 'stacks: ["*"], requesters: [anna, bert]');
        const one = fleet.subject('trust/policy/v0001.yaml');
        fleet.commit({ 'trust/policy/v0002.yaml': two }, 'grant', 'anna');
        sign(fleet, sha(two), one);
        expect(await verdict(fleet)).toBe('ok');
        const three = fleet.policy(3).replace(DEPLOYERS, 'stacks: ["*"], requesters: [anna]');
        fleet.commit({ 'trust/policy/v0003.yaml': three }, 'take away', 'anna');
        sign(fleet, sha(three), sha(two));
        expect(await verdict(fleet)).toBe('ok');
        fleet.commit(compose, fleet.message('policy', sha(three), { policy: sha(two) }), 'bert');
        expect(await verdict(fleet)).toMatch(/bert may not deploy anything/);
      },
    );

    it('all: a key that the tip has retired vouches for no commit of the push', async () => {
      const fleet = await begin('all');
      const two = fleet.policy(2).replace(DEPLOYERS, 'stacks: ["*"], requesters: [anna, bert]');
      const one = fleet.subject('trust/policy/v0001.yaml');
      fleet.commit({ 'trust/policy/v0002.yaml': two }, 'grant', 'anna');
      sign(fleet, sha(two), one);
      expect(await verdict(fleet)).toBe('ok');
      const three = fleet.policy(3).replace(DEPLOYERS, 'stacks: ["*"], requesters: [anna]');
      fleet.commit(compose, 'while it holds', 'bert');
      fleet.commit({ 'trust/policy/v0003.yaml': three }, 'take away', 'anna');
      sign(fleet, sha(three), sha(two));
      expect(await verdict(fleet)).toMatch(/bert may not deploy anything/);
    });
  });

  it('head: neither rollback, prune nor accept goes around it', async () => {
    const fleet = await open({ deploy: 'head' });
    const compose = (version: number) => ({
      'stacks/shop/compose.yaml': `services: { web: { image: "windlass-test/busybox:${version}" } }\n`,
    });
    const good = fleet.commit(compose(1), 'change', 'anna');
    await fleet.look();
    const evil = fleet.commit(compose(2));
    const { house } = fleet.bench;
    const desk = new Surface(house);
    await expect(desk.prunable()).rejects.toMatchObject({ code: 'NOT_VERIFIED' });
    await expect(desk.rollback('shop', undefined)).rejects.toMatchObject({ code: 'NOT_VERIFIED' });
    await expect(desk.accept(evil)).rejects.toMatchObject({ code: 'NOT_VERIFIED' });
    expect([...house.store.values('refused/').keys()]).toEqual([]);
    fleet.git('reset', '-q', '--hard', good);
    fleet.commit({ 'a.txt': '1' }, 'change', 'anna');
    await house.source.fetch();
    await expect(desk.rollback('shop', evil)).rejects.toMatchObject({ code: 'NOT_VERIFIED' });
  });

  it('nothing is carried out while the tip is denied: a rejection cannot be hidden behind an unsigned commit', async () => {
    const fleet = await open({ deploy: 'head', minDelay: '2h' });
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    fleet.commit({}, 'vouch', 'anna');
    const { sim } = fleet;
    const controller = new Controller({ house: fleet.bench.house, pollMs: 1e9, intervalMs: 1e9, log: () => {} });
    try {
      await sim.run(controller.start());
      expect(fleet.states()).toEqual({ one: 'scheduled delay-running' });
      fleet.commit({}, fleet.message('reject', subject), 'cleo');
      fleet.commit({ 'a.txt': 'anything' });
      await sim.clock.advance(3 * HOUR);
      await sim.run(controller.refresh('poll'));
      expect([fleet.removed, fleet.states()]).toEqual([[], { one: 'scheduled delay-running' }]);
      const ready = () =>
        fleet.bench.house.store
          .conditions('@fleet')
          .map(({ status, reason, message }) => `${status} ${reason} ${message}`);
      const denied = fleet.git('rev-parse', '--short=12', 'HEAD');
      expect(ready()).toEqual([
        expect.stringMatching(`^False NotVerified commit ${denied} is not accepted: .*not signed`),
      ]);
      const next = fleet.commit({ 'a.txt': 'anything else' });
      await sim.run(controller.refresh('poll'));
      expect(ready()).toEqual([expect.stringContaining(next.slice(0, 12))]);
      fleet.commit({}, 'vouch', 'anna');
      await sim.run(controller.refresh('poll'));
      expect(ready()).toEqual(['True Succeeded ']);
      fleet.commit({}, 'vouch', 'anna');
      await sim.run(controller.refresh('poll'));
      expect([fleet.removed, fleet.states()]).toEqual([[], { one: 'rejected rejected-by-approver' }]);
    } finally {
      await controller.stop();
    }
  });

  it('nothing is carried out while the source cannot be seen', async () => {
    const fleet = await open({ minDelay: '2h' });
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.approve(subject, 'cleo');
    const controller = new Controller({ house: fleet.bench.house, pollMs: 1e9, intervalMs: 1e9, log: () => {} });
    try {
      await fleet.sim.run(controller.start());
      renameSync(fleet.bare, `${fleet.bare}.away`);
      await fleet.sim.clock.advance(3 * HOUR);
      await fleet.sim.run(controller.refresh('poll'));
      expect(fleet.removed).toEqual([]);
      renameSync(`${fleet.bare}.away`, fleet.bare);
      await fleet.sim.run(controller.refresh('poll'));
      expect(fleet.removed).toEqual(['shop_data']);
    } finally {
      await controller.stop();
    }
  });

  it('a policy file that is too large is a drift, and stops no request', async () => {
    const fleet = await open();
    const subject = fleet.request('one');
    fleet.approve(subject, 'bert');
    fleet.commit({ 'trust/policy/v0002.yaml': `# ${'x'.repeat(2_000_000)}\n` });
    fleet.approve(subject, 'cleo');
    expect(await fleet.look()).toEqual({ one: 'succeeded done' });
  });

  it('judges the tip that runs already when signatures are asked for only since', async () => {
    const fleet = await open();
    fleet.open('head');
    const verdict = async () =>
      unverified(fleet.bench, await fleet.bench.reader.read(await fleet.bench.house.source.fetch()));
    expect((await verdict())?.code).toBe('NOT_VERIFIED');
    fleet.open('all');
    expect((await verdict())?.code).toBe('NOT_VERIFIED');
    fleet.commit({}, 'vouch', 'anna');
    fleet.open('head');
    expect(await verdict()).toBeNull();
    await fleet.look();
    expect(await verdict()).toBeNull();
  });

  it('takes no tip that does not descend from the genesis commit, whoever signed it', async () => {
    const fleet = await open({ deploy: 'head' });
    fleet.git('checkout', '-q', '--orphan', 'other');
    const tip = fleet.commit({ 'a.txt': '1' }, 'another history', 'anna');
    const { house, reader } = fleet.bench;
    await house.source.fetch();
    expect((await unverified(fleet.bench, await reader.read(tip)))?.data).toMatchObject({
      reason: 'tip-not-from-genesis',
    });
    await expect(new Surface(house).accept(tip)).rejects.toMatchObject({ code: 'NOT_VERIFIED' });
  });

  it('all: the history before the anchor needs no signature, and everything after it does', async () => {
    const fleet = await open({ deploy: 'all' });
    const { house, reader } = fleet.bench;
    const at = await reader.read(await house.source.fetch());
    await expect(verifyDeploy(house, at, null)).rejects.toMatchObject({ code: 'NOT_VERIFIED' });
    fleet.git('reset', '-q', '--hard', fleet.genesis);
    fleet.commit({ 'trust/policy/v0001.yaml': fleet.policy(1) }, 'begin', 'anna');
    const signed = await reader.read(await house.source.fetch());
    expect(await verifyDeploy(house, signed, null)).toEqual({ signer: 'anna' });
  });

  it('all: a commit that is too large to be judged is nobody’s, which refuses it and is no fault of the repository', async () => {
    const fleet = await open({ deploy: 'all' });
    const before = await fleet.bench.reader.read(await fleet.bench.house.source.fetch());
    fleet.commit({ 'a.txt': '1' }, `large\n\n${'x'.repeat(9 * 1024 * 1024)}`, 'anna');
    fleet.commit({ 'a.txt': '2' }, 'change', 'anna');
    const { house, reader } = fleet.bench;
    const at = await reader.read(await house.source.fetch());
    expect((await unverified(fleet.bench, at, before))?.data['reason']).toBe('object-too-large');
    fleet.request('one');
    await accept(house, await house.source.fetch());
    expect(await fleet.look()).toEqual({ one: 'awaitingApprovals approvals-missing' });
  });

  it('all: a running controller takes a signed tip above unsigned commits at its next look after a person accepts it', async () => {
    const fleet = await open({ deploy: 'all' });
    const { sim } = fleet;
    fleet.commit({ 'a.txt': '1' }, 'change', 'anna');
    const controller = new Controller({ house: fleet.bench.house, pollMs: 1e9, intervalMs: 1e9, log: () => {} });
    const ready = () => fleet.bench.house.store.conditions('@fleet').map(({ status, reason }) => `${status} ${reason}`);
    try {
      await sim.run(controller.start());
      fleet.commit({ 'a.txt': '2' });
      const tip = fleet.commit({ 'a.txt': '3' }, 'change', 'anna');
      await sim.run(controller.refresh('poll'));
      expect(ready()).toEqual(['False NotVerified']);
      await accept(fleet.bench.house, tip, { rewritten: true });
      await sim.run(controller.refresh('poll'));
      expect(ready()).toEqual(['True Succeeded']);
      const unsigned = fleet.commit({ 'a.txt': '4' });
      await sim.run(controller.refresh('poll'));
      await accept(fleet.bench.house, unsigned, { rewritten: true });
      await sim.run(controller.refresh('poll'));
      expect(ready()).toEqual(['False NotVerified']);
    } finally {
      await controller.stop();
    }
  });

  it('all: one unsigned commit in between refuses the rest', async () => {
    const fleet = await open({ deploy: 'all' });
    const { house, reader } = fleet.bench;
    const verdict = async () => unverified(fleet.bench, await reader.read(await house.source.fetch()));
    fleet.commit({ 'a.txt': '1' }, 'change', 'anna');
    expect(await verdict()).toBeNull();
    fleet.commit({ 'a.txt': '2' }, 'change');
    fleet.commit({ 'a.txt': '3' }, 'change', 'anna');
    expect((await verdict())?.code).toBe('NOT_VERIFIED');
  });
});
