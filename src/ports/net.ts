// Net: what hooks ask of the network.
import type { HttpCall } from '../core/hook/job.ts';
import type { HttpAnswer } from './hooks.ts';

export interface Net {
  /** One request; no redirect to elsewhere is judged here. Throws HOOK_FAILED when there is no answer. */
  http(call: HttpCall, signal: AbortSignal): Promise<HttpAnswer>;
  /** Records as text (`host:port` for srv); empty when the name or the record does not exist; throws when nobody could be asked. */
  lookup(name: string, kind: 'a' | 'aaaa' | 'srv'): Promise<readonly string[]>;
}
