// Source of a house without a named repository: whoever asks it for anything is told how to name one.
import { Fault } from '../core/fault.ts';
import type { Source } from '../ports/source.ts';

export const NO_SOURCE = 'no repository is named';
export const NAME_A_SOURCE =
  'give --source URL-OR-PATH (for example --source . in a clone), set WINDLASS_SOURCE, or write it into windlass.yaml';

export function unnamedSource(name: string): Source {
  const refuse = (): Promise<never> => Promise.reject(new Fault('USAGE', `${NO_SOURCE}: ${NAME_A_SOURCE}`));
  return {
    spec: { name, url: '', ref: '' },
    fetch: refuse,
    tip: async () => null,
    commit: refuse,
    descends: refuse,
    list: refuse,
    blob: refuse,
    object: refuse,
    commitsSince: refuse,
    tags: refuse,
    pin: refuse,
    close: async () => {},
  };
}
