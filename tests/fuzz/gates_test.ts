/** Conditions of reads in loops that end at variables: random kernels on every device. Long runs: gates.ts. */
import { assertEquals } from "@std/assert";
import { devicesHere } from "../fixtures/devices.ts";
import { checkGates } from "./gates.ts";

/** Kernels of a device whose memory can be read at once; fewer where a compiler runs for each. */
const COUNTS: Record<string, number> = { JS: 150, WASM: 100 };

for (const device of await devicesHere("WEBGPU", "CUDA")) {
  Deno.test(`gates: random kernels on ${device}`, () => {
    const cases = Array.from({ length: COUNTS[device] ?? 8 }, (_, at) => checkGates(1, at, device));
    assertEquals(cases.filter((w) => w !== undefined), []);
  });
}
