// `windlass trust policy`: a draft of the next version, and the signature of an admin under one.
import { nextPolicy } from '../../core/state/trust/next-policy.ts';
import { type PolicyVersion, policyPath, readPolicy } from '../../core/state/trust/policy-file.ts';
import { signersOf } from '../../core/state/trust/policy-signers.ts';
import { type PolicyChange, policyChanges, ruleInWords } from '../../core/state/trust/policy-words.ts';
import type { CloneAuthority, CloneDesk } from '../../surface/clone-desk.ts';
import { type Command, type CommandContext, UsageError } from '../command.ts';
import { consent } from '../consent.ts';
import { EXIT } from '../exit.ts';
import type { Painter } from '../io.ts';
import { currentBranch, deskOf, instantFlag, signerInWords, signerOf } from '../own-clone.ts';
import { formatMade, row } from '../views/approval.ts';

const DEFAULT_LIFE_MS = 90 * 24 * 3_600_000;

export const policy: Command = {
  words: ['trust', 'policy'],
  summary: '`new` drafts the next version of the policy, `sign` signs one as an admin, in your clone',
  usage: 'new | sign [VERSION]',
  example: 'windlass trust policy sign 2',
  arity: [1, 2],
  flags: {
    yes: { type: 'boolean', short: 'y', help: 'do not ask before signing' },
    tag: { type: 'boolean', help: 'sign by an annotated tag on the commit that holds the file, for what a merge lost' },
    expires: { type: 'string', value: 'WHEN', help: 'until when the signature may take effect; default 90d' },
  },
  async run(context) {
    const [verb, version] = context.args;
    if (verb === 'new' && version === undefined) return draft(context);
    if (verb === 'sign') return sign(context, version);
    throw new UsageError('say windlass trust policy new, or windlass trust policy sign [VERSION]');
  },
};

async function draft(context: CommandContext): Promise<number> {
  const { io, json } = context;
  const desk = await deskOf(context);
  const authority = await desk.authority();
  const newest = await newestOf(authority);
  if (newest.version > authority.policy.version)
    throw new UsageError(
      `version ${newest.version} is there and not in effect\n  help     edit ${policyPath(newest.version)} as long as nobody signed it, then: windlass trust policy sign ${newest.version}`,
    );
  const path = policyPath(newest.version + 1);
  const text = nextPolicy(newest);
  await desk.clone.write(path, Buffer.from(text));
  if (json) io.json({ path, version: newest.version + 1, previous: newest.sha256 });
  else io.data(path);
  io.words(
    [
      row('next', `edit ${path}: principals, admins, rules; leave version, previous and fleet as they are`),
      row(
        'then',
        `windlass trust policy sign ${newest.version + 1}, by ${authority.policy.policy.admins.threshold} of ${authority.policy.policy.admins.members.join(', ')}`,
      ),
    ].join('\n'),
  );
  return EXIT.done;
}

async function newestOf({ policyFiles, policy: effective }: CloneAuthority): Promise<PolicyVersion> {
  const versions = policyFiles.flatMap((file) => readPolicy(file).version ?? []);
  return versions.reduce((a, b) => (b.version > a.version ? b : a), effective);
}

interface Found {
  readonly version: PolicyVersion;
  readonly isCommitted: boolean;
}

async function sign(context: CommandContext, said: string | undefined): Promise<number> {
  const { io, json, flags } = context;
  if (said !== undefined && !/^[1-9][0-9]{0,5}$/.test(said))
    throw new UsageError(`name the version by its number, not ${said}`);
  const desk = await deskOf(context);
  const authority = await desk.authority();
  const before = authority.policy;
  const number = said === undefined ? before.version + 1 : Number(said);
  if (number <= before.version)
    throw new UsageError(
      `version ${number} ${number === 1 ? 'needs no signatures: the anchor names it' : 'is in effect already'}`,
    );
  if (number > before.version + 1)
    throw new UsageError(`version ${before.version + 1} comes first: version ${before.version} is in effect`);
  const { version, isCommitted } = await findVersion(desk, authority, number);
  if (version.policy.previous !== before.sha256)
    throw new UsageError(
      `${policyPath(number)} does not follow version ${before.version}\n  help     previous must be ${before.sha256}`,
    );
  if (version.policy.fleet !== authority.hint.fleet)
    throw new UsageError(
      `${policyPath(number)} is written for another fleet\n  help     fleet must be ${authority.hint.fleet}`,
    );
  const tag = flags['tag'] === true;
  if (tag && !isCommitted) throw new UsageError('--tag needs a commit that holds the file; sign without it');
  if (!tag) currentBranch(authority, 'give --tag');
  const signer = await signerOf(desk, authority);

  const changes = policyChanges(before.policy, version.policy);
  io.words(
    [
      `${policyPath(number)}  sha256:${version.sha256}`,
      row('after', `version ${before.version}, sha256:${before.sha256}`),
      row('for', `environment ${authority.hint.environment}, fleet ${authority.hint.fleet}, ${authority.hint.ref}`),
      row('signer', signerInWords(signer)),
      'what it changes:',
      ...(changes.length === 0 ? ['  nothing but words'] : changes.map((one) => formatChange(io.inWords, one))),
      'then these rules hold, the first that fits:',
      ...version.policy.rules.map((rule, index) => row(`rule ${index + 1}`, ruleInWords(rule))),
    ].join('\n'),
  );
  warnOfSigner(context, authority, version, signer.setUp.fingerprint, signer.principal);
  const { fingerprint } = signer.setUp;
  if (!tag && signer.principal !== null && fingerprint !== null) {
    const { principals } = await signersOf(version, new Uint8Array());
    // Its statement would count, and the deploy of the commit would not be let through by the version that it brings about.
    if (principals.get(fingerprint) !== signer.principal)
      io.words(
        `${io.inWords.paint('yellow', 'warning')}: version ${number} does not name your key any more; where \`trust.deploy\` is head or all, the commit is not deployed by it: give --tag, or sign with a key that stays`,
      );
  }
  await consent(context, `Sign version ${number}?`);

  const nowMs = desk.nowMs();
  const name = `windlass/policy/${number}/${(await import('../../surface/clone-desk.ts')).CloneDesk.shortMark()}`;
  const holder = tag ? ((await desk.clone.changes(policyPath(number)))[0] ?? authority.commit) : authority.commit;
  const { oid } = await desk.state(authority, {
    type: 'policy',
    subject: version.sha256,
    policy: before.sha256,
    expiresMs: instantFlag(flags, 'expires', nowMs) ?? nowMs + DEFAULT_LIFE_MS,
    title: `Sign policy version ${number}`,
    ...(isCommitted ? {} : { files: [{ path: policyPath(number), bytes: version.bytes }] }),
    ...(tag ? { tag: { name, commit: holder } } : {}),
  });

  const after = await desk.authority();
  const isInEffect = after.policy.sha256 === version.sha256;
  const made = await judgeSignature(desk, authority, version, oid, tag ? name : null);
  if (json)
    io.json({
      version: number,
      sha256: version.sha256,
      ...made,
      inEffect: isInEffect,
      missing: isInEffect ? 0 : (after.drift?.missing ?? 0),
      mayStillSign: isInEffect ? [] : (after.drift?.mayStillSign ?? []),
    });
  else io.data(oid);
  io.words(formatMade(io.inWords, made).join('\n'));
  if (isInEffect)
    io.words(`version ${number} has all signatures; it takes effect where this is merged into ${authority.hint.ref}`);
  else if (after.drift?.reason === 'policy-unsigned')
    io.words(`version ${number} needs ${after.drift.missing} more of ${after.drift.mayStillSign.join(', ')}`);
  if (made.lacks === null) io.words(row('next', tag ? `git push origin refs/tags/${name}` : 'git push'));
  return made.lacks === null ? EXIT.done : EXIT.refused;
}

/** What HEAD holds; what only the work tree holds is committed with the signature. */
async function findVersion(desk: CloneDesk, authority: CloneAuthority, number: number): Promise<Found> {
  const path = policyPath(number);
  const committed = authority.policyFiles.find((file) => file.path === path);
  const drafted = await desk.clone.draft(path);
  if (committed === undefined && drafted === null)
    throw new UsageError(`there is no ${path}\n  help     windlass trust policy new`);
  if (committed !== undefined && (drafted === null || Buffer.compare(committed.bytes, drafted) !== 0))
    throw new UsageError(
      `${path} was changed since it was committed; what is signed is what is committed\n  help     git restore ${path}; or, when nobody signed it yet, git commit ${path}`,
    );
  const { version, diagnostics } = readPolicy({ path, bytes: committed?.bytes ?? drafted ?? new Uint8Array() });
  if (version === null) throw Object.assign(new Error('the policy is not valid'), { diagnostics });
  return { version, isCommitted: committed !== undefined };
}

function warnOfSigner(
  { io }: CommandContext,
  { policy: before }: CloneAuthority,
  next: PolicyVersion,
  fingerprint: string | null,
  principal: string | null,
): void {
  if (fingerprint === null) return;
  const boards = [before, next].map((one) => one.policy.admins.members);
  if (principal !== null && boards.some((members) => members.includes(principal))) return;
  // Somebody who becomes an admin signs with a key that only the new version names.
  if (principal === null && next.policy.admins.members.length > 0) {
    io.words(
      `${io.inWords.paint('yellow', 'warning')}: version ${before.version} does not name this key; it counts only for an admin whom version ${next.version} adds`,
    );
    return;
  }
  io.words(`${io.inWords.paint('yellow', 'warning')}: ${principal} is no admin; this signature will not count`);
}

async function judgeSignature(
  desk: CloneDesk,
  authority: CloneAuthority,
  next: PolicyVersion,
  oid: string,
  tag: string | null,
) {
  const made = await desk.judgePolicySignature(authority, next, oid);
  return { ...made, tag };
}

function formatChange(io: Painter, { sign: mark, text }: PolicyChange): string {
  return `  ${io.paint(mark === '+' ? 'green' : mark === '-' ? 'red' : 'yellow', mark)} ${text}`;
}
