/** Tensors of no element of which an axis is a variable: values and shapes are those of the same with a number. */
import { deepStrictEqual as assertEquals } from "node:assert/strict";
import { type DTypeName, Tensor, Variable } from "../../../mod.ts";
import { onDevice } from "../../support/on_device.ts";

const rows = (d: DTypeName, n: Tensor | number): Tensor => Tensor.zeros([0, n], { dtype: d });
const columns = (d: DTypeName, n: Tensor | number): Tensor => Tensor.zeros([n, 0], { dtype: d });

/** What is made of `[0, n]`, `[n, 0]` and n. */
const PROGRAMS: Record<string, (a: Tensor, b: Tensor, n: Tensor | number) => Tensor> = {
  "an axis of one more, in front": (a) => a.unsqueeze(0),
  "one in the middle": (_, b) => b.unsqueeze(1),
  "one behind": (a) => a.unsqueeze(2),
  "one axis": (a) => a.flatten(),
  "another shape of nothing": (a) => a.reshape([5, 0]),
  "another, of the transpose": (_, b) => b.reshape([5, 0]),
  "the sum of none": (a) => a.sum(0),
  "the sum of all": (a) => a.sum(),
  "the sum of none in each": (_, b) => b.sum(1, { keepdim: true }),
  "the product of none": (a) => a.prod(0),
  "the largest of none": (a) => a.max(0),
  "the least of none": (a) => a.min(0),
  "any and all of none": (a) => a.any(0).add(a.all(0).cast("int32")),
  "a sum of none beside what there is": (a, _, n) => Tensor.ones([3, n]).add(a.sum(0)),
  "a product over none": (a, b) => b.matmul(a),
  "a product that has none": (a) => a.matmul(a.T),
  "what is joined to none": (a, _, n) => a.float().cat([Tensor.ones([2, n])]),
  "none with an edge": (a) => a.pad([[1, 0], [2, 1]], { value: 1 }),
  "the norm": (a) => a.float().norm(),
};

for (const [name, make] of Object.entries(PROGRAMS)) {
  Deno.test(`nothing: ${name}`, () =>
    onDevice("JS", async () => {
      const variable = new Variable("n", 0, 9);
      for (const d of ["float32", "int32", "uint8", "bool"] as const) {
        for (const n of [4, 0]) {
          const [want, got] = [n, variable.bind(n)].map((n) => make(rows(d, n), columns(d, n), n));
          assertEquals([got.dtype, got.boundShape], [want.dtype, want.boundShape]);
          assertEquals(await got.tolist(), await want.tolist());
        }
      }
    }));
}

Deno.test("nothing: gradients of sums of none are none, beside a variable", () =>
  onDevice("JS", async () => {
    const n = new Variable("n", 0, 9).bind(4), x = rows("float32", n), y = Tensor.ones([2, n]);
    const [dx, dy] = y.mul(x.sum(0).add(1)).sum().gradient([x, y]);
    assertEquals([dx.boundShape, await dx.tolist()], [[0, 4], []]);
    assertEquals(await dy.tolist(), [[1, 1, 1, 1], [1, 1, 1, 1]]);
  }));

Deno.test("nothing: a slice up to a variable that leaves an axis whole is a slice", () =>
  onDevice("JS", async () => {
    const n = new Variable("n", 1, 4).bind(3), x = Tensor.zeros([1, 3]).contiguous().realize();
    assertEquals(await x.at([0, n]).tolist(), [[0, 0, 0]]);
    assertEquals(await x.at([0, n], 1).tolist(), [0]);
    x.setAt([[0, n]], new Tensor([1, 2, 3]));
    assertEquals(await x.tolist(), [[1, 2, 3]]);
    x.at([0, n.add(1)]).assign(new Tensor([[4, 5, 6]]));
    assertEquals(await x.tolist(), [[4, 5, 6]]);
    assertEquals(await x.at([0, n], new Tensor([2, 0])).tolist(), [[6, 4]]);
  }));
