/** Random programs of assignments on the devices that need no compiler; more of them by `tests/fuzz/assignments.ts`. */
import { assert, assertEquals } from "@std/assert";
import { Device } from "../../mod.ts";
import { fuzzAssignments } from "./assignments.ts";

for (const device of ["JS", "WASM"]) {
  await Device.open(device);
  Deno.test(`assignments: random programs on ${device} do what an eager model does`, async () => {
    Device.default = device;
    const report = await fuzzAssignments({ seed: 20261122, count: 120 });
    assertEquals(report.failures, []);
    assert(report.compared > 100, JSON.stringify(report));
  });
}
