/**
 * Lowers sums that are scaled in each iteration of their loops to what a maximum is by then (RowMaximum, ScaledSum in
 * uop/core/carrier.ts), on tiles of a matrix unit. In: the elements that a thread lifts, as vectors, by unrolled copy. Out:
 * accumulators by row, or by tile.
 *
 * Lanes that share rows exchange their maxima in each iteration: all of them scale by the same. Sums of rows they add up at
 * the end. Sums of products are scaled before the unit adds to them.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { AccArg } from "../../uop/core/args.ts";
import type { CarrierArg, RowMaximum, ScaledSum } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, load, store, type UOp, uop } from "../../uop/core/uop.ts";
import { broadcast, buildAlu, extract, vectorize } from "../ast/alu_builder.ts";

/** What lowering takes. */
export interface ScaleJob {
  /** The loops that remain, outermost first. */
  readonly loops: readonly UOp[];
  /** By unrolled copy: the thread's elements. */
  readonly lifts: readonly UOp[];
  /** Where updates of accumulators go. */
  readonly updates: UOp[];
  /** A new accumulator number. */
  readonly nextId: () => number;
}

/** A value that an iteration changes: what it is before and, of what it is set to, after all iterations. */
interface State {
  readonly before: UOp;
  readonly set: (value: UOp) => UOp;
}

/** undefined where there is but one iteration. */
function stateOf({ loops, updates, nextId }: ScaleJob, identity: UOp): State | undefined {
  if (loops.length === 0) return undefined;
  const acc = uop(Ops.ACC, identity.dtype, [identity, ...loops], new AccArg(nextId()));
  const set = (value: UOp): UOp => {
    const written = store(acc, value);
    updates.push(written);
    return load(acc, written);
  };
  return { before: load(acc, loops[loops.length - 1]), set };
}

/** By row: the numbers of a thread's elements in it. */
function elementsByRow(rows: readonly number[]): number[][] {
  return [...new Set(rows)].map((row) => rows.flatMap((r, e) => r === row ? [e] : []));
}

/** `x` combined with that of the other lanes that have the same row. */
function acrossLanes(op: Ops, x: UOp, masks: readonly number[]): UOp {
  return masks.reduce((y, mask) => y.alu(op, uop(Ops.SHUFFLE, y.dtype, [y], mask)), x);
}

/** The results of a row maximum, by result, then by row. */
export function lowerMaximum({ slope, rows, masks, dtypes: [dtype] }: RowMaximum, job: ScaleJob): UOp[] {
  const results = elementsByRow(rows).map((own) => {
    const state = stateOf(job, constant(-Infinity, dtype));
    let top = job.lifts.flatMap((v) => own.map((e) => extract(v, e))).reduce((a, b) => a.alu(Ops.MAX, b));
    top = acrossLanes(Ops.MAX, top, masks);
    if (state !== undefined) top = state.before.alu(Ops.MAX, top);
    const offset = top.eq(constant(-Infinity, dtype)).where(constant(0, dtype), top).mul(-slope);
    // beside a weight of 1, that of the maximum, the least numbers are nothing
    const factor = state && uop(Ops.EXP2, dtype, [state.before.mul(slope).add(offset)], "flush");
    return [state?.set(top) ?? top, offset, factor ?? constant(0, dtype)];
  });
  return [0, 1, 2].flatMap((i) => results.map((r) => r[i]));
}

/**
 * The results of a scaled sum: one by row, or the tile.
 * @param tiles adds a product to a tile
 * @param factor by element
 * @param step told the tile after each copy
 */
export function lowerScaled(
  { rows, masks, dtypes: [dtype] }: ScaledSum,
  tiles: CarrierArg,
  factor: UOp,
  job: ScaleJob,
  step: (i: number, value: UOp) => void,
): UOp[] {
  if (rows !== undefined) {
    return elementsByRow(rows).map((own) => {
      const state = stateOf(job, constant(0, dtype));
      let sum = job.lifts.flatMap((v) => own.map((e) => extract(v, e))).reduce((a, b) => a.add(b));
      if (state !== undefined) sum = state.set(state.before.mul(extract(factor, own[0])).add(sum));
      return acrossLanes(Ops.ADD, sum, masks);
    });
  }
  const { count } = job.lifts[0].dtype, wide: DType = dtype.vec(count);
  const state = stateOf(job, constant(0, wide));
  let sum = state && buildAlu(Ops.MUL, dtype, [state.before, broadcast(factor, count)]);
  job.lifts.forEach((x, i) => {
    sum = sum === undefined ? x : tiles.combine([sum], [x])[0];
    step(i, sum);
  });
  return [state?.set(sum!) ?? sum!];
}

/** Result `i` of a reduction of rows for each of `n` elements of a thread, from its results by row. */
export function elementsOfRows(arg: CarrierArg, results: readonly UOp[], i: number, n: number): UOp {
  const { rows } = arg as RowMaximum, distinct = [...new Set(rows)];
  return vectorize(rows.slice(0, n).map((r) => results[i * distinct.length + distinct.indexOf(r)]));
}
