/**
 * The oracle: evaluates an unscheduled tensor graph op by op, with plain loops over whole arrays. Slow and obvious; it
 * knows nothing of schedules, kernels or devices. In: a node of the tensor graph, and what each storage holds. Out: shape,
 * dtype and values, where every op has been rounded (floats) or wrapped (integers) to its dtype. Sums and products are
 * accumulated in double precision and rounded once. 64-bit integers are bigints, all other values numbers.
 */
import { bufferOf } from "../src/device/buffer.ts";
import { type DType, DTYPES, dtypes, smallFloatOf } from "../src/dtype/dtype.ts";
import { finfo } from "../src/dtype/limits.ts";
import { prod, stridesOf, wholeQuotient } from "../src/helpers/math.ts";
import type { AxesArg, BufferArg, PairsArg, ReduceArg, SkewArg, Storage, WindowArg } from "../src/uop/core/args.ts";
import { Int64 } from "../src/uop/core/args.ts";
import { boundValue, extentsOf } from "../src/uop/graph/extent.ts";
import { isAlu, isMovement, opName, Ops } from "../src/uop/core/ops.ts";
import { resolve } from "../src/uop/graph/resolve.ts";
import { shapeOf as largestShape } from "../src/uop/core/shape.ts";
import { toposort, type UOp } from "../src/uop/core/uop.ts";

/** The sizes of a node: of symbolic axes, what their variables are bound to. */
function shapeOf(u: UOp): readonly number[] {
  const extents = extentsOf(u), shape = largestShape(u);
  return extents === null ? shape : shape.map((n, i) => extents[i] === undefined ? n : boundValue(extents[i]!)!);
}

/** The elements of `v` within `shape`: an axis of a constant size has more than the symbolic one it stands beside. */
function within(v: Value, shape: readonly number[]): Value {
  if (v.shape.length === 0 || v.shape.every((n, i) => n === shape[i])) return v;
  const strides = stridesOf(v.shape), index = shape.map(() => 0);
  const data = Array.from({ length: prod(shape) }, () => {
    const value = v.data[index.reduce((p, i, a) => p + i * strides[a], 0)];
    for (let a = index.length - 1; a >= 0 && ++index[a] === shape[a]; a--) index[a] = 0;
    return value;
  });
  return { ...v, shape, data };
}

/** Row-major elements: bigints for int64 and uint64, numbers (0 and 1 for bool) for all others. */
export type Data = (number | bigint)[];

/** An array. */
export interface Value {
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly data: Data;
}

/** What a storage holds, in its dtype. */
export type ReadStorage = (storage: Storage) => ArrayLike<number | bigint>;

const is64 = (d: DType): boolean => d.isInt && d.bits === 64;

/** Nearest value with `mantissa` stored bits and exponents from `minExponent`; ties to even; infinite from `limit` on. */
function roundFloat(x: number, mantissa: number, minExponent: number, limit: number): number {
  if (x === 0 || !Number.isFinite(x)) return x;
  let exponent = Math.max(Math.floor(Math.log2(Math.abs(x))), minExponent);
  if (2 ** exponent > Math.abs(x) && exponent > minExponent) exponent--;
  const ulp = 2 ** (exponent - mantissa);
  const q = x / ulp, down = Math.floor(q), rest = q - down;
  const n = rest > 0.5 || (rest === 0.5 && down % 2 !== 0) ? down + 1 : down;
  const r = n * ulp;
  if (Math.abs(r) >= limit) return x < 0 ? -Infinity : Infinity;
  return r === 0 && x < 0 ? -0 : r;
}

/** Floats of fewer than 32 bits, and their largest numbers. */
const SMALL = new Map(
  DTYPES.filter((d) => smallFloatOf(d) !== undefined).map((d) => [d, { ...smallFloatOf(d)!, max: finfo(d).max }]),
);

/** A number rounded to a float dtype. What is too large for 8 bits is the largest that they hold. */
export function roundTo(x: number, d: DType): number {
  const small = SMALL.get(d);
  if (small === undefined) return d === dtypes.float32 ? Math.fround(x) : x;
  const { mantissa, bias, hasInfinity, max } = small;
  if (d.bits === 16) return roundFloat(x, mantissa, 1 - bias, 2 ** (bias + 1));
  if (hasInfinity && !Number.isFinite(x)) return x;
  return Math.max(-max, Math.min(max, roundFloat(x, mantissa, 1 - bias, Infinity)));
}

/** An integer wrapped to an integer dtype. */
function wrap(x: number | bigint, d: DType): number | bigint {
  if (is64(d)) {
    const big = typeof x === "bigint" ? x : BigInt(x);
    return d.isUnsigned ? BigInt.asUintN(64, big) : BigInt.asIntN(64, big);
  }
  if (typeof x === "bigint") return Number(d.isUnsigned ? BigInt.asUintN(d.bits, x) : BigInt.asIntN(d.bits, x));
  const m = 2 ** d.bits, w = ((x % m) + m) % m;
  return !d.isUnsigned && w >= m / 2 ? w - m : w;
}

/** What any op gives, brought into its dtype. */
function fit(x: number | bigint, d: DType): number | bigint {
  if (d.isFloat) return roundTo(Number(x), d);
  return d.isBool ? Number(Boolean(x)) : wrap(x, d);
}

/** A cast. Out of range, float to integer is unspecified at this level: here NaN and infinities give 0, all else wraps. */
function cast(x: number | bigint, from: DType, to: DType): number | bigint {
  if (to.isBool) return x === 0 || x === 0n ? 0 : 1; // NaN is true
  if (Number.isNaN(x) && !to.isFloat) return fit(0, to);
  if (from.isFloat && to.isInt) {
    const t = Math.trunc(x as number);
    return Number.isFinite(t) ? wrap(BigInt(t), to) : fit(0, to);
  }
  return fit(x, to);
}

const unary: Record<number, (x: number) => number> = {
  [Ops.EXP2]: (x) => 2 ** x,
  [Ops.LOG2]: Math.log2,
  [Ops.SIN]: Math.sin,
  [Ops.COS]: Math.cos,
  [Ops.SQRT]: Math.sqrt,
  [Ops.TRUNC]: Math.trunc,
  [Ops.NEG]: (x) => -x,
};

type Table<T> = Readonly<Record<number, (a: T, b: T) => T>>;

const COMPARE: Table<number> = {
  [Ops.CMPLT]: (a, b) => Number(a < b),
  [Ops.CMPNE]: (a, b) => Number(a !== b),
  [Ops.CMPEQ]: (a, b) => Number(a === b),
};

/** Integers of 32 bits and less that a double has exactly, which is quicker; and what floats have like these. */
const EXACT: Table<number> = {
  ...COMPARE,
  [Ops.ADD]: (a, b) => a + b,
  [Ops.SUB]: (a, b) => a - b,
  [Ops.MAX]: (a, b) => Math.max(a, b),
};

const FLOATS: Table<number> = {
  ...EXACT,
  [Ops.MUL]: (a, b) => a * b,
  [Ops.FDIV]: (a, b) => a / b,
  [Ops.CDIV]: wholeQuotient,
  [Ops.CMOD]: (a, b) => a % b,
};

const or = (a: number, b: number): number => a | b, and = (a: number, b: number): number => a & b;
const BOOLS: Table<number> = {
  ...COMPARE,
  [Ops.ADD]: or,
  [Ops.MAX]: or,
  [Ops.OR]: or,
  [Ops.MUL]: and,
  [Ops.AND]: and,
  [Ops.XOR]: (a, b) => a ^ b,
};

const modulo = (a: bigint, b: bigint): bigint => b === 0n ? 0n : ((a % b) + b) % b;
/** Integers of any width, exactly; the caller wraps. Division by zero is unspecified: here 0. */
const INTS: Table<bigint> = {
  [Ops.ADD]: (a, b) => a + b,
  [Ops.SUB]: (a, b) => a - b,
  [Ops.MUL]: (a, b) => a * b,
  [Ops.MAX]: (a, b) => a > b ? a : b,
  [Ops.CDIV]: (a, b) => b === 0n ? 0n : a / b,
  [Ops.CMOD]: (a, b) => b === 0n ? 0n : a % b,
  [Ops.FLOORDIV]: (a, b) => b === 0n ? 0n : (a - modulo(a, b)) / b,
  [Ops.FLOORMOD]: modulo,
  [Ops.AND]: (a, b) => a & b,
  [Ops.OR]: (a, b) => a | b,
  [Ops.XOR]: (a, b) => a ^ b,
  [Ops.SHL]: (a, b) => a << b,
  [Ops.SHR]: (a, b) => a >> b,
  [Ops.CMPLT]: (a, b) => BigInt(a < b),
  [Ops.CMPNE]: (a, b) => BigInt(a !== b),
  [Ops.CMPEQ]: (a, b) => BigInt(a === b),
};

function entry<T>(table: Table<T>, op: Ops, what: string): (a: T, b: T) => T {
  if (table[op] === undefined) throw new Error(`no ${opName[op]} on ${what}`);
  return table[op];
}

function binary(op: Ops, a: number | bigint, b: number | bigint, operands: DType, result: DType): number | bigint {
  if (operands.isFloat) return fit(entry(FLOATS, op, "floats")(a as number, b as number), result);
  if (operands.isBool) return fit(entry(BOOLS, op, "bool")(a as number, b as number), result);
  if (typeof a === "number" && EXACT[op] !== undefined) return fit(EXACT[op](a, b as number), result);
  return fit(entry(INTS, op, "integers")(BigInt(a), BigInt(b)), result);
}

function elementwise(u: UOp, src: readonly Value[]): Data {
  const n = prod(shapeOf(u)), out: Data = new Array(n);
  const at = (v: Value, i: number) => v.data[v.shape.length === 0 ? 0 : i];
  const [a, b, c] = src.map((v) => within(v, shapeOf(u)));
  for (let i = 0; i < n; i++) {
    if (u.op === Ops.CAST) out[i] = cast(at(a, i), a.dtype, u.dtype);
    else if (u.op === Ops.WHERE) out[i] = at(a, i) ? at(b, i) : at(c, i);
    else if (u.op === Ops.MULACC) {
      out[i] = binary(Ops.ADD, binary(Ops.MUL, at(a, i), at(b, i), u.dtype, u.dtype), at(c, i), u.dtype, u.dtype);
    } else if (src.length === 1) {
      const x = at(a, i);
      out[i] = u.dtype.isFloat ? fit(unary[u.op](x as number), u.dtype) : fit(u.op === Ops.NEG ? -x : x, u.dtype); // TRUNC leaves integers alone
    } else out[i] = binary(u.op, at(a, i), at(b, i), a.dtype, u.dtype);
  }
  return out;
}

/** For each output axis, where output index i reads: offset in the source, −1 for padding. */
function moveTables(u: UOp, from: readonly number[]): number[][] {
  const shape = shapeOf(u), strides = stridesOf(from);
  const table = (axis: number, f: (i: number) => number) => Array.from({ length: shape[axis] }, (_, i) => f(i));
  return shape.map((_, axis) => {
    const s = strides[axis], n = from[axis];
    switch (u.op) {
      case Ops.EXPAND:
        return table(axis, (i) => n === 1 ? 0 : i * s);
      case Ops.PERMUTE:
        return table(axis, (i) => i * strides[(u.arg as AxesArg).axes[axis]]);
      case Ops.FLIP:
        return table(axis, (i) => (u.arg as AxesArg).axes.includes(axis) ? (n - 1 - i) * s : i * s);
      case Ops.SHRINK:
        return table(axis, (i) => (i + (u.arg as PairsArg).pairs[axis][0]) * s);
      case Ops.PAD: {
        const before = (u.arg as PairsArg).pairs[axis][0];
        return table(axis, (i) => i < before || i >= before + n ? -1 : (i - before) * s);
      }
      case Ops.WINDOW: {
        if (axis !== (u.arg as WindowArg).axis) return table(axis, (i) => i * s);
        const start = boundValue(u.src[1])!;
        return table(axis, (i) => i + start < 0 || i + start >= n ? -1 : (i + start) * s);
      }
    }
    throw new Error(`${opName[u.op]} is no movement`);
  });
}

/** UNSKEW and SKEW, by their definition. */
function skewed(u: UOp, x: Value): Data {
  const { axis, kernelAxis, stride, dilation } = u.arg as SkewArg;
  const shape = shapeOf(u), strides = stridesOf(x.shape), n = prod(shape);
  const index = new Array<number>(shape.length).fill(0), zero = is64(u.dtype) ? 0n : 0;
  return Array.from({ length: n }, () => {
    const from = index.slice();
    const shift = index[kernelAxis] * dilation;
    from[axis] = u.op === Ops.UNSKEW ? index[axis] * stride + shift : (index[axis] - shift) / stride;
    const inside = Number.isInteger(from[axis]) && from[axis] >= 0 && from[axis] < x.shape[axis];
    const value = inside ? x.data[from.reduce((p, i, a) => p + i * strides[a], 0)] : zero;
    for (let a = index.length - 1; a >= 0 && ++index[a] === shape[a]; a--) index[a] = 0;
    return value;
  });
}

/** The elements of `x` as the movement op `u` places them. */
export function movement(u: UOp, x: Value): Data {
  if (u.op === Ops.RESHAPE) return x.data;
  if (u.op === Ops.UNSKEW || u.op === Ops.SKEW) return skewed(u, x);
  const shape = shapeOf(u), tables = moveTables(u, x.shape);
  const n = prod(shape), out: Data = new Array(n), zero = is64(u.dtype) ? 0n : 0;
  const index = new Array<number>(shape.length).fill(0);
  for (let i = 0; i < n; i++) {
    let offset = 0;
    for (let axis = 0; axis < index.length && offset >= 0; axis++) {
      const o = tables[axis][index[axis]];
      offset = o < 0 ? -1 : offset + o;
    }
    out[i] = offset < 0 ? zero : x.data[offset];
    for (let axis = index.length - 1; axis >= 0 && ++index[axis] === shape[axis]; axis--) index[axis] = 0;
  }
  return out;
}

function lowest(d: DType): number | bigint {
  if (d.isFloat) return -Infinity;
  if (d.isBool || d.isUnsigned) return fit(0, d);
  return is64(d) ? -(2n ** 63n) : -(2 ** (d.bits - 1));
}

function reduce(u: UOp, x: Value): Data {
  const { op, axes } = u.arg as ReduceArg;
  const d = u.dtype, wide = d.isFloat ? dtypes.float64 : d;
  const shape = shapeOf(u), strides = stridesOf(shape).map((s, axis) => axes.includes(axis) ? 0 : s);
  const identity = op === Ops.ADD ? fit(0, d) : op === Ops.MUL ? fit(1, d) : lowest(d);
  const out: Data = new Array(prod(shape)).fill(identity);
  const index = new Array<number>(x.shape.length).fill(0);
  for (let i = 0; i < x.data.length; i++) {
    let offset = 0;
    for (let axis = 0; axis < index.length; axis++) offset += index[axis] * strides[axis];
    out[offset] = binary(op as Ops, out[offset], x.data[i], wide, wide);
    for (let axis = index.length - 1; axis >= 0 && ++index[axis] === x.shape[axis]; axis--) index[axis] = 0;
  }
  return out.map((v) => fit(v, d));
}

/** What each byte means as fp8. */
function tiny(d: DType): readonly number[] {
  const { mantissa: bits, bias, hasInfinity: infinite } = SMALL.get(d)!;
  return Array.from({ length: 256 }, (_, i) => {
    const sign = i < 128 ? 1 : -1, exponent = (i & 127) >> bits, fraction = (i & (2 ** bits - 1)) / 2 ** bits;
    if (infinite ? exponent === 127 >> bits : (i & 127) === 127) {
      return infinite && fraction === 0 ? sign * Infinity : NaN;
    }
    return sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias));
  });
}

/** The bytes of values, little endian. */
export function encode(data: ArrayLike<number | bigint>, d: DType): Uint8Array {
  const size = d.itemsize, view = new DataView(new ArrayBuffer(data.length * size));
  for (let i = 0; i < data.length; i++) {
    const x = data[i], at = i * size;
    if (d === dtypes.float64) view.setFloat64(at, Number(x), true);
    else if (d === dtypes.float32) view.setFloat32(at, Number(x), true);
    else if (d === dtypes.float16) view.setFloat16(at, Number(x), true);
    else if (d === dtypes.bfloat16) {
      const word = new DataView(new ArrayBuffer(4));
      word.setFloat32(0, Number(x), true);
      view.setUint16(at, word.getUint16(2, true), true);
    } else if (d.isFloat) view.setUint8(at, tiny(d).findIndex((v) => Object.is(v, Number(x))) & 0xff);
    else if (size === 8) view.setBigUint64(at, BigInt.asUintN(64, BigInt(x)), true);
    else if (size === 4) view.setUint32(at, Number(x) >>> 0, true);
    else if (size === 2) view.setUint16(at, Number(x) & 0xffff, true);
    else view.setUint8(at, Number(x) & 0xff);
  }
  return new Uint8Array(view.buffer);
}

/** The values of bytes, little endian. */
export function decode(bytes: Uint8Array, d: DType): Data {
  const size = d.itemsize, view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out: Data = [];
  for (let at = 0; at + size <= bytes.length; at += size) {
    if (d === dtypes.float64) out.push(view.getFloat64(at, true));
    else if (d === dtypes.float32) out.push(view.getFloat32(at, true));
    else if (d === dtypes.float16) out.push(view.getFloat16(at, true));
    else if (d === dtypes.bfloat16) {
      const word = new DataView(new ArrayBuffer(4));
      word.setUint16(2, view.getUint16(at, true), true);
      out.push(word.getFloat32(0, true));
    } else if (d.isFloat) out.push(tiny(d)[view.getUint8(at)]);
    else if (size === 8) out.push(wrap(view.getBigUint64(at, true), d));
    else if (d.isBool) out.push(view.getUint8(at) ? 1 : 0);
    else {out.push(
        wrap(size === 4 ? view.getUint32(at, true) : size === 2 ? view.getUint16(at, true) : view.getUint8(at), d),
      );}
  }
  return out;
}

/** What lies under a chain of movement ops. */
function baseOf(u: UOp): UOp {
  while (isMovement(u.op) || (u.op === Ops.BITCAST && u.dtype.itemsize === u.src[0].dtype.itemsize)) u = u.src[0];
  return u;
}

/** A view (a chain of movement ops over `base`) of other contents of `base`. */
function viewThrough(u: UOp, base: UOp, contents: Data): Data {
  const chain: UOp[] = [];
  for (let v = u; v !== base; v = v.src[0]) chain.push(v);
  let value: Value = { shape: shapeOf(base), dtype: base.dtype, data: contents };
  for (const v of chain.reverse()) {
    const data = v.op === Ops.BITCAST ? value.data : movement(v, value);
    value = { shape: shapeOf(v), dtype: v.dtype, data };
  }
  return value.data;
}

/** The contents of src[0] after the STOREs, in order. */
export function after(u: UOp, values: ReadonlyMap<UOp, Value>): Data {
  const base = baseOf(u.src[0]), contents = values.get(base)!.data.slice();
  const places = contents.map((_, i) => i + 1); // 0 is what padding would give: nothing to write there
  for (const s of u.src.slice(1)) {
    if (s.op !== Ops.STORE) continue;
    const [target, value] = [s.src[0], values.get(s.src[1])!];
    if (baseOf(target) !== base) throw new Error("a STORE that does not write into src[0] of its AFTER");
    let stored = value.data;
    if (target.dtype !== base.dtype) stored = decode(encode(stored, target.dtype), base.dtype);
    viewThrough(target, base, places).forEach((place, i) => {
      if (place !== 0) contents[(place as number) - 1] = stored[value.shape.length === 0 ? 0 : i];
    });
  }
  return viewThrough(u.src[0], base, contents);
}

/** The elements of one node, from the values of its sources. */
export function compute(u: UOp, values: ReadonlyMap<UOp, Value>, read: ReadStorage): Data {
  const src = u.src.map((s) => values.get(s)!);
  switch (u.op) {
    case Ops.CONST:
      return [fit(u.arg instanceof Int64 ? u.arg.toBigInt() : u.arg as number, u.dtype)];
    case Ops.BUFFER: {
      const { storage } = u.arg as BufferArg;
      return Array.from(read(storage), (x) => is64(u.dtype) ? BigInt(x) : Number(x));
    }
    case Ops.IOTA:
      return Array.from({ length: u.arg as number }, (_, i) => fit(i, u.dtype));
    case Ops.BIND:
      return src[1].data;
    case Ops.VARIABLE:
      throw new Error("an unbound variable has no value");
    case Ops.CONTIGUOUS:
    case Ops.CONTIGUOUS_BACKWARD:
    case Ops.DETACH:
    case Ops.CHECKPOINT:
    case Ops.COPY:
      return src[0].data;
    case Ops.REDUCE:
      return reduce(u, src[0]);
    case Ops.AFTER:
      return after(u, values);
    case Ops.BITCAST:
      return decode(encode(src[0].data, src[0].dtype), u.dtype);
  }
  if (isMovement(u.op)) return movement(u, src[0]);
  if (isAlu(u.op)) return elementwise(u, src);
  throw new Error(`${opName[u.op]} does not belong into a tensor graph`);
}

/** The value of a tensor-graph node. Realized nodes are read through what they became. */
export function evaluate(root: UOp, read: ReadStorage = readStorage): Value {
  const u = resolve(root), values = new Map<UOp, Value>();
  for (const v of toposort(u)) {
    if (v.op === Ops.STORE || v.op === Ops.VARIABLE) continue; // no value of their own
    values.set(v, { shape: shapeOf(v), dtype: v.dtype, data: compute(v, values, read) });
  }
  return values.get(u)!;
}

/** What a storage holds on a device that can be read synchronously. */
export function readStorage(storage: Storage): Data {
  const buffer = bufferOf(storage);
  if (buffer === undefined) throw new Error(`storage ${storage.id} on ${storage.device} holds nothing yet`);
  return decode(buffer.copyOut(new Uint8Array(buffer.nbytes)), storage.dtype);
}

/** The value of a tensor, as numbers. */
export function evaluateTensor(t: { readonly uop: UOp }): { data: number[]; shape: number[]; dtype: DType } {
  const { data, shape, dtype } = evaluate(t.uop);
  return { data: data.map(Number), shape: [...shape], dtype };
}
