// How changes and plans read for people. Plain text; colour is the view's.
import { CAUSES, type Change, type FieldChange, type Situation, type StackDiff } from '../diff/change.ts';

const VERBS: Record<Change['repair'], string> = {
  refuse: 'refuse',
  create: 'create',
  recreate: 'recreate',
  start: 'start',
  restart: 'restart',
  signal: 'signal',
  remove: 'remove',
  unpause: 'unpause',
  rename: 'rename',
  connect: 'connect',
  disconnect: 'disconnect',
  update: 'update',
  'remove-network': 'remove network',
};

const LONG = 60;
const cut = (text: string): string => (text.length > LONG ? `${text.slice(0, LONG - 1)}…` : text);

export function formatField(field: FieldChange): string {
  if (field.before === null) return `${field.path}: + ${cut(field.after ?? '')}`;
  if (field.after === null) return `${field.path}: - ${cut(field.before)}`;
  return `${field.path}: ${cut(field.before)} → ${cut(field.after)}`;
}

/** One change in one line, for example `recreate web (shop-web-1): its definition changed (image: a:1 → a:2)`. */
export function formatChange(change: Change): string {
  const subject = change.service === '' ? change.name : `${change.service} (${change.name})`;
  const why = [change.detail, ...change.fields.slice(0, 3).map(formatField)].filter((part) => part !== '');
  const more = change.fields.length > 3 ? `, ${change.fields.length - 3} more` : '';
  return `${VERBS[change.repair]} ${subject}: ${CAUSES[change.cause]}${why.length > 0 ? ` (${why.join(', ')}${more})` : ''}`;
}

export const SITUATIONS: Record<Situation, string> = {
  install: 'not deployed yet',
  update: 'desired state changed',
  scale: 'replicas changed',
  drift: 'drifted',
  same: 'in sync',
};

/** A stack's part of a preview: a headline, one line a change, what stays. `mark` prefixes each change: + ~ - !. */
export function formatStackDiff(diff: StackDiff): string[] {
  if (diff.changes.length === 0)
    return [`${diff.stack}: ${SITUATIONS.same}`, ...diff.warnings.map((warning) => `  ! ${warning}`)];
  return [
    `${diff.stack}: ${SITUATIONS[diff.situation]}`,
    ...diff.changes.flatMap((change) => [
      `  ${markOf(change)} ${formatChange({ ...change, fields: [] })}`,
      ...change.fields.map((field) => `      ${formatField(field)}`),
    ]),
    ...diff.warnings.map((warning) => `  ! ${warning}`),
    ...(diff.untouched.length > 0 ? [`    untouched: ${diff.untouched.join(', ')}`] : []),
  ];
}

export function markOf(change: Change): string {
  switch (change.repair) {
    case 'create':
      return '+';
    case 'remove':
    case 'remove-network':
      return '-';
    case 'refuse':
      return '!';
    default:
      return '~';
  }
}
