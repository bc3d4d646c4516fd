/** Covariances with weights: dtypes and errors as PyTorch's. Values and gradients are checked by the golden cases. */
import { assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, DTypeError, type DTypeName, Tensor } from "../../../mod.ts";
import { difference, toleranceOf } from "../../tolerance.ts";

const on = (data: number[], dtype: DTypeName) => new Tensor(data, { dtype, device: "JS" });

for (
  const [dtype, weights, want] of [
    ["float16", "float32", "float32"],
    ["float32", "float64", "float64"],
    ["float16", "bfloat16", "float32"],
    ["int32", "float16", "float16"],
    ["float16", "int32", "float16"],
  ] as const
) {
  Deno.test(`cov: of ${dtype} with weights in ${weights} is ${want}, as PyTorch's`, () => {
    assertEquals(on([1, 2, 4], dtype).cov({ aweights: on([1, 2, 3], weights) }).dtype.name, want);
  });
}

Deno.test("cov: weights of less precision than the values do not lower that", async () => {
  const x = on([-4.828125, -7.578125], "float64"), aweights = on([0.265625, 0.359375], "float32");
  assertEquals(await x.cov({ aweights }).item(), 3.78125); // by PyTorch
});

Deno.test("cov: a divisor that is a hundredth of what it is the difference of keeps its digits", async () => {
  const x = on([-8.484375, -1.765625, -4.328125, -2.40625, -7.953125, 3.609375], "float32").reshape([2, 3]);
  const got = x.cov({ correction: 2, aweights: on([0.359375, 0.0625, 0.703125], "float32") });
  // by NumPy, in float64
  const want = [527.5908868963040, 388.9923095703104, 388.9923095703105, 1462.4865445223647];
  assertEquals(difference(await got.data(), want, toleranceOf("accumulate", got.dtype)), undefined);
});

Deno.test("cov: weights that are no counts, or below 0, are refused", () => {
  const x = on([1, 2, 4], "float32");
  assertThrows(() => x.cov({ fweights: on([1, 2, 3], "float32") }), DTypeError, "they are counts, whole numbers");
  assertThrows(() => x.cov({ fweights: on([1, -2, 3], "int64") }), ArgumentError, "fweights must be at least 0");
  assertThrows(() => x.cov({ aweights: on([1, -2, 3], "float32") }), ArgumentError, "aweights must be at least 0");
});
