import { expect, it } from 'vitest';
import { envSecrets } from '../../../src/adapters/secrets/env.ts';
import type { Listing } from '../../../src/core/state/listing.ts';

const AT: Listing = { commit: '', entries: [], trees: new Map() };

function provider(env: Record<string, string>, allowed: readonly string[] = []) {
  const redacted: string[] = [];
  const one = envSecrets({ env, allowed, redactor: { add: (value) => void redacted.push(value) } });
  return { read: (name: string) => one.read(name, AT), redacted };
}

it('a variable that is named for it is read, and redacted before it is used', async () => {
  const { read, redacted } = provider({ WINDLASS_SECRET_SMTP: 'correct horse' });
  expect(await read('WINDLASS_SECRET_SMTP')).toBe('correct horse');
  expect(redacted).toEqual(['correct horse']);
});

it('a variable on the list of the controller is read', async () => {
  expect(await provider({ SMTP: 'correct horse' }, ['SMTP']).read('SMTP')).toBe('correct horse');
});

it('every other variable is refused with the cure, whether it is there or not, and not read', async () => {
  const { read, redacted } = provider({ SMTP: 'correct horse' });
  for (const name of ['SMTP', 'NOT_THERE'])
    await expect(read(name)).rejects.toMatchObject({
      code: 'SECRET_REFUSED',
      message: expect.stringMatching(
        `WINDLASS_SECRET_${name}, or list ${name} under secrets.environment in windlass.yaml`,
      ),
    });
  expect(redacted).toEqual([]);
});

it.each(['WINDLASS_AGE_KEY', 'WINDLASS_VAULT_TOKEN'])('%s is never read, listed or not', async (name) => {
  await expect(provider({ [name]: 'x' }, [name]).read(name)).rejects.toMatchObject({ code: 'SECRET_REFUSED' });
});

it.each(['', 'A B', 'WINDLASS_SECRET_A=B', 'WINDLASS_SECRET_A\nB', '1A', 'a'.repeat(300)])(
  'what names no variable is refused: %j',
  async (name) => {
    await expect(provider({ [name]: 'x' }, [name]).read(name)).rejects.toMatchObject({ code: 'SECRET_REFUSED' });
  },
);

it('a variable that is not set or empty is missing, not empty', async () => {
  const { read } = provider({ WINDLASS_SECRET_EMPTY: '' });
  expect(await read('WINDLASS_SECRET_EMPTY')).toBeNull();
  expect(await read('WINDLASS_SECRET_UNSET')).toBeNull();
});
