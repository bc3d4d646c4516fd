/** Kernels as data: matrix units and opts are kept as they are, also where nothing that was written is interned any more. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { KernelInfo, optsText, parseOpts } from "../../src/codegen/opt/opt.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import {
  chainOf,
  MMA_BF16,
  MMA_F16,
  MMA_INT8,
  MMA_TF32,
  type TensorCore,
  WGMMA,
} from "../../src/renderer/tensor_core_table.ts";
import { kernelGraph, kernelsOfGraph } from "../../src/engine/lowered/kernel_data.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { constant, rotateInternTable, sink, uop } from "../../src/uop/core/uop.ts";

const BASES = [MMA_F16, MMA_BF16, MMA_TF32, MMA_INT8, ...WGMMA];
const UNITS: readonly TensorCore[] = [
  ...BASES,
  ...BASES.flatMap((unit) => Object.values(chainOf(unit) ?? {}) as TensorCore[]).filter((unit) =>
    !BASES.includes(unit)
  ),
  ...WGMMA.map((unit) => unit.reading({ isAlong: true, block: 1024 }, { isAlong: false, block: 0 }, true)),
];

Deno.test("kernel data: matrix units are the same, with all that they are", () => {
  const x = constant(1, dtypes.float32), roots = UNITS.map((unit) => uop(Ops.WMMA, unit.output, [x, x, x], unit));
  const text = JSON.stringify(kernelGraph(roots));
  kernelsOfGraph(JSON.parse(text)).forEach((u, i) => assertStrictEquals(u, roots[i]));
  rotateInternTable();
  rotateInternTable();
  const again = kernelsOfGraph(JSON.parse(text)).map((u) => u.arg as TensorCore);
  again.forEach((unit, i) => {
    assertEquals([unit === UNITS[i], unit.same(UNITS[i])], [false, true]);
    assertEquals({ ...unit }, { ...UNITS[i] });
  });
});

Deno.test("kernel data: opts are kept, those of none and of no list apart", () => {
  const opts = parseOpts("UPCAST:0:4 STAGE:1:loops=2 TC:0")!, value = constant(2, dtypes.int32);
  const infos = [new KernelInfo("a"), new KernelInfo("a", []), new KernelInfo('"', opts)];
  const roots = infos.map((info) => sink([value], info)), text = JSON.stringify(kernelGraph(roots));
  rotateInternTable();
  rotateInternTable();
  const read = kernelsOfGraph(JSON.parse(text)).map((u) => u.arg as KernelInfo);
  assertEquals(
    read.map(({ name, opts }) => [name, opts && optsText(opts)]),
    [["a", undefined], ["a", ""], ['"', optsText(opts)]],
  );
});

Deno.test("kernel data: each number of an opt has its name, and opts that there are not are no opts", () => {
  assertEquals(parseOpts("UPCAST:2:4 UNROLL:0:8 THREAD:1 MERGE:0:1"), [
    { op: "UPCAST", axis: 2, size: 4 },
    { op: "UNROLL", reduce: 0, size: 8 },
    { op: "THREAD", axis: 1, chunks: 0 },
    { op: "MERGE", axis: 0, other: 1 },
  ]);
  for (const text of ["OUTER:0:1", "UPCAST", "STAGE:0:1"]) assertEquals(parseOpts(text), undefined, text);
});
