/** How far rounding moves what a script computes: by order of magnitude, against sums whose terms are known. */
import { roundingOf } from "../../src/story/explain/script_rounding.ts";
import { assert } from "../support/assert.ts";

/** A script that adds numbers one by one. */
const sumOf = (terms: readonly number[]): string =>
  `const terms = new Float32Array([${terms.join(", ")}]);
const sum = new Float32Array(1);
let acc = 0;
for (let i = 0; i < ${terms.length}; i++) acc = Math.fround(acc + terms[i]);
sum[0] = acc;`;

Deno.test("rounding: numbers that cancel move by what their terms leave, in whichever order they are right", () => {
  const half = Array.from({ length: 200 }, (_, i) => Math.fround(Math.sin(i + 1)));
  for (const terms of [[...half, ...half.map((x) => -x)], half.flatMap((x) => [x, -x])]) {
    const { far } = roundingOf(sumOf(terms), new Uint8Array(), ["sum"]).get("sum")!;
    const isPairwise = terms[1] === -terms[0];
    // each pair of neighbors is exactly nothing: there is no rounding to move it, where a sum of all has some
    assert(isPairwise ? far === 0 : far > 1e-8 && far < 1e-5, `${far}`);
  }
});

Deno.test("rounding: a sum that a rounding to nearest gets right by luck is not taken for one that is determined", () => {
  // 2^24 + 1 is a tie, and goes to the even one: what is left is 0 in float32 to nearest, 0.25 if it is exact
  const terms = [2 ** 24, 1.25, -(2 ** 24), -1.25];
  const { far } = roundingOf(sumOf(terms), new Uint8Array(), ["sum"]).get("sum")!;
  assert(far >= 0.25, `${far}`);
  const { most } = roundingOf(sumOf([1, 2, 3.5, 0.1]), new Uint8Array(), ["sum"]).get("sum")!;
  assert(most < 3e-7, `${most}`);
});
