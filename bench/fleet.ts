// A scratch fleet for benchmarks on the real engine: N stacks of two services, in a local repository, deployed by Windlass itself.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type OpenHouse, openHouse } from '../src/wire.ts';

export const composeOf = (version = 1): string => `services:
  web: &base
    image: windlass-test/busybox:${version}
    command: sleep 2147483647
    init: true
    stop_grace_period: 0s
  side: *base
`;

export class BenchFleet {
  readonly dir = mkdtempSync(join(tmpdir(), 'wlt-bench-'));
  readonly repo = join(this.dir, 'fleet');
  readonly names: readonly string[];
  house!: OpenHouse;

  constructor(size: number) {
    this.names = Array.from({ length: size }, (_, index) => `wlt-bench-${String(index).padStart(4, '0')}`);
    execFileSync('git', ['init', '-q', '-b', 'main', this.repo]);
    this.commit(Object.fromEntries(this.names.map((name) => [`stacks/${name}/compose.yaml`, composeOf()])));
  }

  commit(files: Record<string, string>): string {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(this.repo, path, '..'), { recursive: true });
      writeFileSync(join(this.repo, path), text);
    }
    const git = (...args: string[]) =>
      execFileSync(
        'git',
        ['-C', this.repo, '-c', 'user.name=b', '-c', 'user.email=b@localhost', '-c', 'commit.gpgsign=false', ...args],
        { encoding: 'utf8' },
      );
    git('add', '-A');
    git('commit', '-q', '--allow-empty', '-m', 'bench');
    return git('rev-parse', 'HEAD').trim();
  }

  async open(settleMs = 200): Promise<OpenHouse> {
    this.house = await openHouse({
      stateDir: join(this.dir, 'state'),
      source: { name: 'bench', url: this.repo, ref: 'main' },
      settleMs,
      settleSamples: 2,
    });
    return this.house;
  }

  projectFile(name: string): string {
    return join(this.repo, 'stacks', name, 'compose.yaml');
  }

  async dispose(): Promise<void> {
    await this.house?.close();
    for (const name of this.names) {
      const label = `label=com.docker.compose.project=${name}`;
      const ids = docker('ps', '-aq', '--filter', label).split('\n').filter(Boolean);
      if (ids.length > 0) docker('rm', '-f', ...ids);
      const networks = docker('network', 'ls', '-q', '--filter', label).split('\n').filter(Boolean);
      if (networks.length > 0) docker('network', 'rm', ...networks);
    }
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export function docker(...args: string[]): string {
  return execFileSync('docker', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
}
