// Job: runs one try of a job in its context. Whatever goes wrong, nothing of it runs any more when this returns or throws.
import type { ContainerJob, HttpCall, JobSpec } from '../core/hook/job.ts';
import { jobContainerName } from '../core/hook/run-state.ts';
import { replaceTokens } from '../core/render/token.ts';
import type { LogLine } from '../ports/runtime.ts';
import { isOutage, NotEnded, outlast, withDeadline } from './deadline.ts';
import { type ActionContext, done, failed, type Outcome, ofCommand } from './outcome.ts';

export function runJob(ctx: ActionContext, job: JobSpec): Promise<Outcome> {
  switch (job.context) {
    case 'container':
      return runContainer(ctx, job);
    case 'exec':
      return runExec(ctx, job);
    case 'http':
      return runHttp(ctx, job.call);
  }
}

async function runContainer(ctx: ActionContext, job: ContainerJob): Promise<Outcome> {
  const { ports, clock, signal, log, run } = ctx;
  const name = jobContainerName(run, ctx.action, ctx.attempt);
  const owner = jobOwner(run.stack, run.phase, job.name);
  const environment = await resolveAll(ctx, job.environment, job.service);
  const reading = new AbortController();
  let watched: Promise<number> | null = null;
  let isAgain = false;
  const take = (line: LogLine): void => {
    if (isAgain) log.note('(the engine was away: the output is read again from its beginning)');
    isAgain = false;
    log.take(line);
  };
  try {
    const request = { name, owner, job: { ...job, environment } };
    await outlast(ctx, signal, () => ports.startJob(request, signal));
    let isBegun = false;
    watched = outlast(ctx, signal, async () => {
      if (isBegun) {
        // The output may take long to go on: that the engine is back is known before.
        await ports.findJob(name, signal);
        ctx.outages.back();
        isAgain = true;
      }
      isBegun = true;
      log.forgetSignals();
      return ports.watchJob(name, take, reading.signal);
    });
    return ofCommand(await unlessAborted(watched, signal), log);
  } catch (error) {
    let lost: unknown = null;
    watched?.catch((reason: unknown) => {
      if (!reading.signal.aborted) lost = reason;
    });
    // Nobody saw it while the engine was away: it may have ended in its time, and then how it ended counts.
    let isUnseen = watched !== null && ctx.outages.isAway;
    let hasEnded = false;
    try {
      await end(ctx, async (ending) => {
        hasEnded ||= isUnseen && (await ports.findJob(name, ending)).kind === 'ended';
        if (hasEnded) return;
        isUnseen = false;
        await ports.killJob(name, ending);
      });
      // What it says while it ends is read until it is gone.
      if (watched) await settled(clock, LAST_WORDS_MS, watched);
    } finally {
      reading.abort(error);
      // It was told to stop reading; why the job is over is known already.
      await watched?.catch(() => {});
    }
    if (!hasEnded) throw isOutage(lost) ? lost : error;
    isAgain = true;
    log.forgetSignals();
    const exitCode = await withDeadline({
      clock,
      ms: LAST_WORDS_MS,
      graceMs: LAST_WORDS_MS,
      signal: new AbortController().signal,
      work: (rest) => outlast(ctx, rest, () => ports.watchJob(name, take, rest)),
    });
    return ofCommand(exitCode, log);
  }
}

/** For the rest of the output, once nothing runs any more. */
const LAST_WORDS_MS = 5_000;

/** Leaves the work running; whoever asks ends it. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** Returns when the work has ended, however, or after that time. */
async function settled(clock: ActionContext['clock'], ms: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  const isOver = clock.sleep(ms, done.signal).catch(() => {});
  await Promise.race([work.catch(() => {}), isOver]);
  done.abort();
}

export const jobOwner = (stack: string, phase: string, job: string): string => `${stack}/${phase}/${job}`;

/** On a deadline of its own, since the one of the job may be over. */
async function end(ctx: ActionContext, kill: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const { clock, killMs } = ctx;
  try {
    await withDeadline({
      clock,
      ms: killMs,
      graceMs: killMs / 4,
      signal: new AbortController().signal,
      work: (signal) => outlast(ctx, signal, () => kill(signal)),
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new NotEnded(`it could not be ended and may still run: ${why}`, error);
  }
}

interface Command {
  readonly service: string;
  readonly command: readonly string[];
  readonly user: string | null;
  readonly environment: Readonly<Record<string, string>>;
}

/** Not repeated by itself when the engine goes away: nobody knows whether it ran. */
export async function runExec(ctx: ActionContext, { service, command, user, environment }: Command): Promise<Outcome> {
  const { ports, signal, log } = ctx;
  const mark = jobContainerName(ctx.run, ctx.action, ctx.attempt);
  const opened = await resolveAll(ctx, environment, service);
  log.forgetSignals();
  try {
    const exitCode = await ports.exec({ service, command, user, environment: opened, mark }, log.take, signal);
    return ofCommand(exitCode, log);
  } catch (error) {
    // The port ends what it is told to end; a lost connection ends nothing.
    if (isOutage(error)) await end(ctx, (ending) => ports.endExec({ service, mark }, ending));
    throw error;
  }
}

export async function runHttp(ctx: ActionContext, call: HttpCall): Promise<Outcome> {
  const { status, body } = await ctx.ports.http(call, ctx.signal);
  ctx.log.note(`${call.method} ${replaceTokens(call.url, (ref) => ref)}: status ${status}`);
  for (const line of body.split('\n')) if (line !== '') ctx.log.note(line);
  const isGood = call.statuses === null ? status >= 200 && status < 300 : call.statuses.includes(status);
  return isGood ? done(`status ${status}`) : failed(`status ${status}`);
}

async function resolveAll(
  ctx: ActionContext,
  environment: Readonly<Record<string, string>>,
  service: string | null,
): Promise<Record<string, string>> {
  const resolved: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) resolved[name] = await ctx.resolve(value, service);
  return resolved;
}
