/**
 * Operators on numbers that the host knows: what graphs do with shapes. In: a node whose inputs are all known and small;
 * out: known values, exactly those that a device would give (rounded to the type, wrapped to its bits), or undefined for
 * what is left to the device: so Shape, Gather, Concat, Reshape launch nothing.
 *
 * @module
 */
import { f16Round } from "../../dtype/float16.ts";
import { floorMod, prod, stridesOf } from "../../helpers/math.ts";
import { BOOL, DOUBLE, elementType, FLOAT, FLOAT16, INT64 } from "../wire/element_types.ts";
import type { Call } from "./node_call.ts";
import { areSymbolic, ON_SIZES, product, type Size, sizesText } from "./variable_sizes.ts";
import { HOST_LIMIT, knownInts, knownValue, Value } from "./value.ts";

type Fold = (c: Call) => Value | undefined | readonly Value[];
type Numbers = readonly number[];

/** Rounds to what a type holds; undefined for types that are left to devices. */
function fitterOf(type: number): ((x: number) => number) | undefined {
  if (type === FLOAT) return Math.fround;
  if (type === DOUBLE) return (x) => x;
  if (type === FLOAT16) return f16Round;
  if (type === BOOL) return (x) => x === 0 ? 0 : 1;
  const e = elementType(type)!;
  if (!e.dtype.isInt || e.dtype.bits !== e.bits) return undefined;
  if (e.bits === 64) return (x) => Math.trunc(x);
  const size = 2 ** e.bits, half = e.dtype.isUnsigned ? size : size / 2;
  return (x) => {
    const w = floorMod(Math.trunc(x), size);
    return w >= half ? w - size : w;
  };
}

/** Values that fit; undefined where one is beyond what doubles hold exactly. */
function fitted(type: number, shape: Numbers, data: number[]): Value | undefined {
  const fit = fitterOf(type);
  if (fit === undefined || data.length > HOST_LIMIT) return undefined;
  const isInt = elementType(type)!.dtype.isInt;
  for (let i = 0; i < data.length; i++) {
    if (isInt && !Number.isSafeInteger(Math.trunc(data[i]))) return undefined;
    data[i] = fit(data[i]);
  }
  return knownValue(type, shape, data);
}

/** The shape that shapes broadcast to; undefined where they do not. */
export function broadcastShape(shapes: readonly Numbers[]): number[] | undefined {
  const rank = Math.max(0, ...shapes.map((s) => s.length)), out = new Array<number>(rank).fill(1);
  for (const s of shapes) {
    for (let i = 0; i < s.length; i++) {
      const at = rank - s.length + i;
      if (s[i] === 1 || s[i] === out[at]) continue;
      if (out[at] !== 1) return undefined;
      out[at] = s[i];
    }
  }
  return out;
}

/** For each element of `shape` where it is in an array of shape `from`, which broadcasts to it. */
export function placesOf(shape: Numbers, from: Numbers): number[] {
  const strides = stridesOf(from), skip = shape.length - from.length, out: number[] = [];
  const step = shape.map((_, i) => i < skip || from[i - skip] === 1 ? 0 : strides[i - skip]);
  const walk = (axis: number, at: number): void => {
    if (axis === shape.length) out.push(at);
    else for (let i = 0; i < shape[axis]; i++) walk(axis + 1, at + i * step[axis]);
  };
  walk(0, 0);
  return out;
}

/** A function of elements, broadcast; the type of the result is that of an input, or given. */
function elementwise(f: (...xs: number[]) => number, type?: number, typeOf = 0): Fold {
  return (c) => {
    const shape = broadcastShape(c.inputs.map((_, i) => c.shape(i)));
    if (shape === undefined || prod(shape) > HOST_LIMIT) return undefined;
    if (c.inputs.some((v) => (v as Value).isSymbolic)) return onSizes(c, shape, type ?? c.type(typeOf));
    const sides = c.inputs.map((_, i) => ({ data: c.numbers(i), at: placesOf(shape, c.shape(i)) }));
    const out = new Array<number>(prod(shape));
    for (let k = 0; k < out.length; k++) out[k] = f(...sides.map(({ data, at }) => data[at[k]]));
    return fitted(type ?? c.type(typeOf), shape, out);
  };
}
/** The same where variables are among the numbers. */
function onSizes(c: Call, shape: Numbers, type: number): Value | undefined {
  const f = ON_SIZES[c.node.op],
    sides = c.inputs.map((_, i) => ({ data: c.sizes(i), at: placesOf(shape, c.shape(i)) }));
  if (f === undefined || type !== BOOL && !elementType(type)!.dtype.isInt) return undefined;
  const out: Size[] = [];
  for (let k = 0; k < prod(shape); k++) {
    const x = f(...sides.map(({ data, at }) => data[at[k]]));
    if (x === undefined) return undefined;
    out.push(x);
  }
  return knownValue(type, shape, out);
}
const divide: Fold = (c) => {
  const isInt = elementType(c.type(0))!.dtype.isInt;
  if (isInt && !(c.inputs[1] as Value).isSymbolic && c.numbers(1).includes(0)) return undefined;
  return elementwise((a, b) => isInt ? Math.trunc(a / b) : a / b)(c);
};
const modulo: Fold = (c) => {
  if (c.numbers(1).includes(0)) return undefined;
  return elementwise(c.int("fmod", 0) === 1 ? (a, b) => a % b : floorMod)(c);
};
const truth = (f: (a: number, b: number) => boolean): Fold => elementwise((a, b) => f(a, b) ? 1 : 0, BOOL);

/** The elements of `data` at flat places. */
function taken(c: Call, shape: Numbers, places: Numbers): Value {
  const { type } = c.value(0), data = c.data(0) as ArrayLike<number>;
  return knownValue(type, shape, places.map((p) => data[p]));
}
/** All flat places of a shape, nested by a strided start for each axis. */
function strided(shape: Numbers, strides: Numbers, start = 0): number[] {
  let out = [start];
  shape.forEach((n, axis) => {
    out = out.flatMap((at) => Array.from({ length: n }, (_, i) => at + i * strides[axis]));
  });
  return out;
}

/** Squeeze and Unsqueeze, by what becomes of the shape. */
const reshaped = (shapeOf: (c: Call) => readonly Size[] | undefined): Fold => (c) => {
  const shape = shapeOf(c), v = c.value(0); // what the host knows has no symbolic axes itself
  return shape && new Value(v.type, shape as Numbers, { data: v.data });
};

/** The shape that Squeeze gives. */
export function squeezedShape(c: Call): Size[] {
  const shape = c.value(0).sizes, axes = c.axes(1, shape.length);
  if (axes?.some((a) => shape[a] !== 1)) {
    throw c.fail(`${sizesText(shape)} has no size 1 at axes [${axes.join(", ")}]`);
  }
  return shape.filter((n, i) => axes === undefined ? n !== 1 : !axes.includes(i));
}
/** The shape that Unsqueeze gives. */
export function unsqueezedShape(c: Call): Size[] {
  const shape = [...c.value(0).sizes], rank = shape.length + (c.has(1) ? c.numbers(1) : c.ints("axes")).length;
  const axes = c.axes(1, rank)!;
  if (new Set(axes).size !== axes.length) throw c.fail(`axes [${axes.join(", ")}] are not distinct`);
  for (const a of axes.sort((a, b) => a - b)) shape.splice(a, 0, 1);
  return shape;
}
/** The shape that Reshape gives; where variables are in it, its -1 is left open. */
export function reshapedShape(c: Call): Size[] {
  const sizes = c.value(0).sizes;
  if (areSymbolic(sizes) || c.has(1) && c.value(1).isSymbolic) {
    const asked: readonly Size[] = c.has(1) ? c.sizes(1) : c.ints("shape"), zero = c.int("allowzero", 0) !== 0;
    return asked.map((n, i) => n === 0 && !zero ? sizes[i] ?? 0 : n);
  }
  const from = c.shape(0), given = c.has(1) ? c.numbers(1) : [...c.ints("shape")], keep = c.int("allowzero", 0) === 0;
  const shape = given.map((n, i) => n === 0 && keep ? from[i] ?? 0 : n), open = shape.indexOf(-1);
  if (shape.some((n) => n < -1) || open !== shape.lastIndexOf(-1)) throw c.fail(`[${given.join(", ")}] is no shape`);
  if (open >= 0) {
    const known = -prod(shape);
    shape[open] = known === 0 ? 0 : prod(from) / known;
  }
  if (prod(shape) !== prod(from) || !shape.every(Number.isInteger)) {
    throw c.fail(`[${from.join(", ")}] does not become [${given.join(", ")}]`);
  }
  return shape;
}

/** A start, size and step for each axis, as Slice says. */
export function sliceParts(c: Call): { starts: number[]; sizes: number[]; steps: number[] } {
  const shape = c.shape(0), rank = shape.length;
  const from = c.version < 10 ? c.ints("starts") : c.numbers(1), to = c.version < 10 ? c.ints("ends") : c.numbers(2);
  const axes = c.version < 10 ? c.ints("axes", from.map((_, i) => i)).map((a) => c.axis(a, rank)) : c.axes(3, rank);
  const by = c.has(4) ? c.numbers(4) : from.map(() => 1);
  const starts = shape.map(() => 0), sizes = [...shape], steps = shape.map(() => 1);
  (axes ?? from.map((_, i) => c.axis(i, rank))).forEach((a, k) => {
    const n = shape[a], step = by[k];
    if (step === 0 || step === undefined || from[k] === undefined || to[k] === undefined) {
      throw c.fail(`starts [${from.join(", ")}], ends [${to.join(", ")}] and steps [${by.join(", ")}] do not fit`);
    }
    const clip = (x: number): number => Math.max(step > 0 ? 0 : -1, Math.min(step > 0 ? n : n - 1, x < 0 ? x + n : x));
    const first = clip(from[k]), end = clip(to[k]);
    sizes[a] = Math.max(0, Math.ceil((end - first) / step));
    steps[a] = step;
    starts[a] = first;
  });
  return { starts, sizes, steps };
}

const slice: Fold = (c) => {
  const { starts, sizes, steps } = sliceParts(c), strides = stridesOf(c.shape(0));
  const start = starts.reduce((at, s, i) => at + s * strides[i], 0);
  return taken(c, sizes, prod(sizes) === 0 ? [] : strided(sizes, strides.map((s, i) => s * steps[i]), start));
};
const gather: Fold = (c) => {
  const shape = c.shape(0), axis = c.axis(c.int("axis", 0), shape.length), n = shape[axis], index = c.shape(1);
  const outer = prod(shape.slice(0, axis)), inner = prod(shape.slice(axis + 1)), places: number[] = [];
  for (let o = 0; o < outer; o++) {
    for (const i of c.numbers(1)) {
      if (!(i >= -n && i < n)) throw c.fail(`index ${i} is outside of ${n}`);
      for (let k = 0; k < inner; k++) places.push((o * n + (i < 0 ? i + n : i)) * inner + k);
    }
  }
  return taken(c, [...shape.slice(0, axis), ...index, ...shape.slice(axis + 1)], places);
};
const concat: Fold = (c) => {
  const first = c.shape(0), axis = c.axis(c.int("axis"), first.length), shape = [...first];
  const parts = c.inputs.map((_, i) => ({ data: c.data(i), shape: c.shape(i) }));
  if (parts.some((p) => p.shape.length !== shape.length || p.shape.some((n, i) => i !== axis && n !== shape[i]))) {
    return undefined;
  }
  shape[axis] = parts.reduce((n, p) => n + p.shape[axis], 0);
  const outer = prod(shape.slice(0, axis)), out: Size[] = [];
  for (let o = 0; o < outer; o++) {
    for (const p of parts) {
      const n = prod(p.shape.slice(axis));
      for (let i = 0; i < n; i++) out.push(p.data[o * n + i] as Size);
    }
  }
  return knownValue(c.type(0), shape, out);
};
const transpose: Fold = (c) => {
  const shape = c.shape(0),
    order = c.ints("perm", shape.map((_, i) => shape.length - 1 - i)),
    strides = stridesOf(shape);
  const sizes = order.map((a) => shape[a]);
  return taken(c, sizes, prod(sizes) === 0 ? [] : strided(sizes, order.map((a) => strides[a])));
};
const expand: Fold = (c) => {
  const shape = broadcastShape([c.shape(0), c.numbers(1)]);
  return shape === undefined || prod(shape) > HOST_LIMIT ? undefined : taken(c, shape, placesOf(shape, c.shape(0)));
};
const split: Fold = (c) => {
  const shape = c.shape(0), axis = c.axis(c.int("axis", 0), shape.length);
  if (!c.has(1) || shape.length !== 1 || axis !== 0) return undefined;
  let at = 0;
  return c.numbers(1).map((n) => {
    const places = Array.from({ length: n }, () => at++);
    return taken(c, [n], places);
  });
};
/** A reduction over all elements of a list, or of any shape over all axes. */
const reduced = (f: (a: number, b: number) => number, empty: number): Fold => (c) => {
  const shape = c.shape(0), axes = c.axes(1, shape.length) ?? [], keep = c.int("keepdims", 1) === 1;
  if (axes.length === 0 && c.int("noop_with_empty_axes", 0) === 1) return c.value(0);
  if (axes.length !== 0 && axes.length !== shape.length) return undefined;
  return fitted(c.type(0), keep ? shape.map(() => 1) : [], [c.numbers(0).reduce(f, empty)]);
};
const range: Fold = (c) => {
  const [start, limit, step] = [0, 1, 2].map((i) => c.number(i)), n = Math.max(0, Math.ceil((limit - start) / step));
  if (!Number.isFinite(n) || n > HOST_LIMIT || !elementType(c.type(0))!.dtype.isInt) return undefined;
  return knownValue(c.type(0), [n], Array.from({ length: n }, (_, i) => start + i * step));
};
const filled: Fold = (c) => {
  const shape = c.numbers(0), value = c.constant("value"), count = prod(shape);
  if (count > HOST_LIMIT || shape.some((n) => n < 0)) return undefined;
  return knownValue(value?.type ?? FLOAT, shape, new Array(count).fill(value?.numbers?.[0] ?? 0));
};
const cast: Fold = (c) => {
  const to = c.int("to"), from = elementType(c.type(0))!, target = elementType(to);
  if (c.value(0).isSymbolic) {
    return target?.dtype.isInt && target.bits >= 32 ? knownValue(to, c.shape(0), c.sizes(0)) : undefined;
  }
  if (c.value(0).isText || target === undefined || fitterOf(to) === undefined || fitterOf(from.code) === undefined) {
    return undefined;
  }
  if (target.dtype.isInt && c.numbers(0).some((x) => !Number.isFinite(x) || Math.abs(x) >= 2 ** 31)) {
    if (to !== INT64 || c.numbers(0).some((x) => !(Math.abs(x) <= 2 ** 53))) return undefined;
  }
  return fitted(to, c.shape(0), to === BOOL ? c.numbers(0).map((x) => x === 0 ? 0 : 1) : c.numbers(0));
};

/** Whether a text, or list of texts, is among the operators below that take text as well. */
const TEXT_TOO = new Set([
  "Gather",
  "Concat",
  "Slice",
  "Transpose",
  "Reshape",
  "Squeeze",
  "Unsqueeze",
  "Identity",
  "Expand",
  "Flatten",
]);

/** By the name of the operator, of ai.onnx. */
const FOLDS: Readonly<Record<string, Fold>> = {
  Add: elementwise((a, b) => a + b),
  Sub: elementwise((a, b) => a - b),
  Mul: elementwise((a, b) => a * b),
  Div: divide,
  Mod: modulo,
  Min: elementwise(Math.min),
  Max: elementwise(Math.max),
  Neg: elementwise((x) => -x),
  Abs: elementwise(Math.abs),
  Floor: elementwise(Math.floor),
  Ceil: elementwise(Math.ceil),
  Sqrt: elementwise(Math.sqrt),
  Equal: truth((a, b) => a === b),
  Less: truth((a, b) => a < b),
  LessOrEqual: truth((a, b) => a <= b),
  Greater: truth((a, b) => a > b),
  GreaterOrEqual: truth((a, b) => a >= b),
  And: truth((a, b) => a !== 0 && b !== 0),
  Or: truth((a, b) => a !== 0 || b !== 0),
  Not: elementwise((x) => x === 0 ? 1 : 0, BOOL),
  Where: elementwise((q, a, b) => q !== 0 ? a : b, undefined, 1),
  Identity: (c) => c.value(0),
  Cast: cast,
  Reshape: reshaped((c) => c.version >= 5 ? reshapedShape(c) : undefined),
  Squeeze: reshaped(squeezedShape),
  Unsqueeze: reshaped(unsqueezedShape),
  Slice: slice,
  Gather: gather,
  Concat: concat,
  Transpose: transpose,
  Expand: expand,
  Split: split,
  ReduceProd: reduced((a, b) => a * b, 1),
  ReduceSum: reduced((a, b) => a + b, 0),
  ReduceMax: reduced(Math.max, -Infinity),
  ReduceMin: reduced(Math.min, Infinity),
  Range: range,
  ConstantOfShape: filled,
  Size: (c) => knownInts(product(c.value(0).sizes)),
};
/** Of which operators, besides functions of elements, inputs may depend on variables, and which inputs. */
const SYMBOLIC_TOO: Readonly<Record<string, readonly number[] | "all">> = {
  Gather: [0],
  Concat: "all",
  Slice: [0],
  Transpose: [0],
  Reshape: [0],
  Squeeze: [0],
  Unsqueeze: [0],
  Identity: [0],
  Expand: [0],
  Split: [0],
  Cast: [0],
  Size: [0],
};

/** What a node of ai.onnx gives, where the host can tell by itself. */
export function foldOnHost(c: Call): readonly Value[] | undefined {
  const fold = FOLDS[c.node.op];
  if (fold === undefined || c.node.domain !== "" || c.version < 7 || c.inputs.length === 0) return undefined;
  for (const [i, v] of c.inputs.entries()) {
    if (v === undefined) continue;
    if (!(v instanceof Value) || v.data === undefined || v.data.length > HOST_LIMIT) return undefined;
    // ends of slices may be the largest integers: they are clamped
    if (!v.foldable && !(c.node.op === "Slice" && i > 0)) return undefined;
    if (v.isText && !TEXT_TOO.has(c.node.op)) return undefined;
    if (v.isSymbolic && ON_SIZES[c.node.op] === undefined) {
      const may = SYMBOLIC_TOO[c.node.op];
      if (may !== "all" && !may?.includes(i)) return undefined;
    }
  }
  if (c.inputs.includes(undefined) && c.node.op !== "Slice") return undefined;
  const found = fold(c);
  return found === undefined ? undefined : Array.isArray(found) ? found : [found as Value];
}
