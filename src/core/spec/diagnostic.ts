// Diagnostic: a mistake in a declaration, as a value. Collected to the end, printed together; never thrown.

export interface Place {
  /** Path in the repository, with `/`. */
  readonly file: string;
  /** 1-based; 0 when the place is the whole file. */
  readonly line: number;
  readonly column: number;
}

export interface Diagnostic {
  readonly severity: 'error' | 'warning';
  /** Upper snake case, stable: `windlass explain CODE` prints more. */
  readonly code: string;
  readonly summary: string;
  /** What was expected and what was found. */
  readonly detail?: string;
  /** What to do, including a "did you mean". */
  readonly help?: string;
  readonly place?: Place;
  /** The stack that it stops; absent when it concerns the fleet. */
  readonly stack?: string;
}
