// ProcessError: a program that could not be started, or that was ended by us. A non-zero exit code is not an error here.

/**
 * `missing`: no such program; `refused`: it may not be executed, or the system has no room for it; `directory`: the
 * working directory is not there; `deadline`, `cancelled`, `output`: it was ended because it took too long, was called
 * off, or printed more than it may.
 */
export type ProcessErrorKind = 'missing' | 'refused' | 'directory' | 'deadline' | 'cancelled' | 'output';

export class ProcessError extends Error {
  override readonly name = 'ProcessError';
  readonly kind: ProcessErrorKind;
  readonly program: string;
  /** Redacted. */
  readonly args: readonly string[];
  /** What it printed on standard error until then: redacted, head and tail. */
  readonly stderr: string;
  readonly durationMs: number;

  constructor(
    kind: ProcessErrorKind,
    summary: string,
    details: {
      readonly program: string;
      readonly args: readonly string[];
      readonly stderr: string;
      readonly durationMs: number;
    },
    cause?: unknown,
  ) {
    super(summary, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.program = details.program;
    this.args = details.args;
    this.stderr = details.stderr;
    this.durationMs = details.durationMs;
  }
}
