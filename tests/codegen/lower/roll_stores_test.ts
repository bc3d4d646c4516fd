/** Stores of single lanes as loops: what is kept for them, that values stay the same, and where copies are left alone. */
import { deepStrictEqual as assertEquals, ok, strictEqual } from "node:assert/strict";
import { simplifyRanges } from "../../../src/codegen/ast/simplify.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";
import { AxisKind, type LocalArg } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { constant, index, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { CAPS, compile, integers, opts, paramsOf, run } from "../harness.ts";

const ROWS = 64, COLUMNS = 9, DEPTH = 5, SIZE = ROWS * COLUMNS;
/** Lanes are rows, which are not neighbors in what is written; three columns are no row that vectors hold. */
const TILES = opts("VECTOR:0:16 UPCAST:1:3");

interface Parts {
  /** The sum of products at row `i` and column `j`. */
  readonly sum: UOp;
  readonly i: UOp;
  readonly j: UOp;
  /** What lies in slot `slot` where the sum is stored, and in the order of lanes. */
  readonly beside: (slot: number) => UOp;
  readonly across: (slot: number) => UOp;
  /** What is the same for all of a row, and of a column. */
  readonly row: (slot: number) => UOp;
  readonly column: (slot: number) => UOp;
}

/** Stores what `value` makes of products of matrices at `[i, j]`, one STORE for each. */
function kernel(
  value: (p: Parts) => UOp | UOp[],
  dtype: DType = dtypes.float32,
  op: Ops = Ops.ADD,
  depth = DEPTH,
): UOp {
  const i = range(ROWS, 0, AxisKind.LOOP), j = range(COLUMNS, 1, AxisKind.LOOP), k = range(depth, 2, AxisKind.REDUCE);
  const at = (slot: number, size: number, x: UOp): UOp => load(index(param(slot, dtype, size), x));
  const product = at(1, ROWS * depth, k.mul(ROWS).add(i)).mul(at(2, COLUMNS * depth, j.mul(depth).add(k)));
  const place = i.mul(COLUMNS).add(j);
  const made = value({
    sum: reduce(opCarrier(op, dtype), [product], [k]),
    i,
    j,
    beside: (slot) => at(slot, SIZE, place),
    across: (slot) => at(slot, SIZE, j.mul(ROWS).add(i)),
    row: (slot) => at(slot, ROWS, i),
    column: (slot) => at(slot, COLUMNS, j),
  });
  const slots = [0, 5];
  const stores = [made].flat().map((v, n) => store(index(param(slots[n], v.dtype, SIZE), place), v));
  return simplifyRanges(sink(stores));
}

const zero = constant(0, dtypes.float32);
/** A function that rounds nothing. */
const root = (x: UOp): UOp => x.mul(x).alu(Ops.SQRT);
/** What is stored, and how many tiles are kept for it: one for each STORE, and for each input that is read as it is stored. */
const KERNELS: Record<string, [ast: UOp, kept: number]> = {
  "a sum": [kernel(({ sum }) => sum), 1],
  "a largest product": [kernel(({ sum }) => sum, dtypes.float32, Ops.MAX), 1],
  "a sum under a function": [kernel(({ sum }) => sum.add(1).alu(Ops.SQRT).mul(sum)), 1],
  "beside what is read like it": [kernel(({ sum, beside }) => beside(3).lt(0).where(zero, sum)), 2],
  "beside what is read in lanes": [kernel(({ sum, across }) => sum.mul(across(3))), 1],
  "beside both": [kernel(({ sum, beside, across }) => sum.mul(across(3)).add(beside(4))), 2],
  "twice beside what is read like it": [
    kernel(({ sum, beside }) => beside(3).lt(0).where(sum.mul(2).add(1), sum.add(beside(4)))),
    3,
  ],
  "two of one sum": [kernel(({ sum, beside }) => [sum.add(beside(3)), sum.mul(beside(4))]), 4],
  "a comparison": [kernel(({ sum }) => sum.lt(3)), 1],
  "by row and column": [kernel(({ sum, i, j }) => i.lt(j.mul(9)).where(sum, zero)), 1],
  "in place": [kernel(({ sum, beside }) => beside(0).add(sum)), 2],
  integers: [kernel(({ sum }) => sum, dtypes.int32), 1],
  "small floats": [kernel(({ sum, beside }) => sum.add(beside(3)), dtypes.float16), 2],
  "floats that are kept as integers": [kernel(({ sum, beside }) => sum.add(beside(3)), dtypes.bfloat16), 2],
  "no sum": [kernel(({ across, beside }) => across(1).mul(across(1)).add(beside(2))), 2],
};

/** Elements of each row of the kernel's own memory. */
function memory(p: LinearProgram): number[] {
  return p.uops.filter((u) => u.op === Ops.LOCAL).map((u) => (u.arg as LocalArg).size);
}
/** STOREs to buffers, as they stand in the program. */
function stores(p: LinearProgram): number {
  return p.uops.filter((u) => u.op === Ops.STORE && u.src[0].op === Ops.INDEX && u.src[0].src[0].op === Ops.PARAM)
    .length;
}

for (const [name, [ast, kept]] of Object.entries(KERNELS)) {
  Deno.test(`roll: ${name}`, () => {
    const data = integers(paramsOf(ast)), program = compile(ast, TILES, CAPS.large);
    assertEquals(memory(program), new Array(kept).fill(48));
    strictEqual(stores(program), ast.src.length);
    assertEquals(run(ast, data, TILES, CAPS.large), run(ast, data, []));
  });
}

Deno.test("roll: few stores, neighbors, and what is read elsewhere than it is written stay copies", () => {
  const few = compile(KERNELS["a sum"][0], opts("VECTOR:0:16 UPCAST:1:2"), CAPS.large);
  assertEquals([memory(few), stores(few)], [[], 32]);
  const columns = compile(KERNELS["a sum"][0], opts("VECTOR:1:8 UPCAST:0:8"), CAPS.large);
  assertEquals([memory(columns), stores(columns)], [[], 8]);
  const i = range(ROWS, 0, AxisKind.LOOP), out = param(0, dtypes.float32, 2 * SIZE);
  const shifted = sink([store(index(out, i.mul(COLUMNS)), load(index(out, i.mul(COLUMNS).add(SIZE))))]);
  const plain = compile(shifted, opts("VECTOR:0:16 UPCAST:0:4"), CAPS.large);
  assertEquals([memory(plain), stores(plain)], [[], 64]);
  // one STORE reads what another one writes
  const other = index(param(0, dtypes.float32, SIZE), i.mul(COLUMNS)), more = param(5, dtypes.float32, SIZE);
  const swap = compile(
    sink([store(other, constant(1, dtypes.float32)), store(index(more, i.mul(COLUMNS)), load(other))]),
    opts("VECTOR:0:16 UPCAST:0:4"),
    CAPS.large,
  );
  assertEquals([memory(swap), stores(swap)], [[], 128]);
});

Deno.test("roll: the smallest stride is the innermost loop of a store, and tiles that overlap are stored twice", () => {
  const [ast] = KERNELS["beside both"], data = integers(paramsOf(ast));
  for (const o of ["VECTOR:0:16 UPCAST:0:4", "UPCAST:0:3 VECTOR:0:16", "VECTOR:0:16 UPCAST:1:3 UPCAST:0:2"]) {
    assertEquals(run(ast, data, opts(o), CAPS.large), run(ast, data, []), o);
  }
  const { uops } = compile(ast, TILES, CAPS.large);
  const loops = uops.filter((u) => u.op === Ops.RANGE).map((u) => u.src[0].value);
  // 4 and 3 of rows and columns, the sum; what is kept is filled as it lies, and stored by 16 rows of 3 neighbors
  assertEquals(loops, [4, 3, 5, 3, 16, 16, 3]);
  ok(uops.at(-1)!.op === Ops.END);
});

/** What is computed of sums of many products, in lanes of neighbors, and the elements that are kept for it. */
const LONG: Record<string, [value: (p: Parts) => UOp | UOp[], kept: number[]]> = {
  "functions of a sum": [({ sum }) => sum.add(1).mul(sum).lt(3).where(sum.mul(2), root(sum)).mul(sum).add(3), [64]],
  "a sum beside what lies like it": [({ sum, beside }) => sum.mul(beside(3)).add(beside(4)).sub(beside(6)), [64]],
  "a factor of the row": [({ sum, row }) => sum.mul(root(row(3)).add(1)).mul(row(4)).add(row(6)).max(zero), [64, 8]],
  "a factor of the column": [
    ({ sum, column }) =>
      sum.mul(root(column(3))).sub(column(4)).mul(sum).add(column(6)).lt(9).where(sum, zero).mul(sum).sub(3),
    [64],
  ],
  "two STOREs": [({ sum, beside }) => ["add", "sub"].map((f) => sum[f as "add"](beside(3)).mul(beside(4)).max(zero)), [
    64,
  ]],
  "nothing more": [({ sum }) => sum, []],
};
for (const [name, [value, kept]] of Object.entries(LONG)) {
  Deno.test(`roll: after a long reduction, ${name}`, () => {
    const ast = kernel(value, dtypes.float32, Ops.ADD, 64), data = integers(paramsOf(ast));
    const program = compile(ast, opts("VECTOR:1:8 UPCAST:0:8"), CAPS.large);
    assertEquals([memory(program), stores(program)], [kept, kept.length === 0 ? 8 : ast.src.length]);
    for (const o of ["VECTOR:1:8 UPCAST:0:8", "VECTOR:0:16 UPCAST:1:4", "VECTOR:0:16 UPCAST:1:3 UPCAST:0:4"]) {
      assertEquals(run(ast, data, opts(o), CAPS.large), run(ast, data, []), o);
    }
  });
}

Deno.test("roll: reads whose places are constants of copies and lanes stay copies", () => {
  const i = range(ROWS, 0, AxisKind.LOOP), j = range(64, 1, AxisKind.LOOP), width = 22;
  const within = j.alu(Ops.FLOORMOD, constant(3, j.dtype)).lt(2);
  const place = i.mul(width).add(j.alu(Ops.FLOORDIV, constant(3, j.dtype)));
  const spread = load(index(param(1, dtypes.float32, ROWS * width), place, within), constant(0, dtypes.float32));
  const ast = simplifyRanges(sink([store(index(param(0, dtypes.float32, ROWS * 64), i.mul(64).add(j)), spread)]));
  const data = integers(paramsOf(ast)), want = run(ast, data, []);
  const isQuotient = ({ op }: UOp): boolean => op === Ops.FLOORDIV || op === Ops.CDIV;
  // the whole axis, or a part of it
  for (
    const [text, isCopied] of [["VECTOR:1:16 UPCAST:1:4", true], ["VECTOR:1:16 UPCAST:1:2 UPCAST:0:2", false]] as const
  ) {
    const program = compile(ast, opts(text), CAPS.large);
    assertEquals([memory(program).length === 0, program.uops.some(isQuotient)], [isCopied, !isCopied], text);
    assertEquals(run(ast, data, opts(text), CAPS.large), want);
  }
});

Deno.test("roll: neighbors under conditions that a mask of lanes can tell are vectors, where the device loads such", () => {
  const i = range(ROWS, 0, AxisKind.LOOP), j = range(ROWS, 1, AxisKind.LOOP), size = ROWS * ROWS;
  const at = i.mul(ROWS).add(j), held = param(2, dtypes.int32, ROWS);
  const GATES: Record<string, [gate: UOp, place: UOp, kept: number]> = {
    "a triangle": [j.lt(i.add(1)), at, 0],
    "both ends": [j.lt(i.add(1)).and(j.lt(9).alu(Ops.CMPNE, constant(1, dtypes.bool))), at, 0],
    "every other one": [j.mul(2).lt(i.add(1)), at, 64],
    "no interval": [j.mul(j).lt(i.add(1)), at, 64],
    "no neighbors": [j.lt(i.add(1)), j.mul(ROWS).add(i), 64],
    "an end that is read": [j.lt(load(index(held, i))), at, 64],
  };
  for (const [name, [gate, place, kept]] of Object.entries(GATES)) {
    const to = index(param(0, dtypes.float32, size), at), from = param(1, dtypes.float32, size);
    const ast = simplifyRanges(sink([store(to, load(index(from, place, gate)))]));
    const data = integers(paramsOf(ast)), o = opts("VECTOR:1:16 UPCAST:1:4"), want = run(ast, data, []);
    for (const [caps, size] of [[CAPS.large, kept], [{ ...CAPS.large, hasMaskedLoads: false }, 64]] as const) {
      const program = compile(ast, o, caps);
      assertEquals(memory(program).filter((n) => n >= 48), size === 0 ? [] : [size], name);
      assertEquals(run(ast, data, o, caps, [], program), want, name);
    }
  }
});
