// The order of test files: those that take longest begin first, so that none of them runs alone at the end. Nothing depends on
// the order; a file that is not listed, or takes another time by now, only costs a little time.
import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Seconds that each took beside the others of its suite, from 20 on. */
const SECONDS: Readonly<Record<string, number>> = {
  'e2e/round-trip': 170,
  'e2e/drift': 150,
  'e2e/keycloak': 144,
  'e2e/controller': 129,
  'e2e/restore': 116,
  'e2e/drift-unseen': 104,
  'e2e/by-request': 100,
  'e2e/failures': 96,
  'e2e/backup': 85,
  'e2e/drill': 84,
  'e2e/trust': 79,
  'e2e/restore-kill': 75,
  'e2e/recover': 68,
  'e2e/compose-fleet': 64,
  'e2e/restic': 57,
  'contract/one-shots': 55,
  'contract/runtime': 51,
  'e2e/secrets': 49,
  'e2e/kill': 40,
  'e2e/payload': 38,
  'contract/archive-store': 27,
  'scenario/trust': 148,
  'adapters/restic/repository': 54,
  'cli/trust-approve': 43,
  'scenario/restore': 35,
  'adapters/archive/s3-store': 32,
  'core/trust/table': 31,
  'cli/trust-request': 27,
  'scenario/replicate': 27,
  'cli/vault-kinds': 25,
  'cli/trust-readme': 22,
  'adapters/git/repository': 21,
};

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const seconds = (file: TestSpecification): number =>
      SECONDS[relative(`${this.ctx.config.root}/test`, file.moduleId).replace(/\.test\.ts$/, '')] ?? 0;
    const order = (file: TestSpecification): number => file.project.config.sequence.groupOrder;
    // The base puts larger files first, and what is remembered of an earlier run; a sort here keeps that among equals.
    const sorted = await super.sort(files);
    return sorted.sort((one, other) => order(one) - order(other) || seconds(other) - seconds(one));
  }
}
