// Consent: a question to the person, or --yes in its place. Without either nothing is done.
import { type CommandContext, UsageError } from './command.ts';

/** Throws DeclinedError on a no, UsageError when nobody is there. */
export async function consent(
  { io, flags, stop }: Pick<CommandContext, 'io' | 'flags' | 'stop'>,
  question: string,
): Promise<void> {
  if (flags['yes']) return;
  if (!io.interactive)
    throw new UsageError('nobody is there to say yes\n  help     read what stands above, then give --yes');
  if (await io.confirm(question, stop)) return;
  const { DeclinedError } = await import('../engine/pipeline.ts');
  throw new DeclinedError();
}
