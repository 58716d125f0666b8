import { describe, expect, test } from 'vitest';
import { RunOptionsError, runOptionsFrom } from '../../src/engine/options.ts';

const phases = ['bootstrap', 'destroy'];

describe('run_options', () => {
  test.each<[unknown, object]>([
    [undefined, { dryRun: false, skipPhases: [] }],
    [null, { dryRun: false, skipPhases: [] }],
    [{}, { dryRun: false, skipPhases: [] }],
    [{ dry_run: true }, { dryRun: true, skipPhases: [] }],
    [
      { dry_run: false, skip_phases: ['destroy'] },
      { dryRun: false, skipPhases: ['destroy'] },
    ],
  ])('%j are read', (value, options) => {
    expect(runOptionsFrom(value, phases)).toEqual(options);
  });

  test.each<[unknown, string]>([
    [{ skip_phases: ['destory'] }, 'skip_phases: no phase is called "destory"; there are "bootstrap", "destroy"'],
    [{ dryrun: true }, 'run_options has no key "dryrun"; it has dry_run and skip_phases'],
    [{ dry_run: 'yes' }, 'run_options.dry_run must be true or false'],
    [{ skip_phases: 'destroy' }, 'run_options.skip_phases must be a list of phase names'],
    [{ skip_phases: [1] }, 'run_options.skip_phases must be a list of phase names'],
    [[], 'run_options must be a mapping'],
  ])('%j are refused', (value, message) => {
    expect(() => runOptionsFrom(value, phases)).toThrow(RunOptionsError);
    expect(() => runOptionsFrom(value, phases)).toThrow(message);
  });
});
