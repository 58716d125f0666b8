// The time that the engine sees, injected so that tests own it. The system clock is the only place that sets a real timer.

export interface Timer {
  cancel(): void;
  /** Lets the process end while the timer still waits; optional for clocks of tests. */
  unref?(): void;
}

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  setTimeout(run: () => void, ms: number): Timer;
}

const longestMs = 2 ** 31 - 1; // beyond this Node fires at once

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout(run, ms) {
    const handle = setTimeout(run, Math.min(ms, longestMs));
    return { cancel: () => clearTimeout(handle), unref: () => void handle.unref() };
  },
};

/** Calls `run` every `ms` in the background until cancelled; never keeps the process alive. */
export function every(clock: Clock, ms: number, run: () => void): Timer {
  let timer: Timer;
  const arm = () => {
    timer = clock.setTimeout(() => {
      arm();
      run();
    }, ms);
    timer.unref?.();
  };
  arm();
  return { cancel: () => timer.cancel() };
}
