// Render: an app × a stack → one Compose file, with secrets closed and owners taken out. Pure; mistakes are diagnostics.

import type { App } from '../spec/app.ts';
import { backupMistakes } from '../spec/backup.ts';
import { type Checked, checkText, hasErrors, sorted } from '../spec/check.ts';
import type { Extension } from '../spec/compose-scan.ts';
import { extensionOf } from '../spec/compose-scan.ts';
import type { Diagnostic, Place } from '../spec/diagnostic.ts';
import { parseDocument, stringifyDocument } from '../spec/document.ts';
import type { LoadedApp, LoadedStack } from '../spec/loaded.ts';
import { didYouMean, listed } from '../spec/suggest.ts';
import type { VolumeOwner } from '../state/desired.ts';
import {
  type Closing,
  type ContextMistake,
  closeText,
  closeValue,
  contextOf,
  type Fleet,
  type SecretRef,
} from './context.ts';
import { disown, mergeOwners } from './owner.ts';
import { renderTemplate } from './template.ts';
import { findTokens } from './token.ts';

export type { SecretRef } from './context.ts';

export interface RenderInput {
  readonly stack: LoadedStack;
  /** By name; holds the providers. */
  readonly fleet: Fleet;
}

export interface Rendered {
  /** A Compose file in YAML; '' when there are errors. */
  readonly text: string;
  /** By volume key of the Compose file. */
  readonly owners: readonly VolumeOwner[];
  /** The refs whose tokens stand in `text`. */
  readonly secrets: readonly SecretRef[];
  /** `x-windlass` of the services. */
  readonly extensions: Readonly<Record<string, Extension>>;
  readonly diagnostics: readonly Diagnostic[];
}

type Loose = Record<string, unknown>;

const isMap = (value: unknown): value is Loose => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Collects diagnostics about one stack. */
class Findings {
  readonly all: Diagnostic[] = [];
  readonly #stack: string;
  constructor(stack: string) {
    this.#stack = stack;
  }
  error(code: string, place: Place, summary: string, detail: string, more: { help?: string } = {}): void {
    this.all.push({ severity: 'error', code, summary, detail, ...more, place, stack: this.#stack });
  }
  services(place: Place, wanted: Iterable<string>, known: readonly string[], where: string): void {
    for (const service of wanted)
      if (!known.includes(service))
        this.error(
          'SERVICE_UNKNOWN',
          place,
          `unknown service \`${service}\` in ${where}`,
          `expected one of ${listed(known)}`,
          didYouMean(service, known),
        );
  }
}

export function render({ stack, fleet }: RenderInput): Rendered {
  if (stack.layout.kind !== 'app') throw new Error(`the stack ${stack.name} is a plain project: Compose renders it`);
  const { app } = stack.layout;
  const found = new Findings(stack.name);
  const closing: Closing = { secrets: new Map(), forCompose: true };
  const mistakes: ContextMistake[] = [];
  const context = contextOf(stack, fleet, closing, mistakes);
  for (const wrong of mistakes) found.error('PROVIDER_INVALID', stack.place, wrong.summary, wrong.detail);
  const template: Place = { file: app.template.path, line: 0, column: 0 };
  const failed = (): Rendered => ({
    text: '',
    owners: [],
    secrets: [],
    extensions: {},
    diagnostics: sorted(found.all),
  });
  if (hasErrors(found.all)) return failed();

  const rendered = renderTemplate(app.template.text, context);
  if ('wrong' in rendered) {
    const line = app.template.text.split('\n')[rendered.line - 1]?.trim() ?? '';
    found.error(
      'TEMPLATE_FAILED',
      { ...template, line: rendered.line, column: rendered.line > 0 ? 1 : 0 },
      `the template cannot be rendered: ${rendered.wrong}`,
      line === '' ? 'see the template' : `in: ${line.slice(0, 200)}`,
      rendered.wrong === 'undefined value' ? { help: `there are ${listed(namesOf(context))}` } : {},
    );
    return failed();
  }
  const { parsed, diagnostics } = parseDocument(app.template.path, rendered.text);
  if (!parsed) {
    const lines = rendered.text.split('\n');
    for (const wrong of diagnostics) {
      const at = wrong.place?.line ?? 0;
      found.error(
        'TEMPLATE_RESULT_INVALID',
        template,
        `the template gives no valid YAML: ${wrong.summary}`,
        at === 0 ? (wrong.detail ?? '') : `line ${at} of the result: ${(lines[at - 1] ?? '').slice(0, 200)}`,
        { help: 'write values as `{{ value | tojson }}` where they may hold quotes, colons or line ends' },
      );
    }
    return failed();
  }
  const project = parsed.value;
  if (!isMap(project) || !isMap(project.services)) {
    found.error(
      'TEMPLATE_RESULT_INVALID',
      template,
      'the template gives no Compose file',
      'expected a map with `services`',
    );
    return failed();
  }
  const services = project.services;
  const names = Object.keys(services);
  const owners: VolumeOwner[] = [];
  const extensions: Record<string, Extension> = {};
  const done: Loose = {};
  for (const [name, value] of Object.entries(services)) {
    if (!isMap(value)) {
      found.error(
        'TEMPLATE_RESULT_INVALID',
        template,
        `the service \`${name}\` is no map`,
        'expected a map with `image`',
      );
      continue;
    }
    const { 'x-windlass': said, ...service } = value;
    if (said !== undefined) {
      const extension = extensionOf(said, () => template);
      found.all.push(...extension.diagnostics.map((one) => ({ ...one, stack: stack.name })));
      extensions[name] = extension.value;
    }
    if (Array.isArray(service.volumes)) {
      const disowned = disown(name, service.volumes);
      service.volumes = disowned.volumes;
      owners.push(...disowned.owners);
      for (const wrong of disowned.mistakes) found.error('OWNER_INVALID', template, wrong.summary, wrong.detail);
    }
    done[name] = service;
  }
  const merged = mergeOwners(owners);
  for (const wrong of merged.mistakes) found.error('OWNER_INVALID', template, wrong.summary, wrong.detail);
  const spec = app.spec as unknown as App;
  const appFile: Place = { file: `${app.directory}/app.yaml`, line: 0, column: 0 };
  found.services(appFile, Object.keys(spec.ports ?? {}), names, '`ports`');
  found.services(stack.place, Object.keys(stack.ports), names, '`ports`');
  found.services(stack.place, Object.keys(stack.replicas), names, '`replicas`');
  const backup = backupOf(app);
  if (backup?.value)
    for (const wrong of backupMistakes(backup.value, { jobs: null, services: names }, backup.place))
      found.all.push({ ...wrong, stack: stack.name });
  if (hasErrors(found.all)) return failed();

  for (const ports of [spec.ports ?? {}, stack.ports])
    for (const [name, published] of Object.entries(ports)) {
      const service = done[name] as Loose;
      service.ports = [...(Array.isArray(service.ports) ? service.ports : []), ...published];
    }
  for (const [name, count] of Object.entries(stack.replicas)) {
    const service = done[name] as Loose;
    service.deploy = { ...(isMap(service.deploy) ? service.deploy : {}), replicas: count };
    if (service.scale !== undefined) service.scale = count;
  }
  const { name: _project, ...rest } = project;
  const text = stringifyDocument(closeTexts({ ...rest, services: done }, stack, closing));
  const used = new Set(findTokens(text));
  return {
    text,
    owners: merged.owners,
    secrets: [...closing.secrets.values()].filter((secret) => used.has(secret.ref)),
    extensions,
    diagnostics: sorted(found.all),
  };
}

const backups = new WeakMap<LoadedApp, Checked<'Backup'> | null>();

/** What the app says of its own backup; null when it says nothing. Read once an app: many stacks may be of the same one. */
export function backupOf(app: LoadedApp): Checked<'Backup'> | null {
  const known = backups.get(app);
  if (known !== undefined) return known;
  const text = app.texts['backup.yaml'];
  const read = text === undefined ? null : checkText('Backup', `${app.directory}/backup.yaml`, text);
  backups.set(app, read);
  return read;
}

/** Secret refs that stand in the template itself, as a whole value or behind `NAME=`. */
function closeTexts(value: unknown, stack: LoadedStack, closing: Closing): unknown {
  if (typeof value === 'string') {
    const assigned = /^([A-Za-z_][A-Za-z0-9_]*=)(ref\+.+)$/s.exec(value);
    if (assigned) return `${assigned[1]}${closeText(assigned[2] ?? '', '', stack, stack, closing) ?? assigned[2]}`;
    return value.startsWith('ref+') ? (closeText(value, '', stack, stack, closing) ?? value) : value;
  }
  if (Array.isArray(value)) return value.map((item) => closeTexts(item, stack, closing));
  if (isMap(value))
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, closeTexts(item, stack, closing)]));
  return value;
}

function namesOf(context: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(context).flatMap(([name, value]) =>
    isMap(value) ? Object.keys(value).map((key) => `${name}.${key}`) : [name],
  );
}

/** What a Stack document adds to a plain project, as a Compose override in JSON; null when it adds nothing. */
export function overlayOf(stack: LoadedStack): string | null {
  if (stack.layout.kind !== 'compose') return null;
  const services: Record<string, Loose> = {};
  for (const [name, ports] of Object.entries(stack.ports)) services[name] = { ports };
  for (const [name, count] of Object.entries(stack.replicas))
    services[name] = { ...services[name], scale: count, deploy: { replicas: count } };
  return Object.keys(services).length === 0 ? null : JSON.stringify({ services });
}

/** The variables that a plain project is interpolated with, secrets closed. */
export function variablesOf(stack: LoadedStack): {
  readonly variables: Readonly<Record<string, string>>;
  readonly secrets: readonly SecretRef[];
} {
  const closing: Closing = { secrets: new Map(), forCompose: false };
  const variables: Record<string, string> = {};
  for (const [name, value] of Object.entries(stack.vars))
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
      variables[name] = String(closeValue(value, name, stack, stack, closing));
  return { variables, secrets: [...closing.secrets.values()] };
}
