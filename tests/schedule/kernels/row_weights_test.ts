/** Weights as one function of what rows keep. */
import { assert, assertEquals } from "@std/assert";
import { dtypes, Tensor } from "../../../mod.ts";
import { foldTensorGraph } from "../../../src/schedule/fuse/fold_tensors.ts";
import { rowWeight } from "../../../src/schedule/kernels/row_weights.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { toposort, type UOp } from "../../../src/uop/core/uop.ts";
import { evaluate } from "../../reference.ts";
import { difference, toleranceOf } from "../../tolerance.ts";

const x = new Tensor([[1.5, 2, 3, -20], [40, -5, 6, 38.5]], { device: "JS" }), all = [2, 4];
const top = x.max(-1, { keepdim: true }).expand(all), power = x.add(top.mul(-1)).mul(1.5).exp2();
const total = power.sum(-1, { keepdim: true }), other = new Tensor([[1.5, -1, 2, 3], [0, 4, 5, -6]], { device: "JS" });

function folded({ uop }: Tensor): UOp {
  const order = toposort(uop);
  return foldTensorGraph([uop], order)[order.length - 1];
}

for (
  const [name, quotient] of [
    ["a weight", power.div(total.expand(all))],
    ["a sum over weights", other.mul(power).sum(-1, { keepdim: true }).div(total)],
  ] as const
) {
  Deno.test(`row weights: ${name} is that of one number a row`, () => {
    const made = rowWeight(folded(quotient));
    assert(made !== undefined && toposort(made).every((u) => u.op !== Ops.FDIV));
    const [got, want] = [made, quotient.uop].map((u) => evaluate(u).data.map(Number));
    assertEquals(difference(got, want, toleranceOf("accumulate", dtypes.float32)), undefined);
  });
}

Deno.test("row weights: other quotients are none", () => {
  const others: readonly Tensor[] = [
    power.div(other), // of each element
    x.div(total.expand(all)),
    power.div(3),
    x.exp2().div(total.expand(all)), // less nothing
    other.sum(-1, { keepdim: true }).div(total),
  ];
  for (const t of others) assertEquals(rowWeight(folded(t)), undefined);
});
