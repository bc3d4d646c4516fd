/**
 * The order of values as positions, by a bitonic network (Batcher, "Sorting networks and their applications", AFIPS
 * 1968): O(n log^2 n), each stage one kernel. What is sorted is a key that orders as the values do, joined with the
 * position, so the sort is stable; NaN counts as the largest. Axes of up to 32 are sorted by counting.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { broadcastTo, expand, flip, reshape, shrink } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, INT32_MAX, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf, withExtents } from "../../uop/graph/extent.ts";
import { catNodes, filled, iotaAlong, padConstant } from "./movement_nodes.ts";
import { reduceNode } from "./reduce_nodes.ts";
import { castNode, scalarConst } from "./scalars.ts";
import { selectNode } from "./select.ts";

const COUNTED = 32;
const MAX64 = (1n << 63n) - 1n;

/** Integers (int64) in the order of the values, ascending; zeros of both signs are equal, NaN is largest. */
function orderKey(x: UOp): UOp {
  const d = x.dtype;
  if (d.isFloat) {
    const bits = d.bits === 64 ? dtypes.int64 : dtypes.int32;
    const f = castNode(x, d.bits === 64 ? d : dtypes.float32), zero = constant(0, f.dtype);
    const b = f.eq(zero).where(zero, f).bitcast(bits);
    const low = scalarConst(bits === dtypes.int64 ? MAX64 : 2 ** 31 - 1, bits);
    const ordered = b.xor(b.shr(scalarConst(bits.bits - 1, bits)).and(low));
    return castNode(f.ne(f).where(low, ordered), dtypes.int64);
  }
  if (d === dtypes.uint64) return x.xor(scalarConst(1n << 63n, d)).bitcast(dtypes.int64);
  const key = castNode(castNode(x, d.isBool ? dtypes.int32 : d), dtypes.int64);
  // within 32 bits of either sign, so that a position can be packed beside it
  return d === dtypes.uint32 ? key.add(scalarConst(-(2 ** 31), dtypes.int64)) : key;
}

/** What is compared, most significant first: the key with the position packed into it, or both apart. */
type Lanes = readonly UOp[];

function less(a: Lanes, b: Lanes): UOp {
  if (a.length === 1) return a[0].lt(b[0]);
  return a[0].lt(b[0]).or(a[0].eq(b[0]).and(a[1].lt(b[1])));
}

/** Positions (int32) that sort the last axis of `x`. */
export function sortedPositions(x: UOp, descending = false): UOp {
  const shape = shapeOf(x), last = shape.length - 1, n = shape[last];
  let key = orderKey(x);
  if (descending) key = key.xor(constant(-1, dtypes.int64));
  const position = broadcastTo(iotaAlong(n, shape.length - 1, shape.length), shape);
  const pack = x.dtype.bits <= 32 && n <= INT32_MAX;
  const packed = pack ? key.mul(scalarConst(2 ** 32, dtypes.int64)).add(castNode(position, dtypes.int64)) : key;
  const first = filled(packed, last, MAX64), lanes: Lanes = pack ? [first] : [first, position];
  if (n <= COUNTED) return withExtents(byCounting(lanes, position), extentsOf(x));
  const sorted = bitonic(lanes.map((u) => uop(Ops.CONTIGUOUS, u.dtype, [u])));
  const places = pack ? castNode(sorted[0].and(scalarConst(2 ** 32 - 1, dtypes.int64)), dtypes.int32) : sorted[1];
  return withExtents(places, extentsOf(x));
}

/** Rank of each: how many are less. Then who has rank r. */
function byCounting(lanes: Lanes, position: UOp): UOp {
  const shape = shapeOf(position), n = shape[shape.length - 1], rank = shape.length;
  const square = [...shape, n];
  const mine = (u: UOp) => expand(reshape(u, [...shape, 1]), square);
  const others = (u: UOp) => expand(reshape(u, [...shape.slice(0, -1), 1, n]), square);
  const before = castNode(less(lanes.map(others), lanes.map(mine)), dtypes.int32);
  const ranks = uop(Ops.CONTIGUOUS, dtypes.int32, [reshape(reduceNode(before, Ops.ADD, [rank]), shape)]);
  const place = expand(iotaAlong(n, rank - 1, rank + 1), square);
  return reshape(selectNode(others(ranks).eq(place), others(position), [rank]), shape);
}

/** Sorts lanes along the last axis, ascending. */
function bitonic(lanes: Lanes): Lanes {
  const shape = shapeOf(lanes[0]), n = shape[shape.length - 1], lead = shape.slice(0, -1);
  const size = 2 ** Math.ceil(Math.log2(n));
  const none = lead.map((): [number, number] => [0, 0]), all = lead.map((s): [number, number] => [0, s]);
  let now = lanes.map((u, i) => {
    // Padding must sort last.
    const inside = broadcastTo(iotaAlong(size, lead.length, lead.length + 1), [...lead, size]).lt(n);
    const fill = scalarConst(i === 0 ? MAX64 : u.dtype === dtypes.int64 ? MAX64 : INT32_MAX, u.dtype);
    return size === n ? u : inside.where(padConstant(u, [...none, [0, size - n]], 0), fill);
  });
  // Compares the halves of blocks of 2 half; `mirror` pairs the first with the last, else with its counterpart.
  const exchange = (half: number, mirror: boolean) => {
    const blocks = [...lead, size / (2 * half), 2, half], axis = lead.length + 1;
    const part = (u: UOp, i: number) =>
      shrink(reshape(u, blocks), [...all, [0, size / (2 * half)], [i, i + 1], [0, half]]);
    const a = now.map((u) => part(u, 0));
    const b = now.map((u) => mirror ? flip(part(u, 1), [axis + 1]) : part(u, 1));
    const swap = less(b, a);
    now = now.map((u, i) => {
      const low = swap.where(b[i], a[i]), high = swap.where(a[i], b[i]);
      const joined = catNodes([low, mirror ? flip(high, [axis + 1]) : high], axis);
      return uop(Ops.CONTIGUOUS, u.dtype, [reshape(joined, [...lead, size])]);
    });
  };
  for (let block = 1; block < size; block *= 2) {
    exchange(block, true);
    for (let half = block / 2; half >= 1; half /= 2) exchange(half, false);
  }
  return now.map((u) => shrink(u, [...all, [0, n]]));
}
