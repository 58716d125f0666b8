// Generate: a new secret value under a policy, every character equally likely.
import { randomInt } from 'node:crypto';
import { Fault } from '../../core/fault.ts';
import type { SecretPolicy } from '../../ports/vault.ts';

const DIGITS = '0123456789';
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

const ALPHABETS: Readonly<Record<SecretPolicy['alphabet'], string>> = {
  alnum: DIGITS + LETTERS,
  hex: `${DIGITS}abcdef`,
  // Printable, without what shells, Compose interpolation, YAML and env files give a meaning inside a value: space " ' ` \ $ # %
  ascii: `${DIGITS}${LETTERS}!&()*+,-./:;<=>?@[]^_{|}~`,
};

const MAX_LENGTH = 1_024;

export function generateSecret(policy: SecretPolicy): string {
  if (!Number.isInteger(policy.length) || policy.length < 1 || policy.length > MAX_LENGTH)
    throw new Fault('USAGE', `a secret of ${policy.length} characters cannot be made: 1 to ${MAX_LENGTH} are possible`);
  const alphabet = ALPHABETS[policy.alphabet];
  let value = '';
  // randomInt has no modulo bias.
  for (let at = 0; at < policy.length; at += 1) value += alphabet[randomInt(alphabet.length)];
  return value;
}
