/**
 * Reductions by key as ScatterElements: what the tensor graph has as a sum, over all terms, of those whose place is that of
 * the result, which ONNX would compute as a product of one-hot rows, as large as results times terms. In: REDUCE of WHERE;
 * out: one operator that goes through the terms once. Terms that go to no result go to one that is cut off.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { reduceOf } from "../../uop/core/args.ts";
import { identityOf } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { prod } from "../../helpers/math.ts";
import { type Operand, type Structure, unexpanded } from "./found_structures.ts";
import type { OnnxGraph, Value } from "./onnx_graph.ts";
import { product, type Shape } from "./traced_sizes.ts";
import { shapesOf, type Trace } from "./trace.ts";

/** The axis along which a node counts 0, 1, 2 and so on, where it is the same along all others. */
function countedAxis(u: UOp): number | undefined {
  if (u.op === Ops.IOTA) return 0;
  if (u.op !== Ops.RESHAPE && u.op !== Ops.EXPAND) return undefined;
  const below = countedAxis(u.src[0]);
  if (below === undefined || u.op === Ops.EXPAND) return below;
  const from = shapeOf(u.src[0]), to = shapeOf(u), before = prod(from.slice(0, below));
  const at = to.findIndex((n, i) => n === from[below] && prod(to.slice(0, i)) === before);
  return at < 0 ? undefined : at;
}

/** What ScatterElements calls a reduction. Whether onnxruntime's largest of NaN is NaN is not said: of floats there is none. */
function reductionOf(op: Ops, isFloat: boolean): string | undefined {
  return op === Ops.ADD ? "add" : op === Ops.MUL ? "mul" : op === Ops.MAX && !isFloat ? "max" : undefined;
}

/** The reduction by key that a node is, if it is one. */
export function findScatter(t: Trace, u: UOp): Structure | undefined {
  if (u.op !== Ops.REDUCE || u.src[0].op !== Ops.WHERE || u.dtype.kind === "bool") return undefined;
  const { op, axes } = reduceOf(u), reduction = reductionOf(op as Ops, u.dtype.isFloat);
  const [condition, chosen, other] = u.src[0].src, equal = unexpanded(condition), none = unexpanded(other);
  if (reduction === undefined || equal.op !== Ops.CMPEQ || none.op !== Ops.CONST) return undefined;
  if (!none.isConst(identityOf(op, u.dtype))) return undefined;
  const all = shapesOf(t.twins, u.src[0]), rank = all.length;
  const counted = equal.src.map((s) => shapeOf(s).length === rank ? countedAxis(s) : undefined);
  for (const side of [0, 1]) {
    const axis = counted[side], index = unexpanded(equal.src[1 - side]), value = unexpanded(chosen);
    if (axis === undefined || axes.includes(axis) || !index.dtype.isInt || shapeOf(equal.src[side])[axis] === 1) {
      continue;
    }
    const own = shapeOf(index),
      isValue = value.op === Ops.CONST || shapeOf(value).length === rank && shapeOf(value)[axis] === 1;
    if (own.length !== rank || own[axis] !== 1 || !isValue) continue;
    const operand = (node: UOp): Operand => ({ node, shape: node.op === Ops.CONST ? [] : shapesOf(t.twins, node) });
    const write = (g: OnnxGraph, inputs: readonly Value[]): Value => written(g, inputs, { all, axis, axes, reduction });
    return { inputs: [operand(index), operand(value), { node: none, shape: [] }], write };
  }
  return undefined;
}

/** A reduction by key: the axes of results and terms, the one that places choose from, and those of terms alone. */
interface Scatter {
  readonly all: Shape;
  readonly axis: number;
  readonly axes: readonly number[];
  readonly reduction: string;
}

function written(g: OnnxGraph, [index, value, none]: readonly Value[], { all, axis, axes, reduction }: Scatter): Value {
  const one = g.fixed(1), others = all.flatMap((_, a) => a === axis || axes.includes(a) ? [] : [a]);
  const before = others.filter((a) => a < axis), after = others.filter((a) => a > axis);
  const sizes = (list: readonly number[]): Shape => list.map((a) => all[a]);
  const terms = product(sizes(axes), one), around = (n: Shape): Shape => [...sizes(before), ...n, ...sizes(after)];
  /** In the order of results, with the terms where the axis is. */
  const laid = (v: Value): Value => {
    const narrow = v.shape.length === all.length ? v : g.reshape(v, all.map(() => one));
    const full = g.expand(narrow, all.map((n, a) => a === axis ? one : n));
    return g.reshape(g.transpose(full, [...before, ...axes, axis, ...after]), around([terms]));
  };
  const places = g.cast(index, dtypes.int64), end = g.number(all[axis], dtypes.int64), zero = g.ints([0], 0);
  const isBelow = g.node("Less", [places, zero], places.shape, dtypes.bool);
  const kept = g.node("Where", [isBelow, end, places], places.shape, dtypes.int64);
  const inside = g.node("Min", [kept, end], places.shape, dtypes.int64);
  const room = around([all[axis].map((n) => n + 1)]);
  const start = g.expand(g.reshape(none, room.map(() => one)), room);
  const attributes = { axis: before.length, reduction };
  const scattered = g.node("ScatterElements", [start, laid(inside), laid(value)], room, value.dtype, attributes);
  const made = g.slice(scattered, [{ axis: before.length, start: g.fixed(0), stop: all[axis] }]);
  return g.reshape(made, all.map((n, a) => axes.includes(a) ? one : n));
}
