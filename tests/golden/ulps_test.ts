/** Each device is held to four times what was measured of it, not of others. @module */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Device, Tensor } from "../../mod.ts";
import { cases, checkAll, type GoldenCase, ulpKey } from "./golden.ts";
import { isMeasured, MEASURED, merged, readUlps, ulpsAllowed } from "./ulps.ts";

const table = readUlps();
await Device.open("JS"); // before the tests

Deno.test("ulps: what was measured of one device is nothing to another", () => {
  const some = { "f float32": { JS: 2, WASM: 30.5 } };
  assertEquals(MEASURED.map((d) => ulpsAllowed(some, "f float32", d)), [8, 122, 4, 4, 4]);
  assertEquals(ulpsAllowed(some, "g float32", "JS"), 4);
  assertEquals(["JS", "WEBGPU", "CUDA", "SIM"].map(isMeasured), [true, true, true, false]);
});

Deno.test("ulps: a measurement replaces that of its device, or widens it", () => {
  const was = { "a float32": { JS: 9, CLANG: 5 }, "b float32": { JS: 2 } };
  const found = { "a float32": { CLANG: 3 }, "b float32": { JS: 0.5 }, "c float32": { WASM: 1.24, JS: 1 } };
  assertEquals(merged(was, found, false), { "a float32": { JS: 9, CLANG: 3 }, "c float32": { WASM: 1.2 } });
  assertEquals(merged(was, found, true), { ...was, "c float32": { WASM: 1.2 } });
});

Deno.test("ulps: a result within tolerance fails where it is farther than its device was", () => {
  const c: GoldenCase = {
    name: "f",
    program: "f",
    tol: "transcendental",
    inputs: [],
    outputs: [["float32", [1], [1]]],
  };
  const built = { outputs: [new Tensor([1], { dtype: "float32", device: "JS" })], grads: [] };
  const check = (ulps: number, limit: number) => checkAll(c, built, () => [1 + ulps * 2 ** -23], () => limit);
  check(6, 8);
  const error = assertThrows(() => check(6, 4), Error);
  assertEquals(error.message, "output 0 is 6.0 ulps off, and f float32 may be 4  (f)");
});

Deno.test("ulps: rows are of results that there are, and differ by device", () => {
  const keys = new Set(cases.flatMap((c) => [
    ...c.outputs.map(([dtype]) => ulpKey(c, { dtype, gradient: false })),
    ...(c.grads ?? []).flatMap((g) => g === null ? [] : [ulpKey(c, { dtype: g[0], gradient: true })]),
  ]));
  const rows = Object.entries(table);
  assertEquals(rows.filter(([key]) => !keys.has(key)).map(([key]) => key), []);
  assert(rows.length > 300 && rows.every(([, row]) => Object.values(row!).every((n) => n > 1)));
  assert(rows.some(([, row]) => new Set(MEASURED.map((d) => row![d])).size === MEASURED.length));
});
