/** Chains of products on matrix units: kernels against their own scalar form, on SIM. */
import { assert, assertEquals } from "@std/assert";
import { jsCounters } from "../../../backends/js/js.ts";
import { context, dtypes } from "../../../mod.ts";
import type { DType } from "../../../src/dtype/dtype.ts";
import { chainOf, MMA_BF16, MMA_F16, MMA_INT8, MMA_TF32 } from "../../../src/renderer/tensor_core_table.ts";
import { findChain } from "../../../src/uop/algebra/product_chain.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { getTuple, opCarrier, reduce, RescaleCarrier } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { constant, index, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { SIM_GRID, simCaps } from "../../fixtures/sim.ts";
import { decode, encode } from "../../reference.ts";
import { difference, toleranceOf } from "../../tolerance.ts";
import { compile, type Data, opts, paramsOf, run } from "../harness.ts";

const GPU = simCaps(SIM_GRID), f = dtypes.float32;

interface Shape {
  readonly heads?: number;
  readonly rows?: number;
  readonly middle?: number;
  readonly terms?: number;
  readonly columns?: number;
  readonly dtype?: DType;
  /** What is made of the product of row and middle, with a number of each; undefined: what is so. */
  readonly hide?: (row: UOp, middle: UOp) => UOp;
}

/** What a kernel has: its ranges, and reads of operands by row and column. */
class Parts {
  readonly h: UOp;
  readonly row: UOp;
  readonly middle: UOp;
  readonly column: UOp;
  readonly dtype: DType;
  private term: number;

  constructor(readonly shape: Required<Omit<Shape, "hide">> & Shape) {
    this.h = range(shape.heads, 0, AxisKind.LOOP);
    this.row = range(shape.rows, 1, AxisKind.LOOP);
    this.column = range(shape.columns, 2, AxisKind.LOOP);
    this.middle = range(shape.middle, 3, AxisKind.REDUCE);
    this.dtype = shape.dtype;
    this.term = 4;
  }
  read(slot: number, rows: number, width: number, row: UOp, column: UOp, dtype: DType = this.dtype): UOp {
    const { heads } = this.shape, at = this.h.mul(rows * width).add(row.mul(width)).add(column);
    const value = load(index(param(slot, dtype, heads * rows * width), at));
    return dtype === f ? value : value.cast(f);
  }
  /** A sum of products of row and middle. */
  product(a: number, b: number): UOp {
    const { rows, middle, terms } = this.shape, d = range(terms, this.term++, AxisKind.REDUCE);
    const term = this.read(a, rows, terms, this.row, d).mul(this.read(b, middle, terms, this.middle, d));
    return reduce(opCarrier(Ops.ADD, f), [term], [d]);
  }
  ofRow(slot: number): UOp {
    return this.read(slot, this.shape.rows, 1, this.row, constant(0, this.row.dtype), f);
  }
  ofMiddle(slot: number): UOp {
    return this.read(slot, this.shape.middle, 1, this.middle, constant(0, this.row.dtype), f);
  }
  hidden(x: UOp, other: number): UOp {
    const { hide } = this.shape;
    return hide === undefined ? x : hide(this.row, this.middle).where(x, constant(other, f));
  }
  byRow(value: UOp): UOp {
    const { heads, rows } = this.shape;
    return sink([store(index(param(0, f, heads * rows), this.h.mul(rows).add(this.row)), value)]);
  }
  byColumn(value: UOp): UOp {
    const { heads, rows, columns } = this.shape;
    const at = this.h.mul(rows * columns).add(this.row.mul(columns)).add(this.column);
    return sink([store(index(param(0, this.dtype, heads * rows * columns), at), value.cast(this.dtype))]);
  }
}

const KERNELS: Readonly<Record<string, (p: Parts) => UOp>> = {
  "a weighted sum": (p) => {
    const weight = p.hidden(p.product(1, 2).mul(0.1), -Infinity).add(p.ofMiddle(4).mul(-1)).mul(Math.LOG2E).alu(
      Ops.EXP2,
    );
    const value = p.read(3, p.shape.middle, p.shape.columns, p.middle, p.column);
    return p.byColumn(reduce(opCarrier(Ops.ADD, f), [weight.cast(p.dtype).cast(f).mul(value)], [p.middle]));
  },
  "a weighted sum of two products": (p) => {
    const weight = p.product(1, 2).mul(0.1).add(p.ofRow(4)).alu(Ops.EXP2).mul(p.product(5, 6)).fdiv(p.ofRow(7).add(9));
    const value = p.read(3, p.shape.middle, p.shape.columns, p.middle, p.column);
    const term = value.mul(p.hidden(weight, 0).cast(p.dtype).cast(f));
    return p.byColumn(reduce(opCarrier(Ops.ADD, f), [term], [p.middle]));
  },
  "sums of rows": (p) => {
    const x = p.hidden(p.product(1, 2).mul(0.1).add(p.ofRow(4)).alu(Ops.EXP2).mul(p.product(3, 5)), 0);
    return p.byRow(reduce(opCarrier(Ops.ADD, f), [x], [p.middle]));
  },
  "largest elements of rows": (p) =>
    p.byRow(reduce(opCarrier(Ops.MAX, f), [p.hidden(p.product(1, 2), -Infinity)], [p.middle])),
  "a weighted sum less its maximum": (p) => {
    const x = p.hidden(p.product(1, 2), -Infinity),
      value = p.read(3, p.shape.middle, p.shape.columns, p.middle, p.column);
    const all = reduce(new RescaleCarrier(f, 0.3, 2, p.dtype), [x, constant(1, f), value], [p.middle]),
      max = getTuple(all, 0);
    return p.byColumn(getTuple(all, 2).fdiv(getTuple(all, 1).add(max.add(max.mul(-1)))));
  },
  "logarithms of sums of exponentials": (p) => {
    const x = p.hidden(p.product(1, 2).mul(0.3), -Infinity);
    const all = reduce(new RescaleCarrier(f, Math.LOG2E, 1), [x, constant(1, f)], [p.middle]);
    return p.byRow(getTuple(all, 1).alu(Ops.LOG2).mul(Math.LN2).add(getTuple(all, 0)));
  },
};

function kernel(name: string, shape: Shape): UOp {
  return KERNELS[name](
    new Parts({ heads: 1, rows: 32, middle: 64, terms: 32, columns: 32, dtype: dtypes.bfloat16, ...shape }),
  );
}

/** Numbers around 0, the same each time. */
function dataOf(ast: UOp): Data[] {
  return paramsOf(ast).map(({ dtype, size }, slot) => {
    const numbers = Array.from({ length: size }, (_, i) => Math.sin(i * 12.9898 + slot * 78.233) * 2);
    const bytes = encode(numbers, dtype).slice().buffer;
    if (dtype === f) return new Float32Array(bytes);
    return dtype === dtypes.float16 ? new Float16Array(bytes) : new Uint16Array(bytes);
  });
}

function wrong(ast: UOp, made: ReturnType<typeof opts> | undefined): string | undefined {
  const data = dataOf(ast), [want] = run(ast, data, [], {}), [got] = run(ast, data, made, GPU);
  const { dtype } = paramsOf(ast)[0];
  const values = [got, want].map((x) =>
    decode(new Uint8Array(x.buffer, x.byteOffset, x.byteLength), dtype).map(Number)
  );
  return difference(values[0], values[1], toleranceOf("accumulate", dtypes.bfloat16));
}

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
        assertEquals(wrong(ast, undefined), undefined);
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
      "TC:-1:0",
      "TC:-1:0 UNROLL:1:2",
      "TC:-1:0 LOCAL:0:2 UPCAST:1:4",
      "TC:-1:0 UNROLL:1:2 LOCAL:0:2 UPCAST:1:4 UNROLL:0:2 STAGE:2 STAGE:3",
      "TC:-1:0 UNROLL:1:2 LOCAL:0:2 UPCAST:1:4 UNROLL:0:2 STAGE:2:ring=2 STAGE:3:ring=2",
      "TC:-1:0 UNROLL:1:2 UPCAST:0:2 UPCAST:1:4 UNROLL:0:2 STAGE:2:ring=2 STAGE:3:ring=2",
    ]
  ) assertEquals(wrong(ast, opts(text)), undefined, text);
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
  for (const core of [MMA_BF16, MMA_F16]) assertEquals([chainOf(core)!.m, chainOf(core)!.n], [core.m, core.k]);
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
