/**
 * Optimizations of one kernel, as data: which axis, how. `choose` and the search choose them; `kernel.ts` applies them.
 *
 * @module
 */
import { hashString, mix } from "../../helpers/hash.ts";
import type { ArgRecord } from "../../uop/core/args.ts";
import { sink, type UOp } from "../../uop/core/uop.ts";

/**
 * Splits iterations off an axis: the innermost `size` of what is left of it. `axis` counts output axes, then reduce axes,
 * then those of STAGEs, here and in all opts that have one.
 */
export interface SplitOpt {
  readonly op:
    | "UPCAST" // of an output axis, or one of a STAGE: independent copies
    | "VECTOR" // on loops, of any axis: lanes of vector values, a power of two
    | "LOCAL" // on a grid, of an output axis: threads of a group
    | "PADTO"; // of any axis: rounded up to a multiple first, the rest masked; what ends at a variable is cut in blocks
  readonly axis: number;
  readonly size: number;
}

/** Splits iterations off an axis that is reduced: `reduce` counts these alone. */
export interface ReduceOpt {
  readonly op:
    | "UNROLL" // copies inside of the loop
    | "GROUP" // on a grid: neighboring threads of a group, a power of two
    | "GROUPTOP"; // the same, each thread with a contiguous part
  readonly reduce: number;
  readonly size: number;
}

/** On loops: an output axis is split over CPU threads, in so many chunks; 0 for one an iteration. */
export interface ThreadOpt {
  readonly op: "THREAD";
  readonly axis: number;
  readonly chunks: number;
}

/** About two axes of a kind: `other` counts as `axis` does. */
export interface PairOpt {
  readonly op:
    | "MERGE" // on a grid: they become one, `other` being the inner one, in the place of that
    | "SWAP"; // output axes: they change places in the order of loops
  readonly axis: number;
  readonly other: number;
}

/** An opt about axes. */
export type AxisOpt = SplitOpt | ReduceOpt | ThreadOpt | PairOpt;

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

const SPLIT = ["axis", "size"], REDUCE = ["reduce", "size"], PAIR = ["axis", "other"];
/** The numbers of opts about axes, in the order in which their text has them. */
const NUMBERS: Readonly<Record<AxisOpt["op"], readonly string[]>> = {
  UPCAST: SPLIT,
  VECTOR: SPLIT,
  LOCAL: SPLIT,
  PADTO: SPLIT,
  UNROLL: REDUCE,
  GROUP: REDUCE,
  GROUPTOP: REDUCE,
  THREAD: ["axis", "chunks"],
  MERGE: PAIR,
  SWAP: PAIR,
};

/** An opt about axes from its numbers, as its text has them. */
export function axisOpt(op: AxisOpt["op"], ...numbers: readonly number[]): AxisOpt {
  return Object.fromEntries([["op", op], ...NUMBERS[op].map((name, i) => [name, numbers[i] ?? 0])]);
}

/** "UPCAST:0:4", "TC:2", "STAGE:1:loops=2", "STAGE:1:ring=3", "STAGE:1:ring=3:boxes" */
export function optText(o: Opt): string {
  if (o.op === "TC") return `TC:${o.unit}`;
  if (o.op !== "STAGE") return [o.op, ...NUMBERS[o.op].map((name) => o[name as keyof AxisOpt])].join(":");
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

/** The opts that {@linkcode optsText} has written, a last number of 0 perhaps left out; undefined for other text. */
export function parseOpts(text: string): Opt[] | undefined {
  const opts: Opt[] = [];
  for (const part of text.split(" ").filter((t) => t !== "")) {
    const m = OPT.exec(part);
    if (m === null) return undefined;
    const [, unit, op, axis, arg, input, loops, ring, boxes] = m as (string | undefined)[];
    if (unit !== undefined) opts.push({ op: "TC", unit: Number(unit) });
    else if (op !== undefined && !(op in NUMBERS)) return undefined;
    else if (op !== undefined) opts.push(axisOpt(op as AxisOpt["op"], Number(axis), Number(arg ?? 0)));
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
