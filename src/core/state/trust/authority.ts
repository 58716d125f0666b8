// The closed table of what authority can lack: policies, statements and requests. Each code fixes whom it concerns and one sentence of
// help. It holds words only; the rules that choose a code are in the files that refuse. Codes of signatures are in `reason.ts`.
import { REASONS, type ReasonCode } from './reason.ts';

/** `state`: says where a request stands; `request`: refuses it; `statement`: one statement does not count; `policy`: a version has no effect. */
export type AuthorityScope = 'state' | 'request' | 'statement' | 'policy';

interface Authority {
  readonly scope: AuthorityScope;
  readonly help: string;
}

const state = (help: string) => ({ scope: 'state', help }) as const;
const request = (help: string) => ({ scope: 'request', help }) as const;
const statement = (help: string) => ({ scope: 'statement', help }) as const;
const policy = (help: string) => ({ scope: 'policy', help }) as const;

export const AUTHORITY = {
  // Where a request stands.
  authorised: state('Everything that the policy asks for is there; it may be claimed.'),
  'approvals-missing': state(
    'Approvals are missing; those who may still sign are named, they use `windlass approve ID`.',
  ),
  'delay-running': state('The delay of the rule is running since the last approval that was needed.'),
  'not-before': state('The request itself says that it must not run before a later time.'),
  'rejected-by-approver': state('An approver rejected it; make a new request when the objection is settled.'),
  'withdrawn-by-requester': state('Whoever asked for it has withdrawn it.'),
  'left-the-branch': state(
    'Its file is no longer on the branch; it is judged again if the file comes back, with what was signed about these bytes.',
  ),
  'request-expired': state('The time of the request has passed; make a new request.'),

  // Why a request is refused.
  'policy-absent': request('No policy is in effect, so nothing is authorised; see `windlass trust status`.'),
  'fleet-mismatch': request('The policy in effect belongs to another fleet than the trust anchor.'),
  'clock-unusable': request('The time to judge by is not a date; correct the clock of the controller.'),
  'request-path': request(
    'A request is a file requests/ID.yaml, with ID a name of lower-case letters, digits, - and _.',
  ),
  'request-not-regular': request(
    'The request is not a regular file of the tip; links, folders and submodules are none.',
  ),
  'request-too-large': request('A request has at most 1 MiB.'),
  'request-invalid': request(
    'The request file is not valid; correct what the diagnostics name and have it signed again.',
  ),
  'tip-not-from-genesis': request('The tip does not descend from the genesis commit of the trust anchor.'),
  'history-rewritten': request(
    'The tip does not descend from the last accepted one; check who rewrote the branch, then `windlass trust accept TIP`.',
  ),
  'request-claimed': request('A request of this id was claimed before; each id runs at most once.'),
  'request-replayed': request(
    'A request with exactly this content was claimed before under another id; each content runs at most once. See what became of that one, and ask anew only if it is wanted once more.',
  ),
  'request-copied': request(
    'Another request file holds exactly the same bytes, and signatures name bytes, not file names: neither runs until all but one are removed from the branch.',
  ),
  'request-unsigned': request(
    'No valid signed statement asks for these very bytes; whoever asks signs one by commit, or by an annotated tag when a merge lost it: `windlass request sign ID --tag`. One that is made already comes with `git fetch --tags`.',
  ),
  'request-altered': request(
    'Its words were changed after they were signed, and nobody whose signature counts asks for what it says now. See who changed them (`git log -p -- requests/ID.yaml`) and bring the file back byte for byte: what was signed about it counts again. Only if the new words are what is wanted, whoever asks signs them: `windlass request sign ID --tag`.',
  ),
  'nonce-replayed': request('The statement that asks for it carries a nonce that was spent before; sign a new one.'),
  'request-predates-ledger': request(
    'It was signed before the memory of this controller began, which cannot tell whether it ran. Look whether what it asks for is done; only if it never ran, whoever asks and who approves sign it again.',
  ),
  'rule-absent': request('No rule of the policy names this operation for this stack, so it is refused.'),
  'rule-empty': request('The rule that holds names nobody who could ask or approve, so it is refused.'),
  'requester-not-allowed': request('The rule does not let whoever signed ask for this operation on this stack.'),
  'lifetime-too-long': request(
    'The request lives longer than the rule or the trust anchor allows; choose an earlier expires.',
  ),
  'too-many-statements': request(
    'More commits and tags speak of it than are judged, and a rejection may be among the others; ask anew under another id.',
  ),
  'authority-error': request('The evaluation itself failed, so the request is refused; please report it.'),

  // Why a policy version has no effect.
  'policy-file-absent': policy(
    'trust/policy/v0001.yaml is not in the tree; commit the file that `windlass trust init` made.',
  ),
  'policy-not-anchored': policy('Version 1 is not the one whose SHA-256 the trust anchor holds.'),
  'policy-invalid': policy(
    'The policy file is not valid; correct what the diagnostics name in a version that nobody signed yet.',
  ),
  'policy-other-fleet': policy('The policy is written for another fleet than the trust anchor.'),
  'policy-number': policy('The version inside the file is not the number in its name.'),
  'policy-back-hash': policy('The field previous is not the SHA-256 of the version before.'),
  'policy-gap': policy('A version before it is missing; versions follow each other without a gap.'),
  'policy-altered': policy(
    'A version that is in effect was changed in the tree; versions are never edited, restore the file.',
  ),
  'policy-rolled-back': policy(
    'The version in effect is missing in the tree; versions are never removed, restore the file.',
  ),
  'policy-unsigned': policy(
    'Too few admins signed this version; those who may still sign use `windlass trust policy sign`.',
  ),
  'policy-missing': policy(
    'Enough admins signed a version that is not in the tree as they signed it, and this controller has no memory: so none is in effect. Bring its file back byte for byte (`git log --all -- trust/policy/` tells who changed it), or merge it; who wants the older rules back signs a new version that follows it.',
  ),
  'policy-signatures-expired': policy(
    'Its signatures have expired, and this controller has no memory: it may have been in effect, so the version before it is not; sign it again.',
  ),
  'policy-memory-damaged': policy(
    'What is remembered of the policy in effect is damaged; restore the state directory.',
  ),
  'policy-error': policy('The evaluation itself failed, so the version has no effect; please report it.'),

  // Why a statement does not count.
  'message-form': statement(
    'The message of a statement is UTF-8 without control characters and ends with one line break.',
  ),
  'trailers-not-last': statement(
    'The Windlass trailers stand together in the last paragraph, below a title, and nowhere else.',
  ),
  'trailer-missing': statement(
    'A Windlass trailer is missing; make statements with `windlass request`, `approve` or `reject`.',
  ),
  'trailer-duplicated': statement('A Windlass trailer is given twice, so readers may disagree on it.'),
  'trailer-unknown': statement('A Windlass trailer is not known; statements say exactly the eight that are defined.'),
  'trailer-malformed': statement('A Windlass trailer is malformed.'),
  'signer-unnamed': statement('The key that signed belongs to no principal of the policy in effect.'),
  'judged-elsewhere': statement('The signature was judged by another policy than the one in effect; judge it again.'),
  'judged-stale': statement('The signature was not judged now; judge it again.'),
  'nobody-asks': statement(
    'No signed statement here asks for this file; whoever asked signs and pushes it (`windlass request sign ID --tag`), then `git fetch --tags`. An approval counts from then on, unless it is dated before the request by more than the clock skew.',
  ),
  'other-fleet': statement('It was made for another fleet.'),
  'other-ref': statement('It was made for another ref.'),
  'other-environment': statement('It was made for another environment.'),
  'other-policy': statement('It names another policy than the one in effect; sign again under the policy in effect.'),
  'predates-ledger': statement(
    'It was signed before the memory of this controller began, which cannot tell what it did then; sign a new one.',
  ),
  'statement-expired': statement('Its own expiry has passed; sign a new one.'),
  'statement-lifetime': statement(
    'It lives longer than the rule or the trust anchor allows; sign one that expires earlier.',
  ),
  'not-seen': statement('When it was first seen is not recorded, so no delay or life can be measured.'),
  'seen-in-future': statement('It was first seen later than now; the clock of the controller went back.'),
  'seen-too-late': statement('It was first seen after its own expiry or that of the request.'),
  'dated-after-seen': statement('It was dated in the future when it was first seen.'),
  'dated-before-request': statement(
    'It approves a request that was not yet made at its date, by more than the clock skew; approve again.',
  ),
  'nonce-spent': statement('Its nonce was spent by a request that was claimed before.'),
  'nonce-duplicated': statement('Its nonce was used by a statement that was seen before it.'),
  'statement-repeated': statement('The same signed words are there already under another commit id; they count once.'),
  'same-person': statement(
    'The same person said so before, and each counts once: this one counts where the older one does not, as for a controller whose memory is younger.',
  ),
  'not-an-approver': statement('The rule does not name its signer among the approvers.'),
  'not-the-requester': statement('Its signer did not ask for this; another request statement counts.'),
  'requester-may-not-approve': statement('Its signer asked for this, and the rule does not let requesters approve.'),
  'approval-withdrawn': statement('Its signer withdrew the approval.'),
  'nothing-to-withdraw': statement('Its signer neither asked for this nor approved it.'),
  'not-about-requests': statement('It signs a policy version; it says nothing about a request.'),
} as const satisfies Record<string, Authority>;

export type AuthorityCode = keyof typeof AUTHORITY;

type Scoped<S extends AuthorityScope> = {
  [K in AuthorityCode]: (typeof AUTHORITY)[K]['scope'] extends S ? K : never;
}[AuthorityCode];

export type RequestStateCode = Scoped<'state'>;
export type RequestRefusalCode = Scoped<'request'>;
export type StatementRefusalCode = Scoped<'statement'>;
export type PolicyRefusalCode = Scoped<'policy'>;

/** A statement that does not count: by its own fault, or by that of its signature. */
export type IgnoredCode = StatementRefusalCode | Exclude<ReasonCode, 'ok'>;

/** The help sentence of any code of the two tables. */
export const helpOf = (code: AuthorityCode | ReasonCode): string =>
  Object.hasOwn(AUTHORITY, code) ? AUTHORITY[code as AuthorityCode].help : REASONS[code as ReasonCode].help;
