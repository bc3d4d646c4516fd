/**
 * Optimizations of one kernel, as data: which axis, how. The heuristic and the search choose them; `kernel.ts` applies them.
 *
 * @module
 */
import { hashString, mix } from "../../helpers/hash.ts";
import type { ArgRecord } from "../../uop/core/args.ts";

/** What an {@linkcode Opt} does. */
export type OptOp =
  | "TC" // tensor cores
  | "UPCAST" // split `arg` off an output axis, unrolled into independent values
  | "UNROLL" // split `arg` off a reduce axis, unrolled inside the loop body
  | "VECTOR" // split `arg` off an axis (output or reduce), as lanes of vector values
  | "LOCAL" // split `arg` off an output axis, as threads of a group
  | "GROUP" // split `arg` off a reduce axis over neighboring threads of a group
  | "GROUPTOP" // the same, each thread with a contiguous part
  | "THREAD" // an output axis (or `arg` chunks of it) is split over CPU threads
  | "PADTO" // round an axis up to a multiple of `arg`; the extra iterations are masked
  | "MERGE" // axis `axis` and axis `arg`, the inner one, become one, in the place of the latter
  | "SWAP" // exchange two output axes in loop order (`arg` is the other axis)
  | "NOLOCALS" // groups of one thread
  | "STAGE" // keep a tile of an input: axis is the input's slot, arg the loop depth below which it is filled
  | "SPLIT"; // two-level reduction

/** One optimization. `axis` counts output axes 0, 1, ... or, for reduce opts, reduce axes; -1 where none. */
export interface Opt {
  readonly op: OptOp;
  readonly axis: number;
  readonly arg: number;
}

/** "UPCAST:0:4" */
export function optText(o: Opt): string {
  return `${o.op}:${o.axis}:${o.arg}`;
}

/** The arg of a kernel's SINK. `opts` undefined: the heuristic chooses; a list: exactly those. */
export class KernelInfo implements ArgRecord {
  readonly hash: number;
  constructor(readonly name: string, readonly opts: readonly Opt[] | undefined = undefined) {
    this.hash = mix(hashString(name), opts === undefined ? 0 : hashString(opts.map(optText).join()));
  }
  same(o: ArgRecord): boolean {
    return o instanceof KernelInfo && o.name === this.name && o.toString() === this.toString();
  }
  toString(): string {
    return this.opts === undefined ? this.name : `${this.name} ${this.opts.map(optText).join(" ")}`;
  }
}
