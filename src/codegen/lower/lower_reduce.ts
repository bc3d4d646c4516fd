/**
 * Lowers one kernel-level REDUCE to accumulators: initialized before its loops, combined with each lifted value inside,
 * read after. Vector accumulators of a VECTOR reduce axis are combined once, after the loops: those of several copies side
 * by side, so that a step takes as many instructions for all of them as for one.
 *
 * Order of combination: within one accumulator in index order; then accumulators in order; then lanes in order, as a
 * tree of neighbors. It depends on nothing but the kernel, so reruns are bit-equal. A carrier's combine must be
 * commutative up to rounding (ties broken by the operands, not by their side) to be vectorized or split this way.
 *
 * @module
 */
import { rangeOf } from "../../helpers/math.ts";
import { AccArg, AxesArg } from "../../uop/core/args.ts";
import { type CarrierArg, identityConst } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { load, store, type UOp, uop } from "../../uop/core/uop.ts";
import { broadcast, extract } from "../ast/alu_builder.ts";
import { joinedVectors } from "../ast/lane_layout.ts";

/** Accumulators that keep the floating-point units busy: units times latency. */
const BUSY_ACCUMULATORS = 8;

/** The key of sums of tiles: a matrix unit adds to what it is given. */
export const TILES = "tiles";

/** Accumulators of a REDUCE that gives so many results side by side, where there are copies for them. */
export function accumulatorsFor(results: number): number {
  return Math.max(1, Math.floor(BUSY_ACCUMULATORS / results));
}

/** What {@linkcode lowerReduce} takes. */
interface ReduceJob {
  readonly carrier: CarrierArg;
  /** The loops that remain, outermost first. */
  readonly loops: readonly UOp[];
  /** Lifted values: by unrolled index, then by carrier lane. */
  readonly lifts: readonly (readonly UOp[])[];
  /** Lanes of a VECTOR reduce axis; 1 where there is none. */
  readonly reduceLanes: number;
  /** Are the lanes combined by who asks, with those of other copies? */
  readonly keepsLanes: boolean;
  /** Independent accumulators to use, at most `lifts.length`. */
  readonly accumulators: number;
  /** Told the values after each lift, by unrolled index: with copies side by side, the order to compute them in. */
  readonly step: (index: number, values: readonly UOp[]) => void;
  /** Where updates of accumulators go that only other lanes read. */
  readonly updates: UOp[];
  /** What stands for a node that is made. */
  readonly finish: (u: UOp) => UOp;
  /** Told every update of an accumulator after a loop's iteration. */
  readonly set: (set: UOp) => void;
  /** A new accumulator number. */
  readonly nextId: () => number;
}

/** Combines the values as a tree of neighbors, in order, or at once where the carrier knows how. */
export function combineTree(carrier: CarrierArg, values: readonly (readonly UOp[])[]): readonly UOp[] {
  if (carrier.join !== undefined && values.length > 1) return carrier.join(values);
  let row = values;
  while (row.length > 1) {
    const next: (readonly UOp[])[] = [];
    for (let i = 0; i + 1 < row.length; i += 2) next.push(carrier.combine(row[i], row[i + 1]));
    if (row.length % 2 === 1) next.push(row[row.length - 1]);
    row = next;
  }
  return row[0];
}

/** What is at even places of two vectors, and what is at odd ones, combined: neighbors. */
function neighbors(carrier: CarrierArg, a: UOp, b: UOp, finish: (u: UOp) => UOp): UOp {
  const n = a.dtype.count, picked = rangeOf(n).map((l) => 2 * l % (a === b ? n : 2 * n));
  const [even, odd] = [0, 1].map((by) =>
    finish(uop(Ops.LANES, a.dtype, [a, b], new AxesArg(picked.map((l) => l + by))))
  );
  return carrier.combine([even], [odd])[0];
}

/** The lanes of each vector combined as a tree of neighbors, of as many vectors at a time as they have lanes. */
export function combineLanes(carrier: CarrierArg, vectors: readonly UOp[], finish: (u: UOp) => UOp): readonly UOp[] {
  const n = vectors[0].dtype.count, made: UOp[] = [];
  for (let from = 0; from < vectors.length;) {
    const m = joinedVectors(vectors.length - from, n);
    let row = vectors.slice(from, from + m);
    for (let lanes = n; lanes > 1; lanes /= 2) {
      row = row.length === 1
        ? [neighbors(carrier, row[0], row[0], finish)]
        : rangeOf(row.length / 2).map((i) => neighbors(carrier, row[2 * i], row[2 * i + 1], finish));
    }
    for (let l = 0; l < m; l++) made.push(finish(extract(row[0], l)));
    from += m;
  }
  return made;
}

/** The value of each carrier lane after the reduction; where lanes are kept, the vector of what is to be combined. */
export function lowerReduce(job: ReduceJob): readonly UOp[] {
  const { carrier, loops, reduceLanes, finish } = job;
  let n = reduceLanes;
  for (const l of job.lifts) for (const x of l) n = Math.max(n, x.dtype.count);
  const wide = n === 1 ? job.lifts : job.lifts.map((l) => l.map((x) => broadcast(x, n)));
  // what can be joined is one lifted value
  const lifts = carrier.join === undefined ? wide : [combineTree(carrier, wide)];
  let total: readonly UOp[] = [];
  if (loops.length === 0) {
    if (carrier.key === TILES) {
      total = lifts[0];
      lifts.forEach((x, i) => {
        if (i > 0) total = carrier.combine(total, x);
        job.step(i, total);
      });
    } else {
      total = lifts.length <= 2 * job.accumulators
        ? lifts.reduce((a, b) => carrier.combine(a, b))
        : combineTree(carrier, lifts);
    }
    // a sum begins with 0, however it is unrolled: of -0 alone it is 0
    if (carrier.key === "ADD" && carrier.dtypes[0].isFloat) total = [total[0].add(0)];
  } else {
    const innermost = loops[loops.length - 1];
    const count = Math.min(job.accumulators, lifts.length);
    const parts: UOp[][] = [];
    for (let a = 0; a < count; a++) {
      const accs = carrier.dtypes.map((d, i) =>
        finish(uop(Ops.ACC, d.vec(n), [identityConst(carrier, i, d.vec(n)), ...loops], new AccArg(job.nextId())))
      );
      let value: readonly UOp[] = accs.map((acc) => finish(load(acc, innermost)));
      for (let i = a; i < lifts.length; i += count) {
        value = carrier.combine(value, lifts[i]);
        job.step(i, value);
      }
      parts.push(accs.map((acc, i) => {
        const set = finish(store(acc, value[i]));
        if (carrier.lanes > 1) job.updates.push(set);
        job.set(set);
        return finish(load(acc, set));
      }));
    }
    total = combineTree(carrier, parts);
  }
  if (reduceLanes === 1 || job.keepsLanes) return total;
  return combineTree(carrier, Array.from({ length: n }, (_, l) => total.map((x) => extract(x, l))));
}
