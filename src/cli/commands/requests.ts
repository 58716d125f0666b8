// `windlass requests`: where each request stands and why it waits: who has signed, who still may. And its evidence, to keep elsewhere.
import { LEFT_BRANCH } from '../../core/request/life.ts';
import { helpOf, type IgnoredCode } from '../../core/state/trust/authority.ts';
import type { RequestEvaluation } from '../../core/state/trust/evaluate-request.ts';
import { formatDiscard, formatDiscarded, type RequestView } from '../../surface.ts';
import { type Command, UsageError } from '../command.ts';
import { EXIT } from '../exit.ts';
import type { Painter } from '../io.ts';
import { deniedInWords } from '../views/denied-tip.ts';
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
    const desk = await surface();
    const shown = await desk.requests(id);
    if (id !== undefined && shown.length === 0) {
      io.words(`there is no request ${id}`);
      return EXIT.usage;
    }
    const denied = shown.length === 0 ? null : await desk.deniedTip();
    if (denied !== null) {
      const { why, help } = deniedInWords(denied, desk.house.trust?.deploy ?? 'none');
      io.words(`${io.inWords.paint('red', why)}\n  help     ${help}`);
    }
    if (json) io.json(id === undefined ? shown : shown[0]);
    else if (shown.length === 0) io.words('there are no requests');
    else if (id === undefined)
      io.data(formatTable(['ID', 'KIND', 'STATE', 'WHY'], shown.map(rowOf), io.width, undefined, MOST_PADDING));
    else for (const one of shown) io.data(formatRequest(io, one));
    return EXIT.done;
  },
};

/** Anybody may push a file with a name of 200 letters. */
const MOST_PADDING = 40;

const OPEN = new Set<string>(['observed', 'verifying', 'awaitingApprovals', 'scheduled']);
/** It may have done some of it, or all. */
const OPEN_CLAIMS = new Set<string>(['claimed', 'executing', 'indeterminate']);

/** What is on record once it was claimed; before that, what it is judged now. */
const standing = ({ snapshot, evaluation }: RequestView): { state: string; reason: string; detail: string } => {
  const isOver = snapshot !== null && !OPEN.has(snapshot.state);
  if (!isOver && evaluation === null && snapshot !== null) {
    const isTold = snapshot.reason === LEFT_BRANCH;
    const detail = isTold ? snapshot.detail : 'it is not among the requests of the newest commit';
    return { state: 'gone', reason: LEFT_BRANCH, detail };
  }
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

type Cure = 'sign-again' | 'another-key' | 'key-of-the-policy' | 'mend-list';

/** Why statements do not count, where people can do something about it that is not told beside each of them. */
const CAUSES: readonly {
  readonly reasons: ReadonlySet<IgnoredCode>;
  readonly key: string;
  readonly says: string;
  readonly cure: Cure;
}[] = [
  {
    reasons: new Set<IgnoredCode>(['bad-revocation-list']),
    key: 'unread',
    says: 'cannot be judged: the list of revoked keys of the controller cannot be read, so no signature counts',
    cure: 'mend-list',
  },
  {
    reasons: new Set<IgnoredCode>(['revoked', 'revoked-authority', 'revoked-certificate', 'key-retired-since']),
    key: 'revoked',
    says: 'is signed with a key that is revoked',
    cure: 'another-key',
  },
  {
    reasons: new Set<IgnoredCode>(['unknown-key', 'unknown-authority', 'signer-unnamed']),
    key: 'stranger',
    says: 'is signed with a key that the policy in effect gives to nobody',
    cure: 'key-of-the-policy',
  },
  {
    reasons: new Set<IgnoredCode>(['no-signature']),
    key: 'lost',
    says: 'has words about it without a signature: a squash or rebase takes signatures away',
    cure: 'sign-again',
  },
  {
    reasons: new Set<IgnoredCode>(['trailers-not-last', 'trailer-duplicated']),
    key: 'joined',
    says: 'has words about it that no longer stand as they were written: a squash joins messages, and an edit moves lines',
    cure: 'sign-again',
  },
];

const MOST_NAMED = 5;

/** What is wrong with those that do not count, each cause with its own cure. None for what may have run already, nor where nothing lacks. */
function curesOf(id: string, { reason, requester, ignored, missing }: RequestEvaluation): readonly string[] {
  if (reason === 'request-predates-ledger' || (requester !== null && missing === 0)) return [];
  const word = (key: string, text: string): string => `  ${key.padEnd(10)} ${text}`;
  const asks = requester === null;
  const lines: string[] = [];
  const cures = new Set<Cure>();
  for (const { reasons, key, says, cure } of CAUSES) {
    const found = ignored.filter((one) => reasons.has(one.reason));
    if (found.length === 0) continue;
    cures.add(cure);
    const more = found.length > MOST_NAMED ? ` and ${found.length - MOST_NAMED} more` : '';
    const named = found.slice(0, MOST_NAMED).map(({ oid }) => oid.slice(0, 12));
    lines.push(word(key, `${named.join(', ')}${more} ${says}`));
  }
  // Nothing that anybody signs counts before that.
  if (cures.has('mend-list'))
    return [
      ...lines,
      word('cure', 'mend the file that trust.revokedFile names, on the host of the controller; nobody need sign again'),
    ];
  if (cures.has('sign-again')) {
    if (asks) lines.push(word('cure', `windlass request sign ${id} --tag, by whoever asked; first of all`));
    lines.push(word('cure', `git fetch --tags, then windlass approve ${id} --tag, by each who approved`));
  }
  const again = asks ? `windlass request sign ${id} or windlass approve ${id}` : `windlass approve ${id}`;
  if (cures.has('another-key'))
    lines.push(
      word('cure', `${again} with a key of the policy that is not revoked; a new key comes with a new policy version`),
    );
  else if (cures.has('key-of-the-policy'))
    lines.push(word('cure', `${again} with a key that the policy names; a new key comes with a new policy version`));
  return lines;
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
    const cures = curesOf(view.id, evaluation);
    lines.push(...cures);
    for (const one of ignored)
      lines.push(
        `  ignored    ${one.oid.slice(0, 12)}${one.principal ? ` of ${one.principal}` : ''}: ${one.reason}${one.detail ? `: ${oneLine(one.detail)}` : ''}`,
        `             ${helpOf(one.reason)}`,
      );
    // That nobody's signature counts is told with its cause where that is known.
    const isTold = evaluation.reason === 'request-unsigned' && cures.length > 0;
    if (now === evaluation && evaluation.state === 'refused' && !isTold)
      lines.push(`  help       ${helpOf(evaluation.reason)}`);
  }
  for (const { type, principal, oid, reason } of view.said)
    if (type !== 'request' || reason !== request?.reason)
      lines.push(`  said       ${principal} (${type}, ${oid.slice(0, 12)}): ${oneLine(reason)}`);
  for (const one of view.discards ?? [])
    if (claimed === null || OPEN_CLAIMS.has(now.state)) lines.push(`  discards   ${oneLine(formatDiscard(one))}`);
    else if (now.state === 'succeeded') lines.push(`  discarded  ${oneLine(formatDiscarded(one))}`);
    // A restore that failed took no data's place; a purge may have come half the way.
    else if (one.sinceMs === null) lines.push(`  was to go  ${oneLine(formatDiscarded(one))}`);
  if (view.discards === null && claimed === null && evaluation?.request)
    lines.push(
      `  discards   cannot be told now, since its ${evaluation.request.kind === 'Purge' ? 'volumes are not to be found' : 'archive cannot be read'}`,
    );
  for (const { item, state } of view.items) lines.push(`  item       ${oneLine(item)}: ${oneLine(state)}`);
  for (const mark of snapshot?.history ?? [])
    lines.push(`  ${new Date(mark.atMs).toISOString()}  ${mark.state}${mark.reason ? ` (${mark.reason})` : ''}`);
  return lines.join('\n');
}
