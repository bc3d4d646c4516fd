/**
 * The package of `deno task npm`, packed and installed as users do: under Node.js (20 or later) and Bun the op smoke suite,
 * as they are, without Float16Array (which Node.js has from 24 on) and where no code may be made of text, and files and
 * environment variables as they have them; under Deno, which finds its own devices; in a page that Vite has built; and
 * types, as the strictest compiler sees them. What is not here is left out.
 */
import assert from "node:assert/strict";
import { ROOT, runCommand, runDeno } from "../system/subprocess.ts";
import { nn } from "../../mod.ts";
import { COMPILER, makePackage, sizeOf, sizeOfProgram } from "./npm.ts";

/** Prints what became of the suite on each device, and what float16 is read as. */
const MAIN = `
if (process.env.WITHOUT_FLOAT16) {
  delete globalThis.Float16Array;
  delete Math.f16round;
}
const library = await import("@dinograd/dinograd"), { smoke } = await import("./smoke.mjs");
const { Device, Tensor } = library, suites = {};
for (const device of ["WASM", "JS"]) suites[device] = await smoke(library, device);
const half = await new Tensor([1.0009765625, -2.5, 65504], { dtype: "float16" }).mul(2).data();
let code = "made of text";
try {
  new Function("");
} catch {
  code = "not made of text";
}
Device.default = "WASM";
console.log(JSON.stringify({ suites, half: [half.constructor.name, ...[...half].map(String)], code, version: process.version }));
process.exit(0);`;

/** Prints what became of files that are saved, read in part, missing, changed and fetched. */
const FILES = `
import fs from "node:fs";
import http from "node:http";
const { Device, nn, state, Tensor } = await import("@dinograd/dinograd");
const folder = fs.mkdtempSync("files-"), report = {}, told = (error) => error.name + ": " + error.message;
const t = Tensor.arange(600000, { dtype: "float32" }).reshape([600, 1000]);
await state.safeSave({ t, small: new Tensor([1, 2]) }, folder + "/a.safetensors");
const loaded = await state.safeLoad(folder + "/a.safetensors");
report.loaded = [await loaded.t.at(599, 999).item(), await loaded.small.tolist(), fs.readdirSync(folder)];
const bytes = await state.fromFile(folder + "/a.safetensors", { device: "DISK" }), was = Device.get("DISK").info().bytesRead;
report.part = [await bytes.at([8, 10]).to("WASM").tolist(), Device.get("DISK").info().bytesRead - was];
fs.truncateSync(folder + "/a.safetensors", 1000);
report.changed = await bytes.at([0, 8]).to("WASM").tolist().catch(told);
await state.npySave(t.at(0), folder + "/a.npy");
await state.npzSave({ t }, folder + "/a.npz");
report.npy = [(await state.npyLoad(folder + "/a.npy")).shape, (await state.npzLoad(folder + "/a.npz")).t.shape];
report.missing = await state.safeLoad(folder + "/none").catch((error) => error.code);
report.unwritable = await state.safeSave({ t }, folder + "/none/a").catch(told);
report.folder = await state.safeLoad(folder).catch(told);
const idx = (dims, type = 8) => [0, 0, type, dims.length, ...dims.flatMap((n) => [0, 0, 0, n])];
const images = new Uint8Array([...idx([2, 28, 28]), ...new Array(2 * 784).fill(7)]), labels = new Uint8Array([...idx([2]), 3, 4]);
let asked = 0;
const server = http.createServer(({ url }, response) => {
  asked++;
  if (url.endsWith(".gz")) response.writeHead(404).end();
  else response.end(url.includes("images") ? images : labels);
}).listen(0, "127.0.0.1", async () => {
  const from = "http://127.0.0.1:" + server.address().port, first = await nn.datasets.mnist(from);
  const once = asked, again = await nn.datasets.mnist(from);
  report.fetched = [first.trainImages.shape, await again.testLabels.tolist(), once > 0, asked - once];
  server.close();
  fs.rmSync(folder, { recursive: true });
  console.log(JSON.stringify({ ...report, device: Device.default, digits: (await nn.datasets.digits()).images.shape }));
  process.exit(0);
});`;

/** Items that threads load, and that fail in the ways that items fail. */
const ITEMS = `
export const dataset = ({ worker, workers }) => ({
  length: 8,
  get(i) {
    if (i === 20) throw new RangeError("item 20 is broken in worker " + worker + " of " + workers);
    if (i === 21) globalThis.close();
    if (i === 22) process.exit(3);
    if (i === 23) setTimeout(() => { throw new Error("late"); }, 1);
    return i === 23 || i === 24 ? new Promise(() => {}) : i === 25 ? () => {} : { x: new Float32Array([i, i * i]), i };
  },
});`;

/** Prints what threads loaded, and how those that fail do. The process must end by itself: no thread may be left. */
const WORKERS = `
import { nn } from "@dinograd/dinograd";
const module = new URL("./items.mjs", import.meta.url), report = { batches: [] };
const items = { length: 30, get() {} };
const load = async (sampler, timeout = 0, workerModule = module) => {
  const loader = new nn.data.DataLoader(items, { batchSize: 3, numWorkers: 2, workerModule, sampler, timeout });
  for await (const { x, i } of loader) report.batches.push([await x.tolist(), await i.tolist()]);
};
await load([0, 1, 2, 3, 4, 5, 6]);
for (const i of [20, 21, 22, 23, 24, 25]) {
  report[i] = await load([i], i === 24 ? 100 : 0).catch((error) => error.name + ": " + error.message);
}
report.nowhere = await load([0], 0, new URL("./nowhere.mjs", import.meta.url)).catch((error) => error.message);
for await (const _ of new nn.data.DataLoader(items, { numWorkers: 1, workerModule: module, sampler: [1, 2] })) break;
console.log(JSON.stringify(report));`;

/** Prints what there is for an engine, by both entry points. */
const DEVICES = `
import { Device, Tensor } from "@dinograd/dinograd";
import { graphRewrite, PatternMatcher, rule, UPat, UOp } from "@dinograd/dinograd/ir";
const x = UPat.var("x"), y = UPat.var("y"), twice = new PatternMatcher("twice", [rule(x.mul(y), ({ x, y }) => y.add(x))]);
const product = new Tensor([2, 3]).mul(new Tensor([4, 5]));
console.log(JSON.stringify({
  devices: Device.list().map(({ name, available, reason }) => [name, available || reason]),
  rewritten: await new Tensor(graphRewrite(product.uop, twice)).tolist(),
  one: product.uop instanceof UOp,
  line: (() => {
    const stale = new Tensor([1, 2]).realize(), early = stale.add(1);
    stale.assign(new Tensor([3, 4])).realize();
    try {
      early.realize();
    } catch (error) {
      return error.writtenAt.replace(/^.*\\/|:\\d+$/g, "");
    }
  })(),
}));`;

/** The page that Vite builds. */
const PAGE = `
import { Device, nn, Tensor } from "@dinograd/dinograd";
const layer = new nn.Linear(2, 1), optimizer = new nn.optim.SGD([layer.weight, layer.bias], { lr: 0.01 });
const x = new Tensor([[1, 2], [3, 4]]), losses = [];
for (let i = 0; i < 3; i++) {
  losses.push(
    await Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = layer.call(x.float()).square().mean().backward();
      optimizer.step();
      return loss;
    }).item(),
  );
}
const told = (f) => { try { f(); } catch (error) { return error.name + ": " + error.message; } };
globalThis.found = {
  learned: losses[2] < losses[0],
  digits: (await nn.datasets.digits()).labels.shape,
  optimizer: told(() => new nn.optim.SGD([layer.weight], { lr: -1 })),
  disk: Device.list().find((d) => d.name === "DISK").reason,
};`;

/** Prints what the light entry says and does before what it loads later is there, and after. */
const LIGHT = `
import { Device, dtypes, jit, kernel, nn, Tensor, Variable } from "@dinograd/dinograd/core";
const told = (f) => { try { return f(); } catch (error) { return error.name + ": " + error.message; } };
const x = new Tensor([[1, 2], [3, 4]]), report = { shape: x.matmul(x).shape, device: Device.default };
report.early = [() => x.add(1).realize(), () => x.add(1).tolistSync(), () => x.schedule(), () => x.float().svd(), () => x.float().interpolate([3])].map(told);
const twice = jit((t) => t.mul(2)), double = (out, t) => { const i = kernel.loop(4); return kernel.write(out, i, kernel.read(t, i).mul(2)); };
const uses = [
  () => new Variable("n", 1, 2).bind(2), () => twice(x), () => Tensor.empty([4], { dtype: "int32" }).customKernel([x.flatten()], double)[0], () => x.shard(["JS", "JS:1"]),
];
report.refused = uses.map((f) => told(f));
report.first = await Promise.all([x.matmul(x).tolist(), x.sum().item()]);
report.uses = await Promise.all(uses.map((f) => f().tolist()));
report.eigenvalues = (await new Tensor([[2.5, 0], [0, 1]]).eigvals()).shape;
report.then = told(() => x.mul(2).tolistSync());
report.singular = told(() => x.float().svd()[1].tolistSync().map((v) => Math.round(1000 * v)));
const step = jit((t) => t.mul(2).sum()), sums = [];
for (let i = 0; i < 4; i++) sums.push(await step(Tensor.full([3], i, { dtype: dtypes.float32 })).item());
report.sums = [...sums, step.stats.replays];
const layer = new nn.Linear(2, 1), optimizer = new nn.optim.SGD([layer.weight, layer.bias], { lr: 0.01 }), losses = [];
for (let i = 0; i < 3; i++) {
  losses.push(Tensor.train(() => {
    optimizer.zeroGrad();
    const loss = layer.call(x.float()).square().mean().backward();
    optimizer.step();
    return loss;
  }));
}
report.learned = await losses[2].item() < await losses[0].item();
report.js = await x.to("JS").add(0.5).tolist();
console.log(JSON.stringify(report));
process.exit(0);`;
/** The same, of nothing that is awaited, and of files. */
const LIGHT_NODE = `
import { Device, state, Tensor } from "@dinograd/dinograd/core";
const x = new Tensor([[1, 2], [3, 4]]), singular = x.float().svd()[1].tolistSync().map((v) => Math.round(1000 * v));
const report = { singular, first: x.matmul(x).realize().tolistSync(), device: Device.default };
await state.safeSave({ x }, "light.safetensors");
report.loaded = await (await state.safeLoad("light.safetensors")).x.tolist();
report.disk = Device.list().find((d) => d.name === "DISK").available;
console.log(JSON.stringify(report));
process.exit(0);`;

/** Prints which files of the package are loaded, all but what these import, when it is imported and as it is used. */
const START = `
import { createRequire } from "node:module";
const { cache } = createRequire(import.meta.url), report = { loaded: [] }, told = [];
const loaded = () => report.loaded.push(Object.keys(cache).map((file) => file.replace(/^.*[\\\\/]/, "")));
(await import("@dinograd/dinograd")).autocast(() => {});
// what computes at once, while others are loading
const [library] = await Promise.all(["", "/core", "/ir", "/llm"].map(async (entry, i) => {
  if (i > 1) await null;
  const { Tensor } = await import("@dinograd/dinograd" + entry);
  if (i === 0) loaded();
  if (Tensor !== undefined) told.push(new Tensor([i]).add(1).tolistSync());
  return { Tensor, ...await import("@dinograd/dinograd") };
}));
report.told = told;
const { autocast, nn, state, Tensor } = library, names = Object.keys(nn);
report.names = [names.includes("Linear"), Object.keys(state).includes("safeLoad"), names.length, String(nn)];
loaded();
const layer = new nn.Linear(2, 1);
loaded();
// what is loaded after autocast was asked for is cast as well
report.cast = autocast(() => new Tensor([0.5]).cast("bfloat16").erfinv().dtype.name);
report.layer = [layer instanceof nn.Linear, Object.entries(nn).every(([, value]) => value !== undefined), nn.nothing === undefined];
report.values = layer.call(new Tensor([[1, 2]])).tolistSync().length;
console.log(JSON.stringify(report));`;

/** Prints what one asynchronous function of the light entry gives that is the first to be called. */
const FIRST = `
import { nn, state, Tensor } from "@dinograd/dinograd/core";
const x = new Tensor([1, 0, 2]), doubled = x.mul(2);
const calls = {
  safeBytes: async () => (await state.safeParse(await state.safeBytes({ doubled })).doubled.tolist()),
  npyBytes: async () => (await state.npyParse(await state.npyBytes(doubled)).tolist()),
  maskedSelect: async () => await (await doubled.maskedSelect(x.gt(0))).tolist(),
  eigvals: async () => (await x.float().diag().eigvals()).shape,
  DataLoader: async () => {
    const all = [];
    for await (const [t] of new nn.data.DataLoader(new nn.data.TensorDataset(doubled), { batchSize: 2 })) all.push(...await t.tolist());
    return all;
  },
};
console.log(JSON.stringify(await calls[process.argv[2]]()));
process.exit(0);`;

/** What a program of one operation is. */
const ONE = (entry: string): string => `
import { Tensor } from "@dinograd/dinograd${entry}";
console.log(await new Tensor([1, 2]).add(1).tolist());`;

/** What a program of all layers is. */
const LAYERS = (entry: string): string => `
import { init, nn, Tensor } from "@dinograd/dinograd${entry}";
globalThis.all = [init, nn, Tensor];`;

/** What must compile, and must not, for users of the package. */
const TYPED = `
import { Device, dtypes, grad, jit, nn, state, Tensor, type DType } from "@dinograd/dinograd";
import { UOp } from "@dinograd/dinograd/ir";
const t: Tensor = new Tensor([[1, 2], [3, 4]], { dtype: "float32", requiresGrad: true });
const n: number = await t.sum().item() + 1, half: Float16Array = await t.half().data<"float16">();
const step = jit((x: Tensor) => ({ y: x.matmul(x), z: x.softmax(-1) })), { y } = step(t);
const weights: Record<string, Tensor> = state.getStateDict({ layer: new nn.Linear(2, 2) }), d: DType = dtypes.int8;
{
  using inside = t.add(1);
  console.log(inside.shape, half, y, weights, d, Device.default, grad((x: Tensor) => x.sum())(t), t.uop instanceof UOp, n);
}
// @ts-expect-error: there is no such method
t.soft();
// @ts-expect-error: no such option
Tensor.zeros([2], { dtyp: "float32" });
`;

const folder = await Deno.makeTempDir({ prefix: "dinograd-npm-" }), app = `${folder}/app`;
addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const missing = await install();
if (missing !== undefined) console.log(`no package: ${missing}`);

/** Makes the package, packs it, and installs it in a folder; says what is missing for that. */
async function install(): Promise<string | undefined> {
  if (await versionOf("npm") === undefined) return "npm is not here";
  try {
    await makePackage(`${folder}/package`);
  } catch (error) {
    const { message } = error as Error;
    if (/dns|connect|offline|download|fetch|npm package|registry/i.test(message)) return message.split("\n")[0];
    throw error;
  }
  await Deno.mkdir(app);
  const files = {
    "main.mjs": MAIN,
    "files.mjs": FILES,
    "items.mjs": ITEMS,
    "workers.mjs": WORKERS,
    "devices.mjs": DEVICES,
    "page.js": PAGE,
    "typed.mts": TYPED,
    "light.mjs": LIGHT,
    "first.mjs": FIRST,
    "light-node.mjs": LIGHT_NODE,
    "start.mjs": START,
    "one.mjs": ONE(""),
    "one-light.mjs": ONE("/core"),
    "layers.mjs": LAYERS(""),
    "layers-light.mjs": LAYERS("/core"),
  };
  for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${app}/${name}`, text);
  await Deno.writeTextFile(
    `${app}/index.html`,
    '<!doctype html><title>page</title><script type="module" src="./page.js"></script>',
  );
  await Deno.writeTextFile(
    `${app}/package.json`,
    '{ "name": "app", "version": "1.0.0", "type": "module", "private": true }',
  );
  await succeed("npm", ["pack", "--silent", "--pack-destination", folder], `${folder}/package`);
  const [packed] = [...Deno.readDirSync(folder)].filter((f) => f.name.endsWith(".tgz"));
  await succeed("npm", ["install", "--offline", "--no-audit", "--no-fund", "--silent", `../${packed.name}`], app);
  const smoke = await runDeno(["transpile", "--quiet", "-o", `${app}/smoke.mjs`, "tests/web/smoke.ts"]);
  assert.equal(smoke.code, 0, smoke.stderr);
}

/** Runs a program that must end well; gives what it printed. */
async function succeed(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<string> {
  const { code, stdout, stderr } = await runCommand(command, args, { cwd, env, timeoutMs: 250_000 });
  assert.equal(code, 0, stdout + stderr);
  return stdout;
}

/** The version of an engine, undefined where it is not here. */
async function versionOf(engine: string): Promise<string | undefined> {
  try {
    const { code, stdout } = await runCommand(engine, ["--version"]);
    return code === 0 ? stdout.trim() : undefined;
  } catch {
    return undefined;
  }
}

/** What pages may load at once at most, gzipped: of an entry, and of programs of one operation and of all layers. */
const MAX_GZIPPED = {
  "dinograd.browser.js": 463e3,
  "dinograd.core.js": 196e3,
  "dinograd.core-node.js": 229e3,
  "one.mjs": 382e3,
  "one-light.mjs": 137e3,
  "layers.mjs": 424e3,
  "layers-light.mjs": 183e3,
};
/** What a page must not load at once: what only others need, and what waits until it is asked for. */
const NOT_IN_PAGES = ["nvrtc", "cuLaunchKernel", "posix_memalign", "@compute", "H4sI"];
/** What the light entry must not load at once besides. */
const NOT_IN_LIGHT = ["WebAssembly.Instance", "devectorize", "memory.grow"];
const FORBID = "--disallow-code-generation-from-strings";
/** With this Node.js takes what it would if it could not `require` modules. */
const WHOLE = "--no-experimental-require-module";
/** What it takes otherwise: the entry, and what that may load at once. */
const SERVER = "dinograd.server.js", SERVER_LOADS = ["jit", "spectral", "tensor"], SERVER_BYTES = 425e3;

for (const engine of ["node", "bun"]) {
  const version = await versionOf(engine), major = Number(/\d+/.exec(version ?? "")?.[0]);
  const ignore = version === undefined || (engine === "node" && major < 20) || missing !== undefined;
  const ways: [name: string, args: string[], env: Record<string, string>][] = [
    ["as it is", [], {}],
    ["without Float16Array", [], { WITHOUT_FLOAT16: "1" }],
  ];
  if (engine === "node") ways.push(["without code from text", [FORBID], {}]);
  if (version !== undefined && requiresModules(engine, version)) ways.push(["all of it at once", [WHOLE], {}]);
  for (const [name, args, env] of ways) {
    Deno.test({
      name: `the package in ${engine}: ${name}`,
      ignore,
      async fn() {
        const { code, stdout, stderr } = await runCommand(engine, [...args, "main.mjs"], { cwd: app, env });
        assert.equal(code, 0, stderr);
        const report = JSON.parse(stdout);
        for (const outcomes of Object.values(report.suites) as { name: string; error?: string }[][]) {
          assert.deepEqual(outcomes.filter((o) => o.error !== undefined), []);
          assert.ok(outcomes.length > 20);
        }
        assert.deepEqual(report.half.slice(1), ["2.001953125", "-5", "Infinity"]);
        if (env.WITHOUT_FLOAT16) assert.equal(report.half[0], "Float32Array");
        assert.equal(report.code, args[0] === FORBID ? "not made of text" : "made of text");
      },
    });
  }
  Deno.test({
    name: `the package in ${engine}: files, data sets and environment variables`,
    ignore,
    async fn() {
      const env = { CACHEDIR: `${folder}/cache-${engine}`, DEV: "JS" };
      const { code, stdout, stderr } = await runCommand(engine, ["files.mjs"], { cwd: app, env });
      assert.equal(code, 0, stderr);
      const { unwritable, ...report } = JSON.parse(stdout);
      assert.match(unwritable, /^FormatError: Cannot save files-\w+\/none\/a: ENOENT/);
      assert.match(report.folder, /^FormatError: Cannot read files-\w+: it is no file$/);
      assert.match(
        report.changed,
        /^FormatError: Cannot read files-\S+: it was changed or removed after it was loaded$/,
      );
      assert.deepEqual({ ...report, folder: "", changed: "" }, {
        loaded: [599999, [1, 2], ["a.safetensors"]],
        part: [[123, 34], 2],
        changed: "",
        npy: [[1000], [600, 1000]],
        missing: "ENOENT",
        folder: "",
        fetched: [[2, 1, 28, 28], [3, 4], true, 0],
        device: "JS",
        digits: [1797, 1, 8, 8],
      });
    },
  });
}

for (const [engine, args] of [["node", []], ["node", [FORBID]], ["bun", []]] as const) {
  Deno.test({
    name: `the package in ${[engine, ...args].join(" ")}: threads that load items, and fail`,
    ignore: missing !== undefined || await versionOf(engine) === undefined,
    async fn() {
      const report = JSON.parse(await succeed(engine, [...args, "workers.mjs"], app));
      const batch = (...list: number[]) => [list.map((i) => [i, i * i]), list];
      assert.deepEqual(report.batches, [batch(0, 1, 2), batch(3, 4, 5), batch(6)]);
      const failed = (i: number): string => `DataError: Cannot load items ${i} in worker 0: `;
      assert.equal(report[20], `${failed(20)}RangeError: item 20 is broken in worker 0 of 2`);
      assert.equal(report[21], `${failed(21)}the worker has ended: it called close()`);
      assert.equal(report[22], `${failed(22)}the worker has ended: it called process.exit()`);
      assert.match(report[23], /^DataError: Cannot load items 23 in worker 0: .*late/);
      assert.equal(report[24], `${failed(24)}it did not answer within 100 ms`);
      assert.match(report[25], /could not be cloned|DataCloneError/);
      assert.match(report.nowhere, /nowhere\.mjs/);
    },
  });
}

type Devices = { devices: [name: string, why: string | true][]; rewritten: number[]; one: boolean; line: string };

/** What DEVICES printed, but for the devices that depend on the machine. */
function told(stdout: string): Record<string, unknown> {
  const { devices, ...rest } = JSON.parse(stdout) as Devices, of = Object.fromEntries(devices);
  const needsDeno = ["CLANG", "CUDA"].filter((name) => of[name] === "it needs Deno");
  return { ...rest, wasm: of.WASM, disk: of.DISK, needsDeno };
}

for (
  const [engine, name, args, wants] of [
    ["node", "its own devices", [], { disk: true, needsDeno: ["CLANG", "CUDA"] }],
    ["node", "its own devices, all of it at once", [WHOLE], { disk: true, needsDeno: ["CLANG", "CUDA"] }],
    ["node", "those of a page", ["-C", "browser"], { disk: "a page has no files", needsDeno: ["CLANG", "CUDA"] }],
    ["bun", "its own devices", [], { disk: true, needsDeno: ["CLANG", "CUDA"] }],
    [Deno.execPath(), "its own devices", ["run", "-A", "--no-lock", "--node-modules-dir=manual"], {
      disk: true,
      needsDeno: [],
    }],
  ] as const
) {
  const version = await versionOf(engine), label = engine === Deno.execPath() ? "deno" : engine;
  Deno.test({
    name: `the package in ${label}: ${name}, by both entry points`,
    ignore: missing !== undefined || version === undefined || (args[0] === WHOLE && !requiresModules(engine, version)),
    async fn() {
      const printed = told(await succeed(engine, [...args, "devices.mjs"], app));
      assert.deepEqual(printed, { rewritten: [6, 8], one: true, line: "devices.mjs:12", wasm: true, ...wants });
    },
  });
}

Deno.test({
  name: "the package: its manifest names files that are there, and it weighs what it may",
  ignore: missing !== undefined,
  async fn() {
    const root = `${app}/node_modules/@dinograd/dinograd/`,
      manifest = JSON.parse(await Deno.readTextFile(`${root}package.json`));
    const paths = (x: unknown): string[] => typeof x === "string" ? [x] : Object.values(x as object).flatMap(paths);
    for (const file of [...paths(manifest.exports), ...manifest.sideEffects, manifest.types, "LICENSE", "README.md"]) {
      assert.ok((await Deno.stat(root + file)).size > 0, file);
    }
    assert.deepEqual([manifest.dependencies, manifest.scripts, manifest.engines.node], [
      undefined,
      undefined,
      ">=20.16",
    ]);
    const { version, exports } = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));
    assert.equal(manifest.version, version);
    assert.deepEqual(Object.keys(manifest.exports), [...Object.keys(exports), "./core", "./package.json"]);
    // what makes one file of a program asks for "module"; the first condition that holds is taken
    for (const [entry, { node }] of Object.entries(manifest.exports) as [string, { node?: Record<string, string> }][]) {
      if (entry === "./package.json") continue;
      assert.deepEqual(Object.keys(node!), ["module", "module-sync", "default"], entry);
      assert.deepEqual([node!.module, /\.sync\.js$/.test(node!["module-sync"])], [node!.default, true], entry);
    }
    const names = [...Deno.readDirSync(root)].map((f) => f.name).filter((n) => !/^dinograd[\w.-]*\.js$/.test(n)).sort();
    assert.deepEqual(names, ["LICENSE", "README.md", "package.json", "types"]);
    const all = [...Deno.readDirSync(root)].map((f) => f.name).filter((n) => n.endsWith(".js"));
    for (const [name, limit] of Object.entries(MAX_GZIPPED)) {
      const isEntry = name.endsWith(".js");
      const [, gzipped, loaded] = isEntry ? await sizeOf(root, name) : await sizeOfProgram(`${app}/${name}`);
      assert.ok(gzipped < limit, `${name} loads ${gzipped} bytes, more than ${limit}`);
      if (!isEntry) continue;
      for (const word of name.includes(".core") ? [...NOT_IN_PAGES, ...NOT_IN_LIGHT] : NOT_IN_PAGES) {
        const having = all.filter((file) => Deno.readTextFileSync(root + file).includes(word));
        assert.ok(having.length > 0, `no file has ${word}`);
        assert.deepEqual(having.filter((file) => loaded.has(file)), [], `${name} loads ${word}`);
      }
    }
  },
});

Deno.test({
  name: "the package: its light entry loads what runs kernels with the first value that is awaited",
  ignore: missing !== undefined || await versionOf("node") === undefined,
  async fn() {
    const late = "what compiles kernels is not loaded yet; await init() first, or any value";
    const { early, refused, ...rest } = JSON.parse(await succeed("node", ["-C", "browser", "light.mjs"], app));
    assert.deepEqual(
      early,
      ["realize a tensor", "realize a tensor", "schedule a tensor", "svd", "interpolate"].map((action) =>
        `DeviceError: Cannot ${action}: ${late}`
      ),
    );
    assert.deepEqual(
      refused,
      ["make the variable n", "call a jit function", "open device WASM", "make a mesh"].map((action) =>
        `DeviceError: Cannot ${action}: ${late}${action.endsWith("WASM") ? "; available here: WASM" : ""}`
      ),
    );
    assert.deepEqual(rest, {
      shape: [2, 2],
      device: "WASM",
      uses: [2, [[2, 4], [6, 8]], [2, 4, 6, 8], [[1, 2], [3, 4]]],
      eigenvalues: [2],
      first: [[[7, 10], [15, 22]], 10],
      then: [[2, 4], [6, 8]],
      singular: [5465, 366],
      sums: [0, 6, 12, 18, 2],
      learned: true,
      js: [[1.5, 2.5], [3.5, 4.5]],
    });
    const first = await Promise.all(
      ["safeBytes", "npyBytes", "maskedSelect", "eigvals", "DataLoader"].map((call) =>
        succeed("node", ["-C", "browser", "first.mjs", call], app)
      ),
    );
    assert.deepEqual(first.map((text) => JSON.parse(text)), [[2, 0, 4], [2, 0, 4], [2, 4], [3], [2, 0, 4]]);
  },
});

for (const engine of ["node", "bun"]) {
  const version = await versionOf(engine);
  Deno.test({
    name: `the package in ${engine}: its light entry loads what runs kernels where it is needed`,
    ignore: missing !== undefined || version === undefined || (engine === "node" && !requiresModules(engine, version)),
    async fn() {
      assert.deepEqual(JSON.parse(await succeed(engine, ["light-node.mjs"], app)), {
        singular: [5465, 366],
        first: [[7, 10], [15, 22]],
        device: "WASM",
        loaded: [[1, 2], [3, 4]],
        disk: true,
      });
    },
  });
}

Deno.test({
  name: "the package in node: what importing loads is little, and the rest comes as it is used",
  ignore: missing !== undefined || !requiresModules("node", await versionOf("node") ?? "v0.0"),
  async fn() {
    const root = `${app}/node_modules/@dinograd/dinograd/`, [nbytes, , files] = await sizeOf(root, SERVER);
    assert.deepEqual(
      [...files].map((f) => f.replace(/^dinograd-(\w+)-.*$/, "$1")).sort(),
      [SERVER, ...SERVER_LOADS].sort(),
    );
    assert.ok(nbytes < SERVER_BYTES, `${SERVER} loads ${nbytes} bytes`);
    const { loaded, names, told, ...rest } = JSON.parse(await succeed("node", ["start.mjs"], app));
    const late = "dinograd-late-server.js", whole = [SERVER, "dinograd-ir.js", "dinograd-llm.js"];
    assert.deepEqual(loaded[0], [SERVER]);
    assert.deepEqual(loaded.slice(1).map((list: string[]) => list.sort()), [
      [...whole, late].sort(),
      [...whole, late, "dinograd-namespaces.js"].sort(),
    ]);
    assert.deepEqual([told, names], [[[1], [2]], [true, true, Object.keys(nn).length, "[object Module]"]]);
    assert.deepEqual(rest, { cast: "float32", layer: [true, true, true], values: 1 });
  },
});

Deno.test({
  name: "the package: no character of its code takes more than a byte",
  ignore: missing !== undefined,
  async fn() {
    const root = `${app}/node_modules/@dinograd/dinograd/`;
    const files = (await Array.fromAsync(Deno.readDir(root))).map((f) => f.name).filter((name) => name.endsWith(".js"));
    assert.deepEqual(files.filter((name) => /[\u0080-\uffff]/.test(Deno.readTextFileSync(root + name))), []);
    assert.ok(files.length > 20);
  },
});

/** Whether a version of Node.js can `require` modules; what others can is not asked. */
function requiresModules(engine: string, version: string): boolean {
  if (engine !== "node") return false;
  const [major, minor] = version.slice(1).split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19);
}

Deno.test({
  name: "the package: its types are right where all is checked",
  ignore: missing !== undefined,
  async fn() {
    for (const resolution of [["--module", "nodenext"], ["--module", "esnext", "--moduleResolution", "bundler"]]) {
      const options = [
        "--ignoreConfig",
        "--strict",
        "--noEmit",
        "--target",
        "es2022",
        "--lib",
        "es2022,dom",
        ...resolution,
      ];
      await succeed(Deno.execPath(), ["run", "-A", "--quiet", "--no-lock", COMPILER, ...options, "typed.mts"], app);
    }
  },
});

Deno.test({
  name: "the package in vite: a page is built, trains and knows its devices",
  ignore: missing !== undefined,
  async fn(t) {
    const built = await runCommand("npx", [
      "-y",
      "vite@8.3.8",
      "build",
      "--logLevel",
      "error",
      "--base",
      "./",
      "--target",
      "esnext",
    ], { cwd: app, timeoutMs: 200_000 });
    if (/ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ENOTCACHED/.test(built.stderr)) {
      return void await t.step({ name: "the package in vite: vite cannot be fetched", ignore: true, fn: () => {} });
    }
    assert.equal(built.code, 0, built.stdout + built.stderr);
    const { stdout, stderr } = await runDeno([
      "run",
      "-A",
      "--no-lock",
      "--no-check",
      "tests/web/run.ts",
      "--page",
      `${app}/dist`,
    ], { timeoutMs: 250_000 });
    const answer = JSON.parse(stdout || JSON.stringify({ found: { stderr } })) as
      | { found: Record<string, unknown> }
      | string;
    if (typeof answer === "string") {
      return void await t.step({ name: `the package in vite: ${answer}`, ignore: true, fn: () => {} });
    }
    const { optimizer, ...rest } = answer.found;
    assert.deepEqual(rest, { learned: true, digits: [1797], disk: "a page has no files" });
    assert.match(String(optimizer), /^ArgumentError: Cannot make SGD/);
  },
});
