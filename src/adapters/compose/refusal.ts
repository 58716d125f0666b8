// Refusal: the words of the engine and of Compose as a Fault. An ordered table, first match wins; it decides nothing else.
import { Fault, type FaultCode, type FaultData } from '../../core/fault.ts';

interface Row {
  readonly pattern: RegExp;
  readonly code: FaultCode;
  /** Names of the pattern's groups that go into the data; `port` and `exitCode` as numbers. */
  readonly data?: FaultData;
}

const rows: readonly Row[] = [
  {
    pattern: /cannot connect to the docker daemon|error during connect:|failed to connect to the docker api/i,
    code: 'ENGINE_UNREACHABLE',
  },
  { pattern: /no such image: (?<image>\S+)/i, code: 'IMAGE_MISSING' },
  { pattern: /pull access denied for (?<image>[^\s,]+)/i, code: 'IMAGE_MISSING' },
  {
    pattern: /manifest for (?<image>\S+) not found|manifest unknown|repository (?<repository>\S+) not found/i,
    code: 'IMAGE_MISSING',
  },
  { pattern: /bind for (?:(?<hostIp>\S+):)?(?<port>\d+) failed: port is already allocated/i, code: 'PORT_TAKEN' },
  {
    pattern: /listen (?<protocol>tcp|udp|sctp)[46]? (?<hostIp>\S*):(?<port>\d+): bind: address already in use/i,
    code: 'PORT_TAKEN',
  },
  {
    pattern: /failed to bind host port (?:for )?(?<hostIp>\S*?):(?<port>\d+)[:/].*address already in use/i,
    code: 'PORT_TAKEN',
  },
  { pattern: /exposing port (?<protocol>tcp|udp) (?<hostIp>\S*):(?<port>\d+)/i, code: 'PORT_TAKEN' },
  { pattern: /address already in use/i, code: 'PORT_TAKEN' },
  { pattern: /network (?<network>\S+) was found but has incorrect label/i, code: 'NETWORK_CONFLICT' },
  { pattern: /network (?<network>\S+) is ambiguous/i, code: 'NETWORK_CONFLICT' },
  { pattern: /volume "?(?<volume>[^\s"]+)"? exists but doesn't match configuration/i, code: 'VOLUME_CHANGED' },
  { pattern: /container (?<container>\S+) is unhealthy/i, code: 'SERVICE_UNHEALTHY' },
  {
    pattern: /service "(?<service>[^"]+)" didn't complete successfully: exit (?<exitCode>\d+)/i,
    code: 'ONE_SHOT_FAILED',
  },
  { pattern: /container (?<container>\S+) exited \((?<exitCode>\d+)\)/i, code: 'SERVICE_CRASHED' },
  { pattern: /feature require docker engine v\d|client version \S+ is too (?:new|old)/i, code: 'ENGINE_TOO_OLD' },
  {
    pattern: /container name "\/?(?<name>[^"]+)" is already in use by container "?(?<container>\w+)/i,
    code: 'ENGINE_REFUSED',
    data: { reason: 'name-taken' },
  },
  { pattern: /is paused|paused container/i, code: 'ENGINE_REFUSED', data: { reason: 'paused' } },
  {
    pattern: /bind source path does not exist: (?<path>.+)/i,
    code: 'ENGINE_REFUSED',
    data: { reason: 'mount-missing' },
  },
  {
    pattern: /non-overlapping ipv4 address pool|pool overlaps with other one/i,
    code: 'ENGINE_REFUSED',
    data: { reason: 'address-pool' },
  },
  { pattern: /no space left on device/i, code: 'ENGINE_REFUSED', data: { reason: 'disk-full' } },
];

const numeric = new Set(['port', 'exitCode']);

/** The engine names an endpoint by an id that is another one at each try: the same trouble must read the same. */
const withoutIds = (message: string): string => message.replace(/(on endpoint \S+) \([0-9a-f]{64}\)/g, '$1');

/** `fallback` where no row knows the words. */
export function refusal(words: string, fallback: FaultCode, data: FaultData = {}): Fault {
  const message = withoutIds(words);
  for (const row of rows) {
    const found = row.pattern.exec(message);
    if (found === null) continue;
    const named: Record<string, string | number> = {};
    for (const [name, value] of Object.entries(found.groups ?? {})) {
      if (value !== undefined && value !== '') named[name] = numeric.has(name) ? Number(value) : value;
    }
    return new Fault(row.code, message, { data: { ...data, ...row.data, ...named } });
  }
  return new Fault(fallback, message, { data });
}
