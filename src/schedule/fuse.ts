/**
 * Decides which nodes of a tensor graph get a buffer of their own; all others are computed inside their consumers.
 * Ranges flow from consumers to sources: a node read at one set of indices, once an element, fuses; a reduce read at
 * several, or by an expanded consumer, is realized; elementwise work is recomputed while that is cheaper than memory.
 *
 * @module
 */
import { sameArray } from "../helpers/math.ts";
import { AxisKind, type ReduceArg } from "../uop/args.ts";
import { numelOf } from "../uop/movement.ts";
import { isAlu, isMovement, Ops } from "../uop/ops.ts";
import { shapeOf } from "../uop/shape.ts";
import { int, range, toposort, type UOp } from "../uop/uop.ts";
import { sourceIndex } from "./indexing.ts";

/** Work an element beyond which a value is kept rather than computed again for a second reader. */
const KEEP_COST = 30;
/** The same where each element would be computed at least eight times. */
const KEEP_COST_REPEATED = 4;
/** How much more a sum inside a sum may compute rather than go through memory. */
const SUM_OF_SUMS = 2;
/** A node read at more sets of indices than this is realized. */
const MAX_CONTEXTS = 8;

/** True for nodes that are storage already or always get some. */
export function mustRealize(u: UOp): boolean {
  return u.op === Ops.CONTIGUOUS || u.op === Ops.COPY || u.op === Ops.STORE;
}

/** True where reading a node reads memory or needs none: nothing is computed. */
export function isLeaf(u: UOp): boolean {
  switch (u.op) {
    case Ops.BUFFER:
    case Ops.CONST:
    case Ops.VARIABLE:
    case Ops.BIND:
    case Ops.IOTA:
    case Ops.AFTER:
      return true;
    default:
      return false;
  }
}

/** The node below RESHAPEs: what a buffer would hold. */
export function stripReshape(u: UOp): UOp {
  while (u.op === Ops.RESHAPE) u = u.src[0];
  return u;
}

function ownCost(u: UOp): number {
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

interface Context {
  readonly kernel: UOp;
  readonly idx: readonly UOp[];
  /** Times the body is entered: product of the ranges around it. */
  readonly active: number;
  /** Only movement ops stand between this and a sum that reads it. */
  readonly underSum: boolean;
}

/** Output ranges of a kernel over `shape`: ids 0, 1, ... by axis; axes of size 1 are the constant 0. */
export function outputRanges(shape: readonly number[]): UOp[] {
  return shape.map((n, i) => n === 1 ? int(0) : range(n, i, AxisKind.LOOP));
}

/**
 * The nodes to realize below `roots`, sources before users. `forced` are realized besides (hazards).
 * Roots are stores, copies, or values already stripped of RESHAPE.
 */
export function chooseRealized(roots: readonly UOp[], forced: ReadonlySet<UOp>): Set<UOp> {
  const order = toposort(roots);
  const realized = new Set<UOp>(forced);
  for (const r of roots) if (!isLeaf(r)) realized.add(r);
  const cost = new Map<UOp, number>(), reduces = new Set<UOp>(), loads = new Set<UOp>();
  for (const u of order) {
    if (mustRealize(u) || u.op === Ops.BITCAST && u.dtype.itemsize !== u.src[0].dtype.itemsize) {
      if (mustRealize(u)) realized.add(u);
      if (u.op === Ops.COPY || u.op === Ops.BITCAST) {
        const base = stripReshape(u.src[0]);
        if (!isLeaf(base) || base.op === Ops.CONST || base.op === Ops.IOTA) realized.add(base);
      }
    }
    let c = ownCost(u), r = u.op === Ops.REDUCE;
    for (const s of u.src) {
      if (realized.has(s) || loads.has(s)) loads.add(u);
      if (realized.has(s) || isLeaf(s)) continue;
      c += cost.get(s)!;
      r ||= reduces.has(s);
    }
    if (u.op === Ops.BUFFER || u.op === Ops.AFTER) loads.add(u);
    // what is repeated by an EXPAND is decided on below it
    cost.set(u, u.op === Ops.EXPAND ? Math.min(c, KEEP_COST_REPEATED - 1) : Math.min(c, 1e6));
    if (r && u.op !== Ops.EXPAND) reduces.add(u);
  }
  const contexts = new Map<UOp, Context[]>();
  const read = (u: UOp, kernel: UOp, idx: readonly UOp[], active: number, underSum: boolean): void => {
    if (isLeaf(u)) return;
    const list = contexts.get(u);
    if (list === undefined) contexts.set(u, [{ kernel, idx, active, underSum }]);
    else if (!list.some((c) => c.kernel === kernel && sameArray(c.idx, idx))) {
      list.push({ kernel, idx, active, underSum });
    }
  };
  let nextReduce = 1 << 16;
  for (let k = order.length - 1; k >= 0; k--) {
    const u = order[k];
    if (isLeaf(u)) continue;
    let list = contexts.get(u) ?? [];
    if (
      !realized.has(u) && list.length > 0 && !isMovement(u.op) &&
      keep(u, list, cost.get(u)!, reduces.has(u), loads.has(u))
    ) {
      realized.add(u);
    }
    if (realized.has(u)) {
      if (u.op === Ops.COPY) continue;
      if (u.op === Ops.STORE) {
        const shape = shapeOf(u.src[1]);
        read(u.src[1], u, outputRanges(shape), numelOf(u.src[1]), false);
        continue;
      }
      list = [{ kernel: u, idx: outputRanges(shapeOf(u)), active: numelOf(u), underSum: false }];
    }
    for (const c of list) enter(u, c, read, () => nextReduce++);
  }
  return realized;
}

/** Whether a computed node read in these contexts is better kept in memory. */
function keep(u: UOp, list: readonly Context[], cost: number, hasReduce: boolean, hasLoads: boolean): boolean {
  if (list.length > MAX_CONTEXTS) return true;
  const total = list.reduce((t, c) => t + c.active, 0);
  const repeats = total / Math.max(1, numelOf(u));
  if (hasReduce) {
    // a sum of sums is one sum, even if masked shifts make it compute a little more (the gradient of windows)
    if (list.length === 1 && list[0].underSum && repeats < SUM_OF_SUMS && u.op === Ops.REDUCE) {
      return (u.arg as ReduceArg).op !== Ops.ADD;
    }
    return list.length > 1 || repeats > 1;
  }
  if (repeats <= 1) return false;
  return cost >= KEEP_COST || (hasLoads && repeats >= 8 && cost >= KEEP_COST_REPEATED);
}

/** Passes the context of a node computed in place on to its sources. */
function enter(
  u: UOp,
  c: Context,
  read: (u: UOp, kernel: UOp, idx: readonly UOp[], active: number, underSum: boolean) => void,
  nextId: () => number,
): void {
  if (isMovement(u.op)) return read(u.src[0], c.kernel, sourceIndex(u, c.idx).idx, c.active, c.underSum);
  if (u.op === Ops.REDUCE) {
    const { axes } = u.arg as ReduceArg;
    const from = shapeOf(u.src[0]);
    let active = c.active;
    const idx = c.idx.map((x, i) => {
      if (!axes.includes(i)) return x;
      active *= from[i];
      return from[i] === 1 ? int(0) : range(from[i], nextId(), AxisKind.REDUCE);
    });
    return read(u.src[0], c.kernel, idx, active, (u.arg as ReduceArg).op === Ops.ADD);
  }
  if (u.op === Ops.BITCAST && u.dtype.itemsize !== u.src[0].dtype.itemsize) return;
  for (const s of u.src) read(s, c.kernel, c.idx, c.active, false);
}
