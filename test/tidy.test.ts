// The walls of the house, checked on the code itself: who may import whom, what the core may not do, where programs may start.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FAULTS } from '../src/core/fault.ts';

const ROOT = resolve(import.meta.dirname, '..');
const SRC = join(ROOT, 'src');

/** Room → what of ours it may import. `*` = all. */
const MAY: Record<string, readonly string[]> = {
  core: ['core'],
  ports: ['core', 'ports'],
  adapters: ['core', 'ports', 'adapters'],
  engine: ['core', 'ports', 'engine'],
  refs: ['core', 'ports', 'refs'],
  hooks: ['core', 'ports', 'refs', 'hooks'],
  operations: ['core', 'ports', 'engine', 'refs', 'operations'],
  // Hooks fire on operations, never on primitives: one door.
  'operations/steps/run-hook.ts': ['core', 'ports', 'engine', 'refs', 'hooks', 'operations'],
  controller: ['core', 'ports', 'operations', 'controller', 'engine/observer.ts'],
  surface: ['core', 'ports', 'operations', 'controller', 'engine'],
  cli: ['core', 'surface', 'cli', 'engine/observer.ts', 'engine/observers', 'engine/pipeline.ts', 'engine/digest.ts'],
  settings: ['core', 'cli/command.ts', 'wire'],
  wire: ['*'],
  main: ['*'],
};

/** Libraries that only one room may know. */
const CONFINED: Record<string, readonly string[]> = {
  execa: ['adapters/process'],
  xstate: ['hooks'],
  'isomorphic-git': ['adapters/git'],
  chokidar: ['controller/watch'],
  ajv: ['core/spec', 'core/archive'],
  typebox: ['core/spec', 'core/archive'],
  'minijinja-js': ['core/render'],
  openpgp: ['core/state/trust'],
  'age-encryption': ['adapters/vault'],
  aws4fetch: ['adapters/archive'],
  ssh2: ['adapters/archive'],
  'node:sqlite': ['adapters/journal', 'adapters/vault', 'adapters/archive'],
  'node:child_process': ['adapters/process'],
};

/** Files that are entered from outside the import graph. */
const ENTRIES = new Set(['main.ts']);

function filesBelow(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesBelow(path) : path.endsWith('.ts') ? [path] : [];
  });
}

interface Import {
  readonly file: string;
  readonly line: number;
  readonly target: string;
  readonly typeOnly: boolean;
}

const FILES = filesBelow(SRC);
const TEXTS = new Map(FILES.map((file) => [file, readFileSync(file, 'utf8')]));

function importsOf(file: string): Import[] {
  const text = TEXTS.get(file)!;
  const found: Import[] = [];
  for (const match of text.matchAll(
    /(import|export)\s+(type\s+)?(?:[\w*{}\s,]+?\sfrom\s+)?'([^']+)'|import\(\s*'([^']+)'\s*\)/g,
  )) {
    const target = match[3] ?? match[4]!;
    if (match[1] === 'export' && !match[0].includes(' from ')) continue;
    found.push({
      file,
      line: text.slice(0, match.index).split('\n').length,
      target,
      typeOnly: match[2] !== undefined,
    });
  }
  return found;
}

const inSrc = (path: string): string => relative(SRC, path);
const roomOf = (path: string): string => inSrc(path).split('/')[0]!.replace(/\.ts$/, '');
const at = (found: Import): string => `src/${inSrc(found.file)}:${found.line}`;
const ALL = FILES.flatMap(importsOf);
const OURS = ALL.filter((one) => one.target.startsWith('.')).map((one) => ({
  ...one,
  path: resolve(dirname(one.file), one.target),
}));

describe('the house', () => {
  it('imports only along the arrows of the table', () => {
    const breaches = OURS.filter((one) => {
      const allowed = MAY[inSrc(one.file)] ?? MAY[roomOf(one.file)];
      if (!allowed) return true;
      const target = inSrc(one.path);
      return !allowed.some(
        (name) => name === '*' || target === name || target.startsWith(`${name}/`) || target === `${name}.ts`,
      );
    }).map(
      (one) =>
        `${at(one)} imports ${inSrc(one.path)}: ${roomOf(one.file)} may import ${MAY[roomOf(one.file)]?.join(', ') ?? 'nothing: it is no room of the table'}`,
    );
    expect(breaches).toEqual([]);
  });

  it('has no cycle of imports', () => {
    const edges = new Map<string, string[]>();
    for (const one of OURS) if (!one.typeOnly) edges.set(one.file, [...(edges.get(one.file) ?? []), one.path]);
    const done = new Set<string>();
    const cycles: string[] = [];
    const visit = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) {
        cycles.push([...path.slice(path.indexOf(file)), file].map(inSrc).join(' → '));
        return;
      }
      if (done.has(file)) return;
      for (const next of edges.get(file) ?? []) visit(next, [...path, file]);
      done.add(file);
    };
    for (const file of FILES) visit(file, []);
    expect(cycles).toEqual([]);
  });

  it('holds no file that nobody imports', () => {
    // The simulated world and the plan engine's parts are there for whoever wants them: a test counts as somebody.
    const forAll = /^(adapters\/(sim|clock)|engine)\//;
    const outside = [...filesBelow(join(ROOT, 'test')), ...filesBelow(join(ROOT, 'bench'))].flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(/from '(\.[^']+)'/g)].map((match) => resolve(dirname(file), match[1]!)),
    );
    const imported = new Set([...OURS.map((one) => one.path), ...outside.filter((path) => forAll.test(inSrc(path)))]);
    const orphans = FILES.filter((file) => !imported.has(file) && !ENTRIES.has(inSrc(file))).map(inSrc);
    expect(orphans).toEqual([]);
  });

  it('keeps each library in its one room', () => {
    const breaches = ALL.filter((one) => {
      const rooms = CONFINED[one.target] ?? CONFINED[one.target.split('/')[0]!];
      return rooms && !one.typeOnly && !rooms.some((room) => inSrc(one.file).startsWith(`${room}/`));
    }).map((one) => `${at(one)} imports ${one.target}`);
    expect(breaches).toEqual([]);
  });

  it('lets the core neither read, wait, look at a clock nor roll dice', () => {
    const forbidden: readonly [RegExp, string][] = [
      [/from 'node:(?!crypto|buffer|path')[a-z_/]+'/, 'a node module other than crypto, buffer and path'],
      [/\bDate\.now\(|\bnew Date\(\s*\)|performance\.now\(/, 'the clock'],
      [/\bMath\.random\(|randomBytes\(|randomUUID\(|getRandomValues\(/, 'chance'],
      [/\bprocess\.(?!exitCode)\w+/, 'the process'],
      [/\bsetTimeout\(|\bsetInterval\(|\bsetImmediate\(/, 'a timer'],
      [/\bawait\b/, 'await'],
    ];
    const breaches: string[] = [];
    for (const file of FILES.filter((path) => roomOf(path) === 'core')) {
      // OpenPGP.js answers with promises; its one file says so in its header.
      const asynchronous = /core\/state\/trust\/(openpgp|judge|verify)[\w-]*\.ts$/.test(file);
      TEXTS.get(file)!
        .split('\n')
        .forEach((line, index) => {
          if (/^\s*(\/\/|\*|\/\*)/.test(line)) return;
          for (const [pattern, what] of forbidden)
            if (pattern.test(line) && !(asynchronous && what === 'await'))
              breaches.push(`src/${inSrc(file)}:${index + 1} uses ${what}`);
        });
    }
    expect(breaches).toEqual([]);
  });

  it('starts programs in adapters/process only, and never through a shell', () => {
    const breaches: string[] = [];
    for (const file of FILES)
      TEXTS.get(file)!
        .split('\n')
        .forEach((line, index) => {
          if (/^\s*(\/\/|\*|\/\*)/.test(line)) return;
          if (/shell:\s*true|\bexecSync\(|\bnew Function\(|\beval\(/.test(line))
            breaches.push(`src/${inSrc(file)}:${index + 1}`);
        });
    expect(breaches).toEqual([]);
  });

  it('gives every fault a cure', () => {
    for (const [code, row] of Object.entries(FAULTS)) expect(row.help.length, code).toBeGreaterThan(10);
  });

  it('opens every file with what it decides or does', () => {
    expect(FILES.filter((file) => !/^(#!.*\n)?\/\//.test(TEXTS.get(file)!)).map(inSrc)).toEqual([]);
  });

  it('calls no file utils, helpers, manager, types or index', () => {
    expect(FILES.map(inSrc).filter((file) => /(^|\/)(utils?|helpers?|manager|types|index)\.ts$/.test(file))).toEqual(
      [],
    );
  });
});
