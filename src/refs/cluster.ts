// ref+cluster://KEY: facts about all nodes together.
import { type FactsOf, factsResolver } from './facts.ts';
import type { Resolver } from './registry.ts';

export const CLUSTER_KEYS = ['leader-ip', 'node-count'] as const;
export type ClusterKey = (typeof CLUSTER_KEYS)[number];

export const cluster = (factsOf: FactsOf<ClusterKey>): Resolver => factsResolver('cluster', CLUSTER_KEYS, factsOf);
