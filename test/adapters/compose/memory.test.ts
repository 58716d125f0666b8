import { describe, expect, test } from 'vitest';
import { type Happening, Memory } from '../../../src/adapters/compose/memory.ts';
import type { ContainerDetail } from '../../../src/core/state/observed.ts';

const detail = { startedAt: 'x' } as ContainerDetail;
const happening = (action: string, extra: Partial<Happening> = {}): Happening => ({
  kind: 'container',
  action,
  containerId: 'c',
  signal: '',
  atMs: 0,
  ...extra,
});

function listening(nowMs = () => 0): Memory {
  const memory = new Memory(nowMs);
  memory.streamOpened();
  return memory;
}

describe('details', () => {
  test('are kept only while a stream is read', () => {
    const memory = new Memory(() => 0);
    memory.remember('c', memory.ticket('c'), detail);
    expect(memory.detail('c')).toBeNull();
    memory.streamOpened();
    memory.remember('c', memory.ticket('c'), detail);
    expect(memory.detail('c')).toBe(detail);
    memory.streamClosed();
    expect(memory.detail('c')).toBeNull();
  });

  test('of an inspect that an event overtook are not kept', () => {
    const memory = listening();
    const ticket = memory.ticket('c');
    memory.happened(happening('update'), 'p');
    memory.remember('c', ticket, detail);
    expect(memory.detail('c')).toBeNull();
  });

  test('of an inspect that spans two streams are not kept', () => {
    const memory = listening();
    const ticket = memory.ticket('c');
    memory.streamClosed();
    memory.streamOpened();
    memory.remember('c', ticket, detail);
    expect(memory.detail('c')).toBeNull();
  });

  test('go with a network event about the container', () => {
    const memory = listening();
    memory.remember('c', memory.ticket('c'), detail);
    memory.happened(happening('connect', { kind: 'network' }), 'p');
    expect(memory.detail('c')).toBeNull();
  });

  test('of what is no longer listed are dropped', () => {
    const memory = listening();
    memory.remember('c', memory.ticket('c'), detail);
    memory.saw(new Map([['other', 'p']]));
    expect(memory.detail('c')).toBeNull();
  });

  test('of a project are forgotten together', () => {
    const memory = listening();
    memory.saw(
      new Map([
        ['c', 'p'],
        ['d', 'q'],
      ]),
    );
    for (const id of ['c', 'd']) memory.remember(id, memory.ticket(id), detail);
    memory.forgetProject('p');
    expect([memory.detail('c'), memory.detail('d')]).toEqual([null, detail]);
  });
});

describe('who ended it', () => {
  const tell = (memory: Memory, ...events: Happening[]) => {
    for (const event of events) memory.happened(event, 'p');
    return memory.stoppedByHand('c');
  };

  test.each([
    ['a stop by a person', [happening('kill', { signal: '15' }), happening('die'), happening('stop')], true],
    ['a kill by a person', [happening('kill', { signal: '9' }), happening('die')], true],
    [
      'a stop with a signal of its own',
      [happening('kill', { signal: '28' }), happening('die'), happening('stop')],
      true,
    ],
    ['a crash', [happening('die')], false],
    ['a crash some time after a harmless signal', [happening('kill', { signal: '1' }), happening('die')], false],
    [
      'a crash long after a signal that it survived',
      [happening('kill', { signal: '15' }), happening('die', { atMs: 120_000 })],
      false,
    ],
    ['a start after it', [happening('kill', { signal: '9' }), happening('die'), happening('start')], false],
  ])('%s', (_what, events, expected) => {
    expect(tell(listening(), ...events)).toBe(expected);
  });

  test('our own stop is nobody else’s, by container or project, also when its events come late', async () => {
    let nowMs = 0;
    const memory = listening(() => nowMs);
    await memory.asOurs('p', async () => {});
    nowMs = 100;
    expect(tell(memory, happening('kill', { signal: '9' }), happening('die'), happening('stop'))).toBe(false);
    nowMs = 10_000;
    expect(tell(memory, happening('kill', { signal: '9' }), happening('die'))).toBe(true);
  });

  test('a call of ours that ended does not uncover another that still runs', async () => {
    const memory = new Memory(() => 0, 0);
    memory.streamOpened();
    await memory.asOurs('c', async () => {
      await memory.asOurs('c', async () => {});
      expect(tell(memory, happening('stop'))).toBe(false);
    });
    expect(tell(memory, happening('stop'))).toBe(true);
  });
});
