// View of rows: columns padded to their widest cell, lines cut to the terminal. A cell is one line of printable text.
import { writtenOut } from '../../core/state/trust/unseen.ts';

/** Gives a cell its colour, after it was padded. */
export type PaintCell = (cell: string, column: number, row: readonly string[]) => string;

export function formatTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  width: number,
  paintCell: PaintCell = (cell) => cell,
  /** To how many signs a column is padded at most: one long cell then moves its own row only. */
  mostPadding = Number.POSITIVE_INFINITY,
): string {
  const clean = rows.map((row) => row.map(oneLine));
  const widths = header.map((title, column) =>
    clean.reduce((most, row) => Math.max(most, Math.min(row[column]?.length ?? 0, mostPadding)), title.length),
  );
  const line = (row: readonly string[], paint: PaintCell): string => {
    let room = Math.max(40, width);
    const cells: string[] = [];
    const last = row.findLastIndex((cell) => cell !== '');
    for (const [column, cell] of row.slice(0, last + 1).entries()) {
      const padded = column === last ? cell : cell.padEnd(widths[column] ?? 0);
      const shown = padded.length > room ? `${padded.slice(0, Math.max(0, room - 1))}…` : padded;
      cells.push(paint(shown, column, row));
      room -= padded.length + 2;
      if (room <= 0) break;
    }
    return cells.join('  ').trimEnd();
  };
  return [line(header, (cell) => cell), ...clean.map((row) => line(row, paintCell))].join('\n');
}

/** Line breaks and tabs of others become spaces; what nobody would see, or what would turn its neighbours around, is written out. */
export const oneLine = (text: string): string => writtenOut(text.replace(/[\t-\r\u0085]+/g, ' ')).trimEnd();
