// Source files of a folder, for tests that read the code.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

export const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => join(folder, path));
