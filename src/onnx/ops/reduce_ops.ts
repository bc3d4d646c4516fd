/**
 * ONNX: reductions, extremes and their places, running sums, softmax and its relatives.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { prod } from "../../helpers/math.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../values/node_call.ts";

type Reduction = (x: Tensor, axes: number[], keepdim: boolean) => Tensor;

/** A reduction: axes are an attribute, later an input; none are all, or with `noop_with_empty_axes` none. */
function reduction(name: string, f: Reduction, prepare?: (x: Tensor) => Tensor, finish?: (x: Tensor) => Tensor): OpRow {
  return op(name, (c) => {
    const x = c.x(0), given = c.axes(1, x.ndim), keep = c.int("keepdims", 1) === 1, y = prepare?.(x) ?? x;
    if ((given?.length ?? 0) === 0 && c.int("noop_with_empty_axes", 0) === 1) return c.like(finish?.(y) ?? y);
    const axes = given === undefined || given.length === 0 ? x.shape.map((_, i) => i) : given;
    const r = axes.length === 0 ? y : f(y, axes, keep);
    return c.like(finish?.(r) ?? r);
  }, [1]);
}
const sum: Reduction = (x, axes, keepdim) => x.sum(axes, { keepdim });
const wide = (x: Tensor): Tensor => x.dtype.isFloat ? x : x.float();

/** The last of equal extremes is the first of the reversed axis. */
function extremePlace(c: Call, largest: boolean): Result {
  const x = c.x(0), axis = c.axis(c.int("axis", 0), x.ndim), keepdim = c.int("keepdims", 1) === 1;
  const last = c.int("select_last_index", 0) === 1, y = last ? x.flip([axis]) : x;
  const at = largest ? y.argmax(axis, { keepdim }) : y.argmin(axis, { keepdim });
  return (last ? at.mul(-1).add(x.shape[axis] - 1) : at).cast(dtypes.int64);
}

/** Softmax and its relatives: before version 13 over all axes from `axis` on. */
function alongAxis(name: string, f: (x: Tensor, axis: number) => Tensor): OpRow {
  return op(name, (c) => {
    const x = c.x(0), axis = x.ndim === 0 ? 0 : c.axis(c.int("axis", c.version < 13 ? 1 : -1), Math.max(1, x.ndim));
    if (c.version >= 13) return c.like(f(x, axis));
    const flat = x.reshape([prod(x.shape.slice(0, axis)), prod(x.shape.slice(axis))]);
    return c.like(f(flat, 1).reshape(x.shape));
  });
}
function hardmax(x: Tensor, axis: number): Tensor {
  const n = x.shape[axis], at = x.argmax(axis);
  return at.oneHot(n).movedim(-1, axis).cast(x.dtype);
}

/** Running sums or products: of what is before, of what follows. */
function running(c: Call, f: (x: Tensor, axis: number) => Tensor, empty: number): Result {
  const x = c.x(0), axis = c.axis(c.number(1), x.ndim), reverse = c.int("reverse", 0) === 1;
  let y = reverse ? x.flip([axis]) : x;
  const n = x.shape[axis];
  if (c.int("exclusive", 0) === 1) {
    const before = x.shape.map((_, i): [number, number] => i === axis ? [1, 0] : [0, 0]);
    y = y.pad(before, { value: empty }).shrink(x.shape.map((s, i): [number, number] => [0, i === axis ? n : s]));
  }
  const r = f(y, axis);
  return c.like(reverse ? r.flip([axis]) : r);
}

function topk(c: Call): Result {
  const x = c.x(0), axis = c.axis(c.int("axis", -1), x.ndim), k = c.version < 10 ? c.int("k") : c.number(1);
  const largest = c.int("largest", 1) === 1, [values, places] = x.topk(k, axis, { largest });
  return [c.like(values), places.cast(dtypes.int64)];
}

function lpNormalization(c: Call): Result {
  const x = c.x(0), axis = c.axis(c.int("axis", -1), x.ndim), p = c.int("p", 2);
  const norm = p === 1 ? x.abs().sum(axis, { keepdim: true }) : x.square().sum(axis, { keepdim: true }).sqrt();
  return c.like(norm.eq(0).where(0, x.div(norm)));
}

/** The rows of this family. */
export const REDUCTIONS: readonly OpRow[] = [
  reduction("ReduceSum", sum),
  reduction("ReduceMean", (x, axes, keepdim) => x.mean(axes, { keepdim })),
  reduction("ReduceProd", (x, axes, keepdim) => x.prod(axes, { keepdim })),
  reduction("ReduceMax", (x, axes, keepdim) => x.max(axes, { keepdim })),
  reduction("ReduceMin", (x, axes, keepdim) => x.min(axes, { keepdim })),
  reduction("ReduceL1", sum, (x) => x.dtype.isUnsigned ? x : x.abs()),
  reduction("ReduceL2", sum, (x) => wide(x).square(), (x) => x.sqrt()),
  reduction("ReduceSumSquare", sum, (x) => x.square()),
  reduction("ReduceLogSum", sum, wide, (x) => x.log()),
  op("ReduceLogSumExp", (c) => {
    const x = c.x(0), given = c.axes(1, x.ndim), keepdim = c.int("keepdims", 1) === 1;
    if ((given?.length ?? 0) === 0 && c.int("noop_with_empty_axes", 0) === 1) return c.value(0);
    const axes = given === undefined || given.length === 0 ? x.shape.map((_, i) => i) : given;
    return c.like(axes.length === 0 ? x : wide(x).logsumexp(axes, { keepdim }));
  }, [1]),
  op("ArgMax", (c) => extremePlace(c, true)),
  op("ArgMin", (c) => extremePlace(c, false)),
  alongAxis("Softmax", (x, axis) => x.ndim === 0 ? x.onesLike() : x.softmax(axis)),
  alongAxis("LogSoftmax", (x, axis) => x.ndim === 0 ? x.zerosLike() : x.logSoftmax(axis)),
  alongAxis("Hardmax", hardmax),
  op("CumSum", (c) => running(c, (x, axis) => x.cumsum(axis), 0), [1]),
  op("CumProd", (c) => running(c, (x, axis) => x.cumprod(axis), 1), [1]),
  op("TopK", topk, [1]),
  op("LpNormalization", lpNormalization),
];
