/**
 * Operators of TensorFlow Lite, which are those of TensorFlow under numbers, with options in tables. In: a number and its
 * options; out: the name of the operator, its attributes, what it does to its result. Source: TensorFlow Lite's schema,
 * version 3.
 *
 * @module
 */
import type { FlatTable } from "./flatbuffer.ts";
import type { GraphBuilder } from "./graph_builder.ts";
import { TF_OPS, type TfNode } from "./tf_ops.ts";
import type { Fault } from "./weights_manifest.ts";

/** An operator while it is translated. */
export interface LiteNode {
  readonly name: string;
  readonly op: string;
  /** Names of inputs; undefined where one is not given. */
  readonly inputs: readonly (string | undefined)[];
  readonly results: number;
  readonly options: FlatTable | undefined;
  readonly custom: Uint8Array;
  readonly g: GraphBuilder;
  readonly bad: Fault;
  known(name: string | undefined): number[] | undefined;
  /** The shape that the file says of its first result. */
  readonly shape: readonly number[];
  /** The code of the type of its first result. */
  readonly type: number;
}
type LiteOp = (n: LiteNode) => string | string[];
type Attrs = Readonly<Record<string, number | boolean | string | readonly number[]>>;

/** By number, as in the schema. */
export const LITE_NAMES: Readonly<Record<number, string>> = Object.fromEntries(
  ("0 ADD,1 AVERAGE_POOL_2D,2 CONCATENATION,3 CONV_2D,4 DEPTHWISE_CONV_2D,5 DEPTH_TO_SPACE,6 DEQUANTIZE,8 FLOOR," +
    "9 FULLY_CONNECTED,14 LOGISTIC,17 MAX_POOL_2D,18 MUL,19 RELU,20 RELU_N1_TO_1,21 RELU6,22 RESHAPE,23 RESIZE_BILINEAR," +
    "25 SOFTMAX,26 SPACE_TO_DEPTH,28 TANH,32 CUSTOM,34 PAD,36 GATHER,37 BATCH_TO_SPACE_ND,38 SPACE_TO_BATCH_ND," +
    "39 TRANSPOSE,40 MEAN,41 SUB,42 DIV,43 SQUEEZE,45 STRIDED_SLICE,47 EXP,48 TOPK_V2,49 SPLIT,50 LOG_SOFTMAX,53 CAST," +
    "54 PRELU,55 MAXIMUM,56 ARG_MAX,57 MINIMUM,58 LESS,59 NEG,60 PADV2,61 GREATER,62 GREATER_EQUAL,63 LESS_EQUAL," +
    "64 SELECT,65 SLICE,66 SIN,67 TRANSPOSE_CONV,69 TILE,70 EXPAND_DIMS,71 EQUAL,72 NOT_EQUAL,73 LOG,74 SUM,75 SQRT," +
    "76 RSQRT,77 SHAPE,78 POW,79 ARG_MIN,81 REDUCE_PROD,82 REDUCE_MAX,83 PACK,84 LOGICAL_OR,85 ONE_HOT,86 LOGICAL_AND," +
    "87 LOGICAL_NOT,88 UNPACK,89 REDUCE_MIN,90 FLOOR_DIV,91 REDUCE_ANY,92 SQUARE,93 ZEROS_LIKE,94 FILL,95 FLOOR_MOD," +
    "96 RANGE,97 RESIZE_NEAREST_NEIGHBOR,98 LEAKY_RELU,99 SQUARED_DIFFERENCE,100 MIRROR_PAD,101 ABS,102 SPLIT_V,104 CEIL," +
    "105 REVERSE_V2,106 ADD_N,107 GATHER_ND,108 COS,109 WHERE,110 RANK,111 ELU,114 QUANTIZE,116 ROUND,117 HARD_SWISH," +
    "118 IF,119 WHILE,122 SCATTER_ND,123 SELECT_V2,126 BATCH_MATMUL,128 CUMSUM,130 BROADCAST_TO,150 GELU")
    .split(",").map((row) => row.split(" ")),
);

/** What an enumeration of the schema says comes behind an operator. */
const ACTIVATIONS: readonly (string | undefined)[] = [undefined, "Relu", "ReluN1To1", "Relu6", "Tanh"];
function activated({ g, bad, name, ...n }: LiteNode, code: number, y: string): string {
  const op = ACTIVATIONS[code];
  if (code === 0) return y;
  if (op === undefined) throw bad(`${n.op} "${name}" is fused with activation ${code}, which is not known`);
  return TF_OPS[op]({ inputs: [y], g } as unknown as TfNode) as string;
}

/** A node of TensorFlow with these attributes. */
function tf(
  n: LiteNode,
  op: string,
  attrs: Attrs = {},
  inputs: readonly (string | undefined)[] = n.inputs,
): string | string[] {
  const given = inputs.map((i, k) => {
    if (i === undefined) throw n.bad(`${n.op} "${n.name}" has no input ${k}`);
    return i;
  });
  return TF_OPS[op]({
    name: n.name,
    op,
    inputs: given,
    g: n.g,
    bad: n.bad,
    results: n.results,
    known: (i) => n.known(given[i]),
    int: (name, otherwise) => (attrs[name] ?? otherwise) as number,
    float: (name, otherwise) => (attrs[name] ?? otherwise) as number,
    flag: (name, otherwise = false) => (attrs[name] ?? otherwise) as boolean,
    text: (name, otherwise) => (attrs[name] ?? otherwise) as string,
    ints: (name, otherwise = []) => (attrs[name] ?? otherwise) as readonly number[],
    texts: () => [],
    type: (name, otherwise) => (attrs[name] ?? otherwise) as number,
  });
}
const plain = (op: string, count = 1): LiteOp => (n) => tf(n, op, {}, n.inputs.slice(0, count));
/** With an activation in the first option. */
const acting = (op: string): LiteOp => (n) =>
  activated(n, n.options?.int8(0) ?? 0, tf(n, op, {}, n.inputs.slice(0, 2)) as string);
const padding = (code: number): Attrs => ({ padding: code === 0 ? "SAME" : "VALID" });
const four = (h: number, w: number): number[] => [1, h, w, 1];

function optionsOf(n: LiteNode): FlatTable {
  if (n.options === undefined) throw n.bad(`${n.op} "${n.name}" has no options`);
  return n.options;
}
function withBias(n: LiteNode, y: string, bias: string | undefined): string {
  return bias === undefined ? y : n.g.op("Add", [y, bias]);
}
const conv: LiteOp = (n) => {
  const o = optionsOf(n), [x, filter, bias] = n.inputs;
  const weight = n.g.op("Transpose", [filter], { perm: [1, 2, 3, 0] }); // [out, h, w, in]
  const attrs = { ...padding(o.byte(0)), strides: four(o.int(2), o.int(1)), dilations: four(o.int(5, 1), o.int(4, 1)) };
  return activated(n, o.int8(3), withBias(n, tf(n, "Conv2D", attrs, [x, weight]) as string, bias));
};
/** Filters are [1, h, w, channels times multiplier]. */
const depthwise: LiteOp = (n) => {
  const o = optionsOf(n), { g } = n, [x, filter, bias] = n.inputs, multiplier = Math.max(1, o.int(3));
  const perm = g.op("Transpose", [filter], { perm: [3, 0, 1, 2] });
  const attributes = {
    strides: [o.int(2), o.int(1)],
    dilations: [o.int(6, 1), o.int(5, 1)],
    group: (n.shape.at(-1) ?? 0) / multiplier,
    ...(o.byte(0) === 0 ? { auto_pad: "SAME_UPPER" } : {}),
  };
  const first = g.op("Transpose", [x], { perm: [0, 3, 1, 2] });
  const y = g.op("Transpose", [g.op("Conv", [first, perm], attributes)], { perm: [0, 2, 3, 1] });
  return activated(n, o.int8(4), withBias(n, y, bias));
};
/** Inputs are the shape, filters [out, h, w, in], what is spread, and perhaps a bias. */
const transposedConv: LiteOp = (n) => {
  const o = optionsOf(n), [shape, filter, x, bias] = n.inputs;
  const weight = n.g.op("Transpose", [filter], { perm: [1, 2, 0, 3] }); // [h, w, out, in]
  const attrs = { ...padding(o.byte(0)), strides: four(o.int(2), o.int(1)) };
  return activated(n, o.int8(3), withBias(n, tf(n, "Conv2DBackpropInput", attrs, [shape, weight, x]) as string, bias));
};
/** Of MediaPipe: its options are padding and strides, three whole numbers. */
const transposedBias: LiteOp = (n) => {
  const { g } = n, [x, filter, bias] = n.inputs, o = n.custom;
  if (o.length < 12) throw n.bad(`${n.op} "${n.name}" has ${o.length} bytes of options, not 12`);
  const view = new DataView(o.buffer, o.byteOffset), [pad, w, h] = [0, 4, 8].map((at) => view.getInt32(at, true));
  const weight = g.op("Transpose", [filter], { perm: [1, 2, 0, 3] });
  const attrs = { ...padding(pad === 1 ? 0 : 1), strides: four(h, w) };
  return withBias(n, tf(n, "Conv2DBackpropInput", attrs, [g.ints(n.shape), weight, x]) as string, bias);
};
const pool = (op: string): LiteOp => (n) => {
  const o = optionsOf(n), attrs = { ...padding(o.byte(0)), strides: four(o.int(2), o.int(1)) };
  return activated(n, o.int8(5), tf(n, op, { ...attrs, ksize: four(o.int(4), o.int(3)) }) as string);
};
/** Rows of what is given as one by one, by weights [out, in]. */
const dense: LiteOp = (n) => {
  const { g } = n, [x, weight, bias] = n.inputs, dims = g.weightOf(weight ?? "")?.dims ?? [];
  const rows = n.options?.flag(2) || dims.length !== 2 ? x : g.op("Reshape", [x, g.ints([-1, dims[1]])]);
  const y = g.op("MatMul", [rows, g.op("Transpose", [weight], { perm: [1, 0] })]);
  return activated(n, n.options?.int8(0) ?? 0, withBias(n, y, bias));
};
const concat: LiteOp = (n) =>
  activated(n, n.options?.int8(1) ?? 0, n.g.op("Concat", n.inputs, { axis: n.options?.int(0) ?? 0 }));
const reshape: LiteOp = (n) => {
  const shape = n.inputs[1] ?? n.g.ints(n.options?.ints(0) ?? []);
  return tf(n, "Reshape", {}, [n.inputs[0], shape]);
};
const reduce = (op: string): LiteOp => (n) => tf(n, op, { keep_dims: n.options?.flag(0) ?? false });
const matmul: LiteOp = (n) =>
  tf(n, "BatchMatMulV2", { adj_x: n.options?.flag(0) ?? false, adj_y: n.options?.flag(1) ?? false });
const stridedSlice: LiteOp = (n) => {
  const names = ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"];
  return tf(n, "StridedSlice", Object.fromEntries(names.map((name, i) => [name, n.options?.int(i) ?? 0])));
};
const resize = (op: string, corners: number): LiteOp => (n) =>
  tf(n, op, {
    align_corners: n.options?.flag(corners) ?? false,
    half_pixel_centers: n.options?.flag(corners + 1) ?? false,
  });
const split: LiteOp = (n) => n.g.ops("Split", [n.inputs[1]], n.results, { axis: known1(n, 0), num_outputs: n.results });
function known1(n: LiteNode, i: number): number {
  const found = n.known(n.inputs[i]);
  if (found?.length !== 1) throw n.bad(`${n.op} "${n.name}" has an input ${i} that is no constant number`);
  return found[0];
}

/** By the name of the operator in the schema. */
export const LITE_OPS: Readonly<Record<string, LiteOp>> = {
  ADD: acting("Add"),
  SUB: acting("Sub"),
  MUL: acting("Mul"),
  DIV: acting("Div"),
  CONV_2D: conv,
  DEPTHWISE_CONV_2D: depthwise,
  TRANSPOSE_CONV: transposedConv,
  Convolution2DTransposeBias: transposedBias,
  FULLY_CONNECTED: dense,
  BATCH_MATMUL: matmul,
  AVERAGE_POOL_2D: pool("AvgPool"),
  MAX_POOL_2D: pool("MaxPool"),
  CONCATENATION: concat,
  RESHAPE: reshape,
  // values of the file are quantized or not by their types: what comes in is a float already
  DEQUANTIZE: plain("Identity"),
  QUANTIZE: plain("Identity"),
  SOFTMAX: (n) => tf(n, "Softmax", { beta: n.options?.float(0, 1) ?? 1 }, n.inputs.slice(0, 1)),
  LOG_SOFTMAX: plain("LogSoftmax"),
  LOGISTIC: plain("Sigmoid"),
  TANH: plain("Tanh"),
  RELU: plain("Relu"),
  RELU6: plain("Relu6"),
  RELU_N1_TO_1: plain("ReluN1To1"),
  LEAKY_RELU: (n) => tf(n, "LeakyRelu", { alpha: n.options?.float(0) ?? 0 }),
  PRELU: plain("Prelu", 2),
  ELU: plain("Elu"),
  HARD_SWISH: plain("HardSwish"),
  GELU: (n) => tf(n, "Gelu", { approximate: n.options?.flag(0) ?? false }),
  ABS: plain("Abs"),
  NEG: plain("Neg"),
  EXP: plain("Exp"),
  LOG: plain("Log"),
  SQRT: plain("Sqrt"),
  RSQRT: plain("Rsqrt"),
  SQUARE: plain("Square"),
  SIN: plain("Sin"),
  COS: plain("Cos"),
  FLOOR: plain("Floor"),
  CEIL: plain("Ceil"),
  ROUND: plain("Round"),
  POW: plain("Pow", 2),
  MAXIMUM: plain("Maximum", 2),
  MINIMUM: plain("Minimum", 2),
  FLOOR_DIV: (n) => tf(n, "FloorDiv", { T: n.type }),
  FLOOR_MOD: (n) => tf(n, "FloorMod", { T: n.type }),
  SQUARED_DIFFERENCE: plain("SquaredDifference", 2),
  ADD_N: (n) => tf(n, "AddN"),
  EQUAL: plain("Equal", 2),
  NOT_EQUAL: plain("NotEqual", 2),
  LESS: plain("Less", 2),
  LESS_EQUAL: plain("LessEqual", 2),
  GREATER: plain("Greater", 2),
  GREATER_EQUAL: plain("GreaterEqual", 2),
  LOGICAL_AND: plain("LogicalAnd", 2),
  LOGICAL_OR: plain("LogicalOr", 2),
  LOGICAL_NOT: plain("LogicalNot"),
  SELECT: plain("Select", 3),
  SELECT_V2: plain("SelectV2", 3),
  MEAN: reduce("Mean"),
  SUM: reduce("Sum"),
  REDUCE_MAX: reduce("Max"),
  REDUCE_MIN: reduce("Min"),
  REDUCE_PROD: reduce("Prod"),
  REDUCE_ANY: reduce("Any"),
  ARG_MAX: (n) => tf(n, "ArgMax", { output_type: n.type }),
  ARG_MIN: (n) => tf(n, "ArgMin", { output_type: n.type }),
  CUMSUM: (n) => tf(n, "Cumsum", { exclusive: n.options?.flag(0) ?? false, reverse: n.options?.flag(1) ?? false }),
  TRANSPOSE: plain("Transpose", 2),
  SQUEEZE: (n) => tf(n, "Squeeze", { squeeze_dims: n.options?.ints(0) ?? [] }),
  EXPAND_DIMS: plain("ExpandDims", 2),
  SHAPE: (n) => tf(n, "Shape", { out_type: n.type }),
  RANK: plain("Rank"),
  PACK: (n) => tf(n, "Pack", { axis: n.options?.int(1) ?? 0 }),
  UNPACK: (n) => tf(n, "Unpack", { num: n.results, axis: n.options?.int(1) ?? 0 }),
  SPLIT: split,
  SPLIT_V: plain("SplitV", 3),
  SLICE: plain("Slice", 3),
  STRIDED_SLICE: stridedSlice,
  PAD: plain("Pad", 2),
  PADV2: plain("PadV2", 3),
  MIRROR_PAD: (n) => tf(n, "MirrorPad", { mode: n.options?.byte(0) === 1 ? "SYMMETRIC" : "REFLECT" }),
  TILE: plain("Tile", 2),
  FILL: plain("Fill", 2),
  RANGE: plain("Range", 3),
  BROADCAST_TO: plain("BroadcastTo", 2),
  ZEROS_LIKE: plain("ZerosLike"),
  GATHER: (n) =>
    tf(n, "Gather", { axis: n.options?.int(0) ?? 0, batch_dims: n.options?.int(1) ?? 0 }, n.inputs.slice(0, 2)),
  GATHER_ND: plain("GatherNd", 2),
  SCATTER_ND: plain("ScatterNd", 3),
  ONE_HOT: (n) => tf(n, "OneHot", { axis: n.options?.int(0, -1) ?? -1 }),
  TOPK_V2: plain("TopKV2", 2),
  REVERSE_V2: plain("ReverseV2", 2),
  WHERE: plain("Where"),
  CAST: (n) => tf(n, "Cast", { DstT: n.type }),
  RESIZE_BILINEAR: resize("ResizeBilinear", 2),
  RESIZE_NEAREST_NEIGHBOR: resize("ResizeNearestNeighbor", 0),
  DEPTH_TO_SPACE: (n) => tf(n, "DepthToSpace", { block_size: n.options?.int(0) ?? 0 }),
  SPACE_TO_DEPTH: (n) => tf(n, "SpaceToDepth", { block_size: n.options?.int(0) ?? 0 }),
  SPACE_TO_BATCH_ND: plain("SpaceToBatchND", 3),
  BATCH_TO_SPACE_ND: plain("BatchToSpaceND", 3),
};
