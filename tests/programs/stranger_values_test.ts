/**
 * Whole numbers, indices beyond 2^31, gradients at edges, captured functions and overlapping requests as people write them:
 * values are those of integers, of PyTorch, and of an eager program.
 */
import { context, type DTypeName, grad, jit, nn, scope, Tensor } from "../../mod.ts";
import { reported, type Row, valuesOf } from "./reported.ts";

const F = (x: ConstructorParameters<typeof Tensor>[0]): Tensor => new Tensor(x, { dtype: "float32" }).realize();
const I = (x: ConstructorParameters<typeof Tensor>[0], dtype: DTypeName = "int32"): Tensor =>
  new Tensor(x, { dtype }).realize();
type Values = number[] | number[][];
const G = (f: (x: Tensor) => Tensor, x: Values): Tensor => grad((x: Tensor) => f(x).sum())(F(x));
const D = (f: (a: Tensor, b: Tensor) => Tensor, a: number[], b: number[]): Tensor[] =>
  grad((a: Tensor, b: Tensor) => f(a, b).sum(), { argnums: [0, 1] })(F(a), F(b)) as Tensor[];

/** 0 and -0 are the same here. */
const unsigned = (x: unknown): unknown => Array.isArray(x) ? x.map(unsigned) : x === 0 ? 0 : x;
function row(name: string, run: Row["run"], want: unknown, near = 0): void {
  reported("strangers compute", { [name]: { run: async () => unsigned(await valuesOf(run())), want, near } });
}

row("uint64 wraps", () => I([2n ** 64n - 1n], "uint64").add(1), [0]);
row("int64 product wraps", () => I([2n ** 62n], "int64").mul(4), [0]);
row("int64 powers", () => I([3n], "int64").pow(39), [4052555153018976267n]);
row("2^53 + 1", () => I([2n ** 53n], "int64").add(1), [9007199254740993n]);
row("int64 lt fraction", () => [I([2n ** 53n + 1n], "int64").gt(2 ** 53), I([5n], "int64").lt(5.5)], [[true], [true]]);
row("int8 abs, neg", () => [I([-128], "int8").abs(), I([-128], "int8").neg()], [[-128], [-128]]);
row("uint8 minus", () => I([1, 2], "uint8").sub(3), [254, 255]);
row(
  "floorDiv and mod negative",
  () => [I([-7, 7]).floorDiv(I([2, -2])), I([-7, 7]).mod(I([2, -2])), I([-7, 7]).fmod(I([2, -2]))],
  [[-4, -4], [1, -1], [-1, 1]],
);
row("shift", () => [I([1, -8]).lshift(4), I([1, -8]).rshift(1), I([2 ** 31 + 2], "uint32").rshift(1)], [[16, -128], [
  0,
  -4,
], [2 ** 30 + 1]]);
row(
  "casts of odd floats",
  () => [F([NaN, 3e9, -1.9]).cast("int32"), F([255.9, 256, -1]).cast("uint8"), F([1e10]).cast("int64")],
  [[0, 2147483647, -1], [255, 0, 255], [10000000000]],
);
row("sum of bytes", () => I(new Array(300).fill(255), "uint8").sum(), 76500);
row("mean of int64", () => I([2n ** 40n, 2n ** 40n + 4n], "int64").mean().cast("int64"), 2 ** 40);
row("max of int64", () => I([2n ** 53n + 1n, 2n ** 53n], "int64").max(), 9007199254740993n);
row("sort int64", () => I([2n ** 53n + 1n, 2n ** 53n, -(2n ** 60n)], "int64").sort()[0], [
  -(2n ** 60n),
  9007199254740992,
  9007199254740993n,
]);
row("uint32 compare", () => [I([4294967295], "uint32").gt(4294967294), I([4294967295], "uint32").sub(4294967295)], [[
  true,
], [0]]);
row("gcd, lcm", () => [I([12, -18, 0]).gcd(I([18, 24, 5])), I([4]).lcm(I([6]))], [[6, 6, 5], [12]]);
row("bits", () => [I([5, -1]).bitwiseXor(3), I([5]).bitwiseNot(), I([12]).bitwiseAnd(10)], [[6, -4], [-6], [8]]);
row("bincount-like", () => I([0, 2, 2, 5]).oneHot(6).sum(0), [1, 0, 2, 0, 0, 1]);
row("argmax ties", () => [I([3, 7, 7]).argmax(), I([3, 3, 7]).argmin()], [1, 0]);
// --- big indices
row("arange beyond", () => Tensor.arange(3e9, 3e9 + 3, 1, { dtype: "int64" }), [3e9, 3e9 + 1, 3e9 + 2]);
row("roll of a huge axis", () => F([1, 2]).expand([2]).reshape([2, 1]).expand([2, 2e9]).flatten().roll(1).at([0, 2]), [
  2,
  1,
]);
row("huge at negative", () => F([1, 2]).reshape([2, 1]).expand([2, 3e9]).flatten().at(-1), 2);
row("huge stride slice", () => F([1, 2, 3]).reshape([3, 1]).expand([3, 1e9]).flatten().at([0, null, 1e9]), [1, 2, 3]);
row("numel", () => Tensor.ones([2 ** 20, 2 ** 20]).numel(), 2 ** 40);
row(
  "repeatInterleave index",
  () =>
    F([1, 2, 3]).repeatInterleave(1e9).at(
      new Tensor([0, 999999999, 1000000000, 2999999999n].map(BigInt), { dtype: "int64" }),
    ),
  [1, 1, 2, 3],
);
row("norm at 0", () => G((x) => x.norm(), [0, 0]), [0, 0]);
row("sqrt at 0", () => G((x) => x.sqrt(), [0, 4]), [Infinity, 0.25]);
row("where hides no nan", () => G((x) => x.gt(0).where(x.log(), 0), [-1, 2]), [0, 0.5]);
row("clamp at its ends", () => G((x) => x.clamp(-1, 1), [-1, 1, 2, -2, 0]), [1, 1, 0, 0, 1]);
row("abs at 0", () => G((x) => x.abs(), [0, -0, 2]), [0, 0, 1]);
row("prod with a zero", () => G((x) => x.prod(), [2, 0, 3]), [0, 6, 0]);
row("prod with two zeros", () => G((x) => x.prod(), [0, 0, 3]), [0, 0, 0]);
row("cumprod with a zero", () => G((x) => x.cumprod(0), [2, 0, 3]), [1, 8, 0]);
row("max ties", () => G((x) => x.max(), [3, 3, 1]), [0.5, 0.5, 0]);
row("amax dim ties", () => G((x) => x.max(1), [[3, 3], [1, 2]]), [[0.5, 0.5], [0, 1]]);
row("std of equal", () => G((x) => x.std(), [2, 2]), [0, 0]);
row("var of one", () => G((x) => x.var(), [2]), [NaN]);
row("softmax of -inf row", () => Tensor.full([2], -Infinity).softmax(), [NaN, NaN]);
row("logsumexp of -inf", () => G((x) => x.logsumexp(0), [-Infinity, -Infinity]), [NaN, NaN]);
row("logsumexp with one -inf", () => G((x) => x.logsumexp(0), [-Infinity, 0]), [0, 1]);
row("normalize a zero row", () => G((x) => x.normalize(), [[0, 0]]), [[1e12, 1e12]], 1e-5);
row("atan2 at 0", () => D((y, x) => y.atan2(x), [0], [0]), [[0], [0]]);
row("x^y at 0, 0", () => D((x, y) => x.pow(y), [0], [0]), [[0], [0]]);
row("relu6, hardtanh ends", () => [G((x) => x.relu6(), [0, 6]), G((x) => x.hardtanh(), [-1, 1])], [[0, 0], [0, 0]]);
row("sort grad", () => G((x) => x.sort()[0].mul(F([1, 2, 3])), [3, 1, 2]), [3, 1, 2]);
row("topk grad", () => G((x) => x.topk(2)[0].mul(F([10, 1])), [3, 1, 2]), [10, 0, 1]);
row("median grad", () => G((x) => x.median(), [3, 1, 2]), [0, 0, 1]);
row("gather twice", () => G((x) => x.at(new Tensor([0, 0, 2])), [1, 2, 3]), [2, 0, 1]);
row("floor, round", () => [G((x) => x.floor(), [1.5]), G((x) => x.round(), [1.5])], [[0], [0]]);
row("mod", () => D((a, b) => a.mod(b), [5], [3]), [[1], [-1]]);
row("fmod of negative", () => D((a, b) => a.fmod(b), [-5], [3]), [[1], [1]]);
row("minimum, maximum at ties", () => [D((a, b) => a.maximum(b), [1], [1]), D((a, b) => a.minimum(b), [1], [1])], [[[
  0.5,
], [0.5]], [[0.5], [0.5]]]);
row("bce at 0 and 1", () => G((x) => x.binaryCrossentropy(F([0, 1]), { reduction: "sum" }), [0, 1]), [0, 0]);
row("cross entropy huge logits", () => F([[1000, -1000]]).crossEntropy(new Tensor([1])), 2000);
row("silu far", () => G((x) => x.silu(), [-200, 200]), [0, 1]);
row("softplus far", () => G((x) => x.softplus(), [-200, 200, 0]), [0, 1, 0.5]);
row("tanh far", () => G((x) => x.tanh(), [100, -100]), [0, 0]);
row("log1p, expm1 small", () => [F([1e-10]).log1p(), F([1e-10]).expm1()], [[1e-10], [1e-10]], 1e-7);
row(
  "double backward of relu",
  () => grad((x: Tensor) => grad((y: Tensor) => y.relu().square().sum())(x).sum())(F([2, -1])),
  [2, 0],
);
row("hessian of x^3", () => grad((x: Tensor) => grad((y: Tensor) => y.pow(3).sum())(x).sum())(F([2, 0, -1])), [
  12,
  0,
  -6,
]);
row("masked attention all", () => {
  const q = Tensor.ones([1, 2, 2]).contiguous();
  return grad((q: Tensor) => q.scaledDotProductAttention(q, q, new Tensor([[[false, false], [false, false]]])).sum())(
    q,
  );
}, [[[0, 0], [0, 0]]]);
row("cholesky grad", () => G((x) => x.cholesky(), [[4, 0], [0, 9]]), [[0.25, 0.25], [0.25, 1 / 6]], 1e-6);
row("nan of the forward", () => G((x) => x.log().mul(2), [NaN, 1]), [NaN, 2]);
row(
  "relu of nan",
  () => [F([NaN]).relu(), F([NaN]).maximum(0), F([NaN, 1]).max(), F([NaN]).clamp(0, 1), F([NaN]).sign()],
  [[NaN], [NaN], NaN, [NaN], [NaN]],
);
row("embedding padding", () => {
  const e = new nn.Embedding(3, 2);
  return e.call(new Tensor([[0, 2]])).shape;
}, [1, 2, 2]);

row("mvlgamma of 9 and 17 dimensions", () =>
  [9, 17].flatMap((p) => {
    const x = F([10, 30]);
    return [x.mvlgamma(p), grad((x: Tensor) => x.mvlgamma(p).sum())(x)];
  }), [
  [98.33899961868762, 601.895860339761],
  [18.0044350571366, 29.818236335095442],
  [169.13566140257473, 1065.9082149191372],
  [26.918516420428894, 54.97956540383034],
], 3e-6);

// ---- jit
row("jit: three shapes", async () => {
  const f = jit((x: Tensor) => x.mul(2).sum());
  const all = [];
  for (const n of [2, 3, 2, 4, 3, 2, 4, 2]) all.push(await f(Tensor.ones([n]).contiguous()).item());
  return all;
}, [4, 6, 4, 8, 6, 4, 8, 4]);
row("jit: whole numbers where floats were", async () => {
  const f = jit((x: Tensor) => x.mul(0.5));
  const all = [];
  for (const v of [[0.5, 1.5], [0.25, 1], [1, 2], [3, 4], [1.5, 2]]) all.push(await f(new Tensor(v)).tolist());
  return all;
}, [[0.25, 0.75], [0.125, 0.5], [0.5, 1], [1.5, 2], [0.75, 1]]);
row("jit: slices by a number", async () => {
  const f = jit((x: Tensor, i: number) => x.at([i, i + 2]).sum());
  const a = F([1, 2, 3, 4, 5]), all = [];
  for (const i of [0, 1, 2, 3, 0, 3]) all.push(await f(a, i).item());
  return all;
}, [3, 5, 7, 9, 3, 9]);
row("jit: state in a class", async () => {
  class C {
    n = Tensor.zeros([1]).contiguous().realize();
    step = jit((x: Tensor) => {
      this.n.addInPlace(x.sum());
      return this.n.mul(1);
    });
  }
  const c = new C(), all = [];
  for (let i = 1; i < 6; i++) all.push((await c.step(F([i])).tolist() as number[])[0]);
  return [all, c.n];
}, [[1, 3, 6, 10, 15], [15]]);
row("jit: swap inside", async () => {
  const a = F([1]), b = F([2]);
  const f = jit(() => {
    const x = a.add(0), y = b.add(0);
    a.assign(y);
    b.assign(x);
    return Tensor.stack([a, b]);
  });
  const all = [];
  for (let i = 0; i < 4; i++) all.push(await f().tolist());
  return [all[3], a, b];
}, [[[1], [2]], [1], [2]]);
row("jit: in place on an argument, view", async () => {
  const f = jit((x: Tensor) => {
    x.at(0).addInPlace(1);
    return x.sum();
  });
  const a = F([[1, 2], [3, 4]]), all = [];
  for (let i = 0; i < 4; i++) all.push(await f(a).item());
  return [all, a];
}, [[12, 14, 16, 18], [[5, 6], [3, 4]]]);
row(
  "jit: inv in a loop",
  async () => {
    const f = jit((x: Tensor) => x.inv().matmul(x).add(1));
    let r;
    for (let i = 1; i < 5; i++) r = await f(F([[i + 1, 1], [1, i + 2]])).tolist();
    return r;
  },
  [[2, 1], [1, 2]],
  1e-5,
);
row("jit: optional arguments", async () => {
  const f = jit((x: Tensor, o: { scale?: number; mask?: Tensor } = {}) => {
    const y = x.mul(o.scale ?? 1);
    return o.mask ? y.mul(o.mask) : y;
  });
  const a = F([1, 2]), m = F([0, 1]), all = [];
  for (let i = 0; i < 3; i++) {
    all.push(await f(a).tolist(), await f(a, { scale: 3 }).tolist(), await f(a, { mask: m }).tolist());
  }
  return all.slice(6);
}, [[1, 2], [3, 6], [0, 2]]);

// ---- async
row("one jit from many requests", async () => {
  const f = jit((x: Tensor) => x.mul(3));
  return await Promise.all([1, 2, 3, 4, 5].map(async (v) => {
    await new Promise((r) => setTimeout(r, 5 - v));
    return (await f(F([v])).tolist() as number[])[0];
  }));
}, [3, 6, 9, 12, 15]);
row(
  "dtype contexts by requests",
  async () =>
    await Promise.all(["float16", "float32", "float16"].map((d) =>
      context({ DEFAULT_FLOAT: d }, async () => {
        await new Promise((r) => setTimeout(r, Math.random() * 5));
        const a = new Tensor([0.5]).dtype.name;
        await 0;
        return a + Tensor.ones([1]).dtype.name;
      })
    )),
  ["float16float16", "float32float32", "float16float16"],
);
row(
  "train in one request, eval in another",
  async () => {
    const bn = new nn.BatchNorm(1), x = F([[[[1, 3]]]]), asked = Promise.withResolvers<void>();
    return await Promise.all([
      Tensor.train(async () => {
        await asked.promise; // in training mode before and after the other asks: it moves the averages that the other reads
        return await bn.call(x).tolist();
      }),
      (async () => {
        await new Promise((r) => setTimeout(r, 1));
        const y = await bn.call(x).tolist();
        asked.resolve();
        return y;
      })(),
    ]);
  },
  [[[[[-1, 1]]]], [[[[1, 3]]]]],
  1e-4,
);
row("scope in async", async () =>
  await scope(async () => {
    const a = F([1]);
    await 0;
    return await a.add(1).item();
  }), 2);
row("write while another reads", async () => {
  const a = F([1, 2]);
  const r = a.tolist();
  a.assign(F([5, 6]));
  return [await r, a];
}, [[1, 2], [5, 6]]);
row("two readers, one writer", async () => {
  const a = F([1]);
  const rs = [];
  for (let i = 0; i < 5; i++) {
    rs.push(a.mul(10).tolist());
    a.addInPlace(1);
  }
  return await Promise.all(rs);
}, [[10], [20], [30], [40], [50]]);
