/** A few programs of numbers.ts on every device, and its oracle against what is known. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { dtypes } from "../../src/dtype/dtype.ts";
import { devicesHere } from "../fixtures/devices.ts";
import { castTo, nearest, runNumbers } from "./numbers.ts";

/** Programs on each device: compilers are slow. */
const COUNTS: Readonly<Record<string, number>> = { JS: 300, WASM: 300 };

for (const device of await devicesHere()) {
  Deno.test(`numbers ${device}: random operations and scalars`, async () => {
    for (let n = 0; n < (COUNTS[device] ?? 40); n++) await runNumbers(n, device);
  });
}

Deno.test("numbers: the oracle rounds once", () => {
  assertStrictEquals(nearest(dtypes.float16, 1 + 2 ** -11 + 2 ** -40), 1.0009765625);
  assertStrictEquals(nearest(dtypes.bfloat16, 16842753n), 16908288);
  assertStrictEquals(nearest(dtypes.fp8e4m3, 1e9), 448);
  assertStrictEquals(nearest(dtypes.float32, 2 ** -150), 0);
  assertEquals([-0, 0.1, 1e40].map((x) => nearest(dtypes.float32, x)), [-0, Math.fround(0.1), Infinity]);
  assertEquals([NaN, 3e9, -1.5].map((x) => castTo(dtypes.int32, x)), [0n, 2147483647n, -1n]);
});
