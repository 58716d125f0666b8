// Facts: a resolver over a fixed set of keys whose values somebody else looks up when they are needed.
import type { RuntimeScheme } from '../core/spec/ref.ts';
import { type RefContext, type Resolver, unknownKey } from './registry.ts';

/** Null or '' = the key is known and has no live value now. */
export type Facts<Key extends string> = Readonly<Partial<Record<Key, string | number | null>>>;
/** About the entity in context, such as the node of the stack. */
export type FactsOf<Key extends string> = (context: RefContext) => Facts<Key> | Promise<Facts<Key>>;

export function factsResolver<Key extends string>(
  scheme: RuntimeScheme,
  keys: readonly Key[],
  factsOf: FactsOf<Key>,
): Resolver {
  return async (path, context) => {
    const key = keys.find((one) => one === path);
    if (key === undefined) throw unknownKey(scheme, path, keys);
    return String((await factsOf(context))[key] ?? '');
  };
}
