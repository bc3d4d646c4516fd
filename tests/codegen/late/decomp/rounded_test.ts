/** Which functions may be quick: those of which nothing but 16-bit floats becomes, without cancellation on the way. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { markRounded } from "../../../../src/codegen/late/decomp/rounded.ts";
import { dtypes } from "../../../../src/dtype/dtype.ts";
import { SCALAR_CAPS } from "../../../../src/renderer/renderer.ts";
import { Ops } from "../../../../src/uop/core/ops.ts";
import { constant, index, int, load, param, sink, store, toposort, type UOp } from "../../../../src/uop/core/uop.ts";

const { float32, float16, bfloat16 } = dtypes;
const caps = { ...SCALAR_CAPS, roundedOps: [Ops.EXP2, Ops.FDIV] };

const x = load(index(param(1, float32, 4), int(0))), y = load(index(param(1, float32, 4), int(1)));
const one = constant(1, float32), power = x.exp2(), sigmoid = one.alu(Ops.FDIV, power.add(1));

function out(value: UOp, slot = 0): UOp {
  return store(index(param(slot, value.dtype, 4), int(0)), value);
}

for (
  const [name, roots, want] of [
    ["a sigmoid", [out(sigmoid.cast(bfloat16))], ["EXP2", "FDIV"]],
    ["a sigmoid times a value", [out(sigmoid.mul(x).cast(float16))], ["EXP2", "FDIV"]],
    ["a choice", [out(x.lt(0).where(power.mul(sigmoid), sigmoid).cast(bfloat16))], ["EXP2", "FDIV"]],
    ["a result in float32", [out(sigmoid)], []],
    ["a result in both", [out(sigmoid.cast(bfloat16)), out(sigmoid, 2)], []],
    ["one function in both", [out(sigmoid.cast(bfloat16)), out(power, 2)], ["FDIV"]],
    ["a difference", [out(power.add(-1).cast(bfloat16))], []],
    ["a sum with what may be negative", [out(power.add(y).cast(bfloat16))], []],
    ["a comparison", [out(power.lt(y).where(x, y).cast(bfloat16))], []],
    ["a power of a power", [out(power.exp2().cast(bfloat16))], ["EXP2"]],
    ["a divisor that may be small", [out(x.alu(Ops.FDIV, power).cast(bfloat16))], ["EXP2"]],
    ["a divisor of any sign", [out(x.alu(Ops.FDIV, y).cast(bfloat16))], []],
    ["an index", [store(index(param(0, bfloat16, 4), power.cast(dtypes.int32)), x.cast(bfloat16))], []],
  ] as [string, UOp[], string[]][]
) {
  Deno.test(`rounded: ${name}`, () => {
    const before = sink(roots), after = markRounded(before, caps);
    const marked = toposort(after).filter((u) => u.arg === "rounded").map((u) => u.op === Ops.EXP2 ? "EXP2" : "FDIV");
    assertEquals(marked.sort(), want);
    if (want.length === 0) assertStrictEquals(after, before);
    assertStrictEquals(markRounded(after, caps), after);
    assertStrictEquals(markRounded(before, SCALAR_CAPS), before);
  });
}
