// ref+node://KEY: the node that the stack of the context is deployed on.
import { NODE_KEYS } from '../core/spec/ref.ts';
import { type FactsOf, factsResolver } from './facts.ts';
import type { Resolver } from './registry.ts';

export type NodeKey = (typeof NODE_KEYS)[number];

export const node = (factsOf: FactsOf<NodeKey>): Resolver => factsResolver('node', NODE_KEYS, factsOf);
