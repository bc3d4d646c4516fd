/** What has no device of its own is computed where it is read: on several devices, with the same values. */
import { assertEquals, assertThrows } from "@std/assert";
import { context, DeviceError, Tensor } from "../../mod.ts";
import { devicesHere } from "../fixtures/devices.ts";

const names = (await devicesHere("WEBGPU", "CUDA")).slice(0, 3);
/** The same integers on each device. */
const inputs = () => names.map((device) => new Tensor([1, 2, 3], { device }));

const cases: readonly [string, () => Tensor][] = [
  ["elementwise", () => Tensor.arange(3).mul(2).add(1)],
  ["a reduce", () => Tensor.arange(3).sum()],
  ["random numbers", () => Tensor.rand([3])],
  ["a sort", () => Tensor.rand([40]).argsort().at([0, 3])],
  ["scans of scans", () => Tensor.randint([300]).cumsum(0).cumsum(0).at([297, 300])],
  ["one number", () => Tensor.const(7)],
  ["memory of its own", () => Tensor.arange(3).square().contiguous()],
];
for (const [name, make] of cases) {
  Deno.test(`devices: ${name}, read on ${names.join(", ")} in one schedule`, async () => {
    const shared = make(), results = inputs().map((x) => x.mul(0).add(shared));
    Tensor.realize(results);
    assertEquals(results.map((t) => t.device), names);
    const values = await Promise.all(results.map((t) => t.tolist()));
    for (const v of values) assertEquals(v, values[0]);
  });
  Deno.test(`devices: ${name}, read on one device after the other`, async () => {
    const shared = make(), values: unknown[] = [];
    for (const x of inputs()) values.push(await x.mul(0).add(shared).tolist());
    for (const v of values) assertEquals(v, values[0]);
  });
}

Deno.test("devices: what is realized lives on a device, and the error says how to move it", () => {
  const made = context({ DEV: names[0] }, () => Tensor.arange(3).add(1).realize());
  const other = new Tensor([1, 2, 3], { device: names[1] });
  assertThrows(() => other.add(made), DeviceError, `move one with .to("${names[1]}")`);
});

Deno.test("devices: numbers move, the first and those after it, which are arguments of one schedule", async () => {
  for (const value of [1.5, 2.5, 3.5]) {
    assertEquals(await Tensor.full([], value).to("JS").tolist(), value);
    assertEquals(await Tensor.full([2], value).to("JS").tolist(), [value, value]);
  }
});
