// ref+dns://NAME/a, /aaaa, /srv: what a name resolves to now: sorted, joined by commas; srv as host:port. No record is "".

import { Fault } from '../core/fault.ts';
import { DNS_KINDS, RUNTIME_PATHS } from '../core/spec/ref.ts';
import { type Resolver, unknownKey } from './registry.ts';

export type DnsKind = (typeof DNS_KINDS)[number];

/** Records as text (`host:port` for srv); empty when the name or the record does not exist; throws when nobody could be asked. */
export type Lookup = (name: string, kind: DnsKind) => Promise<readonly string[]>;

const NAME = /^(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?$/;

export function dns(lookup: Lookup): Resolver {
  return async (path) => {
    const cut = path.lastIndexOf('/');
    const name = path.slice(0, Math.max(0, cut));
    const kind = DNS_KINDS.find((one) => one === path.slice(cut + 1));
    if (kind === undefined || cut < 0) throw unknownKey('dns', path, RUNTIME_PATHS.dns);
    if (!NAME.test(name)) throw new Fault('USAGE', `ref+dns://${path}: ${name || 'nothing'} is no host name`);
    return [...(await lookup(name, kind))].sort().join(',');
  };
}
