// Deploy gate: may the commits up to this tip be deployed? `head` asks for the tip, `all` also for every commit since the last accepted one.
// Whose signature counts is for the policy, where there is an anchor, else for the allowed signers and keyring of the host.
import { Fault } from '../../core/fault.ts';
import { helpOf } from '../../core/state/trust/authority.ts';
import { judge } from '../../core/state/trust/judge.ts';
import type { PolicyDrift } from '../../core/state/trust/policy-chain.ts';
import type { PolicyVersion } from '../../core/state/trust/policy-file.ts';
import { deploySigners } from '../../core/state/trust/policy-rule.ts';
import { type PolicySigners, principalOf, signersOf } from '../../core/state/trust/policy-signers.ts';
import { REASONS } from '../../core/state/trust/reason.ts';
import { parseTrustRoots } from '../../core/state/trust/roots.ts';
import type { SignedObject } from '../../ports/source.ts';
import type { FleetAt } from '../fleet-at.ts';
import type { House } from '../house.ts';
import { lookAtPolicy } from './look.ts';
import { policyHistory } from './policy-history.ts';

const MOST_COMMITS = 100_000;
const SKEW_SECONDS = 300;

export interface Verified {
  /** Whose signature the tip carries; null when none was asked for. */
  readonly signer: string | null;
}

/** `before`: what was accepted last, at which `at` is judged to change stacks; null at the first. Throws NOT_VERIFIED with the reason. */
export async function verifyDeploy(house: House, at: FleetAt, before: FleetAt | null): Promise<Verified> {
  const { trust, source } = house;
  if (!trust || trust.deploy === 'none') return { signer: null };
  const tip = at.revision.commit;
  const accepted = before?.revision.commit ?? null;
  // At the first one the history before the anchor was made is what its maker had, and is vouched for by the anchor.
  const since = accepted ?? trust.anchor?.genesis ?? null;
  const commits = new Set([
    tip,
    ...(trust.deploy === 'all' ? await source.commitsSince(tip, since, MOST_COMMITS) : []),
  ]);
  const judging = trust.anchor ? await byPolicy(house, tip, accepted, commits) : await byFiles(house);
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

async function byPolicy(
  house: House,
  tip: string,
  accepted: string | null,
  range: ReadonlySet<string>,
): Promise<Judging> {
  const look = await lookAtPolicy(house, tip);
  const { chain, anchor, descendsFromGenesis } = look;
  const refuse = (why: string, reason: string) => new Fault('NOT_VERIFIED', why, { data: { commit: tip, reason } });
  if (!descendsFromGenesis)
    throw refuse(
      `${tip.slice(0, 12)} does not descend from the genesis commit of the trust anchor`,
      'tip-not-from-genesis',
    );
  const { effective } = chain;
  if (effective === null)
    throw refuse(
      `no policy is in effect: ${chain.drift === null ? '' : inWords(chain.drift)}`.trim(),
      chain.drift?.reason === 'policy-missing' ? 'policy-missing' : 'policy-absent',
    );
  const rooted = new Map<PolicyVersion, Promise<PolicySigners>>();
  const judgedBy = async (object: SignedObject, version: PolicyVersion): Promise<Signer> => {
    const signers = rooted.get(version) ?? signersOf(version, anchor.revoked);
    rooted.set(version, signers);
    return signerOf(house, object, version, await signers);
  };
  // Without anything accepted before only the tip is looked at so closely: the way there may be long.
  const history = await policyHistory(house, look, accepted === null ? new Set([tip]) : range, accepted);
  return async (object) => {
    // What was taken away is gone for good, whatever a commit says: a branch from before may be merged at any time.
    const now = await judgedBy(object, effective);
    if ('wrong' in now || (accepted === null && object.oid !== tip)) return now;
    const version = await history(object.oid);
    if (version === null)
      return { wrong: 'the policy version before the one that is in effect is missing', reason: 'policy-gap' };
    if (version.sha256 === effective.sha256) return now;
    // Nobody grants and uses in one commit, nor uses before it is granted.
    const then = await judgedBy(object, version);
    return 'wrong' in then ? then : { name: now.name, may: (stack) => then.may(stack) && now.may(stack) };
  };
}

/** With its own cure: to sign the commit is none. */
const inWords = ({ reason, detail }: PolicyDrift): string => `${`${reason} ${detail}`.trim()}. ${helpOf(reason)}`;

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
