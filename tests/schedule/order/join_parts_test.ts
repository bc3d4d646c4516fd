/** Sums of parts are taken by the kernel that reads them, on a simulated grid: where that is once, and with the same values. */
import { assert, assertEquals } from "@std/assert";
import { context, Device, dtypes, GlobalCounters, Tensor } from "../../../mod.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { SCALAR_CAPS } from "../../../src/renderer/renderer.ts";
import { joinParts } from "../../../src/schedule/order/join_parts.ts";
import type { EntryInfo, TemplateItem } from "../../../src/schedule/order/template.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { specKernel, verify } from "../../../src/uop/core/spec.ts";
import { index, int, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { run } from "../../codegen/harness.ts";
import { registerSim, simCaps } from "../../fixtures/sim.ts";
import { Random } from "../../support/random.ts";

registerSim();
Device.get("SIM" as string);

const PARTS = 4, ROWS = 64, COLUMNS = 520;

/** Whole numbers `[parts, rows, columns]`, that are in memory. */
function numbers(shape: readonly number[], device: string, seed = 1): Tensor {
  const random = new Random(seed), n = shape.reduce((a, b) => a * b);
  return new Tensor(Float32Array.from({ length: n }, () => random.below(200) - 100), { device }).reshape([...shape])
    .realize();
}

/** What `f` gives on the grid, in how many kernels, and what it gives on JS. */
async function both(f: (x: Tensor) => Tensor | Tensor[], shape: readonly number[], seed = 1) {
  const run = (device: string): Tensor[] => [f(numbers(shape, device, seed))].flat();
  const got = run("SIM"), before = GlobalCounters.kernelCount;
  optimized(() => Tensor.realize(got))();
  const kernels = GlobalCounters.kernelCount - before;
  const want = await context({ NOOPT: 1 }, () => Promise.all(run("JS").map((t) => t.data())));
  return { got: await Promise.all(got.map((t) => t.data())), kernels, want };
}

/** The sum of parts that a kernel before has made, in a kernel of its own. */
const summed = (x: Tensor): Tensor => x.mul(3).contiguous().sum(0).contiguous();

const CASES: readonly (readonly [string, number, (x: Tensor) => Tensor | Tensor[]])[] = [
  ["what is elementwise", 2, (x) => summed(x).mul(2).add(1).contiguous()],
  ["what reads others beside", 2, (x) => summed(x).mul(x.at(0)).contiguous()],
  ["a part of the results at a time", 2, (x) => summed(x).reshape([2, ROWS / 2, COLUMNS]).sum(0)],
  ["not what reads it turned", 3, (x) => summed(x).transpose(0, 1).contiguous()],
  ["not what reads it for several", 3, (x) => summed(x).unsqueeze(0).expand([3, ROWS, COLUMNS]).add(x.at([0, 3]))],
  ["not what reads a part of it", 3, (x) => summed(x).at([1, 4]).add(1).contiguous()],
  ["not what two kernels read", 4, (x) => {
    const s = summed(x);
    return [s.add(1).contiguous(), s.transpose(0, 1).contiguous()];
  }],
  ["not what is asked for", 3, (x) => {
    const s = summed(x);
    return [s, s.add(1).contiguous()];
  }],
  ["not many terms", 3, (x) => summed(x).sum(1)],
];

for (const [name, count, f] of CASES) {
  Deno.test(`join parts: ${name}`, async () => {
    const { got, kernels, want } = await both(f, [PARTS, ROWS, COLUMNS]);
    assertEquals(got, want);
    assertEquals(kernels, count);
  });
}

const f32 = dtypes.float32, SIZE = 24;
const info = (size: number): EntryInfo => (
  { device: "SIM", dtype: f32, size, slot: undefined, versions: 1, kept: false, view: undefined }
);
const at = (slot: number, size: number, idx: UOp): UOp => index(param(slot, f32, size), idx);
const [i, j, k] = [range(4, 0, AxisKind.LOOP), range(6, 1, AxisKind.LOOP), range(5, 2, AxisKind.REDUCE)];
const place = i.mul(6).add(j);
/** Entry 1 is the sum, or another reduction, of parts in entry 0. */
const sumItem = (op: Ops = Ops.ADD, from = k.mul(SIZE).add(place)): TemplateItem => {
  const r = reduce(opCarrier(op, f32), [load(at(1, 5 * SIZE, from))], [k]);
  return { kind: "kernel", device: "SIM", entries: [1, 0], ast: sink([store(at(0, SIZE, place), r)]), vars: [], at: 0 };
};
/** Entry 2 is what `value` makes of a read of entry 1 at an index. */
const reader = (value: (read: (idx: UOp) => UOp) => UOp = (read) => read(place).mul(2), to = place): TemplateItem => {
  const ast = sink([store(at(0, SIZE, to), value((idx) => load(at(1, SIZE, idx))))]);
  return { kind: "kernel", device: "SIM", entries: [2, 1], ast, vars: [], at: 1 };
};
const joined = (items: readonly TemplateItem[], infos = [info(5 * SIZE), info(SIZE), info(SIZE)], caps = simCaps()) =>
  joinParts(items, infos, () => caps);

Deno.test("join parts: the kernel that reads has the parts, and gives what both give", () => {
  const items = [sumItem(), reader()],
    [one, ...others] = joined(items),
    x = Float32Array.from({ length: 5 * SIZE }, (_, i) => i % 7);
  assertEquals([one.entries, others.length], [[2, 0], 0]);
  verify(one.ast!, specKernel, "after it has the parts");
  const [sum] = run(items[0].ast!, [new Float32Array(SIZE), x], []);
  const want = run(items[1].ast!, [new Float32Array(SIZE), sum], [])[0];
  assertEquals(run(one.ast!, [new Float32Array(SIZE), x], [])[0], want);
});

Deno.test("join parts: what is no sum of parts, or not read once, stays", () => {
  const changed = (e: number, change: Partial<EntryInfo>): EntryInfo[] =>
    [info(5 * SIZE), info(SIZE), info(SIZE)].map((x, n) => n === e ? { ...x, ...change } : x);
  const cases: Record<string, readonly TemplateItem[]> = {
    "a largest one": joined([sumItem(Ops.MAX), reader()]),
    "parts side by side": joined([sumItem(Ops.ADD, place.mul(5).add(k)), reader()]),
    "read in two places": joined([sumItem(), reader((read) => read(place).add(read(i.mul(6).add(int(5).sub(j)))))]),
    "read turned": joined([sumItem(), reader(undefined, j.mul(4).add(i))]),
    "read by two": joined([sumItem(), reader(), reader()]),
    "asked for": joined([sumItem(), reader()], changed(1, { kept: true })),
    "written twice": joined([sumItem(), reader()], changed(1, { versions: 2 })),
    "a buffer of the program": joined([sumItem(), reader()], changed(1, { slot: 0 })),
    "parts that somebody may write": joined([sumItem(), reader()], changed(0, { slot: 0 })),
    "no grid": joined([sumItem(), reader()], undefined, SCALAR_CAPS),
  };
  for (const [name, items] of Object.entries(cases)) assert(items.length >= 2, name);
});

Deno.test("join parts: a sum that is written anew before it is read keeps what it was", async () => {
  const y = numbers([PARTS, ROWS, COLUMNS], "SIM"), s = y.sum(0).contiguous(), x = y.at(0).add(0).contiguous();
  y.assign(y.mul(0));
  optimized(() => Tensor.realize([y, s.add(x).contiguous()]))();
  assertEquals(await y.data(), new Float32Array(PARTS * ROWS * COLUMNS));
});

Deno.test("join parts: random programs, as kernel by kernel", async () => {
  const random = new Random(7);
  let joined = 0;
  for (let n = 0; n < 60; n++) {
    const shape = [random.int(2, 9), random.int(1, 5), random.pick([1, 3, 8, 33])],
      later = random.below(7),
      dtype = random.pick([
        dtypes.float32,
        dtypes.int32,
        dtypes.float16,
      ]);
    const f = (x: Tensor): Tensor => {
      const s = x.mul(2).cast(dtype).contiguous().sum(0).contiguous(), y = x.at(0).cast(dtype);
      return [
        () => s.add(y).contiguous(),
        () => s.mul(y).sum(0),
        () => s.sum(1),
        () => s.reshape([-1]).add(1).contiguous(),
        () => s.flip([0]).sub(y).contiguous(),
        () => s.pad([[1, 0], [0, 2]]).contiguous(),
        () => s.gt(y).where(s, y).contiguous(),
      ][later]();
    };
    const { got, kernels, want } = await both(f, shape, n);
    assertEquals(got, want, JSON.stringify([shape, later, String(dtype)]));
    if (kernels < 3) joined++;
  }
  assert(joined > 15, `${joined} of 60`);
});
