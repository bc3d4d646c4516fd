/**
 * Programs as users of PyTorch, tinygrad, NumPy and plain JavaScript write them who know the README and the pages of
 * docs/: each on JS and WASM, with what plain arithmetic gives. `source_programs_test.ts` has those of the documents.
 */
import { assertClose, assertEquals } from "@std/assert";
import { grad, jit, nn, scope, state, Tensor, valueAndGrad, Variable, vmap } from "../../mod.ts";
import { onDevice } from "../support/on_device.ts";

function each(name: string, program: () => void | Promise<void>): void {
  for (const device of ["JS", "WASM"]) {
    Deno.test(`user programs ${device}: ${name}`, async () => {
      await onDevice(device, program);
    });
  }
}

// ---- PyTorch

each("a regression with clipped gradients and a schedule", async () => {
  Tensor.manualSeed(1);
  const x = Tensor.randn([64, 3]).realize(), y = x.matmul([1, -2, 0.5]).add(3).realize(), model = new nn.Linear(3, 1);
  const optimizer = new nn.optim.Adam(state.getParameters(model), { lr: 0.1 });
  const schedule = new nn.optim.StepLR(optimizer, { stepSize: 50, gamma: 0.5 });
  for (let i = 0; i < 150; i++) {
    Tensor.train(() => {
      optimizer.zeroGrad();
      model.call(x).squeeze(-1).sub(y).square().mean().backward();
      nn.optim.clipGradNorm(optimizer.params, 1);
      optimizer.step();
    });
    schedule.step();
  }
  assertClose(await model.weight.tolist(), [[1, -2, 0.5]], 1e-2);
  assertClose(await model.bias!.tolist(), [3], 1e-2);
  assertClose(optimizer.getLr(), 0.0125);
});

each("a recurrent cell over the rows of a sequence", async () => {
  const cell = new nn.GRUCell(2, 4), sequence = Tensor.randn([5, 3, 2]).realize(), states: Tensor[] = [];
  let h = Tensor.zeros([3, 4]);
  for (const x of sequence) states.push(h = cell.call(x, h));
  const all = Tensor.stack(states);
  assertEquals(all.shape, [5, 3, 4]);
  assertClose(await all.at(-1).sub(h).abs().max().item(), 0);
});

each("gradients accumulate over rows, and a step-through rounding passes them", async () => {
  const w = new Tensor([1, 2], { requiresGrad: true }),
    data = new Tensor([[1, 2], [3, 4], [5, 6]], { dtype: "float32" });
  for (const row of data) row.mul(w).sum().backward();
  assertEquals(await w.grad!.tolist(), [9, 12]);
  const x = new Tensor([0.2, 0.7], { requiresGrad: true }), rounded = x.add(x.round().sub(x).detach());
  rounded.mul(3).sum().backward();
  assertEquals([await rounded.tolist(), await x.grad!.tolist()], [[0, 1], [3, 3]]);
});

each("frozen layers stay as they are", async () => {
  const model = { a: new nn.Linear(2, 2), b: new nn.Linear(2, 1) };
  for (const t of [model.a.weight, model.a.bias!]) t.requiresGrad = false;
  const optimizer = new nn.optim.SGD(state.getParameters(model), { lr: 0.1 }), before = await model.a.weight.tolist();
  Tensor.train(() => {
    optimizer.zeroGrad();
    model.b.call(model.a.call(Tensor.ones([4, 2]))).sum().backward();
    optimizer.step();
  });
  assertEquals([optimizer.params.length, await model.a.weight.tolist(), model.a.weight.grad], [2, before, undefined]);
});

each("moving averages of weights, assigned in each step", async () => {
  const w = new Tensor([1, 2], { dtype: "float32" }).realize(), average = w.clone();
  for (let i = 0; i < 3; i++) {
    w.addInPlace(1);
    average.assign(average.mul(0.5).add(w.mul(0.5)));
  }
  assertEquals(await average.tolist(), [3.125, 4.125]);
});

// ---- tinygrad

each("one-hot, gather and scatter", async () => {
  const i = new Tensor([2, 0, 1]), table = Tensor.arange(9).reshape([3, 3]);
  assertEquals(await i.oneHot(3).tolist(), [[0, 0, 1], [1, 0, 0], [0, 1, 0]]);
  assertEquals(await table.gather(1, i.reshape([3, 1])).tolist(), [[2], [3], [7]]);
  assertEquals(await Tensor.zeros([3]).scatter(0, i, Tensor.arange(3).float()).tolist(), [1, 2, 0]);
});

each("a cache that grows by a row a step under jit", async () => {
  const cache = Tensor.zeros([8, 2]).contiguous().realize(), position = new Variable("position", 0, 7);
  const step = jit((x: Tensor, at: Tensor) => {
    cache.setAt([at], x);
    return cache.at([0, at.add(1)]).sum(0).realize();
  });
  const sums: unknown[] = [];
  for (let i = 0; i < 5; i++) sums.push(await step(new Tensor([i, 1.5]), position.bind(i)).tolist());
  assertEquals(sums, [[0, 1.5], [1, 3], [3, 4.5], [6, 6], [10, 7.5]]);
});

// ---- NumPy

each("the game of life: a glider is one further down and right after four steps", async () => {
  const cells = [[0, 1], [1, 2], [2, 0], [2, 1], [2, 2]];
  let grid = Tensor.zeros([6, 6], { dtype: "int32" }).contiguous().realize();
  for (const [row, column] of cells) grid.setAt([row, column], 1);
  const around = [-1, 0, 1].flatMap((a) => [-1, 0, 1].map((b) => [a, b])).filter(([a, b]) => a !== 0 || b !== 0);
  for (let k = 0; k < 4; k++) {
    const n = around.map((by) => grid.roll(by, [0, 1])).reduce((a, b) => a.add(b));
    grid = n.eq(3).bitwiseOr(n.eq(2).bitwiseAnd(grid.eq(1))).cast("int32").realize();
  }
  const want = Array.from({ length: 6 }, () => new Array<number>(6).fill(0));
  for (const [row, column] of cells) want[row + 1][column + 1] = 1;
  assertEquals(await grid.tolist(), want);
});

each("k-means", async () => {
  const points = new Tensor([[0, 0], [0, 1], [10, 10], [10, 11]], { dtype: "float32" });
  let centers = points.at([0, 2]);
  for (let k = 0; k < 3; k++) {
    const own = points.unsqueeze(1).sub(centers).square().sum(-1).argmin(1).oneHot(2).float();
    centers = own.T.matmul(points).div(own.sum(0).unsqueeze(1)).realize();
  }
  assertClose(await centers.tolist(), [[0, 0.5], [10, 10.5]]);
});

each("the Mandelbrot set", async () => {
  const xs = [-2, -1.4, -0.8, -0.2, 0.4, 1], ys = [-1, -0.5, 0, 0.5, 1];
  const x = new Tensor(xs).reshape([1, 6]), y = new Tensor(ys).reshape([5, 1]);
  let re = x.mul(0).add(y.mul(0)), im = re, n = re;
  for (let k = 0; k < 12; k++) {
    const a = re.square(), b = im.square(), inside = a.add(b).le(4);
    n = n.add(inside);
    [re, im] = [inside.where(a.sub(b).add(x), re), inside.where(re.mul(im).mul(2).add(y), im)];
  }
  const want = ys.map((y) =>
    xs.map((x) => {
      let re = 0, im = 0, n = 0;
      while (n < 12 && re * re + im * im <= 4) [re, im, n] = [re * re - im * im + x, 2 * re * im + y, n + 1];
      return n;
    })
  );
  assertEquals(await n.tolist(), want);
});

each("windows, distances and systems", async () => {
  assertEquals(await new Tensor([1, 2, 3, 4, 5]).unfold(0, 3, 1).mean(1).tolist(), [2, 3, 4]);
  const p = new Tensor([[0, 0], [3, 4], [6, 8]]), far = p.unsqueeze(0).sub(p.unsqueeze(1)).square().sum(-1).sqrt();
  assertClose(await far.triu(1).tolist(), [[0, 5, 10], [0, 0, 5], [0, 0, 0]]);
  const a = new Tensor([[2, 1], [1, 3]], { dtype: "float32" });
  assertClose(await a.solve([3, 5]).tolist(), [0.8, 1.4]);
  assertClose(await a.inv().matmul(a).tolist(), [[1, 0], [0, 1]]);
  assertClose(await a.det().item(), 5);
});

// ---- plain JavaScript

each("an image from a canvas, and back", async () => {
  const rgba = new Uint8ClampedArray([255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255, 255, 255, 255, 255]);
  const gray = new Tensor(rgba).reshape([2, 2, 4]).at("...", [0, 3]).float().matmul([0.299, 0.587, 0.114]);
  assertEquals(await gray.round().clamp(0, 255).cast("uint8").data(), new Uint8Array([76, 150, 29, 255]));
});

each("frames of samples", async () => {
  const samples = Float32Array.from({ length: 16 }, (_, i) => Math.sin(i));
  const frames = Array.from({ length: 4 }, (_, i) => samples.subarray(4 * i, 4 * i + 4));
  const loudness = new Tensor(frames).square().mean(1).sqrt();
  assertClose(await loudness.tolist(), frames.map((f) => Math.sqrt(f.reduce((a, b) => a + b * b, 0) / 4)));
});

each("lists of tensors, filtered, mapped and reduced", async () => {
  const rows = [...new Tensor([[3, 1], [2, 5], [4, 4]])].filter((_, i) => i !== 1).map((row) => row.mul(10));
  assertEquals(await Tensor.stack(rows).tolist(), [[30, 10], [40, 40]]);
  assertEquals(await [1, 2, 3].map((n) => new Tensor([n, n])).reduce((a, b) => a.add(b)).tolist(), [6, 6]);
  const x = Tensor.arange(100).float().realize();
  assertEquals(await Promise.all([1, 2, 3].map((k) => x.mul(k).sum().item())), [4950, 9900, 14850]);
});

each("words by numbers, names by scores", async () => {
  const words = new Map([["a", 0], ["b", 1], ["c", 2]]), ids = Uint16Array.from("cab", (c) => words.get(c)!);
  assertEquals(await Tensor.eye(3).at(ids).tolist(), [[0, 0, 1], [1, 0, 0], [0, 1, 0]]);
  const names = ["x", "y", "z"], order = await new Tensor([0.2, 0.9, 0.5]).argsort(0, { descending: true }).data();
  assertEquals(Array.from(order as Int32Array, (i) => names[i]), ["y", "z", "x"]);
});

each("descent on a function of a list that it takes apart", async () => {
  const f = (p: Tensor): Tensor => {
    const [a, b] = p;
    return a.sub(1).square().add(b.sub(a.square()).square().mul(10));
  };
  const step = jit((p: Tensor) => {
    const [value, slope] = valueAndGrad(f)(p);
    return { value, next: p.sub(slope.mul(0.01)) };
  });
  let p = new Tensor([-1, 1], { dtype: "float32" }), value = 0, a = -1, b = 1, want = 0;
  for (let i = 0; i < 50; i++) {
    const done = step(p);
    [p, value] = [done.next, Number(await done.value.item())];
    want = (a - 1) ** 2 + 10 * (b - a * a) ** 2;
    [a, b] = [a - 0.01 * (2 * (a - 1) - 40 * a * (b - a * a)), b - 0.01 * 20 * (b - a * a)];
  }
  assertClose(value, want, 1e-4);
  assertClose(await p.tolist(), [a, b], 1e-4);
});

each("gradients of each example", async () => {
  const w = new Tensor([1, 2], { dtype: "float32" }), x = new Tensor([[1, 2], [3, 4]], { dtype: "float32" });
  const slopes = vmap((x: Tensor) => grad((w: Tensor) => x.mul(w).sum().square())(w));
  assertEquals(await slopes(x).tolist(), [[10, 20], [66, 88]]);
});

each("weights to bytes and back, in a scope", async () => {
  const bytes = await state.safeBytes({ w: Tensor.arange(6).reshape([2, 3]).float() });
  const sum = scope(() => {
    const [first, second] = state.safeParse(bytes).w;
    return first.add(second).realize();
  });
  assertEquals(await sum.tolist(), [3, 5, 7]);
});
