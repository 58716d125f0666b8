// Policy history: which version was in effect where a commit was made, so that nobody grants and uses a right in one commit, or uses it
// before it is granted. Reads git; what cannot be told is the older version.
import { createHash } from 'node:crypto';
import { type PolicyProof, provedFor, wereEnough } from '../../core/state/trust/policy-chain.ts';
import { type PolicyVersion, policyPath, readPolicy } from '../../core/state/trust/policy-file.ts';
import type { House } from '../house.ts';
import type { PolicyLook } from './look.ts';
import { readSomeWords } from './scan.ts';

/** A larger file is never in effect. */
const POLICY_BYTES = 1024 * 1024;

/** A version that came into effect within the range. */
interface Fresh {
  readonly version: PolicyVersion;
  readonly before: PolicyVersion;
  /** Object id of its file. */
  readonly file: string;
  readonly proofs: readonly PolicyProof[];
}

/** Of a commit of the range: the version in effect at its parents; null when that cannot be read. `range`: the commits to be judged. Statements elsewhere, and tags, which have no place in the history, were there before all of them. */
export async function policyHistory(
  house: House,
  { chain, scan, anchor, tip }: PolicyLook,
  range: ReadonlySet<string>,
  accepted: string | null,
): Promise<(commit: string) => Promise<PolicyVersion | null>> {
  const { effective } = chain;
  const fresh: Fresh[] = [];
  let floor = effective;
  while (floor !== null && floor.version > 1) {
    // Not as the tip has it: whoever removes the file must not hide by it when it came.
    const file = blobIdOf(floor.bytes);
    const wasThere = accepted !== null && (await fileOf(house, accepted, floor)) === file;
    const words = scan.words.filter((one) => one.isPolicy && one.subjects.includes(floor?.sha256 ?? ''));
    const inRange = words.filter(({ oid }) => range.has(oid));
    const before = await versionBefore(house, tip, floor);
    if (wasThere && (before === null || (await proofsIn(house, inRange, anchor, before, floor)).length === 0)) break;
    if (before === null) {
      floor = null;
      break;
    }
    const rest = inRange.length === 0 ? [] : words.filter(({ oid }) => !range.has(oid));
    fresh.unshift({
      version: floor,
      before,
      file,
      proofs: await proofsIn(house, [...inRange, ...rest], anchor, before, floor),
    });
    floor = before;
  }
  if (fresh.length === 0) return async () => floor;

  const told = new Set(fresh.flatMap(({ proofs }) => proofs.map(({ oid }) => oid)).filter((oid) => range.has(oid)));
  const reached = await reachedIn(house, range, told);
  return async (commit) => {
    const { parents } = await house.source.commit(commit);
    const seen = new Set(parents.flatMap((parent) => [...(reached.get(parent) ?? [])]));
    let version = floor;
    for (const one of fresh) {
      const proofs = one.proofs.filter(({ oid }) => !range.has(oid) || seen.has(oid));
      const isWithin = proofs.length < one.proofs.length;
      if (!(await isIn(house, parents, one)) || (isWithin && !wereEnough(one.before, one.version, proofs))) break;
      version = one.version;
    }
    return version;
  };
}

async function proofsIn(
  house: House,
  words: PolicyLook['scan']['words'],
  anchor: PolicyLook['anchor'],
  before: PolicyVersion,
  next: PolicyVersion,
): Promise<readonly PolicyProof[]> {
  if (words.length === 0) return [];
  return provedFor(anchor, [...(await readSomeWords(house, words)).values()], before, next);
}

const blobIdOf = (bytes: Uint8Array): string =>
  createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');

const fileOf = async ({ source }: House, commit: string, { version }: PolicyVersion): Promise<string | null> =>
  (await source.list(commit)).entries.find(({ path }) => path === policyPath(version))?.oid ?? null;

async function isIn(house: House, commits: readonly string[], { version, file }: Fresh): Promise<boolean> {
  for (const commit of commits) if ((await fileOf(house, commit, version)) === file) return true;
  return false;
}

async function versionBefore({ source }: House, tip: string, next: PolicyVersion): Promise<PolicyVersion | null> {
  const path = policyPath(next.version - 1);
  const entry = (await source.list(tip)).entries.find((one) => one.path === path);
  if (entry === undefined) return null;
  const { version } = readPolicy({ path, bytes: await source.blob(entry.oid, POLICY_BYTES) });
  return version?.sha256 === next.policy.previous ? version : null;
}

/** For each commit of the range which of `told` it reaches, itself among them. */
async function reachedIn(
  { source }: House,
  range: ReadonlySet<string>,
  told: ReadonlySet<string>,
): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const reached = new Map<string, ReadonlySet<string>>();
  if (told.size === 0) return reached;
  for (const start of range) {
    const stack = [start];
    while (stack.length > 0) {
      const oid = stack.at(-1)!;
      const parents = reached.has(oid) ? [] : (await source.commit(oid)).parents.filter((parent) => range.has(parent));
      const open = parents.filter((parent) => !reached.has(parent));
      if (open.length > 0) {
        stack.push(...open);
        continue;
      }
      if (!reached.has(oid)) {
        const [first] = parents;
        const only = parents.length === 1 && !told.has(oid) && first !== undefined ? reached.get(first) : undefined;
        const all = parents.flatMap((parent) => [...(reached.get(parent) ?? [])]);
        reached.set(oid, only ?? new Set(told.has(oid) ? [...all, oid] : all));
      }
      stack.pop();
    }
  }
  return reached;
}
