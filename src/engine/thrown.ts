// Thrown: whatever was thrown, as an Error; the original stays its cause.
import { inspect } from 'node:util';

export const asError = (thrown: unknown): Error =>
  thrown instanceof Error
    ? thrown
    : new Error(typeof thrown === 'string' ? thrown : inspect(thrown), { cause: thrown });
