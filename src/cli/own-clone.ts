// Own clone: what the commands that work in a person's clone share: the desk, the signing key, times, and the words when one is missing.
import { parseDuration } from '../core/spec/duration.ts';
import { formatInstant, parseInstant } from '../core/spec/request.ts';
import type { CloneAuthority, CloneDesk, Signer } from '../surface/clone-desk.ts';
import { type CommandContext, type Flags, textFlag, UsageError } from './command.ts';

export async function deskOf({ clone }: Pick<CommandContext, 'clone'>): Promise<CloneDesk> {
  if (!clone) throw new Error('no clone was given');
  const { CloneDesk } = await import('../surface/clone-desk.ts');
  return new CloneDesk(await clone());
}

/** Null where there is no clone around us. */
export async function deskIfThere(context: Pick<CommandContext, 'clone'>): Promise<CloneDesk | null> {
  const { unlessRefused } = await import('../surface/clone-desk.ts');
  return deskOf(context).catch(unlessRefused);
}

const TEACH = `
  ssh      git config gpg.format ssh
           git config user.signingkey ~/.ssh/id_ed25519.pub
  openpgp  git config gpg.format openpgp
           git config user.signingkey FINGERPRINT
  help     only signed statements count; the key must be one that the policy names for you`;

/** Throws UsageError with the lines of configuration that are missing. */
export async function signerOf(desk: CloneDesk, authority: Pick<CloneAuthority, 'signers'>): Promise<Signer> {
  const signer = await desk.signer(authority);
  const { format, hasKey } = signer.setUp;
  if (format !== 'ssh' && format !== 'openpgp')
    throw new UsageError(`gpg.format is ${format}: statements are signed with SSH or OpenPGP${TEACH}`);
  if (!hasKey) throw new UsageError(`git has no key to sign with here${TEACH}`);
  return signer;
}

/** `anna (SHA256:…)`, or what can be said before the key is used. */
export function signerInWords({ setUp, principal }: Signer): string {
  if (setUp.fingerprint === null) return `whoever owns the ${setUp.format} key that git signs with`;
  return `${principal ?? 'nobody in the policy'} (${setUp.format} ${setUp.fingerprint})`;
}

/** A branch to go on from. */
export function currentBranch({ branch }: Pick<CloneAuthority, 'branch'>, instead: string): string {
  if (branch !== null) return branch;
  throw new UsageError(
    `HEAD is detached, so a new commit would be lost\n  help     git switch BRANCH first, or ${instead}`,
  );
}

/** `7d` from now, or an instant in UTC; absent = undefined. */
export function instantFlag(flags: Flags, name: string, nowMs: number): number | undefined {
  const text = textFlag(flags, name);
  if (text === undefined) return undefined;
  const ms = parseDuration(text);
  const at = ms === null ? parseInstant(text) : Math.floor((nowMs + ms) / 1000) * 1000;
  if (at === null)
    throw new UsageError(`--${name} takes a duration such as 7d or a time such as 2030-01-31T12:00:00Z, not ${text}`);
  if (at <= nowMs) throw new UsageError(`--${name} ${text} is not in the future (now is ${formatInstant(nowMs)})`);
  return at;
}

/** Text that a statement may carry on one line. */
export function plainLine(flags: Flags, name: string): string | undefined {
  const text = textFlag(flags, name);
  if (text === undefined) return undefined;
  if (text.trim() === '' || text.length > 2_000) throw new UsageError(`--${name} takes 1 to 2000 characters`);
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u.test(text))
    throw new UsageError(`--${name} is one line without characters that are not seen`);
  return text.trim();
}
