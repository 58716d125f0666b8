// Redacts secrets by value from everything that leaves the process: the value itself and the forms in which programs
// print it again (base64 in any alignment, URL-encoded, JSON-escaped, Compose's doubled `$`), also where it goes on in the next line.
// It never finds secrets by shape.
import { spelledByGo } from '../../core/render/token.ts';

/** What stands in place of a secret. */
export const REDACTED = '[redacted]';

/** Shorter values would blacken ordinary words and digits; a secret this short protects nothing. */
const MIN_LENGTH = 4;
/** A single line of a secret with several lines is a secret too, when it is not just a bracket or a brace. */
const MIN_LINE_LENGTH = 8;
const TABLE_SIZE = 1 << 16;

export class Redactor {
  readonly #values = new Set<string>();
  /** Forms by their first four characters, longest first. */
  readonly #byStart = new Map<string, string[]>();
  /** 1 where some form starts with characters of this hash: skips nearly every position without making a string. */
  readonly #mayStart = new Uint8Array(TABLE_SIZE);
  #longest = 0;

  /** Makes `value` unprintable from now on. Values under four characters are ignored. */
  add(value: string): void {
    if (value.length < MIN_LENGTH || this.#values.has(value)) return;
    this.#values.add(value);
    for (const form of formsOf(value)) this.#addForm(form);
    const lines = value.split(/\r?\n/);
    if (lines.length === 1) return;
    for (const line of lines) {
      const text = line.trim();
      // The frame of a PEM block is not secret, and blackening it would hide what kind of thing was printed.
      if (text.length >= MIN_LINE_LENGTH && !text.startsWith('-----')) this.add(text);
    }
  }

  /** Length of the longest form: text cut at a boundary needs this much overlap to be redacted safely. */
  get longest(): number {
    return this.#longest;
  }

  /** Line ends stay where they are, also those inside of a secret. */
  redact(text: string): string {
    if (this.#longest === 0 || text.length < MIN_LENGTH) return text;
    const { flat, breaks } = unwrapped(text);
    let out = '';
    let copied = 0;
    let broken = 0;
    let at = 0;
    const show = (to: number): void => {
      for (; broken < breaks.length && breaks[broken]!.at <= to; broken += 1) {
        out += flat.slice(copied, breaks[broken]!.at) + breaks[broken]!.text;
        copied = breaks[broken]!.at;
      }
      out += flat.slice(copied, to);
    };
    while (at <= flat.length - MIN_LENGTH) {
      const form = this.#mayStart[hashAt(flat, at)] === 1 ? this.#match(flat, at) : undefined;
      if (form === undefined) {
        at += 1;
        continue;
      }
      show(at);
      out += REDACTED;
      at += form.length;
      for (; broken < breaks.length && breaks[broken]!.at < at; broken += 1) out += breaks[broken]!.text;
      copied = at;
    }
    if (out === '') return text;
    show(flat.length);
    return out;
  }

  #match(text: string, at: number): string | undefined {
    return this.#byStart.get(text.slice(at, at + MIN_LENGTH))?.find((form) => text.startsWith(form, at));
  }

  #addForm(wrapped: string): void {
    const form = unwrapped(wrapped).flat;
    if (form.length < MIN_LENGTH) return;
    const start = form.slice(0, MIN_LENGTH);
    const forms = this.#byStart.get(start) ?? [];
    if (forms.includes(form)) return;
    forms.push(form);
    forms.sort((left, right) => right.length - left.length);
    this.#byStart.set(start, forms);
    this.#mayStart[hashAt(form, 0)] = 1;
    this.#longest = Math.max(this.#longest, form.length);
  }
}

/** The one redactor of the process: the vault and the credential readers add to it, every way out asks it. */
export const redactor = new Redactor();

/** A text without its line ends, and where they were. */
function unwrapped(text: string): {
  readonly flat: string;
  readonly breaks: readonly { readonly at: number; readonly text: string }[];
} {
  if (!text.includes('\n')) return { flat: text, breaks: [] };
  const breaks: { at: number; text: string }[] = [];
  const lines: string[] = [];
  let from = 0;
  let size = 0;
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
    const lineEnd = end > from && text[end - 1] === '\r' ? end - 1 : end;
    lines.push(text.slice(from, lineEnd));
    size += lineEnd - from;
    breaks.push({ at: size, text: text.slice(lineEnd, end + 1) });
    from = end + 1;
  }
  lines.push(text.slice(from));
  return { flat: lines.join(''), breaks };
}

function hashAt(text: string, at: number): number {
  const a = text.charCodeAt(at);
  const b = text.charCodeAt(at + 1);
  const c = text.charCodeAt(at + 2);
  const d = text.charCodeAt(at + 3);
  return (a ^ (b << 4) ^ (c << 8) ^ (d << 11)) & (TABLE_SIZE - 1);
}

function formsOf(value: string): ReadonlySet<string> {
  const doubled = value.replaceAll('$', '$$$$');
  const forms = new Set([value, value.trim(), JSON.stringify(value).slice(1, -1), doubled]);
  for (const one of [value, doubled]) forms.add(spelledByGo(one));
  for (const encoded of urlForms(value)) forms.add(encoded);
  const bytes = Buffer.from(value, 'utf8');
  for (const encoded of base64Forms(bytes)) forms.add(encoded);
  // Programs like `echo value | base64` encode the newline too; that only adds characters after the stable part.
  return forms;
}

function urlForms(value: string): readonly string[] {
  // A lone surrogate cannot be URL-encoded; then there is no such form to hide.
  if (!value.isWellFormed()) return [];
  const component = encodeURIComponent(value);
  const strict = component.replace(/[!'()*]/g, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase()}`);
  const uri = encodeURI(value);
  const plus = strict.replaceAll('%20', '+');
  return [component, strict, uri, plus].flatMap((form) => [
    form,
    form.replace(/%[0-9A-F]{2}/g, (found) => found.toLowerCase()),
  ]);
}

/**
 * The characters of a base64 text that depend on these bytes alone, for each place (modulo 3) at which they may
 * start inside longer encoded data; and the whole padded text.
 */
function base64Forms(bytes: Buffer): readonly string[] {
  const forms = [bytes.toString('base64')];
  for (const before of [0, 1, 2]) {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    forms.push(encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6)));
  }
  return forms.flatMap((form) => [form, form.replaceAll('+', '-').replaceAll('/', '_')]);
}
