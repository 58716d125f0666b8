// Watch: notices a push of a branch or a tag to a local repository by its files. Only a hint to fetch; what was pushed is found by looking.
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { watch } from 'chokidar';

/** A burst of pushes is one hint; short enough that a push converges within the budget of SPEC 15. */
const QUIET_MS = 25;

/** The folder that holds HEAD and refs of a local repository, bare or with a work tree; null when there is none. */
export function gitDirOf(path: string): string | null {
  const inner = join(path, '.git');
  for (const candidate of [inner, path])
    if (
      existsSync(join(candidate, 'HEAD')) &&
      existsSync(join(candidate, 'objects')) &&
      statSync(candidate).isDirectory()
    )
      return candidate;
  return null;
}

/** Resolves to the closer once the watch is on. */
export async function watchPushes(gitDir: string, hint: () => void): Promise<() => Promise<void>> {
  const watcher = watch(
    [
      join(gitDir, 'refs', 'heads'),
      join(gitDir, 'refs', 'tags'),
      join(gitDir, 'packed-refs'),
      join(gitDir, 'HEAD'),
      join(gitDir, 'reftable'),
    ],
    {
      ignoreInitial: true,
      ignored: (path) => path.endsWith('.lock'),
    },
  );
  let timer: NodeJS.Timeout | null = null;
  watcher.on('all', () => {
    timer ??= setTimeout(() => {
      timer = null;
      hint();
    }, QUIET_MS);
  });
  // A watch that breaks leaves the poll: late, never wrong.
  watcher.on('error', () => {});
  await new Promise<void>((resolve) => watcher.once('ready', resolve));
  return async () => {
    if (timer) clearTimeout(timer);
    await watcher.close();
  };
}
