// Clock: time and chance, injected so that tests own both.

export interface Clock {
  nowMs(): number;
  /** Rejects with the signal's reason when aborted. Never keeps the process alive by itself when `background` is true. */
  sleep(ms: number, signal?: AbortSignal, background?: boolean): Promise<void>;
  /** In [0, 1). */
  random(): number;
  /** A fresh unguessable id, 32 hex. */
  id(): string;
}
