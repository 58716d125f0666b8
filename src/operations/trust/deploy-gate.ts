// Deploy gate: may the commits up to this tip be deployed? `head` asks for the tip, `all` also for every commit since the last accepted one.
// Whose signature counts is for the policy, where there is an anchor, else for the allowed signers and keyring of the host.
import { Fault } from '../../core/fault.ts';
import { judge } from '../../core/state/trust/judge.ts';
import { type PolicyVersion, policyPath, readPolicy } from '../../core/state/trust/policy-file.ts';
import { deploySigners } from '../../core/state/trust/policy-rule.ts';
import { type PolicySigners, principalOf, signersOf } from '../../core/state/trust/policy-signers.ts';
import { REASONS } from '../../core/state/trust/reason.ts';
import { parseTrustRoots } from '../../core/state/trust/roots.ts';
import { parseStatement } from '../../core/state/trust/statement.ts';
import type { SignedObject } from '../../ports/source.ts';
import type { FleetAt } from '../fleet-at.ts';
import type { House } from '../house.ts';
import { lookAtPolicy } from './look.ts';

const MOST_COMMITS = 100_000;
const SKEW_SECONDS = 300;
/** A larger one is never in effect. */
const POLICY_BYTES = 1024 * 1024;

export interface Verified {
  /** Whose signature the tip carries; null when none was asked for. */
  readonly signer: string | null;
}

/** `before`: what was accepted last, at which `at` is judged to change stacks; null at the first. Throws NOT_VERIFIED with the reason. */
export async function verifyDeploy(house: House, at: FleetAt, before: FleetAt | null): Promise<Verified> {
  const { trust, source } = house;
  if (!trust || trust.deploy === 'none') return { signer: null };
  const tip = at.revision.commit;
  const judging = trust.anchor ? await byPolicy(house, tip, before?.revision.commit ?? null) : await byFiles(house);
  // At the first one the history before the anchor was made is what its maker had, and is vouched for by the anchor.
  const since = before?.revision.commit ?? trust.anchor?.genesis ?? null;
  const commits = new Set([
    tip,
    ...(trust.deploy === 'all' ? await source.commitsSince(tip, since, MOST_COMMITS) : []),
  ]);
  const changed = changedStacks(at, before);
  let signer: string | null = null;
  for (const oid of commits) {
    const found = await signedBy(source, oid, judging);
    const refuse = (why: string, reason: string) =>
      new Fault('NOT_VERIFIED', `commit ${oid.slice(0, 12)} is not accepted: ${why}`, {
        data: { commit: oid, reason },
      });
    if ('wrong' in found) throw refuse(found.wrong, found.reason);
    const denied = changed.find((stack) => !found.may(stack));
    if (denied !== undefined)
      throw refuse(`it is signed by ${found.name}, who may not deploy ${denied}`, 'not-a-deployer');
    if (oid === tip) signer = found.name;
  }
  return { signer };
}

/** One that is too large to be judged is nobody's: that refuses it, and is no failure of the repository. */
async function signedBy(source: House['source'], oid: string, judging: Judging): Promise<Signer> {
  try {
    return await judging(await source.object(oid));
  } catch (error) {
    if (!(error instanceof Fault && error.code === 'GIT_TOO_LARGE')) throw error;
    return { wrong: REASONS['object-too-large'].help, reason: 'object-too-large' };
  }
}

function changedStacks(at: FleetAt, before: FleetAt | null): readonly string[] {
  const names = new Set([...at.fleet.stacks.keys(), ...(before?.fleet.stacks.keys() ?? [])]);
  return [...names].filter(
    (name) =>
      before === null || at.fleet.stacks.get(name)?.sourceDigest !== before.fleet.stacks.get(name)?.sourceDigest,
  );
}

type Signer =
  | { readonly name: string; readonly may: (stack: string) => boolean }
  | { readonly wrong: string; readonly reason: string };

type Judging = (object: SignedObject) => Promise<Signer>;

async function byPolicy(house: House, tip: string, accepted: string | null): Promise<Judging> {
  const { chain, anchor, descendsFromGenesis } = await lookAtPolicy(house, tip);
  const refuse = (why: string, reason: string) => new Fault('NOT_VERIFIED', why, { data: { commit: tip, reason } });
  if (!descendsFromGenesis)
    throw refuse(
      `${tip.slice(0, 12)} does not descend from the genesis commit of the trust anchor`,
      'tip-not-from-genesis',
    );
  const { effective } = chain;
  if (effective === null)
    throw refuse(
      `no policy is in effect: ${chain.drift?.reason ?? ''} ${chain.drift?.detail ?? ''}`.trim(),
      'policy-absent',
    );
  const signers = await signersOf(effective, anchor.revoked);
  // Without anything accepted before only the tip is looked at so closely: the way there may be long.
  const file = await policyFileOf(house, tip, effective);
  const isNew = accepted === null || (await policyFileOf(house, accepted, effective)) !== file;
  return async (object) => {
    const mayBring = isNew && (accepted !== null || object.oid === tip);
    const brings = says(object, effective) || (mayBring && (await adds(house, object, effective)));
    if (!brings) return signerOf(house, object, effective, signers);
    // The version that this commit brings into effect is none of its own: nobody grants and uses in one commit.
    const before = await versionBefore(house, tip, effective);
    if (before === null)
      return { wrong: 'the policy version before the one that it brings is missing', reason: 'policy-gap' };
    return signerOf(house, object, before, await signersOf(before, anchor.revoked));
  };
}

/** Whether a commit signs the version in effect. */
function says(object: SignedObject, effective: PolicyVersion): boolean {
  const said = parseStatement(object);
  return (
    effective.version > 1 &&
    said.kind === 'claims' &&
    said.claims.type === 'policy' &&
    said.claims.subject === effective.sha256
  );
}

/** Whether a commit holds the file of the version in effect, and none of its parents does. */
async function adds(house: House, { oid }: SignedObject, effective: PolicyVersion): Promise<boolean> {
  const { parents } = await house.source.commit(oid);
  const file = await policyFileOf(house, oid, effective);
  if (effective.version === 1 || file === null || parents.length === 0) return false;
  for (const parent of parents) if ((await policyFileOf(house, parent, effective)) === file) return false;
  return true;
}

const policyFileOf = async ({ source }: House, commit: string, { version }: PolicyVersion): Promise<string | null> =>
  (await source.list(commit)).entries.find(({ path }) => path === policyPath(version))?.oid ?? null;

async function versionBefore({ source }: House, tip: string, effective: PolicyVersion): Promise<PolicyVersion | null> {
  const path = policyPath(effective.version - 1);
  const entry = (await source.list(tip)).entries.find((one) => one.path === path);
  if (entry === undefined) return null;
  const { version } = readPolicy({ path, bytes: await source.blob(entry.oid, POLICY_BYTES) });
  return version?.sha256 === effective.policy.previous ? version : null;
}

async function signerOf(
  house: House,
  object: SignedObject,
  { policy }: PolicyVersion,
  signers: PolicySigners,
): Promise<Signer> {
  const judgement = await judge(object, signers.roots, new Date(house.clock.nowMs()), { skewSeconds: SKEW_SECONDS });
  const name = principalOf(signers, judgement);
  if (name === null) return { wrong: REASONS[judgement.reason].help, reason: judgement.reason };
  if (!policy.rules.some((rule) => rule.operation === 'deploy' && rule.requesters.includes(name)))
    return { wrong: `${name} may not deploy anything`, reason: 'not-a-deployer' };
  return { name, may: (stack) => deploySigners(policy, stack).includes(name) };
}

async function byFiles(house: House): Promise<Judging> {
  const roots = await parseTrustRoots(await house.trust!.files());
  return async (object) => {
    const judgement = await judge(object, roots, new Date(house.clock.nowMs()), { skewSeconds: SKEW_SECONDS });
    const { verdict, principal, fingerprint, reason, detail } = judgement;
    if (verdict === 'valid') return { name: principal ?? fingerprint ?? '', may: () => true };
    return { wrong: `${REASONS[reason].help}${detail ? ` (${detail})` : ''}`, reason };
  };
}
