/**
 * What it costs to compute a value again in each kernel that reads it, instead of keeping it in a buffer. In: a node, the
 * kernels that read it, and what the planner knows of the graph around it. Out: work an element.
 *
 * @module
 */
import { Ops, opWork } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";

/** Work an element beyond which a value is kept where each element would be computed at least eight times. */
export const KEEP_COST_REPEATED = 4;
/** Nodes below one whose work is counted one by one, at most: the search is quadratic in them. */
const MAX_BELOW = 512;

/** Work of one element of a node, its sources apart. A cast goes with what it is made of, at whatever cost that is kept. */
export function ownCost(u: UOp): number {
  return u.op === Ops.CAST ? 0 : opWork[u.op];
}

/** Weight of a node in the body of a kernel: about what it takes to compile it. */
export function bodyWeight(u: UOp): number {
  if (u.op === Ops.REDUCE) return 32;
  if (u.op === Ops.RESHAPE) return 8;
  return Math.max(1, ownCost(u));
}

/** What {@linkcode workAgain} asks of the planner. */
export interface Surroundings {
  /** By node: those that read it. */
  readonly readers: ReadonlyMap<UOp, readonly UOp[]>;
  /** Is it in memory? */
  readonly isStored: (u: UOp) => boolean;
  /** Does this kernel compute or read it, as far as is decided? */
  readonly isIn: (u: UOp, kernel: UOp) => boolean;
}

/** The readers of each node of a graph. */
export function readersIn(order: readonly UOp[]): Map<UOp, UOp[]> {
  const readers = new Map<UOp, UOp[]>();
  for (let k = 0; k < order.length; k++) {
    const r = order[k];
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
 * much below to tell; from `enough` on it is not counted further.
 */
export function workAgain(
  u: UOp,
  kernels: readonly UOp[],
  { readers, isStored, isIn }: Surroundings,
  enough: number,
): number | undefined {
  const list = [u], isBelow = (v: UOp): boolean => list[v.at] === v;
  u.at = 0;
  for (let k = 0; k < list.length; k++) {
    if (list.length > MAX_BELOW) return undefined;
    const { op, src } = list[k];
    if (k > 0 && (op === Ops.REDUCE || op === Ops.EXPAND)) continue;
    for (let i = 0; i < src.length; i++) {
      if (isBelow(src[i]) || isStored(src[i])) continue;
      src[i].at = list.length;
      list.push(src[i]);
    }
  }
  const isShared = (v: UOp): boolean => {
    let without = 0;
    for (let k = 0; k < kernels.length; k++) {
      const isRead = readers.get(v)!.some((r) => !isBelow(r) && isIn(r, kernels[k]));
      if (!isRead && ++without > 1) return false;
    }
    return true;
  };
  const needed = [u];
  let work = 0;
  for (let k = 0; k < needed.length && work < enough; k++) {
    const { op, src } = needed[k];
    if (op === Ops.REDUCE) return Infinity;
    if (op === Ops.EXPAND) work += KEEP_COST_REPEATED - 1;
    else {
      work += ownCost(needed[k]);
      for (let i = 0; i < src.length; i++) {
        const s = src[i];
        if (isBelow(s) && !needed.includes(s) && !isShared(s)) needed.push(s);
      }
    }
  }
  return work;
}
