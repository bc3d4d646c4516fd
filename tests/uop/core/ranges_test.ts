/** Free and closed ranges. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AccArg, AxisKind, ReduceArg, StageArg } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { rangeName } from "../../../src/uop/core/print.ts";
import { closedRangesOf, dependsOn, rangesOf } from "../../../src/uop/core/ranges.ts";
import { bufferNode, constant, index, int, load, param, range, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { Storage } from "../../../src/uop/core/args.ts";

const f32 = dtypes.float32;
const i = range(4, 0, AxisKind.LOOP), j = range(5, 1, AxisKind.LOOP), k = range(6, 2, AxisKind.REDUCE);
const x = load(index(param(0, f32, 99), k.mul(4).add(i).add(j)));
const sum = reduce(opCarrier(Ops.ADD, f32), [x], [k]);
const acc = uop(Ops.ACC, f32, [constant(0, f32), k], new AccArg(0));
const before = uop(Ops.LOAD, f32, [acc, k]);
const set = uop(Ops.STORE, dtypes.void, [acc, before.add(x)]);
const stage = uop(Ops.STAGE, f32, [x, k], new StageArg(0, "thread"));
const triangle = range(i.add(1), 7, AxisKind.LOOP);
const tensor = uop(Ops.REDUCE, f32, [bufferNode(new Storage("JS", f32, 3))], new ReduceArg(Ops.ADD, [0]));
const CASES: [string, UOp, UOp[], UOp[]][] = [
  ["const", int(3), [], []],
  ["range", i, [i], []],
  ["sorted", k.add(j).add(i), [i, j, k], []],
  ["reduce closes", sum, [i, j], [k]],
  ["use of a reduce", sum.add(load(index(param(1, f32, 9), i))), [i, j], [k]],
  ["read in the loop", before, [k], []],
  ["accumulator", acc, [], []],
  ["read after the loop", uop(Ops.LOAD, f32, [acc, set]), [i, j], [k]],
  ["stage closes", stage, [i, j], [k]],
  ["read of a stage", load(index(stage, j)), [i, j], [k]],
  ["end closes", uop(Ops.END, dtypes.void, [k]), [], [k]],
  ["end of a range with ranges", triangle, [i, triangle], []],
  ["tensor reduce", tensor, [], []],
];
for (const [name, u, free, closed] of CASES) {
  Deno.test(`ranges: ${name}`, () => {
    assertEquals(rangesOf(u).map(rangeName), free.map(rangeName));
    assertEquals(closedRangesOf(u).map(rangeName), closed.map(rangeName));
  });
}

Deno.test("ranges: equal lists are shared", () => {
  const a = i.add(j);
  assertStrictEquals(rangesOf(a), rangesOf(a.mul(2).add(i)));
  assertEquals([dependsOn(sum, k), dependsOn(sum, i)], [false, true]);
});
