// Events: the engine's own stream, reduced to "look again at this project". It feeds the memory as events arrive, however slowly
// they are consumed. It opens with one event about everything, and throws ENGINE_UNREACHABLE when the stream breaks.
import { Fault } from '../../core/fault.ts';
import type { EngineEvent } from '../../core/state/observed.ts';
import type { ApiClient } from './api-client.ts';
import { LineCutter } from './lines.ts';
import type { Happening, Memory } from './memory.ts';
import { composeLabel } from './reading.ts';

interface ApiEvent {
  readonly Type?: string;
  readonly Action?: string;
  readonly Actor?: { readonly ID?: string; readonly Attributes?: Readonly<Record<string, string>> | null };
  readonly timeNano?: number;
}

// Names are asked for one by one: each healthcheck would add three `exec_*` events. Network, volume and image events carry no
// project label, so no label is asked for.
const filters = JSON.stringify({
  type: ['container', 'network', 'volume', 'image'],
  event: [
    'create',
    'start',
    'restart',
    'die',
    'kill',
    'stop',
    'oom',
    'pause',
    'unpause',
    'rename',
    'update',
    'destroy',
    'health_status',
    'connect',
    'disconnect',
    'remove',
    'tag',
    'untag',
    'delete',
    'pull',
    'load',
    'import',
  ],
});

const kinds = new Set<string>(['container', 'network', 'volume', 'image']);
const longestEventBytes = 1024 * 1024;
// A consumer this far behind looks at everything instead.
const longestQueue = 10_000;

export async function* readEvents(
  client: ApiClient,
  memory: Memory,
  ownerOf: (kind: 'network' | 'volume', id: string) => string,
  nowMs: () => number,
  signal: AbortSignal,
): AsyncGenerator<EngineEvent> {
  const body = await client.stream({ method: 'GET', path: '/events', query: { filters }, signal });
  memory.streamOpened();
  const everything = (action: string): EngineEvent => ({
    kind: 'container',
    action,
    id: '',
    project: '',
    service: '',
    atMs: nowMs(),
    exitCode: null,
  });
  let queue: EngineEvent[] = [everything('connected')];
  let wake = () => {};
  let broken: unknown = null;
  let ended = false;
  const cutter = new LineCutter(longestEventBytes);
  const end = (error: unknown) => {
    if (ended) return;
    broken = error;
    ended = true;
    // At once, and not when the consumer gets there: from here on the memory is blind.
    memory.streamClosed();
    wake();
  };
  body.on('data', (chunk: Buffer) => {
    for (const line of cutter.push(chunk)) {
      if (line.text === '') continue;
      const api = line.cut ? null : parseEvent(line.text);
      if (api === null) {
        queue.push(everything('unreadable'));
        continue;
      }
      const event = take(api, memory, ownerOf, nowMs);
      if (event !== null) queue.push(event);
    }
    if (queue.length > longestQueue) queue = [everything('overflow')];
    wake();
  });
  body.on('error', end);
  body.on('end', () => end(null));
  body.on('close', () => end(null));

  try {
    for (;;) {
      const event = queue.shift();
      if (event !== undefined) {
        yield event;
        continue;
      }
      if (ended) break;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  } finally {
    end(null);
    body.destroy();
  }
  if (signal.aborted) return;
  throw new Fault('ENGINE_UNREACHABLE', 'the event stream of the engine broke off', {
    data: { host: client.host.url },
    cause: broken ?? undefined,
  });
}

function parseEvent(text: string): ApiEvent | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as ApiEvent) : null;
  } catch {
    return null;
  }
}

function take(
  api: ApiEvent,
  memory: Memory,
  ownerOf: (kind: 'network' | 'volume', id: string) => string,
  nowMs: () => number,
): EngineEvent | null {
  if (!kinds.has(api.Type ?? '')) return null;
  const kind = api.Type as EngineEvent['kind'];
  const action = api.Action ?? '';
  const id = api.Actor?.ID ?? '';
  const attributes = api.Actor?.Attributes ?? {};
  const atMs = api.timeNano === undefined ? nowMs() : Math.floor(api.timeNano / 1e6);
  const containerId = kind === 'container' ? id : kind === 'network' ? (attributes['container'] ?? '') : '';
  let project = attributes[composeLabel.project] ?? '';
  if (project === '' && containerId !== '') project = memory.projectOf(containerId);
  if (project === '' && (kind === 'network' || kind === 'volume')) project = ownerOf(kind, id);
  const happening: Happening = { kind, action, containerId, signal: attributes['signal'] ?? '', atMs };
  memory.happened(happening, project);
  const exitCode = attributes['exitCode'];
  return {
    kind,
    action,
    id,
    project,
    service: attributes[composeLabel.service] ?? '',
    atMs,
    exitCode: exitCode === undefined ? null : Number(exitCode),
  };
}
