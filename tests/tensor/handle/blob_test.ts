/** Tensor.fromBlob: memory of somebody else, used where it is or copied. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, Device, ShapeError, Tensor } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

/** Devices whose memory is the host's. */
const HOST = ["JS", "CLANG"];

for (const device of await devicesHere()) {
  const inPlace = HOST.includes(device);
  Deno.test(`fromBlob ${device}: ${inPlace ? "reads and writes the array itself" : "copies the array"}`, async () => {
    const array = new Float32Array([9, 1, 2, 3, 4]), t = Tensor.fromBlob(array.subarray(1), [2, 2], { device });
    assertEquals([t.device, t.dtype.name, t.isRealized], [device, "float32", true]);
    array[4] = 40;
    assertEquals(await t.sum(0).tolist(), inPlace ? [4, 42] : [4, 6]);
    await t.assign(t.mul(2)).realize().data();
    assertEquals([...array], inPlace ? [9, 2, 4, 6, 80] : [9, 1, 2, 3, 40]);
    t.dispose();
    assertEquals(array[0], 9);
  });
  Deno.test(`fromBlob ${device}: an ArrayBuffer in another dtype; frees nothing`, async () => {
    const bytes = new Uint8Array([1, 0, 2, 0, 3, 0]).buffer, { device: d } = { device: Device.get(device) };
    const changes: number[] = [];
    for (let i = 0; i < 3; i++) {
      const before = d.allocator.used;
      {
        using t = Tensor.fromBlob(bytes, [3], { dtype: "int16", device });
        assertEquals(await t.tolist(), [1, 2, 3]);
      }
      changes.push(d.allocator.used - before);
    }
    // what earlier tests left may be collected in between, but not every time
    assert(changes.includes(0), `memory changed by ${changes}`);
  });
  if (device.startsWith("CUDA")) continue; // addresses there are the device's own
  Deno.test(`fromBlob ${device}: an address`, async () => {
    const array = new Int32Array([5, 6, 7, 8]), pointer = Deno.UnsafePointer.of(array)!;
    const t = Tensor.fromBlob(pointer, [4], { dtype: "int32", device });
    const u = Tensor.fromBlob(Deno.UnsafePointer.value(pointer), [2], { dtype: "int32", device });
    array[0] = 50;
    assertEquals([await t.tolist(), await u.tolist()], [[inPlace ? 50 : 5, 6, 7, 8], [inPlace ? 50 : 5, 6]]);
  });
}

Deno.test("fromBlob: gradients, and what is no memory", async () => {
  const x = Tensor.fromBlob(new Float32Array([1, 2]), [2], { requiresGrad: true, device: "JS" });
  x.square().sum().backward();
  assertEquals(await x.grad!.tolist(), [2, 4]);
  const bad: readonly [unknown, number[], new (...args: never[]) => Error, string][] = [
    [3, [1], ArgumentError, "3 is no memory; give a TypedArray"],
    [null, [1], ArgumentError, "null is no memory"],
    [[1, 2], [2], ArgumentError, "a list of 2 is no memory"],
    [0n, [1], ArgumentError, "is no memory"],
    [new Float32Array(3), [2, 2], ShapeError, "float32 needs 16 bytes, and there are 12"],
  ];
  for (const [memory, shape, type, text] of bad) {
    assertThrows(() => Tensor.fromBlob(memory as ArrayBuffer, shape, { device: "JS" }), type, text);
  }
});
