/** What lines 1.15 to 1.19 promise: devices, memory, indexing, gradients, what stands beside Tensor, errors. */
import assert from "node:assert/strict";
import {
  ArgumentError,
  checkpoint,
  context,
  CONTEXT_VARS,
  Device,
  dtypes,
  GlobalCounters,
  jit,
  jvp,
  kernel,
  schedule,
  Tensor,
  Variable,
} from "../../mod.ts";
import { f32, gives, refuses, testLines } from "./parity_line.ts";

const six = (): Tensor => Tensor.arange(6).reshape([2, 3]);
const TWO = ["JS:0", "JS:1"];
const double = (o: Parameters<typeof kernel.write>[0], x: typeof o) => {
  const i = kernel.loop(2), a = kernel.read(x, i);
  return kernel.write(o, i, a.add(a));
};

testLines({
  "1.15": [
    ["to", async () => {
      const x = f32([1, 2]).to("JS:1");
      assert.equal(x.device, "JS:1");
      await gives(x, [1, 2]);
      assert.equal(x.to().device, Device.default);
    }],
    ["toInPlace", async () => {
      const x = new Tensor([1, 2], { requiresGrad: true });
      x.square().sum().backward();
      x.toInPlace("JS:1");
      assert.deepEqual([x.device, x.grad!.device], ["JS:1", "JS:1"]);
      await gives(x.grad!, [2, 4]);
    }],
    ["clone", async () => {
      const x = f32([1, 2]).realize(), y = x.clone(), [g] = x.clone().square().sum().gradient([x]);
      y.setAt([0], 9);
      await gives(x, [1, 2]);
      await gives(y, [9, 2]);
      await gives(g, [2, 4]);
      assert.equal(x.clone({ device: "JS:1" }).device, "JS:1");
    }],
    ["shard", async () => {
      const x = f32([[1, 2], [3, 4]]).shard(TWO, 0);
      await gives(x.sum(0), [4, 6]);
      await gives(x.matmul(f32([[1], [1]]).shard(TWO)), [[3], [7]]);
      assert.throws(() => f32([1, 2, 3]).shard([...TWO], 2));
    }],
    ["shardInPlace", async () => {
      const x = f32([[1, 2], [3, 4]]);
      assert.equal(x.shardInPlace(TWO, 0), x);
      await gives(x.add(1), [[2, 3], [4, 5]]);
    }],
    ["shardLike", async () => {
      const x = f32([[1, 2], [3, 4]]).shard(TWO, 0), y = f32([[1, 1], [1, 1]]).shardLike(x);
      assert.deepEqual(y.device, x.device);
      await gives(x.add(y), [[2, 3], [4, 5]]);
    }],
    ["realize", async () => {
      const x = f32([1]).add(1), y = f32([1]).add(2);
      assert.equal(x.realize([y]), x);
      assert.deepEqual([x.isRealized, y.isRealized], [true, true]);
      await gives(y, [3]);
    }],
    ["assign", async () => {
      const x = Tensor.zeros([2, 2]).contiguous().realize();
      await gives(x.assign(f32([1, 2])), [[1, 2], [1, 2]]);
      x.at(0).assign(f32([7, 8]));
      await gives(x, [[7, 8], [1, 2]]);
      await gives(x.assign(x), [[7, 8], [1, 2]]);
      await gives(x.assign(new Tensor([[1, 0], [0, 1]])), [[1, 0], [0, 1]], "float32"); // ours casts, as PyTorch's copy_ does
      refuses("ShapeError", "", () => x.assign(Tensor.zeros([3])));
    }],
    ["replace", async () => {
      const x = f32([1, 2]);
      assert.equal(x.replace(f32([3, 4])), x);
      await gives(x, [3, 4]);
      assert.throws(() => x.replace(f32([3])));
    }],
    ["at", () => gives(six().at(1, [0, 2]), [3, 4])],
    ["setAt", async () => {
      const x = six().contiguous();
      x.setAt([":", 1], new Tensor([7, 8]));
      await gives(x, [[0, 7, 2], [3, 8, 5]]);
    }],
    ["schedule", () => {
      const x = f32([1, 2]).realize(), items = x.add(1).sum().schedule();
      assert.equal(items.length, 1);
      assert.equal(schedule([x.add(1), x.mul(3)]).length > 0, true);
    }],
    ["schedule", async () => {
      const n = new Variable("n", 1, 8), x = Tensor.ones([8]).contiguous().realize();
      await gives(x.at([0, n.bind(3)]).sum(), 3);
    }],
    ["kernelize", async () => {
      const x = f32([1, 2]).realize().add(1);
      assert.equal(x.kernelize(), x);
      await gives(x, [2, 3]);
    }],
    ["call", async () => {
      const x = new Tensor([1.5, 2], { requiresGrad: true });
      const y = x.call([f32([3, 4])], (a, b) => a.mul(b), { gradFxn: (g) => [g.mul(10), undefined] });
      const [g] = y.sum().gradient([x]);
      await gives(y, [4.5, 8]);
      await gives(g, [10, 10]);
    }],
    ["customKernel", async () => {
      const x = new Tensor([1.5, 2], { requiresGrad: true });
      const [y] = Tensor.empty([2]).customKernel([x], double, { gradFxn: (g) => [g.add(g)] });
      const [g] = y.sum().gradient([x]);
      await gives(y, [3, 4]);
      await gives(g, [2, 2]);
    }],
  ],
  "1.16": [
    ["int", async () => {
      await gives(six().at(-1), [3, 4, 5]);
      refuses("IndexError", "", () => six().at(2));
      await gives(six().at(new Variable("i", 0, 1).bind(1)), [3, 4, 5]);
    }],
    ["slice", async () => {
      await gives(six().at(":", [null, null, -1]), [[2, 1, 0], [5, 4, 3]]);
      await gives(six().at(":", [1, 99]), [[1, 2], [4, 5]]);
      await gives(six().at(":", [null, null, 2]), [[0, 2], [3, 5]]);
      await gives(Tensor.arange(8).at([new Variable("a", 0, 4).bind(2), null]).sum(), 27);
      assert.throws(() => six().at(":", [0, 3, 0]));
    }],
    ["None / Ellipsis", () => {
      assert.deepEqual(six().at(null, "...", 0).shape, [1, 2]);
      refuses("IndexError", "", () => six().at("...", "..."));
    }],
    ["too many indices", () => refuses("IndexError", "", () => six().at(0, 0, 0))],
    ["list / tuple of ints", async () => {
      await gives(six().at(":", new Tensor([2, 0])), [[2, 0], [5, 3]]);
      await gives(six().at(new Tensor([[1, 0]])), [[[3, 4, 5], [0, 1, 2]]]);
    }],
    ["int Tensor(s)", async () => {
      const x = Tensor.arange(24).reshape([2, 3, 4]), i = new Tensor([1, 0]);
      await gives(x.at(i, i), [[16, 17, 18, 19], [0, 1, 2, 3]]);
      assert.deepEqual(x.at(i, ":", i).shape, [2, 3]);
      assert.deepEqual(x.at(":", i, i).shape, [2, 2]);
    }],
    // ours takes them
    ["bool Tensor/list", async () => {
      await gives(await six().maskedSelect(six().gt(3)), [4, 5]);
      const x = six().contiguous();
      x.setAt([x.gt(3)], 0);
      await gives(x, [[0, 1, 2], [3, 0, 0]]);
    }],
    ["float Tensor", () => assert.throws(() => six().at(f32([1])))],
    ["out-of-range tensor index", async () => {
      refuses("IndexError", "", () => six().at(new Tensor([2])));
      await gives(six().at(new Tensor([-1])), [[3, 4, 5]]);
    }],
    [
      "index tensor device",
      () => assert.throws(() => six().realize().at(new Tensor([1], { device: "JS:1" }).realize())),
    ],
    ["compile result", async () => {
      const x = Tensor.ones([5000, 8]).contiguous().realize(), i = new Tensor([4, 4999]).realize();
      const before = GlobalCounters.globalOps;
      await gives(x.at(i).sum(), 16);
      assert.ok(GlobalCounters.globalOps - before < 5000, `${GlobalCounters.globalOps - before} operations`);
    }],
    // ours casts, as PyTorch does
    ["setitem dtype", async () => {
      const x = six().contiguous();
      x.setAt([0], f32([1.9, 2, 3]));
      await gives(x, [[1, 2, 3], [3, 4, 5]], "int32");
    }],
    // ours has a meaning: what was read before the write has the values of then
    ["setitem aliasing", async () => {
      const x = f32([1, 2]).realize(), y = x.add(10);
      x.setAt([0], 5);
      Tensor.realize([x, y]);
      await gives(y, [11, 12]);
      await gives(x, [5, 2]);
    }],
    ["setitem basic", async () => {
      const x = f32([1, 2, 3]).add(1);
      x.setAt([[1, 3]], f32([8, 9]));
      await gives(x, [2, 8, 9]);
      const y = f32([1, 2, 3]).realize();
      y.setAt([-1], 7);
      await gives(y, [1, 2, 7]);
    }],
    ["setitem advanced (tensor idx)", async () => {
      const x = Tensor.zeros([3]).contiguous().realize();
      x.setAt([new Tensor([2, 0, 2])], f32([1, 2, 3]));
      await gives(x, [2, 0, 3]);
    }],
    ["setitem with step / negative step", async () => {
      const x = Tensor.zeros([4]).contiguous().realize();
      x.setAt([[null, null, 2]], f32([1, 2]));
      await gives(x, [1, 0, 2, 0]);
      x.setAt([[null, null, -1]], f32([1, 2, 3, 4]));
      await gives(x, [4, 3, 2, 1]);
    }],
    // ours gets memory
    ["setitem on const/weak tensor", async () => {
      const x = Tensor.full([2], 3);
      x.setAt([0], 4);
      await gives(x, [4, 3]);
    }],
    ["nested setitem order", async () => {
      const x = f32([1, 2]).realize();
      x.setAt([0], x.at(1).mul(10));
      x.setAt([1], x.at(0).add(1));
      await gives(x, [20, 21]);
    }],
  ],
  "1.17": [
    ["Rule set", async () => {
      const x = f32([0.5, 2]).realize(),
        slope = async (y: Tensor, want: number[]) => {
          await gives(y.sum().gradient([x])[0], want, "float32", 1e-5);
        };
      await slope(x.double().mul(2).float(), [2, 2]);
      await slope(x.reciprocal(), [-4, -0.25]);
      await slope(x.sin(), [Math.cos(0.5), Math.cos(2)]);
      await slope(x.log2(), [2 / Math.LN2, 0.5 / Math.LN2]);
      await slope(x.exp2(), [Math.SQRT2 * Math.LN2, 4 * Math.LN2]);
      await slope(x.sqrt(), [Math.SQRT1_2, 0.5 * Math.SQRT1_2]);
      await slope(x.trunc(), [0, 0]);
      await slope(x.gt(1).where(x.mul(3), x), [1, 3]);
      await slope(x.pad([1, 1]).shrink([[1, 3]]).flip(0).reshape([2, 1]).expand([2, 3]), [3, 3]);
      await slope(x.reshape([1, 2]).permute([1, 0]).contiguous().contiguousBackward(), [1, 1]);
      await slope(Tensor.stack([x, x.square()]), [2, 5]);
      await slope(x.to("JS:1").square().to("JS"), [1, 4]);
    }],
    ["MAX tie", async () => {
      const x = f32([2, 2, 1]).realize();
      await gives(x.max().gradient([x])[0], [0.5, 0.5, 0]);
      await gives(x.maximum(2).sum().gradient([x])[0], [0.5, 0.5, 0]);
    }],
    ["prod", async () => {
      const of = (v: number[]) => {
        const x = f32(v).realize();
        return x.prod().gradient([x])[0];
      };
      await gives(of([2, 3, 4]), [12, 8, 6]);
      await gives(of([2, 0, 4]), [0, 8, 0]);
      await gives(of([0, 0, 4]), [0, 0, 0]);
    }],
    ["pow", async () => {
      const x = f32([0, 0, 2]).realize(), e = f32([2, 0, 3]).realize();
      const [gx, ge] = x.pow(e).sum().gradient([x, e]);
      await gives(gx, [0, 0, 12]);
      await gives(ge, [0, 0, 8 * Math.LN2]); // 0 to the 0, too, as PyTorch says
    }],
    ["Broadcast edge", async () => {
      const x = f32([[1], [2]]).half().realize();
      await gives(x.add(Tensor.ones([2, 3])).sum().gradient([x])[0], [[3], [3]], "float16");
    }],
    ["FUNCTION", async () => {
      const x = f32([1, 2]).realize();
      await gives(checkpoint((t: Tensor) => t.pow(3))(x).sum().gradient([x])[0], [3, 12]);
    }],
    ["CALL", () => {
      const x = new Tensor([1.5, 2], { requiresGrad: true }), [y] = Tensor.empty([2]).customKernel([x], double);
      assert.throws(() => y.sum().gradient([x]));
    }],
    ["DETACH, int outputs", async () => {
      const x = f32([1, 2]).realize();
      await gives(x.add(x.detach()).sum().gradient([x])[0], [1, 1]);
      assert.throws(() => x.argmax().gradient([x]));
    }],
    ["Multiple backward()", async () => {
      const x = new Tensor([3], { requiresGrad: true });
      x.mul(2).sum().backward();
      x.mul(5).sum().backward();
      await gives(x.grad!, [7]);
    }],
    ["Higher order", async () => {
      const x = f32([2]).realize(), [g] = x.pow(4).sum().gradient([x]), [h] = g.sum().gradient([x]);
      await gives(h.sum().gradient([x])[0], [48]);
    }],
    ["Metadata", () => {
      const x = f32([1, 2]).realize();
      assert.ok(x.exp().sum().gradient([x])[0].schedule().length > 0);
    }],
    // ours has them: requiresGrad, noGrad, forward mode
    ["Not present", async () => {
      const [y, slope] = jvp((t: Tensor) => t.square(), [f32([3])], [f32([1])]);
      await gives(y, [9]);
      await gives(slope, [6]);
      const x = new Tensor([1.5], { requiresGrad: true });
      assert.throws(() => Tensor.noGrad(() => x.mul(2)).sum().backward());
    }],
  ],
  "1.18": [
    ["jit", async () => {
      const f = jit((a: Tensor) => a.mul(2).add(1));
      for (let i = 0; i < 4; i++) await gives(f(f32([i, 1]).realize()), [2 * i + 1, 3]);
    }],
    ["jit, checkpoint, call", async () => {
      const w = f32([3]).realize(), f = jit((a: Tensor) => checkpoint((t: Tensor) => t.mul(w).square())(a));
      for (let i = 0; i < 3; i++) await gives(f(f32([i]).realize()), [9 * i * i]);
    }],
    ["Variable", async () => {
      const n = new Variable("n", 1, 10), x = Tensor.ones([10]).contiguous().realize();
      for (const k of [2, 7]) await gives(x.at([0, n.bind(k)]).sum(), k);
      assert.throws(() => n.bind(11));
      assert.throws(() => new Variable("n", 3, 1));
    }],
    ["dtypes", () => assert.deepEqual([dtypes.float32.itemsize, dtypes.bool.name, dtypes.int64.bits], [4, "bool", 64])],
    ["Device", () => {
      assert.equal(Device.get("js:0"), Device.get("JS"));
      assert.equal(f32([1]).to("js:0").device, "JS");
      assert.throws(() => f32([1]).to("NOWHERE" as "JS"));
    }],
    ["GlobalCounters", async () => {
      GlobalCounters.reset();
      await gives(Tensor.ones([100]).contiguous().realize().mul(2).add(1).contiguous().sum(), 300);
      assert.ok(GlobalCounters.kernelCount >= 2 && GlobalCounters.globalOps >= 200 && GlobalCounters.globalMem > 400);
    }],
    ["context", async () => {
      await context({ DEFAULT_FLOAT: "float64" }, () => gives(Tensor.zeros([1]), [0], "float64"));
      assert.equal(Tensor.zeros([1]).dtype.name, "float32");
    }],
    ["Tensor.fromUrl", async () => {
      await assert.rejects(async () => await Tensor.fromUrl("http://127.0.0.1:1/none"));
    }],
    ["context, CONTEXT_VARS", () => {
      assert.ok("DEBUG" in CONTEXT_VARS);
      assert.throws(() => context({ NOTHING: 1 } as never, () => {}), ArgumentError);
    }],
  ],
  "1.19": [
    ["ShapeError, ArgumentError", () => {
      const x = six(), row = Tensor.arange(3);
      refuses("ShapeError", "", () => x.reshape([5]));
      refuses("ShapeError", "", () => x.expand([3, 3]));
      refuses("ShapeError", "", () => x.shrink([[0, 1]]));
      refuses("ShapeError", "", () => x.pad([1, 2, 3]));
      refuses("ShapeError", "", () => row.pad([4, 0], { mode: "circular" }));
      refuses("ShapeError", "", () => row.pad([3, 0], { mode: "reflect" }));
      for (const f of [() => Tensor.eye(-1), () => Tensor.linspace(0, 1, -1), () => row.oneHot(-1)]) assert.throws(f);
      for (const f of [() => Tensor.uniform([1], { low: 2, high: 1 }), () => Tensor.rand([1], { dtype: "int8" })]) {
        assert.throws(f);
      }
      assert.throws(() => row.topk(4));
      assert.throws(() => Tensor.einsum("i,j->", [row]));
      assert.throws(() => row.float().crossEntropy(row.float(), { reduction: "most" as "sum" }));
      assert.throws(() => row.at([0, 2, 0]));
    }],
    ["ShapeError, DTypeError, DeviceError", () => {
      const x = six(), row = Tensor.arange(3), there = new Tensor([0], { device: "JS:1" }).realize();
      refuses("ShapeError", "", () => x.permute([0]));
      refuses("ShapeError", "", () => x.flip([0, 0]));
      refuses("ShapeError", "", () => x.reshape([-1, -1]));
      refuses("ShapeError", "", () => x.dot(x));
      assert.throws(() => row.pow(-2));
      assert.throws(() => row.clamp());
      assert.throws(() => row.float().gelu({ approximate: "erf" as "tanh" }));
      assert.throws(() => x.gather(0, row));
      assert.throws(() => x.scatter(0, row, x));
      refuses("DeviceError", "", () => row.realize().add(there));
      refuses(
        "DeviceError",
        "",
        () =>
          row.contiguous().realize().assign(
            Tensor.zeros([3], { device: "JS:1", dtype: "int32" }).contiguous().realize(),
          ),
      );
      assert.throws(() => row.unfold(0, 4, 1));
      assert.throws(() => row.meshgrid([row], { indexing: "yx" as "xy" }));
      assert.throws(() => x.diagonal({ dim1: 1, dim2: 1 }));
      assert.throws(() => x.roll([1], [0, 1]));
    }],
    ["IndexError", () => {
      const x = six();
      for (const index of [["...", "..."], [0, 0, 0], [5], [f32([0])]] as const) {
        assert.throws(() => x.at(...index as unknown as [number]), (e: Error) => /^(Index|DType)Error$/.test(e.name));
      }
      assert.throws(() => x.sum(2));
      assert.throws(() => x.at(new Tensor([0, 1]), new Tensor([0, 1, 2])));
    }],
    ["DTypeError, ArgumentError", () => {
      refuses("ArgumentError", "", () => `${+six()}`);
      assert.throws(() => new Tensor(1).length);
      assert.throws(() => six().at([0, "x" as unknown as number]));
      assert.throws(() => Tensor.randint([1], { dtype: "float32" }));
    }],
    ["DTypeError", () => assert.throws(() => Tensor.arange(0, 2 ** 70, 2 ** 69))],
    ["ArgumentError", () => assert.throws(() => six().pad([1, 1], { mode: "wrap" as "reflect" }))],
    ["ShapeError", async () => {
      await assert.rejects(async () => await six().item(), { name: "ShapeError" });
      const n = new Variable("n", 1, 3).bind(2);
      await gives(Tensor.arange(3).at([0, n]), [0, 1]); // ours reads what the variable says
    }],
  ],
});
