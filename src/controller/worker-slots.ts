// Worker slots: how many stacks may change the engine at once. A stack that only waits (settle) holds none.

export class WorkerSlots {
  readonly #size: number;
  #taken = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(size: number) {
    this.#size = size;
  }

  /** Resolves to the release, which may be called more than once. Rejects with the signal's reason. */
  async acquire(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    while (this.#taken >= this.#size) {
      await new Promise<void>((resolve, reject) => {
        const abort = (): void => {
          this.#waiting.splice(this.#waiting.indexOf(wake), 1);
          reject(signal.reason);
        };
        const wake = (): void => {
          signal.removeEventListener('abort', abort);
          resolve();
        };
        signal.addEventListener('abort', abort, { once: true });
        this.#waiting.push(wake);
      });
      if (signal.aborted) {
        this.#waiting.shift()?.();
        throw signal.reason;
      }
    }
    this.#taken++;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#taken--;
      this.#waiting.shift()?.();
    };
  }
}
