/** A part of the cases of edges.ts on two devices; that every op has one; that none is left out for longer than it differs. */
import { assert, assertEquals } from "@std/assert";
import { Device, Tensor } from "../../mod.ts";
import { PARITY } from "../pages/parity.ts";
import { publicFunctions } from "./arguments.ts";
import { buildEdge, callOf, compareEdge, edgeCases, NO_EDGES, runEdges } from "./edges.ts";
import { elementwiseCases, runRandomEdges } from "./edges_random.ts";

Device.default = "JS";

/** Sections of ops, by what they are. */
const SECTIONS = ["1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10", "1.11", "1.12"];

Deno.test("edges: every op has a case, or a reason for none", () => {
  const covered = new Set(edgeCases.map((c) => c.op)), missing: string[] = [];
  for (const { number, rows } of PARITY) {
    if (!SECTIONS.includes(number)) continue;
    for (const [name] of rows) if (!covered.has(name) && NO_EDGES[name] === undefined) missing.push(name);
  }
  // and what no list of others' ops has
  for (const { name } of publicFunctions().targets) {
    const isOperation = /^(?:Tensor\.|fft\.|windows\.)?\w+$/.test(name) &&
      (name.includes(".") || name in Tensor.prototype);
    if (isOperation && !covered.has(name.split(".").at(-1)!) && NO_EDGES[name] === undefined) missing.push(name);
  }
  assertEquals(missing, []);
  for (const name of Object.keys(NO_EDGES)) assert(!covered.has(name), `${name} has a case`);
});

Deno.test("edges: values and gradients are PyTorch's, JS float64", async () => {
  assertEquals(await runEdges(edgeCases.filter((_, i) => i % 3 === 0), "JS", "float64"), []);
});

Deno.test("edges: values and gradients are PyTorch's, WASM float32", async () => {
  assertEquals(await runEdges(edgeCases.filter((_, i) => i % 9 === 1), "WASM", "float32"), []);
});

for (const [device, count] of [["JS", 96], ["WASM", 48]] as const) {
  Deno.test(`edges ${device}: ${count} random points, shapes and movements`, async () => {
    assertEquals(await runRandomEdges({ device, count, seed: 1 }), []);
  });
}

Deno.test("edges: what is tried on random shapes keeps them, and broadcasts", () => {
  const [wide, narrow, number] = [[2, 3], [1], []].map((s) => Tensor.ones(s));
  for (const { js, inputs } of elementwiseCases) {
    const f = callOf(js);
    for (const [x, y] of [[wide, narrow], [number, number]]) {
      assertEquals(f(...[x, y].slice(0, inputs.length)).shape, x.shape, js);
    }
  }
});

Deno.test("edges: a wrong value is found", async () => {
  const c = edgeCases.find((c) => c.js === "x.tanh()")!, { out, grads } = buildEdge(c, "JS", "float64");
  const wrong = await compareEdge(c, { out: out.add(1e-9), grads: grads.map((g) => g?.mul(1 + 1e-9)) }, false);
  assert(wrong.some((p) => p.includes("value")) && wrong.some((p) => p.includes("gradient")));
});

/** Functions of which -0 is -0, in PyTorch too (their signs at 0: fixtures/golden/edges.py). */
const ODD = ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf", "trunc", "ceil", "floor", "round"]
  .concat(["sqrt", "hardswish", "hardtanh", "leakyRelu", "elu", "celu", "selu", "silu", "gelu", "quickGelu", "mish"])
  .concat(["softsign", "clone"]);

for (const device of ["JS", "WASM"]) {
  Deno.test(`edges ${device}: -0 stays -0, and 0 is 0`, async () => {
    const wrong: string[] = [];
    for (const dtype of ["float64", "float32", "float16"]) {
      const x = new Tensor([-0, 0], { dtype, device });
      const made = ODD.map((name) => (x as unknown as Record<string, () => Tensor>)[name]());
      Tensor.realize(made);
      for (const [i, t] of made.entries()) {
        const [a, b] = await t.tolist() as number[];
        if (!Object.is(a, -0) || !Object.is(b, 0)) {
          wrong.push(`${dtype} ${ODD[i]}: ${Object.is(a, -0) ? "-0" : a}, ${b}`);
        }
      }
    }
    assertEquals(wrong, []);
  });
}
