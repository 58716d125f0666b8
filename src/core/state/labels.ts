// The labels that Windlass adds to a container, and only where needed: what Compose's own hash does not see.

export const LABELS = {
  /** Content of mounted files, configs and secrets. */
  content: 'dev.windlass.content',
  /** Inputs of the image build; on the image too. */
  build: 'dev.windlass.build',
  /** The definition before Compose put container ids into it. */
  definition: 'dev.windlass.definition',
} as const;
