/** A part of PyTorch's own test database; `deno run -A tests/fixtures/opdb.ts` checks all that is stored. */
import { assert, assertEquals } from "@std/assert";
import { classOf, judge, nameOf, rowNames, storedSamples } from "./fixtures/opdb.ts";
import { NO_ROWS } from "./fixtures/opdb/opdb_names.ts";
import { missingForms } from "./fixtures/opdb/opdb_differences.ts";
import { devicesHere } from "./fixtures/devices.ts";
import { Device } from "../mod.ts";

await Device.open(Device.default); // not within a test
const samples = await storedSamples(), STEP = 12;

Deno.test("op_db: what is stored covers every class of operations, with gradients and errors", () => {
  assert(samples.length >= 4000, `${samples.length} samples`);
  assertEquals(new Set(samples.map(classOf)).size, 8);
  const gradients = samples.filter((s) => s.grads !== undefined).length;
  const errors = samples.filter((s) => s.error !== undefined).length;
  assert(gradients > 1000, `${gradients} with gradients`);
  assert(errors > 150, `${errors} errors`);
});

Deno.test("op_db: each of its 702 names has a row, with samples that are stored, or a reason", () => {
  const named = rowNames(), left = Object.keys(NO_ROWS), sampled = new Set(samples.map(nameOf));
  assertEquals(named.filter((n) => n in NO_ROWS), []);
  assertEquals(named.length + left.length, 702);
  // of these opdb.py writes none down: devices among the arguments, or too many elements
  assertEquals(named.filter((n) => !sampled.has(n)), ["to", "slice_scatter", "kron", "nn.functional.ctc_loss"]);
  assert(left.every((n) => NO_ROWS[n].length > 10));
});

for (const device of await devicesHere("WEBGPU", "CLANG", "CUDA")) {
  Deno.test(`op_db: one sample in ${STEP} on ${device}`, async () => {
    const found: string[] = [], unexplained = new Set<string>(), before = Device.default;
    let agreed = 0;
    Device.default = device; // of layers' weights
    // of each device another part
    const first = device.length % STEP;
    for (let i = first; i < samples.length; i += STEP) {
      const verdict = await judge(samples[i], device);
      if (verdict.kind === "disagrees") found.push(`${nameOf(samples[i])} ${samples[i].dtype}: ${verdict.text}`);
      if (verdict.kind === "missing form" && !Object.hasOwn(missingForms, verdict.text!)) {
        unexplained.add(verdict.text!);
      }
      if (verdict.kind === "agrees" || verdict.kind === "in int32") agreed++;
    }
    Device.default = before;
    assertEquals(found, []);
    assertEquals([...unexplained], []);
    assert(agreed > samples.length / STEP * 0.7, `${agreed} agree`);
  });
}

Deno.test("op_db: a wrong value is found", async () => {
  const sample = samples.find((s) => s.op === "add" && s.outputs?.[0].s.length === 2)!;
  const [want] = sample.outputs!, wrong = { ...want, v: want.v.map((x) => Number(x) + 1) };
  assertEquals((await judge({ ...sample, outputs: [wrong] }, "JS")).kind, "disagrees");
  assertEquals(
    (await judge({ ...sample, grads: sample.grads!.map((g) => ({ ...g, v: g.v.map(() => 7) })) }, "JS")).kind,
    "disagrees",
  );
});
