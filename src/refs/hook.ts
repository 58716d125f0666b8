// ref+hook://previous and ref+hook://outputs/NAME: what the run of a hook remembers.

import { Fault } from '../core/fault.ts';
import { RUNTIME_PATHS } from '../core/spec/ref.ts';
import { type Resolver, unknownKey } from './registry.ts';

export const hook: Resolver = (path, { hook: facts, service }) => {
  if (!facts) throw new Fault('USAGE', `ref+hook://${path} has a meaning only inside of a hook`);
  if (path === 'previous') {
    const count = service === null ? null : facts.previous(service);
    return count === null ? '' : String(count);
  }
  const name = /^outputs\/([A-Za-z_][A-Za-z0-9_-]*)$/.exec(path)?.[1];
  if (name === undefined) throw unknownKey('hook', path, RUNTIME_PATHS.hook);
  return facts.output(name) ?? '';
};
