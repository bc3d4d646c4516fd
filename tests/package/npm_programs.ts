/** Programs of users of the package, which npm_test.ts installs it for and runs: what each prints is told there. @module */

/** Prints what became of the suite on each device, and what float16 is read as. */
export const MAIN: string = `
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
export const FILES: string = `
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
export const ITEMS: string = `
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
export const WORKERS: string = `
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
export const DEVICES: string = `
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
export const PAGE: string = `
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
export const LIGHT: string = `
import { autocast, Device, dtypes, jit, kernel, nn, Tensor, Variable } from "@dinograd/dinograd/core";
autocast(() => {});
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
// what is loaded after autocast was asked for is cast as well
report.cast = autocast(() => new Tensor([0.5]).cast("bfloat16").erfinv().dtype.name);
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
export const LIGHT_NODE: string = `
import { Device, state, Tensor } from "@dinograd/dinograd/core";
const x = new Tensor([[1, 2], [3, 4]]), singular = x.float().svd()[1].tolistSync().map((v) => Math.round(1000 * v));
const report = { singular, first: x.matmul(x).realize().tolistSync(), device: Device.default };
await state.safeSave({ x }, "light.safetensors");
report.loaded = await (await state.safeLoad("light.safetensors")).x.tolist();
report.disk = Device.list().find((d) => d.name === "DISK").available;
console.log(JSON.stringify(report));
process.exit(0);`;

/** Prints which files of the package are loaded, all but what these import, when it is imported and as it is used. */
export const START: string = `
import { createRequire } from "node:module";
const { cache } = createRequire(import.meta.url), report = { loaded: [] }, told = [];
const loaded = () => report.loaded.push(Object.keys(cache).map((file) => file.replace(/^.*[\\\\/]/, "")));
await import("@dinograd/dinograd");
loaded();
// what computes at once, while others are loading
const [library] = await Promise.all(["", "/core", "/ir", "/llm"].map(async (entry, i) => {
  if (i > 1) await null;
  const { Tensor } = await import("@dinograd/dinograd" + entry);
  if (Tensor !== undefined) told.push(new Tensor([i]).add(1).tolistSync());
  return { Tensor, ...await import("@dinograd/dinograd") };
}));
report.told = told;
const { autocast, nn, state, Tensor } = library, names = Object.keys(nn);
report.names = [names.includes("Linear"), Object.keys(state).includes("safeLoad"), names.length, String(nn)];
loaded();
const layer = new nn.Linear(2, 1);
loaded();
report.cast = autocast(() => new Tensor([0.5]).cast("bfloat16").erfinv().dtype.name);
report.layer = [layer instanceof nn.Linear, Object.entries(nn).every(([, value]) => value !== undefined), nn.nothing === undefined];
report.values = layer.call(new Tensor([[1, 2]])).tolistSync().length;
console.log(JSON.stringify(report));`;

/** Prints what one asynchronous function of the light entry gives that is the first to be called. */
export const FIRST: string = `
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

/** Prints what one member or function of the entry of servers gives that is the first to be asked for. */
export const AT_ONCE: string = `
import { grad, jit, Tensor } from "@dinograd/dinograd";
import { inspect } from "node:util";
const x = new Tensor([[1, 2], [3, 4]]), rows = (t) => t.tolistSync(), firstOf = ([row]) => row;
const calls = {
  method: () => rows(x.add(1)),
  accessor: () => rows(x.T),
  iterator: () => rows(firstOf(x)),
  inspected: () => inspect(x).slice(0, 6),
  "of the class": () => rows(Tensor.einsum("ij->i", [x])),
  pairs: () => rows(Tensor.trilIndices(2, 2)),
  gradient: () => rows(grad((t) => t.square().sum())(x.float())),
  jit: () => rows(jit((t) => t.mul(2))(x)),
  read: () => rows(x),
  extended: () => {
    class Doubling extends Tensor {
      add(y) { return super.add(y).mul(2); }
      get T() { return super.T.mul(10); }
    }
    return [rows(new Doubling([1, 2]).add(1)), rows(new Doubling([[1, 2]]).T)];
  },
  missing: () => process.argv[3].split(" ").filter((name) => {
    const [own, ofClass] = name.split(".").reverse();
    return ofClass === undefined ? !(own in x) : !(own in Tensor);
  }),
};
console.log(JSON.stringify(calls[process.argv[2]]()));`;

/** What a program of one operation is. */
export const ONE = (entry: string): string => `
import { Tensor } from "@dinograd/dinograd${entry}";
console.log(await new Tensor([1, 2]).add(1).tolist());`;

/** What a program of all layers is. */
export const LAYERS = (entry: string): string => `
import { init, nn, Tensor } from "@dinograd/dinograd${entry}";
globalThis.all = [init, nn, Tensor];`;

/** What must compile, and must not, for users of the package. */
export const TYPED: string = `
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
