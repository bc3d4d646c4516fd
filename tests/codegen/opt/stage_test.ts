import { Tensor } from "../../../mod.ts";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { ArgumentError } from "../../../src/helpers/errors.ts";
import type { LocalArg } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import type { UOp } from "../../../src/uop/core/uop.ts";
import { throughAfter } from "../../../src/uop/rewrite/walk.ts";
import { SIM_GRID, simCaps, SMALL_GRID } from "../../fixtures/sim.ts";
import { compile, countOf, opts, sameUnder } from "../harness.ts";
import { KERNELS } from "../kernels.ts";
import { productKernel } from "../products.ts";
import { openObserving } from "../../support/snapshot_writers.ts";
import { optimized } from "../../fixtures/optimized.ts";

const GPU = simCaps(SIM_GRID), WEB = simCaps(SMALL_GRID);
/** Without matrix units. */
const PLAIN = simCaps({ ...SIM_GRID, tensorCores: [] });

const TILES = "UPCAST:0:4 LOCAL:0:8 UPCAST:1:4 LOCAL:1:8 UNROLL:0:8";

const LAYOUTS = [
  ["nn", {}],
  ["tn", { transposeA: true }],
  ["nt", { transposeB: true }],
  ["tt", { transposeA: true, transposeB: true }],
] as const;

for (const [name, options] of LAYOUTS) {
  Deno.test(`stage: tiles of both operands in shared memory, ${name}`, () => {
    const p = sameUnder(productKernel(64, 64, 32, options), `${TILES} STAGE:1:ring=1 STAGE:2:ring=1`, GPU);
    assertEquals(countOf(p, Ops.BARRIER), 2);
    // both tiles are read 16 bytes at a time, from buffers and, along the contiguous axis, from shared memory
    const loads = p.uops.filter((u) => u.op === Ops.LOAD && u.src[0].op === Ops.INDEX);
    assertEquals(new Set(loads.map((u) => u.dtype)), new Set([dtypes.float32.vec(4)]));
    assertEquals(loads.filter((u) => u.src[0].src[0].op === Ops.PARAM).length, 2);
  });

  for (const depth of [2, 3, 4]) {
    Deno.test(`stage: a ring of ${depth} buffers, ${name}`, () => {
      const p = sameUnder(
        productKernel(64, 64, 32, options),
        `${TILES} STAGE:1:ring=${depth} STAGE:2:ring=${depth}`,
        GPU,
      );
      assertEquals(countOf(p, Ops.BARRIER), 1);
      assertEquals(countOf(p, Ops.ASYNC_COPY), 2 * depth);
      assertEquals(p.uops.find((u) => u.op === Ops.ASYNC_WAIT)!.arg, depth - 2);
      for (const u of p.uops) if (u.op === Ops.ASYNC_COPY) assertEquals(u.arg, 16);
    });
  }
}

Deno.test("stage: fewer iterations than buffers", () => {
  sameUnder(productKernel(32, 32, 16), `${TILES} STAGE:1:ring=4 STAGE:2:ring=4`, GPU);
});

Deno.test("stage: one operand alone", () => {
  sameUnder(productKernel(32, 64, 16), `${TILES} STAGE:1:ring=1`, GPU);
  sameUnder(productKernel(32, 64, 16), `${TILES} STAGE:2:ring=2`, GPU);
});

Deno.test("stage: small dtypes are copied as they are stored", () => {
  const p = sameUnder(
    productKernel(64, 64, 32, { dtype: dtypes.float16 }),
    `${TILES} STAGE:1:ring=1 STAGE:2:ring=1`,
    GPU,
  );
  const shared = p.uops.filter((u) => u.op === Ops.LOCAL && (u.arg as LocalArg).scope === "shared");
  assertEquals(shared.map((u) => u.dtype), [dtypes.float16, dtypes.float16]);
});

Deno.test("stage: rows are padded", () => {
  const p = compile(productKernel(64, 64, 32), opts(`${TILES} STAGE:2:ring=1`), GPU);
  const [tile] = p.uops.filter((u) => u.op === Ops.LOCAL);
  assertEquals((tile.arg as LocalArg).size, 8 * (32 + 4));
});

Deno.test("stage: what cannot be is a named error", () => {
  const ast = productKernel(64, 64, 32);
  assertThrows(() => compile(ast, opts("LOCAL:0:8 STAGE:1:ring=1"), GPU), ArgumentError, "STAGE");
  assertThrows(() => compile(ast, opts("UNROLL:0:2 STAGE:1:loops=1"), GPU), ArgumentError, "inside of all loops");
  assertThrows(() => compile(ast, opts("VECTOR:0:4"), GPU), ArgumentError, "UPCAST and UNROLL make copies");
  assertThrows(
    () => compile(ast, opts("UPCAST:0:4 LOCAL:0:8 LOCAL:1:7 UNROLL:0:2 STAGE:1:ring=1"), GPU),
    ArgumentError,
    "STAGE",
  );
});

for (const [m, n, k] of [[128, 128, 64], [70, 50, 40], [200, 300, 17], [16, 512, 100]]) {
  Deno.test(`stage: ${m} x ${n} x ${k}, chosen by the heuristic`, () => {
    sameUnder(productKernel(m, n, k), undefined, PLAIN);
    sameUnder(productKernel(m, n, k, { bias: true, transposeB: true }), undefined, WEB);
  });
}

Deno.test(
  "stage: a large product is tiled, with wide accesses only, within the device's memory",
  optimized(() => {
    for (const caps of [PLAIN, WEB]) {
      const p = compile(productKernel(4096, 4096, 4096), undefined, caps);
      let bytes = 0;
      for (const u of p.uops) {
        if (u.op === Ops.LOCAL) bytes += (u.arg as LocalArg).size * u.dtype.itemsize;
        else if (u.op === Ops.LOAD && u.src[0].op === Ops.INDEX) assertEquals(u.dtype.count, 4);
        else if (u.op === Ops.STORE && u.src[0].op === Ops.INDEX) assertEquals(u.src[1].dtype.count, 4);
      }
      assert(bytes > 0 && bytes <= caps.grid!.sharedBytes, `${bytes} bytes`);
      assert(countOf(p, Ops.MULACC) >= 512);
      assertEquals(countOf(p, Ops.IF), 0);
    }
  }),
);

Deno.test("stage: elements that lie apart are copied one by one, and nobody waits for them", () => {
  const { name } = openObserving("JS"), empty = (...shape: number[]) => Tensor.empty(shape, { device: name });
  // with zeros between the elements, which threads do not read
  const between = empty(1, 8, 7, 7).reshape([1, 8, 7, 1, 7, 1]).pad([[0, 0], [0, 0], [0, 0], [0, 1], [0, 0], [0, 1]]);
  const apart = between.reshape([1, 8, 14, 14]).pad([[0, 0], [0, 0], [1, 0], [1, 0]]);
  const [{ ast }] = apart.conv2d(empty(16, 8, 2, 2).flip([2, 3])).schedule();
  const tiles = "UPCAST:0:2 LOCAL:0:8 PADTO:2:16 LOCAL:2:8 UPCAST:2:2 UNROLL:0:8";
  const p = sameUnder(ast!, `${tiles} STAGE:1:ring=3 STAGE:2:ring=3`, PLAIN);
  const isLoop = (u: UOp): boolean => u.op === Ops.RANGE, body = p.uops.slice(p.uops.findIndex(isLoop));
  const copies = body.filter((u) => u.op === Ops.ASYNC_COPY);
  assertEquals(copies.map((u) => u.arg), [4, 4, 4, 4]);
  // between the steps that read the tile, not before the first one
  assert(body.indexOf(copies[0]) > body.findIndex((u) => u.op === Ops.LOAD && u.src[0].op === Ops.INDEX));
  const shared = body.filter((u) => u.op === Ops.STORE && throughAfter(u.src[0].src[0]).op === Ops.LOCAL);
  assertEquals(shared, []);
});

Deno.test("stage: a ring is filled along one loop: inside of others it is one tile", () => {
  for (const ring of [1, 2, 4]) sameUnder(KERNELS.staged_rows, `LOCAL:1:2 UNROLL:1:2 STAGE:2:ring=${ring}`, GPU);
});
