/**
 * Writes by lists, masks and slices, updates of a value by itself, buffers that are filled step by step, and what is no
 * write: values are those of an eager program.
 */
import { type DTypeName, grad, jit, nn, Tensor, Variable } from "../../mod.ts";
import { reported, type Row, valuesOf } from "./reported.ts";

const F = (x: ConstructorParameters<typeof Tensor>[0]): Tensor => new Tensor(x, { dtype: "float32" }).realize();
const I = (x: ConstructorParameters<typeof Tensor>[0], dtype: DTypeName = "int32"): Tensor =>
  new Tensor(x, { dtype }).realize();

/** 0 and -0 are the same here. */
const unsigned = (x: unknown): unknown => Array.isArray(x) ? x.map(unsigned) : x === 0 ? 0 : x;
function row(name: string, run: Row["run"], want: unknown, near = 0): void {
  reported("strangers update", { [name]: { run: async () => unsigned(await valuesOf(run())), want, near } });
}

row("backwards slice write", () => {
  const a = I([1, 2, 3, 4]);
  a.setAt([[null, null, -1]], I([10, 20, 30, 40]));
  return a;
}, [40, 30, 20, 10]);
row("ellipsis write", () => {
  const a = F([[[1, 2], [3, 4]]]);
  a.setAt(["...", 0], 9);
  return a;
}, [[[9, 2], [9, 4]]]);
row("two index tensors", () => {
  const a = Tensor.zeros([3, 3]).contiguous().realize();
  a.setAt([new Tensor([0, 1, 2]), new Tensor([2, 1, 0])], F([1, 2, 3]));
  return a;
}, [[0, 0, 1], [0, 2, 0], [3, 0, 0]]);
row("outer index", () => {
  const a = Tensor.zeros([3, 3]).contiguous().realize();
  a.setAt([new Tensor([[0], [2]]), new Tensor([[0, 2]])], 1);
  return a;
}, [[1, 0, 1], [0, 0, 0], [1, 0, 1]]);
row("columns by a list, broadcast", () => {
  const a = Tensor.zeros([2, 3]).contiguous().realize();
  a.setAt([":", new Tensor([0, 2])], F([[5], [6]]));
  return a;
}, [[5, 0, 5], [6, 0, 6]]);
row("mask of two axes, a tensor's values", () => {
  const a = F([[1, -1], [-2, 2]]);
  a.setAt([a.lt(0)], a.neg());
  return a;
}, [[1, 1], [2, 2]]);
row(
  "in place by itself",
  () => {
    const a = F([1, 2, 3]);
    a.mulInPlace(a);
    a.subInPlace(a.mean());
    return a;
  },
  [1 - 14 / 3, 4 - 14 / 3, 9 - 14 / 3],
  1e-6,
);
row("normalized in place", () => {
  const a = F([1, 3]);
  a.divInPlace(a.sum());
  return a;
}, [0.25, 0.75]);
row("where the largest is", () => {
  const a = F([1, 5, 2]);
  a.setAt([a.argmax()], 0);
  return a;
}, [1, 0, 2]);
row("top by top", () => {
  const a = F([1, 5, 2]), o = [];
  for (let i = 0; i < 3; i++) {
    const m = a.argmax();
    o.push(m.clone());
    a.setAt([m], -Infinity);
  }
  Tensor.realize(o);
  return o;
}, [1, 2, 0]);
row("grad scaled by hand", () => {
  const w = new Tensor([1, 2], { requiresGrad: true, dtype: "float32" }), o = new nn.optim.SGD([w], { lr: 1 });
  Tensor.train(() => {
    w.mul(4).sum().backward();
    w.grad!.mulInPlace(0.25);
    o.step();
  });
  return w;
}, [0, 1]);
row(
  "grad clipped",
  () => {
    const w = new Tensor([3, 4], { requiresGrad: true, dtype: "float32" }), o = new nn.optim.SGD([w], { lr: 1 });
    Tensor.train(() => {
      w.square().mul(0.5).sum().backward();
      const n = w.grad!.square().sum().sqrt();
      w.grad!.assign(w.grad!.div(n));
      o.step();
    });
    return w;
  },
  [2.4, 3.2],
  1e-6,
);
row(
  "a weight that is a view of one vector",
  () => {
    const flat = new Tensor([1, 2, 3, 4], { requiresGrad: true, dtype: "float32" }),
      o = new nn.optim.SGD([flat], { lr: 0.5 });
    for (let i = 0; i < 2; i++) {
      Tensor.train(() => {
        o.zeroGrad();
        flat.at([0, 2]).mul(flat.at([2, 4])).sum().backward();
        o.step();
      });
    }
    return flat;
  },
  [-1.75, -1.5, 2.75, 3],
  1e-6,
);
row("assign a number", () => {
  const a = F([1, 2]);
  a.assign(7);
  return a;
}, [7, 7]);
row("assign broadcast", () => {
  const a = F([[1, 2], [3, 4]]);
  a.assign(F([9, 8]));
  return a;
}, [[9, 8], [9, 8]]);
row("matrix power in place", () => {
  const a = F([[1, 1], [1, 0]]), b = F([[1, 1], [1, 0]]);
  for (let i = 0; i < 5; i++) a.assign(a.matmul(b));
  return a;
}, [[13, 8], [8, 5]]);
row("transpose in place", () => {
  const a = F([[1, 2], [3, 4]]);
  a.assign(a.T);
  return a;
}, [[1, 3], [2, 4]]);
row("symmetrize in place", () => {
  const a = F([[1, 2], [3, 4]]);
  a.addInPlace(a.T);
  return a;
}, [[2, 5], [5, 8]]);
row("flip in place", () => {
  const a = F([1, 2, 3]);
  a.assign(a.flip(0));
  return a;
}, [3, 2, 1]);
row("sort in place", () => {
  const a = F([3, 1, 2]);
  a.assign(a.sort()[0]);
  return a;
}, [1, 2, 3]);
row("cumsum in place", () => {
  const a = F([1, 2, 3]);
  a.assign(a.cumsum(0));
  return a;
}, [1, 3, 6]);
row("conway-ish stencil in place", () => {
  const a = F([0, 1, 0, 0]);
  for (let i = 0; i < 2; i++) a.assign(a.roll(1).add(a.roll(-1)));
  return a;
}, [0, 2, 0, 2]);
row("game: gather rows and write columns", () => {
  const a = F([[1, 2], [3, 4]]);
  a.setAt([":", 0], a.at(1));
  return a;
}, [[3, 2], [4, 4]]);
row("history", () => {
  const h = Tensor.zeros([4, 2]).contiguous().realize();
  let x = F([1, 2]);
  for (let i = 0; i < 4; i++) {
    h.setAt([i], x);
    x = x.mul(2);
  }
  return [h, x];
}, [[[1, 2], [2, 4], [4, 8], [8, 16]], [16, 32]]);
row("queue", () => {
  const q = F([1, 2, 3]), out = [];
  for (let i = 4; i < 7; i++) {
    out.push(q.at(0).clone().realize());
    q.setAt([[0, 2]], q.at([1, 3]));
    q.setAt([2], i);
  }
  return [q, ...out];
}, [[4, 5, 6], 1, 2, 3]);
row("int in place by a float is refused, or kept", () => {
  const a = I([1, 2]);
  let e = "none";
  try {
    a.addInPlace(0.5);
    a.realize();
  } catch (x) {
    e = (x as Error).name;
  }
  return e;
}, "DTypeError");
row("assign other dtype", () => {
  const a = I([1, 2]);
  let e = "none";
  try {
    a.assign(F([1.5, 2.5]));
    a.realize();
  } catch (x) {
    e = (x as Error).name;
  }
  return e;
}, "DTypeError");
row("assign other shape", () => {
  const a = I([1, 2]);
  let e = "none";
  try {
    a.assign(I([1, 2, 3]));
    a.realize();
  } catch (x) {
    e = (x as Error).name;
  }
  return e;
}, "ShapeError");
row("stale advice", () => {
  const a = F([1, 2]), b = a.mul(2), c = b.clone().realize();
  a.assign(F([5, 5])).realize();
  return [c, a];
}, [[2, 4], [5, 5]]);
row("kv cache by variables", async () => {
  const K = Tensor.zeros([1, 8, 2]).contiguous().realize(),
    p = new Variable("p", 0, 7),
    step = jit((x: Tensor, at: Tensor) => {
      K.setAt([":", [at, at.add(1)]], x);
      return K.at(":", [0, at.add(1)]).sum();
    });
  const all = [];
  for (let i = 0; i < 6; i++) all.push(await step(F([[[i, 1]]]), p.bind(i)).item());
  return all;
}, [1, 3, 6, 10, 15, 21]);
row("two caches that swap", async () => {
  let a = F([1, 2]), b = F([0, 0]);
  const f = jit((x: Tensor, y: Tensor) => {
    y.assign(x.add(1));
    return y.sum();
  });
  const all = [];
  for (let i = 0; i < 5; i++) {
    all.push(await f(a, b).item());
    [a, b] = [b, a];
  }
  return [all, a, b];
}, [[5, 7, 9, 11, 13], [6, 7], [5, 6]]);
row(
  "lbfgs-like loop with reads",
  async () => {
    const x = F([3, -2]);
    for (let i = 0; i < 50; i++) {
      const g = grad((x: Tensor) => x.square().sum())(x);
      x.subInPlace(g.mul(0.2));
      if (Number(await x.abs().max().item()) < 1e-6) break;
    }
    return x.add(1);
  },
  [1, 1],
  1e-5,
);
row(
  "running mean beside",
  async () => {
    const bn = new nn.BatchNorm(2), x = F([[1, 2], [3, 6]]);
    const y = Tensor.train(() => bn.call(x));
    const v = await y.tolist();
    return [v, bn.runningMean!, bn.runningVar!];
  },
  [[[-1, -1], [1, 1]], [0.2, 0.4], [0.9 + 0.1 * 2, 0.9 + 0.1 * 8]],
  1e-3,
);
row("bitcast write of a slice", () => {
  const a = F([1, 2, 3]);
  a.at([1, 3]).bitcast("int32").bitwiseAnd(0x7fffffff);
  a.at([0, 1]).bitcast("uint32").assign(new Tensor([0xbf800000], { dtype: "uint32" }));
  return a;
}, [-1, 2, 3]);
row("expand is not written", () => {
  const a = F([1, 2]);
  let e = "none";
  try {
    a.unsqueeze(0).expand([2, 2]).assign(F([[1, 2], [3, 4]])).realize();
  } catch (x) {
    e = (x as Error).name;
  }
  return [e === "none" ? "written" : "refused"];
}, ["refused"]);
