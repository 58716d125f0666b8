// Hook place: where in the declaration something that a hook or a job names is written. Looked up only for what is wrong there, since a
// loaded stack keeps no lines.
import { Fault } from '../core/fault.ts';
import { declaredPath } from '../core/hook/plan-actions.ts';
import { declaredActions } from '../core/render/hooks.ts';
import type { Place } from '../core/spec/diagnostic.ts';
import { type Path, parseDocument } from '../core/spec/document.ts';
import type { HookPhase } from '../core/spec/hooks.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import { join } from '../core/spec/repository-path.ts';
import { type FleetAt, SPEC_BYTES } from './fleet-at.ts';
import type { House } from './house.ts';

export type Spot = { readonly path: Path; readonly of: 'key' | 'value' } & (
  | { readonly in: 'action'; readonly phase: HookPhase; readonly id: string }
  | { readonly in: 'job'; readonly job: string }
);

/** Null when the document cannot be read now: what is wrong in it is told all the same. */
export async function placeOf(
  house: Pick<House, 'source' | 'settings'>,
  stack: LoadedStack,
  at: FleetAt,
  spot: Spot,
): Promise<Place | null> {
  const { file, path } = documentOf(stack, spot);
  const text = await textOf(house, stack, at, file);
  return (text === null ? null : parseDocument(file, text).parsed?.place(path, spot.of)) ?? null;
}

function documentOf(stack: LoadedStack, spot: Spot): { readonly file: string; readonly path: Path } {
  const { layout, place } = stack;
  const directory = layout.kind === 'app' ? layout.app.directory : layout.directory;
  if (spot.in === 'job') return { file: join(directory, `${spot.job}.job.yaml`), path: spot.path };
  const { phase } = spot;
  const [index = 0, ...inside] = declaredPath(declaredActions(stack, phase).listed, spot.id);
  // The actions of the app stand before those of the stack.
  const spec = layout.kind === 'app' ? (layout.app.spec as { hooks?: Partial<Record<HookPhase, unknown[]>> }) : {};
  const ofApp = spec.hooks?.[phase]?.length ?? 0;
  const path = ['hooks', phase, index < ofApp ? index : index - ofApp, ...inside, ...spot.path];
  return { file: index < ofApp ? join(directory, 'app.yaml') : place.file, path };
}

async function textOf(
  { source, settings }: Pick<House, 'source' | 'settings'>,
  { layout }: LoadedStack,
  { listing }: FleetAt,
  file: string,
): Promise<string | null> {
  if (layout.kind === 'app' && layout.app.origin === 'bundled' && file.startsWith(`${layout.app.directory}/`))
    return settings.bundled[`${layout.app.name}${file.slice(layout.app.directory.length)}`] ?? null;
  const entry = listing.entries.find((one) => one.path === file);
  if (!entry) return null;
  try {
    return Buffer.from(await source.blob(entry.oid, SPEC_BYTES)).toString('utf8');
  } catch (error) {
    if (error instanceof Fault) return null;
    throw error;
  }
}
