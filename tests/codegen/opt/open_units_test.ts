/** Matrix units along axes that end at a variable: what is chosen, values at all kinds of ends, where loops end. */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { dtypes } from "../../../mod.ts";
import { ArgumentError } from "../../../src/helpers/errors.ts";
import { MMA_F16, WGMMA } from "../../../src/renderer/tensor_core_table.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp, variable } from "../../../src/uop/core/uop.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { SIM_GRID, simCaps } from "../../fixtures/sim.ts";
import { kernel, wrong } from "../chains.ts";
import { compile, expectSame, integers, opts, paramsOf, run } from "../harness.ts";

const LANES = simCaps({ ...SIM_GRID, tensorCores: [MMA_F16] }), f = dtypes.float32, { float16 } = dtypes;
const SHARED = simCaps({ ...SIM_GRID, tensorCores: WGMMA });

/** out (m x n) = a (m x k) times b (k x n), b transposed: sizes, or the variable that an axis ends at. */
function product(m: number | UOp, n: number | UOp, k: number | UOp, most: number): UOp {
  const axis = (size: number | UOp, id: number, kind: AxisKind): [UOp, number] => [
    range(size, id, kind),
    typeof size === "number" ? size : most,
  ];
  const [i, rows] = axis(m, 0, AxisKind.LOOP), [j, columns] = axis(n, 1, AxisKind.LOOP);
  const [l, terms] = axis(k, 2, AxisKind.REDUCE);
  const a = load(index(param(1, float16, rows * terms), i.mul(terms).add(l))).cast(f);
  const b = load(index(param(2, float16, columns * terms), j.mul(terms).add(l))).cast(f);
  const sum = reduce(opCarrier(Ops.ADD, f), [a.mul(b)], [l]);
  return sink([store(index(param(0, f, rows * columns), i.mul(columns).add(j)), sum)]);
}

for (const axis of ["rows", "columns", "sums"]) {
  Deno.test(
    `open units: a large product whose ${axis} end at a variable is done in blocks of tiles`,
    optimized(() => {
      const most = 4096, end = variable("n", 0, most), at = (name: string): number | UOp => name === axis ? end : 1024;
      const p = compile(product(at("rows"), at("columns"), at("sums"), most), undefined, LANES);
      const i = ["rows", "columns", "sums"].indexOf(axis);
      assertMatch(p.opts!, new RegExp(`PADTO:${i}:\\d+ .*TC:0.* STAGE:1`));
      assert(p.uops.some((u) => u.op === Ops.WMMA));
    }),
  );

  Deno.test(`open units: of products whose ${axis} end at a variable nothing behind it is stored or added`, () => {
    const most = 70, end = variable("n", 0, most), at = (name: string, size: number) => name === axis ? end : size;
    const ast = product(at("rows", 40), at("columns", 24), at("sums", 48), most);
    const text = "PADTO:0:32 PADTO:1:16 PADTO:2:32 TC:0 LOCAL:0:2 UPCAST:1:2 UNROLL:0:2";
    const data = integers(paramsOf(ast));
    for (const made of [text, `${text} STAGE:1:ring=3 STAGE:2:ring=3`, `${text} STAGE:1 STAGE:2`]) {
      for (const n of [0, 1, 31, 32, 33, 64, 70]) {
        const want = run(ast, data, [], {}, [n]);
        expectSame(ast, run(ast, data, opts(made), LANES, [n]), want, `${made} of ${n}`);
      }
    }
  });
}

Deno.test("open units: an axis that ends at a variable is cut in blocks before its tile is split off", () => {
  const ast = product(variable("n", 0, 64), 32, 32, 64);
  assertThrows(() => compile(ast, opts("TC:0"), LANES), ArgumentError, "cut in blocks first");
});

const ATTENTION = "a weighted sum less its maximum";
for (const [what, caps] of [["hold", LANES], ["share", SHARED]] as const) {
  Deno.test(
    `open units: lanes that ${what} operands do attention to keys whose number is a variable in one kernel`,
    optimized(() => {
      const start = variable("n", 0, 120), end = start.add(32);
      const ast = kernel(ATTENTION, {
        rows: 32,
        middle: 152,
        end,
        terms: 64,
        columns: 64,
        dtype: float16,
        hide: (row, key) => row.add(start).lt(key).ne(1),
      });
      // units that read shared memory need rows enough
      const made = what === "hold" ? undefined : opts(
        `PADTO:0:64 PADTO:2:64 TC:${WGMMA.findIndex((c) => c.n === 64 && c.input === float16)} ` +
          "UNROLL:1:4 STAGE:2:ring=3 STAGE:3:ring=3",
      );
      const p = compile(ast, made, caps);
      assert(p.uops.some((u) => u.op === Ops.WMMA));
      for (const n of [0, 32, 97]) assertEquals(wrong(ast, made, caps, [n]), undefined, `${n}`);
    }),
  );
}

Deno.test("open units: a loop over keys ends where the mask hides the rest", () => {
  const start = variable("n", 0, 4000);
  const ends = [undefined, (row: UOp, key: UOp) => row.add(start).lt(key).ne(1)].map((hide) => {
    const shape = { rows: 96, middle: 4096, end: start.add(96), terms: 16, columns: 16, dtype: float16, hide };
    const made = opts("PADTO:2:32 TC:0 UPCAST:1:2 UNROLL:0:2"),
      { uops } = compile(kernel(ATTENTION, shape), made, LANES);
    const loop = uops.find((u) => u.op === Ops.RANGE && u.src[0].op !== Ops.CONST)!;
    const below = new Set<UOp>([loop.src[0]]);
    for (const u of below) for (const s of u.src) below.add(s);
    return [...below].some((u) => u.op === Ops.SPECIAL);
  });
  assertEquals(ends, [false, true]);
});
