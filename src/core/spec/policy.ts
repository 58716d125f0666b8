// Policy: one version of who may ask for, approve and sign what. Immutable once it is in effect. What it says about its own keys and
// numbers is checked in `core/state/trust/policy-file.ts`, so that whoever only validates stacks does not load the key readers.
import { type Static, Type } from 'typebox';
import { Duration, head, mapOf, oneOf, strict } from './scalar.ts';

export const RULED_OPERATIONS = ['deploy', 'restore', 'recover', 'clone', 'move', 'purge'] as const;
export type RuledOperation = (typeof RULED_OPERATIONS)[number];

/** Also an identity line of allowed_signers: no blank, quote, comma, `*`, `?` or `!`. */
export const Principal = Type.String({
  pattern: '^[a-z0-9][a-z0-9._@+-]{0,99}$',
  description: 'the name of a principal: lower-case letters, digits and `._@+-`, starting with a letter or digit',
});

export const Sha256 = Type.String({
  pattern: '^[0-9a-f]{64}$',
  description: 'a SHA-256 of 64 lower-case hex digits',
});

export const FleetId = Type.String({ pattern: '^[0-9a-zA-Z-]{8,64}$', description: 'the id of the fleet' });

const Armored = Type.String({
  pattern: '^-----BEGIN PGP PUBLIC KEY BLOCK-----\\r?\\n',
  maxLength: 200_000,
  description: 'an armored OpenPGP public key',
});

const Keys = Type.Object(
  {
    ssh: Type.Optional(
      Type.Array(
        Type.String({
          pattern: '^(?:ssh|ecdsa|sk)-[a-z0-9@.-]{1,60} [A-Za-z0-9+/]{16,12000}={0,2}(?: [^\\u0000-\\u001f]{0,200})?$',
          description: 'an SSH public key line such as "ssh-ed25519 AAAA…"',
        }),
        { minItems: 1, maxItems: 20, uniqueItems: true, description: 'SSH public keys' },
      ),
    ),
    openpgp: Type.Optional(
      Type.Array(
        Type.Union(
          [
            Armored,
            Type.Object(
              {
                fingerprint: Type.String({
                  pattern: '^[0-9A-Fa-f]{40}$',
                  description: 'the fingerprint of the primary key, 40 hex digits',
                }),
                key: Armored,
              },
              strict,
            ),
          ],
          { description: 'an armored OpenPGP public key, alone or as `key` beside its `fingerprint`' },
        ),
        { minItems: 1, maxItems: 20, description: 'OpenPGP public keys' },
      ),
    ),
  },
  { ...strict, minProperties: 1, description: 'the keys of one person' },
);

const Threshold = Type.Integer({ minimum: 1, maximum: 100, description: 'how many different people must sign' });

const people = (description: string) =>
  Type.Array(Principal, { minItems: 1, maxItems: 200, uniqueItems: true, description });

const Rule = Type.Object(
  {
    operation: oneOf(RULED_OPERATIONS, { description: RULED_OPERATIONS.join(', ') }),
    stacks: Type.Array(
      Type.String({
        pattern: '^!?[a-z0-9_*?-]{1,63}$',
        description: 'the name of a stack, or a glob of names such as "db-*"',
      }),
      { minItems: 1, maxItems: 200, description: 'names or globs of stacks' },
    ),
    requesters: people('who may ask for it; for deploy, who may sign commits'),
    approvers: Type.Optional(people('who may approve it')),
    threshold: Type.Optional(Threshold),
    requesterMayApprove: Type.Optional(
      Type.Boolean({ description: 'true or false: does the approval of whoever asked count', default: false }),
    ),
    maxLifetime: Type.Optional(Duration),
    minDelay: Type.Optional(Duration),
  },
  { ...strict, description: 'who may do one operation on some stacks' },
);

export const Policy = Type.Object(
  {
    ...head('Policy'),
    version: Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      description: 'the number of this version, also in its file name',
    }),
    previous: Type.Optional(
      Type.String({
        pattern: '^[0-9a-f]{64}$',
        description: 'the SHA-256 of the file of the version before, 64 lower-case hex digits; absent in version 1',
      }),
    ),
    fleet: FleetId,
    principals: mapOf(Principal, Keys, 'principal → keys'),
    admins: Type.Object(
      { members: people('who signs new versions'), threshold: Threshold },
      { ...strict, description: 'who signs new versions of this policy' },
    ),
    rules: Type.Array(Rule, {
      maxItems: 500,
      description:
        'for each stack the first rule that names the operation and the stack holds; without one it is refused',
    }),
  },
  { ...strict, title: 'Windlass Policy', description: 'Who may ask for, approve and sign what.' },
);
export type Policy = Static<typeof Policy>;
export type PolicyRule = Policy['rules'][number];
