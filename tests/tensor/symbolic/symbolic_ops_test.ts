/** Operations along axes whose size is a variable: at each value what the number gives, eagerly, in one capture, backwards. */
import { deepStrictEqual as assertEquals, match, ok, strictEqual, throws } from "node:assert/strict";
import { ArgumentError, grad, IndexError, jit, nn, scan, ShapeError, Tensor, Variable } from "../../../mod.ts";
import { compileStats } from "../../../src/engine/compile_cache.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { difference, toleranceOf } from "../../tolerance.ts";
import { onDevice } from "../../support/on_device.ts";

type Size = number | Tensor;
const MAX = 80, VALUES = [5, 3, 33, MAX], n = new Variable("n", 3, MAX);

/** Arithmetic of sizes, whether numbers or variables. */
const plus = (size: Size, by: number): Size => typeof size === "number" ? size + by : size.add(by);
const rest = (size: Size): Size => typeof size === "number" ? MAX - size : size.mul(-1).add(MAX);

/** `x` and the integers `i` in 0 to 2 are `[size, 4]`; `all` and `ints` the same of MAX rows. */
interface Given {
  readonly x: Tensor;
  readonly i: Tensor;
  readonly n: Size;
  readonly all: Tensor;
  readonly ints: Tensor;
}
type Case = (given: Given) => Tensor | Tensor[];

const at = (...positions: number[]): Tensor => new Tensor(positions, { dtype: "int32" });

/** Of floats, with a gradient by `all`. */
const SMOOTH: Record<string, Case> = {
  cumsum: ({ x }) => x.cumsum(0),
  "cumsum of the last axis": ({ x }) => x.T.cumsum(1),
  cumprod: ({ x }) => x.cumprod(0),
  logcumsumexp: ({ x }) => x.logcumsumexp(0),
  "values of cummax": ({ x }) => x.cummax(0)[0],
  "values of cummin": ({ x }) => x.T.cummin(1)[0],
  "sorted values": ({ x }) => x.sort(0)[0],
  "sorted down": ({ x }) => x.T.sort(1, { descending: true })[0],
  topk: ({ x }) => x.topk(2, 0)[0],
  "topk of variables": ({ all, n }) => all.topk(n, 0)[0],
  median: ({ x }) => x.median(0),
  "quantiles at a tensor": ({ x }) => x.quantile(new Tensor([0, 0.25, 0.9]), 0),
  "quantile of all at a tensor": ({ x }) => x.quantile(new Tensor(0.25)),
  quantile: ({ x }) => x.T.quantile(0.25, 1, { interpolation: "lower" }),
  "quantile of all": ({ x }) => x.quantile(0.3),
  cov: ({ x }) => x.T.cov(),
  "cov of rows": ({ x }) => x.cov({ correction: 0 }),
  corrcoef: ({ x }) => x.T.corrcoef(),
  diff: ({ x }) => x.diff({ dim: 0 }),
  "diff beside a symbolic axis": ({ x }) => x.diff({ n: 2 }),
  trapezoid: ({ x }) => x.trapezoid(null, { dim: 0 }),
  "trapezoid between positions": ({ x, i }) => x.T.trapezoid(i.at(":", 0).float()),
  cumulativeTrapezoid: ({ x }) => x.T.cumulativeTrapezoid(),
  narrow: ({ x }) => x.narrow(0, 1, 2),
  "narrow from the end": ({ x }) => x.narrow(0, -3, 2),
  "narrow by variables": ({ all, n }) => all.narrow(0, 0, n).narrow(0, plus(n, -2), 1),
  "narrow of another axis": ({ x }) => x.narrow(1, -3, 2),
  select: ({ x }) => x.select(0, -2),
  "select at a variable": ({ all, n }) => all.select(0, plus(n, -1)),
  "select of another axis": ({ x }) => x.select(1, 2),
  "kthvalue of another axis": ({ x }) => x.kthvalue(2)[0],
  "mean of one window": ({ x }) => x.T.unsqueeze(0).adaptiveAvgPool1d(1),
  "divergence by the batch": ({ x }) => x.logSoftmax(1).klDiv(x.softmax(1).detach(), { reduction: "batchmean" }),
  cat: ({ x }) => x.cat([x.mul(2)], 0),
  "cat with numbers": ({ x, all }) => all.at([0, 2]).cat([x, all.at([1, 4])], 0),
  "cat of last axes": ({ x, all }) => x.T.cat([all.T], 1),
  stack: ({ x }) => x.stack([x.mul(2)], 1),
  "split by variables": ({ all, n }) => all.split([n, rest(n)], 0),
  "split of a symbolic axis": ({ x, n }) => x.split([1, plus(n, -2), 1], 0),
  chunk: ({ x }) => x.repeatInterleave(2, 0).chunk(2, 0),
  gather: ({ x, i }) => x.gather(0, i),
  "gather from the end": ({ x, i }) => x.gather(0, i.sub(2).at([0, 2])),
  "gather from all": ({ all, i }) => all.gather(0, i),
  scatter: ({ x, i }) => x.scatter(0, i, x.mul(2)),
  "scatter to all": ({ all, i, x }) => all.scatterReduce(0, i, x, "sum"),
  "scatter of a few": ({ x, ints, all }) => x.scatterReduce(0, ints.at([0, 3]), all.at([0, 3]), "mean"),
  "index tensor": ({ x }) => x.at(at(0, 2, -1)),
  "index tensors": ({ x }) => x.at(at(0, -2), at(3, 1)),
  "index tensor of symbolic size": ({ all, i }) => all.at(i.at(":", 0)),
  "index tensor beside a slice": ({ all, n }) => all.at([0, n], at(0, 2)),
  "last element": ({ x }) => x.at(-1),
  "slice from the end": ({ x }) => x.at([-3, -1]),
  "every second": ({ x }) => x.at([null, null, 2]),
  "every third backward": ({ x }) => x.T.at(":", [null, null, -3]),
  "slice of numbers": ({ x }) => x.at([0, 7]),
  "slice of numbers that may be behind the end": ({ x }) => x.at([4, 9], [1, 3]),
  "slice from the end that may leave it": ({ x }) => x.at([-6, null]),
  "slice up to the end that may leave it": ({ x }) => x.at([null, -4]),
  "slice at both ends that may leave it": ({ x }) => x.at([-40, -4]),
  "slice of one that may be none": ({ x }) => x.at([3, 4]).sum(0),
  "one that may be none": ({ x }) => x.at([3, 4]).mul(2),
  "product of one that may be none": ({ x }) => x.at([3, 4]).T.matmul(x.at([3, 4])),
  "slice from a variable to a number": ({ all, n }) => all.at([n, 30]).sum(0),
  "slice between a number and a variable": ({ all, n }) => all.at([4, n]),
  "slice beyond the axis": ({ all, n }) => all.at([plus(n, -1), plus(n, 4)]),
  "slice from the end by a variable": ({ x, all, n }) =>
    [
      all.at([typeof n === "number" ? -n : n.neg(), null]),
      x.at([0, typeof n === "number" ? -n + 1 : n.neg().add(1)]),
    ].map((t) => t.sum(0)),
  "slice backward": ({ x }) => x.at([9, 1, -1]),
  "slice backward by a step from the end": ({ x }) => x.at([-2, null, -3]),
  "slice backward up to a variable": ({ all, n }) => all.at([70, n, -2]),
  "steps that may be one": ({ x }) => x.at([1, 7, 5]).sum(0),
  "setAt a slice of numbers": ({ x }) => x.mul(2).setAt([[0, 7]], 5),
  "setAt a slice of numbers in memory": ({ x }) => x.mul(2).contiguous().setAt([[4, 9]], 5),
  "setAt a slice from the end in memory": ({ x }) => x.mul(2).contiguous().setAt([[-6, null]], 5),
  "slice by a step": ({ all, n }) => all.at([0, n, 3]),
  "setAt a slice": ({ all, x, n }) => all.mul(2).setAt([[0, n]], x),
  "setAt a slice of memory": ({ all, x, n }) => all.mul(2).contiguous().setAt([[0, n], [1, 3]], x.at(":", [0, 2])),
  "setAt the last": ({ x }) => x.mul(2).setAt([-1], 5),
  "setAt every second": ({ x }) => x.mul(2).setAt([[null, null, 2]], 5),
  "setAt at tensors": ({ x }) => x.mul(2).setAt([at(0, -1)], 5),
  "setAt at a tensor of symbolic size": ({ all, i, x }) => all.mul(2).setAt([i.at(":", 0), 0], x.at(":", 1)),
  "setAt at tensors in a slice": ({ all, n }) => all.mul(2).setAt([[0, n], at(0, 2)], 3),
  "setAt a mask": ({ x }) => x.contiguous().setAt([x.gt(0)], 7),
  repeat: ({ x }) => x.repeat([2, 1]),
  "repeat in front": ({ x }) => x.repeat([2, 3, 2]),
  "repeat a variable's times": ({ all, n }) => all.at([0, 2]).repeat([n, 1]),
  repeatInterleave: ({ x }) => x.repeatInterleave(3, 0),
  "repeatInterleave a variable's times": ({ all, n }) => all.at([0, 2]).repeatInterleave(n, 0),
  "expand to a variable": ({ all, n }) => all.at([0, 1]).expand([n, 4]),
  roll: ({ x }) => x.roll([-7, 1], [0, 1]),
  "roll by a variable": ({ all, n }) => all.roll(n, 0),
  "roll of all": ({ x }) => x.roll(3),
  tril: ({ x }) => x.matmul(x.T).tril(-1),
  triu: ({ x }) => x.triu(1),
  "tril by a variable": ({ all, n }) => all.tril(plus(n, -4)),
  "triu by a variable": ({ all, n }) => all.triu(plus(n, -4)),
  "pad by variables, flat": ({ all, n }) => all.at([0, 2]).pad([0, 1, n, n], { value: 2 }),
  diag: ({ x }) => x.at(":", 0).diag(),
  diagonal: ({ x }) => x.matmul(x.T).diagonal(),
  "pad with a value": ({ x }) => x.pad([[2, 1], [0, 1]], { value: 5 }),
  "pad by variables with a value": ({ all, n }) => all.pad([[n, 1], null], { value: 3 }).sum(1),
  "pad by reflection": ({ x }) => x.pad([[2, 1], null], { mode: "reflect" }),
  "pad by the edge": ({ x }) => x.pad([[2, 1], null], { mode: "replicate" }),
  "pad in circles": ({ x }) => x.pad([[2, 1], null], { mode: "circular" }),
  padTo: ({ x }) => x.padTo([MAX, 5], { value: 2 }),
  "padTo variables": ({ all, n }) => all.at([0, 3]).padTo([n, 4]),
  "flatten behind": ({ x }) => x.T.flatten(),
  "reshape with -1": ({ x, n }) => x.reshape([n, -1, 2]),
  "split and join behind": ({ x }) => x.T.reshape([2, 2, -1]).permute([1, 0, 2]).flatten(),
  rearrange: ({ x }) => x.rearrange("a (b c) -> b a c", { b: 2 }),
  meshgrid: ({ x }) => x.at(":", 0).meshgrid([Tensor.arange(3).float()]),
  normalize: ({ x }) => x.normalize({ dim: 0 }),
  crossEntropy: ({ x, i }) => x.crossEntropy(i.at(":", 0), { labelSmoothing: 0.1 }),
  "negative log likelihood": ({ x, i }) => x.logSoftmax(1).nllLoss(i.at(":", 0), undefined, { ignoreIndex: 1 }),
  groupNorm: ({ x }) => new nn.GroupNorm(1, 4).call(x.unsqueeze(2)),
  "convolution of a batch": ({ x }) => x.unsqueeze(1).conv2d(Tensor.ones([2, 1, 3])),
  "pool of a batch": ({ x }) => x.unsqueeze(1).unsqueeze(1).maxPool2d([1, 2]),
  "causal attention with a cache": ({ x, all }) => {
    const k = x.unsqueeze(0).unsqueeze(0), q = all.at([0, 4]).unsqueeze(0).unsqueeze(0);
    return q.scaledDotProductAttention(k, k, undefined, { isCausal: true });
  },
  "causal attention of shared heads": ({ x, n }) => {
    const k = x.reshape([n, 2, 2]).permute([1, 0, 2]).unsqueeze(0), q = k.repeatInterleave(2, 1);
    return q.scaledDotProductAttention(k, k, undefined, { isCausal: true, enableGqa: true });
  },
  multiMarginLoss: ({ x }) => x.T.multiMarginLoss(at(0, 1, 2, 0)),
  multilabelMarginLoss: ({ x, i }) => x.T.multilabelMarginLoss(i.T.sub(1)),
  diagEmbed: ({ x }) => x.T.diagEmbed({ offset: 1 }),
  diagflat: ({ x }) => x.at(":", 0).diagflat(-1),
  "indexSelect beside a symbolic axis": ({ x }) => x.indexSelect(1, at(2, 0)),
  "indexAdd beside a symbolic axis": ({ x }) => x.indexAdd(1, at(2, 0), x.at(":", [0, 2])),
  "indexPut at one of a symbolic axis": ({ x }) => x.indexPut([at(1)], x.at(0)),
  "adaptive pool of a batch": ({ x }) => x.unsqueeze(1).adaptiveAvgPool1d(3),
  vander: ({ x }) => x.at(":", 0).vander(3),
  "maskedScatter of a symbolic source": ({ all, x }) => all.maskedScatter(all.gt(0), x),
  expandAs: ({ x, all }) => all.at([0, 1]).expandAs(x),
  reshapeAs: ({ x }) => x.unsqueeze(1).reshapeAs(x),
  "loss of weighted columns": ({ x }) => x.mseLoss(0, { weight: [[1, 2, 3, 4]] }),
  "padTo the larger of two": ({ x, n }) => x.padTo([typeof n === "number" ? Math.max(n, 9) : n.maximum(9), 4]),
  "attention of symbolic width": ({ x }) => {
    const q = x.T.unsqueeze(0);
    return q.scaledDotProductAttention(q, q);
  },
  "attention under a mask": ({ x }) => {
    const q = x.unsqueeze(0).unsqueeze(0);
    return q.scaledDotProductAttention(q, q, x.matmul(x.T).gt(-1));
  },
};

/** What has no gradient, or none by `all`. */
const OTHERS: Record<string, Case> = {
  zeros: ({ n }) => Tensor.zeros([n, 2]),
  ones: ({ n }) => Tensor.ones(n),
  full: ({ n }) => Tensor.full([2, n], 3),
  "zeros in memory": ({ n }) => Tensor.zeros([n, 2]).contiguous(),
  empty: ({ n }) => Tensor.empty([n, 2]).eq(0).mul(0),
  fullLike: ({ x }) => x.fullLike(4),
  onesLike: ({ x }) => x.T.onesLike(),
  "full of a variable": ({ n }) => typeof n === "number" ? Tensor.full([3], n) : Tensor.full([3], n),
  "full of a variable as floats": ({ x, n }) =>
    typeof n === "number" ? x.fullLike(n).add(Tensor.full([n, 4], n)) : x.fullLike(n).add(Tensor.full([n, 4], n)),
  "arange by a variable": ({ n }) => Tensor.arange(2, 300, n),
  "arange down by a variable": ({ n }) => Tensor.arange(300, plus(n, 1), typeof n === "number" ? -n : n.neg()),
  "arange of variables": ({ n }) => Tensor.arange(n, MAX * 3, plus(n, 1)),
  "arange down to a variable": ({ n }) => Tensor.arange(MAX + 2, n, -3),
  "arange that may be empty": ({ n }) => Tensor.arange(n, 40).sum(),
  arange: ({ n }) => Tensor.arange(n),
  "arange by a step": ({ n }) => Tensor.arange(1, n, 3),
  "arange from a variable": ({ n }) => Tensor.arange(n, MAX + 1),
  linspace: ({ n }) => Tensor.linspace(-2, 3, n),
  eye: ({ n }) => Tensor.eye(n),
  "eye of two sizes": ({ n }) => Tensor.eye(4, n),
  "random draws are as many": ({ n }) => [Tensor.rand([n, 2]).lt(1), Tensor.randn(n).isnan()],
  randint: ({ n }) => Tensor.randint([n], { low: 2, high: 3 }),
  randLike: ({ x }) => x.randLike().ge(0),
  randperm: ({ n }) => Tensor.randperm(n).sort()[0],
  multinomial: ({ x }) => x.T.abs().multinomial().lt(0),
  argsort: ({ x }) => x.argsort(0),
  "argsort down": ({ x }) => x.T.argsort(1, { descending: true }),
  "sort of integers is stable": ({ i }) => i.sort(0),
  "positions of topk": ({ x }) => x.topk(3, 0, { largest: false })[1],
  "positions of cummax": ({ i }) => i.cummax(0)[1],
  argmax: ({ x }) => x.argmax(0),
  oneHot: ({ i }) => i.at(":", 0).oneHot(4),
  "oneHot of a variable's classes": ({ i, n }) => i.at(":", 0).oneHot(n).sum(0),
  nonzero: ({ x }) => x.gt(0).nonzero({ size: 9 }),
  maskedSelect: ({ x }) => x.T.maskedSelect(x.T.gt(0), { size: 9 }),
  bincount: ({ i }) => i.at(":", 0).bincount({ size: 5 }),
  histogram: ({ x }) => x.histogram(4, { min: -1, max: 1 }),
  searchsorted: ({ x }) => x.at(":", 0).sort(0)[0].searchsorted(new Tensor([-0.5, 0, 9])),
  "searchsorted of integers": ({ i }) => i.at(":", 0).sort(0)[0].searchsorted(at(0, 1, 2, 9), { right: true }),
  isreal: ({ x }) => x.isreal(),
  constLike: ({ x }) => x.constLike(3),
  bernoulli: ({ x }) => x.bernoulli(0.5).mul(0),
  exponential: ({ x }) => x.exponential().mul(0),
  geometric: ({ x }) => x.geometric(0.5).mul(0),
  fractionalMaxPool2d: ({ x }) =>
    x.unsqueeze(1).unsqueeze(1).repeat([1, 1, 4, 1]).fractionalMaxPool2d(2, { outputSize: [2, 2] }).mul(0),
  batchNorm: ({ x }) =>
    Tensor.train(() => {
      const norm = new nn.BatchNorm(4);
      return [norm.call(x), norm.runningMean!, norm.runningVar!].map((t) => t.contiguous());
    }),
};

const CASES = { ...SMOOTH, ...OTHERS };
/** Draws that are other numbers in each call, and memory of the layer's own. */
const EAGER = ["batchNorm"];

function listOf(made: Tensor | Tensor[]): Tensor[] {
  return Array.isArray(made) ? made : [made];
}

/** All MAX rows of floats, and of integers. */
function rows(): [Tensor, Tensor] {
  const values = Float32Array.from({ length: MAX * 4 }, (_, i) => Math.sin(i * 0.7 + 1) * 1.2);
  const ints = Int32Array.from({ length: MAX * 4 }, (_, i) => i * 5 % 3);
  return [new Tensor(values).reshape([MAX, 4]).realize(), new Tensor(ints).reshape([MAX, 4]).realize()];
}

function given(all: Tensor, ints: Tensor, size: Size): Given {
  return { all, ints, x: all.at([0, size]), i: ints.at([0, size]), n: size };
}

/** Asserts that `got` is `want`, also in shape. */
async function same(name: string, got: Tensor[], want: Tensor[], backward = false): Promise<void> {
  strictEqual(got.length, want.length);
  for (let i = 0; i < got.length; i++) {
    assertEquals(got[i].boundShape, want[i].shape, name);
    const a = await got[i].float().data(), b = await want[i].float().data();
    const bad = difference(
      a as Float32Array,
      b as Float32Array,
      toleranceOf("accumulate", got[i].float().dtype, backward),
    );
    strictEqual(bad, undefined, `${name}, result ${i}: ${bad}`);
  }
}

/** What numbers give, computed on JS once for all devices. */
const wanted = new Map<string, Tensor[]>();

async function want(name: string, value: number): Promise<Tensor[]> {
  const key = `${name} at ${value}`, known = wanted.get(key);
  if (known !== undefined) return known;
  let made: Tensor[] = [];
  await onDevice("JS", () => {
    const [all, ints] = rows();
    made = listOf(CASES[name](given(all, ints, value))).map((t) => t.realize());
    return Promise.resolve();
  });
  wanted.set(key, made);
  return made;
}

for (const device of (await devicesHere()).filter((d) => d !== "WEBGPU" && d !== "CUDA")) {
  Deno.test(`symbolic ops ${device}: what a number gives, in one capture`, async (t) => {
    await onDevice(device, async () => {
      const [all, ints] = rows();
      for (const [name, f] of Object.entries(CASES)) {
        await t.step(name, async () => {
          const step = jit((all: Tensor, ints: Tensor, n: Tensor) =>
            listOf(f(given(all, ints, n))).map((x) => x.realize())
          );
          for (const value of VALUES) {
            const expected = await want(name, value), size = n.bind(value);
            const got = EAGER.includes(name) ? listOf(f(given(all, ints, size))) : step(all, ints, size);
            await same(`${name} at ${value}`, got, expected);
          }
          if (!EAGER.includes(name)) assertEquals([step.stats.captures, step.stats.retraces], [1, 0]);
        });
      }
    });
  });
}

Deno.test("symbolic ops: nothing is compiled again for another value", async () => {
  await onDevice("JS", async () => {
    const [all, ints] = rows();
    for (const [name, f] of Object.entries(CASES)) {
      for (const value of [5, 6]) for (const t of listOf(f(given(all, ints, n.bind(value))))) await t.data();
      const before = compileStats.lowered;
      for (const t of listOf(f(given(all, ints, n.bind(41))))) await t.data();
      strictEqual(compileStats.lowered, before, name);
    }
  });
});

Deno.test("symbolic ops: gradients", async () => {
  await onDevice("WASM", async () => {
    const [all, ints] = rows();
    for (const [name, f] of Object.entries(SMOOTH)) {
      const loss = (size: Size) => (all: Tensor) =>
        listOf(f(given(all, ints, size))).map((t) => t.mul(t).add(t).sum()).reduce((a, b) => a.add(b));
      for (const value of [4, 33]) {
        await same(`${name} at ${value}`, [grad(loss(n.bind(value)))(all) as Tensor], [
          grad(loss(value))(all) as Tensor,
        ], true);
      }
    }
  });
});

Deno.test("symbolic ops: draws of symbolic size are the first of those of the largest", async () => {
  Tensor.manualSeed(3);
  const want = await Tensor.rand([MAX, 2]).at([0, 7]).tolist();
  Tensor.manualSeed(3);
  assertEquals(await Tensor.rand([n.bind(7), 2]).tolist(), want);
});

Deno.test("symbolic ops: an axis that joins others may be longer than int32 counts", async () => {
  const a = new Variable("a", 1, 50_000);
  for (const value of [50_000, 3]) {
    const row = Tensor.ones([a.bind(value), 100_000]).flatten();
    assertEquals([row.shape, row.boundShape], [[5e9], [value * 100_000]]);
    assertEquals(await row.at([5, 9]).tolist(), [1, 1, 1, 1]);
    assertEquals(await row.at([a.bind(value), a.bind(value).add(3)]).tolist(), [1, 1, 1]);
  }
});

Deno.test("symbolic ops: what cannot be says what to do instead", () => {
  const [all, ints] = rows(), x = all.at([0, n.bind(5)]), i = ints.at([0, n.bind(5)]);
  const table: [string, () => unknown, RegExp, typeof ShapeError | typeof ArgumentError | typeof IndexError][] = [
    [
      "conv2d",
      () => x.T.unsqueeze(0).conv2d(Tensor.ones([1, 4, 3])),
      /convolve .* size n; it takes a constant one: padTo/,
      ShapeError,
    ],
    [
      "pool",
      () => x.T.unsqueeze(0).unsqueeze(0).avgPool2d([1, 2]),
      /average .* size n; it takes a constant one: padTo/,
      ShapeError,
    ],
    ["adaptive pool", () => x.T.unsqueeze(0).adaptiveAvgPool1d(3), /Pool1d .* symbolic size n.*padTo/, ShapeError],
    ["adaptive maximum", () => x.T.unsqueeze(0).adaptiveMaxPool1d(3), /symbolic size n.*keepdim/, ShapeError],
    [
      "gridSample",
      () => x.unsqueeze(0).unsqueeze(0).gridSample(Tensor.zeros([1, 2, 2, 2])),
      /gridSample .* symbolic size n.*padTo/,
      ShapeError,
    ],
    ["blockDiag", () => x.T.blockDiag([x]), /blockDiag .* symbolic size n/, ShapeError],
    ["combinations", () => x.at(":", 0).combinations(), /combinations .* symbolic size n/, ShapeError],
    ["unbind", () => x.unbind(), /unbind .* symbolic size n.*select/, ShapeError],
    ["narrow", () => x.narrow(0, 2, n.bind(5)), /narrow .* stop n \+ 2 may be 82.*make room/, ShapeError],
    ["select", () => x.select(0, n.bind(5)), /select .* stop n \+ 1 may be 81/, ShapeError],
    ["sizes of two variables", () => x.add(ints.at([0, new Variable("m", 1, 9).bind(5)])), /sizes n and m/, ShapeError],
    [
      "scan",
      () => scan((c: Tensor, x: Tensor) => [c.add(x), x], Tensor.zeros([4]), x),
      /scan .* size n.*where/,
      ShapeError,
    ],
    ["unfold", () => x.unfold(0, 2, 1), /unfold .* axis 0 has the symbolic size n.*padTo/, ShapeError],
    ["interpolate", () => x.interpolate([4, 4]), /interpolate .* axis 0 has the symbolic size n/, ShapeError],
    ["split by a number", () => x.split(2, 0), /symbolic size n.*list the sizes of the parts/, ShapeError],
    ["split that does not add up", () => x.split([2, 3], 0), /add up to 5, axis 0 has size n/, ShapeError],
    ["chunk", () => x.chunk(2, 0), /size n, which is no multiple of 2; split it into parts/, ShapeError],
    ["topk", () => x.topk(4, 0), /topk .* stop 4 may be 4, and axis 0 has size n/, ShapeError],
    [
      "at",
      () => x.at(3),
      /index 3 may be out of range: axis 0 has the symbolic size n, of which there may be 3/,
      IndexError,
    ],
    ["slice", () => x.at([5, 1, 0]), /is an integer other than 0, not 0/, IndexError],
    ["pad in another mode", () => x.pad([n.bind(3), 0], { mode: "reflect" }), /go with mode "constant"/, ArgumentError],
    ["pad of an odd number", () => x.pad([n.bind(3)]), /1 amounts for 2 axes/, ShapeError],
    [
      "arange by a step that may be 0",
      () => Tensor.arange(0, 9, n.bind(3).sub(4)),
      /may be 0: give its/,
      ArgumentError,
    ],
    ["rfft", () => x.rfft(0), /rfft .* symbolic size n.*give the length n/, ShapeError],
    ["det", () => x.matmul(x.T).det(), /symbolic size n/, ShapeError],
    ["svd", () => x.svd(), /symbolic size n/, ShapeError],
    ["unique", () => i.unique({ size: 3 }), /symbolic size n/, ShapeError],
    ["bitcast", () => x.T.bitcast("int16"), /symbolic size n: elements of another size/, ShapeError],
    ["quantile", () => x.quantile(0.3, 0, { interpolation: "lower" }), /"linear"/, ShapeError],
    ["diagonal", () => x.diagonal(), /symbolic size n/, ShapeError],
    ["repeat", () => x.repeat([n.bind(5), 1]), /repeat .* symbolic size n/, ShapeError],
    ["luFactor", () => x.matmul(x.T).luFactor(), /luFactor .* symbolic size n.*padTo/, ShapeError],
    ["ldlFactor", () => x.matmul(x.T).ldlFactor(), /ldlFactor .* symbolic size n.*padTo/, ShapeError],
    ["matrixExp", () => x.matmul(x.T).matrixExp(), /matrixExp .* symbolic size n.*padTo/, ShapeError],
    ["householderProduct", () => x.householderProduct(Tensor.ones([2])), /symbolic size n.*padTo/, ShapeError],
    ["pdist", () => x.pdist(), /pdist .* symbolic size n.*cdist/, ShapeError],
    ["vander", () => x.T.vander(), /vander .* symbolic size n.*give n/, ShapeError],
    ["uniqueConsecutive", () => i.uniqueConsecutive({ dim: 0 }), /symbolic size n.*padTo/, ShapeError],
    ["glu", () => x.glu(0), /glu .* symbolic size n.*at\(\[/, ShapeError],
    ["asStrided", () => x.asStrided([2], [1]), /asStrided .* symbolic size n.*padTo/, ShapeError],
    ["selectScatter", () => x.selectScatter(Tensor.ones([4]), 0, 1), /symbolic size n.*setAt/, ShapeError],
    [
      "a larger index",
      () => x.gather(1, ints),
      /gather .* size n, and the index 80, which may be more; raise/,
      ShapeError,
    ],
    ["weights of a symbolic kernel", () => Tensor.ones([1, 1, 99]).conv1d(x.T.unsqueeze(0)), /channels/, ShapeError],
    [
      "a symbolic kernel",
      () => Tensor.ones([1, 4, 99]).convTranspose1d(x.T.unsqueeze(1)),
      /transposed.*symbolic size n.*padTo/,
      ShapeError,
    ],
    ["convolve", () => x.at(":", 0).convolve(Tensor.ones([3])), /convolve .* symbolic size n.*padTo/, ShapeError],
    ["another size", () => x.cat([all], 1).add(all.at([0, 9])), /sizes n and 9/, ShapeError],
    [
      "no square",
      () => x.matrixPower(2),
      /shape \[n, 4\]: .* axes; n is a symbolic size of at most 80, which padTo/,
      ShapeError,
    ],
    ["setAt", () => all.clone().setAt([[0, n.bind(3)]], Tensor.ones([3, 4])), /and \[n, 4\].*cut a larger/, ShapeError],
    [
      "a size that is a number",
      () => Tensor.scaledUniform([n.bind(3) as never]),
      /the variable n.*numbers/,
      ShapeError,
    ],
    ["unflatten", () => all.unflatten(1, [n.bind(4) as never, 1]), /not \[the variable n, 1\]/, ArgumentError],
    ["linspace", () => Tensor.linspace(0, n.bind(4) as never, 3), /not the variable n; linspace\(0, 1/, ArgumentError],
    ["zeros", () => Tensor.zeros([n.bind(3).sub(9)]), /a size from -6 to 71/, ArgumentError],
    ["arange", () => Tensor.arange(0, n.bind(3), 0.5), /step/, ArgumentError],
  ];
  for (const [name, run, text, type] of table) {
    throws(run, (e) => {
      ok(e instanceof type, `${name}: ${e}`);
      match(e.message, text);
      return true;
    });
  }
});

Deno.test("symbolic ops: axes that may be of nothing", async () => {
  const size = new Variable("size", 0, 6), x = Tensor.ones([2, 6]).realize(), y = Tensor.arange(6).float().realize();
  const ints = new Tensor([3, 1, 3, 0, 2, 1]).realize();
  for (const value of [0, 4, 1]) {
    const s = size.bind(value), cut = x.at(":", [0, s]), want = x.at(":", [0, value]);
    for (
      const f of [
        (t: Tensor) => t.gt(0).any(1),
        (t: Tensor) => t.gt(0).all(),
        (t: Tensor) => t.gt(0).max(1),
        (t: Tensor) => t.allclose(1),
      ]
    ) assertEquals(await f(cut).tolist(), await f(want).tolist(), `${f} of ${value}`);
    const counts = [s, value].map((n) => ints.at([0, n]).bincount()) as (Tensor | Promise<Tensor>)[];
    const [got, wanted] = await Promise.all(counts);
    assertEquals(await got.tolist(), await wanted.tolist());
    // the gradient reads where the axis has two elements, in a loop that goes as far as it has one less
    const area = (t: Tensor, n: Size) => t.at(":", [0, n]).trapezoid(y.at([0, n]));
    const slope = (n: Size) => grad((t: Tensor) => area(t, n).square().sum())(x) as Tensor;
    if (value > 0) assertEquals(await slope(s).tolist(), await slope(value).tolist());
  }
});

Deno.test("symbolic ops: sizes are one whatever the order of their factors", async () => {
  const a = new Variable("rows", 1, 3), b = new Variable("columns", 1, 6);
  const x = Tensor.arange(18).float().reshape([3, 6]).realize();
  const slope = (m: Size, n: Size) =>
    grad((t: Tensor) => {
      const flat = t.shrink([[0, m], [0, n]]).flatten();
      return flat.mul(flat).add(flat).sum();
    })(x) as Tensor;
  assertEquals(await slope(a.bind(2), b.bind(3)).tolist(), await slope(2, 3).tolist());
});
