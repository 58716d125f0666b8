// Resolve: a loaded stack → what it desires, through Compose's own resolution in a throw-away copy of its files. An unchanged input
// costs nothing: memory first, then the state store. Nothing of the live project folder is touched here.
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { Fault } from '../core/fault.ts';
import { HASH_RECIPE } from '../core/render/config-hash.ts';
import { desiredOf, openText, overrideFor, type ProjectContext, takeEnvironment } from '../core/render/desired.ts';
import { overlayOf, render, type SecretRef, variablesOf } from '../core/render/render.ts';
import { isSecretValue, secretValuesOf } from '../core/render/secret-values.ts';
import { encodeToken, findTokens, replaceTokens } from '../core/render/token.ts';
import { enclose, portsOverride, type Variant, withGeneration, withoutPorts } from '../core/render/variant.ts';
import { keyMeant, pathOfWords } from '../core/spec/compose-words.ts';
import type { Diagnostic } from '../core/spec/diagnostic.ts';
import { parseDocument } from '../core/spec/document.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import type { Desired, Model } from '../core/state/desired.ts';
import type { FileToWrite } from '../ports/files.ts';
import { filesInPlace, generationOf } from './archive/generations.ts';
import type { FleetAt } from './fleet-at.ts';
import type { House } from './house.ts';
import { markSecrets, type OpenedSecrets, openSecrets, type SecretMarks } from './secrets.ts';

/** Bumped when the same inputs would be resolved to something else. */
const RESOLVE_VERSION = 6;
/** `docker compose config` runs at once at most; more gains nothing on two cores (ENGINE.md D 2.2). */
const CONFIG_AT_ONCE = 2;
const MODELS_KEPT = 16;
/** A file of a project folder larger than this is refused. Source: SPEC 2. */
export const FILE_BYTES = 50 * 1024 * 1024;

export class InvalidStack extends Error {
  override readonly name = 'InvalidStack';
  readonly diagnostics: readonly Diagnostic[];
  constructor(diagnostics: readonly Diagnostic[]) {
    super(diagnostics[0]?.summary ?? 'invalid');
    this.diagnostics = diagnostics;
  }
}

export interface Resolved {
  readonly desired: Desired;
  /** Secrets that no deploy has minted yet. While there are any, their refs stand closed in `desired`, and there is no model. */
  readonly unminted: readonly SecretRef[];
  /** What a plan is compared by: the digest of `desired` with all secrets closed that Windlass mints itself, so that minting makes no plan stale. */
  readonly planDigest: string;
  /** The secret references that it holds. */
  readonly secrets: readonly SecretRef[];
  /** For the engine. Resolves again when the text is no longer in memory. Throws VAULT_SECRET_MISSING while something is unminted. */
  model(signal?: AbortSignal): Promise<Model>;
  /** The text of the model, with closed refs for what is unminted: for people's eyes, after masking. */
  shown(signal?: AbortSignal): Promise<string>;
}

/** What one resolve found out about secrets; plain JSON without a value, kept beside the stored `Desired`. */
interface SecretsKept {
  readonly inputDigest: string;
  readonly planDigest: string;
  readonly secrets: readonly SecretRef[];
  readonly marks: SecretMarks;
}

interface Kept extends SecretsKept {
  readonly desired: Desired;
  /** Not empty = never stored. */
  readonly unminted: readonly SecretRef[];
}

type SecretUse = 'open' | 'mint' | 'closed';

const secretsKey = (stack: string): string => `secrets/${stack}`;

/** Holds the project folders of all stacks: what bears a path below it was made from this state directory. */
export const homeOf = (stateDir: string): string => join(stateDir, 'stacks');
export const treeDirOf = (stateDir: string, stack: string): string => join(homeOf(stateDir), stack, 'tree');

export function projectDirOf(stateDir: string, stack: LoadedStack): string {
  const tree = treeDirOf(stateDir, stack.name);
  if (stack.layout.kind === 'app') return join(tree, 'apps', stack.layout.app.name);
  return stack.layout.directory === '' ? tree : join(tree, stack.layout.directory);
}

/** The loader refuses submodules, so every entry of a stack is a file or a link. */
export function filesToWrite(stack: LoadedStack): readonly FileToWrite[] {
  return stack.files.flatMap(({ path, mode, oid }) => (mode === '160000' ? [] : [{ path, mode, oid }]));
}

export class Resolver {
  readonly #house: House;
  readonly #kept = new Map<string, Kept>();
  readonly #models = new Map<string, { of: Kept; model: Model }>();
  #running = 0;
  readonly #waiting: (() => void)[] = [];
  #composeVersion: string | null = null;
  #salt: string | null = null;

  constructor(house: House) {
    this.#house = house;
  }

  /**
   * Reads only, unless `mint`: then secrets that the stack asks to be minted are made, which is for a deploy that somebody said yes to.
   * `closed` opens no secret and asks no vault: enough for who wants to know what is declared.
   * Throws InvalidStack for a mistake in the declaration, Fault when the world refuses.
   */
  async resolve(
    stack: LoadedStack,
    at: FleetAt,
    signal?: AbortSignal,
    { mint = false, closed = false }: { readonly mint?: boolean; readonly closed?: boolean } = {},
  ): Promise<Resolved> {
    const inputDigest = await this.#inputDigest(stack, at);
    const use = closed ? 'closed' : mint ? 'mint' : 'open';
    const known = await this.#known(stack.name, at, inputDigest, use);
    const kept =
      known && !(mint && known.unminted.length > 0)
        ? known
        : (await this.#run(stack, at, inputDigest, use, signal)).kept;
    const modelOf = async (inner?: AbortSignal): Promise<Model> => {
      const model = this.#models.get(stack.name);
      if (model?.of === kept) return model.model;
      return (await this.#run(stack, at, inputDigest, closed ? 'closed' : 'open', inner)).model;
    };
    return {
      desired: { ...kept.desired, revision: at.revision.commit },
      unminted: kept.unminted,
      planDigest: kept.planDigest,
      secrets: kept.secrets,
      async model(inner) {
        if (kept.unminted.length > 0)
          throw new Fault(
            'VAULT_SECRET_MISSING',
            `stack ${stack.name} has secrets that its first deploy makes: ${kept.unminted.map((one) => one.key).join(', ')}`,
          );
        return modelOf(inner);
      },
      shown: async (inner) => (await modelOf(inner)).text,
    };
  }

  /** The last answer for a stack, without Compose; null when its inputs or the values of its secrets changed. */
  async #known(stack: string, at: FleetAt, inputDigest: string, use: SecretUse): Promise<Kept | null> {
    const memory = this.#kept.get(stack);
    const isAsked = async (kept: Kept | null | undefined): Promise<boolean> => {
      if (kept?.inputDigest !== inputDigest) return false;
      const { secrets } = kept;
      if (secrets.length === 0 || use === 'closed') return true;
      const marks = await markSecrets(this.#house, at.listing, secrets, this.#saltNow());
      return secrets.every(({ ref }) => marks[ref] === kept.marks[ref]);
    };
    if (memory && (await isAsked(memory))) return memory;
    const stored = this.#stored(stack, inputDigest);
    if (!stored || !(await isAsked(stored))) return null;
    this.#kept.set(stack, stored);
    return stored;
  }

  #stored(stack: string, inputDigest: string): Kept | null {
    const { store } = this.#house;
    const desired = store.resolved(stack);
    const about = store.value(secretsKey(stack)) as SecretsKept | undefined;
    if (desired?.inputDigest !== inputDigest || about?.inputDigest !== inputDigest) return null;
    return { ...about, desired, unminted: [] };
  }

  async #inputDigest(stack: LoadedStack, at: FleetAt): Promise<string> {
    this.#composeVersion ??= (await this.#house.runtime.info()).composeVersion;
    const providers = providersOf(stack, at).map((name) => [name, at.fleet.stacks.get(name)?.sourceDigest ?? '']);
    return createHash('sha256')
      .update(
        JSON.stringify([
          RESOLVE_VERSION,
          HASH_RECIPE,
          this.#composeVersion,
          stack.name,
          projectDirOf(this.#house.settings.stateDir, stack),
          stack.sourceDigest,
          providers,
          ...this.#variants(stack, at),
        ]),
      )
      .digest('hex');
  }

  /** Nothing for a stack that was never restored, so that its digests stay what they were. */
  #variants(stack: LoadedStack, at: FleetAt): readonly Variant[] {
    const { source, store } = this.#house;
    const variant = source.variant?.(at.revision.commit) ?? null;
    const generation = variant?.generation ?? generationOf(store, stack.name);
    const whole = { ...variant, ...(generation === null ? {} : { generation }) };
    return Object.keys(whole).length === 0 ? [] : [whole];
  }

  async #slot<T>(work: () => Promise<T>): Promise<T> {
    while (this.#running >= CONFIG_AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#running++;
    try {
      return await work();
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  async #run(
    stack: LoadedStack,
    at: FleetAt,
    inputDigest: string,
    use: SecretUse,
    signal?: AbortSignal,
  ): Promise<{ kept: Kept; model: Model }> {
    return this.#slot(async () => {
      const { settings, store } = this.#house;
      const prepared = prepare(stack, at);
      // Before Compose may quote one in a complaint.
      for (const [name, value] of Object.entries(prepared.environment))
        if (isSecretValue(name, value)) this.#house.hide(value);
      const variant = this.#variants(stack, at)[0] ?? {};
      const asked: ProjectContext = {
        stack: stack.name,
        revision: at.revision.commit,
        project: stack.name,
        treeDir: treeDirOf(settings.stateDir, stack.name),
        projectDir: projectDirOf(settings.stateDir, stack),
        inputDigest,
        composeVersion: this.#composeVersion ?? '',
        // Also those below a folder that a restore put beside the one of its name.
        files: filesInPlace(stack.files, variant.generation ?? null),
        extensions: prepared.extensions,
        owners: prepared.owners,
        environment: prepared.environment,
        salt: this.#saltNow(),
      };
      const { text: closed, environment: told } = takeEnvironment(
        await this.#config(stack, asked, prepared, variant, signal),
      );
      const context = { ...asked, environment: { ...prepared.environment, ...told } };
      const secrets = secretsOf(stack, prepared, closed);
      const { values, unminted, marks } = await this.#open(secrets, at, use);
      const open = (ref: string): string => values.get(ref) ?? encodeToken(ref);
      const text = openText(context, closed, open);
      const opened = (variables: Readonly<Record<string, string>>) =>
        Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, replaceTokens(value, open)]));
      for (const value of secretValuesOf(JSON.parse(text))) this.#house.hide(value);
      const desired = desiredOf(
        { ...context, environment: opened(context.environment), opened: [...values.values()] },
        text,
      );
      const model = { text, environment: opened(prepared.environment) };
      const minted = secrets.filter(({ policy }) => policy !== null);
      const planDigest = minted.length === 0 ? desired.digest : planDigestOf(context, closed, secrets, marks);
      const about: SecretsKept = { inputDigest, planDigest, secrets, marks };
      const kept: Kept = { ...about, desired, unminted };
      this.#kept.set(stack.name, kept);
      this.#models.delete(stack.name);
      this.#models.set(stack.name, { of: kept, model });
      const [oldest] = this.#models.keys();
      if (this.#models.size > MODELS_KEPT && oldest !== undefined) this.#models.delete(oldest);
      if (unminted.length === 0) {
        // In this order: after a crash in between the marks are those of an older resolve, and it is made again.
        store.putResolved(desired);
        store.putValue(secretsKey(stack.name), about);
      }
      return { kept, model };
    });
  }

  /** A closed one has no marks, so that nobody else takes it for one that is known. */
  async #open(
    secrets: readonly SecretRef[],
    at: FleetAt,
    use: SecretUse,
  ): Promise<OpenedSecrets & { readonly marks: SecretMarks }> {
    if (use === 'closed') return { values: new Map(), unminted: secrets, marks: {} };
    // Marked before they are opened: a value that changes in between is seen by the next resolve.
    const marks = await markSecrets(this.#house, at.listing, secrets, this.#saltNow());
    const opened = await openSecrets(this.#house, at.listing, secrets, { mint: use === 'mint' });
    const isMade = use === 'mint' && Object.values(marks).includes(null);
    return { ...opened, marks: isMade ? await markSecrets(this.#house, at.listing, secrets, this.#saltNow()) : marks };
  }

  /** Compose names the key; people want the line. */
  async #placed(stack: LoadedStack, diagnostic: Diagnostic): Promise<Diagnostic> {
    if (stack.layout.kind !== 'compose' || diagnostic.place !== stack.place) return diagnostic;
    for (const file of stack.layout.files) {
      const entry = stack.files.find((one) => one.path === file);
      if (!entry) continue;
      const { parsed } = parseDocument(
        file,
        Buffer.from(await this.#house.source.blob(entry.oid, FILE_BYTES)).toString('utf8'),
      );
      const path = parsed && pathOfWords(diagnostic.summary, parsed);
      if (!path) continue;
      return { ...diagnostic, place: parsed.place(path, 'key') };
    }
    return diagnostic;
  }

  #saltNow(): string {
    this.#salt ??= this.#saltOf();
    return this.#salt;
  }

  /** Random per state directory, so that digests of masked values mean nothing elsewhere. */
  #saltOf(): string {
    const { store, clock } = this.#house;
    const kept = store.value('salt');
    if (typeof kept === 'string') return kept;
    const salt = clock.id();
    store.putValue('salt', salt);
    return salt;
  }

  /** Compose's words are about the copy; people know the repository. */
  async #config(
    stack: LoadedStack,
    context: ProjectContext,
    { text, environment, overlay }: Prepared,
    variant: Variant,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    const { files, runtime, source } = this.#house;
    const scratch = await files.scratch();
    try {
      await files.materialize({
        directory: scratch.directory,
        files: filesToWrite(stack),
        before: {},
        read: (oid) => source.blob(oid, FILE_BYTES),
        ...(signal ? { signal } : {}),
      });
      const directory = scratch.directory + context.projectDir.slice(context.treeDir.length);
      // An app without files of its own has no folder in the repository.
      await files.ensureFolder(directory);
      const inScratch = (path: string) => join(scratch.directory, path);
      const layout = stack.layout;
      let input = {
        project: context.project,
        directory,
        files: layout.kind === 'compose' ? layout.files.map(inScratch) : [],
        ...(text === null ? {} : { text }),
        profiles: layout.kind === 'compose' ? layout.profiles : [],
        overrides: overlay,
        environment,
        ...(signal ? { signal } : {}),
      };
      const stable = (out: string) => out.replaceAll(scratch.directory, context.treeDir);
      let raw = await runtime.resolve(input);
      const { enclosed } = variant;
      const bare = enclosed ? enclose(raw, enclosed, scratch.directory) : withoutPorts(raw, variant);
      if (bare !== null) {
        const ports = portsOverride(raw, variant);
        input = { ...input, files: [], text: bare, overrides: ports === null ? [] : [ports] };
        raw = await runtime.resolve(input);
      }
      const finished = (out: string) =>
        variant.generation ? withGeneration(stable(out), variant.generation, context.treeDir) : stable(out);
      const first = stable(raw);
      if (Object.keys((JSON.parse(first) as { services?: object }).services ?? {}).length === 0)
        throw new InvalidStack([
          {
            severity: 'error',
            code: 'COMPOSE_EMPTY',
            summary: 'no service is selected',
            detail: 'the Compose file declares no service, or all of them need a profile',
            help: 'declare a service, or set COMPOSE_PROFILES in the `.env` beside the Compose file',
            place: stack.place,
            stack: stack.name,
          },
        ]);
      const override = overrideFor(context, first);
      if (override === null) return finished(raw);
      return finished(await runtime.resolve({ ...input, overrides: [...input.overrides, override] }));
    } catch (error) {
      if (error instanceof Fault && error.code === 'COMPOSE_INVALID')
        throw new InvalidStack([
          await this.#placed(stack, composeDiagnostic(stack, error, scratch.directory, this.#house.redact)),
        ]);
      throw error;
    } finally {
      await scratch.dispose();
    }
  }
}

/** What Compose is to be given beside the files; secrets still closed. */
interface Prepared {
  readonly text: string | null;
  readonly overlay: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly secrets: readonly SecretRef[];
  readonly owners: ProjectContext['owners'];
  readonly extensions: ProjectContext['extensions'];
}

function prepare(stack: LoadedStack, at: FleetAt): Prepared {
  if (stack.layout.kind === 'app') {
    const { diagnostics, ...rendered } = render({ stack, fleet: at.fleet.stacks });
    const errors = diagnostics.filter((one) => one.severity === 'error');
    if (errors.length > 0) throw new InvalidStack(errors);
    return { ...rendered, overlay: [], environment: {} };
  }
  // The process environment is never passed on: only what the stack itself declares may be interpolated.
  const { variables, secrets } = variablesOf(stack);
  const overlay = overlayOf(stack);
  return {
    text: null,
    overlay: overlay === null ? [] : [overlay],
    environment: variables,
    secrets,
    owners: [],
    extensions: stack.extensions,
  };
}

/** The secrets that the project holds. */
function secretsOf(stack: LoadedStack, prepared: Prepared, closed: string): readonly SecretRef[] {
  const byRef = new Map(prepared.secrets.map((secret) => [secret.ref, secret]));
  return findTokens(closed + Object.values(prepared.environment).join('\0')).map((ref) => {
    const secret = byRef.get(ref);
    if (!secret)
      throw new Fault('USAGE', `the secret reference ${ref} of stack ${stack.name} is none that Windlass wrote`);
    return secret;
  });
}

/** What Windlass mints counts closed, everything else by the mark of its value. */
function planDigestOf(
  context: ProjectContext,
  closed: string,
  secrets: readonly SecretRef[],
  marks: SecretMarks,
): string {
  const found = secrets.filter(({ policy }) => policy === null).map(({ ref }) => [ref, marks[ref]]);
  return createHash('sha256')
    .update(JSON.stringify([desiredOf(context, closed).digest, found]))
    .digest('hex');
}

/** Providers, their providers, and so on: what they declare is part of what a stack renders to. */
function providersOf(stack: LoadedStack, at: FleetAt): readonly string[] {
  const found = new Set<string>();
  const open = Object.values(stack.integrate);
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (found.has(name)) continue;
    found.add(name);
    open.push(...Object.values(at.fleet.stacks.get(name)?.integrate ?? {}));
  }
  return [...found].sort();
}

function composeDiagnostic(
  stack: LoadedStack,
  fault: Fault,
  scratch: string,
  redact: (text: string) => string,
): Diagnostic {
  const words = redact(fault.message.replaceAll(`${scratch}/`, '').replaceAll(scratch, '.'));
  const at = /(?:^|[\s"'])([\w./-]+\.ya?ml)?:? ?(?:line )(\d+)(?::| column )?(\d+)?/.exec(words);
  const meant = keyMeant(words);
  return {
    severity: 'error',
    code: 'COMPOSE_INVALID',
    summary: words,
    help: meant === null ? fault.help : `did you mean \`${meant}\`?`,
    place: at ? { file: at[1] ?? stack.place.file, line: Number(at[2]), column: Number(at[3] ?? 1) } : stack.place,
    stack: stack.name,
  };
}
