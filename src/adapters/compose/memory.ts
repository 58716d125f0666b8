// Memory: what one event stream lets us know between two looks: details that are still valid, and who was stopped by hand.
// Without a live stream it remembers nothing.
import type { ContainerDetail } from '../../core/state/observed.ts';

export interface Happening {
  readonly kind: 'container' | 'network' | 'volume' | 'image';
  readonly action: string;
  /** The container that a network event is about, too. */
  readonly containerId: string;
  readonly signal: string;
  readonly atMs: number;
}

// How long after a signal an end is still taken for its effect: a grace period and some.
const signalMemoryMs = 60_000;
// Events of our own call may arrive a little after its answer.
const usualEchoMs = 500;
const endingSignals = new Set(['2', '3', '9', '15', 'SIGINT', 'SIGQUIT', 'SIGKILL', 'SIGTERM']);

export class Memory {
  readonly #nowMs: () => number;
  readonly #echoMs: number;
  readonly #details = new Map<string, ContainerDetail>();
  /** Grows with each event about a container, so that an inspect which was under way is not kept. */
  readonly #versions = new Map<string, number>();
  readonly #signalledAtMs = new Map<string, number>();
  readonly #stoppedByHand = new Set<string>();
  readonly #ours = new Map<string, { calls: number; untilMs: number }>();
  readonly #projects = new Map<string, string>();
  #epoch = 0;
  #streams = 0;

  constructor(nowMs: () => number, echoMs = usualEchoMs) {
    this.#nowMs = nowMs;
    this.#echoMs = echoMs;
  }

  streamOpened(): void {
    this.#streams += 1;
  }

  /** Anything may have happened unseen from here on. */
  streamClosed(): void {
    this.#streams -= 1;
    if (this.#streams > 0) return;
    this.#epoch += 1;
    this.#details.clear();
    this.#versions.clear();
    this.#signalledAtMs.clear();
    this.#stoppedByHand.clear();
  }

  detail(id: string): ContainerDetail | null {
    return this.#details.get(id) ?? null;
  }

  /** Taken before an inspect and given back to `remember` with its result. */
  ticket(id: string): string {
    return `${this.#epoch}.${this.#versions.get(id) ?? 0}`;
  }

  remember(id: string, ticket: string, detail: ContainerDetail): void {
    if (this.#streams > 0 && ticket === this.ticket(id)) this.#details.set(id, detail);
  }

  forget(id: string): void {
    this.#details.delete(id);
    if (this.#streams > 0) this.#versions.set(id, (this.#versions.get(id) ?? 0) + 1);
  }

  forgetProject(project: string): void {
    for (const [id, owner] of this.#projects) if (owner === project) this.forget(id);
  }

  /** Keeps only what the last look still showed. */
  saw(containers: ReadonlyMap<string, string>): void {
    this.#projects.clear();
    for (const [id, project] of containers) this.#projects.set(id, project);
    for (const kept of [this.#details, this.#versions, this.#signalledAtMs, this.#stoppedByHand]) {
      for (const id of kept.keys()) if (!containers.has(id)) kept.delete(id);
    }
  }

  projectOf(id: string): string {
    return this.#projects.get(id) ?? '';
  }

  stoppedByHand(id: string): boolean {
    return this.#stoppedByHand.has(id);
  }

  /** While `work` runs, and for its echo, an end of this container or project is ours and no person's. */
  async asOurs<T>(idOrProject: string, work: () => Promise<T>): Promise<T> {
    const entry = this.#ours.get(idOrProject) ?? { calls: 0, untilMs: 0 };
    entry.calls += 1;
    this.#ours.set(idOrProject, entry);
    try {
      return await work();
    } finally {
      const nowMs = this.#nowMs();
      entry.calls -= 1;
      entry.untilMs = nowMs + this.#echoMs;
      for (const [key, { calls, untilMs }] of this.#ours) if (calls === 0 && untilMs <= nowMs) this.#ours.delete(key);
    }
  }

  happened(event: Happening, project: string): void {
    const id = event.containerId;
    if (id === '') return;
    this.forget(id);
    if (event.kind !== 'container') return;
    switch (event.action) {
      case 'kill':
        if (endingSignals.has(event.signal) && !this.#isOurs(id, project)) this.#signalledAtMs.set(id, event.atMs);
        break;
      case 'die': {
        const signalledAtMs = this.#signalledAtMs.get(id);
        this.#signalledAtMs.delete(id);
        if (signalledAtMs !== undefined && event.atMs - signalledAtMs <= signalMemoryMs) this.#stoppedByHand.add(id);
        break;
      }
      case 'stop':
        if (!this.#isOurs(id, project)) this.#stoppedByHand.add(id);
        break;
      case 'start':
        this.#stoppedByHand.delete(id);
        this.#signalledAtMs.delete(id);
        break;
      case 'destroy':
        this.#stoppedByHand.delete(id);
        this.#signalledAtMs.delete(id);
        this.#projects.delete(id);
        this.#details.delete(id);
        break;
    }
  }

  #isOurs(id: string, project: string): boolean {
    return this.#isOurKey(id) || (project !== '' && this.#isOurKey(project));
  }

  #isOurKey(key: string): boolean {
    const entry = this.#ours.get(key);
    return entry !== undefined && (entry.calls > 0 || entry.untilMs > this.#nowMs());
  }
}
