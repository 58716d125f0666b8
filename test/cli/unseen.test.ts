// What others wrote, as people are shown it: nothing in it moves a cursor, colours a word or turns its neighbours around.
import { describe, expect, it } from 'vitest';
import { command } from '../../src/cli/commands/requests.ts';
import { indented } from '../../src/cli/views/approval.ts';
import { formatDiagnostic } from '../../src/cli/views/diagnostic.ts';
import { oneLine } from '../../src/cli/views/table.ts';
import { inOneLine, writtenOut } from '../../src/core/state/trust/unseen.ts';

const io = { paint: (_: string, text: string) => text };
const HIDDEN = /[^\P{C}\n]|[\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069]/u;
const ODD = 'a\u001b[31mred\u001b[0m\u202elmay\u2066\u200b\u009b1m\u2028b\r';

describe('text of others', () => {
  it('is written out in a diagnostic: its place, summary, detail and help', () => {
    const told = formatDiagnostic(
      io as never,
      {
        severity: 'error',
        code: 'REQUEST_INVALID',
        summary: `${ODD} is no path`,
        detail: `first ${ODD}\n\tsecond ${ODD}`,
        help: ODD,
        stack: ODD,
        place: { file: `requests/${ODD}\n.yaml`, line: 0, column: 0 },
      } as never,
    );
    expect(told).not.toMatch(HIDDEN);
    expect(told).toContain('at       requests/a\\u{1b}[31mred\\u{1b}[0m\\u{202e}lmay');
    expect(told.split('\n')).toHaveLength(6);
    expect(told).toMatch(/^ {11} {2}second a\\u\{1b\}/m);
  });

  it('is written out in the list of requests and in what is told of one', async () => {
    const request = { kind: 'Purge', stack: 'shop', reason: `tidy ${ODD} up`, expires: '2026-12-01T00:00:00Z' };
    const evaluation = {
      ...{ state: 'refused', reason: 'request-invalid', detail: ODD, request, subject: 's', requester: null },
      ...{ approvals: [], ignored: [], missing: 0, mayStillSign: [] },
    };
    const view = { id: `requests/${ODD}.yaml`, snapshot: null, evaluation, claimed: null, items: [], said: [] };
    const lines: string[] = [];
    const painter = { ...io, width: 500, data: (text: string) => void lines.push(text) };
    for (const args of [[], [view.id]])
      await command.run({
        ...{ io: painter, json: false, flags: {}, args },
        surface: async () => ({ deniedTip: async () => null, requests: async () => [view] }),
      } as never);
    expect(lines).toHaveLength(2);
    for (const told of lines) expect(told).not.toMatch(HIDDEN);
    expect(lines[1]).toContain('reason     tidy a\\u{1b}[31mred');
  });

  it('of a long name moves its own row only in the list of requests', async () => {
    const view = (id: string) => ({
      ...{ id, snapshot: { id, state: 'succeeded', reason: 'done', detail: '' }, evaluation: null, claimed: null },
      ...{ items: [], said: [] },
    });
    const lines: string[] = [];
    const painter = { ...io, width: 300, data: (text: string) => void lines.push(...text.split('\n')) };
    const names = ['one', `requests/${'x'.repeat(190)}.yaml`, 'three'];
    await command.run({
      ...{ io: painter, json: false, flags: {}, args: [] },
      surface: async () => ({ deniedTip: async () => null, requests: async () => names.map(view) }),
    } as never);
    expect(lines.map((line) => line.indexOf('succeeded'))).toEqual([-1, 48, 212, 48]);
    expect(lines[2]).toContain(names[1]);
  });

  it('is the same everywhere, and leaves pictures and all that is seen as they are', () => {
    const plain = 'Größe 大 ⚡️ 👩‍💻 «ok» — é';
    expect([oneLine(plain), writtenOut(plain), oneLine('a\tb\r\nc')]).toEqual([plain, plain, 'a b c']);
    for (const shown of [oneLine(ODD), writtenOut(ODD), inOneLine(ODD), indented(ODD)])
      expect(shown).not.toMatch(HIDDEN);
    expect(writtenOut('x\ufe0f\u200dy')).toBe('x\\u{fe0f}\\u{200d}y');
  });
});
