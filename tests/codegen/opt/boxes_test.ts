/** Tiles that a copy engine brings: values by the interpreter of PTX, what it can address, and what is found where it is wrong. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { optsText, withOpts } from "../../../src/codegen/opt/opt.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { cudaCaps } from "../../../src/renderer/cuda_caps.ts";
import { PtxRenderer } from "../../../src/renderer/ptx/ptx.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { runPtx } from "../../fuzz/ptx.ts";
import { assemble, available, type Language } from "../../renderer/assemble.ts";
import { integers, opts, paramsOf, run } from "../harness.ts";
import { productKernel, type ProductOptions } from "../products.ts";

const HOPPER = new PtxRenderer(cudaCaps({ arch: "sm_90a", hasTensorMaps: true }), "sm_90a");
const { bfloat16, float16, int8, float32 } = dtypes;

/** The opts of a product: the unit of so many columns, and what else splits its tile. */
function optsOf(dtype: DType, columns: number, ring: number, more = "", pads = ""): string {
  const units = HOPPER.caps.grid!.tensorCores;
  const unit = units.findIndex((c) => c.shared !== undefined && c.input === dtype && c.n === columns);
  const stages = [1, 2].map((input) => `STAGE:${input}:ring=${ring}:boxes`).join(" ");
  return [pads, `TC:${unit}`, more, "UNROLL:0:4", stages].filter((x) => x !== "").join(" ");
}

function programOf(ast: UOp, text: string): LinearProgram {
  return toProgram(withOpts(ast, opts(text)), HOPPER);
}

function count(p: LinearProgram, op: Ops): number {
  return p.uops.filter((u) => u.op === op).length;
}

function expectSame(ast: UOp, text: string): LinearProgram {
  const data = integers(paramsOf(ast)), [want] = run(ast, data, [], {}), p = programOf(ast, text);
  assertEquals(runPtx(p, data, [])[0], want, text);
  assertEquals(count(p, Ops.ASYNC_COPY), 0);
  return p;
}

for (
  const [name, [m, n, k], options, text, maps] of [
    ["nn", [64, 64, 256], {}, optsOf(bfloat16, 64, 4), ["64 of 256 by 1, 64 of 64 by 256"]],
    ["nt, more iterations than buffers", [64, 64, 320], { transposeB: true, bias: true }, optsOf(bfloat16, 64, 3), []],
    ["tn, two buffers", [64, 64, 320], { transposeA: true }, optsOf(bfloat16, 64, 2), []],
    ["tt, fewer iterations", [128, 64, 128], { transposeA: true, transposeB: true }, optsOf(bfloat16, 64, 4), []],
    ["a row of several boxes", [64, 128, 256], { dtype: float16 }, optsOf(float16, 128, 3), []],
    [
      "sides that are no multiples",
      [200, 72, 200],
      { bias: true },
      optsOf(bfloat16, 64, 3, "UPCAST:0:2 LOCAL:0:2 UPCAST:1:2", "PADTO:0:256 PADTO:1:128 PADTO:2:64"),
      ["64 of 200 by 1, 256 of 200 by 200", "64 of 72 by 1, 64 of 200 by 72"],
    ],
    [
      "odd sides, in rows that begin with lines",
      [199, 71, 195],
      { row: 256 },
      optsOf(bfloat16, 64, 3, "UPCAST:0:2 LOCAL:0:2 UPCAST:1:2", "PADTO:0:256 PADTO:1:128 PADTO:2:64"),
      ["64 of 195 by 1, 256 of 199 by 256", "64 of 71 by 1, 64 of 195 by 256"],
    ],
  ] as [string, [number, number, number], ProductOptions, string, string[]][]
) {
  Deno.test(`boxes: ${name}`, () => {
    const p = expectSame(productKernel(m, n, k, { dtype: bfloat16, ...options }), text);
    maps.forEach((map, i) => assertEquals(String(p.maps![i].map), map));
    assert(count(p, Ops.ASYNC_BOX) > 0 && p.params.every((x, slot) => slot === 0 || x.reads));
  });
}

/** Products of `batch` pairs of matrices; those of the left one lie `gap` elements behind each other, from `first` on. */
function batched(batch: number, side: number, gap: number, first: number): UOp {
  const [z, i, j] = [batch, side, side].map((n, at) => range(n, at, AxisKind.LOOP)), l = range(128, 3, AxisKind.REDUCE);
  const row = (x: UOp, y: UOp, n: number): UOp => x.mul(n).add(y);
  const a = load(index(param(1, bfloat16, first + batch * gap), z.mul(gap).add(row(i, l, 128)).add(first)));
  const b = load(index(param(2, bfloat16, batch * 128 * side), z.mul(128 * side).add(row(l, j, side))));
  const sum = reduce(opCarrier(Ops.ADD, float32), [a.cast(float32).mul(b.cast(float32))], [l]);
  const at = z.mul(side * side).add(row(i, j, side));
  return sink([store(index(param(0, float32, batch * side * side), at), sum)]);
}

Deno.test("boxes: a third axis, matrices apart, from an element on", () => {
  const text = optsOf(bfloat16, 64, 2), gap = 64 * 128 + 256;
  const p = expectSame(batched(3, 64, gap, 64), text);
  assertEquals(p.maps!.map((m) => String(m.map)), [
    `64 of 128 by 1, 64 of 64 by 128, 1 of 3 by ${gap} at 64`,
    "64 of 64 by 1, 64 of 128 by 64, 1 of 3 by 8192",
  ]);
});

Deno.test("boxes: what lies at no multiple of 16 bytes is copied by threads", () => {
  const text = optsOf(bfloat16, 64, 3), ast = batched(2, 64, 64 * 128 + 8, 4);
  const p = programOf(ast, text), data = integers(paramsOf(ast));
  assertEquals([p.maps!.length, p.maps![0].slot, count(p, Ops.ASYNC_COPY) + count(p, Ops.STORE) > 0], [1, 2, true]);
  assertEquals(runPtx(p, data, [])[0], run(ast, data, [], {})[0]);
});

Deno.test("boxes: one thread starts copies, nothing is published that no thread writes, opts say so", () => {
  const text = optsOf(bfloat16, 64, 4), p = programOf(productKernel(64, 64, 512, { dtype: bfloat16 }), text);
  assertEquals(p.opts, text);
  assertEquals(optsText(opts(text)), text);
  const loop = p.uops.findIndex((u) => u.op === Ops.RANGE);
  const published = p.uops.flatMap((u, i) => u.op === Ops.UNIT && u.arg === "publish" ? [i < loop] : []);
  assertEquals(published, [true]);
  assertEquals(count(p, Ops.BARRIER), 2);
});

Deno.test("boxes: a phase that is never complete is found, and one that nobody waits for", () => {
  const ast = productKernel(64, 64, 512, { dtype: bfloat16 }), p = programOf(ast, optsOf(bfloat16, 64, 4));
  const data = integers(paramsOf(ast)),
    changed = (fn: (u: UOp) => boolean): LinearProgram => {
      return { ...p, uops: p.uops.filter((u) => !fn(u)) };
    };
  const inLoop = p.uops.slice(p.uops.findIndex((u) => u.op === Ops.RANGE));
  const lost = inLoop.find((u) => u.op === Ops.ASYNC_BOX)!;
  assertThrows(
    () => runPtx(changed((u) => u === lost), data, []),
    Error,
    "a phase of a barrier that is never complete",
  );
  const unawaited = changed((u) => u.op === Ops.MBARRIER && u.arg === "wait");
  assertThrows(() => runPtx(unawaited, data, []), Error, "more threads arrive at a barrier");
});

Deno.test(
  "boxes: are chosen where the device has them and rows begin with lines of its cache, else not",
  optimized(() => {
    const ast = productKernel(3000, 7040, 5120, { dtype: bfloat16, stored: bfloat16 });
    const p = toProgram(ast, HOPPER), { maps, opts } = p;
    assert(opts!.endsWith(":boxes") && maps!.length === 2, opts);
    // rows of the second operand lie 14,000 bytes apart
    const mixed = toProgram(productKernel(3000, 7000, 5120, { dtype: bfloat16, stored: bfloat16 }), HOPPER);
    assertEquals([mixed.opts!.match(/:boxes/g)?.length, mixed.maps?.length], [1, 1]);
    const before = toProgram(ast, new PtxRenderer(cudaCaps({ arch: "sm_90a" }), "sm_90a"));
    assertEquals(before.opts, opts!.replaceAll(":boxes", ""));
    assertEquals(before.maps, undefined);
  }),
);

for (const language of ["PTX", "CUDA C"] as Language[]) {
  Deno.test({
    name: `boxes: assembled as ${language}`,
    ignore: !available[language],
    fn: async () => {
      const kernels = [
        [productKernel(512, 512, 512, { dtype: bfloat16, bias: true }), optsOf(bfloat16, 256, 4, "LOCAL:0:2")],
        [productKernel(512, 512, 512, { dtype: float16, transposeA: true }), optsOf(float16, 128, 4, "UPCAST:0:2")],
        [batched(3, 64, 64 * 128, 0), optsOf(bfloat16, 64, 2)],
        [productKernel(64, 64, 384, { dtype: int8, transposeB: true }), optsOf(int8, 64, 3)],
      ] as const;
      await assemble(language, kernels.map(([ast, text]) => programOf(ast, text)), "sm_90a");
    },
  });
}
