// Unseen: text from outside as one line that people can be shown: bounded, with line breaks, controls and what is invisible written out,
// so that nobody writes a second line into a log or turns the direction of what stands beside it.

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

export function inOneLine(text: string, most = 500): string {
  const shown = text.length > most ? `${text.slice(0, most)}…` : text;
  return shown.replace(UNSEEN, (found) => `\\u{${found.codePointAt(0)?.toString(16)}}`);
}
