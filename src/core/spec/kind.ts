// Kind: the list of what a document can declare. Each kind's schema is the one source of its type, its check and its published file.
import type { TSchema } from 'typebox';
import { App } from './app.ts';
import { Backup } from './backup.ts';
import { Controller } from './controller.ts';
import { Fleet } from './fleet.ts';
import { Job } from './job.ts';
import { Policy } from './policy.ts';
import { Clone, Move, Purge, Recover, Restore } from './request.ts';
import { Stack } from './stack.ts';

export const KINDS = {
  Fleet,
  Stack,
  App,
  Job,
  Backup,
  Controller,
  Policy,
  Restore,
  Recover,
  Clone,
  Move,
  Purge,
} as const;
export type Kind = keyof typeof KINDS;

export interface Declared {
  readonly Fleet: Fleet;
  readonly Stack: Stack;
  readonly App: App;
  readonly Job: Job;
  readonly Backup: Backup;
  readonly Controller: Controller;
  readonly Policy: Policy;
  readonly Restore: Restore;
  readonly Recover: Recover;
  readonly Clone: Clone;
  readonly Move: Move;
  readonly Purge: Purge;
}

export const API_VERSION = 'windlass/v1';

/** File name below `schemas/`. */
export const schemaFile = (kind: Kind): string => `${kind.toLowerCase()}.json`;

/** The published JSON Schema (draft 2020-12) of a kind. */
export function schemaOf(kind: Kind): Record<string, unknown> {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: schemaFile(kind),
    ...(KINDS[kind] as TSchema),
  };
}
