// The README's examples are true: every npm script and every command it names exists, its documents are valid, its links lead somewhere.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { COMMANDS } from '../src/cli/registry.ts';
import { checkText } from '../src/core/spec/check.ts';

const ROOT = resolve(import.meta.dirname, '..');
const README = readFileSync(join(ROOT, 'README.md'), 'utf8');

describe('the README', () => {
  it('names only npm scripts that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const named = [...README.matchAll(/npm (?:run )?(demo|test|start|bench|build|windlass|check|[a-z]+)\b/g)].map(
      (match) => match[1]!,
    );
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });

  it('names only commands and flags that exist', () => {
    const known = COMMANDS.map((command) => command.words.join(' '));
    const flags = new Set([
      'source',
      'state',
      'ref',
      'output',
      'help',
      ...COMMANDS.flatMap((command) => Object.keys(command.flags ?? {})),
    ]);
    const examples = [...README.matchAll(/`windlass ([a-z][^`]*)`|npm run windlass -- ([^#\n]*)/g)].map((match) =>
      (match[1] ?? match[2])!.trim(),
    );
    expect(examples.length).toBeGreaterThan(15);
    for (const example of examples) {
      expect(
        known.some((words) => example === words || example.startsWith(`${words} `)),
        example,
      ).toBe(true);
      for (const [, flag] of example.matchAll(/--([a-z-]+)/g))
        expect(flags.has(flag!), `${example}: --${flag}`).toBe(true);
    }
  });

  it('shows only documents that are valid', () => {
    const documents = [...README.matchAll(/```yaml\n(apiVersion: windlass\/v1\nkind: Stack\n[\s\S]*?)```/g)].map(
      (match) => match[1]!,
    );
    expect(documents.length).toBeGreaterThan(0);
    for (const text of documents) expect(checkText('Stack', 'README.md', text).diagnostics).toEqual([]);
  });

  it('links only to files that exist', () => {
    const links = [...README.matchAll(/\]\(([^)#:]+)\)/g)].map((match) => match[1]!);
    expect(links.filter((link) => !existsSync(join(ROOT, link)))).toEqual([]);
  });
});
