// Starter policy: the text of version 1 for a few admins and their keys, with a rule for each operation, to be edited by people.
import { REQUEST_KINDS } from '../../spec/request.ts';
import { parseKeyLine } from './allowed-signers.ts';
import { readKeyring } from './openpgp-packet.ts';
import { Refusal } from './refusal.ts';

export type PublicKey =
  | { readonly kind: 'ssh'; readonly line: string }
  | { readonly kind: 'openpgp'; readonly armored: string };

export interface StarterAdmin {
  readonly name: string;
  readonly keys: readonly PublicKey[];
}

const ARMOR = /-----BEGIN PGP PUBLIC KEY BLOCK-----[\s\S]*?-----END PGP PUBLIC KEY BLOCK-----/;

/** The one public key that a file holds, or what is wrong with it. */
export function publicKeyOf(text: string): { readonly key: PublicKey } | { readonly wrong: string } {
  if (/PRIVATE KEY/.test(text)) return { wrong: 'it holds a secret key; give the public half' };
  try {
    const armored = ARMOR.exec(text)?.[0];
    if (armored !== undefined) {
      const clean = `${armored.replace(/[ \t\r]+$/gm, '')}\n`;
      const count = readKeyring(Buffer.from(text, 'utf8')).blocks.length;
      if (count !== 1) return { wrong: `it holds ${count} OpenPGP keys; export one: gpg --armor --export ID` };
      return { key: { kind: 'openpgp', armored: clean } };
    }
    const lines = text
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line !== '' && !line.startsWith('#'));
    const [line = ''] = lines;
    if (lines.length !== 1) return { wrong: `it holds ${lines.length} lines where one SSH public key is expected` };
    parseKeyLine(line);
    const [type = '', blob = '', ...comment] = line.split(/[ \t]+/);
    return { key: { kind: 'ssh', line: [type, blob, ...comment].join(' ').slice(0, 12_000) } };
  } catch (error) {
    return {
      wrong: error instanceof Refusal ? error.message : 'it is neither an SSH nor an armored OpenPGP public key',
    };
  }
}

const quoted = (text: string): string => JSON.stringify(text);
/** A name that no reader of YAML takes for something else. */
const plain = (name: string): string =>
  /^[a-z][a-z0-9._@+-]*$/.test(name) && !/^(?:true|false|null|yes|no|on|off|y|n)$/.test(name) ? name : quoted(name);

function keysOf({ name, keys }: StarterAdmin): string {
  const ssh = keys.flatMap((key) => (key.kind === 'ssh' ? [`      - ${quoted(key.line)}\n`] : []));
  const openpgp = keys.flatMap((key) =>
    key.kind === 'openpgp'
      ? [`      - |\n${key.armored.replace(/\n$/, '').replace(/^/gm, '        ').replace(/^ +$/gm, '')}\n`]
      : [],
  );
  return [
    `  ${plain(name)}:\n`,
    ...(ssh.length > 0 ? ['    ssh:\n', ...ssh] : []),
    ...(openpgp.length > 0 ? ['    openpgp:\n', ...openpgp] : []),
  ].join('');
}

/** Whether somebody must approve what they asked for themselves, because there are too few people. */
export const mustApproveOwn = (admins: number, threshold: number): boolean => threshold > admins - 1;

export function starterPolicy(input: {
  readonly fleet: string;
  readonly admins: readonly StarterAdmin[];
  readonly threshold: number;
}): string {
  const { fleet, admins, threshold } = input;
  const everybody = `[${admins.map(({ name }) => plain(name)).join(', ')}]`;
  const own = mustApproveOwn(admins.length, threshold);
  const requests = REQUEST_KINDS.map((kind) => kind.toLowerCase()).map(
    (operation) =>
      `  - operation: ${operation}
    stacks: ["*"]
    requesters: ${everybody}
    approvers: ${everybody}
    threshold: ${threshold}
${own ? '    requesterMayApprove: true\n' : ''}    maxLifetime: 7d
${operation === 'purge' ? '    # minDelay: 1h\n' : ''}`,
  );
  return `# Who may ask for, approve and sign what. A version that is in effect is never edited: windlass trust policy new.
apiVersion: windlass/v1
kind: Policy
version: 1
fleet: ${quoted(fleet)}
principals:
${admins.map(keysOf).join('')}admins:
  members: ${everybody}
  threshold: ${threshold}
# For each stack the first rule that names the operation and the stack holds; without one it is refused.
rules:
${own ? '  # Too few people to leave out whoever asks: requesterMayApprove can go when there are more.\n' : ''}${requests.join('')}  # Counts when the controller says trust.deploy: head or all.
  - operation: deploy
    stacks: ["*"]
    requesters: ${everybody}
`;
}
