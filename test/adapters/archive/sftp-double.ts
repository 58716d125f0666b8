// SFTP double: the server side of SSH and SFTP over a scratch folder, on loopback. `behave` lets a call fail as servers do.
import { createHash, timingSafeEqual } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  type Stats,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import ssh2, { type Connection, type SFTPWrapper } from 'ssh2';

export const USER = 'backup';
export const PASSWORD = 'a password of the double';

const { OPEN_MODE, STATUS_CODE } = ssh2.utils.sftp;

export interface SftpCall {
  readonly name: string;
  readonly path: string;
  /** Calls of this name, from 1. */
  readonly nth: number;
}

/** `nothing`: a list of no names, which is not its end. */
export type SftpBehaviour = { readonly status: number } | 'cut' | 'hang' | 'nothing' | null;

export class SftpDouble {
  readonly calls: SftpCall[] = [];
  behave: (call: SftpCall) => SftpBehaviour = () => null;
  /** Else nothing is answered to who asks for it. */
  offersSftp = true;
  connections = 0;
  readonly hostKey: Buffer;
  readonly clientKey: string;
  readonly #open = new Set<Connection>();
  readonly #server: ssh2.Server;
  readonly #counts = new Map<string, number>();
  #folder = '';

  private constructor() {
    const host = keyPair();
    const client = keyPair();
    this.hostKey = host.parsed.getPublicSSH();
    this.clientKey = client.pem;
    this.#server = new ssh2.Server({ hostKeys: [host.pem] }, (connection) => {
      this.connections += 1;
      this.#open.add(connection);
      connection.on('error', () => {});
      connection.on('close', () => this.#open.delete(connection));
      connection.on('authentication', (context) => {
        if (context.username !== USER) return context.reject();
        if (context.method === 'password' && sameText(context.password, PASSWORD)) return context.accept();
        if (context.method !== 'publickey') return context.reject(['publickey', 'password']);
        if (!context.key.data.equals(client.parsed.getPublicSSH())) return context.reject();
        const isRight =
          !context.signature ||
          client.parsed.verify(context.blob as Buffer, context.signature, context.hashAlgo) === true;
        return isRight ? context.accept() : context.reject();
      });
      (connection as unknown as { setNoDelay(isOn: boolean): void }).setNoDelay(true);
      connection.on('ready', () =>
        connection.on('session', (accept) =>
          accept().on('sftp', (take) => void (this.offersSftp && this.#serve(connection, take()))),
        ),
      );
    });
  }

  static async start(): Promise<SftpDouble> {
    const double = new SftpDouble();
    double.#folder = await mkdtemp(join(tmpdir(), 'wl-sftp-'));
    await new Promise<void>((resolve) => double.#server.listen(0, '127.0.0.1', resolve));
    return double;
  }

  calm(): void {
    this.behave = () => null;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get fingerprint(): string {
    return `SHA256:${createHash('sha256').update(this.hostKey).digest('base64').replace(/=+$/, '')}`;
  }

  /** On this machine. */
  pathOf(remote: string): string {
    return join(this.#folder, remote);
  }

  cutAll(): void {
    for (const connection of this.#open) connection.end();
  }

  async stop(): Promise<void> {
    this.cutAll();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await rm(this.#folder, { recursive: true, force: true });
  }

  #serve(connection: Connection, sftp: SFTPWrapper): void {
    const handles = new Map<number, { readonly fd: number } | { readonly path: string; isRead: boolean }>();
    let next = 0;
    const of = (handle: Buffer) => handles.get(handle.readUInt32BE(0));
    const give = (what: { readonly fd: number } | { readonly path: string; isRead: boolean }): Buffer => {
      const handle = Buffer.alloc(4);
      handle.writeUInt32BE(next, 0);
      handles.set(next++, what);
      return handle;
    };
    const serve = (name: string, path: string, id: number, work: () => void): void => {
      const nth = (this.#counts.get(name) ?? 0) + 1;
      this.#counts.set(name, nth);
      const call = { name, path, nth };
      this.calls.push(call);
      const how = this.behave(call);
      if (how === 'hang') return;
      try {
        if (how === 'cut') connection.end();
        else if (how === 'nothing') sftp.name(id, [] as never);
        else if (how !== null) sftp.status(id, how.status);
        else work();
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        sftp.status(
          id,
          code === 'ENOENT'
            ? STATUS_CODE.NO_SUCH_FILE
            : code === 'EACCES' || code === 'EPERM'
              ? STATUS_CODE.PERMISSION_DENIED
              : STATUS_CODE.FAILURE,
        );
      }
    };
    const local = (path: string): string => this.pathOf(path);
    sftp.on('OPEN', (id, path, flags) =>
      serve('OPEN', path, id, () => {
        const isNew = (flags & OPEN_MODE.EXCL) !== 0;
        sftp.handle(
          id,
          give({ fd: openSync(local(path), (flags & OPEN_MODE.WRITE) === 0 ? 'r' : isNew ? 'wx' : 'w') }),
        );
      }),
    );
    sftp.on('WRITE', (id, handle, at, data) =>
      serve('WRITE', '', id, () => {
        const known = of(handle);
        if (!known || !('fd' in known)) return sftp.status(id, STATUS_CODE.FAILURE);
        writeSync(known.fd, data, 0, data.length, at);
        sftp.status(id, STATUS_CODE.OK);
      }),
    );
    sftp.on('READ', (id, handle, at, length) =>
      serve('READ', '', id, () => {
        const known = of(handle);
        if (!known || !('fd' in known)) return sftp.status(id, STATUS_CODE.FAILURE);
        // As servers may, less than was asked for.
        const data = Buffer.alloc(Math.min(length, 20_000));
        const count = readSync(known.fd, data, 0, data.length, at);
        if (count === 0) sftp.status(id, STATUS_CODE.EOF);
        else sftp.data(id, data.subarray(0, count));
      }),
    );
    sftp.on('CLOSE', (id, handle) =>
      serve('CLOSE', '', id, () => {
        const known = of(handle);
        if (known && 'fd' in known) closeSync(known.fd);
        handles.delete(handle.readUInt32BE(0));
        sftp.status(id, STATUS_CODE.OK);
      }),
    );
    sftp.on('OPENDIR', (id, path) =>
      serve('OPENDIR', path, id, () => {
        readdirSync(local(path));
        sftp.handle(id, give({ path, isRead: false }));
      }),
    );
    sftp.on('READDIR', (id, handle) =>
      serve('READDIR', '', id, () => {
        const known = of(handle);
        if (!known || 'fd' in known) return sftp.status(id, STATUS_CODE.FAILURE);
        if (known.isRead) return sftp.status(id, STATUS_CODE.EOF);
        known.isRead = true;
        const names = readdirSync(local(known.path)).flatMap((filename) => {
          try {
            const attrs = attrsOf(lstatSync(join(local(known.path), filename)));
            return [{ filename, longname: filename, attrs }];
          } catch {
            return [];
          }
        });
        if (names.length === 0) sftp.status(id, STATUS_CODE.EOF);
        else sftp.name(id, names as never);
      }),
    );
    sftp.on('LSTAT', (id, path) => serve('LSTAT', path, id, () => sftp.attrs(id, attrsOf(lstatSync(local(path))))));
    sftp.on('STAT', (id, path) => serve('STAT', path, id, () => sftp.attrs(id, attrsOf(statSync(local(path))))));
    sftp.on('FSTAT', (id, handle) =>
      serve('FSTAT', '', id, () => {
        const known = of(handle);
        if (known && 'fd' in known) sftp.attrs(id, attrsOf(fstatSync(known.fd)));
        else sftp.status(id, STATUS_CODE.FAILURE);
      }),
    );
    sftp.on('MKDIR', (id, path) =>
      serve('MKDIR', path, id, () => {
        mkdirSync(local(path));
        sftp.status(id, STATUS_CODE.OK);
      }),
    );
    sftp.on('REMOVE', (id, path) =>
      serve('REMOVE', path, id, () => {
        unlinkSync(local(path));
        sftp.status(id, STATUS_CODE.OK);
      }),
    );
    sftp.on('RENAME', (id, from, to) =>
      serve('RENAME', to, id, () => {
        // Version 3 renames over nothing that is there.
        if (statSync(local(to), { throwIfNoEntry: false })) return sftp.status(id, STATUS_CODE.FAILURE);
        renameSync(local(from), local(to));
        sftp.status(id, STATUS_CODE.OK);
      }),
    );
  }
}

function keyPair() {
  // About one key of some hundreds that ssh2 makes it cannot read itself.
  for (let tries = 1; ; tries++) {
    const pem = ssh2.utils.generateKeyPairSync('ed25519').private;
    const parsed = ssh2.utils.parseKey(pem);
    if (!(parsed instanceof Error)) return { pem, parsed };
    if (tries === 5) throw parsed;
  }
}

const attrsOf = ({ mode, uid, gid, size, atimeMs, mtimeMs }: Stats) => ({
  mode,
  uid,
  gid,
  size,
  atime: Math.floor(atimeMs / 1000),
  mtime: Math.floor(mtimeMs / 1000),
});

const sameText = (a: string, b: string): boolean =>
  a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
