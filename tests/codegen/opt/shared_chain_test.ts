/** Chains of products on matrix units that read shared memory: values against the scalar form, waits, what is chosen. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { dtypes } from "../../../mod.ts";
import { withOpts } from "../../../src/codegen/opt/opt.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import type { DType } from "../../../src/dtype/dtype.ts";
import { ArgumentError, SpecError } from "../../../src/helpers/errors.ts";
import { cudaCaps } from "../../../src/renderer/cuda_caps.ts";
import { PtxRenderer } from "../../../src/renderer/ptx/ptx.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";
import { chainOf, type TensorCore, WGMMA } from "../../../src/renderer/tensor_core_table.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { getTuple, reduce, RescaleCarrier } from "../../../src/uop/core/carrier.ts";
import { constant, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { SIM_GRID, simCaps } from "../../fixtures/sim.ts";
import { assemble, available, type Language } from "../../renderer/assemble.ts";
import { decode } from "../../reference.ts";
import { difference, toleranceOf } from "../../tolerance.ts";
import { runPtx } from "../../fuzz/ptx.ts";
import { dataOf, kernel, Parts, type Shape, wrong } from "../chains.ts";
import { compile, opts, run } from "../harness.ts";
import { verifyUnits } from "../verify_units.ts";

const UNITS = [...SIM_GRID.tensorCores, ...WGMMA], GPU = simCaps({ ...SIM_GRID, tensorCores: UNITS });
const ALONE = simCaps({ ...SIM_GRID, tensorCores: WGMMA });
const HOPPER = new PtxRenderer(cudaCaps({ arch: "sm_90a" }), "sm_90a");
const { bfloat16, float16 } = dtypes;
const ONE = "a weighted sum less its maximum", TWO = "a weighted sum of two products";
const causal = (row: UOp, middle: UOp): UOp => middle.lt(row.add(1));

function numberOf(dtype: DType, n: number, units: readonly TensorCore[] = UNITS): number {
  return units.findIndex((c) => c.shared !== undefined && c.input === dtype && c.n === n);
}

function count(p: LinearProgram, is: (u: UOp) => boolean): number {
  return p.uops.filter(is).length;
}

/** The opts of a chain; of `terms` 64 by 64. */
function optsOf(n: number, ring: number, inputs: readonly number[], terms = 64, more = "", dtype: DType = bfloat16) {
  const sums = inputs.includes(6) ? [1, 2] : [1];
  const unrolled = sums.map((i) => `UNROLL:${i}:${terms / 16}`), staged = inputs.map((i) => `STAGE:${i}:ring=${ring}`);
  return [`TC:${numberOf(dtype, n)}`, more, ...unrolled, ...staged].filter((x) => x !== "").join(" ");
}

const CASES: readonly (readonly [name: string, text: string, shape: Shape])[] = [
  [ONE, optsOf(64, 1, [2, 3]), { rows: 64, middle: 128, terms: 64, columns: 64 }],
  [ONE, optsOf(64, 4, [2, 3]), { rows: 64, middle: 384, terms: 64, columns: 64, hide: causal }],
  [ONE, optsOf(128, 2, [2, 3], 64, "", float16), { rows: 64, middle: 256, terms: 64, columns: 64, dtype: float16 }],
  [ONE, `PADTO:1:128 ${optsOf(64, 3, [2, 3], 128, "LOCAL:0:2 UPCAST:1:2")}`, {
    rows: 128,
    middle: 192,
    terms: 128,
    columns: 80,
    hide: causal,
  }],
  [ONE, `PADTO:0:128 PADTO:1:64 PADTO:2:64 PADTO:3:64 ${optsOf(64, 3, [2, 3], 64, "LOCAL:0:2")}`, {
    rows: 70,
    middle: 150,
    terms: 40,
    columns: 48,
    hide: causal,
  }],
  [TWO, optsOf(64, 2, [2, 3, 6]), { rows: 64, middle: 128, terms: 64, columns: 64 }],
  [TWO, `PADTO:2:128 ${optsOf(128, 1, [2, 3, 6])}`, { rows: 64, middle: 140, terms: 64, columns: 64, hide: causal }],
  ["sums of rows", optsOf(64, 3, [2, 5, 6].slice(0, 2)).replace("STAGE:2", "UNROLL:2:4 STAGE:2"), {
    rows: 64,
    middle: 192,
    terms: 64,
  }],
  ["largest elements of rows", optsOf(64, 3, [2]), { rows: 64, middle: 192, terms: 64 }],
  ["logarithms of sums of exponentials", optsOf(128, 3, [2]), { rows: 64, middle: 384, terms: 64 }],
];
for (const [name, text, shape] of CASES) {
  Deno.test(`shared chains: ${name} of ${shape.rows} by ${shape.middle} by ${shape.terms} under ${text}`, () => {
    const ast = kernel(name, shape), p = compile(ast, opts(text), GPU);
    assert(count(p, (u) => u.op === Ops.WMMA) > 0 && count(p, (u) => u.op === Ops.LDMATRIX) === 0);
    assertEquals(wrong(ast, opts(text), GPU), undefined);
  });
}

Deno.test("shared chains: columns that lie along the sum, in rows of 16 bytes", () => {
  const p = toProgram(
    withOpts(
      kernel(ONE, { rows: 64, middle: 128, terms: 64, columns: 64 }),
      opts(
        optsOf(64, 1, [2, 3], 64, "", bfloat16).replace(
          /TC:\d+/,
          `TC:${numberOf(bfloat16, 64, HOPPER.caps.grid!.tensorCores)}`,
        ),
      ),
    ),
    HOPPER,
  );
  const tiles = p.uops.flatMap((u) => u.op === Ops.WMMA ? [(u.arg as TensorCore).shared![1].isAlong] : []);
  assertEquals(new Set(tiles), new Set([true, false]));
});

for (
  const [name, shape, more] of [
    [ONE, { rows: 64, middle: 256, terms: 64, columns: 64, hide: causal }, ""],
    [ONE, { rows: 64, middle: 64, terms: 128, columns: 128, dtype: float16 }, "UPCAST:1:2"],
    [TWO, { rows: 64, middle: 192, terms: 64, columns: 64 }, ""],
  ] as const
) {
  Deno.test(`shared chains: as PTX, ${name} of ${shape.middle} by ${shape.terms}`, () => {
    const dtype: DType = "dtype" in shape ? shape.dtype : bfloat16, inputs = name === TWO ? [2, 3, 6] : [2, 3];
    const number = numberOf(dtype, 64, HOPPER.caps.grid!.tensorCores), ast = kernel(name, shape), data = dataOf(ast);
    const text = optsOf(64, 4, inputs, shape.terms, more, dtype).replace(/TC:\d+/, `TC:${number}`);
    const program = toProgram(withOpts(ast, opts(text)), HOPPER);
    const [want] = run(ast, data, [], {}), [got] = runPtx(program, data, []);
    const [a, b] = [got, want].map((x) =>
      decode(new Uint8Array(x.buffer, x.byteOffset, x.byteLength), dtype).map(Number)
    );
    assertEquals(difference(a, b, toleranceOf("accumulate", bfloat16)), undefined);
  });
}

Deno.test("shared chains: left operands that a loop finds in registers are read behind it", () => {
  const ast = kernel(TWO, { rows: 64, middle: 192, terms: 64, columns: 64 }), data = dataOf(ast);
  const number = numberOf(bfloat16, 64, HOPPER.caps.grid!.tensorCores);
  const p = toProgram(
    withOpts(ast, opts(optsOf(64, 4, [2, 3, 6]).replace(/TC:\d+/, `TC:${number}`))),
    HOPPER,
  );
  const isFound = (u: UOp): boolean => u.op === Ops.UNIT && u.arg === "found", uops = [...p.uops];
  const at = uops.findIndex(isFound), [{ src }] = uops.splice(at, 1);
  assertEquals(uops[at - 1].op, Ops.END);
  const loop = uops.indexOf(uops[at - 1].src[0]), left = uops.flatMap((u) => u.op === Ops.WMMA ? [u.src[0]] : []);
  assertEquals(new Set(left.filter((u) => uops.indexOf(u) < loop)), new Set(src));
  assertThrows(() => runPtx({ ...p, uops }, data, []), Error, "is not read behind the loop");
});

Deno.test("shared chains: results of the inner unit are the left operand of the outer one", () => {
  for (const core of WGMMA) {
    const chain = chainOf(core);
    assertEquals(chain !== undefined, core.input !== dtypes.int8 && core.n <= 128);
    if (chain === undefined) continue;
    assertEquals([chain.inner.n, chain.inner.c], [chain.outer.k, chain.outer.a]);
    assertEquals(chain.inner.shared![0], undefined);
  }
});

Deno.test("shared chains: what touches registers that a unit has is found", () => {
  const ast = kernel(ONE, { rows: 64, middle: 256, terms: 64, columns: 64 }),
    p = compile(ast, opts(optsOf(64, 4, [2, 3])), GPU);
  const without = (is: (u: UOp, i: number) => boolean): UOp[] => p.uops.filter((u, i) => !is(u, i));
  verifyUnits(p.uops);
  const isWait = (u: UOp): boolean => u.op === Ops.UNIT && u.arg === 0,
    at = (k: number): number => p.uops.flatMap((u, i) => isWait(u) ? [i] : [])[k];
  const waits = count(p, isWait);
  assert(waits >= 2);
  assertThrows(() => verifyUnits(without((u) => isWait(u))), SpecError, "what a matrix unit adds to");
  assertThrows(() => verifyUnits(without((_, i) => i === at(waits - 1))), SpecError, "a matrix unit");
  // a batch that begins before its operands are there
  const begin = p.uops.findLastIndex((u) => u.op === Ops.UNIT && u.arg === "begin"), early = [...p.uops];
  const [moved] = early.splice(begin, 1);
  early.splice(p.uops.findIndex((u) => u.op === Ops.EXP2), 0, uop(Ops.UNIT, dtypes.void, [], moved.arg));
  assertThrows(() => verifyUnits(early), SpecError, "after its batch began");
});

Deno.test("shared chains: what a unit cannot read is a named error", () => {
  const ast = kernel(ONE, { rows: 64, middle: 128, terms: 64, columns: 64 });
  for (const text of [`TC:${numberOf(bfloat16, 64)} UNROLL:1:4`, optsOf(64, 1, [2])]) {
    assertThrows(() => compile(ast, opts(text), GPU), ArgumentError, "reads operands from a STAGE");
  }
});

Deno.test(
  "shared chains: attention takes them where rows fill their tiles, else lanes feed units",
  optimized(() => {
    const unitOf = (shape: Shape, name = ONE): string => {
      const p = toProgram(
        kernel(name, { heads: 64, rows: 1024, middle: 1024, terms: 64, columns: 64, ...shape }),
        HOPPER,
      );
      return `${p.uops.find((u) => u.op === Ops.WMMA)!.arg}`.slice(0, 3);
    };
    assertEquals(unitOf({}), "m64");
    assertEquals(unitOf({ terms: 128, columns: 128, dtype: float16, hide: causal }), "m64");
    assertEquals(unitOf({ rows: 8 }), "m16");
    // what gradients and sums of rows read for each element takes longer so
    for (const name of [TWO, "sums of rows"]) assertEquals(unitOf({}, name), "m16");
    // rows of 42 elements do not begin at multiples of 16 bytes
    assertEquals(unitOf({ terms: 42 }), "m16");
    assertEquals(unitOf({ terms: 16, columns: 16 }), "m16");
  }),
);

Deno.test(
  "shared chains: what is divided for each element stays with lanes",
  optimized(() => {
    const unitOf = (of: (p: Parts) => UOp): string => {
      const p = new Parts({ heads: 64, rows: 1024, middle: 1024, terms: 64, columns: 64, dtype: bfloat16 });
      const value = p.read(3, 1024, 64, p.middle, p.column), lifts = [of(p), constant(1, dtypes.float32), value];
      const all = reduce(new RescaleCarrier(dtypes.float32, 1, 2, bfloat16), lifts, [p.middle]);
      const program = toProgram(p.byColumn(getTuple(all, 2).fdiv(getTuple(all, 1))), HOPPER);
      return `${program.uops.find((u) => u.op === Ops.WMMA)!.arg}`.slice(0, 3);
    };
    assertEquals(unitOf((p) => p.product(1, 2).fdiv(p.ofRow(4))), "m64");
    assertEquals(unitOf((p) => p.product(1, 2).fdiv(p.ofMiddle(4))), "m16");
    assertEquals(unitOf((p) => p.product(1, 2).add(p.ofMiddle(4).alu(Ops.SQRT))), "m16");
  }),
);

for (
  const [text, shape] of [
    ["hidden elements", { rows: 100, middle: 200, terms: 64, columns: 64, hide: causal }],
    ["hidden at both ends", {
      rows: 192,
      middle: 256,
      terms: 64,
      columns: 64,
      hide: (row: UOp, middle: UOp) => causal(row, middle).and(row.add(-20).lt(middle)),
    }],
    ["odd sizes", { rows: 90, middle: 77, terms: 80, columns: 80, heads: 2 }],
  ] as const
) {
  Deno.test(
    `shared chains: as they are chosen, ${text}`,
    optimized(() => {
      const ast = kernel(ONE, shape), p = compile(ast, undefined, ALONE);
      assertEquals(`${p.uops.find((u) => u.op === Ops.WMMA)!.arg}`.slice(0, 3), "m64");
      assertEquals(wrong(ast, undefined, ALONE), undefined);
    }),
  );
}

for (const language of ["PTX", "CUDA C"] as Language[]) {
  Deno.test({
    name: `shared chains: assembled as ${language}`,
    ignore: !available[language],
    fn: async () => {
      const shapes: readonly (readonly [string, Shape])[] = [[ONE, { terms: 64, columns: 64, hide: causal }], [ONE, {
        terms: 128,
        columns: 128,
        dtype: float16,
      }], ["logarithms of sums of exponentials", { terms: 64 }]];
      await optimized(async () => {
        const programs = shapes.map(([name, shape]) =>
          toProgram(kernel(name, { heads: 64, rows: 1024, middle: 1024, ...shape }), HOPPER)
        );
        for (const p of programs) assertEquals(`${p.uops.find((u) => u.op === Ops.WMMA)!.arg}`.slice(0, 3), "m64");
        await assemble(language, programs, "sm_90a");
      })();
    },
  });
}
