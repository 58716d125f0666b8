// Refusal: how the parsers and checks of this room stop. It never leaves the room: `judge` turns it into a judgement.

import type { RefusalCode } from './reason.ts';

export class Refusal extends Error {
  readonly code: RefusalCode;

  /** `detail` says what was found; it is for people and never decides anything. */
  constructor(code: RefusalCode, detail = '') {
    super(detail);
    this.name = 'Refusal';
    this.code = code;
  }
}

/** A detail that quotes hostile text safely: printable ASCII, at most 80 characters. */
export function quote(text: string): string {
  const shown = text.length > 80 ? `${text.slice(0, 77)}...` : text;
  return JSON.stringify(shown).replace(/[^ -~]/g, '?');
}
