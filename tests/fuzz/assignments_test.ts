/** Random programs of assignments on the devices that need no compiler; more of them by `tests/fuzz/assignments.ts`. */
import { assert, assertEquals } from "@std/assert";
import { Device } from "../../mod.ts";
import { check, fuzzAssignments } from "./assignments.ts";
import type { Statement } from "./parts/assignments_program.ts";

for (const device of ["JS", "WASM"]) {
  await Device.open(device);
  Deno.test(`assignments: random programs on ${device} do what an eager model does`, async () => {
    Device.default = device;
    const report = await fuzzAssignments({ seed: 20261122, count: 120 });
    assertEquals(report.failures, []);
    assert(report.compared > 100, JSON.stringify(report));
  });
}

Deno.test("assignments: of writes of which one makes real what another one reads, either may come first", async () => {
  Device.default = "JS";
  const program: Statement[] = [
    { op: "leaf", to: "a", values: [0, 8, -1], shape: [3], dtype: "int32", how: "realized" },
    { op: "value", how: "max", on: "a", to: "b", value: 8, list: [] },
    { op: "value", how: "clone", on: "b", to: "c", list: [] },
    { op: "value", how: "total", on: "c", to: "d", list: [] },
    { op: "inplace", how: "sub", on: "c", value: 9 },
    { op: "setAt", on: "b", index: [{ gt: "d" }], value: 3 },
    { op: "setAt", on: "a", index: [0], value: 9 },
    { op: "read", on: "a" },
    { op: "read", on: "d" },
  ];
  assertEquals(await check(program), "stale");
});

Deno.test("assignments: a function adds to the gradient that a step has left for its factor, a parameter", async () => {
  Device.default = "JS";
  const leaf = (to: string, values: number[], how: string): Statement => (
    { op: "leaf", to, values, shape: [2], dtype: "float32", how }
  );
  const program: Statement[] = [
    leaf("a", [1, 2], "realized"),
    leaf("b", [3, 5], "realized"),
    leaf("x", [10, 20], "weight"),
    { op: "optimizer", to: "o", names: ["a", "b"], terms: [[0, 1, false]], list: [0, 1] },
    { op: "stepper", to: "f", on: "o", how: "", body: [], list: [0] },
    { op: "slopes", to: "g", how: "", list: [2, 0] },
    { op: "step", on: "f" },
    { op: "slope", to: "s", on: "g", names: ["x", "a"], list: [1] },
    { op: "grad", to: "t", on: "o", value: "a" },
    { op: "read", on: "t" },
    { op: "read", on: "s" },
  ];
  assertEquals(await check(program), undefined);
});

Deno.test("assignments: what a function assigns, computed from what its argument has overwritten, is lost when it is read", async () => {
  Device.default = "JS";
  const program: Statement[] = [
    { op: "leaf", to: "a", values: [3, 1, -2], shape: [3], dtype: "int32", how: "realized" },
    { op: "view", how: "shrink", on: "a", to: "b", list: [1], shape: [2] },
    { op: "value", how: "same", on: "b", to: "c", list: [5] },
    { op: "setAt", on: "b", index: [-1], value: 6 },
    {
      op: "jit",
      to: "f",
      how: "",
      params: ["x"],
      body: [{ op: "inplace", how: "mul", on: "c", value: 3 }],
      result: "x",
    },
    { op: "call", on: "f", to: "d", names: ["b"] },
    { op: "read", on: "d" },
    { op: "read", on: "c" },
  ];
  assertEquals(await check(program.slice(0, -1)), undefined);
  assertEquals(await check(program), "stale");
});

Deno.test("assignments: a function overwrites what it closes over also where that is its argument", async () => {
  Device.default = "JS";
  const clone = (to: string, values: number[]): Statement => (
    { op: "leaf", to, values, shape: [2], dtype: "int32", how: "clone" }
  );
  const program: Statement[] = [
    clone("a", [3, -1]),
    { op: "view", how: "detach", on: "a", to: "b", list: [] },
    clone("c", [7, -2]),
    {
      op: "jit",
      to: "f",
      how: "",
      params: ["x"],
      body: [{ op: "assign", on: "c", value: "x" }],
      result: "c",
      isValue: true,
    },
    { op: "call", on: "f", to: "d", names: ["b"] },
    { op: "inplace", how: "mul", on: "a", value: "c" },
    { op: "call", on: "f", to: "e", names: ["c"] },
    { op: "view", how: "at", on: "b", to: "g", index: [-1], list: [] },
    { op: "realize", names: ["g"] },
  ];
  assertEquals(await check(program), "stale");
});
