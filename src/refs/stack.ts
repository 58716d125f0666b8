// ref+stack://NAME/revision and ref+stack://NAME/service/SERVICE/container-id: facts about another stack of the fleet.

import { Fault } from '../core/fault.ts';
import { RUNTIME_PATHS } from '../core/spec/ref.ts';
import { type Resolver, unknownKey } from './registry.ts';

export interface StackFacts {
  /** Is there such a stack, deployed or not? */
  knows(stack: string): boolean;
  /** Commit that is deployed; null when none is. */
  revision(stack: string): Promise<string | null> | string | null;
  /** Of its first running container; null when none runs. */
  containerId(stack: string, service: string): Promise<string | null> | string | null;
}

export function stack(facts: StackFacts): Resolver {
  return async (path) => {
    const found = /^([^/]+)\/(?:(revision)|service\/([^/]+)\/container-id)$/.exec(path);
    if (!found) throw unknownKey('stack', path, RUNTIME_PATHS.stack);
    const [, name = '', revision, service = ''] = found;
    if (!facts.knows(name)) throw new Fault('USAGE', `ref+stack://${path}: there is no stack ${name}`);
    return (revision ? await facts.revision(name) : await facts.containerId(name, service)) ?? '';
  };
}
