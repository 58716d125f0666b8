// View of rows: columns padded to their widest cell, the last one cut to the terminal.

export function formatTable(header: readonly string[], rows: readonly (readonly string[])[], width: number): string {
  const widths = header.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join('  ')
      .trimEnd();
  const cut = (text: string): string => (width > 40 && text.length > width ? `${text.slice(0, width - 1)}…` : text);
  return [line(header), ...rows.map(line)].map(cut).join('\n');
}
