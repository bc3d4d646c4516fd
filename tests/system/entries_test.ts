/**
 * Entry points on their own: programs that import one of them, and of mod.ts types at most, find devices and compute.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { toBytes } from "../../src/onnx/onnx.ts";
import { ROOT, runDeno } from "./subprocess.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const ENTRIES = JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT))).exports as Record<string, string>;

/** What a program by this text prints. */
async function printed(code: string): Promise<string> {
  const { stdout, stderr } = await runDeno(["eval", "--no-check", "--no-lock", code]);
  assert.equal(stderr, "");
  return stdout.trim();
}

for (const entry of ["./export", "./story", "./dist", "./tfjs"]) {
  Deno.test(`entries: ${entry} alone brings the devices`, async () => {
    const out = await printed(`import "${ENTRIES[entry]}"; import { listBackends } from "./src/device/device.ts";
console.log(listBackends().map((b) => b.name).join());`);
    assert.match(out, /WASM.*DISK/);
  });
}

Deno.test("entries: ./onnx alone loads a model and runs it", async () => {
  const bytes = await toBytes((x: Tensor) => x.mul(10).add(1), [Tensor.ones([1, 2])]);
  const out = await printed(`import type { Tensor } from "./mod.ts";
import * as onnx from "${ENTRIES["./onnx"]}";
const model = await onnx.load(Uint8Array.of(${bytes}), { device: "WASM" });
console.log(JSON.stringify(await (model.call([[1, 2]]).y as Tensor).tolist()));`);
  assert.equal(out, "[[11,21]]");
});

Deno.test("entries: ./llm alone writes a text", async () => {
  const out = await printed(`import { LanguageModel } from "${ENTRIES["./llm"]}";
using model = await LanguageModel.load("examples/models/stories260K.gguf", { device: "WASM", context: 32 });
console.log((await model.complete("Once upon a time", { maxTokens: 5 })).text);`);
  assert.match(out, /^, there was/);
});
