/** How values of matrix units are judged (runs are by hand: units.ts). */
import { assert, assertEquals } from "@std/assert";
import { errorOf } from "./units.ts";

const HALF = 2 ** -10, all = (x: number): number[] => new Array(8).fill(x);

for (
  const [name, got, want, terms, isRight] of [
    ["equal zeros, of terms that are zeros", all(0), all(0), 0, true],
    ["equal infinities", all(Infinity), all(Infinity), 1, true],
    ["NaN for 0", all(NaN), all(0), 1, false],
    ["what is not 0, of terms that are", all(2 ** -20), all(0), 0, false],
    ["what terms that cancel are rounded by", all(HALF), all(0), 1, true],
    ["the same, where float32 has rounded them, too", all(HALF), all(2 ** -24), 1, true],
    ["more than what they are rounded by", all(4 * HALF), all(0), 1, false],
    ["small values, which have not cancelled", all(2 ** -9), all(2 ** -10), 1, false],
    ["a value of its dtype's precision", all(1 + HALF), all(1), 1, true],
  ] as const
) {
  Deno.test(`units: ${name} ${isRight ? "are right" : "are wrong"}`, () => {
    assertEquals(errorOf(got, want, HALF, terms).error <= 1, isRight);
  });
}

Deno.test("units: the largest error is told, and where", () => {
  const { error, at } = errorOf([1, 1.5, 1.25], [1, 1, 1], HALF, 1);
  assert(error > 100);
  assertEquals(at, 1);
});
