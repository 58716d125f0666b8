// `windlass hooks show|graph`: what the hooks of a stack would do at the newest commit. Reads declarations only: no engine, no vault.
import { ACTION_KINDS } from '../../core/hook/action.ts';
import { compile } from '../../core/hook/compile.ts';
import { mermaidOf } from '../../core/hook/mermaid.ts';
import { type HookPhase, PHASES } from '../../core/hook/phase.ts';
import { renderHooks } from '../../core/render/hooks.ts';
import type { Diagnostic } from '../../core/spec/diagnostic.ts';
import { unknownStack } from '../../core/spec/unknown-stack.ts';
import type { Command, CommandContext } from '../command.ts';
import { EXIT } from '../exit.ts';
import { phaseNamed } from '../phase-named.ts';
import { formatDiagnostic } from '../views/diagnostic.ts';
import { formatSequences, type Sequence, told } from '../views/hooks.ts';

export const show: Command = {
  words: ['hooks', 'show'],
  summary: "print what runs in each hook phase of a stack: the app's and the stack's actions in one order",
  usage: 'STACK [PHASE]',
  example: 'windlass hooks show sso post_update',
  arity: [1, 2],
  async run(context) {
    const { io, json, args } = context;
    const [name = '', phase] = args;
    const read = await sequencesOf(context, name, phase === undefined ? PHASES : [phaseNamed(phase)]);
    if ('wrong' in read) return refuse(context, read.wrong);
    const sequences = read.filter((one) => one.actions.length > 0);
    if (json) io.json(told(sequences));
    else if (sequences.length > 0) io.data(formatSequences(io, sequences));
    else io.words(`no hook runs${phase === undefined ? '' : ` in ${phase}`} for ${name}`);
    return EXIT.done;
  },
};

export const graph: Command = {
  words: ['hooks', 'graph'],
  summary: 'print the machine of a hook phase as a Mermaid diagram; `-o json` prints the machine itself',
  usage: 'STACK PHASE',
  example: 'windlass hooks graph sso post_update > post_update.mmd',
  arity: [2, 2],
  async run(context) {
    const { io, json, args } = context;
    const [stack = '', phase = ''] = args;
    const read = await sequencesOf(context, stack, [phaseNamed(phase)]);
    if ('wrong' in read) return refuse(context, read.wrong);
    const [sequence] = read;
    if (sequence === undefined || sequence.actions.length === 0) {
      if (json) io.json(null);
      io.words(`no hook runs in ${phase} for ${stack}`);
      return EXIT.done;
    }
    const chart = compile({ stack, phase: sequence.phase, actions: told(sequence.actions), actors: ACTION_KINDS });
    if (json) io.json(chart);
    else io.data(mermaidOf(chart).trimEnd());
    return EXIT.done;
  },
};

async function sequencesOf(
  { surface }: CommandContext,
  name: string,
  phases: readonly HookPhase[],
): Promise<readonly Sequence[] | { readonly wrong: readonly Diagnostic[] }> {
  const { fleet, revision } = await (await surface('state')).fleet();
  const stack = fleet.stacks.get(name);
  if (!stack) {
    const wrong = fleet.broken.get(name);
    if (wrong) return { wrong };
    throw unknownStack(name, fleet, revision);
  }
  const wrong: Diagnostic[] = [];
  const sequences = phases.map((phase) => {
    const { actions, diagnostics } = renderHooks(stack, fleet.stacks, phase);
    wrong.push(...diagnostics);
    return { phase, actions };
  });
  return wrong.length > 0 ? { wrong } : sequences;
}

function refuse({ io }: CommandContext, wrong: readonly Diagnostic[]): number {
  for (const one of wrong) io.words(formatDiagnostic(io.inWords, one));
  return EXIT.usage;
}
