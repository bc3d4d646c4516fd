/** The stored node tests of ONNX on one device; `tests/onnx/node_tests.ts FOLDER` runs all of them. @module */
import assert from "node:assert/strict";
import { Device } from "../../mod.ts";
import { opsetOf, reasonOf, runCase, storedCases } from "./node_cases.ts";

await Device.open(Device.default); // not within a test: where constants that belong to no device are computed
const cases = await storedCases(), device = "WASM";

Deno.test("onnx node tests: what is stored covers the versions", () => {
  assert(cases.length > 1000, `${cases.length} cases`);
  assert(new Set(cases.map(opsetOf)).size >= 20);
});

for (const [opset, group] of Map.groupBy(cases, opsetOf)) {
  Deno.test(`onnx node tests: version ${opset}, ${group.length} cases`, async () => {
    const wrong: string[] = [];
    for (const test of group) {
      const found = await runCase(test, device);
      if (found !== undefined && reasonOf(test.name) === undefined) wrong.push(`${test.name}: ${found}`);
    }
    assert.deepEqual(wrong, []);
  });
}
