/** What is summed once instead of many times. */
import { assertEquals } from "@std/assert";
import { dtypes, Tensor } from "../../../mod.ts";
import { reduceOnce } from "../../../src/schedule/fuse/hoist_factors.ts";
import { ReduceArg } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { shapeOf } from "../../../src/uop/core/shape.ts";
import { type UOp, uop } from "../../../src/uop/core/uop.ts";

/** The shape that a sum of `x` over its last axis is computed in; undefined where it stays as it is. */
function onceShape(x: Tensor): readonly number[] | undefined {
  const made = reduceOnce(uop(Ops.REDUCE, dtypes.float32, [x.uop], new ReduceArg(Ops.ADD, [x.ndim - 1])));
  const sum = (u: UOp): UOp => u.op === Ops.REDUCE ? u : sum(u.src[0]);
  return made && shapeOf(sum(made));
}

for (
  const [name, x, want] of [
    ["repeated rows", Tensor.empty([64, 1, 2048]).expand([64, 1024, 2048]), [64, 1, 1]],
    [
      "a function of repeated rows",
      Tensor.empty([64, 1, 2048]).expand([64, 1024, 2048]).exp().mul(2).permute([1, 0, 2]),
      [1, 64, 1],
    ],
    ["few elements", Tensor.empty([4, 1, 32]).expand([4, 64, 32]), undefined],
    ["few repeats", Tensor.empty([4096, 1, 16384]).expand([4096, 2, 16384]), undefined],
    [
      "rows that differ",
      Tensor.empty([64, 1, 2048]).expand([64, 1024, 2048]).add(Tensor.empty([64, 1024, 1])),
      undefined,
    ],
  ] as const
) Deno.test(`reduce once: ${name}`, () => assertEquals(onceShape(x), want));
