/** Late rules of code generation that a device asks for. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { lateRules } from "../../../src/codegen/decomp/op.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { cudaCaps } from "../../../src/renderer/cuda_caps.ts";
import { SCALAR_CAPS } from "../../../src/renderer/renderer.ts";
import { Ops } from "../../../src/uop/ops.ts";
import { graphRewrite } from "../../../src/uop/rewrite.ts";
import { int, uop, variable } from "../../../src/uop/uop.ts";

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
