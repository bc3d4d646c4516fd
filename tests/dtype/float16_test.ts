/** float16 by arithmetic against the engine's Float16Array and Math.f16round. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { f16Bits, f16Round, f16Value } from "../../src/dtype/float16.ts";
import { Random } from "../support/random.ts";

Deno.test("float16: the value of all bits, and the bits of all values", () => {
  const bits = Uint16Array.from({ length: 65536 }, (_, i) => i), values = new Float16Array(bits.buffer);
  for (let i = 0; i < 65536; i++) {
    assertStrictEquals(f16Value(i), values[i]);
    if (values[i] === values[i]) assertEquals(f16Bits(values[i]), i);
    else assertEquals(f16Bits(values[i]) & 0x7e00, 0x7e00);
  }
});

Deno.test("float16: numbers between two values, and near the middle, are rounded once", () => {
  const random = new Random(7), halves = new Float16Array(1), steps = new Uint16Array(halves.buffer);
  for (let i = 0; i < 63488; i++) {
    if ((i & 0x7c00) === 0x7c00) continue;
    steps[0] = i;
    const low = halves[0];
    steps[0] = i + 1;
    const high = Number.isFinite(halves[0]) ? halves[0] : Math.sign(low) * 65536, middle = (low + high) / 2;
    for (const x of [middle, middle * (1 + 2 ** -50), middle * (1 - 2 ** -50), low + (high - low) * random.next()]) {
      assertStrictEquals(f16Round(x), Math.f16round(x), String(x));
    }
  }
  for (const x of [NaN, Infinity, -Infinity, -0, 65519.99999, 65520, 1e300, 5e-324, 1 + 2 ** -11 + 2 ** -40]) {
    assertStrictEquals(f16Round(x), Math.f16round(x), String(x));
  }
});
