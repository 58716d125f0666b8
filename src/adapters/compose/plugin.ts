// Plugin: Docker Compose, called directly (the docker client would run it twice), with a clean environment and never an open
// standard input. It turns Compose's words into Faults; what to call it for is decided elsewhere.
import { access, constants, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { Fault, type FaultCode } from '../../core/fault.ts';
import type { ResolveInput, UpInput } from '../../ports/runtime.ts';
import { ProcessError } from '../process/process-error.ts';
import type { Run, RunOutput } from '../process/run.ts';
import { aborted } from './api-client.ts';
import { dockerConfigFolder, type Environment } from './host.ts';
import { refusal } from './refusal.ts';

export interface ComposeLimits {
  readonly resolveMs: number;
  /** When the caller's signal has not ended it before. */
  readonly upMs: number;
  readonly buildMs: number;
  readonly modelBytes: number;
}

export interface Compose {
  version(signal?: AbortSignal): Promise<string>;
  resolve(input: ResolveInput): Promise<string>;
  up(input: UpInput): Promise<void>;
  stop(input: Omit<UpInput, 'forceRecreate' | 'noStart'>): Promise<void>;
  build(input: Omit<UpInput, 'forceRecreate'>): Promise<void>;
  /** By label, in an empty folder; what is left must be looked for by the caller. */
  down(project: string, signal: AbortSignal): Promise<void>;
}

interface Program {
  readonly program: string;
  readonly leading: readonly string[];
  readonly hasBuildx: boolean;
}

const pluginFolders = [
  '/usr/local/lib/docker/cli-plugins',
  '/usr/local/libexec/docker/cli-plugins',
  '/usr/lib/docker/cli-plugins',
  '/usr/libexec/docker/cli-plugins',
];

// What a stack's variables may never decide: which engine, which files, which projects, how Compose behaves.
const reservedNames =
  /^(?:COMPOSE_.*|DOCKER_(?:HOST|CONFIG|CONTEXT|TLS|TLS_VERIFY|CERT_PATH|API_VERSION|BUILDKIT|DEFAULT_PLATFORM|CONTENT_TRUST.*)|BUILDX_.*|BUILDKIT_.*|PATH|HOME|LD_.*)$/;

const keptLines = 12;
/** Of what is wrong in a file; a circle of includes can be long. */
const keptWords = 1_000;
const keptBuildBytes = 256 * 1024;

export function openCompose(options: {
  readonly run: Run;
  readonly environment: Environment;
  readonly host: string;
  readonly limits: ComposeLimits;
}): Compose {
  const { run, environment, limits } = options;
  let found: Promise<Program> | null = null;

  // Looked for again after a failure: it may be installed meanwhile.
  async function program(): Promise<Program> {
    found ??= findProgram(environment);
    try {
      return await found;
    } catch (error) {
      found = null;
      throw error;
    }
  }

  /** Of a call on the services of a resolved model, which is read from the standard input. */
  const onModel = ({ project, projectDir }: Pick<UpInput, 'project' | 'projectDir'>): readonly string[] => [
    '-p',
    project,
    '--project-directory',
    projectDir,
    '-f',
    '-',
    '--profile',
    '*',
    '--progress',
    'json',
  ];
  const about = ({ projectDir, model, signal }: Pick<UpInput, 'projectDir' | 'model' | 'signal'>) => ({
    cwd: projectDir,
    env: environmentOf(model.environment),
    stdin: model.text,
    signal,
    failure: 'COMPOSE_FAILED' as const,
  });

  function environmentOf(variables: Readonly<Record<string, string>> = {}): Record<string, string> {
    const clean: Record<string, string> = {};
    for (const [name, value] of Object.entries(variables)) if (!reservedNames.test(name)) clean[name] = value;
    return {
      ...clean,
      PATH: environment['PATH'] ?? '/usr/local/bin:/usr/bin:/bin',
      HOME: environment['HOME'] ?? '/',
      DOCKER_HOST: options.host,
      DOCKER_CONFIG: dockerConfigFolder(environment),
      // Orphans are ours to judge; Compose's warning about them is noise.
      COMPOSE_IGNORE_ORPHANS: '1',
      ...(environment['DOCKER_TLS_VERIFY'] ? { DOCKER_TLS_VERIFY: environment['DOCKER_TLS_VERIFY'] } : {}),
      ...(environment['DOCKER_CERT_PATH'] ? { DOCKER_CERT_PATH: environment['DOCKER_CERT_PATH'] } : {}),
    };
  }

  async function call(input: {
    readonly args: readonly string[];
    readonly cwd: string;
    readonly env?: Readonly<Record<string, string>>;
    readonly stdin?: string;
    readonly deadlineMs: number;
    readonly signal: AbortSignal | undefined;
    readonly failure: FaultCode;
    /** Its standard output is told, not read: only the ends are kept. */
    readonly toldOnly?: boolean;
    readonly onLine?: (stream: 'stdout' | 'stderr', line: string) => void;
  }): Promise<RunOutput> {
    const { program: path, leading } = await program();
    try {
      return await run({
        program: path,
        args: [...leading, ...input.args],
        cwd: input.cwd,
        env: { ...environmentOf(), ...input.env },
        ...(input.stdin === undefined ? {} : { input: input.stdin }),
        deadlineMs: input.deadlineMs,
        signal: input.signal,
        ...(input.toldOnly
          ? { keepStdout: 'ends', maxOutputBytes: keptBuildBytes }
          : { maxOutputBytes: limits.modelBytes }),
        graceMs: 5_000,
        onLine: input.onLine,
      });
    } catch (error) {
      if (!(error instanceof ProcessError)) throw error;
      if (input.signal?.aborted) throw aborted(input.signal);
      switch (error.kind) {
        case 'missing':
        case 'refused':
          found = null;
          throw new Fault('COMPOSE_MISSING', `Docker Compose cannot be started: ${error.message}`, { cause: error });
        case 'deadline':
          throw new Fault('ENGINE_TIMEOUT', 'Docker Compose did not end in time and was stopped', {
            data: { lines: wordsOf(error.stderr).slice(-keptLines) },
            cause: error,
          });
        default:
          throw new Fault(input.failure, error.message, { cause: error });
      }
    }
  }

  return {
    async version(signal) {
      const output = await call({
        args: ['version', '--short'],
        cwd: '/',
        deadlineMs: limits.resolveMs,
        signal,
        failure: 'COMPOSE_MISSING',
      });
      const version = output.stdout.trim().replace(/^v/, '');
      if (output.exitCode !== 0 || version === '') throw failed(output, 'COMPOSE_MISSING');
      return version;
    },

    async resolve(input) {
      const folder = await mkdtemp(join(tmpdir(), 'windlass-resolve-'));
      try {
        const files = input.text === undefined ? [...input.files] : ['-'];
        // Labels of ours and nothing secret; Compose reads several files only by name.
        for (const [index, override] of (input.overrides ?? []).entries()) {
          const path = join(folder, `override-${index + 1}.json`);
          await writeFile(path, override, { mode: 0o600 });
          files.push(path);
        }
        const output = await call({
          args: [
            '-p',
            input.project,
            '--project-directory',
            input.directory,
            ...files.flatMap((file) => ['-f', file]),
            ...input.profiles.flatMap((profile) => ['--profile', profile]),
            'config',
            '--format',
            'json',
          ],
          cwd: input.directory,
          env: environmentOf(input.environment),
          ...(input.text === undefined ? {} : { stdin: input.text }),
          deadlineMs: limits.resolveMs,
          signal: input.signal,
          failure: 'COMPOSE_INVALID',
        });
        if (output.exitCode === 0) return output.stdout;
        throw failed(output, 'COMPOSE_INVALID', (line) => withoutFolders(line, folder, input.directory));
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },

    async up(input) {
      if (input.services.length === 0) return;
      const messages: string[] = [];
      const output = await call({
        ...about(input),
        args: [
          ...onModel(input),
          'up',
          ...(input.noStart ? ['--no-start'] : ['--detach']),
          '--no-deps',
          '--pull',
          'never',
          '--no-build',
          '--remove-orphans=false',
          ...(input.forceRecreate ? ['--force-recreate'] : input.noRecreate ? ['--no-recreate'] : []),
          '--',
          ...input.services,
        ],
        deadlineMs: limits.upMs,
        onLine: (_stream, line) => {
          const word = progressOf(line);
          if (word === null) return;
          messages.push(word.text);
          if (messages.length > keptLines) messages.shift();
          if (!word.isError) input.note?.(word.text);
        },
      });
      // Asked with its input closed, Compose takes "no" for an answer, goes on with the old volume and ends well.
      const question = /Volume "([^"]+)" exists but doesn't match configuration/.exec(output.stdout);
      if (question !== null) {
        throw new Fault('VOLUME_CHANGED', `the definition of volume ${question[1]} changed; it is left as it is`, {
          data: { volume: question[1] ?? '' },
        });
      }
      if (output.exitCode !== 0) throw failed(output, 'COMPOSE_FAILED');
    },

    async stop(input) {
      if (input.services.length === 0) return;
      const output = await call({
        ...about(input),
        args: [...onModel(input), 'stop', '--', ...input.services],
        deadlineMs: limits.upMs,
      });
      if (output.exitCode !== 0) throw failed(output, 'COMPOSE_FAILED');
    },

    async build(input) {
      if (input.services.length === 0) return;
      const { hasBuildx } = await program();
      const output = await call({
        args: [
          '-p',
          input.project,
          '--project-directory',
          input.projectDir,
          '-f',
          '-',
          '--profile',
          '*',
          '--progress',
          'plain',
          'build',
          '--',
          ...input.services,
        ],
        cwd: input.projectDir,
        // Without buildx only the engine's classic builder is there.
        ...(hasBuildx ? {} : { env: { DOCKER_BUILDKIT: '0' } }),
        stdin: input.model.text,
        deadlineMs: limits.buildMs,
        signal: input.signal,
        failure: 'BUILD_FAILED',
        toldOnly: true,
        onLine: (_stream, line) => {
          if (line.trim() !== '') input.note?.(line);
        },
      });
      if (output.exitCode !== 0) throw buildFailed(output);
    },

    async down(project, signal) {
      // In a folder with a Compose file only that file's services would go.
      const folder = await mkdtemp(join(tmpdir(), 'windlass-down-'));
      try {
        const output = await call({
          args: ['-p', project, '--progress', 'json', 'down'],
          cwd: folder,
          deadlineMs: limits.upMs,
          signal,
          failure: 'COMPOSE_FAILED',
        });
        if (output.exitCode !== 0) throw failed(output, 'COMPOSE_FAILED');
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}

async function findProgram(environment: Environment): Promise<Program> {
  const folders = [join(dockerConfigFolder(environment), 'cli-plugins'), ...pluginFolders];
  const find = async (name: string, where: readonly string[]): Promise<string | null> => {
    for (const folder of where) {
      const path = join(folder, name);
      if (await isExecutable(path)) return path;
    }
    return null;
  };
  const hasBuildx = (await find('docker-buildx', folders)) !== null;
  const plugin = await find('docker-compose', folders);
  if (plugin !== null) return { program: plugin, leading: [], hasBuildx };
  const searchPath = (environment['PATH'] ?? '/usr/local/bin:/usr/bin:/bin')
    .split(delimiter)
    .filter((folder) => folder !== '');
  const docker = await find('docker', searchPath);
  if (docker !== null) return { program: docker, leading: ['compose'], hasBuildx };
  throw new Fault('COMPOSE_MISSING', 'neither the Docker Compose plugin nor the docker client is installed', {
    data: { folders },
  });
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** One line of `--progress json`; null for what tells nothing. */
function progressOf(line: string): { readonly text: string; readonly isError: boolean } | null {
  if (line.trim() === '') return null;
  if (!line.startsWith('{')) return { text: line, isError: false };
  try {
    const event = JSON.parse(line) as Record<string, unknown>;
    if (event['error'] === true) return { text: String(event['message'] ?? ''), isError: true };
    if (event['level'] !== undefined) return { text: String(event['msg'] ?? ''), isError: false };
    if (event['id'] === undefined) return null;
    return { text: [event['id'], event['status'] ?? event['text']].filter(Boolean).join(' '), isError: false };
  } catch {
    return { text: line, isError: false };
  }
}

/** Compose's words without progress and warnings: what a person needs to see. */
function wordsOf(stderr: string, clean: (line: string) => string = (line) => line): string[] {
  const words: string[] = [];
  for (const line of stderr.split('\n')) {
    if (/^time="[^"]*" level=(?:warning|info|debug)/.test(line)) continue;
    const word = progressOf(line);
    if (word === null || (!word.isError && line.startsWith('{'))) continue;
    words.push(clean(word.text.trim()));
  }
  return words;
}

const clipped = (text: string): string => (text.length <= keptWords ? text : `${text.slice(0, keptWords - 1)}…`);

function failed(output: RunOutput, fallback: FaultCode, clean?: (line: string) => string): Fault {
  const words = wordsOf(output.stderr, clean);
  const data = { exitCode: output.exitCode, lines: words.slice(-keptLines) };
  // About a file it says what is wrong first, and with what in the lines below. In work the last line is the one that ended it.
  const said = fallback === 'COMPOSE_INVALID' ? clipped(words.filter((word) => word !== '').join(' ')) : words.at(-1);
  const last = said || `Docker Compose ended with exit code ${output.exitCode}`;
  const message = last.replace(/^Error response from daemon: /, '');
  // What is wrong in a file stays that, even where the words look like another trouble.
  return fallback === 'COMPOSE_INVALID' ? new Fault(fallback, message, { data }) : refusal(message, fallback, data);
}

function buildFailed(output: RunOutput): Fault {
  const words = `${output.stdout}\n${output.stderr}`
    .split('\n')
    .map((line) => line.trimEnd())
    .filter((line) => line !== '');
  const last =
    words.findLast((line) => /^(?:failed to|error|ERROR|The command)/i.test(line)) ??
    words.at(-1) ??
    'the build failed';
  const data = { exitCode: output.exitCode, lines: words.slice(-keptLines) };
  const unreachable = refusal(last, 'BUILD_FAILED', data);
  return unreachable.code === 'ENGINE_UNREACHABLE' ? unreachable : new Fault('BUILD_FAILED', last, { data });
}

function withoutFolders(line: string, overrides: string, directory: string): string {
  const withoutOverrides = line.replaceAll(`${overrides}/`, '').replaceAll(overrides, '.');
  if (directory === '/') return withoutOverrides;
  return withoutOverrides.replaceAll(`${directory.replace(/\/$/, '')}/`, '').replaceAll(directory, '.');
}
