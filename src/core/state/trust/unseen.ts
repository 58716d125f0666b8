// Unseen: text from outside as one line that people can be shown: bounded, with line breaks, controls and what is invisible written out,
// so that nobody writes a second line into a log or turns the direction of what stands beside it.

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
/** What makes one picture of several signs is no trick behind a picture. */
const OF_PICTURES = /\p{Extended_Pictographic}(?:\ufe0f|\u200d(?=\p{Extended_Pictographic}))+|[\s\S]/gu;

const codeOf = (found: string): string => `\\u{${found.codePointAt(0)?.toString(16)}}`;

/** The whole text with everything in it to be seen, line breaks and tabs too. */
export const writtenOut = (text: string): string =>
  text.replace(OF_PICTURES, (found) =>
    /^\p{Extended_Pictographic}/u.test(found) ? found : found.replace(UNSEEN, codeOf),
  );

export function inOneLine(text: string, most = 500): string {
  const shown = text.length > most ? `${text.slice(0, most)}…` : text;
  return shown.replace(UNSEEN, codeOf);
}
