// Open store: a remote archive store from the place that windlass.yaml names, and what it reads on the way: keys, certificates, known hosts.
// They are read when the store is first asked, and again later; what is secret is told to the redactor before it is used.
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { InRepository } from '../../core/archive/payload.ts';
import type { S3Store, SftpStore } from '../../core/archive/store-place.ts';
import { Fault } from '../../core/fault.ts';
import type { ArchiveStore } from '../../ports/archive.ts';
import { codeOf } from './archive-fault.ts';
import { RemoteStore } from './remote-store.ts';
import type { S3Credentials } from './s3-call.ts';
import { S3Objects } from './s3-objects.ts';
import { type HostKeys, knownHostKeys, pinnedKey } from './sftp-host-key.ts';
import type { SftpLogin } from './sftp-link.ts';
import { SftpObjects } from './sftp-objects.ts';

const MAX_FILE_BYTES = 1024 * 1024;

export interface StoreTools {
  /** The value of `ref+…`. Throws a Fault when there is none. */
  readonly secret: (ref: string) => Promise<string>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly redactor: { add(value: string): void };
  readonly holdsElsewhere?: (place: InRepository) => Promise<boolean>;
}

/** Nothing is asked before the store is. */
export function openRemoteStore(place: S3Store | SftpStore, tools: StoreTools): ArchiveStore {
  const { holdsElsewhere } = tools;
  const rest = holdsElsewhere ? { holdsElsewhere } : {};
  if (place.kind === 'sftp')
    return new RemoteStore({
      ...rest,
      objects: new SftpObjects({
        place: {
          host: place.host,
          port: place.port,
          username: place.username,
          path: place.path,
          hostKeys: () => hostKeysOf(place),
          login: () => loginOf(place, tools),
        },
      }),
    });
  const { endpoint, bucket, region, prefix, pathStyle, caFile } = place;
  return new RemoteStore({
    ...rest,
    objects: new S3Objects({
      place: {
        endpoint,
        bucket,
        region,
        prefix,
        pathStyle,
        ca: caFile === null ? null : () => textOf(caFile, 'the certificate of the S3 server'),
        credentials: () => credentialsOf(place, tools),
      },
    }),
  });
}

async function credentialsOf({ credentials }: S3Store, { secret, env, redactor }: StoreTools): Promise<S3Credentials> {
  if (credentials.kind === 'refs')
    return { accessKeyId: await secret(credentials.accessKey), secretAccessKey: await secret(credentials.secretKey) };
  const [from, found] =
    credentials.kind === 'env'
      ? ['the environment', new Map(Object.entries(env))]
      : [credentials.path, assignmentsOf(await textOf(credentials.path, 'the credentials of the S3 store', true))];
  const of = (name: string): string | undefined => found.get(name) || found.get(name.toLowerCase()) || undefined;
  const accessKeyId = of('AWS_ACCESS_KEY_ID');
  const secretAccessKey = of('AWS_SECRET_ACCESS_KEY');
  const sessionToken = of('AWS_SESSION_TOKEN');
  if (accessKeyId === undefined || secretAccessKey === undefined)
    throw new Fault('ARCHIVE_DENIED', `${from} names no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for the S3 store`);
  redactor.add(secretAccessKey);
  if (sessionToken !== undefined) redactor.add(sessionToken);
  return { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) };
}

/** `NAME=value` lines, also those of a shared credentials file with one section. */
function assignmentsOf(text: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  let sections = 0;
  for (const line of text.split('\n')) {
    if (/^\s*\[/.test(line) && ++sections > 1)
      throw new Fault('ARCHIVE_DENIED', 'the file of the S3 credentials holds several sections: keep one');
    const [, name, value] = /^\s*(?:export\s+)?([A-Za-z_]+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) found.set(name, value.replace(/^(["'])(.*)\1$/, '$2'));
  }
  return found;
}

async function loginOf(place: SftpStore, { secret, redactor }: StoreTools): Promise<SftpLogin> {
  const { sshKeyFile, passphrase, password } = place;
  const privateKey = sshKeyFile === null ? null : await textOf(sshKeyFile, 'the SSH key of the store', true);
  if (privateKey !== null) redactor.add(privateKey);
  return {
    ...(privateKey === null ? {} : { privateKey }),
    ...(passphrase === null ? {} : { passphrase: await secret(passphrase) }),
    ...(password === null ? {} : { password: await secret(password) }),
  };
}

async function hostKeysOf({ hostKey, host, port }: SftpStore): Promise<HostKeys> {
  if (hostKey.kind === 'pinned') return pinnedKey(hostKey.fingerprint);
  const keys = knownHostKeys(await textOf(hostKey.path, 'the file of known hosts'), host, port);
  if (keys !== null) return keys;
  throw new Fault(
    'ARCHIVE_DENIED',
    `${hostKey.path} knows no key of ${host}${port === 22 ? '' : ` port ${port}`}: compare the server's key, then add it with ssh-keyscan`,
  );
}

async function textOf(path: string, what: string, isSecret = false): Promise<string> {
  const refuse = (why: string): Fault => new Fault('ARCHIVE_DENIED', `${what}, ${path}, ${why}`, { data: { path } });
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const facts = await file.stat();
      if (!facts.isFile() || facts.size > MAX_FILE_BYTES) throw refuse('is no file of a sensible size');
      if (isSecret && (facts.mode & 0o077) !== 0) throw refuse('may be read by others: chmod 600 it');
      return (await file.readFile('utf8')).slice(0, MAX_FILE_BYTES);
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw refuse(`cannot be read: ${codeOf(error)}`);
  }
}
