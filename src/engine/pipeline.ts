// Pipeline: build → probe → preview → confirm → execute, in one call. A dry run ends after the preview.
import { PlanCache } from './cache.ts';
import type { BuildObserver } from './observer.ts';
import type { ExecuteOptions } from './options.ts';
import type { Plan } from './plan.ts';
import { formatPreview, formatStyledPreview, type PlanDisplayHints } from './preview.ts';
import type { Preview } from './probe.ts';
import type { RunOutcome } from './run.ts';

export { CancelledError } from './fan-out.ts';

/** The person said no; nothing was changed. */
export class DeclinedError extends Error {
  override readonly name = 'DeclinedError';
  constructor() {
    super('declined: the plan was not executed');
  }
}

export interface PipelineOptions extends ExecuteOptions {
  readonly buildProgress?: BuildObserver;
  /** Default: yes. */
  readonly confirm?: (preview: Preview) => boolean | Promise<boolean>;
  /** Where the preview is written. */
  readonly out?: { write(text: string): unknown };
  /** Columns of `out`; default 80. */
  readonly width?: number;
  /** A coloured tree instead of plain text. */
  readonly pretty?: boolean;
  readonly hints?: Pick<PlanDisplayHints, 'colour'>;
}

/** Rejects with what stopped it: BuildError, DeclinedError, CancelledError, or the error of the run. */
export async function execWithConfirm<P>(plan: Plan<P>, options: PipelineOptions = {}): Promise<RunOutcome> {
  const cache = options.cache ?? new PlanCache(); // one for probe and execute
  try {
    const executable = plan.build(options.buildProgress);
    const preview = await executable.probe({ ...options, cache });
    const { out, pretty, width = 80, hints } = options;
    out?.write(
      `${pretty ? formatStyledPreview(plan.operation, preview, width, hints) : formatPreview(plan.operation, preview)}\n`,
    );
    if (options.dryRun) return { cells: [], preview };
    if (options.confirm && !(await options.confirm(preview))) throw new DeclinedError();
    return { ...(await executable.execute({ ...options, cache })), preview };
  } finally {
    await cache.close();
  }
}
