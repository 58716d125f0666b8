// Image pull: through the engine's API, whose stream tells failure in its lines and not in its status.
import { Fault } from '../../core/fault.ts';
import { type ApiClient, aborted } from './api-client.ts';
import { LineCutter } from './lines.ts';
import { refusal } from './refusal.ts';

/** Throws IMAGE_MISSING or IMAGE_PULL_FAILED. `note` gets one line per change of a layer, not per megabyte. */
export async function pullImage(
  client: ApiClient,
  image: string,
  auth: string | null,
  signal: AbortSignal,
  note?: (line: string) => void,
): Promise<void> {
  const { name, tag } = splitImage(image);
  const cutter = new LineCutter();
  const told = new Map<string, string>();
  let failure: string | null = null;
  const take = (text: string): void => {
    const line = parseLine(text);
    if (line === null) return;
    if (typeof line['error'] === 'string') failure = line['error'];
    const id = String(line['id'] ?? '');
    const status = String(line['status'] ?? '');
    if (status === '' || told.get(id) === status) return;
    told.set(id, status);
    note?.(id === '' ? status : `${id} ${status}`);
  };
  try {
    const body = await client.stream({
      method: 'POST',
      path: '/images/create',
      query: { fromImage: name, tag },
      headers: auth === null ? {} : { 'x-registry-auth': auth },
      signal,
      // The head comes only when the registry has answered.
      deadlineMs: 120_000,
    });
    for await (const chunk of body as AsyncIterable<Buffer>) for (const { text } of cutter.push(chunk)) take(text);
    for (const { text } of cutter.flush()) take(text);
  } catch (error) {
    if (signal.aborted) throw aborted(signal);
    if (!(error instanceof Fault)) {
      throw new Fault('ENGINE_UNREACHABLE', 'the engine was lost during a pull', { data: { image }, cause: error });
    }
    if (error.code !== 'ENGINE_REFUSED') throw error.code === 'IMAGE_MISSING' ? pullFault(image, error.message) : error;
    throw pullFault(image, error.message);
  }
  if (failure !== null) throw pullFault(image, failure);
}

function pullFault(image: string, message: string): Fault {
  const code = refusal(message, 'IMAGE_PULL_FAILED').code === 'IMAGE_MISSING' ? 'IMAGE_MISSING' : 'IMAGE_PULL_FAILED';
  return new Fault(code, `${image} cannot be pulled: ${message}`, { data: { image } });
}

// Without a tag an engine would pull all of them.
function splitImage(image: string): { readonly name: string; readonly tag: string } {
  const at = image.indexOf('@');
  if (at >= 0) return { name: image.slice(0, at).replace(/:[^:/]+$/, ''), tag: image.slice(at + 1) };
  const colon = image.lastIndexOf(':');
  return colon > image.lastIndexOf('/')
    ? { name: image.slice(0, colon), tag: image.slice(colon + 1) }
    : { name: image, tag: 'latest' };
}

function parseLine(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
