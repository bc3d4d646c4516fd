/** The tables accept the hand-written kernels and refuse one broken node each. */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { SpecError } from "../../../src/helpers/errors.ts";
import { AxisKind, ReduceArg, Storage } from "../../../src/uop/core/args.ts";
import { pad, reshape } from "../../../src/uop/core/build_movement.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { type Spec, specKernel, specLinear, specTensor, verify } from "../../../src/uop/core/spec.ts";
import {
  bufferNode,
  constant,
  index,
  int,
  load,
  param,
  range,
  sink,
  store,
  type UOp,
  uop,
  variable,
} from "../../../src/uop/core/uop.ts";
import { KERNEL_FIXTURES } from "../../fixtures/kernels.ts";

for (const k of KERNEL_FIXTURES) {
  Deno.test(`spec: fixture ${k.name}`, () => {
    verify(k.ast, specKernel, "from the scheduler");
    if (k.linear !== undefined) verify(k.linear, specLinear, "for renderers");
  });
}

const f32 = dtypes.float32, i32 = dtypes.int32;
const x = reshape(bufferNode(new Storage("JS", f32, 6)), [2, 3]);
const p = param(0, f32, 8), i = range(8, 0, AxisKind.LOOP), v = variable("v", 0, 3);
Deno.test("spec: a tensor graph", () => {
  const sum = uop(Ops.REDUCE, f32, [pad(x, [[0, 1], [0, 0]])], new ReduceArg(Ops.ADD, [1]));
  verify(sink([x.mul(2).add(x), sum, x.lt(1).where(x, constant(0, f32))]), specTensor, "from Tensor");
});

const end = uop(Ops.END, dtypes.void, [i]);
const BAD: [string, UOp | UOp[], Spec, string][] = [
  ["mixed dtypes", uop(Ops.ADD, f32, [x, v]), specTensor, "all sources have one dtype"],
  ["mixed shapes", uop(Ops.ADD, f32, [x, reshape(x, [6])]), specTensor, "differ"],
  ["float bits", x.and(x), specTensor, "floats have no bits here"],
  ["exp2 of an int", v.exp2(), specTensor, "only floats have this op"],
  ["where of an int", uop(Ops.WHERE, f32, [v, x, x]), specTensor, "a bool"],
  ["comparison of no bool", uop(Ops.CMPLT, i32, [v, v]), specTensor, "gives bool"],
  ["a loop in a tensor graph", i.add(1), specTensor, "does not exist here"],
  ["unwrapped constant", constant(1.5, i32), specTensor, "integer"],
  ["late op", uop(Ops.SUB, i32, [v, v]), specTensor, "not at this stage"],
  ["movement in a kernel", x, specKernel, "does not exist here"],
  [
    "tensor reduce in a kernel",
    uop(Ops.REDUCE, f32, [load(index(p, i))], new ReduceArg(Ops.ADD, [0])),
    specKernel,
    "CarrierArg",
  ],
  ["float index", index(p, constant(1, f32)), specKernel, "scalar int32"],
  ["int gate", index(p, i, v), specKernel, "bool"],
  ["load of a param", uop(Ops.LOAD, f32, [p]), specKernel, "reads an INDEX"],
  ["stored dtype", store(index(p, i), v), specKernel, "what is stored"],
  ["floor division at the end", v.floorDiv(2), specLinear, "lowers"],
  ["source after use", [p, i, index(p, i), int(8)], specLinear, "does not come before it"],
  ["open loop", [int(8), i], specLinear, "never closed"],
  ["loops that cross", [int(8), i, end, end], specLinear, "twice"],
  [
    "gated store",
    [int(8), int(3), p, i, i.lt(3), index(p, i, i.lt(3)), constant(0, f32)].concat(
      store(index(p, i, i.lt(3)), constant(0, f32)),
      end,
    ),
    specLinear,
    "never gated",
  ],
];
for (const [name, u, spec, why] of BAD) {
  Deno.test(`spec: ${name}`, () => {
    const error = assertThrows(() => verify(u, spec, "in a test"), SpecError);
    assertStringIncludes(error.message, why);
  });
}

Deno.test("uop: nodes on the memory of one tensor, each made anew, have hashes of their own", () => {
  const storage = new Storage("JS", f32, 6);
  const hashes = Array.from({ length: 1000 }, () => reshape(bufferNode(storage), [2, 3]).hash);
  // equal ones would be looked through one by one, at each replay of a jit function
  assertEquals(new Set(hashes).size, 1000);
});
