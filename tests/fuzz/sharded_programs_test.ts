/** Random programs on divided tensors, a few by a seed (sharded_programs.ts): values are those of one device. */
import assert from "node:assert/strict";
import { Device } from "../../mod.ts";
import { Random } from "../support/random.ts";
import { checkProgram, programOf, programText } from "./sharded_programs.ts";

Device.default = "JS";

Deno.test("sharded programs: writes, slices, gradients and optimizers give what they give on one device", () => {
  const found: string[] = [];
  let skipped = 0, refused = 0, captured = 0, trained = 0;
  for (let k = 0; k < 40; k++) {
    const p = programOf(new Random(60_000_049 + k)), outcome = checkProgram(p);
    if (outcome.skipped) skipped++;
    else if (p.captured) captured++;
    if (p.loss >= 0) trained++;
    refused += outcome.refused;
    if (outcome.why !== undefined) found.push(`${k}: ${programText(p)}\n  ${outcome.why}`);
  }
  assert.deepEqual(found, []);
  assert.ok(
    skipped < 10 && captured > 8 && trained > 8 && refused > 0,
    JSON.stringify({ skipped, captured, trained, refused }),
  );
});
