// Condition: what is true of a stack now, in six words with one closed list of reasons.

export const CONDITION_TYPES = ['Ready', 'Reconciling', 'Stalled', 'Healthy', 'Drifted', 'Verified'] as const;
export type ConditionType = (typeof CONDITION_TYPES)[number];

export const REASONS = [
  'Succeeded',
  'Progressing',
  'Retrying',
  'Failed',
  'InvalidSpec',
  'RenderFailed',
  'Conflict',
  'DependencyNotReady',
  'DependencyCycle',
  'EngineUnreachable',
  'SourceUnreachable',
  'ImageMissing',
  'BuildFailed',
  'PortConflict',
  'VolumeChanged',
  'Unhealthy',
  'CrashLoop',
  'OneShotFailed',
  'SettleTimeout',
  'Settled',
  'DriftDetected',
  'DriftHealed',
  'PersistentDrift',
  'DriftIgnored',
  'InSync',
  'Suspended',
  'Stopped',
  'Held',
  'OutsideWindow',
  'PruneGuarded',
  'HookFailed',
  'RestoreFailed',
  'RolledBack',
  'Superseded',
  'NotVerified',
  'Verified',
  'VerifyDisabled',
  'HistoryRewritten',
  'PolicyDrift',
  'Idle',
  'Unknown',
] as const;
export type Reason = (typeof REASONS)[number];

export interface Condition {
  readonly type: ConditionType;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: Reason;
  readonly message: string;
  /** Commit it speaks of; '' when none is known. */
  readonly revision: string;
  /** When status or reason last changed. */
  readonly sinceMs: number;
}
