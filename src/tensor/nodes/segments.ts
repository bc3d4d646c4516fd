/**
 * Reductions by key: all values whose key is t combine into place t. Small problems compare every key with every place; so do
 * others in words on devices whose kernels are loops, which then go through the keys once (uop/graph/keyed_reduce.ts). On
 * grids large ones sort the keys, O(n log^2 n), those outside as if all alike, and combine runs of equal ones, in loops that may be
 * as long as a run (codegen/lower/loop_ends.ts). Orders are fixed: reruns are bit-equal. Sums by
 * key and reads of rows by index are each other's gradients.
 *
 * @module
 */
import { defaultDevice, getDevice } from "../../device/device.ts";
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { sumDType } from "../../dtype/promotion.ts";
import { ceilDiv, prod } from "../../helpers/math.ts";
import { scheduleTarget } from "../../schedule/schedule_target.ts";
import { broadcastTo, expand, permute, reshape, shrink } from "../../uop/core/build_movement.ts";
import { identityOf } from "../../uop/core/carrier.ts";
import { argOf } from "../../uop/core/args.ts";
import { isAlu, Ops } from "../../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../../uop/core/shape.ts";
import { constant, INT32_MAX, positionDType, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf } from "../../uop/graph/extent.ts";
import { GradientArg } from "../../uop/graph/given_gradient.ts";
import { isRange, nodeView } from "../../uop/graph/view.ts";
import { iotaAlong, padConstant } from "./movement_nodes.ts";
import { reduceNode } from "./reduce_nodes.ts";
import { floatConst } from "./numeric.ts";
import { castNode, scalarConst } from "./scalars.ts";
import { gatherNode, selectNode } from "./select.ts";
import { sortedPositions } from "./sorted_positions.ts";

/** Comparisons up to which every key is compared with every place. */
const DIRECT = 1 << 20;
/** The same where devices could go through the keys: below it they are not asked (LEAST_TERMS of keyed_kernels.ts). */
const FEW = 1 << 14;
/** Ends of equal bins, and one over what they are wide, up to which places among them are numbers that float32 has. */
const LARGEST = 1e30;
/** Rows of a run that one kernel combines. */
const BLOCK = 16;
/** Elements that a kernel could have computed in the time that it takes to launch one. */
const KERNEL = 20_000;
/** Ops of an index that are looked at. */
const MOST_LOOKED_AT = 64;
/** Larger than every key of a dtype. */
function noKey(d: DType): number {
  return d === dtypes.int64 ? Number.MAX_SAFE_INTEGER : INT32_MAX;
}

/** How values of one key combine; "last" keeps the one that stands last. */
export type Fold = typeof Ops.ADD | typeof Ops.MUL | typeof Ops.MAX | "last";

/** Does the device of `keys` go through them once, whatever places there are: one whose kernels are loops? */
function goesByKey(keys: UOp): boolean {
  if (extentsOf(keys) !== null) return false;
  return !(scheduleTarget.now?.caps ?? getDevice(deviceOf(keys) ?? defaultDevice()).renderer.caps).hasGrid;
}

function own(u: UOp): UOp {
  return uop(Ops.CONTIGUOUS, u.dtype, [u]);
}

/** Rows that lie one after the other in memory: `u` itself where it is such a part of it. */
function stored(u: UOp): UOp {
  const { base, view, moving } = nodeView(u, (x) => x.becomes ?? x);
  const isThere = base.op === Ops.BUFFER && view !== undefined && isRange(view) && moving.length === 0;
  return isThere ? u : own(u);
}

/** a < b where NaN is larger than all else. */
function before(a: UOp, b: UOp): UOp {
  return a.dtype.isFloat ? a.lt(b).or(b.ne(b).and(a.eq(a))) : a.lt(b);
}

/** Elements of a table, at most, of which each is compared with each value: lanes do that sooner than they search by halves. */
const COUNTED = 24;

/**
 * For each value how many of the sorted last axis stand before it (or, with `right`, not behind it): int32, by comparing
 * with each where there are few, else by binary search. `sorted` is `[...lead, n]`, `values` `[...lead, m]`.
 */
export function searchNode(sorted: UOp, values: UOp, right: boolean): UOp {
  const lead = shapeOf(sorted), axis = lead.length - 1, n = lead[axis], m = shapeOf(values)[axis];
  const zero = constant(0, positionDType(n + 1)), one = constant(1, dtypes.bool);
  /** Do elements stand before the values that they are beside? */
  const pass = (probe: UOp, at: UOp): UOp => right ? before(at, probe).xor(one) : before(probe, at);
  if (n > 1 && n <= COUNTED && m > n) {
    const all = [...lead.slice(0, -1), m, n];
    const probe = broadcastTo(reshape(sorted, [...lead.slice(0, -1), 1, n]), all);
    const at = broadcastTo(reshape(values, [...lead.slice(0, -1), m, 1]), all);
    return reshape(reduceNode(castNode(pass(probe, at), zero.dtype), Ops.ADD, [axis + 1]), shapeOf(values));
  }
  let found = broadcastTo(zero, shapeOf(values));
  // numbers are added, not selected: a branch would be mispredicted half of the time
  for (let left = n; left > 0;) {
    const half = Math.max(left >> 1, 1), probe = gatherNode(sorted, axis, found.add(half - 1));
    found = found.add(castNode(pass(probe, values), zero.dtype).mul(half));
    left = left > 1 ? left - half : 0;
  }
  return found;
}

/**
 * For each value, from `low` to `high`, in which of the bins between `edges` it is: the last one that does not begin behind
 * it. `edges` is `[bins + 1]` and stands nearly where equal bins between both ends have them, so that a product tells the
 * bin, or one beside it. undefined where that is not certain, and of so few that each is compared sooner.
 */
export function equalBins(edges: UOp, values: UOp, low: number, high: number): UOp | undefined {
  const d = edges.dtype, bins = shapeOf(edges)[0] - 1, step = (high - low) / bins;
  const most = Math.max(Math.abs(low), Math.abs(high)), unit = d === dtypes.float64 ? 2 ** -52 : 2 ** -23;
  // the product is off by a few units of its own, edges by a few of the larger end
  const isNear = most < LARGEST && step > 1 / LARGEST && 4 * unit * (bins + most / step) < 0.5;
  if (!isNear || bins < COUNTED) return undefined;
  const begin = floatConst(low, d), isInside = before(values, begin).or(before(floatConst(high, d), values)).ne(1);
  const place = isInside.where(values.sub(begin).mul(floatConst(1 / step, d)), floatConst(0, d));
  const last = constant(bins - 1, dtypes.int32), near = place.cast(dtypes.int32), bin = near.lt(last).where(near, last);
  const edge = (i: UOp): UOp => gatherNode(edges, 0, i), one = (u: UOp): UOp => castNode(u, dtypes.int32);
  return bin.add(one(before(values, edge(bin.add(1))).ne(1))).sub(one(before(values, edge(bin))));
}

/** 0, 1, ..., size-1 along the last axis, under `[...lead, size]`. */
function places(lead: readonly number[], size: number): UOp {
  return broadcastTo(iotaAlong(size, lead.length, lead.length + 1), [...lead, size]);
}

/** How many of `keys` (int32, `[...lead, n]`) are t, for each t < size: int32, `[...lead, size]`. */
export function countKeys(keys: UOp, size: number): UOp {
  const shape = shapeOf(keys), n = shape[shape.length - 1], lead = shape.slice(0, -1);
  if (n === 0 || prod(shape) * size <= DIRECT || goesByKey(keys)) {
    const ones = broadcastTo(constant(1, dtypes.int32), shape);
    return foldKeys(keys, ones, size, Ops.ADD).values;
  }
  const sorted = own(gatherNode(own(keys), lead.length, sortedPositions(keys, { size }))), at = places(lead, size);
  return searchNode(sorted, at, true).add(searchNode(sorted, at, false).mul(-1));
}

/**
 * `values` combined by equal `keys` (int32), both `[...lead, n]`: `values` `[...lead, size]` (the identity where there is
 * none, 0 for "last") and `any`, whether there was one. Keys outside [0, size) count nowhere.
 */
export function foldKeys(keys: UOp, values: UOp, size: number, fold: Fold): { values: UOp; any: UOp } {
  const shape = shapeOf(keys), rank = shape.length, n = shape[rank - 1], lead = shape.slice(0, -1);
  const d = values.dtype;
  const identity = scalarConst(fold === "last" ? 0 : identityOf(fold, d), d);
  const at = places(lead, size);
  if (n === 0) return { values: broadcastTo(identity, [...lead, size]), any: at.lt(0) };
  const work = prod(shape) * size;
  if (work <= FEW || (work <= DIRECT && !goesByKey(keys))) {
    const full = [...lead, size, n], flat = [...lead, size];
    const wide = (u: UOp) => expand(reshape(u, [...lead, 1, n]), full);
    const hit = wide(castNode(keys, at.dtype)).eq(expand(reshape(at, [...lead, size, 1]), full));
    const place = expand(iotaAlong(n, rank, rank + 1), full).add(1);
    const last = reduceNode(hit.where(place, constant(0, place.dtype)), Ops.MAX, [rank]);
    const any = constant(0, last.dtype).lt(reshape(last, flat));
    if (fold !== "last") {
      return { values: reshape(reduceNode(hit.where(wide(values), identity), fold, [rank]), flat), any };
    }
    return { values: reshape(selectNode(expand(last, full).eq(place), wide(values), [rank]), flat), any };
  }
  // axes along which all keys are the same are rows of values that one key moves
  const same = sameAlong(keys), many = lead.map((_, i) => i).filter((i) => same[i]);
  const few = lead.map((_, i) => i).filter((i) => !same[i]), of = (axes: readonly number[]) => axes.map((i) => lead[i]);
  const l = prod(of(few)), r = prod(of(many)), order = [...few, rank - 1, ...many];
  const each = shrink(keys, shape.map((k, i): [number, number] => [0, many.includes(i) ? 1 : k]));
  const rows = reshape(permute(values, order), [l, n, r]), foldRows = goesByKey(keys) ? foldByKey : foldSorted;
  const folded = foldRows(reshape(each, [l, n]), rows, size, fold);
  const all = reshape(folded.values, [...of(few), size, ...of(many)]);
  const any = reshape(folded.any, [...lead.map((k, i) => same[i] ? 1 : k), size]);
  return { values: permute(all, order.map((_, i) => order.indexOf(i))), any: broadcastTo(any, [...lead, size]) };
}

/** For each axis of `u` whether it is certain that all elements along it are the same. */
function sameAlong(u: UOp, left = { nodes: MOST_LOOKED_AT }): boolean[] {
  const shape = shapeOf(u), none = shape.map((n) => n === 1);
  if (left.nodes-- <= 0) return none;
  const below = (s: UOp): boolean[] => sameAlong(s, left);
  switch (u.op) {
    case Ops.EXPAND: {
      const from = shapeOf(u.src[0]), same = below(u.src[0]);
      return shape.map((_, i) => from[i] === 1 || same[i]);
    }
    case Ops.PERMUTE: {
      const same = below(u.src[0]);
      return argOf(u, Ops.PERMUTE).axes.map((i) => same[i]);
    }
    case Ops.PAD: {
      const same = below(u.src[0]);
      return argOf(u, Ops.PAD).pairs.map(([before, after], i) => none[i] || (same[i] && before === 0 && after === 0));
    }
    case Ops.SHRINK: {
      const same = below(u.src[0]);
      return none.map((one, i) => one || same[i]);
    }
  }
  if (!isAlu(u.op)) return none;
  const all = u.src.filter((s) => shapeOf(s).length > 0).map(below); // numbers have no axes
  return none.map((one, i) => one || all.every((same) => same[i]));
}

/** Rows of `x` `[l, n, r]` at `index` `[l, m]`: `[l, m, r]`. */
function rowsAt(x: UOp, index: UOp): UOp {
  const [l, n, r] = shapeOf(x), [, m] = shapeOf(index), full = [l, m, n, r];
  const place = broadcastTo(iotaAlong(n, 2, 4), full),
    at = expand(castNode(reshape(index, [l, m, 1, 1]), place.dtype), full);
  return reshape(selectNode(place.eq(at), expand(reshape(x, [l, 1, n, r]), full), [2]), [l, m, r]);
}

/**
 * As {@linkcode foldKeys} of rows: `given` keys `[l, n]`, `values` `[l, n, r]` give values `[l, size, r]` and any `[l, size]`.
 * Each key is compared with each place, which devices that go by key do not do.
 */
function foldByKey(given: UOp, values: UOp, size: number, fold: Fold): { values: UOp; any: UOp } {
  const [l, n, r] = shapeOf(values), d = values.dtype, full = [l, size, n, r], one = [l, size, n, 1];
  const at = broadcastTo(iotaAlong(size, 1, 4), one), place = broadcastTo(iotaAlong(n, 2, 4).add(1), one);
  const hit = broadcastTo(reshape(castNode(given, at.dtype), [l, 1, n, 1]), one).eq(at), wide = expand(hit, full);
  const last = own(reshape(reduceNode(hit.where(place, constant(0, place.dtype)), Ops.MAX, [2]), [l, size]));
  const any = constant(0, last.dtype).lt(last);
  if (fold === "last") {
    const from = last.add(-1), found = expand(reshape(any, [l, size, 1]), [l, size, r]);
    return { values: found.where(rowsAt(values, from), scalarConst(0, d)), any };
  }
  const all = broadcastTo(reshape(values, [l, 1, n, r]), full);
  const identity = scalarConst(identityOf(fold, d), d);
  return { values: reshape(reduceNode(wide.where(all, identity), fold, [2]), [l, size, r]), any };
}

/** Where each of `[l, size]` runs of sorted keys lies among `[l, n]` positions. */
interface Runs {
  readonly begin: UOp;
  readonly end: UOp;
}

/** The same by sorting the keys. */
function foldSorted(given: UOp, values: UOp, size: number, fold: Fold): { values: UOp; any: UOp } {
  const [l, , r] = shapeOf(values), d = values.dtype, rows = stored(values);
  // kept before they are read in many ways: where they are the same for all of a row, not what they were expanded to
  const keys = own(given), order = own(sortedPositions(keys, { size })), sorted = own(gatherNode(keys, 1, order));
  // where the keys -1, 0, ..., size - 1 end
  const ends = own(searchNode(sorted, places([l], size + 1).add(-1), true));
  const part = (from: number): UOp => shrink(ends, [[0, l], [from, from + size]]);
  const runs = { begin: part(0), end: part(1) }, any = runs.begin.lt(runs.end);
  if (fold !== "last") return { values: foldRuns(rows, order, sorted, ends, runs, fold), any };
  const last = gatherNode(order, 1, any.where(runs.end.add(-1), constant(0, ends.dtype)));
  return { values: expand(reshape(any, [l, size, 1]), [l, size, r]).where(rowsAt(rows, last), scalarConst(0, d)), any };
}

/** The fold of `count` rows, at most {@linkcode BLOCK}, in `order` from `first` on, both `[l, m]`: `[l, m, r]`. */
function foldRows(rows: UOp, order: UOp, first: UOp, count: UOp, fold: Exclude<Fold, "last">): UOp {
  const [l, m] = shapeOf(first), r = shapeOf(rows)[2];
  const all = [l, m, BLOCK], full = [l, m, BLOCK, r];
  const step = castNode(broadcastTo(iotaAlong(BLOCK, 2, 3), all), first.dtype);
  const wide = (u: UOp): UOp => expand(reshape(u, [l, m, 1]), all);
  const at = gatherNode(order, 1, reshape(wide(own(first)).add(step), [l, m * BLOCK]));
  const counts = step.lt(wide(own(count))), inside = expand(reshape(counts, [l, m, BLOCK, 1]), full);
  const from = reshape(counts, [l, m * BLOCK]).where(at, constant(-1, at.dtype)); // no row: nothing is read
  const each = inside.where(reshape(rowsAt(rows, from), full), scalarConst(identityOf(fold, rows.dtype), rows.dtype));
  return reshape(reduceNode(each, fold, [2]), [l, m, r]);
}

/**
 * The fold of each run of rows that stand in `order` by `sorted` keys. What of a run lies in its last block of rows is read
 * there; what lies in the blocks before is folded for each block that ends within a run, and combined along those blocks.
 */
function foldRuns(
  rows: UOp,
  order: UOp,
  sorted: UOp,
  ends: UOp,
  { begin, end }: Runs,
  fold: Exclude<Fold, "last">,
): UOp {
  const [l, n, r] = shapeOf(rows), size = shapeOf(begin)[1], blocks = ceilDiv(n, BLOCK);
  const before = end.add(-1).floorDiv(BLOCK), start = before.mul(BLOCK).max(begin);
  const inside = foldRows(rows, order, start, end.add(start.mul(-1)), fold);
  if (blocks === 1) return inside;
  const m = blocks - 1, zero = constant(0, ends.dtype);
  const last = reshape(
    shrink(reshape(shrink(sorted, [[0, l], [0, m * BLOCK]]), [l, m, BLOCK]), [[0, l], [0, m], [BLOCK - 1, BLOCK]]),
    [l, m],
  );
  const block = castNode(broadcastTo(iotaAlong(m, 1, 2), [l, m]), ends.dtype).mul(BLOCK);
  const from = gatherNode(ends, 1, last).max(block), to = block.add(BLOCK);
  const goesOn = to.lt(gatherNode(ends, 1, last.add(1)));
  const tails = own(foldRows(rows, order, from, goesOn.where(to.add(from.mul(-1)), zero), fold));
  const carried = scanRuns(own(last), tails, fold);
  const longer = begin.lt(before.mul(BLOCK)), isLonger = expand(reshape(longer, [l, size, 1]), [l, size, r]);
  const identity = scalarConst(identityOf(fold, rows.dtype), rows.dtype);
  const previous = longer.where(before.add(-1), constant(-1, before.dtype));
  return isLonger.where(rowsAt(carried, previous), identity).alu(fold, inside);
}

/**
 * For each row of `values` `[l, n, r]` the fold of those up to it that have its key, where `keys` `[l, n]` are sorted: in
 * blocks, then of the last rows of all blocks in the same way, each of which goes on in the next block that begins with
 * its key. O(n) work, a few kernels.
 */
function scanRuns(keys: UOp, values: UOp, fold: Exclude<Fold, "last">): UOp {
  const [l, n, r] = shapeOf(values), blocks = ceilDiv(n, BLOCK), missing = blocks * BLOCK - n;
  const identity = scalarConst(identityOf(fold, values.dtype), values.dtype);
  const key = reshape(padConstant(keys, [[0, 0], [0, missing]], noKey(keys.dtype)), [l, blocks, BLOCK]);
  const value = reshape(padConstant(values, [[0, 0], [0, missing], [0, 0]], 0), [l, blocks, BLOCK, r]);
  const square = [l, blocks, BLOCK, BLOCK, r];
  const along = (axis: number) => broadcastTo(iotaAlong(BLOCK, axis, 5), square);
  const mine = expand(reshape(key, [l, blocks, BLOCK, 1, 1]), square);
  const other = expand(reshape(key, [l, blocks, 1, BLOCK, 1]), square);
  const counts = mine.eq(other).and(along(3).lt(along(2).add(1)));
  const each = expand(reshape(value, [l, blocks, 1, BLOCK, r]), square);
  const inside = own(reshape(reduceNode(counts.where(each, identity), fold, [3]), [l, blocks, BLOCK, r]));
  if (blocks === 1) return reshape(shrink(inside, [[0, l], [0, 1], [0, n], [0, r]]), [l, n, r]);
  const lastKeys = reshape(shrink(key, [[0, l], [0, blocks], [BLOCK - 1, BLOCK]]), [l, blocks]);
  const lastRows = shrink(inside, [[0, l], [0, blocks], [BLOCK - 1, BLOCK], [0, r]]);
  const carried = scanRuns(own(lastKeys), reshape(lastRows, [l, blocks, r]), fold);
  // what the block before hands on
  const before = (u: UOp, fill: number) => {
    const shape = shapeOf(u), kept = shrink(u, shape.map((s, i): [number, number] => [0, i === 1 ? s - 1 : s]));
    return padConstant(kept, shape.map((_, i): [number, number] => [i === 1 ? 1 : 0, 0]), fill);
  };
  const full = [l, blocks, BLOCK, r];
  const goesOn = expand(reshape(key, [l, blocks, BLOCK, 1]), full)
    .eq(expand(reshape(before(lastKeys, noKey(keys.dtype) - 1), [l, blocks, 1, 1]), full));
  const handed = expand(reshape(before(carried, 0), [l, blocks, 1, r]), full);
  const all = own(reshape(goesOn.where(handed, identity).alu(fold, inside), [l, blocks * BLOCK, r]));
  return shrink(all, [[0, l], [0, n], [0, r]]);
}

/**
 * Whether sorting the keys that `index` gives, `n` of them for rows of `r` values, takes less than comparing each key with
 * `size` places.
 */
export function sorts(index: UOp, n: number, size: number, r: number): boolean {
  const levels = Math.ceil(Math.log2(Math.max(n, 2)));
  const work = BLOCK * n * r + levels * levels * n + KERNEL * (levels * levels / 2 + 8);
  return n * size * r > work && !goesByKey(index);
}

/** The sums of rows by key, in the accumulator's dtype; its gradient reads rows back. */
function sumRows(keys: UOp, values: UOp, size: number): UOp {
  const wide = values.cast(sumDType(values.dtype));
  const { values: sums } = foldSorted(keys, wide, size, Ops.ADD);
  return uop(Ops.CHECKPOINT, values.dtype, [sums.cast(values.dtype), values, keys], READS);
}

const SUMS = new GradientArg((g, [x, index]) => [sumRows(index, g, shapeOf(x)[1]), undefined]);
const READS = new GradientArg((g, [, keys]) => [lookUp(g, keys), undefined]);

/**
 * Rows of `x` `[l, n, r]` at `index` `[l, m]` (int32; zeros where it is out of range): `[l, m, r]`, which `rows` may be
 * already. The gradient, sums of rows that came from one place, sorts the index: for where {@linkcode sorts}.
 */
export function lookUp(x: UOp, index: UOp, rows: UOp = rowsAt(x, index)): UOp {
  return uop(Ops.CHECKPOINT, x.dtype, [rows, x, index], SUMS);
}
