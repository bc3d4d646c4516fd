/** The passes run in the order of their list, each where its row says so, and are recorded and timed by name. */
import { assert, assertEquals } from "@std/assert";
import { KERNEL_PASSES } from "../../src/codegen/passes.ts";
import { toProgram } from "../../src/codegen/to_program.ts";
import { context } from "../../src/helpers/env.ts";
import { type Capabilities, SCALAR_CAPS } from "../../src/renderer/renderer.ts";
import { passTimes, record } from "../../src/uop/rewrite/record.ts";
import { simCaps } from "../fixtures/sim.ts";
import { CAPS } from "./harness.ts";
import { KERNELS } from "./kernels.ts";

const NAMES = KERNEL_PASSES.map((p) => p.name);
const LOOPS: Capabilities = { ...SCALAR_CAPS, ...CAPS.large };

function passesOf(caps: Capabilities, NOOPT: number): string[] {
  const renderer = { name: "test", caps, render: () => "" };
  const { passes } = record(() => context({ NOOPT, SPEC: 1 }, () => toProgram(KERNELS.matmul, renderer)));
  return passes.filter((p) => p.depth === 0).map((p) => p.name);
}

Deno.test("passes: each has a name of its own", () => {
  assertEquals(new Set([...NAMES, "linearize"]).size, NAMES.length + 1);
});

for (
  const [what, caps, NOOPT, some, none] of [
    ["on loops", LOOPS, 0, ["apply opts", "roll stores"], ["place threads", "coalesce accesses"]],
    ["on loops without opts", LOOPS, 1, ["expand, lower reduces"], ["apply opts", "place threads"]],
    ["without vectors", SCALAR_CAPS, 0, ["apply opts"], ["roll stores"]],
    ["on a grid", simCaps(), 0, ["apply opts", "place threads", "coalesce accesses"], ["roll stores"]],
    ["on a grid without opts", simCaps(), 1, ["apply opts", "place threads"], ["roll stores"]],
  ] as const
) {
  Deno.test(`passes: ${what}`, () => {
    const before = passTimes(), names = passesOf(caps, NOOPT);
    assertEquals(names, [...NAMES.filter((n) => names.includes(n)), "linearize"]);
    for (const n of some) assert(names.includes(n), n);
    for (const n of none) assert(!names.includes(n), n);
    for (const n of names) assert(passTimes().get(n)! > (before.get(n) ?? 0), n);
  });
}
