/** Losses: shapes, labels and errors. Values and gradients are checked by the golden cases. */
import { assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, Device, DTypeError, ShapeError, Tensor } from "../../../mod.ts";
import { evaluateTensor } from "../../reference.ts";

Device.get(); // devices open outside of tests

const t = (shape: number[]) => Tensor.ones(shape, { device: "JS" });
const labels = (data: number[], dtype = "int32") => new Tensor(data, { dtype, device: "JS" });
const near = (x: Tensor, want: number) =>
  assertEquals(Math.abs(evaluateTensor(x).data[0] - want) < 1e-6, true, `${evaluateTensor(x).data} want ${want}`);

Deno.test("loss: uniform logits cost log(classes), with labels of any integer dtype", () => {
  for (const dtype of ["int32", "int64", "uint8"]) {
    near(t([3, 4]).crossEntropy(labels([0, 1, 3], dtype)), Math.log(4));
    near(t([3, 4]).sparseCategoricalCrossentropy(labels([0, 1, 3], dtype)), Math.log(4));
  }
  near(t([4]).crossEntropy(new Tensor(2, { device: "JS" })), Math.log(4));
});

Deno.test("loss: reductions", () => {
  const x = t([2, 3, 5]), y = labels([0, 1, 2, 0, 1, 2, 0, 1, 2, 0]).reshape([2, 5]);
  assertEquals(x.crossEntropy(y, { reduction: "none" }).shape, [2, 5]);
  near(x.crossEntropy(y, { reduction: "sum" }), 10 * Math.log(3));
  near(x.crossEntropy(y), Math.log(3));
  assertEquals(x.crossEntropy(y).shape, []);
});

Deno.test("loss: binary cross entropy stays finite", () => {
  const p = new Tensor([0, 1], { dtype: "float32", device: "JS" });
  assertEquals(evaluateTensor(p.binaryCrossentropy([0, 1], "none")).data.map(Math.abs), [0, 0]);
  assertEquals(evaluateTensor(p.binaryCrossentropy([1, 0], "none")).data, [100, 100]);
  const far = new Tensor([-1000, 1000], { dtype: "float32", device: "JS" });
  assertEquals(evaluateTensor(far.binaryCrossentropyLogits([1, 0], { reduction: "none" })).data, [1000, 1000]);
});

const errors: readonly [string, () => unknown, new (...args: never[]) => Error, string][] = [
  [
    "label shape",
    () => t([2, 3]).crossEntropy(labels([1, 2, 0])),
    ShapeError,
    "Cannot compute crossEntropy shapes [2, 3] and [3]: labels must have shape [2]",
  ],
  ["label dtype", () => t([2, 3]).nllLoss(t([2])), DTypeError, "float32: labels are integers"],
  [
    "reduction",
    () => t([2, 3]).crossEntropy(labels([1, 2]), { reduction: "total" as "sum" }),
    ArgumentError,
    '"total"',
  ],
  ["smoothing", () => t([2, 3]).crossEntropy(labels([1, 2]), { labelSmoothing: 2 }), ArgumentError, "labelSmoothing 2"],
  [
    "two weights",
    () => t([2, 3]).crossEntropy(labels([1, 2]), t([3]), { weight: t([3]) }),
    ArgumentError,
    "weight came twice",
  ],
  [
    "options twice",
    () => t([2, 3]).crossEntropy(labels([1, 2]), { reduction: "sum" }, { labelSmoothing: 0.1 }),
    ArgumentError,
    "options came twice; give them as one object",
  ],
  ["weights", () => t([2, 3]).nllLoss(labels([1, 2]), t([2])), ShapeError, "it must be [3]"],
  // as PyTorch's
  ...[0, -1].map((margin): (typeof errors)[number] => [
    `margin ${margin}`,
    () => t([2, 3]).tripletMarginLoss(t([2, 3]), t([2, 3]), { margin }),
    ArgumentError,
    `Cannot tripletMarginLoss: margin must be above 0, not ${margin}`,
  ]),
];
for (const [name, run, kind, text] of errors) {
  Deno.test(`loss error: ${name}`, () => void assertThrows(run, kind as new () => Error, text));
}
