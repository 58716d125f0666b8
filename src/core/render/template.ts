// Template: text × context → text, in a sandbox: no access to the host, undefined names are errors, work and output are bounded.
import { Environment } from 'minijinja-js';

/** Instructions of the template engine; a large Compose template takes some thousands. */
const FUEL = 200_000;
const MAX_TEMPLATE_BYTES = 1024 * 1024;
export const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;

export type TemplateResult =
  | { readonly text: string }
  /** `line` is of the template; 0 when it is not known. */
  | { readonly wrong: string; readonly line: number };

/** Renders one template. No escaping: `{{ value | tojson }}` writes any value as YAML understands it. */
export function renderTemplate(template: string, context: Readonly<Record<string, unknown>>): TemplateResult {
  if (Buffer.byteLength(template) > MAX_TEMPLATE_BYTES)
    return { wrong: `the template is larger than ${MAX_TEMPLATE_BYTES} bytes`, line: 0 };
  // A fresh one each time: nothing is shared, and one that panicked is never used again.
  const environment = new Environment();
  environment.undefinedBehavior = 'strict';
  environment.fuel = FUEL;
  environment.keepTrailingNewline = true;
  try {
    // The name has no ending, so that the engine does not escape for one.
    const text = environment.renderNamedStr('template', template, context);
    environment.free();
    if (text.length > MAX_OUTPUT_BYTES)
      return { wrong: `the result is larger than ${MAX_OUTPUT_BYTES} bytes`, line: 0 };
    return { text };
  } catch (error) {
    const isPanic = error instanceof Error && error.name === 'RuntimeError';
    // One that panicked cannot be freed; its memory stays.
    if (!isPanic) environment.free();
    if (isPanic) return { wrong: 'the template needs too much memory', line: 0 };
    const words = error instanceof Error ? error.message : String(error);
    const first = words.split('\n')[0] ?? words;
    const at = /\(in template:(\d+)\)/.exec(first);
    const wrong = first.replace(/ ?\(in template:\d+\)/, '');
    return {
      wrong: wrong === 'engine ran out of fuel' ? 'the template takes too long' : wrong,
      line: Number(at?.[1] ?? 0),
    };
  }
}
