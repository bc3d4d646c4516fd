/**
 * Operators of TensorFlow as nodes of ONNX. In: a node with its attributes, channels last as TensorFlow has them; out:
 * names of its results. Both kinds of files that TensorFlow writes for pages and phones come here. Source: the
 * documentation of tf.raw_ops.
 *
 * @module
 */
import { BOOL, FLOAT, INT32, INT64, typeName } from "../onnx/wire/element_types.ts";
import type { GraphBuilder } from "./graph_builder.ts";
import type { Fault } from "./weights_manifest.ts";

/** A node while it is translated. */
export interface TfNode {
  readonly name: string;
  readonly op: string;
  readonly inputs: readonly string[];
  readonly g: GraphBuilder;
  readonly bad: Fault;
  /** How many results it has, where that is not fixed. */
  readonly results?: number;
  /** Numbers of an input that is a constant of the file; undefined for others. */
  known(i: number): number[] | undefined;
  /** Attributes. */
  int(name: string, otherwise?: number): number;
  float(name: string, otherwise: number): number;
  flag(name: string, otherwise?: boolean): boolean;
  text(name: string, otherwise: string): string;
  ints(name: string, otherwise?: readonly number[]): readonly number[];
  texts(name: string): readonly string[];
  /** The code of a type in ONNX. */
  type(name: string, otherwise: number): number;
}
type TfOp = (n: TfNode) => string | string[];

/** What ends of slices are where they are open. */
const FAR = 2 ** 31 - 1;

/** Numbers that must be constants. */
function fixed(n: TfNode, i: number): number[] {
  const found = n.known(i);
  if (found === undefined) {
    throw n.bad(`${n.op} "${n.name}" has an input ${i} that is no constant, which is not known here`);
  }
  return found;
}
const plain = (type: string, count = 1): TfOp => (n) => n.g.op(type, n.inputs.slice(0, count));

/** Whether a node has its channels second. */
const isFirst = (n: TfNode): boolean => n.text("data_format", "NHWC").startsWith("NC");
/** Computes with channels second. */
function spatial(n: TfNode, x: string, f: (x: string) => string): string {
  if (isFirst(n)) return f(x);
  return n.g.op("Transpose", [f(n.g.op("Transpose", [x], { perm: [0, 3, 1, 2] }))], { perm: [0, 2, 3, 1] });
}
/** The two of four numbers that belong to rows and columns. */
function pairOf(n: TfNode, name: string, otherwise: readonly number[] = [1, 1, 1, 1]): number[] {
  const list = n.ints(name, otherwise);
  return isFirst(n) ? list.slice(2, 4) : list.slice(1, 3);
}
/** How windows go beyond the edges. */
function padding(n: TfNode): Record<string, string | number[]> {
  const text = n.text("padding", "VALID");
  if (text === "SAME") return { auto_pad: "SAME_UPPER" };
  if (text !== "EXPLICIT") return {};
  const p = n.ints("explicit_paddings"), at = isFirst(n) ? 4 : 2;
  return { pads: [p[at], p[at + 2], p[at + 1], p[at + 3]] };
}
function biased(n: TfNode, y: string, bias: string): string {
  return n.g.op("Add", [y, isFirst(n) ? n.g.op("Unsqueeze", [bias, n.g.ints([1, 2])]) : bias]);
}

/** What comes behind a product in one node. */
function fused(n: TfNode, y: string): string {
  let at = 2;
  for (const name of n.texts("fused_ops")) {
    if (name === "BiasAdd") y = biased(n, y, n.inputs[at++]);
    else if (name === "Prelu") y = n.g.op("PRelu", [y, n.inputs[at++]]);
    else if (name === "LeakyRelu") y = n.g.op("LeakyRelu", [y], { alpha: { float: n.float("leakyrelu_alpha", 0.2) } });
    else if (name !== "NoOp") {
      const f = TF_OPS[name];
      if (f === undefined) throw n.bad(`${n.op} "${n.name}" is fused with ${name}, which is not known`);
      y = f({ ...n, inputs: [y] }) as string;
    }
  }
  return y;
}
const conv: TfOp = (n) => {
  const { g } = n, weight = g.op("Transpose", [n.inputs[1]], { perm: [3, 2, 0, 1] });
  const attributes = { strides: pairOf(n, "strides"), dilations: pairOf(n, "dilations"), ...padding(n) };
  return fused(n, spatial(n, n.inputs[0], (x) => g.op("Conv", [x, weight], attributes)));
};
/** Filters are [h, w, channels, multiplier]: channels are groups. */
const depthwise: TfOp = (n) => {
  const { g } = n, dims = g.weightOf(n.inputs[1])?.dims;
  if (dims === undefined || dims.length !== 4) throw n.bad(`${n.op} "${n.name}" has filters that are no constant`);
  const [h, w, c, m] = dims, turned = g.op("Transpose", [n.inputs[1]], { perm: [2, 3, 0, 1] });
  const weight = g.op("Reshape", [turned, g.ints([c * m, 1, h, w])]);
  const attributes = { strides: pairOf(n, "strides"), dilations: pairOf(n, "dilations"), group: c, ...padding(n) };
  return fused(n, spatial(n, n.inputs[0], (x) => g.op("Conv", [x, weight], attributes)));
};
/** Inputs are the shape of the result, filters [h, w, out, in], and what is spread. */
const transposed: TfOp = (n) => {
  const { g } = n, sizes = fixed(n, 0), strides = pairOf(n, "strides");
  const weight = g.op("Transpose", [n.inputs[1]], { perm: [3, 2, 0, 1] });
  const output = isFirst(n) ? sizes.slice(2, 4) : sizes.slice(1, 3);
  const attributes = { strides, dilations: pairOf(n, "dilations"), output_shape: output, auto_pad: "SAME_UPPER" };
  if (n.text("padding", "VALID") !== "SAME") {
    const kernel = g.weightOf(n.inputs[1])?.dims.slice(0, 2) ?? [1, 1];
    return spatial(n, n.inputs[2], (x) => {
      const y = g.op("ConvTranspose", [x, weight], { strides, kernel_shape: kernel });
      return g.op("Slice", [y, g.ints([0, 0]), g.ints(output), g.ints([2, 3])]);
    });
  }
  return spatial(n, n.inputs[2], (x) => g.op("ConvTranspose", [x, weight], attributes));
};
const pool = (type: string): TfOp => (n) => {
  const attributes = { kernel_shape: pairOf(n, "ksize"), strides: pairOf(n, "strides"), ...padding(n) };
  return spatial(n, n.inputs[0], (x) => n.g.op(type, [x], attributes));
};
const norm: TfOp = (n) => {
  const [x, scale, offset, mean, variance] = n.inputs, epsilon = { float: n.float("epsilon", 1e-4) };
  return spatial(n, x, (t) => n.g.op("BatchNormalization", [t, scale, offset, mean, variance], { epsilon }));
};
const matmul = (left: string, right: string): TfOp => (n) => {
  const turn = (x: string, is: boolean): string => is ? transposeLast(n, x) : x;
  return fused(n, n.g.op("MatMul", [turn(n.inputs[0], n.flag(left)), turn(n.inputs[1], n.flag(right))]));
};
/** The last two axes exchanged, whatever the rank: Einsum knows it. */
function transposeLast({ g }: TfNode, x: string): string {
  return g.op("Einsum", [x], { equation: "...ij->...ji" });
}

const reduction = (type: string): TfOp => (n) => {
  return n.g.op(type, n.inputs.slice(0, 2), { keepdims: Number(n.flag("keep_dims")) });
};
/** All or any: of bytes. */
const reducedFlags = (type: string): TfOp => (n) => {
  const { g } = n, x = g.op("Cast", [n.inputs[0]], { to: INT32 });
  return g.op("Cast", [g.op(type, [x, n.inputs[1]], { keepdims: Number(n.flag("keep_dims")) })], { to: BOOL });
};
const best = (type: string): TfOp => (n) => {
  const axis = n.inputs.length > 1 ? fixed(n, 1)[0] : 0, y = n.g.op(type, [n.inputs[0]], { axis, keepdims: 0 });
  return n.g.op("Cast", [y], { to: n.type("output_type", INT64) });
};

const pack: TfOp = ({ g, inputs, ...n }) => {
  const axis = n.int("axis", 0);
  return g.op("Concat", inputs.map((x) => g.op("Unsqueeze", [x, g.ints([axis])])), { axis });
};
const unpack: TfOp = (n) => {
  const { g } = n, count = n.int("num"), axis = n.int("axis", 0);
  const parts = g.ops("Split", [n.inputs[0], g.ints(Array(count).fill(1))], count, { axis });
  return parts.map((p) => g.op("Squeeze", [p, g.ints([axis])]));
};
const concat: TfOp = (n) => {
  const last = n.inputs.length - 1;
  return n.g.op("Concat", n.inputs.slice(0, last), { axis: fixed(n, last)[0] });
};
const split: TfOp = (n) => {
  const count = n.int("num_split");
  return n.g.ops("Split", [n.inputs[1]], count, { axis: fixed(n, 0)[0], num_outputs: count });
};
const splitV: TfOp = (n) => n.g.ops("Split", n.inputs.slice(0, 2), fixed(n, 1).length, { axis: fixed(n, 2)[0] });

/** Begin, end and step of each axis, with bits that say which are open, new or a single element. */
const stridedSlice: TfOp = (n) => {
  const { g } = n, [x, begin, end] = n.inputs;
  const steps = n.inputs.length > 3 ? fixed(n, 3) : undefined, count = (steps ?? fixed(n, 1)).length;
  const bit = (name: string, i: number): boolean => (n.int(name, 0) >> i & 1) === 1;
  const [from, to] = [n.known(1), n.known(2)],
    dots = Array.from({ length: count }, (_, i) => i).find((i) => bit("ellipsis_mask", i));
  const one = (list: string, known: readonly number[] | undefined, i: number): string =>
    known === undefined ? g.op("Slice", [list, g.ints([i]), g.ints([i + 1])]) : g.ints([known[i]]);
  const starts: string[] = [], ends: string[] = [], axes: number[] = [], by: number[] = [];
  const drop: number[] = [], add: number[] = [];
  for (let i = 0, axis = 0, place = 0; i < count; i++) {
    if (i === dots) {
      // axes behind the dots are counted from the last
      const behind = Array.from({ length: count - i - 1 }, (_, k) => i + 1 + k).filter((k) => !bit("new_axis_mask", k));
      axis = -behind.length;
      place = -(count - i - 1);
      if (behind.length < count - i - 1) throw n.bad(`StridedSlice "${n.name}" has new axes behind the dots`);
      continue;
    }
    if (bit("new_axis_mask", i)) {
      add.push(place++);
      continue;
    }
    const step = steps?.[i] ?? 1, isOne = bit("shrink_axis_mask", i);
    const start = bit("begin_mask", i) && !isOne ? g.ints([step > 0 ? 0 : FAR]) : one(begin, from, i);
    // one element: the end is beyond all where the start is the last
    const stop = isOne
      ? (from === undefined
        ? g.op("Where", [g.op("Equal", [start, g.ints([-1])]), g.ints([FAR]), g.op("Add", [start, g.ints([1])])])
        : g.ints([from[i] === -1 ? FAR : from[i] + 1]))
      : bit("end_mask", i)
      ? g.ints([step > 0 ? FAR : -FAR])
      : one(end, to, i);
    starts.push(start);
    ends.push(stop);
    axes.push(axis++);
    by.push(isOne ? 1 : step);
    if (isOne) drop.push(axis - 1);
    else place++;
  }
  const joined = (parts: string[]): string =>
    parts.length === 1
      ? g.op("Cast", [parts[0]], { to: INT64 })
      : g.op("Concat", parts.map((p) => g.op("Cast", [p], { to: INT64 })), { axis: 0 });
  let y = axes.length === 0 ? x : g.op("Slice", [x, joined(starts), joined(ends), g.ints(axes), g.ints(by)]);
  if (drop.length > 0) y = g.op("Squeeze", [y, g.ints(drop)]);
  return add.length > 0 ? g.op("Unsqueeze", [y, g.ints(add)]) : y;
};
/** A begin and a size of each axis; -1 is all that is left. */
const slice: TfOp = (n) => {
  const { g } = n, [x, begin, size] = n.inputs, [from, count] = [n.known(1), n.known(2)];
  if (from !== undefined && count !== undefined) {
    const ends = from.map((b, i) => count[i] < 0 ? FAR : b + count[i]);
    return g.op("Slice", [x, g.ints(from), g.ints(ends)]);
  }
  const wide = (t: string): string => g.op("Cast", [t], { to: INT64 }), b = wide(begin), s = wide(size);
  return g.op("Slice", [x, b, g.op("Where", [g.op("Less", [s, g.ints([0])]), g.ints([FAR]), g.op("Add", [b, s])])]);
};
const pad = (mode: (n: TfNode) => string): TfOp => (n) => {
  const { g } = n, pairs = g.op("Reshape", [g.op("Transpose", [n.inputs[1]]), g.ints([-1])]);
  return g.op("Pad", [n.inputs[0], pairs, ...n.op === "PadV2" ? [n.inputs[2]] : []], { mode: mode(n) });
};
const mirror = (n: TfNode): string => {
  if (n.text("mode", "REFLECT") === "REFLECT") return "reflect";
  throw n.bad(`MirrorPad "${n.name}" is symmetric, which is not known`);
};

/** Blocks of pixels in the batch, as convolutions with dilation were once written. */
const toBatch: TfOp = (n) => {
  const { g } = n, [bh, bw] = fixed(n, 1), p = fixed(n, 2);
  const x = g.op("Pad", [n.inputs[0], g.ints([0, p[0], p[2] ?? 0, 0, 0, p[1], p[3] ?? 0, 0])]);
  const nchw = g.op("Transpose", [x], { perm: [0, 3, 1, 2] }), shape = g.op("Shape", [nchw]);
  const [b, c, h, w] = [0, 1, 2, 3].map((i) => g.op("Slice", [shape, g.ints([i]), g.ints([i + 1])]));
  const over = (t: string, k: number): string => g.op("Div", [t, g.ints([k])]);
  const parts = g.op("Concat", [b, c, over(h, bh), g.ints([bh]), over(w, bw), g.ints([bw])], { axis: 0 });
  const six = g.op("Transpose", [g.op("Reshape", [nchw, parts])], { perm: [3, 5, 0, 2, 4, 1] });
  const out = g.op("Concat", [g.op("Mul", [b, g.ints([bh * bw])]), over(h, bh), over(w, bw), c], { axis: 0 });
  return g.op("Reshape", [six, out]);
};
const fromBatch: TfOp = (n) => {
  const { g } = n, [bh, bw] = fixed(n, 1), cut = fixed(n, 2), shape = g.op("Shape", [n.inputs[0]]);
  const [b, h, w, c] = [0, 1, 2, 3].map((i) => g.op("Slice", [shape, g.ints([i]), g.ints([i + 1])]));
  const batch = g.op("Div", [b, g.ints([bh * bw])]);
  const six = g.op("Reshape", [n.inputs[0], g.op("Concat", [g.ints([bh, bw]), batch, h, w, c], { axis: 0 })]);
  const turned = g.op("Transpose", [six], { perm: [2, 3, 0, 4, 1, 5] });
  const sizes = [batch, g.op("Mul", [h, g.ints([bh])]), g.op("Mul", [w, g.ints([bw])]), c];
  const whole = g.op("Reshape", [turned, g.op("Concat", sizes, { axis: 0 })]);
  const ends = [cut[1], cut[3] ?? 0].map((k) => k === 0 ? FAR : -k);
  return g.op("Slice", [whole, g.ints([cut[0], cut[2] ?? 0]), g.ints(ends), g.ints([1, 2])]);
};

const gather: TfOp = (n) => {
  if (n.int("batch_dims", 0) !== 0) throw n.bad(`${n.op} "${n.name}" has batches, which is not known`);
  return n.g.op("Gather", n.inputs.slice(0, 2), { axis: n.inputs.length > 2 ? fixed(n, 2)[0] : n.int("axis", 0) });
};
/** Values at places of zeros, added where places are the same. */
const scatter: TfOp = ({ g, inputs: [places, values, shape] }) => {
  const zeros = g.op("Expand", [g.op("CastLike", [g.float(0), values]), shape]);
  return g.op("ScatterND", [zeros, g.op("Cast", [places], { to: INT64 }), values], { reduction: "add" });
};
const sparseToDense: TfOp = ({ g, inputs: [places, shape, values, otherwise] }) => {
  const around = g.op("Expand", [otherwise, shape]), at = g.op("Cast", [places], { to: INT64 });
  const count = g.op("Slice", [g.op("Shape", [at]), g.ints([0]), g.ints([1])]);
  return g.op("ScatterND", [around, at, g.op("Expand", [values, count])]);
};
const resize = (mode: string): TfOp => (n) => {
  const { g } = n, corners = n.flag("align_corners"), half = n.flag("half_pixel_centers");
  const how = corners ? "align_corners" : half ? "half_pixel" : "asymmetric";
  const nearest = corners ? "round_prefer_ceil" : "floor";
  return spatial(n, n.inputs[0], (x) => {
    const size = g.op("Cast", [n.inputs[1]], { to: INT64 });
    const sizes = g.op("Concat", [g.op("Shape", [x], { start: 0, end: 2 }), size], { axis: 0 });
    return g.op("Resize", [x, undefined, undefined, sizes], {
      mode,
      coordinate_transformation_mode: how,
      nearest_mode: half && mode === "nearest" ? "round_prefer_ceil" : nearest,
    });
  });
};
const blocks = (type: string): TfOp => (n) =>
  spatial(n, n.inputs[0], (x) => n.g.op(type, [x], { blocksize: n.int("block_size") }));
const cumsum: TfOp = (n) =>
  n.g.op("CumSum", n.inputs.slice(0, 2), {
    exclusive: Number(n.flag("exclusive")),
    reverse: Number(n.flag("reverse")),
  });
const reversed: TfOp = (n) => {
  const axes = fixed(n, 1), all = (x: number): string => n.g.ints(axes.map(() => x));
  return n.g.op("Slice", [n.inputs[0], all(-1), all(-FAR), n.g.ints(axes), all(-1)]);
};
const oneHot: TfOp = ({ g, inputs: [places, depth, on, off], ...n }) => {
  const pair = g.op("Concat", [off, on].map((t) => g.op("Unsqueeze", [t, g.ints([0])])), { axis: 0 });
  return g.op("OneHot", [places, depth, pair], { axis: n.int("axis", -1) });
};
const topK: TfOp = ({ g, inputs: [x, k] }) => {
  const [values, places] = g.ops("TopK", [x, g.op("Reshape", [k, g.ints([1])])], 2);
  return [values, g.op("Cast", [places], { to: INT32 })];
};
/** Two places of one operator at once, where the first takes what the second would make undefined. */
const divNoNan: TfOp = ({ g, inputs: [a, b] }) => {
  const isZero = g.op("Equal", [b, g.op("CastLike", [g.float(0), b])]), quotient = g.op("Div", [a, b]);
  return g.op("Where", [isZero, g.op("Sub", [b, b]), quotient]);
};
const isWhole = (n: TfNode): boolean => n.type("T", FLOAT) !== FLOAT;
function floorDivided(n: TfNode): string {
  const { g, inputs: [a, b] } = n;
  return isWhole(n) ? g.op("Div", [g.op("Sub", [a, g.op("Mod", [a, b])]), b]) : g.op("Floor", [g.op("Div", [a, b])]);
}
const squeeze: TfOp = (n) => {
  const axes = n.ints("squeeze_dims", n.ints("axis", []));
  return n.g.op("Squeeze", [n.inputs[0], ...axes.length > 0 ? [n.g.ints(axes)] : []]);
};
const cast: TfOp = (n) => {
  const to = n.type("DstT", FLOAT), from = n.type("SrcT", FLOAT);
  if (n.flag("Truncate")) throw n.bad(`Cast "${n.name}" from ${typeName(from)} truncates, which is not known`);
  return n.g.op("Cast", [n.inputs[0]], { to });
};
const filledLike = (value: number): TfOp => ({ g, inputs: [x] }) =>
  g.op("Expand", [g.op("CastLike", [g.float(value), x]), g.op("Shape", [x])]);
const clip = (low: number, high: number): TfOp => ({ g, inputs: [x] }) =>
  g.op("Clip", [x, g.float(low), g.float(high)]);

/** By the name of the operator. */
export const TF_OPS: Readonly<Record<string, TfOp>> = {
  Add: plain("Add", 2),
  AddV2: plain("Add", 2),
  AddN: ({ g, inputs }) => g.op("Sum", inputs),
  Sub: plain("Sub", 2),
  Mul: plain("Mul", 2),
  Div: plain("Div", 2),
  RealDiv: plain("Div", 2),
  DivNoNan: divNoNan,
  FloorDiv: (n) => floorDivided(n),
  FloorMod: (n) => {
    const { g, inputs: [a, b] } = n;
    return isWhole(n) ? g.op("Mod", [a, b]) : g.op("Sub", [a, g.op("Mul", [floorDivided(n), b])]);
  },
  Maximum: plain("Max", 2),
  Minimum: plain("Min", 2),
  Pow: plain("Pow", 2),
  SquaredDifference: ({ g, inputs: [a, b] }) => {
    const d = g.op("Sub", [a, b]);
    return g.op("Mul", [d, d]);
  },
  Neg: plain("Neg"),
  Abs: plain("Abs"),
  Exp: plain("Exp"),
  Log: plain("Log"),
  Log1p: ({ g, inputs: [x] }) => g.op("Log", [g.op("Add", [x, g.float(1)])]),
  Sqrt: plain("Sqrt"),
  Rsqrt: ({ g, inputs: [x] }) => g.op("Reciprocal", [g.op("Sqrt", [x])]),
  Square: ({ g, inputs: [x] }) => g.op("Mul", [x, x]),
  Reciprocal: plain("Reciprocal"),
  Inv: plain("Reciprocal"),
  Sin: plain("Sin"),
  Cos: plain("Cos"),
  Tan: plain("Tan"),
  Atan: plain("Atan"),
  Floor: plain("Floor"),
  Ceil: plain("Ceil"),
  Round: plain("Round"),
  Sign: plain("Sign"),
  Erf: plain("Erf"),
  IsNan: plain("IsNaN"),
  Relu: plain("Relu"),
  Relu6: clip(0, 6),
  ReluN1To1: clip(-1, 1),
  Elu: plain("Elu"),
  Selu: plain("Selu"),
  Sigmoid: plain("Sigmoid"),
  Tanh: plain("Tanh"),
  Softplus: plain("Softplus"),
  HardSwish: plain("HardSwish"),
  Gelu: (n) => n.g.op("Gelu", [n.inputs[0]], { approximate: n.flag("approximate") ? "tanh" : "none" }),
  LeakyRelu: (n) => n.g.op("LeakyRelu", [n.inputs[0]], { alpha: { float: n.float("alpha", 0.2) } }),
  Prelu: plain("PRelu", 2),
  Softmax: (n) => {
    const beta = n.float("beta", 1), x = n.inputs[0];
    return n.g.op("Softmax", [beta === 1 ? x : n.g.op("Mul", [x, n.g.float(beta)])], { axis: -1 });
  },
  LogSoftmax: (n) => n.g.op("LogSoftmax", [n.inputs[0]], { axis: -1 }),
  BiasAdd: (n) => biased(n, n.inputs[0], n.inputs[1]),
  Identity: plain("Identity"),
  IdentityN: (n) => n.inputs.map((x) => n.g.op("Identity", [x])),
  StopGradient: plain("Identity"),
  PreventGradient: plain("Identity"),
  LogicalNot: plain("Not"),
  LogicalAnd: plain("And", 2),
  LogicalOr: plain("Or", 2),
  Equal: plain("Equal", 2),
  NotEqual: ({ g, inputs: [a, b] }) => g.op("Not", [g.op("Equal", [a, b])]),
  Less: plain("Less", 2),
  LessEqual: plain("LessOrEqual", 2),
  Greater: plain("Greater", 2),
  GreaterEqual: plain("GreaterOrEqual", 2),
  Select: plain("Where", 3),
  SelectV2: plain("Where", 3),
  Mean: reduction("ReduceMean"),
  Sum: reduction("ReduceSum"),
  Max: reduction("ReduceMax"),
  Min: reduction("ReduceMin"),
  Prod: reduction("ReduceProd"),
  All: reducedFlags("ReduceMin"),
  Any: reducedFlags("ReduceMax"),
  ArgMax: best("ArgMax"),
  ArgMin: best("ArgMin"),
  Cumsum: cumsum,
  MatMul: matmul("transpose_a", "transpose_b"),
  _FusedMatMul: matmul("transpose_a", "transpose_b"),
  BatchMatMul: matmul("adj_x", "adj_y"),
  BatchMatMulV2: matmul("adj_x", "adj_y"),
  Einsum: (n) => n.g.op("Einsum", n.inputs, { equation: n.text("equation", "") }),
  Conv2D: conv,
  _FusedConv2D: conv,
  DepthwiseConv2dNative: depthwise,
  FusedDepthwiseConv2dNative: depthwise,
  Conv2DBackpropInput: transposed,
  MaxPool: pool("MaxPool"),
  AvgPool: pool("AveragePool"),
  FusedBatchNorm: norm,
  FusedBatchNormV2: norm,
  FusedBatchNormV3: norm,
  ResizeBilinear: resize("linear"),
  ResizeNearestNeighbor: resize("nearest"),
  DepthToSpace: blocks("DepthToSpace"),
  SpaceToDepth: blocks("SpaceToDepth"),
  SpaceToBatchND: toBatch,
  BatchToSpaceND: fromBatch,
  Shape: (n) => n.g.op("Cast", [n.g.op("Shape", [n.inputs[0]])], { to: n.type("out_type", INT32) }),
  Size: (n) => n.g.op("Cast", [n.g.op("Size", [n.inputs[0]])], { to: n.type("out_type", INT32) }),
  Rank: ({ g, inputs: [x] }) => g.op("Cast", [g.op("Size", [g.op("Shape", [x])])], { to: INT32 }),
  Reshape: plain("Reshape", 2),
  Squeeze: squeeze,
  ExpandDims: plain("Unsqueeze", 2),
  Transpose: (n) => n.g.op("Transpose", [n.inputs[0]], { perm: fixed(n, 1) }),
  Pack: pack,
  Unpack: unpack,
  ConcatV2: concat,
  Split: split,
  SplitV: splitV,
  StridedSlice: stridedSlice,
  Slice: slice,
  Pad: pad(() => "constant"),
  PadV2: pad(() => "constant"),
  MirrorPad: pad(mirror),
  Tile: plain("Tile", 2),
  BroadcastTo: plain("Expand", 2),
  Fill: ({ g, inputs: [dims, value] }) => g.op("Expand", [value, dims]),
  ZerosLike: filledLike(0),
  OnesLike: filledLike(1),
  Range: plain("Range", 3),
  Gather: gather,
  GatherV2: gather,
  GatherNd: ({ g, inputs: [x, at] }) => g.op("GatherND", [x, g.op("Cast", [at], { to: INT64 })]),
  ScatterNd: scatter,
  SparseToDense: sparseToDense,
  OneHot: oneHot,
  TopKV2: topK,
  ReverseV2: reversed,
  Where: ({ g, inputs: [x] }) => g.op("Transpose", [g.op("NonZero", [x])], { perm: [1, 0] }),
  Cast: cast,
};
