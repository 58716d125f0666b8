// Check: a parsed document against the schema of its kind. Every mistake becomes one diagnostic at its place, with what was expected,
// what was found and what was probably meant. All are collected.
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import type { Diagnostic, Place } from './diagnostic.ts';
import { type Parsed, type Path, parseDocument } from './document.ts';
import { ACTIONS } from './hooks.ts';
import { jobMistakes } from './job.ts';
import { API_VERSION, type Declared, KINDS, type Kind, schemaOf } from './kind.ts';
import { parseMint, parseRef, RUNTIME_SCHEMES, SECRET_SCHEMES, unknownPath } from './ref.ts';
import { didYouMean, listed } from './suggest.ts';

export interface Checked<K extends Kind> {
  /** Null when there are errors. */
  readonly value: Declared[K] | null;
  /** As it was read, before the check; null when it is no YAML. */
  readonly raw: unknown;
  /** The text is parsed again for it, so that a checked document that is kept does not keep its syntax tree. */
  place(path: Path, of?: 'key' | 'value'): Place;
  readonly diagnostics: readonly Diagnostic[];
}

const MOST_MISTAKES = 100;

const compiled = new Map<Kind, ValidateFunction>();

function validatorOf(kind: Kind): ValidateFunction {
  let validator = compiled.get(kind);
  if (!validator) {
    const ajv = new Ajv2020({
      allErrors: true,
      strict: true,
      strictRequired: false,
      allowUnionTypes: true,
      verbose: true,
      ownProperties: true,
    });
    validator = ajv.compile(schemaOf(kind));
    compiled.set(kind, validator);
  }
  return validator;
}

/** A value for people: short, on one line. */
export function shown(value: unknown): string {
  const text = value === undefined ? 'nothing' : (JSON.stringify(value) ?? String(value));
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

const typeName = (value: unknown): string => {
  if (value === null) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  if (typeof value === 'string') return `the string ${shown(value)}`;
  if (typeof value === 'number' && !Number.isFinite(value)) return 'a number that is not finite';
  return shown(value);
};

const TYPES: Readonly<Record<string, string>> = {
  object: 'a map',
  array: 'a list',
  string: 'a string',
  integer: 'an integer',
  number: 'a number',
  boolean: 'true or false',
  null: 'nothing',
};

function pathOf(pointer: string): (string | number)[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

const dotted = (path: Path): string =>
  path
    .map((step) => (/^\d+$/.test(String(step)) ? `[${step}]` : `.${step}`))
    .join('')
    .replace(/^\./, '');

interface Schema {
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly required?: readonly string[];
  readonly anyOf?: readonly Schema[];
}

/** Keywords by which a branch of a choice shows that it was not meant. */
const MISFIT: ReadonlySet<string> = new Set(['type', 'required', 'const', 'enum', 'pattern']);

/** Errors of each choice (anyOf), folded into those of the branch that was meant, or into one that names the choice. Ajv tells a
 * choice behind all that lies in it, so the inner ones are folded first. */
function fold(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  // `via` is where in the schema an error was met; of a folded choice, where the choice stands.
  let left: { readonly error: ErrorObject; readonly via: string }[] = [];
  for (const error of errors) {
    if (error.keyword !== 'anyOf') {
      left.push({ error, via: error.schemaPath });
      continue;
    }
    const { instancePath, schemaPath } = error;
    const branches = new Map<string, typeof left>();
    const behindRef: typeof left = [];
    const others: typeof left = [];
    for (const one of left) {
      const isHere = one.error.instancePath === instancePath;
      const isBelow = isHere || one.error.instancePath.startsWith(`${instancePath}/`);
      if (isBelow && one.via.startsWith(`${schemaPath}/`)) {
        const branch = one.via.slice(schemaPath.length + 1).split('/')[0] ?? '';
        branches.set(branch, [...(branches.get(branch) ?? []), one]);
      } else if (isBelow && !isHere) behindRef.push(one);
      else others.push(one);
    }
    const meant = [...branches.values()]
      .filter((branch) =>
        branch.every((one) => one.error.instancePath !== instancePath || !MISFIT.has(one.error.keyword)),
      )
      .sort((a, b) => a.length - b.length)[0];
    // What lies behind a $ref in one of the branches has no branch of its own: it counts unless none was meant.
    const kept = meant ?? (behindRef.length > 0 && fits(error) ? [] : [{ error, via: schemaPath }]);
    left = [
      ...others,
      ...kept.map((one) => ({ ...one, via: schemaPath })),
      ...(kept[0]?.error === error ? [] : behindRef),
    ];
  }
  return left.map((one) => one.error);
}

/** Whether a choice of actions failed only in what lies inside the action: it has exactly one verb. */
function fits(choice: ErrorObject): boolean {
  const { data } = choice;
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return false;
  return Object.keys(data).filter((key) => (ACTIONS as readonly string[]).includes(key)).length === 1;
}

function describe(error: ErrorObject, parsed: Parsed): Diagnostic {
  const path = pathOf(error.instancePath);
  const schema = (error.parentSchema ?? {}) as Schema;
  const at = path.length === 0 ? '' : ` in \`${dotted(path)}\``;
  const found = `found ${typeName(error.data)}`;
  const make = (summary: string, detail: string, place: Diagnostic['place'], help?: string): Diagnostic => ({
    severity: 'error',
    code: 'SPEC_INVALID',
    summary,
    detail,
    ...(help === undefined ? {} : { help }),
    ...(place ? { place } : {}),
  });
  const expected = schema.description;
  const name = path.length === 0 ? 'the document' : `\`${dotted(path)}\``;
  switch (error.keyword) {
    case 'additionalProperties': {
      const key = String(error.params.additionalProperty);
      const known = Object.keys(schema.properties ?? {});
      if ((ACTIONS as readonly string[]).includes(key) && known.includes('on_failure'))
        return make(
          `several actions in one item: \`${key}\` beside \`${ACTIONS.find((verb) => known.includes(verb))}\``,
          'expected one action in each item of the list',
          parsed.place([...path, key], 'key'),
          'write each as an item of its own',
        );
      return make(
        `unknown key \`${key}\`${at}`,
        `expected one of ${listed(known)}`,
        parsed.place([...path, key], 'key'),
        didYouMean(key, known).help,
      );
    }
    case 'required': {
      const key = String(error.params.missingProperty);
      const property = schema.properties?.[key] as Schema | undefined;
      return make(
        `\`${key}\` is missing${at}`,
        `expected \`${key}\`${property?.description ? `: ${property.description}` : ''}`,
        parsed.place(path),
        typeof error.data === 'object' && error.data !== null
          ? didYouMean(
              key,
              Object.keys(error.data).filter((one) => !(one in (schema.properties ?? {}))),
            ).help?.replace(/^did you mean (`[^`]*`)\?$/, `is $1 meant to be \`${key}\`?`)
          : undefined,
      );
    }
    case 'propertyNames':
      return make(
        `\`${error.params.propertyName}\`${at} is no valid name`,
        `expected ${(error.schema as Schema | undefined)?.description ?? 'another name'}`,
        parsed.place([...path, String(error.params.propertyName)], 'key'),
      );
    case 'enum': {
      const words = (schema.enum ?? []).map(String);
      return make(
        `wrong value for ${name}`,
        `expected one of ${listed(words)}; ${found}`,
        parsed.place(path),
        typeof error.data === 'string' ? didYouMean(error.data, words).help : undefined,
      );
    }
    case 'const':
      return make(
        `wrong value for ${name}`,
        `expected ${shown(error.params.allowedValue)}; ${found}`,
        parsed.place(path),
      );
    case 'type': {
      const types = [error.params.type as string | string[]].flat();
      const wanted = types.map((type) => TYPES[type] ?? type).join(' or ');
      let help: string | undefined;
      if (typeof error.data === 'number' && expected?.startsWith('a duration'))
        help = error.data > 0 && Number.isInteger(error.data) ? `write it with its unit: ${error.data}s` : undefined;
      else if (types.includes('string') && (typeof error.data === 'number' || typeof error.data === 'boolean'))
        help = `write it in quotes: "${error.data}"`;
      else if (types.includes('boolean') && typeof error.data === 'string' && /^(yes|no|on|off)$/i.test(error.data))
        help = 'write `true` or `false`';
      else if (types.includes('array') && typeof error.data === 'string')
        help = `write it as a list: [${shown(error.data)}]`;
      return make(
        `wrong type for ${name}`,
        `expected ${wanted}${expected && !expected.startsWith(wanted) ? ` (${expected})` : ''}; ${found}`,
        parsed.place(path),
        help,
      );
    }
    case 'pattern':
    case 'minLength':
    case 'maxLength':
      return make(
        `wrong value for ${name}`,
        `expected ${expected ?? error.message ?? 'something else'}; ${found}`,
        parsed.place(path),
      );
    case 'anyOf': {
      const branches = schema.anyOf ?? [];
      const isAction = expected?.startsWith('an action:') === true;
      if (isAction && typeof error.data === 'string') {
        const said = error.data.trim();
        const isQuoted = ACTIONS.some((verb) => new RegExp(`^${verb}\\s*:\\s`).test(said));
        const meant = isQuoted ? said : `job: ${said}`;
        return make(
          `a plain string is no action: ${shown(error.data)}`,
          `expected a map such as \`${meant}\``,
          parsed.place(path),
          `a list of plain strings is not accepted; write \`- ${meant}\`${isQuoted ? ', without quotes' : ''}`,
        );
      }
      if (isAction && typeof error.data === 'object' && error.data !== null && !Array.isArray(error.data)) {
        const keys = Object.keys(error.data);
        const known = new Set(branches.flatMap((branch) => Object.keys(branch.properties ?? {})));
        const unknown = keys.find((key) => !known.has(key));
        if (unknown !== undefined)
          return make(
            `unknown action \`${unknown}\``,
            `expected one of ${listed([...ACTIONS])}`,
            parsed.place([...path, unknown], 'key'),
            didYouMean(unknown, ACTIONS).help,
          );
        const verb = ACTIONS.find((one) => one in (error.data as object));
        const missing = branches
          .find((branch) => verb !== undefined && verb in (branch.properties ?? {}))
          ?.required?.find((key) => !keys.includes(key));
        if (missing !== undefined)
          return make(
            `\`${missing}\` is missing beside \`${verb}\``,
            `expected \`${missing}\`: a list of actions`,
            parsed.place(path),
          );
        return make('an item without an action', `expected one of ${listed([...ACTIONS])}`, parsed.place(path));
      }
      return make(`wrong value for ${name}`, `expected ${expected ?? 'another value'}; ${found}`, parsed.place(path));
    }
    case 'minProperties':
    case 'maxProperties':
    case 'minItems':
    case 'maxItems':
      return make(
        `wrong size of ${name}`,
        `expected ${expected ? `${expected}, ` : ''}${(error.message ?? '').replace(/^must NOT have/, 'not')}`,
        parsed.place(path),
      );
    case 'minimum':
    case 'maximum':
      return make(
        `wrong value for ${name}`,
        `expected ${expected ?? 'a number'}, ${(error.message ?? '').replace(/^must be/, 'which is')}; ${found}`,
        parsed.place(path),
      );
    case 'uniqueItems':
      return make(`an item twice in ${name}`, 'expected each item once', parsed.place(path));
    default:
      return make(`wrong value for ${name}`, `${error.message ?? error.keyword}; ${found}`, parsed.place(path));
  }
}

/** Calls `visit` for every string of a document, with its path. */
export function eachString(value: unknown, visit: (text: string, path: Path) => void, path: Path = []): void {
  if (typeof value === 'string') visit(value, path);
  else if (Array.isArray(value)) for (const [index, item] of value.entries()) eachString(item, visit, [...path, index]);
  else if (typeof value === 'object' && value !== null)
    for (const [key, item] of Object.entries(value)) eachString(item, visit, [...path, key]);
}

/** Refs of unknown schemes and wrong `@secret`s, wherever they stand. */
function refMistakes(parsed: Parsed): Diagnostic[] {
  const mistakes: Diagnostic[] = [];
  eachString(parsed.value, (text, path) => {
    const ref = parseRef(text);
    const schemes: readonly string[] = [...SECRET_SCHEMES, ...RUNTIME_SCHEMES];
    if (ref && !schemes.includes(ref.scheme))
      mistakes.push({
        severity: 'error',
        code: 'REF_SCHEME_UNKNOWN',
        summary: `unknown ref scheme \`${ref.scheme}\``,
        detail: `expected one of ${listed(schemes)}`,
        ...didYouMean(ref.scheme, schemes),
        place: parsed.place(path),
      });
    else if (ref && ref.path === '')
      mistakes.push({
        severity: 'error',
        code: 'REF_INVALID',
        summary: `the ref ${shown(text)} has no path`,
        detail: 'expected ref+SCHEME://PATH',
        place: parsed.place(path),
      });
    const unknown = ref === null ? null : unknownPath(ref);
    if (ref && unknown)
      mistakes.push({
        severity: 'error',
        code: 'REF_INVALID',
        summary: `ref+${ref.scheme}:// knows no ${shown(ref.path)}`,
        detail: `expected one of ${listed(unknown)}`,
        ...didYouMean(ref.path, unknown),
        place: parsed.place(path),
      });
    const mint = parseMint(text);
    if (mint && 'wrong' in mint)
      mistakes.push({
        severity: 'error',
        code: 'SECRET_INVALID',
        summary: `wrong secret ${shown(text)}`,
        detail: mint.wrong,
        place: parsed.place(path),
      });
  });
  return mistakes;
}

function headMistakes(kind: Kind, parsed: Parsed): Diagnostic[] {
  const { value } = parsed;
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return [
      {
        severity: 'error',
        code: 'SPEC_INVALID',
        summary: 'the document is not a map',
        detail: `expected a map that starts with \`apiVersion: ${API_VERSION}\` and \`kind: ${kind}\`; found ${typeName(value)}`,
        place: parsed.place([]),
      },
    ];
  const { apiVersion, kind: said } = value as { apiVersion?: unknown; kind?: unknown };
  const mistakes: Diagnostic[] = [];
  if (apiVersion !== API_VERSION)
    mistakes.push({
      severity: 'error',
      code: 'API_VERSION_UNKNOWN',
      summary: apiVersion === undefined ? '`apiVersion` is missing' : `unknown apiVersion ${shown(apiVersion)}`,
      detail: `expected \`apiVersion: ${API_VERSION}\``,
      help:
        apiVersion === undefined && said === undefined && 'services' in value
          ? 'this looks like a Compose file: put it into a folder of its own, as stacks/NAME/compose.yaml'
          : `start the document with \`apiVersion: ${API_VERSION}\``,
      place: parsed.place(['apiVersion']),
    });
  if (said !== kind) {
    const kinds = Object.keys(KINDS);
    mistakes.push({
      severity: 'error',
      code: 'KIND_UNKNOWN',
      summary:
        said === undefined
          ? '`kind` is missing'
          : kinds.includes(String(said))
            ? `kind ${said} in a place for ${kind}`
            : `unknown kind ${shown(said)}`,
      detail: `expected \`kind: ${kind}\` here`,
      ...(typeof said === 'string' && !kinds.includes(said) ? didYouMean(said, kinds) : {}),
      place: parsed.place(['kind']),
    });
  }
  return mistakes;
}

const byPlace = (a: Diagnostic, b: Diagnostic): number => {
  const [x, y] = [a.place, b.place];
  if (!x || !y) return x ? 1 : y ? -1 : 0;
  if (x.file !== y.file) return x.file < y.file ? -1 : 1;
  return x.line - y.line || x.column - y.column;
};

/** In the order of their places, each once. */
export function sorted(diagnostics: readonly Diagnostic[]): readonly Diagnostic[] {
  const seen = new Set<string>();
  return [...diagnostics].sort(byPlace).filter((one) => {
    // Through an alias the same mistake is met once for each use, at one place.
    const key = JSON.stringify([one.place ?? one.summary, one.code, one.detail ?? one.summary, one.help, one.stack]);
    return !seen.has(key) && seen.add(key);
  });
}

export const hasErrors = (diagnostics: readonly Diagnostic[]): boolean =>
  diagnostics.some((one) => one.severity === 'error');

/** A text as a document of `kind`. */
export function checkText<K extends Kind>(kind: K, file: string, text: string): Checked<K> {
  const { parsed, diagnostics } = parseDocument(file, text);
  const place: Checked<K>['place'] = (path, of) =>
    parseDocument(file, text).parsed?.place(path, of) ?? { file, line: 0, column: 0 };
  if (!parsed) return { value: null, raw: null, place, diagnostics: sorted(diagnostics) };
  const head = headMistakes(kind, parsed);
  // Of another kind or version nothing more can be said.
  if (head.length > 0) return { value: null, raw: parsed.value, place, diagnostics: sorted(head) };
  const mistakes: Diagnostic[] = [];
  const validate = validatorOf(kind);
  if (!validate(parsed.value)) {
    const errors = (validate.errors ?? []).slice(0, 2_000);
    // A wrong name is reported by `propertyNames`, not by what is wrong with it.
    const named = errors.filter((error) => error.propertyName === undefined);
    mistakes.push(
      ...fold(named)
        .slice(0, MOST_MISTAKES)
        .map((error) => describe(error, parsed)),
    );
  }
  const ofRefs = refMistakes(parsed);
  // Of a wrong ref the more exact words are enough.
  const said = new Set(ofRefs.map((one) => JSON.stringify(one.place)));
  mistakes.splice(0, mistakes.length, ...mistakes.filter((one) => !said.has(JSON.stringify(one.place))), ...ofRefs);
  if (mistakes.length === 0 && kind === 'Job')
    for (const { key, summary, help, index } of jobMistakes(parsed.value as Declared['Job']))
      mistakes.push({
        severity: 'error',
        code: 'SPEC_INVALID',
        summary,
        help,
        place:
          key === '' ? parsed.place([]) : index === undefined ? parsed.place([key], 'key') : parsed.place([key, index]),
      });
  const all = sorted(mistakes);
  return { value: hasErrors(all) ? null : (parsed.value as Declared[K]), raw: parsed.value, place, diagnostics: all };
}
