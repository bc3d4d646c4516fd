/**
 * Gradients against central differences, in float64 on the reference evaluator: no kernel takes part, so what fails here
 * is a rule of `uop/graph/gradient.ts` or a method's formula. Gradients of gradients are checked in the same way.
 */
import { assertEquals } from "@std/assert";
import { context, Device, Tensor } from "../mod.ts";
import { dtypes } from "../src/dtype/dtype.ts";
import { flip, reshape, shrink } from "../src/uop/core/build_movement.ts";
import { Ops } from "../src/uop/core/ops.ts";
import { uop } from "../src/uop/core/uop.ts";
import { evaluateTensor } from "./reference.ts";
import { Random } from "./support/random.ts";

Device.default = "JS";

/** Small, distinct, away from zero and from kinks at integers and halves. */
function values(n: number, seed: number, positive: boolean): number[] {
  const out: number[] = [];
  const random = new Random(seed);
  for (let i = 0; i < n; i++) {
    const x = 0.17 + 1.3 * random.next();
    out.push(positive || random.below(2) === 0 ? x : -x);
  }
  return out;
}

const size = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);

function make(data: readonly number[], shape: readonly number[]): Tensor {
  return new Tensor(data, { dtype: "float64", device: "JS" }).reshape(shape);
}

type Fn = (...x: Tensor[]) => Tensor;
type Row = readonly [name: string, shapes: readonly (readonly number[])[], fn: Fn, positive?: boolean];

/** A scalar that weighs every element of `t` differently. */
function weigh(t: Tensor): Tensor {
  const weights = values(t.numel(), 77, false);
  return t.mul(make(weights, t.shape)).sum();
}

const on = { dtype: "int32", device: "JS" } as const;
const labels = () => new Tensor([1, 0, 2], { dtype: "int64", device: "JS" });

const rows: readonly Row[] = [
  ["add broadcast", [[2, 3], [3]], (a, b) => a.add(b)],
  ["mul broadcast", [[2, 1], [1, 3]], (a, b) => a.mul(b)],
  ["x * x + x", [[4]], (a) => a.mul(a).add(a)],
  ["div", [[2, 3], [3]], (a, b) => a.div(b)],
  ["scalar / x", [[3]], (a) => a.div(2, { reverse: true })],
  ["exp2", [[4]], (a) => a.exp2()],
  ["log2", [[4]], (a) => a.log2(), true],
  ["sin", [[4]], (a) => a.mul(5).sin()],
  ["cos", [[4]], (a) => a.cos()],
  ["sqrt", [[4]], (a) => a.sqrt(), true],
  ["trunc passes nothing", [[4]], (a) => a.mul(3).trunc().add(a)],
  ["maximum", [[4], [4]], (a, b) => a.maximum(b)],
  ["where", [[4], [4]], (a, b) => a.gt(0).where(a.mul(b), b.exp())],
  ["pow", [[3], [3]], (a, b) => a.pow(b), true],
  ["tanh", [[4]], (a) => a.tanh()],
  ["gelu", [[4]], (a) => a.gelu()],
  ["sum axis", [[2, 3]], (a) => a.sum(1).square()],
  ["prod", [[2, 3]], (a) => a.prod(1)],
  ["max", [[2, 4]], (a) => a.max(1)],
  ["min keepdim", [[2, 4]], (a) => a.min(0, { keepdim: true })],
  ["mean of square", [[2, 3]], (a) => a.square().mean(0)],
  ["var", [[2, 4]], (a) => a.var(1)],
  ["softmax", [[2, 4]], (a) => a.softmax(1)],
  ["logSoftmax", [[2, 4]], (a) => a.logSoftmax(0)],
  ["logsumexp", [[2, 4]], (a) => a.logsumexp(1)],
  ["layernorm", [[2, 4]], (a) => a.layernorm()],
  ["cumsum", [[5]], (a) => a.cumsum(0).square()],
  ["permute reshape flip", [[2, 3, 2]], (a) => a.permute([2, 0, 1]).reshape([4, 3]).flip([1]).square()],
  ["pad shrink", [[3, 3]], (a) => a.pad([[1, 0], [0, 2]]).shrink([[0, 3], [1, 4]]).square()],
  ["expand", [[2, 1]], (a) => a.expand([2, 3]).sin()],
  ["cat", [[2, 2], [2, 1]], (a, b) => a.cat([b, a], 1).square()],
  ["contiguous and contiguousBackward", [[3]], (a) => a.square().contiguous().contiguousBackward().exp()],
  ["copy to another device and back", [[3]], (a) => a.square().to("NULL").to("JS").exp()],
  ["one input in two places", [[3], [3]], (a, b) => a.mul(b).add(b.exp())],
  ["matmul", [[2, 3], [3, 2]], (a, b) => a.matmul(b)],
  ["matmul batch broadcast", [[2, 1, 2, 3], [2, 3, 2]], (a, b) => a.matmul(b)],
  ["matmul vector", [[3], [3, 2]], (a, b) => a.matmul(b)],
  ["two layers", [[2, 3], [3, 4], [4], [4, 2]], (x, w, b, v) => x.linear(w, b).relu().matmul(v)],
  ["einsum", [[2, 3], [3, 2], [2]], (a, b, c) => Tensor.einsum("ij,jk,k->ik", [a, b, c])],
  [
    "attention causal",
    [[1, 3, 2], [1, 3, 2], [1, 3, 2]],
    (q, k, v) => q.scaledDotProductAttention(k, v, undefined, { isCausal: true }),
  ],
  ["conv2d", [[1, 2, 4, 4], [2, 2, 2, 3], [2]], (x, w, b) => x.conv2d(w, b, { padding: 1, stride: 2 })],
  ["conv2d grouped, dilated", [[1, 2, 5], [2, 1, 2]], (x, w) => x.conv2d(w, undefined, { groups: 2, dilation: 3 })],
  ["convTranspose2d", [[1, 2, 2, 2], [2, 1, 2, 2]], (x, w) => x.convTranspose2d(w, undefined, { stride: 2 })],
  ["maxPool2d", [[1, 1, 4, 4]], (x) => x.maxPool2d(3, { stride: 1 })],
  ["avgPool2d", [[1, 1, 5, 4]], (x) => x.avgPool2d(2, { padding: 1, countIncludePad: false })],
  ["crossEntropy", [[3, 4]], (x) => x.crossEntropy(labels(), { labelSmoothing: 0.2 })],
  ["sparseCategoricalCrossentropy", [[3, 4]], (x) => x.sparseCategoricalCrossentropy(labels(), { ignoreIndex: 0 })],
  ["binaryCrossentropyLogits", [[4]], (x) => x.binaryCrossentropyLogits([1, 0, 1, 0])],
  ["newtonSchulz", [[3, 2]], (x) => x.newtonSchulz(2, [2, -1.5, 0.5])],
  ["at with a tensor", [[4, 2]], (x) => x.at(new Tensor([2, 0, 2], { dtype: "int32", device: "JS" })).square()],
  ["gather", [[3, 4]], (x) => x.gather(1, new Tensor([[3, 0, 3], [1, 1, 2]], on)).square()],
  ["scatterReduce", [[4], [5]], (x, v) => x.scatterReduce(0, new Tensor([1, 3, 1, 0, 1], on), v, "sum").square()],
  ["scatterReduce amax", [[4], [3]], (x, v) => x.scatterReduce(0, new Tensor([1, 3, 0], on), v, "amax").square()],
  ["sort", [[5]], (x) => x.sort()[0].mul(make([1, 2, 3, 4, 5], [5]))],
  ["topk", [[6]], (x) => x.topk(3)[0].square()],
  ["cumprod", [[4]], (x) => x.cumprod(0)],
  ["cummax", [[5]], (x) => x.cummax(0)[0].square()],
  ["logcumsumexp", [[4]], (x) => x.logcumsumexp(0)],
  ["fft", [[5, 2]], (x) => x.fft().square()],
  ["rfft of a prime beyond 64", [[67]], (x) => x.rfft().square().mul(0.01)],
  ["cholesky", [[3, 3]], (x) => x.matmul(x.transpose()).add(Tensor.eye(3, 3, { dtype: "float64" })).cholesky()],
  ["inv", [[3, 3]], (x) => x.add(Tensor.eye(3, 3, { dtype: "float64" }).mul(4)).inv()],
  ["det", [[3, 3]], (x) => x.det()],
  ["solve", [[2, 2], [2]], (a, b) => a.add(Tensor.eye(2, 2, { dtype: "float64" }).mul(4)).solve(b)],
  ["interpolate", [[1, 1, 3, 4]], (x) => x.interpolate([5, 3]).square()],
  ["mod", [[4], [4]], (a, b) => a.mul(3).mod(b), true],
  [
    "winograd",
    [[1, 1, 5, 4], [2, 1, 3, 3]],
    (x, w) => context({ WINO: 1 }, () => x.conv2d(w, undefined, { padding: 1 })),
  ],
  ["quantile", [[5]], (x) => x.quantile(0.3)],
  ["gelu in the tail", [[4]], (x) => x.mul(3).gelu()],
  ["slopes of slopes", [[4]], (x) => {
    const all = [x.mul(2).gelu(), x.erf(), x.mul(3).tanh(), x.mul(3).sigmoid(), x.softplus()].map((y) => y.sum());
    return all.reduce((s, y) => s.add(y)).gradient([x])[0];
  }],
  ["pad reflect", [[4]], (x) => x.pad([2, 3], { mode: "reflect" }).square()],
  ["lerp", [[3], [3], [3]], (a, b, w) => a.lerp(b, w)],
  ["logaddexp", [[3], [3]], (a, b) => a.logaddexp(b)],
  ["writes into views", [[4, 3], [2, 3], [4]], (x, v, w) => {
    const base = x.square().clone().uop;
    const rows = uop(Ops.STORE, dtypes.void, [shrink(base, [[1, 3], [0, 3]]), v.square().uop]);
    const column = uop(Ops.STORE, dtypes.void, [reshape(shrink(flip(base, [0]), [[0, 4], [1, 2]]), [4]), w.sin().uop]);
    const once = uop(Ops.AFTER, base.dtype, [base, rows]);
    const both = uop(Ops.AFTER, base.dtype, [base, rows, column]);
    return new Tensor(both).mul(new Tensor(once)).add(x);
  }],
  ["setAt", [[4, 2], [2]], (x, v) => {
    const copy = x.mul(2).clone();
    copy.setAt([1], v.square());
    copy.setAt([[2, 4], 0], v);
    return copy.square();
  }],
];

function gradientsOf(fn: Fn, data: readonly number[][], shapes: Row[1]): number[][] {
  const x = data.map((d, i) => make(d, shapes[i]));
  return weigh(fn(...x)).gradient(x).map((g) => evaluateTensor(g).data);
}

function compare(name: string, got: readonly number[], f: (i: number, delta: number) => number): void {
  for (let i = 0; i < got.length; i++) {
    const h = 1e-5, want = (f(i, h) - f(i, -h)) / (2 * h);
    if (Math.abs(got[i] - want) > 2e-6 * (1 + Math.abs(want))) {
      throw new Error(`${name}, element ${i}: gradient ${got[i]}, difference quotient ${want}`);
    }
  }
}

for (const [name, shapes, fn, positive] of rows) {
  Deno.test(`gradient: ${name}`, () => {
    const data = shapes.map((s, i) => values(size(s), i + 1, positive ?? false));
    const grads = gradientsOf(fn, data, shapes);
    data.forEach((_, k) => {
      compare(`input ${k}`, grads[k], (i, delta) => {
        const moved = data.map((d, j) => make(d.map((v, n) => j === k && n === i ? v + delta : v), shapes[j]));
        return evaluateTensor(weigh(fn(...moved))).data[0];
      });
    });
  });
}

const SECOND = ["x * x + x", "div", "sin", "exp2", "log2", "sqrt", "softmax", "matmul", "logsumexp", "prod"];

for (const [name, shapes, fn, positive] of rows.filter(([n]) => SECOND.includes(n))) {
  Deno.test(`gradient of the gradient: ${name}`, () => {
    const data = shapes.map((s, i) => values(size(s), i + 5, positive ?? false));
    const first = (x: Tensor[]) => weigh(weigh(fn(...x)).gradient(x.slice(0, 1))[0].mul(x[0]));
    const x = data.map((d, i) => make(d, shapes[i]));
    const grad = evaluateTensor(first(x).gradient(x.slice(0, 1))[0]).data;
    compare(name, grad, (i, delta) => {
      const moved = data.map((d, j) => make(d.map((v, n) => j === 0 && n === i ? v + delta : v), shapes[j]));
      return evaluateTensor(first(moved)).data[0];
    });
  });
}

/** Gradients of prod, and of cumprod weighed by 1, 2, 3: first, and of the first weighed by 1, 2, 3; by torch.autograd. */
const ZEROS: readonly [x: number[], prod: number[][], cumprod: number[][]][] = [
  [[0, 2, 3], [[6, 0, 0], [12, 3, 2]], [[23, 0, 0], [40, 11, 6]]],
  [[0, 0, 3], [[0, 0, 0], [6, 3, 0]], [[1, 0, 0], [22, 11, 0]]],
  [[0, 0, 0], [[0, 0, 0], [0, 0, 0]], [[1, 0, 0], [4, 2, 0]]],
  [[2, 3, 4], [[12, 8, 6], [17, 10, 7]], [[43, 28, 18], [55, 32, 21]]],
];
for (const [data, prod, cumprod] of ZEROS) {
  Deno.test(`gradient of gradient: products of ${data}`, () => {
    const weights = make([1, 2, 3], [3]);
    const twice = (f: (x: Tensor) => Tensor) => {
      const x = make(data, [3]), [g] = f(x).gradient([x]), [gg] = g.mul(weights).sum().gradient([x]);
      const third = gg.mul(weights).sum().gradient([x])[0];
      return [g, gg, third].map((t) => evaluateTensor(t).data);
    };
    const third = [12, 6, 4];
    assertEquals(twice((x) => x.prod()), [...prod, third]);
    assertEquals(twice((x) => x.reshape([3, 1, 1]).mul(make([1], [1, 1, 1])).prod([0, 2]).sum()), [...prod, third]);
    assertEquals(twice((x) => x.cumprod(0).mul(weights).sum()), [...cumprod, third.map((v) => 3 * v)]);
  });
}

Deno.test("gradient: that of a product takes no more than three times the memory of its operands", () => {
  const { allocator } = Device.get("JS"), n = 48, on = { device: "JS", requiresGrad: true };
  const a = Tensor.rand([n, n], on), b = Tensor.rand([n, n], on);
  Tensor.realize([a, b]);
  const before = allocator.used;
  allocator.drop();
  allocator.peak = before;
  const gradients = a.matmul(b).sum().gradient([a, b]);
  Tensor.realize(gradients);
  const operands = a.nbytes() + b.nbytes(), most = allocator.peak - before + operands;
  if (most > 3 * operands) throw new Error(`${most} bytes at the peak, for operands of ${operands}`);
  const square = a.matmul(b).square().sum().gradient([a, b]);
  allocator.peak = allocator.used;
  const held = allocator.used - before;
  Tensor.realize(square);
  const peak = allocator.peak - before - held + operands;
  if (peak > 3 * operands) throw new Error(`${peak} bytes at the peak, for operands of ${operands}`);
});
