// DNS lookup: records of a name, now. "There is none" is an empty list; "could not ask" is a Fault.
import { Resolver } from 'node:dns/promises';
import { Fault } from '../../core/fault.ts';

const TIMEOUT_MS = 5_000;
const NONE = new Set(['ENOTFOUND', 'ENODATA']);

export async function lookup(name: string, kind: 'a' | 'aaaa' | 'srv'): Promise<readonly string[]> {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: 2 });
  try {
    if (kind === 'a') return await resolver.resolve4(name);
    if (kind === 'aaaa') return await resolver.resolve6(name);
    return (await resolver.resolveSrv(name)).map((one) => `${one.name}:${one.port}`);
  } catch (error) {
    if (NONE.has((error as { code?: string }).code ?? '')) return [];
    throw new Fault('HOOK_FAILED', `the ${kind} records of ${name} cannot be looked up`, { cause: error });
  }
}
