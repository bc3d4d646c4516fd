/** Random programs of assignments on the devices that need no compiler; more of them by `tests/fuzz/assignments.ts`. */
import { assert, assertEquals } from "@std/assert";
import { Device } from "../../mod.ts";
import { check, fuzzAssignments } from "./assignments.ts";
import type { Statement } from "./parts/assignments_program.ts";

for (const device of ["JS", "WASM"]) {
  await Device.open(device);
  Deno.test(`assignments: random programs on ${device} do what an eager model does`, async () => {
    Device.default = device;
    const report = await fuzzAssignments({ seed: 20261122, count: 120 });
    assertEquals(report.failures, []);
    assert(report.compared > 100, JSON.stringify(report));
  });
}

Deno.test("assignments: of writes of which one makes real what another one reads, either may come first", async () => {
  Device.default = "JS";
  const program: Statement[] = [
    { op: "leaf", to: "a", values: [0, 8, -1], shape: [3], dtype: "int32", how: "realized" },
    { op: "value", how: "max", on: "a", to: "b", value: 8, list: [] },
    { op: "value", how: "clone", on: "b", to: "c", list: [] },
    { op: "value", how: "total", on: "c", to: "d", list: [] },
    { op: "inplace", how: "sub", on: "c", value: 9 },
    { op: "setAt", on: "b", index: [{ gt: "d" }], value: 3 },
    { op: "setAt", on: "a", index: [0], value: 9 },
    { op: "read", on: "a" },
    { op: "read", on: "d" },
  ];
  assertEquals(await check(program), "stale");
});
