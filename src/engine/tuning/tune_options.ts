/**
 * What `tune` takes, tells and gives.
 *
 * @module
 */
import type { Problem } from "./search.ts";

/** What `tune` tells of each kernel. */
export interface TuneEvent {
  /** Kernels that are tuned. */
  readonly total: number;
  /** Of these so many are done, with this one. */
  readonly done: number;
  /** For which device. */
  readonly device: string;
  /** The kernel, as DEBUG=2 names it. */
  readonly kernel: string;
  /** The opts that it runs with from now on; undefined where the chooser's stay. */
  readonly opts: string | undefined;
  /** Its time now over its time before: 1 where the chooser's opts stay. */
  readonly ratio: number;
}

/** Options of `tune`. */
export interface TuneOptions {
  /** Milliseconds that measuring may take in all: 10,000 if absent. What was found before is used whatever it is. */
  readonly budgetMs?: number;
  /** Candidates: eight for each; 4 if absent. */
  readonly width?: number;
  /** Is told of each kernel when it is done. */
  readonly progress?: (event: TuneEvent) => void;
}

/** What `tune` has done. */
export interface TuneResult {
  /** Kernels that the function ran. */
  readonly kernels: number;
  /** Those that run with other opts now. */
  readonly improved: number;
  /** Those of which everything was known. */
  readonly known: number;
  /** Those that were not measured, for want of time or because they cannot be. */
  readonly skipped: number;
  /** Candidates that were left out: they were wrong, or failed. */
  readonly problems: readonly Problem[];
  /** Milliseconds that all of it took. */
  readonly timeMs: number;
}
