/** Long float sums against float64: what is rounded off does not grow with the number of elements. */
import { assert, assertEquals } from "@std/assert";
import { CompiledKernel, context, Device, schedule, Tensor, Variable } from "../../../mod.ts";
import { parseOpts, withOpts } from "../../../src/codegen/opt/opt.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { prod } from "../../../src/helpers/math.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { Random } from "../../support/random.ts";
import { openObserving } from "../../support/snapshot_writers.ts";
import { CAPS, opts, possible, run } from "../harness.ts";

const TENTH = Math.fround(0.1);

/** Numbers above 0 that float32 holds: a wave that rounds this way and that. */
function wave(n: number): Float32Array {
  return Float32Array.from({ length: n }, (_, i) => Math.sin(i * 1.7) + 1.3);
}

/** What is asked of `n` equal numbers x, and of a wave y; the exact value from the sums over y in float64. */
const FORMS: readonly [
  name: string,
  of: (x: Tensor, y: Tensor, n: number) => Tensor,
  want: (n: number, s: { sum: number; squares: number; about: number }) => number,
][] = [
  ["mean of equal numbers", (x) => x.mean(), () => TENTH],
  ["sum", (_, y) => y.sum(), (_, s) => s.sum],
  ["sum of two", (x, y) => x.add(y).sum(), (n, s) => s.sum + n * TENTH],
  ["dot", (_, y) => y.dot(y), (_, s) => s.squares],
  ["dot of equal numbers", (x) => x.dot(x), (n) => n * TENTH * TENTH],
  ["norm", (_, y) => y.square().sum().sqrt(), (_, s) => Math.sqrt(s.squares)],
  ["var", (_, y) => y.var(), (n, s) => s.about / (n - 1)],
  ["mean of varMean", (_, y) => y.varMean()[1], (n, s) => s.sum / n],
  ["last of cumsum", (x) => x.cumsum().at(-1), (n) => n * TENTH],
  ["columns", (x, _, n) => x.reshape([n / 4, 4]).sum(0).max(), (n) => n / 4 * TENTH],
  ["product", (x, _, n) => x.reshape([n / 4, 4]).transpose().matmul(x.reshape([n / 4, 4])).max(), (n) => {
    return n / 4 * TENTH * TENTH;
  }],
  ["logsumexp", (x) => x.logsumexp(), (n) => TENTH + Math.log(n)],
  ["gradient of a scale", (x) => {
    const c = new Tensor([1], { device: x.device, dtype: "float32" });
    return x.mul(c).sum().gradient([c])[0];
  }, (n) => n * TENTH],
];

for (const device of await devicesHere()) {
  const { software } = Device.get(device).info();
  for (const NOOPT of device === "CLANG" || device === "WASM" ? [0, 1] : [0]) {
    const n = device === "JS" ? 40_004 : software === true || NOOPT === 1 ? 100_004 : 400_012;
    Deno.test(`long sums ${device}: ${n} elements within 3e-6${NOOPT ? ", without opts" : ""}`, async () => {
      const values = wave(n), mean = values.reduce((a, v) => a + v, 0) / n, s = { sum: mean * n, squares: 0, about: 0 };
      for (const v of values) {
        s.squares += v * v;
        s.about += (v - mean) ** 2;
      }
      const x = Tensor.full([n], TENTH, { device }).contiguous().realize(), y = new Tensor(values, { device });
      const wrong: string[] = [];
      for (const [name, of, want] of FORMS) {
        const got = Number(await context({ NOOPT }, () => of(x, y, n).realize()).item()), exact = want(n, s);
        if (!(Math.abs(got / exact - 1) < 3e-6)) wrong.push(`${name}: ${got}, not ${exact}`);
      }
      assertEquals(wrong, []);
    });
  }
}

Deno.test("long sums: an axis that ends at a variable", async () => {
  const most = 200_000, x = Tensor.full([most], TENTH, { device: "WASM" }).contiguous().realize();
  const v = new Variable("long", 1, most);
  for (const n of [1, 511, 512, 513, 100_003, 199_999]) {
    const got = await x.shrink([[0, v.bind(n)]]).sum().item();
    assert(Math.abs(got / (n * TENTH) - 1) < 3e-6, `${n}: ${got}`);
  }
});

Deno.test("long sums: a running sum is right everywhere", async () => {
  const n = 300_003, got = await Tensor.full([n], TENTH, { device: "WASM" }).contiguous().cumsum().data();
  let worst = 0;
  for (let i = 0; i < n; i++) worst = Math.max(worst, Math.abs(Number(got[i]) / ((i + 1) * TENTH) - 1));
  assert(worst < 2e-6, String(worst));
});

Deno.test("long sums: ordinary lengths have one loop, integers and maxima too; kernels stay as many", () => {
  const { renderer } = Device.get("JS");
  const loops = (t: Tensor): number[] =>
    schedule([t]).filter((s) => s.ast !== undefined).map((s) =>
      toProgram(s.ast!, renderer).uops.filter((u) => u.op === Ops.RANGE).length
    );
  const of = (n: number, dtype: "float32" | "int32" = "float32") => Tensor.empty([n], { device: "JS", dtype });
  assertEquals(loops(of(1024).sum()), [1]);
  assertEquals(loops(of(1025).sum()), [2]);
  assertEquals(loops(of(1024).dot(of(1024))), [1]);
  assertEquals(loops(of(1 << 15).sum()), [2]);
  assertEquals(loops(of(1 << 22).sum()), [3]);
  assertEquals(loops(of(1 << 22).max()), [1]);
  assertEquals(loops(of(1 << 22, "int32").sum()), [1]);
  assertEquals(loops(of(1 << 22).prod()), [1]);
});

Deno.test("long sums on a grid: a loop that two sums share is copied where it is cut inside of different loops", () => {
  const { name } = openObserving("CUDA"), { renderer } = Device.get(name);
  const x = Tensor.empty([224, 112, 512], { device: name });
  const partial = schedule([x.sub(x.mean()).square().sum()]).flatMap(({ runner }) =>
    runner instanceof CompiledKernel && runner.ast.src.length > 0 ? [runner.ast] : []
  );
  let count = 0;
  for (const ast of partial) {
    for (const opts of ["UNROLL:1:8", "GROUP:0:32 UNROLL:1:8", "UNROLL:0:4 LOCAL:0:4 UNROLL:1:16"]) {
      try {
        const { name } = toProgram(withOpts(ast, parseOpts(opts)!), renderer);
        assert(name.startsWith("r_"));
        count++;
      } catch (error) {
        assertEquals((error as Error).name, "ArgumentError"); // a kernel of one loop
      }
    }
  }
  assert(count >= 3, `${count} programs`);
});

Deno.test("long sums: of any axes, in any copies, ends of loops are of loops that are there, and sums are right", () => {
  const random = new Random(2), f32 = dtypes.float32, last = (sizes: readonly number[]) => prod(sizes) - 1;
  let runs = 0, rests = 0;
  for (let n = 0; n < 200; n++) {
    const sizes = Array.from({ length: 3 }, () => random.pick([5, 8, 13, 22, 27, 55, 110])), rows = 3;
    if (prod(sizes) > 200000) sizes[0] = 8;
    const i = range(rows, 0, AxisKind.LOOP), own = sizes.map((size, k) => range(size, 1 + k, AxisKind.REDUCE));
    const along = (order: readonly number[]): UOp => order.reduce((at, k) => at.mul(sizes[k]).add(own[k]), i.mul(0));
    const x = load(index(param(1, f32, rows * prod(sizes)), along([0, 1, 2]).add(i.mul(prod(sizes)))));
    // read in another order, so that no two axes are one
    const y = load(index(param(2, f32, prod(sizes)), along([2, 1, 0])));
    const ast = sink([store(index(param(0, f32, rows), i), reduce(opCarrier(Ops.ADD, f32), [x.mul(y)], own))]);
    const chosen = [0, 1, 2].flatMap((k) => random.below(4) ? [`UNROLL:${k}:${random.pick([2, 4, 8])}`] : []);
    if (random.below(2)) chosen.unshift(`UPCAST:0:${random.pick([2, 3])}`);
    const linear = possible(ast, opts(chosen.join(" ")), CAPS.large);
    if (linear === undefined) continue;
    if (sizes.some((size) => size % 2 === 1)) rests++;
    if (n % 25 !== 0) continue;
    const data = [
      new Float32Array(rows),
      new Float32Array(rows * prod(sizes)).fill(1),
      new Float32Array(prod(sizes)).fill(1),
    ];
    data[1][last(sizes)] = 5;
    assertEquals([...run(ast, data, undefined, CAPS.large, [], linear)[0] as Float32Array], [
      prod(sizes) + 4,
      prod(sizes),
      prod(sizes),
    ]);
    runs++;
  }
  assert(runs >= 4 && rests >= 20, `${runs} runs, ${rests} with what is left of an axis`);
});
