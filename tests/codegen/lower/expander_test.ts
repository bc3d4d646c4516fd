/** What the expander builds at once is what the late rules would make, and nothing is left for them. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { lateRules } from "../../../src/codegen/late/decomp/missing_ops.ts";
import { fitsVectors } from "../../../src/codegen/late/devectorizer.ts";
import { expand } from "../../../src/codegen/lower/expander.ts";
import { buildAlu } from "../../../src/codegen/ast/alu_builder.ts";
import { choose } from "../../../src/codegen/choose/choose.ts";
import { KERNEL_PASSES, KernelState } from "../../../src/codegen/passes.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { type Renderer, SCALAR_CAPS } from "../../../src/renderer/renderer.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { record } from "../../../src/uop/rewrite/record.ts";
import { graphRewrite, runPasses } from "../../../src/uop/rewrite/rewrite.ts";
import {
  constant,
  index,
  int,
  param,
  range,
  sink,
  store,
  toposort,
  type UOp,
  uop,
  variable,
} from "../../../src/uop/core/uop.ts";
import { simplifyKernel } from "../../../src/uop/algebra/valid.ts";
import { CAPS } from "../harness.ts";
import { KERNELS } from "../kernels.ts";

const caps = { ...SCALAR_CAPS, ...CAPS.large };
const renderer: Renderer = { name: "test", caps, render: () => "" };
const late = lateRules(caps);
const lowered = (ast: UOp): UOp => runPasses(KERNEL_PASSES, ast, new KernelState(ast, renderer));

for (const [name, ast] of Object.entries(KERNELS)) {
  Deno.test(`expander: ${name} as the late rules make it`, () => {
    // what is recorded is expanded first and rewritten after
    assertStrictEquals(lowered(ast), record(() => lowered(ast)).result);
  });
}

Deno.test("expander: late rules find nothing to do", () => {
  const kernel = choose(KERNELS.matmul, renderer);
  const made = expand(simplifyKernel(kernel.finish()), 1, late);
  assert(toposort(made).some((u) => u.op === Ops.MULACC));
  assertStrictEquals(graphRewrite(made, late), made);
});

const y = variable("y", 0, 9), minus = (c: number): UOp => uop(Ops.SUB, dtypes.int32, [int(c), y]);
for (
  const [name, u, c, want] of [
    ["(5 - y) + 2", minus(5), 2, minus(7)],
    ["(5 - y) + -5", minus(5), -5, uop(Ops.NEG, dtypes.int32, [y])],
    ["(5 - y) + 0", minus(5), 0, minus(5)],
  ] as const
) {
  Deno.test(`expander: copies of ${name}`, () => {
    assertStrictEquals(buildAlu(Ops.ADD, dtypes.int32, [u, int(c)]), want);
  });
}

Deno.test("expander: copies of comparisons that differ by constants share a side, where nothing overflows", () => {
  const z = variable("z", 0, 9), far = variable("far", 0, 2 ** 31 - 1);
  const less = (a: UOp, b: UOp): UOp => buildAlu(Ops.CMPLT, dtypes.bool, [a, b]);
  const of = (a: UOp, b: UOp): UOp => uop(Ops.CMPLT, dtypes.bool, [a, b]);
  assertStrictEquals(less(y.add(3), z), of(y, z.add(-3)));
  assertStrictEquals(less(y.add(3), z.add(1)), of(y, z.add(-2)));
  assertStrictEquals(less(y.add(1).add(z), y), of(y.add(z), y.add(-1)));
  assertStrictEquals(less(far.add(3), z), of(far.add(3), z));
  assertStrictEquals(less(y.add(3), far.add(1)), of(y.add(3), far.add(1)));
});

Deno.test("expander: vectors that fit are known from the AST", () => {
  const kernel = (lanes: number, dtype = dtypes.float32): UOp => {
    const i = range(lanes, 0, AxisKind.VECTOR);
    return sink([store(index(param(0, dtype, lanes), i), constant(1, dtype))]);
  };
  const whole = sink([store(index(param(0, dtypes.float32, 32), int(0)), constant(1, dtypes.float32.vec(32)))]);
  assertEquals(
    [kernel(16), kernel(32), kernel(8, dtypes.float64), kernel(16, dtypes.float64), whole].map((k) =>
      fitsVectors(k, caps)
    ),
    [true, false, true, false, false],
  );
});
