/**
 * Exports where people take them: built by make, from another folder and as a library that another language calls; as a
 * module in Node.js, its threads and a bundle; checked by a compiler of TypeScript; in a worker of a page; as one binary.
 */
import assert from "node:assert/strict";
import { Device, nn, Tensor } from "../../mod.ts";
import { type Exported, exportModel, exportModels } from "../../src/export/export.ts";
import { runCommand, runDeno } from "../system/subprocess.ts";
import { findInPage, leaveOut } from "../web/browser.ts";
import { compilersHere, firstOf, run } from "./build.ts";
import { agent, examples, wave } from "./programs.ts";

Device.default = "WASM";
const folder = Deno.makeTempDirSync({ prefix: "dinograd-export-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const compilers = compilersHere(), make = firstOf(["make"]), node = firstOf(["node"]);
const WARNINGS = ["-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"];

/** An example, written into a folder of the target's name. */
async function written(target: "c" | "wasm" | "web" | "deno", name: string): Promise<{ made: Exported; at: string }> {
  const { f, args, weights } = examples()[name], at = `${folder}/${target}_${name}`;
  const made = await exportModel(f, args, { target, name, weights });
  await made.write(at);
  return { made, at };
}

Deno.test({
  name: "export to C: make builds and tests it by each compiler, as C and as C++, with all warnings as errors",
  ignore: compilers.length === 0,
  async fn() {
    const { made, at } = await written("c", "digits");
    assert.match(made.text("Makefile"), /^STD \?= -std=c11$/m);
    if (make === undefined) return;
    for (const { path, isCpp } of compilers) {
      await run(make, ["-s", "clean"], at);
      const std = isCpp ? [`STD=-x c++ -std=c++17`] : [];
      const text = await run(make, ["-s", `CC=${path}`, ...std, `CFLAGS=${WARNINGS.join(" ")}`, "test"], at);
      assert.match(text, /largest difference .*: \S+$/m, path);
    }
  },
});

Deno.test({
  name: "export to C: with its weights, from the folder of another project, by -I or by the path of the weights",
  ignore: compilers.length === 0,
  async fn() {
    const { at } = await written("c", "digits"), other = `${folder}/other`;
    await Deno.mkdir(other, { recursive: true });
    await Deno.writeTextFile(
      `${other}/main.c`,
      '#include "digits.h"\n#include <stdio.h>\nstatic digits_context c;\nint main(void) {\n' +
        "  float image[64] = {0}, y[10];\n  digits_init(&c, digits_weights());\n  digits_run(&c, image, y);\n" +
        '  printf("%zu %d", digits_context_bytes() - sizeof(c), y[0] > 0);\n  return 0;\n}\n',
    );
    for (const { path } of compilers.filter((c) => !c.isCpp)) {
      for (const where of [["-I", at], ["-iquote", at, `-DDIGITS_BIN="${at}/digits.bin"`]]) {
        const flags = ["-std=c11", ...WARNINGS, "-DDIGITS_EMBED", ...where];
        await run(path, [...flags, "-o", "main", "main.c", `${at}/digits.c`, "-lm"], other);
        assert.equal(await run("./main", [], other), "0 1");
      }
    }
  },
});

Deno.test({
  name: "export to C: as a library that another language calls, each context with a state of its own",
  ignore: compilers.length === 0,
  async fn() {
    const { made, at } = await written("c", "counter"), library = `${at}/libcounter.so`;
    await run(compilers[0].path, ["-O2", "-shared", "-fPIC", "-o", library, "counter.c", "-lm"], at);
    const opened = Deno.dlopen(library, {
      counter_context_bytes: { parameters: [], result: "usize" },
      counter_init: { parameters: ["buffer", "buffer"], result: "void" },
      counter_run: { parameters: ["buffer", "buffer", "buffer", "buffer"], result: "void" },
    });
    const { symbols } = opened;
    try {
      const weights = made.files.get("counter.bin") as Uint8Array<ArrayBuffer>;
      const x = Float32Array.of(1, 2, 3), twice = new Float32Array(3), negative = new Float32Array(3);
      const contexts = [0, 1].map(() => new Uint8Array(Number(symbols.counter_context_bytes())));
      for (const c of contexts) symbols.counter_init(c, weights);
      const seen = [0, 0, 1, 0].map((i) => {
        symbols.counter_run(contexts[i], x, twice, negative);
        return twice[2];
      });
      assert.deepEqual(seen.map((v) => Math.round((v - seen[0]) * 1e4) / 1e4), [0, 6, 0, 12]);
      assert.deepEqual([...negative], [-1, -2, -3]);
    } finally {
      opened.close();
    }
  },
});

/** Loads a module as Node.js does, by the file beside it, and by weights of many kinds; tells what it refuses. */
const IN_NODE = `import { readFileSync } from "node:fs";
import { load } from "./digits.js";
const at = (name) => new URL(name, import.meta.url), bin = readFileSync(at("digits.bin"));
const copy = new Uint8Array(bin).buffer, x = Float32Array.from({ length: 64 }, (_, i) => Math.sin(i));
const out = [];
for (const weights of [undefined, at("digits.bin"), String(at("digits.bin")), bin, copy, new DataView(copy),
  new Float32Array(copy), new Uint16Array(copy)]) {
  const m = await load(undefined, weights);
  out.push(Array.from(m.run(x)).join() + Array.from(m.run([...x])).join());
}
const told = [];
const refused = [copy.slice(4), new Uint8Array(3), at("none.bin"), at("index.html")];
for (const weights of refused) await load(undefined, weights).then(() => told.push("taken"), (e) => told.push(e.message));
const m = await load();
try { m.run([1, 2]); } catch (e) { told.push(e.message); }
console.log(JSON.stringify({ kinds: new Set(out).size, told }));
`;

/** What says to Node.js before 20.19 that files of a folder are modules. */
const MODULES = '{ "type": "module" }\n';

Deno.test("export to WASM: Node.js loads it from its folder; weights are bytes of any view, and of no other size", async () => {
  const { made, at } = await written("wasm", "digits"), n = (made.files.get("digits.bin") as Uint8Array).length;
  await Deno.writeTextFile(`${at}/package.json`, MODULES);
  await Deno.writeTextFile(`${at}/main.mjs`, IN_NODE);
  await Deno.writeTextFile(`${at}/index.html`, "<!doctype html><title>not weights</title>");
  const programs = [[Deno.execPath(), "run", "--allow-read", "main.mjs"], ...(node ? [[node, "main.mjs"]] : [])];
  for (const [path, ...args] of programs) {
    const { kinds, told } = JSON.parse(await run(path, args, at)) as { kinds: number; told: string[] };
    assert.equal(kinds, 1);
    assert.deepEqual([told[0], told[1]], [`weights: ${n - 4} of ${n} bytes`, `weights: 3 of ${n} bytes`]);
    assert.match(told[2], /none\.bin/);
    assert.match(told[3], /weights: 41 of/);
    assert.equal(told[4], "image takes 64 numbers, not 2");
  }
});

/** Threads that each load the module and compute a part. */
const IN_THREADS = `import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { load } from "./net.js";
if (isMainThread) {
  const parts = await Promise.all([1, 2, 3].map((k) => new Promise((resolve, reject) => {
    const w = new Worker(new URL(import.meta.url), { workerData: k });
    w.once("message", resolve);
    w.once("error", reject);
  })));
  const m = await load();
  const want = [1, 2, 3].map((k) => Array.from(m.run(new Float32Array(24).fill(k)).scores));
  console.log(JSON.stringify(parts) === JSON.stringify(want), parts[0].length);
} else {
  const m = await load();
  parentPort.postMessage(Array.from(m.run(new Float32Array(24).fill(workerData)).scores));
}
`;

Deno.test("export to WASM: threads load modules of their own", async () => {
  const { at } = await written("wasm", "net");
  await Deno.writeTextFile(`${at}/package.json`, MODULES);
  await Deno.writeTextFile(`${at}/main.mjs`, IN_THREADS);
  const [path, ...args] = node === undefined ? [Deno.execPath(), "run", "-A", "main.mjs"] : [node, "main.mjs"];
  assert.equal((await run(path, args, at)).trim(), "true 12");
});

/** `deno bundle` of a page that loads the exported module. */
const paged = (await written("wasm", "net")).at, BUNDLE = ["bundle", "--quiet", "--platform", "browser", "--minify"];
await Deno.writeTextFile(`${paged}/page.js`, 'import { load } from "./net.js";\nglobalThis.load = load;\n');
const bundled = await runDeno([...BUNDLE, "-o", `${paged}/bundle.js`, `${paged}/page.js`]);
const lacksBundler = bundled.code !== 0 && /dns|connect|offline|download|fetch/i.test(bundled.stderr);

Deno.test({
  name: "export to WASM: a bundle for pages has it without files of Node.js (deno bundle)",
  ignore: lacksBundler,
  async fn() {
    assert.equal(bundled.code, 0, bundled.stderr);
    const text = await Deno.readTextFile(`${paged}/bundle.js`);
    assert.match(text, /new URL\("\.\/net\.wasm",import\.meta\.url\)/);
    assert.doesNotMatch(text, /import\s*["'(]+node:/);
  },
});

Deno.test("export to a page: its module has types, by which wrong calls are told before they run", async () => {
  const { entries, weights } = agent(), at = `${folder}/types`;
  await (await exportModels(entries, { target: "web", name: "agent", weights })).write(at);
  const right = `import { load } from "./agent_web.js";
import { load as local } from "./agent.js";
export async function main(bytes: Uint8Array<ArrayBuffer>): Promise<number> {
  const m = await load(bytes, null), here = await local();
  const loss: Float32Array = await m.learn(new Float32Array(20), [0, 1, 2, 0, 1]);
  m.seed(5n);
  m.reset();
  const device: "WEBGPU" | "WASM" = m.device;
  return loss[0] + (await m.scores([[1, 2, 3, 4]]))[0] + here.scores([1, 2, 3, 4])[0] + device.length;
}
`;
  await Deno.writeTextFile(`${at}/right.ts`, right);
  await Deno.writeTextFile(
    `${at}/wrong.ts`,
    right.replace("await m.learn(", "m.learn(").replace("m.seed(5n)", 'm.seed("5")'),
  );
  const [good, bad] = [await runDeno(["check", `${at}/right.ts`]), await runDeno(["check", `${at}/wrong.ts`])];
  assert.equal(good.code, 0, good.stderr);
  assert.match(
    bad.stderr,
    /Promise<Float32Array[\s\S]*'string' is not assignable to parameter of type 'number \| bigint'/,
  );
});

/** A page whose worker computes, several calls at once, and tells what it refuses. */
const WORKER = `import { load } from "./digits_web.js";
const found = {};
for (const device of [undefined, null]) {
  try {
    const bytes = new Float32Array(await (await fetch("digits.bin")).arrayBuffer());
    const m = await load(bytes, device), images = [0, 1, 2].map((k) => Float32Array.from({ length: 64 }, (_, i) => Math.sin(i + k)));
    const alone = [];
    for (const x of images) alone.push(Array.from(await m.run(x)));
    const together = (await Promise.all(images.map((x) => m.run(x)))).map((y) => Array.from(y));
    const refused = await load("absent.bin", device).then(() => "taken", (e) => e.message);
    found[device === null ? "WASM" : "first"] = {
      device: m.device, same: JSON.stringify(alone) === JSON.stringify(together), differ: alone[0][0] !== alone[1][0], refused,
      sum: alone[0].reduce((a, b) => a + b),
    };
  } catch (error) {
    found[String(device)] = String(error && error.stack);
  }
}
postMessage(found);
`;

Deno.test("export to a page: in a worker, several calls at once, and weights that are not there", async (t) => {
  const { made, at } = await written("web", "digits"), n = (made.files.get("digits.bin") as Uint8Array).length;
  await Deno.writeTextFile(`${at}/worker.js`, WORKER);
  await Deno.writeTextFile(
    `${at}/index.html`,
    '<!doctype html><script type="module">const w = new Worker("./worker.js", { type: "module" });\n' +
      "w.onmessage = ({ data }) => globalThis.found = data;\n" +
      "w.onerror = (e) => globalThis.found = { error: e.message };</script>",
  );
  const seen = await findInPage(at);
  if (typeof seen === "string") return await leaveOut(t, seen);
  const found = seen.found as Record<
    string,
    { device: string; refused: string; sum: number } & Record<string, unknown>
  >;
  for (const key of ["first", "WASM"]) {
    const { device, same, differ, refused, sum } = found[key] ?? assert.fail(JSON.stringify(found));
    assert.deepEqual([same, differ], [true, true], device);
    assert.equal(refused, `weights: 0 of ${n} bytes`);
    assert.ok(Math.abs(sum - 1) < 1e-5, `${sum}`); // a softmax
  }
  assert.equal(found.WASM.device, "WASM");
});

const net = new nn.Linear(3, 2), program = `${folder}/binary`;
await (await exportModel((x: Tensor) => net.call(x), [wave([1, 3])], { target: "deno", name: "tiny", weights: net }))
  .write(program);
/** The line by which the program says that it is compiled. */
const LINE = /^\/\/ deno (compile .*)$/m.exec(Deno.readTextFileSync(`${program}/main.ts`))![1].split(" ");
const compiled = await runCommand(Deno.execPath(), LINE, { cwd: program, timeoutMs: 60_000 });
const lacksRuntime = compiled.code !== 0 && /Setting up base binary|denort|dl\.deno\.land/.test(compiled.stderr);

Deno.test("export to Deno: the program runs from anywhere, without a network", async () => {
  assert.deepEqual(LINE.slice(0, 2), ["compile", "--allow-read"]);
  const x = "[0.5, -1, 2]", want = await net.call(new Tensor([[0.5, -1, 2]])).tolist() as number[][];
  const main = ["run", "--no-lock", "--no-remote", "--allow-read", `${program}/main.ts`, x];
  const { y } = JSON.parse(await run(Deno.execPath(), main, "/")) as { y: number[] };
  y.forEach((v, i) => assert.ok(Math.abs(v - want[0][i]) < 1e-6, `${y} ${want}`));
});

Deno.test({
  name: "export to Deno: compiled by the line that the program has, one binary gives what the program gives (denort)",
  ignore: lacksRuntime,
  async fn() {
    assert.equal(compiled.code, 0, compiled.stderr);
    await Deno.mkdir(`${folder}/alone`);
    await Deno.rename(`${program}/tiny`, `${folder}/alone/tiny`);
    const made = JSON.parse(await run("./tiny", ["[1, 2, 3]"], `${folder}/alone`));
    assert.deepEqual(made, JSON.parse(await run(Deno.execPath(), ["run", "-A", "main.ts", "[1, 2, 3]"], program)));
  },
});
