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
const F = 1, M = "com.microsoft", device = "WASM";
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
const I = (int: number): Attr => ({ int }),
  Fl = (float: number): Attr => ({ float }),
  T = (text: string): Attr => ({ text });
const pos = (): number => Math.abs(draw()) + 0.01;

interface Checks {
  readonly ort: Awaited<ReturnType<typeof onnxruntime>>;
  wrong: number;
  count: number;
}

/** A node by both; outputs are the code of their type and their rank, 0 for one that is not asked for. */
async function check(
  c: Checks,
  name: string,
  op: string,
  given: readonly (Tensor | null)[],
  outs: readonly [type: number, rank: number][],
  attributes: Readonly<Record<string, Attr>> = {},
  domain = M,
  opset = 17,
): Promise<void> {
  const inputs: Record<string, Port> = {}, outputs: Record<string, Port> = {}, tensors: Record<string, Tensor> = {};
  given.forEach((x, i) => {
    if (x === null) return;
    inputs[`i${i}`] = [CODES[x.dtype.name], x.shape];
    tensors[`i${i}`] = x;
  });
  outs.forEach(([type, rank], i) => {
    if (type > 0) outputs[`o${i}`] = [type, Array.from({ length: rank }, (_, k) => `d${i}_${k}`)];
  });
  const names = given.map((x, i) => x === null ? "" : `i${i}`),
    results = outs.map(([type], i) => type > 0 ? `o${i}` : "");
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

async function ofMicrosoft(c: Checks): Promise<void> {
  await check(c, "Gelu", "Gelu", [t([2, 5])], [[F, 2]]);
  await check(c, "QuickGelu", "QuickGelu", [t([2, 5])], [[F, 2]]);
  await check(c, "FastGelu", "FastGelu", [t([2, 5]), t([5])], [[F, 2]]);
  await check(c, "BiasGelu", "BiasGelu", [t([2, 5]), t([5])], [[F, 2]]);
  await check(c, "SkipLN", "SkipLayerNormalization", [t([2, 3, 8]), t([2, 3, 8]), t([8]), t([8]), t([8])], [
    [F, 3],
    [0, 0],
    [0, 0],
    [F, 3],
  ], { epsilon: Fl(1e-5) });
  await check(c, "SkipRMS", "SkipSimplifiedLayerNormalization", [t([2, 3, 8]), t([2, 3, 8]), t([8])], [[F, 3], [0, 0], [
    0,
    0,
  ], [F, 3]], { epsilon: Fl(1e-5) });
  await check(
    c,
    "EmbedLN",
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
    [[F, 3], [6, 1]],
    { epsilon: Fl(1e-5) },
  );
  await check(c, "Attention", "Attention", [t([2, 4, 8]), t([8, 24]), t([24])], [[F, 3]], { num_heads: I(2) });
  await check(
    c,
    "Attention causal mask",
    "Attention",
    [t([2, 4, 8]), t([8, 24]), t([24]), t([2, 4], "int32", (i) => i === 7 ? 0 : 1)],
    [[F, 3]],
    { num_heads: I(2), unidirectional: I(1) },
  );
  await check(c, "Attention past", "Attention", [t([1, 2, 8]), t([8, 24]), t([24]), null, t([2, 1, 2, 3, 4])], [
    [F, 3],
    [F, 5],
  ], { num_heads: I(2), unidirectional: I(1) });
  await check(c, "MHA", "MultiHeadAttention", [t([2, 3, 8]), t([2, 5, 8]), t([2, 5, 8]), t([24])], [[F, 3]], {
    num_heads: I(2),
  });
  await check(
    c,
    "MHA mask",
    "MultiHeadAttention",
    [
      t([2, 3, 8]),
      t([2, 5, 8]),
      t([2, 5, 8]),
      null,
      t([2, 5], "int32", (i) => i % 4 ? 1 : 0),
    ],
    [[F, 3]],
    { num_heads: I(2) },
  );
  await check(
    c,
    "MHA past",
    "MultiHeadAttention",
    [t([2, 3, 8]), t([2, 3, 8]), t([2, 3, 8]), null, null, null, t([2, 2, 4, 4]), t([2, 2, 4, 4])],
    [[F, 3], [F, 4], [F, 4]],
    { num_heads: I(2) },
  );
  await check(
    c,
    "GQA prompt",
    "GroupQueryAttention",
    [
      t([1, 3, 64]),
      t([1, 3, 32]),
      t([1, 3, 32]),
      null,
      null,
      t([1, 1], "int32", () => 2),
      t([1], "int32", () => 3).reshape([]),
    ],
    [[F, 3], [F, 4], [F, 4]],
    { num_heads: I(4), kv_num_heads: I(2) },
  );
  await check(
    c,
    "GQA rotary",
    "GroupQueryAttention",
    [
      t([1, 3, 64]),
      t([1, 3, 32]),
      t([1, 3, 32]),
      null,
      null,
      t([1, 1], "int32", () => 2),
      t([1], "int32", () => 3).reshape([]),
      t([8, 8]),
      t([8, 8]),
    ],
    [[F, 3], [F, 4], [F, 4]],
    { num_heads: I(4), kv_num_heads: I(2), do_rotary: I(1) },
  );
  await check(
    c,
    "GQA window",
    "GroupQueryAttention",
    [
      t([1, 5, 64]),
      t([1, 5, 32]),
      t([1, 5, 32]),
      null,
      null,
      t([1, 1], "int32", () => 4),
      t([1], "int32", () => 5).reshape([]),
    ],
    [[F, 3], [F, 4], [F, 4]],
    { num_heads: I(4), kv_num_heads: I(2), local_window_size: I(2) },
  );
  await check(
    c,
    "Rotary",
    "RotaryEmbedding",
    [t([2, 3, 16]), t([1], "int64", () => 2), t([8, 4]), t([8, 4])],
    [[F, 3]],
    {},
  );
  await check(
    c,
    "Rotary interleaved",
    "RotaryEmbedding",
    [t([2, 3, 16]), t([2, 3], "int64", (i) => i), t([8, 4]), t([8, 4])],
    [[F, 3]],
    { interleaved: I(1) },
  );
  await check(c, "FusedMatMul", "FusedMatMul", [t([2, 4, 3]), t([2, 4, 5])], [[F, 3]], {
    transA: I(1),
    alpha: Fl(0.5),
  });
  await check(c, "FusedConv", "FusedConv", [t([1, 3, 6, 6]), t([4, 3, 3, 3]), t([4])], [[F, 4]], {
    activation: T("Relu"),
  });
  await check(c, "FusedGemm", "FusedGemm", [t([3, 4]), t([4, 5]), t([5])], [[F, 2]], {
    activation: T("Relu"),
    alpha: Fl(0.5),
    beta: Fl(2),
  });
  await check(c, "Inverse", "Inverse", [t([3, 3])], [[F, 2]]);
  await check(c, "MatMulNBits", "MatMulNBits", [t([3, 32]), t([4, 2, 8], "uint8", (i) => (i * 37) % 256), t([8])], [[
    F,
    2,
  ]], { N: I(4), K: I(32), bits: I(4), block_size: I(16) });
  await check(
    c,
    "MatMulNBits zero",
    "MatMulNBits",
    [t([3, 32]), t([4, 2, 8], "uint8", (i) => (i * 37) % 256), t([8]), t([4], "uint8", (i) => (i * 53) % 256)],
    [[F, 2]],
    { N: I(4), K: I(32), bits: I(4), block_size: I(16) },
  );
  await check(c, "QLinearAdd", "QLinearAdd", [
    t([2, 5], "uint8", (i) => i * 20),
    t([], "float32", () => 0.1),
    t([], "uint8", () => 100),
    t([2, 5], "uint8", (i) => 255 - i * 9),
    t([], "float32", () => 0.07),
    t([], "uint8", () => 30),
    t([], "float32", () => 0.2),
    t([], "uint8", () => 77),
  ], [[2, 2]]);
  await check(c, "QLinearMul", "QLinearMul", [
    t([2, 5], "uint8", (i) => i * 20),
    t([], "float32", () => 0.1),
    t([], "uint8", () => 100),
    t([2, 5], "uint8", (i) => 255 - i * 9),
    t([], "float32", () => 0.07),
    t([], "uint8", () => 30),
    t([], "float32", () => 0.9),
    t([], "uint8", () => 77),
  ], [[2, 2]]);
  await check(c, "QLinearSigmoid", "QLinearSigmoid", [
    t([2, 5], "uint8", (i) => i * 25),
    t([], "float32", () => 0.05),
    t([], "uint8", () => 100),
    t([], "float32", () => 1 / 256),
    t([], "uint8", () => 0),
  ], [[2, 2]]);
  await check(c, "QLinearGAP", "QLinearGlobalAveragePool", [
    t([1, 3, 4, 4], "uint8", (i) => i * 5),
    t([], "float32", () => 0.05),
    t([], "uint8", () => 100),
    t([], "float32", () => 0.06),
    t([], "uint8", () => 20),
  ], [[2, 4]]);
  await check(c, "DynQMatMul", "DynamicQuantizeMatMul", [
    t([3, 4]),
    t([4, 5], "uint8", (i) => i * 12),
    t([1], "float32", () => 0.02),
    t([1], "uint8", () => 120),
  ], [[F, 2]]);
  await check(c, "MatMulIntegerToFloat", "MatMulIntegerToFloat", [
    t([3, 4], "uint8", (i) => i * 20),
    t([4, 5], "uint8", (i) => i * 12),
    t([1], "float32", () => 0.1),
    t([1], "float32", () => 0.02),
    t([1], "uint8", () => 100),
    t([1], "uint8", () => 120),
  ], [[F, 2]]);
}

async function ofStandard(c: Checks): Promise<void> {
  for (const dir of ["forward", "reverse", "bidirectional"]) {
    const n = dir === "bidirectional" ? 2 : 1;
    await check(
      c,
      "LSTM " + dir,
      "LSTM",
      [
        t([5, 2, 3]),
        t([n, 16, 3]),
        t([n, 16, 4]),
        t([n, 32]),
        t([2], "int32", (i) => 5 - 2 * i),
        t([n, 2, 4]),
        t([n, 2, 4]),
        t([n, 12]),
      ],
      [[F, 4], [F, 3], [F, 3]],
      { hidden_size: I(4), direction: T(dir) },
      "",
      14,
    );
    await check(
      c,
      "GRU " + dir,
      "GRU",
      [
        t([5, 2, 3]),
        t([n, 12, 3]),
        t([n, 12, 4]),
        t([n, 24]),
        t([2], "int32", (i) => 5 - 2 * i),
        t([n, 2, 4]),
      ],
      [[F, 4], [F, 3]],
      { hidden_size: I(4), direction: T(dir), linear_before_reset: I(dir === "reverse" ? 1 : 0) },
      "",
      14,
    );
    await check(
      c,
      "RNN " + dir,
      "RNN",
      [
        t([5, 2, 3]),
        t([n, 4, 3]),
        t([n, 4, 4]),
        t([n, 8]),
        t([2], "int32", (i) => 5 - 2 * i),
        t([n, 2, 4]),
      ],
      [[F, 4], [F, 3]],
      { hidden_size: I(4), direction: T(dir) },
      "",
      14,
    );
  }
  for (const mode of ["nearest", "linear", "cubic"]) {
    for (const co of ["half_pixel", "asymmetric", "pytorch_half_pixel"]) {
      await check(
        c,
        `Resize ${mode} ${co}`,
        "Resize",
        [t([1, 2, 5, 7]), null, t([4], "float32", (i) => [1, 1, 1.7, 0.6][i])],
        [[F, 4]],
        { mode: T(mode), coordinate_transformation_mode: T(co) },
        "",
        13,
      );
    }
  }
  await check(
    c,
    "Resize 10",
    "Resize",
    [t([1, 2, 4, 4]), t([4], "float32", (i) => [1, 1, 2, 3][i])],
    [[F, 4]],
    { mode: T("nearest") },
    "",
    10,
  );
  await check(
    c,
    "Resize 10 linear",
    "Resize",
    [t([1, 2, 4, 4]), t([4], "float32", (i) => [1, 1, 2, 1.5][i])],
    [[F, 4]],
    { mode: T("linear") },
    "",
    10,
  );
  await check(
    c,
    "Upsample 9",
    "Upsample",
    [t([1, 2, 4, 4]), t([4], "float32", (i) => [1, 1, 2, 2][i])],
    [[F, 4]],
    { mode: T("linear") },
    "",
    9,
  );
  await check(c, "Softmax 11", "Softmax", [t([2, 3, 4])], [[F, 3]], { axis: I(1) }, "", 11);
  await check(
    c,
    "Slice 1",
    "Slice",
    [t([5, 6])],
    [[F, 2]],
    { starts: { ints: [1, -3] }, ends: { ints: [4, 100] }, axes: { ints: [0, 1] } },
    "",
    9,
  );
  await check(
    c,
    "Pad 2",
    "Pad",
    [t([2, 3])],
    [[F, 2]],
    { pads: { ints: [1, 0, 0, 2] }, mode: T("constant"), value: Fl(3) },
    "",
    9,
  );
  await check(
    c,
    "BatchNorm 9",
    "BatchNormalization",
    [t([2, 3, 4, 4]), t([3]), t([3]), t([3]), t([3], "float32", pos)],
    [[F, 4]],
    {},
    "",
    9,
  );
  await check(
    c,
    "ConvTranspose same",
    "ConvTranspose",
    [t([1, 2, 5, 5]), t([2, 3, 3, 3])],
    [[F, 4]],
    { strides: { ints: [2, 2] }, auto_pad: T("SAME_UPPER") },
    "",
    13,
  );
  await check(
    c,
    "ConvTranspose output_padding",
    "ConvTranspose",
    [t([1, 2, 5, 5]), t([2, 3, 3, 3]), t([3])],
    [[F, 4]],
    { strides: { ints: [2, 3] }, pads: { ints: [1, 0, 1, 1] }, output_padding: { ints: [1, 1] } },
    "",
    13,
  );
  await check(
    c,
    "Conv same lower",
    "Conv",
    [t([1, 4, 7, 6]), t([6, 2, 3, 2])],
    [[F, 4]],
    { strides: { ints: [2, 2] }, auto_pad: T("SAME_LOWER"), group: I(2) },
    "",
    13,
  );
  await check(
    c,
    "Conv uneven",
    "Conv",
    [t([1, 4, 7, 6]), t([6, 4, 3, 2]), t([6])],
    [[F, 4]],
    { pads: { ints: [0, 1, 2, 0] }, dilations: { ints: [1, 2] } },
    "",
    13,
  );
  await check(
    c,
    "MaxPool ceil",
    "MaxPool",
    [t([1, 2, 7, 7])],
    [[F, 4]],
    { kernel_shape: { ints: [3, 3] }, strides: { ints: [2, 2] }, ceil_mode: I(1), pads: { ints: [1, 1, 0, 0] } },
    "",
    13,
  );
  await check(
    c,
    "AveragePool include",
    "AveragePool",
    [t([1, 2, 8, 7])],
    [[F, 4]],
    {
      kernel_shape: { ints: [3, 3] },
      strides: { ints: [2, 2] },
      ceil_mode: I(1),
      pads: { ints: [1, 1, 1, 0] },
      count_include_pad: I(1),
    },
    "",
    19,
  );
  await check(
    c,
    "GroupNorm 21",
    "GroupNormalization",
    [t([2, 6, 4]), t([6]), t([6])],
    [[F, 3]],
    { num_groups: I(3) },
    "",
    21,
  );
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
  const CLASSES: [number, number][] = [[7, 1], [F, 2]];
  await check(c, "TreeEnsembleRegressor", "TreeEnsembleRegressor", [t([5, 2])], [[F, 2]], {
    n_targets: I(1),
    ...TREES,
    ...leaves("target", [1, 2, 10, 20]),
  }, "ai.onnx.ml");
  for (const post of ["NONE", "LOGISTIC"]) {
    for (const weights of [[0.3, -0.2, 0.1, -0.4], [0.3, 0.2, 0.1, 0.4]]) {
      await check(
        c,
        `binary ${post} ${weights.join(", ")}`,
        "TreeEnsembleClassifier",
        [t([5, 2])],
        CLASSES,
        { classlabels_int64s: { ints: [4, 9] }, post_transform: T(post), ...TREES, ...leaves("class", weights) },
        "ai.onnx.ml",
      );
    }
  }
  const linear = (name: string, labels: number[], coefficients: number[], intercepts: number[], post: string) =>
    check(c, name, "LinearClassifier", [t([5, 2])], CLASSES, {
      classlabels_ints: { ints: labels },
      coefficients: { floats: coefficients },
      intercepts: { floats: intercepts },
      post_transform: T(post),
    }, "ai.onnx.ml");
  for (const post of ["NONE", "LOGISTIC"]) {
    await linear(`LinearClassifier ${post}`, [4, 9], [1, -1], [0.1], post);
    await linear(`LinearClassifier2 ${post}`, [4, 9], [1, -1, -1, 1], [0.1, -0.1], post);
  }
  await linear("LinearClassifier", [4, 9, 2], [1, -1, 0.5, 0.2, 0.3, 0.1], [0.1, 0.2, 0.3], "SOFTMAX");
  await check(c, "LinearRegressor", "LinearRegressor", [t([5, 2])], [[F, 2]], {
    coefficients: { floats: [1, -1] },
    intercepts: { floats: [0.1] },
  }, "ai.onnx.ml");
  await check(c, "Scaler", "Scaler", [t([5, 2])], [[F, 2]], {
    offset: { floats: [1, -1] },
    scale: { floats: [0.1, 2] },
  }, "ai.onnx.ml");
  for (const norm of ["MAX", "L1", "L2"]) {
    await check(c, "Normalizer " + norm, "Normalizer", [t([5, 3])], [[F, 2]], { norm: T(norm) }, "ai.onnx.ml");
  }
  await check(c, "Imputer", "Imputer", [t([3, 2], "float32", (i) => i === 3 ? NaN : i)], [[F, 2]], {
    imputed_value_floats: { floats: [7, 8] },
    replaced_value_float: Fl(NaN),
  }, "ai.onnx.ml");
  await check(c, "OneHotEncoder", "OneHotEncoder", [t([4], "int64", (i) => i)], [[F, 2]], {
    cats_int64s: { ints: [0, 2, 3] },
    zeros: I(1),
  }, "ai.onnx.ml");
  await check(c, "FeatureVectorizer", "FeatureVectorizer", [t([4, 2]), t([4, 3])], [[F, 2]], {
    inputdimensions: { ints: [2, 3] },
  }, "ai.onnx.ml");
}

if (import.meta.main) {
  const c: Checks = { ort: await onnxruntime(), wrong: 0, count: 0 };
  await ofMicrosoft(c);
  await ofStandard(c);
  await ofClassical(c);
  console.log(`${c.count - c.wrong} of ${c.count} agree`);
  Deno.exit(c.wrong > 0 ? 1 : 0);
}
