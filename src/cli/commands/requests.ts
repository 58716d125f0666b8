// `windlass requests`: where each request stands and why it waits: who has signed, who still may. And its evidence, to keep elsewhere.
import { helpOf } from '../../core/state/trust/authority.ts';
import type { RequestEvaluation } from '../../core/state/trust/evaluate-request.ts';
import type { RequestView } from '../../surface.ts';
import { type Command, UsageError } from '../command.ts';
import { EXIT } from '../exit.ts';
import type { Painter } from '../io.ts';
import { formatTable, oneLine } from '../views/table.ts';

export const command: Command = {
  words: ['requests'],
  summary:
    'list the requests of the fleet, or tell of one why it waits; `--receipt` prints the evidence of one that ran',
  usage: '[ID]',
  example: 'windlass requests purge-shop-2026-12-01-1f2e',
  arity: [0, 1],
  flags: {
    receipt: { type: 'boolean', help: 'print the evidence as JSON: request, raw statements, policy, tip, outcome' },
  },
  async run({ io, json, flags, args, surface }) {
    const [id] = args;
    if (flags['receipt'] === true) {
      if (id === undefined) throw new UsageError('name the request whose receipt is wanted');
      io.json((await surface('state')).receipt(id));
      return EXIT.done;
    }
    const shown = await (await surface()).requests(id);
    if (id !== undefined && shown.length === 0) {
      io.words(`there is no request ${id}`);
      return EXIT.usage;
    }
    if (json) io.json(id === undefined ? shown : shown[0]);
    else if (shown.length === 0) io.words('there are no requests');
    else if (id === undefined) io.data(formatTable(['ID', 'KIND', 'STATE', 'WHY'], shown.map(rowOf), io.width));
    else for (const one of shown) io.data(formatRequest(io, one));
    return EXIT.done;
  },
};

const OPEN = new Set<string>(['observed', 'verifying', 'awaitingApprovals', 'scheduled']);

/** What is on record once it was claimed; before that, what it is judged now. */
const standing = ({ snapshot, evaluation }: RequestView): { state: string; reason: string; detail: string } => {
  const isOver = snapshot !== null && !OPEN.has(snapshot.state);
  if (isOver || evaluation === null) return snapshot ?? { state: 'unknown', reason: '', detail: '' };
  if (snapshot?.reason === 'waits' && evaluation.state === 'ready') return snapshot;
  return evaluation;
};

/** As it stands in the newest commit, or as it was when it was claimed. */
const requestOf = ({ evaluation, claimed }: RequestView) => claimed?.request ?? evaluation?.request ?? null;

const rowOf = (one: RequestView): string[] => {
  const { state, reason, detail } = standing(one);
  return [
    oneLine(one.id),
    requestOf(one)?.kind ?? '-',
    state,
    oneLine([reason, detail].filter((part) => part !== '').join(': ')),
  ];
};

/** What a squash or a rebase leaves behind: words that nobody signed. */
function curesOf(id: string, { requester, ignored, missing }: RequestEvaluation): readonly string[] {
  const lost = ignored.filter(({ principal }) => principal === null);
  if (lost.length === 0 || (requester !== null && missing === 0)) return [];
  const names = lost.map(({ oid }) => oid.slice(0, 12)).join(', ');
  return [
    `  lost       ${names} has words about it without a signature that counts: a squash or rebase takes signatures away`,
    ...(requester === null ? [`  cure       windlass request sign ${id} --tag, by whoever asked; first of all`] : []),
    `  cure       git fetch --tags, then windlass approve ${id} --tag, by each who approved`,
  ];
}

function formatRequest(io: Painter, view: RequestView): string {
  const { evaluation, snapshot, claimed } = view;
  const now = standing(view);
  const lines = [
    `${io.paint('bold', oneLine(view.id))}  ${requestOf(view)?.kind ?? ''}`,
    `  state      ${now.state}`,
    ...(now.reason === '' ? [] : [`  why        ${now.reason}${now.detail === '' ? '' : `: ${oneLine(now.detail)}`}`]),
  ];
  const subject = (claimed === null ? evaluation?.subject : null) ?? snapshot?.subject ?? '';
  const request = requestOf(view);
  if (subject) lines.push(`  file       sha256:${subject}`);
  if (request) lines.push(`  reason     ${oneLine(request.reason)}`, `  expires    ${request.expires}`);
  // Once it is claimed, what counted then is what is told.
  for (const { type, principal, oid } of claimed?.signatures ?? [])
    lines.push(`  ${type === 'request' ? 'asked by ' : 'approved '}  ${principal} (${oid.slice(0, 12)})`);
  if (evaluation && claimed === null) {
    const { requester, approvals, missing, mayStillSign, ignored } = evaluation;
    if (requester) lines.push(`  asked by   ${requester.principal} (${requester.oid.slice(0, 12)})`);
    for (const one of approvals) lines.push(`  approved   ${one.principal} (${one.oid.slice(0, 12)})`);
    if (missing > 0) lines.push(`  missing    ${missing}, of ${mayStillSign.join(', ')}`);
    lines.push(...curesOf(view.id, evaluation));
    for (const one of ignored)
      lines.push(
        `  ignored    ${one.oid.slice(0, 12)}${one.principal ? ` of ${one.principal}` : ''}: ${one.reason}${one.detail ? `: ${oneLine(one.detail)}` : ''}`,
        `             ${helpOf(one.reason)}`,
      );
    if (now === evaluation && evaluation.state === 'refused') lines.push(`  help       ${helpOf(evaluation.reason)}`);
  }
  for (const { type, principal, oid, reason } of view.said)
    if (type !== 'request' || reason !== request?.reason)
      lines.push(`  said       ${principal} (${type}, ${oid.slice(0, 12)}): ${oneLine(reason)}`);
  for (const { item, state } of view.items) lines.push(`  item       ${oneLine(item)}: ${oneLine(state)}`);
  for (const mark of snapshot?.history ?? [])
    lines.push(`  ${new Date(mark.atMs).toISOString()}  ${mark.state}${mark.reason ? ` (${mark.reason})` : ''}`);
  return lines.join('\n');
}
