/** Kernels within the buffer limits of their device, and long chains of writes: those are timed in buffer_limits_timed_test.ts. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { CompiledKernel, context, Device, DeviceError, OutOfMemoryError, schedule, Tensor } from "../../../mod.ts";
import { makeNullDevice, NULL_CAPS, nullBackend } from "../../../backends/null/null.ts";
import { registerBackend } from "../../../src/device/device.ts";
import { C_LANGUAGE } from "../../../src/renderer/c/c.ts";
import { CStyleRenderer } from "../../../src/renderer/c/cstyle.ts";

/** A device whose kernels take eight buffers. */
const EIGHT = "NULL:8";
registerBackend({
  ...nullBackend,
  open: (n) =>
    makeNullDevice(new CStyleRenderer(C_LANGUAGE, { ...NULL_CAPS, maxBuffers: n || 64 }), n ? `NULL:${n}` : "NULL"),
});
Device.default = "JS";

const vectors = (n: number, device: string): Tensor[] =>
  Array.from({ length: n }, (_, i) => new Tensor([i, 2 * i, -i, i + 1], { device, dtype: "float32" }).realize());

type Graph = (xs: readonly Tensor[]) => Tensor[];
const sumOf = (xs: readonly Tensor[]): Tensor => xs.reduce((a, b) => a.add(b));
/** Sums in pairs, then those in pairs. */
const tree = (xs: readonly Tensor[]): Tensor =>
  xs.length === 1 ? xs[0] : tree(xs.flatMap((x, i) => i % 2 === 1 ? [] : [i + 1 < xs.length ? x.add(xs[i + 1]) : x]));

const GRAPHS: [name: string, make: Graph][] = [
  ["a sum of 40 tensors", (xs) => [sumOf(xs)]],
  ["a sum in pairs", (xs) => [tree(xs)]],
  ["a product of sums, reduced", (xs) => [sumOf(xs.slice(0, 20)).mul(sumOf(xs.slice(20))).sum()]],
  ["an outer product of sums", (xs) => [
    sumOf(xs.slice(0, 20)).reshape([4, 1]).mul(sumOf(xs.slice(20)).reshape([1, 4])).sum(0),
  ]],
  ["two outputs of the same inputs", (xs) => [sumOf(xs), sumOf(xs.map((x) => x.square()))]],
  ["assignment in place", (xs) => {
    const t = Tensor.full([4], 2, { dtype: "float32", device: xs[0].device }).contiguous().realize();
    return [t.assign(t.mul(sumOf(xs)))];
  }],
  ["tensors read as another dtype too", (xs) => [
    sumOf(
      xs.slice(0, 12).map((x) => x.bitcast("int16").reshape([4, 2]).flip(1).shrink([[0, 4], [0, 1]]).flatten().add(x)),
    ),
  ]],
  ["concatenation", (xs) => [xs[0].cat(xs.slice(1)).mul(2)]],
];

for (const [name, make] of GRAPHS) {
  Deno.test(`limits: ${name} takes at most 8 buffers a kernel`, async () => {
    const steps = schedule(make(vectors(40, EIGHT))).filter((i) => i.runner instanceof CompiledKernel);
    assert(steps.length > 1 && steps.length <= 24, `${steps.length} kernels`);
    for (const s of steps) assert(s.bufs.length <= 8, `${s}`);
    const want = await Promise.all(make(vectors(40, "JS")).map((t) => t.tolist()));
    const got = make(vectors(40, "JS"));
    context({ MAX_KERNEL_BUFFERS: 8 }, () => Tensor.realize(got));
    assertEquals(await Promise.all(got.map((t) => t.tolist())), want);
  });
}

Deno.test("limits: the sum of 40 tensors takes as few kernels as the limit allows", () => {
  assertEquals(schedule([sumOf(vectors(40, EIGHT))]).length, 7);
});

Deno.test("limits: writes to one buffer are merged only while the kernel takes few enough", () => {
  const values = vectors(30, EIGHT), t = Tensor.empty([30, 4], { device: EIGHT }).realize();
  values.forEach((v, i) => t.setAt([i], v));
  const steps = schedule([t]);
  assertEquals([steps.length, Math.max(...steps.map((s) => s.bufs.length))], [5, 8]);
});

Deno.test("limits: one operation on more buffers than a kernel may take is an error that names both", () => {
  const [a, b, c] = vectors(3, "JS");
  context({ MAX_KERNEL_BUFFERS: 3 }, () => {
    assertThrows(
      () => schedule([a.gt(0).where(b, c)]),
      DeviceError,
      "an operation reads 3 buffers, and a kernel takes at most 3, its result included",
    );
  });
});

Deno.test("limits: a tensor larger than MAX_BUFFER_SIZE is an error that names the limit", () => {
  context({ MAX_BUFFER_SIZE: 1000 }, () => {
    const t = Tensor.arange(257).add(0.5).contiguous();
    assertThrows(() => t.realize(), OutOfMemoryError, "MAX_BUFFER_SIZE allows 1.00 kB a buffer");
  });
});

Deno.test("limits: 1,000 writes to one tensor are one kernel, with the last write to an element standing", async () => {
  const n = 1000, t = Tensor.zeros([n], { dtype: "int32" }).contiguous().realize();
  for (let i = 0; i < n; i++) t.setAt([i * 7 % n], i);
  for (let i = 0; i < 10; i++) t.setAt([i * 100], -i);
  assertEquals(schedule([t]).length, 1);
  const want = new Array(n).fill(0);
  for (let i = 0; i < n; i++) want[i * 7 % n] = i;
  for (let i = 0; i < 10; i++) want[i * 100] = -i + 0;
  assertEquals(await t.tolist(), want);
});

Deno.test("limits: rows, slices and reads between writes keep their order", async () => {
  const t = Tensor.zeros([50, 3], { dtype: "int32" }).contiguous().realize();
  for (let i = 0; i < 50; i++) t.setAt([i], i);
  const seen = t.at([10, 12]).add(0);
  for (let i = 0; i < 25; i++) t.setAt([[2 * i, 2 * i + 1], 1], -i);
  Tensor.realize([seen, t]);
  assertEquals(await seen.tolist(), [[10, 10, 10], [11, 11, 11]]);
  assertEquals(await t.at([10, 12]).tolist(), [[10, -5, 10], [11, 11, 11]]);
});

Deno.test("limits: elements changed in place are one kernel, each once; a second change is another", async () => {
  const make = (): Tensor => {
    const t = Tensor.arange(40).contiguous().realize();
    for (let i = 0; i < 40; i++) t.setAt([i], t.at(i).mul(2).add(1));
    return t;
  };
  const t = make();
  assertEquals(schedule([t]).length, 1);
  assertEquals(await t.tolist(), Array.from({ length: 40 }, (_, i) => 2 * i + 1));
  const twice = make();
  twice.setAt([3], twice.at(3).add(100));
  twice.setAt([3], twice.at(4).add(1000));
  assertEquals(await twice.at([2, 6]).tolist(), [5, 1009, 9, 11]);
});

Deno.test("limits: each element made from the one before", async () => {
  const t = Tensor.zeros([30], { dtype: "int32" }).contiguous().realize();
  for (let i = 1; i < 30; i++) t.setAt([i], t.at(i - 1).add(i));
  assertEquals(await t.tolist(), Array.from({ length: 30 }, (_, i) => i * (i + 1) / 2));
});

Deno.test("limits: many outputs of one input are one kernel", () => {
  const x = new Tensor([1, 2, 3]).realize();
  assertEquals(schedule(Array.from({ length: 200 }, (_, i) => x.mul(i + 2))).length, 1);
});
