// `windlass check`: for the CI of a pull request, in a clone with its whole history and no engine: is what is declared right, and what do
// the requests of HEAD still lack, and does it leave alone what is trusted. Never says that a request will run: what is revoked, claimed or
// rewritten only the controller knows.
import { helpOf } from '../../core/state/trust/authority.ts';
import { idOfPath } from '../../core/state/trust/request-file.ts';
import type { RequestHere } from '../../surface/clone-desk.ts';
import { type Command, UsageError } from '../command.ts';
import { EXIT } from '../exit.ts';
import { deskIfThere, deskOf } from '../own-clone.ts';
import { formatDiagnostic, inReadingOrder, plural } from '../views/diagnostic.ts';
import { formatPlan, planJson } from '../views/plan.ts';
import { oneLine } from '../views/table.ts';

interface Row {
  readonly id: string;
  readonly state: string;
  readonly reason: string;
  readonly detail: string;
  readonly missing: number;
  readonly mayStillSign: readonly string[];
  readonly asked: string | null;
  readonly approved: readonly string[];
  /** What only the controller can tell, and what would refuse it there. */
  readonly doubts: readonly string[];
}

const rowOf = (id: string, one: RequestHere): Row => ({
  id,
  state: one.state,
  reason: one.reason,
  detail: one.detail,
  missing: one.missing,
  mayStillSign: one.mayStillSign,
  asked: one.requester?.principal ?? null,
  approved: one.approvals.map((approval) => approval.principal),
  doubts: one.isFinal ? [] : one.doubts,
});

/** States in which nothing is left for people to do. */
const SETTLED = new Set(['ready', 'scheduled', 'expired', 'withdrawn', 'rejected']);

export const command: Command = {
  words: ['check'],
  summary:
    'for the CI of a pull request: validate what HEAD declares, tell which approvals its requests still lack and what it makes of trust/',
  usage: '',
  example: 'windlass check >> "$GITHUB_STEP_SUMMARY"',
  arity: [0, 0],
  flags: {
    plan: {
      type: 'boolean',
      help: 'also what a deploy of it would change: needs the engine, and --state of its controller',
    },
  },
  async run(context) {
    const { io, json, surface, flags } = context;
    const own = flags['source'] === undefined ? await deskIfThere(context) : null;
    if (own?.clone.isShallow)
      throw new UsageError(
        'this clone is shallow: what its commits go on from, and who signed, is not all there\n  help     git fetch --unshallow',
      );
    const house = await surface('scratch');
    const { at, diagnostics } = await house.declared();
    const view = context.flags['plan'] === true ? await house.plan() : null;
    const errors = diagnostics.filter((one) => one.severity === 'error');
    const ids = at.listing.entries.flatMap(({ path }) => idOfPath(path) ?? []);
    const rows: Row[] = [];
    const trust = (await own?.trustChanges()) ?? [];
    const isBroken = trust.some(({ changes }) => changes.some((one) => one.isRefused));
    // By a policy or an anchor that nobody has signed for nothing is judged.
    if (ids.length > 0 && !isBroken) {
      const desk = await deskOf(context);
      const authority = await desk.authority();
      for (const id of ids) {
        const evaluation = await desk.evaluate(authority, id);
        if (evaluation) rows.push(rowOf(id, evaluation));
      }
    }
    if (json)
      io.json({
        commit: at.revision.commit,
        stacks: at.fleet.stacks.size,
        diagnostics,
        requests: rows,
        trust,
        ...(view ? { plan: planJson(view) } : {}),
      });
    else {
      for (const one of inReadingOrder(diagnostics)) io.words(`${formatDiagnostic(io.inWords, one)}\n`);
      if (view) io.data(`\`\`\`\n${formatPlan(io, view)}\n\`\`\`\n`);
      io.data(
        `${plural(at.fleet.stacks.size, 'stack')}, ${plural(errors.length, 'error')}; ${plural(rows.length, 'request')}`,
      );
      for (const { name, commit, changes } of trust) {
        if (changes.length > 0) io.data(`trust/ against ${name} (${commit.slice(0, 12)}):`);
        for (const { path, says, help, isRefused } of changes) {
          io.data(`- **${oneLine(path)}** ${says}${help === '' || isRefused ? '' : `: \`${help}\``}`);
          if (isRefused) io.data(`  refused: ${help}`);
        }
      }
      if (ids.length > 0 && isBroken) io.data('the requests are not judged until trust/ is right');
      for (const row of rows) {
        io.data(`- **${row.id}**: ${row.state}, ${row.reason}${row.detail ? `: ${oneLine(row.detail)}` : ''}`);
        if (row.asked) io.data(`  asked by ${row.asked}; approved by ${row.approved.join(', ') || 'nobody yet'}`);
        if (row.missing > 0)
          io.data(`  missing ${row.missing} of ${row.mayStillSign.join(', ')}: \`windlass approve ${row.id}\``);
        for (const doubt of row.doubts) io.data(`  warning: ${doubt}`);
        if (row.state === 'refused') io.data(`  ${helpOf(row.reason as Parameters<typeof helpOf>[0])}`);
      }
    }
    if (errors.length > 0) return EXIT.usage;
    if (isBroken) return EXIT.refused;
    return rows.every((row) => SETTLED.has(row.state)) ? EXIT.done : EXIT.refused;
  },
};
