/**
 * Reductions by key: all values whose key is t combine into place t. Small problems compare every key with every place;
 * large ones sort the keys and combine runs of equal ones by doubling, O(n log^2 n). Orders are fixed: reruns are
 * bit-equal.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { prod } from "../helpers/math.ts";
import { identityOf } from "../uop/carrier.ts";
import { broadcastTo, expand, reshape, shrink } from "../uop/movement.ts";
import { Ops } from "../uop/ops.ts";
import { shapeOf } from "../uop/shape.ts";
import { constant, type UOp, uop } from "../uop/uop.ts";
import { scalarConst } from "./base.ts";
import { iotaAlong, padConstant } from "./pieces.ts";
import { sortedPositions } from "./order.ts";
import { reduceNode } from "./reduce.ts";
import { gatherNode, selectNode } from "./select.ts";

/** Comparisons up to which every key is compared with every place. */
const DIRECT = 1 << 20;

/** How values of one key combine; "last" keeps the one that stands last. */
export type Fold = typeof Ops.ADD | typeof Ops.MUL | typeof Ops.MAX | "last";

function own(u: UOp): UOp {
  return uop(Ops.CONTIGUOUS, u.dtype, [u]);
}

/** a < b where NaN is larger than all else. */
function before(a: UOp, b: UOp): UOp {
  return a.dtype.isFloat ? a.lt(b).or(b.ne(b).and(a.eq(a))) : a.lt(b);
}

/**
 * For each value how many of the sorted last axis stand before it (or, with `right`, not behind it): int32, by binary
 * search. `sorted` is `[...lead, n]`, `values` `[...lead, m]`.
 */
export function searchNode(sorted: UOp, values: UOp, right: boolean): UOp {
  const axis = shapeOf(sorted).length - 1, n = shapeOf(sorted)[axis];
  const zero = constant(0, dtypes.int32), one = constant(1, dtypes.bool);
  let found = broadcastTo(zero, shapeOf(values));
  for (let step = 2 ** Math.floor(Math.log2(Math.max(n, 1))); n > 0 && step >= 1; step /= 2) {
    const next = found.add(step), inside = next.lt(n + 1);
    const probe = gatherNode(sorted, axis, inside.where(next.add(-1), zero));
    const pass = right ? before(values, probe).xor(one) : before(probe, values);
    found = inside.and(pass).where(next, found);
  }
  return found;
}

/** 0, 1, ..., size-1 along the last axis, under `[...lead, size]`. */
function places(lead: readonly number[], size: number): UOp {
  return broadcastTo(iotaAlong(size, lead.length, lead.length + 1), [...lead, size]);
}

/** How many of `keys` (int32, `[...lead, n]`) are t, for each t < size: int32, `[...lead, size]`. */
export function countKeys(keys: UOp, size: number): UOp {
  const shape = shapeOf(keys), n = shape[shape.length - 1], lead = shape.slice(0, -1);
  if (n === 0 || prod(shape) * size <= DIRECT) {
    const ones = broadcastTo(constant(1, dtypes.int32), shape);
    return foldKeys(keys, ones, size, Ops.ADD).values;
  }
  const sorted = own(gatherNode(own(keys), lead.length, sortedPositions(keys))), at = places(lead, size);
  return searchNode(sorted, at, true).add(searchNode(sorted, at, false).mul(-1));
}

/**
 * `values` combined by equal `keys` (int32), both `[...lead, n]`: `values` `[...lead, size]` (the identity where there is
 * none, 0 for "last") and `any`, whether there was one. Keys outside [0, size) count nowhere.
 */
export function foldKeys(keys: UOp, values: UOp, size: number, fold: Fold): { values: UOp; any: UOp } {
  const shape = shapeOf(keys), rank = shape.length, n = shape[rank - 1], lead = shape.slice(0, -1);
  const d = values.dtype, zero = constant(0, dtypes.int32);
  const identity = scalarConst(fold === "last" ? 0 : identityOf(fold, d), d);
  const at = places(lead, size);
  if (n === 0) return { values: broadcastTo(identity, [...lead, size]), any: at.lt(0) };
  if (prod(shape) * size <= DIRECT) {
    const full = [...lead, size, n], flat = [...lead, size];
    const wide = (u: UOp) => expand(reshape(u, [...lead, 1, n]), full);
    const hit = wide(keys).eq(expand(reshape(at, [...lead, size, 1]), full));
    const place = expand(iotaAlong(n, rank, rank + 1), full).add(1);
    const last = reduceNode(hit.where(place, zero), Ops.MAX, [rank]);
    const any = zero.lt(reshape(last, flat));
    if (fold !== "last") {
      return { values: reshape(reduceNode(hit.where(wide(values), identity), fold, [rank]), flat), any };
    }
    return { values: reshape(selectNode(expand(last, full).eq(place), wide(values), [rank]), flat), any };
  }
  const order = own(sortedPositions(keys));
  const sorted = own(gatherNode(own(keys), rank - 1, order));
  let run = own(gatherNode(own(values), rank - 1, order));
  const before = (u: UOp, by: number, fill: number) => {
    const kept = shrink(u, shape.map((s, i): [number, number] => [0, i === rank - 1 ? s - by : s]));
    return padConstant(kept, shape.map((_, i): [number, number] => [i === rank - 1 ? by : 0, 0]), fill);
  };
  for (let by = 1; by < n && fold !== "last"; by *= 2) { // then each is the fold of up to 2 by of its run
    const same = before(sorted, by, -1).eq(sorted).and(
      expand(iotaAlong(n, rank - 1, rank), shape).lt(by).xor(
        constant(1, dtypes.bool),
      ),
    );
    run = own(same.where(before(run, by, 0).alu(fold, run), run));
  }
  const end = own(searchNode(sorted, at, true));
  const last = zero.lt(end).where(end.add(-1), zero);
  const any = zero.lt(end).and(gatherNode(sorted, rank - 1, last).eq(at));
  return { values: any.where(gatherNode(run, rank - 1, last), identity), any };
}
