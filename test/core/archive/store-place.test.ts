// Where a store lies, from what windlass.yaml says.
import { describe, expect, it } from 'vitest';
import { type SaidStore, storePlaceOf } from '../../../src/core/archive/store-place.ts';

const SFTP: SaidStore = { kind: 'sftp', url: 'sftp://u@h/p', sshKeyFile: '/k', hostKey: 'SHA256:x' };

describe('the place of a store', () => {
  it.each<[string, SaidStore, object]>([
    ['nothing said', {}, { kind: 'dir', directory: null }],
    ['a folder', { directory: '/a' }, { kind: 'dir', directory: '/a' }],
    [
      'AWS',
      { kind: 's3', bucket: 'b', region: 'eu-central-1' },
      { endpoint: null, pathStyle: false, region: 'eu-central-1', prefix: '', credentials: { kind: 'env' } },
    ],
    [
      'an S3 server of one’s own',
      { kind: 's3', url: 'https://s3.example:9000', bucket: 'b', prefix: '/a/b/', credentialsFile: '/c' },
      {
        endpoint: 'https://s3.example:9000',
        pathStyle: true,
        prefix: 'a/b',
        credentials: { kind: 'file', path: '/c' },
      },
    ],
    [
      'references',
      { kind: 's3', region: 'r', bucket: 'b', accessKey: 'ref+env://A', secretKey: 'ref+vault://B' },
      { credentials: { kind: 'refs', accessKey: 'ref+env://A', secretKey: 'ref+vault://B' } },
    ],
    ['an SFTP server', { ...SFTP, url: 'sftp://me@nas/volume/a/' }, { host: 'nas', port: 22, path: '/volume/a' }],
    ['another port', { ...SFTP, url: 'sftp://me@nas:2222/a' }, { username: 'me', port: 2222, path: '/a' }],
    ['below the home folder', { ...SFTP, url: 'sftp://me@nas/~/a/b' }, { path: 'a/b' }],
    ['an IPv6 address', { ...SFTP, url: 'sftp://me@[::1]/a' }, { host: '::1' }],
    [
      'known hosts',
      { ...SFTP, hostKey: undefined as never, knownHostsFile: '/n' },
      { hostKey: { kind: 'file', path: '/n' } },
    ],
  ])('is understood: %s', (_, said, wanted) => {
    expect(storePlaceOf(said, 'archives')).toMatchObject(wanted);
  });

  it.each<[string, SaidStore, RegExp]>([
    ['a bucket of a folder', { bucket: 'b' }, /archives\.bucket means nothing to a store of kind dir/],
    ['no bucket', { kind: 's3', region: 'r' }, /archives\.bucket is missing/],
    ['neither server nor region', { kind: 's3', bucket: 'b' }, /neither url .* nor region/],
    ['half a key', { kind: 's3', bucket: 'b', region: 'r', accessKey: 'ref+env://A' }, /go together/],
    [
      'two kinds of keys',
      { kind: 's3', bucket: 'b', region: 'r', accessKey: 'x', secretKey: 'y', credentialsFile: '/c' },
      /one of them/,
    ],
    ['a password in a URL', { kind: 's3', bucket: 'b', url: 'https://me:hush@h' }, /without a user/],
    ['another protocol', { kind: 's3', bucket: 'b', url: 'ftp://h' }, /http or https/],
    ['a prefix that leads out', { kind: 's3', bucket: 'b', region: 'r', prefix: 'a/../..' }, /no folder/],
    ['a password of SFTP in the URL', { ...SFTP, url: 'sftp://me:hush@h/p' }, /without a password/],
    ['nobody', { ...SFTP, url: 'sftp://h/p' }, /USER@HOST/],
    ['no folder', { ...SFTP, url: 'sftp://u@h/' }, /no folder/],
    ['a folder that leads out', { ...SFTP, url: 'sftp://u@h/~/a/%2e%2e/%2e%2e/b/..%2f' }, /no folder/],
    ['no host key', { kind: 'sftp', url: 'sftp://u@h/p', sshKeyFile: '/k' }, /server's key/],
    ['nothing to log in with', { kind: 'sftp', url: 'sftp://u@h/p', hostKey: 'SHA256:x' }, /log in/],
    ['a bucket of SFTP', { ...SFTP, bucket: 'b' }, /archives\.bucket means nothing/],
  ])('is refused: %s', (_, said, words) => {
    const place = storePlaceOf(said, 'archives');
    expect('wrong' in place ? place.wrong : '').toMatch(words);
    expect(JSON.stringify(place)).not.toContain('hush');
  });
});
