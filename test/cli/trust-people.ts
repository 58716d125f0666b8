// People with a clone of a fleet each step of which they sign with a key of their own: real git, throw-away keys, no home of ours.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openClone } from '../../src/adapters/git/clone.ts';
import { run } from '../../src/adapters/process/run.ts';
import { warmStart } from '../program.ts';
import { type Ran, type TerminalOptions, windlass } from './fake-terminal.ts';

export type PersonName = 'anna' | 'bert' | 'cleo' | 'mallory';
export const PEOPLE: readonly PersonName[] = ['anna', 'bert', 'cleo', 'mallory'];

export interface Said extends Ran {
  /** stdout as JSON. */
  readonly json: Record<string, unknown>;
}

export class People {
  readonly folder = mkdtempSync(join(tmpdir(), 'wl-people-'));
  readonly fleet = join(this.folder, 'fleet');
  readonly env: Record<string, string> = {
    PATH: process.env['PATH'] ?? '',
    HOME: this.folder,
    LC_ALL: 'C',
    TZ: 'UTC',
    GNUPGHOME: join(this.folder, 'g'),
    GIT_CONFIG_NOSYSTEM: '1',
    // Two programs fewer for each commit.
    ...{ GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'maintenance.auto', GIT_CONFIG_VALUE_0: 'false' },
    ...warmStart,
  };

  /** `like`: other people as they stand now, with copies of all that is theirs. To make them anew takes thirty programs. */
  constructor(like?: People) {
    if (like) {
      cpSync(like.folder, this.folder, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
      const config = this.at('.git/config');
      writeFileSync(config, readFileSync(config, 'utf8').replaceAll(like.folder, this.folder));
      // The index tells by times and inodes whether a file was touched.
      this.git('update-index', '-q', '--refresh');
      return;
    }
    mkdirSync(this.env['GNUPGHOME']!, { mode: 0o700 });
    for (const name of PEOPLE) this.sshKey(name);
    writeFileSync(
      this.file('allowed'),
      PEOPLE.map((name) => `${name} namespaces="git" ${this.publicKey(name)}\n`).join(''),
    );
    this.sh('git', 'init', '-q', '-b', 'main', this.fleet);
    this.git('config', 'user.name', 'Whoever');
    this.git('config', 'user.email', 'whoever@example.org');
    this.git('config', 'gpg.ssh.allowedSignersFile', this.file('allowed'));
  }

  close(): void {
    spawnSync('gpgconf', ['--homedir', this.env['GNUPGHOME']!, '--kill', 'all'], { env: this.env });
    rmSync(this.folder, { recursive: true, force: true });
  }

  file = (name: string): string => join(this.folder, name);
  at = (path: string): string => join(this.fleet, path);
  read = (path: string): string => readFileSync(this.at(path), 'utf8');
  publicKey = (name: string): string => readFileSync(this.file(`${name}.pub`), 'utf8').trim();

  sshKey(name: string, ...more: readonly string[]): string {
    this.sh('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', `${name}@example.org`, '-f', this.file(name), ...more);
    return this.file(`${name}.pub`);
  }

  /** The fingerprint, and the file of the armored public half. */
  gpgKey(name: string): { readonly fingerprint: string; readonly armored: string } {
    const quiet = ['--batch', '--yes', '--quiet', '--no-tty', '--pinentry-mode', 'loopback', '--passphrase', ''];
    this.sh('gpg', ...quiet, '--quick-generate-key', `${name} <${name}@example.org>`, 'ed25519', 'sign', 'never');
    const listing = this.sh('gpg', ...quiet, '--with-colons', '--list-keys', `${name}@example.org`);
    const fingerprint = /^fpr:+([0-9A-F]{40}):/m.exec(listing)?.[1] ?? '';
    writeFileSync(this.file(`${name}.asc`), this.sh('gpg', ...quiet, '--armor', '--export', fingerprint));
    return { fingerprint, armored: this.file(`${name}.asc`) };
  }

  sh(program: string, ...args: readonly string[]): string {
    return execFileSync(program, [...args], { env: this.env, cwd: this.folder, stdio: ['ignore', 'pipe', 'pipe'] })
      .toString()
      .trimEnd();
  }

  git(...args: readonly string[]): string {
    return this.sh('git', '-C', this.fleet, ...args);
  }

  /** Exit code of git. */
  tryGit(...args: readonly string[]): number {
    return spawnSync('git', ['-C', this.fleet, ...args], { env: this.env, cwd: this.folder }).status ?? -1;
  }

  /** Whose key git signs with from now on. */
  be(name: PersonName): void {
    this.git('config', 'gpg.format', 'ssh');
    this.git('config', 'user.signingkey', this.file(`${name}.pub`));
  }

  commitFile(path: string, text: string, message = `Write ${path}`): void {
    mkdirSync(join(this.at(path), '..'), { recursive: true });
    writeFileSync(this.at(path), text);
    this.git('add', '--', path);
    this.git('commit', '-q', '-m', message, '--', path);
  }

  async windlass(argv: readonly string[], options: TerminalOptions = {}): Promise<Said> {
    const ran = await windlass(null, argv, {
      clone: () => openClone({ folder: this.fleet, run, env: this.env }),
      ...options,
    });
    return {
      ...ran,
      get json() {
        return JSON.parse(ran.out) as Record<string, unknown>;
      },
    };
  }

  /** As this person, with a yes, answering JSON. */
  async say(name: PersonName, ...argv: readonly string[]): Promise<Said> {
    this.be(name);
    return this.windlass([...argv, '-o', 'json', ...(argv[0] === 'trust' && argv[1] === 'init' ? [] : ['--yes'])]);
  }

  /** A fleet with a first commit and a policy of anna, bert and cleo, two of whom must sign. */
  async begin(): Promise<void> {
    this.commitFile('stacks/shop/compose.yaml', 'services: { web: { image: "nginx:1" } }\n', 'Begin');
    const said = await this.say(
      'anna',
      'trust',
      'init',
      ...(['anna', 'bert', 'cleo'] as const).flatMap((one) => ['--admin', `${one}=${this.file(`${one}.pub`)}`]),
      '--threshold',
      '2',
    );
    if (said.code !== 0) throw new Error(said.err);
  }
}
