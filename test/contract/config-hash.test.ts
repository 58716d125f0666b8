// The recipe of the hashes against Compose itself: `config --hash` of files of all kinds. Not those with an env_file, where that
// command prints another hash than the label has (the label is what the suite of the runtime checks).
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hashesOf } from '../../src/core/render/config-hash.ts';

const program = ['/usr/local/lib', '/usr/local/libexec', '/usr/lib', '/usr/libexec']
  .map((folder) => `${folder}/docker/cli-plugins/docker-compose`)
  .find((path) => existsSync(path));

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'windlass-hash-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function config(file: string, ...args: string[]): string {
  const [command, ...leading] = program === undefined ? ['docker', 'compose'] : [program];
  return execFileSync(
    command!,
    [...leading, '-p', 'wlt-hash', '--project-directory', dirname(file), '-f', file, 'config', ...args],
    {
      env: { PATH: process.env['PATH'] ?? '', HOME: folder },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
}

function compare(file: string): void {
  const theirs = Object.fromEntries(
    config(file, '--hash', '*')
      .trim()
      .split('\n')
      .map((line) => line.split(' ')),
  );
  const ours = Object.fromEntries(
    [...hashesOf(config(file, '--format', 'json')).services].map(([name, { hash }]) => [name, hash]),
  );
  expect(ours).toEqual(theirs);
}

test.each([
  ['nothing but an image', 'a: {image: x}'],
  [
    'characters that are escaped',
    `a: {image: x, environment: {A: "<&>\\u2028\\u2029\\b\\f\\t\\"\\\\ é 😀", B: "$$x $$$$"}}`,
  ],
  ['keys that look like numbers', 'a: {image: x, labels: {"10": a, "2": b, "-1": c, x: d}}'],
  [
    'numbers of all kinds',
    'a: {image: x, cpus: 1.50, mem_limit: 1g, mem_swappiness: 60, shm_size: 64m, cpu_shares: 512, oom_score_adj: -5}',
  ],
  [
    'deploy with and without replicas',
    'a: {image: x, deploy: {replicas: 3}}\n  b: {image: x, deploy: {replicas: 2, resources: {limits: {cpus: "0.5", memory: 10M}}, restart_policy: {condition: any}}}',
  ],
  [
    'what does not count',
    'a: {build: {context: ., args: {A: 1}}, pull_policy: always, scale: 2, depends_on: [b]}\n  b: {image: x}',
  ],
  [
    'a healthcheck',
    'a: {image: x, healthcheck: {test: curl, interval: 90s, retries: 3}}\n  b: {image: x, healthcheck: {disable: true}}',
  ],
  [
    'ports and volumes in both forms',
    'a: {image: x, ports: ["80", "127.0.0.1:81-83:81-83/udp", {target: 9, published: "9"}], volumes: ["/anon", "./d:/d:ro", {type: tmpfs, target: /t, tmpfs: {size: 1m}}]}',
  ],
  [
    'devices, limits and capabilities',
    'a: {image: x, ulimits: {nofile: {soft: 1, hard: 2}, nproc: 3}, cap_add: [NET_ADMIN], devices: ["/dev/null:/dev/x"], sysctls: {net.core.somaxconn: 1024}, extra_hosts: ["h:1.2.3.4"]}',
  ],
  [
    'a shared namespace',
    'a: {image: x}\n  b: {image: x, network_mode: "service:a", ipc: "service:a"}\n  c: {image: x, volumes_from: [a]}',
  ],
])('%s', (what, services) => {
  const file = join(folder, `${what.replace(/\W/g, '-')}.yaml`);
  writeFileSync(file, `services:\n  ${services}\n`);
  compare(file);
});

const fixtures = globSync(resolve(import.meta.dirname, '../../fixtures/awesome-compose/*/*compose.y*ml')).filter(
  (file) => !readFileSync(file, 'utf8').includes('env_file'),
);

test('every file of the sample collection', () => {
  expect(fixtures.length).toBeGreaterThan(30);
  for (const file of fixtures) compare(file);
});
