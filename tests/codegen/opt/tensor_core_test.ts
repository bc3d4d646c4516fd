import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import { ArgumentError } from "../../../src/helpers/errors.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import type { UOp } from "../../../src/uop/core/uop.ts";
import { SIM_GRID, simCaps } from "../../fixtures/sim.ts";
import { compile, countOf, opts, sameUnder } from "../harness.ts";
import { productKernel } from "../products.ts";
import { optimized } from "../../fixtures/optimized.ts";

const GPU = simCaps(SIM_GRID);

function onGpu(ast: UOp, text: string | undefined): LinearProgram {
  return sameUnder(ast, text, GPU);
}

function numberOf(dtype: DType): number {
  return SIM_GRID.tensorCores.findIndex((c) => c.input === dtype);
}

const WARPS = "UPCAST:0:2 LOCAL:0:2 UPCAST:1:2 LOCAL:1:2 UNROLL:0:2";

for (const dtype of [dtypes.bfloat16, dtypes.float16, dtypes.float32]) {
  for (const transposeA of [false, true]) {
    for (const transposeB of [false, true]) {
      const name = `${dtype} ${transposeA ? "t" : "n"}${transposeB ? "t" : "n"}`;
      const unit = `TC:${numberOf(dtype)}`;
      Deno.test(`tensor cores: ${name}`, () => {
        const ast = productKernel(64, 64, 64, { dtype, transposeA, transposeB });
        const plain = onGpu(ast, unit);
        assertEquals([countOf(plain, Ops.WMMA), countOf(plain, Ops.MULACC)], [1, 0]);
        assertEquals(plain.grid!.size, [32, 1, 1]);
        assertEquals(countOf(onGpu(ast, `${unit} ${WARPS}`), Ops.WMMA), 8);
        for (const depth of [1, 3]) {
          const p = onGpu(ast, `${unit} ${WARPS} STAGE:1:ring=${depth} STAGE:2:ring=${depth}`);
          // of 16-bit dtypes: two tiles of a, one pair of tiles of b, for each of two steps
          assertEquals(countOf(p, Ops.LDMATRIX), dtype === dtypes.float32 ? 0 : 6);
          assertEquals(countOf(p, Ops.ASYNC_COPY) > 0, depth > 1);
        }
      });
    }
  }
}

Deno.test("tensor cores: int8 sums in int32", () => {
  const ast = productKernel(32, 32, 64, { dtype: dtypes.int8 });
  assertEquals(countOf(compile(ast, opts(`TC:${numberOf(dtypes.int8)}`), GPU), Ops.WMMA), 1);
});

Deno.test("tensor cores: what follows the sum is ordinary arithmetic", () => {
  onGpu(productKernel(32, 32, 32, { dtype: dtypes.bfloat16, bias: true }), `TC:${numberOf(dtypes.bfloat16)}`);
});

Deno.test("tensor cores: what cannot be is a named error", () => {
  const unit = opts(`TC:${numberOf(dtypes.bfloat16)}`);
  for (
    const [ast, o] of [
      [productKernel(32, 32, 32), unit],
      [productKernel(33, 32, 32, { dtype: dtypes.bfloat16 }), unit],
      [productKernel(32, 32, 32, { dtype: dtypes.bfloat16 }), [...opts("UPCAST:0:2"), ...unit]],
      [productKernel(32, 32, 32, { dtype: dtypes.bfloat16 }), opts("TC:99")],
    ] as const
  ) assertThrows(() => compile(ast, o, GPU), ArgumentError, "TC");
});

for (const [m, n, k] of [[128, 128, 64], [64, 256, 96], [80, 120, 60], [256, 130, 64]]) {
  Deno.test(
    `tensor cores: ${m} x ${n} x ${k}, chosen by the heuristic`,
    optimized(() => {
      for (const transposeB of [false, true]) {
        const p = onGpu(productKernel(m, n, k, { dtype: dtypes.bfloat16, transposeB, bias: true }), undefined);
        assert(countOf(p, Ops.WMMA) > 0);
      }
    }),
  );
}

Deno.test(
  "tensor cores: a large product goes through a ring in shared memory",
  optimized(() => {
    const p = compile(productKernel(4096, 4096, 4096, { dtype: dtypes.bfloat16 }), undefined, GPU);
    assertEquals(countOf(p, Ops.BARRIER), 1);
    assert(countOf(p, Ops.WMMA) >= 32 && countOf(p, Ops.LDMATRIX) * 4 <= countOf(p, Ops.WMMA) * 2);
    for (const u of p.uops) {
      if (u.op === Ops.ASYNC_COPY) assertEquals(u.arg, 16);
      else if (u.op === Ops.LOAD) assert(u.src[0].op === Ops.ACC);
    }
  }),
);

Deno.test("tensor cores: tiles of 128 x 192, the depth of a stage", () => {
  const text = `TC:${
    numberOf(dtypes.bfloat16)
  } UPCAST:0:4 LOCAL:0:2 UPCAST:1:6 LOCAL:1:4 UNROLL:0:4 STAGE:2:ring=3 STAGE:1:ring=3`;
  onGpu(productKernel(128, 192, 64, { dtype: dtypes.bfloat16, bias: true }), text);
});

for (
  const [m, n, k, want] of [
    [4096, 4096, 4096, "UPCAST:0:4 LOCAL:0:2 UPCAST:1:8 LOCAL:1:4"],
    [2048, 2048, 2048, "UPCAST:0:4 LOCAL:0:2 UPCAST:1:8 LOCAL:1:4"],
    [4096, 576, 7168, "UPCAST:0:4 LOCAL:0:2 UPCAST:1:6 LOCAL:1:4"], // three tiles of columns, none in part
    [1024, 1024, 1024, "UPCAST:0:2 LOCAL:0:2 UPCAST:1:4 LOCAL:1:4"], // a tile for each multiprocessor
    [3000, 7000, 5000, "UPCAST:0:4 LOCAL:0:4 UPCAST:1:8 LOCAL:1:2"], // five waves, not a bit more than five
  ] as const
) {
  Deno.test(
    `tensor cores: the tile of ${m} x ${n} x ${k} by waves and by copies`,
    optimized(() => {
      const p = compile(productKernel(m, n, k, { dtype: dtypes.bfloat16 }), undefined, GPU);
      assertStringIncludes(p.opts!, want);
    }),
  );
}

Deno.test(
  "tensor cores: float32 only where the user allows it",
  optimized(() => {
    const ast = productKernel(128, 128, 64);
    assertEquals(countOf(compile(ast, undefined, GPU), Ops.WMMA), 0);
    assert(countOf(context({ ALLOW_TF32: 1 }, () => compile(ast, undefined, GPU)), Ops.WMMA) > 0);
  }),
);
