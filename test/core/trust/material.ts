// Material: keys, signatures and git objects for the trust tests, made with ssh-keygen, gpg and by hand.
// Everything lives in one temporary folder; `close` ends the agents that gpg started and removes it.

import { execFileSync, spawnSync } from 'node:child_process';
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';

/** 2024-05-29T16:26:40Z: the date of every commit that says no other. */
export const DATED = 1_717_000_000;
/** The time of judging, two days later. */
export const AT = new Date('2024-06-01T00:00:00Z');
export const TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';
const PARENT = '1111111111111111111111111111111111111111';

export interface CommitFields {
  readonly tree?: string;
  readonly parents?: readonly string[];
  readonly author?: string;
  readonly committer?: string;
  readonly dated?: number;
  /** Header lines after the committer, each with its LF. */
  readonly extra?: string;
  readonly message?: string;
}

const person = (dated: number): string => `A U Thor <author@example.com> ${dated} +0000`;

export function commitPayload(fields: CommitFields = {}): Buffer {
  const dated = fields.dated ?? DATED;
  return Buffer.from(
    [
      `tree ${fields.tree ?? TREE}\n`,
      ...(fields.parents ?? [PARENT]).map((parent) => `parent ${parent}\n`),
      `author ${fields.author ?? person(dated)}\n`,
      `committer ${fields.committer ?? person(dated)}\n`,
      fields.extra ?? '',
      `\n${fields.message ?? 'Change a thing\n'}`,
    ].join(''),
  );
}

export function tagPayload(
  fields: { readonly tagger?: string | null; readonly target?: string; readonly type?: string } = {},
): Buffer {
  const tagger = fields.tagger === undefined ? person(DATED) : fields.tagger;
  return Buffer.from(
    `object ${fields.target ?? PARENT}\ntype ${fields.type ?? 'commit'}\ntag v1\n${tagger === null ? '' : `tagger ${tagger}\n`}\nRelease\n`,
  );
}

/** A header with continuation lines, as git writes `gpgsig`. */
export function signatureHeader(armor: string, name = 'gpgsig'): string {
  return `${name} ${armor.replace(/\n$/, '').split('\n').join('\n ')}\n`;
}

/** Puts header lines in front of the blank line, where git puts `gpgsig`. */
export function insertHeader(payload: Buffer, header: string): Buffer {
  const blank = payload.indexOf('\n\n') + 1;
  return Buffer.concat([payload.subarray(0, blank), Buffer.from(header, 'latin1'), payload.subarray(blank)]);
}

export function insertSignature(payload: Buffer, armor: string): Buffer {
  return insertHeader(payload, signatureHeader(armor));
}

export function objectId(type: string, bytes: Buffer): string {
  return createHash('sha1').update(`${type} ${bytes.length}\0`).update(bytes).digest('hex');
}

/** The SSH `string`. */
export function wire(value: Buffer | string): Buffer {
  const bytes = Buffer.from(value as string);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

export function mpint(value: string | Buffer): Buffer {
  const whole = typeof value === 'string' ? Buffer.from(value, 'base64url') : value;
  const bytes = whole.subarray(whole.findIndex((byte) => byte !== 0));
  return wire(bytes[0]! >= 0x80 ? Buffer.concat([Buffer.of(0), bytes]) : bytes);
}

export function armor(kind: 'SSH' | 'PGP', bytes: Buffer, width = kind === 'SSH' ? 70 : 64): string {
  const body = bytes.toString('base64').match(new RegExp(`.{1,${width}}`, 'g'))!;
  return [
    `-----BEGIN ${kind} SIGNATURE-----`,
    ...(kind === 'PGP' ? [''] : []),
    ...body,
    `-----END ${kind} SIGNATURE-----`,
    '',
  ].join('\n');
}

export function unarmor(text: string): Buffer {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('-----') && !line.startsWith('='));
  return Buffer.from(lines.join(''), 'base64');
}

/** A key of our own making, for signatures that ssh-keygen refuses to make. */
export interface HandKey {
  readonly type: string;
  readonly blob: Buffer;
  readonly privateKey: KeyObject;
  readonly application: string | null;
  /** `TYPE BASE64`. */
  readonly line: string;
}

export function handEd25519(application: string | null = null): HandKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const type = application === null ? 'ssh-ed25519' : 'sk-ssh-ed25519@openssh.com';
  const point = Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url');
  const blob = Buffer.concat([wire(type), wire(point), ...(application === null ? [] : [wire(application)])]);
  return { type, blob, privateKey, application, line: `${type} ${blob.toString('base64')}` };
}

export function handRsa(bits: number, exponent = 65_537): HandKey {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: bits, publicExponent: exponent });
  const { n, e } = publicKey.export({ format: 'jwk' });
  const blob = Buffer.concat([wire('ssh-rsa'), mpint(e!), mpint(n!)]);
  return { type: 'ssh-rsa', blob, privateKey, application: null, line: `ssh-rsa ${blob.toString('base64')}` };
}

const ECDSA = {
  nistp256: { jwk: 'P-256', hash: 'sha256', size: 32 },
  nistp384: { jwk: 'P-384', hash: 'sha384', size: 48 },
  nistp521: { jwk: 'P-521', hash: 'sha512', size: 66 },
} as const;

export function handEcdsa(curve: keyof typeof ECDSA, application: string | null = null): HandKey {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: ECDSA[curve].jwk });
  const { x, y } = publicKey.export({ format: 'jwk' });
  const point = Buffer.concat([Buffer.of(4), Buffer.from(x!, 'base64url'), Buffer.from(y!, 'base64url')]);
  const type = application === null ? `ecdsa-sha2-${curve}` : `sk-ecdsa-sha2-${curve}@openssh.com`;
  const blob = Buffer.concat([
    wire(type),
    wire(curve),
    wire(point),
    ...(application === null ? [] : [wire(application)]),
  ]);
  return { type, blob, privateKey, application, line: `${type} ${blob.toString('base64')}` };
}

/** Signs as the key's type does; `bend` sees the raw signature (r and s side by side for ECDSA). */
export function signRaw(
  key: HandKey,
  data: Buffer,
  digest?: string | null,
  bend = (raw: Buffer): Buffer => raw,
): Buffer {
  const curve = Object.entries(ECDSA).find(([name]) => key.type.includes(name))?.[1];
  if (!curve) return bend(sign(digest ?? null, data, key.privateKey));
  const raw = bend(sign(curve.hash, data, { key: key.privateKey, dsaEncoding: 'ieee-p1363' }));
  return Buffer.concat([mpint(raw.subarray(0, curve.size)), mpint(raw.subarray(curve.size))]);
}

export interface HandCertificate {
  readonly type?: string;
  readonly serial?: bigint;
  readonly kind?: number;
  readonly keyId?: string;
  readonly principals?: readonly string[];
  readonly validAfter?: bigint;
  readonly validBefore?: bigint;
  readonly critical?: Buffer;
  readonly extensions?: Buffer;
  readonly reserved?: string;
  /** In the place of the authority's blob. */
  readonly authorityBlob?: Buffer;
  readonly algorithm?: string;
  readonly digest?: string;
  readonly trailing?: Buffer;
}

/** A certificate blob for the subject, with any field bent. */
export function handCertify(authority: HandKey, subject: HandKey, bent: HandCertificate = {}): Buffer {
  const [stem, at] = subject.type.split('@');
  const type = bent.type ?? `${stem}-cert-v01@openssh.com${at === undefined || at === 'openssh.com' ? '' : at}`;
  const fields = subject.blob.subarray(wire(subject.type).length);
  const u64 = (value: bigint): Buffer => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64BE(value);
    return bytes;
  };
  const body = Buffer.concat([
    wire(type),
    wire(Buffer.alloc(32, 7)),
    fields,
    u64(bent.serial ?? 42n),
    Buffer.from([0, 0, 0, bent.kind ?? 1]),
    wire(bent.keyId ?? 'by hand'),
    wire(Buffer.concat((bent.principals ?? ['deploy@example.com']).map(wire))),
    u64(bent.validAfter ?? BigInt(DATED - 1000)),
    u64(bent.validBefore ?? BigInt(AT.getTime() / 1000 + 1000)),
    wire(bent.critical ?? ''),
    wire(bent.extensions ?? ''),
    wire(bent.reserved ?? ''),
    wire(bent.authorityBlob ?? authority.blob),
  ]);
  const isRsa = authority.type === 'ssh-rsa';
  const flags = Buffer.from([1, 0, 0, 0, 9]);
  const data =
    authority.application === null
      ? body
      : Buffer.concat([
          createHash('sha256').update(authority.application).digest(),
          flags,
          createHash('sha256').update(body).digest(),
        ]);
  const signature = Buffer.concat([
    wire(bent.algorithm ?? (isRsa ? 'rsa-sha2-512' : authority.type)),
    wire(signRaw(authority, data, bent.digest ?? (isRsa ? 'sha512' : null))),
    ...(authority.application === null ? [] : [flags]),
  ]);
  return Buffer.concat([body, wire(signature), bent.trailing ?? Buffer.alloc(0)]);
}

export interface HandSignature {
  readonly magic?: string;
  readonly version?: number;
  readonly namespace?: string;
  readonly reserved?: string;
  readonly hash?: string;
  readonly algorithm?: string;
  readonly digest?: string | null;
  readonly keyBlob?: Buffer;
  /** Of security keys. */
  readonly flags?: number;
  /** Written in the place of the signed flags and counter. */
  readonly writtenFlags?: Buffer;
  /** Signs for another application than the key's. */
  readonly application?: string;
  /** Bends the raw signature before it is encoded. */
  readonly bend?: (raw: Buffer) => Buffer;
  /** In the place of the whole encoded signature. */
  readonly encoded?: (raw: Buffer) => Buffer;
  readonly trailing?: Buffer;
  readonly trailingInside?: Buffer;
}

/** An SSHSIG with any field bent. */
export function handSign(key: HandKey, payload: Buffer, bent: HandSignature = {}): string {
  const namespace = bent.namespace ?? 'git';
  const hash = bent.hash ?? 'sha512';
  const inner = createHash(hash).update(payload).digest();
  const reserved = bent.reserved ?? '';
  const signed = Buffer.concat([Buffer.from('SSHSIG'), wire(namespace), wire(reserved), wire(hash), wire(inner)]);
  const isRsa = key.type === 'ssh-rsa';
  const digest = bent.digest === undefined ? (isRsa ? 'sha512' : null) : bent.digest;
  const flags = Buffer.from([bent.flags ?? 1, 0, 0, 0, 7]);
  const data =
    key.application === null
      ? signed
      : Buffer.concat([
          createHash('sha256')
            .update(bent.application ?? key.application)
            .digest(),
          flags,
          createHash('sha256').update(signed).digest(),
        ]);
  const signature = Buffer.concat([
    wire(bent.algorithm ?? (isRsa ? 'rsa-sha2-512' : key.type)),
    wire((bent.encoded ?? ((raw: Buffer) => raw))(signRaw(key, data, digest, bent.bend))),
    ...(key.application === null ? [] : [bent.writtenFlags ?? flags]),
    bent.trailingInside ?? Buffer.alloc(0),
  ]);
  const version = Buffer.alloc(4);
  version.writeUInt32BE(bent.version ?? 1);
  return armor(
    'SSH',
    Buffer.concat([
      Buffer.from(bent.magic ?? 'SSHSIG'),
      version,
      wire(bent.keyBlob ?? key.blob),
      wire(namespace),
      wire(reserved),
      wire(hash),
      wire(signature),
      bent.trailing ?? Buffer.alloc(0),
    ]),
  );
}

export class Material {
  readonly dir = mkdtempSync(join(tmpdir(), 'wl-'));
  readonly #gnupg = join(this.dir, 'g');
  readonly #env = {
    PATH: process.env['PATH'],
    HOME: this.dir,
    TZ: 'UTC',
    LC_ALL: 'C',
    GNUPGHOME: this.#gnupg,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
  };
  #count = 0;

  constructor() {
    mkdirSync(this.#gnupg, { mode: 0o700 });
  }

  close(): void {
    spawnSync('gpgconf', ['--homedir', this.#gnupg, '--kill', 'all'], { env: this.#env });
    rmSync(this.dir, { recursive: true, force: true });
  }

  run(program: string, args: readonly string[], input?: Buffer | string): Buffer {
    return execFileSync(program, args, {
      env: this.#env,
      cwd: this.dir,
      stdio: ['pipe', 'pipe', 'pipe'],
      ...(input === undefined ? { input: '' } : { input }),
    });
  }

  /** Exit code and both streams; never throws. */
  attempt(program: string, args: readonly string[], input: Buffer | string = ''): { code: number; text: string } {
    const { status, stdout, stderr } = spawnSync(program, args, { env: this.#env, cwd: this.dir, input });
    return { code: status ?? -1, text: `${stdout}${stderr}` };
  }

  file(name: string): string {
    return join(this.dir, name);
  }

  write(name: string, content: Buffer | string): string {
    writeFileSync(this.file(name), content);
    return this.file(name);
  }

  /** Makes a key pair; answers `TYPE BASE64`. */
  sshKey(name: string, ...args: readonly string[]): string {
    this.run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', this.file(name), ...args]);
    return readFileSync(this.file(`${name}.pub`), 'utf8').trim();
  }

  /** The armor over the payload; `key` may name a private key or a certificate whose key lies beside it. */
  sshSign(key: string, payload: Buffer, namespace = 'git', ...options: readonly string[]): string {
    const file = this.write(`payload-${this.#count++}`, payload);
    this.run('ssh-keygen', ['-q', '-Y', 'sign', '-n', namespace, ...options, '-f', this.file(key), file]);
    return readFileSync(`${file}.sig`, 'utf8');
  }

  /** Certifies a copy of the key's public half as `NAME-cert.pub`, beside a copy of the private one. */
  certify(authority: string, key: string, name: string, ...args: readonly string[]): string {
    for (const suffix of ['', '.pub']) {
      const half = readFileSync(this.file(`${key}${suffix}`));
      writeFileSync(this.file(`${name}${suffix}`), half, { mode: 0o600 });
    }
    this.run('ssh-keygen', ['-q', '-s', this.file(authority), ...args, this.file(`${name}.pub`)]);
    return `${name}-cert.pub`;
  }

  gpg(args: readonly string[], input?: Buffer | string): Buffer {
    const quiet = ['--batch', '--yes', '--quiet', '--no-tty', '--pinentry-mode', 'loopback', '--passphrase', ''];
    return this.run('gpg', [...quiet, '--no-auto-check-trustdb', '--trust-model', 'always', ...args], input);
  }

  /** Makes a key at `made` (gpg's own time format); answers its fingerprint. */
  gpgKey(user: string, algorithm: string, usage = 'sign', expires = 'never', made = '20240101T000000'): string {
    this.gpg(['--faked-system-time', `${made}!`, '--quick-gen-key', user, algorithm, usage, expires]);
    const listed = this.gpg(['--list-keys', '--with-colons', user]).toString();
    return /^fpr:+([0-9A-F]{40}):/m.exec(listed)![1]!;
  }

  gpgSign(key: string, payload: Buffer, dated = DATED, ...options: readonly string[]): string {
    const time = new Date(dated * 1000).toISOString().replace(/[-:]|\.\d+Z/g, '');
    const mode = options.includes('--sign') ? [] : ['--detach-sign'];
    const args = ['--faked-system-time', `${time}!`, '--armor', '--local-user', key, ...options, ...mode];
    return this.gpg(args, payload).toString();
  }

  gpgExport(...keys: readonly string[]): string {
    return this.gpg(['--export', '--armor', ...keys]).toString();
  }

  /** A revocation certificate: 0 no reason, 1 compromised, 2 superseded, 3 no longer used. */
  gpgRevocation(key: string, reason: number, made: string): string {
    const args = ['--no-tty', '--yes', '--pinentry-mode', 'loopback', '--passphrase', '', '--trust-model', 'always'];
    const time = ['--faked-system-time', `${made}!`, '--command-fd', '0', '--armor', '--gen-revoke', key];
    return this.run('gpg', [...args, ...time], `y\n${reason}\n\ny\n`).toString();
  }

  git(...args: readonly string[]): string {
    return this.run('git', args).toString().trim();
  }

  /** Packs objects into a bare repository, without a program per object. */
  storePack(repository: string, type: 'commit' | 'tag', objects: readonly Buffer[]): void {
    const entries = objects.map((bytes) => {
      const head = [((type === 'commit' ? 1 : 4) << 4) | (bytes.length & 15)];
      for (let left = bytes.length >> 4; left > 0; left >>= 7) {
        head[head.length - 1]! |= 0x80;
        head.push(left & 0x7f);
      }
      return Buffer.concat([Buffer.from(head), deflateSync(bytes)]);
    });
    const counts = Buffer.alloc(8);
    counts.writeUInt32BE(2, 0);
    counts.writeUInt32BE(objects.length, 4);
    const body = Buffer.concat([Buffer.from('PACK'), counts, ...entries]);
    const pack = Buffer.concat([body, createHash('sha1').update(body).digest()]);
    this.run('git', ['-C', repository, 'index-pack', '--stdin'], pack);
  }
}
