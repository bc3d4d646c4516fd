/**
 * Values and gradients that were wrong when people who had read only the documentation computed them: each program as
 * it was written, and what PyTorch, NumPy or exact arithmetic say, on every device. @module
 */
import { grad, jit, nn, Tensor, type TensorOptions } from "../../mod.ts";
import { reported, type Row, thrown } from "./reported.ts";

const R = (x: ConstructorParameters<typeof Tensor>[0], o?: TensorOptions): Tensor => new Tensor(x, o).realize();
const I64 = (...x: bigint[]): Tensor => R(new BigInt64Array(x));
const f32 = (x: number[] | number[][]): Tensor => R(x, { dtype: "float32" });
const slope = (f: (x: Tensor) => Tensor, ...at: number[]): Tensor => grad((x: Tensor) => f(x).sum())(f32(at));
const loose = (x: unknown): never => x as never;
const NO_FLOAT64 = ["WEBGPU"];

/** The write and a read of what it overwrites are results of one schedule, in both orders of the list. */
function writes(make: () => Tensor, read: (t: Tensor) => Tensor, write: (t: Tensor) => void): () => Promise<unknown[]> {
  return async () => {
    const all: unknown[] = [];
    for (const order of [0, 1]) {
      const t = make(), before = read(t);
      write(t);
      Tensor.realize(order === 0 ? [t, before] : [before, t]);
      all.push(await t.tolist(), await before.tolist());
    }
    return all;
  };
}

const [ROW, ROWS] = [[0, 9, 2], [[0, 7], [2, 7]]];
const makers: Record<string, (x: number[] | number[][]) => Tensor> = {
  "realized": (x) => R(x),
  "lazy": (x) => new Tensor(x),
  "computed": (x) => new Tensor(x).add(0),
  "of memory of its own": (x) => new Tensor(x).mul(1).contiguous().realize(),
};
for (const [name, make] of Object.entries(makers)) {
  reported(`the view that is written to is a result, ${name}`, {
    "an element": {
      run: writes(() => make([0, 1, 2]), (t) => t.at(1), (t) => t.setAt([1], 9)),
      want: [ROW, 1, ROW, 1],
    },
    "a column": {
      run: writes(() => make([[0, 1], [2, 3]]), (t) => t.at(":", 1), (t) => t.setAt([":", 1], 7)),
      want: [ROWS, [1, 3], ROWS, [1, 3]],
    },
    "a transpose": {
      run: writes(() => make([[0, 1], [2, 3]]), (t) => t.T.at(1), (t) => t.T.setAt([1], 7)),
      want: [ROWS, [1, 3], ROWS, [1, 3]],
    },
  });
}

const wide = (): Tensor =>
  Tensor.arange(70000).contiguous().realize().reshape([70000, 1]).expand([70000, 70000]).flatten();
reported("beyond 2^31 elements", {
  "cat": {
    run: () =>
      R([1]).expand([3e9]).cat([R([2]).expand([3e9])]).at(
        new Tensor(new BigInt64Array([2999999999n, 3000000000n, 5999999999n])),
      ),
    want: [1, 2, 2],
  },
  "pad": {
    run: () => R([1, 2]).pad([3e9, 5], { value: 7 }).at(new Tensor(new BigInt64Array([2999999999n, 3000000000n]))),
    want: [7, 1],
  },
  "flip": { run: () => wide().flip(0).at([0, 2]), want: [69999, 69999] },
  "computed index": { run: () => wide().at(I64(4899999999n).add(0)), want: [69999] },
  "shrink": {
    run: () => {
      const r = Tensor.arange(70000).contiguous().realize();
      return r.reshape([70000, 1]).add(r).flatten().shrink([[4899999997, 4899999999]]);
    },
    want: [139996, 139997],
  },
});

const BY_SCALAR: Record<string, (x: Tensor, c: number) => Tensor> = {
  add: (x, c) => x.add(c),
  mul: (x, c) => x.mul(c),
  div: (x, c) => x.div(1 / c),
  maximum: (x, c) => x.maximum(c),
  where: (x, c) => x.gt(0).where(x, c),
  maskedFill: (x, c) => x.maskedFill(x.lt(2), c),
  full: (x, c) => Tensor.full([2], c, { dtype: x.dtype }).add(x),
  lt: (x, c) => x.lt(c),
};
const SCALARS = [0.5, 0.25, 2, 4];
const plain = (name: string, x: number, c: number): number | boolean => {
  if (name === "add" || name === "full") return x + c;
  if (name === "mul" || name === "div") return x * c;
  if (name === "maximum") return Math.max(x, c);
  return name === "where" ? x : name === "lt" ? x < c : x < 2 ? c : x;
};
const narrow = ["float16", "bfloat16", "fp8e4m3", "fp8e5m2"] as const;
for (const dtype of narrow) {
  reported(
    `the second and later values of a scalar beside ${dtype}`,
    Object.fromEntries(
      Object.entries(BY_SCALAR).map(([name, f]): [string, Row] => [name, {
        run: async () => {
          const x = R([1, 2]).cast(dtype).realize(), g = jit((x: Tensor, c: number) => f(x, c));
          const all: unknown[] = [];
          for (const c of SCALARS) all.push(await f(x, c).tolist());
          for (const c of SCALARS) all.push(await g(x, c).tolist());
          return all;
        },
        want: [...SCALARS, ...SCALARS].map((c) => [1, 2].map((x) => plain(name, x, c))),
        near: dtype === "fp8e5m2" ? 0.13 : 0,
      }]),
    ),
  );
}

reported("division with a rest", {
  "mod by 2 pi": {
    run: () => R([1e6, 1e4, 100]).mod(2 * Math.PI),
    // of the divisor in float32, exactly
    want: [1e6, 1e4, 100].map((x) => x % Math.fround(2 * Math.PI)),
    near: 1.2e-7,
  },
  "fmod beyond 2^24": {
    run: () => R([5, 1e20]).fmod(R([1e-8, 3])),
    want: [5 % Math.fround(1e-8), Math.fround(1e20) % 3],
    near: 1.2e-7,
  },
  "mod beyond 2^24": {
    run: () => R([1e9]).mod(R([2 * Math.PI])),
    want: [1e9 % Math.fround(2 * Math.PI)],
    near: 1.2e-7,
  },
  "fmod by little": { run: () => R([1]).fmod(R([1.3e-38])), want: [1 % Math.fround(1.3e-38)], near: 1.2e-7 },
  // which drivers of GPUs may take for 0
  "fmod by a subnormal number": {
    run: () => R([1]).fmod(R([1e-38])),
    want: [1 % Math.fround(1e-38)],
    near: 1.2e-7,
    except: ["WEBGPU"],
  },
  "floorDiv of infinity": { run: () => R([Infinity]).floorDiv(1), want: [NaN] },
});

reported("whole numbers from 2^31 on", {
  "eq": { run: () => R(new Uint32Array([3000000000])).eq(3000000001), want: [false] },
  "ge": { run: () => I64(3000000000n).ge(3000000001), want: [false] },
  "setAt": {
    run: () => {
      const l = I64(1n);
      l.setAt([0], 2 ** 40 + 1);
      return l;
    },
    want: [1099511627777],
  },
  "maskedFill": {
    run: async () => {
      const t = I64(5000000001n).maskedFill(R([true]), 5000000003);
      return [t.dtype.name, await t.tolist()];
    },
    want: ["int64", [5000000003]],
  },
  "add, clamp, where": {
    run: async () => {
      const x = I64(5000000001n),
        all = [x.add(5000000003), x.clamp(undefined, 5000000000), x.gt(0).where(5000000003, x)];
      return [all.map((t) => t.dtype.name), await Promise.all(all.map((t) => t.tolist()))];
    },
    want: [["int64", "int64", "int64"], [[10000000004], [5000000000], [5000000003]]],
  },
  "-2147483648 beside int32": { run: () => R([-2147483648, 5]).eq(-2147483648), want: [true, false] },
});

reported("linear algebra", {
  "the slope of singular values of three columns": {
    run: () => grad((x: Tensor) => x.svd(false)[1].sum())(f32([[1, 2, 0.5], [3, 1, 4], [2, 2.5, 1]])),
    // U V^T, of NumPy
    want: [[-0.41430458, 0.86824802, 0.27294155], [0.42627225, -0.07985179, 0.90106363], [
      0.80414158,
      0.4896622,
      -0.33702707,
    ]],
    near: 2e-3,
  },
  "inv, det, solve, cholesky, qr under jit": {
    run: async () => {
      const a = f32([[4, 2], [2, 3]]), b = f32([[1], [2]]), all: unknown[] = [];
      const fs = [
        (x: Tensor) => x.inv(),
        (x: Tensor) => x.det(),
        (x: Tensor) => x.solve(b),
        (x: Tensor) => x.cholesky(),
        (x: Tensor) => x.qr()[1].abs(),
      ];
      for (const f of fs) {
        const captured = jit(f), want = await f(a).tolist();
        for (let i = 0; i < 4; i++) all.push(JSON.stringify(await captured(a).tolist()) === JSON.stringify(want));
      }
      return all;
    },
    want: new Array(20).fill(true),
  },
});

const ones4 = (): Tensor => Tensor.ones([8, 8]).contiguous();
reported("pools", {
  "maxUnpool2d checks its indices": {
    run: () => [
      thrown(() =>
        ones4().maxUnpool2d(Tensor.zeros([8, 7], { dtype: "int64" }).contiguous(), [3], { stride: [2] }).realize()
      )[0],
      thrown(() => Tensor.ones([1, 1, 2, 2]).maxUnpool2d(Tensor.zeros([1, 1, 3, 3], { dtype: "int32" })))[0],
    ],
    want: ["ShapeError", "ShapeError"],
  },
  "maxUnpool2d writes a shared maximum once": {
    run: () =>
      f32([[5, 5]]).reshape([1, 1, 1, 2]).maxUnpool2d(R([[[[1, 1]]]]), [1, 2], { stride: [1, 1], outputSize: [1, 3] }),
    want: [[[[0, 5, 0]]]],
  },
  "ties give the slope to the first": {
    run: () => grad((x: Tensor) => x.maxPool2d([2, 2]).sum())(Tensor.zeros([1, 1, 2, 2]).contiguous()),
    want: [[[[1, 0], [0, 0]]]],
  },
  "padding beyond half": {
    run: () => thrown(() => Tensor.ones([1, 1, 4, 4]).maxPool2d([2, 2], { padding: 2 }))[0] !== "nothing",
    want: true,
  },
});

reported("deep graphs", {
  "5,000 additions": {
    run: () => {
      let x = R([1, 2]);
      for (let i = 0; i < 5000; i++) x = x.add(1);
      return x.realize();
    },
    want: [5001, 5002],
  },
  "1,500 sums": {
    run: () => {
      let x = f32([1, 2]);
      for (let i = 0; i < 1500; i++) x = x.sub(x.mean());
      return x.realize();
    },
    want: [-0.5, 0.5],
    except: ["WEBGPU"], // the same graph, in a minute
  },
  "5,000 reshapes and permutations": {
    run: () => {
      let x = R([[1, 2, 3], [4, 5, 6]]);
      for (let i = 0; i < 5000; i++) x = x.permute([1, 0]).reshape([2, 3]);
      return x.realize().sum();
    },
    want: 21,
  },
});

reported("attention", {
  "a row that the mask hides": {
    run: () => {
      const q = Tensor.ones([1, 2, 2]).contiguous().realize();
      return q.scaledDotProductAttention(q, q, R([[[true, false], [false, false]]]));
    },
    want: [[[1, 1], [0, 0]]],
  },
  "and its gradients": {
    run: () => {
      const mask = R([[[true, false], [false, false]]]);
      return grad((q: Tensor) => q.scaledDotProductAttention(q, q, mask).sum())(Tensor.ones([1, 2, 2]).contiguous());
    },
    want: [[[1, 1], [0, 0]]],
  },
});

reported("slopes", {
  "cos": { run: () => slope((x) => x.cos(), 1e-4, 1e5), want: [-9.99999975e-5, -0.0357487968], near: 1e-6 },
  "cos at 0": { run: async () => Math.abs((await slope((x) => x.cos(), 0).tolist() as number[])[0]), want: 0 },
  "sin at pi / 2": { run: () => slope((x) => x.sin(), Math.PI / 2), want: [-4.371139e-8], near: 1e-5 },
  "leakyRelu at 0": { run: () => slope((x) => x.leakyRelu(0.25), 0), want: [0.25] },
  "acosh and atanh at 1": {
    run: () => [slope((x) => x.acosh(), 1), slope((x) => x.atanh(), 1, -1)],
    want: [[Infinity], [Infinity, Infinity]],
  },
  "sign, x^0, of what requires a gradient": {
    run: () =>
      [(x: Tensor) => x.sign(), (x: Tensor) => x.pow(0), (x: Tensor) => f32([1, 2]).copysign(x)].map((f) => {
        const x = new Tensor([1.5, -2], { requiresGrad: true });
        f(x).sum().backward();
        return x.grad!.abs();
      }),
    want: [[0, 0], [0, 0], [0, 0]],
  },
  "second derivatives of what is linear": {
    run: () => grad((x: Tensor) => grad((y: Tensor) => y.mul(3).sum())(x).sum())(f32([1, 2])),
    want: [0, 0],
  },
  "det of nothing": {
    run: () => {
      const x = new Tensor(new Float32Array(0), { requiresGrad: true }).reshape([0, 0]);
      return x.det().backward();
    },
    want: 1,
  },
});

reported("edges", {
  "pow of -1 to infinities": { run: () => R([-1, -1]).float().pow(R([Infinity, -Infinity])), want: [1, 1] },
  "-0 + 0": { run: async () => Object.is((await f32([-0]).add(f32([0])).tolist() as number[])[0], 0), want: true },
  "-0 is not 0 in a captured call": {
    run: async () => {
      const a = f32([1]), minus = f32([-0]), all: unknown[] = [];
      const fs = [
        (a: Tensor, n: number) => a.div(a.mul(n)),
        (a: Tensor, n: number) => a.div(minus.add(n)),
        (a: Tensor, n: number) => a.mul(1 / n),
        (a: Tensor, n: number) => a.div(Tensor.full([1], n, { dtype: "float32" })),
      ].map((f) => jit(f));
      for (const f of fs) {
        for (const n of [0, 0, -0, -0, 0, -0]) all.push((await f(a, n).tolist() as number[])[0]);
      }
      return all;
    },
    want: Array.from({ length: 24 }, (_, i) => [2, 3, 5].includes(i % 6) ? -Infinity : Infinity),
  },
  "float64 rounds once": {
    run: () => {
      const x = R([1 + 2 ** -11 + 2 ** -40], { dtype: "float64" });
      return [x.half().float(), x.bfloat16().float()];
    },
    want: [[1.0009765625], [1]],
    except: NO_FLOAT64,
  },
  "int32 to bfloat16 rounds once": { run: () => R([16842753]).bfloat16().float(), want: [16908288] },
  "int64 to float32 rounds once": {
    run: () => I64((1n << 53n) + (1n << 29n) + 1n).float(),
    want: [Number((1n << 53n) + (1n << 30n))],
  },
  "no dtype where it is undefined": {
    run: () => {
      const x = R([0.5], { dtype: "float64" }), o = { dtype: undefined };
      const all = [x.fullLike(0.1, o), x.onesLike(o), x.zerosLike(o), x.emptyLike(o), x.randLike(o)];
      return all.map((t) => t.dtype.name);
    },
    want: new Array(5).fill("float64"),
  },
  "norms of an empty batch": {
    run: () => [
      new nn.GroupNorm(1, 2).call(Tensor.zeros([0, 2, 3])).shape,
      new nn.InstanceNorm(2).call(Tensor.zeros([0, 2, 3])).shape,
    ],
    want: [[0, 2, 3], [0, 2, 3]],
  },
  "small integers widen": {
    run: async () => {
      const x = R(new Int8Array([100, 100]));
      const all = [x.cumsum(0), x.prod(), x.cumprod(0), Tensor.einsum("i,i->", [x, x]), x.sum()];
      return [await Promise.all(all.map((t) => t.tolist())), R(new Uint8Array([200, 100])).cumsum(0)];
    },
    want: [[[100, 200], 10000, [100, 10000], 20000, 200], [200, 300]],
  },
});

const x = (): Tensor => Tensor.ones([2, 2]);
const CALLS: Record<string, () => unknown> = {
  "gather": () => x().gather(0, loose(undefined)),
  "conv2d": () => x().conv2d(loose(undefined)),
  "nllLoss": () => x().nllLoss(loose(undefined)),
  "crossEntropy": () => x().crossEntropy(loose(1)),
  "attention": () => x().scaledDotProductAttention(loose(undefined), loose(undefined)),
  "einsum without a formula": () => Tensor.einsum(loose(5), [x()]),
  "einsum without a tensor": () => Tensor.einsum("i->i", [loose(5)]),
  "step outside of train": () => {
    const w = new Tensor([1.5], { requiresGrad: true });
    w.sum().backward();
    new nn.optim.SGD([w], { lr: 1 }).step();
  },
  "where": () => x().gt(0).where(loose(undefined), 1),
  "isclose": () => x().isclose(x(), { rtol: -1 }),
  "hardtanh": () => x().hardtanh({ minVal: 1, maxVal: 0 }),
  "normal": () => Tensor.normal([2], { std: -1 }),
  "linspace": () => Tensor.linspace(0, 1, 2, { dtype: "bool" }),
  "to": () => x().to(loose(null)),
  "options for a mask": () => x().scaledDotProductAttention(x(), x(), loose({ isCausal: true, no: 1 })),
  "options for a bias": () => x().conv2d(x(), loose({ strid: 2 })),
  "options for a kernel": () => Tensor.ones([1, 1, 4, 4]).maxPool2d(loose({ strid: 2 })),
};
Deno.test("reported: errors are the library's own, and name the call", () => {
  const bare = Object.entries(CALLS).map(([name, f]) => [name, ...thrown(f)])
    .filter(([, kind, text]) =>
      kind === "TypeError" || kind === "Error" || kind === "nothing" || !/^Cannot /.test(text)
    );
  if (bare.length > 0) throw new Error(bare.map((b) => b.join(": ")).join("\n"));
});
