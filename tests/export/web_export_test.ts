/**
 * Exports as pages, opened in a browser: by WebGPU where it has an adapter, and by WebAssembly, each does its recorded call.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Device } from "../../mod.ts";
import { exportModel, exportModels } from "../../src/export/export.ts";
import { findInPage, leaveOut } from "../web/browser.ts";
import { agent, examples } from "./programs.ts";

Device.default = "WASM";
const NAMES = ["digits", "counter", "random", "sizes", "whole", "halves", "train"];

/** A page that does the recorded calls of all exports, and puts how far each is from what was recorded into `found`. */
function page(names: readonly string[]): string {
  return `<!doctype html><title>exports</title><script type="module">
const typed = (A, list) => A.from(list, A.name.startsWith("Big") ? BigInt : Number);
const found = {};
const kinds = { f: Float32Array, i: Int32Array };
for (const name of ${JSON.stringify(names)}) {
  const { load } = await import("./" + name + "_web.js"), test = await (await fetch("./" + name + ".test.json")).json();
  const types = await (await fetch("./" + name + ".d.ts")).text();
  const arrayOf = (n) => globalThis[new RegExp("readonly " + n + ": (\\\\w+)").exec(types)[1]];
  for (const device of [undefined, null]) {
    try {
      const m = await load(undefined, device);
      const args = [...Object.entries(test.inputs).map(([n, list]) => typed(arrayOf(n), list)), ...Object.values(test.sizes)];
      const made = await m.run(...args), entries = Object.entries(test.outputs);
      let worst = 0;
      for (const [n, want] of entries) {
        const got = entries.length === 1 ? made : made[n];
        const scale = want.map(Number).filter(Number.isFinite).reduce((a, x) => Math.max(a, Math.abs(x)), 1e-30);
        for (let i = 0; i < test.counts[n]; i++) {
          const a = Number(got[i]), b = Number(want[i]);
          if (a !== b && !(a !== a && b !== b)) worst = Math.max(worst, Math.abs(a - b) / scale || Infinity);
        }
      }
      found[name + " " + m.device] = worst;
    } catch (error) {
      found[name + " " + (device === null ? "WASM" : "first")] = String(error && error.stack);
    }
  }
}
globalThis.found = found;
</script>`;
}

Deno.test("export to a page: recorded calls are done in a browser, by WebGPU and by WebAssembly", async (t) => {
  const folder = await Deno.makeTempDir({ prefix: "dinograd-export-" });
  try {
    const all = examples();
    for (const name of NAMES) {
      const { f, args, weights } = all[name];
      const made = await exportModel(f, args, { target: "web", name, weights });
      assert(made.files.has("index.html") && made.files.has(`${name}_web.js`));
      await made.write(folder);
    }
    await Deno.writeTextFile(`${folder}/index.html`, page(NAMES));
    const seen = await findInPage(folder);
    if (typeof seen === "string") return await leaveOut(t, seen);
    const found = seen.found as Record<string, number | string>;
    for (const [name, worst] of Object.entries(found)) {
      assert(typeof worst === "number" && worst < 1e-3, `${name}: ${worst}`);
    }
    assertEquals(NAMES.filter((n) => found[`${n} WASM`] === undefined), []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

/** A page that does the recorded calls of several functions, in an order in which each begins anew, and what was learned. */
const AGENT = `<!doctype html><title>exports</title><script type="module">
import { load } from "./agent_web.js";
const tests = await (await fetch("./agent.test.json")).json(), found = {}, seeds = SEEDS;
for (const device of [undefined, null]) {
  try {
    const m = await load(undefined, device), kinds = { y: (name) => name === "learn" ? Int32Array : Float32Array };
    for (const [name, { inputs, sizes, outputs }] of Object.entries(tests)) {
      m.reset();
      m.seed(...seeds[name]);
      const made = await m[name](...Object.entries(inputs).map(([n, list]) => (kinds[n]?.(name) ?? Float32Array).from(list)),
        ...Object.values(sizes));
      found[name + " " + m.device] = Math.max(...Object.values(outputs)[0].map((v, i) => Math.abs(v - made[i])));
    }
    const x = Float32Array.from({ length: 20 }, (_, i) => i % 4);
    for (let i = 0; i < 100; i++) await m.learn(x, new Int32Array(5));
    const [a, b, c] = await m.scores(x.subarray(0, 4));
    found["learned " + m.device] = a > b && a > c ? 0 : 1;
  } catch (error) {
    found[device === null ? "WASM" : "first"] = String(error && error.stack);
  }
}
globalThis.found = found;
</script>`;

Deno.test("export to a page: several functions share weights and state", async (t) => {
  const { entries, weights } = agent(), folder = await Deno.makeTempDir({ prefix: "dinograd-export-" });
  try {
    const made = await exportModels(entries, { target: "web", name: "agent", weights });
    assertStringIncludes(made.text("index.html"), "<option>remember</option>");
    await made.write(folder);
    const seeds = /m\.seed\((\d+)n, (\d+)n\);\ncompare\("(\w+) /g, all: Record<string, number[]> = {};
    for (const [, seed, counter, name] of made.text("agent_test.js").matchAll(seeds)) all[name] = [+seed, +counter];
    await Deno.writeTextFile(`${folder}/index.html`, AGENT.replace("SEEDS", JSON.stringify(all)));
    const seen = await findInPage(folder);
    if (typeof seen === "string") return await leaveOut(t, seen);
    const found = seen.found as Record<string, number | string>;
    assertEquals(Object.keys(entries).filter((n) => found[`${n} WASM`] === undefined), []);
    for (const [name, far] of Object.entries(found)) assert(typeof far === "number" && far < 1e-3, `${name}: ${far}`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

/** What a page of one file has computed, by the form that it fills itself, put into `found`. */
const TELLS = `<script type="module">
while (document.getElementById("state").textContent === "loading") await new Promise((done) => setTimeout(done, 20));
globalThis.found = { state: document.getElementById("state").textContent, files: performance.getEntriesByType("resource")
  .map((e) => e.name).filter((name) => name.startsWith("http")), y: Array.from(globalThis.results?.y ?? []) };
</script>`;

Deno.test("export to a page: a single file has all that it needs", async (t) => {
  const { f, args, weights } = examples().digits,
    options = { target: "web", name: "digits", weights, single: true } as const;
  const made = await exportModel(f, args, options), { outputs } = made.plan.test;
  assertEquals([...made.files.keys()], ["index.html"]);
  const folder = await Deno.makeTempDir({ prefix: "dinograd-export-" });
  try {
    // by WebAssembly, whatever the browser has
    const text = made.text("index.html").replace('location.hash === "#wasm" ? null : undefined', "null");
    await Deno.writeTextFile(`${folder}/index.html`, text + TELLS);
    const seen = await findInPage(folder);
    if (typeof seen === "string") return await leaveOut(t, seen);
    const found = seen.found as { state: string; files: string[]; y: number[] };
    assert(/ms on WASM$/.test(found.state), found.state);
    assertEquals(found.files, []);
    const want = new Float32Array([...outputs.values()][0].slice().buffer);
    assertEquals(found.y.length, want.length);
    found.y.forEach((y, i) => assert(Math.abs(y - want[i]) < 1e-5, `${found.y} is not ${want}`));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("export: a single file is for pages", async () => {
  const { f, args } = examples().net;
  await assertRejects(
    () => exportModel(f, args, { target: "c", single: true }),
    Error,
    'single is for { target: "web" }',
  );
});
