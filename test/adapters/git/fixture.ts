// Real repositories for the tests of this folder, made by the git client; and a smart-http server over `git http-backend`.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect } from 'vitest';
import { RealClock } from '../../../src/adapters/clock/real-clock.ts';
import { DEFAULT_SOURCE_LIMITS, openSource, type SourceOptions } from '../../../src/adapters/git/repository.ts';
import { Fault } from '../../../src/core/fault.ts';
import type { Source } from '../../../src/ports/source.ts';

const environment = {
  PATH: process.env['PATH']!,
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.org',
  GIT_AUTHOR_DATE: '1700000000 +0100',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.org',
  GIT_COMMITTER_DATE: '1700000001 +0100',
  // Two programs fewer for each commit.
  ...{ GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'maintenance.auto', GIT_CONFIG_VALUE_0: 'false' },
};

export interface Bench {
  /** A fresh folder of this test. */
  readonly folder: string;
  readonly mirror: string;
  /** An empty repository in `folder`. */
  readonly repository: TestRepository;
  /** Opens a source, by default of `repository` into `mirror`; it is closed after the test. */
  openHere(more?: Parameters<typeof open>[2] & { url?: string; mirror?: string }): Source;
}

/** To be called once at the top of a test file: what it returns is new for every test. */
export function makeBench(): Bench {
  const root = mkdtempSync(join(tmpdir(), 'windlass-git-'));
  let count = 0;
  let opened: Source[] = [];
  let folder = '';
  let repository: TestRepository;
  beforeEach(() => {
    count += 1;
    folder = join(root, `case-${count}`);
    repository = new TestRepository(join(folder, 'fleet'));
  });
  afterEach(async () => {
    const sources = opened;
    opened = [];
    await Promise.all(sources.map((source) => source.close()));
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  return {
    get folder() {
      return folder;
    },
    get mirror() {
      return join(folder, 'mirrors', 'fleet.git');
    },
    get repository() {
      return repository;
    },
    openHere: ({ url = repository.path, mirror = join(folder, 'mirrors', 'fleet.git'), ...rest } = {}) => {
      const source = open(mirror, url, rest);
      opened.push(source);
      return source;
    },
  };
}

export class TestRepository {
  readonly path: string;

  constructor(path: string, options: readonly string[] = []) {
    this.path = path;
    mkdirSync(path, { recursive: true });
    this.git('init', '-q', '-b', 'main', ...options);
  }

  git(...args: string[]): string {
    return this.gitWith('', ...args);
  }

  gitWith(input: string | Uint8Array, ...args: string[]): string {
    return execFileSync('git', ['-C', this.path, ...args], {
      input,
      env: environment,
      encoding: 'utf8',
      stdio: ['pipe', 'pipe', 'pipe'],
      maxBuffer: 256 * 1024 * 1024,
    }).trim();
  }

  write(files: Readonly<Record<string, string | Uint8Array>>): void {
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(this.path, path)), { recursive: true });
      writeFileSync(join(this.path, path), content);
    }
  }

  commit(message: string, files: Readonly<Record<string, string | Uint8Array>> = {}): string {
    this.write(files);
    this.git('add', '-A');
    this.git('commit', '-q', '--allow-empty', '-m', message);
    return this.git('rev-parse', 'HEAD');
  }

  /** Stores bytes as an object without any check, and returns its id. */
  store(type: 'tree' | 'commit' | 'tag', bytes: Uint8Array | string): string {
    return this.gitWith(bytes, 'hash-object', '-t', type, '-w', '--stdin', '--literally');
  }

  setMain(commit: string): void {
    this.git('update-ref', 'refs/heads/main', commit);
  }
}

/** A tree object out of its entries, in the order given. */
export function treeBytes(
  entries: readonly (readonly [mode: string, name: string | Uint8Array, oid: string])[],
): Buffer {
  return Buffer.concat(
    entries.flatMap(([mode, name, oid]) => [
      Buffer.from(`${mode} `),
      Buffer.from(name),
      Buffer.of(0),
      Buffer.from(oid, 'hex'),
    ]),
  );
}

export function commitBytes(
  tree: string,
  parents: readonly string[] = [],
  more: { author?: string; message?: string } = {},
): string {
  const author = more.author ?? 'Ada <ada@example.org> 1700000000 +0100';
  return [
    `tree ${tree}`,
    ...parents.map((parent) => `parent ${parent}`),
    `author ${author}`,
    'committer Ada <ada@example.org> 1700000001 +0100',
    '',
    more.message ?? 'by hand\n',
  ].join('\n');
}

export function open(mirrorDir: string, url: string, more: Partial<SourceOptions> & { ref?: string } = {}): Source {
  const { ref = 'main', ...options } = more;
  return openSource({
    spec: { name: 'fleet', url, ref },
    mirrorDir,
    clock: new RealClock(),
    limits: { ...DEFAULT_SOURCE_LIMITS, fetchMs: 20_000 },
    ...options,
  });
}

export async function faultOf(work: Promise<unknown> | (() => unknown)): Promise<Fault> {
  const error = await (typeof work === 'function' ? Promise.try(work) : work).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(Fault);
  return error as Fault;
}

export interface HttpOptions {
  /** The value that the Authorization header must have. */
  readonly authorization?: string;
  /** Holds every answer back until it is resolved. */
  readonly hold?: Promise<void>;
  readonly redirectTo?: string;
}

export interface GitServer {
  readonly url: string;
  readonly requests: readonly { readonly url: string; readonly authorization: string | undefined }[];
  options: HttpOptions;
  close(): Promise<void>;
}

/** Serves the repositories below `root` on the loopback interface. */
export async function serve(root: string): Promise<GitServer> {
  const requests: { url: string; authorization: string | undefined }[] = [];
  const state: { options: HttpOptions } = { options: {} };
  const server: Server = createServer(async (request, response) => {
    const { authorization } = request.headers;
    requests.push({ url: request.url!, authorization });
    const { options } = state;
    await options.hold;
    if (options.redirectTo !== undefined) {
      response.writeHead(302, { Location: options.redirectTo + request.url! }).end();
      return;
    }
    if (options.authorization !== undefined && authorization !== options.authorization) {
      response.writeHead(401, { 'WWW-Authenticate': 'Basic realm="test"' }).end();
      return;
    }
    const url = new URL(request.url!, 'http://localhost');
    const backend = spawn('git', ['http-backend'], {
      env: {
        ...environment,
        GIT_PROJECT_ROOT: root,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: decodeURIComponent(url.pathname),
        QUERY_STRING: url.search.slice(1),
        REQUEST_METHOD: request.method!,
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
        REMOTE_ADDR: '127.0.0.1',
      },
    });
    request.pipe(backend.stdin);
    backend.stdin.on('error', () => {});
    let head: Buffer | null = Buffer.alloc(0);
    backend.stdout.on('data', (chunk: Buffer) => {
      if (head === null) return void response.write(chunk);
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) return;
      const headers = head
        .toString('latin1', 0, end)
        .split('\r\n')
        .map((line) => line.split(': ') as [string, string]);
      const status = headers.find(([name]) => name === 'Status')?.[1] ?? '200';
      response.writeHead(
        Number.parseInt(status, 10),
        Object.fromEntries(headers.filter(([name]) => name !== 'Status')),
      );
      response.write(head.subarray(end + 4));
      head = null;
    });
    backend.stdout.on('end', () => response.end());
    response.on('close', () => backend.kill());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    get options() {
      return state.options;
    },
    set options(options: HttpOptions) {
      state.options = options;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
