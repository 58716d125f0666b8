// `windlass approve|reject|withdraw ID` and `windlass request sign ID`: what a person says of a request that is committed, as an empty
// signed commit or a signed tag in their clone.
// It speaks of the file that HEAD holds, never of one that was edited in the work tree.
import { formatInstant } from '../../core/spec/request.ts';
import { AUTHORITY } from '../../core/state/trust/authority.ts';
import type { RequestEvaluation } from '../../core/state/trust/evaluate-request.ts';
import { decodeUtf8, sha256Of } from '../../core/state/trust/policy-file.ts';
import { idOfPath, requestPath } from '../../core/state/trust/request-file.ts';
import { type RequestRules, rulesFor } from '../../core/state/trust/request-rules.ts';
import type { CloneAuthority, CloneDesk, RequestHere, Signer } from '../../surface/clone-desk.ts';
import { type Command, type CommandContext, UsageError } from '../command.ts';
import { consent } from '../consent.ts';
import { EXIT } from '../exit.ts';
import { currentBranch, deskOf, instantFlag, plainLine, signerInWords, signerOf } from '../own-clone.ts';
import { formatDeciders, formatMade, formatStanding, indented, lossInWords, row } from '../views/approval.ts';

type Verb = 'approve' | 'reject' | 'withdraw' | 'request';

const DAY_MS = 24 * 3_600_000;

const verb = (word: Verb, words: readonly string[], summary: string): Command => ({
  words,
  summary,
  usage: 'ID',
  example: `windlass ${words.join(' ')} purge-shop-20261201-4f2a`,
  arity: [1, 1],
  flags: {
    tag: { type: 'boolean', help: 'by an annotated tag on the commit that holds the file, for what a merge lost' },
    expires: {
      type: 'string',
      value: 'WHEN',
      help:
        word === 'reject' || word === 'withdraw'
          ? 'only written into it: whoever said no is heard for good'
          : 'until when it counts; default: as long as the request may live',
    },
    reason: { type: 'string', value: 'TEXT', help: 'a sentence for the others' },
    yes: { type: 'boolean', short: 'y', help: 'do not ask' },
  },
  run: (context) => say(context, word),
});

export const approve = verb('approve', ['approve'], 'approve a request, by a signed commit or tag in your clone');
export const reject = verb(
  'reject',
  ['reject'],
  'reject a request as one of its approvers, by a signed commit or tag in your clone',
);
export const withdraw = verb(
  'withdraw',
  ['withdraw'],
  'take back your own request or approval, by a signed commit or tag in your clone',
);

export const signAgain = verb(
  'request',
  ['request', 'sign'],
  'ask again, by a signed commit or tag, for a request that is committed and whose signature a merge lost',
);

async function say(context: CommandContext, word: Verb): Promise<number> {
  const { io, json, flags } = context;
  const id = context.args[0] ?? '';
  if (idOfPath(requestPath(id)) === null)
    throw new UsageError(`${id} is no id of a request; windlass requests lists them`);
  const asTag = flags['tag'] === true;
  const desk = await deskOf(context);
  const authority = await desk.authority();
  if (!asTag) currentBranch(authority, 'give --tag');
  const before = await desk.evaluate(authority, id);
  if (before === null) throw new UsageError(await absence(desk, authority, id));
  if (before.request === null)
    throw Object.assign(new Error('the request is not valid'), { diagnostics: before.diagnostics });
  const signer = await signerOf(desk, authority);
  const { request } = before;
  const rules = rulesFor(request, authority.policy, authority.anchor.maxLifetimeMs);
  const subject = sha256Of(before.bytes);
  const reason = plainLine(flags, 'reason');

  io.words(
    [
      `${requestPath(id)} of HEAD (${authority.commit.slice(0, 12)})`,
      indented(decodeUtf8(before.bytes) ?? ''),
      row('sha256', subject),
      row('fleet', authority.hint.fleet),
      row('env', authority.hint.environment),
      'what would be lost:',
      ...lossInWords(request).map((line) => `  ${line}`),
      'who decides:',
      ...formatDeciders(authority, rules),
      ...formatStanding(before),
      row('you', signerInWords(signer)),
      ...(await warningsOf(desk, { word, id, signer, rules, before })).map(
        (line) => `${io.inWords.paint('yellow', 'warning')}: ${line}`,
      ),
    ].join('\n'),
  );
  // Of two files with the same bytes the clone cannot tell which one ran already: nobody should sign before one is gone.
  const isHeld = before.isFinal || before.reason === 'request-copied';
  if ((word === 'approve' || word === 'request') && isHeld) {
    io.words(
      [
        `${io.inWords.paint('red', `error[${before.reason}]`)}: ${before.state} ${before.detail}`.trimEnd(),
        row('help', AUTHORITY[before.reason].help),
      ].join('\n'),
    );
    if (json) io.json({ id, refused: before.reason, detail: before.detail, help: AUTHORITY[before.reason].help });
    return EXIT.refused;
  }
  await consent(context, `${titleOf(word, id)}?`);

  const nowMs = desk.nowMs();
  const expiresMs = instantFlag(flags, 'expires', nowMs) ?? lifeOf(request.expires, nowMs, rules.mostMs);
  const { CloneDesk: Desk } = await import('../../surface/clone-desk.ts');
  const name = asTag ? `windlass/${word}/${id}/${Desk.shortMark()}` : null;
  const { oid } = await desk.state(authority, {
    type: word,
    subject,
    policy: authority.policy.sha256,
    expiresMs,
    title: titleOf(word, id),
    ...(reason === undefined ? {} : { body: `Reason: ${reason}` }),
    ...(name === null ? {} : { tag: { name, commit: await holderOf(desk, authority, id, subject) } }),
  });
  const after = await desk.evaluate(authority, id);
  if (after === null) throw new Error(`${requestPath(id)} is not in HEAD`);
  const made = { ...(await desk.judgeMade(authority, word, oid, after)), tag: name };
  if (json)
    io.json({
      id,
      sha256: subject,
      [name === null ? 'commit' : 'tag']: name ?? oid,
      oid,
      principal: made.principal,
      expires: formatInstant(expiresMs),
      counts: made.lacks === null,
      lacks: made.lacks,
      state: after.state,
      missing: after.missing,
      mayStillSign: after.mayStillSign,
    });
  else io.data(name ?? oid);
  io.words(
    [
      ...formatMade(io.inWords, made),
      ...(made.lacks === null ? stateInWords(after) : []),
      ...(made.lacks === null || made.lacks.untilMs !== undefined ? [nextStep(name)] : []),
    ].join('\n'),
  );
  return made.lacks === null ? EXIT.done : EXIT.refused;
}

const titleOf = (word: Verb, id: string): string =>
  word === 'request' ? `Ask again for ${id}` : `${word[0]?.toUpperCase()}${word.slice(1)} ${id}`;

const nextStep = (tag: string | null): string =>
  row('next', tag === null ? 'git push' : `git push origin refs/tags/${tag}`);

function stateInWords(evaluation: RequestEvaluation): readonly string[] {
  const { state, missing, mayStillSign } = evaluation;
  if (state === 'awaitingApprovals') return [row('missing', `${missing} of ${mayStillSign.join(', ') || 'nobody'}`)];
  return [row('state', `${state}, as far as this clone can tell: ${AUTHORITY[evaluation.reason].help}`)];
}

/** At most as long as the rule lets it live; a request that has ended may still be rejected. */
function lifeOf(expires: string, nowMs: number, mostMs: number): number {
  const end = Date.parse(expires);
  const most = nowMs + Math.floor(mostMs / 1000) * 1000;
  return end > nowMs ? Math.min(end, most) : nowMs + DAY_MS;
}

/** The commit that brought the file as HEAD has it. */
async function holderOf(desk: CloneDesk, { commit }: CloneAuthority, id: string, subject: string): Promise<string> {
  const [holder] = await desk.clone.changes(requestPath(id));
  if (holder === undefined) return commit;
  const file = await desk.clone.file(holder, requestPath(id));
  return file !== null && sha256Of(file.bytes) === subject ? holder : commit;
}

async function absence(desk: CloneDesk, { commit, branch }: CloneAuthority, id: string): Promise<string> {
  const path = requestPath(id);
  const isDraft = (await desk.clone.draft(path)) !== null;
  const there = (await desk.clone.files(commit, 'requests')).flatMap((file) => idOfPath(file.path) ?? []);
  return [
    `HEAD${branch === null ? '' : ` of ${branch.replace('refs/heads/', '')}`} holds no ${path}`,
    row('there', there.join(', ') || 'no request'),
    row(
      'help',
      isDraft
        ? 'it is in the work tree only; what is not committed cannot be signed'
        : 'git fetch, then git switch to the branch of the request',
    ),
  ].join('\n');
}

async function warningsOf(
  desk: CloneDesk,
  about: {
    readonly word: Verb;
    readonly id: string;
    readonly signer: Signer;
    readonly rules: RequestRules;
    readonly before: RequestHere;
  },
): Promise<readonly string[]> {
  const { word, id, signer, rules, before } = about;
  const draft = await desk.clone.draft(requestPath(id));
  const isEdited = draft === null || Buffer.compare(draft, before.bytes) !== 0;
  return [
    ...(isEdited ? ['the file in the work tree differs; what is signed is the one shown here, of HEAD'] : []),
    ...(before.isFinal ? [] : before.doubts),
    ...(before.state === 'refused' ? [`${before.reason}: ${AUTHORITY[before.reason].help}`] : []),
    ...signerWarning(word, signer, rules, before),
  ];
}

function signerWarning(
  word: Verb,
  { setUp, principal }: Signer,
  { holding, requesters, approvers }: RequestRules,
  before: RequestEvaluation,
): readonly string[] {
  if (setUp.fingerprint === null) return [];
  if (principal === null) return ['the policy names nobody with this key; this will not count'];
  const asked = before.requester?.principal;
  if (word === 'withdraw') {
    const own = principal === asked || before.approvals.some((one) => one.principal === principal);
    return own ? [] : [`${principal} neither asked for this nor approved it; this will not count`];
  }
  if (word === 'request') {
    if (!requesters.includes(principal)) return [`the rule does not let ${principal} ask; this will not count`];
    return asked === undefined ? [] : [`${asked} asks already; a second signature changes nothing`];
  }
  if (!approvers.includes(principal)) return [`${principal} is no approver of the rule; this will not count`];
  const may = holding.some(
    ({ rule }) => (rule.approvers ?? []).includes(principal) && rule.requesterMayApprove === true,
  );
  if (word === 'approve' && principal === asked && !may)
    return [`${principal} asked for this, and the rule does not let requesters approve; this will not count`];
  if (word === 'approve' && before.approvals.some((one) => one.principal === principal))
    return [`${principal} approved it already; each person counts once`];
  return [];
}
