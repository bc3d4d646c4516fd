/**
 * The opt TC for chains of products (uop/algebra/product_chain.ts), whose tiles stay in registers. Both products of a chain
 * are done by one matrix unit: a tile of inner results, two of the unit's side by side, is where the unit takes its left
 * operand from (chainOf in renderer/tensor_core_table.ts). Units that read shared memory find the right operand of both there.
 * What stands between the two is ordinary arithmetic on the elements that a thread has. Results by row are combined at the
 * end, in the thread and among the lanes that share rows (RowCarrier).
 *
 * Sums that are rescaled need the maximum of each row in every iteration (RowMaximum): the weights are made of it, and what
 * was summed before is scaled to it (ScaledSum), where it stands.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { chainOf, elementsOf, type Fragment, positionIn, type TensorCore } from "../../renderer/tensor_core_table.ts";
import { chainAt, type ChainRanges } from "../../uop/algebra/product_chain.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import {
  type CarrierArg,
  carrierOf,
  getRow,
  getTuple,
  reduce,
  RescaleCarrier,
  RowCarrier,
  RowMaximum,
  ScaledSum,
} from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, freeIds, ownRanges } from "../../uop/core/ranges.ts";
import { constant, range, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { rebuild } from "../../uop/rewrite/walk.ts";
import { positionOf, sharedOperand } from "./tensor_core.ts";

/** Lanes that share rows differ in these bits. */
function masksOf(f: Fragment): number[] {
  return f.lane.flatMap(([row], i) => row === 0 ? [2 ** i] : []);
}

/**
 * What is computed for each element, in fewer operations: products in place of divisions by what only rows or only the
 * middle tell, of which there are fewer; one factor of two; and powers of two without the least numbers, which a sum beside
 * others does not see.
 */
function cheaper(u: UOp, rows: UOp, middle: UOp): UOp {
  return rebuild(u, (x, [a, b]) => {
    // narrower ones are rounded after each operation
    if (x.dtype !== dtypes.float32) return undefined;
    if (x.op === Ops.EXP2) return uop(x.op, x.dtype, [a], "flush");
    if (x.op === Ops.FDIV && !(dependsOn(b, rows) && dependsOn(b, middle))) return a.mul(a.constLike(1).fdiv(b));
    if (x.op !== Ops.MUL || b.op !== Ops.CONST || a.op !== Ops.MUL || a.src[1].op !== Ops.CONST) return undefined;
    const factor = Math.fround(a.src[1].value * b.value);
    return factor === 1 ? a.src[0] : a.src[0].mul(factor);
  });
}

/** The term of a rescaled sum: where it is masked, its factor is 0 anyway. */
function termOf(lift: UOp): UOp {
  return lift.op === Ops.WHERE && lift.src[1].op === Ops.CONST && lift.src[2].isConst(0) ? lift.src[1] : lift;
}

/** Has the unit do a chain in tiles: ranges of its sizes. */
export function useChain(ast: UOp, core: TensorCore, { rows, columns, middle, sums }: ChainRanges): UOp {
  const units = chainOf(core)!, wide = units.inner, last = units.outer, nodes = toposort(ast);
  const { outer, values, operand, inner } = chainAt(nodes, core, { rows, columns, middle, sums });
  let next = freeIds(nodes).range;
  const make = (n: number, kind: AxisKind): UOp => range(constant(n, rows.dtype), next++, kind);
  const elements = (f: Fragment): UOp => make(elementsOf(f), AxisKind.VECTOR);
  const lane = make(core.lanes, AxisKind.WARP), own = elements(wide.c);
  const typed = (x: UOp, like: UOp): UOp => x.dtype === like.dtype ? x : x.cast(like.dtype);
  const place = (x: UOp, f: Fragment, e: UOp, ...ranges: readonly UOp[]): UOp =>
    substitute(x, new Map(ranges.map((r, i) => [r, typed(positionOf(f, lane, e, i as 0 | 1), r)])));
  const others = (u: UOp, r: UOp): UOp[] => [...ownRanges(u)].filter((x) => x !== r);
  /** The product of `a`, of which the unit's elements are those of `inA`, and of `b`: the elements `out` of it. */
  const product = (unit: TensorCore, a: UOp, inA: UOp, b: UOp, k: UOp, side: UOp, out: UOp): UOp => {
    if (unit.shared !== undefined) {
      const src = [a, place(b, unit.b, out, k, side), out, inA];
      return uop(Ops.WMMA, unit.output, src, unit.reading(undefined, sharedOperand(unit, b, side, k), false));
    }
    const inB = elements(unit.b);
    return uop(Ops.WMMA, unit.output, [a, place(b, unit.b, inB, k, side), out, inA, inB], unit);
  };
  const tiles = new Map(inner.map(({ reduce: u, a, b, sum }) => {
    const inA = elements(wide.a), tile = product(wide, place(a, wide.a, inA, rows, sum), inA, b, sum, middle, own);
    return [u, reduce(carrierOf(u), [tile], others(u, sum))] as const;
  }));
  const computed = (x: UOp): UOp => place(substitute(cheaper(x, rows, middle), tiles), wide.c, own, rows, middle);
  const carrier = carrierOf(outer), loops = others(outer, middle), masks = masksOf(wide.c);
  const rowOf = Array.from({ length: elementsOf(wide.c) }, (_, e) => positionIn(wide.c, 0, e)[0]);
  const inC = operand === undefined ? own : elements(last.c);
  /** The sum of products of `a`, and of `factor` times what it was before each iteration. */
  const sumOf = (a: UOp, by: CarrierArg, factor: readonly UOp[]): UOp => {
    return reduce(by, [product(last, a, own, operand!, middle, columns!, inC), ...factor], loops);
  };
  const results = new Map<UOp, UOp>();
  if (carrier instanceof RescaleCarrier) {
    const { slope, weight, lanes } = carrier,
      dtype = outer.src[0].dtype,
      out = operand === undefined ? elements(wide.c) : inC;
    const x = computed(values[0]), max = reduce(new RowMaximum(dtype, slope, rowOf, masks), [x], [own, ...loops]);
    const power = uop(Ops.EXP2, dtype, [cheaper(x.mul(slope), rows, middle).add(getRow(max, 1, own))], "flush");
    for (const u of nodes) {
      if (u.op !== Ops.GETTUPLE || u.src[0] !== outer) continue;
      const i = argOf(u, Ops.GETTUPLE);
      if (i === 0) results.set(u, getRow(max, 0, out));
      else if (operand !== undefined && i === lanes - 1) {
        results.set(u, getTuple(sumOf(power.cast(weight!), new ScaledSum(dtype), [getRow(max, 2, inC)]), 0));
      } else {
        const term = computed(termOf(values[i])),
          lifts = [term.isConst(1) ? power : power.mul(term), getRow(max, 2, own)];
        results.set(u, getRow(reduce(new ScaledSum(dtype, rowOf, masks), lifts, [own, ...loops]), 0, out));
      }
    }
    const made = substitute(ast, results);
    return operand === undefined ? place(made, wide.c, out, rows) : place(made, last.c, inC, rows, columns!);
  }
  if (operand !== undefined) {
    results.set(outer, sumOf(computed(values[0]), carrier, []));
    return place(substitute(ast, results), last.c, inC, rows, columns!);
  }
  const lifts = values.map(computed), partial = reduce(carrier, lifts, loops);
  const whole = reduce(new RowCarrier(carrier, rowOf, masks), lifts.map((_, i) => getTuple(partial, i)), []);
  return place(substitute(ast, new Map([[outer, whole]])), wide.c, own, rows);
}
