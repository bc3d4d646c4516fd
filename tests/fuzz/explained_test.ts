/** Random programs under explain: their scripts come to what was recorded. Long runs are by hand: explained.ts. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Device } from "../../mod.ts";
import { fuzzExplained, runScript } from "./explained.ts";

await Device.open("WASM");

Deno.test("explained: scripts of random programs come to what was recorded", async () => {
  const report = await fuzzExplained({ seed: 20261126, count: 40, seconds: 300, device: "WASM" });
  assertEquals(report.failures, []);
  assertEquals(report.programs, 40);
  // most programs must run, and most scripts say themselves that they are near
  assert(report.scripts >= 70 && report.far <= 8, JSON.stringify(report));
});

Deno.test("explained: a script that comes to something else is found", () => {
  const check = (x: number) =>
    `const x = new Float32Array([${x}]);\nlet isFar = false;\nif (x[0] !== 2) isFar = true;\n` +
    'if (isFar) throw new Error("a result is farther from the recorded one than its dtype allows");\n';
  const data = new Uint8Array(0);
  assertEquals(runScript({ script: check(2), data }, ["x"]).isFar, false);
  assertEquals(runScript({ script: check(3), data }, ["x"]).isFar, true);
  assertThrows(() => runScript({ script: "const x = y;", data }, []), Error, "y is not defined");
});
