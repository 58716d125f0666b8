// Age: seals text to recipients and opens what was sealed, armored. The library loads in about 100 ms, so it is loaded on first use.
import { Fault } from '../../core/fault.ts';
import type { Envelope } from '../../ports/vault.ts';
import type { IdentityFile } from './identity.ts';

const ARMOR = '-----BEGIN AGE ENCRYPTED FILE-----';

/** Throws SECRET_REFUSED when `recipient` is none. */
export async function sealFor(recipients: readonly string[], text: string): Promise<string> {
  const age = await import('age-encryption');
  const encrypter = new age.Encrypter();
  for (const recipient of recipients)
    try {
      encrypter.addRecipient(recipient);
    } catch (cause) {
      throw new Fault('SECRET_REFUSED', `${JSON.stringify(recipient.slice(0, 80))} is no age recipient (age1…)`, {
        cause,
      });
    }
  return age.armor.encode(await encrypter.encrypt(text));
}

/** Null when none of `identities` is meant. Throws a plain error for what is no age file. */
export async function openWith(identities: readonly string[], sealed: string): Promise<Uint8Array | null> {
  const age = await import('age-encryption');
  const decrypter = new age.Decrypter();
  for (const identity of identities) decrypter.addIdentity(identity);
  const bytes = sealed.trimStart().startsWith(ARMOR) ? age.armor.decode(sealed) : Buffer.from(sealed, 'latin1');
  try {
    return await decrypter.decrypt(bytes);
  } catch (error) {
    if (error instanceof Error && /no identity matched/.test(error.message)) return null;
    throw error;
  }
}

/** Throws FILES_FAILED when `identity` only looks like one; without the cause, whose text might repeat it. */
export async function recipientOf(identity: string): Promise<string> {
  const age = await import('age-encryption');
  try {
    return await age.identityToRecipient(identity);
  } catch {
    throw new Fault('FILES_FAILED', 'the age key of this controller is not valid: a character of it is wrong');
  }
}

export function ageEnvelope(own: IdentityFile): Envelope {
  return {
    recipient: async () => recipientOf(await own.readOrMake()),
    seal: sealFor,
    async open(sealed, identity) {
      const known = identity === undefined ? own.read() : own.parse(identity);
      if (known === null)
        throw new Fault('VAULT_KEY_WRONG', `this vault has no key yet, so nothing can be sealed to it: ${own.from}`);
      let bytes: Uint8Array | null;
      try {
        bytes = await openWith([known], sealed);
      } catch (cause) {
        throw new Fault('SECRET_REFUSED', 'the text is no whole age file', { cause });
      }
      if (bytes === null)
        throw new Fault('VAULT_KEY_WRONG', `it is not sealed to ${await recipientOf(known)}, the key that was given`);
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    },
  };
}
