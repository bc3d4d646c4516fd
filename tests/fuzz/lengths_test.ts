/** Matrices whose sizes are variables: random programs on every device. Long runs: lengths.ts. */
import { assertEquals } from "@std/assert";
import { devicesHere } from "../fixtures/devices.ts";
import { onDevice } from "../support/on_device.ts";
import { checkLengths } from "./lengths.ts";

for (const device of await devicesHere()) {
  Deno.test(`lengths: random programs on ${device}`, async () => {
    const found = await onDevice(device, async () => {
      const wrong = [];
      for (let at = 0; at < (device === "JS" ? 16 : 6); at++) wrong.push(await checkLengths(20261129, at));
      return wrong.filter((w) => w !== undefined);
    });
    assertEquals(found, []);
  });
}
