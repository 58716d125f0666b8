// `windlass explain`: what a code or a reason means, and what to do.
import { CAUSES } from '../../core/diff/change.ts';
import { FAULTS, type FaultCode } from '../../core/fault.ts';
import { nearest } from '../../core/spec/suggest.ts';
import { FAULT_REASONS } from '../../core/status/fault-reason.ts';
import { type Command, UsageError } from '../command.ts';
import { DIAGNOSTICS, REASON_WORDS } from '../explanations.ts';

const RETRIES = {
  retry: 'it is tried again by itself, with growing pauses',
  wait: 'it goes on by itself when what it waits for is there',
  person: 'somebody has to act',
};

interface Explained {
  readonly kind: 'fault' | 'diagnostic' | 'reason' | 'cause' | 'trust';
  readonly code: string;
  readonly says: string;
  /** For a fault: how it goes on, and where it shows. */
  readonly more: readonly string[];
}

export const command: Command = {
  words: ['explain'],
  summary: 'explain an error code, a reason of a condition or a cause of a change; without one, list them',
  usage: '[CODE]',
  example: 'windlass explain VOLUME_CHANGED',
  arity: [0, 1],
  async run({ io, json, args }) {
    const all = await everything();
    if (args[0] === undefined) {
      if (json) io.json(all);
      else io.data(all.map((one) => `${one.code}: ${one.says}`).join('\n'));
      return 0;
    }
    const word = args[0].replace(/^(error|warning)\[(.*)\]$/, '$2');
    const plain = (text: string): string => text.toLowerCase().replaceAll('-', '_');
    const found = all.filter((one) => plain(one.code) === plain(word));
    if (found.length === 0) {
      const near = nearest(
        word,
        all.map((one) => one.code),
      );
      throw new UsageError(
        `there is no code ${word}${near ? `; did you mean ${near}?` : ''}\n  help     \`windlass explain\` lists them all`,
      );
    }
    if (json) io.json(found);
    else io.data(found.map((one) => [`${one.code}: ${one.says}`, ...one.more].join('\n')).join('\n\n'));
    return 0;
  },
};

async function everything(): Promise<readonly Explained[]> {
  const { REASONS: TRUST } = await import('../../core/state/trust/reason.ts');
  const { AUTHORITY } = await import('../../core/state/trust/authority.ts');
  const rows = (kind: Explained['kind'], table: Readonly<Record<string, string>>): Explained[] =>
    Object.entries(table).map(([code, says]) => ({ kind, code, says, more: [] }));
  return [
    ...Object.entries(FAULTS).map(([code, { help, retry }]): Explained => {
      const reason = FAULT_REASONS[code as FaultCode];
      return { kind: 'fault', code, says: help, more: [`${RETRIES[retry]}; the stack is then ${reason}`] };
    }),
    ...rows('diagnostic', DIAGNOSTICS),
    ...Object.entries(REASON_WORDS).map(([code, says]): Explained => {
      const from = Object.entries(FAULT_REASONS).filter(([, reason]) => reason === code);
      return {
        kind: 'reason',
        code,
        says,
        more: from.length > 0 ? [`it comes from ${from.map(([fault]) => fault).join(', ')}`] : [],
      };
    }),
    ...rows('cause', CAUSES),
    ...Object.entries({ ...TRUST, ...AUTHORITY }).map(
      ([code, { help }]): Explained => ({ kind: 'trust', code, says: help, more: [] }),
    ),
  ];
}
