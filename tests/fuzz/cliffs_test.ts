/** No program takes many times what its arithmetic does: those that stood wrong, and some random ones. @module */
import { assert, assertEquals } from "@std/assert";
import { Device } from "../../mod.ts";
import { findIn, LOOPS, ORDINARY, TIMES, timesTheLeast, tooOften } from "./cliffs.ts";

await Device.open(Device.default); // before the tests

for (const [name, make] of Object.entries(ORDINARY)) {
  Deno.test(`cliffs: ${name}, on a grid`, () => {
    const times = timesTheLeast(make);
    assert(times > 0 && times < TIMES, `${times.toFixed(1)} times the least`);
  });
}
for (const [name, make] of Object.entries({ ...LOOPS, ...ORDINARY })) {
  Deno.test(`cliffs: ${name}, on loops`, () => {
    for (const writer of ["CLANG", "WASM"] as const) assertEquals(tooOften(writer, make), []);
  });
}
Deno.test("cliffs: random kernels go around no more often than they are written", () => {
  assertEquals(findIn(60, 1), []);
});
