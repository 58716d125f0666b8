// SharedCall: many callers at once, one run. Who calls while a run goes on shares the next run, because the one that
// goes on may have looked before the caller's reason arose. A run is called off when nobody waits for it any more.
interface Turn<Result> {
  readonly promise: Promise<Result>;
  readonly controller: AbortController;
  waiting: number;
}

export class SharedCall<Result> {
  readonly #work: (signal: AbortSignal) => Promise<Result>;
  #running: Turn<Result> | null = null;
  #next: Turn<Result> | null = null;

  constructor(work: (signal: AbortSignal) => Promise<Result>) {
    this.#work = work;
  }

  async call(signal?: AbortSignal): Promise<Result> {
    signal?.throwIfAborted();
    const turn = this.#join();
    turn.waiting += 1;
    const leave = Promise.withResolvers<never>();
    const onAbort = (): void => leave.reject(signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([turn.promise, leave.promise]);
    } finally {
      signal?.removeEventListener('abort', onAbort);
      turn.waiting -= 1;
      if (turn.waiting === 0) turn.controller.abort(signal?.reason);
    }
  }

  /** Calls off what runs and resolves when it has ended. */
  async stop(reason: unknown): Promise<void> {
    for (const turn of [this.#next, this.#running]) {
      turn?.controller.abort(reason);
      await turn?.promise.catch(() => {});
    }
  }

  #join(): Turn<Result> {
    if (this.#next !== null && !this.#next.controller.signal.aborted) return this.#next;
    const after = (this.#next ?? this.#running)?.promise;
    const controller = new AbortController();
    const turn: Turn<Result> = { promise: this.#run(after, controller, () => turn), controller, waiting: 0 };
    // Whoever left does not hear of the failure; somebody must, or the process would end of it.
    turn.promise.catch(() => {});
    this.#next = turn;
    return turn;
  }

  async #run(
    after: Promise<Result> | undefined,
    controller: AbortController,
    self: () => Turn<Result>,
  ): Promise<Result> {
    // Also when nothing runs: those who call in the same moment share one run.
    await Promise.resolve();
    await after?.catch(() => {});
    const turn = self();
    if (this.#next === turn) this.#next = null;
    this.#running = turn;
    try {
      controller.signal.throwIfAborted();
      return await this.#work(controller.signal);
    } finally {
      if (this.#running === turn) this.#running = null;
    }
  }
}
