// Words on a terminal: clean, cut to a width, coloured, and how long a time was. Knows nothing of plans.
import { stripVTControlCharacters } from 'node:util';

/** One line without escape sequences, control characters and marks that turn the reading order round, so that no note can move the cursor. */
export const oneLine = (text: string): string =>
  stripVTControlCharacters(text)
    .replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g, ' ')
    .trim();

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });
const invisible = /^[\p{Mark}\p{Default_Ignorable_Code_Point}]+$/u;
const wide =
  /^(?:\p{Emoji_Presentation}|.\ufe0f|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}])/u;

const cells = (grapheme: string): number => (invisible.test(grapheme) ? 0 : wide.test(grapheme) ? 2 : 1);

/** Columns that the text takes on a terminal. */
export function columnsOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let columns = 0;
  for (const { segment } of graphemes.segment(text)) columns += cells(segment);
  return columns;
}

/** The text, cut with an ellipsis when it takes more than `width` columns. */
export function cut(text: string, width: number): string {
  if (columnsOf(text) <= width) return text;
  let kept = '';
  let columns = 0;
  for (const { segment } of graphemes.segment(text)) {
    columns += cells(segment);
    if (columns > width - 1) break;
    kept += segment;
  }
  return width < 1 ? '' : `${kept}…`;
}

export const pad = (text: string, width: number): string => text + ' '.repeat(Math.max(0, width - columnsOf(text)));

/** `0.4 s`, `12 s`, `3 m 05 s`, `2 h 00 m`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const two = (value: number) => String(value).padStart(2, '0');
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${two(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} m`;
}

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;
export type Colour = keyof typeof codes;

export const paint = (colour: Colour, text: string): string => `\x1b[${codes[colour]}m${text}\x1b[0m`;
