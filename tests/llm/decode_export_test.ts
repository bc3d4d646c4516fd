/**
 * A decoder as a program of its own: in C and as a WebAssembly module it tells the story that the model tells.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { decodeStep, encodeGguf, LanguageModel, quantizeModel, readGguf } from "../../src/llm/llm.ts";
import { exportModel } from "../../src/export/export.ts";
import { compilersHere, run } from "../export/build.ts";
import { inFolder } from "../support/folder.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url), COUNT = 40;

/** Greedy tokens behind the first one. */
async function tokensOf(model: LanguageModel): Promise<number[]> {
  const out: number[] = [];
  for await (const { id } of model.generate([1], { maxTokens: COUNT })) if (id !== undefined) out.push(id);
  return out;
}

const MAIN = `
#include "story.h"
#include <stdio.h>
static story_context context;
static float logits[512];
int main(void) {
  int token = 1, next = 0;
  story_init(&context, story_weights());
  for (int position = 0; position < ${COUNT}; position++) {
    if (story_run(&context, position, &token, &next, logits) != 0) return 1;
    printf("%d ", token = next);
  }
  return story_run(&context, 64, &token, &next, logits) == 1 ? 0 : 2;
}
`;

Deno.test("decode step: in C it tells the story of the model", async () => {
  const compiler = compilersHere().find((c) => !c.isCpp);
  using model = await LanguageModel.load(STORIES, { device: "WASM", context: 64 });
  const { f, args, weights, name } = decodeStep(model.decoder, "story"), want = await tokensOf(model);
  const made = await exportModel(f, args, { target: "c", style: "fast", weights, name });
  assert.ok(made.files.get("story.c")!.length < 100_000);
  if (compiler === undefined) return;
  await inFolder(async (folder) => {
    await made.write(folder);
    Deno.writeTextFileSync(`${folder}/main.c`, MAIN);
    await run(compiler.path, ["-O1", "-DSTORY_EMBED", "story.c", "main.c", "-lm", "-o", "main"], folder);
    assert.equal((await run(`${folder}/main`, [], folder)).trim(), want.join(" "));
  });
});

Deno.test("decode step: as WebAssembly it tells the story of the model, of quantized weights too", async () => {
  const small = new Tensor(await encodeGguf(quantizeModel(await readGguf(STORIES), "Q8_0")));
  using model = await LanguageModel.load(small, { device: "WASM", context: 64 });
  const { f, args, weights, name } = decodeStep(model.decoder, "story"), want = await tokensOf(model);
  const made = await exportModel(f, args, { target: "wasm", weights, name });
  await inFolder(async (folder) => {
    await made.write(folder);
    const { load } = await import(`file://${folder}/story.js`) as {
      load: (wasm: unknown, bin: unknown) => Promise<{ run: (...a: unknown[]) => { next: Int32Array } }>;
    };
    const story = await load(made.files.get("story.wasm"), made.files.get("story.bin")), got: number[] = [];
    for (let at = 0, token = 1; at < COUNT; at++) got.push(token = story.run(Int32Array.of(token), at).next[0]);
    assert.deepEqual(got, want);
  });
});
