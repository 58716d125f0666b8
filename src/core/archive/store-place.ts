// Store place: where an archive store lies, from what windlass.yaml says of it. It reads nothing: files are paths, secrets stay closed refs.

/** As windlass.yaml has it, of the main store or of a replica. */
export interface SaidStore {
  readonly kind?: 'dir' | 's3' | 'sftp';
  readonly directory?: string;
  readonly url?: string;
  readonly bucket?: string;
  readonly prefix?: string;
  readonly region?: string;
  readonly pathStyle?: boolean;
  readonly caFile?: string;
  readonly credentialsFile?: string;
  readonly accessKey?: string;
  readonly secretKey?: string;
  readonly sshKeyFile?: string;
  readonly passphrase?: string;
  readonly password?: string;
  readonly knownHostsFile?: string;
  readonly hostKey?: string;
}

export interface S3Store {
  readonly kind: 's3';
  /** Null: AWS. */
  readonly endpoint: string | null;
  readonly bucket: string;
  readonly region: string;
  readonly prefix: string;
  readonly pathStyle: boolean;
  readonly caFile: string | null;
  /** `env`: the two variables that every S3 client knows. */
  readonly credentials:
    | { readonly kind: 'file'; readonly path: string }
    | { readonly kind: 'refs'; readonly accessKey: string; readonly secretKey: string }
    | { readonly kind: 'env' };
}

export interface SftpStore {
  readonly kind: 'sftp';
  readonly host: string;
  readonly port: number;
  readonly username: string;
  readonly path: string;
  readonly sshKeyFile: string | null;
  readonly passphrase: string | null;
  readonly password: string | null;
  readonly hostKey:
    | { readonly kind: 'pinned'; readonly fingerprint: string }
    | { readonly kind: 'file'; readonly path: string };
}

export type StorePlace = { readonly kind: 'dir'; readonly directory: string | null } | S3Store | SftpStore;

const OF_KIND = {
  dir: ['directory'],
  s3: ['url', 'bucket', 'prefix', 'region', 'pathStyle', 'caFile', 'credentialsFile', 'accessKey', 'secretKey'],
  sftp: ['url', 'sshKeyFile', 'passphrase', 'password', 'knownHostsFile', 'hostKey'],
} as const satisfies Record<NonNullable<SaidStore['kind']>, readonly (keyof SaidStore)[]>;

const ALL = [...new Set(Object.values(OF_KIND).flat())];

/** `field` names it in messages. A mistake is said in words for people, and never repeats a URL, which may hold a password. */
export function storePlaceOf(said: SaidStore, field: string): StorePlace | { readonly wrong: string } {
  const kind = said.kind ?? 'dir';
  const known: readonly string[] = OF_KIND[kind];
  const strange = ALL.find((key) => said[key] !== undefined && !known.includes(key));
  if (strange !== undefined) return { wrong: `${field}.${strange} means nothing to a store of kind ${kind}` };
  if (kind === 'dir') return { kind, directory: said.directory ?? null };
  return kind === 's3' ? s3Of(said, field) : sftpOf(said, field);
}

function s3Of(said: SaidStore, field: string): S3Store | { readonly wrong: string } {
  const { url, bucket, region, prefix = '', credentialsFile, accessKey, secretKey } = said;
  if (prefix.split('/').some((part) => part === '.' || part === '..'))
    return { wrong: `${field}.prefix is no folder of a bucket` };
  if (bucket === undefined) return { wrong: `${field}.bucket is missing: name the bucket` };
  if (url === undefined && region === undefined)
    return { wrong: `${field} names neither url (of your S3 server) nor region (of AWS)` };
  if (url !== undefined) {
    const parsed = urlOf(url, ['http:', 'https:']);
    if (parsed === null)
      return { wrong: `${field}.url takes an http or https URL without a user, a query and a fragment` };
  }
  if ((accessKey === undefined) !== (secretKey === undefined))
    return { wrong: `${field}.accessKey and ${field}.secretKey go together` };
  if (accessKey !== undefined && credentialsFile !== undefined)
    return { wrong: `${field} names both credentialsFile and accessKey: one of them is enough` };
  return {
    kind: 's3',
    endpoint: url ?? null,
    bucket,
    region: region ?? 'us-east-1',
    prefix: prefix.replace(/^\/+|\/+$/g, ''),
    pathStyle: said.pathStyle ?? url !== undefined,
    caFile: said.caFile ?? null,
    credentials:
      credentialsFile !== undefined
        ? { kind: 'file', path: credentialsFile }
        : accessKey !== undefined && secretKey !== undefined
          ? { kind: 'refs', accessKey, secretKey }
          : { kind: 'env' },
  };
}

function sftpOf(said: SaidStore, field: string): SftpStore | { readonly wrong: string } {
  const parsed = said.url === undefined ? null : urlOf(said.url, ['sftp:'], true);
  if (parsed === null || parsed.hostname === '' || parsed.username === '')
    return { wrong: `${field}.url takes sftp://USER@HOST[:PORT]/PATH, without a password` };
  // `~` is the home folder, where a store may lie by a path of its own.
  const path = decodeURIComponent(parsed.pathname)
    .replace(/^\/~\//, '')
    .replace(/(?<=.)\/+$/, '');
  if (path === '' || path === '/' || path === '/~' || /[\u0000-\u001f]/.test(path) || path.split('/').includes('..'))
    return { wrong: `${field}.url names no folder for the store` };
  const { hostKey, knownHostsFile, sshKeyFile, passphrase, password } = said;
  if (hostKey === undefined && knownHostsFile === undefined)
    return { wrong: `${field} says nothing of the server's key: set hostKey (SHA256:…) or knownHostsFile` };
  if (sshKeyFile === undefined && password === undefined)
    return { wrong: `${field} says nothing to log in with: set sshKeyFile or password` };
  return {
    kind: 'sftp',
    host: parsed.hostname.replace(/^\[|\]$/g, ''),
    port: parsed.port === '' ? 22 : Number(parsed.port),
    username: decodeURIComponent(parsed.username),
    path,
    sshKeyFile: sshKeyFile ?? null,
    passphrase: passphrase ?? null,
    password: password ?? null,
    hostKey:
      hostKey !== undefined ? { kind: 'pinned', fingerprint: hostKey } : { kind: 'file', path: knownHostsFile ?? '' },
  };
}

function urlOf(text: string, protocols: readonly string[], mayNameUser = false): URL | null {
  let url: URL;
  try {
    url = new URL(text);
    decodeURIComponent(url.pathname + url.username);
  } catch {
    return null;
  }
  const isPlain = url.password === '' && url.search === '' && url.hash === '' && (mayNameUser || url.username === '');
  return isPlain && protocols.includes(url.protocol) ? url : null;
}
