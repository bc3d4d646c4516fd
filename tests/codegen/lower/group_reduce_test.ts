import { assert, assertClose, assertEquals, assertThrows } from "@std/assert";
import { hopPlaces } from "../../../src/codegen/machine/group_hops.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { ArgumentError } from "../../../src/helpers/errors.ts";
import type { Capabilities } from "../../../src/renderer/renderer.ts";
import { argOf, AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { printUOp } from "../../../src/uop/core/print.ts";
import { baseOf } from "../../../src/uop/rewrite/walk.ts";
import { SIM_GRID, simCaps, SMALL_GRID } from "../../fixtures/sim.ts";
import { compile, integers, opts, paramsOf, run } from "../harness.ts";
import { optimized } from "../../fixtures/optimized.ts";

const GPU = simCaps(SIM_GRID), WEB = simCaps(SMALL_GRID);

const f32 = dtypes.float32;
const sum = (x: UOp, r: UOp): UOp => reduce(opCarrier(Ops.ADD, f32), [x], [r]);
const max = (x: UOp, r: UOp): UOp => reduce(opCarrier(Ops.MAX, f32), [x], [r]);

/** out[r, j] = 2 ** (x[r, j] - max) / sum of those */
function softmax(rows: number, cols: number): UOp {
  const r = range(rows, 0, AxisKind.LOOP), j = range(cols, 1, AxisKind.LOOP);
  const k = range(cols, 2, AxisKind.REDUCE), l = range(cols, 3, AxisKind.REDUCE);
  const x = (c: UOp): UOp => load(index(param(1, f32, rows * cols), r.mul(cols).add(c)));
  const m = max(x(k), k);
  const e = (c: UOp): UOp => x(c).sub(m).exp2();
  return sink([store(index(param(0, f32, rows * cols), r.mul(cols).add(j)), e(j).fdiv(sum(e(l), l)))]);
}

function rowSum(rows: number, cols: number): UOp {
  const r = range(rows, 0, AxisKind.LOOP), k = range(cols, 1, AxisKind.REDUCE);
  return sink([
    store(index(param(0, f32, rows), r), sum(load(index(param(1, f32, rows * cols), r.mul(cols).add(k))), k)),
  ]);
}

function columnSum(rows: number, cols: number): UOp {
  const c = range(cols, 0, AxisKind.LOOP), k = range(rows, 1, AxisKind.REDUCE);
  return sink([
    store(index(param(0, f32, cols), c), sum(load(index(param(1, f32, rows * cols), k.mul(cols).add(c))), k)),
  ]);
}

function count(ast: UOp, text: string | undefined, caps: Partial<Capabilities>, op: Ops): number {
  const program = compile(ast, text === undefined ? undefined : opts(text), caps);
  return program.uops.filter((u) => u.op === op).length;
}

Deno.test("group: a warp exchanges values, more threads meet once", () => {
  assertEquals(count(rowSum(8, 256), "GROUP:0:32", GPU, Ops.SHUFFLE), 5);
  assertEquals(count(rowSum(8, 256), "GROUP:0:32", GPU, Ops.BARRIER), 0);
  assertEquals(count(rowSum(8, 2048), "GROUP:0:256", GPU, Ops.SHUFFLE), 5);
  assertEquals(count(rowSum(8, 2048), "GROUP:0:256", GPU, Ops.BARRIER), 1);
});

Deno.test("group: the model counts the memory that threads take to combine", () => {
  for (
    const [ast, text, caps, threads, warp, copies] of [
      [rowSum(8, 2048), "GROUP:0:256", GPU, 256, 32, 1],
      [rowSum(8, 2048), "UPCAST:0:8 GROUP:0:256", GPU, 256, 32, 8],
      [rowSum(8, 256), "GROUP:0:32", GPU, 32, 32, 1],
      [rowSum(8, 256), "GROUP:0:16", WEB, 16, 1, 1],
      [rowSum(8, 2048), "GROUP:0:256", WEB, 256, 1, 1],
      [rowSum(8, 256), "UPCAST:0:4 GROUP:0:32", WEB, 32, 1, 4],
      [rowSum(8, 2048), "UPCAST:0:8 GROUP:0:256", WEB, 256, 1, 8],
      [columnSum(512, 2), "UPCAST:0:2 GROUP:0:256", GPU, 256, 32, 2],
    ] as const
  ) {
    const locals = compile(ast, opts(text), caps).uops.filter((u) => u.op === Ops.LOCAL);
    const places = locals.reduce((sum, u) => sum + argOf(u, Ops.LOCAL).size, 0);
    assertEquals(hopPlaces(threads, warp, copies) * copies, places, text);
  }
});

Deno.test("group: partial results of several sums are read at places that are plain numbers", () => {
  const p = compile(columnSum(512, 2), opts("UPCAST:0:2 GROUP:0:256"), GPU);
  const places = p.uops.filter((u) => u.op === Ops.LOAD && baseOf(u.src[0]).op === Ops.LOCAL).map((u) =>
    u.src[0].src[1]
  );
  assert(places.length > 0 && places.every((x) => x.op === Ops.CONST), places.map(printUOp).join());
});

Deno.test("group: without warps threads meet twice at most", () => {
  assertEquals(count(rowSum(8, 256), "GROUP:0:16", WEB, Ops.BARRIER), 1);
  assertEquals(count(rowSum(8, 2048), "GROUP:0:256", WEB, Ops.BARRIER), 2);
  // of four sums beside each other a thread would read 128 partial results in one hop
  assertEquals(count(rowSum(8, 256), "UPCAST:0:4 GROUP:0:32", WEB, Ops.BARRIER), 2);
  assertEquals(count(rowSum(8, 2048), "UPCAST:0:8 GROUP:0:256", WEB, Ops.BARRIER), 2);
  const data = integers(paramsOf(rowSum(8, 256)));
  assertEquals(
    run(rowSum(8, 256), data, opts("UPCAST:0:4 GROUP:0:32"), WEB),
    run(rowSum(8, 256), data, [], {}),
  );
});

for (
  const [name, ast] of [
    ["rows of 16 x 512", rowSum(16, 512)],
    ["rows of 3 x 1000", rowSum(3, 1000)],
    ["columns of 300 x 40", columnSum(300, 40)],
    ["columns of 512 x 64", columnSum(512, 64)],
    ["one row of 5000", rowSum(1, 5000)],
    ["softmax of 4 x 96", softmax(4, 96)],
    ["softmax of 3 x 1000", softmax(3, 1000)],
    ["softmax of 2 x 2048", softmax(2, 2048)],
  ] as const
) {
  Deno.test(`group: ${name}, chosen by the heuristic`, () => {
    const data = integers(paramsOf(ast));
    const [want] = run(ast, data, [], {});
    for (const caps of [GPU, WEB]) {
      assertClose(run(ast, data, undefined, caps)[0], want);
    }
  });
}

Deno.test(
  "group: a row of softmax is read once, 16 bytes at a time, and written once",
  optimized(() => {
    const { uops } = compile(softmax(16384, 4096), undefined, GPU);
    const isParam = (u: UOp): boolean => u.src[0].op === Ops.INDEX && u.src[0].src[0].op === Ops.PARAM;
    const loads = uops.filter((u) => u.op === Ops.LOAD && isParam(u));
    const stores = uops.filter((u) => u.op === Ops.STORE && isParam(u));
    const size = compile(softmax(16384, 4096), undefined, GPU).grid!.size[0];
    assert(size >= 128, `${size} threads a row`);
    assertEquals(loads.length, 4096 / size / 4);
    assertEquals(stores.length, loads.length);
    assert(loads.every((u) => u.dtype === f32.vec(4)) && stores.every((u) => u.src[1].dtype === f32.vec(4)));
    assertEquals(uops.filter((u) => u.op === Ops.BARRIER).length, 2);
    assertEquals(uops.filter((u) => u.op === Ops.RANGE).length, 0);
  }),
);

Deno.test("group: the same numbers in every run", () => {
  const ast = rowSum(2, 4096);
  const data = [new Float32Array(2), Float32Array.from({ length: 8192 }, (_, i) => Math.sin(i) * 1e3)];
  const first = run(ast, data, undefined, GPU);
  assertEquals(run(ast, data, undefined, GPU), first);
});

Deno.test("group: threads that share one reduction, but not another, keep apart", () => {
  // out[i, d] = sum over j of (x[i, j] - max of x[i]) * v[j, d]
  const i = range(4, 0, AxisKind.LOOP), d = range(8, 1, AxisKind.LOOP);
  const j = range(64, 2, AxisKind.REDUCE), k = range(64, 3, AxisKind.REDUCE);
  const x = (c: UOp): UOp => load(index(param(1, f32, 256), i.mul(64).add(c)));
  const v = load(index(param(2, f32, 512), j.mul(8).add(d)));
  const ast = sink([store(index(param(0, f32, 32), i.mul(8).add(d)), sum(x(j).sub(max(x(k), k)).mul(v), j))]);
  const data = integers(paramsOf(ast));
  const [want] = run(ast, data, [], {});
  for (const caps of [GPU, WEB]) {
    assertEquals(run(ast, data, opts("GROUP:0:8 GROUP:1:8 LOCAL:1:4"), caps)[0], want);
    assertEquals(run(ast, data, undefined, caps)[0], want);
  }
});

/** out[c, i, j] = x[c, i, j] - sum of y[c] over rows and columns, as long as those of x or not */
function centered(channels: number, rows: number, cols: number, length: number): UOp {
  const c = range(channels, 0, AxisKind.LOOP), i = range(rows, 1, AxisKind.LOOP), j = range(cols, 2, AxisKind.LOOP);
  const k = range(rows, 3, AxisKind.REDUCE), l = range(length, 4, AxisKind.REDUCE);
  const at = c.mul(rows * cols).add(i.mul(cols)).add(j), size = channels * rows * cols;
  const y = load(index(param(2, f32, channels * rows * length), c.mul(rows * length).add(k.mul(length)).add(l)));
  const total = reduce(opCarrier(Ops.ADD, f32), [y], [k, l]);
  return sink([store(index(param(0, f32, size), at), load(index(param(1, f32, size), at)).sub(total))]);
}

for (const [channels, rows, cols, length] of [[16, 64, 64, 64], [3, 61, 8, 8], [5, 17, 33, 9], [2, 4, 64, 8]]) {
  Deno.test(`group: threads write all ${channels} x ${rows} x ${cols} elements after a reduction that they share`, () => {
    const ast = centered(channels, rows, cols, length), data = integers(paramsOf(ast));
    data[0].fill(NaN);
    const [want] = run(ast, data, [], {});
    for (const caps of [GPU, WEB]) assertEquals(run(ast, data, undefined, caps)[0], want);
  });
}

Deno.test("group: more threads than share a reduction cannot go on after it", () => {
  assertThrows(
    () => compile(centered(2, 4, 64, 8), opts("GROUP:0:8 LOCAL:1:16"), GPU),
    ArgumentError,
    "16 threads go on after a reduction that 8 threads share",
  );
});
