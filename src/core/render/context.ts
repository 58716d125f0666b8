// Context: what a template of a stack can see: stack, app, vars, plugs, version. Secrets stay closed: they are tokens here.
import type { App } from '../spec/app.ts';
import type { LoadedStack } from '../spec/loaded.ts';
import { isSecretScheme, type MintPolicy, parseMint, parseRef } from '../spec/ref.ts';
import { renderTemplate, type TemplateResult } from './template.ts';
import { encodeToken } from './token.ts';

/** A closed secret of a render: where its value is, and how it is made when there is none. */
export interface SecretRef {
  /** As the token holds it. */
  readonly ref: string;
  /** The stack on whose behalf it is looked up. */
  readonly stack: string;
  readonly scheme: string;
  /** For the vault: the key, and the scopes in the order of lookup. */
  readonly key: string;
  readonly scopes: readonly (`stack/${string}` | `group/${string}` | 'fleet')[];
  /** Null: it must be there. */
  readonly policy: MintPolicy | null;
}

export interface Closing {
  readonly secrets: Map<string, SecretRef>;
  /** Doubles `$` in values, for text that Compose interpolates. */
  readonly forCompose: boolean;
}

export type Fleet = ReadonlyMap<string, LoadedStack>;

/** More providers behind each other than any fleet has; cycles are refused at load. */
const MOST_PROVIDERS = 50;

/** A text that is a secret as a whole, closed; null when it is none. `of` is the stack that says it, `reader` the one that is rendered. */
export function closeText(
  text: string,
  name: string,
  of: LoadedStack,
  reader: LoadedStack,
  closing: Closing,
): string | null {
  const mint = parseMint(text);
  if (mint && !('wrong' in mint)) {
    const ref = `ref+vault://stack/${of.name}/${name}`;
    closing.secrets.set(ref, {
      ref,
      stack: of.name,
      scheme: 'vault',
      key: name,
      scopes: [`stack/${of.name}`],
      policy: mint,
    });
    return encodeToken(ref);
  }
  const parsed = parseRef(text);
  if (!parsed || !isSecretScheme(parsed.scheme) || parsed.path === '') return null;
  const { scheme, path } = parsed;
  if (scheme !== 'vault') {
    closing.secrets.set(text, { ref: text, stack: of.name, scheme, key: path, scopes: [], policy: null });
    return encodeToken(text);
  }
  const scoped = /^(?:stack\/[^/]+|group\/[^/]+|fleet)\//.exec(path)?.[0];
  // A bare key means another thing for another stack, so that a provider's is spelled with the provider.
  const ref = scoped !== undefined || of.name === reader.name ? text : `ref+vault://of/${of.name}/${path}`;
  const known = closing.secrets.get(ref);
  if (!known)
    closing.secrets.set(ref, {
      ref,
      stack: of.name,
      scheme,
      key: scoped === undefined ? path : path.slice(scoped.length),
      scopes:
        scoped === undefined
          ? [`stack/${of.name}`, ...(of.group === null ? [] : [`group/${of.group}` as const]), 'fleet']
          : [scoped.slice(0, -1) as 'fleet'],
      policy: null,
    });
  return encodeToken(ref);
}

/** A value with its secrets closed. */
export function closeValue(
  value: unknown,
  name: string,
  of: LoadedStack,
  reader: LoadedStack,
  closing: Closing,
): unknown {
  if (typeof value === 'string')
    return closeText(value, name, of, reader, closing) ?? (closing.forCompose ? value.replaceAll('$', '$$$$') : value);
  if (Array.isArray(value))
    return value.map((item, index) => closeValue(item, `${name}.${index}`, of, reader, closing));
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, closeValue(item, `${name}.${key}`, of, reader, closing)]),
    );
  return value;
}

export interface ContextMistake {
  readonly summary: string;
  readonly detail: string;
  readonly stack: string;
}

/** The context of `stack`, as seen while `reader` is rendered. */
export function contextOf(
  stack: LoadedStack,
  fleet: Fleet,
  closing: Closing,
  mistakes: ContextMistake[],
  reader: LoadedStack = stack,
  depth = 0,
): Record<string, unknown> {
  if (stack.layout.kind !== 'app') throw new Error(`the stack ${stack.name} has no app to render`);
  const { app } = stack.layout;
  const spec = app.spec as unknown as App;
  const vars = Object.fromEntries(
    Object.entries(stack.vars).map(([name, value]) => [name, closeValue(value, name, stack, reader, closing)]),
  );
  const plugs: Record<string, unknown> = {};
  for (const [plug, wanted] of Object.entries(spec.plugs ?? {})) {
    const provider = stack.integrate[plug];
    // An optional plug that is not integrated is there as nothing, so that `{% if plugs.x %}` can ask.
    plugs[plug] =
      provider === undefined
        ? null
        : providedBy(provider, wanted.interface, stack, fleet, closing, mistakes, reader, depth);
  }
  return {
    stack: { name: stack.name, node: stack.node, group: stack.group, replicas: stack.replicas },
    app: { name: app.name, version: spec.version },
    version: app.version,
    vars,
    plugs,
  };
}

function providedBy(
  name: string,
  wanted: string,
  consumer: LoadedStack,
  fleet: Fleet,
  closing: Closing,
  mistakes: ContextMistake[],
  reader: LoadedStack,
  depth: number,
): Record<string, unknown> | null {
  const provider = fleet.get(name);
  const provides = provider?.layout.kind === 'app' ? (provider.layout.app.spec as unknown as App).provides : undefined;
  const values = provides?.[wanted];
  if (!provider || !values || depth >= MOST_PROVIDERS) {
    mistakes.push({
      stack: consumer.name,
      summary: provider
        ? `the stack \`${name}\` does not provide \`${wanted}\``
        : `the stack \`${name}\` cannot be read`,
      detail: `\`${consumer.name}\` integrates it`,
    });
    return null;
  }
  const context = contextOf(provider, fleet, closing, mistakes, reader, depth + 1);
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(values)) {
    if (typeof value !== 'string') {
      result[key] = value;
      continue;
    }
    const rendered: TemplateResult = value.includes('{')
      ? renderTemplate(value, context)
      : { text: closing.forCompose ? value.replaceAll('$', '$$$$') : value };
    if ('wrong' in rendered) {
      mistakes.push({
        stack: provider.name,
        summary: `the app of \`${name}\` cannot provide \`${wanted}.${key}\`: ${rendered.wrong}`,
        detail: `in ${value}`,
      });
      continue;
    }
    result[key] = closeText(rendered.text, `provides.${wanted}.${key}`, provider, reader, closing) ?? rendered.text;
  }
  return { ...result, stack: provider.name, network: `${provider.name}_default` };
}
