// Schema check: a value out of an archive against its schema. Stops at the first mistake: the input may be hostile, and nobody corrects it.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { TSchema } from 'typebox';

const compiled = new WeakMap<TSchema, ValidateFunction>();

/** The first mistake as `/path must be …`, or null. Never repeats a value. */
export function mistakeOf(schema: TSchema, value: unknown): string | null {
  let validate = compiled.get(schema);
  if (!validate) {
    validate = new Ajv2020({ strict: true, strictRequired: false, ownProperties: true }).compile(schema);
    compiled.set(schema, validate);
  }
  if (validate(value)) return null;
  const error = validate.errors?.[0];
  const extra = (error?.params as { additionalProperty?: string } | undefined)?.additionalProperty;
  const words = `${error?.instancePath || '/'} ${error?.message ?? 'is wrong'}`;
  return (extra === undefined ? words : `${words}: ${JSON.stringify(extra)}`).slice(0, 300);
}
