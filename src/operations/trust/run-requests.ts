// Run requests: carries out what is authorised at a tip, at most once each. Claimed durably before anything is touched, judged once more
// after the claim, and finished after a crash only where the work itself proves that it is the same.
import { asFault, Fault } from '../../core/fault.ts';
import {
  advance,
  isReachable,
  isTerminal,
  LEFT_BRANCH,
  type LifeEvent,
  observe,
  type RequestSnapshot,
  settle,
} from '../../core/request/life.ts';
import type { RequestEvaluation } from '../../core/state/trust/evaluate-request.ts';
import { requestPath } from '../../core/state/trust/request-file.ts';
import type { RunRecord } from '../../core/status/event.ts';
import type { Receipt } from '../../ports/ledger.ts';
import { isRunningHere, unfinishedRestores } from '../archive/restore.ts';
import { holdLeases } from '../leases.ts';
import type { Workbench } from '../workbench.ts';
import { holdUnrestored, intentKey, targetsOf } from './awaited.ts';
import { keepDiscards } from './discards-of.ts';
import { lookAtTrust, type RequestAt, ranAs, type TrustLook } from './look.ts';
import {
  broughtBack,
  changesOf,
  doWork,
  leasesOf,
  planWork,
  type RequestWork,
  stackOf as stackOfWork,
  stacksOf,
  takenBy,
  workDigest,
} from './request-work.ts';

/** The reason of one that may run, and cannot yet. */
const WAITS = 'waits';

/** Nothing came of it yet, and nothing speaks against it. */
const LATER: ReadonlySet<string> = new Set(['CANCELLED', 'ENGINE_UNREACHABLE', 'LOCK_HELD']);
/** Of one that is claimed already: also what could not be written down of it. */
const LEFT_CLAIMED: ReadonlySet<string> = new Set([...LATER, 'FILES_FAILED']);

export interface RequestsDone {
  readonly ran: readonly RequestSnapshot[];
  /** Where requests stand since this look, and did not before: once each, redacted. */
  readonly told: readonly string[];
}

/** A line of the log at the moment at which something comes to be so, redacted. */
type Tell = (line: string) => void;

/** Judges every request of the tip and runs those that may. What fails is told in the record of the request, not thrown. `log`: each change as
 * it happens, since work on data may take hours. */
export async function runRequests(
  bench: Workbench,
  tip: string,
  signal: AbortSignal,
  busy: (stack: string) => boolean = () => false,
  log: Tell = () => {},
): Promise<RequestsDone> {
  let look = await lookAtTrust(bench.house, tip);
  const lines: string[] = [];
  const told: Tell = (line) => {
    lines.push(line);
    log(line);
  };
  // Whatever runs first, where the others stand is known now.
  const rememberAll = (): void => {
    for (const request of look.requests) remember(bench, look, request, told);
  };
  const finished = await finishClaimed(bench, look, busy, signal, log);
  const ran: RequestSnapshot[] = [...finished.done];
  let { isStale } = finished;
  if (!isStale) rememberAll();
  for (const { id } of look.requests) {
    // Work on data may take hours, and somebody may have said no to the next one meanwhile.
    if (isStale) {
      if (signal.aborted || (await newestTip(bench, signal)) !== tip) break;
      look = await lookAtTrust(bench.house, tip);
      isStale = false;
      rememberAll();
    }
    const request = look.requests.find((one) => one.id === id);
    if (request === undefined) continue;
    const snapshot = remember(bench, look, request, told);
    if (signal.aborted || request.evaluation.state !== 'ready' || snapshot.state !== 'scheduled') continue;
    if (busy(stackOf(request.evaluation))) {
      wait(bench, look, snapshot, told, 'the stack is being deployed');
      continue;
    }
    const before = claimedBefore(bench, look, request.evaluation);
    if (before !== null) {
      wait(bench, look, snapshot, told, `the request ${before} of the same stack has not come to its end`);
      continue;
    }
    const done = await runOne(bench, look, request, snapshot, { told, log }, signal);
    if (done === null) continue;
    ran.push(done);
    isStale = true;
  }
  tellGone(bench, look, told);
  tellUnread(bench, look, told);
  return { ran, told: lines };
}

/** Null while the source cannot be seen. */
async function newestTip({ house }: Workbench, signal: AbortSignal): Promise<string | null> {
  try {
    return await house.source.fetch(signal);
  } catch (error) {
    if (error instanceof Fault) return null;
    throw error;
  }
}

/** Those that wait, and whose file is no longer there. Of what was never more than a file that somebody pushed nothing is kept. */
function tellGone({ house }: Workbench, look: TrustLook, told: Tell): void {
  const { store, clock, redact } = house;
  const { ledger, there, tip, requests } = look;
  const gone = ledger.snapshots().filter(({ id, state }) => !there.has(id) && isReachable(state, 'scheduled'));
  const claimed = new Map(gone.length === 0 ? [] : ledger.claims().map((one) => [one.subject, one.id]));
  for (const before of gone) {
    const { id, history, subject } = before;
    if (history.every(({ state }) => state === 'observed' || state === 'verifying')) {
      ledger.forget(id);
      continue;
    }
    const claim = subject === null ? undefined : claimed.get(subject);
    const twin = requests.find(({ evaluation }) => subject !== null && evaluation.subject === subject);
    const also = claim ? `; the same bytes ${ranAs(ledger, claim)}` : twin ? `; ${twin.path} holds the same bytes` : '';
    const isNews = before.reason !== LEFT_BRANCH;
    const since = isNews ? tip : (/ at commit ([0-9a-f]+)/.exec(before.detail)?.[1] ?? tip);
    const detail = `${requestPath(id)} is no longer on the branch at commit ${since.slice(0, 12)}${also}`;
    if (before.detail === detail) continue;
    ledger.putSnapshot(advance(before, ['VERIFY'], { atMs: clock.nowMs(), reason: LEFT_BRANCH, detail }));
    const message = redact(`${id} ${LEFT_BRANCH}: ${detail}`);
    told(`request ${message}`);
    store.appendEvent({
      atMs: clock.nowMs(),
      stack: '@fleet',
      level: 'warning',
      reason: 'Request',
      message,
      revision: tip,
    });
  }
}

/** Once for each: whoever keeps the folder has to tidy it. */
function tellUnread({ house }: Workbench, { passedOver, misnamed, tip }: TrustLook, told: Tell): void {
  const { store, clock, source, redact } = house;
  const unread: readonly (readonly [string, unknown, string])[] = [
    [
      'requests-passed-over',
      passedOver,
      passedOver === 0
        ? ''
        : `${passedOver} files in requests/ were not looked at: there are too many; remove those that are done`,
    ],
    [
      'requests-misnamed',
      misnamed.map(({ path }) => path).join('\n'),
      misnamed.length === 0
        ? ''
        : `nobody reads ${misnamed.map(({ path }) => JSON.stringify(path)).join(', ')}: a request is requests/ID.yaml, with ID of lower-case letters, digits, - and _`,
    ],
  ];
  for (const [word, value, message] of unread) {
    const key = `${word}/${source.spec.name}`;
    if ((store.value(key) ?? (message === '' ? value : null)) === value) continue;
    store.putValue(key, value);
    if (message === '') continue;
    told(redact(message));
    store.appendEvent({
      atMs: clock.nowMs(),
      stack: '@fleet',
      level: 'warning',
      reason: 'Request',
      message: redact(message),
      revision: tip,
    });
  }
}

/** Brings the durable record up to date with the judgement; says it when something changed. */
function remember(bench: Workbench, look: TrustLook, { id, evaluation }: RequestAt, told: Tell): RequestSnapshot {
  const { clock } = bench.house;
  const kept = look.ledger.snapshot(id);
  const before = kept ?? observe(id, evaluation.subject, clock.nowMs());
  // One that is over stays so; one that waits for the world is as it was until that lets it go.
  const isWaiting = before.reason === WAITS && before.subject === evaluation.subject && evaluation.state === 'ready';
  if (isTerminal(before.state) || isWaiting) return before;
  const after = settle(before, evaluation, clock.nowMs());
  if (kept === null || after.state !== kept.state || after.reason !== kept.reason || after.detail !== kept.detail) {
    look.ledger.putSnapshot(after);
    if (kept?.state !== after.state || kept.reason !== after.reason) say(bench, evaluation, after, told);
  }
  return after;
}

function say(bench: Workbench, evaluation: RequestEvaluation, snapshot: RequestSnapshot, told: Tell): void {
  const { store, clock, redact } = bench.house;
  const level = ['refused', 'failed', 'indeterminate'].includes(snapshot.state) ? 'warning' : 'info';
  const words = [snapshot.state, snapshot.reason, snapshot.detail].filter((one) => one !== '').join(': ');
  const message = redact(`${snapshot.id} ${words}`);
  told(`request ${message}`);
  store.appendEvent({
    atMs: clock.nowMs(),
    stack: stackOf(evaluation),
    level,
    reason: 'Request',
    message,
    revision: '',
  });
}

const stackOf = ({ request }: RequestEvaluation): string =>
  request === null ? '@fleet' : request.kind === 'Recover' ? (request.stacks[0] ?? '@fleet') : request.stack;

function move(look: TrustLook, snapshot: RequestSnapshot, events: readonly LifeEvent[], said: Said): RequestSnapshot {
  const after = advance(snapshot, events, said);
  look.ledger.putSnapshot(after);
  return after;
}

interface Said {
  readonly atMs: number;
  readonly reason: string;
  readonly detail?: string;
}

async function runOne(
  bench: Workbench,
  look: TrustLook,
  at: RequestAt,
  snapshot: RequestSnapshot,
  { told, log }: { readonly told: Tell; readonly log: Tell },
  signal: AbortSignal,
): Promise<RequestSnapshot | null> {
  const { house } = bench;
  const { clock, store, redact } = house;
  const { request } = at.evaluation;
  if (request === null) throw new Error(`${at.id} is ready without a request`);
  const planned = await planWork(bench, request, signal);
  if (planned.kind === 'wait') {
    wait(bench, look, snapshot, told, planned.why);
    return null;
  }
  const { work } = planned;
  const digest = workDigest(work);
  const approved = request.plan?.replace(/^sha256:/, '');
  if (approved !== undefined && approved !== digest) {
    const why = `it was approved for the plan ${approved.slice(0, 12)}, and would be ${digest.slice(0, 12)} now`;
    wait(bench, look, snapshot, told, why);
    return null;
  }
  const taken = takenBy(bench, at.id, work);
  if (taken !== null) {
    wait(bench, look, snapshot, told, `there was a restore ${taken} already; ask anew under another id`);
    return null;
  }
  let leases: ReturnType<typeof holdLeases>;
  try {
    leases = holdLeases(house, leasesOf(work), undefined, { first: true });
  } catch (error) {
    wait(bench, look, snapshot, told, asFault(error, 'LOCK_HELD').message);
    return null;
  }
  try {
    const nowMs = clock.nowMs();
    const claimed = advance(snapshot, ['CLAIM'], { atMs: nowMs, reason: 'claimed' });
    const { subject, nonces } = at.evaluation;
    const { effective } = look.chain;
    if (subject === null || effective === null) throw new Error(`${at.id} is ready without a file or a policy`);
    // Before the claim: whatever comes after it can be finished. Without a claim it means nothing.
    store.putValue(intentKey(at.id), work);
    await keepDiscards(bench, at.id, request, signal);
    const answer = look.ledger.claim(
      { id: at.id, subject, nonces, tip: look.tip, policy: effective.sha256, plan: digest, claimedAtMs: nowMs },
      claimed,
      receiptOf(look, at, digest, nowMs),
    );
    if (answer.kind === 'refused') return null;
    return await act(bench, look, at.id, work, claimed, { signal, log });
  } catch (error) {
    // It is claimed, and goes on as soon as whoever has the stack lets go of it.
    if (error instanceof Fault && error.code === 'LOCK_HELD') return null;
    try {
      store.appendEvent({
        atMs: clock.nowMs(),
        stack: stackOf(at.evaluation),
        level: 'error',
        reason: 'Request',
        message: redact(`${at.id}: ${asFault(error, 'ENGINE_REFUSED').message}`),
        revision: look.tip,
      });
    } catch {
      // On a full disk the event is one more thing that cannot be written; the first error is the one to be told.
    }
    throw error;
  } finally {
    leases.release();
  }
}

/** Not spent and not over: it is looked at again. Told once for each reason, whatever amounts stand in it. */
function wait(bench: Workbench, look: TrustLook, snapshot: RequestSnapshot, told: Tell, why: string): void {
  if (snapshot.reason === WAITS && snapshot.detail === why) return;
  const isNews = snapshot.reason !== WAITS || withoutAmounts(snapshot.detail) !== withoutAmounts(why);
  const sinceMs = isNews ? bench.house.clock.nowMs() : snapshot.sinceMs;
  const waiting = { ...snapshot, reason: WAITS, detail: why, sinceMs };
  look.ledger.putSnapshot(waiting);
  const at = look.requests.find(({ id }) => id === snapshot.id);
  if (at && isNews) say(bench, at.evaluation, waiting, told);
}

/** Free room is another at each look. */
const withoutAmounts = (why: string): string => why.replace(/\d+\.\d MiB/g, '');

/** From `claimed` or `executing`, with the lease held. */
async function act(
  bench: Workbench,
  look: TrustLook,
  id: string,
  work: RequestWork,
  snapshot: RequestSnapshot,
  { signal, log }: { readonly signal: AbortSignal; readonly log: Tell },
): Promise<RequestSnapshot> {
  const { house } = bench;
  const { store, clock, redact } = house;
  const stack = stackOfWork(work);
  let now = snapshot;
  if (now.state === 'claimed') {
    // Revocations and the policy are read again: what was true before the claim may not be now.
    const again = await lookAtTrust(house, look.tip, { except: id });
    const evaluation = again.requests.find((one) => one.id === id)?.evaluation;
    if (evaluation?.state !== 'ready') {
      const reason = evaluation?.reason ?? 'request-not-regular';
      return end(
        bench,
        look,
        stack,
        move(look, now, ['REFUSE'], { atMs: clock.nowMs(), reason, detail: evaluation?.detail ?? '' }),
        log,
      );
    }
    now = move(look, now, ['EXECUTE'], { atMs: clock.nowMs(), reason: 'executing' });
    log(`request ${id} executing: ${work.operation} of ${stack}`);
  }
  const record: RunRecord = {
    id: clock.id(),
    stack,
    operation: work.operation,
    trigger: `request ${id}`,
    revision: look.tip,
    digest: look.ledger.claimOf(id)?.plan ?? '',
    startedAtMs: clock.nowMs(),
    endedAtMs: 0,
    outcome: 'running',
    message: '',
    changes: changesOf(work),
  };
  store.putRun(record);
  let detail: string;
  try {
    detail = redact(await doWork(bench, id, work, { signal }));
  } catch (error) {
    const fault = asFault(error, 'ENGINE_REFUSED');
    const message = redact(fault.message);
    store.putRun({ ...record, endedAtMs: clock.nowMs(), outcome: 'failed', message });
    // Stopped, out of reach, or a stack of it in the hands of somebody else: what is left is finished at the next look. So is a purge whose
    // progress could not be written down: it proves by looking what is gone.
    const isLater = LATER.has(fault.code) || (work.operation === 'purge' && fault.code === 'FILES_FAILED');
    if (isLater || signal.aborted) throw fault;
    // Before it is over: at no moment may git bring up empty what it did not bring back.
    holdUnrestored(house, id, broughtBack(work));
    return end(
      bench,
      look,
      stack,
      move(look, now, ['FAIL'], { atMs: clock.nowMs(), reason: fault.code, detail: message }),
      log,
    );
  }
  // What is done did not fail because that cannot be written down: the next look proves it once more.
  store.putRun({ ...record, endedAtMs: clock.nowMs(), outcome: 'succeeded' });
  return end(bench, look, stack, move(look, now, ['SUCCEED'], { atMs: clock.nowMs(), reason: 'done', detail }), log);
}

function end(bench: Workbench, look: TrustLook, stack: string, snapshot: RequestSnapshot, log: Tell): RequestSnapshot {
  const { store, clock, redact } = bench.house;
  store.deleteValue(intentKey(snapshot.id));
  store.appendEvent({
    atMs: clock.nowMs(),
    stack,
    level: snapshot.state === 'succeeded' ? 'info' : 'error',
    reason: 'Request',
    message: redact(`${snapshot.id} ${snapshot.state}: ${snapshot.detail}`),
    revision: look.tip,
  });
  log(redact(`request ${snapshot.id} ${snapshot.state}${snapshot.detail === '' ? '' : `: ${snapshot.detail}`}`));
  return snapshot;
}

const isClaimed = ({ state }: RequestSnapshot): boolean => state === 'claimed' || state === 'executing';

/** One that could not go on holds up the later ones of its stacks, which were asked for as if it had ended; no others. */
function claimedBefore({ house }: Workbench, look: TrustLook, { request }: RequestEvaluation): string | null {
  if (request === null) return null;
  const asked = new Set([...targetsOf(request), ...('stack' in request ? [request.stack] : [])]);
  for (const snapshot of look.ledger.snapshots().filter(isClaimed)) {
    const work = house.store.value(intentKey(snapshot.id)) as RequestWork | undefined;
    if (work !== undefined && stacksOf(work).some((stack) => asked.has(stack))) return snapshot.id;
  }
  return null;
}

/** What a killed controller left between claim and end, or what could not go on. What cannot go on now either stays claimed, and holds up no
 * other one. `isStale`: something was worked on, which may have taken long. */
async function finishClaimed(
  bench: Workbench,
  look: TrustLook,
  busy: (stack: string) => boolean,
  signal: AbortSignal,
  log: Tell,
): Promise<{ readonly done: readonly RequestSnapshot[]; readonly isStale: boolean }> {
  const { house } = bench;
  const { store, clock, redact } = house;
  const done: RequestSnapshot[] = [];
  let isStale = false;
  for (const snapshot of look.ledger.snapshots().filter(isClaimed)) {
    const work = store.value(intentKey(snapshot.id)) as RequestWork | undefined;
    if (work === undefined) {
      // Nothing tells what it was about to touch, so nothing is touched: not even once more.
      const detail = 'it was interrupted, and its intent is not on record';
      const request = look.requests.find(({ id }) => id === snapshot.id)?.evaluation.request;
      if (request) holdUnrestored(house, snapshot.id, targetsOf(request));
      done.push(
        end(
          bench,
          look,
          '@fleet',
          move(look, snapshot, ['DOUBT'], { atMs: clock.nowMs(), reason: 'interrupted', detail }),
          log,
        ),
      );
      continue;
    }
    // The controller itself is bringing it to its end: what came of it is told once it has ended.
    const targets = broughtBack(work);
    const isAtWork = unfinishedRestores(house).some(
      (one) => targets.includes(one.plan.target) && isRunningHere(house, one.id),
    );
    if (isAtWork || targets.some(busy)) continue;
    let leases: ReturnType<typeof holdLeases> | null = null;
    try {
      leases = holdLeases(house, leasesOf(work), undefined, { first: true });
      isStale = true;
      done.push(await act(bench, look, snapshot.id, work, snapshot, { signal, log }));
    } catch (error) {
      if (signal.aborted || !(error instanceof Fault) || !LEFT_CLAIMED.has(error.code)) throw error;
      // Held by another process, or out of reach: that is told elsewhere, and passes.
      if (error.code !== 'LOCK_HELD' && error.code !== 'ENGINE_UNREACHABLE')
        log(redact(`error request ${snapshot.id}: ${error.message}; tried again at the next look`));
    } finally {
      leases?.release();
    }
  }
  return { done, isStale: isStale || done.length > 0 };
}

function receiptOf(look: TrustLook, { id, bytes, evaluation }: RequestAt, plan: string, claimedAtMs: number): Receipt {
  const base64 = (raw: Uint8Array): string => Buffer.from(raw).toString('base64');
  const oids = [evaluation.requester, ...evaluation.approvals].flatMap((one) => (one === null ? [] : [one.oid]));
  return {
    id,
    subject: evaluation.subject ?? '',
    requestBase64: base64(bytes),
    statements: oids.flatMap((oid) => {
      const object = look.objects.get(oid);
      return object ? [{ oid, type: object.type, base64: base64(object.bytes) }] : [];
    }),
    policyBase64: base64(look.chain.effective?.bytes ?? new Uint8Array()),
    tip: look.tip,
    plan,
    claimedAtMs,
    outcome: null,
    detail: '',
    endedAtMs: null,
  };
}
