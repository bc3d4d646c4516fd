/**
 * Every op that random programs know, and its gradient, on tensors divided among four devices of one process, once each
 * by a seed (sharding.ts): the same as on one device, or refused with the reshard that makes it legal.
 */
import assert from "node:assert/strict";
import { Device } from "../../mod.ts";
import { Random } from "../support/random.ts";
import { caseOf, caseText, check, ROWS } from "./sharding.ts";

Device.default = "JS";

Deno.test("sharding: every op, divided as a seed has it, gives what it gives on one device", () => {
  const found: string[] = [];
  let cases = 0, refused = 0;
  ROWS.forEach((row, k) => {
    const c = caseOf(row, new Random(7000003 + k));
    if (c === undefined) return;
    const outcome = check(c);
    cases++;
    if (outcome.refused) refused++;
    if (outcome.why !== undefined) found.push(`${caseText(c)}\n  ${outcome.why}`);
  });
  assert.deepEqual(found, []);
  assert.ok(cases > 250 && refused < cases / 3, `${cases} cases, ${refused} of them refused`);
});
