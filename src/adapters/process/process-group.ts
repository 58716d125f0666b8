// A started program and all that it starts in turn, as one group that can be ended together. Nothing that we started
// outlives us when we exit in an orderly way.

const living = new Set<number>();
let watching = false;

/** Remembers a group, so that it is ended when this process exits. */
export function adoptGroup(pid: number): void {
  living.add(pid);
  if (watching) return;
  watching = true;
  process.on('exit', () => {
    for (const group of living) signalGroup(group, 'SIGKILL');
  });
}

export function releaseGroup(pid: number): void {
  living.delete(pid);
}

/** False when there is nobody left in the group. */
export function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-pid, signal);
    return true;
  } catch {
    return false;
  }
}

const POLL_MS = 20;

/** TERM, then KILL to whoever is left after `graceMs`. Resolves when the group is empty or was killed. */
export async function endGroup(pid: number, graceMs: number): Promise<void> {
  if (!signalGroup(pid, 'SIGTERM')) return;
  // A stopped process does not act on TERM before it continues.
  signalGroup(pid, 'SIGCONT');
  const until = Date.now() + graceMs;
  while (Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (!signalGroup(pid, 0)) return;
  }
  signalGroup(pid, 'SIGKILL');
}
