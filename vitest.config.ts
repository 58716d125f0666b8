// Two suites: quick ones beside each other, and those on a real engine, few at a time and after the others.
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './scripts/vitest-order.ts';

const onEngine = ['test/e2e/**/*.test.ts', 'test/contract/**/*.test.ts'];

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: onEngine,
          pool: 'forks',
          // By default one core is left idle: on two that is half of them.
          maxWorkers: '100%',
          testTimeout: 20_000,
          hookTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'e2e',
          include: onEngine,
          setupFiles: ['scripts/vitest-engine.ts'],
          pool: 'forks',
          testTimeout: 120_000,
          hookTimeout: 120_000,
          // They mostly wait for the engine.
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
