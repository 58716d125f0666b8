// Deploy gate: may the commits up to this tip be deployed? `head` asks for the tip, `all` also for every commit since the last accepted one.
// Whose signature counts is for the policy, where there is an anchor, else for the allowed signers and keyring of the host.
import { Fault } from '../../core/fault.ts';
import { judge } from '../../core/state/trust/judge.ts';
import type { PolicyVersion } from '../../core/state/trust/policy-file.ts';
import { deploySigners } from '../../core/state/trust/policy-rule.ts';
import { type PolicySigners, principalOf, signersOf } from '../../core/state/trust/policy-signers.ts';
import { REASONS } from '../../core/state/trust/reason.ts';
import { parseTrustRoots } from '../../core/state/trust/roots.ts';
import type { FleetAt } from '../fleet-at.ts';
import type { House } from '../house.ts';
import { lookAtPolicy } from './look.ts';

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
  const judging = trust.anchor ? await byPolicy(house, tip) : await byFiles(house);
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
    if ('wrong' in found)
      throw new Fault('NOT_VERIFIED', `commit ${oid.slice(0, 12)} is not accepted: ${found.wrong}`, {
        data: { commit: oid, reason: found.reason },
      });
    const denied = changed.find((stack) => !judging.may(found.name, stack));
    if (denied !== undefined)
      throw new Fault(
        'NOT_VERIFIED',
        `commit ${oid.slice(0, 12)} is signed by ${found.name}, who may not deploy ${denied}`,
        {
          data: { commit: oid, reason: 'not-a-deployer' },
        },
      );
    if (oid === tip) signer = found.name;
  }
  return { signer };
}

/** One that is too large to be judged is nobody's: that refuses it, and is no failure of the repository. */
async function signedBy(source: House['source'], oid: string, judging: Judging): Promise<Signer> {
  try {
    return await judging.signer(await source.object(oid));
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

type Signer = { readonly name: string } | { readonly wrong: string; readonly reason: string };

interface Judging {
  signer(object: Parameters<typeof judge>[0]): Promise<Signer>;
  may(name: string, stack: string): boolean;
}

async function byPolicy(house: House, tip: string): Promise<Judging> {
  const { chain, anchor, descendsFromGenesis } = await lookAtPolicy(house, tip);
  if (!descendsFromGenesis)
    throw new Fault(
      'NOT_VERIFIED',
      `${tip.slice(0, 12)} does not descend from the genesis commit of the trust anchor`,
      {
        data: { commit: tip, reason: 'tip-not-from-genesis' },
      },
    );
  const { effective } = chain;
  if (effective === null)
    throw new Fault(
      'NOT_VERIFIED',
      `no policy is in effect: ${chain.drift?.reason ?? ''} ${chain.drift?.detail ?? ''}`.trim(),
      {
        data: { reason: 'policy-absent' },
      },
    );
  const signers = await signersOf(effective, anchor.revoked);
  const deployers = deployersOf(effective);
  return {
    signer: (object) => signerOf(house, object, signers, deployers),
    may: (name, stack) => deploySigners(effective.policy, stack).includes(name),
  };
}

const deployersOf = ({ policy }: PolicyVersion): ReadonlySet<string> =>
  new Set(policy.rules.filter((rule) => rule.operation === 'deploy').flatMap((rule) => rule.requesters));

async function signerOf(
  house: House,
  object: Parameters<typeof judge>[0],
  signers: PolicySigners,
  deployers: ReadonlySet<string>,
): Promise<Signer> {
  const judgement = await judge(object, signers.roots, new Date(house.clock.nowMs()), { skewSeconds: SKEW_SECONDS });
  const name = principalOf(signers, judgement);
  if (name === null) return { wrong: REASONS[judgement.reason].help, reason: judgement.reason };
  if (!deployers.has(name)) return { wrong: `${name} may not deploy anything`, reason: 'not-a-deployer' };
  return { name };
}

async function byFiles(house: House): Promise<Judging> {
  const roots = await parseTrustRoots(await house.trust!.files());
  return {
    async signer(object) {
      const judgement = await judge(object, roots, new Date(house.clock.nowMs()), { skewSeconds: SKEW_SECONDS });
      const { verdict, principal, fingerprint, reason, detail } = judgement;
      if (verdict === 'valid') return { name: principal ?? fingerprint ?? '' };
      return { wrong: `${REASONS[reason].help}${detail ? ` (${detail})` : ''}`, reason };
    },
    may: () => true,
  };
}
