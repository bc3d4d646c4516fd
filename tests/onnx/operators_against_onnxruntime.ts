/**
 * Operators beside onnxruntime that the node tests of ONNX have little or nothing of: those of com.microsoft, classical
 * models, older versions, other modes. `deno run -A --no-check tests/onnx/operators_against_onnxruntime.ts` ends with 1
 * where a result differs by more than 1e-4 of the largest value. Fetches npm's onnxruntime-node (114 MB).
 *
 * @module
 */
import { Tensor } from "../../mod.ts";
import { load } from "../../src/onnx/onnx.ts";
import { compareModels, onnxruntime, TOLERANCE } from "./against_onnxruntime.ts";
import { type Attr, buildModel } from "./build_model.ts";

type Port = [type: number, sizes: (number | string)[]];
const F = 1, device = "WASM";
const CODES: Readonly<Record<string, number>> = { float32: 1, uint8: 2, int8: 3, int32: 6, int64: 7, bool: 9 };

let seed = 7;
/** A number from -1 to 1. */
function draw(): number {
  seed = (seed * 1103515245 + 12345) % 2 ** 31;
  return seed / 2 ** 30 - 1;
}
/** A tensor whose elements are drawn, or given by their position. */
function t(shape: number[], dtype = "float32", value: (i: number) => number = draw): Tensor {
  const data = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => value(i));
  return new Tensor(data, { device }).reshape(shape).cast(dtype);
}
/** Numbers of one axis. */
const list = (...x: number[]): Tensor => t([x.length], "float32", (i) => x[i]);
/** A tensor of one value. */
const full = (shape: number[], x: number, dtype?: string): Tensor => t(shape, dtype, () => x);
/** The scale and the zero point of bytes. */
const quantized = (scale: number, zero: number): Tensor[] => [full([], scale), full([], zero, "uint8")];
const I = (int: number): Attr => ({ int }),
  Fl = (float: number): Attr => ({ float }),
  T = (text: string): Attr => ({ text });
const pos = (): number => Math.abs(draw()) + 0.01;

interface Checks {
  readonly ort: Awaited<ReturnType<typeof onnxruntime>>;
  wrong: number;
  count: number;
}

/** A result: its rank where it is float32, the code of its type and its rank, or null for one that is not asked for. */
type Out = number | readonly [type: number, rank: number] | null;
type Attributes = Readonly<Record<string, Attr>>;

/** A node by both. Its operator is the first word of its name. */
async function check(
  c: Checks,
  [domain, opset]: readonly [string, number],
  name: string,
  given: readonly (Tensor | null)[],
  outs: readonly Out[],
  attributes: Attributes = {},
): Promise<void> {
  const inputs: Record<string, Port> = {}, outputs: Record<string, Port> = {}, tensors: Record<string, Tensor> = {};
  const [op] = name.split(" ");
  given.forEach((x, i) => {
    if (x === null) return;
    inputs[`i${i}`] = [CODES[x.dtype.name], x.shape];
    tensors[`i${i}`] = x;
  });
  outs.forEach((out, i) => {
    if (out === null) return;
    const [type, rank] = typeof out === "number" ? [F, out] : out;
    outputs[`o${i}`] = [type, Array.from({ length: rank }, (_, k) => `d${i}_${k}`)];
  });
  const names = given.map((x, i) => x === null ? "" : `i${i}`),
    results = outs.map((out, i) => out === null ? "" : `o${i}`);
  const bytes = buildModel({ nodes: [[op, names, results, attributes, "n", domain]], inputs, outputs, opset, domain });
  c.count++;
  try {
    const found = await compareModels(c.ort, bytes, tensors, await load(bytes, { device }));
    const bad = found.filter((r) => !(r.difference <= TOLERANCE * Math.max(1, r.largest)));
    if (bad.length > 0) c.wrong++;
    for (const r of bad) console.log(`${name} ${r.name}: differs by ${r.difference} of ${r.largest}`);
  } catch (error) {
    c.wrong++;
    console.log(`${name}: ${(error as Error).message}`);
  }
}

/** An operator of com.microsoft. */
function ms(c: Checks, name: string, given: (Tensor | null)[], outs: Out[], attributes?: Attributes): Promise<void> {
  return check(c, ["com.microsoft", 17], name, given, outs, attributes);
}

/** One of a classical model. */
function ml(c: Checks, name: string, given: (Tensor | null)[], outs: Out[], attributes?: Attributes): Promise<void> {
  return check(c, ["ai.onnx.ml", 17], name, given, outs, attributes);
}

/** A standard one, as an opset has it. */
function std(
  c: Checks,
  opset: number,
  name: string,
  given: (Tensor | null)[],
  outs: Out[],
  attributes?: Attributes,
): Promise<void> {
  return check(c, ["", opset], name, given, outs, attributes);
}

async function ofMicrosoft(c: Checks): Promise<void> {
  await ms(c, "Gelu", [t([2, 5])], [2]);
  await ms(c, "QuickGelu", [t([2, 5])], [2]);
  await ms(c, "FastGelu", [t([2, 5]), t([5])], [2]);
  await ms(c, "BiasGelu", [t([2, 5]), t([5])], [2]);
  await ms(c, "SkipLayerNormalization", [t([2, 3, 8]), t([2, 3, 8]), t([8]), t([8]), t([8])], [
    3,
    null,
    null,
    3,
  ], { epsilon: Fl(1e-5) });
  await ms(c, "SkipSimplifiedLayerNormalization", [t([2, 3, 8]), t([2, 3, 8]), t([8])], [3, null, null, 3], {
    epsilon: Fl(1e-5),
  });
  await ms(
    c,
    "EmbedLayerNormalization",
    [
      t([2, 4], "int32", (i) => i % 6),
      t([2, 4], "int32", (i) => i % 2),
      t([6, 8]),
      t([10, 8]),
      t([2, 8]),
      t([8]),
      t([8]),
      t([2, 4], "int32", (i) => i === 3 ? 0 : 1),
    ],
    [3, [6, 1]],
    { epsilon: Fl(1e-5) },
  );
  await ms(c, "Attention", [t([2, 4, 8]), t([8, 24]), t([24])], [3], { num_heads: I(2) });
  await ms(
    c,
    "Attention causal mask",
    [t([2, 4, 8]), t([8, 24]), t([24]), t([2, 4], "int32", (i) => i === 7 ? 0 : 1)],
    [3],
    { num_heads: I(2), unidirectional: I(1) },
  );
  await ms(c, "Attention past", [t([1, 2, 8]), t([8, 24]), t([24]), null, t([2, 1, 2, 3, 4])], [
    3,
    5,
  ], { num_heads: I(2), unidirectional: I(1) });
  await ms(c, "MultiHeadAttention", [t([2, 3, 8]), t([2, 5, 8]), t([2, 5, 8]), t([24])], [3], {
    num_heads: I(2),
  });
  await ms(
    c,
    "MultiHeadAttention mask",
    [
      t([2, 3, 8]),
      t([2, 5, 8]),
      t([2, 5, 8]),
      null,
      t([2, 5], "int32", (i) => i % 4 ? 1 : 0),
    ],
    [3],
    { num_heads: I(2) },
  );
  await ms(
    c,
    "MultiHeadAttention past",
    [t([2, 3, 8]), t([2, 3, 8]), t([2, 3, 8]), null, null, null, t([2, 2, 4, 4]), t([2, 2, 4, 4])],
    [3, 4, 4],
    { num_heads: I(2) },
  );
  const grouped = (name: string, length: number, more: Attributes, ...tables: Tensor[]) =>
    ms(
      c,
      `GroupQueryAttention ${name}`,
      [
        ...[64, 32, 32].map((size) => t([1, length, size])),
        null,
        null,
        full([1, 1], length - 1, "int32"),
        full([1], length, "int32").reshape([]),
        ...tables,
      ],
      [3, 4, 4],
      { num_heads: I(4), kv_num_heads: I(2), ...more },
    );
  await grouped("prompt", 3, {});
  await grouped("rotary", 3, { do_rotary: I(1) }, t([8, 8]), t([8, 8]));
  await grouped("window", 5, { local_window_size: I(2) });
  await ms(c, "RotaryEmbedding", [t([2, 3, 16]), full([1], 2, "int64"), t([8, 4]), t([8, 4])], [3]);
  await ms(c, "RotaryEmbedding interleaved", [t([2, 3, 16]), t([2, 3], "int64", (i) => i), t([8, 4]), t([8, 4])], [3], {
    interleaved: I(1),
  });
  await ms(c, "FusedMatMul", [t([2, 4, 3]), t([2, 4, 5])], [3], {
    transA: I(1),
    alpha: Fl(0.5),
  });
  await ms(c, "FusedConv", [t([1, 3, 6, 6]), t([4, 3, 3, 3]), t([4])], [4], {
    activation: T("Relu"),
  });
  await ms(c, "FusedGemm", [t([3, 4]), t([4, 5]), t([5])], [2], {
    activation: T("Relu"),
    alpha: Fl(0.5),
    beta: Fl(2),
  });
  await ms(c, "Inverse", [t([3, 3])], [2]);
  await ms(c, "MatMulNBits", [t([3, 32]), t([4, 2, 8], "uint8", (i) => (i * 37) % 256), t([8])], [2], {
    N: I(4),
    K: I(32),
    bits: I(4),
    block_size: I(16),
  });
  await ms(
    c,
    "MatMulNBits zero",
    [
      t([3, 32]),
      t([4, 2, 8], "uint8", (i) => (i * 37) % 256),
      t([8]),
      t([4], "uint8", (i) => (i * 53) % 256),
    ],
    [2],
    { N: I(4), K: I(32), bits: I(4), block_size: I(16) },
  );
  await ms(c, "QLinearAdd", [
    t([2, 5], "uint8", (i) => i * 20),
    ...quantized(0.1, 100),
    t([2, 5], "uint8", (i) => 255 - i * 9),
    ...quantized(0.07, 30),
    ...quantized(0.2, 77),
  ], [[2, 2]]);
  await ms(c, "QLinearMul", [
    t([2, 5], "uint8", (i) => i * 20),
    ...quantized(0.1, 100),
    t([2, 5], "uint8", (i) => 255 - i * 9),
    ...quantized(0.07, 30),
    ...quantized(0.9, 77),
  ], [[2, 2]]);
  await ms(c, "QLinearSigmoid", [
    t([2, 5], "uint8", (i) => i * 25),
    ...quantized(0.05, 100),
    ...quantized(1 / 256, 0),
  ], [[2, 2]]);
  await ms(c, "QLinearGlobalAveragePool", [
    t([1, 3, 4, 4], "uint8", (i) => i * 5),
    ...quantized(0.05, 100),
    ...quantized(0.06, 20),
  ], [[2, 4]]);
  await ms(c, "DynamicQuantizeMatMul", [
    t([3, 4]),
    t([4, 5], "uint8", (i) => i * 12),
    full([1], 0.02),
    full([1], 120, "uint8"),
  ], [2]);
  await ms(c, "MatMulIntegerToFloat", [
    t([3, 4], "uint8", (i) => i * 20),
    t([4, 5], "uint8", (i) => i * 12),
    full([1], 0.1),
    full([1], 0.02),
    full([1], 100, "uint8"),
    full([1], 120, "uint8"),
  ], [2]);
}

async function ofStandard(c: Checks): Promise<void> {
  for (const dir of ["forward", "reverse", "bidirectional"]) {
    const n = dir === "bidirectional" ? 2 : 1, same = { hidden_size: I(4), direction: T(dir) };
    const given = (gates: number): Tensor[] => [
      t([5, 2, 3]),
      t([n, 4 * gates, 3]),
      t([n, 4 * gates, 4]),
      t([n, 8 * gates]),
      t([2], "int32", (i) => 5 - 2 * i),
      t([n, 2, 4]),
    ];
    await std(c, 14, `LSTM ${dir}`, [...given(4), t([n, 2, 4]), t([n, 12])], [4, 3, 3], same);
    await std(c, 14, `GRU ${dir}`, given(3), [4, 3], { ...same, linear_before_reset: I(dir === "reverse" ? 1 : 0) });
    await std(c, 14, `RNN ${dir}`, given(1), [4, 3], same);
  }
  for (const mode of ["nearest", "linear", "cubic"]) {
    for (const co of ["half_pixel", "asymmetric", "pytorch_half_pixel"]) {
      await std(c, 13, `Resize ${mode} ${co}`, [t([1, 2, 5, 7]), null, list(1, 1, 1.7, 0.6)], [4], {
        mode: T(mode),
        coordinate_transformation_mode: T(co),
      });
    }
  }
  await std(c, 10, "Resize", [t([1, 2, 4, 4]), list(1, 1, 2, 3)], [4], { mode: T("nearest") });
  await std(c, 10, "Resize linear", [t([1, 2, 4, 4]), list(1, 1, 2, 1.5)], [4], { mode: T("linear") });
  await std(c, 9, "Upsample", [t([1, 2, 4, 4]), list(1, 1, 2, 2)], [4], { mode: T("linear") });
  await std(c, 11, "Softmax", [t([2, 3, 4])], [3], { axis: I(1) });
  await std(c, 9, "Slice 1", [t([5, 6])], [2], {
    starts: { ints: [1, -3] },
    ends: { ints: [4, 100] },
    axes: { ints: [0, 1] },
  });
  await std(c, 9, "Pad 2", [t([2, 3])], [2], { pads: { ints: [1, 0, 0, 2] }, mode: T("constant"), value: Fl(3) });
  await std(c, 9, "BatchNormalization", [t([2, 3, 4, 4]), t([3]), t([3]), t([3]), t([3], "float32", pos)], [4]);
  await std(c, 13, "ConvTranspose same", [t([1, 2, 5, 5]), t([2, 3, 3, 3])], [4], {
    strides: { ints: [2, 2] },
    auto_pad: T("SAME_UPPER"),
  });
  await std(c, 13, "ConvTranspose output_padding", [t([1, 2, 5, 5]), t([2, 3, 3, 3]), t([3])], [4], {
    strides: { ints: [2, 3] },
    pads: { ints: [1, 0, 1, 1] },
    output_padding: { ints: [1, 1] },
  });
  await std(c, 13, "Conv same lower", [t([1, 4, 7, 6]), t([6, 2, 3, 2])], [4], {
    strides: { ints: [2, 2] },
    auto_pad: T("SAME_LOWER"),
    group: I(2),
  });
  await std(c, 13, "Conv uneven", [t([1, 4, 7, 6]), t([6, 4, 3, 2]), t([6])], [4], {
    pads: { ints: [0, 1, 2, 0] },
    dilations: { ints: [1, 2] },
  });
  await std(c, 13, "MaxPool ceil", [t([1, 2, 7, 7])], [4], {
    kernel_shape: { ints: [3, 3] },
    strides: { ints: [2, 2] },
    ceil_mode: I(1),
    pads: { ints: [1, 1, 0, 0] },
  });
  await std(c, 19, "AveragePool include", [t([1, 2, 8, 7])], [4], {
    kernel_shape: { ints: [3, 3] },
    strides: { ints: [2, 2] },
    ceil_mode: I(1),
    pads: { ints: [1, 1, 1, 0] },
    count_include_pad: I(1),
  });
  await std(c, 21, "GroupNormalization", [t([2, 6, 4]), t([6]), t([6])], [3], { num_groups: I(3) });
}

/** Two trees of two leaves each: one asks for feature 0, one for feature 1. */
const TREES: Readonly<Record<string, Attr>> = {
  nodes_treeids: { ints: [0, 0, 0, 1, 1, 1] },
  nodes_nodeids: { ints: [0, 1, 2, 0, 1, 2] },
  nodes_featureids: { ints: [0, 0, 0, 1, 0, 0] },
  nodes_modes: { strings: ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF"] },
  nodes_values: { floats: [0.1, 0, 0, -0.2, 0, 0] },
  nodes_truenodeids: { ints: [1, 0, 0, 1, 0, 0] },
  nodes_falsenodeids: { ints: [2, 0, 0, 2, 0, 0] },
};
/** What the four leaves give: each to the one target, or class. */
function leaves(of: string, weights: number[]): Record<string, Attr> {
  return {
    [`${of}_treeids`]: { ints: [0, 0, 1, 1] },
    [`${of}_nodeids`]: { ints: [1, 2, 1, 2] },
    [`${of}_ids`]: { ints: [0, 0, 0, 0] },
    [`${of}_weights`]: { floats: weights },
  };
}

async function ofClassical(c: Checks): Promise<void> {
  const CLASSES: Out[] = [[7, 1], 2];
  await ml(c, "TreeEnsembleRegressor", [t([5, 2])], [2], {
    n_targets: I(1),
    ...TREES,
    ...leaves("target", [1, 2, 10, 20]),
  });
  for (const post of ["NONE", "LOGISTIC"]) {
    for (const weights of [[0.3, -0.2, 0.1, -0.4], [0.3, 0.2, 0.1, 0.4]]) {
      await ml(c, `TreeEnsembleClassifier ${post} ${weights.join(", ")}`, [t([5, 2])], CLASSES, {
        classlabels_int64s: { ints: [4, 9] },
        post_transform: T(post),
        ...TREES,
        ...leaves("class", weights),
      });
    }
  }
  const linear = (labels: number[], coefficients: number[], intercepts: number[], post: string) =>
    ml(c, `LinearClassifier ${post} of ${coefficients.length}`, [t([5, 2])], CLASSES, {
      classlabels_ints: { ints: labels },
      coefficients: { floats: coefficients },
      intercepts: { floats: intercepts },
      post_transform: T(post),
    });
  for (const post of ["NONE", "LOGISTIC"]) {
    await linear([4, 9], [1, -1], [0.1], post);
    await linear([4, 9], [1, -1, -1, 1], [0.1, -0.1], post);
  }
  await linear([4, 9, 2], [1, -1, 0.5, 0.2, 0.3, 0.1], [0.1, 0.2, 0.3], "SOFTMAX");
  await ml(c, "LinearRegressor", [t([5, 2])], [2], {
    coefficients: { floats: [1, -1] },
    intercepts: { floats: [0.1] },
  });
  await ml(c, "Scaler", [t([5, 2])], [2], {
    offset: { floats: [1, -1] },
    scale: { floats: [0.1, 2] },
  });
  for (const norm of ["MAX", "L1", "L2"]) {
    await ml(c, `Normalizer ${norm}`, [t([5, 3])], [2], { norm: T(norm) });
  }
  await ml(c, "Imputer", [t([3, 2], "float32", (i) => i === 3 ? NaN : i)], [2], {
    imputed_value_floats: { floats: [7, 8] },
    replaced_value_float: Fl(NaN),
  });
  await ml(c, "OneHotEncoder", [t([4], "int64", (i) => i)], [2], {
    cats_int64s: { ints: [0, 2, 3] },
    zeros: I(1),
  });
  await ml(c, "FeatureVectorizer", [t([4, 2]), t([4, 3])], [2], {
    inputdimensions: { ints: [2, 3] },
  });
}

if (import.meta.main) {
  const c: Checks = { ort: await onnxruntime(), wrong: 0, count: 0 };
  await ofMicrosoft(c);
  await ofStandard(c);
  await ofClassical(c);
  console.log(`${c.count - c.wrong} of ${c.count} agree`);
  Deno.exit(c.wrong > 0 ? 1 : 0);
}
