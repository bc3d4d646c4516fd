/** Matrix units that read their operands from shared memory: values against the scalar kernel, races, what is chosen. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { withOpts } from "../../../src/codegen/opt/opt.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import { ArgumentError, SpecError } from "../../../src/helpers/errors.ts";
import { cudaCaps } from "../../../src/renderer/cuda_caps.ts";
import { PtxRenderer } from "../../../src/renderer/ptx/ptx.ts";
import { inLanes } from "../../../src/renderer/lanes.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";
import { WGMMA } from "../../../src/renderer/tensor_core_table.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { index, load, param, range, sink, store, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { SIM_GRID, simCaps } from "../../fixtures/sim.ts";
import { runPtx } from "../../fuzz/ptx.ts";
import { assemble, available, type Language } from "../../renderer/assemble.ts";
import { compile, countOf, integers, opts, paramsOf, run, sameUnder } from "../harness.ts";
import { productKernel } from "../products.ts";

const UNITS = [...SIM_GRID.tensorCores, ...WGMMA], GPU = simCaps({ ...SIM_GRID, tensorCores: UNITS });
const HOPPER = new PtxRenderer(cudaCaps({ arch: "sm_90a" }), "sm_90a");
const { bfloat16, float16 } = dtypes;

function onGpu(ast: UOp, text: string | undefined): LinearProgram {
  return sameUnder(ast, text, GPU);
}

function numberOf(dtype: DType, n: number, units: readonly (typeof WGMMA)[number][] = UNITS): number {
  return units.findIndex((c) => c.shared !== undefined && c.input === dtype && c.n === n);
}

function staged(ring: number): string {
  return `UNROLL:0:4 STAGE:1:ring=${ring} STAGE:2:ring=${ring}`;
}

function optimizedProgram(ast: UOp): LinearProgram {
  return context({ NOOPT: 0 }, () => toProgram(ast, HOPPER));
}

for (
  const [dtype, transposeA, transposeB, ring] of [
    [bfloat16, false, false, 1],
    [bfloat16, false, false, 2],
    [bfloat16, false, false, 4],
    [bfloat16, false, true, 3],
    [bfloat16, true, false, 3],
    [float16, true, true, 3],
  ] as const
) {
  const name = `${dtype} ${transposeA ? "t" : "n"}${transposeB ? "t" : "n"}, ${ring} buffers`;
  Deno.test(`shared units: ${name}`, () => {
    const ast = productKernel(64, 64, 256, { dtype, transposeA, transposeB, bias: true });
    const p = onGpu(ast, `TC:${numberOf(dtype, 64)} ${staged(ring)}`);
    assertEquals([countOf(p, Ops.WMMA), countOf(p, Ops.LDMATRIX), p.grid!.size[0]], [4, 0, 128]);
    assertEquals(countOf(p, Ops.ASYNC_COPY) > 0, ring > 1);
  });
}

Deno.test("shared units: int8 sums in int32 where sums lie side by side", () => {
  const unit = `TC:${numberOf(dtypes.int8, 64)}`, dtype = dtypes.int8;
  onGpu(productKernel(64, 64, 384, { dtype, transposeB: true }), `${unit} ${staged(3)}`);
  const along = opts(`TC:${numberOf(dtype, 128)} ${staged(1)}`);
  assertThrows(
    () => compile(productKernel(64, 128, 128, { dtype }), along, GPU),
    ArgumentError,
    "whose sums lie side by side",
  );
  for (const transposeB of [true, false]) {
    const p = optimizedProgram(productKernel(2048, 2048, 2048, { dtype, transposeB }));
    assertEquals(p.uops.find((u) => u.op === Ops.WMMA)!.arg!.toString().slice(0, 3), transposeB ? "m64" : "m16");
  }
});

Deno.test("shared units: several tiles of rows and of columns, two groups of lanes, sides that are no multiples", () => {
  const unit = `TC:${numberOf(bfloat16, 64)} UPCAST:0:2 LOCAL:0:2 UPCAST:1:2`;
  const pads = "PADTO:0:256 PADTO:1:128 PADTO:2:64";
  const p = onGpu(productKernel(200, 72, 88, { dtype: bfloat16, bias: true }), `${pads} ${unit} ${staged(3)}`);
  assertEquals([countOf(p, Ops.WMMA), p.grid!.size], [16, [128, 2, 1]]);
});

/** A convolution of 3 x 3 with padding, its channels side by side: of `side` x `side` pixels, 64 channels and filters. */
function convolution(batch: number, side: number): UOp {
  const { REDUCE, LOOP } = AxisKind, [n, y, x, f] = [batch, side, side, 64].map((size, i) => range(size, i, LOOP));
  const [ky, kx, c] = [3, 3, 64].map((size, i) => range(size, 4 + i, REDUCE));
  const v = y.add(ky).add(-1), h = x.add(kx).add(-1), inside = (p: UOp): UOp => p.constLike(-1).lt(p).and(p.lt(side));
  const pixel = n.mul(side).add(v).mul(side).add(h).mul(64).add(c);
  const a = load(index(param(1, bfloat16, batch * side * side * 64), pixel, inside(v).and(inside(h))));
  const b = load(index(param(2, bfloat16, 64 * 9 * 64), f.mul(9).add(ky.mul(3)).add(kx).mul(64).add(c)));
  const sum = reduce(opCarrier(Ops.ADD, dtypes.float32), [a.cast(dtypes.float32).mul(b.cast(dtypes.float32))], [
    ky,
    kx,
    c,
  ]);
  const at = n.mul(side).add(y).mul(side).add(x).mul(64).add(f);
  return sink([store(index(param(0, dtypes.float32, batch * side * side * 64), at), sum)]);
}

Deno.test("shared units: a convolution, whose pixels and sums are merged axes", () => {
  const merges = "MERGE:1:2 MERGE:0:1 MERGE:3:4 MERGE:2:3 PADTO:0:128",
    unit = `TC:${numberOf(bfloat16, 64)} LOCAL:0:2`;
  const p = onGpu(convolution(2, 5), `${merges} ${unit} ${staged(3)}`);
  assertEquals([countOf(p, Ops.WMMA), p.grid!.size], [4, [128, 2, 1]]);
});

Deno.test(
  "shared units: convolutions are on them where their channels fill rows, else on lanes",
  optimized(() => {
    const p = toProgram(convolution(64, 56), HOPPER), unit = p.uops.find((u) => u.op === Ops.WMMA)!;
    assert(p.opts!.startsWith("MERGE") && unit.arg!.toString().startsWith("m64n"), p.opts);
  }),
);

Deno.test("shared units: lanes exchange sums, so that each stores 16 bytes of a row of 16-bit results", () => {
  const unit = `TC:${numberOf(float16, 128)}`, sizes = [64, 128, 128] as const, { float32 } = dtypes;
  for (const [stored, shuffles, lanes] of [[float16, 64, 8], [float32, 0, 2]] as const) {
    const p = onGpu(productKernel(...sizes, { dtype: float16, bias: true, stored }), `${unit} ${staged(2)}`);
    assertEquals(countOf(p, Ops.SHUFFLE), shuffles);
    const results = p.uops.filter((u) =>
      u.op === Ops.STORE && u.src[1].dtype.scalar === stored && u.src[1].dtype.count > 1
    );
    assertEquals(
      new Set(results.map((u) => u.src[1].dtype.count)),
      new Set(stored === float32 ? [lanes, 64] : [lanes]),
    );
  }
});

Deno.test("shared units: a sum of one tile needs no loop, a deep one goes on in the next block", () => {
  const unit = `TC:${numberOf(float16, 128)}`;
  onGpu(productKernel(64, 128, 64, { dtype: float16 }), `${unit} ${staged(1)}`);
  // all lanes wait for the sums, also those that store none
  const p = onGpu(productKernel(40, 128, 64, { dtype: float16 }), `PADTO:0:64 ${unit} ${staged(1)}`);
  const at = (is: (u: UOp) => boolean): number => p.uops.findIndex(is);
  assert(at((u) => u.op === Ops.UNIT && u.arg === 0) < at((u) => u.op === Ops.IF));
  onGpu(productKernel(64, 128, 128, { dtype: float16 }), `${unit} UNROLL:0:8 STAGE:1 STAGE:2`);
});

Deno.test("shared units: tiles after each other without a loop have batches of their own, which wait for their sums", () => {
  const text = `TC:${numberOf(float16, 128)} UPCAST:0:2 UPCAST:1:2 ${staged(1)}`;
  const p = onGpu(productKernel(128, 256, 64, { dtype: float16 }), text), lanes = inLanes(p).uops;
  const units = (uops: readonly UOp[]): unknown[] => uops.filter((u) => u.op === Ops.UNIT).map((u) => u.arg);
  assertEquals(units(lanes), units(p.uops));
  assertEquals(units(lanes).filter((x) => x === "commit").length, 4);
  const waits = lanes.filter((u) => u.op === Ops.UNIT && u.arg === 0);
  assertEquals(waits.map((u) => u.src.length), [64, 64, 64, 64]);
  for (const u of waits) assert(u.src.every((x) => lanes.indexOf(x) < lanes.indexOf(u)));
});

for (const [k, transposeB, ring] of [[64, false, 1], [256, true, 4], [320, false, 4]] as const) {
  Deno.test(`shared units: as PTX, a sum of ${k} in ${ring} buffers`, () => {
    const ast = productKernel(64, 64, k, { dtype: bfloat16, transposeB, bias: true }), data = integers(paramsOf(ast));
    const number = numberOf(bfloat16, 64, HOPPER.caps.grid!.tensorCores), o = opts(`TC:${number} ${staged(ring)}`);
    const [want] = run(ast, data, [], {}), [got] = runPtx(toProgram(withOpts(ast, o), HOPPER), data, []);
    assertEquals(got, want);
  });
}

Deno.test("shared units: what is written while a unit reads it is found", () => {
  const ast = productKernel(64, 64, 512, { dtype: bfloat16 }), data = integers(paramsOf(ast));
  const o = opts(`TC:${numberOf(bfloat16, 64)} ${staged(3)}`), p = compile(ast, o, GPU);
  assert(p.uops.some((u) => u.op === Ops.UNIT && u.arg === 1));
  const late = p.uops.map((u) => u.op === Ops.UNIT && u.arg === 1 ? uop(Ops.UNIT, u.dtype, [], 3) : u);
  assertThrows(() => run(ast, data, o, GPU, [], { ...p, uops: late }), SpecError, "which a matrix unit reads");
});

Deno.test("shared units: what they cannot read is a named error", () => {
  const unit = `TC:${numberOf(bfloat16, 64)}`, ast = productKernel(64, 64, 64, { dtype: bfloat16 });
  for (
    const [text, why] of [
      [`${unit} UNROLL:0:4`, "reads operands from a STAGE"],
      [`${unit} UNROLL:0:4 STAGE:1`, "reads operands from a STAGE"],
      [`${unit} UNROLL:0:2 STAGE:1 STAGE:2`, "rows of 32 elements are no swizzled rows of 128 bytes"],
    ]
  ) assertThrows(() => compile(ast, opts(text), GPU), ArgumentError, why);
});

for (
  const [m, n, k, want] of [
    [4096, 4096, 4096, "LOCAL:0:2 UNROLL:0:4 STAGE:2:ring=4 STAGE:1:ring=4"], // 128 x 256, of which one group has room
    [1024, 1024, 1024, "LOCAL:0:2 UNROLL:0:4 STAGE:2:ring=8 STAGE:1:ring=8"], // 128 x 64: a tile for each multiprocessor
    [4096, 576, 7168, "LOCAL:0:2 UPCAST:1:3 UNROLL:0:4 STAGE:2:ring=4 STAGE:1:ring=4"], // three columns of 192
  ] as const
) {
  Deno.test(
    `shared units: the tile of ${m} x ${n} x ${k} by waves, copies and what units read`,
    optimized(() => {
      const p = toProgram(productKernel(m, n, k, { dtype: bfloat16 }), HOPPER);
      assertEquals(p.opts!.slice(p.opts!.indexOf(" ") + 1), want);
      assertEquals([countOf(p, Ops.BARRIER), p.uops.find((u) => u.op === Ops.WMMA)!.arg!.toString().slice(0, 4)], [
        1,
        "m64n",
      ]);
    }),
  );
}

Deno.test(
  "shared units: operands that are no rows of 16 bytes, or are computed, stay with lanes",
  optimized(() => {
    for (
      const ast of [productKernel(512, 512, 511, { dtype: bfloat16 }), productKernel(512, 511, 512, { dtype: float16 })]
    ) {
      const p = toProgram(ast, HOPPER), unit = p.uops.find((u) => u.op === Ops.WMMA);
      assertEquals(unit!.arg!.toString().slice(0, 5), "m16n8");
    }
  }),
);

for (const language of ["PTX", "CUDA C"] as Language[]) {
  Deno.test({
    name: `shared units: assembled as ${language}`,
    ignore: !available[language],
    fn: async () => {
      const units = HOPPER.caps.grid!.tensorCores,
        programs = [[64, "LOCAL:0:2"], [256, ""], [128, "UPCAST:0:2"], [128, ""]].map(
          ([n, more], i) => {
            const dtype = [bfloat16, float16, bfloat16, dtypes.int8][i];
            const transposeA = i === 1 || i === 2, transposeB = i % 2 === 1;
            const text = `TC:${numberOf(dtype, n as number, units)} ${more} ${staged(4)}`;
            return toProgram(
              withOpts(productKernel(512, 512, 512, { dtype, transposeA, transposeB, bias: true }), opts(text)),
              HOPPER,
            );
          },
        );
      await assemble(language, programs, "sm_90a");
    },
  });
}
