// SFTP link: one connection to an SFTP server, made when it is needed and left when it rests. Each call has a deadline; a server whose key is
// not known beforehand is not talked to.
import type { Client, ConnectConfig, SFTPWrapper } from 'ssh2';
import { asFault, Fault } from '../../core/fault.ts';
import { Passing, withDeadline } from './remote-attempt.ts';
import { fingerprintOf, type HostKeys } from './sftp-host-key.ts';

const REST_MS = 30_000;
const KEEPALIVE_MS = 15_000;

export interface SftpLogin {
  readonly privateKey?: string;
  readonly passphrase?: string;
  readonly password?: string;
}

export interface SftpPlace {
  readonly host: string;
  readonly port: number;
  readonly username: string;
  /** Of the store; relative to the home folder unless it begins with `/`. */
  readonly path: string;
  /** Read at each connection. */
  readonly hostKeys: () => Promise<HostKeys>;
  readonly login: () => Promise<SftpLogin>;
}

/** What the server answered; numbers as in the draft of SFTP version 3. */
export class SftpRefusal extends Error {
  override readonly name = 'SftpRefusal';
  readonly status: number;
  constructor(status: number, said: string) {
    super(said);
    this.status = status;
  }
}

export const SFTP_STATUS = { eof: 1, noSuchFile: 2, denied: 3, failure: 4, unsupported: 8 } as const;

interface Session {
  readonly client: Client;
  readonly sftp: SFTPWrapper;
  /** Calls without an answer yet. */
  readonly waiting: Set<(error: Error) => void>;
  ended: Error | null;
}

/** Of an open file. It means something within its own connection only: in the next one the same words may name another file. */
export interface SftpHandle {
  readonly raw: Buffer;
  readonly session: object;
}

/** Of a pinned key, whose type its fingerprint does not tell: everything but signatures by SHA-1. */
const STRONG_TYPES: readonly string[] = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'rsa-sha2-512',
  'rsa-sha2-256',
];

type Ask<T> = (sftp: SFTPWrapper, done: (error: Error | null | undefined, value?: T) => void) => void;

export class SftpLink {
  readonly #place: SftpPlace;
  readonly #deadlineMs: number;
  #session: Promise<Session> | null = null;
  #rest: NodeJS.Timeout | null = null;
  #calls = 0;

  constructor(place: SftpPlace, deadlineMs: number) {
    this.#place = place;
    this.#deadlineMs = deadlineMs;
  }

  /** Throws Passing for what may pass, SftpRefusal for what the server refused, Faults. */
  async ask<T>(ask: Ask<T>, signal?: AbortSignal): Promise<T> {
    return await this.#counted(async () => this.#askIn(await this.#open(signal), ask, signal));
  }

  async open(path: string, flags: 'r' | 'wx', mode: number, signal?: AbortSignal): Promise<SftpHandle> {
    return await this.#handle((sftp, done) => sftp.open(path, flags, { mode }, done as never), signal);
  }

  async openFolder(path: string): Promise<SftpHandle> {
    return await this.#handle((sftp, done) => sftp.opendir(path, done as never), undefined);
  }

  async #handle(ask: Ask<Buffer>, signal: AbortSignal | undefined): Promise<SftpHandle> {
    return await this.#counted(async () => {
      const session = await this.#open(signal);
      return { raw: await this.#askIn(session, ask, signal), session };
    });
  }

  /** Throws Passing when the connection of the handle has ended. */
  async askOf<T>(
    handle: SftpHandle,
    ask: (sftp: SFTPWrapper, raw: Buffer, done: (error: Error | null | undefined, value?: T) => void) => void,
    signal?: AbortSignal,
  ): Promise<T> {
    const session = handle.session as Session;
    return await this.#counted(() => this.#askIn<T>(session, (sftp, done) => ask(sftp, handle.raw, done), signal));
  }

  async #askIn<T>(session: Session, ask: Ask<T>, signal: AbortSignal | undefined): Promise<T> {
    return await withDeadline(this.#deadlineMs, signal, (own) => {
      own.addEventListener('abort', () => {
        // Silent for too long, it is given up as a whole. Who only called it off leaves it to the others.
        if (own.reason instanceof Passing) this.#end(session, own.reason);
      });
      return askIn(session, ask);
    });
  }

  async #counted<T>(work: () => Promise<T>): Promise<T> {
    this.#calls += 1;
    if (this.#rest !== null) clearTimeout(this.#rest);
    this.#rest = null;
    try {
      return await work();
    } finally {
      this.#calls -= 1;
      if (this.#calls === 0 && this.#session !== null)
        this.#rest = setTimeout(() => void this.close(), REST_MS).unref();
    }
  }

  async close(): Promise<void> {
    if (this.#rest !== null) clearTimeout(this.#rest);
    this.#rest = null;
    const session = await this.#session?.catch(() => null);
    this.#session = null;
    if (session) this.#end(session, new Passing('the connection was closed'));
  }

  async #open(signal: AbortSignal | undefined): Promise<Session> {
    const before = this.#session;
    const known = await before?.catch(() => null);
    if (known?.ended === null) return known;
    if (this.#session === before) this.#session = null;
    const opening = this.#session ?? this.#connect();
    this.#session = opening;
    opening.catch(() => {
      if (this.#session === opening) this.#session = null;
    });
    return await withDeadline(this.#deadlineMs, signal, () => opening);
  }

  #end(session: Session, why: Error): void {
    session.ended ??= why;
    session.client.end();
    session.client.destroy();
    for (const refuse of session.waiting) refuse(why);
    session.waiting.clear();
  }

  async #connect(): Promise<Session> {
    const { host, port, username } = this.#place;
    const { default: ssh2 } = await import('ssh2');
    const keys = await this.#place.hostKeys();
    const login = await this.#place.login();
    const client = new ssh2.Client();
    const shown = `${host}:${port}`;
    let strange: string | null = null;
    const types = keys.types ?? STRONG_TYPES;
    const seconds = (2 * this.#deadlineMs) / 1000;
    return await new Promise<Session>((resolve, reject) => {
      let session: Session | null = null;
      // A server that lets us in and offers nothing, while it answers to our signs of life, would be waited for by every later call.
      const late = setTimeout(() => fail(new Passing(`no SFTP within ${seconds} s`)), 2 * this.#deadlineMs);
      const fail = (error: Error): void => {
        clearTimeout(late);
        if (session !== null) this.#end(session, asPassing(error));
        else {
          client.destroy();
          reject(asConnectFault(error, shown, strange));
        }
      };
      client.on('error', fail);
      client.on('close', () => fail(new Error('the connection was closed by the server')));
      client.on('ready', () => {
        // Calls are small, and each waits for its answer.
        client.setNoDelay(true);
        client.sftp((error, sftp) => {
          if (error)
            return fail(new Fault('ARCHIVE_DENIED', `${shown} offers no SFTP: ${error.message}`, { cause: error }));
          clearTimeout(late);
          session = { client, sftp, waiting: new Set(), ended: null };
          sftp.on('error', fail);
          resolve(session);
        });
      });
      const config: ConnectConfig = {
        host,
        port,
        username,
        ...login,
        readyTimeout: this.#deadlineMs,
        keepaliveInterval: KEEPALIVE_MS,
        keepaliveCountMax: 4,
        algorithms: { serverHostKey: types as never },
        hostVerifier: (key: Buffer) => {
          if (keys.isKnown(key)) return true;
          strange = fingerprintOf(key);
          return false;
        },
      };
      try {
        client.connect(config);
      } catch (error) {
        // Of what it was given, such as a key in a format of its own.
        fail(error as Error);
      }
    });
  }
}

function askIn<T>(session: Session, ask: Ask<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (session.ended !== null) return reject(session.ended);
    const refuse = (error: Error): void => {
      session.waiting.delete(refuse);
      reject(error);
    };
    session.waiting.add(refuse);
    try {
      ask(session.sftp, (error, value) => {
        if (error) return refuse(asAnswer(error));
        session.waiting.delete(refuse);
        resolve(value as T);
      });
    } catch (error) {
      // What the server did not offer is refused before it is sent.
      refuse(new SftpRefusal(SFTP_STATUS.unsupported, (error as Error).message));
    }
  });
}

function asAnswer(error: Error): Error {
  const { code } = error as { code?: unknown };
  // 6 and 7: no connection, connection lost.
  if (typeof code === 'number' && code !== 6 && code !== 7)
    return new SftpRefusal(code, error.message.replace(/[^\x20-\x7e]+/g, ' ').slice(0, 200));
  return asPassing(error);
}

const asPassing = (error: Error): Error =>
  error instanceof Fault || error instanceof Passing ? error : new Passing(error.message, { cause: error });

function asConnectFault(error: Error, shown: string, strange: string | null): Error {
  if (error instanceof Fault || error instanceof Passing) return error;
  if (strange !== null)
    return new Fault('ARCHIVE_DENIED', `${shown} shows another host key than the known one: ${strange}`, {
      data: { fingerprint: strange },
    });
  const { level } = error as { level?: string };
  if (level === 'client-authentication')
    return new Fault('ARCHIVE_DENIED', `${shown} takes neither the key nor the password`, { cause: error });
  if (/host key format|Cannot parse privateKey|passphrase/i.test(error.message))
    return new Fault(
      'ARCHIVE_DENIED',
      /host key/i.test(error.message)
        ? `${shown} shows no host key of a kind that is known of it`
        : 'the SSH key of the store cannot be opened: another format, or another passphrase',
    );
  return level === undefined || level.startsWith('client') || level === 'protocol' || level === 'handshake'
    ? new Passing(error.message, { cause: error })
    : asFault(error, 'ARCHIVE_FAILED');
}
