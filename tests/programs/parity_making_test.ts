/** What lines 1.1 to 1.4 promise: creation, random numbers, properties and reading, movement. */
import assert from "node:assert/strict";
import { dtypes, kernel, Tensor, Variable } from "../../mod.ts";
import { f32, gives, refuses, testLines } from "./parity_line.ts";

const six = (): Tensor => Tensor.arange(6).reshape([2, 3]);
const inside = async (t: Tensor, low: number, high: number): Promise<void> => {
  const values = await t.flatten().tolist() as number[];
  assert.ok(values.every((v) => v >= low && v < high), `${Math.min(...values)} to ${Math.max(...values)}`);
};
const moments = async (t: Tensor, mean: number, std: number, slack = 0.05): Promise<void> => {
  await gives(t.float().mean(), mean, "float32", slack * Math.max(1, std));
  await gives(t.float().std(), std, "float32", slack);
};

testLines({
  "1.1": [
    ["new Tensor", async () => {
      await gives(new Tensor([[1, 2], [3, 4]]), [[1, 2], [3, 4]], "int32");
      await gives(new Tensor([1.5, 2]), [1.5, 2], "float32");
      await gives(new Tensor([true, false]), [true, false], "bool");
      await gives(new Tensor([]), [], "float32");
      await gives(new Tensor(new Uint8Array([7, 255])), [7, 255], "uint8");
      await gives(new Tensor(new Float64Array([0.1])), [0.1], "float64", 0);
      await gives(new Tensor(3), 3, "int32");
      await gives(new Tensor([1, 2], { dtype: "float16" }), [1, 2], "float16");
      await gives(new Tensor([new Variable("n", 0, 9).bind(4)]), [4]);
      refuses("ShapeError", "", () => new Tensor([[1, 2], [3]]));
    }],
    ["Tensor.empty", () => {
      assert.deepEqual(Tensor.empty([2, 3], { dtype: "int8" }).shape, [2, 3]);
      assert.equal(Tensor.empty([2], { dtype: "int8" }).dtype.name, "int8");
      assert.equal(Tensor.empty([new Variable("n", 1, 8).bind(3), 2]).maxNumel, 16);
    }],
    ["emptyLike", () => {
      const x = Tensor.zeros([2, 3], { dtype: "int16" });
      assert.deepEqual([x.emptyLike().shape, x.emptyLike().dtype.name], [[2, 3], "int16"]);
      assert.equal(x.emptyLike({ dtype: "bool" }).dtype.name, "bool");
    }],
    ["Tensor.invalids", async () => {
      const [out] = Tensor.invalids([3]).customKernel([f32([1, 2, 3])], (o, x) => {
        const i = kernel.loop(3);
        return [kernel.write(o, i, kernel.read(x, i).add(kernel.constant(1, kernel.read(x, i))))];
      });
      await gives(out, [2, 3, 4]);
    }],
    ["Tensor.full", async () => {
      await gives(Tensor.full([2], 7), [7, 7], "int32");
      await gives(Tensor.full([2], 7.5), [7.5, 7.5], "float32");
      await gives(Tensor.full([1], true), [true], "bool");
      await gives(Tensor.full([1], 7, { dtype: "float64" }), [7], "float64");
    }],
    ["fullLike", async () => {
      await gives(f32([1, 2]).fullLike(9), [9, 9], "float32");
      await gives(f32([1, 2]).fullLike(9, { dtype: "int8" }), [9, 9], "int8");
    }],
    ["Tensor.zeros", () => gives(Tensor.zeros([2, 1]), [[0], [0]], "float32")],
    ["zerosLike", () => gives(six().zerosLike(), [[0, 0, 0], [0, 0, 0]], "int32")],
    ["Tensor.ones", () => gives(Tensor.ones([2], { dtype: "int64" }), [1, 1], "int64")],
    ["onesLike", () => gives(f32([4, 5]).onesLike(), [1, 1], "float32")],
    ["Tensor.arange", async () => {
      await gives(Tensor.arange(4), [0, 1, 2, 3], "int32");
      await gives(Tensor.arange(2, 9, 3), [2, 5, 8], "int32");
      await gives(Tensor.arange(0, 1, 0.25), [0, 0.25, 0.5, 0.75], "float32");
      await gives(Tensor.arange(5, 0, -2), [5, 3, 1], "int32");
      await gives(Tensor.arange(5, 0), [], "int32");
      await gives(Tensor.arange(2 ** 40, 2 ** 40 + 2), [2 ** 40, 2 ** 40 + 1], "int64");
      assert.throws(() => Tensor.arange(2 ** 70, 2 ** 70 + 2 ** 60, 2 ** 59));
    }],
    ["Tensor.linspace", async () => {
      await gives(Tensor.linspace(0, 10, 5), [0, 2.5, 5, 7.5, 10], "float32");
      await gives(Tensor.linspace(3, 9, 1), [3]);
      await gives(Tensor.linspace(0, 6, 3, { dtype: "int32" }), [0, 3, 6], "int32");
      refuses("ArgumentError", "steps", () => Tensor.linspace(0, 1, -1));
    }],
    ["Tensor.eye", async () => {
      await gives(Tensor.eye(2, 3), [[1, 0, 0], [0, 1, 0]], "float32");
      await gives(Tensor.eye(2), [[1, 0], [0, 1]]);
      assert.throws(() => Tensor.eye(-1));
    }],
    ["Tensor.const", async () => {
      await gives(Tensor.const(2.5), 2.5, "float32");
      await gives(Tensor.const([1, 2]), [1, 2], "int32");
      await gives(Tensor.const(1, "int8"), 1, "int8");
    }],
    ["constLike", async () => {
      await gives(f32([1, 2]).constLike(3), [3, 3], "float32");
      await gives(f32([1]).constLike(3, { dtype: "int32" }), [3], "int32");
    }],
    ["Tensor.fromBlob", () => gives(Tensor.fromBlob(new Int16Array([1, -2, 3]), [3]), [1, -2, 3], "int16")],
    ["Tensor.fromUrl", async () => {
      const server = Deno.serve(
        { port: 0, hostname: "127.0.0.1", onListen: () => {} },
        () => new Response(new Blob([new Uint8Array([1, 2, 250])]).stream().pipeThrough(new CompressionStream("gzip"))),
      );
      try {
        await gives(
          await Tensor.fromUrl(`http://127.0.0.1:${server.addr.port}/a.gz`, { gunzip: true }),
          [1, 2, 250],
          "uint8",
        );
      } finally {
        await server.shutdown();
      }
    }],
    ["meshgrid", async () => {
      const [a, b] = Tensor.arange(2).meshgrid([Tensor.arange(3)]);
      await gives(a, [[0, 0, 0], [1, 1, 1]]);
      await gives(b, [[0, 1, 2], [0, 1, 2]]);
      await gives(Tensor.arange(2).meshgrid([Tensor.arange(3)], { indexing: "xy" })[0], [[0, 1], [0, 1], [0, 1]]);
      await gives(Tensor.arange(2).meshgrid([new Tensor(5)])[1], [[5], [5]]);
    }],
    ["oneHot", () => gives(new Tensor([2, 0]).oneHot(3), [[0, 0, 1], [1, 0, 0]], "int32")],
    ["diag", () => gives(new Tensor([1, 2]).diag(), [[1, 0], [0, 2]], "int32")],
    ["tril", async () => {
      await gives(six().tril(), [[0, 0, 0], [3, 4, 0]]);
      await gives(six().tril(-1), [[0, 0, 0], [3, 0, 0]]);
    }],
    ["triu", async () => {
      await gives(six().triu(), [[0, 1, 2], [0, 4, 5]]);
      await gives(six().triu(1), [[0, 1, 2], [0, 0, 5]]);
      const n = new Variable("d", -2, 2);
      await gives(six().triu(n.bind(1)), [[0, 1, 2], [0, 0, 5]]);
    }],
    ["asParam", () => assert.equal(f32([1, 2]).asParam(3).dtype, dtypes.float32)],
  ],
  "1.2": [
    ["Tensor.manualSeed", async () => {
      const draw = (seed: number): Promise<unknown> => (Tensor.manualSeed(seed), Tensor.rand([4]).tolist());
      const [a, b, c] = [await draw(7), await draw(7), await draw(8)];
      assert.deepEqual(a, b);
      assert.notDeepEqual(a, c);
    }],
    ["Tensor.rand", async () => {
      Tensor.manualSeed(1);
      for (const dtype of ["float64", "float32", "float16", "bfloat16"] as const) {
        const x = Tensor.rand([4000], { dtype });
        assert.equal(x.dtype.name, dtype);
        await inside(x, 0, 1);
        await moments(x, 0.5, Math.sqrt(1 / 12));
      }
      refuses("DTypeError", "float", () => Tensor.rand([2], { dtype: "int32" }));
    }],
    ["randLike", async () => {
      const x = Tensor.zeros([3, 5], { dtype: "float16" }).randLike();
      assert.deepEqual([x.shape, x.dtype.name], [[3, 5], "float16"]);
      await inside(x, 0, 1);
    }],
    ["Tensor.randn", () => moments(Tensor.randn([6000]), 0, 1)],
    ["randnLike", async () => {
      await moments(f32([1]).expand([6000]).randnLike(), 0, 1);
      assert.equal(f32([1]).randnLike({ dtype: "float64" }).dtype.name, "float64");
    }],
    ["Tensor.randint", async () => {
      const x = Tensor.randint([3000]);
      assert.equal(x.dtype.name, "int32");
      assert.deepEqual(await x.bincount({ size: 10 }).gt(200).tolist(), Array(10).fill(true));
      await inside(Tensor.randint([500], { low: -3, high: 4 }), -3, 4);
      assert.throws(() => Tensor.randint([2], { low: 4, high: 4 }));
      assert.throws(() => Tensor.randint([2], { dtype: "float32" }));
      assert.throws(() => Tensor.randint([2], { low: 0.5 }));
    }],
    ["Tensor.normal", () => moments(Tensor.normal([6000], { mean: 3, std: 2 }), 3, 2, 0.06)],
    ["Tensor.uniform", async () => {
      await inside(Tensor.uniform([1000], { low: 2, high: 5 }), 2, 5);
      const whole = Tensor.uniform([1000], { low: 2, high: 5, dtype: "int32" });
      await inside(whole, 2, 5);
      assert.equal(whole.dtype.name, "int32");
    }],
    ["Tensor.scaledUniform", () => inside(Tensor.scaledUniform([10, 40]), -1 / 20, 1 / 20)],
    ["Tensor.glorotUniform", async () => {
      const bound = Math.sqrt(6 / (4 + 50));
      await inside(Tensor.glorotUniform([4, 5, 10]), -bound, bound);
      await gives(Tensor.glorotUniform([4, 50, 10]).std(), Math.sqrt(6 / 504 / 3), "float32", 0.05);
    }],
    ["Tensor.kaimingUniform", async () => {
      const bound = Math.sqrt(6 / (1 + 0.01 ** 2) / 50);
      await inside(Tensor.kaimingUniform([40, 5, 10]), -bound, bound);
      await gives(Tensor.kaimingUniform([40, 5, 10]).std(), bound / Math.sqrt(3), "float32", 0.03);
    }],
    [
      "Tensor.kaimingNormal",
      () => moments(Tensor.kaimingNormal([40, 5, 10]), 0, Math.sqrt(2 / (1 + 0.01 ** 2) / 50), 0.03),
    ],
    ["Tensor.randperm", async () => {
      const x = Tensor.randperm(50);
      assert.equal(x.dtype.name, "int32");
      await gives(x.sort()[0], Array.from({ length: 50 }, (_, i) => i));
    }],
    ["multinomial", async () => {
      const w = f32([0, 1, 3]), x = w.multinomial({ numSamples: 2000, replacement: true });
      assert.equal(x.dtype.name, "int32");
      await gives(x.eq(2).float().mean(), 0.75, "float32", 0.06);
      await gives(x.eq(0).any(), false);
      await gives(w.multinomial({ numSamples: 2 }).sort()[0], [1, 2]);
      assert.deepEqual(f32([[1, 1], [1, 2]]).multinomial({ numSamples: 1 }).shape, [2, 1]);
    }],
    ["dropout", async () => {
      const x = Tensor.ones([4000]);
      await gives(x.dropout(0.5).mean(), 1);
      await Tensor.train(async () => {
        const y = x.dropout(0.25).realize();
        await gives(y.max(), 4 / 3);
        await gives(y.eq(0).float().mean(), 0.25, "float32", 0.05);
        await gives(x.dropout(1).max(), 0);
        await gives(x.dropout(0).min(), 1);
      });
    }],
    ["Tensor.randomBits", async () => {
      const x = Tensor.randomBits([0, 0], 0, 4);
      assert.equal(x.dtype.name, "uint32");
      await gives(Tensor.randomBits([0, 0], 2, 2), (await x.tolist() as number[]).slice(2));
    }],
    // Random123's vector for the key 0 and the counter 0: 6b200159 99ba4efe
    ["threefry", async () => {
      const x = new Tensor([0n], { dtype: "uint64" }).threefry(new Tensor([0n], { dtype: "uint64" }));
      const words = await x.bitcast("uint32").tolist() as number[];
      assert.equal(x.dtype.name, "uint64");
      assert.deepEqual(new Set(words), new Set([0x6b200159, 0x99ba4efe]));
    }],
  ],
  "1.3": [
    ["shape", () => assert.deepEqual([six().shape, new Tensor(1).shape], [[2, 3], []])],
    ["dtype", () => assert.equal(six().dtype, dtypes.int32)],
    ["device", () => assert.equal(six().device, "JS")],
    ["ndim", () => assert.deepEqual([six().ndim, new Tensor(1).ndim], [2, 0])],
    ["T", () => gives(six().T, [[0, 3], [1, 4], [2, 5]])],
    ["numel", () => assert.equal(six().numel(), 6)],
    ["nbytes", () => assert.equal(six().double().nbytes(), 48)],
    ["elementSize", () => assert.deepEqual([six().elementSize(), six().half().elementSize()], [4, 2])],
    ["size", () => assert.deepEqual([six().size(), six().size(1), six().size(-2)], [[2, 3], 3, 2])],
    ["maxShape", () => assert.deepEqual(Tensor.empty([new Variable("n", 1, 8).bind(3), 2]).maxShape, [8, 2])],
    ["maxNumel", () => assert.equal(Tensor.empty([new Variable("n", 1, 8).bind(3), 2]).maxNumel, 16)],
    ["isFloatingPoint", () => {
      const floats = ["float16", "bfloat16", "float32", "float64", "fp8e4m3", "fp8e5m2"] as const;
      for (const d of floats) assert.ok(Tensor.zeros([1], { dtype: d }).isFloatingPoint(), d);
      for (const d of ["bool", "int8", "uint64"] as const) {
        assert.ok(!Tensor.zeros([1], { dtype: d }).isFloatingPoint(), d);
      }
    }],
    ["uop", () => {
      const x = six().add(1), before = x.uop;
      x.realize();
      assert.notEqual(x.uop, before);
    }],
    ["grad", async () => {
      const x = f32([1, 2]).assign(f32([1, 2]));
      x.requiresGrad = true;
      assert.ok(x.grad === undefined);
      x.square().sum().backward();
      await gives(x.grad!, [2, 4]);
    }],
    ["requiresGrad", () => assert.equal(new Tensor([1.5], { requiresGrad: true }).requiresGrad, true)],
    ["requiresGrad = true", () => {
      const x = f32([1]);
      x.requiresGrad = true;
      assert.equal(x.requiresGrad, true);
    }],
    ["item", async () => {
      assert.equal(await f32([[2.5]]).item(), 2.5);
      await assert.rejects(async () => await six().item(), { name: "ShapeError" });
    }],
    ["tolist", async () => {
      assert.deepEqual(await six().tolist(), [[0, 1, 2], [3, 4, 5]]);
      assert.equal(await new Tensor(4).tolist(), 4);
    }],
    ["data", async () => {
      assert.deepEqual(await six().T.data(), new Int32Array([0, 3, 1, 4, 2, 5]));
      assert.deepEqual([...await f32([1.5]).half().data()].map(Number), [1.5]);
    }],
    ["data", async () => {
      assert.deepEqual([...await f32([1.5, 3]).bfloat16().float().data()], [1.5, 3]);
      assert.deepEqual([...await f32([1.5, 3]).cast("fp8e5m2").float().data()], [1.5, 3]);
    }],
    ["length", () => {
      assert.equal(six().length, 2);
      refuses("ShapeError", "", () => new Tensor(1).length);
    }],
    ["a Map key", () => {
      const a = six(), b = six(), m = new Map([[a, 1], [b, 2]]);
      assert.deepEqual([m.size, m.get(a), m.get(b)], [2, 1, 2]);
    }],
    ["Symbol.toPrimitive", () => refuses("ArgumentError", "overload", () => Number(six()))],
    ["toString", () => {
      const x = six().add(1);
      assert.match(String(x), /\[2, 3\]/);
      assert.equal(x.isRealized, false);
    }],
    ["delete", () => assert.ok(!("delete" in Tensor.prototype))],
    ["add sub mul div floorDiv mod pow matmul bitwiseAnd ... with { reverse }", async () => {
      const x = new Tensor([-7, 2, 5]), reverse = { reverse: true };
      await gives(x.add(1), [-6, 3, 6], "int32");
      await gives(x.sub(1, reverse), [8, -1, -4], "int32");
      await gives(x.mul(2), [-14, 4, 10]);
      await gives(x.div(2), [-3.5, 1, 2.5], "float32");
      await gives(x.floorDiv(2), [-4, 1, 2], "int32");
      await gives(x.floorDiv(-11, reverse), [1, -6, -3]);
      await gives(x.mod(4), [1, 2, 1], "int32");
      await gives(x.mod(-4), [-3, -2, -3]);
      await gives(x.mod(9, reverse), [-5, 1, 4]);
      await gives(x.at([1, null]).pow(2, reverse), [4, 32]);
      await gives(x.bitwiseAnd(6), [0, 2, 4]);
      await gives(x.bitwiseOr(8), [-7, 10, 13]);
      await gives(x.bitwiseXor(1), [-8, 3, 4]);
      await gives(x.at([1, null]).lshift(1, reverse), [4, 32]);
      await gives(x.rshift(1), [-4, 1, 2]);
      await gives(x.bitwiseNot(), [6, -3, -6]);
      await gives(x.neg(), [7, -2, -5]);
      await gives(f32([[1, 2], [3, 4]]).matmul(f32([[0, 1], [1, 0]]), reverse), [[3, 4], [1, 2]]);
    }],
    ["lt le gt ge eq ne", async () => {
      const x = f32([1, 2, NaN]);
      await gives(x.lt(2), [true, false, false], "bool");
      await gives(x.le(2), [true, true, false], "bool");
      await gives(x.gt(1), [false, true, false], "bool");
      await gives(x.ge(1), [true, true, false], "bool");
      await gives(x.eq(x), [true, true, false], "bool");
      await gives(x.ne(x), [false, false, true], "bool");
    }],
    ["addInPlace subInPlace mulInPlace ...", async () => {
      const x = f32([7, 8]).realize();
      await gives(x.addInPlace(1), [8, 9]);
      await gives(x.subInPlace(2), [6, 7]);
      await gives(x.mulInPlace(3), [18, 21]);
      await gives(x.divInPlace(2), [9, 10.5]);
      await gives(x.floorDivInPlace(2), [4, 5]);
      await gives(x.powInPlace(2), [16, 25]);
      const m = f32([[1, 2], [3, 4]]).realize(), i = new Tensor([5, 6]).realize();
      await gives(m.matmulInPlace(f32([[0, 1], [1, 0]])), [[2, 1], [4, 3]]);
      await gives(i.bitwiseAndInPlace(4), [4, 4]);
      await gives(i.bitwiseOrInPlace(3), [7, 7]);
      await gives(i.bitwiseXorInPlace(1), [6, 6]);
      await gives(i.lshiftInPlace(2), [24, 24]);
      await gives(i.rshiftInPlace(3), [3, 3]);
    }],
  ],
  "1.4": [
    ["reshape", async () => {
      await gives(six().reshape([3, -1]), [[0, 1], [2, 3], [4, 5]]);
      assert.deepEqual(six().reshape([null, 3, 1]).shape, [2, 3, 1]);
      refuses("ShapeError", "reshape", () => six().reshape([4, 2]));
      refuses("ShapeError", "-1", () => six().reshape([-1, -1]));
    }],
    ["view", () => gives(six().view([6]), [0, 1, 2, 3, 4, 5])],
    ["expand", async () => {
      await gives(new Tensor([[1], [2]]).expand([-1, 2]), [[1, 1], [2, 2]]);
      await gives(new Tensor([1, 2]).expand([2, null]), [[1, 2], [1, 2]]);
      assert.throws(() => six().expand([3]));
      assert.throws(() => six().expand([4, 3]));
    }],
    ["permute", async () => {
      await gives(six().permute([-1, 0]), [[0, 3], [1, 4], [2, 5]]);
      refuses("ShapeError", "permut", () => six().permute([0, 0]));
    }],
    ["transpose", () => gives(six().transpose(), [[0, 3], [1, 4], [2, 5]])],
    ["flip", async () => {
      await gives(six().flip(1), [[2, 1, 0], [5, 4, 3]]);
      await gives(six().flip([0, -1]), [[5, 4, 3], [2, 1, 0]]);
      assert.throws(() => six().flip([0, -2]));
    }],
    ["shrink", async () => {
      await gives(six().shrink([null, [1, 3]]), [[1, 2], [4, 5]]);
      assert.throws(() => six().shrink([null, [1, 4]]));
    }],
    ["shrinkTo", () => gives(six().shrinkTo([null, 2]), [[0, 1], [3, 4]])],
    ["pad", async () => {
      const x = new Tensor([1, 2, 3]);
      await gives(six().pad([1, 0]), [[0, 0, 1, 2], [0, 3, 4, 5]]);
      await gives(six().pad([[1, 0], null], { value: 9 }), [[9, 9, 9], [0, 1, 2], [3, 4, 5]]);
      await gives(x.pad([2, 1], { mode: "reflect" }), [3, 2, 1, 2, 3, 2]);
      await gives(x.pad([2, 1], { mode: "replicate" }), [1, 1, 1, 2, 3, 3]);
      await gives(x.pad([2, 1], { mode: "circular" }), [2, 3, 1, 2, 3, 1]);
      await gives(x.pad([-1, 1]), [2, 3, 0]);
      assert.throws(() => x.pad([1]));
      assert.throws(() => x.pad([3, 0], { mode: "reflect" }));
      assert.throws(() => x.pad([4, 0], { mode: "circular" }));
    }],
    ["padTo", () => gives(six().padTo([null, 4], { value: -1 }), [[0, 1, 2, -1], [3, 4, 5, -1]])],
    ["squeeze", () => {
      const x = Tensor.zeros([1, 2, 1]);
      assert.deepEqual([x.squeeze().shape, x.squeeze(0).shape, x.squeeze(1).shape], [[2], [2, 1], [1, 2, 1]]);
    }],
    [
      "unsqueeze",
      () => assert.deepEqual([six().unsqueeze(0).shape, six().unsqueeze(-1).shape], [[1, 2, 3], [2, 3, 1]]),
    ],
    ["flatten", () => {
      const x = Tensor.zeros([2, 3, 4]);
      assert.deepEqual([x.flatten().shape, x.flatten(1).shape, x.flatten(0, 1).shape], [[24], [2, 12], [6, 4]]);
    }],
    ["unflatten", () => assert.deepEqual(Tensor.zeros([2, 12]).unflatten(1, [3, -1]).shape, [2, 3, 4])],
    ["rearrange", async () => {
      await gives(six().rearrange("a b -> (b a)"), [0, 3, 1, 4, 2, 5]);
      assert.deepEqual(Tensor.zeros([2, 12, 5]).rearrange("a (b c) ... -> a ... c b", { b: 3 }).shape, [2, 5, 4, 3]);
      assert.deepEqual(six().rearrange("a b -> a 1 b ()").shape, [2, 1, 3, 1]);
    }],
    ["split", async () => {
      assert.deepEqual(Tensor.arange(5).split(2).map((t) => t.shape), [[2], [2], [1]]);
      await gives(Tensor.arange(5).split([1, 4])[1], [1, 2, 3, 4]);
      assert.throws(() => Tensor.arange(5).split([1, 3]));
    }],
    ["chunk", () => assert.deepEqual(Tensor.arange(5).chunk(4).map((t) => t.shape), [[2], [2], [1]])],
    ["cat", async () => {
      await gives(new Tensor([1]).cat([new Tensor([2, 3])]), [1, 2, 3]);
      await gives(six().cat([six()], 1), [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]);
      assert.throws(() => six().cat([Tensor.zeros([2, 2])]));
    }],
    ["stack", async () => {
      await gives(new Tensor([1, 2]).stack([new Tensor([3, 4])], 1), [[1, 3], [2, 4]]);
      assert.throws(() => new Tensor([1]).stack([new Tensor([1, 2])]));
    }],
    ["repeat", async () => {
      await gives(new Tensor([1, 2]).repeat([2]), [1, 2, 1, 2]);
      assert.deepEqual(new Tensor([1, 2]).repeat([3, 2]).shape, [3, 4]);
    }],
    ["repeatInterleave", async () => {
      await gives(new Tensor([[1, 2], [3, 4]]).repeatInterleave(2), [1, 1, 2, 2, 3, 3, 4, 4]);
      await gives(new Tensor([[1, 2]]).repeatInterleave(2, 0), [[1, 2], [1, 2]]);
    }],
    ["roll", async () => {
      await gives(six().roll(1), [[5, 0, 1], [2, 3, 4]]);
      await gives(six().roll([1, -1], [0, 1]), [[4, 5, 3], [1, 2, 0]]);
      assert.throws(() => six().roll([1, 2], [0]));
    }],
    ["unfold", async () => {
      await gives(Tensor.arange(6).unfold(0, 3, 2), [[0, 1, 2], [2, 3, 4]]);
      assert.throws(() => Tensor.arange(6).unfold(0, 7, 1));
    }],
    ["diagonal", async () => {
      await gives(six().diagonal(), [0, 4]);
      await gives(six().diagonal({ offset: 1 }), [1, 5]);
      assert.throws(() => six().diagonal({ dim1: 0, dim2: 0 }));
    }],
  ],
});
