/**
 * Deep and wide graphs: chains of thousands of ops are scheduled without recursion, in kernels of bounded size, with work
 * that grows as the graph does. Values against closed forms.
 */
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { scheduleNodes } from "../../src/schedule/schedule.ts";
import { nodesMade, toposort } from "../../src/uop/core/uop.ts";
import { Device, Tensor } from "../../mod.ts";
import { optimized } from "../fixtures/optimized.ts";
import { openObserving } from "../support/snapshot_writers.ts";

const DEVICE = "WASM";
Device.default = DEVICE;
const t = (x: number[] | number[][], dtype?: string): Tensor =>
  new Tensor(x, dtype === undefined ? { device: DEVICE } : { device: DEVICE, dtype: dtype as "float32" }).realize();

function chain(n: number, x: Tensor, step: (x: Tensor, i: number) => Tensor): Tensor {
  for (let i = 0; i < n; i++) x = step(x, i);
  return x;
}

/** Tensors that must live as long as what is made of them. */
interface Shape {
  readonly name: string;
  readonly n: number;
  readonly make: (n: number) => Tensor;
  /** The first value of the result. */
  readonly want: (n: number) => number;
}

function gradient(x: Tensor, f: (x: Tensor) => Tensor): Tensor {
  x.requiresGrad = true;
  f(x).sum().backward();
  return x.grad!;
}

const SHAPES: readonly Shape[] = [
  { name: "add a number", n: 12_000, make: (n) => chain(n, t([1, 2]), (x) => x.add(1)), want: (n) => n + 1 },
  {
    name: "add itself",
    n: 5_000,
    make: (n) => chain(n, t([1, 2]), (x) => x.add(x)),
    want: (n) => (n < 31 ? 2 ** n : 0),
  },
  { name: "sine", n: 5_000, make: (n) => chain(n, t([1.5, 2.5]), (x) => x.sin()), want: sines },
  {
    name: "reduce and repeat",
    n: 2_000,
    make: (n) => chain(n, t([[1, 2], [3, 4]], "float32"), (x) => x.sum(0, { keepdim: true }).mul(0.5).expand([2, 2])),
    want: () => 2,
  },
  {
    name: "softmax",
    n: 1_000,
    make: (n) => chain(n, t([[1, 2], [3, 4]], "float32"), (x) => x.softmax(1)),
    want: () => 0.5,
  },
  {
    name: "reshape and permute",
    n: 5_000,
    make: (n) => chain(n, t([[1, 2, 3], [4, 5, 6]]), (x) => x.reshape([3, 2]).permute([1, 0])),
    want: () => 1,
  },
  {
    name: "pad and shrink",
    n: 5_000,
    make: (n) => chain(n, t([1, 2, 3]), (x) => x.pad([[1, 0]]).shrink([[0, 3]])),
    want: () => 0,
  },
  { name: "flip and add", n: 5_000, make: (n) => chain(n, t([1, 2, 3]), (x) => x.flip(0).add(1)), want: (n) => n + 1 },
  { name: "where", n: 5_000, make: (n) => chain(n, t([1, 2, 3]), (x) => x.lt(2).where(x, x.sub(1))), want: () => 1 },
  {
    name: "cast",
    n: 5_000,
    make: (n) => chain(n, t([1, 2]), (x, i) => x.cast(i % 2 === 1 ? "int32" : "float32").add(1)),
    want: (n) => n + 1,
  },
  { name: "detach", n: 5_000, make: (n) => chain(n, t([1, 2]), (x) => x.detach().add(1)), want: (n) => n + 1 },
  { name: "contiguous", n: 2_000, make: (n) => chain(n, t([1, 2]), (x) => x.add(1).contiguous()), want: (n) => n + 1 },
  {
    name: "matmul",
    n: 2_000,
    make: (n) => {
      const w = t([[0, 1], [1, 0]], "float32");
      return chain(n, t([[1, 2], [3, 4]], "float32"), (x) => x.matmul(w));
    },
    want: () => 1,
  },
  {
    name: "a running sum of losses",
    n: 1_500,
    make: (n) => {
      const x = t([1, 2, 3], "float32");
      return chain(n, t([0], "float32"), (sum, i) => sum.add(x.mul(i % 5).sum()));
    },
    want: (n) => 12 * n,
  },
  {
    name: "assign",
    n: 2_000,
    make: (n) => chain(n, t([1, 2]), (x) => x.assign(x.add(1))),
    want: (n) => n + 1,
  },
  {
    name: "a sum of many inputs",
    n: 2_000,
    make: (n) => Array.from({ length: n }, (_, i) => t([i, 1])).reduce((a, b) => a.add(b)),
    want: (n) => n * (n - 1) / 2,
  },
  {
    name: "stack of many",
    n: 1_000,
    make: (n) => {
      const all = Array.from({ length: n }, (_, i) => t([i, 1]));
      return all[0].stack(all.slice(1)).sum(0);
    },
    want: (n) => n * (n - 1) / 2,
  },
  {
    name: "cat of many",
    n: 1_000,
    make: (n) => {
      const all = Array.from({ length: n }, (_, i) => t([n - i, 1]));
      return all[0].cat(all.slice(1));
    },
    want: (n) => n,
  },
  {
    name: "gradient of products",
    n: 5_000,
    make: (n) => gradient(t([1.5, 2.5]), (x) => chain(n, x, (y) => y.mul(0.9999).add(0.001))),
    want: (n) => 0.9999 ** n,
  },
  {
    name: "gradient of sines",
    n: 100,
    make: (n) => gradient(t([1.5, 2.5]), (x) => chain(n, x, (y) => y.sin())),
    want: (n) => {
      let x = 1.5, slope = 1;
      for (let i = 0; i < n; i++, x = Math.sin(x)) slope *= Math.cos(x);
      return slope;
    },
  },
  {
    name: "gradient of reductions",
    n: 1_000,
    make: (n) =>
      gradient(
        t([[1, 2], [3, 4]], "float32"),
        (x) => chain(n, x, (y) => y.sum(0, { keepdim: true }).mul(0.5).expand([2, 2])),
      ),
    want: () => 1,
  },
];

function sines(n: number): number {
  let x = 1.5;
  for (let i = 0; i < n; i++) x = Math.sin(x);
  return x;
}

for (const { name, n, make, want } of SHAPES) {
  Deno.test(`deep: ${n} of ${name}`, async () => {
    const [first] = (await make(n).flatten().tolist()) as number[];
    assertAlmostEquals(first, want(n), Math.max(1e-6, Math.abs(want(n)) * 1e-3));
  });
}

/** Nodes that scheduling makes, kernels, and the nodes of the largest one. */
function workOf(make: () => Tensor): { made: number; kernels: number; largest: number } {
  const { uop } = make(), before = nodesMade();
  const items = scheduleNodes([uop]).variant.items.filter((i) => i.kind === "kernel");
  const made = nodesMade() - before;
  return { made, kernels: items.length, largest: Math.max(...items.map((i) => toposort(i.ast!).length)) };
}

Deno.test("deep: work grows as the graph does, kernels do not", () => {
  const x = t([1.5, 2.5]);
  const shapes: ((n: number) => Tensor)[] = [
    (n) => chain(n, x, (y) => y.mul(0.99).add(1)),
    (n) => chain(n, x, (y) => y.sin()),
    (n) => chain(n, x, (y) => y.flip(0).add(y)),
  ];
  for (const make of shapes) {
    const a = workOf(() => make(2000)), b = workOf(() => make(4000));
    assert(b.made < 2.5 * a.made, `${a.made} nodes, then ${b.made}`);
    assert(b.kernels < 2.2 * a.kernels + 2, `${a.kernels} kernels, then ${b.kernels}`);
    assert(b.largest < 8192, `a kernel of ${b.largest} nodes`);
  }
});

Deno.test("deep: printing and disposing of a long chain", () => {
  const x = chain(20_000, t([1, 2]), (y) => y.add(1));
  assert(Deno.inspect(x).includes("int32"));
  x.dispose();
  assertEquals(Device.get(DEVICE).name, DEVICE);
});

Deno.test(
  "deep: an operand of a product on a card may be a long chain",
  optimized(() => {
    const device = openObserving("CUDA"), [x, y] = [1, 2].map(() => Tensor.empty([256, 256], { device: device.name }));
    const operand = chain(20_000, x, (z, i) => i % 2 === 0 ? z.sin() : z.add(y));
    operand.matmul(y).realize();
    assert(device.kernels.some((k) => k.program.opts?.includes("STAGE")), "a product in tiles");
    assert(device.kernels.length < 200, `${device.kernels.length} kernels`);
  }),
);

for (const writer of ["CUDA", "WEBGPU"]) {
  Deno.test(
    `deep: positions of which each is made of two quotients of the one before are looked at once (${writer})`,
    optimized(() => {
      for (const n of [40, 150, 1500]) {
        const { name, kernels } = openObserving(writer), before = kernels.length;
        const x = Tensor.empty([2, 3], { device: name, dtype: "int32" });
        chain(n, x, (y) => y.permute([1, 0]).reshape([2, 3])).contiguous().realize();
        assert(kernels.length > before && kernels.length < 20, `${kernels.length} kernels`);
      }
    }),
  );
}
