/** Floor division and remainder as what machines have, and late rules that a device asks for. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { lateRules, pmDivision } from "../../../../src/codegen/late/decomp/missing_ops.ts";
import { dtypes } from "../../../../src/dtype/dtype.ts";
import { cudaCaps } from "../../../../src/renderer/cuda_caps.ts";
import { SCALAR_CAPS } from "../../../../src/renderer/renderer.ts";
import { AxisKind } from "../../../../src/uop/core/args.ts";
import { vmax, vmin } from "../../../../src/uop/algebra/bounds.ts";
import { Ops } from "../../../../src/uop/core/ops.ts";
import { exprText } from "../../../../src/uop/core/print.ts";
import { graphRewrite } from "../../../../src/uop/rewrite/rewrite.ts";
import { int, range, toposort, uop, variable } from "../../../../src/uop/core/uop.ts";
import { evaluate } from "../../../fuzz/simplify.ts";

Deno.test("op: CUDA shifts no negation, which ptxas may get wrong", () => {
  const { int32, uint32 } = dtypes, v = variable("v", -100, 100, int32), n = int(2);
  const shifted = uop(Ops.SHR, int32, [v.mul(-1), n]), plain = uop(Ops.SHR, int32, [uop(Ops.NEG, int32, [v]), n]);
  assertStrictEquals(graphRewrite(shifted, lateRules(SCALAR_CAPS)), plain);
  const other = uop(Ops.XOR, int32, [uop(Ops.SHR, int32, [v.add(-1), n]), int(-1)]);
  assertStrictEquals(graphRewrite(shifted, lateRules(cudaCaps({ arch: "sm_90a" }))), other);
  for (const x of [-9, -8, -1, 0, 1, 2, 3, 4, 5, 2 ** 31 - 1, -(2 ** 31)]) {
    assertEquals(~((x - 1) >> 2), -x >> 2, `${x}`);
  }
  const u = variable("u", 0, 100, uint32), down = uop(Ops.SHR, uint32, [uop(Ops.NEG, uint32, [u]), n.cast(uint32)]);
  assertStrictEquals(graphRewrite(down, lateRules(cudaCaps({ arch: "sm_90a" }))), down);
});

Deno.test("op: lowered quotients and remainders have the same value", () => {
  const m = variable("m", -4, 5), i = range(8, 0, AxisKind.LOOP), n = variable("n", 1, 100), a = variable("a", -20, 20);
  const inputs = [a.floorDiv(4), a.floorMod(4), a.floorDiv(3), a.floorMod(3), a.floorDiv(-3), a.floorMod(-3)];
  inputs.push(a.floorDiv(m), a.floorMod(m), i.floorDiv(3), i.floorMod(3), n.floorDiv(n.add(1)));
  for (const u of inputs) {
    const s = graphRewrite(u, pmDivision);
    assertEquals(toposort(s).some((x) => x.op === Ops.FLOORDIV || x.op === Ops.FLOORMOD), false);
    for (let x = vmin(a); x <= vmax(a); x++) {
      for (let y = -4; y <= 5; y++) {
        if (y === 0) continue;
        const point = new Map([[a, x], [m, y], [i, x & 7], [n, 1 + (x & 31)]]);
        assertEquals(evaluate(s, point), evaluate(u, point), `${exprText(u)} at ${x}, ${y}`);
      }
    }
  }
  assertEquals(exprText(graphRewrite(i.floorDiv(4).add(i.floorMod(4)), pmDivision)), "(r0l >> 2) + (r0l & 3)");
});
