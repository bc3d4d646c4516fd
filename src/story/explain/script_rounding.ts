/**
 * How far rounding alone moves what a script computes. A step of an optimizer may divide a gradient that is nothing but
 * rounding by itself: no order of additions gives the same then, and none is wrong. In: the text of a script up to its
 * comparison. Out: for the arrays that it does not determine, how far they move. It is found by running the text in float32,
 * in float64, and some times in float32 with each result rounded up or down at random (Monte Carlo arithmetic: Parker, "Monte
 * Carlo arithmetic: how to gamble with your floating point and win", 2000): what an order of additions happens to get right
 * is moved there as well.
 *
 * @module
 */
import type { Numbers } from "./explain_values.ts";

/** How far an array is moved, relative to its numbers: the root of the mean square, and the largest; that as it is. */
export interface Moved {
  readonly mean: number;
  readonly most: number;
  readonly far: number;
}

/** The same text with float32 arrays and results in float64; undefined where bytes are read as another kind of number. */
function inFloat64(text: string): string | undefined {
  const own = text.replaceAll(/new Float32Array\(bits\)/g, "new F32(bits)");
  if (/new \w+\(\w+\.buffer,|\bu32\[0\] = \w+ << 16/.test(own)) return undefined;
  return own.replaceAll("Math.fround(", "(").replaceAll(
    /new Float32Array\((data, \d+, \d+)\)/g,
    "F64.from(new F32($1))",
  )
    .replaceAll("Float32Array", "F64").replaceAll("F32", "Float32Array").replaceAll("F64", "Float64Array");
}

/** Runs in which each rounding goes up or down at random. */
const DRAWS = 4;

/** What rounds, by a name that no array gets (script_names.ts). */
const ROUNDS = "$rounds$";

/** A draw of roundings: a number of which float32 has none goes to either neighbor, as often to the one as to the other. */
const roundedAtRandom = (seed: number): string =>
  `const ${ROUNDS} = (() => {
  let drawn = ${seed};
  const asFloat = new Float32Array(1), asInt = new Int32Array(asFloat.buffer);
  return (x) => {
    const f = asFloat[0] = x, near = asFloat[0];
    drawn = (Math.imul(drawn, 1664525) + 1013904223) | 0;
    if (near === f || !(f - f === 0) || near - near !== 0 || drawn < 0) return near;
    if (near === 0) return 0;
    asInt[0] += (f > near) === (near > 0) ? 1 : -1;
    return asFloat[0];
  };
})();
`;

/** The same text, in which results in float32 are rounded at random. */
function atRandom(text: string, seed: number): string {
  return roundedAtRandom(seed) + text.replaceAll("Math.fround(", `${ROUNDS}(`);
}

/** Runs a text; gives its arrays of these names. @throws {Error} where code may not be made of text */
function run(text: string, data: Uint8Array, names: readonly string[]): readonly Numbers[] {
  const plain = text.replaceAll(/\] as const\) \{$/gm, "]) {").replace(/^const data = Deno\..*$/m, "");
  const make = Function as unknown as new (...args: string[]) => (data: ArrayBufferLike) => readonly Numbers[];
  return new make("data", `"use strict";\n${plain}\nreturn [${names.join(", ")}];`)(data.slice().buffer);
}

function movedBy(a: Numbers, b: Numbers): Moved {
  let apart = 0, all = 0, far = 0, largest = 0;
  for (let i = 0; i < a.length; i++) {
    const x = Number(a[i]), y = Number(b[i]);
    if (!(x - x === 0 && y - y === 0)) continue;
    apart += (x - y) ** 2;
    all += y * y;
    far = Math.max(far, Math.abs(x - y));
    largest = Math.max(largest, Math.abs(y));
  }
  return { mean: Math.sqrt(apart / (all || 1)), most: far / (largest || 1), far };
}

/** The arrays of a script, of these names, as it makes them here; undefined where it cannot be run. */
export function arraysOf(text: string, data: Uint8Array, names: readonly string[]): readonly Numbers[] | undefined {
  try {
    return run(text, data, names);
  } catch {
    return undefined;
  }
}

/** How far rounding moves the arrays of a script, by name; none where that cannot be found. */
export function roundingOf(text: string, data: Uint8Array, names: readonly string[]): ReadonlyMap<string, Moved> {
  const wide = inFloat64(text);
  if (wide === undefined) return new Map();
  try {
    const exact = run(wide, data, names), ways = [text];
    for (let seed = 1; seed <= DRAWS; seed++) ways.push(atRandom(text, seed));
    const moved = ways.map((way) => run(way, data, names).map((a, i) => movedBy(a, exact[i])));
    const farthest = (i: number, of: keyof Moved): number => Math.max(...moved.map((m) => m[i][of]));
    return new Map(
      names.map((name, i) => [
        name,
        { mean: farthest(i, "mean"), most: farthest(i, "most"), far: farthest(i, "far") },
      ]),
    );
  } catch {
    return new Map(); // a page may forbid it
  }
}
