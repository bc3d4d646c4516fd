/**
 * The seam between collectives and what carries them: a Communicator joins ranks, some or all of which this process
 * holds, and starts collectives on their device memory. Engines implement it: MPI between processes (mpi.ts), NCCL between
 * cards (backends/cuda), and one for several devices of one process.
 *
 * @module
 */
import type { Buffer } from "../device/buffer.ts";
import type { DType } from "../dtype/dtype.ts";
import { ArgumentError, byteText } from "../helpers/errors.ts";
import type { Line } from "../helpers/stack.ts";

/** How elements of several ranks become one. */
export type ReduceOp = "sum" | "prod" | "max" | "min";

/**
 * What the ranks do together. Elements of one rank are a flat range: axes are the business of whoever schedules.
 *
 * - `allReduce`: `to` of each rank has the elements of all `from` reduced; all of one size
 * - `allGather`: `to` has the `from` of all ranks, in order: `size` times as many elements
 * - `reduceScatter`: `from` has a block for each rank; `to` is the own block, reduced
 * - `allToAll`: block `i` of `from` goes to rank `i`; block `j` of `to` came from rank `j`
 * - `broadcast`: `to` of each rank is `from` of `root`
 * - `permute`: for each pair, `to` of its second rank is `from` of its first; ranks that get nothing get zeros
 * - `barrier`: no elements; it is done when all ranks have come
 */
export type Collective =
  | { readonly kind: "allReduce" | "reduceScatter"; readonly op: ReduceOp }
  | { readonly kind: "allGather" | "allToAll" | "barrier" }
  | { readonly kind: "broadcast"; readonly root: number }
  | { readonly kind: "permute"; readonly pairs: readonly (readonly [from: number, to: number])[] };

/** The kinds of collectives. */
export type CollectiveKind = Collective["kind"];

/** What errors say besides: the shape as the user knows it, and the line. */
export interface CollectiveSite {
  readonly shape?: readonly number[];
  readonly line?: Line;
  /** Whether a text that tells of it was compared by {@linkcode Communicator.agree}: then it is not compared by itself. */
  readonly isAgreed?: boolean;
}

/** A collective under way. Its ranges must neither be read nor written before it is done. */
export interface Work {
  /** Whether it is done, asked without waiting. @throws {CollectiveError} where it failed */
  isDone(): boolean;
  /** Waits, to the deadline at most; other work of this process stands still. @throws {CollectiveError} */
  wait(): void;
  /**
   * Has what is queued on the devices from now on see the results: where the host is what waits, as {@linkcode wait}.
   * @throws {CollectiveError}
   */
  join(): void;
  /** As {@linkcode wait}, while timers and other work of this process go on. */
  done(): Promise<void>;
}

/** What is done when it starts. */
export const DONE: Work = { isDone: () => true, wait: () => {}, join: () => {}, done: () => Promise.resolve() };

/** What a collective reads and writes: a range for each rank that this process holds. */
export interface RangePair {
  readonly from: readonly Buffer[];
  readonly to: readonly Buffer[];
}

/**
 * Ranks that act together. All of them must start the same collectives in the same order; every wait has a deadline, and
 * past it a {@linkcode CollectiveError} says who did what. After one the communicator is broken: it throws that error again.
 */
export interface Communicator {
  /** What carries the data: "MPI", "NCCL", "LOCAL". */
  readonly engine: string;
  /** How many ranks there are in all. */
  readonly size: number;
  /** The ranks that this process holds, in the order of the ranges that it gives: one where each process is a rank. */
  readonly ranks: readonly number[];
  /**
   * Starts a collective. It reads what was queued on the devices before; what is queued later may run beside it, and sees
   * its results once {@linkcode Work.wait} or {@linkcode Work.join} has returned.
   *
   * @param from a range for each rank that this process holds; none for a barrier
   * @param to as `from`; the same buffers for `allReduce` and `broadcast` in place, else memory of its own
   * @throws {CollectiveError} where ranks call different things, or one has failed before
   */
  start(collective: Collective, from: readonly Buffer[], to: readonly Buffer[], site?: CollectiveSite): Work;
  /**
   * Starts the same collective on several ranges, as one where the engine can; from and to by pair. @throws {CollectiveError}
   */
  startGroup(collective: Collective, pairs: readonly RangePair[], site?: CollectiveSite): readonly Work[];
  /**
   * Compares a text among all ranks, as that of a schedule: equal texts, equal order of collectives. It may go on beside
   * what is queued next: who waits for it, or for the devices once it was joined, is told which ranks differ.
   *
   * @param what names it in the error
   * @throws {CollectiveError}
   */
  agree(what: string, text: string, site?: CollectiveSite): Work;
  /**
   * Communicators of the ranks that give the same color, each in the order of `key`, then of rank. One color and key for
   * each rank that this process holds; one communicator for each distinct color among them, in the order of first use.
   */
  split(colors: readonly number[], keys?: readonly number[]): Communicator[];
  /** Gives up what is under way, and breaks this communicator: the other ranks will run into their deadlines. */
  abort(reason: string): void;
  /** Ends it in order: all ranks must call this, and have no work under way. Harmless when repeated. */
  destroy(): void;
}

/** What an engine is about, for its errors. */
export interface Operation {
  readonly sequence: number;
  readonly text: string;
  readonly line: Line | undefined;
}

/** What a {@linkcode CollectiveError} says. */
export interface CollectiveErrorOptions {
  readonly rank: number;
  readonly size: number;
  readonly collective: string;
  readonly sequence: number;
  readonly reason: string;
  readonly line?: Line;
}

/** A collective that failed: ranks that did something else, did not come in time, or are gone. */
export class CollectiveError extends Error {
  /** The name of the class. */
  override readonly name: string = "CollectiveError";
  /** The rank that tells. */
  readonly rank: number;
  /** The collective, as text: "allReduce sum of float32[1024]". */
  readonly collective: string;
  /** The position of the collective among those of its communicator, from 1. */
  readonly sequence: number;

  /** The text is the rank, the collective and its number, the line, and the reason. */
  constructor(options: CollectiveErrorOptions) {
    const { rank, size, collective, sequence, reason, line } = options;
    const at = line === undefined ? "" : ` at ${line}`;
    super(`Cannot complete ${collective}, collective ${sequence} of rank ${rank} of ${size}${at}: ${reason}`);
    this.rank = rank;
    this.collective = collective;
    this.sequence = sequence;
  }
}

/** How many elements of `from`, and of `to`, there are for each of a block; a block is what one rank has alone. */
export function blocksOf(kind: CollectiveKind, size: number): readonly [from: number, to: number] {
  switch (kind) {
    case "allGather":
      return [1, size];
    case "reduceScatter":
      return [size, 1];
    case "allToAll":
      return [size, size];
    case "allReduce":
    case "broadcast":
    case "permute":
    case "barrier":
      return [1, 1];
  }
}

/** What an operation is on elements of a dtype: of bools, which are bytes, a sum is "any" and a product "all". */
export function opOn(dtype: DType, op: ReduceOp): ReduceOp {
  if (!dtype.isBool) return op;
  return op === "sum" ? "max" : op === "prod" ? "min" : op;
}

/** A collective as text, with the dtype and the shape of what a rank gives: "allReduce sum of float32[2, 3]". */
export function collectiveText(collective: Collective, from: Buffer | undefined, shape?: readonly number[]): string {
  let text: string = collective.kind;
  if ("op" in collective) text += ` ${collective.op}`;
  if ("root" in collective) text += ` from rank ${collective.root}`;
  if ("pairs" in collective) text += ` ${collective.pairs.map(([a, b]) => `${a}->${b}`).join(" ")}`;
  return from === undefined ? text : `${text} of ${from.dtype.name}[${(shape ?? [from.size]).join(", ")}]`;
}

/** Throws for a rank that there is not. */
function checkRank(action: string, rank: number, size: number): void {
  if (Number.isInteger(rank) && rank >= 0 && rank < size) return;
  throw new ArgumentError(action, { reason: `rank ${rank} is none of 0 to ${size - 1}` });
}

/** Throws where ranges do not fit a collective of `size` ranks, `held` of them here. @throws {ArgumentError} */
export function checkCollective(
  collective: Collective,
  from: readonly Buffer[],
  to: readonly Buffer[],
  { size, ranks }: Pick<Communicator, "size" | "ranks">,
): void {
  const { kind } = collective, action = (): string => `start ${collectiveText(collective, from[0])}`;
  const held = kind === "barrier" ? 0 : ranks.length;
  if (from.length !== held || to.length !== held) {
    throw new ArgumentError(action(), {
      reason: `it takes ${held} ranges to read and to write, not ${from.length} and ${to.length}`,
    });
  }
  if (collective.kind === "broadcast") checkRank(action(), collective.root, size);
  if (collective.kind === "permute") checkPairs(action(), collective.pairs, size);
  const [reads, writes] = blocksOf(kind, size), dtype: DType | undefined = from[0]?.dtype;
  for (let i = 0; i < held; i++) {
    const a = from[i], b = to[i];
    if (a.dtype !== dtype || b.dtype !== dtype) {
      throw new ArgumentError(action(), { reason: `ranges are of ${dtype.name}, ${a.dtype.name} and ${b.dtype.name}` });
    }
    if (a.size % reads === 0 && a.size * writes === b.size * reads && a.size === from[0].size) continue;
    throw new ArgumentError(action(), {
      reason: `a range of ${a.size} elements (${byteText(a.nbytes)}) to read does not fit one of ${b.size} to write, ` +
        `with ${size} ranks`,
    });
  }
}

/** Throws where a process of one rank does not give one color and one key. @throws {ArgumentError} */
export function checkSplit(colors: readonly number[], keys: readonly number[]): void {
  const [color] = colors, [key] = keys;
  if (colors.length === 1 && keys.length === 1 && Number.isInteger(color) && color >= 0 && Number.isInteger(key)) {
    return;
  }
  throw new ArgumentError("split a communicator", {
    reason: `it takes one color, a whole number from 0 on, and one key, not [${colors}] and [${keys}]`,
  });
}

/** Throws where a rank gives or gets twice. */
function checkPairs(action: string, pairs: readonly (readonly [number, number])[], size: number): void {
  for (const side of [0, 1]) {
    const seen = new Set<number>();
    for (const pair of pairs) {
      checkRank(action, pair[side], size);
      if (seen.has(pair[side])) {
        throw new ArgumentError(action, { reason: `rank ${pair[side]} ${side === 0 ? "gives" : "gets"} twice` });
      }
      seen.add(pair[side]);
    }
  }
}
