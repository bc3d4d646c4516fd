/**
 * What it costs to compute a value again in each kernel that reads it, instead of keeping it in a buffer. In: a node, the
 * kernels that read it, and what the planner knows of the graph around it. Out: work an element.
 *
 * @module
 */
import { isAlu, Ops } from "../uop/ops.ts";
import type { UOp } from "../uop/uop.ts";

/** Work an element beyond which a value is kept where each element would be computed at least eight times. */
export const KEEP_COST_REPEATED = 4;
/** Nodes below one whose work is counted one by one. */
const MAX_BELOW = 512;

/** Work of one element of a node, its sources apart: about instructions. */
export function ownCost(u: UOp): number {
  switch (u.op) {
    case Ops.EXP2:
    case Ops.LOG2:
    case Ops.SIN:
      return 12;
    case Ops.SQRT:
    case Ops.FDIV:
      return 4;
    case Ops.FLOORDIV:
    case Ops.FLOORMOD:
    case Ops.CDIV:
    case Ops.CMOD:
      return 6;
    case Ops.CAST:
    case Ops.BITCAST:
      return 0;
    default:
      return isAlu(u.op) ? 1 : 0;
  }
}

/** What {@linkcode workAgain} asks of the planner. */
export interface Surroundings {
  /** By node: those that read it. */
  readonly readers: ReadonlyMap<UOp, readonly UOp[]>;
  /** Is it in memory? */
  readonly isStored: (u: UOp) => boolean;
  /** The kernels that compute or read it, as far as is decided. */
  readonly kernelsOf: (u: UOp) => readonly UOp[];
}

/** The readers of each node of a graph. */
export function readersIn(order: readonly UOp[]): Map<UOp, UOp[]> {
  const readers = new Map<UOp, UOp[]>();
  for (const r of order) {
    for (let i = 0; i < r.src.length; i++) {
      const s = r.src[i], list = readers.get(s);
      if (list === undefined) readers.set(s, [r]);
      else list.push(r);
    }
  }
  return readers;
}

/**
 * Work that computing `u` again in all but one of `kernels` adds: that of the nodes below, each once, without those that
 * these kernels compute, or read, anyway for other readers. Of a chain whose every step a backward pass reads as well (a
 * polynomial), no step is worth a buffer of its own. Infinite where a reduce would run again, undefined where there is too
 * much below to tell.
 */
export function workAgain(u: UOp, kernels: ReadonlySet<UOp>, around: Surroundings): number | undefined {
  const { readers, isStored, kernelsOf } = around;
  const below = new Set<UOp>([u]);
  for (const v of below) {
    if (below.size > MAX_BELOW) return undefined;
    if (v !== u && (v.op === Ops.REDUCE || v.op === Ops.EXPAND)) continue;
    for (const s of v.src) if (!isStored(s)) below.add(s);
  }
  const isShared = (v: UOp): boolean => {
    const others = new Set<UOp>();
    for (const r of readers.get(v) ?? []) if (!below.has(r)) { for (const k of kernelsOf(r)) others.add(k); }
    let n = 0;
    for (const k of kernels) if (others.has(k)) n++;
    return n >= kernels.size - 1;
  };
  const needed = new Set<UOp>([u]);
  let work = 0;
  for (const v of needed) {
    if (v.op === Ops.REDUCE) return Infinity;
    if (v.op === Ops.EXPAND) work += KEEP_COST_REPEATED - 1;
    else {
      work += ownCost(v);
      for (const s of v.src) if (below.has(s) && !needed.has(s) && !isShared(s)) needed.add(s);
    }
  }
  return work;
}
