// A resolved project for people's eyes: what may be secret is masked, tokens and opened values alike.
import { replaceTokens } from '../core/render/token.ts';
import type { Desired } from '../core/state/desired.ts';

/** Plain JSON of the project; environment values and build arguments whose field is masked in `desired` read `(secret)`. */
export function maskModel(text: string, desired: Desired, redact: (text: string) => string): unknown {
  const model = masked(JSON.parse(replaceTokens(text, () => '(secret)')), redact) as {
    services?: Record<string, Record<string, unknown>>;
  };
  for (const service of desired.services)
    for (const [path, value] of Object.entries(service.fields)) {
      if (!value.startsWith('~')) continue;
      hide(model.services?.[service.name], path);
    }
  return model;
}

/** In values only, so that it stays JSON whatever is hidden. */
function masked(value: unknown, redact: (text: string) => string): unknown {
  if (typeof value === 'string') return redact(value);
  if (Array.isArray(value)) return value.map((item) => masked(item, redact));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, masked(item, redact)]));
}

/** Keys may hold dots themselves, so the path is followed greedily. */
function hide(node: unknown, path: string): void {
  if (typeof node !== 'object' || node === null) return;
  const object = node as Record<string, unknown>;
  if (path in object) {
    if (typeof object[path] !== 'object') object[path] = '(secret)';
    return;
  }
  for (let dot = path.indexOf('.'); dot > 0; dot = path.indexOf('.', dot + 1))
    hide(object[path.slice(0, dot)], path.slice(dot + 1));
}
