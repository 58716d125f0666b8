// Registry of the runtime refs: scheme → resolver. Resolves whole values only; a known key without a live value is "", an unknown
// scheme or key is a Fault. Secret refs and plain text pass untouched.
import { Fault } from '../core/fault.ts';
import { isRuntimeScheme, isSecretScheme, parseRef, RUNTIME_SCHEMES, type RuntimeScheme } from '../core/spec/ref.ts';
import { didYouMean } from '../core/spec/suggest.ts';

/** What surrounds a value: which stack and service it is for, and what the run of a hook knows. */
export interface RefContext {
  readonly stack: string;
  /** The service that is scaled, or that a job belongs to; null when there is none. */
  readonly service: string | null;
  /** Null outside of a hook. */
  readonly hook: HookFacts | null;
}

export interface HookFacts {
  /** Count of a service at hook entry; null when the run did not touch it. */
  previous(service: string): number | null;
  output(name: string): string | null;
}

export type Resolver = (path: string, context: RefContext) => string | Promise<string>;
export type Resolvers = Readonly<Record<RuntimeScheme, Resolver>>;

export interface Refs {
  /** `text` itself unless it is a runtime ref as a whole. */
  resolve(text: string, context: RefContext): Promise<string>;
}

export function createRefs(resolvers: Resolvers): Refs {
  return {
    async resolve(text, context) {
      const ref = parseRef(text);
      if (ref === null || isSecretScheme(ref.scheme)) return text;
      if (!isRuntimeScheme(ref.scheme)) throw unknownRef(text, 'scheme', ref.scheme, RUNTIME_SCHEMES);
      return resolvers[ref.scheme](ref.path, context);
    },
  };
}

/** For resolvers: the Fault of a key that their scheme does not have. */
export function unknownKey(scheme: RuntimeScheme, path: string, known: readonly string[]): Fault {
  return unknownRef(`ref+${scheme}://${path}`, 'key', path, known);
}

function unknownRef(text: string, what: string, word: string, known: readonly string[]): Fault {
  const help = didYouMean(word, known).help;
  return new Fault(
    'USAGE',
    `unknown ${what} in the ref ${text}: expected one of ${known.join(', ')}${help === undefined ? '' : `; ${help}`}`,
    { data: { ref: text } },
  );
}
