import { assertEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import {
  compareTerms,
  divisorOf,
  indexForm,
  liesAlong,
  slopeOf,
  strideAlong,
} from "../../../src/uop/algebra/linear_form.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { rangesOf } from "../../../src/uop/core/ranges.ts";
import { int, range, type UOp, uop, variable } from "../../../src/uop/core/uop.ts";
import { Random } from "../../support/random.ts";

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

Deno.test("linear form: the order of terms is one, whatever they are: none is before itself through others", () => {
  const random = new Random(5);
  const terms: UOp[] = [
    ...[0, 1, 2].map((k) => range(4 + k, k, k === 1 ? AxisKind.REDUCE : AxisKind.LOOP)),
    ...["gidx0", "lidx0", "lidx1"].map((name, k) => uop(Ops.SPECIAL, dtypes.int32, [int(8 + k)], name)),
    variable("start", 0, 9),
    variable("end", 0, 9),
  ];
  const make = [
    (a: UOp, b: UOp) => a.add(b),
    (a: UOp, b: UOp) => a.mul(b),
    (a: UOp) => a.mul(random.int(2, 9)),
    (a: UOp) => a.floorDiv(random.int(2, 9)),
    (a: UOp) => a.floorMod(random.int(2, 9)),
  ];
  while (terms.length < 60) terms.push(random.pick(make)(random.pick(terms), random.pick(terms)));
  const order = terms.map((a) => terms.map((b) => Math.sign(compareTerms(a, b))));
  const before = (a: number, b: number): boolean => order[a][b] < 0;
  for (const a of terms.keys()) {
    for (const b of terms.keys()) {
      assertEquals(order[a][b] + order[b][a], 0);
      for (const c of terms.keys()) {
        // Whoever is between two that tie ties with both: of what is before b, c is before or after, or b is not.
        if (before(a, b)) assertEquals(before(a, c) || before(c, b), true, `${a} ${b} ${c}`);
      }
    }
  }
});
