/**
 * Models that memory does not suffice for: what they take is told before or when an allocation fails, and what would fit
 * does.
 */
import assert from "node:assert/strict";
import { context, Device, OutOfMemoryError, Tensor } from "../../mod.ts";
import { getDevice } from "../../src/device/device.ts";
import {
  EmbeddingModel,
  encodeGguf,
  LanguageModel,
  type LoadModelOptions,
  readGguf,
  typed,
} from "../../src/llm/llm.ts";
import { ENCODED, randomEncoder } from "./random_encoders.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const file = await readGguf(new URL("../../examples/models/stories260K.gguf", import.meta.url));

/** The model with another context in its file. */
async function ofContext(length: number): Promise<Tensor> {
  const metadata = new Map(file.metadata).set("llama.context_length", typed("uint32", length));
  return new Tensor(await encodeGguf({ metadata, tensors: file.tensors }));
}
async function refusal(from: Tensor, options: LoadModelOptions): Promise<string> {
  try {
    using model = await LanguageModel.load(from, options);
    return `${model.name} was loaded`;
  } catch (e) {
    assert.ok(e instanceof OutOfMemoryError, String(e));
    return e.message;
  }
}

Deno.test("memory: a context that does not fit is refused at once, and what is said to fit does", async () => {
  const endless = await ofContext(2 ** 32 - 1);
  for (const device of ["WASM", "JS"] as const) {
    assert.match(
      await refusal(endless, { device, sequences: 2 }),
      /Cannot allocate \d+ bytes on \w+: the weights of stories260K take 1\.04 MB, what is kept and computed of 2 texts of 4294967295 tokens \d+\.\d TB/,
    );
  }
  const told = await refusal(endless, { sequences: 2 });
  assert.match(
    told,
    /these would fit: \{ context: \d+ \}/,
  );
  assert.match(told, /quantizeModel\(file, "Q4_K_M"\) writes weights of 15\d kB/);
});

Deno.test("memory: within a budget the advice is followed", async () => {
  const large = await ofContext(100_000), held = Device.memory().WASM.bytes;
  await context({ MAX_MEMORY: held + 40_000_000 }, async () => {
    const told = await refusal(large, { sequences: 2 }), options: LoadModelOptions[] = [];
    for (const [, text] of told.matchAll(/(\{[^}]*context: \d+ \})/g)) {
      options.push({ sequences: 2, ...JSON.parse(text.replace(/(\w+): /g, '"$1": ')) });
    }
    assert.ok(options.length > 0 && options.every((o) => o.context! >= 2048), told);
    const one = { ...options[0], device: "WASM" as const };
    using model = await LanguageModel.load(large, one);
    const { text } = await model.complete("Once upon a time", { maxTokens: 8 });
    assert.equal(text, ", there was a little girl");
  });
});

Deno.test("memory: an encoder that does not fit is refused, and one that does embeds", async () => {
  const encoder = new Tensor(await encodeGguf(randomEncoder("bert"))).realize(), held = Device.memory().WASM.bytes;
  const load = async (room: number): Promise<string> => {
    try {
      return await context({ MAX_MEMORY: held + room }, async () => {
        const model = await EmbeddingModel.load(encoder, { device: "WASM" }),
          [x] = await model.embed(ENCODED.slice(0, 1));
        return `${x.length} numbers`;
      });
    } catch (e) {
      assert.ok(e instanceof OutOfMemoryError, String(e));
      return e.message;
    }
  };
  assert.match(
    await load(20_000),
    /Cannot allocate \d+ bytes on WASM: the weights of \S+ take [\d.]+ kB, what is kept and computed of 1 text of 16 tokens [\d.]+ kB, and 20\.0 kB are there; quantizeModel\(file, "Q8_0"\) writes weights of/,
  );
  assert.match(await load(2_000_000), /^\d+ numbers$/);
});

Deno.test("memory: a device that says how much is free is believed", async () => {
  const { inner } = getDevice("WASM").allocator, large = await ofContext(1_000_000);
  inner.available = () => ({ free: 1_000_000, total: 2 ** 33 });
  try {
    assert.match(await refusal(large, {}), /texts? of 1000000 tokens .*, and [\d.]+ MB are there/);
  } finally {
    delete inner.available;
  }
  assert.match(await refusal(large, { context: 32 }), /was loaded/);
});
