import { assertEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { contraction, factorsOf } from "../../../src/uop/algebra/contraction.ts";
import { AxisKind, ReduceArg } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { constant, range, type UOp, uop } from "../../../src/uop/core/uop.ts";

Deno.test("contraction: rows, columns and sums by what depends on them", () => {
  const a = [0, 2, 4, 5], b = [1, 2, 3, 5]; // axes 2 are a batch, 5 is summed
  const axes = (first: number[], second: number[]): unknown =>
    contraction([0, 1, 2, 3, 4], [5, 6], (i) => first.includes(i), (i) => second.includes(i));
  assertEquals(axes(a, b), { rows: [1, 3], columns: [0, 4], sums: [5] });
  assertEquals(axes(b, a), { rows: [1, 3], columns: [0, 4], sums: [5] });
  assertEquals(axes([0, 5], [0, 1, 5]), undefined);
});

Deno.test("contraction: factors of sums of products, in kernels and tensor graphs", () => {
  const k = range(8, 0, AxisKind.REDUCE), x = k.cast(dtypes.float32), y = x.add(1), product = x.mul(y);
  const sum = (lift: UOp): UOp => reduce(opCarrier(Ops.ADD, dtypes.float32), [lift], [k]);
  const most = reduce(opCarrier(Ops.MAX, dtypes.float32), [product], [k]);
  const masked = k.lt(5).where(product, constant(0, dtypes.float32));
  const tensor = uop(Ops.REDUCE, dtypes.float32, [product], new ReduceArg(Ops.ADD, [0]));
  assertEquals(factorsOf(sum(product)), [x, y]);
  assertEquals([factorsOf(sum(masked)), factorsOf(sum(masked), product)], [undefined, [x, y]]);
  assertEquals([factorsOf(sum(y)), factorsOf(most), factorsOf(product)], [undefined, undefined, undefined]);
  assertEquals(factorsOf(tensor), [x, y]);
});
