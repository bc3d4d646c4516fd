/** Arguments of the command line, and assertions that must fail. */
import strict from "node:assert/strict";
import * as given from "./assert.ts";
import { parseArgs } from "./parse_args.ts";

Deno.test("parse args: values, flags, defaults and the rest", () => {
  const options = { string: ["only", "out"], boolean: ["all"], default: { seed: 1, device: "JS" } };
  const rows: [string[], Record<string, unknown>][] = [
    [[], { _: [], all: false, seed: 1, device: "JS" }],
    [["--only", "3", "--seed", "7", "x"], { _: ["x"], all: false, seed: 7, device: "JS", only: "3" }],
    [["--all", "y", "--device=WASM", "--no-color"], { _: ["y"], all: true, seed: 1, device: "WASM", color: false }],
    [["--out=a=b", "--", "--all"], { _: ["--all"], all: false, seed: 1, device: "JS", out: "a=b" }],
    [["--count", "--only"], { _: [], all: false, seed: 1, device: "JS", count: true, only: "" }],
  ];
  for (const [args, want] of rows) strict.deepEqual(parseArgs(args, options), want);
});

Deno.test("assertions: what differs fails, what is alike passes", async () => {
  const { assertEquals, assertNotEquals, assertStrictEquals, assertThrows, assertRejects, assertAlmostEquals } = given;
  const alike: [unknown, unknown][] = [
    [NaN, NaN],
    [0, -0],
    [[1, [2]], [1, [2]]],
    [{ a: 1, b: { c: "x" } }, { b: { c: "x" }, a: 1 }],
    [new Float32Array([1, NaN]), new Float32Array([1, NaN])],
    [new Map([[1, { a: 2 }]]), new Map([[1, { a: 2 }]])],
    [new Set([1, 2]), new Set([2, 1])],
  ];
  const different: [unknown, unknown][] = [
    [1, "1"],
    [[1], [1, 2]],
    [[1, 2], [1]],
    [{ a: 1 }, { a: 1, b: undefined }],
    [{ a: undefined }, { b: undefined }],
    [new Float32Array([1]), new Float64Array([1])],
    [new Map([[1, 2]]), new Map([[1, 3]])],
    [new Set([1]), new Set([2])],
    [null, undefined],
    [[], {}],
    [1n, 1],
  ];
  for (const [a, b] of alike) {
    assertEquals(a, b);
    strict.throws(() => assertNotEquals(a, b));
  }
  for (const [a, b] of different) {
    strict.throws(() => assertEquals(a, b), { name: "AssertionError" });
    assertNotEquals(a, b);
  }
  strict.throws(() => assertStrictEquals(0, -0));
  strict.throws(() => assertAlmostEquals(1, 1.001));
  assertAlmostEquals(1, 1.0009, 1e-3);
  given.assertClose([[1, NaN], new Float32Array([2, Infinity])], [[1.000009, NaN], [2, Infinity]]);
  given.assertClose(0.001, 0.0020001, 1e-3 + 1e-6);
  const [pair, none]: [unknown, unknown] = [[1, 2], undefined];
  for (
    const [a, b] of [[1, 1.001], [pair, [1]], [pair, [1, 2.1]], [NaN, 1], [1, NaN], [none, [1]], [none, 1], [2e308, 1]]
  ) {
    strict.throws(() => given.assertClose(a, b), { name: "AssertionError" });
  }
  const fail = () => {
    throw new RangeError("beyond");
  };
  strict.equal(assertThrows(fail, RangeError, "bey").message, "beyond");
  strict.throws(() => assertThrows(fail, TypeError));
  strict.throws(() => assertThrows(fail, RangeError, "other"));
  strict.throws(() => assertThrows(() => 1));
  await strict.rejects(() => assertRejects(() => Promise.resolve(1)));
  await assertRejects(() => Promise.reject(new TypeError("x")), TypeError, "x");
});
