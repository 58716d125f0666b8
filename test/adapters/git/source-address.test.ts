import { describe, expect, test } from 'vitest';
import { parseAddress, parseRef } from '../../../src/adapters/git/source-address.ts';
import { redactor } from '../../../src/adapters/process/redact.ts';
import { faultOf } from './fixture.ts';

describe('an address that may be spoken to', () => {
  test.each([
    ['https://example.org/fleet.git', { kind: 'http', scheme: 'https', url: 'https://example.org/fleet.git' }],
    ['http://127.0.0.1:3000/a/b', { kind: 'http', scheme: 'http', url: 'http://127.0.0.1:3000/a/b' }],
    ['ssh://git@example.org:2222/fleet.git', { kind: 'ssh', url: 'ssh://git@example.org:2222/fleet.git' }],
    ['git@example.org:team/fleet.git', { kind: 'ssh', url: 'git@example.org:team/fleet.git' }],
    ['/srv/git/my fleet.git', { kind: 'local', path: '/srv/git/my fleet.git' }],
    ['file:///srv/my%20fleet.git', { kind: 'local', path: '/srv/my fleet.git' }],
  ])('%s', (text, address) => {
    expect(parseAddress(text)).toEqual(address);
  });
});

describe('an address that is refused', () => {
  test.each([
    [''],
    ['fleet.git'],
    ['../fleet'],
    ['./fleet'],
    ['--upload-pack=touch x'],
    ['-oProxyCommand=x:y'],
    ['ext::sh -c id'],
    ['fd::3'],
    ['git://example.org/fleet'],
    ['ftp://example.org/fleet'],
    ['ssh://-oProxyCommand=x/fleet'],
    ['ssh://git@-host/fleet'],
    ['ssh://-user@host/fleet'],
    ['ssh://host/-fleet'],
    ['-git@host:fleet'],
    ['git@-host:fleet'],
    ['git@host:-fleet'],
    ['git@host:a b'],
    ['git@host::x'],
    ['https://exa mple.org/'],
    ['https://example.org/\n'],
    ['/srv/fleet\n.git'],
    ['file://host/srv/fleet'],
    [`https://example.org/${'x'.repeat(3_000)}`],
  ])('%j', async (text) => {
    const fault = await faultOf(() => parseAddress(text));
    expect(fault.code).toBe('USAGE');
    expect(fault.message).toMatch(/use https:\/\/host\/path/);
  });

  test.each([
    ['https://bob:s3cr3t-in-url@example.org/fleet'],
    ['https://s3cr3t-in-url@example.org/fleet'],
    ['ssh://git:s3cr3t-in-url@example.org/fleet'],
  ])('%s, with a cure and without its credential', async (text) => {
    const fault = await faultOf(() => parseAddress(text));
    expect(fault.message).toMatch(/holds a credential.*`credentials`/);
    expect(fault.message).not.toContain('s3cr3t');
    expect(redactor.redact('s3cr3t-in-url')).toBe('[redacted]');
  });

  test('a token in the query is not shown either', async () => {
    const fault = await faultOf(() => parseAddress('https://example.org/fleet?token=s3cr3t'));
    expect(fault.message).not.toContain('s3cr3t');
  });
});

describe('a ref', () => {
  test.each([
    ['main', 'refs/heads/main'],
    ['feature/x', 'refs/heads/feature/x'],
    ['refs/tags/v1', 'refs/tags/v1'],
    ['käse', 'refs/heads/käse'],
  ])('%s is read as %s', (text, full) => {
    expect(parseRef(text)).toBe(full);
  });

  test.each([
    '',
    'HEAD',
    '-x',
    '--all',
    'a..b',
    'a b',
    'a:b',
    'a~1',
    'a^',
    'a?',
    'a*',
    'a[',
    'a\\b',
    'a@{1}',
    'a.lock',
    '.a',
    'a.',
    'a/',
    'a//b',
    'refs/heads',
    'a\0',
    'x'.repeat(300),
  ])('%j is refused', async (text) => {
    expect((await faultOf(() => parseRef(text))).code).toBe('USAGE');
  });
});
