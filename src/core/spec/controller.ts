// Controller: the configuration of one controller, on its host and outside the repository.
import { type Static, Type } from 'typebox';
import { Duration, head, mapOf, Name, oneOf, strict, Url, Window } from './scalar.ts';

const Path = Type.String({ pattern: '^[^\\u0000]{1,4096}$', description: 'a path on the host of the controller' });
const Sha256 = Type.String({ pattern: '^[0-9a-f]{64}$', description: 'a SHA-256 of 64 lower-case hex digits' });

const Source = Type.Object(
  {
    name: Type.Optional(Name),
    url: Type.String({
      pattern:
        '^(?:https?://|ssh://|file://|/|\\.|[A-Za-z0-9._-]+@[A-Za-z0-9._-]+:)[^\\s]{0,2000}$|^[A-Za-z0-9._/-]{1,2000}$',
      description: 'an http, https or ssh URL or the path of a local repository',
    }),
    ref: Type.Optional(
      Type.String({
        pattern: '^[^\\s~^:?*\\[\\\\-][^\\s~^:?*\\[\\\\]{0,250}$',
        description: 'a branch or a full ref',
        default: 'main',
      }),
    ),
    poll: Type.Optional(Duration),
    username: Type.Optional(Type.String({ minLength: 1 })),
    passwordFile: Type.Optional(Path),
    sshKeyFile: Type.Optional(Path),
    knownHostsFile: Type.Optional(Path),
    caFile: Type.Optional(Path),
  },
  { ...strict, description: 'a repository to watch' },
);

const Trust = Type.Object(
  {
    deploy: Type.Optional(oneOf(['none', 'head', 'all'], { description: '`none`, `head` or `all`', default: 'none' })),
    allowedSignersFile: Type.Optional(Path),
    keyringFile: Type.Optional(Path),
    revokedFile: Type.Optional(Path),
    clockSkew: Type.Optional(Duration),
    maxLifetime: Type.Optional(Duration),
    anchor: Type.Optional(
      Type.Object(
        {
          fleet: Type.String({ pattern: '^[0-9a-zA-Z-]{8,64}$', description: 'the id of the fleet' }),
          ref: Type.String({ pattern: '^refs/[^\\s]{1,250}$', description: 'a full ref' }),
          genesis: Type.String({ pattern: '^[0-9a-f]{40}$', description: 'a commit of 40 hex digits' }),
          policy: Sha256,
          environment: Type.String({ minLength: 1, maxLength: 100 }),
        },
        { ...strict, description: 'what `windlass trust init` wrote' },
      ),
    ),
  },
  { ...strict, description: 'whose commits are deployed' },
);

const Node = Type.Object(
  {
    host: Type.String({
      pattern: '^(?:unix:///|ssh://|tcp://|https?://)[^\\s]{1,500}$',
      description: 'the address of an engine such as unix:///var/run/docker.sock or ssh://user@host',
    }),
    id: Type.Optional(Type.String({ minLength: 1 })),
    ip: Type.Optional(Type.String({ minLength: 1 })),
    meshIp: Type.Optional(Type.String({ minLength: 1 })),
    internalIp: Type.Optional(Type.String({ minLength: 1 })),
    hostname: Type.Optional(Type.String({ minLength: 1 })),
    tlsDirectory: Type.Optional(Path),
  },
  { ...strict, description: 'an engine' },
);

const Reconcile = Type.Object(
  {
    interval: Type.Optional(Duration),
    concurrency: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 256, description: 'how many stacks are worked on at once', default: 4 }),
    ),
    timeout: Type.Optional(Duration),
    settle: Type.Optional(Duration),
    windows: Type.Optional(Type.Array(Window)),
    pruneLimit: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 100,
        description: 'percent of the stacks that may vanish at once',
        default: 30,
      }),
    ),
  },
  { ...strict, description: 'how often and how much at once' },
);

const Vault = Type.Object(
  {
    kind: Type.Optional(
      oneOf(['embedded', 'openbao', 'sops'], { description: '`embedded`, `openbao` or `sops`', default: 'embedded' }),
    ),
    identityFile: Type.Optional(Path),
    address: Type.Optional(Url),
    mount: Type.Optional(Type.String({ minLength: 1 })),
    prefix: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*$',
        maxLength: 200,
        description: 'the folder of a KV v2 mount below which the secrets are kept',
        default: 'windlass',
      }),
    ),
    tokenFile: Type.Optional(Path),
  },
  { ...strict, description: 'where secrets are kept' },
);

const Secrets = Type.Object(
  {
    environment: Type.Optional(
      Type.Array(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$', description: 'the name of a variable' }), {
        description: 'what `ref+env` may read beside the variables named WINDLASS_SECRET_…',
      }),
    ),
    directory: Type.Optional(Path),
  },
  { ...strict, description: 'what secret references of stacks may read on the host of the controller' },
);

const Restic = Type.Object(
  {
    repository: Type.String({
      // A password in it would be seen in lists and logs.
      pattern: '^(?!.*://[^/]*:[^/]*@)[^\\s\\u0000-\\u001f]{1,1000}$',
      description: 'a folder, or a location as restic takes it such as sftp:user@host:/path, without a password in it',
    }),
    passwordFile: Path,
    environmentFile: Type.Optional(
      Type.String({
        pattern: '^[^\\u0000]{1,4096}$',
        description:
          'a file of NAME=value lines for the backend, such as AWS_ACCESS_KEY_ID, on the host of the controller',
      }),
    ),
  },
  { ...strict, description: 'the repository of payloads that are kept by restic (0.18 or newer)' },
);

const SecretRef = Type.String({
  pattern: '^ref\\+(?:vault|env|file)://[^\\s]{1,500}$',
  description: 'a reference such as ref+file://s3-secret-key, ref+env://NAME or ref+vault://KEY (of the fleet)',
});

const storeFields = {
  kind: Type.Optional(oneOf(['dir', 's3', 'sftp'], { description: '`dir`, `s3` or `sftp`', default: 'dir' })),
  directory: Type.Optional(Path),
  url: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1000,
      description: 'of an S3 server, or sftp://USER@HOST[:PORT]/PATH; without a password in it',
    }),
  ),
  bucket: Type.Optional(
    Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$', description: 'the name of a bucket' }),
  ),
  prefix: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9._/-]{1,200}$',
      description: 'the folder of the bucket in which the store lies',
    }),
  ),
  region: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9-]{1,64}$', description: 'the region of the bucket' })),
  pathStyle: Type.Optional(
    Type.Boolean({ description: 'whether the bucket is named in the path; by default it is when `url` is set' }),
  ),
  caFile: Type.Optional(Path),
  credentialsFile: Type.Optional(Path),
  accessKey: Type.Optional(SecretRef),
  secretKey: Type.Optional(SecretRef),
  sshKeyFile: Type.Optional(Path),
  passphrase: Type.Optional(SecretRef),
  password: Type.Optional(SecretRef),
  knownHostsFile: Type.Optional(Path),
  hostKey: Type.Optional(
    Type.String({
      pattern: '^SHA256:[A-Za-z0-9+/]{43}=?$',
      description: 'the fingerprint of a host key such as SHA256:…, as ssh-keygen -l prints it',
    }),
  ),
};

const Replica = Type.Object(
  { name: Name, ...storeFields },
  { ...strict, description: 'another store that gets a copy of each archive' },
);

const Archives = Type.Object(
  {
    ...storeFields,
    replicas: Type.Optional(
      Type.Array(Replica, { maxItems: 16, description: 'other stores that get a copy of each archive' }),
    ),
    trustedKeys: Type.Optional(
      Type.Array(Type.String({ pattern: '^[A-Za-z0-9+/]{43}=$', description: 'a signing key, 32 bytes in base64' }), {
        description: 'of other controllers, whose archives are taken; `backups show` tells the key of an archive',
      }),
    ),
    recipients: Type.Optional(
      Type.Array(Type.String({ pattern: '^age1[0-9a-z]{20,}$', description: 'an age recipient' })),
    ),
    restic: Type.Optional(Restic),
  },
  { ...strict, description: 'where archives are kept' },
);

const Api = Type.Object(
  {
    listen: Type.Optional(
      Type.String({
        pattern: '^(?:(?:\\[[0-9a-fA-F:.]+\\]|[A-Za-z0-9.-]*):)?[0-9]{1,5}$|^unix:/[^\\s]{1,200}$',
        description: 'HOST:PORT or unix:/PATH',
        default: '127.0.0.1:8470',
      }),
    ),
    tokenFile: Type.Optional(Path),
    webhookSecretFile: Type.Optional(Path),
  },
  { ...strict, description: 'the HTTP interface' },
);

const Notify = Type.Object(
  {
    name: Type.Optional(Name),
    kind: Type.Optional(oneOf(['webhook'], { description: '`webhook`', default: 'webhook' })),
    url: Url,
    secretFile: Type.Optional(Path),
    levels: Type.Optional(
      Type.Array(oneOf(['info', 'warning', 'error'], { description: 'info, warning or error' }), { minItems: 1 }),
    ),
    stacks: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { description: 'names or globs of stacks' })),
  },
  { ...strict, description: 'who is told of changes' },
);

export const Controller = Type.Object(
  {
    ...head('Controller'),
    state: Type.Optional(Path),
    sources: Type.Optional(Type.Array(Source, { minItems: 1, description: 'the repositories to watch' })),
    trust: Type.Optional(Trust),
    nodes: Type.Optional(mapOf(Name, Node, 'the engines; `local` is the default one')),
    reconcile: Type.Optional(Reconcile),
    vault: Type.Optional(Vault),
    secrets: Type.Optional(Secrets),
    archives: Type.Optional(Archives),
    api: Type.Optional(Api),
    notify: Type.Optional(Type.Array(Notify)),
  },
  { ...strict, title: 'Windlass Controller', description: 'The configuration of a controller (windlass.yaml).' },
);
export type Controller = Static<typeof Controller>;
