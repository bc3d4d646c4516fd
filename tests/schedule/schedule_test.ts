/** What the scheduler makes of whole graphs: kernel counts, values, versions, cycles, the cache. Runs on JS alone. */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import {
  CompiledKernel,
  context,
  CycleError,
  Device,
  GlobalCounters,
  record,
  schedule,
  StaleReadError,
  Tensor,
} from "../../mod.ts";
import { scheduleCacheStats } from "../../src/schedule/schedule.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { broadcastTo } from "../../src/uop/core/build_movement.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { constant, uop } from "../../src/uop/core/uop.ts";
import { nodeView } from "../../src/uop/graph/view.ts";

Device.default = "JS";

function kernels(...ts: Tensor[]): number {
  return schedule(ts).filter((i) => i.runner instanceof CompiledKernel).length;
}

const real = (shape: number[]): Tensor => {
  const n = shape.reduce((a, b) => a * b, 1);
  return new Tensor(Float32Array.from({ length: n }, (_, i) => (i * 7 % 11) - 5)).reshape(shape).realize();
};

const COUNTS: [name: string, make: () => Tensor[], count: number][] = [
  ["ones*15 + ones*30", () => [Tensor.ones([10]).mul(15).add(Tensor.ones([10]).mul(30))], 0],
  ["x + 1", () => [real([10]).add(1)], 1],
  ["x + arange", () => [real([10]).add(Tensor.arange(10))], 1],
  ["dot", () => [new Tensor([1, 2]).dot(new Tensor([3, 4]))], 1],
  ["matmul + bias + relu", () => [real([8, 4]).matmul(real([4, 6])).add(real([6])).relu()], 1],
  ["eight movement ops", () => [
    real([4, 6]).pad([[1, 1], [0, 2]]).permute([1, 0]).flip([0]).shrink([[1, 7], [0, 5]]).reshape([5, 6]).permute([
      1,
      0,
    ]).reshape([3, 10]).flip([1]).add(1),
  ], 1],
  ["gather by a tensor", () => [real([9, 3]).at(new Tensor([2, 0, 5]).realize())], 1],
  ["conv + relu", () => [real([2, 3, 6, 6]).conv2d(real([4, 3, 3, 3]), undefined, { padding: 1 }).relu()], 1],
  ["sum of products over everything", () => [real([8, 8]).mul(real([8, 8])).sum()], 1],
];
for (const [name, make, count] of COUNTS) {
  Deno.test(`schedule: ${name} takes ${count} kernels`, () => assertEquals(kernels(...make()), count));
}

Deno.test("schedule: constants are filled by the host", async () => {
  const t = Tensor.ones([10]).mul(15).add(Tensor.ones([10]).mul(30));
  assertEquals(await t.tolist(), new Array(10).fill(45));
});

Deno.test("schedule: a lazy read in the schedule of the write sees the old value", async () => {
  const a = new Tensor([1, 2, 3]).realize();
  const b = a.add(1);
  a.assign(new Tensor([0, 0, 0]));
  Tensor.realize([a, b]);
  assertEquals([await a.tolist(), await b.tolist()], [[0, 0, 0], [2, 3, 4]]);
});

Deno.test("schedule: a lazy read after the write throws StaleReadError naming both lines", () => {
  const a = new Tensor([1, 2, 3]).realize();
  const b = a.add(1);
  a.assign(new Tensor([0, 0, 0])).realize();
  const error = assertThrows(() => b.realize(), StaleReadError) as StaleReadError;
  assertStringIncludes(error.writtenAt, "schedule_test.ts");
  assertStringIncludes(error.readAt, "schedule_test.ts");
});

Deno.test("schedule: assignments that read what the other overwrites are simultaneous", async () => {
  const a = new Tensor([1, 2]).realize(), b = new Tensor([3, 4]).realize();
  const oldA = a.add(0.5).sub(0.5).cast(a.dtype), oldB = b.mul(1);
  a.assign(oldB.flip([0]).add(0));
  b.assign(oldA.flip([0]).add(0));
  Tensor.realize([a, b]);
  assertEquals([await a.tolist(), await b.tolist()], [[4, 3], [2, 1]]);
});

Deno.test("schedule: two writes that follow the same version have no order", () => {
  const a = new Tensor([1, 2]).realize(), { base } = nodeView(a.uop);
  const write = (value: number) => {
    const store = uop(Ops.STORE, dtypes.void, [base, broadcastTo(constant(value, a.dtype), [2])]);
    return new Tensor(uop(Ops.AFTER, a.dtype, [base, store]));
  };
  const error = assertThrows(() => Tensor.realize([write(1), write(2)]), CycleError) as CycleError;
  assertEquals(error.lines.length, 2);
});

Deno.test("schedule: setAt in place reading itself at another index", async () => {
  const a = new Tensor([1, 2, 3, 4]).realize();
  a.setAt([[0, 3]], a.at([1, 4]));
  assertEquals(await a.tolist(), [2, 3, 4, 4]);
});

Deno.test("schedule: ten setAt on zeros", async () => {
  const t = Tensor.zeros([10]).contiguous();
  for (let i = 0; i < 10; i++) t.setAt([i], i);
  assertEquals(await t.tolist(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

Deno.test("schedule: one structure is lowered once, changing constants twice", async () => {
  const x = real([6]);
  const misses = scheduleCacheStats.misses;
  for (let i = 0; i < 5; i++) {
    assertEquals((await x.mul(0.5 + i).add(0.125).tolist() as number[])[0], -5 * (0.5 + i) + 0.125);
  }
  assertEquals(scheduleCacheStats.misses - misses, 2);
});

Deno.test("schedule: outputs of equal loops that share an input are one kernel", () => {
  const x = real([16]), a = x.add(1), b = x.mul(2);
  assertEquals(kernels(a, b), 1);
});

Deno.test("schedule: the kernels of layers that are alike are simplified once", () => {
  let x = Tensor.empty([9, 22], { device: "NULL" }).realize();
  const weights = Array.from({ length: 6 }, () => Tensor.empty([22, 22], { device: "NULL" }).realize());
  const { passes } = record(() => {
    for (const w of weights) x = x.matmul(w).relu().contiguous();
    return x.realize();
  });
  assertEquals(passes.filter((p) => p.name === "collapse reduces").length, 1);
});

Deno.test("schedule: NO_MEMORY_PLANNER gives the same values", async () => {
  const make = () => real([8, 8]).matmul(real([8, 8])).softmax().matmul(real([8, 8])).sum(1);
  const planned = await make().tolist();
  assertEquals(await context({ NO_MEMORY_PLANNER: 1, SCACHE: 0 }, () => make().tolist()), planned);
});

Deno.test("schedule: kernelize runs nothing, compiles, and shares one result", async () => {
  const x = real([32, 32]);
  const y = x.matmul(x).add(1);
  const before = GlobalCounters.kernelCount;
  y.kernelize();
  assertEquals(GlobalCounters.kernelCount, before);
  assertEquals(y.isRealized, false);
  assertEquals(kernels(y.add(1), y.mul(2)), 2);
  const a = y.add(1), b = y.mul(2);
  Tensor.realize([a, b]);
  assertEquals(GlobalCounters.kernelCount - before, 2);
  assertEquals((await b.tolist() as number[][])[0][0], 2 * ((await y.tolist() as number[][])[0][0]));
});

Deno.test("schedule: what is built anew is computed anew, also after its result was overwritten", async () => {
  const a = real([4]);
  const first = a.add(1).realize();
  first.assign(new Tensor([0, 0, 0, 0], { dtype: "float32" })).realize();
  const second = a.add(1);
  assertEquals(await second.tolist(), [-4, 3, -1, 6]);
});

Deno.test("schedule: items print what they do", () => {
  const x = real([2, 3]);
  const texts = schedule([
    x.add(1),
    Tensor.ones([4]).mul(2),
    Tensor.zeros([0, 3]).add(x.shrink([[0, 0], [0, 3]])),
    new Tensor([1, 2], { device: "NULL" }).to("JS"),
  ]).map(String);
  const expected = [
    /^CompiledKernel JS E_6 \(float32x6@JS, float32x6@JS\)$/,
    /^CustomOp fill \(float32x4@JS\)$/,
    /^EmptyOp \(float32x0@JS\)$/,
    /^BufferCopy 8 bytes, JS <- NULL \(int32x2@JS, int32x2@NULL\)$/,
  ];
  for (const pattern of expected) {
    assertEquals(texts.some((t) => pattern.test(t)), true, `${pattern} in ${texts.join("; ")}`);
  }
});

Deno.test("schedule: writes of parts that do not overlap are one kernel, in the order of the writes where they do", async () => {
  const t = Tensor.zeros([10]).contiguous().realize();
  for (let i = 0; i < 10; i++) t.setAt([i], i);
  assertEquals(kernels(t), 1);
  assertEquals(await t.tolist(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  const m = Tensor.zeros([4, 3]).contiguous().realize();
  for (let i = 0; i < 4; i++) m.setAt([i], new Tensor([i, i + 1, i + 2], { dtype: "float32" }));
  m.setAt([2], 9);
  m.setAt([2, 1], 7);
  m.setAt([":", 0], 5);
  assertEquals(await m.tolist(), [[5, 1, 2], [5, 2, 3], [5, 7, 9], [5, 4, 5]]);
});

Deno.test("schedule: a read between two writes sees the first and not the second", async () => {
  const t = Tensor.zeros([4]).contiguous().realize();
  const before = t.add(1);
  t.setAt([1], 3);
  const between = t.mul(2);
  t.setAt([2], 4);
  t.setAt([1], t.at(2).add(1));
  Tensor.realize([before, between, t]);
  assertEquals([await before.tolist(), await between.tolist(), await t.tolist()], [[1, 1, 1, 1], [0, 6, 0, 0], [
    0,
    5,
    4,
    0,
  ]]);
});
