import { assertEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { divisorOf, indexForm, liesAlong, slopeOf, strideAlong } from "../../../src/uop/algebra/linear_form.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { rangesOf } from "../../../src/uop/core/ranges.ts";
import { int, range, type UOp, uop } from "../../../src/uop/core/uop.ts";

const i = range(4, 0, AxisKind.LOOP), l = range(8, 1, AxisKind.VECTOR);
const e = i.mul(8).add(l);

Deno.test("linear form: sums, slopes and quotients without carry", () => {
  const depends = (u: UOp): boolean => rangesOf(u).includes(l);
  const slope = (u: UOp): number | undefined => slopeOf(u, l, 8, depends);
  assertEquals(slope(e.mul(3)), 3);
  assertEquals(slope(i.mul(5)), 0);
  assertEquals(slope(e.floorDiv(16)), 0);
  assertEquals(slope(e.floorMod(16)), 1);
  assertEquals(slope(e.add(1).floorDiv(16)), undefined);
  assertEquals(slope(l.mul(l)), undefined);
  assertEquals(slope(int(7)), 0);
});

Deno.test("linear form: casts, differences and shifts of indices are taken apart", () => {
  const wide = e.mul(3).add(5).cast(dtypes.int64), difference = uop(Ops.SUB, e.dtype, [e, i.mul(2)]);
  const shifted = uop(Ops.SHL, e.dtype, [uop(Ops.NEG, e.dtype, [e]), int(2)]);
  for (
    const [u, coefs, constant] of [
      [e.mul(3).add(5), [24, 3], 5],
      [wide, [24, 3], 5],
      [wide.add(i.cast(dtypes.int64)), [25, 3], 5],
      [difference, [6, 1], 0],
      [shifted, [-32, -4], 0],
      [uop(Ops.SUB, e.dtype, [e, l]), [8], 0],
      [e.floorDiv(3), [1], 0],
      [e.cast(dtypes.float32).add(1), [1], 0],
    ] as const
  ) {
    const form = indexForm(u);
    assertEquals([form.coefs, form.constant], [coefs, constant]);
  }
});

Deno.test("linear form: strides, and what lies side by side in aligned rows", () => {
  const at = (u: UOp): ReturnType<typeof indexForm> => indexForm(u);
  assertEquals([strideAlong(at(e.mul(3)), i), strideAlong(at(e.cast(dtypes.int64)), l)], [24, 1]);
  assertEquals([divisorOf(at(e.mul(4).add(6)), 8), divisorOf(at(i.mul(16)), 8)], [2, 8]);
  assertEquals([liesAlong(at(e), l), liesAlong(at(e), i), liesAlong(at(e.add(4)), l, 8)], [true, false, false]);
  assertEquals([liesAlong(at(e.add(8)), l, 8), liesAlong(at(e), l, 16)], [true, false]);
  assertEquals(liesAlong(at(l.add(l.floorDiv(2).mul(8))), l), false);
});
