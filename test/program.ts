// How tests start the CLI as a process of its own, which they do some hundred times.
import { resolve } from 'node:path';

/** Under `npm test` a bundle of the sources, made just before, which starts three times as fast; else the sources. */
export const PROGRAM = process.env['WINDLASS_TEST_PROGRAM'] ?? resolve(import.meta.dirname, '../src/main.ts');

const folder = process.env['NODE_COMPILE_CACHE'];

/** For an environment of one's own: without what `npm test` sets, each start compiles all modules anew. */
export const warmStart: Readonly<Record<string, string>> = folder === undefined ? {} : { NODE_COMPILE_CACHE: folder };
