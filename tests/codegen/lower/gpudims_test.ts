import { assert, assertEquals } from "@std/assert";
import type { Capabilities } from "../../../src/renderer/renderer.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { listText } from "../../../src/uop/core/print.ts";
import { index, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { SIM_GRID, simCaps, SMALL_GRID } from "../../fixtures/sim.ts";
import { compile, expectSame, integers, opts, paramsOf, run, testUnderOpts } from "../harness.ts";
import { KERNELS } from "../kernels.ts";
import { optimized } from "../../fixtures/optimized.ts";

const GPU = simCaps(SIM_GRID), WEB = simCaps(SMALL_GRID);

const SETS = [
  "",
  "LOCAL:0:4",
  "LOCAL:0:3 LOCAL:1:4",
  "UPCAST:0:4 LOCAL:0:2",
  "UPCAST:1:4 LOCAL:1:2 UPCAST:0:2",
  "GROUP:0:8",
  "UNROLL:0:4 GROUP:0:4 LOCAL:0:2",
  "GROUPTOP:0:4 LOCAL:0:4",
  "GROUP:0:64",
  "GROUP:0:2 GROUP:1:2",
  "MERGE:0:1 LOCAL:0:4",
  "MERGE:1:0 UPCAST:0:2 UNROLL:0:2",
  "MERGE:0:1 MERGE:0:1 UPCAST:0:2",
  "UPCAST:0:4",
  "UPCAST:1:4 LOCAL:0:4",
  "UNROLL:0:4 GROUP:0:2 UPCAST:0:2",
  "GROUP:1:8 LOCAL:0:2",
];

testUnderOpts("grid", KERNELS, (name) => name === "symbolic" ? [11] : [], SETS, { GPU, WEB });

function copy(...sizes: number[]): UOp {
  const n = sizes.reduce((a, b) => a * b, 1);
  // transposed, so that no ranges merge
  let to: UOp | undefined, from: UOp | undefined, stride = 1;
  const loops = sizes.map((s, i) => range(s, i, AxisKind.LOOP));
  loops.forEach((r, i) => {
    to = to === undefined ? r : to.mul(sizes[i]).add(r);
    from = from === undefined ? r.mul(stride) : from.add(r.mul(stride));
    stride *= sizes[i];
  });
  return sink([store(index(param(0, dtypes.float32, n), to!), load(index(param(1, dtypes.float32, n), from!)))]);
}

function gridOf(ast: UOp, text: string | undefined, caps: Partial<Capabilities>): [number[], number[]] {
  const p = compile(ast, text === undefined ? undefined : opts(text), caps);
  return [p.grid!.groups.map((g) => g.value), [...p.grid!.size]];
}

Deno.test("grid: output axes are dimensions, the inner ones first", () => {
  assertEquals(gridOf(copy(5, 6, 7), "", GPU), [[7, 6, 5], [1, 1, 1]]);
  assertEquals(gridOf(copy(5, 6, 8), "LOCAL:2:4 LOCAL:1:3", GPU), [[2, 2, 5], [4, 3, 1]]);
});

Deno.test("grid: more axes than dimensions share one", () => {
  const ast = copy(2, 3, 4, 5, 6);
  const [groups] = gridOf(ast, "", GPU);
  assertEquals(groups.reduce((a, b) => a * b, 1), 720);
  const data = integers(paramsOf(ast));
  expectSame(ast, run(ast, data, [], GPU), run(ast, data, [], {}), "five axes");
});

const TINY: Partial<Capabilities> = { ...WEB, grid: { ...WEB.grid!, maxGroups: [7, 7, 7] } };

for (const n of [49, 64, 97, 100, 343]) {
  Deno.test(`grid: ${n} groups fit dimensions of 7`, () => {
    const i = range(n, 0, AxisKind.LOOP);
    const ast = sink([
      store(index(param(0, dtypes.float32, n), i), load(index(param(1, dtypes.float32, n), i)).add(1)),
    ]);
    const [groups] = gridOf(ast, "", TINY);
    assert(groups.every((g) => g <= 7) && groups.reduce((a, b) => a * b, 1) >= n);
    const data = integers(paramsOf(ast));
    expectSame(ast, run(ast, data, [], TINY), run(ast, data, [], {}), `${n} groups`);
  });
}

Deno.test("grid: threads beyond the end store nothing", () => {
  const i = range(10, 0, AxisKind.LOOP);
  const ast = sink([
    store(index(param(0, dtypes.float32, 10), i), load(index(param(0, dtypes.float32, 10), i)).add(1)),
  ]);
  const data = integers(paramsOf(ast));
  expectSame(ast, run(ast, data, opts("LOCAL:0:4"), GPU), run(ast, data, [], {}), "in place");
  const { uops } = compile(ast, opts("LOCAL:0:4"), GPU);
  assertEquals(uops.filter((u) => u.op === Ops.IF).length, 1);
});

Deno.test("grid: columns are neighbors around a shared sum over rows, also where the last ones are padded", () => {
  const threads = (columns: number): readonly number[] => {
    const i = range(columns, 0, AxisKind.LOOP), k = range(64, 1, AxisKind.REDUCE);
    const x = load(index(param(1, dtypes.float32, 64 * columns), k.mul(columns).add(i)));
    const ast = sink([
      store(index(param(0, dtypes.float32, columns), i), reduce(opCarrier(Ops.ADD, dtypes.float32), [x], [k])),
    ]);
    return compile(ast, opts("LOCAL:0:16 GROUP:0:8"), GPU).grid!.size;
  };
  for (const columns of [64, 58]) assertEquals(threads(columns).slice(0, 2), [16, 8]);
});

Deno.test("grid: neighboring elements are one access of 16 bytes where it is aligned", () => {
  const wide = (n: number, text: string): number[] => {
    const i = range(n, 0, AxisKind.LOOP);
    const ast = sink([
      store(index(param(0, dtypes.float32, n), i), load(index(param(1, dtypes.float32, n + 2), i)).add(1)),
    ]);
    return compile(ast, opts(text), GPU).uops.filter((u) => u.op === Ops.LOAD).map((u) => u.dtype.count);
  };
  assertEquals(wide(64, "UPCAST:0:4 LOCAL:0:8"), [4]);
  assertEquals(wide(64, "UPCAST:0:2 LOCAL:0:8"), [2]);
  assertEquals(wide(60, "UPCAST:0:6 LOCAL:0:5"), [2, 2, 2]);
  assertEquals(wide(50, "UPCAST:0:5 LOCAL:0:5"), [1, 1, 1, 1, 1]);
});

Deno.test(
  "grid: an elementwise kernel is wide accesses by neighboring threads",
  optimized(() => {
    const n = 1 << 24, i = range(n, 0, AxisKind.LOOP);
    const at = (slot: number): UOp => index(param(slot, dtypes.float32, n), i);
    const p = compile(sink([store(at(0), load(at(1)).add(load(at(2))))]), undefined, GPU);
    const accesses = p.uops.filter((u) => u.op === Ops.LOAD || u.op === Ops.STORE);
    assert(accesses.length >= 3, listText(p.uops));
    for (const u of accesses) assertEquals((u.op === Ops.LOAD ? u : u.src[1]).dtype.count, 4);
    assert(!p.uops.some((u) => u.op === Ops.IF || u.op === Ops.RANGE));
  }),
);
