// Retention: which archives of one stack are kept, and why. Pure; what it does not keep may be removed by whoever asked, nothing is removed
// here. In doubt an archive is kept.

export interface Keep {
  readonly last?: number;
  readonly daily?: number;
  readonly weekly?: number;
  readonly monthly?: number;
}

export interface Retained {
  readonly id: string;
  readonly madeAtMs: number;
  /** `safety`: taken before a restore, kept by its request and for a time of its own; never counted. */
  readonly purpose: 'backup' | 'safety';
  /** When a drill last found it right; null = never. */
  readonly verifiedAtMs: number | null;
  /** When `backups verify` last read it and found every digest right; absent or null = never. */
  readonly readAtMs?: number | null;
  /** It was found wrong since: it takes no good one's place. */
  readonly isDamaged?: boolean;
}

export interface RetentionInput {
  readonly archives: readonly Retained[];
  /** Null = everything is kept. */
  readonly keep: Keep | null;
  /** Id → who needs it (an open request, a drill, a group archive): never collected. */
  readonly pins: ReadonlyMap<string, string>;
  readonly nowMs: number;
  /** How long a safety archive is kept when nobody pins it. */
  readonly safetyMs?: number;
}

export interface Verdict {
  readonly id: string;
  readonly isKept: boolean;
  /** Every reason that speaks for it; of one that goes, the one reason why. */
  readonly why: readonly string[];
}

const DAY_MS = 86_400_000;
export const SAFETY_MS = 7 * DAY_MS;

/** In UTC, so that a bucket never changes with the zone of whoever looks. */
const BUCKETS = {
  daily: (ms: number) => String(Math.floor(ms / DAY_MS)),
  // Day 0 was a Thursday; weeks begin on Monday.
  weekly: (ms: number) => String(Math.floor((Math.floor(ms / DAY_MS) + 3) / 7)),
  monthly: (ms: number) => new Date(ms).toISOString().slice(0, 7),
} as const;

const newestFirst = (a: Retained, b: Retained): number =>
  b.madeAtMs - a.madeAtMs || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

/** One verdict for each archive, newest first. */
export function retain(input: RetentionInput): readonly Verdict[] {
  const { keep, pins, nowMs } = input;
  const archives = [...input.archives].sort(newestFirst);
  const reasons = new Map<string, string[]>(archives.map(({ id }) => [id, []]));
  const say = (id: string, why: string) => reasons.get(id)?.push(why);

  const counted = archives.filter((one) => one.purpose === 'backup' && one.isDamaged !== true);
  // What can still be read of it may be all there is, and a disk that comes back mends it.
  for (const one of archives)
    if (one.isDamaged === true) say(one.id, 'DAMAGED, and counted for none; `windlass backups remove` takes it away');
  if (keep === null) for (const one of counted) say(one.id, 'no `keep` is set');
  else {
    for (const one of counted.slice(0, keep.last ?? 0)) say(one.id, `one of the last ${keep.last}`);
    for (const [name, bucketOf] of Object.entries(BUCKETS) as [keyof typeof BUCKETS, (ms: number) => string][]) {
      const wanted = keep[name] ?? 0;
      const filled = new Set<string>();
      for (const one of counted) {
        const bucket = bucketOf(one.madeAtMs);
        if (filled.has(bucket) || filled.size >= wanted) continue;
        filled.add(bucket);
        say(one.id, `${name} ${filled.size} of ${wanted}`);
      }
    }
  }
  // Counts of zero everywhere must not take the only copy away.
  if (counted[0]) say(counted[0].id, 'the newest');
  const verified = archives.filter((one) => one.verifiedAtMs !== null).sort((a, b) => newestFirst(a, b))[0];
  if (verified) say(verified.id, 'the last verified one');
  const read = archives.find((one) => typeof one.readAtMs === 'number');
  if (read) say(read.id, 'the last one that was read again and found right');
  for (const one of archives) {
    const pin = pins.get(one.id);
    if (pin !== undefined) say(one.id, `pinned by ${pin}`);
    if (one.purpose === 'safety' && nowMs - one.madeAtMs < (input.safetyMs ?? SAFETY_MS))
      say(one.id, 'a safety archive of the last days');
  }
  return archives.map(({ id, purpose }) => {
    const why = reasons.get(id)!;
    return why.length > 0
      ? { id, isKept: true, why }
      : {
          id,
          isKept: false,
          why: [purpose === 'safety' ? 'a safety archive that nobody needs any more' : 'beyond `keep`'],
        };
  });
}
