// Registry: every command by its words. The order is the order of the help.

import type { Command } from './command.ts';
import { command as apply } from './commands/apply.ts';
import * as approval from './commands/approve.ts';
import * as backups from './commands/backups.ts';
import * as catalog from './commands/catalog.ts';
import { command as check } from './commands/check.ts';
import { command as completion } from './commands/completion.ts';
import { command as diff } from './commands/diff.ts';
import { command as doctor } from './commands/doctor.ts';
import { command as events } from './commands/events.ts';
import { command as explain } from './commands/explain.ts';
import { command as get } from './commands/get.ts';
import { command as history } from './commands/history.ts';
import * as hookLog from './commands/hook-log.ts';
import * as hookRun from './commands/hook-run.ts';
import * as hooks from './commands/hooks.ts';
import { command as init } from './commands/init.ts';
import { command as logs } from './commands/logs.ts';
import { command as plan } from './commands/plan.ts';
import { command as prune } from './commands/prune.ts';
import { command as reconcile } from './commands/reconcile.ts';
import { command as render } from './commands/render.ts';
import * as replicas from './commands/replicas.ts';
import * as request from './commands/request.ts';
import { command as requests } from './commands/requests.ts';
import { command as resume } from './commands/resume.ts';
import { command as rollback } from './commands/rollback.ts';
import { command as run } from './commands/run.ts';
import { command as schema } from './commands/schema.ts';
import * as stack from './commands/stack.ts';
import { command as suspend } from './commands/suspend.ts';
import { command as trace } from './commands/trace.ts';
import { accept } from './commands/trust.ts';
import { init as initTrust } from './commands/trust-init.ts';
import { policy } from './commands/trust-policy.ts';
import { status as trustStatus } from './commands/trust-status.ts';
import { verify } from './commands/trust-verify.ts';
import { command as unlock } from './commands/unlock.ts';
import { command as validate } from './commands/validate.ts';
import * as vault from './commands/vault.ts';
import { set } from './commands/vault-set.ts';
import { exportAll, importAll } from './commands/vault-transfer.ts';
import { command as wait } from './commands/wait.ts';

export const COMMANDS: readonly Command[] = [
  init,
  validate,
  render,
  plan,
  apply,
  run,
  get,
  diff,
  wait,
  reconcile,
  history,
  events,
  trace,
  logs,
  suspend,
  resume,
  rollback,
  prune,
  stack.start,
  stack.stop,
  stack.restart,
  stack.scale,
  hookRun.test,
  hooks.show,
  hooks.graph,
  hookRun.run,
  hookLog.log,
  backups.backup,
  backups.list,
  backups.show,
  backups.verify,
  backups.drill,
  backups.prune,
  backups.remove,
  backups.exportOne,
  backups.importOne,
  replicas.replicate,
  replicas.fetchOne,
  request.restore,
  request.recover,
  request.clone,
  request.move,
  request.purge,
  approval.signAgain,
  approval.approve,
  approval.reject,
  approval.withdraw,
  initTrust,
  policy,
  accept,
  trustStatus,
  verify,
  requests,
  check,
  set,
  vault.get,
  vault.list,
  vault.rm,
  vault.key,
  exportAll,
  importAll,
  catalog.list,
  catalog.show,
  schema,
  explain,
  unlock,
  doctor,
  completion,
];
