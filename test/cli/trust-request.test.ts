// Requests that people make in their own clone: what is written, what is shown before, and what a controller would say of the signature.
import { writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openClone } from '../../src/adapters/git/clone.ts';
import { run } from '../../src/adapters/process/run.ts';
import { sha256Of } from '../../src/core/state/trust/policy-file.ts';
import { readRequest } from '../../src/core/state/trust/request-file.ts';
import { parseStatement } from '../../src/core/state/trust/statement.ts';
import { People } from './trust-people.ts';

const ARCHIVE = 'ab12'.repeat(16);
const begun = new People();
let people: People;
beforeAll(() => begun.begin());
beforeEach(() => {
  people = new People(begun);
});
afterEach(() => people.close());
afterAll(() => begun.close());

const purge = (...more: readonly string[]) => [
  'request',
  'purge',
  'shop',
  '--volumes',
  'pgdata',
  '--reason',
  'closed',
  ...more,
];
const requestOf = (id: string) => {
  const path = `requests/${id}.yaml`;
  const { file, diagnostics } = readRequest(path, Buffer.from(people.read(path)));
  expect(diagnostics).toEqual([]);
  return file!.request;
};
const bytesOf = (rev: string) => Buffer.from(`${people.git('cat-file', 'commit', rev)}\n`);

/** As if the fleet had begun with this policy. */
const beganWith = (edit: (text: string) => string): void => {
  const text = edit(people.read('trust/policy/v0001.yaml'));
  const hint = people.read('trust/anchor.yaml');
  people.commitFile('trust/policy/v0001.yaml', text);
  people.commitFile(
    'trust/anchor.yaml',
    hint.replace(/policy: "[0-9a-f]{64}"/, `policy: "${sha256Of(Buffer.from(text))}"`),
  );
};

describe('windlass request', () => {
  it('commits the file with a statement that git and the policy both accept', async () => {
    const { code, json, err } = await people.say('anna', ...purge());
    expect(err).not.toMatch(/warning/);
    expect([code, json['counts'], json['principal']]).toEqual([0, true, 'anna']);
    expect(json).toMatchObject({ missing: 2, mayStillSign: ['bert', 'cleo'] });
    // Whoever asks is not among those who are told to approve.
    expect(err).toMatch(/ missing +2 of bert, cleo\n[\s\S]*then +windlass approve \S+, by 2 of bert, cleo\n/);
    expect(people.tryGit('verify-commit', 'HEAD')).toBe(0);
    expect(people.git('show', '--name-only', '--format=', 'HEAD')).toBe(json['path']);
    expect(people.git('status', '--porcelain')).toBe('');
    expect(parseStatement({ type: 'commit', bytes: bytesOf('HEAD') })).toMatchObject({
      kind: 'claims',
      claims: { type: 'request', ref: 'refs/heads/main', environment: 'production', subject: json['sha256'] },
    });
  });

  it('names it by kind, stack and date, and makes another name for a second one', async () => {
    const first = (await people.say('anna', ...purge())).json['id'];
    const second = (await people.say('anna', ...purge('--expires', '2d'))).json['id'];
    expect(first).toMatch(/^purge-shop-\d{8}-[0-9a-f]{4}$/);
    expect(second).not.toBe(first);
  });

  it('writes every kind as it was asked for', async () => {
    const ask = async (...argv: readonly string[]) => {
      const { code, json, err } = await people.say('anna', 'request', ...argv, '--reason', 'needed');
      if (code !== 0) throw new Error(err);
      return requestOf(String(json['id']));
    };
    expect(await ask('purge', 'shop', '--volumes', 'all')).toMatchObject({ kind: 'Purge', volumes: 'all' });
    expect(await ask('purge', 'shop', '--volumes', 'a, b')).toMatchObject({ volumes: ['a', 'b'] });
    expect(
      await ask(
        ...['restore', 'shop', '--archive', ARCHIVE, '--target', 'shop2', '--safety', 'none', '--then', 'follow-git'],
        ...['--var', 'port=8080', '--var', 'version=1.10', '--var', 'debug=true', '--var', 'text="7"'],
        ...[
          '--port',
          'web=8443:8443',
          '--port',
          'web=80:80',
          '--integrate',
          'database=pg',
          '--skip-integration',
          'mail',
        ],
      ),
    ).toMatchObject({
      kind: 'Restore',
      stack: 'shop',
      target: 'shop2',
      archive: ARCHIVE,
      safety: 'none',
      // biome-ignore lint/suspicious/noThenProperty: the word of the file format
      then: 'follow-git',
      vars: { port: 8080, version: '1.10', debug: true, text: '7' },
      ports: { web: ['8443:8443', '80:80'] },
      integrate: { database: 'pg' },
      skipIntegration: ['mail'],
    });
    expect(await ask('recover', '--archive', ARCHIVE, '--stacks', 'pg,sso', '--rename', 'pg=pg2')).toMatchObject({
      kind: 'Recover',
      stacks: ['pg', 'sso'],
      rename: { pg: 'pg2' },
    });
    expect(await ask('clone', 'shop', '--target', 'shop2', '--secrets', 'copy')).toMatchObject({
      kind: 'Clone',
      secrets: 'copy',
    });
    expect(await ask('move', 'shop', '--node', 'edge-1')).toMatchObject({ kind: 'Move', node: 'edge-1' });
  });

  it('shows the file, what would be lost and who decides before it asks, and a no leaves no trace', async () => {
    people.be('anna');
    const before = people.git('rev-parse', 'HEAD');
    const { code, err } = await people.windlass(purge(), { tty: true, answer: 'n' });
    expect(err).toMatch(/\| kind: "Purge"/);
    expect(err).toMatch(/The volumes pgdata of shop are removed with all data in them, for good\./);
    expect(err).toMatch(/rule 5 {3}purge of \*: asked for by anna, bert, cleo; 2 of anna, bert, cleo approve/);
    expect(err).toMatch(/you {6}anna \(ssh SHA256:/);
    expect(err).toMatch(/environment production, fleet fleet-/);
    expect(code).toBe(4);
    expect(people.git('rev-parse', 'HEAD')).toBe(before);
    expect(people.git('status', '--porcelain')).toBe('');
  });

  it('asks nobody who is not there', async () => {
    people.be('anna');
    const { code, err } = await people.windlass(purge());
    expect([code, /nobody is there to say yes/.test(err)]).toEqual([3, true]);
  });

  it('says plainly that a purge makes no archive, and that safety none loses what is live', async () => {
    people.be('anna');
    expect((await people.windlass(purge())).err).toMatch(/No archive is made first/);
    const restore = ['request', 'restore', 'shop', '--archive', ARCHIVE, '--reason', 'x'];
    expect((await people.windlass(restore)).err).toMatch(/An archive of the live data is made first/);
    expect((await people.windlass([...restore, '--safety', 'none'])).err).toMatch(/lost for good/);
  });

  it('shows which volumes of the engine a purge means, warns of a name the stack does not declare, and what to do first', async () => {
    const compose =
      'services: { db: { image: "postgres:17" } }\nvolumes: { pgdata: {}, up: { name: uploads }, nfs: { external: true } }\n';
    people.commitFile('stacks/shop/compose.yaml', compose);
    people.be('anna');
    const shown = async (volumes: string) =>
      (await people.windlass(['request', 'purge', 'shop', '--volumes', volumes, '--reason', 'x'])).err;
    const first = await shown('pgdata,uploads,nfs');
    expect(first).toMatch(/pgdata is shop_pgdata on the engine; so are older/);
    expect(first).toMatch(/declares no volume nfs: if the engine has none either, it waits/);
    expect(first).not.toMatch(/declares no volume (?:pgdata|uploads)/);
    expect(first).toMatch(/Remove the stack shop from the fleet first/);
    people.git('rm', '-q', 'stacks/shop/compose.yaml');
    people.git('commit', '-q', '-m', 'Remove shop');
    const second = await shown('all');
    expect(second).toMatch(/pgdata is shop_pgdata on the engine, up is uploads on the engine/);
    expect(second).not.toMatch(/from the fleet first/);
  });

  it('makes a branch for it, and leaves the one it came from alone', async () => {
    const main = people.git('rev-parse', 'main');
    const { code, err } = await people.say('anna', ...purge('--branch', 'ask/purge-shop'));
    expect(code).toBe(0);
    expect(people.git('symbolic-ref', 'HEAD')).toBe('refs/heads/ask/purge-shop');
    expect(people.git('rev-parse', 'main')).toBe(main);
    expect(people.git('status', '--porcelain')).toBe('');
    expect(err).toMatch(/git push -u origin ask\/purge-shop/);
    expect(err).toMatch(/pull request into main, merged by a true merge or a fast-forward/);
    expect((await people.say('anna', ...purge('--branch', 'main'))).err).toMatch(/--branch main is there already/);
    expect((await people.say('anna', ...purge('--branch', '-x..y'))).code).toBe(3);
  });

  it('leaves what is staged and what is edited as it was', async () => {
    writeFileSync(people.at('staged.txt'), 'a');
    people.git('add', 'staged.txt');
    writeFileSync(people.at('stacks/shop/compose.yaml'), 'edited');
    await people.say('anna', ...purge());
    expect(people.git('status', '--porcelain')).toBe(' M stacks/shop/compose.yaml\nA  staged.txt');
    expect(people.git('show', '--name-only', '--format=', 'HEAD')).toMatch(/^requests\/purge-shop-/);
  });

  it('keeps the exact bytes that were signed where git would change line ends', async () => {
    people.git('config', 'core.autocrlf', 'true');
    people.git('config', 'commit.cleanup', 'strip');
    people.git('config', 'i18n.commitEncoding', 'ISO-8859-1');
    people.git('config', 'core.commentChar', 'W');
    const { code, json } = await people.say('anna', ...purge());
    expect([code, json['counts']]).toEqual([0, true]);
  });

  it('gives the default life way to a shorter rule, and refuses a longer one that was asked for', async () => {
    beganWith((text) => text.replaceAll('maxLifetime: 7d', 'maxLifetime: 1h'));
    const { code, json } = await people.say('anna', ...purge());
    expect(code).toBe(0);
    const { expires } = requestOf(String(json['id']));
    expect(Date.parse(expires)).toBeLessThanOrEqual(Date.now() + 3_600_000);
    const long = await people.say('anna', ...purge('--expires', '2d'));
    expect([long.code, long.json['refused']]).toEqual([5, 'lifetime-too-long']);
  });

  it('refuses, exit 5, what no rule of the policy names', async () => {
    beganWith((text) =>
      text.replace('- operation: purge\n    stacks: ["*"]', '- operation: purge\n    stacks: ["db-*"]'),
    );
    const before = people.git('rev-parse', 'HEAD');
    const { code, json, err } = await people.say('anna', ...purge());
    expect([code, json['refused'], json['detail']]).toEqual([5, 'rule-absent', 'shop']);
    expect(err).toMatch(/No rule of the policy names this operation/);
    expect(people.git('rev-parse', 'HEAD')).toBe(before);
  });

  it('warns before, and says after, exit 5, that the key of a stranger does not count', async () => {
    const { code, json, err } = await people.say('mallory', ...purge());
    expect(err).toMatch(/warning: the policy names nobody with this key/);
    expect(err).toMatch(
      /will not count: unknown-key[\s\S]*help {5}The key is in no trust root[\s\S]*git reset --keep HEAD~1/,
    );
    expect([code, json['counts']]).toEqual([5, false]);
  });

  it('teaches the lines of configuration when no signing key is set up, and writes nothing', async () => {
    people.be('anna');
    people.git('config', '--unset', 'user.signingkey');
    for (const format of ['ssh', 'openpgp', 'x509']) {
      people.git('config', 'gpg.format', format);
      const { code, err } = await people.windlass(purge('--yes'));
      expect(code).toBe(3);
      expect(err).toMatch(/git config gpg\.format ssh\n +git config user\.signingkey ~\/\.ssh\/id_ed25519\.pub/);
      expect(err).toMatch(/git config user\.signingkey FINGERPRINT/);
    }
    expect(people.git('status', '--porcelain')).toBe('');
  });

  it('says what git said when the key cannot be used, exit 1, and makes neither commit nor branch', async () => {
    people.sshKey('locked', '-N', 'secret words');
    people.be('anna');
    people.git('config', 'user.signingkey', people.file('locked.pub'));
    const before = people.git('rev-parse', 'HEAD');
    const { code, err } = await people.windlass(purge('--yes', '--branch', 'ask'));
    expect([code, /error\[SIGNING_FAILED\]/.test(err)]).toEqual([1, true]);
    expect(err).toMatch(/ssh-add/);
    expect(people.git('rev-parse', 'HEAD')).toBe(before);
    expect(people.git('branch', '--list', 'ask')).toBe('');
    expect(people.git('status', '--porcelain')).toBe('');
  });

  it('signs through ssh-agent when only the public half is at hand', async () => {
    const agent = people.sh('ssh-agent', '-s');
    const pid = /SSH_AGENT_PID=(\d+)/.exec(agent)?.[1] ?? '';
    try {
      people.env['SSH_AUTH_SOCK'] = /SSH_AUTH_SOCK=([^;]+)/.exec(agent)?.[1] ?? '';
      people.sh('ssh-add', '-q', people.file('anna'));
      people.sh('mv', people.file('anna'), people.file('gone'));
      const { code, json } = await people.say('anna', ...purge());
      expect([code, json['counts']]).toEqual([0, true]);
    } finally {
      process.kill(Number(pid));
    }
  });

  it('signs with an OpenPGP key that the policy names, in a way that git verifies', async () => {
    const { fingerprint, armored } = people.gpgKey('dora');
    people.git('rm', '-rq', 'trust');
    people.git('commit', '-q', '-m', 'Begin anew');
    people.git('config', 'gpg.format', 'openpgp');
    people.git('config', 'user.signingkey', fingerprint);
    await people.windlass([
      'trust',
      'init',
      '--admin',
      `dora=${armored}`,
      '--admin',
      `anna=${people.file('anna.pub')}`,
    ]);
    const { code, json, err } = await people.windlass(purge('--yes', '-o', 'json'));
    expect(err).toMatch(new RegExp(`you {6}dora \\(openpgp ${fingerprint}\\)`));
    expect([code, json['principal'], json['counts']]).toEqual([0, 'dora', true]);
    expect(people.tryGit('verify-commit', 'HEAD')).toBe(0);
  });

  it.each([
    ['without a reason', ['request', 'purge', 'shop', '--volumes', 'all'], /--reason is missing/],
    ['without volumes', ['request', 'purge', 'shop', '--reason', 'x'], /--volumes is missing/],
    ['with a short archive', ['request', 'restore', 'shop', '--archive', 'ab12', '--reason', 'x'], /archive/],
    [
      'with a name that is none',
      ['request', 'purge', 'Shop!', '--volumes', 'all', '--reason', 'x'],
      /SPEC_INVALID[\s\S]*stack/,
    ],
    [
      'to clone onto itself',
      ['request', 'clone', 'shop', '--target', 'shop', '--reason', 'x'],
      /cannot be cloned onto itself/,
    ],
    ['to move nowhere', ['request', 'move', 'shop', '--reason', 'x'], /neither where to nor under which name/],
    [
      'with an unknown word for safety',
      ['request', 'restore', 'shop', '--archive', ARCHIVE, '--safety', 'yes', '--reason', 'x'],
      /safety|archive, none/,
    ],
    ['with an id that is none', purge('--id', '../x'), /is no id/],
    ['with a time in the past', purge('--expires', '2020-01-01T00:00:00Z'), /not in the future/],
    ['with a time that is none', purge('--expires', 'soon'), /takes a duration such as 7d/],
    [
      'with a hidden character in the reason',
      ['request', 'purge', 'shop', '--volumes', 'all', '--reason', 'a\u202eb'],
      /not seen/,
    ],
    ['that may run only after it expires', purge('--expires', '1h', '--not-before', '2h'), /expires before it may run/],
    [
      'with a pair that is none',
      ['request', 'restore', 'shop', '--archive', ARCHIVE, '--var', 'x', '--reason', 'x'],
      /--var takes NAME=VALUE/,
    ],
  ])('is refused %s, exit 3, and nothing is written', async (_, argv, words) => {
    const before = people.git('rev-parse', 'HEAD');
    people.be('anna');
    const { code, err } = await people.windlass([...argv, '--yes']);
    expect(err).toMatch(words);
    expect(code).toBe(3);
    expect(people.git('rev-parse', 'HEAD')).toBe(before);
    expect(people.git('status', '--porcelain')).toBe('');
  });

  it('warns of a rule that waits longer than the request lives, and of one that too few others may approve', async () => {
    beganWith((text) =>
      text
        .replace('# minDelay: 1h', 'minDelay: 1h')
        .replace(/(operation: purge[\s\S]*?approvers: )\[anna, bert, cleo\]/, '$1[anna, bert]'),
    );
    people.be('cleo');
    expect((await people.windlass(purge('--expires', '30m'))).err).toMatch(
      /warning: rule 5 waits 1h after the last approval/,
    );
    expect((await people.windlass(purge('--expires', '3h'))).err).not.toMatch(/warning/);
    people.be('anna');
    expect((await people.windlass(purge('--expires', '3h'))).err).toMatch(
      /warning: rule 5 asks for more approvals than there are others/,
    );
  });

  it('refuses a shallow clone, where statements may be missing', async () => {
    people.sh('git', 'clone', '-q', '--depth', '1', `file://${people.fleet}`, people.file('shallow'));
    const shallow = () => openClone({ folder: people.file('shallow'), run, env: people.env });
    const { code, err } = await people.windlass(purge('--yes'), { clone: shallow });
    expect([code, /shallow[\s\S]*git fetch --unshallow/.test(err)]).toEqual([3, true]);
  });

  it('makes nothing while another git process holds the index', async () => {
    const before = people.git('rev-parse', 'HEAD');
    writeFileSync(people.at('.git/index.lock'), '');
    const { code, err } = await people.say('anna', ...purge());
    expect([code, /index\.lock is there/.test(err)]).toEqual([3, true]);
    expect(people.git('rev-parse', 'HEAD')).toBe(before);
  });

  it('works in a linked work tree, and from a folder below its top', async () => {
    people.git('worktree', 'add', '-q', '-b', 'other', people.file('linked'));
    people.be('anna');
    const linked = () => openClone({ folder: people.file('linked/stacks/shop'), run, env: people.env });
    const { code, json } = await people.windlass([...purge(), '--yes', '-o', 'json'], { clone: linked });
    expect([code, json['counts']]).toEqual([0, true]);
    expect(people.git('rev-parse', 'other')).toBe(json['commit']);
    expect(people.sh('git', '-C', people.file('linked'), 'status', '--porcelain')).toBe('');
    expect(people.git('status', '--porcelain')).toBe('');
  });

  it('never replaces a request that is there, committed or not', async () => {
    await people.say('anna', ...purge('--id', 'one'));
    expect((await people.say('anna', ...purge('--id', 'one'))).err).toMatch(/one\.yaml is there already/);
    writeFileSync(people.at('requests/two.yaml'), 'mine');
    expect((await people.say('anna', ...purge('--id', 'two'))).code).toBe(3);
    expect(people.read('requests/two.yaml')).toBe('mine');
  });

  it('does not ask twice in the same words until the same second: neither request would run', async () => {
    const until = ['--expires', new Date(Date.now() + 86_400_000).toISOString().replace(/\.\d+/, '')];
    await people.say('anna', ...purge('--id', 'one', ...until));
    const head = people.git('rev-parse', 'HEAD');
    const { code, err } = await people.say('bert', ...purge('--id', 'two', ...until));
    expect([code, err]).toEqual([
      3,
      expect.stringMatching(/requests\/one\.yaml asks for the same until the same second/),
    ]);
    expect(people.git('rev-parse', 'HEAD')).toBe(head);
    expect(people.git('status', '--porcelain')).toBe('');
  });

  it('needs a branch, an anchor and a policy that the anchor names', async () => {
    people.git('checkout', '-q', '--detach');
    expect((await people.say('anna', ...purge())).err).toMatch(/HEAD is detached[\s\S]*--branch NAME/);
    expect((await people.say('anna', ...purge('--branch', 'from-detached'))).code).toBe(0);
    people.git('checkout', '-q', 'main');
    people.commitFile('trust/policy/v0001.yaml', `${people.read('trust/policy/v0001.yaml')}# edited\n`);
    expect((await people.say('anna', ...purge())).err).toMatch(
      /no policy is in effect[\s\S]*SHA-256 the trust anchor holds/,
    );
    people.git('rm', '-q', 'trust/anchor.yaml');
    people.git('commit', '-q', '-m', 'Lose the hint');
    const { code, err } = await people.say('anna', ...purge());
    expect([code, /holds no trust\/anchor\.yaml/.test(err)]).toEqual([3, true]);
  });
});
