/**
 * The order of elements along the last axis, which the tensor graph makes of exchanges and ONNX has whole: TopK. What is
 * sorted is found below the keys that are compared, and sorted again: the same order is the same node. In: a node; out:
 * the operand, and what to write.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { sortedPositions } from "../../tensor/nodes/sorted_positions.ts";
import { prod } from "../../helpers/math.ts";
import { argOf } from "../../uop/core/args.ts";
import { reshape } from "../../uop/core/build_movement.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import type { Operand, Structure } from "./found_structures.ts";
import type { OnnxGraph, Value } from "./onnx_graph.ts";
import { isFixed } from "./traced_sizes.ts";
import { shapesOf, type Trace } from "./trace.ts";

/** Of so many nodes of int64 that may be what is sorted, itself a key, the first are tried. */
const TRIED = 16;

/** Whether a node has the form of an order's last one: positions that were counted, unpacked, or moved beside their keys. */
function mayBeOrder(u: UOp): boolean {
  if (u.dtype !== dtypes.int32 || shapeOf(u).length === 0) return false;
  const counted = u.op === Ops.RESHAPE ? u.src[0] : u;
  if (counted.op === Ops.REDUCE) return counted.src[0].op === Ops.WHERE && counted.src[0].src[0].op === Ops.CMPEQ;
  if (u.op === Ops.CAST) return u.src[0].op === Ops.AND;
  let below = u;
  while (isMovement(below.op)) below = below.src[0];
  return u !== below && below.op === Ops.CONTIGUOUS;
}

/** How many positions of each list there are, where `u` has those of lists along the last axis of `x`. */
function countOf(u: UOp, x: UOp): number | undefined {
  const own = shapeOf(x), n = own.at(-1) ?? 0, lists = prod(own.slice(0, -1)), count = prod(shapeOf(u)) / lists;
  return n > 1 && Number.isInteger(count) && count <= n ? count : undefined;
}
/** Does `u` have the elements of `order`, in their order? Reshapes of reshapes are one. */
function isLike(u: UOp, order: UOp): boolean {
  return u === order || prod(shapeOf(u)) === prod(shapeOf(order)) && reshape(order, shapeOf(u)) === u;
}

/** What may be sorted: what keys are made of, which sorted_positions.ts casts, or takes the bits of; or is itself a key. */
function candidates(t: Trace, u: UOp): { readonly x: UOp; readonly operand: Operand }[] {
  const all = toposort(u), found = new Set<UOp>();
  for (const v of all) {
    const [x] = v.src,
      of = v.op === Ops.CAST ? x : v.op !== Ops.BITCAST ? v : x.op === Ops.WHERE ? x.src[2] : x.src[0] ?? x;
    if (of === v) continue;
    found.add(of);
    if (of.op === Ops.CAST) found.add(of.src[0]);
  }
  const longs = all.filter((v) =>
    v.dtype === dtypes.int64 && v.op !== Ops.CONST && prod(shapeOf(v)) >= prod(shapeOf(u))
  );
  const own = [...found, ...longs.slice(0, TRIED)].filter((x) => t.twins.has(x) && countOf(u, x) !== undefined)
    .map((x) => ({ x, operand: { node: x, shape: shapesOf(t.twins, x) } }));
  // a reshape of a reshape is one: a key may be there under another shape than that of what is sorted
  const r = u.op === Ops.RESHAPE ? u.src[0] : u;
  const counted = r.op === Ops.REDUCE && t.twins.has(r.src[0]) ? [shapesOf(t.twins, r.src[0]).slice(0, -1)] : [];
  const others = [shapesOf(t.twins, u), ...counted].flatMap((shape) => {
    const sizes = shape.map((n) => n[0]), fit = longs.filter((v) => t.twins.has(v) && prod(shapeOf(v)) === prod(sizes));
    return fit.slice(0, TRIED).map((node) => ({ x: reshape(node, sizes), operand: { node, shape } }));
  });
  return [...own, ...others.filter(({ x }) => countOf(u, x) !== undefined)];
}

/** The largest finite number. */
const LARGEST = Number.MAX_VALUE;

/**
 * Elements as TopK compares them: it has no small numbers, none of 64 bits without a sign, and no place for NaN, which is
 * larger than all others here: infinity stands for it, and a number that is larger than all other ones for infinity.
 */
function comparable(g: OnnxGraph, v: Value): Value {
  const d = v.dtype,
    wide = d.isFloat ? dtypes.float64 : d.bits > 32 || d === dtypes.uint32 ? dtypes.int64 : dtypes.int32;
  const x = g.cast(v, wide),
    node = (op: string, all: readonly Value[], dtype: DType): Value => g.node(op, all, v.shape, dtype);
  if (d.isFloat) {
    const of = (n: number): Value => g.scalar(wide, new Uint8Array(Float64Array.of(n).buffer));
    return node("Where", [node("IsNaN", [x], dtypes.bool), of(Infinity), node("Min", [x, of(LARGEST)], wide)], wide);
  }
  if (d !== dtypes.uint64) return x;
  return node("Add", [x, g.scalar(wide, new Uint8Array(BigInt64Array.of(-(2n ** 63n)).buffer))], wide);
}

/** Positions in the order of the elements of an axis, all or the first ones. */
export function findOrder(t: Trace, u: UOp): Structure | undefined {
  // the first ones of an order
  const isCut = u.op === Ops.WINDOW && u.src[1].isConst(0), whole = isCut ? u.src[0] : u;
  if (isCut && argOf(u, Ops.WINDOW).axis !== shapeOf(u).length - 1 || !mayBeOrder(whole)) return undefined;
  for (const { x, operand } of candidates(t, whole)) {
    const count = countOf(whole, x)!, { shape } = operand, axis = shape.length - 1;
    for (const descending of [false, true]) {
      if (![count, Infinity].some((most) => isLike(whole, sortedPositions(x, { descending, most })))) continue;
      if (!isFixed(shape[axis])) return undefined;
      const wanted = isCut ? argOf(u, Ops.WINDOW).capacity : count, given = { axis, largest: descending ? 1 : 0 };
      return {
        inputs: [operand],
        write: (g, [v]) => {
          const out = shape.with(axis, g.fixed(wanted));
          return g.cast(
            g.node("TopK", [comparable(g, v), g.ints([wanted])], out, dtypes.int64, given, 1),
            dtypes.int32,
          );
        },
      };
    }
  }
}
