/** Matrices joined, rolled, padded, written to and cut by threads: random programs on every device. Long runs: joined.ts. */
import { assertEquals } from "@std/assert";
import { devicesHere } from "../fixtures/devices.ts";
import { onDevice } from "../support/on_device.ts";
import { checkJoined } from "./joined.ts";

for (const device of await devicesHere()) {
  Deno.test(`joined: random programs on ${device}`, async () => {
    const found = await onDevice(device, async () => {
      const wrong = [];
      for (let at = 0; at < 10; at++) wrong.push(await checkJoined(20261128, at));
      return wrong.filter((w) => w !== undefined);
    });
    assertEquals(found, []);
  });
}
