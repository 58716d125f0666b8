// ref+cluster://KEY: facts about all nodes together.
import { CLUSTER_KEYS } from '../core/spec/ref.ts';
import { type FactsOf, factsResolver } from './facts.ts';
import type { Resolver } from './registry.ts';

export type ClusterKey = (typeof CLUSTER_KEYS)[number];

export const cluster = (factsOf: FactsOf<ClusterKey>): Resolver => factsResolver('cluster', CLUSTER_KEYS, factsOf);
