// Owner: the ownership suffix of a volume, `src:tgt:mode:perm:uid:gid`. Compose gets the first three; the rest is applied before boot.
import type { VolumeOwner } from '../state/desired.ts';

type Loose = Record<string, unknown>;

export interface OwnerMistake {
  readonly summary: string;
  readonly detail: string;
}

export interface Disowned {
  /** What Compose gets. */
  readonly volumes: readonly unknown[];
  readonly owners: readonly VolumeOwner[];
  readonly mistakes: readonly OwnerMistake[];
}

const MOST_ID = 4_294_967_294;

const isPath = (source: string): boolean => /^(?:\.|\/|~)/.test(source);

/** `mode` as four octal digits, so that equal owners are spelled alike. */
const ownerOf = (volume: string, mode: string, uid: number, gid: number): VolumeOwner => ({
  volume,
  mode: mode.padStart(4, '0'),
  uid,
  gid,
});

function idMistake(text: string, uid: unknown, gid: unknown, mode: unknown): OwnerMistake | null {
  const isId = (id: unknown) => Number.isSafeInteger(id) && Number(id) >= 0 && Number(id) <= MOST_ID;
  if (typeof mode === 'string' && /^[0-7]{3,4}$/.test(mode) && isId(uid) && isId(gid)) return null;
  return {
    summary: `wrong owner in the volume ${JSON.stringify(text)}`,
    detail: 'expected three or four octal digits, a user id and a group id, such as data:/data:rw:0700:26:26',
  };
}

/** Takes the owners out of the `volumes` of one service. */
export function disown(service: string, volumes: readonly unknown[]): Disowned {
  const kept: unknown[] = [];
  const owners: VolumeOwner[] = [];
  const mistakes: OwnerMistake[] = [];
  for (const volume of volumes) {
    if (typeof volume === 'string') {
      const parts = volume.split(':');
      if (parts.length <= 3) {
        kept.push(volume);
        continue;
      }
      const [source = '', target = '', access = '', mode = '', uid = '', gid = ''] = parts;
      const number = (text: string) => (/^\d{1,10}$/.test(text) ? Number(text) : Number.NaN);
      const wrong =
        parts.length === 6
          ? idMistake(volume, number(uid), number(gid), mode)
          : {
              summary: `wrong volume ${JSON.stringify(volume)} of service \`${service}\``,
              detail: 'expected SOURCE:TARGET, with :MODE, or with :MODE:PERM:UID:GID',
            };
      if (wrong) mistakes.push(wrong);
      else if (isPath(source)) mistakes.push(notNamed(volume));
      else owners.push(ownerOf(source, mode, Number(uid), Number(gid)));
      kept.push([source, target, access].join(':'));
      continue;
    }
    const long = volume as Loose;
    if (typeof volume !== 'object' || volume === null || long['x-windlass-owner'] === undefined) {
      kept.push(volume);
      continue;
    }
    const { 'x-windlass-owner': said, ...rest } = long;
    kept.push(rest);
    const { mode, uid, gid } = (typeof said === 'object' && said !== null ? said : {}) as Loose;
    const text = String(long.source ?? long.target ?? '');
    const wrong = idMistake(text, uid, gid, mode);
    if (wrong) mistakes.push({ ...wrong, detail: 'expected `x-windlass-owner: { mode: "0700", uid: 26, gid: 26 }`' });
    else if (long.type !== 'volume' || typeof long.source !== 'string') mistakes.push(notNamed(text));
    else owners.push(ownerOf(long.source, String(mode), Number(uid), Number(gid)));
  }
  return { volumes: kept, owners, mistakes };
}

const notNamed = (text: string): OwnerMistake => ({
  summary: `the volume ${JSON.stringify(text)} cannot have an owner`,
  detail: 'expected a named volume: folders of the host and of the repository keep the owner they have',
});

/** Owners of all services, one a volume; two that differ are a mistake. */
export function mergeOwners(all: readonly VolumeOwner[]): {
  readonly owners: readonly VolumeOwner[];
  readonly mistakes: readonly OwnerMistake[];
} {
  const byVolume = new Map<string, VolumeOwner>();
  const mistakes: OwnerMistake[] = [];
  for (const owner of all) {
    const other = byVolume.get(owner.volume);
    if (!other) byVolume.set(owner.volume, owner);
    else if (other.mode !== owner.mode || other.uid !== owner.uid || other.gid !== owner.gid)
      mistakes.push({
        summary: `the volume \`${owner.volume}\` has two owners`,
        detail: `${other.mode}:${other.uid}:${other.gid} and ${owner.mode}:${owner.uid}:${owner.gid}`,
      });
  }
  return { owners: [...byVolume.values()], mistakes };
}
