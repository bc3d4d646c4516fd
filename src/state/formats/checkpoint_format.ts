/**
 * What checkpoints are known by, for those who write and read them.
 *
 * @module
 */

/** What the metadata of each file say. */
export const CHECKPOINT: Readonly<Record<"format" | "version", string>> = {
  format: "dinograd checkpoint",
  version: "1",
};

/** The field that marks what JSON has no form for. */
export const MARK = "$dinograd";
