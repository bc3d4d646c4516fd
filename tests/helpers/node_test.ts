/** Modules of Node: those that are there, and none where there are none. */
import { assert, assertEquals } from "@std/assert";
import { nodeModule, nodeProcess, nodeThreads } from "../../src/helpers/node.ts";

Deno.test("node: modules by name", () => {
  assertEquals(typeof (nodeModule("node:v8") as { getHeapStatistics: unknown }).getHeapStatistics, "function");
  assertEquals(nodeModule("node:nothing"), undefined);
  assert(nodeThreads()?.Worker !== undefined);
});

Deno.test("node: none without Node's process, or where it throws", () => {
  const scope = globalThis as unknown as { process: unknown }, { process } = scope;
  try {
    const refuse = () => {
      throw new Error("no");
    };
    for (const other of [undefined, {}, { getBuiltinModule: refuse }]) {
      scope.process = other;
      assertEquals(nodeThreads(), undefined);
    }
  } finally {
    scope.process = process;
  }
});

Deno.test("node: its process is Node's own, not what Deno has of that name", () => {
  assert("process" in globalThis);
  assertEquals(nodeProcess(), undefined);
});
