/**
 * The order of values as positions, by a bitonic network (Batcher, "Sorting networks and their applications", AFIPS
 * 1968): O(n log^2 n). What is sorted is a key that orders as the values do, joined with the position, so the sort is
 * stable; NaN counts as the largest. Axes of up to 32 are sorted by counting.
 *
 * The elements of an axis are lists side by side, as columns of a matrix: neighbors in memory are of different lists, and
 * exchange nothing while there are several. Lists are sorted, then merged two by two until one is left. A step exchanges
 * pairs along an axis of size 2; a kernel does a few steps, each along another one. Where only the first elements are asked
 * for, lists that hold so many grow no further: of two, the lesser half is kept.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { ceilDiv, rangeOf } from "../../helpers/math.ts";
import { broadcastTo, expand, flip, numelOf, pad, permute, reshape, shrink } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, INT32_MAX, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf, withExtents } from "../../uop/graph/extent.ts";
import { negNode } from "./compare_nodes.ts";
import { filled, iotaAlong, pairNodes } from "./movement_nodes.ts";
import { reduceNode } from "./reduce_nodes.ts";
import { castNode, scalarConst } from "./scalars.ts";
import { selectNode } from "./select.ts";

const COUNTED = 32;
const MAX64 = (1n << 63n) - 1n;

/** What comes last of keys. */
function largest(d: DType): bigint | number {
  return d === dtypes.int64 ? MAX64 : 2 ** 32 - 1;
}

/**
 * Elements of an axis from which its few first ones are those of parts, each of which stays in the memory of a group of
 * threads, or in a cache: 64 KB of keys. And how many times fewer than a part they are.
 */
const PART = 1 << 13, FEW = 16;
/**
 * Steps along different axes that one kernel, or a phase of it, does, on 16 elements at once; on 64 where there are so many
 * elements that reading them takes longer than compiling that, and of an axis that is too long to stay on chip.
 */
const MOST_STEPS = 4, MORE_STEPS = 6, MANY = 1 << 22, LONG = 2 * PART;
/** The same of the lists that are sorted first, with the keys that are made of their elements: 16, or 32. */
const FIRST_STEPS = 4, MORE_FIRST_STEPS = 5;

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

/** The two halves of an axis of size 2, the second one reversed along others. */
function halves(lanes: Lanes, axis: number, turned: readonly number[]): [Lanes, Lanes] {
  const shape = shapeOf(lanes[0]);
  const half = (u: UOp, i: number): UOp => shrink(u, shape.map((n, a) => a === axis ? [i, i + 1] : [0, n]));
  const axes = turned.filter((a) => shape[a] > 1), turn = (u: UOp): UOp => axes.length === 0 ? u : flip(u, axes);
  return [lanes.map((u) => half(u, 0)), lanes.map((u) => turn(half(u, 1)))];
}

/** The lesser ones of pairs along `axis`: of two lists that rise, with `turned` the axes of a list, the lesser half. */
function lesser(lanes: Lanes, axis: number, turned: readonly number[]): Lanes {
  const [a, b] = halves(lanes, axis, turned), swap = less(b, a);
  return a.map((u, l) => swap.where(b[l], u));
}

/** Pairs along `axis`, the lesser one first. */
function exchange(lanes: Lanes, axis: number, turned: readonly number[] = []): Lanes {
  const [a, b] = halves(lanes, axis, turned), swap = less(b, a);
  return a.map((u, l) => pairNodes(swap.where(b[l], u), swap.where(u, b[l]), axis));
}

/** Sorts along axes of size 2, of which lists consist that fall, or rise, then do the other. */
function settle(lanes: Lanes, axes: readonly number[]): Lanes {
  return axes.reduce((now, axis) => exchange(now, axis), lanes);
}

/**
 * Lists `[...lead, ..., count]` as `[...lead, length, count]` with memory of their own: the end of a kernel. The last two
 * stand one behind the other there, so that what merges them reads neighbors.
 */
function stored(lanes: Lanes, lead: readonly number[], length: number, count: number): Lanes {
  const first = lead.length, last = shapeOf(lanes[0]).length - 1;
  if (count !== 2) {
    return lanes.map((u) => reshape(uop(Ops.CONTIGUOUS, u.dtype, [u]), [...lead, length, count]));
  }
  const order = [...rangeOf(first), last, ...rangeOf(last - first).map((i) => first + i)];
  return lanes.map((u) => {
    const apart = reshape(uop(Ops.CONTIGUOUS, u.dtype, [permute(u, order)]), [...lead, count, length]);
    return permute(apart, [...rangeOf(first), first + 1, first]);
  });
}

/** With elements up to `size` along the last axis that come last in every order. */
function padded(lanes: Lanes, size: number): Lanes {
  const shape = shapeOf(lanes[0]), last = shape.length - 1, n = shape[last], to = shape.with(last, size);
  if (n === size) return lanes;
  const inside = broadcastTo(iotaAlong(size, last, to.length).lt(n), to);
  return lanes.map((u, l) => {
    const wide = pad(u, shape.map((_, i) => [0, i === last ? size - n : 0]));
    return inside.where(wide, scalarConst(l === 0 ? largest(u.dtype) : INT32_MAX, u.dtype));
  });
}

/** Are there so many elements that a kernel does more steps? */
function areMany(lanes: Lanes): boolean {
  return lanes.length === 1 && numelOf(lanes[0]) >= MANY;
}

/** Lists side by side, each in order along the axis before the last: `[...lead, length, count]`. */
interface Lists {
  readonly lanes: Lanes;
  readonly length: number;
  readonly count: number;
}

/** Lists of elements that are `count` apart along the last axis of `lanes`, sorted. */
function firstLists(lanes: Lanes, isLong: boolean): Lists {
  const shape = shapeOf(lanes[0]), lead = shape.slice(0, -1);
  const steps = isLong && areMany(lanes) ? MORE_FIRST_STEPS : FIRST_STEPS;
  const axes = rangeOf(steps).map((i) => lead.length + i), length = 2 ** steps;
  const count = ceilDiv(shape[lead.length], length);
  let now: Lanes = padded(lanes, length * count).map((u) => reshape(u, [...lead, ...axes.map(() => 2), count]));
  for (let i = steps - 1; i >= 0; i--) {
    const inner = axes.slice(i + 1);
    now = settle(exchange(now, axes[i], inner), inner);
  }
  return { lanes: stored(now, lead, length, count), length, count };
}

/** Steps by kernel. The last one is on neighbors in memory where there is one list: rather a few of them than many. */
function sharedSteps(steps: number, most: number): number[] {
  const kernels = Math.max(1, Math.ceil(steps / most)), last = Math.min(3, Math.floor(steps / kernels));
  const behind = kernels === 1 ? steps : Math.max(last, steps - most * (kernels - 1)), before = steps - behind;
  return [...rangeOf(kernels - 1).map((i) => Math.floor((before + kernels - 2 - i) / (kernels - 1))), behind];
}

/** Every two lists as one; with `keeps` the lesser half of them, or of every 2^`rounds`. */
function merged(lists: Lists, keeps: boolean, rounds: number): Lists {
  const lead = shapeOf(lists.lanes[0]).slice(0, -2), first = lead.length, ways = 2 ** rounds;
  const count = ceilDiv(lists.count, ways), length = keeps ? lists.length : 2 * lists.length;
  const isLong = lists.length * lists.count > LONG && areMany(lists.lanes);
  const [steps, ...others] = sharedSteps(Math.log2(length), isLong ? MORE_STEPS : MOST_STEPS);
  const now = keeps ? steps : steps - 1;
  let rest = lists.length / 2 ** now;
  // the lists that meet, then those axes of a list that the kernel exchanges along, then the others
  const meeting = rangeOf(rounds).map((i) => first + i), own = rangeOf(now).map((i) => first + rounds + i);
  const order = [...rangeOf(first), first + 1, first, first + 2];
  let lanes: Lanes = padded(lists.lanes, ways * count).map((u) => {
    const apart = permute(reshape(u, [...lead, lists.length, ways, count]), order);
    return reshape(apart, [...lead, ...meeting.map(() => 2), ...own.map(() => 2), rest, count]);
  });
  const whole = [...own, first + rounds + now];
  for (const axis of meeting) lanes = settle((keeps ? lesser : exchange)(lanes, axis, whole), own);
  lanes = stored(lanes, lead, length, count);
  for (const each of others) {
    const axes = rangeOf(each).map((i) => first + 1 + i), inner = rest / 2 ** each;
    const view = [...lead, length / rest, ...axes.map(() => 2), inner, count];
    lanes = stored(settle(lanes.map((u) => reshape(u, view)), axes), lead, length, count);
    rest = inner;
  }
  return { lanes, length, count };
}

/** The least and the greatest of integers of up to 16 bits, or of those in [0, `size`) with those outside as two more. */
function fewIntegers(d: DType, size: number | undefined): [number, number] | undefined {
  if (size !== undefined) return [-1, size];
  if (d.isBool) return [0, 1];
  if (d.isFloat || d.bits > 16) return undefined;
  return d.isUnsigned ? [0, 2 ** d.bits - 1] : [-(2 ** (d.bits - 1)), 2 ** (d.bits - 1) - 1];
}

/** Keys with positions packed into them, of which there are `places`: in 32 bits where there are few keys; undefined where 64 are too few. */
function packed(x: UOp, position: UOp, places: number, descending: boolean, size: number | undefined): UOp | undefined {
  const few = fewIntegers(x.dtype, size);
  if (few !== undefined && (few[1] - few[0] + 1) * places <= 2 ** 32) {
    const [low, high] = few, d = x.dtype, zero = scalarConst(0, d);
    const inside = size === undefined
      ? x
      : x.lt(zero).where(scalarConst(-1, d), x.lt(scalarConst(size, d)).where(x, scalarConst(size, d)));
    const key = castNode(inside, dtypes.int32);
    const from0 = descending ? negNode(key).add(high) : key.add(-low);
    return castNode(from0, dtypes.uint32).mul(places).add(castNode(position, dtypes.uint32));
  }
  if (x.dtype.bits > 32 || places > 2 ** 31) return undefined;
  return turned(orderKey(x), descending).mul(scalarConst(2 ** 32, dtypes.int64)).add(castNode(position, dtypes.int64));
}

/** Keys in the order that is asked for. */
function turned(key: UOp, descending: boolean): UOp {
  return descending ? key.xor(constant(-1, dtypes.int64)) : key;
}

/** What is asked of an order. */
export interface OrderOptions {
  readonly descending?: boolean;
  /** As many positions as are wanted, which come first. Default: all. */
  readonly most?: number;
  /** Of integers: those outside [0, size) are alike, but that those below come first. */
  readonly size?: number;
}

/** Positions (int32) that sort the last axis of `x`. */
export function sortedPositions(x: UOp, options: OrderOptions = {}): UOp {
  const { descending = false, most = Infinity, size } = options;
  const shape = shapeOf(x), last = shape.length - 1, n = shape[last], lead = shape.slice(0, -1), extents = extentsOf(x);
  const position = broadcastTo(iotaAlong(n, last, shape.length), shape), places = 2 ** Math.ceil(Math.log2(n));
  const both = packed(x, position, places, descending, size), isPacked = both !== undefined;
  const key = both ?? turned(orderKey(x), descending), first = filled(key, last, largest(key.dtype));
  const lanes: Lanes = isPacked ? [first] : [first, position];
  if (n <= COUNTED) return withExtents(byCounting(lanes, position), extents);
  const lists = n > PART && most * FEW <= PART ? mergeParts(lanes, most) : merge(firstLists(lanes, n > LONG), most);
  const kept = Math.min(n, lists.length), all = lead.map((s): [number, number] => [0, s]);
  const [least, at] = lists.lanes.map((u) => shrink(reshape(u, [...lead, lists.length]), [...all, [0, kept]]));
  const mask = least.dtype === dtypes.uint32 ? places - 1 : 2 ** 32 - 1;
  const sorted = isPacked ? castNode(least.and(scalarConst(mask, least.dtype)), dtypes.int32) : at;
  return withExtents(sorted, kept === n ? extents : extents?.with(last, undefined) ?? null);
}

/** One list, of which the first elements are right: as many as `most`. */
function merge(lists: Lists, most: number): Lists {
  const isPacked = lists.lanes.length === 1;
  while (lists.count > 1) {
    const keeps = lists.length >= most;
    // two rounds of short lists fit one kernel
    lists = merged(lists, keeps, keeps && isPacked && lists.length === 2 ** FIRST_STEPS && lists.count > 2 ? 2 : 1);
  }
  return lists;
}

/** One list of an axis whose first elements are asked for: of those of its parts, each of which is a list by then. */
function mergeParts(lanes: Lanes, most: number): Lists {
  const shape = shapeOf(lanes[0]), last = shape.length - 1, lead = shape.slice(0, last), first = rangeOf(last);
  const count = ceilDiv(shape[last], PART), size = ceilDiv(shape[last], count);
  const parts = padded(lanes, count * size).map((u) => reshape(u, [...lead, count, size]));
  const { lanes: own, length } = merge(firstLists(parts, true), most);
  const aside = own.map((u) => permute(reshape(u, [...lead, count, length]), [...first, last + 1, last]));
  return merge({ lanes: aside, length, count }, most);
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
