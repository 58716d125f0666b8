// `windlass backup` and `windlass backups …`: archives of stacks: make, list, look into, read again, keep to the rule, carry out and in.
import { asFault, type Fault } from '../../core/fault.ts';
import { formatAge } from '../../core/status/format-condition.ts';
import type { ListedArchive, Surface } from '../../surface.ts';
import { type Command, type Flag, textFlag, UsageError } from '../command.ts';
import { EXIT } from '../exit.ts';
import { plural } from '../views/diagnostic.ts';
import { formatSize } from '../views/size.ts';
import { formatTook } from '../views/status.ts';
import { formatTable, oneLine } from '../views/table.ts';

export const backup: Command = {
  words: ['backup'],
  summary: 'make an archive of a deployed stack (or of each stack of a group): what it was made from and its data',
  usage: 'STACK | --group GROUP',
  example: 'windlass backup shop',
  arity: [0, 1],
  flags: { group: { type: 'string', value: 'GROUP', help: 'all stacks of a group, and one archive that names them' } },
  drains: true,
  async run({ io, json, flags, args, surface, now }) {
    const [stack] = args;
    const group = textFlag(flags, 'group');
    if ((stack === undefined) === (group === undefined)) throw new UsageError('name a stack, or a group with --group');
    const desk = await surface();
    const note = (line: string): void => io.words(oneLine(line));
    if (group !== undefined) {
      const done = await desk.backupGroup(group, now, note);
      if (json) io.json(done);
      else io.data(done.archive);
      return EXIT.done;
    }
    const done = await desk.backup(stack ?? '', now, note);
    if (json) io.json(done);
    else io.data(done.archive);
    return EXIT.done;
  },
};

const STORE_FLAG: Flag = {
  type: 'string',
  value: 'NAME',
  help: 'the replica of that name in windlass.yaml, instead of the main store',
};

export const list: Command = {
  words: ['backups', 'list'],
  summary: 'list archives, newest first',
  usage: '[STACK]',
  example: 'windlass backups list shop',
  arity: [0, 1],
  flags: { store: STORE_FLAG },
  async run({ io, json, flags, args, surface }) {
    const desk = await surface('state');
    const [stack] = args;
    const archives = await desk.archivesOf(textFlag(flags, 'store')).list(stack);
    const replicas = flags['store'] === undefined ? desk.replicas() : [];
    const nowMs = desk.house.clock.nowMs();
    if (json) io.json(archives.map(({ listed, ...known }) => ({ ...listed, ...known })));
    else if (archives.length === 0) io.words('there are no archives');
    else
      io.data(
        formatTable(
          ['ID', 'OF', 'KIND', 'AGE', 'SIZE', 'TOOK', 'READ', 'VERIFIED', ...(replicas.length > 0 ? ['REPLICAS'] : [])],
          archives.map(({ listed, wasOf, readAtMs, verifiedAtMs, damagedAtMs, durationMs, replicas: has }) => [
            listed.id.slice(0, 12),
            nameOf(listed, wasOf),
            listed.kind === 'archive' ? listed.purpose : listed.kind,
            listed.kind === 'damaged' ? '-' : formatAge(nowMs - listed.madeAtMs),
            listed.kind === 'archive' ? formatSize(listed.sizeBytes) : '-',
            durationMs === null ? '-' : formatTook(durationMs),
            damagedAtMs !== null
              ? `DAMAGED ${formatAge(nowMs - damagedAtMs)} ago`
              : readAtMs === null
                ? 'never'
                : formatAge(nowMs - readAtMs),
            verifiedAtMs === null ? 'never' : formatAge(nowMs - verifiedAtMs),
            ...(replicas.length > 0 ? [has.join(',') || 'none'] : []),
          ]),
          io.width,
        ),
      );
    const unread = archives.flatMap(({ listed, wasOf }) => (listed.kind === 'damaged' ? [{ ...listed, wasOf }] : []));
    for (const { id, why, wasOf } of unread)
      io.words(`${id.slice(0, 12)}${wasOf === null ? '' : ` of ${oneLine(wasOf)}`} cannot be read: ${oneLine(why)}`);
    const unknown = unread.filter(({ wasOf }) => wasOf === null).length;
    if (stack !== undefined && unknown > 0)
      io.words(`${plural(unknown, 'archive')} cannot be read, and may be of ${oneLine(stack)}`);
    for (const { name, failing } of replicas)
      if (failing)
        io.words(
          `replica ${name} has failed for ${formatAge(nowMs - failing.sinceMs)}: ${failing.code}: ${oneLine(failing.message)}`,
        );
    return archives.some(({ listed, damagedAtMs }) => listed.kind === 'damaged' || damagedAtMs !== null)
      ? EXIT.failed
      : EXIT.done;
  },
};

const nameOf = (listed: ListedArchive['listed'], wasOf: string | null): string =>
  listed.kind === 'archive'
    ? listed.stack
    : listed.kind === 'group'
      ? `group ${listed.group}`
      : (wasOf ?? 'unreadable');

export const show: Command = {
  words: ['backups', 'show'],
  summary: 'print the manifest of an archive: everything it holds, no secret among it',
  usage: 'ID',
  example: 'windlass backups show 4be1c2d0c7f1',
  arity: [1, 1],
  flags: { store: STORE_FLAG },
  async run({ io, json, flags, args, surface }) {
    const archives = (await surface('state')).archivesOf(textFlag(flags, 'store'));
    const { read, signedBy } = await archives.show(await archives.find(args[0] ?? ''));
    if (json) {
      io.json({ id: read.id, signedBy, manifest: read.manifest });
      return EXIT.done;
    }
    if (read.kind === 'group') {
      const { group, madeAtMs, windlass, members, edges } = read.manifest;
      io.data(
        [
          `archive    ${read.id}`,
          `group      ${group}`,
          `made       ${new Date(madeAtMs).toISOString()} by Windlass ${windlass}`,
          `signed by  ${signedBy}`,
          ...members.map((one) => `member     ${one.stack}: ${one.archive}`),
          ...edges.map(({ consumer, plug, provider }) => `integrates ${consumer}: ${plug} of ${provider}`),
        ].join('\n'),
      );
      return EXIT.done;
    }
    const { manifest, derived } = read;
    io.data(
      [
        `archive    ${read.id}`,
        `stack      ${manifest.stack}${manifest.app ? ` (app ${manifest.app.name} ${manifest.app.version})` : ''}`,
        `made       ${new Date(manifest.madeAtMs).toISOString()} by Windlass ${manifest.windlass}, ${manifest.purpose}`,
        `revision   ${manifest.revision?.commit ?? 'none'}`,
        `signed by  ${signedBy}`,
        `boots      ${manifest.boot.kind}: ${manifest.boot.why}`,
        ...manifest.payloads.map(
          (one) =>
            `payload    ${one.kind} ${one.name}: ${one.entries.count} entries, ${formatSize(one.plainBytes)} (${one.restic ? 'in restic' : `${formatSize(one.blob.sizeBytes)} stored`}), read by ${one.way}`,
        ),
        `files      ${manifest.files.length} from git${manifest.app ? `, ${manifest.app.source.length} of the app` : ''}`,
        `secrets    ${manifest.vault.keys.map((one) => `${one.scope}/${one.key}`).join(', ') || 'none'}`,
        ...manifest.notCaptured.map((one) => `not in it  ${oneLine(one)}`),
        ...(derived.length > 0 ? [`derived    ${derived.join(', ')}: an older version made this archive`] : []),
      ].join('\n'),
    );
    return EXIT.done;
  },
};

export const verify: Command = {
  words: ['backups', 'verify'],
  summary: 'read an archive again as a whole and check every digest and its signature',
  usage: 'ID…',
  example: 'windlass backups verify 4be1c2d0c7f1',
  arity: [1, 100],
  flags: { store: STORE_FLAG },
  async run({ io, json, flags, args, surface, now }) {
    const archives = (await surface('state')).archivesOf(textFlag(flags, 'store'));
    const found: { readonly id: string; readonly fault: Unread['fault'] | null }[] = [];
    // Before any is read, which takes long: a slip of the pen.
    for (const said of args)
      found.push(
        await archives.find(said).then(
          (id) => ({ id, fault: null }),
          (error: unknown) => {
            const unread = unreadBy(error, said, now);
            if (unread.fault.code === 'USAGE') throw error;
            return unread;
          },
        ),
      );
    const results: (Verification | Unread)[] = [];
    const tell = (one: Verification | Unread): void => {
      results.push(one);
      if (!json) for (const line of formatVerdict(one)) io.data(line);
    };
    try {
      for (const { id, fault } of found)
        tell(
          fault !== null
            ? { id, fault }
            : await archives.verify(id, now).catch((error: unknown) => unreadBy(error, id, now)),
        );
    } finally {
      if (json) io.json(results);
    }
    return results.every((one) => 'wrong' in one && one.wrong.length === 0) ? EXIT.done : EXIT.failed;
  },
};

type Verification = Awaited<ReturnType<Surface['archives']['verify']>>;

/** Nothing is known of it, and of the others all the same. */
interface Unread {
  readonly id: string;
  readonly fault: { readonly code: Fault['code']; readonly message: string; readonly help: string };
}

/** Throws it on when it was called off: then the others are not read either. */
function unreadBy(error: unknown, id: string, now: AbortSignal): Unread {
  if (now.aborted) throw error;
  const { code, message, help } = asFault(error, 'ARCHIVE_FAILED');
  return { id, fault: { code, message, help } };
}

function formatVerdict(one: Verification | Unread): readonly string[] {
  const name = one.id.slice(0, 12);
  if ('fault' in one)
    return [
      `${name}: could not be read: ${one.fault.code}: ${oneLine(one.fault.message)}`,
      `  help: ${one.fault.help}`,
    ];
  if (one.wrong.length === 0) return [`${name}: right, ${plural(one.blobs, 'blob')}, ${formatSize(one.sizeBytes)}`];
  return [`${name}: damaged`, ...one.wrong.map((bad) => `  ${bad.kind} ${bad.digest}: ${bad.what}`)];
}

export const drill: Command = {
  words: ['backups', 'drill'],
  summary:
    'rehearse a restore: the newest archive under a scratch name, apart from everything; its `test` hooks run, then it is taken away',
  usage: 'STACK',
  example: 'windlass backups drill shop',
  arity: [1, 1],
  drains: true,
  async run({ io, json, args, surface, now }) {
    const desk = await surface();
    const done = await desk.drill(args[0] ?? '', now, (line) => io.words(oneLine(line)));
    if (json) io.json(done);
    else io.data(`${done.archive}: verified in ${formatTook(done.durationMs)}: ${done.message}`);
    return EXIT.done;
  },
};

export const prune: Command = {
  words: ['backups', 'prune'],
  summary: 'show which archives `keep` does not keep, and remove them with --yes',
  usage: '[STACK]',
  example: 'windlass backups prune shop --yes',
  arity: [0, 1],
  flags: { yes: { type: 'boolean', help: 'remove them' }, store: STORE_FLAG },
  async run({ io, json, flags, args, surface }) {
    const desk = await surface();
    const isMeant = flags['yes'] === true;
    const store = textFlag(flags, 'store');
    const archives = desk.archivesOf(store);
    const verdicts = await archives.prune(await desk.fleet(), args[0], isMeant);
    if (json) io.json(verdicts);
    else
      for (const one of verdicts)
        io.data(
          `${one.id.slice(0, 12)}  ${one.stack}  ${one.isKept ? 'kept' : isMeant ? 'removed' : 'would go'}: ${one.why.join(', ')}`,
        );
    const unread = (await archives.list()).flatMap(({ listed }) => (listed.kind === 'damaged' ? [listed] : []));
    for (const { id, why } of unread)
      io.words(
        `nothing can go while ${id.slice(0, 12)} cannot be read, which may name any of them: ${oneLine(why)}; \`windlass backups remove ${id.slice(0, 12)}${store === undefined ? '' : ` --store ${store}`}\` shows what would be lost with it`,
      );
    return unread.length === 0 ? EXIT.done : EXIT.failed;
  },
};

export const remove: Command = {
  words: ['backups', 'remove'],
  summary:
    'show what would be lost with an archive, the archive of a group or one that cannot be read, and remove it with --yes',
  usage: 'ID…',
  example: 'windlass backups remove 4be1c2d0c7f1 --yes',
  arity: [1, 100],
  flags: { yes: { type: 'boolean', help: 'remove them' }, store: STORE_FLAG },
  async run({ io, json, flags, args, surface }) {
    const desk = await surface();
    const archives = desk.archivesOf(textFlag(flags, 'store'));
    const at = await desk.fleet();
    const isMeant = flags['yes'] === true;
    const removals = [];
    try {
      for (const said of args) removals.push(await archives.removeOne(at, await archives.find(said), isMeant));
    } finally {
      // What is gone is told, also when one after it stays.
      if (json) io.json(removals);
      else
        for (const { id, what, warnings } of removals) {
          io.data(`${id.slice(0, 12)}  ${isMeant ? 'removed' : 'would go'}: ${oneLine(what)}`);
          for (const warning of warnings) io.data(`  ${warning}`);
        }
    }
    return EXIT.done;
  },
};

export const exportOne: Command = {
  words: ['backups', 'export'],
  summary: 'write an archive to one file (.bak, of a group .bkg) that `tar` and `sha256sum` can read',
  usage: 'ID FILE',
  example: 'windlass backups export 4be1c2d0c7f1 shop.bak',
  arity: [2, 2],
  async run({ io, json, args, surface, now }) {
    const { archives } = await surface('state');
    const [said = '', path = ''] = args;
    const id = await archives.find(said);
    const { sizeBytes } = await archives.exportTo(id, path, now);
    const { signedBy } = await archives.show(id);
    if (json) io.json({ id, path, sizeBytes, signedBy });
    else io.data(`${path}: ${formatSize(sizeBytes)}`);
    io.words(`to import it elsewhere: windlass backups import ${path} --trust-key ${signedBy}`);
    return EXIT.done;
  },
};

export const importOne: Command = {
  words: ['backups', 'import'],
  summary: 'take a .bak or .bkg into the archive store; every digest and signature is checked first',
  usage: 'FILE',
  example: 'windlass backups import shop.bak --trust-key BASE64',
  arity: [1, 1],
  flags: {
    'trust-key': {
      type: 'string',
      value: 'KEY',
      help: 'the signing key of the controller that made it, from `backups show`',
    },
  },
  async run({ io, json, flags, args, surface, now }) {
    const { archives } = await surface('state');
    const done = await archives.importFrom(args[0] ?? '', textFlag(flags, 'trust-key'), now);
    if (json) io.json(done);
    else io.data(done.id);
    return EXIT.done;
  },
};
