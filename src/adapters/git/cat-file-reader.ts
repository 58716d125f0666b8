// Reads objects through one long-lived `git cat-file --batch`, many times quicker than in process. The child is started
// at the first read, given ids only, ended when idle, and started again when it dies.
import { Fault } from '../../core/fault.ts';
import type { Programs, StreamedChild } from '../process/run.ts';
import { gitEnvironment, mirrorArguments } from './git-command.ts';
import {
  checkedObject,
  type GitObject,
  missingObject,
  type ObjectReader,
  requireOid,
  tooLargeObject,
} from './object-reader.ts';

const IDLE_MS = 30_000;
/** A read that takes longer is a disk that hangs. */
const ANSWER_MS = 60_000;
/** Too large an object up to here is skipped; beyond, ending the child is cheaper than reading past it. */
const SKIP_BYTES = 32 * 1024 * 1024;
const MAX_HEADER_LENGTH = 200;

interface Question {
  readonly oid: string;
  readonly maxBytes: number;
  readonly resolve: (object: GitObject) => void;
  readonly reject: (error: unknown) => void;
  /** Asked again once when the child dies under it. */
  asked: number;
}

interface Session {
  readonly parser: AnswerParser;
  readonly child: Promise<StreamedChild>;
}

export class CatFileReader implements ObjectReader {
  readonly #mirrorDir: string;
  readonly #programs: Pick<Programs, 'spawnStream'>;
  #session: Session | null = null;
  #waiting: Question[] = [];
  #idle: NodeJS.Timeout | undefined;
  #answer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(mirrorDir: string, programs: Pick<Programs, 'spawnStream'>) {
    this.#mirrorDir = mirrorDir;
    this.#programs = programs;
  }

  read(oid: string, maxBytes: number): Promise<GitObject> {
    requireOid(oid);
    if (this.#closed) return Promise.reject(new Error('the reader is closed'));
    return new Promise((resolve, reject) => this.#ask({ oid, maxBytes, resolve, reject, asked: 0 }));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#stop();
  }

  #ask(question: Question): void {
    question.asked += 1;
    clearTimeout(this.#idle);
    this.#session ??= this.#start();
    const session = this.#session;
    session.child.then(
      (child) => {
        // The child ended between: this question was not yet among those that are asked anew.
        if (this.#session !== session) return this.#again(question);
        this.#waiting.push(question);
        session.parser.expect(question.maxBytes);
        if (this.#waiting.length === 1) this.#watch();
        child.stdin.write(`${question.oid}\n`);
      },
      (error: unknown) => {
        if (this.#session === session) this.#session = null;
        question.reject(error);
      },
    );
  }

  #again(question: Question): void {
    if (this.#closed || question.asked > 2) {
      question.reject(new Fault('GIT_UNREACHABLE', `git ended while it read object ${question.oid}`));
    } else {
      this.#ask(question);
    }
  }

  #start(): Session {
    const parser = new AnswerParser(
      (answer) => this.#settle(answer),
      () => void this.#stop(),
    );
    const session: Session = { parser, child: this.#spawn(parser) };
    const lose = (): void => {
      if (this.#session === session) this.#lose();
    };
    session.child.then(
      (child) => child.exited.then(lose),
      () => {},
    );
    return session;
  }

  async #spawn(parser: AnswerParser): Promise<StreamedChild> {
    const child = await this.#programs.spawnStream({
      program: 'git',
      args: [...mirrorArguments(this.#mirrorDir), 'cat-file', '--batch'],
      cwd: this.#mirrorDir,
      env: gitEnvironment(this.#mirrorDir),
      graceMs: 500,
    });
    child.stdout.on('data', (chunk: Buffer) => parser.write(chunk));
    child.stdout.resume();
    return child;
  }

  #settle(answer: Answer): void {
    const question = this.#waiting.shift();
    this.#watch();
    if (question === undefined) return void this.#stop();
    try {
      if (answer.kind === 'missing') throw missingObject(question.oid);
      if (answer.kind === 'too-large') throw tooLargeObject(question.oid, answer.sizeBytes, question.maxBytes);
      question.resolve(checkedObject(question.oid, answer.type, answer.bytes));
    } catch (error) {
      question.reject(error);
    }
  }

  /** Either an answer is due, or the child may rest. */
  #watch(): void {
    clearTimeout(this.#answer);
    clearTimeout(this.#idle);
    if (this.#waiting.length > 0) this.#answer = setTimeout(() => void this.#stop(), ANSWER_MS).unref();
    else this.#idle = setTimeout(() => void this.#stop(), IDLE_MS).unref();
  }

  async #stop(): Promise<void> {
    const session = this.#session;
    if (session === null) return;
    this.#lose();
    const child = await session.child.catch(() => null);
    // It ends by itself at the end of its input; a kill is for the one that hangs.
    child?.stdin.end();
    await child?.kill();
  }

  #lose(): void {
    clearTimeout(this.#answer);
    clearTimeout(this.#idle);
    this.#session = null;
    const lost = this.#waiting;
    this.#waiting = [];
    for (const question of lost) this.#again(question);
  }
}

type Answer =
  | { readonly kind: 'object'; readonly type: string; readonly bytes: Uint8Array }
  | { readonly kind: 'missing' }
  | { readonly kind: 'too-large'; readonly sizeBytes: number };

/** Cuts the stream into answers: `oid SP type SP size LF bytes LF`, or `oid SP missing LF`. */
class AnswerParser {
  readonly #onAnswer: (answer: Answer) => void;
  readonly #onNonsense: () => void;
  readonly #limits: number[] = [];
  #header = '';
  #type = '';
  #parts: Buffer[] = [];
  /** Bytes of the body and its LF that are still to come; -1 while in a header. */
  #due = -1;
  #skipping = false;
  #dead = false;

  constructor(onAnswer: (answer: Answer) => void, onNonsense: () => void) {
    this.#onAnswer = onAnswer;
    this.#onNonsense = onNonsense;
  }

  expect(maxBytes: number): void {
    this.#limits.push(maxBytes);
  }

  write(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && !this.#dead) {
      at = this.#due < 0 ? this.#readHeader(chunk, at) : this.#readBody(chunk, at);
    }
  }

  #readHeader(chunk: Buffer, at: number): number {
    const end = chunk.indexOf(0x0a, at);
    this.#header += chunk.toString('latin1', at, end < 0 ? chunk.length : end);
    if (this.#header.length > MAX_HEADER_LENGTH) {
      this.#giveUp();
      return chunk.length;
    }
    if (end < 0) return chunk.length;
    this.#takeHeader();
    return end + 1;
  }

  #takeHeader(): void {
    const [, type = '', size = ''] = this.#header.split(' ');
    this.#header = '';
    const maxBytes = this.#limits.shift() ?? 0;
    if (type === 'missing') {
      this.#onAnswer({ kind: 'missing' });
      return;
    }
    if (!/^\d{1,15}$/.test(size)) {
      this.#giveUp();
      return;
    }
    const sizeBytes = Number(size);
    this.#type = type;
    this.#due = sizeBytes + 1;
    this.#skipping = sizeBytes > maxBytes;
    if (!this.#skipping) return;
    this.#onAnswer({ kind: 'too-large', sizeBytes });
    if (sizeBytes > SKIP_BYTES) this.#giveUp();
  }

  #readBody(chunk: Buffer, at: number): number {
    const part = chunk.subarray(at, at + this.#due);
    this.#due -= part.length;
    if (!this.#skipping) this.#parts.push(part);
    if (this.#due > 0) return chunk.length;
    this.#due = -1;
    if (!this.#skipping) {
      const whole = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
      // A copy: a small blob must not keep the whole chunk of the pipe in memory.
      const bytes = Uint8Array.prototype.slice.call(whole, 0, whole.length - 1);
      this.#parts = [];
      this.#onAnswer({ kind: 'object', type: this.#type, bytes });
    }
    return at + part.length;
  }

  #giveUp(): void {
    this.#dead = true;
    this.#parts = [];
    this.#onNonsense();
  }
}
