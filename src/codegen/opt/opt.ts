/**
 * Optimizations of one kernel, as data: which axis, how. `choose` and the search choose them; `kernel.ts` applies them.
 *
 * @module
 */
import { hashString, mix } from "../../helpers/hash.ts";
import type { ArgRecord } from "../../uop/core/args.ts";
import { sink, type UOp } from "../../uop/core/uop.ts";

/** What an {@linkcode AxisOpt} does. */
export type OptOp =
  | "UPCAST" // split `arg` off an output axis, or one of a STAGE, unrolled into independent values
  | "UNROLL" // split `arg` off a reduce axis, unrolled inside the loop body
  | "VECTOR" // on loops: split `arg`, a power of two, off an axis (output or reduce), as lanes of vector values
  | "LOCAL" // on a grid: split `arg` off an output axis, as threads of a group
  | "GROUP" // on a grid: split `arg` off a reduce axis over neighboring threads of a group
  | "GROUPTOP" // the same, each thread with a contiguous part
  | "THREAD" // on loops: an output axis is split over CPU threads in `arg` chunks, or 0 for one an iteration
  | "PADTO" // round an axis up to a multiple of `arg`; the extra iterations are masked
  | "MERGE" // on a grid: axis `axis` and axis `arg`, the inner one, become one, in the place of the latter
  | "SWAP"; // exchange two output axes in loop order (`arg` is the other axis)

/** An opt about an axis. `axis` counts output axes 0, 1, ... or, for reduce opts, reduce axes. */
export interface AxisOpt {
  readonly op: OptOp;
  readonly axis: number;
  readonly arg: number;
}

/** Has a matrix unit compute a product: its tile is split off the axes. */
export interface UnitOpt {
  readonly op: "TC";
  /** Which one of the device's. */
  readonly unit: number;
}

/** Keeps a tile of an input: it is copied into memory of the kernel, and read from there. */
export interface StageOpt {
  readonly op: "STAGE";
  /** The slot of the input. */
  readonly input: number;
  /** How many of the loops of the kernel, outermost first, it is filled inside of; all where absent, as on a grid. */
  readonly loops?: number;
  /** On a grid: buffers, of which all but one are filled ahead; 1 where absent. */
  readonly ring?: number;
  /** Of a ring that a matrix unit reads: a copy engine brings the tiles as boxes, where they are some. */
  readonly boxes?: boolean;
}

/** One optimization. */
export type Opt = AxisOpt | UnitOpt | StageOpt;

/** "UPCAST:0:4", "TC:2", "STAGE:1:loops=2", "STAGE:1:ring=3", "STAGE:1:ring=3:boxes" */
export function optText(o: Opt): string {
  if (o.op === "TC") return `TC:${o.unit}`;
  if (o.op !== "STAGE") return `${o.op}:${o.axis}:${o.arg}`;
  const { input, loops, ring, boxes } = o;
  const text = `STAGE:${input}${loops === undefined ? "" : `:loops=${loops}`}${
    ring === undefined ? "" : `:ring=${ring}`
  }`;
  return boxes === true ? `${text}:boxes` : text;
}

/** The text of a list of opts: equal for equal lists. */
export function optsText(opts: readonly Opt[]): string {
  return opts.map(optText).join(" ");
}

const OPT =
  /^(?:TC:(\d+)|(?!STAGE|TC)([A-Z]+):(\d+)(?::(\d+))?|STAGE:(\d+)(?::loops=(\d+))?(?::ring=(\d+))?(:boxes)?)$/;

/** The opts that {@linkcode optsText} has written, an arg of 0 perhaps left out; undefined for other text. */
export function parseOpts(text: string): Opt[] | undefined {
  const opts: Opt[] = [];
  for (const part of text.split(" ").filter((t) => t !== "")) {
    const m = OPT.exec(part);
    if (m === null) return undefined;
    const [, unit, op, axis, arg, input, loops, ring, boxes] = m as (string | undefined)[];
    if (unit !== undefined) opts.push({ op: "TC", unit: Number(unit) });
    else if (op !== undefined) opts.push({ op: op as OptOp, axis: Number(axis), arg: Number(arg ?? 0) });
    else {
      opts.push({
        op: "STAGE",
        input: Number(input),
        ...(loops === undefined ? {} : { loops: Number(loops) }),
        ...(ring === undefined ? {} : { ring: Number(ring) }),
        ...(boxes === undefined ? {} : { boxes: true }),
      });
    }
  }
  return opts;
}

/** The kernel under exactly these opts. */
export function withOpts(ast: UOp, opts: readonly Opt[]): UOp {
  return sink(ast.src, new KernelInfo(ast.arg instanceof KernelInfo ? ast.arg.name : "tuned", opts));
}

/** The arg of a kernel's SINK. `opts` undefined: those that suit the device; a list: exactly those. */
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
