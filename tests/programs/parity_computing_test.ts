/** What lines 1.5 to 1.8 promise: functions of each element, of two, reductions, scans. Values are PyTorch's. */
import assert from "node:assert/strict";
import { Tensor } from "../../mod.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { f32, gives, type Line, refuses, testLines } from "./parity_line.ts";

/** A function of floats at points. */
const at = (name: keyof Tensor & string, points: number[], want: number[], slack?: number): Line => [
  name,
  () => gives((f32(points) as unknown as Record<string, () => Tensor>)[name](), want, "float32", slack),
];
/** The same, and what it gives of integers. */
const also = ([row, holds]: Line, more: () => void | Promise<void>): Line => [row, async () => {
  await holds();
  await more();
}];
const ints = new Tensor([-2, 0, 3], { device: "JS" });
const { PI, SQRT2, E } = Math;

testLines({
  "1.5": [
    also(at("neg", [1, -2, 0], [-1, 2, -0]), () => gives(new Tensor([true, false]).neg(), [false, true], "bool")),
    ["logicalNot", () => gives(ints.logicalNot(), [false, true, false], "bool")],
    ["bitwiseNot", async () => {
      await gives(ints.bitwiseNot(), [1, -1, -4], "int32");
      await gives(new Tensor([true]).bitwiseNot(), [false], "bool");
      refuses("DTypeError", "float32", () => f32([1]).bitwiseNot());
    }],
    also(at("abs", [-1.5, -0, 2], [1.5, 0, 2]), () => gives(ints.abs(), [2, 0, 3], "int32")),
    also(at("sign", [-3, 5, NaN], [-1, 1, NaN]), () => gives(ints.sign(), [-1, 0, 1], "int32")),
    at("square", [-3, 0.5], [9, 0.25]),
    also(at("sqrt", [4, 2, -1], [2, SQRT2, NaN]), () => gives(new Tensor([9]).sqrt(), [3], "float32")),
    at("rsqrt", [4, 0], [0.5, Infinity]),
    also(at("reciprocal", [4, 0], [0.25, Infinity]), () => gives(new Tensor([4]).reciprocal(), [0.25], "float32")),
    also(at("exp", [0, 1, -Infinity], [1, E, 0]), () => gives(f32([1]).double().exp(), [E], "float64", 1e-15)),
    at("exp2", [0, 3, -1], [1, 8, 0.5]),
    at("log", [1, E, 0, -1], [0, 1, -Infinity, NaN]),
    at("log2", [8, 0.5], [3, -1]),
    at("log10", [1000, 0.1], [3, -1]),
    at("sin", [0, PI / 2, 1e4], [0, 1, -0.30561438]),
    at("cos", [0, PI, 1e4], [1, -1, -0.95215537]),
    at("tan", [0, PI / 4], [0, 1]),
    at("asin", [0, 1, 2], [0, PI / 2, NaN]),
    at("acos", [1, -1, 0.3], [0, PI, 1.26610367]),
    at("atan", [0, 1, Infinity], [0, PI / 4, PI / 2]),
    at("sinh", [0, 1e-4, 2], [0, 1e-4, 3.62686041], 1e-6),
    at("cosh", [0, 2], [1, 3.76219569]),
    at("tanh", [0, 0.5, 100], [0, 0.46211716, 1]),
    at("asinh", [0, -2, 1e4], [0, -1.44363548, 9.90348755]),
    at("acosh", [1, 2, 0.5], [0, 1.3169579, NaN]),
    at("atanh", [0, 0.5, 1], [0, 0.54930614, Infinity]),
    at("erf", [0, 0.5, -2], [0, 0.52049988, -0.99532227], 3e-7),
    also(at("trunc", [1.7, -1.7], [1, -1]), () => gives(ints.trunc(), [-2, 0, 3], "int32")),
    also(at("ceil", [1.2, -1.7], [2, -1]), () => gives(ints.ceil(), [-2, 0, 3], "int32")),
    also(at("floor", [1.7, -1.2], [1, -2]), () => gives(ints.floor(), [-2, 0, 3], "int32")),
    at("round", [0.5, 1.5, 2.5, -0.6], [0, 2, 2, -1]),
    ["isnan", () => gives(f32([NaN, 1, Infinity]).isnan(), [true, false, false], "bool")],
    ["isinf", async () => {
      const x = f32([Infinity, -Infinity, NaN, 1]);
      await gives(x.isinf(), [true, true, false, false], "bool");
      await gives(x.isinf({ detectNegative: false }), [true, false, false, false]);
      await gives(x.isinf({ detectPositive: false }), [false, true, false, false]);
    }],
    ["isfinite", () => gives(f32([Infinity, NaN, 1]).isfinite(), [false, false, true], "bool")],
    also(at("relu", [-1, 2], [0, 2]), () => gives(ints.relu(), [0, 0, 3], "int32")),
    at("relu6", [-1, 2, 9], [0, 2, 6]),
    at("sigmoid", [0, 2, -100], [0.5, 0.88079708, 0]),
    at("logsigmoid", [0, -100, 30], [-0.69314718, -100, -9.3576e-14]),
    also(
      at("hardsigmoid", [-4, 0, 1], [0, 0.5, 2 / 3]),
      () => gives(f32([1]).hardsigmoid({ alpha: 0.2, beta: 0.1 }), [0.3]),
    ),
    at("hardswish", [-4, 1, 5], [0, 2 / 3, 5]),
    also(at("hardtanh", [-4, 0.5, 5], [-1, 0.5, 1]), () => gives(f32([9]).hardtanh({ minVal: 0, maxVal: 4 }), [4])),
    also(at("leakyRelu", [-1, 2], [-0.01, 2]), () => gives(f32([-1]).leakyRelu(0.5), [-0.5])),
    also(at("elu", [-1, 2], [-0.63212056, 2]), () => gives(f32([-1]).elu(2), [-1.26424112])),
    also(at("celu", [-1, 2], [-0.63212056, 2]), () => gives(f32([-1]).celu(2), [-0.78693868])),
    at("selu", [-1, 1], [-1.11133074, 1.05070099]),
    at("silu", [1, -2], [0.73105858, -0.23840584]),
    at("swish", [1, -2], [0.73105858, -0.23840584]),
    also(
      at("gelu", [1, -1], [0.84134475, -0.15865525]),
      () => gives(f32([1, -1]).gelu({ approximate: "tanh" }), [0.841192, -0.158808]),
    ),
    at("quickGelu", [1], [0.84579577]),
    at("mish", [1, -1], [0.86509839, -0.30340146]),
    also(at("softplus", [0, 1], [0.69314718, 1.31326169]), () => gives(f32([1]).softplus(2), [1.0634640])),
    at("softsign", [1, -3], [0.5, -0.75]),
    ["clamp", async () => {
      const x = f32([-2, 0.5, 3]);
      await gives(x.clamp(-1, 1), [-1, 0.5, 1]);
      await gives(x.clamp(undefined, 1), [-2, 0.5, 1]);
      await gives(x.clamp(0), [0, 0.5, 3]);
      await gives(x.clamp(f32([0, 1, 0]), f32([1, 2, 2])), [0, 1, 2]);
      await gives(x.clamp(2, 1), [1, 1, 1]);
      refuses("ArgumentError", "min, max", () => x.clamp());
    }],
    ["clip", () => gives(ints.clip(-1, 2), [-1, 0, 2], "int32")],
    ["contiguous", () => gives(Tensor.arange(4).reshape([2, 2]).T.contiguous(), [[0, 2], [1, 3]])],
    ["contiguousBackward", async () => {
      const x = f32([1, 2]).realize();
      await gives(x.contiguousBackward().square().sum().gradient([x])[0], [2, 4]);
    }],
    ["detach", async () => {
      const x = f32([1, 2]).realize();
      await gives(x.mul(x.detach()).sum().gradient([x])[0], [1, 2]);
    }],
  ],
  "1.6": [
    ["add", async () => {
      await gives(f32([[1], [2]]).add(f32([10, 20])), [[11, 21], [12, 22]]);
      await gives(new Tensor([1, 2]).add(0.5), [1.5, 2.5], "float32");
    }],
    ["sub", () => gives(new Tensor([1, 2], { dtype: "uint8" }).sub(3), [254, 255], "uint8")],
    ["mul", () => gives(new Tensor([true, false]).mul(new Tensor([true, true])), [true, false], "bool")],
    ["div", async () => {
      const x = new Tensor([-7, 7]);
      await gives(x.div(2), [-3.5, 3.5], "float32");
      await gives(x.div(2, { roundingMode: "trunc" }), [-3, 3], "int32");
      await gives(x.div(2, { roundingMode: "floor" }), [-4, 3], "int32");
      refuses("ArgumentError", "roundingMode", () => x.div(2, { roundingMode: "up" as "floor" }));
    }],
    ["mod", async () => {
      await gives(new Tensor([-7, 7]).mod(3), [2, 1]);
      await gives(f32([-7.5, 7.5]).mod(-2), [-1.5, -0.5]);
    }],
    ["fmod", async () => {
      await gives(new Tensor([-7, 7]).fmod(3), [-1, 1]);
      await gives(f32([-7.5, 7.5]).fmod(-2), [-1.5, 1.5]);
    }],
    ["pow", async () => {
      await gives(new Tensor([2, -3]).pow(3), [8, -27], "int32");
      assert.throws(() => new Tensor([2]).pow(-1));
      await gives(f32([-2, 4]).pow(0.5), [NaN, 2]);
      await gives(f32([0, NaN]).pow(0), [1, 1]);
      await gives(f32([2, 3]).pow(f32([3, -1])), [8, 1 / 3]);
    }],
    ["maximum", async () => {
      await gives(f32([1, NaN, 3]).maximum(f32([2, 0, 3])), [2, NaN, 3]);
      const x = f32([3]).realize(), y = f32([3]).realize();
      const [gx, gy] = x.maximum(y).sum().gradient([x, y]);
      await gives(gx, [0.5]);
      await gives(gy, [0.5]);
    }],
    ["minimum", async () => {
      await gives(new Tensor([200, 3], { dtype: "uint8" }).minimum(100), [100, 3], "uint8");
      await gives(new Tensor([true, true]).minimum(new Tensor([true, false])), [true, false], "bool");
    }],
    ["copysign", () => gives(f32([1, -2, 3]).copysign(f32([-0, 5, -1])), [-1, 2, -3])],
    ["logaddexp", () => gives(f32([1000, -Infinity]).logaddexp(f32([1000, 2])), [1000.6931472, 2])],
    ["lerp", async () => {
      await gives(f32([0, 10]).lerp(f32([10, 20]), 0.25), [2.5, 12.5]);
      const from = new Tensor(new Uint8Array([0, 255])), to = new Tensor(new Uint8Array([200, 55]));
      await gives(from.lerp(to, f32(0.5)), [100, 155], "uint8");
      await gives(from.lerp(to, 0.25), [50, 205], "float32");
    }],
    ["bitwiseAnd", async () => {
      await gives(new Tensor([6, 5]).bitwiseAnd(3), [2, 1]);
      refuses("DTypeError", "float32", () => f32([1]).bitwiseAnd(1));
    }],
    ["bitwiseOr", () => gives(new Tensor([true, false]).bitwiseOr(new Tensor([false, false])), [true, false], "bool")],
    ["bitwiseXor", () => gives(new Tensor([6, 5]).bitwiseXor(new Tensor([3, 3])), [5, 6])],
    ["lshift", () => gives(new Tensor([1, 3]).lshift(new Tensor([4, 1])), [16, 6])],
    ["rshift", () => gives(new Tensor([-8, 9]).rshift(1), [-4, 4])],
    ["eq", () => gives(f32([1, NaN]).eq(f32([1, NaN])), [true, false], "bool")],
    ["ne", () => gives(f32([1, NaN]).ne(f32([1, NaN])), [false, true], "bool")],
    ["isclose", async () => {
      const x = f32([1, NaN, Infinity]), y = f32([1.000001, NaN, Infinity]);
      await gives(x.isclose(y), [true, false, true], "bool");
      await gives(x.isclose(y, { equalNan: true, rtol: 0, atol: 1e-9 }), [false, true, true]);
    }],
    ["where", async () => {
      await gives(new Tensor([1, 0, 2]).where(f32([1, 2, 3]), 9), [1, 9, 3], "float32");
      await gives(Tensor.where(new Tensor([true, false]), 1, 2), [1, 2], "int32");
      await gives(new Tensor([true]).where(new Tensor([1]), 2.5), [1], "float32");
    }],
    ["maskedFill", () => gives(f32([1, 2]).maskedFill(new Tensor([true, false]), -1), [-1, 2])],
    ["alu", () => gives(f32([1, 2]).alu(Ops.MAX, 1.5), [1.5, 2])],
    ["ufix", () => gives(f32([1]).ufix(2), 2, "float32")],
    ["usum", () => gives(new Tensor([1, 2]).usum([1, new Tensor([3, 4]), 5]), [10, 12])],
    ["uprod", () => gives(new Tensor([true, false]).uprod([new Tensor([true, true])]), [true, false], "bool")],
  ],
  "1.7": [
    ["sum", async () => {
      const x = f32([[1, 2], [3, 4]]);
      await gives(x.sum(), 10);
      await gives(x.sum(-1, { keepdim: true }), [[3], [7]]);
      await gives(x.sum([0, 1]), 10);
      await gives(Tensor.full([3000], 1, { dtype: "float16" }).sum(), 3000, "float16");
      await gives(new Tensor([true, true]).sum(), 2, "int32");
      await gives(new Tensor([200, 100], { dtype: "uint8" }).sum(), 300, "uint32");
      await gives(x.half().sum(0, { dtype: "float64" }), [4, 6], "float64");
    }],
    ["prod", async () => {
      await gives(f32([[1, 2], [3, 4]]).prod(1), [2, 12]);
      await gives(new Tensor([100, 3], { dtype: "int8" }).prod(), 300, "int32"); // ours widens, as PyTorch's does
    }],
    ["max", async () => {
      const x = f32([3, 1, 3]).realize();
      await gives(x.max(), 3);
      await gives(x.max().gradient([x])[0], [0.5, 0, 0.5]);
      await gives(Tensor.zeros([0, 2]).max(0), [-Infinity, -Infinity]);
    }],
    ["min", async () => {
      await gives(new Tensor([[3, -1], [0, 2]]).min(0), [0, -1], "int32");
      await gives(new Tensor([200, 3], { dtype: "uint8" }).min(), 3, "uint8");
    }],
    ["mean", async () => {
      await gives(new Tensor([1, 2]).mean(), 1.5, "float32");
      await gives(Tensor.full([4096], 60000, { dtype: "float16" }).mean(), 60000, "float16");
    }],
    ["var", async () => {
      await gives(f32([1, 2, 4]).var(), 7 / 3);
      await gives(f32([1, 2, 4]).var(0, { correction: 0 }), 14 / 9);
      await gives(new Tensor([1, 3]).var(), 2, "float32");
      await gives(f32([1]).var(), NaN);
    }],
    ["std", () => gives(f32([[1, 2, 4]]).std(1, { keepdim: true }), [[Math.sqrt(7 / 3)]])],
    ["varMean", async () => {
      const [v, m] = f32([1, 2, 4]).varMean();
      await gives(v, 7 / 3);
      await gives(m, 7 / 3);
    }],
    ["stdMean", () => gives(f32([1, 3]).stdMean()[0], SQRT2)],
    ["any", () => gives(new Tensor([[0, 0], [0, 2]]).any(1), [false, true], "bool")],
    ["all", () => gives(new Tensor([[1, 0], [3, 2]]).all(1), [false, true], "bool")],
    ["allclose", async () => {
      const close = f32([1, 2]).allclose(f32([1, 2.00001]));
      assert.deepEqual(close.shape, []);
      await gives(close, true, "bool");
      await gives(f32([NaN]).allclose(f32([NaN])), false);
      await gives(f32([NaN]).allclose(f32([NaN]), { equalNan: true }), true);
    }],
    ["argmax", async () => {
      await gives(f32([[1, 3, 3], [5, 5, 1]]).argmax(1), [1, 0], "int32");
      await gives(f32([[1, 3, 3], [5, 5, 1]]).argmax(), 3);
    }],
    ["argmin", () => gives(f32([[1, 0, 0], [5, 5, 1]]).argmin(1), [1, 2], "int32")],
    ["logsumexp", () => gives(f32([[1000, 1000], [0, 1]]).logsumexp(1), [1000.6931472, 1.3132617])],
    ["softmax", async () => {
      await gives(f32([1, 2, 3]).softmax(), [0.09003057, 0.24472847, 0.66524096]);
      await gives(f32([[1, 2], [1, 4]]).softmax(0), [[0.5, 0.1192029], [0.5, 0.8807971]]);
      await gives(new Tensor(3.5).softmax(), 1);
      await gives(f32([1, 1]).half().softmax(-1, { dtype: "float32" }), [0.5, 0.5], "float32");
    }],
    ["logSoftmax", () => gives(f32([1, 2, 3]).logSoftmax(), [-2.40760596, -1.40760596, -0.40760596])],
    ["softmin", () => gives(f32([1, 2, 3]).softmin(), [0.66524096, 0.24472847, 0.09003057])],
    ["normalize", async () => {
      await gives(f32([[3, 4], [0, 0]]).normalize(), [[0.6, 0.8], [0, 0]]);
      await gives(f32([[3, 4, 0]]).normalize({ p: 1 }), [[3 / 7, 4 / 7, 0]]);
      await gives(f32([[3, 4, 0]]).normalize({ p: 0 }), [[1.5, 2, 0]]);
    }],
    ["layernorm", async () => {
      await gives(f32([[1, 2, 3]]).layernorm(), [[-1.22473562, 0, 1.22473562]], undefined, 1e-5);
      await gives(f32([[1, 2], [3, 4]]).layernorm([0, 1]).mean(), 0);
      await gives(f32([[1, 3]]).layernorm(-1, { eps: 3 }), [[-0.5, 0.5]]);
    }],
    [
      "batchnorm",
      () =>
        gives(f32([[1, 2], [3, 4]]).batchnorm(f32([2, 2]), f32([0, 1]), f32([1, 2]), f32([1, 0.5])), [[0, 1], [4, 3]]),
    ],
  ],
  "1.8": [
    ["cumsum", async () => {
      await gives(f32([[1, 2], [3, 4]]).cumsum(), [[1, 2], [4, 6]]);
      await gives(f32([[1, 2], [3, 4]]).cumsum(1), [[1, 3], [3, 7]]);
      const n = 5000, x = Tensor.ones([n]).cumsum();
      await gives(x.at([n - 2, n]), [n - 1, n]);
    }],
    ["cumprod", () => gives(f32([1, 2, 3]).cumprod(0), [1, 2, 6])],
    ["cummax", async () => {
      const [v, i] = f32([1, 3, 2, 3]).cummax(0);
      await gives(v, [1, 3, 3, 3]);
      await gives(i, [0, 1, 1, 1], "int32");
    }],
    ["cummin", async () => {
      const [v, i] = f32([3, 1, 2, 1]).cummin(0);
      await gives(v, [3, 1, 1, 1]);
      await gives(i, [0, 1, 1, 1], "int32");
    }],
    ["logcumsumexp", () => gives(f32([0, 0, -Infinity]).logcumsumexp(0), [0, Math.LN2, Math.LN2])],
  ],
});
