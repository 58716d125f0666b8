// Policy file: bytes → one policy version and its digest, or diagnostics with file:line:column. Beyond its schema it checks what needs
// the keys themselves: that each can be read, that none belongs to two people, that every name exists, that every threshold can be met.
import { createHash } from 'node:crypto';
import { checkText, hasErrors, sorted } from '../../spec/check.ts';
import type { Diagnostic } from '../../spec/diagnostic.ts';
import { MAX_TEXT_BYTES, type Path } from '../../spec/document.ts';
import { parseDuration } from '../../spec/duration.ts';
import type { Policy, PolicyRule } from '../../spec/policy.ts';
import { didYouMean } from '../../spec/suggest.ts';
import { parseKeyLine } from './allowed-signers.ts';
import { fingerprintV4, readKeyring } from './openpgp-packet.ts';
import { Refusal } from './refusal.ts';
import { type SshKey, weaknessOf } from './ssh-key.ts';

export interface PolicyFile {
  /** Path in the repository. */
  readonly path: string;
  readonly bytes: Uint8Array;
}

export interface PolicyVersion {
  readonly version: number;
  /** Of the bytes; 64 hex. */
  readonly sha256: string;
  readonly bytes: Uint8Array;
  readonly policy: Policy;
}

export interface PolicyReading {
  /** Null when there are errors. */
  readonly version: PolicyVersion | null;
  readonly diagnostics: readonly Diagnostic[];
}

/** Keys with which forges sign what they make themselves: whoever may press their buttons would hold them. Primary fingerprints. */
const FORGE_KEYS: ReadonlySet<string> = new Set([
  // GitHub web-flow, of 2017 and of 2024.
  '5DE3E0509C47EA3CF04A42D34AEE18F83AFDEB23',
  '968479A1AFF927E37D1A566BB5690EEEBB952194',
]);

export const sha256Of = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

export const policyPath = (version: number): string => `trust/policy/v${String(version).padStart(4, '0')}.yaml`;

/** The number in the name of a policy file; null for a path that is none. */
export function versionOfPath(path: string): number | null {
  const found = /^trust\/policy\/v([0-9]{4,7})\.yaml$/.exec(path);
  const version = found ? Number(found[1]) : 0;
  return version > 0 && policyPath(version) === path ? version : null;
}

/** Bytes as text; null when they are no UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

export const openPgpKeys = (policy: Policy, principal: string): readonly string[] =>
  (policy.principals[principal]?.openpgp ?? []).map((key) => (typeof key === 'string' ? key : key.key));

/** Never throws. */
export function readPolicy({ path, bytes }: PolicyFile): PolicyReading {
  const whole = (summary: string): PolicyReading => ({
    version: null,
    diagnostics: [{ severity: 'error', code: 'POLICY_INVALID', summary, place: { file: path, line: 0, column: 0 } }],
  });
  if (bytes.length > MAX_TEXT_BYTES) return whole(`${path} is larger than 1 MiB`);
  const text = decodeUtf8(bytes);
  if (text === null) return whole(`${path} is not UTF-8`);
  const checked = checkText('Policy', path, text);
  if (checked.value === null) return { version: null, diagnostics: checked.diagnostics };
  const mistakes = new Mistakes(checked.place);
  checkNumbers(checked.value, path, mistakes);
  checkKeys(checked.value, mistakes);
  checkPeople(checked.value, mistakes);
  const diagnostics = sorted([...checked.diagnostics, ...mistakes.found]);
  if (hasErrors(diagnostics)) return { version: null, diagnostics };
  const version = {
    version: checked.value.version,
    sha256: sha256Of(bytes),
    bytes: Uint8Array.from(bytes),
    policy: checked.value,
  };
  return { version, diagnostics };
}

class Mistakes {
  readonly found: Diagnostic[] = [];
  readonly #place: (path: Path, of?: 'key' | 'value') => NonNullable<Diagnostic['place']>;

  constructor(place: (path: Path, of?: 'key' | 'value') => NonNullable<Diagnostic['place']>) {
    this.#place = place;
  }

  say(path: Path, summary: string, more: { detail?: string; help?: string; warning?: boolean; key?: boolean } = {}) {
    this.found.push({
      severity: more.warning === true ? 'warning' : 'error',
      code: 'POLICY_INVALID',
      summary,
      ...(more.detail === undefined ? {} : { detail: more.detail }),
      ...(more.help === undefined ? {} : { help: more.help }),
      place: this.#place(path, more.key === true ? 'key' : 'value'),
    });
  }
}

function checkNumbers(policy: Policy, path: string, mistakes: Mistakes): void {
  const { version, previous } = policy;
  if (version === 1 && previous !== undefined)
    mistakes.say(['previous'], 'version 1 has no version before it', { key: true, help: 'remove `previous`' });
  if (version > 1 && previous === undefined)
    mistakes.say(['version'], `version ${version} does not name the version before it`, {
      detail: 'expected `previous`: the SHA-256 of that file',
    });
  if (path !== policyPath(version))
    mistakes.say(['version'], `version ${version} in a file of another name`, {
      detail: `expected the file ${policyPath(version)}; found ${path}`,
    });
}

/** One key as an owner holds it, whatever it is wrapped in. */
interface OwnedKey {
  readonly fingerprint: string;
  /** The public numbers themselves: equal for one secret that is wrapped as two keys. */
  readonly material: string;
}

function checkKeys(policy: Policy, mistakes: Mistakes): void {
  const owners = new Map<string, string>();
  const claim = (principal: string, path: Path, keys: readonly OwnedKey[]): void => {
    for (const { fingerprint, material } of keys)
      for (const mark of [fingerprint, material]) {
        const owner = owners.get(mark) ?? principal;
        owners.set(mark, owner);
        if (owner === principal) continue;
        mistakes.say(path, `a key of \`${principal}\` is also a key of \`${owner}\``, {
          detail: `expected each key under one name; found ${fingerprint}`,
        });
        return;
      }
  };
  const attempt = (path: Path, work: () => void): void => {
    try {
      work();
    } catch (error) {
      const detail = error instanceof Refusal ? error.message : 'it cannot be read';
      mistakes.say(path, 'a key that cannot be used', { detail });
    }
  };
  for (const [principal, { ssh = [], openpgp = [] }] of Object.entries(policy.principals)) {
    for (const [index, line] of ssh.entries()) {
      const path = ['principals', principal, 'ssh', index];
      attempt(path, () => {
        const key = parseKeyLine(line);
        const weakness = weaknessOf(key);
        if (weakness !== null) mistakes.say(path, 'a key that is too weak', { detail: weakness });
        claim(principal, path, [{ fingerprint: key.fingerprint, material: sshMaterial(key) }]);
      });
    }
    for (const [index, entry] of openpgp.entries()) {
      const path = ['principals', principal, 'openpgp', index];
      attempt(path, () => {
        const keys = openPgpOwned(typeof entry === 'string' ? entry : entry.key);
        const [primary] = keys;
        if (!primary) {
          mistakes.say(path, 'an OpenPGP entry without exactly one key', { detail: 'expected one key in each entry' });
          return;
        }
        if (typeof entry !== 'string' && entry.fingerprint.toUpperCase() !== primary.fingerprint)
          mistakes.say([...path, 'fingerprint'], 'the fingerprint is not that of the key', {
            detail: `expected ${primary.fingerprint}; found ${entry.fingerprint}`,
          });
        if (FORGE_KEYS.has(primary.fingerprint))
          mistakes.say(path, 'the key of a forge is nobody', {
            detail: 'it signs whatever is made in the browser of the forge',
            help: 'name the keys of people',
          });
        claim(principal, path, keys);
      });
    }
  }
}

function sshMaterial({ key }: SshKey): string {
  const { n, x, y } = key.export({ format: 'jwk' });
  return n === undefined ? `point:${x}${y ?? ''}` : `rsa:${n}`;
}

/** The primary key first, then its subkeys; empty unless the armor holds exactly one key. */
function openPgpOwned(armored: string): OwnedKey[] {
  const { blocks } = readKeyring(Buffer.from(armored, 'latin1'));
  const [block] = blocks;
  if (!block || blocks.length !== 1) return [];
  return [block.primary, ...block.subkeys.map(({ body }) => body)].map((body) => ({
    fingerprint: fingerprintV4(body).toUpperCase(),
    material: openPgpMaterial(body),
  }));
}

const RSA: ReadonlySet<number> = new Set([1, 2, 3]);

/** In the words of `sshMaterial`, for the algorithms that both know; else the bytes that follow the date. */
function openPgpMaterial(body: Buffer): string {
  const algorithm = body[5] ?? 0;
  const rest = body.subarray(6);
  const number = (bytes: Buffer) => bytes.subarray(2, 2 + ((bytes.readUInt16BE(0) + 7) >> 3));
  const text = (bytes: Buffer) => bytes.toString('base64url');
  try {
    if (RSA.has(algorithm)) return `rsa:${text(number(rest))}`;
    if (algorithm === 27) return `point:${text(rest.subarray(0, 32))}`;
    if (algorithm === 19 || algorithm === 22) {
      const point = number(rest.subarray(1 + (rest[0] ?? 0))).subarray(1);
      if (algorithm === 22) return `point:${text(point)}`;
      const half = point.length / 2;
      return `point:${text(point.subarray(0, half))}${text(point.subarray(half))}`;
    }
  } catch {
    // A cut body: its reader will refuse the key; here only equality counts.
  }
  return `other:${algorithm}:${sha256Of(rest)}`;
}

function checkPeople(policy: Policy, mistakes: Mistakes): void {
  const names = Object.keys(policy.principals);
  const known = new Set(names);
  const check = (path: Path, list: readonly string[] | undefined): void => {
    for (const [index, name] of (list ?? []).entries())
      if (!known.has(name))
        mistakes.say([...path, index], `\`${name}\` is no principal of this policy`, {
          detail: 'expected a name of `principals`',
          ...didYouMean(name, names),
        });
  };
  const { members, threshold } = policy.admins;
  check(['admins', 'members'], members);
  if (threshold > members.length)
    mistakes.say(['admins', 'threshold'], 'the threshold of the admins can never be met', {
      detail: `expected at most ${members.length}, the number of members; found ${threshold}`,
    });
  for (const [index, rule] of policy.rules.entries()) {
    check(['rules', index, 'requesters'], rule.requesters);
    check(['rules', index, 'approvers'], rule.approvers);
    checkRule(rule, ['rules', index], mistakes);
  }
}

function checkRule(rule: PolicyRule, path: Path, mistakes: Mistakes): void {
  if (!rule.stacks.some((glob) => !glob.startsWith('!')))
    mistakes.say([...path, 'stacks'], 'the rule names no stack', { detail: 'expected a name or glob without `!`' });
  for (const word of ['maxLifetime', 'minDelay'] as const) {
    const written = rule[word];
    if (written !== undefined && parseDuration(written) === null)
      mistakes.say([...path, word], `\`${word}\` is too long to be counted`);
  }
  if (rule.operation === 'deploy') {
    for (const word of ['approvers', 'threshold', 'requesterMayApprove', 'maxLifetime', 'minDelay'] as const)
      if (rule[word] !== undefined)
        mistakes.say([...path, word], `\`${word}\` means nothing for deploy`, {
          key: true,
          detail: 'a deploy is signed by one of `requesters`; nobody approves it',
        });
    return;
  }
  const { approvers, threshold } = rule;
  for (const [word, value] of [
    ['approvers', approvers],
    ['threshold', threshold],
  ] as const)
    if (value === undefined)
      mistakes.say(path, `\`${word}\` is missing in the rule for ${rule.operation}`, {
        detail: 'everything but deploy needs approvers and a threshold',
      });
  if (approvers === undefined || threshold === undefined) return;
  const stuck = rule.requesters.filter((requester) => reach(rule, requester) < threshold);
  if (stuck.length === 0) return;
  const isNever = stuck.length === rule.requesters.length;
  mistakes.say(
    [...path, 'threshold'],
    isNever ? 'the threshold can never be met' : `the threshold can never be met when ${stuck.join(', ')} ask`,
    {
      detail: `expected at most ${Math.min(...stuck.map((requester) => reach(rule, requester)))} approvers besides whoever asks; found ${threshold}`,
      warning: !isNever,
    },
  );
}

/** How many may approve when this one asks. */
const reach = (rule: PolicyRule, requester: string): number =>
  (rule.approvers ?? []).filter((name) => rule.requesterMayApprove === true || name !== requester).length;
