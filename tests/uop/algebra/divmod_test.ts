/** Quotients and remainders of index arithmetic. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { exprText } from "../../../src/uop/core/print.ts";
import { simplify } from "../../../src/uop/algebra/symbolic.ts";
import { index, int, load, param, range, type UOp, variable } from "../../../src/uop/core/uop.ts";

const r = (end: number, id: number): UOp => range(end, id, AxisKind.LOOP);
const i = r(8, 0), j = r(4, 1), k = r(3, 2), f = r(96, 0), n = variable("n", 1, 100), a = variable("a", -20, 20);
const w = load(index(param(9, dtypes.int32, 1), int(0)));
const flat = i.mul(12).add(j.mul(3)).add(k);
const CASES: [UOp, string][] = [
  [flat.floorDiv(12), "r0l"],
  [flat.floorMod(12), "r1l * 3 + r2l"],
  [flat.floorDiv(3).floorMod(4), "r1l"],
  [flat.floorMod(3), "r2l"],
  [flat.floorDiv(6), "r0l * 2 + r1l // 2"],
  [flat.floorMod(6), "r1l % 2 * 3 + r2l"],
  [flat.floorDiv(24), "r0l // 2"],
  [flat.floorMod(24), "r0l % 2 * 12 + r1l * 3 + r2l"],
  [flat.floorDiv(96), "0"],
  [flat.add(96).floorDiv(96), "1"],
  [f.floorDiv(3).floorDiv(4), "r0l // 12"],
  [f.floorMod(12).floorMod(4), "r0l % 4"],
  [f.floorMod(12).floorDiv(3), "r0l // 3 % 4"],
  [f.floorDiv(12).mul(12).add(f.floorMod(12)), "r0l"],
  [f.floorDiv(12).mul(12).add(f.floorDiv(3).floorMod(4).mul(3)).add(f.floorMod(3)), "r0l"],
  [f.floorDiv(4).floorMod(3).mul(4).add(f.floorMod(4)), "r0l % 12"],
  [f.floorDiv(4).mul(8).add(f.floorMod(4).mul(2)).add(j), "r0l * 2 + r1l"],
  [f.mul(-1).add(95).floorDiv(12), "(r0l * -1 + 95) // 12"],
  [i.add(-1).floorMod(8), "(r0l + 7) % 8"],
  [i.add(-1).floorDiv(8), "(r0l + 7) // 8 + -1"],
  [i.add(9).floorMod(8), "(r0l + 1) % 8"],
  [i.add(9).floorDiv(8), "(r0l + 1) // 8 + 1"],
  [i.mul(9).add(j).floorMod(8), "(r0l + r1l) % 8"],
  [i.mul(9).add(j).floorDiv(8), "r0l + (r0l + r1l) // 8"],
  [i.mul(2).add(1).floorDiv(2), "r0l"],
  [i.mul(2).add(1).floorMod(2), "1"],
  [i.mul(4).add(1).floorMod(8), "r0l % 2 * 4 + 1"],
  [i.mul(n).add(j).floorDiv(variable("m", 4, 9)), "(n * r0l + r1l) // m"],
  [i.mul(n).add(n).floorDiv(n), "r0l + 1"],
  [i.mul(n).add(5).floorMod(n), "5 % n"],
  [j.floorDiv(variable("m", 4, 9)), "0"],
  [j.floorMod(variable("m", 4, 9)), "r1l"],
  [range(n, 5, AxisKind.LOOP).floorMod(n), "r5l"],
  [range(n, 5, AxisKind.LOOP).floorDiv(n), "0"],
  [a.floorDiv(-3), "(a * -1 + 21) // 3 + -7"],
  [w.mul(4).floorDiv(4), "load(index(param(9 x1), 0)) * 4 // 4"],
  [w.floorMod(8).floorMod(4), "load(index(param(9 x1), 0)) % 4"],
  [w.floorDiv(2).floorDiv(3), "load(index(param(9 x1), 0)) // 6"],
  [i.floorMod(0), "r0l % 0"],
];
for (const [u, want] of CASES) {
  Deno.test(`divmod: ${exprText(u)}`, () => {
    const s = simplify(u);
    assertEquals(exprText(s), want);
    assertStrictEquals(simplify(s), s);
  });
}
