// HTTP call: one request of a hook: bounded answer, no cookies, no retries. It decides nothing about its status.
import { Fault } from '../../core/fault.ts';
import type { HttpCall } from '../../core/hook/job.ts';
import type { HttpAnswer } from '../../ports/hooks.ts';

const maxBodyBytes = 64 * 1024;

/** Throws HOOK_FAILED when there is no answer. */
export async function httpCall(call: HttpCall, signal: AbortSignal): Promise<HttpAnswer> {
  try {
    const answer = await fetch(call.url, {
      method: call.method,
      headers: call.headers,
      ...(call.body === null ? {} : { body: call.body }),
      signal,
    });
    const chunks: Uint8Array[] = [];
    let size = 0;
    const reader = answer.body?.getReader();
    while (reader && size < maxBodyBytes) {
      const { value, done } = await reader.read();
      if (done) break;
      chunks.push(value);
      size += value.length;
    }
    await reader?.cancel();
    return { status: answer.status, body: Buffer.concat(chunks).subarray(0, maxBodyBytes).toString('utf8') };
  } catch (error) {
    signal.throwIfAborted();
    const why = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new Fault('HOOK_FAILED', `${call.method} ${call.url}: ${why}`, { cause: error });
  }
}
