// For tests that start the CLI with an environment of their own: without what `npm test` sets, each start compiles all modules anew.
const folder = process.env['NODE_COMPILE_CACHE'];

export const warmStart: Readonly<Record<string, string>> = folder === undefined ? {} : { NODE_COMPILE_CACHE: folder };
