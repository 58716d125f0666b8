// A real restic for tests: made sure of by scripts/restic, which says the cure when it cannot be had, and one empty repository to copy.
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const SCRIPT = resolve(import.meta.dirname, '../../../scripts/restic');
export const PASSWORD = 'correct horse battery staple';

/** Throws with the words of the script: tests of restic are never skipped. */
export function ensureRestic(): void {
  execFileSync('bash', [SCRIPT], { stdio: ['ignore', 'inherit', 'pipe'], encoding: 'utf8' });
}

export interface ResticWorld {
  readonly dir: string;
  readonly repository: string;
  readonly passwordFile: string;
  /** As a person at a terminal would call it. */
  restic(...args: string[]): string;
  dispose(): void;
}

let template: string | null = null;

/** `empty`: there is no repository yet. Making one takes seconds, so that it is made once. */
export function makeWorld(how: 'made' | 'empty' = 'made'): ResticWorld {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'wlt-restic-')));
  const repository = join(dir, 'repository');
  const passwordFile = join(dir, 'password');
  writeFileSync(passwordFile, `${PASSWORD}\n`, { mode: 0o600 });
  const restic = (...args: string[]): string =>
    execFileSync('restic', args, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'],
        RESTIC_REPOSITORY: repository,
        RESTIC_PASSWORD_FILE: passwordFile,
        RESTIC_CACHE_DIR: join(dir, 'cache-by-hand'),
      },
    });
  if (how === 'made') {
    if (template === null) {
      restic('init');
      template = realpathSync(mkdtempSync(join(tmpdir(), 'wlt-restic-template-')));
      cpSync(repository, join(template, 'repository'), { recursive: true });
      const made = template;
      process.on('exit', () => rmSync(made, { recursive: true, force: true }));
    } else cpSync(join(template, 'repository'), repository, { recursive: true });
  }
  return { dir, repository, passwordFile, restic, dispose: () => rmSync(dir, { recursive: true, force: true }) };
}

/** In the place of restic: a shell script; the real one is `restic`. */
export function fakeRestic(dir: string, script: string): string {
  const path = join(dir, 'fake-restic');
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}
