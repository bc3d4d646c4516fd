/**
 * ONNX: reading and writing at places, positions of what is not zero, distinct values, one-hot codes.
 *
 * @module
 */
import { prod, stridesOf } from "../../helpers/math.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../values/node_call.ts";
import { knownInts, knownValue, valueOf } from "../values/value.ts";
import { INT64 } from "../wire/element_types.ts";

/** Positions, of which negative ones count from the end. */
function wrapped(index: Tensor, n: number): Tensor {
  return index.lt(0).where(index.add(n), index);
}
/** Whole numbers of the host on the device. */
export function placesOn(c: Call, at: readonly number[]): Tensor {
  return new Tensor(Int32Array.from(at), { device: c.device as "JS" });
}

function gather(c: Call): Result {
  const v = c.value(0), rank = v.shape.length, axis = c.axis(c.int("axis", 0), rank), index = c.value(1);
  const shape = [...v.shape.slice(0, axis), ...index.shape, ...v.shape.slice(axis + 1)];
  if (v.isText) throw c.fail("texts are taken on the host alone: its positions must be known there");
  const n = v.shape[axis], known = index.numbers;
  if (known !== undefined) {
    const wrong = Array.from(known).find((i) => !(i >= -n && i < n));
    if (wrong !== undefined) throw c.fail(`index ${wrong} is outside of ${n}`);
    if (known.length === 1) {
      const i = known[0] < 0 ? known[0] + n : known[0];
      const part = c.x(0).shrink(v.shape.map((s, a): [number, number] => a === axis ? [i, i + 1] : [0, s]));
      return valueOf(part.reshape(shape), v.type);
    }
  }
  const flat = wrapped(c.x(1).reshape([-1]), n);
  return valueOf(c.x(0).indexSelect(axis, flat).reshape(shape), v.type);
}

/** Flat positions `[batch, m]` of indices `[batch, m, k]` in axes of `sizes`. */
function flatPlaces(index: Tensor, sizes: readonly number[]): Tensor {
  const strides = stridesOf(sizes);
  return sizes.map((n, j) => wrapped(index.at("...", j), n).mul(strides[j])).reduce((a, b) => a.add(b));
}

function gatherND(c: Call): Result {
  const x = c.x(0), b = c.int("batch_dims", 0), index = c.x(1).cast("int64"), k = index.shape[index.ndim - 1];
  const batch = prod(x.shape.slice(0, b)), sizes = x.shape.slice(b, b + k), rest = x.shape.slice(b + k);
  const each = prod(sizes), m = prod(index.shape.slice(b, -1));
  const places = flatPlaces(index.reshape([batch, m, k]), sizes);
  const offset = Tensor.arange(batch, { dtype: "int64" }).mul(each).unsqueeze(1);
  const rows = x.reshape([batch * each, prod(rest)]).indexSelect(0, places.add(offset).reshape([-1]));
  return valueOf(rows.reshape([...index.shape.slice(0, -1), ...rest]), c.type(0));
}

const REDUCTIONS = { add: "sum", mul: "prod", max: "amax", min: "amin" } as const;
function written(c: Call, x: Tensor, axis: number, places: Tensor, values: Tensor): Tensor {
  const how = c.text("reduction", "none"), src = values.cast(x.dtype);
  if (how === "none") return x.scatter(axis, places, src);
  const reduce = (REDUCTIONS as Record<string, "sum" | "prod" | "amax" | "amin" | undefined>)[how];
  if (reduce === undefined) throw c.fail(`reduction "${how}" is none of none, ${Object.keys(REDUCTIONS).join(", ")}`);
  return x.scatterReduce(axis, places, src, reduce);
}
function scatterElements(c: Call): Result {
  const x = c.x(0), axis = c.axis(c.int("axis", 0), x.ndim);
  return valueOf(written(c, x, axis, wrapped(c.x(1), x.shape[axis]), c.x(2)), c.type(0));
}
function scatterND(c: Call): Result {
  const x = c.x(0), index = c.x(1).cast("int64"), k = index.shape[index.ndim - 1], sizes = x.shape.slice(0, k);
  const inner = prod(x.shape.slice(k)), m = prod(index.shape.slice(0, -1));
  if (m === 0) return c.value(0);
  const places = flatPlaces(index.reshape([m, k]), sizes).unsqueeze(1).expand([m, inner]);
  const out = written(c, x.reshape([prod(sizes), inner]), 0, places, c.x(2).reshape([m, inner]));
  return valueOf(out.reshape(x.shape), c.type(0));
}

/** A cache with new values written from a position of each batch on, in a circle or not. */
function tensorScatter(c: Call): Result {
  const past = c.x(0), update = c.x(1), axis = c.axis(c.int("axis", -2), past.ndim), n = past.shape[axis];
  const side = (a: number, s: number) => past.shape.map((_, i) => i === a ? s : 1);
  const at = Tensor.arange(n).reshape(side(axis, n));
  const from = c.has(2) ? c.x(2).cast("int32").reshape(side(0, past.shape[0])) : at.mul(0);
  let rel = at.sub(from);
  if (c.text("mode", "linear") === "circular") rel = rel.mod(n);
  const length = update.shape[axis], inside = rel.ge(0).logicalAnd(rel.lt(length));
  const places = rel.clamp(0, length - 1).expand(past.shape);
  return valueOf(inside.where(update.gather(axis, places), past), c.type(0));
}

function oneHot(c: Call): Result {
  const index = c.x(0), depth = c.number(1), values = c.x(2), axis = c.axis(c.int("axis", -1), index.ndim + 1);
  const at = Tensor.arange(depth);
  const shape = new Array<number>(index.ndim + 1).fill(1);
  shape[axis] = depth;
  const whole = index.cast("int64"), places = wrapped(whole, depth).unsqueeze(axis);
  return valueOf(places.eq(at.reshape(shape)).where(values.at(1), values.at(0)), c.type(2));
}

/** How many values a range has is known on the host. */
function range(c: Call): Result {
  if ([0, 1, 2].some((i) => c.value(i).isSymbolic)) {
    const [[from], [to], [by]] = [c.sizes(0), c.sizes(1), c.sizes(2)], type = c.type(0);
    return valueOf(Tensor.arange(from, to, by).cast(c.dtype(type)), type);
  }
  const [start, limit, step] = [c.number(0), c.number(1), c.number(2)], type = c.type(0), dtype = c.dtype(type);
  const n = Math.max(0, Math.ceil((limit - start) / step));
  if (!Number.isFinite(n)) throw c.fail(`from ${start} to ${limit} by ${step} is no range`);
  const i = Tensor.arange(n).cast(dtype);
  return valueOf(n === 0 ? i : i.mul(c.x(2)).add(c.x(0)).cast(dtype), type);
}

function nonZero(c: Call): Result {
  const shape = c.shape(0), strides = stridesOf(shape), found: number[] = [];
  c.numbers(0).forEach((x, i) => x !== 0 && found.push(i));
  const rank = Math.max(1, shape.length);
  const at = shape.flatMap((n, a) => found.map((i) => Math.floor(i / strides[a]) % n));
  return knownValue(INT64, [shape.length === 0 ? 1 : rank, found.length], shape.length === 0 ? found : at);
}

function compress(c: Call): Result {
  const kept: number[] = [];
  c.numbers(1).forEach((x, i) => x !== 0 && kept.push(i));
  const x = c.hasAttribute("axis") ? c.x(0) : c.x(0).reshape([-1]);
  const axis = c.hasAttribute("axis") ? c.axis(c.int("axis"), x.ndim) : 0;
  const within = kept.filter((i) => i < x.shape[axis]);
  if (within.length === 0) {
    return valueOf(x.shrink(x.shape.map((n, i): [number, number] => [0, i === axis ? 0 : n])), c.type(0));
  }
  return valueOf(x.indexSelect(axis, placesOn(c, within)), c.type(0));
}

/** Distinct values or slices, on the host: how many there are decides on shapes. */
function unique(c: Call): Result {
  const v = c.value(0),
    all = v.isText ? c.texts(0) : c.numbers(0),
    sorted = c.int("sorted", 1) === 1,
    flat = !c.hasAttribute("axis");
  const shape = flat ? [v.count] : v.shape, axis = flat ? 0 : c.axis(c.int("axis"), shape.length), n = shape[axis];
  const outer = prod(shape.slice(0, axis)), inner = prod(shape.slice(axis + 1));
  const slices = Array.from({ length: n }, (_, i) => {
    const out: (number | string)[] = [];
    for (let o = 0; o < outer; o++) for (let k = 0; k < inner; k++) out.push(all[(o * n + i) * inner + k]);
    return out;
  });
  const groups = new Map<string, { first: number; count: number; slice: (number | string)[] }>();
  const keys = slices.map((s) => JSON.stringify(s.map(String)));
  slices.forEach((slice, i) => {
    const g = groups.get(keys[i]);
    if (g === undefined) groups.set(keys[i], { first: i, count: 1, slice });
    else g.count++;
  });
  const order = [...groups.keys()];
  if (sorted) {
    order.sort((a, b) => {
      const x = groups.get(a)!.slice, y = groups.get(b)!.slice, at = x.findIndex((e, i) => e !== y[i]);
      return at < 0 ? 0 : x[at] < y[at] ? -1 : 1;
    });
  }
  const place = new Map(order.map((k, i) => [k, i])), m = order.length, out: (number | string)[] = [];
  for (let o = 0; o < outer; o++) {
    for (const k of order) {
      for (let i = 0; i < inner; i++) out.push(groups.get(k)!.slice[o * inner + i]);
    }
  }
  return [
    knownValue(v.type, shape.map((s, i) => i === axis ? m : s), out as number[]),
    knownInts(order.map((k) => groups.get(k)!.first)),
    knownInts(keys.map((k) => place.get(k)!)),
    knownInts(order.map((k) => groups.get(k)!.count)),
  ];
}

/** The rows of this family. */
export const INDEXING: readonly OpRow[] = [
  op("Gather", gather),
  op("GatherElements", (c) => {
    const x = c.x(0), axis = c.axis(c.int("axis", 0), x.ndim), index = wrapped(c.x(1), x.shape[axis]);
    return valueOf(x.gather(axis, index), c.type(0));
  }),
  op("GatherND", gatherND),
  op("Scatter", scatterElements),
  op("ScatterElements", scatterElements),
  op("ScatterND", scatterND),
  op("TensorScatter", tensorScatter),
  op("OneHot", oneHot, [1]),
  op("Range", range, [0, 1, 2]),
  op("NonZero", nonZero, [0]),
  op("Compress", compress, [1]),
  op("Unique", unique, [0]),
  op(
    "ArrayFeatureExtractor",
    (c) => {
      const x = c.x(0), index = c.x(1).reshape([-1]), y = x.indexSelect(x.ndim - 1, index);
      return valueOf(x.ndim === 1 ? y.reshape([1, -1]) : y, c.type(0));
    },
    [],
    1,
    "ai.onnx.ml",
  ),
];
