/**
 * Schedules that other processes have made, as the scheduler asks for them: which graph, and for what. What keeps them is
 * set with the engine.
 *
 * @module
 */
import type { Program } from "../device/program.ts";
import type { GraphKey } from "./cache/graph_key.ts";
import type { TemplateItem } from "./order/template.ts";
import type { Lowered } from "./schedule_passes.ts";

/** What of a key's constants and offsets are arguments of a variant. */
export interface Arguments {
  /** Positions in the key's list of constants. */
  readonly constants: ReadonlySet<number>;
  /** By position in its list of offsets. */
  readonly offsets: ReadonlyMap<number, FreeOffset>;
}

/** An offset that is an argument. */
export interface FreeOffset {
  /** What it is a multiple of. */
  readonly unit: number;
  /** The first offset that it is equal to, always so far, of one that is sliced alike: both are one argument. */
  readonly first: number;
}

/** What a schedule is asked for. */
export interface Wanted {
  readonly key: GraphKey;
  readonly free: Arguments;
  /** Whether buffers may be parts of others. */
  readonly views: boolean;
}

/** What keeps schedules. */
export interface StoredSchedules {
  /** What `read` makes of the schedule that is known, else what `lower` makes, which `keep` keeps. */
  before<V extends Lowered>(wanted: Wanted, read: (known: Lowered) => V, lower: () => V): V;
  /** Keeps a schedule that was not known, now that its kernels are compiled. */
  keep(made: Lowered, programs: ReadonlyMap<TemplateItem, Program>): void;
}

/** What keeps schedules now; nothing does where there is no engine, and in pages, which have no files. */
export const storedSchedules: { now: StoredSchedules } = {
  now: { before: (_wanted, _read, lower) => lower(), keep() {} },
};
