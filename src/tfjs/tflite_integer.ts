/**
 * Quantized operators of TensorFlow Lite in whole numbers alone, as its reference kernels compute them: sums of products in
 * 32 bits, and factors between scales as a multiplier of 31 bits and a shift, each rounded. In: tensors of 8 bits as they
 * are in the file; out: the result in 8 bits, or nothing, where floats have to do it. Source: the quantization specification
 * of TensorFlow Lite, and gemmlowp's paper (Jacob and others, 2018, section 2.2).
 *
 * @module
 */
import { INT32, INT64, INT8, UINT64, UINT8 } from "../onnx/wire/element_types.ts";
import type { FlatTable } from "./flatbuffer.ts";
import { type GraphBuilder, protoOf } from "./graph_builder.ts";

/** How a tensor of whole numbers stands for floats: scale times what it is above zero, for all or along an axis. */
export interface Quantized {
  readonly scale: readonly number[];
  readonly zero: readonly number[];
  readonly axis: number;
}
/** A tensor that an operator takes or gives. */
export interface WholeTensor {
  readonly shape: readonly number[];
  /** The code of its elements. */
  readonly type: number;
  readonly quantized: Quantized | undefined;
}
/** An operator while it is translated. */
export interface WholeNode {
  readonly op: string;
  /** As they are in the file; undefined where one is not given. */
  readonly inputs: readonly ((WholeTensor & { readonly name: string }) | undefined)[];
  readonly result: WholeTensor;
  readonly options: FlatTable | undefined;
  readonly g: GraphBuilder;
  known(name: string | undefined): number[] | undefined;
  /** The operator on these tensors, whatever their type. */
  plain(op: string, inputs: readonly (string | undefined)[]): string | readonly string[];
}
type WholeOp = (n: WholeNode) => string | readonly string[] | undefined;

/** A tensor of 8 bits with one scale. */
interface Bytes {
  readonly name: string;
  readonly scale: number;
  readonly zero: number;
  readonly type: number;
}
function bytesOf(t: (WholeTensor & { readonly name?: string }) | undefined): Bytes | undefined {
  const q = t?.quantized;
  if (t === undefined || q === undefined || q.scale.length !== 1 || !(q.scale[0] > 0)) return undefined;
  if (t.type !== INT8 && t.type !== UINT8) return undefined;
  return { name: t.name ?? "", scale: q.scale[0], zero: q.zero[0] ?? 0, type: t.type };
}

/** Bits that sums get below the point before they are scaled: bytes times 2^20 fit 32 bits. */
const SUM_BITS = 20;

/** A factor as a multiplier below 2^31, and the power of two behind it. */
function multiplierOf(factor: number): [multiplier: number, exponent: number] {
  let mantissa = factor, exponent = 0;
  for (; mantissa >= 1; exponent++) mantissa /= 2;
  for (; mantissa < 0.5 && exponent > -64; exponent--) mantissa *= 2;
  let multiplier = Math.round(mantissa * 2 ** 31);
  if (multiplier === 2 ** 31) [multiplier, exponent] = [2 ** 30, exponent + 1];
  return exponent < -31 ? [0, 0] : [multiplier, exponent];
}

/** A whole-number constant: one for all, or one for each channel, which is the last axis. */
function longs({ g }: WholeNode, values: readonly number[]): string {
  return g.ints(values.every((v) => v === values[0]) ? values[0] : values);
}

/** `x` of 64 bits times factors, rounded twice: behind 31 bits halves go up, behind the shift away from zero. */
function scaled(n: WholeNode, x: string, factors: readonly number[]): string {
  const { g } = n, parts = factors.map(multiplierOf), left = parts.map(([, e]) => 2 ** Math.max(0, e));
  const right = parts.map(([, e]) => Math.max(0, -e)), below = (y: string): string => g.op("Less", [y, g.ints(0)]);
  const wide = left.every((f) => f === 1) ? x : g.op("Mul", [x, longs(n, left)]);
  const product = g.op("Mul", [wide, longs(n, parts.map(([m]) => m))]);
  const half = g.op("Where", [below(product), g.ints(1 - 2 ** 30), g.ints(2 ** 30)]);
  const high = g.op("Div", [g.op("Add", [product, half]), g.ints(2 ** 31)]); // towards zero
  if (right.every((e) => e === 0)) return high;
  const halves = g.op("Add", [g.op("Abs", [high]), longs(n, right.map((e) => e === 0 ? 0 : 2 ** (e - 1)))]);
  const shift = g.op("Cast", [longs(n, right)], { to: UINT64 });
  const bits = g.op("BitShift", [g.op("Cast", [halves], { to: UINT64 }), shift], { direction: "RIGHT" });
  const size = g.op("Cast", [bits], { to: INT64 });
  return g.op("Where", [below(high), g.op("Neg", [size]), size]);
}

/** The least and the largest byte that an activation leaves; undefined for one that does more than cut off. */
function rangeOf({ scale, zero, type }: Bytes, activation: number): [low: number, high: number] | undefined {
  const [least, most] = type === INT8 ? [-128, 127] : [0, 255];
  const byte = (x: number): number =>
    Math.min(most, Math.max(least, zero + Math.sign(x) * Math.round(Math.fround(Math.abs(x) / scale))));
  switch (activation) {
    case 0:
      return [least, most];
    case 1:
      return [byte(0), most];
    case 2:
      return [byte(-1), byte(1)];
    case 3:
      return [byte(0), byte(6)];
  }
}

/** A sum of 64 bits, times factors, as bytes of the result. */
function narrowed(n: WholeNode, sum: string, factors: readonly number[], to: Bytes, range: [number, number]): string {
  return bytes(n, scaled(n, sum, factors), to, range);
}
/** Numbers of 64 bits as bytes of the result. */
function bytes({ g }: WholeNode, x: string, { zero, type }: Bytes, [low, high]: [number, number]): string {
  return g.op("Cast", [g.op("Clip", [g.op("Add", [x, g.ints(zero)]), g.ints(low), g.ints(high)])], { to: type });
}
/** A tensor of bytes above its zero, in 64 bits. */
function aboveZero({ g }: WholeNode, { name, zero }: Bytes): string {
  return g.op("Sub", [g.op("Cast", [name], { to: INT64 }), g.ints(zero)]);
}
/** One byte as a constant. */
function byteOf(g: GraphBuilder, type: number, value: number): string {
  return g.weight(protoOf(g.fresh(), type, [], Uint8Array.of(value)));
}

/** Sums of products of bytes with weights, which may have a scale for each channel of the result. */
const products =
  (activationAt: number, multiply: (n: WholeNode, zeros: [string, string]) => string): WholeOp => (n) => {
    const { g, inputs: [given, weight, bias], options } = n, x = bytesOf(given), y = bytesOf(n.result);
    const range = y && rangeOf(y, options?.int8(activationAt) ?? 0), scales = weight?.quantized?.scale ?? [];
    if (x === undefined || y === undefined || range === undefined || weight === undefined) return undefined;
    const isByte = weight.type === INT8 || weight.type === UINT8, zeros = weight.quantized?.zero ?? [];
    if (!isByte || scales.some((s) => !(s > 0)) || zeros.some((z) => z !== zeros[0])) return undefined;
    if (scales.length === 0 || bias !== undefined && bias.type !== INT32) return undefined;
    const sum = multiply(n, [byteOf(g, x.type, x.zero), byteOf(g, weight.type, zeros[0] ?? 0)]);
    const whole = bias === undefined ? sum : g.op("Add", [sum, bias.name]);
    return narrowed(n, g.op("Cast", [whole], { to: INT64 }), scales.map((s) => x.scale * s / y.scale), y, range);
  };
/** A convolution of pixels [batch, height, width, channels] by filters that `perm` makes [out, in, height, width]. */
function convolved(
  { g, options: o, inputs: [x, weight] }: WholeNode,
  zeros: readonly string[],
  perm: readonly number[],
  dilations: readonly number[],
  group: number,
): string {
  const attributes = {
    strides: [o!.int(2), o!.int(1)],
    dilations,
    group,
    ...(o!.byte(0) === 0 ? { auto_pad: "SAME_UPPER" } : {}),
  };
  const given = [g.op("Transpose", [x!.name], { perm: [0, 3, 1, 2] }), g.op("Transpose", [weight!.name], { perm })];
  return g.op("Transpose", [g.op("ConvInteger", [...given, ...zeros], attributes)], { perm: [0, 2, 3, 1] });
}

const sum = (sign: 1 | -1): WholeOp => (n) => {
  const { g } = n,
    [a, b] = n.inputs.map(bytesOf),
    y = bytesOf(n.result),
    range = y && rangeOf(y, n.options?.int8(0) ?? 0);
  if (a === undefined || b === undefined || y === undefined || range === undefined) return undefined;
  const twice = 2 * Math.max(a.scale, b.scale);
  const [p, q] = [a, b].map((t) => {
    return scaled(n, g.op("Mul", [aboveZero(n, t), g.ints(2 ** SUM_BITS)]), [t.scale / twice]);
  });
  return narrowed(n, g.op(sign > 0 ? "Add" : "Sub", [p, q]), [twice / (2 ** SUM_BITS * y.scale)], y, range);
};
const product: WholeOp = (n) => {
  const [a, b] = n.inputs.map(bytesOf), y = bytesOf(n.result), range = y && rangeOf(y, n.options?.int8(0) ?? 0);
  if (a === undefined || b === undefined || y === undefined || range === undefined) return undefined;
  const factor = Math.fround(Math.fround(a.scale * b.scale) / y.scale);
  return narrowed(n, n.g.op("Mul", [aboveZero(n, a), aboveZero(n, b)]), [factor], y, range);
};

/** Is one scale and zero that of all tensors of bytes? Then bytes may be moved as they are. */
function alike(n: WholeNode): boolean {
  const all = [n.result, ...n.inputs.filter((t) => t?.quantized !== undefined)].map(bytesOf), [first] = all;
  return first !== undefined &&
    all.every((t) => t?.scale === first.scale && t.zero === first.zero && t.type === first.type);
}
const names = (n: WholeNode): (string | undefined)[] => n.inputs.map((t) => t?.name);
const moved: WholeOp = (n) => alike(n) ? n.plain(n.op, names(n)) : undefined;
/** What is around is zero, as a byte. */
const padded: WholeOp = (n) => {
  const y = bytesOf(n.result);
  if (y === undefined || !alike(n)) return undefined;
  return n.plain("PADV2", [...names(n).slice(0, 2), byteOf(n.g, y.type, y.zero)]);
};
const withoutActivation = (at: number, op: WholeOp): WholeOp => (n) =>
  (n.options?.int8(at) ?? 0) === 0 ? op(n) : undefined;

/** Means of windows: of those at an edge what is in the picture counts. */
const averaged: WholeOp = (n) => {
  const { g, options: o, inputs: [given] } = n,
    x = bytesOf(given),
    y = bytesOf(n.result),
    channels = n.result.shape.at(-1);
  const range = y && rangeOf(y, o?.int8(5) ?? 0);
  if (x === undefined || y === undefined || range === undefined || !alike(n) || !(channels! > 0)) return undefined;
  const ones = g.weight(
    protoOf(
      g.fresh(),
      UINT8,
      [channels!, 1, o!.int(4), o!.int(3)],
      new Uint8Array(channels! * o!.int(4) * o!.int(3)).fill(1),
    ),
  );
  const zeros = [byteOf(g, x.type, x.zero), byteOf(g, UINT8, 0)], weight = { name: ones } as typeof given;
  const window = (t: string, z: string): string => {
    const at = { ...n, inputs: [{ ...given!, name: t }, weight] };
    return g.op("Cast", [convolved(at, [z, zeros[1]], [0, 1, 2, 3], [1, 1], channels!)], { to: INT64 });
  };
  const all = window(x.name, zeros[0]);
  const one = g.op("Expand", [byteOf(g, UINT8, 1), g.op("Shape", [x.name])]), count = window(one, zeros[1]);
  // what is summed is above zero, and halves go away from zero of the bytes themselves
  const total = g.op("Add", [all, g.op("Mul", [count, g.ints(x.zero)])]), half = g.op("Div", [count, g.ints(2)]);
  const signed = g.op("Where", [g.op("Greater", [total, g.ints(0)]), half, g.op("Neg", [half])]);
  return bytes(n, g.op("Div", [g.op("Add", [total, signed]), count]), { ...y, zero: 0 }, range);
};
const mean: WholeOp = (n) => {
  const { g, inputs: [given, axes] } = n, x = bytesOf(given), y = bytesOf(n.result), known = n.known(axes?.name);
  if (x === undefined || y === undefined || known === undefined) return undefined;
  const count = known.reduce((product, a) => product * (given!.shape.at(a) ?? 0), 1);
  if (!(count > 0)) return undefined;
  const keepdims = n.options?.flag(0) ? 1 : 0,
    total = g.op("ReduceSum", [aboveZero(n, x), g.ints(known)], { keepdims });
  return narrowed(n, total, [x.scale / y.scale / count], y, rangeOf(y, 0)!);
};

/** What a function of one byte gives is one of 256: a table. */
const tabled = (f: (x: number, options: FlatTable | undefined) => number): WholeOp => (n) => {
  const { g } = n, x = bytesOf(n.inputs[0]), y = bytesOf(n.result), range = y && rangeOf(y, 0);
  if (x === undefined || y === undefined || range === undefined) return undefined;
  const least = x.type === INT8 ? -128 : 0;
  const table = Uint8Array.from({ length: 256 }, (_, i) => {
    const value = f(x.scale * (i + least - x.zero), n.options) / y.scale;
    const whole = Number.isNaN(value) ? 0 : Math.sign(value) * Math.round(Math.abs(value));
    return Math.min(range[1], Math.max(range[0], whole + y.zero));
  });
  const at = g.op("Cast", [x.name], { to: INT64 }), values = g.weight(protoOf(g.fresh(), y.type, [256], table));
  return g.op("Gather", [values, least === 0 ? at : g.op("Sub", [at, g.ints(least)])], { axis: 0 });
};

/** Operators that move bytes, or choose among them. */
const MOVES =
  "RESHAPE TRANSPOSE SQUEEZE EXPAND_DIMS PACK UNPACK SPLIT SPLIT_V SLICE STRIDED_SLICE TILE BROADCAST_TO GATHER " +
  "GATHER_ND REVERSE_V2 MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN RESIZE_NEAREST_NEIGHBOR DEPTH_TO_SPACE SPACE_TO_DEPTH";

/** By the name of the operator in the schema. */
export const WHOLE_OPS: Readonly<Record<string, WholeOp>> = {
  CONV_2D: products(3, (n, zeros) => {
    const o = n.options!;
    return convolved(n, zeros, [0, 3, 1, 2], [o.int(5, 1), o.int(4, 1)], 1);
  }),
  DEPTHWISE_CONV_2D: products(4, (n, zeros) => {
    const o = n.options!, group = n.result.shape.at(-1)! / Math.max(1, o.int(3));
    return convolved(n, zeros, [3, 0, 1, 2], [o.int(6, 1), o.int(5, 1)], group);
  }),
  FULLY_CONNECTED: products(0, ({ g, options, inputs: [x, weight] }, zeros) => {
    const { shape, name } = weight!, isAsItIs = options?.flag(2) || shape.length !== 2;
    const rows = isAsItIs ? x!.name : g.op("Reshape", [x!.name, g.ints([-1, shape[1]])]);
    return g.op("MatMulInteger", [rows, g.op("Transpose", [name], { perm: [1, 0] }), ...zeros]);
  }),
  ADD: sum(1),
  SUB: sum(-1),
  MUL: product,
  AVERAGE_POOL_2D: averaged,
  MEAN: mean,
  PAD: padded,
  MAX_POOL_2D: withoutActivation(5, moved),
  CONCATENATION: withoutActivation(1, moved),
  ...Object.fromEntries(MOVES.split(" ").map((op) => [op, moved])),
  LOGISTIC: tabled((x) => 1 / (1 + Math.exp(-x))),
  TANH: tabled(Math.tanh),
  RELU: tabled((x) => Math.max(0, x)),
  RELU6: tabled((x) => Math.min(6, Math.max(0, x))),
  RELU_N1_TO_1: tabled((x) => Math.min(1, Math.max(-1, x))),
  LEAKY_RELU: tabled((x, options) => x < 0 ? x * (options?.float(0) ?? 0) : x),
  ELU: tabled((x) => x < 0 ? Math.expm1(x) : x),
  HARD_SWISH: tabled((x) => x * Math.min(6, Math.max(0, x + 3)) / 6),
  ABS: tabled(Math.abs),
  NEG: tabled((x) => -x),
  EXP: tabled(Math.exp),
  LOG: tabled(Math.log),
  SQRT: tabled(Math.sqrt),
  RSQRT: tabled((x) => 1 / Math.sqrt(x)),
  SQUARE: tabled((x) => x * x),
  SIN: tabled(Math.sin),
  COS: tabled(Math.cos),
  QUANTIZE: tabled((x) => x),
};
