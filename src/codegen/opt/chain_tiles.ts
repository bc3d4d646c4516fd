/**
 * The opt TC for chains of products (uop/algebra/product_chain.ts), whose tiles stay in registers. Both products of a chain
 * are done by one matrix unit: a tile of inner results, two of the unit's side by side, is where the unit takes its left
 * operand from (chainOf in renderer/tensor_core_table.ts). What stands between the two is ordinary arithmetic on the elements
 * that a thread has. Results by row are combined at the end, in the thread and among the lanes that share rows (RowCarrier).
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { chainOf, elementsOf, type Fragment, positionIn, type TensorCore } from "../../renderer/tensor_core_table.ts";
import { chainAt, type ChainRanges } from "../../uop/algebra/product_chain.ts";
import { AxisKind, RangeArg } from "../../uop/core/args.ts";
import { carrierOf, getTuple, reduce, RowCarrier } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, freeIds, ownRanges } from "../../uop/core/ranges.ts";
import { constant, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { rebuild } from "../../uop/rewrite/walk.ts";
import { positionOf } from "./tensor_core.ts";

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

/** Has the unit do a chain in tiles: ranges of its sizes. */
export function useChain(ast: UOp, core: TensorCore, { rows, columns, middle, sums }: ChainRanges): UOp {
  const wide = chainOf(core)!, nodes = toposort(ast);
  const { outer, product, inner } = chainAt(nodes, core, { rows, columns, middle, sums });
  let next = freeIds(nodes).range;
  const make = (n: number, kind: AxisKind): UOp =>
    uop(Ops.RANGE, rows.dtype, [constant(n, rows.dtype)], new RangeArg(next++, kind));
  const elements = (f: Fragment): UOp => make(elementsOf(f), AxisKind.VECTOR);
  const lane = make(core.lanes, AxisKind.WARP), own = elements(wide.c);
  const typed = (x: UOp, like: UOp): UOp => x.dtype === like.dtype ? x : x.cast(like.dtype);
  const place = (x: UOp, f: Fragment, e: UOp, ...ranges: readonly UOp[]): UOp =>
    substitute(x, new Map(ranges.map((r, i) => [r, typed(positionOf(f, lane, e, i as 0 | 1), r)])));
  const others = (u: UOp, r: UOp): UOp[] => [...ownRanges(u)].filter((x) => x !== r);
  const tiles = new Map(inner.map(({ reduce: u, a, b, sum }) => {
    const [inA, inB] = [elements(core.a), elements(wide.b)];
    const src = [place(a, core.a, inA, rows, sum), place(b, wide.b, inB, sum, middle), own, inA, inB];
    return [u, reduce(carrierOf(u), [uop(Ops.WMMA, core.output, src, wide)], others(u, sum))] as const;
  }));
  const computed = (x: UOp): UOp => place(substitute(cheaper(x, rows, middle), tiles), wide.c, own, rows, middle);
  if (product !== undefined) {
    const [inB, inC] = [elements(core.b), elements(core.c)];
    const src = [computed(product.a), place(product.b, core.b, inB, middle, columns!), inC, own, inB];
    const sum = reduce(carrierOf(outer), [uop(Ops.WMMA, core.output, src, core)], others(outer, middle));
    return place(substitute(ast, new Map([[outer, sum]])), core.c, inC, rows, columns!);
  }
  const carrier = carrierOf(outer), lifts = outer.src.slice(0, carrier.lanes).map(computed);
  const partial = reduce(carrier, lifts, others(outer, middle));
  const at = Array.from({ length: elementsOf(wide.c) }, (_, e) => positionIn(wide.c, 0, e)[0]);
  const whole = reduce(
    new RowCarrier(carrier, at, masksOf(wide.c)),
    lifts.map((_, i) => getTuple(partial, i)),
    [],
  );
  return place(substitute(ast, new Map([[outer, whole]])), wide.c, own, rows);
}
