// `windlass trust init`: the first policy and the trust anchor of a fleet, made in the clone of a person.
import { readFile } from 'node:fs/promises';
import {
  ANCHOR_FORM,
  ANCHOR_PATH,
  type AnchorHint,
  formatAnchorBlock,
  formatAnchorHint,
} from '../../core/state/trust/anchor-hint.ts';
import { policyPath, readPolicy } from '../../core/state/trust/policy-file.ts';
import {
  mustApproveOwn,
  publicKeyOf,
  type StarterAdmin,
  starterPolicy,
} from '../../core/state/trust/starter-policy.ts';
import { type Command, countFlag, type Flags, listFlag, textFlag, UsageError } from '../command.ts';
import { EXIT } from '../exit.ts';
import { currentBranch, deskOf } from '../own-clone.ts';
import { row } from '../views/approval.ts';

const LARGEST_KEY_BYTES = 256 * 1024;
const NAME = /^[a-z0-9][a-z0-9._@+-]{0,99}$/;

export const init: Command = {
  words: ['trust', 'init'],
  summary: 'write and commit the first policy in your clone, and print the trust anchor for the controller',
  usage: '--admin NAME=KEY-FILE…',
  example: 'windlass trust init --admin anna=anna.pub --admin bert=bert.asc --threshold 2 --environment production',
  arity: [0, 0],
  flags: {
    admin: {
      type: 'string',
      multiple: true,
      value: 'NAME=FILE',
      help: 'who signs policies, asks and approves, and a public key: SSH or armored OpenPGP; may be repeated',
    },
    threshold: { type: 'string', value: 'N', help: 'how many must sign or approve; default 2, or 1 with one admin' },
    environment: { type: 'string', value: 'NAME', help: 'what the fleet is for; default production' },
  },
  async run({ io, json, flags, clone }) {
    const admins = await adminsOf(flags);
    const threshold = countFlag(flags, 'threshold', Math.min(2, admins.length));
    if (threshold < 1 || threshold > admins.length)
      throw new UsageError(`--threshold takes 1 to ${admins.length}, the number of admins, not ${threshold}`);
    const environment = textFlag(flags, 'environment') ?? 'production';
    const said = textFlag(flags, 'ref') ?? 'main';
    const ref = said.startsWith('refs/') ? said : `refs/heads/${said}`;
    if (!ANCHOR_FORM.ref.test(ref)) throw new UsageError(`--ref ${said} is no branch`);
    if (!ANCHOR_FORM.environment.test(environment))
      throw new UsageError('--environment takes 1 to 100 printed characters');

    const desk = await deskOf({ ...(clone ? { clone } : {}) });
    const head = await desk.settledHead();
    currentBranch(head, 'git switch -c BRANCH');
    const path = policyPath(1);
    const inHead = await desk.clone.files(head.commit, 'trust/policy');
    const [first] = inHead.map((file) => file.path);
    if (first !== undefined)
      throw new UsageError(
        `${first} is there already: the fleet has a policy\n  help     change it with: windlass trust policy new`,
      );
    const unclean = await desk.clone.changed(['trust']);
    if (unclean.length > 0)
      throw new UsageError(`${unclean.join(', ')} differs from HEAD\n  help     commit or remove it first`);

    const fleet = (await import('../../surface/clone-desk.ts')).CloneDesk.fleetId();
    const text = Buffer.from(starterPolicy({ fleet, admins, threshold }));
    const { version, diagnostics } = readPolicy({ path, bytes: text });
    if (version === null) throw Object.assign(new Error('the policy would not be valid'), { diagnostics });
    const hint: AnchorHint = { fleet, ref, environment, genesis: head.commit, policy: version.sha256 };
    const setUp = await desk.clone.signing();
    const sign = setUp.isWanted && setUp.hasKey && (setUp.format === 'ssh' || setUp.format === 'openpgp');
    const commit = await desk.clone.commit({
      message: `Begin the trust policy\n\nVersion 1 has the SHA-256 ${version.sha256}.\n`,
      files: [
        { path, bytes: text },
        { path: ANCHOR_PATH, bytes: Buffer.from(formatAnchorHint(hint)) },
      ],
      sign,
    });

    if (json) io.json({ commit, signed: sign, files: [path, ANCHOR_PATH], trust: { deploy: 'none', anchor: hint } });
    else io.data(formatAnchorBlock(hint).trimEnd());
    io.words(`${path} and ${ANCHOR_PATH} are committed as ${commit.slice(0, 12)}${sign ? ', signed' : ', not signed'}`);
    if (mustApproveOwn(admins.length, threshold))
      io.words('with so few admins whoever asks may also approve; name more of them to end that');
    io.words(
      [
        row('next', `read ${path}, then push`),
        row(
          'then',
          'put the block above into the windlass.yaml on the host of the controller, never into this repository',
        ),
        row('', 'and start it before the first request: what is signed before it accepts a commit counts for nothing'),
        row(
          'why',
          'the controller believes only what it was given there; trust/anchor.yaml is a hint for people’s tools',
        ),
      ].join('\n'),
    );
    return EXIT.done;
  },
};

async function adminsOf(flags: Flags): Promise<readonly StarterAdmin[]> {
  const admins = new Map<string, StarterAdmin>();
  for (const said of listFlag(flags, 'admin')) {
    const [, name = '', file = ''] = /^([^=]*)=(.+)$/.exec(said) ?? [];
    if (!NAME.test(name))
      throw new UsageError(`--admin takes NAME=KEY-FILE with a name such as anna or anna@example.org, not ${said}`);
    let text: string;
    try {
      const bytes = await readFile(file);
      if (bytes.length > LARGEST_KEY_BYTES) throw new UsageError(`${file} is larger than a public key`);
      text = bytes.toString('utf8');
    } catch (error) {
      if (error instanceof UsageError) throw error;
      throw new UsageError(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code ?? String(error)}`);
    }
    const read = publicKeyOf(text);
    if ('wrong' in read)
      throw new UsageError(
        `${file} is no public key: ${read.wrong}\n  help     SSH: the .pub file; OpenPGP: gpg --armor --export FINGERPRINT > ${name}.asc`,
      );
    admins.set(name, { name, keys: [...(admins.get(name)?.keys ?? []), read.key] });
  }
  if (admins.size === 0)
    throw new UsageError(
      'name at least one admin\n  example  windlass trust init --admin anna=anna.pub --admin bert=bert.pub --threshold 2',
    );
  return [...admins.values()];
}
