// Request file: path and bytes → one request with its id and digest, or diagnostics with file:line:column.
import { checkText, hasErrors, sorted } from '../../spec/check.ts';
import type { Diagnostic } from '../../spec/diagnostic.ts';
import { MAX_TEXT_BYTES, type Path, parseDocument } from '../../spec/document.ts';
import { parseInstant, REQUEST_KINDS, type Request, type RequestKind } from '../../spec/request.ts';
import { didYouMean, listed } from '../../spec/suggest.ts';
import { decodeUtf8, sha256Of } from './policy-file.ts';

export interface RequestFile {
  readonly id: string;
  /** Of the bytes; 64 hex. What statements name as their subject. */
  readonly sha256: string;
  readonly request: Request;
  readonly expiresMs: number;
  readonly notBeforeMs: number | null;
}

export interface RequestReading {
  /** Null when there are errors. */
  readonly file: RequestFile | null;
  readonly diagnostics: readonly Diagnostic[];
}

export const requestPath = (id: string): string => `requests/${id}.yaml`;

/** The id in the path of a request; null for a path that is none. */
export const idOfPath = (path: string): string | null =>
  /^requests\/([a-z0-9][a-z0-9_-]{0,62})\.yaml$/.exec(path)?.[1] ?? null;

/** Whether somebody may take it for a request, and nobody reads it: another folder, another ending, another kind of name, which may hold a
 * line break. */
export const isMisnamed = (path: string): boolean => /^requests\/.+\.ya?ml$/is.test(path) && idOfPath(path) === null;

/** Never throws. */
export function readRequest(path: string, bytes: Uint8Array): RequestReading {
  const wrong = (summary: string, place: Diagnostic['place'], more: Partial<Diagnostic> = {}): RequestReading => ({
    file: null,
    diagnostics: [{ severity: 'error', code: 'REQUEST_INVALID', summary, ...more, ...(place ? { place } : {}) }],
  });
  const whole = { file: path, line: 0, column: 0 };
  const id = idOfPath(path);
  if (id === null) return wrong(`${path} is no path of a request`, whole, { detail: 'expected requests/ID.yaml' });
  if (bytes.length > MAX_TEXT_BYTES) return wrong(`${path} is larger than 1 MiB`, whole);
  const text = decodeUtf8(bytes);
  if (text === null) return wrong(`${path} is not UTF-8`, whole);

  const { parsed, diagnostics } = parseDocument(path, text);
  if (parsed === null) return { file: null, diagnostics };
  const said = kindOf(parsed.value);
  const kind = REQUEST_KINDS.find((one) => one === said);
  if (kind === undefined)
    return wrong(
      said === undefined ? '`kind` is missing' : `\`${said}\` is no kind of request`,
      parsed.place(['kind']),
      {
        detail: `expected one of ${listed(REQUEST_KINDS)}`,
        ...(said === undefined ? {} : didYouMean(said, REQUEST_KINDS)),
      },
    );
  const checked = checkText<RequestKind>(kind, path, text);
  const request: Request | null = checked.value;
  if (request === null) return { file: null, diagnostics: checked.diagnostics };
  const found: Diagnostic[] = [];
  const expiresMs = parseInstant(request.expires);
  const notBeforeMs = request.notBefore === undefined ? null : parseInstant(request.notBefore);
  const say = (at: Path, summary: string, detail: string) =>
    found.push({ severity: 'error', code: 'REQUEST_INVALID', summary, detail, place: checked.place(at) });
  if (expiresMs === null) say(['expires'], 'a time that does not exist', `found ${request.expires}`);
  if (request.notBefore !== undefined && notBeforeMs === null)
    say(['notBefore'], 'a time that does not exist', `found ${request.notBefore}`);
  if (expiresMs !== null && notBeforeMs !== null && notBeforeMs >= expiresMs)
    say(['notBefore'], 'the request expires before it may run', 'expected `notBefore` before `expires`');
  checkTargets(request, say);
  const all = sorted([...checked.diagnostics, ...found]);
  if (expiresMs === null || hasErrors(all)) return { file: null, diagnostics: all };
  return { file: { id, sha256: sha256Of(bytes), request, expiresMs, notBeforeMs }, diagnostics: all };
}

function kindOf(value: unknown): string | undefined {
  const kind = typeof value === 'object' && value !== null ? (value as { kind?: unknown }).kind : undefined;
  return typeof kind === 'string' ? kind : undefined;
}

function checkTargets(request: Request, say: (at: Path, summary: string, detail: string) => void): void {
  switch (request.kind) {
    case 'Clone':
      if (request.target === request.stack)
        say(['target'], 'a stack cannot be cloned onto itself', 'expected another name than `stack`');
      return;
    case 'Move':
      if (request.target === undefined && request.node === undefined)
        say(['stack'], 'the move says neither where to nor under which name', 'expected `node`, `target` or both');
      if (request.target === request.stack && request.node === undefined)
        say(['target'], 'a stack cannot be moved onto itself', 'expected another name than `stack`');
      return;
    case 'Recover': {
      const { stacks, rename = {} } = request;
      const names = new Map<string, string>();
      for (const from of Object.keys(rename))
        if (!stacks.includes(from))
          say(['rename', from], `\`${from}\` is not recovered`, `expected one of ${listed(stacks)}`);
      for (const stack of stacks) {
        const name = Object.hasOwn(rename, stack) ? rename[stack]! : stack;
        const other = names.get(name);
        if (other !== undefined)
          say(
            Object.hasOwn(rename, stack) ? ['rename', stack] : ['stacks'],
            `two stacks would be named \`${name}\``,
            `found ${other} and ${stack}`,
          );
        names.set(name, stack);
      }
      return;
    }
    case 'Restore':
    case 'Purge':
      return;
  }
}
