/**
 * What went wrong for people who wrote in place, promoted dtypes, took gradients and gave sizes by variables, after they
 * had read only the documentation: each program as it was written, and what it must give, on every device. @module
 */
import { grad, jit, nn, state, Tensor, type TensorOptions, Variable } from "../../mod.ts";
import { reported, type Row, thrown } from "./reported.ts";

const R = (x: ConstructorParameters<typeof Tensor>[0], o?: TensorOptions): Tensor => new Tensor(x, o).realize();
const f32 = (x: number[] | number[][]): Tensor => R(x, { dtype: "float32" });
const loose = (x: unknown): never => x as never;

// ---- steps of optimizers whose parameters meet, against steps by hand

/** Functions of two parameters, and how they start. */
const MEETING: Record<string, [loss: (a: Tensor, b: Tensor, x: Tensor) => Tensor, a: number[][], b: number[][]]> = {
  "a x + b": [(a, b, x) => x.mul(a).add(b).sub(x.mul(3)).square().mean(), [[0.5]], [[0.1]]],
  "a product of both": [(a, b, x) => a.matmul(b).sub(x).square().sum(), [[1, 2], [0.5, -1]], [[0.3, 1], [2, -1]]],
  "a sum of products": [(a, b) => a.mul(b).sum(), [[1, 2]], [[3, -1]]],
  "a low rank beside a weight": [
    (a, b, x) => x.matmul(x.add(a.matmul(b))).square().mean(),
    [[1], [2]],
    [[0.5, -0.5]],
  ],
  "a norm's weight and bias": [(a, b, x) => x.layernorm().mul(a).add(b).square().sum(), [[1, 2]], [[0.1, 0.2]]],
};
const X = (): Tensor => f32([[1, 2], [3, 5]]);
for (const [name, [loss, a0, b0]] of Object.entries(MEETING)) {
  const run = (momentum: number): Row["run"] => async () => {
    const [a, b] = [a0, b0].map((v) => new Tensor(v, { requiresGrad: true, dtype: "float32" })), x = X();
    const o = new nn.optim.SGD([a, b], { lr: 0.01, momentum });
    // by hand: every gradient of the values before the step
    let now = [f32(a0), f32(b0)], speed = [f32(a0).mul(0), f32(b0).mul(0)];
    for (let i = 0; i < 3; i++) {
      Tensor.train(() => {
        o.zeroGrad();
        loss(a, b, x).backward();
        o.step();
      });
      const slopes = grad((a: Tensor, b: Tensor) => loss(a, b, x), { argnums: [0, 1] })(now[0], now[1]) as Tensor[];
      speed = speed.map((s, k) => s.mul(momentum).add(slopes[k]).realize());
      now = now.map((p, k) => p.sub(speed[k].mul(0.01)).realize());
    }
    const got = [await a.data(), await b.data()], want = [await now[0].data(), await now[1].data()];
    return got.every((g, k) =>
      [...g].every((v, i) => Math.abs(Number(v) - Number(want[k][i])) < 1e-5 * (1 + Math.abs(Number(want[k][i]))))
    );
  };
  reported(`a step of parameters that meet: ${name}`, {
    "plain": { run: run(0), want: true },
    "with momentum": { run: run(0.9), want: true },
  });
}

// ---- writes through views

const BASE = (): Tensor => f32([[0, 1, 2], [3, 4, 5], [6, 7, 8]]);
/** What is written through a view, and what the tensor is then. */
const THROUGH: Record<string, [write: (c: Tensor) => void, want: number[][]]> = {
  "a slice": [(c) => c.at([1, 3]).assign(Tensor.full([2, 3], 9)), [[0, 1, 2], [9, 9, 9], [9, 9, 9]]],
  "a transpose": [(c) => c.permute([1, 0]).assign(f32([[1, 2, 3], [4, 5, 6], [7, 8, 9]])), [[1, 4, 7], [2, 5, 8], [
    3,
    6,
    9,
  ]]],
  "what is cut": [(c) => c.shrink([[0, 1], [1, 3]]).assign(f32([[8, 9]])), [[0, 8, 9], [3, 4, 5], [6, 7, 8]]],
  "an element of a row": [(c) => c.at(1).setAt([2], 5.5), [[0, 1, 2], [3, 4, 5.5], [6, 7, 8]]],
  "what is turned around": [(c) => c.flip(0).setAt([0], -1), [[0, 1, 2], [3, 4, 5], [-1, -1, -1]]],
  "without a gradient": [(c) => c.detach().setAt([0, 0], 7), [[7, 1, 2], [3, 4, 5], [6, 7, 8]]],
  "in place": [(c) => c.at(":", 1).mulInPlace(10), [[0, 10, 2], [3, 40, 5], [6, 70, 8]]],
  "other bits": [(c) => c.bitcast("uint32").assign(Tensor.full([3, 3], 0x40000000, { dtype: "uint32" })), [
    [2, 2, 2],
    [2, 2, 2],
    [2, 2, 2],
  ]],
  "bits of a row": [(c) => c.at(2).bitcast("int32").assign(Tensor.full([3], 0x3f800000, { dtype: "int32" })), [
    [0, 1, 2],
    [3, 4, 5],
    [1, 1, 1],
  ]],
  "a view of a view": [(c) => c.T.at([1, 3]).flip(1).at(0).assign(f32([[10, 11, 12]]).squeeze(0)), [
    [0, 12, 2],
    [3, 11, 5],
    [6, 10, 8],
  ]],
};
reported(
  "writes through a view reach the tensor",
  Object.fromEntries(
    Object.entries(THROUGH).flatMap(([name, [write, want]]) => [
      [name, {
        run: () => {
          const c = BASE();
          write(c);
          return c;
        },
        want,
      }],
      [`${name}, of a lazy value, read with a sum of it`, {
        run: async () => {
          const c = BASE().add(0);
          write(c);
          const total = c.sum();
          Tensor.realize([total, c]);
          return [await c.tolist(), await total.tolist()];
        },
        want: [want, want.flat().reduce((a, b) => a + b)],
      }],
    ]),
  ),
);
reported("writes at variables and side by side", {
  "a row at a bound variable": {
    run: async () => {
      const c = Tensor.zeros([4, 2]).contiguous().realize(), p = new Variable("p", 0, 3);
      for (const i of [0, 2, 3]) c.at([p.bind(i), p.bind(i).add(1)], ":").assign(Tensor.full([1, 2], i + 1)).realize();
      return await c.tolist();
    },
    want: [[1, 1], [0, 0], [3, 3], [4, 4]],
  },
  "two disjoint views of one buffer in one schedule": {
    run: () => {
      const big = f32([1, 2, 3, 4]), u = big.at([0, 2]), v = big.at([2, 4]);
      u.assign(v.add(1));
      v.assign(u.add(1));
      Tensor.realize([u, v, big]);
      return [big, u, v];
    },
    want: [[4, 5, 5, 6], [4, 5], [5, 6]],
  },
  "an argument of a captured function": {
    run: async () => {
      const f = jit((t: Tensor) => {
        t.assign(t.mul(2).add(1));
        return t.sum();
      });
      const a = f32([1, 2]), sums: unknown[] = [];
      for (let i = 0; i < 4; i++) sums.push(await f(a).item());
      return [sums, a];
    },
    want: [[8, 18, 38, 78], [31, 47]],
  },
});

// ---- dtypes

reported("promotion and sums of narrow integers", {
  "uint64 beside smaller signed integers": {
    run: async () => {
      const u = R([1000n], { dtype: "uint64" }), all: unknown[] = [];
      for (const dtype of ["int8", "int16", "int32", "int64"] as const) {
        const s = R([1], { dtype }), sum = u.add(s);
        all.push([sum.dtype.name, await sum.tolist(), await u.lt(s.add(0)).tolist(), u.cat([s]).dtype.name]);
      }
      return [all, await u.lt(1001).tolist()];
    },
    want: [new Array(4).fill(["float32", [1001], [false], "float32"]), [true]],
  },
  "cumsum": {
    run: async () => {
      const all: unknown[] = [];
      for (const dtype of ["int8", "int16", "uint8", "uint16"] as const) {
        const c = R([100, 100, 100], { dtype }).cumsum(0);
        all.push([c.dtype.name, await c.tolist()]);
      }
      return all;
    },
    want: ["int32", "int32", "uint32", "uint32"].map((d) => [d, [100, 200, 300]]),
  },
  "a bias takes the dtype of the product": {
    run: () => f32([[1, 2]]).linear(f32([[1], [1]]), f32([1]), { dtype: "float16" }).dtype.name,
    want: "float16",
  },
  "interpolation of bytes is rounded": {
    run: () => R(new Uint8Array([0, 10])).reshape([1, 1, 2]).interpolate([4], { mode: "linear" }).dtype.name,
    want: "uint8",
  },
});

// ---- gradients

const slopes = (f: (x: Tensor) => Tensor, ...at: number[]): Tensor => grad((x: Tensor) => f(x).sum())(f32(at));
reported("slopes of powers and of what is flat", {
  "x^1.2, x^0.3, x^-2, x^-1.2": {
    run: () => [
      slopes((x) => x.pow(1.2), -28),
      slopes((x) => x.pow(1.5), -28),
      slopes((x) => x.pow(0.3), 0),
      slopes((x) => x.pow(-2), 0),
      slopes((x) => x.pow(-1.2), 0),
    ],
    want: [[NaN], [NaN], [Infinity], [-Infinity], [-Infinity]],
  },
  "of the base, where the exponent is a tensor": {
    run: () =>
      [
        slopes((x) => x.pow(f32([0.5])), 0),
        slopes((x) => x.pow(f32([-1])), 0),
        slopes((x) => x.pow(f32([1.5])), -1),
        slopes((x) => x.pow(f32([0])), NaN),
        slopes((x) => x.pow(f32([0])), -Infinity),
      ].map((t) => t.add(0)),
    want: [[Infinity], [-Infinity], [NaN], [0], [0]],
  },
  "of the exponent of a negative base": { run: () => slopes((x) => f32([-5.5]).pow(x), 1.5), want: [NaN] },
  "acosh at 1 and below": {
    run: () => slopes((x) => x.acosh(), 1, -2),
    want: [Infinity, 1 / Math.sqrt(3)],
    near: 1e-6,
  },
  "copysign at 0": { run: () => slopes((x) => x.copysign(f32([1])), 0), want: [0] },
  "sign, copysign and x^0 in gradient()": {
    run: () =>
      [(x: Tensor) => x.sign(), (x: Tensor) => f32([1]).copysign(x), (x: Tensor) => x.pow(0)].map((f) => {
        const x = new Tensor([1.5], { requiresGrad: true });
        return f(x).sum().gradient([x])[0].abs();
      }),
    want: [[0], [0], [0]],
  },
});

// ---- shapes and sizes

const n = new Variable("n", 1, 10);
reported("shapes and symbolic sizes", {
  "rearrange takes ...": {
    run: () => [
      Tensor.zeros([2, 3]).rearrange("... -> (...)").shape,
      Tensor.zeros([2, 3, 4]).rearrange("a ... -> (...) a").shape,
      thrown(() => Tensor.zeros([6]).rearrange("(...) -> ..."))[0] !== "nothing",
    ],
    want: [[6], [12, 2], true],
  },
  "reflection where the other side is cut": {
    run: () => f32([0, 1, 2, 3, 4]).pad([3, -3], { mode: "reflect" }),
    want: [3, 2, 1, 0, 1],
  },
  "a constant cut of a symbolic axis": {
    run: () => Tensor.arange(10).contiguous().realize().at([0, n.bind(5)]).at([0, 2]).sum(),
    want: 1,
  },
  "the end of a symbolic axis, as far as it goes": {
    run: () => {
      const x = Tensor.arange(10).contiguous().realize();
      return [5, 2].map((v) => x.at([0, n.bind(v)]).at([-3, null]).sum());
    },
    want: [9, 1],
  },
  "a convolution whose padding cuts": {
    run: () => Tensor.arange(5).float().reshape([1, 1, 5]).conv1d(Tensor.ones([1, 1, 2]), undefined, { padding: -1 }),
    want: [[[3, 5]]],
  },
  "a norm of p = -1": { run: () => new Tensor([[1, 2]]).float().normalize({ p: -1 }), want: [[1.5, 3]] },
  "full, tril, arange of a variable": {
    run: () => [
      Tensor.full([3], n.bind(4)).sum(),
      Tensor.ones([3, 3]).tril(n.bind(1)).sum(),
      Tensor.ones([3, 3]).triu(n.bind(1)).sum(),
      Tensor.arange(0, 10, n.bind(5)).sum(),
    ],
    want: [12, 8, 3, 5],
  },
});

const CALLS: Record<string, () => unknown> = {
  "a negative deviation": () => Tensor.normal([2], { std: -1 }),
  "a line of bools": () => Tensor.linspace(0, 1, 2, { dtype: "bool" }),
  "no device": () => f32([1]).to(loose(null)),
  "options for a mask": () => f32([[1]]).scaledDotProductAttention(f32([[1]]), f32([[1]]), loose({ isCausal: true })),
  "options for a bias": () => Tensor.ones([1, 1, 2, 2]).conv2d(Tensor.ones([1, 1, 1, 1]), loose({ stride: 1 })),
  "no options of draws": () => nn.init.truncNormal(f32([[1]]), loose(null)),
  "no options of a place": () => state.place({}, ["JS"], loose(null)),
  "far too many dimensions": () => f32([1]).mvlgamma(2 ** 31),
  "options for a size": () => Tensor.ones([1, 1, 4, 4]).avgPool2d(loose({ stride: 2 })),
};
for (const [name, call] of Object.entries(CALLS)) {
  Deno.test(`reported: ${name} are no raw TypeError`, () => {
    const [kind, text] = thrown(call);
    // taken as what it is meant to be, or refused by name
    if (kind !== "nothing" && (kind === "TypeError" || kind === "Error" || !/^Cannot /.test(text))) {
      throw new Error(`${kind}: ${text}`);
    }
    if (/deviation|line|device|^no |far/.test(name) && kind === "nothing") throw new Error(`${name} is taken`);
  });
}
