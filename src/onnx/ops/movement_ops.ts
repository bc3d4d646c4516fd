/**
 * ONNX: shapes and movement: what reorders, cuts, joins, repeats or pads without computing with values.
 *
 * @module
 */
import { Tensor } from "../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../values/node_call.ts";
import { broadcastShape, reshapedShape, sliceParts, squeezedShape, unsqueezedShape } from "../values/host_ops.ts";
import { areSymbolic, product, type Size, sizesText } from "../values/variable_sizes.ts";
import { knownInts, knownValue, Value, valueOf } from "../values/value.ts";
import { FLOAT, INT64, STRING } from "../wire/element_types.ts";

/** The same elements in another shape; what the host knows stays known. */
function reshape(c: Call, shape: readonly Size[]): Result {
  const v = c.value(0);
  if (v.isText) return new Value(v.type, shape as number[], { data: v.data });
  return valueOf(c.x(0).reshape([...shape]), v.type);
}

function shapeOf(c: Call): Result {
  const shape = c.value(0).sizes,
    n = shape.length,
    clip = (x: number): number => Math.max(0, Math.min(n, x < 0 ? x + n : x));
  return knownInts(shape.slice(clip(c.int("start", 0)), clip(c.int("end", n))));
}

function flatten(c: Call): Result {
  const shape = c.value(0).sizes, axis = c.int("axis", 1), at = axis < 0 ? axis + shape.length : axis;
  return reshape(c, [product(shape.slice(0, at)), product(shape.slice(at))]);
}

function transpose(c: Call): Result {
  const x = c.x(0);
  return valueOf(x.permute([...c.ints("perm", x.shape.map((_, i) => x.ndim - 1 - i))]), c.type(0));
}

/** Where starts, ends or axes depend on variables, indexing by slices cuts off as ONNX does. */
function sliceSizes(c: Call): Result {
  const x = c.x(0), rank = x.ndim, starts = c.sizes(1), ends = c.sizes(2);
  const axes = c.axes(3, rank) ?? starts.map((_, i) => i), steps = c.has(4) ? c.numbers(4) : starts.map(() => 1);
  const index: [Size | null, Size | null, number][] = x.shape.map(() => [null, null, 1]);
  const open = (n: Size): Size | null => typeof n === "number" && Math.abs(n) >= 2 ** 31 - 1 ? null : n;
  axes.forEach((a, k) => index[a] = [open(starts[k]), open(ends[k]), steps[k]]);
  return valueOf(x.at(...index), c.type(0));
}
function slice(c: Call): Result {
  if (areSymbolic(c.value(0).sizes) || c.inputs.some((v, i) => i > 0 && v instanceof Value && v.isSymbolic)) {
    if (c.version >= 10) return sliceSizes(c);
  }
  const x = c.x(0), { starts, sizes, steps } = sliceParts(c);
  const index = starts.map((s, i): [number, number | null, number] => {
    const end = s + sizes[i] * steps[i];
    return sizes[i] === 0 ? [0, 0, 1] : [s, end < 0 ? null : end, steps[i]];
  });
  return valueOf(index.length === 0 ? x : x.at(...index), c.type(0));
}

function concat(c: Call): Result {
  const xs = c.xs(), axis = c.axis(c.int("axis", c.version < 4 ? 1 : undefined), xs[0].ndim);
  const parts = xs.filter((x) => x.numel() > 0);
  if (parts.length === 0) return c.like(xs[0].cat(xs.slice(1), axis));
  return c.like(
    parts.length === 1 && xs.every((x) => x.shape[axis] === 0 || x === parts[0])
      ? parts[0]
      : xs[0].cat(xs.slice(1), axis),
  );
}

function split(c: Call): Result {
  const x = c.x(0), axis = c.axis(c.int("axis", 0), x.ndim), n = x.shape[axis];
  let sizes = c.has(1) ? c.numbers(1) : c.hasAttribute("split") ? [...c.ints("split")] : undefined;
  if (sizes === undefined) {
    const parts = c.int("num_outputs", c.node.outputs.length), each = Math.ceil(n / parts);
    sizes = Array.from({ length: c.list(parts) }, (_, i) => Math.max(0, Math.min(each, n - i * each)));
  }
  if (sizes.reduce((a, b) => a + b, 0) !== n) throw c.fail(`parts [${sizes.join(", ")}] do not make up ${n}`);
  return x.split(sizes, axis).map((t) => c.like(t));
}

function expand(c: Call): Result {
  const from = c.value(0).sizes, to = c.sizes(1);
  if (areSymbolic(from) || areSymbolic(to)) {
    const rank = Math.max(from.length, to.length), own: Size[] = [...Array(rank - from.length).fill(1), ...from];
    const given: Size[] = [...Array(rank - to.length).fill(1), ...to];
    return valueOf(c.x(0).reshape(own).expand(own.map((n, i) => given[i] === 1 ? n : given[i])), c.type(0));
  }
  const x = c.x(0), shape = broadcastShape([x.shape, c.numbers(1)]);
  if (shape === undefined) throw c.fail(`[${x.shape.join(", ")}] does not broadcast to [${c.numbers(1).join(", ")}]`);
  return valueOf(x.expand(shape), c.type(0));
}

function tile(c: Call): Result {
  const x = c.x(0);
  if (c.version >= 6) return valueOf(x.repeat(c.numbers(1)), c.type(0));
  return valueOf(x.repeat(x.shape.map((_, i) => i === c.number(2) ? c.number(1) : 1)), c.type(0));
}

/** Modes beyond one period or mirror go by positions, which are arithmetic on the host. */
function padAxis(c: Call, x: Tensor, axis: number, before: number, after: number, mode: string): Tensor {
  const n = x.shape[axis], at: number[] = [];
  c.list(before + n + after);
  for (let i = -before; i < n + after; i++) {
    if (mode === "edge") at.push(Math.max(0, Math.min(n - 1, i)));
    else if (mode === "wrap") at.push(((i % n) + n) % n);
    else {
      const period = Math.max(1, 2 * n - 2), k = ((i % period) + period) % period;
      at.push(Math.min(k, period - k));
    }
  }
  if (at.every((p, i) => p === i) && at.length === n) return x;
  return x.indexSelect(axis, new Tensor(Int32Array.from(at), { device: x.device as "JS" }));
}

function pad(c: Call): Result {
  const x = c.x(0), amounts = c.version < 11 ? c.ints("pads") : c.numbers(1), mode = c.text("mode", "constant");
  const axes = c.axes(3, x.ndim) ?? x.shape.map((_, i) => i), n = axes.length;
  if (amounts.length !== 2 * n) throw c.fail(`it has ${amounts.length} amounts for ${n} axes`);
  const pairs = x.shape.map((): [number, number] => [0, 0]);
  axes.forEach((a, i) => pairs[a] = [amounts[i], amounts[i + n]]);
  if (mode === "constant") {
    const value = c.version < 11 ? c.float("value", 0) : c.has(2) && c.value(2).count > 0 ? c.number(2) : 0;
    return valueOf(x.pad(pairs, { value }), c.type(0));
  }
  let y = x;
  pairs.forEach(([before, after], axis) => {
    if (before < 0 || after < 0) {
      const cut = y.shape.map((s, i): [number, number] =>
        i === axis ? [Math.max(0, -before), s - Math.max(0, -after)] : [0, s]
      );
      y = y.shrink(cut);
    }
    y = padAxis(c, y, axis, Math.max(0, before), Math.max(0, after), mode);
  });
  return valueOf(y, c.type(0));
}

function depthToSpace(c: Call): Result {
  const x = c.x(0), b = c.int("blocksize"), [n, ch, h, w] = x.shape, inner = ch / (b * b);
  const y = c.text("mode", "DCR") === "DCR"
    ? x.reshape([n, b, b, inner, h, w]).permute([0, 3, 4, 1, 5, 2])
    : x.reshape([n, inner, b, b, h, w]).permute([0, 1, 4, 2, 5, 3]);
  return valueOf(y.reshape([n, inner, h * b, w * b]), c.type(0));
}
function spaceToDepth(c: Call): Result {
  const x = c.x(0), b = c.int("blocksize"), [n, ch, h, w] = x.shape;
  const y = x.reshape([n, ch, h / b, b, w / b, b]).permute([0, 3, 5, 1, 2, 4]);
  return valueOf(y.reshape([n, ch * b * b, h / b, w / b]), c.type(0));
}

function trilu(c: Call): Result {
  const x = c.x(0), k = c.number(1, 0);
  return c.like(c.int("upper", 1) === 1 ? x.triu(k) : x.tril(k));
}

/** Ones on a diagonal of what has the shape of the input. */
function eyeLike(c: Call): Result {
  const [n, m] = c.shape(0), k = c.int("k", 0), type = c.int("dtype", c.type(0)), dtype = c.dtype(type);
  const row = Tensor.arange(n).unsqueeze(1),
    column = Tensor.arange(m);
  return valueOf(column.sub(row).eq(k).cast(dtype), type);
}

/** The first elements of each sequence reversed, as many as its length. */
function reverseSequence(c: Call): Result {
  const x = c.x(0), time = c.int("time_axis", 0), batch = c.int("batch_axis", 1), n = x.shape[time];
  const shapeAt = (axis: number, size: number) => x.shape.map((_, i) => i === axis ? size : 1);
  const at = Tensor.arange(n).reshape(shapeAt(time, n));
  const lengths = c.x(1).cast("int32").reshape(shapeAt(batch, x.shape[batch]));
  const places = at.lt(lengths).where(lengths.sub(1).sub(at), at).expand(x.shape);
  return valueOf(x.gather(time, places), c.type(0));
}

function centerCropPad(c: Call): Result {
  const x = c.x(0), target = c.numbers(1);
  const axes = c.hasAttribute("axes") ? c.ints("axes").map((a) => c.axis(a, x.ndim)) : x.shape.map((_, i) => i);
  const pairs = x.shape.map((): [number, number] => [0, 0]);
  axes.forEach((a, i) => {
    const more = target[i] - x.shape[a], before = more >= 0 ? Math.floor(more / 2) : -Math.floor(-more / 2);
    pairs[a] = [before, more - before];
  });
  return valueOf(x.pad(pairs), c.type(0));
}

function constant(c: Call): Result {
  const v = c.constant("value") ?? c.constant("sparse_value");
  if (v !== undefined) return v;
  if (c.hasAttribute("value_float")) return knownValue(FLOAT, [], [c.float("value_float")]);
  if (c.hasAttribute("value_int")) return knownValue(INT64, [], [c.int("value_int")]);
  if (c.hasAttribute("value_string")) return knownValue(STRING, [], [c.text("value_string")]);
  if (c.hasAttribute("value_floats")) {
    return knownValue(FLOAT, [c.floats("value_floats").length], c.floats("value_floats"));
  }
  if (c.hasAttribute("value_ints")) return knownInts(c.ints("value_ints"));
  if (c.hasAttribute("value_strings")) {
    return knownValue(STRING, [c.strings("value_strings").length], c.strings("value_strings"));
  }
  throw c.fail("it has no value");
}

function constantOfShape(c: Call): Result {
  const shape = c.sizes(0), value = c.constant("value"), type = value?.type ?? FLOAT;
  if (shape.some((n) => typeof n === "number" && n < 0)) throw c.fail(`${sizesText(shape)} is no shape`);
  const dtype = c.dtype(type), x = value?.numbers?.[0] ?? 0;
  return valueOf(Tensor.full(shape, dtype.isBool ? x !== 0 : x, { dtype }), type);
}

/** The rows of this family. */
export const MOVEMENTS: readonly OpRow[] = [
  op("Shape", shapeOf),
  op("Size", (c) => knownInts(product(c.value(0).sizes))),
  op("Reshape", (c) => reshape(c, reshapedShape(c)), [1]),
  op("Squeeze", (c) => reshape(c, squeezedShape(c)), [1]),
  op("Unsqueeze", (c) => reshape(c, unsqueezedShape(c)), [1]),
  op("Flatten", flatten),
  op("Transpose", transpose),
  op("Slice", slice, [1, 2, 3, 4]),
  op("Concat", concat),
  op("Split", split, [1]),
  op("Expand", expand, [1]),
  op("Tile", tile, [1, 2]),
  op("Pad", pad, [1, 2, 3]),
  op("DepthToSpace", depthToSpace),
  op("SpaceToDepth", spaceToDepth),
  op("Trilu", trilu, [1]),
  op("EyeLike", eyeLike),
  op("ReverseSequence", reverseSequence),
  op("CenterCropPad", centerCropPad, [1]),
  op("Constant", constant),
  op("ConstantOfShape", constantOfShape, [0]),
];
