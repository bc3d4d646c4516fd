/** Printed forms, exactly. */
import { assertEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { exprText, listText, printTree, printUOp } from "../../../src/uop/core/print.ts";
import { constant, index, int, load, param, range, type UOp, variable } from "../../../src/uop/core/uop.ts";
import { addKernel } from "../../fixtures/kernels.ts";

const a = variable("a", 0, 9), i = range(4, 0, AxisKind.LOOP), j = range(8, 1, AxisKind.REDUCE, 2);
const EXPR: [UOp, string][] = [
  [a.add(i).mul(3), "(a + r0l) * 3"],
  [a.add(i.mul(3)), "a + r0l * 3"],
  [i.floorDiv(2).floorMod(3), "r0l // 2 % 3"],
  [i.floorDiv(j.floorMod(3)), "r0l // (r1_2r % 3)"],
  [i.lt(3).ne(1), "!(r0l < 3)"],
  [i.lt(3).and(j.lt(2)).where(a, int(-1)), "r0l < 3 & r1_2r < 2 ? a : -1"],
  [i.lt(3).where(a, i).add(1), "(r0l < 3 ? a : r0l) + 1"],
  [i.cast(dtypes.float32).exp2(), "exp2(cast(r0l, float32))"],
  [load(index(param(1, dtypes.float32, 9), i)), "load(index(param(1 x9), r0l))"],
  [constant(1, dtypes.bool), "true"],
  [constant(-0, dtypes.float32), "-0"],
];
for (const [u, want] of EXPR) Deno.test(`print: ${want}`, () => assertEquals(exprText(u), want));

Deno.test("print: graph", () => {
  assertEquals(
    printUOp(a.mul(2).add(a)),
    [
      "0 VARIABLE   int32     a[0, 9]",
      "1 CONST      int32     2",
      "2 MUL        int32     (0, 1)",
      "3 ADD        int32     (2, 0)",
    ].join("\n"),
  );
  assertEquals(printUOp(a.mul(2).add(a), 1), "... 3 more\n3 ADD        int32     (2, 0)");
});

Deno.test("print: tree", () => {
  assertEquals(
    printTree(a.mul(2).add(a)),
    [
      "#0 ADD        int32    ",
      "  #1 MUL        int32    ",
      "    #2 VARIABLE   int32     a[0, 9]",
      "    #3 CONST      int32     2",
      "  #2",
    ].join("\n"),
  );
});

Deno.test("print: list, indented by loops", () => {
  const lines = listText(addKernel(10).linear!).split("\n");
  assertEquals(lines[4], " 4 RANGE      int32     (3) 0 LOOP");
  assertEquals(lines[5], "   5 INDEX      float32   (1, 4)");
  assertEquals(lines[12], "12 END        void      (4)");
});
