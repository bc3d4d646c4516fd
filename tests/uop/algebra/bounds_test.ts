/** Intervals of every op, wrap-around included. */
import { assertEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { boundsOf, resolve } from "../../../src/uop/algebra/bounds.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { exprText } from "../../../src/uop/core/print.ts";
import { constant, index, int, load, param, range, type UOp, uop, variable } from "../../../src/uop/core/uop.ts";

const r = range(8, 0, AxisKind.LOOP), a = variable("a", -3, 5), w = load(index(param(0, dtypes.int32, 9), r));
const i8 = variable("s", -128, 127, dtypes.int8), f = constant(2.5, dtypes.float32);
const LO = -(2 ** 31), HI = 2 ** 31 - 1;
const CASES: [UOp, number, number][] = [
  [r, 0, 7],
  [a, -3, 5],
  [w, LO, HI],
  [r.add(a), -3, 12],
  [r.mul(-2), -14, 0],
  [a.mul(a), -15, 25],
  [w.add(1), LO, HI],
  [i8.add(1), -128, 127],
  [i8.cast(dtypes.int32).add(1), -127, 128],
  [r.floorDiv(3), 0, 2],
  [a.floorDiv(2), -2, 2],
  [a.floorDiv(-2), -3, 1],
  [a.cdiv(2), -1, 2],
  [r.floorDiv(a), LO, HI],
  [r.floorMod(3), 0, 2],
  [r.add(8).floorMod(16), 8, 15],
  [a.floorMod(4), 0, 3],
  [a.floorMod(-4), -3, 0],
  [a.cmod(4), -3, 3],
  [r.cmod(16), 0, 7],
  [r.max(3), 3, 7],
  [r.and(3), 0, 3],
  [w.and(15), 0, 15],
  [r.add(24).and(31), 24, 31],
  [r.add(28).and(31), 0, 31],
  [a.sub(13).and(15), 0, 8],
  [w.and(-2), LO, HI],
  [r.or(8), 8, 15],
  [r.xor(1), 0, 7],
  [r.shl(2), 0, 28],
  [a.shr(1), -2, 2],
  [r.lt(8), 1, 1],
  [r.lt(0), 0, 0],
  [r.lt(3), 0, 1],
  [r.ne(9), 1, 1],
  [r.eq(9), 0, 0],
  [w.lt(3).where(r, a), -3, 7],
  [r.lt(9).where(r, w), 0, 7],
  [r.lt(4).where(r, int(4)), 0, 4], // the smaller of both
  [a.lt(1).where(int(1), a), 1, 5],
  [a.cast(dtypes.uint8), 0, 255],
  [r.cast(dtypes.uint8), 0, 7],
  [r.add(1).cast(dtypes.bool), 1, 1],
  [r.bitcast(dtypes.uint32), 0, 7],
  [f, 2.5, 2.5],
  [f.add(r.cast(dtypes.float32)), -Infinity, Infinity],
  [r.cast(dtypes.int64).mul(2 ** 40), 0, 7 * 2 ** 40],
  [r.cast(dtypes.int64).mul(2 ** 52), -(2 ** 63), 2 ** 63 - 1],
  [uop(Ops.VECTORIZE, dtypes.int32.vec(2), [int(3), r]), 0, 7],
  [constant(7, dtypes.int32.vec(4)).add(constant(1, dtypes.int32.vec(4))), 8, 8],
];
for (const [u, lo, hi] of CASES) Deno.test(`bounds: ${exprText(u)}`, () => assertEquals(boundsOf(u), [lo, hi]));

Deno.test("bounds: resolve", () => {
  assertEquals(resolve(r.lt(8), false), true);
  assertEquals(resolve(r.lt(4), true), true);
  assertEquals(resolve(r.lt(0), true), false);
});

Deno.test("bounds: deep graphs need no stack", () => {
  let u: UOp = a;
  for (let i = 0; i < 50000; i++) u = u.max(i % 5);
  assertEquals(boundsOf(u), [4, 5]);
});
