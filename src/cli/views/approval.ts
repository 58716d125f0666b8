// View of requests and statements for the people who ask and approve: what would be lost, who decides, what a statement is worth.
import { formatInstant, type Request } from '../../core/spec/request.ts';
import type { RequestEvaluation } from '../../core/state/trust/evaluate-request.ts';
import { ruleInWords } from '../../core/state/trust/policy-words.ts';
import type { RequestRules } from '../../core/state/trust/request-rules.ts';
import { writtenOut } from '../../core/state/trust/unseen.ts';
import type { CloneAuthority, Made } from '../../surface/clone-desk.ts';
import type { Painter } from '../io.ts';
import { KEY } from './fault.ts';

export const row = (key: string, text: string): string => `  ${key.padEnd(KEY)} ${text}`;

const short = (archive: string): string => archive.slice(0, 12);

/** What an operation takes away for good, in whole sentences. */
export function lossInWords(request: Request): readonly string[] {
  switch (request.kind) {
    case 'Purge':
      return [
        request.volumes === 'all'
          ? `Every volume of ${request.stack} is removed with all data in it, for good.`
          : `The volumes ${request.volumes.join(', ')} of ${request.stack} are removed with all data in them, for good.`,
        'No archive is made first: what no archive holds cannot be brought back.',
      ];
    case 'Restore':
      return [
        `The data of ${request.target ?? request.stack} is replaced by that of archive ${short(request.archive)}; what was written since is not in it.`,
        request.safety === 'none'
          ? 'No archive of the live data is made first (safety: none): it is lost for good.'
          : 'An archive of the live data is made first, so that it can be brought back.',
        ...(request.then === 'follow-git'
          ? []
          : [`${request.target ?? request.stack} then stays as restored until it is resumed.`]),
      ];
    case 'Recover': {
      const names = request.stacks.map((stack) => request.rename?.[stack] ?? stack);
      return [
        `The data of ${names.join(', ')} is replaced by that of archive ${short(request.archive)}, in the order of their dependencies.`,
        request.safety === 'none'
          ? 'No archive of the live data is made first (safety: none): it is lost for good.'
          : 'An archive of the live data is made first, so that it can be brought back.',
      ];
    }
    case 'Clone':
      return [
        `${request.stack} is copied to ${request.target}; ${request.stack} itself loses nothing.`,
        request.secrets === 'copy'
          ? `Its secrets are copied: ${request.target} can do with them what ${request.stack} can.`
          : `${request.target} gets secrets of its own.`,
      ];
    case 'Move':
      return [
        `${request.stack} moves to ${[request.target, request.node && `node ${request.node}`].filter(Boolean).join(' on ')}; it is stopped until that is ready, and started again if that fails.`,
        request.archive === undefined
          ? 'An archive of all of its volumes is made once it is stopped: what it took until then goes along.'
          : `It moves as archive ${short(request.archive)} holds it: what was written since stays behind.`,
        'What stays behind at the old place is removed only by a later purge.',
      ];
  }
}

export function formatDeciders(
  { hint, hintChangedBy, policy, drift }: Pick<CloneAuthority, 'hint' | 'hintChangedBy' | 'policy' | 'drift'>,
  rules: RequestRules,
): readonly string[] {
  return [
    row('for', `environment ${hint.environment}, fleet ${hint.fleet}, ${hint.ref}`),
    ...(hintChangedBy === null
      ? []
      : [
          row(
            '',
            `trust/anchor.yaml was changed by ${hintChangedBy.slice(0, 12)}: compare it with trust.anchor of the controller`,
          ),
        ]),
    row('policy', `version ${policy.version}, sha256:${policy.sha256}`),
    ...(drift === null
      ? []
      : [row('', `version ${drift.version} has no effect: ${drift.reason} ${drift.detail}`.trimEnd())]),
    ...rules.holding.map(({ index, rule }) => row(`rule ${index + 1}`, ruleInWords(rule))),
  ];
}

/** Where the request stands as far as this clone can tell. */
export function formatStanding(evaluation: RequestEvaluation): readonly string[] {
  const { requester, approvals, missing, mayStillSign } = evaluation;
  return [
    row('asked by', requester?.principal ?? 'nobody whose signature counts'),
    row('approved', approvals.map(({ principal }) => principal).join(', ') || 'by nobody yet'),
    ...(missing === 0 ? [] : [row('missing', `${missing} of ${mayStillSign.join(', ') || 'nobody'}`)]),
  ];
}

/** What a statement is worth that was just made. */
export function formatMade(io: Painter, { oid, tag, principal, lacks, again }: Made): readonly string[] {
  const what = tag === null ? `commit ${oid.slice(0, 12)}` : `tag ${tag}`;
  if (lacks === null && again !== undefined) return [`${what} is signed by ${principal}: ${again}`];
  if (lacks === null) return [`${what} is signed by ${principal} and counts`];
  if (lacks.untilMs !== undefined) {
    const until = formatInstant(lacks.untilMs);
    return [
      `${io.paint('yellow', `${what} is signed by ${principal} and does not count yet`)}: ${lacks.reason}`,
      row('help', `it counts as soon as whoever asks has signed, if that is dated ${until} at the latest;`),
      row('', `of a later request it is no approval: approve that anew. ${lacks.help}`),
    ];
  }
  return [
    `${io.paint('red', `${what} will not count`)}: ${lacks.reason}${lacks.detail === '' ? '' : ` (${lacks.detail})`}`,
    row('help', lacks.help),
    row('undo', tag === null ? 'git reset --keep HEAD~1' : `git tag -d ${tag}`),
  ];
}

/** The text of a file; what nobody would see, or what would turn its neighbours around, is written out. */
export const indented = (text: string): string =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => `  | ${writtenOut(line)}`)
    .join('\n');
