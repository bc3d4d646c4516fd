/** finfo and iinfo: PyTorch's and NumPy's numbers, what tensors compute of them, and what has none. */
import { assertEquals, assertThrows } from "@std/assert";
import { DTypeError, finfo, iinfo, Tensor } from "../../mod.ts";

for (
  const [name, bits, eps, max, tiny, resolution] of [
    ["float16", 16, 2 ** -10, 65504, 2 ** -14, 1e-3],
    ["bfloat16", 16, 2 ** -7, 3.3895313892515355e38, 2 ** -126, 1e-2],
    ["float32", 32, 2 ** -23, 3.4028234663852886e38, 2 ** -126, 1e-6],
    ["float64", 64, Number.EPSILON, Number.MAX_VALUE, 2 ** -1022, 1e-15],
    ["fp8e4m3", 8, 0.125, 448, 2 ** -6, 1],
    ["fp8e5m2", 8, 0.25, 57344, 2 ** -14, 1],
  ] as const
) {
  Deno.test(`finfo: ${name}`, async () => {
    const info = finfo(name);
    assertEquals([info.bits, info.eps, info.max, info.tiny, info.resolution], [bits, eps, max, tiny, resolution]);
    assertEquals([info.min, info.smallestNormal, info.smallestSubnormal], [-max, tiny, tiny * eps]);
    const x = new Tensor([max, 1, 1 + eps, 1 + eps / 4, tiny], { dtype: "float64", device: "JS" }).cast(name).double();
    assertEquals(await x.tolist(), [max, 1, 1 + eps, 1, tiny]);
  });
}

Deno.test("finfo, iinfo: of a tensor's dtype, of complex numbers, of integers, and what has none", () => {
  assertEquals(finfo(new Tensor([1.5], { device: "JS" }).dtype).dtype.name, "float32");
  assertEquals(finfo("complex128").max, Number.MAX_VALUE);
  assertEquals([iinfo("uint8").min, iinfo("uint8").max, iinfo("int32").min], [0, 255, -(2 ** 31)]);
  assertEquals([iinfo("int64").min, iinfo("uint64").max], [-(2n ** 63n), 2n ** 64n - 1n]);
  assertThrows(() => finfo("int32"), DTypeError, "use iinfo");
  assertThrows(() => iinfo("float32"), DTypeError, "use finfo");
  assertThrows(() => iinfo("bool"), DTypeError, "it is no integer");
  assertThrows(() => finfo("float33" as "float32"), DTypeError, "float33");
});
