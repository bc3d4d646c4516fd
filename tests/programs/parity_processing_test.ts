/** What lines 1.9 to 1.14 promise: products, images, sorting, dtypes, losses, linear algebra, gradients. Values are PyTorch's. */
import assert from "node:assert/strict";
import { dtypes, Tensor } from "../../mod.ts";
import { f32, gives, type Line, refuses, testLines } from "./parity_line.ts";

const six = (): Tensor => Tensor.arange(6).reshape([2, 3]);
const image = (n: number): Tensor => Tensor.arange(n * n, { dtype: "float32" }).reshape([1, 1, n, n]);
const cast = (
  name: "float" | "half" | "bfloat16" | "double" | "int" | "long" | "short" | "bool",
  dtype: string,
): Line => [
  name,
  () => gives(new Tensor([1, 0])[name](), dtype === "bool" ? [true, false] : [1, 0], dtype),
];

testLines({
  "1.9": [
    ["dot", async () => {
      await gives(f32([1, 2]).dot(f32([3, 4])), 11);
      assert.deepEqual(Tensor.zeros([5, 1, 2, 3]).dot(Tensor.zeros([4, 3, 6])).shape, [5, 4, 2, 6]);
      await gives(
        Tensor.full([1, 2], 60000, { dtype: "float16" }).dot(Tensor.ones([2, 1], { dtype: "float16" }), {
          dtype: "float32",
        }),
        [[120000]],
        "float32",
      );
      refuses("ShapeError", "", () => f32([1, 2]).dot(f32([1, 2, 3])));
      refuses("ShapeError", "", () => f32([1, 2]).dot(f32(2)));
    }],
    ["matmul", () => gives(f32([[1, 2], [3, 4]]).matmul(f32([[0, 1], [1, 0]]), { reverse: true }), [[3, 4], [1, 2]])],
    ["linear", async () => {
      await gives(f32([[1, 2]]).linear(f32([[1, 2, 3], [4, 5, 6]]), f32([1, 1, 1])), [[10, 13, 16]]);
      await gives(f32([1, 2]).linear(f32([3, 4])), [3, 8]);
    }],
    ["einsum", async () => {
      const x = f32([[1, 2], [3, 4]]);
      await gives(Tensor.einsum("ij,jk->ik", [x, x]), [[7, 10], [15, 22]]);
      await gives(Tensor.einsum("ii", [x]), 5);
      await gives(Tensor.einsum("ii->i", [x]), [1, 4]);
      await gives(Tensor.einsum("...i->...", [x]), [3, 7]);
      await gives(Tensor.einsum("ij", [x]), [[1, 2], [3, 4]]);
      await gives(Tensor.einsum("ba", [x]), [[1, 3], [2, 4]]);
      await gives(
        Tensor.einsum("i,i->", [Tensor.full([1], 300, { dtype: "float16" }), f32([300]).half()], {
          dtype: "float32",
        }),
        90000,
        "float32",
      );
      assert.throws(() => Tensor.einsum("ij,jk->ik", [x]));
    }],
    ["conv2d", async () => {
      const ones = Tensor.ones([1, 1, 2, 2]);
      await gives(image(3).conv2d(ones), [[[[8, 12], [20, 24]]]]);
      await gives(image(3).conv2d(ones, f32([1]), { stride: 2, padding: 1 }), [[[[1, 4], [10, 25]]]]);
      await gives(image(3).conv2d(ones, undefined, { dilation: 2 }), [[[[16]]]]);
      await gives(image(3).conv2d(ones, undefined, { padding: [1, 0, 0, 0] }), [[[[3, 8, 12], [9, 20, 24]]]]);
      await gives(f32([[[1, 2, 3]]]).conv2d(Tensor.ones([1, 1, 2])), [[[3, 5]]]);
      assert.deepEqual(
        Tensor.zeros([1, 4, 3, 3, 3]).conv2d(Tensor.zeros([2, 2, 2, 2, 2]), undefined, { groups: 2 }).shape,
        [
          1,
          2,
          2,
          2,
          2,
        ],
      );
    }],
    ["convTranspose2d", async () => {
      await gives(image(2).convTranspose2d(Tensor.ones([1, 1, 2, 2])), [[[[0, 1, 1], [2, 6, 4], [2, 5, 3]]]]);
      const o = { stride: 2, padding: 1, outputPadding: 1 };
      assert.deepEqual(image(2).convTranspose2d(Tensor.ones([1, 1, 3, 3]), undefined, o).shape, [1, 1, 4, 4]);
    }],
    ["avgPool2d", async () => {
      await gives(image(4).avgPool2d(), [[[[2.5, 4.5], [10.5, 12.5]]]]);
      await gives(image(3).avgPool2d([2, 2], { ceilMode: true }), [[[[2, 3.5], [6.5, 8]]]]);
      const o = { padding: 1, stride: 2 };
      await gives(image(2).avgPool2d(2, { ...o, countIncludePad: false }), [[[[0, 1], [2, 3]]]]);
      await gives(image(2).avgPool2d(2, o), [[[[0, 0.25], [0.5, 0.75]]]]);
    }],
    ["maxPool2d", async () => {
      await gives(image(4).maxPool2d(), [[[[5, 7], [13, 15]]]]);
      const [, places] = image(4).maxPool2d(2, { returnIndices: true });
      await gives(places, [[[[5, 7], [13, 15]]]], "int32");
      await gives(image(3).maxPool2d(2, { ceilMode: true }), [[[[4, 5], [7, 8]]]]);
    }],
    ["maxUnpool2d", async () => {
      const [v, i] = image(2).maxPool2d(2, { returnIndices: true });
      await gives(v.maxUnpool2d(i, 2), [[[[0, 0], [0, 3]]]]);
      assert.deepEqual(v.maxUnpool2d(i, 2, { outputSize: [1, 1, 3, 3] }).shape, [1, 1, 3, 3]);
    }],
    ["interpolate", async () => {
      const x = f32([[[0, 4]]]);
      await gives(x.interpolate([4], { mode: "linear" }), [[[0, 1, 3, 4]]]);
      await gives(x.interpolate([3], { mode: "linear", alignCorners: true }), [[[0, 2, 4]]]);
      await gives(f32([[[0, 1, 2]]]).interpolate([2], { mode: "nearest" }), [[[0, 1]]]);
      await gives(f32([[[0, 1, 2]]]).interpolate([2], { mode: "nearest-exact" }), [[[0, 2]]]);
      await gives(image(2).interpolate([3, 3]).at(0, 0), [[0, 0.5, 1], [1, 1.5, 2], [2, 2.5, 3]]);
      const bytes = new Tensor(new Uint8Array([0, 255])).reshape([1, 1, 2]);
      await gives(bytes.interpolate([3], { mode: "linear" }), [[[0, 128, 255]]], "uint8");
    }],
    ["scaledDotProductAttention", async () => {
      const q = f32([[[1, 0], [0, 1]]]), v = f32([[[1, 2], [3, 4]]]), w = 1 / (1 + Math.exp(-1 / Math.SQRT2));
      const first = w + 3 * (1 - w), second = 1 - w + 3 * w;
      await gives(q.scaledDotProductAttention(q, v), [[[first, first + 1], [second, second + 1]]]);
      await gives(q.scaledDotProductAttention(q, v, undefined, { isCausal: true }).at(0, 0), [1, 2]);
      await gives(q.scaledDotProductAttention(q, v, new Tensor([[false, true], [true, false]])), [[[3, 4], [1, 2]]]);
      await gives(q.scaledDotProductAttention(q, v, f32([[0, -Infinity], [-Infinity, 0]])), [[[1, 2], [3, 4]]]);
      refuses(
        "ArgumentError",
        "isCausal",
        () => q.scaledDotProductAttention(q, v, f32([[0, 0], [0, 0]]), { isCausal: true }),
      );
      const heads = Tensor.randn([1, 4, 3, 8]), few = Tensor.randn([1, 2, 3, 8]);
      assert.deepEqual(heads.scaledDotProductAttention(few, few, undefined, { enableGqa: true }).shape, [1, 4, 3, 8]);
    }],
    // there is no device with images: dot and conv2d do the same
    ["imageDot", () => assert.ok(!("imageDot" in Tensor.prototype))],
    ["imageConv2d", () => assert.ok(!("imageConv2d" in Tensor.prototype))],
    ["sequential", () => gives(f32([1, 2]).sequential([(x: Tensor) => x.add(1), (x: Tensor) => x.mul(2)]), [4, 6])],
    ["sort", async () => {
      const [v, i] = f32([3, 1, 2, 1]).sort();
      await gives(v, [1, 1, 2, 3]);
      await gives(i, [1, 3, 2, 0], "int32");
      await gives(f32([[3, 1], [2, 4]]).sort(0, { descending: true })[0], [[3, 4], [2, 1]]);
    }],
    ["argsort", () => gives(new Tensor([3, 1, 2]).argsort(), [1, 2, 0], "int32")],
    ["topk", async () => {
      const [v, i] = f32([3, 1, 4, 2]).topk(2);
      await gives(v, [4, 3]);
      await gives(i, [2, 0], "int32");
      await gives(f32([[3, 1, 4], [2, 5, 0]]).topk(1, 0, { largest: false })[0], [[2, 1, 0]]);
      await gives(f32([3, 1, 4]).topk(3, -1, { sorted: false })[0].sum(), 8);
      assert.throws(() => f32([1]).topk(2));
    }],
    ["gather", async () => {
      await gives(six().gather(1, new Tensor([[2, 0], [1, 1]])), [[2, 0], [4, 4]]);
      await gives(six().gather(0, new Tensor([[1, 0]])), [[3, 1]]);
      assert.throws(() => six().gather(0, new Tensor([1])));
    }],
    ["scatter", async () => {
      const zero = Tensor.zeros([2, 3]), i = new Tensor([[0, 2]]);
      await gives(zero.scatter(1, i, f32([[5, 6]])), [[5, 0, 6], [0, 0, 0]]);
      await gives(zero.scatter(1, new Tensor([[1, 1]]), f32([[5, 6]])).at(0, 1), 6);
      await gives(Tensor.ones([2, 3]).scatter(1, i, 4, "add"), [[5, 1, 5], [1, 1, 1]]);
      await gives(Tensor.ones([2, 3]).scatter(1, i, 4, "multiply"), [[4, 1, 4], [1, 1, 1]]);
      assert.throws(() => zero.scatter(1, i, new Tensor([[5n, 6n]])));
    }],
    ["scatterReduce", async () => {
      const x = f32([1, 2]), i = new Tensor([0, 0, 1]), src = f32([3, 5, 7]);
      await gives(x.scatterReduce(0, i, src, "sum"), [9, 9]);
      await gives(x.scatterReduce(0, i, src, "prod"), [15, 14]);
      await gives(x.scatterReduce(0, i, src, "mean"), [3, 4.5]);
      await gives(x.scatterReduce(0, i, src, "amax"), [5, 7]);
      await gives(x.scatterReduce(0, i, src, "amin", false), [3, 7]);
    }],
    ["maskedSelect", async () => {
      const x = f32([1, 2, 3]), m = x.gt(1);
      await gives(await x.maskedSelect(m), [2, 3]);
      await gives(x.maskedSelect(m, { size: 3, fillValue: -1 }), [2, 3, -1]);
    }],
    ["nonzero", async () => {
      await gives(await new Tensor([[0, 1], [2, 0]]).nonzero(), [[0, 1], [1, 0]], "int32");
      await gives(new Tensor([0, 5]).nonzero({ size: 2, fillValue: -1 }), [[1], [-1]]);
    }],
    ["decodeHevcFrame", () => assert.ok(!("decodeHevcFrame" in Tensor.prototype))],
  ],
  "1.10": [
    ["cast", async () => {
      await gives(f32([1.9, -1.9, 300]).cast("int32"), [1, -1, 300], "int32");
      await gives(f32([1.9, 250]).cast("uint8"), [1, 250], "uint8");
      await gives(f32([1e6, -1e6]).cast("fp8e4m3").float(), [448, -448]);
      await gives(new Tensor([0, 2]).cast(dtypes.bool), [false, true], "bool");
    }],
    ["bitcast", async () => {
      await gives(f32([1, -2]).bitcast("int32"), [0x3f800000, -0x40000000], "int32");
      await gives(f32([[1, 0]]).bitcast("uint8"), [[0, 0, 128, 63, 0, 0, 0, 0]], "uint8");
      await gives(new Tensor(new Uint8Array([0, 0, 128, 63])).bitcast("float32"), [1], "float32");
      assert.throws(() => new Tensor(new Uint8Array([0, 0, 128])).bitcast("float32"));
    }],
    cast("float", "float32"),
    cast("half", "float16"),
    cast("bfloat16", "bfloat16"),
    cast("double", "float64"),
    cast("int", "int32"),
    cast("long", "int64"),
    cast("short", "int16"),
    cast("bool", "bool"),
  ],
  "1.11": [
    ["binaryCrossentropy", async () => {
      const p = f32([0.9, 0.2]), y = f32([1, 0]);
      await gives(p.binaryCrossentropy(y), 0.16425203);
      await gives(p.binaryCrossentropy(y, "sum"), 0.32850407);
      await gives(p.binaryCrossentropy(y, "none"), [0.10536051, 0.22314353]);
      assert.throws(() => p.binaryCrossentropy(y, "most" as "sum"));
    }],
    ["binaryCrossentropyLogits", async () => {
      const x = f32([2, -100]), y = f32([1, 1]);
      await gives(x.binaryCrossentropyLogits(y, { reduction: "none" }), [0.126928, 100]);
      await gives(x.binaryCrossentropyLogits(y, { posWeight: f32([2, 3]) }), 150.126928);
    }],
    ["sparseCategoricalCrossentropy", async () => {
      const x = f32([[1, 2], [3, 1], [0, 0]]), y = new Tensor([1, 0, -1]);
      await gives(x.sparseCategoricalCrossentropy(y), (0.31326169 + 0.126928) / 3);
      await gives(
        x.sparseCategoricalCrossentropy(new Tensor([1, 0, 9]), { ignoreIndex: 9 }),
        (0.31326169 + 0.126928) / 2,
      );
      await gives(x.sparseCategoricalCrossentropy(y, { reduction: "none" }), [0.31326169, 0.126928, 0]);
      await gives(
        x.at([0, 2]).sparseCategoricalCrossentropy(y.at([0, 2]), { labelSmoothing: 0.1, reduction: "sum" }),
        0.31326169 + 0.126928 + 0.05 + 0.1,
      );
    }],
    ["crossEntropy", async () => {
      await gives(f32([[1, 2], [3, 1]]).crossEntropy(new Tensor([1, 0])), (0.31326169 + 0.126928) / 2);
      await gives(f32([1, 2]).crossEntropy(new Tensor(1)), 0.31326169);
      await gives(f32([[1, 2]]).crossEntropy(f32([[0.5, 0.5]])), 0.81326169);
      await gives(f32([[1, 2]]).crossEntropy(new Tensor([1]), { labelSmoothing: 0.2 }), 0.41326169);
      assert.deepEqual(Tensor.zeros([2, 3, 4]).crossEntropy(new Tensor([[0, 1, 2, 0], [0, 1, 2, 0]])).shape, []);
    }],
    ["nllLoss", async () => {
      const x = f32([[-1, -2], [-3, -0.5]]);
      await gives(x.nllLoss(new Tensor([0, 1])), 0.75);
      await gives(x.nllLoss(new Tensor([0, 1]), f32([1, 3])), (1 + 1.5) / 4);
      await gives(x.nllLoss(new Tensor([0, 1]), undefined, { ignoreIndex: 1 }), 1);
    }],
  ],
  "1.12": [
    ["qr", async () => {
      for (const shape of [[4, 3], [3, 4], [2, 3, 3]]) {
        const x = Tensor.randn(shape).realize(), [q, r] = x.qr(), m = shape[shape.length - 2];
        assert.deepEqual([q.shape.slice(-2), r.shape.slice(-2)], [[m, m], shape.slice(-2)]);
        await gives(q.matmul(r).sub(x).abs().max(), 0, "float32", 1e-5);
        await gives(q.transpose(-1, -2).matmul(q).sub(Tensor.eye(m)).abs().max(), 0, "float32", 1e-5);
        await gives(r.sub(r.triu()).abs().max(), 0);
      }
    }],
    ["svd", async () => {
      for (const shape of [[4, 3], [2, 3, 5]]) {
        const x = Tensor.randn(shape).realize(), [m, n] = shape.slice(-2), k = Math.min(m, n);
        const [u, s, vt] = x.svd();
        assert.deepEqual([u.shape.slice(-2), vt.shape.slice(-2), s.shape.slice(-1)], [[m, m], [n, n], [k]]);
        const whole = u.at("...", [0, k]).mul(s.unsqueeze(-2)).matmul(vt.at("...", [0, k], ":"));
        await gives(whole.sub(x).abs().max(), 0, "float32", 1e-5);
        assert.deepEqual(x.svd(false)[0].shape.slice(-2), [m, k]);
      }
      await gives(f32([[3, 0], [0, -4]]).svd()[1], [4, 3]);
    }],
    ["newtonSchulz", async () => {
      const x = f32([[3, 1], [0, 2]]), y = x.newtonSchulz(12, [2, -1.5, 0.5]);
      await gives(y.matmul(y.T), [[1, 0], [0, 1]], undefined, 1e-4);
      assert.deepEqual(Tensor.ones([2, 3]).newtonSchulz(2, [2, -1.5, 0.5], 1e-7).shape, [2, 3]);
    }],
  ],
  // the runtime hashes: crypto.subtle and node:crypto
  "1.13": [
    ["keccak", () => assert.ok(!("keccak" in Tensor.prototype))],
    ["hash", () => assert.ok(!("hash" in Tensor.prototype))],
  ],
  "1.14": [
    ["backward", async () => {
      const x = new Tensor([1, 2], { requiresGrad: true }), y = f32([3, 4]);
      x.mul(y).sum().backward();
      x.mul(y).sum().backward();
      await gives(x.grad!, [6, 8]);
      assert.equal(y.grad, undefined);
      x.mul(y).backward(f32([1, 0]));
      await gives(x.grad!, [9, 8]);
      assert.throws(() => x.mul(y).backward());
    }],
    ["gradient", async () => {
      const x = f32([2]).realize(), [g] = x.pow(3).sum().gradient([x]);
      const [second] = g.sum().gradient([x]);
      await gives(g, [12]);
      await gives(second, [12]);
      await gives(x.square().gradient([x], { gradient: f32([5]) })[0], [20]);
      refuses("DTypeError", "", () => x.sum().gradient([new Tensor([1]).realize()]));
    }],
  ],
});
