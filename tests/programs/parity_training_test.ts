/** What lines 2.1, 2.2 and 3 promise: layers, optimizers, dtypes and how they meet. Values are PyTorch's. */
import assert from "node:assert/strict";
import { context, type DTypeName, dtypes, finfo, iinfo, nn, state, Tensor } from "../../mod.ts";
import { f32, gives, type Line, testLines, type Values } from "./parity_line.ts";
import { isLossless, promote } from "../../src/dtype/promotion.ts";

/** The shapes of a layer's parameters by name. */
const shapes = (layer: object): Record<string, readonly number[]> =>
  Object.fromEntries(Object.entries(state.getStateDict(layer)).map(([name, t]) => [name, t.shape]));
const fill = (layer: object, values: Record<string, Values>): void => {
  state.loadStateDict(layer, Object.fromEntries(Object.entries(values).map(([k, v]) => [k, f32(v)])), {
    strict: false,
  });
};
/** Two steps of an optimizer from [1, 2] with the gradients [0.5, -1]. */
const steps = (make: (params: Tensor[]) => { step(): void; zeroGrad(): void }, want: number[]): Line[1] => async () => {
  const w = new Tensor([1, 2], { requiresGrad: true }), opt = make([w]);
  Tensor.train(() => {
    for (let i = 0; i < 2; i++) {
      opt.zeroGrad();
      w.mul(f32([0.5, -1])).sum().backward();
      opt.step();
    }
  });
  await gives(w, want, "float32", 1e-5);
};
const row = (...names: readonly DTypeName[]): Line[1] => async () => {
  for (const name of names) {
    await gives(new Tensor([0, 1]).cast(name).add(new Tensor([1, 0]).cast(name)).float(), [1, 1]);
  }
};
/** The results of pairs of dtypes. */
const meets = (...rows: readonly (readonly [a: DTypeName, b: DTypeName, both: DTypeName])[]): Line[1] => async () => {
  for (const [a, b, both] of rows) {
    assert.equal(promote(dtypes[a], dtypes[b]), dtypes[both]);
    const x = Tensor.ones([1], { dtype: a }), y = Tensor.ones([1], { dtype: b });
    for (const [p, q] of [[x, y], [y, x]]) await gives(p.mul(q).float(), [1]);
    assert.equal(x.mul(y).dtype, dtypes[both], `${a} and ${b}`);
  }
};
const ints = new Tensor([1, 4], { device: "JS" });
const named = (dtype: string, ...results: readonly Tensor[]): void =>
  results.forEach((t, i) => assert.equal(t.dtype.name, dtype, `result ${i}`));
const bool = (): Tensor => new Tensor([true, false]);

testLines({
  "2.1": [
    ["nn.BatchNorm", async () => {
      const bn = new nn.BatchNorm(2, { eps: 0 }), x = f32([[1, 10], [3, 30]]).reshape([2, 2, 1, 1]);
      await Tensor.train(async () => {
        await gives(bn.call(x).flatten(), [-1, -1, 1, 1]);
      });
      await gives(bn.runningMean!, [0.2, 2]);
      await gives(bn.runningVar!, [0.9 + 0.1 * 2, 0.9 + 0.1 * 200], undefined, 1e-5);
      await gives(bn.numBatchesTracked!.flatten(), [1]);
      await gives(bn.call(x).flatten().at([0, 1]), [0.8 / Math.sqrt(1.1)], undefined, 1e-5);
      assert.ok(!("weight" in shapes(new nn.BatchNorm(2, { affine: false }))));
    }],
    ["nn.Conv1d", () => assert.deepEqual(shapes(new nn.Conv1d(2, 4, 3)), { weight: [4, 2, 3], bias: [4] })],
    ["nn.Conv2d", () => {
      const same = new nn.Conv2d(2, 4, [3, 5], { padding: "same", groups: 2, bias: false });
      assert.deepEqual(shapes(same), { weight: [4, 1, 3, 5] });
      assert.deepEqual(same.call(Tensor.zeros([1, 2, 6, 7])).shape, [1, 4, 6, 7]);
      assert.deepEqual(new nn.Conv2d(1, 1, 3, { stride: 2, dilation: 2 }).call(Tensor.zeros([1, 1, 9, 9])).shape, [
        1,
        1,
        3,
        3,
      ]);
    }],
    [
      "nn.ConvTranspose1d",
      () =>
        assert.deepEqual(new nn.ConvTranspose1d(2, 3, 4, { stride: 2 }).call(Tensor.zeros([1, 2, 5])).shape, [
          1,
          3,
          12,
        ]),
    ],
    ["nn.ConvTranspose2d", () => {
      const up = new nn.ConvTranspose2d(2, 3, 3, { stride: 2, padding: 1, outputPadding: 1 });
      assert.deepEqual(up.call(Tensor.zeros([1, 2, 4, 4])).shape, [1, 3, 8, 8]);
    }],
    ["nn.Linear", async () => {
      const l = new nn.Linear(2, 1);
      assert.deepEqual(shapes(l), { weight: [1, 2], bias: [1] });
      fill(l, { weight: [[2, 3]], bias: [1] });
      await gives(l.call(f32([[1, 1], [0, 1]])), [[6], [4]]);
      assert.deepEqual(shapes(new nn.Linear(2, 1, { bias: false })), { weight: [1, 2] });
    }],
    ["nn.GroupNorm", async () => {
      const x = f32([[[1], [3], [10], [30]]]);
      await gives(new nn.GroupNorm(2, 4, { eps: 0 }).call(x).flatten(), [-1, 1, -1, 1]);
    }],
    [
      "nn.InstanceNorm",
      () => gives(new nn.InstanceNorm(1, { eps: 0 }).call(f32([[[1, 3]], [[5, 9]]])).flatten(), [-1, 1, -1, 1]),
    ],
    ["nn.LayerNorm", async () => {
      await gives(new nn.LayerNorm(2, { eps: 0 }).call(f32([[1, 3], [0, 8]])), [[-1, 1], [-1, 1]]);
      assert.deepEqual(shapes(new nn.LayerNorm([2, 3])), { weight: [2, 3], bias: [2, 3] });
      assert.deepEqual(shapes(new nn.LayerNorm(2, { elementwiseAffine: false })), {});
    }],
    [
      "nn.LayerNorm2d",
      () =>
        gives(new nn.LayerNorm2d(2, { eps: 0 }).call(f32([1, 5, 3, 7]).reshape([1, 2, 1, 2])).flatten(), [
          -1,
          -1,
          1,
          1,
        ]),
    ],
    ["nn.RMSNorm", async () => {
      await gives(new nn.RMSNorm(2, { eps: 0 }).call(f32([[3, 4]])), [[3 / Math.sqrt(12.5), 4 / Math.sqrt(12.5)]]);
      named("float16", new nn.RMSNorm(2, { elementwiseAffine: false }).call(f32([[300, 400]]).half()));
    }],
    ["nn.Embedding", async () => {
      const e = new nn.Embedding(3, 2);
      fill(e, { weight: [[1, 2], [3, 4], [5, 6]] });
      await gives(e.call(new Tensor([[2, 0]])), [[[5, 6], [1, 2]]]);
    }],
    ["nn.LSTMCell", async () => {
      const cell = new nn.LSTMCell(1, 1);
      fill(cell, {
        weightIh: [[1], [1], [1], [1]],
        weightHh: [[0], [0], [0], [0]],
        biasIh: [0, 0, 0, 0],
        biasHh: [0, 0, 0, 0],
      });
      const names = Object.keys(shapes(cell)).length, [h, c] = cell.call(f32([[1]]));
      assert.equal(names, 4);
      await gives(c, [[0.55676994]]);
      await gives(h, [[0.36963]], undefined, 1e-4);
    }],
  ],
  "2.2": [
    ["nn.optim.Optimizer", () => {
      const w = new Tensor([1.5], { requiresGrad: true }), opt = new nn.optim.SGD([w, w]);
      assert.ok(opt instanceof nn.optim.Optimizer);
      w.square().sum().backward();
      assert.throws(() => opt.step()); // outside of training
      assert.ok(Tensor.train(() => opt.scheduleStep()).length > 0);
      opt.zeroGrad();
      assert.equal(w.grad, undefined);
    }],
    [
      "nn.optim.OptimizerGroup",
      steps((p) => new nn.optim.OptimizerGroup([new nn.optim.SGD(p, { lr: 0.1 })]), [0.9, 2.2]),
    ],
    ["nn.optim.SGD", async () => {
      await steps((p) => new nn.optim.SGD(p, { lr: 0.1 }), [0.9, 2.2])();
      await steps((p) => new nn.optim.SGD(p, { lr: 0.1, momentum: 0.9 }), [0.855, 2.29])();
      await steps((p) => new nn.optim.SGD(p, { lr: 0.1, momentum: 0.9, nesterov: true }), [0.7695, 2.461])();
      await steps((p) => new nn.optim.SGD(p, { lr: 0.1, weightDecay: 0.5 }), [0.805, 2])();
    }],
    // 0.001 |w| / (|g| + 1e-4 |w|) g, with momentum 0.9, twice
    ["nn.optim.LARS", async () => {
      const w = new Tensor([1, 2], { requiresGrad: true }), opt = new nn.optim.LARS([w], { lr: 0.1 });
      w.mul(f32([0.5, -1])).sum().backward();
      Tensor.train(() => opt.step());
      const trust = 0.001 * Math.sqrt(5) / (Math.sqrt(1.25) + 1e-4 * Math.sqrt(5));
      await gives(w, [1 - 0.1 * trust * (0.5 + 1e-4), 2 - 0.1 * trust * (-1 + 2e-4)]);
    }],
    ["nn.optim.Muon", async () => {
      const w = new Tensor([[1, 0], [0, 1]], { requiresGrad: true }),
        opt = new nn.optim.Muon([w], { lr: 0.1, weightDecay: 0 });
      w.mul(f32([[3, 0], [0, 1]])).sum().backward();
      Tensor.train(() => opt.step());
      await gives(w, [[0.9, 0], [0, 0.9]], undefined, 0.05);
    }],
    ["nn.optim.Adam", steps((p) => new nn.optim.Adam(p, { lr: 0.1 }), [0.8, 2.2])],
    ["nn.optim.AdamW", steps((p) => new nn.optim.AdamW(p, { lr: 0.1, weightDecay: 0.1 }), [0.7811, 2.1592])],
    ["nn.optim.LAMB", async () => {
      const w = new Tensor([1, 2], { requiresGrad: true }), opt = new nn.optim.LAMB([w], { lr: 0.1, weightDecay: 0 });
      w.mul(f32([0.5, -1])).sum().backward();
      Tensor.train(() => opt.step());
      const trust = Math.sqrt(5) / Math.SQRT2;
      await gives(w, [1 - 0.1 * trust, 2 + 0.1 * trust], undefined, 1e-5);
    }],
  ],
  "3.1": [
    ["dtypes.void", () => assert.equal(dtypes.void.itemsize, 0)],
    ["dtypes.bool", async () => {
      await gives(bool().add(bool()), [true, false], "bool");
      await gives(bool().mul(bool()), [true, false], "bool");
      assert.equal(dtypes.bool.itemsize, 1);
    }],
    ["numbers that are whole", () => gives(new Tensor(new Uint8Array([200])).add(100), [44], "uint8")],
    ["dtypes.int8", row("int8", "char")],
    ["dtypes.uint8", row("uint8", "uchar")],
    ["dtypes.int16", row("int16", "short")],
    ["dtypes.uint16", row("uint16", "ushort")],
    ["dtypes.int32", row("int32", "int")],
    ["dtypes.uint32", row("uint32", "uint")],
    ["dtypes.int64", row("int64", "long")],
    ["dtypes.uint64", row("uint64", "ulong")],
    ["-", () => assert.ok(!("uint128" in dtypes))],
    ["other numbers", () => gives(f32([1]).half().add(1.5), [2.5], "float16")],
    ["dtypes.fp8e4m3", async () => {
      await gives(f32([NaN, 500, 0.3]).cast("fp8e4m3").float(), [NaN, 448, 0.3125]);
    }],
    ["dtypes.fp8e5m2", () => gives(f32([Infinity, 0.3]).cast("fp8e5m2").float(), [Infinity, 0.3125])],
    ["fp8e4m3fnuz", () => assert.ok(!("fp8e4m3fnuz" in dtypes))],
    ["fp8e5m2fnuz", () => assert.ok(!("fp8e5m2fnuz" in dtypes))],
    ["dtypes.float16", row("float16", "half")],
    ["dtypes.bfloat16", row("bfloat16")],
    ["dtypes.float32", row("float32", "float")],
    ["dtypes.float64", row("float64", "double")],
  ],
  "3.2": [
    ["bool", meets(["bool", "int8", "int8"], ["bool", "float16", "float16"])],
    ["weakint", () => gives(new Tensor(new Int8Array([1])).add(1), [2], "int8")],
    [
      "int8 → int16 → int32 → int64",
      meets(["int8", "int16", "int16"], ["int16", "int32", "int32"], ["int32", "int64", "int64"]),
    ],
    ["uint8", meets(["uint8", "int8", "int16"], ["uint8", "uint16", "uint16"])],
    ["uint16", meets(["uint16", "int16", "int32"], ["uint16", "uint32", "uint32"])],
    ["uint32", meets(["uint32", "int32", "int64"], ["uint32", "uint64", "uint64"])],
    ["uint64", meets(["uint64", "int64", "float32"], ["uint64", "int8", "float32"])],
    ["weakfloat", meets(["int64", "float16", "float16"], ["int32", "fp8e5m2", "fp8e5m2"])],
    ["any fp8", meets(["fp8e4m3", "fp8e5m2", "float16"], ["fp8e4m3", "bfloat16", "bfloat16"])],
    ["float16, bfloat16", meets(["float16", "bfloat16", "float32"])],
    ["float32", meets(["float32", "float64", "float64"])],
  ],
  "3.3": [
    // a number alone is int32 or float32, where tinygrad's are weak
    ["Tensor(1) / Tensor(1.0) / Tensor(True) / Tensor(None)", () => {
      named("int32", new Tensor(1));
      named("float32", new Tensor(1.5), new Tensor(null));
      named("bool", new Tensor(true));
    }],
    ["Tensor([1]) / [1.] / [True] / [] / bytes", () => {
      named("float32", new Tensor([1.5]), new Tensor([]));
      named("uint8", new Tensor(new Uint8Array(2)), new Tensor(new ArrayBuffer(2)));
      named("bool", new Tensor([true]));
    }],
    ["bool+1, bool+True, bool*2.0", () => {
      named("int32", bool().add(1));
      named("bool", bool().add(true));
      named("float32", bool().mul(2.5));
    }],
    ["int/2, int//2, bool/1", () => {
      named("float32", ints.div(2), bool().div(1));
      named("int32", ints.floorDiv(2));
    }],
    ["sum: bool,int8,int16→ ; uint8,uint16→ ; half/bf16/fp8→", () => {
      for (const d of ["bool", "int8", "int16"] as const) named("int32", ints.cast(d).sum());
      for (const d of ["uint8", "uint16"] as const) named("uint32", ints.cast(d).sum());
      for (const d of ["float16", "bfloat16", "fp8e4m3"] as const) named(d, ints.cast(d).sum());
    }],
    ["prod, max, min", () => {
      const x = ints.cast("int8");
      named("int8", x.max(), x.min());
      named("int32", x.prod()); // ours widens, as PyTorch's does
    }],
    ["mean/var/std/softmax of int", () => named("float32", ints.mean(), ints.var(), ints.std(), ints.softmax())],
    ["exp/log/sin/sqrt… of int", () => {
      named("float32", ints.exp(), ints.log(), ints.sin(), ints.sqrt());
      named("fp8e4m3", ints.cast("fp8e4m3").exp());
    }],
    ["sigmoid, tanh, gelu, softplus, mish, hardswish, round, **2.0 of int", () => {
      named("float32", ints.sigmoid(), ints.tanh(), ints.gelu(), ints.softplus(), ints.mish(), ints.hardswish());
      named("float32", ints.round());
      named("int32", ints.pow(2)); // 2 is a whole number
    }],
    [
      "elu, erf, softmax, log_softmax, logsumexp, reciprocal, var of int",
      () =>
        named(
          "float32",
          ints.elu(),
          ints.erf(),
          ints.softmax(),
          ints.logSoftmax(),
          ints.logsumexp(),
          ints.reciprocal(),
          ints.var(),
        ),
    ],
    [
      "floor, ceil, trunc, abs, sign, neg, relu, cumsum of int",
      () =>
        named(
          "int32",
          ints.floor(),
          ints.ceil(),
          ints.trunc(),
          ints.abs(),
          ints.sign(),
          ints.neg(),
          ints.relu(),
          ints.cumsum(),
        ),
    ],
    ["bool: cumsum → ; relu → ; abs/neg/max →", () => {
      named("int32", bool().cumsum());
      named("bool", bool().abs(), bool().neg(), bool().max());
    }],
    ["argmax, argmin, sort/topk/cummax indices, nonzero, multinomial, randperm", async () => {
      named(
        "int32",
        ints.argmax(),
        ints.argmin(),
        ints.sort()[1],
        ints.topk(1)[1],
        ints.cummax()[1],
        await ints.nonzero(),
      );
      named("int32", f32([1, 1]).multinomial({ numSamples: 1 }), Tensor.randperm(2));
    }],
    ["one_hot", () => named("int32", ints.oneHot(5))],
    ["where(c, 1, 2) ; where(c, int32, 2.5)", () => {
      named("int32", bool().where(1, 2));
      named("float32", bool().where(ints, 2.5));
    }],
    [
      "zeros/ones/eye/rand/linspace",
      () =>
        named(
          "float32",
          Tensor.zeros([1]),
          Tensor.ones([1]),
          Tensor.eye(1),
          Tensor.rand([1]),
          Tensor.linspace(0, 1, 2),
        ),
    ],
    ["arange(int)", () => {
      named("int32", Tensor.arange(3));
      named("int64", Tensor.arange(2 ** 32, 2 ** 32 + 1));
    }],
    ["matmul uint8@uint8, half@half", async () => {
      const x = new Tensor(new Uint8Array([16, 16]));
      await gives(x.matmul(x), 0, "uint8");
      named("float16", ints.half().matmul(ints.half()));
    }],
    ["comparison", () => named("bool", ints.lt(1), ints.eq(f32([1, 4])))],
  ],
  "3.4": [
    ["Weak dtypes", () => gives(f32([1]).half().mul(2.5), [2.5], "float16")],
    ["Accumulate", () => gives(Tensor.full([4096], 1, { dtype: "float16" }).sum(), 4096, "float16")],
    ["Float promotion", () => {
      named("float64", f32([1]).double().exp());
      named("float32", new Tensor([1n]).exp());
    }],
    ["Defaults", () => {
      context({ DEFAULT_FLOAT: "float16", DEFAULT_INT: "int64" }, () => {
        named("float16", Tensor.zeros([1]), new Tensor([1.5]), new Tensor([1]).exp());
        named("int64", Tensor.arange(3), new Tensor([1]));
      });
    }],
    ["Lossless cast table", () => {
      const { int8, int16, uint8, float16, float32, float64, int32, bfloat16 } = dtypes;
      for (const [a, b] of [[int8, int16], [uint8, int16], [float16, float32], [bfloat16, float32], [int32, float64]]) {
        assert.ok(isLossless(a, b) && !isLossless(b, a), `${a} to ${b}`);
      }
    }],
    ["Host conversion", async () => {
      await gives(new Tensor([300, -1], { dtype: "uint8" }), [44, 255], "uint8");
      await gives(new Tensor([0.1], { dtype: "float16" }).bitcast("uint16"), [0x2e66]);
      await gives(new Tensor([0.1], { dtype: "bfloat16" }).bitcast("uint16"), [0x3dcd]);
      await gives(new Tensor([0.1], { dtype: "fp8e4m3" }).bitcast("uint8"), [0x1d]);
    }],
    ["finfo / min / max", () => {
      assert.deepEqual([finfo("float16").max, iinfo("int8").min], [65504, -128]);
    }],
    ["Emulation", async () => {
      await gives(f32([1.5, 1e-8]).half().to("WASM").mul(2), [3, 0], "float16"); // it has no such numbers
      await gives(f32([1.0625]).cast("fp8e4m3").add(0).float(), [1]);
    }],
    ["ALU per dtype", async () => {
      for (const d of ["int8", "uint16", "int64", "float16", "bfloat16", "float64"] as const) {
        const x = ints.cast(d);
        await gives(x.mul(x).sub(x).float(), [0, 12]);
      }
    }],
    ["numpy/torch mapping", async () => {
      assert.ok(await ints.short().data() instanceof Int16Array);
      assert.ok(await ints.long().data() instanceof BigInt64Array);
      assert.ok(await ints.double().data() instanceof Float64Array);
    }],
    ["Strings", () => {
      assert.equal(ints.cast("float32").dtype, dtypes.float32);
      assert.throws(() => ints.cast("float33" as "float32"), { name: "DTypeError" });
    }],
  ],
});
