/**
 * New tensors as nodes: from values of JavaScript, constants, ramps, empty memory, random draws. Host data enters as a
 * BUFFER on device JS and a COPY to the target; constants have no memory and no device of their own.
 *
 * @module
 */
import type { ForeignMemory } from "../../device/allocator.ts";
import { attachBuffer, Buffer } from "../../device/buffer.ts";
import { canonicalize, defaultDevice, type DeviceName, getDevice, knownDevice } from "../../device/device.ts";
import { complexOf, type DType, type DTypeLike, dtypes, toDType } from "../../dtype/dtype.ts";
import { defaultFloat, defaultInt, holdsWhole, promoteAll, promoteScalar } from "../../dtype/promotion.ts";
import { wantsLines } from "../../helpers/env.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { checkInteger, checkOptions, checkValue, describe, isPlain } from "../../helpers/options.ts";
import { Site } from "../../helpers/stack.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { simplifySize } from "../../uop/algebra/sizes.ts";
import { Storage } from "../../uop/core/args.ts";
import { broadcastTo, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../../uop/core/shape.ts";
import { bufferNode, iota, UOp, uop } from "../../uop/core/uop.ts";
import { fromPairs } from "../../uop/graph/complex.ts";
import { aligned, extentText, isBoundNode } from "../../uop/graph/extent.ts";
import { eqNode } from "../nodes/compare_nodes.ts";
import {
  type ComplexValue,
  copyBytes,
  dtypeOfArray,
  flattenNested,
  isComplexValue,
  packHost,
  packPairs,
  type TypedArray,
} from "../nodes/host.ts";
import { catNodes, iotaAlong } from "../nodes/movement_nodes.ts";
import { floatConst } from "../nodes/numeric.ts";
import { castNode, complexConst, inferDType, scalarConst } from "../nodes/scalars.ts";
import { isTensor, type NestedArray, TensorBase } from "./base.ts";
import { checkSameDevice } from "./broadcast.ts";
import { type Dim, dimNode, sized, sizeName } from "./dims.ts";

/** Nested lists in which tensors of one shape stand for values. */
export type NestedTensors = readonly (NestedArray[number] | TensorBase | NestedTensors)[];
/** What a tensor can be made of. */
export type TensorData = NestedTensors | NestedArray[number] | ArrayBuffer | UOp | null;

/** Options of constructors of tensors. */
export interface TensorOptions {
  /** A DType or its name. */
  readonly dtype?: DTypeLike;
  /** Where it lives: "WASM", "CUDA:1". Default: the default device. */
  readonly device?: DeviceName;
  /** Whether `backward()` fills `grad`; needs a float dtype, and makes one the default. */
  readonly requiresGrad?: boolean;
}

/** The names in {@linkcode TensorOptions}. */
export const TENSOR_OPTIONS: readonly string[] = ["dtype", "device", "requiresGrad"];

/**
 * A node for host bytes: a buffer on device JS, of a copy of them, copied to `device`. `weak` where they are whole
 * numbers that nobody gave a dtype.
 */
export function hostNode(
  bytes: Uint8Array,
  dtype: DType,
  shape: readonly number[],
  device?: string,
  weak = false,
): UOp {
  if (dtype.isComplex) return fromPairs(hostNode(bytes, dtype.real, [...shape, 2], device));
  const target = device === undefined ? defaultDevice() : knownDevice(device);
  const size = prod(shape);
  const storage = new Storage("JS", dtype, size), host = new Buffer(getDevice("JS"), dtype, size).copyIn(bytes);
  storage.staging = target !== "JS";
  storage.weak = weak;
  if (storage.staging) host.use = "values not yet on their device";
  host.shape = shape;
  if (wantsLines()) host.madeAt = new Site();
  attachBuffer(storage, host);
  const buffer = bufferNode(storage);
  return reshape(target === "JS" ? buffer : uop(Ops.COPY, dtype, [buffer], target), shape);
}

/**
 * A node for any data, in `dtype` if given. `beside`: the dtype of the tensor that lists stand beside.
 *
 * @throws {ShapeError} for ragged lists, {ArgumentError} for other things, {DTypeError} for a bigint that does not fit
 */
export function dataNode(data: unknown, options: TensorOptions, beside?: DType): UOp {
  const action = "create a tensor";
  let dtype = options.dtype === undefined ? undefined : toDType(options.dtype);
  if (data instanceof UOp) return placed(castNode(data, dtype ?? data.dtype), options.device);
  const isLoose = !ArrayBuffer.isView(data) && !Array.isArray(data) && !isComplexValue(data);
  if (options.requiresGrad && isLoose) dtype ??= defaultFloat();
  if (typeof data === "number" || typeof data === "boolean" || typeof data === "bigint") {
    dtype ??= inferDType([data]);
    if (dtype.isInt) checkFinite(action, [data], dtype);
    return placed(scalarConst(data, dtype), options.device);
  }
  if (isComplexValue(data)) {
    dtype ??= inferDType([data]);
    return placed(castNode(complexConst(data, complexOf(dtype)), dtype), options.device);
  }
  if (data === undefined || data === null) {
    return hostNode(new Uint8Array(0), dtype ?? defaultFloat(), [0], options.device);
  }
  if (Array.isArray(data)) {
    const { shape, flat, typed } = flattenNested(action, data, isTensor);
    if (flat.some(isTensor)) return joinedNode(action, flat, shape, options);
    if (options.requiresGrad && !flat.some(isComplexValue)) dtype ??= defaultFloat();
    const weak = dtype === undefined && typed.length === 0;
    dtype ??= typed.length === 0 ? inferDType(flat, beside) : typedDType(flat, typed);
    if (dtype.isComplex) return hostNode(packPairs(flat, dtype), dtype, shape, options.device);
    const values = checkReal(action, flat, dtype);
    if (dtype.isInt) checkFinite(action, values, dtype);
    const isWhole = dtype.isInt && (dtype === defaultInt() || !values.some((v) => typeof v === "bigint"));
    return hostNode(packHost(values, dtype), dtype, shape, options.device, weak && isWhole);
  }
  if (data instanceof ArrayBuffer) return dataNode(new Uint8Array(data), options);
  const from = dtypeOfArray(data);
  if (from !== undefined) {
    const array = data as Exclude<TypedArray, Uint8ClampedArray>;
    dtype ??= options.requiresGrad && !from.isFloat ? defaultFloat() : from;
    const values = array as ArrayLike<number | bigint>;
    const bytes = dtype.isComplex
      ? packPairs(values, dtype)
      : dtype === from
      ? copyBytes(array)
      : packHost(values, dtype);
    return hostNode(bytes, dtype, [array.length], options.device);
  }
  const what = typeof data !== "object" ? `a ${typeof data}` : isPlain(data) ? "this object" : describe(data);
  throw new ArgumentError(action, {
    reason: `${what} is no data; give a number, boolean, bigint, { re, im }, nested lists of them, or a TypedArray${
      data instanceof TensorBase ? " (t.clone() copies a tensor, t.cast(dtype) converts it)" : ""
    }`,
  });
}

/** Tensors of one shape, and scalars beside them, as a node: lists of `shape` of them. */
function joinedNode(action: string, list: readonly unknown[], shape: readonly number[], options: TensorOptions): UOp {
  const parts = list.map((x) => isTensor(x) ? x.uop : undefined), known = parts.filter((u) => u !== undefined);
  const home = known.find((u) => deviceOf(u) !== null) ?? known[0], sizes = shapeOf(home);
  let dtype = promoteAll(known.map((u) => u.dtype));
  for (const x of list as (Parameters<typeof promoteScalar>[1] | ComplexValue)[]) {
    if (!isTensor(x)) dtype = isComplexValue(x) ? inferDType([x], dtype) : promoteScalar(dtype, x);
  }
  if (options.dtype !== undefined) dtype = toDType(options.dtype);
  const nodes = list.map((x, i) => {
    const u = parts[i] ?? dataNode(x, { dtype }), own = shapeOf(u);
    checkSameDevice(action, home, u);
    if (own.join() === sizes.join()) return reshape(castNode(u, dtype), [1, ...sizes]);
    throw new ShapeError(action, { shapes: [sizes, own], reason: "entries of a list must all have one shape" });
  });
  return placed(reshape(catNodes(nodes, 0), [...shape, ...sizes]), options.device);
}

/** The dtype of lists with TypedArrays: what these and the values beside them promote to. */
function typedDType(
  flat: readonly (number | boolean | bigint | ComplexValue)[],
  typed: readonly (readonly [array: TypedArray, end: number])[],
): DType {
  const all = typed.map(([array]) => dtypeOfArray(array)!), loose: (number | boolean | bigint | ComplexValue)[] = [];
  let at = 0;
  for (const [array, end] of typed) {
    while (at < end - array.length) loose.push(flat[at++]);
    at = end;
  }
  while (at < flat.length) loose.push(flat[at++]);
  return promoteAll(loose.length === 0 ? all : [...all, inferDType(loose)]);
}

/** Throws for the first value that is complex. @throws {DTypeError} */
function checkReal(
  action: string,
  values: readonly (number | boolean | bigint | ComplexValue)[],
  dtype: DType,
): readonly (number | boolean | bigint)[] {
  const at = values.findIndex((v) => typeof v === "object");
  if (at < 0) return values as readonly (number | boolean | bigint)[];
  throw new DTypeError(`${action} of dtype`, {
    dtypes: [dtype],
    reason: `value ${at} is a complex number; give { dtype: "${complexOf(dtype)}" }, or its real part`,
  });
}

/** Throws for the first value that is no number an integer can be made of, or a bigint beyond the dtype. @throws {DTypeError} */
function checkFinite(action: string, values: readonly (number | boolean | bigint)[], dtype: DType): void {
  const at = values.findIndex((v) => typeof v === "number" && !Number.isFinite(v));
  if (at >= 0) {
    throw new DTypeError(`${action} of dtype`, { dtypes: [dtype], reason: `value ${at} is ${values[at]}, no integer` });
  }
  const far = values.find((v) => typeof v === "bigint" && !holdsWhole(dtype, v));
  if (far === undefined) return;
  const wide = [dtypes.int64, dtypes.uint64].find((d) => holdsWhole(d, far as bigint));
  throw new DTypeError(`${action} of dtype`, {
    dtypes: [dtype],
    reason: `${far} does not fit; ${wide === undefined ? "no integer dtype holds it" : `give { dtype: "${wide}" }`}`,
  });
}

/** `u` on `device`: constants need no copy on the default device. @throws {DeviceError} for an unknown device */
export function placed(u: UOp, device: string | undefined): UOp {
  if (device === undefined) return u;
  const target = knownDevice(device);
  const from = deviceOf(u);
  if (from === target) return u;
  if (from === null && target === defaultDevice()) return u;
  return uop(Ops.COPY, u.dtype, [u], target);
}

/** A constant, or a bound variable, under `shape`. @throws {ArgumentError} for what is neither */
export function fullNode(
  shape: readonly number[],
  value: number | boolean | bigint | ComplexValue | TensorBase,
  dtype?: DType,
): UOp {
  if (value instanceof TensorBase && isBoundNode(value.uop)) {
    return broadcastTo(castNode(value.uop, dtype ?? value.dtype), shape);
  }
  if (isComplexValue(value)) {
    dtype ??= inferDType([value]);
    return broadcastTo(castNode(complexConst(value, complexOf(dtype)), dtype), shape);
  }
  if (typeof value !== "number" && typeof value !== "boolean" && typeof value !== "bigint") {
    throw new ArgumentError("fill a tensor", {
      reason: `the value must be a scalar or a bound variable, not ${describe(value)}`,
    });
  }
  dtype ??= inferDType([value]);
  if (typeof value === "bigint" && dtype.isInt && !holdsWhole(dtype, value)) {
    throw new DTypeError(`fill a tensor with ${value} in dtype`, { dtypes: [dtype], reason: "it does not fit" });
  }
  return broadcastTo(scalarConst(value, dtype), shape);
}

/** Memory that nothing has written. */
export function emptyNode(shape: readonly number[], dtype: DType, device?: string): UOp {
  if (dtype.isComplex) return fromPairs(emptyNode([...shape, 2], dtype.real, device));
  const target = device === undefined ? defaultDevice() : canonicalize(device);
  const size = prod(shape);
  const storage = new Storage(target, dtype, size);
  const memory = new Buffer(getDevice(target), dtype, size);
  memory.shape = shape;
  if (wantsLines()) memory.madeAt = new Site();
  attachBuffer(storage, memory);
  return reshape(bufferNode(storage), shape);
}

/**
 * Foreign memory as a tensor: used where it is on devices whose memory it is, else copied now.
 *
 * @throws {ArgumentError} for what is no memory, {ShapeError} where there is too little
 */
export function blobNode(memory: unknown, shape: readonly number[], options: TensorOptions): UOp {
  const asked = options.dtype === undefined ? undefined : toDType(options.dtype);
  if (asked?.isComplex) return fromPairs(blobNode(memory, [...shape, 2], { ...options, dtype: asked.real }));
  const action = "make a tensor of memory";
  const target = options.device === undefined ? defaultDevice() : knownDevice(options.device);
  let source: ForeignMemory, given: number | undefined, dtype: DType | undefined;
  if (memory instanceof ArrayBuffer || memory instanceof SharedArrayBuffer) source = new Uint8Array(memory);
  else if (ArrayBuffer.isView(memory)) {
    dtype = dtypeOfArray(memory);
    source = new Uint8Array(memory.buffer, memory.byteOffset, memory.byteLength);
  } else if (typeof memory === "bigint" && memory > 0n && memory < 1n << 64n) source = memory;
  else if (typeof memory === "object" && memory !== null && Object.getPrototypeOf(memory) === null) source = memory;
  else {
    throw new ArgumentError(action, {
      reason: `${describe(memory)} is no memory; give a TypedArray, an ArrayBuffer, a pointer of Deno's or an address`,
    });
  }
  if (source instanceof Uint8Array) given = source.byteLength;
  dtype = asked ?? dtype;
  dtype ??= defaultFloat();
  const size = prod(shape), nbytes = size * dtype.itemsize;
  if (given !== undefined && given < nbytes) {
    throw new ShapeError(action, { shapes: [shape], reason: `${dtype} needs ${nbytes} bytes, and there are ${given}` });
  }
  const device = getDevice(target), host = getDevice("JS");
  let found: Buffer;
  try {
    found = Buffer.adopt(device, dtype, size, source) ??
      new Buffer(device, dtype, size).copyIn(Buffer.adopt(host, dtype, size, source)!.copyOut(new Uint8Array(nbytes)));
  } catch (error) {
    if (!(error instanceof TypeError) || error instanceof ArgumentError) throw error;
    throw new ArgumentError(action, { reason: `${describe(memory)} is no pointer to memory (${error.message})` });
  }
  const storage = new Storage(target, dtype, size);
  found.shape = shape;
  found.use = "memory of somebody else";
  if (wantsLines()) found.madeAt = new Site();
  attachBuffer(storage, found);
  return reshape(bufferNode(storage), shape);
}

/**
 * start, start + step, ... below stop (above for a negative step).
 *
 * @throws {ArgumentError} for a step of 0, {DTypeError} if an integer dtype cannot hold the values
 */
export function arangeNode(start: number, stop: number | undefined, step: number, dtype?: DType): UOp {
  const action = "make an arange";
  if (stop === undefined) [start, stop] = [0, start];
  for (const x of [start, stop, step]) {
    if (typeof x !== "number" || !Number.isFinite(x)) {
      throw new ArgumentError(action, { reason: `start, stop and step must be finite numbers, not ${describe(x)}` });
    }
  }
  if (step === 0) throw new ArgumentError(action, { reason: "the step must not be 0" });
  const n = Math.max(0, Math.ceil((stop - start) / step));
  if (!Number.isSafeInteger(n)) {
    throw new ArgumentError(action, {
      reason: `from ${start} to ${stop} by ${step} there are ${n} values, beyond 2^53`,
    });
  }
  const whole = [start, stop, step].every((x) => Number.isInteger(x) && !Object.is(x, -0));
  const last = start + step * (n - 1);
  const fits = (bits: number) => [start, last].every((x) => x >= -(2 ** (bits - 1)) && x < 2 ** (bits - 1));
  dtype ??= whole ? n === 0 || fits(32) ? defaultInt() : dtypes.int64 : defaultFloat();
  if (whole && dtype.isInt && n > 0) {
    const low = dtype.isUnsigned ? 0 : -(2 ** (dtype.bits - 1));
    const high = dtype.isUnsigned ? 2 ** dtype.bits : 2 ** (dtype.bits - 1);
    if ([start, last].some((x) => x < low || x >= high)) {
      throw new DTypeError(`${action} of dtype`, { dtypes: [dtype], reason: `it cannot hold ${start} to ${last}` });
    }
  }
  if (n === 0) return emptyRow(dtype);
  // Floats and small integers are computed wide: each element is rounded once.
  const wide = whole ? dtype.isInt && dtype.bits === 64 ? dtype : fits(32) ? dtypes.int32 : dtypes.int64 : dtype;
  const calc = wide.isFloat ? wide.bits < 32 ? dtypes.float32 : wide : wide.isInt ? wide : dtypes.float32;
  const row = castNode(iota(n), calc);
  const scaled = step === 1 ? row : row.mul(scalarConst(step, calc));
  return castNode(start === 0 ? scaled : scaled.add(scalarConst(start, calc)), dtype);
}

/**
 * {@linkcode arangeNode} of integers, some of them variables; none where the stop is behind the start.
 * @throws {ArgumentError} for what is no integer, and a step that may be 0
 */
export function arangeSized(start: Dim, stop: Dim, step: Dim, dtype: DType = defaultInt()): UOp {
  const action = "make an arange";
  if (!(step instanceof TensorBase)) checkInteger(action, "the step beside a variable", step);
  const [from, by, to] = aligned(dimNode(action, start), dimNode(action, step), dimNode(action, stop));
  const sign = vmin(by) > 0 ? 1 : -1;
  if (vmin(by) <= 0 && vmax(by) >= 0) {
    throw new ArgumentError(action, {
      reason: `the step ${extentText(by)} may be 0: ${
        by.op === Ops.CONST ? "give another" : "give its variable bounds above or below 0"
      }`,
    });
  }
  const stride = by.mul(sign), span = to.add(from.mul(-1)).mul(sign).add(stride).add(-1);
  const count = simplifySize(span.floorDiv(stride));
  return sized(action, vmin(count) < 0 ? simplifySize(count.alu(Ops.MAX, count.constLike(0))) : count, (n) => {
    const wide = dtype.bits === 64 && dtype.isInt ? dtype : dtypes.int32, spread = (u: UOp) => broadcastTo(u, [n]);
    const row = castNode(iota(n), wide), scaled = by.isConst(1) ? row : row.mul(spread(castNode(by, wide)));
    return castNode(from.isConst(0) ? scaled : scaled.add(spread(castNode(from, wide))), dtype);
  });
}

/** {@linkcode linspaceNode} of a number of values that is a variable. */
export function linspaceSized(start: number, stop: number, steps: TensorBase, dtype: DType): UOp {
  const action = "make a linspace", d = dtype === dtypes.float64 ? dtype : dtypes.float32;
  checkEnds(start, stop, dtype);
  const count = dimNode(action, steps);
  return sized(action, count, (n) => {
    const spread = (u: UOp) => broadcastTo(u, [n]).cast(d), last = spread(simplifySize(count.add(-1)));
    const i = iota(n).cast(d), whole = floatConst(stop - start, d);
    // both halves count from their end, so that the ends are exact
    const up = i.mul(whole).fdiv(last).add(floatConst(start, d));
    const down = last.add(i.mul(-1)).mul(floatConst(start - stop, d)).fdiv(last).add(floatConst(stop, d));
    const one = last.lt(floatConst(1, d));
    return castNode(one.or(i.add(i).lt(last)).where(one.where(floatConst(start, d), up), down), dtype);
  });
}

/** Throws unless the ends of a linspace are numbers, and its dtype one of numbers. @throws {ArgumentError} {DTypeError} */
function checkEnds(start: number, stop: number, dtype: DType): void {
  for (const end of [start, stop] as unknown[]) {
    if (sizeName(end) === undefined) continue;
    throw new ArgumentError("make a linspace", {
      reason: `its ends are numbers, not ${describe(end)}; linspace(0, 1, steps).mul(stop - start).add(start) takes ` +
        "variables",
    });
  }
  checkValue("make a linspace", "start", start);
  checkValue("make a linspace", "stop", stop);
  if (!dtype.isBool) return;
  throw new DTypeError("make a linspace of dtype", { dtypes: [dtype], reason: "it has no values between two others" });
}

function emptyRow(dtype: DType): UOp {
  return broadcastTo(scalarConst(0, dtype), [0]);
}

/** `steps` values from start to stop, both included. @throws {ArgumentError} for a negative number of steps */
export function linspaceNode(start: number, stop: number, steps: number, dtype: DType): UOp {
  checkInteger("make a linspace", "steps", steps, 0);
  checkEnds(start, stop, dtype);
  if (steps === 0) return emptyRow(dtype);
  if (steps === 1) return broadcastTo(scalarConst(start, dtype), [1]);
  const d = dtype.real === dtypes.float64 ? dtype.real : dtypes.float32;
  const i = castNode(iota(steps), d);
  const step = (stop - start) / (steps - 1);
  const up = i.mul(floatConst(step, d)).add(floatConst(start, d));
  // The second half counts down from the end, so that the end is exact.
  const back = i.mul(floatConst(-1, d)).add(floatConst(steps - 1, d));
  const down = back.mul(floatConst(-step, d)).add(floatConst(stop, d));
  return castNode(i.lt(floatConst(steps / 2, d)).where(up, down), dtype);
}

/** Ones where row = column, else zeros. @throws {ShapeError} for negative sizes */
export function eyeNode(n: number, m: number, dtype: DType): UOp {
  for (const size of [n, m]) {
    if (!Number.isSafeInteger(size) || size < 0) {
      throw new ShapeError("make an identity matrix of", {
        shapes: [[describe(n), describe(m)]],
        reason: `${describe(size)} is no size`,
      });
    }
  }
  const shape = [n, m];
  if (n === 0 || m === 0) return broadcastTo(scalarConst(0, dtype), shape);
  const same = eqNode(broadcastTo(iotaAlong(n, 0, 2), shape), broadcastTo(iotaAlong(m, 1, 2), shape));
  return castNode(same, dtype);
}

/** Up to `most` sizes or bounds, and the options behind them. @throws {ArgumentError} for what follows the options */
export function optionsLast(
  action: string,
  rest: readonly (Dim | TensorOptions | undefined)[],
  most: number,
): [(Dim | undefined)[], TensorOptions] {
  const first = rest.findIndex(isPlain), at = first < 0 ? most : Math.min(first, most);
  const more = rest.slice(at + 1).find((x) => x !== undefined);
  if (more !== undefined) {
    throw new ArgumentError(action, { reason: `nothing follows its options, not ${describe(more)}` });
  }
  const { [at]: options = {} } = rest;
  return [rest.slice(0, at) as (Dim | undefined)[], options as TensorOptions];
}

/** The dtype asked for, after checking the options. */
export function chosenDType(action: string, options: TensorOptions): DType | undefined {
  if (typeof options === "number") {
    throw new ArgumentError(action, {
      reason: `sizes are one array, as in [2, 3]; after it comes an object of options, not ${options}`,
    });
  }
  checkOptions(action, options, TENSOR_OPTIONS);
  return options.dtype === undefined ? undefined : toDType(options.dtype as DTypeLike);
}
