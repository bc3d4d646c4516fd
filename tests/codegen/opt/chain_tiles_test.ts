/** Chains of products on matrix units: kernels against their own scalar form, on SIM. */
import { assert, assertEquals } from "@std/assert";
import { jsCounters } from "../../../backends/js/js.ts";
import { context, dtypes } from "../../../mod.ts";
import { chainOf, MMA_BF16, MMA_F16, MMA_INT8, MMA_TF32 } from "../../../src/renderer/tensor_core_table.ts";
import { findChain } from "../../../src/uop/algebra/product_chain.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import type { UOp } from "../../../src/uop/core/uop.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { SIM_GRID, simCaps } from "../../fixtures/sim.ts";
import { decode } from "../../reference.ts";
import { difference, toleranceOf } from "../../tolerance.ts";
import { dataOf, kernel, KERNELS, Parts, type Shape, wrong } from "../chains.ts";
import { compile, opts, run } from "../harness.ts";

const GPU = simCaps(SIM_GRID), f = dtypes.float32;

function count(ast: UOp, op: Ops): number {
  return compile(ast, undefined, GPU).uops.filter((u) => u.op === op).length;
}

const causal = (row: UOp, middle: UOp): UOp => middle.lt(row.add(1));
const SHAPES: Readonly<Record<string, Shape>> = {
  "whole tiles": { heads: 2 },
  "odd sizes": { rows: 19, middle: 37, terms: 24, columns: 20, hide: causal },
  "float16": { dtype: dtypes.float16, middle: 32 },
  "hidden elements": { rows: 32, middle: 80, hide: causal },
  "hidden at the beginning": {
    rows: 64,
    middle: 64,
    terms: 16,
    columns: 16,
    hide: (row, middle) => row.lt(middle.add(1)),
  },
  "few rows": { rows: 3, middle: 40 },
  "many columns": { rows: 16, middle: 48, terms: 72, columns: 256 },
  "hidden at both ends": {
    rows: 128,
    middle: 160,
    terms: 16,
    columns: 16,
    hide: (row, middle) => middle.lt(row.add(1)).and(row.add(-20).lt(middle)),
  },
  "hidden rows": { rows: 32, middle: 64, terms: 16, columns: 16, hide: (row, middle) => row.add(40).lt(middle) },
};
/** Of some forms all shapes, of others those that are hardest. */
const WHOLE = ["a weighted sum of two products", "a weighted sum less its maximum"];
for (const name of Object.keys(KERNELS)) {
  for (const [shape, sizes] of Object.entries(SHAPES)) {
    if (!WHOLE.includes(name) && !shape.startsWith("odd") && !shape.startsWith("hidden at")) continue;
    Deno.test(
      `chains: ${name}, ${shape}`,
      optimized(() => {
        const ast = kernel(name, sizes);
        assertEquals(wrong(ast, undefined, GPU), undefined);
        assert(count(ast, Ops.WMMA) > 0 && count(ast, Ops.LDMATRIX) > 0);
      }),
    );
  }
}

Deno.test("chains: TC splits their axes, and other opts those that are left", () => {
  for (const ast of [kernel("a weighted sum", {}), kernel("a weighted sum less its maximum", {})]) checkOpts(ast);
});

function checkOpts(ast: UOp): void {
  for (
    const text of [
      "TC:0",
      "TC:0 UNROLL:1:2",
      "TC:0 LOCAL:0:2 UPCAST:1:4",
      "TC:0 UNROLL:1:2 LOCAL:0:2 UPCAST:1:4 UNROLL:0:2 STAGE:2 STAGE:3",
      "TC:0 UNROLL:1:2 LOCAL:0:2 UPCAST:1:4 UNROLL:0:2 STAGE:2:ring=2 STAGE:3:ring=2",
      "TC:0 UNROLL:1:2 UPCAST:0:2 UPCAST:1:4 UNROLL:0:2 STAGE:2:ring=2 STAGE:3:ring=2",
    ]
  ) assertEquals(wrong(ast, opts(text), GPU), undefined, text);
}

Deno.test(
  "chains: nothing is exchanged or stored between the products",
  optimized(() => {
    const ast = kernel("a weighted sum", { rows: 256, middle: 256, columns: 64 });
    assertEquals([count(ast, Ops.SHUFFLE), count(ast, Ops.BARRIER), count(ast, Ops.RANGE)], [0, 1, 1]);
  }),
);

Deno.test(
  "chains: hidden elements end the loop, from either side",
  optimized(() => {
    const endOf = (hide?: Shape["hide"]): UOp => {
      const ast = kernel("a weighted sum", { rows: 256, middle: 256, hide });
      return compile(ast, undefined, GPU).uops.find((u) => u.op === Ops.RANGE)!.src[0];
    };
    assert(endOf().op === Ops.CONST);
    assert(endOf(causal).op !== Ops.CONST);
    assert(endOf((row, middle) => row.lt(middle.add(1))).op !== Ops.CONST);
    assert(endOf((row, middle) => row.mul(middle).lt(9)).op === Ops.CONST, "not linear");
    // of 1024 in the middle, 128 rows and the 20 before them are in at most six tiles
    const reads = (hide?: Shape["hide"]): number => {
      const ast = kernel("a weighted sum less its maximum", { rows: 128, middle: 1024, terms: 16, columns: 16, hide });
      const data = dataOf(ast), before = jsCounters.read;
      run(ast, data, undefined, GPU);
      return jsCounters.read - before;
    };
    const window = (row: UOp, middle: UOp): UOp => middle.lt(row.add(1)).and(row.add(-20).lt(middle));
    assert(reads(window) < 0.4 * reads());
  }),
);

Deno.test("chains: without opts or matrix units the same kernel is computed plainly", () => {
  const ast = kernel("a weighted sum less its maximum", { rows: 16, middle: 20, terms: 16, columns: 16 });
  const [want] = run(ast, dataOf(ast), [], {}), small = simCaps({ ...SIM_GRID, tensorCores: [] });
  const [got] = run(ast, dataOf(ast), undefined, small), plain = { ...toleranceOf("accumulate", dtypes.bfloat16) };
  const values = [got, want].map((x) => decode(new Uint8Array(x.buffer), dtypes.bfloat16).map(Number));
  assertEquals(difference(values[0], values[1], plain), undefined);
  assertEquals(compile(ast, undefined, small).uops.filter((u) => u.op === Ops.WMMA), []);
  assertEquals(context({ NOOPT: 1 }, () => count(ast, Ops.WMMA)), 0);
});

Deno.test("chains: units whose results stand where they take operands from", () => {
  for (const core of [MMA_BF16, MMA_F16]) {
    assertEquals([chainOf(core)!.inner.m, chainOf(core)!.inner.n], [core.m, core.k]);
  }
  for (const core of [MMA_TF32, MMA_INT8]) assertEquals(chainOf(core), undefined);
});

Deno.test("chains: what is none", () => {
  const isOne = (ast: UOp, core = MMA_BF16): boolean => findChain(ast, core) !== undefined;
  const parts = (shape: Shape = {}): Parts =>
    new Parts({ heads: 1, rows: 32, middle: 64, terms: 32, columns: 32, dtype: dtypes.bfloat16, ...shape });
  assert(isOne(kernel("a weighted sum", {})) && !isOne(kernel("a weighted sum", {}), MMA_F16));
  const p = parts(), value = p.read(3, 64, 32, p.middle, p.column), all = opCarrier(Ops.ADD, f);
  assert(!isOne(p.byColumn(reduce(all, [p.product(1, 2).mul(value)], [p.middle]))), "weights that are not rounded");
  assert(!isOne(p.byColumn(reduce(opCarrier(Ops.MAX, f), [p.product(1, 2).add(value)], [p.middle]))), "no product");
  const plain = p.read(1, 32, 64, p.row, p.middle).mul(value);
  assert(!isOne(p.byColumn(reduce(all, [plain], [p.middle]))), "one product");
});
