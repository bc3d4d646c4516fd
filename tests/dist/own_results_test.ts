/**
 * What collectives give is written where it was asked for: no kernel copies it, where nothing else reads or writes it.
 */
import assert from "node:assert/strict";
import { Device, GlobalCounters, jit, Tensor } from "../../mod.ts";
import { Mesh, type Spec } from "../../src/dist/dist.ts";

Device.default = "JS";
const mesh = Mesh.of({ data: 2 }, { devices: ["JS", "JS:1"] });
const whole = Tensor.arange(32).reshape([4, 8]).cast("float32").realize();
const rows = whole.shard(mesh, ["data", null]).realize(), columns = whole.shard(mesh, [null, "data"]).realize();
const weights = Tensor.ones([8, 4]).contiguous().realize().shard(mesh, ["data", null]).realize();

/** Kernels that run in `make`. */
function kernelsOf(make: () => unknown): number {
  const before = GlobalCounters.kernelCount;
  make();
  return GlobalCounters.kernelCount - before;
}

const product = (): Tensor => columns.matmul(weights).reshard(mesh, [null, null]);
const CASES: readonly (readonly [name: string, kernels: number, make: () => Tensor, wanted: () => Tensor])[] = [
  ["a sum over ranks", 1, product, () => whole.sum(1, { keepdim: true }).expand([4, 4])],
  [
    "a sum over ranks, as what it is reshaped to",
    1,
    () => product().reshape([16]),
    () => whole.sum(1, { keepdim: true }).expand([4, 4]).reshape([16]),
  ],
  ["rows of all ranks", 0, () => rows.reshard(mesh, [null, null]), () => whole],
  ["columns of all ranks, which lie elsewhere", 1, () => columns.reshard(mesh, [null, null]), () => whole],
  ["rows to the ranks", 0, () => whole.shard(mesh, ["data", null]), () => whole],
  [
    "a sum that is divided",
    1,
    () => columns.matmul(weights).reshard(mesh, ["data", null]),
    () => whole.sum(1, { keepdim: true }).expand([4, 4]),
  ],
];
for (const [name, kernels, make, wanted] of CASES) {
  Deno.test(`own results: ${name}: ${kernels} kernels`, async () => {
    let got = make();
    assert.equal(kernelsOf(() => got = make().realize()), kernels);
    assert.deepEqual(await got.to("JS").tolist(), await wanted().tolist());
  });
}

Deno.test("own results: two results of one sum are two memories, and writes to one are not seen in the other", async () => {
  const [a, b] = [product(), product()];
  Tensor.realize([a, b]);
  b.assign(b.add(1)).realize();
  const want = await whole.sum(1, { keepdim: true }).expand([4, 4]).tolist() as number[][];
  assert.deepEqual(await a.to("JS").tolist(), want);
  assert.deepEqual(await b.to("JS").tolist(), want.map((r) => r.map((x) => x + 1)));
});

Deno.test("own results: what is written after the collective, and what reads both, in one schedule", async () => {
  const a = product(), before = a.mul(2);
  a.assign(a.add(10));
  Tensor.realize([a, before]);
  const want = await whole.sum(1, { keepdim: true }).expand([4, 4]).tolist() as number[][];
  assert.deepEqual(await a.to("JS").tolist(), want.map((r) => r.map((x) => x + 10)));
  assert.deepEqual(await before.to("JS").tolist(), want.map((r) => r.map((x) => 2 * x)));
});

Deno.test("own results: under jit each call has its own", async () => {
  const f = jit((x: Tensor) => x.reshard(mesh, [null, null] as Spec).realize()), seen: Tensor[] = [];
  for (let i = 0; i < 5; i++) seen.push(f(rows.add(i).realize()));
  for (const [i, y] of seen.entries()) assert.deepEqual(await y.to("JS").tolist(), await whole.add(i).tolist());
});
