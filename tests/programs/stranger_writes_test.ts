/**
 * Writes in place and steps of optimizers as people write them who have not read how they are scheduled: values are those
 * of an eager program.
 */
import { type DTypeName, nn, Tensor } from "../../mod.ts";
import { reported, type Row, valuesOf } from "./reported.ts";

const F = (x: ConstructorParameters<typeof Tensor>[0]): Tensor => new Tensor(x, { dtype: "float32" }).realize();
const I = (x: ConstructorParameters<typeof Tensor>[0], dtype: DTypeName = "int32"): Tensor =>
  new Tensor(x, { dtype }).realize();

/** 0 and -0 are the same here. */
const unsigned = (x: unknown): unknown => Array.isArray(x) ? x.map(unsigned) : x === 0 ? 0 : x;
function row(name: string, run: Row["run"], want: unknown, near = 0): void {
  reported("strangers write", { [name]: { run: async () => unsigned(await valuesOf(run())), want, near } });
}

row("shift right in place", () => {
  const a = I([1, 2, 3, 4]);
  a.setAt([[1, null]], a.at([0, -1]));
  return a;
}, [1, 1, 2, 3]);
row("shift left through assign on a view", () => {
  const a = I([1, 2, 3, 4]);
  a.at([0, 3]).assign(a.at([1, 4]));
  return a;
}, [2, 3, 4, 4]);
row("swap rows by index lists", () => {
  const a = I([[1, 2], [3, 4], [5, 6]]);
  a.setAt([new Tensor([0, 2])], a.at(new Tensor([2, 0])));
  return a;
}, [[5, 6], [3, 4], [1, 2]]);
row("every second", () => {
  const a = I([0, 0, 0, 0, 0]);
  a.at([0, null, 2]).assign(I([1, 2, 3]));
  return a;
}, [1, 0, 2, 0, 3]);
row("diagonal add in place", () => {
  const a = F([[1, 2], [3, 4]]);
  a.diagonal().addInPlace(10);
  return a;
}, [[11, 2], [3, 14]]);
row("mask write", () => {
  const a = F([1, -2, 3, -4]);
  a.setAt([a.lt(0)], 0);
  return a;
}, [1, 0, 3, 0]);
row("transposed reshape write", () => {
  const a = F([[1, 2, 3], [4, 5, 6]]);
  a.T.at([0, 2]).setAt([":", 1], 9);
  return a;
}, [[1, 2, 3], [9, 9, 6]]);
row("unflatten write", () => {
  const a = F([1, 2, 3, 4, 5, 6]);
  a.reshape([2, 3]).setAt([1, 1], -1);
  return a;
}, [1, 2, 3, 4, -1, 6]);
row("unsqueeze, expand read, write base", () => {
  const a = F([1, 2]);
  const e = a.unsqueeze(0).expand([3, 2]).add(0);
  a.mulInPlace(10);
  Tensor.realize([e, a]);
  return [e, a];
}, [[[1, 2], [1, 2], [1, 2]], [10, 20]]);
row("fibonacci in place", () => {
  const a = I([1, 1, 0, 0, 0, 0, 0, 0]);
  for (let i = 2; i < 8; i++) a.setAt([i], a.at(i - 1).add(a.at(i - 2)));
  return a;
}, [1, 1, 2, 3, 5, 8, 13, 21]);
row("prefix by doubling", () => {
  const a = I([1, 2, 3, 4, 5]);
  for (const s of [1, 2, 4]) a.at([s, null]).addInPlace(a.at([0, -s]));
  return a;
}, [1, 3, 6, 10, 15]);
row("tensor swap of three", () => {
  const [a, b, c] = [1, 2, 3].map((v) => F([v]));
  const [x, y, z] = [a.add(0), b.add(0), c.add(0)];
  a.assign(y);
  b.assign(z);
  c.assign(x);
  Tensor.realize([a, b, c]);
  return [a, b, c];
}, [[2], [3], [1]]);
row("ema beside a step", () => {
  const w = new Tensor([1, 2], { requiresGrad: true, dtype: "float32" }),
    e = w.detach().clone(),
    o = new nn.optim.SGD([w], { lr: 0.5 });
  for (let i = 0; i < 2; i++) {
    Tensor.train(() => {
      o.zeroGrad();
      w.square().sum().backward();
      o.step();
      e.mulInPlace(0.5).addInPlace(w.detach().mul(0.5));
      e.realize();
    });
  }
  return [w, e];
}, [[0, 0], [0.25, 0.5]]);
row(
  "hard copy to a target",
  async () => {
    const w = new Tensor([1, 2], { requiresGrad: true, dtype: "float32" }),
      target = w.detach().clone().realize(),
      o = new nn.optim.SGD([w], { lr: 0.1 });
    Tensor.train(() => {
      w.sum().backward();
      o.step();
    });
    const before = await target.tolist();
    target.assign(w.detach());
    Tensor.train(() => {
      o.zeroGrad();
      w.sum().backward();
      o.step();
    });
    return [before, target, w];
  },
  [[1, 2], [0.9, 1.9], [0.8, 1.8]],
  1e-6,
);
row("a ring of views, realized first", () => {
  const a = F([0, 1, 2, 3]);
  const v = [0, 1, 2, 3].map((i) => a.at([i, i + 1]).realize());
  for (let i = 0; i < 4; i++) v[i].assign(v[(i + 1) % 4].add(10));
  return a;
}, [11, 12, 13, 21]);
row("a bool of a written tensor", () => {
  const a = I([1, 2, 3]), m = a.gt(1);
  a.setAt([0], 9);
  Tensor.realize([m, a]);
  return [m, a.gt(1)];
}, [[false, true, true], [true, true, true]]);

// ---- optimizers
row(
  "tied weights",
  () => {
    const w = new Tensor([[1, 0], [0, 1]], { requiresGrad: true, dtype: "float32" }),
      o = new nn.optim.SGD([w], { lr: 0.1 });
    Tensor.train(() => {
      w.at(new Tensor([0])).matmul(w.T).sum().backward();
      o.step();
    });
    return w;
  },
  [[0.8, -0.1], [-0.1, 1]],
  1e-6,
);
row("a parameter given twice", async () => {
  const w = new Tensor([1], { requiresGrad: true, dtype: "float32" });
  let e = "";
  try {
    const o = new nn.optim.SGD([w, w], { lr: 0.1 });
    Tensor.train(() => {
      w.sum().backward();
      o.step();
    });
  } catch (x) {
    e = (x as Error).name;
  }
  const v = await w.item();
  return e !== "" || Math.abs(Number(v) - 0.9) < 1e-6;
}, true);
row(
  "gan: two optimizers",
  () => {
    const g = new Tensor([1], { requiresGrad: true, dtype: "float32" }),
      q = new Tensor([2], { requiresGrad: true, dtype: "float32" });
    const og = new nn.optim.SGD([g], { lr: 0.1 }), oq = new nn.optim.SGD([q], { lr: 0.1 });
    Tensor.train(() => {
      q.mul(g.detach()).sum().backward();
      oq.step();
      og.zeroGrad();
      oq.zeroGrad();
      q.mul(g).sum().backward();
      og.step();
    });
    return [g, q];
  },
  [[1 - 0.1 * 1.9], [1.9]],
  1e-6,
);
row(
  "accumulation",
  () => {
    const w = new Tensor([1], { requiresGrad: true, dtype: "float32" }), o = new nn.optim.SGD([w], { lr: 0.1 });
    Tensor.train(() => {
      for (let i = 1; i <= 3; i++) w.mul(i).sum().backward();
      o.step();
    });
    return w;
  },
  [1 - 0.6],
  1e-6,
);
row(
  "frozen",
  () => {
    const a = new Tensor([1], { requiresGrad: true, dtype: "float32" }),
      b = new Tensor([1], { requiresGrad: true, dtype: "float32" }),
      o = new nn.optim.Adam([a, b], { lr: 0.1 });
    b.requiresGrad = false;
    Tensor.train(() => {
      a.mul(b).sum().backward();
      o.step();
    });
    return [a, b];
  },
  [[0.9], [1]],
  1e-4,
);
row(
  "adam of two that meet",
  () => {
    const a = new Tensor([1], { requiresGrad: true, dtype: "float32" }),
      b = new Tensor([3], { requiresGrad: true, dtype: "float32" }),
      o = new nn.optim.Adam([a, b], { lr: 0.1 });
    for (let i = 0; i < 2; i++) {
      Tensor.train(() => {
        o.zeroGrad();
        a.mul(b).sum().backward();
        o.step();
      });
    }
    return [a, b];
  },
  [[0.8], [2.8]],
  1e-2,
);
