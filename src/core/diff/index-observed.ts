// One look at the engine, indexed by project and by image tag, so that a thousand stacks are compared without searching.
import type { Observed, ObservedContainer, ObservedImage, ObservedNetwork, ObservedVolume } from '../state/observed.ts';

export interface ObservedIndex {
  readonly observed: Observed;
  readonly containers: ReadonlyMap<string, readonly ObservedContainer[]>;
  readonly networks: ReadonlyMap<string, readonly ObservedNetwork[]>;
  readonly networksByName: ReadonlyMap<string, readonly ObservedNetwork[]>;
  readonly volumes: ReadonlyMap<string, ObservedVolume>;
  readonly images: ReadonlyMap<string, ObservedImage>;
}

function group<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const name = key(item);
    const group = groups.get(name);
    if (group) group.push(item);
    else groups.set(name, [item]);
  }
  return groups;
}

/** `busybox` and `docker.io/library/busybox:latest` name the same image for the engine. */
export function normalTag(image: string): string {
  let name = image.replace(/^docker\.io\//, '').replace(/^library\//, '');
  if (!name.includes('@') && !/:[^/]*$/.test(name)) name += ':latest';
  return name;
}

export function indexObserved(observed: Observed): ObservedIndex {
  const images = new Map<string, ObservedImage>();
  for (const image of observed.images) {
    images.set(image.id, image);
    for (const tag of image.tags) images.set(normalTag(tag), image);
    for (const digest of image.digests) images.set(normalTag(digest), image);
  }
  return {
    observed,
    containers: group(observed.containers, (container) => container.project),
    networks: group(observed.networks, (network) => network.project),
    networksByName: group(observed.networks, (network) => network.name),
    volumes: new Map(observed.volumes.map((volume) => [volume.name, volume])),
    images,
  };
}

/** The image that a reference names on this engine now, by tag, digest or id. */
export function imageNamed(index: ObservedIndex, reference: string): ObservedImage | undefined {
  return (
    index.images.get(normalTag(reference)) ?? index.images.get(reference) ?? index.images.get(`sha256:${reference}`)
  );
}
