/**
 * Programs that people write to take a model elsewhere: a decoder with its cache for a page, a network of bytes from a phone
 * in a module and in C, a loaded model for batches of any size, a picture as bytes, and mistakes on the way.
 */
import assert from "node:assert/strict";
import { Device, nn, Tensor, Variable } from "../../mod.ts";
import { type Exported, exportModel, exportModels } from "../../src/export/export.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { loadTFLite } from "../../src/tfjs/tfjs.ts";
import { buildTFLite } from "../tfjs/build_tflite.ts";
import { compilersHere, run } from "./build.ts";
import { wave } from "./programs.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const folder = Deno.makeTempDirSync({ prefix: "dinograd-export-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));

type Module = Record<string, (...args: unknown[]) => Float32Array>;
/** A module, loaded as a page does it. */
async function load(made: Exported, name: string): Promise<Module> {
  await made.write(`${folder}/${name}`);
  const bytes = (end: string): unknown => made.files.get(`${name}.${end}`);
  return await (await import(`file://${folder}/${name}/${name}.js`)).load(bytes("wasm"), bytes("bin"));
}
const near = (a: ArrayLike<number>, b: ArrayLike<number>, by = 1e-5): void => {
  assert.equal(a.length, b.length);
  for (let i = 0; i < a.length; i++) assert.ok(Math.abs(a[i] - b[i]) <= by, `${a[i]} is not ${b[i]}`);
};

Deno.test("strangers: a step with a cache becomes a module that remembers, and forgets by reset", async () => {
  const project = new nn.Linear(4, 4),
    cache = Tensor.zeros([8, 4]).contiguous().realize(),
    at = new Variable("at", 0, 7);
  const step = (x: Tensor, at: Tensor): Tensor => {
    cache.setAt([at], project.call(x));
    return cache.sum(0);
  };
  const made = await exportModel(step, [wave([4]), at.bind(0)], {
    target: "wasm",
    name: "memory",
    weights: { project, cache },
  });
  const m = await load(made, "memory"), rows = [wave([4], 1), wave([4], 2), wave([4], 3)];
  m.reset();
  const first = Array.from(m.run(await rows[0].data(), 0));
  const seen: number[][] = [first];
  for (const i of [1, 2]) seen.push(Array.from(m.run(await rows[i].data(), i)));
  cache.assign(Tensor.zeros([8, 4])).realize();
  for (const [i, row] of rows.entries()) near(seen[i], await step(row, at.bind(i)).data() as Float32Array);
  assert.throws(() => m.run(undefined, 8), /at 0 to 7/);
});

/** A layer of bytes with its sigmoid, as phones have it. */
const LAYER = buildTFLite({
  tensors: [
    { name: "x", shape: [2, 6], type: 9, scale: [0.05], zero: [3] },
    { name: "h", shape: [2, 4], type: 9, scale: [0.1], zero: [-8] },
    { name: "y", shape: [2, 4], type: 9, scale: [1 / 256], zero: [-128] },
    {
      name: "w",
      shape: [4, 6],
      type: 9,
      data: Int8Array.from({ length: 24 }, (_, i) => i * 53 % 255 - 127),
      scale: [0.01],
    },
    { name: "b", shape: [4], type: 2, data: Int32Array.of(10, -200, 300, 0), scale: [0.0005] },
  ],
  inputs: [0],
  outputs: [2],
  operators: [
    { code: 9, inputs: [0, 3, 4], outputs: [1], options: { 0: { byte: 0 } } },
    { code: 14, inputs: [1], outputs: [2] },
  ],
});

Deno.test("strangers: a network of bytes goes to a module, and to an ONNX file, and stays what it is", async () => {
  const lite = await loadTFLite(LAYER), data = Int8Array.from({ length: 12 }, (_, i) => i * 41 % 256 - 128);
  const x = new Tensor(data).reshape([2, 6]).realize(), f = (x: Tensor): Tensor => lite.call(x).y as Tensor;
  const want = Array.from(await f(x).data() as Int8Array);
  const m = await load(await exportModel(f, [x], { target: "wasm", name: "bytes" }), "bytes");
  assert.deepEqual(Array.from(m.run(data)), want);
  const again = await onnx.load(await onnx.toBytes(f, [x]));
  assert.equal(again.inputs[0].type, "int8");
  assert.deepEqual(Array.from(await (again.call(x).y as Tensor).data() as Int8Array), want);
});

Deno.test("strangers: a loaded model takes batches of any size up to one in C", async () => {
  const [compiler] = compilersHere();
  if (compiler === undefined) return;
  const net = new nn.Linear(4, 3), n = new Variable("n", 1, 6), all = wave([6, 4]);
  const model = await onnx.load(await onnx.toBytes(net, [wave([1, 4])], { dynamic: { x: { 0: "batch" } } }));
  const f = (x: Tensor, n: Tensor): Tensor => (model.call(x.shrink([[0, n], null])).y as Tensor).softmax();
  const made = await exportModel(f, [all, n.bind(2)], { name: "rows", weights: model, style: "plain" });
  assert.match(
    made.text("rows.h"),
    /int rows_run\(rows_context \*context, int n, const float x\[24\], float y\[18\]\);/,
  );
  const at = `${folder}/rows`;
  await made.write(at);
  await Deno.writeTextFile(
    `${at}/main.c`,
    `#include "rows.h"
#include <stdio.h>
static rows_context c;
static float x[24], y[18];
int main(void) {
  int i;
  for (i = 0; i < 24; i++) scanf("%f", x + i);
  rows_init(&c, rows_weights());
  if (rows_run(&c, 7, x, y) == 0 || rows_run(&c, 5, x, y) != 0) return 1;
  for (i = 0; i < 15; i++) printf("%.7g ", (double)y[i]);
  return 0;
}
`,
  );
  await run(compiler.path, ["-O1", "-DROWS_EMBED", "-Wno-unused-result", "-o", "main", "main.c", "rows.c", "-lm"], at);
  const child = new Deno.Command(`${at}/main`, { stdin: "piped", stdout: "piped" }).spawn(),
    writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(Array.from(await all.data() as Float32Array).join(" ")));
  await writer.close();
  const printed = new TextDecoder().decode((await child.output()).stdout).trim().split(" ").map(Number);
  near(printed, await net.call(all.shrink([[0, 5], null])).softmax().data() as Float32Array);
});

Deno.test("strangers: sizes are arguments in the order of the axes, and rows lie as they do of the largest picture", async () => {
  const high = new Variable("height", 4, 16), wide = new Variable("width", 4, 12), whole = wave([16, 12]);
  const sobel = new Tensor([[[[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]]]).float().realize();
  const part = (h: number, w: number): Tensor => whole.shrink([[0, high.bind(h)], [0, wide.bind(w)]]);
  const edges = (image: Tensor): Tensor => {
    const found = image.padTo([16, 12]).reshape([1, 1, 16, 12]).conv2d(sobel, undefined, { padding: 1 });
    return found.square().reshape([16, 12]).shrink([[0, image.shape[0]], [0, image.shape[1]]]).sum(1);
  };
  const options = { name: "edges", weights: { sobel } }, made = await exportModel(edges, [part(6, 5)], options);
  assert.match(made.text("edges.h"), /edges_run\(.*, int height, int width, const float image\[192\], float y\[16\]\)/);
  const module = await exportModel(edges, [part(6, 5)], { ...options, target: "wasm" }),
    m = await load(module, "edges");
  assert.match(module.text("edges.d.ts"), /192 numbers, \[16, 12\] whatever the sizes are/);
  for (const [h, w] of [[16, 12], [4, 7]]) {
    const got = m.run(await whole.data(), h, w), want = await edges(part(h, w)).data() as Float32Array;
    near(got.subarray(0, h), want.subarray(0, h));
  }
  assert.throws(() => m.run(undefined, 5, 13), /height 4 to 16, width 4 to 12/);
});

Deno.test("strangers: a picture goes in as the bytes that a canvas gives", async () => {
  const conv = new nn.Conv2d(3, 2, 3), size = 8;
  const f = (picture: Tensor): Tensor => {
    const rgb = picture.reshape([1, size, size, 4]).shrink([null, null, null, [0, 3]]).float().div(255);
    return conv.call(rgb.permute([0, 3, 1, 2])).relu().mean([2, 3]).softmax();
  };
  const data = Uint8ClampedArray.from({ length: size * size * 4 }, (_, i) => i * 29);
  const picture = new Tensor(new Uint8Array(data)).realize();
  const m = await load(await exportModel(f, [picture], { target: "wasm", name: "picture", weights: conv }), "picture");
  near(m.run(data), await f(picture).data() as Float32Array);
});

Deno.test("strangers: what is given in the way of other libraries is told with a way out", async () => {
  const net = new nn.Linear(4, 2), x = wave([1, 4]);
  await assert.rejects(
    exportModel(net, [new Float32Array(4)]),
    /argument 0 is a Float32Array, and inputs are tensors: make it one by new Tensor\(data\)/,
  );
  await assert.rejects(exportModel(net, [x], "wasm" as never), /the options must be an object with target/);
  await assert.rejects(exportModels({ go: net } as never), /go must be \[f, args\], not a Linear/);
  await assert.rejects(
    exportModel(net, [x], { name: "my-net" }),
    /name is letters, digits and underscores, not "my-net"/,
  );
});
