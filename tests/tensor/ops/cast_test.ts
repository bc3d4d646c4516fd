/** Floats to integers out of range: the same on every device. */
import { assertEquals } from "@std/assert";
import { Device, Tensor } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

const VALUES = [NaN, Infinity, -Infinity, 3e9, -3e9, 1e20, -1.5, 300.7, -129, 5e9, -0.9];
const HIGH = 2n ** 63n - 1n, LOW = -(2n ** 63n), WORD = 2n ** 64n - 1n;
const WANT: readonly [dtype: string, values: readonly (number | bigint)[]][] = [
  ["int8", [0, -1, 0, -1, 0, -1, -1, 44, 127, -1, 0]],
  ["uint8", [0, 255, 0, 255, 0, 255, 255, 44, 127, 255, 0]],
  ["int16", [0, -1, 0, -1, 0, -1, -1, 300, -129, -1, 0]],
  ["int32", [0, 2147483647, -2147483648, 2147483647, -2147483648, 2147483647, -1, 300, -129, 2147483647, 0]],
  ["uint32", [0, 4294967295, 0, 3e9, 1294967296, 4294967295, 4294967295, 300, 4294967167, 705032704, 0]],
  ["int64", [0, HIGH, LOW, 3e9, -3e9, HIGH, -1, 300, -129, 5e9, 0]],
  ["uint64", [0, WORD, 2n ** 63n, 3e9, 2n ** 64n - 3000000000n, WORD, WORD, 300, 2n ** 64n - 129n, 5e9, 0]],
];

for (const device of await devicesHere()) {
  for (const [dtype, want] of WANT) {
    Deno.test(`cast ${device}: float32 out of range to ${dtype}`, async () => {
      const x = new Tensor(VALUES, { dtype: "float32", device });
      assertEquals(await x.cast(dtype).tolist(), [...want]);
    });
  }
}

Deno.test("cast: constants as computed values", async () => {
  for (const [dtype, want] of WANT) {
    const constants = VALUES.map((v) => new Tensor(v, { dtype: "float32" }).cast(dtype));
    assertEquals(await Promise.all(constants.map((t) => t.item())), [...want], dtype);
  }
});

Deno.test("to: in place moves the gradient, too", async () => {
  const x = new Tensor([1, 2], { requiresGrad: true, device: "JS" });
  x.square().sum().backward();
  x.toInPlace("WASM");
  assertEquals([x.device, x.grad!.device, Device.canonicalize("wasm")], ["WASM", "WASM", "WASM"]);
  assertEquals([await x.tolist(), await x.grad!.tolist()], [[1, 2], [2, 4]]);
});
