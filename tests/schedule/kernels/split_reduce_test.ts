import { assert, assertEquals } from "@std/assert";
import { partsOf, splitKernel } from "../../../src/schedule/kernels/split_reduce.ts";
import { type Capabilities, SCALAR_CAPS } from "../../../src/renderer/renderer.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind, type RangeArg } from "../../../src/uop/core/args.ts";
import { getTuple, momentsCarrier, opCarrier, productCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { specKernel, verify } from "../../../src/uop/core/spec.ts";
import { rangesOf } from "../../../src/uop/core/ranges.ts";
import {
  constant,
  index,
  int,
  load,
  param,
  range,
  sink,
  store,
  toposort,
  type UOp,
} from "../../../src/uop/core/uop.ts";
import { indexForm, strideAlong } from "../../../src/uop/algebra/linear_form.ts";
import { SIM_GRID, simCaps } from "../../fixtures/sim.ts";
import { type Data, run } from "../../codegen/harness.ts";

const f32 = dtypes.float32;
const GPU = simCaps(SIM_GRID), CPU: Capabilities = { ...SCALAR_CAPS, threads: 4 };
/** A grid so small that small reductions are split. */
const TINY = simCaps({ ...SIM_GRID, units: 2, unitThreads: 64 });

/** out[i] = (sum + max over k of x[i, k]) * 2 */
function kernel(rows: number, length: number, isTuple: boolean): UOp {
  const i = rows === 1 ? int(0) : range(rows, 0, AxisKind.LOOP), k = range(length, 1, AxisKind.REDUCE);
  const x = load(index(param(1, f32, rows * length), i.mul(length).add(k)));
  const both = productCarrier([opCarrier(Ops.ADD, f32), opCarrier(Ops.MAX, f32)]);
  const r = reduce(isTuple ? both : opCarrier(Ops.ADD, f32), isTuple ? [x, x] : [x], [k]);
  const value = isTuple ? getTuple(r, 0).add(getTuple(r, 1)) : r;
  return sink([store(index(param(0, f32, rows), i), value.mul(2))]);
}

/** out[i, j] = sum over n and k of a[n, i, k] * b[n, j, k], with `k` innermost in memory, or outermost. */
function product(parts: number, length: number, isAlong = true): UOp {
  const i = range(64, 0, AxisKind.LOOP), j = range(64, 1, AxisKind.LOOP);
  const n = range(parts, 2, AxisKind.REDUCE), k = range(length, 3, AxisKind.REDUCE), size = parts * 64 * length;
  const at = (slot: number, r: UOp): UOp => {
    const inside = isAlong ? r.mul(length).add(k) : k.mul(64).add(r);
    return load(index(param(slot, f32, size), n.mul(64 * length).add(inside)));
  };
  const sum = reduce(opCarrier(Ops.ADD, f32), [at(1, i).mul(at(2, j))], [n, k]);
  return sink([store(index(param(0, f32, 4096), i.mul(64).add(j)), sum.add(1))]);
}

Deno.test("split: a long product, so that what its tiles read again stays in the cache", () => {
  const small: Capabilities = { ...CPU, l2: 1 << 15 };
  for (const [parts, length] of [[8, 150], [3, 1000], [1, 2053]]) {
    const ast = product(parts, length), split = splitKernel(ast, small, 3)!;
    assert(split !== undefined);
    for (const part of [split.partial, split.combine]) verify(part, specKernel, "after the split");
    // the parts are the outermost loops
    const loops = rangesOf(split.partial.src[0]).slice()
      .sort((x, y) => (x.arg as RangeArg).id - (y.arg as RangeArg).id).map((r) => r.src[0].value as number);
    assertEquals(loops.slice(-2), [64, 64]);
    assertEquals(loops.reduce((n, x) => n * x, 1), split.made[0].size);
    assert(split.made[0].size >= 2 * 4096);
    const data: Data[] = [4096, parts * 64 * length, parts * 64 * length].map((size, slot) =>
      Float32Array.from({ length: size }, (_, i) => (i * (slot + 3)) % 5 - 2)
    );
    const made = run(split.partial, [...data, new Float32Array(split.made[0].size).fill(NaN)], []);
    assertEquals(run(split.combine, [...data, made[3]], [])[0], run(ast, data, [])[0]);
  }
  assertEquals(splitKernel(product(8, 150), { ...CPU, l2: 1 << 20 }, 3), undefined);
  assertEquals(splitKernel(product(8, 150, false), small, 3), undefined);
  // parts of a result that does not fit the cache would cost what they save
  assertEquals(splitKernel(product(8, 1000), { ...CPU, l2: 1 << 14 }, 3), undefined);
});

Deno.test("split: a product whose rows fill vectors badly is cut so that lanes of results fit the cache, packed", () => {
  const wide: Capabilities = { ...CPU, l2: 1 << 17, vectorLanes: () => 16 };
  // sums of 2,560 terms, as of the weights of a convolution: all in one row, in rows of 64, and in rows of 20
  assertEquals(splitKernel(product(1, 2560), wide, 3), undefined);
  assertEquals(splitKernel(product(40, 64), wide, 3), undefined);
  const { size } = splitKernel(product(128, 20), wide, 3)!.made[0], length = 2560 / (size / 4096);
  assert(length * (2 * 16 + 8) * 4 <= wide.l2, `parts of ${length}`);
});

Deno.test("split: on a grid parts are contiguous, whichever range is outermost", () => {
  const i = range(16, 0, AxisKind.LOOP), j = range(16, 1, AxisKind.LOOP);
  const n = range(64, 2, AxisKind.REDUCE), h = range(32, 3, AxisKind.REDUCE), size = 16 * 32 * 64;
  const at = (slot: number, r: UOp): UOp => load(index(param(slot, f32, size), r.mul(32 * 64).add(h.mul(64)).add(n)));
  const sum = reduce(opCarrier(Ops.ADD, f32), [at(1, i).mul(at(2, j))], [n, h]);
  const ast = sink([store(index(param(0, f32, 256), i.mul(16).add(j)), sum)]);
  const split = splitKernel(ast, TINY, 3)!;
  const read = toposort(split.partial).find((u) => u.op === Ops.LOAD)!;
  // the inner one in memory stays whole
  assert(rangesOf(read).some((r) => (r.arg as RangeArg).kind === AxisKind.REDUCE && r.src[0].value === 64));
  // neighbors among the results are neighbors in the parts too
  const written = indexForm(split.partial.src[0].src[0].src[1]), around = rangesOf(split.partial.src[0]);
  const lies = around.some((r) =>
    strideAlong(written, r) === 1 && strideAlong(indexForm(ast.src[0].src[0].src[1]), r) === 1
  );
  assert(lies);
  const data = [1, 2].map((s) => Float32Array.from({ length: size }, (_, k) => k * s % 7 - 3));
  const buffers = [new Float32Array(256), ...data];
  const made = run(split.partial, [...buffers, new Float32Array(split.made[0].size).fill(NaN)], []);
  assertEquals(run(split.combine, [...buffers, made[3]], [])[0], run(ast, buffers, [])[0]);
});

Deno.test("split: on a grid hundreds of results of short rows are parts, too, as no more threads share a row", () => {
  const { units } = GPU.grid!, results = 3 * units;
  /** out[i] = sum over n, y and x of a[n, i, y, x], of images in a buffer of wider ones. */
  const images = (side: number, width: number): UOp => {
    const i = range(results, 0, AxisKind.LOOP);
    const [n, y, x] = [64, side, side].map((size, at) => range(size, at + 1, AxisKind.REDUCE));
    const row = n.mul(results).add(i).mul(width).add(y), a = param(1, f32, 64 * results * width * width);
    const sum = reduce(opCarrier(Ops.ADD, f32), [load(index(a, row.mul(width).add(x)))], [n, y, x]);
    return sink([store(index(param(0, f32, results), i), sum)]);
  };
  assertEquals(splitKernel(images(64, 64), GPU, 2), undefined); // rows of 4096: there are threads enough
  const split = splitKernel(images(62, 64), GPU, 2)!;
  for (const part of [split.partial, split.combine]) verify(part, specKernel, "after the split");
  assert(split.made[0].size >= 4 * results, `${split.made[0].size} parts of ${results} results`);
});

Deno.test("split: parts by outputs, length and device", () => {
  assertEquals(partsOf(4096, 4096, GPU), 1);
  assertEquals(partsOf(1, 1000, GPU), 1);
  assert(partsOf(1, 1 << 28, GPU) >= SIM_GRID.units * 4);
  assertEquals(partsOf(1, 1 << 24, CPU), 4);
  assertEquals(partsOf(4, 1 << 24, CPU), 1);
  assertEquals(partsOf(1, 1000, CPU), 1);
  assertEquals(partsOf(1, 1 << 24, SCALAR_CAPS), 1);
});

for (
  const [rows, length, isTuple] of [[1, 1 << 16, false], [3, 80000, false], [1, 100043, true], [
    2,
    1 << 16,
    true,
  ]] as const
) {
  Deno.test(`split: ${rows} x ${length}${isTuple ? ", a tuple" : ""}`, () => {
    const ast = kernel(rows, length, isTuple);
    const split = splitKernel(ast, TINY, 2)!;
    assert(split !== undefined);
    for (const part of [split.partial, split.combine]) verify(part, specKernel, "after the split");
    const data: Data[] = [
      new Float32Array(rows),
      Float32Array.from({ length: rows * length }, (_, i) => i * 7 % 13 - 5),
    ];
    const [want] = run(ast, data, []);
    // slots: the partial kernel has its outputs at 2, 3, ..., the second kernel reads them there
    const temps: Data[] = split.made.map(({ size }) => new Float32Array(size).fill(NaN));
    const made = run(split.partial, [...data, ...temps], []);
    const all = [...data, ...temps.map((_, i) => made[2 + i])];
    assertEquals(run(split.combine, all, [])[0], want);
  });
}

/** Values that lie far from 0 and close together: sums of squares have no digit in common with the answer. */
const NOISE: readonly (readonly [name: string, at: (i: number) => number])[] = [
  ["at 1e8", (i) => 1e8 + Math.round(Math.sin(i * 12.9898) * 50) * 8],
  ["around 0", (i) => Math.sin(i * 12.9898)],
  ["of two kinds", (i) => i < 30000 ? -1000 : 1000 + i % 5],
];
for (const length of [1 << 16, 100043]) {
  for (const [name, at] of NOISE) {
    Deno.test(`split: moments of ${length} in one read, merged in the order of the parts: ${name}`, () => {
      const k = range(length, 1, AxisKind.REDUCE), x = load(index(param(1, f32, length), k));
      const pivot = load(index(param(1, f32, length), int(0)));
      const r = reduce(momentsCarrier(f32), [int(1), x.add(pivot.mul(-1)), constant(0, f32)], [k]);
      const ast = sink([store(index(param(0, f32, 1), int(0)), getTuple(r, 2).mul(1 / length))]);
      const split = splitKernel(ast, TINY, 2)!, values = Float32Array.from({ length }, (_, i) => at(i));
      assertEquals(split.made.length, 3);
      const reads = toposort(split.partial).filter((u) => u.op === Ops.LOAD && rangesOf(u).length > 0);
      assertEquals(reads.length, 1);
      const temps: Data[] = split.made.map(({ dtype, size }) =>
        dtype === f32 ? new Float32Array(size) : new Int32Array(size)
      );
      const data: Data[] = [new Float32Array(1), values], made = run(split.partial, [...data, ...temps], []);
      const [got] = run(split.combine, [...data, ...temps.map((_, i) => made[2 + i])], [])[0] as Float32Array;
      const mean = values.reduce((s, v) => s + v, 0) / length;
      const want = values.reduce((s, v) => s + (v - mean) ** 2, 0) / length;
      assert(Math.abs(got - want) <= 1e-5 * want, `${got}, want ${want}`);
    });
  }
}

Deno.test("split: of several reductions side by side each, one inside of another not", () => {
  const length = 1 << 17, [k, l] = [range(length, 1, AxisKind.REDUCE), range(length, 2, AxisKind.REDUCE)];
  const at = (slot: number, r: UOp): UOp => load(index(param(slot, f32, length), r));
  const first = reduce(opCarrier(Ops.ADD, f32), [at(1, k)], [k]);
  const beside = first.add(reduce(opCarrier(Ops.MAX, f32), [at(2, l)], [l]));
  const ast = sink([store(index(param(0, f32, 1), int(0)), beside)]);
  const once = splitKernel(ast, GPU, 3)!, twice = splitKernel(once.combine, GPU, 4)!;
  for (const part of [once.partial, twice.partial, twice.combine]) verify(part, specKernel, "after the split");
  assertEquals(splitKernel(twice.combine, GPU, 5), undefined);
  const inside = reduce(opCarrier(Ops.ADD, f32), [at(2, l).sub(first)], [l]);
  assertEquals(splitKernel(sink([store(index(param(0, f32, 1), int(0)), inside)]), GPU, 3), undefined);
});
