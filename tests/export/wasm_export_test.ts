/**
 * Exports as WebAssembly: the module is loaded by its loader, and does the recorded call again; the program for Deno is run.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { Device, Tensor } from "../../mod.ts";
import { type Exported, exportModel, exportModels } from "../../src/export/export.ts";
import { agent, examples, wave } from "./programs.ts";
import { run } from "./build.ts";

Device.default = "WASM";
const folder = Deno.makeTempDirSync({ prefix: "dinograd-export-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));

/** A loaded module. */
interface Loaded {
  run(...args: unknown[]): unknown;
  reset(): void;
  seed(seed: number, counter?: number): void;
  readonly [name: string]: unknown;
}

/** Loads an export by its own loader. */
async function load(made: Exported, name: string): Promise<Loaded> {
  await made.write(`${folder}/${name}`);
  const { load } = await import(`file://${folder}/${name}/${name}.js`);
  const bytes = (file: string): unknown => made.files.get(`${name}.${file}`);
  return await load(bytes("wasm"), bytes("bin"));
}

const numbers = (list: unknown): number[] => Array.from(list as ArrayLike<number | bigint>, Number);

for (const [name, { f, args, weights }] of Object.entries(examples())) {
  Deno.test(`export to WASM: ${name} does the recorded call`, async () => {
    const made = await exportModel(f, args, { target: "wasm", name, weights });
    await made.write(`${folder}/${name}`);
    await import(`file://${folder}/${name}/${name}_test.js`); // throws where values are others
    const module = new WebAssembly.Module(made.files.get(`${name}.wasm`) as Uint8Array<ArrayBuffer>);
    assertEquals(WebAssembly.Module.imports(module), []);
    const names = WebAssembly.Module.exports(module).map((e) => e.name);
    for (const known of ["memory", "init", "run"]) assert(names.includes(known), names.join());
    if (name === "digits") {
      assert(made.text("digits.js").length <= 1200, `${made.text("digits.js").length} bytes of loader`);
    }
  });
}

Deno.test("export to WASM: runs go on from the state that the run before has left, and begin anew after reset", async () => {
  const { f, args, weights } = examples().counter;
  const m = await load(await exportModel(f, args, { target: "wasm", name: "counter", weights }), "counter");
  const x = Float32Array.from([1, 2, 3]), start = numbers(m.count);
  const first = numbers((m.run(x) as { y0: Float32Array }).y0), second = numbers((m.run(x) as { y0: Float32Array }).y0);
  assertEquals(first, start.map((c, i) => 2 * (c + i + 1)).map(Math.fround));
  assertEquals(second.map((v, i) => Math.round((v - first[i]) * 1e4) / 1e4), [2, 4, 6]);
  m.reset();
  assertEquals(numbers(m.count), start);
});

Deno.test("export to WASM: a training step is the eager one, step by step", async () => {
  const example = examples().train, module = examples().train;
  const m = await load(
    await exportModel(module.f, module.args, { target: "wasm", name: "train", weights: module.weights }),
    "train",
  );
  const eager = example.f as unknown as (...args: unknown[]) => Tensor;
  const want: number[] = [];
  for (let i = 0; i < 8; i++) want.push(Number(await eager(...example.args).item()));
  const [x, y] = [await (example.args[0] as Tensor).data(), await (example.args[1] as Tensor).data()];
  for (let i = 2; i < 8; i++) {
    const [got] = numbers(m.run(x, y));
    assert(Math.abs(got - want[i]) < 1e-4 * want[0], `step ${i}: ${got}, want ${want[i]}`);
  }
});

Deno.test("export to WASM: random numbers follow from a seed", async () => {
  const f = (x: Tensor): Tensor => x.add(Tensor.rand([4])), x = Tensor.zeros([4]).contiguous().realize();
  const m = await load(await exportModel(f, [x], { target: "wasm", name: "random_seed" }), "random_seed");
  const seeded = (seed: number): number[] => {
    m.seed(seed);
    return [...numbers(m.run()), ...numbers(m.run())];
  };
  const a = seeded(5);
  assertEquals(seeded(5), a);
  assert(seeded(6).every((v, i) => v !== a[i]));
  Tensor.manualSeed(5);
  const want = [await Tensor.rand([4]).tolist(), await Tensor.rand([4]).tolist()].flat() as number[];
  assertEquals(a, want);
});

Deno.test("export to WASM: sizes are arguments, and checked", async () => {
  const { f, args, weights } = examples().sizes;
  const m = await load(await exportModel(f, args, { target: "wasm", name: "sizes", weights }), "sizes");
  const table = numbers(m.weights ?? []), rows = await wave([8, 3]).tolist() as number[][];
  for (const n of [1, 4, 8]) {
    const want = [0, 1, 2].map((c) => rows.slice(0, n).reduce((sum, row) => sum + 2 * row[c], 0));
    numbers(m.run(n)).forEach((v, i) => assert(Math.abs(v - want[i]) < 1e-5, `${n}: ${v}, want ${want[i]} ${table}`));
  }
  assertThrows(() => m.run(9), RangeError);
  assertThrows(() => m.run(0), RangeError);
});

Deno.test("export to WASM: several functions share weights and state, and each does its recorded call", async () => {
  const { entries, weights } = agent(), at = `${folder}/agent`;
  const made = await exportModels(entries, { target: "wasm", name: "agent", weights });
  await made.write(at);
  await import(`file://${at}/agent_test.js`);
  const m = await load(made, "agent") as unknown as Record<string, (...args: unknown[]) => Float32Array>;
  // what one learned, another sees
  const x = Float32Array.from({ length: 20 }, (_, i) => i % 4), labels = new Int32Array(5);
  let loss = 1;
  for (let i = 0; i < 300; i++) [loss] = m.learn(x, labels);
  const [a, b, c] = m.scores(x.subarray(0, 4));
  assert(loss < 0.1 && a > b && a > c, `${loss}: ${[a, b, c]}`);
  assertEquals(numbers(m.best(x)), [0, 0, 0, 0, 0]);
  m.reset();
  assert(m.learn(x, labels)[0] > 0.1);
  const types = made.text("agent.d.ts");
  for (
    const text of [
      "readonly scores_x: Float32Array;",
      "remember(x: Float32Array | Numbers | undefined, n: number): Float32Array",
    ]
  ) {
    assertStringIncludes(types, text);
  }
});

Deno.test("export to WASM: an argument that is called as the state is, and as what a loader has", async () => {
  const count = Tensor.zeros([2]).contiguous().realize(), x = wave([2]), y = wave([2], 3);
  const f = (count_: Tensor, counter: Tensor): Tensor => count.assign(count.add(count_)).mul(counter);
  const made = await exportModel(f, [x, y], { target: "wasm", name: "same", weights: { count_: count } });
  const m = await load(made, "same"), [start] = numbers(m.count_2);
  const result = numbers(m.run(Float32Array.of(1, 1), Float32Array.of(2, 2)));
  assertEquals(result[0], Math.fround((start + 1) * 2));
});

Deno.test("export to Deno: several functions are called by name, one after the other", async () => {
  const { entries, weights } = agent(), at = `${folder}/agent_program`;
  await (await exportModels(entries, { target: "deno", name: "agent", weights })).write(at);
  const given = ["run", "--no-lock", "--allow-read", "--check", "main.ts"], x = "[1, 2, 3, 4]";
  const lines = (await run(Deno.execPath(), [...given, "scores", x, "learn", "best", "scores", x], at)).trim().split(
    "\n",
  );
  const [before, loss, best, after] = lines.map((l) => JSON.parse(l) as Record<string, number[]>);
  assertEquals([before.y.length, loss.y_2.length, best.y.length], [3, 1, 5]);
  assert(before.y.some((v, i) => v !== after.y[i]), "a step of learning changes the scores");
  await assertRejects(
    () => run(Deno.execPath(), [...given, "sum"], at),
    Error,
    "There is no function sum: scores, best",
  );
});

Deno.test("export to Deno: a program that takes numbers and gives numbers", async () => {
  const { f, args, weights } = examples().net, at = `${folder}/program`;
  await (await exportModel(f, args, { target: "deno", name: "net", weights })).write(at);
  const given = ["run", "--no-lock", "--allow-read", "--check", "main.ts"];
  const recorded = JSON.parse(await run(Deno.execPath(), given, at));
  assertEquals([recorded.scores.length, recorded.best.length], [12, 4]);
  const zeros = JSON.stringify(Array.from({ length: 24 }, () => 0));
  const made = JSON.parse(await run(Deno.execPath(), [...given, zeros], at));
  assertEquals(made.scores.slice(0, 3), made.scores.slice(3, 6));
});

Deno.test("export to a page: float64 is refused by name", async () => {
  const x = new Tensor([1.5, 2], { dtype: "float64" }).realize();
  const error = await assertRejects(() => exportModel((x: Tensor) => x.mul(2), [x], { target: "web" })) as Error;
  assert(
    /^Cannot export a function: it computes in float64 .*, which WebGPU has not/.test(error.message),
    error.message,
  );
});
