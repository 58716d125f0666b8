// `windlass request …`: writes a request, shows what would be lost and who decides, and commits it signed, in the clone of a person.
import { stringifyDocument } from '../../core/spec/document.ts';
import { formatInstant, operationOf, type Purge } from '../../core/spec/request.ts';
import { AUTHORITY } from '../../core/state/trust/authority.ts';
import { decodeUtf8 } from '../../core/state/trust/policy-file.ts';
import { delayMs } from '../../core/state/trust/policy-rule.ts';
import { idOfPath, type RequestFile, readRequest, requestPath } from '../../core/state/trust/request-file.ts';
import { type RequestRules, rulesFor } from '../../core/state/trust/request-rules.ts';
import type { CloneAuthority, CloneDesk, DeclaredVolumes, Signer } from '../../surface/clone-desk.ts';
import { type Command, type CommandContext, type Flag, type Flags, textFlag, UsageError } from '../command.ts';
import { consent } from '../consent.ts';
import { EXIT } from '../exit.ts';
import { currentBranch, deskOf, instantFlag, plainLine, signerInWords, signerOf } from '../own-clone.ts';
import { cloneOf, moveOf, purgeOf, recoverOf, restoreOf } from '../request-words.ts';
import { formatDeciders, formatMade, formatStanding, indented, lossInWords, row } from '../views/approval.ts';

const DEFAULT_LIFE_MS = 7 * 24 * 3_600_000;

const life: Readonly<Record<string, Flag>> = {
  reason: { type: 'string', value: 'TEXT', help: 'why; everybody who approves reads it' },
  expires: {
    type: 'string',
    value: 'WHEN',
    help: 'a duration or a time in UTC; default 7d, or less where the policy says so',
  },
  'not-before': { type: 'string', value: 'WHEN', help: 'it must not run earlier' },
  id: { type: 'string', value: 'ID', help: 'the name of the file; default from operation, stack and date' },
  branch: { type: 'string', value: 'NAME', help: 'make this branch for it first; default: the current one' },
  yes: { type: 'boolean', short: 'y', help: 'do not ask' },
};

const archive: Flag = {
  type: 'string',
  value: 'HEX64',
  help: 'the full id of the archive, from `windlass backups list`',
};
const target: Flag = { type: 'string', value: 'NAME', help: 'another stack that gets it' };
const node: Flag = { type: 'string', value: 'NAME', help: 'another node that gets it' };
const skip: Flag = {
  type: 'string',
  multiple: true,
  value: 'PLUG',
  help: 'leave this plug unconnected; may be repeated',
};
const aftermath: Readonly<Record<string, Flag>> = {
  safety: { type: 'string', value: 'archive|none', help: 'archive the live data first; default archive' },
  // biome-ignore lint/suspicious/noThenProperty: the word of the file format
  then: { type: 'string', value: 'hold|follow-git', help: 'what holds afterwards; default hold' },
};
const overrides: Readonly<Record<string, Flag>> = {
  var: {
    type: 'string',
    multiple: true,
    value: 'NAME=VALUE',
    help: 'a variable in the place of that in the archive; may be repeated',
  },
  port: {
    type: 'string',
    multiple: true,
    value: 'SERVICE=PORT',
    help: 'a published port such as web=8443:443; web=8443 is another host port for the one that web publishes; may be repeated',
  },
  integrate: { type: 'string', multiple: true, value: 'PLUG=STACK', help: 'the provider of a plug; may be repeated' },
  'skip-integration': skip,
};

export const purge: Command = {
  words: ['request', 'purge'],
  summary: 'ask for the removal of volumes and the data in them, by a signed commit in your clone',
  usage: 'STACK --volumes all|NAME,… --reason TEXT',
  example: 'windlass request purge shop --volumes pgdata,uploads --reason "the shop is closed"',
  arity: [1, 1],
  flags: { volumes: { type: 'string', value: 'all|NAME,…', help: 'Compose keys, or names of the engine' }, ...life },
  run: (context) => ask(context, purgeOf),
};

export const restore: Command = {
  words: ['request', 'restore'],
  summary: 'ask for a stack as an archive holds it, by a signed commit in your clone',
  usage: 'STACK --archive HEX64 --reason TEXT',
  example: `windlass request restore shop --archive ${'4be1c2d0'.repeat(8)} --reason "broken import of Monday"`,
  arity: [1, 1],
  flags: { archive, target, ...overrides, ...aftermath, ...life },
  run: (context) => ask(context, restoreOf),
};

export const recover: Command = {
  words: ['request', 'recover'],
  summary:
    'ask for stacks of the archive of a group, or for the one of a single archive, by a signed commit in your clone',
  usage: '--archive HEX64 --stacks NAME,… --reason TEXT',
  example: `windlass request recover --archive ${'4be1c2d0'.repeat(8)} --stacks pg,sso --reason "the host burned down"`,
  arity: [0, 0],
  flags: {
    archive,
    stacks: { type: 'string', value: 'NAME,…', help: 'the stacks that are recovered' },
    rename: {
      type: 'string',
      multiple: true,
      value: 'OLD=NEW',
      help: 'recover one under another name; may be repeated',
    },
    'skip-integration': skip,
    ...aftermath,
    ...life,
  },
  run: (context) => ask(context, recoverOf),
};

export const clone: Command = {
  words: ['request', 'clone'],
  summary: 'ask for a copy of a stack under another name, by a signed commit in your clone',
  usage: 'STACK --target NAME --reason TEXT',
  example: 'windlass request clone shop --target shop-test --secrets mint --reason "try the upgrade"',
  arity: [1, 1],
  flags: {
    target: { ...target, help: 'the name of the copy' },
    archive: { ...archive, help: 'copy this archive and not the live data' },
    node,
    secrets: { type: 'string', value: 'copy|mint', help: 'take the secrets along or make new ones; default mint' },
    ...overrides,
    ...life,
  },
  run: (context) => ask(context, cloneOf),
};

export const move: Command = {
  words: ['request', 'move'],
  summary: 'ask for a stack on another node or under another name, by a signed commit in your clone',
  usage: 'STACK --node NAME|--target NAME --reason TEXT',
  example: 'windlass request move shop --node edge-1 --reason "the old host is full"',
  arity: [1, 1],
  flags: {
    target: { ...target, help: 'its new name' },
    node,
    archive: { ...archive, help: 'move this archive and not the live data' },
    ...overrides,
    ...life,
  },
  run: (context) => ask(context, moveOf),
};

type Compose = (args: readonly string[], flags: Flags) => Readonly<Record<string, unknown>>;

async function ask(context: CommandContext, compose: Compose): Promise<number> {
  const { io, json, args, flags } = context;
  const reason = plainLine(flags, 'reason');
  if (reason === undefined) throw new UsageError('--reason is missing: whoever approves must know why');
  const wanted = compose(args, flags);
  const desk = await deskOf(context);
  const authority = await desk.authority();
  const branch = await branchOf(desk, authority, flags);
  const signer = await signerOf(desk, authority);
  const { file, bytes, rules } = await fileOf(desk, authority, { ...wanted, reason }, flags);
  const path = requestPath(file.id);

  const { request } = file;
  const declared = request.kind === 'Purge' ? await desk.volumesOf(authority.commit, request.stack) : null;
  const warnings = warningsOf(rules, signer, file.expiresMs - desk.nowMs());
  io.words(
    [
      `${path}  sha256:${file.sha256}`,
      indented(decodeUtf8(bytes) ?? ''),
      'what would be lost:',
      ...lossInWords(request).map((line) => `  ${line}`),
      ...(request.kind === 'Purge' ? volumesInWords(request, declared).map((line) => `  ${line}`) : []),
      'who decides:',
      ...formatDeciders(authority, rules),
      row('you', signerInWords(signer)),
      ...warnings.map((line) => `${io.inWords.paint('yellow', 'warning')}: ${line}`),
    ].join('\n'),
  );
  if (rules.without.length > 0) return refuse(context, 'rule-absent', rules.without.join(', '));
  if (file.expiresMs - desk.nowMs() > rules.mostMs)
    return refuse(context, 'lifetime-too-long', `at most ${rules.mostMs / 3_600_000} h`);
  await consent(context, `Ask for this ${operationOf(request)}?`);

  const about = 'stack' in request ? request.stack : request.stacks.join(', ');
  const { oid } = await desk.state(authority, {
    type: 'request',
    subject: file.sha256,
    policy: authority.policy.sha256,
    expiresMs: file.expiresMs,
    title: `Ask for ${operationOf(request)} of ${about}`.slice(0, 200),
    body: `Reason: ${reason}`,
    files: [{ path, bytes }],
    ...(branch === null ? {} : { branch }),
  });
  const evaluation = await desk.evaluate(authority, file.id);
  if (evaluation === null) throw new Error(`${path} is not in HEAD`);
  const made = { ...(await desk.judgeMade(authority, 'request', oid, evaluation)), tag: null };
  if (json)
    io.json({
      id: file.id,
      path,
      sha256: file.sha256,
      commit: oid,
      principal: made.principal,
      counts: made.lacks === null,
      lacks: made.lacks,
      missing: evaluation.missing,
      mayStillSign: evaluation.mayStillSign,
    });
  else io.data(file.id);
  io.words([...formatMade(io.inWords, made), ...(made.lacks === null ? formatStanding(evaluation) : [])].join('\n'));
  if (made.lacks !== null) return EXIT.refused;
  const { missing, mayStillSign } = evaluation;
  const here = branch ?? (authority.branch ?? '').replace('refs/heads/', '');
  const into = authority.hint.ref.replace('refs/heads/', '');
  io.words(
    [
      row('next', `git push -u origin ${here}`),
      ...(here === into
        ? []
        : [
            row(
              '',
              `and a pull request into ${into}, merged by a true merge or a fast-forward: a squash loses the signatures`,
            ),
          ]),
      ...(missing === 0
        ? []
        : [row('then', `windlass approve ${file.id}, by ${missing} of ${mayStillSign.join(', ')}`)]),
    ].join('\n'),
  );
  return EXIT.done;
}

/** Which volumes are meant, as far as this clone can tell: what the engine holds only the controller sees, and a name that is wrong there
 * makes the request wait. */
function volumesInWords({ stack, volumes }: Purge, declared: DeclaredVolumes | null): readonly string[] {
  const { names, isInHead } = declared ?? { names: new Map<string, string>(), isInHead: true };
  const asked = volumes === 'all' ? [...names.keys()] : volumes;
  const engine = new Set(names.values());
  const meant = asked.flatMap((name) => (names.has(name) ? [`${name} is ${names.get(name)} on the engine`] : []));
  const odd = declared === null ? [] : asked.filter((name) => !names.has(name) && !engine.has(name));
  return [
    ...(meant.length === 0 ? [] : [`${meant.join(', ')}; so are older and restored generations of it.`]),
    ...odd.map(
      (name) => `The Compose file of ${stack} declares no volume ${name}: if the engine has none either, it waits.`,
    ),
    ...(isInHead ? [`Remove the stack ${stack} from the fleet first: it waits while a container uses a volume.`] : []),
  ];
}

/** A branch to be made; null for the current one. */
async function branchOf(desk: CloneDesk, authority: CloneAuthority, flags: Flags): Promise<string | null> {
  const name = textFlag(flags, 'branch');
  if (name === undefined) {
    currentBranch(authority, 'give --branch NAME');
    return null;
  }
  if (!(await desk.clone.canBranch(name)))
    throw new UsageError(`--branch ${name} is there already, or is no name for a branch`);
  return name;
}

async function fileOf(
  desk: CloneDesk,
  authority: CloneAuthority,
  wanted: Readonly<Record<string, unknown>>,
  flags: Flags,
): Promise<{ readonly file: RequestFile; readonly bytes: Uint8Array; readonly rules: RequestRules }> {
  const nowMs = desk.nowMs();
  const notBefore = instantFlag(flags, 'not-before', nowMs);
  const said = instantFlag(flags, 'expires', nowMs);
  const id = textFlag(flags, 'id') ?? (await defaultId(wanted, nowMs));
  const path = requestPath(id);
  if (idOfPath(path) === null)
    throw new UsageError(`--id ${id} is no id: lower-case letters, digits, - and _, at most 63`);
  const write = (expiresMs: number) => {
    const bytes = Buffer.from(
      stringifyDocument({
        ...wanted,
        ...(notBefore === undefined ? {} : { notBefore: formatInstant(notBefore) }),
        expires: formatInstant(expiresMs),
      }),
    );
    const { file, diagnostics } = readRequest(path, bytes);
    if (file === null) throw Object.assign(new Error('the request is not valid'), { diagnostics });
    return { file, bytes, rules: rulesFor(file.request, authority.policy, authority.anchor.maxLifetimeMs) };
  };
  let made = write(said ?? nowMs + DEFAULT_LIFE_MS);
  // The default gives way to the policy; what a person said does not.
  if (said === undefined && made.rules.mostMs < DEFAULT_LIFE_MS && made.rules.mostMs >= 1000)
    made = write(nowMs + Math.floor(made.rules.mostMs / 1000) * 1000);
  const isThere = (await desk.clone.file(authority.commit, path)) !== null || (await desk.clone.draft(path)) !== null;
  if (isThere)
    throw new UsageError(`${path} is there already; requests are never changed\n  help     give another --id`);
  // Signatures name bytes: made twice in one second, neither would run.
  const twin = (await desk.clone.files(authority.commit, 'requests')).find(
    (file) => idOfPath(file.path) !== null && Buffer.compare(file.bytes, made.bytes) === 0,
  );
  if (twin !== undefined)
    throw new UsageError(
      `${twin.path} asks for the same until the same second, and of two files of the same bytes neither runs\n  help     windlass requests ${idOfPath(twin.path)}; where a second one is meant, give another --reason`,
    );
  return made;
}

async function defaultId(wanted: Readonly<Record<string, unknown>>, nowMs: number): Promise<string> {
  const { CloneDesk: Desk } = await import('../../surface/clone-desk.ts');
  const stack = typeof wanted['stack'] === 'string' ? wanted['stack'] : 'group';
  const kind = String(wanted['kind']).toLowerCase();
  const tail = `${new Date(nowMs).toISOString().slice(0, 10).replaceAll('-', '')}-${Desk.shortMark()}`;
  return `${kind}-${stack
    .toLowerCase()
    .replace(/[^a-z0-9_-]/g, '-')
    .slice(0, 62 - kind.length - tail.length - 1)}-${tail}`;
}

function warningsOf(rules: RequestRules, { setUp, principal }: Signer, lifeMs: number): readonly string[] {
  const slow = rules.holding.filter(({ rule }) => delayMs(rule) >= lifeMs);
  return [
    ...slow.map(
      ({ index, rule }) =>
        `rule ${index + 1} waits ${rule.minDelay} after the last approval: longer than this request lives`,
    ),
    ...(setUp.fingerprint === null ? [] : warningsOfSigner(rules, principal)),
  ];
}

function warningsOfSigner(rules: RequestRules, principal: string | null): readonly string[] {
  if (principal === null) return ['the policy names nobody with this key; the request will be refused'];
  if (rules.without.length > 0) return [];
  if (!rules.requesters.includes(principal))
    return [`the rule does not let ${principal} ask; the request will be refused`];
  const stuck = rules.holding.filter(({ rule }) => {
    const others = (rule.approvers ?? []).filter((name) => rule.requesterMayApprove === true || name !== principal);
    return others.length < (rule.threshold ?? 0);
  });
  return stuck.map(
    ({ index }) => `rule ${index + 1} asks for more approvals than there are others; somebody else must ask`,
  );
}

function refuse({ io, json }: CommandContext, reason: 'rule-absent' | 'lifetime-too-long', detail: string): number {
  const { help } = AUTHORITY[reason];
  if (json) io.json({ refused: reason, detail, help });
  io.words([`${io.inWords.paint('red', `error[${reason}]`)}: ${detail}`, row('help', help)].join('\n'));
  return EXIT.refused;
}
