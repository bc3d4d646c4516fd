/**
 * Quantized files of TensorFlow Lite: random operators to the bit as its reference kernels compute them, one number at a time
 * (lite_oracle.ts), and a network of them that is exported to C without a float.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { exportModel } from "../../src/export/export.ts";
import { loadTFLite } from "../../src/tfjs/tfjs.ts";
import { compilersHere, run } from "../export/build.ts";
import { buildTFLite, type Fields, type LiteGraphSpec, type LiteOpSpec, type LiteTensorSpec } from "./build_tflite.ts";
import { averages, convolution, type LiteBytes, type LiteResult, productOf, sumOf } from "./lite_oracle.ts";

await Device.open(Device.default);
const device = "WASM", INT8 = 9, UINT8 = 3, INT32 = 2;

/** Numbers that are the same everywhere. */
class Draw {
  constructor(private seed: number) {}
  /** A whole number from 0 to below n. */
  below(n: number): number {
    this.seed = (this.seed * 48271) % 2147483647;
    return this.seed % n;
  }
  from(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }
  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)];
  }
  /** A scale as files have it: a float32. */
  scale(least: number): number {
    return Math.fround(least * (1 + this.below(1000) / 250));
  }
}

const count = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
const size = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);
function bytes(d: Draw, type: number, shape: readonly number[], scale: number): LiteBytes {
  const [least, most] = type === INT8 ? [-128, 127] : [0, 255];
  return { shape, scale, zero: d.from(least, most), data: count(size(shape)).map(() => d.from(least, most)) };
}
const arrayOf = (type: number, data: readonly number[]): Int8Array<ArrayBuffer> | Uint8Array<ArrayBuffer> =>
  type === INT8 ? Int8Array.from(data) : Uint8Array.from(data);
const tensor = (name: string, type: number, t: LiteBytes): LiteTensorSpec => (
  { name, shape: t.shape, type, scale: [t.scale], zero: [t.zero] }
);
function result(d: Draw, type: number, scale: number): LiteResult {
  const [least, most] = type === INT8 ? [-128, 127] : [0, 255];
  return { scale, zero: d.from(least, most), least, most, activation: d.below(4) };
}
const resultTensor = (name: string, type: number, shape: readonly number[], y: LiteResult): LiteTensorSpec => (
  { name, shape, type, scale: [y.scale], zero: [y.zero] }
);

/** What a file of one operator gives for these bytes. */
async function given(
  type: number,
  tensors: readonly LiteTensorSpec[],
  op: Omit<LiteOpSpec, "outputs">,
  xs: readonly LiteBytes[],
): Promise<number[]> {
  const inputs = xs.map((_, i) => i);
  const model = await loadTFLite(
    buildTFLite({
      tensors,
      inputs,
      outputs: [tensors.length - 1],
      operators: [{ ...op, outputs: [tensors.length - 1] }],
    }),
    { device },
  );
  const made = model.call(...xs.map((x) => new Tensor(arrayOf(type, x.data), { device }).reshape([...x.shape])));
  return Array.from(await (Object.values(made)[0] as Tensor).data() as Int8Array, Number);
}

for (const seed of count(24)) {
  Deno.test(`tflite in whole numbers: convolutions and layers, seed ${seed}`, async () => {
    const d = new Draw(seed * 7919 + 13),
      type = d.of([INT8, INT8, UINT8]),
      kind = d.of(["conv", "depthwise", "dense"] as const);
    const dense = kind === "dense", c = d.from(1, 5), groups = kind === "depthwise" ? c : 1;
    const h = dense ? 1 : d.from(3, 7),
      w = dense ? 1 : d.from(3, 7),
      [kh, kw] = dense ? [1, 1] : [d.from(1, 3), d.from(1, 3)];
    const out = kind === "depthwise" ? c * d.from(1, 2) : d.from(1, 6), inside = c / groups;
    const o = {
      same: !dense && d.below(2) === 0,
      stride: dense ? [1, 1] : [d.from(1, 2), d.from(1, 2)],
      dilation: [1, 1],
      groups,
    };
    if (!dense && o.stride.every((s) => s === 1) && d.below(2) === 0) o.dilation = [d.of([1, 2]), 1];
    if (h < (kh - 1) * o.dilation[0] + 1) o.dilation = [1, 1];
    const x = bytes(d, type, [1, h, w, c], d.scale(0.01)), y = result(d, type, d.scale(0.2));
    const perChannel = type === INT8 && d.below(2) === 0, zero = type === INT8 ? 0 : d.from(0, 255);
    const weights = {
      shape: [out, kh, kw, inside],
      data: count(out * kh * kw * inside).map(() => type === INT8 ? d.from(-127, 127) : d.from(0, 255)),
      scale: count(perChannel ? out : 1).map(() => d.scale(0.004)),
      zero,
    };
    const bias = count(out).map(() => d.from(-3000, 3000)), want = convolution(x, weights, bias, y, o);
    // filters of depthwise convolutions are [1, h, w, out]
    const filter = kind !== "depthwise"
      ? weights.data
      : count(weights.data.length).map((i) => weights.data[(i % out) * kh * kw + Math.floor(i / out)]);
    const shape = kind === "conv" ? weights.shape : kind === "dense" ? [out, c] : [1, kh, kw, out];
    const option: Record<typeof kind, Fields> = {
      conv: {
        0: { byte: o.same ? 0 : 1 },
        1: { int: o.stride[1] },
        2: { int: o.stride[0] },
        3: { byte: y.activation },
        4: { int: o.dilation[1] },
        5: { int: o.dilation[0] },
      },
      depthwise: {
        0: { byte: o.same ? 0 : 1 },
        1: { int: o.stride[1] },
        2: { int: o.stride[0] },
        3: { int: out / c },
        4: { byte: y.activation },
        5: { int: o.dilation[1] },
        6: { int: o.dilation[0] },
      },
      dense: { 0: { byte: y.activation } },
    };
    const got = await given(
      type,
      [
        tensor("x", type, dense ? { ...x, shape: [1, c] } : x),
        {
          name: "w",
          shape,
          type,
          data: arrayOf(type, filter),
          scale: weights.scale,
          zero: weights.scale.map(() => zero),
          axis: kind === "depthwise" ? 3 : 0,
        },
        {
          name: "b",
          shape: [out],
          type: INT32,
          data: Int32Array.from(bias),
          scale: weights.scale.map((s) => x.scale * s),
        },
        resultTensor("y", type, dense ? [1, out] : want.shape, y),
      ],
      { code: { conv: 3, depthwise: 4, dense: 9 }[kind], inputs: [0, 1, 2], options: option[kind] },
      [
        dense ? { ...x, shape: [1, c] } : x,
      ],
    );
    assert.deepEqual(got, want.data, `${kind} ${JSON.stringify({ type, o, x: x.shape, w: shape })}`);
  });
}

for (const seed of count(12)) {
  Deno.test(`tflite in whole numbers: sums, products, means, seed ${seed}`, async () => {
    const d = new Draw(seed * 104729 + 7),
      type = d.of([INT8, UINT8]),
      shape = [1, d.from(2, 6), d.from(2, 6), d.from(1, 4)];
    const a = bytes(d, type, shape, d.scale(0.02)),
      b = bytes(d, type, shape, d.scale(0.03)),
      y = result(d, type, d.scale(0.05));
    const act = { 0: { byte: y.activation } },
      both = [tensor("a", type, a), tensor("b", type, b), resultTensor("y", type, shape, y)];
    for (const [code, want] of [[0, sumOf(a, b, 1, y)], [41, sumOf(a, b, -1, y)], [18, productOf(a, b, y)]] as const) {
      assert.deepEqual(
        await given(type, both, { code, inputs: [0, 1], options: act }, [a, b]),
        want,
        `operator ${code}`,
      );
    }
    const mean = { ...y, scale: a.scale, zero: a.zero }, [kh, kw] = [d.from(1, 3), d.from(1, 3)];
    const windows = [1, Math.ceil(shape[1] / kh), Math.ceil(shape[2] / kw), shape[3]];
    const options = { 1: { int: kw }, 2: { int: kh }, 3: { int: kw }, 4: { int: kh }, 5: act[0] };
    const got = await given(
      type,
      [tensor("a", type, a), resultTensor("y", type, windows, mean)],
      { code: 1, inputs: [0], options },
      [a],
    );
    assert.deepEqual(got, averages(a, [kh, kw], mean));
  });
}

/** Functions of one byte, by their number in the schema. */
const TABLES: readonly (readonly [code: number, f: (x: number) => number])[] = [
  [14, (x) => 1 / (1 + Math.exp(-x))],
  [28, Math.tanh],
  [19, (x) => Math.max(0, x)],
  [21, (x) => Math.min(6, Math.max(0, x))],
  [117, (x) => x * Math.min(6, Math.max(0, x + 3)) / 6],
  [114, (x) => x],
];
Deno.test("tflite in whole numbers: functions of one byte are within half a step of what they are of the float", async () => {
  for (const type of [INT8, UINT8]) {
    const d = new Draw(99), y = result(d, type, d.scale(0.02));
    const x = { ...bytes(d, type, [256], d.scale(0.05)), data: count(256).map((i) => type === INT8 ? i - 128 : i) };
    for (const [code, f] of TABLES) {
      const got = await given(type, [tensor("x", type, x), resultTensor("y", type, [256], y)], { code, inputs: [0] }, [
        x,
      ]);
      got.forEach((q, i) => {
        const exact = Math.min(y.most, Math.max(y.least, f(x.scale * (x.data[i] - x.zero)) / y.scale + y.zero));
        assert.ok(Math.abs(q - exact) <= 0.5 + 1e-3, `operator ${code} of ${x.data[i]}: ${q}, ${exact}`);
      });
    }
  }
});

/** A small network of bytes: a convolution, one by channels, a sum, a function, a window, a layer. */
function network(d: Draw): LiteGraphSpec {
  const weights = (name: string, shape: readonly number[], axis: number): LiteTensorSpec => {
    const data = Int8Array.from(count(size(shape)), () => d.from(-127, 127));
    return {
      name,
      shape,
      type: INT8,
      data,
      scale: count(shape[axis]).map(() => d.scale(0.002)),
      zero: count(shape[axis]).map(() => 0),
      axis,
    };
  };
  const bias = (name: string, n: number): LiteTensorSpec => (
    { name, shape: [n], type: INT32, data: Int32Array.from(count(n), () => d.from(-900, 900)), scale: [1e-4] }
  );
  const t = (name: string, shape: readonly number[], scale: number, zero: number): LiteTensorSpec => (
    { name, shape, type: INT8, scale: [Math.fround(scale)], zero: [zero] }
  );
  const same = { 0: { byte: 0 }, 1: { int: 1 }, 2: { int: 1 } };
  return {
    tensors: [
      t("image", [1, 8, 8, 3], 0.02, -5),
      t("a", [1, 8, 8, 8], 0.03, -128),
      t("b", [1, 8, 8, 8], 0.04, 3),
      t("sum", [1, 8, 8, 8], 0.05, -10),
      t("gate", [1, 8, 8, 8], 1 / 256, -128),
      t("pooled", [1, 4, 4, 8], 1 / 256, -128),
      t("flat", [1, 128], 1 / 256, -128),
      t("scores", [1, 5], 0.1, 7),
      weights("w1", [8, 3, 3, 3], 0),
      bias("b1", 8),
      weights("w2", [1, 3, 3, 8], 3),
      bias("b2", 8),
      weights("w3", [5, 128], 0),
      bias("b3", 5),
      { name: "shape", shape: [2], type: INT32, data: Int32Array.of(1, 128) },
    ],
    inputs: [0],
    outputs: [7],
    operators: [
      { code: 3, inputs: [0, 8, 9], outputs: [1], options: { ...same, 3: { byte: 1 } } },
      { code: 4, inputs: [1, 10, 11], outputs: [2], options: { ...same, 3: { int: 1 } } },
      { code: 0, inputs: [1, 2], outputs: [3], options: { 0: { byte: 0 } } },
      { code: 14, inputs: [3], outputs: [4] },
      { code: 17, inputs: [4], outputs: [5], options: { 1: { int: 2 }, 2: { int: 2 }, 3: { int: 2 }, 4: { int: 2 } } },
      { code: 22, inputs: [5, 14], outputs: [6] },
      { code: 9, inputs: [6, 12, 13], outputs: [7], options: { 0: { byte: 0 } } },
    ],
  };
}

Deno.test("export to C: a network of bytes computes in whole numbers alone", async () => {
  const model = await loadTFLite(buildTFLite(network(new Draw(5))), { device });
  const image = new Tensor(Int8Array.from(count(192), (i) => i * 89 % 256 - 128), { device }).reshape([1, 8, 8, 3])
    .realize();
  const folder = await Deno.makeTempDir({ prefix: "dinograd-export-" }), [compiler] = compilersHere();
  try {
    for (const style of ["plain", "fast"] as const) {
      const made = await exportModel((image: Tensor) => model.call(image).scores as Tensor, [image], {
        style,
        name: "bytes",
      });
      const kernels = made.text("bytes.c").split("\n").filter((l) => !/^(?:#|\/\*|typedef|INLINE)/.test(l)).join("\n");
      assert.ok(!/\b(?:float|double|v\d+f\d+)\b/.test(kernels), `${style}: ${kernels}`);
      assert.ok(!made.plan.arrays.some((a) => a.dtype.isFloat), "no array of floats");
      if (compiler === undefined) continue;
      await made.write(folder);
      await run(
        compiler.path,
        ["-std=c11", "-O1", "-DBYTES_EMBED", "-o", "bytes", "bytes_test.c", "bytes.c", "-lm"],
        folder,
      );
      assert.match(await run(`${folder}/bytes`, [], folder), /relative to the largest value: 0\n/);
      await run(compiler.path, ["-std=c11", "-O2", "-c", "-o", "bytes.o", "bytes.c"], folder);
      const code = await run("objdump", ["-d", "bytes.o"], folder).catch(() => ""); // binutils may be missing
      assert.deepEqual(code.match(/\t(?:cvt\w+|v?(?:add|sub|mul|div|sqrt|max|min)[sp][sd])\b/g) ?? [], []);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
