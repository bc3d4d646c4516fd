/**
 * Graph models of TensorFlow.js of a node or two, with inputs: what tests run here, and `against_tfjs.ts` in TensorFlow.js
 * itself.
 *
 * @module
 */
/** Numbers of a shape: floats, or whole ones. */
export interface CaseTensor {
  readonly shape: readonly number[];
  readonly values: readonly number[];
  readonly dtype: "float32" | "int32" | "bool";
}
/** A node of the file. */
export interface CaseNode {
  readonly name: string;
  readonly op: string;
  readonly input: readonly string[];
  readonly attr: Readonly<Record<string, unknown>>;
}
/** A model, its inputs, and what is asked of it. */
export interface GraphCase {
  readonly name: string;
  readonly nodes: readonly CaseNode[];
  readonly constants: Readonly<Record<string, CaseTensor>>;
  readonly inputs: Readonly<Record<string, CaseTensor>>;
  readonly outputs: readonly string[];
}

let seed = 1;
/** Numbers from -1 to 1, the same in each run. */
function floats(...shape: number[]): CaseTensor {
  const values = Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => {
    seed = (seed * 48271) % 2147483647;
    return Math.fround(seed / 1073741823.5 - 1);
  });
  return { shape, values, dtype: "float32" };
}
function ints(values: readonly number[] | number, shape?: readonly number[]): CaseTensor {
  const list = typeof values === "number" ? [values] : values;
  return { shape: shape ?? (typeof values === "number" ? [] : [list.length]), values: list, dtype: "int32" };
}
const i = (n: number) => ({ i: String(n) }), f = (x: number) => ({ f: x }), b = (x: boolean) => ({ b: x });
const s = (text: string) => ({ s: btoa(text) }), list = (...ns: number[]) => ({ list: { i: ns.map(String) } });
const texts = (...ts: string[]) => ({ list: { s: ts.map((t) => btoa(t)) } });
const type = (name: string) => ({ type: `DT_${name}` });
const FLOAT = { T: type("FLOAT") };

/** A case of one node: inputs are given, constants are part of the file. */
function one(
  op: string,
  inputs: Readonly<Record<string, CaseTensor>>,
  constants: Readonly<Record<string, CaseTensor>> = {},
  attr: Readonly<Record<string, unknown>> = {},
  order: readonly string[] = [...Object.keys(inputs), ...Object.keys(constants)],
  results = 1,
  label = "",
): GraphCase {
  const outputs = Array.from({ length: results }, (_, k) => k === 0 ? "y" : `y:${k}`);
  return {
    name: `${op}${label && ` ${label}`}`,
    nodes: [{ name: "y", op, input: order, attr: { ...FLOAT, ...attr } }],
    constants,
    inputs,
    outputs,
  };
}
const unary = (op: string, attr = {}): GraphCase => one(op, { x: floats(2, 3) }, {}, attr);
const binary = (op: string): GraphCase => one(op, { a: floats(2, 3), b: floats(3) });
const reduce = (op: string, keep: boolean, axes: readonly number[]): GraphCase =>
  one(op, { x: floats(2, 3, 4) }, { axes: ints(axes) }, { keep_dims: b(keep) }, undefined, 1, `${axes} ${keep}`);
const slice = (begin: number[], end: number[], steps: number[], masks: Record<string, number>): GraphCase =>
  one(
    "StridedSlice",
    { x: floats(3, 4, 5) },
    { begin: ints(begin), end: ints(end), steps: ints(steps) },
    Object.fromEntries(Object.entries(masks).map(([name, n]) => [`${name}_mask`, i(n)])),
    undefined,
    1,
    `${begin} ${end} ${steps} ${Object.entries(masks)}`,
  );
const window = (padding: string, stride: number, dilation = 1) => ({
  strides: list(1, stride, stride, 1),
  dilations: list(1, dilation, dilation, 1),
  padding: s(padding),
  data_format: s("NHWC"),
});
const conv = (padding: string, stride: number, dilation = 1): GraphCase =>
  one(
    "Conv2D",
    { x: floats(1, 7, 6, 2) },
    { w: floats(3, 2, 2, 3) },
    window(padding, stride, dilation),
    undefined,
    1,
    `${padding} ${stride} ${dilation}`,
  );
const depth = (padding: string, stride: number): GraphCase =>
  one(
    "DepthwiseConv2dNative",
    { x: floats(1, 7, 6, 2) },
    { w: floats(3, 3, 2, 2) },
    window(padding, stride),
    undefined,
    1,
    `${padding} ${stride}`,
  );
const pool = (op: string, padding: string): GraphCase =>
  one(op, { x: floats(1, 7, 6, 2) }, {}, { ...window(padding, 2), ksize: list(1, 3, 2, 1) }, undefined, 1, padding);
const resize = (op: string, corners: boolean, half: boolean, size: [number, number]): GraphCase =>
  one(
    op,
    { x: floats(1, 3, 4, 2) },
    { size: ints(size) },
    { align_corners: b(corners), half_pixel_centers: b(half) },
    undefined,
    1,
    `${corners} ${half} ${size}`,
  );

/** All of them. */
export const GRAPH_CASES: readonly GraphCase[] = [
  ...[
    "Neg",
    "Abs",
    "Exp",
    "Square",
    "Sin",
    "Cos",
    "Tan",
    "Atan",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Erf",
    "Relu",
    "Relu6",
  ]
    .map((op) => unary(op)),
  ...["Elu", "Selu", "Sigmoid", "Tanh", "Softplus", "Softmax", "LogSoftmax", "Reciprocal", "ZerosLike", "OnesLike"].map(
    (op) => unary(op),
  ),
  one("Rsqrt", { x: { ...floats(3), values: [0.5, 4, 9] } }),
  one("Log1p", { x: { ...floats(3), values: [0.5, 4, 9] } }),
  unary("LeakyRelu", { alpha: f(0.3) }),
  ...["Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "SquaredDifference"].map(binary),
  one("FloorDiv", { a: floats(4), b: floats(4) }),
  one("FloorMod", { a: floats(4), b: floats(4) }),
  ...["FloorDiv", "FloorMod"].map((op) =>
    one(op, { a: ints([7, -7, 7, -7]), b: ints([2, 2, -2, -2]) }, {}, { T: type("INT32") }, undefined, 1, "of int32")
  ),
  one("DivNoNan", { a: floats(4), b: { ...floats(4), values: [0, 2, 0, -1] } }),
  one("AddN", { a: floats(4), b: floats(4), c: floats(4) }, {}, { N: i(3) }),
  ...["Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"].map(binary),
  ...["Mean", "Sum", "Max", "Min", "Prod"].flatMap((op) => [reduce(op, false, [1]), reduce(op, true, [0, -1])]),
  one("ArgMax", { x: floats(3, 4) }, { axis: ints(1) }),
  one("ArgMin", { x: floats(3, 4) }, { axis: ints(0) }),
  one("Cumsum", { x: floats(3, 4) }, { axis: ints(1) }, { exclusive: b(true), reverse: b(true) }),
  one("MatMul", { a: floats(3, 2), b: floats(4, 3) }, {}, { transpose_a: b(true), transpose_b: b(true) }),
  one("BatchMatMul", { a: floats(2, 3, 4), b: floats(2, 5, 4) }, {}, { adj_x: b(false), adj_y: b(true) }),
  one("_FusedMatMul", { a: floats(3, 2) }, { w: floats(2, 4), bias: floats(4) }, {
    fused_ops: texts("BiasAdd", "Relu"),
    num_args: i(1),
  }),
  conv("SAME", 1),
  conv("SAME", 2),
  conv("VALID", 2),
  conv("SAME", 1, 2),
  one("_FusedConv2D", { x: floats(1, 5, 5, 2) }, { w: floats(3, 3, 2, 3), bias: floats(3) }, {
    ...window("SAME", 2),
    fused_ops: texts("BiasAdd", "Relu6"),
    num_args: i(1),
  }),
  depth("SAME", 1),
  depth("VALID", 2),
  one("FusedDepthwiseConv2dNative", { x: floats(1, 5, 5, 2) }, { w: floats(3, 3, 2, 1), bias: floats(2) }, {
    ...window("SAME", 1),
    fused_ops: texts("BiasAdd", "Elu"),
    num_args: i(1),
  }),
  one(
    "Conv2DBackpropInput",
    { x: floats(1, 3, 4, 2) },
    { shape: ints([1, 6, 8, 3]), w: floats(3, 3, 3, 2) },
    window("SAME", 2),
    [
      "shape",
      "w",
      "x",
    ],
  ),
  pool("MaxPool", "SAME"),
  pool("MaxPool", "VALID"),
  pool("AvgPool", "SAME"),
  one("FusedBatchNormV3", { x: floats(1, 2, 2, 3) }, {
    scale: floats(3),
    offset: floats(3),
    mean: floats(3),
    variance: { ...floats(3), values: [0.5, 1, 2] },
  }, { epsilon: f(0.001), is_training: b(false), data_format: s("NHWC") }),
  one("BiasAdd", { x: floats(1, 2, 2, 3) }, { bias: floats(3) }, { data_format: s("NHWC") }),
  resize("ResizeBilinear", false, true, [6, 5]),
  resize("ResizeBilinear", true, false, [6, 5]),
  resize("ResizeBilinear", false, false, [5, 8]),
  resize("ResizeNearestNeighbor", false, true, [6, 8]),
  resize("ResizeNearestNeighbor", false, false, [5, 3]),
  one("DepthToSpace", { x: floats(1, 2, 3, 8) }, {}, { block_size: i(2), data_format: s("NHWC") }),
  one("SpaceToBatchND", { x: floats(2, 3, 4, 2) }, { block: ints([2, 3]), paddings: ints([1, 0, 1, 1], [2, 2]) }),
  one("BatchToSpaceND", { x: floats(12, 2, 2, 2) }, { block: ints([2, 3]), crops: ints([1, 0, 1, 2], [2, 2]) }),
  slice([0, 1, 0], [2, 3, 0], [1, 1, 1], { end: 4 }),
  slice([-1, 0, 0], [0, 0, 0], [1, 1, 1], { begin: 6, end: 6, shrink_axis: 1 }),
  slice([0, 3, 1], [0, 0, 5], [1, -1, 2], { begin: 1, end: 3 }),
  slice([0, 2], [0, 4], [1, 1], { ellipsis: 1 }),
  slice([1, 0, 0], [2, 0, 0], [1, 1, 1], { ellipsis: 2, shrink_axis: 1, begin: 4, end: 4 }),
  slice([0, 0, 1], [0, 0, 2], [1, 1, 1], { begin: 3, end: 3, new_axis: 2 }),
  slice([1, 2], [2, 3], [1, 1], { shrink_axis: 3 }),
  one("Slice", { x: floats(3, 4) }, { begin: ints([1, 0]), size: ints([-1, 2]) }),
  one("Reshape", { x: floats(3, 4) }, { shape: ints([2, -1]) }),
  one("Squeeze", { x: floats(3, 1, 4, 1) }, {}, { squeeze_dims: list(-1) }),
  one("ExpandDims", { x: floats(3, 4) }, { dim: ints(-1) }),
  one("Transpose", { x: floats(2, 3, 4) }, { perm: ints([2, 0, 1]) }),
  one("Pack", { a: floats(3), b: floats(3) }, {}, { N: i(2), axis: i(1) }),
  one("Unpack", { x: floats(2, 3) }, {}, { num: i(3), axis: i(1) }, undefined, 3),
  one("ConcatV2", { a: floats(2, 3), b: floats(2, 1) }, { axis: ints(-1) }, { N: i(2) }),
  one("Split", { x: floats(2, 4) }, { axis: ints(1) }, { num_split: i(2) }, ["axis", "x"], 2),
  one("SplitV", { x: floats(2, 5) }, { sizes: ints([2, 3]), axis: ints(1) }, { num_split: i(2) }, undefined, 2),
  one("Pad", { x: floats(2, 3) }, { paddings: ints([1, 0, 2, 1], [2, 2]) }),
  one("PadV2", { x: floats(2, 3) }, {
    paddings: ints([1, 0, 2, 1], [2, 2]),
    value: { ...floats(1), shape: [], values: [7] },
  }),
  one("MirrorPad", { x: floats(3, 4) }, { paddings: ints([1, 1, 2, 0], [2, 2]) }, { mode: s("REFLECT") }),
  one("Tile", { x: floats(2, 3) }, { repeats: ints([2, 1]) }),
  one("Fill", {}, { dims: ints([2, 3]), value: { ...floats(1), shape: [], values: [3] } }),
  one("GatherV2", { x: floats(4, 3) }, { at: ints([3, 0, 0]), axis: ints(0) }, { batch_dims: i(0) }),
  one("GatherNd", { x: floats(4, 3) }, { at: ints([3, 0, 1, 2], [2, 2]) }),
  one("ScatterNd", { values: floats(3, 2) }, { at: ints([3, 0, 3], [3, 1]), shape: ints([4, 2]) }, {}, [
    "at",
    "values",
    "shape",
  ]),
  one("OneHot", { at: ints([2, 0]) }, {
    depth: ints(3),
    on: { ...floats(1), shape: [], values: [5] },
    off: { ...floats(1), shape: [], values: [1] },
  }, { axis: i(-1) }),
  one("TopKV2", { x: floats(2, 5) }, { k: ints(3) }, { sorted: b(true) }, undefined, 2),
  one("ReverseV2", { x: floats(2, 3, 2) }, { axes: ints([0, 2]) }),
  one("SelectV2", { a: floats(3), b: floats(3) }, { q: { shape: [3], values: [1, 0, 1], dtype: "bool" } }, {}, [
    "q",
    "a",
    "b",
  ]),
  one("Cast", { x: { ...floats(4), values: [1.7, -1.7, 0, 3] } }, {}, { SrcT: type("FLOAT"), DstT: type("INT32") }),
  {
    name: "a flat copy by a shape that is computed",
    nodes: [
      { name: "s", op: "Shape", input: ["x"], attr: { ...FLOAT, out_type: type("INT32") } },
      { name: "p", op: "Prod", input: ["s", "zero"], attr: { T: type("INT32"), keep_dims: b(false) } },
      { name: "q", op: "Pack", input: ["one", "p"], attr: { N: i(2), axis: i(0) } },
      { name: "y", op: "Reshape", input: ["x", "q"], attr: FLOAT },
    ],
    constants: { zero: ints([0]), one: ints(1) },
    inputs: { x: floats(2, 3) },
    outputs: ["y"],
  },
  {
    name: "rows where a condition holds",
    nodes: [
      { name: "q", op: "Greater", input: ["x", "zero"], attr: FLOAT },
      { name: "w", op: "Where", input: ["q"], attr: {} },
      { name: "f", op: "Reshape", input: ["w", "flat"], attr: { T: type("INT64") } },
      { name: "y", op: "GatherV2", input: ["x", "f", "axis"], attr: { batch_dims: i(0) } },
    ],
    constants: { zero: { ...floats(1), shape: [], values: [0] }, flat: ints([-1]), axis: ints(0) },
    inputs: { x: floats(8) },
    outputs: ["y"],
  },
];

/** A case as `model.json` and its weights. */
export function modelOfCase(
  c: GraphCase,
): { model: Record<string, unknown>; files: Record<string, Uint8Array<ArrayBuffer>> } {
  const placeholder = ([name, t]: [string, CaseTensor]) => ({
    name,
    op: "Placeholder",
    input: [],
    attr: {
      dtype: type(t.dtype === "float32" ? "FLOAT" : "INT32"),
      shape: { shape: { dim: t.shape.map((n) => ({ size: String(n) })) } },
    },
  });
  const constants = Object.entries(c.constants);
  const bytes = constants.map(([, t]) =>
    t.dtype === "bool"
      ? Uint8Array.from(t.values)
      : new Uint8Array((t.dtype === "int32" ? Int32Array.from(t.values) : Float32Array.from(t.values)).buffer)
  );
  const node = [
    ...Object.entries(c.inputs).map(placeholder),
    ...constants.map(([name, t]) => ({
      name,
      op: "Const",
      input: [],
      attr: { dtype: type({ float32: "FLOAT", int32: "INT32", bool: "BOOL" }[t.dtype]) },
    })),
    ...c.nodes,
  ];
  const weights = constants.map(([name, { shape, dtype }]) => ({ name, shape, dtype }));
  const all = new Uint8Array(bytes.reduce((n, x) => n + x.length, 0));
  bytes.reduce((at, x) => {
    all.set(x, at);
    return at + x.length;
  }, 0);
  return {
    model: {
      format: "graph-model",
      signature: { outputs: Object.fromEntries(c.outputs.map((name, k) => [`o${k}`, { name }])) },
      modelTopology: { node, versions: { producer: 1 } },
      weightsManifest: [{ paths: ["w.bin"], weights }],
    },
    files: { "w.bin": all },
  };
}
