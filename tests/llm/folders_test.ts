/**
 * Models that are no GGUF files: of llama2.c, and folders of Hugging Face's, whose logits and ids must be those that
 * llama.cpp has for the same weights and tokens.
 */
import assert from "node:assert/strict";
import { Device, FormatError, state, Tensor } from "../../mod.ts";
import {
  type GgufContents,
  LanguageModel,
  Metadata,
  readGguf,
  readHfFolder,
  readLlama2c,
  Tokenizer,
  vocabularyOf,
  writeGguf,
} from "../../src/llm/llm.ts";
import { ggufName } from "../../src/llm/files/hf_names.ts";
import { tokenizerValues } from "../../src/llm/files/tokenizer_json.ts";
import { entriesOf } from "../../src/llm/files/llama2c.ts";
import { inFolder } from "../support/folder.ts";
import { ourLogits } from "./our_logits.ts";
import { randomModel } from "./random_models.ts";
import { hashes, TEXTS, VOCABULARIES } from "./vocabularies.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const MODELS = new URL("../../examples/models/", import.meta.url);
const fixture = (name: string) => JSON.parse(Deno.readTextFileSync(new URL(`fixtures/${name}.json`, import.meta.url)));

Deno.test("folders: a file of llama2.c tells the same story", async () => {
  const { tensors } = await readGguf(new URL("stories260K.gguf", MODELS)), parts: Uint8Array[] = [];
  const header = new Uint8Array(Int32Array.of(64, 172, 5, 8, 4, 512, 512).buffer);
  const put = async (name: string) =>
    parts.push(new Uint8Array((await tensors.get(name)!.load().data() as Float32Array).slice().buffer));
  await put("token_embd.weight");
  for (
    const name of [
      "attn_norm",
      "attn_q",
      "attn_k",
      "attn_v",
      "attn_output",
      "ffn_norm",
      "ffn_gate",
      "ffn_down",
      "ffn_up",
    ]
  ) {
    for (let i = 0; i < 5; i++) await put(`blk.${i}.${name}.weight`);
  }
  await put("output_norm.weight");
  const bytes = new Uint8Array(
    await new Blob([header, ...parts as Uint8Array<ArrayBuffer>[], new Uint8Array(512 * 8 * 4)]).arrayBuffer(),
  );
  const tokens = new URL("tok512.bin", MODELS);
  using model = new LanguageModel(await readLlama2c(new Tensor(bytes), tokens), "stories", { context: 64 });
  assert.equal(
    (await model.complete("Once upon a time", { maxTokens: 12 })).text,
    ", there was a little girl named Lily. She",
  );
  await assert.rejects(() => readLlama2c(new Tensor(bytes.slice(0, 5000)), tokens), /it is truncated/);
  await assert.rejects(() => readLlama2c(new Tensor(bytes.slice(28)), tokens), /are no model of llama2\.c/);
  await assert.rejects(
    () => readLlama2c(new Tensor(bytes), new Tensor(Deno.readFileSync(tokens).slice(0, 900))),
    /token \d+ of 512 at byte \d+ is not whole/,
  );
});

/** Names of GGUF files the other way round. */
function hfNames(architecture: string, layers: number): Map<string, string> {
  const parts =
    "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj self_attn.q_norm self_attn.k_norm " +
    "input_layernorm pre_feedforward_layernorm post_attention_layernorm post_feedforward_layernorm mlp.gate_proj mlp.up_proj mlp.down_proj";
  const names = ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"];
  for (let i = 0; i < layers; i++) {
    for (const part of parts.split(" ")) {
      for (const kind of ["weight", "bias"]) names.push(`model.layers.${i}.${part}.${kind}`);
    }
  }
  return new Map(names.map((n) => [ggufName(n, architecture)!, n]));
}

/** A tokenizer.json of a small byte-level vocabulary. */
function tokenizerJson(contents: GgufContents, pattern: string): Record<string, unknown> {
  const meta = contents.metadata as Record<string, unknown>, tokens = meta["tokenizer.ggml.tokens"] as string[];
  return {
    added_tokens: tokens.slice(0, 4).map((content, id) => ({ id, content, special: id < 3 })),
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [{ type: "Split", pattern: { Regex: pattern }, behavior: "Isolated" }, {
        type: "ByteLevel",
        use_regex: false,
      }],
    },
    post_processor: null,
    model: {
      type: "BPE",
      ignore_merges: true,
      vocab: Object.fromEntries(tokens.slice(4).map((t, i) => [t, i + 4])),
      merges: (meta["tokenizer.ggml.merges"] as string[]).map((m) => m.split(" ")),
    },
  };
}
const LLAMA3 =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

Deno.test("folders: a tokenizer.json has the ids of the same vocabulary in llama.cpp", () => {
  const json = tokenizerJson(VOCABULARIES["llama-bpe"](), LLAMA3);
  const values = tokenizerValues(
    json,
    { bos_token: "<s>", eos_token: { content: "</s>" }, add_bos_token: true },
    {},
    "tokenizer.json",
  );
  const t = new Tokenizer(vocabularyOf(new Metadata(entriesOf(values), "tokenizer.json")));
  const want = (fixture("tokens")["llama-bpe"] as string[]).map((row) => row.split(" ")[0]);
  hashes(TEXTS.map((text) => [t.encode(text, { add: false })])).forEach((got, i) =>
    assert.equal(got, want[i], TEXTS[i])
  );
  assert.deepEqual(t.encode("<|end|>", { special: true }), [0, 2]);
  assert.deepEqual([t.vocabulary.begin, t.vocabulary.end, t.isEnd(1)], [0, 1, true]);
  const added = (json.added_tokens as Record<string, unknown>[]).map((a) => ({
    ...a,
    lstrip: a.id === 1,
    rstrip: a.id === 2,
  }));
  const strips = tokenizerValues({ ...json, added_tokens: added }, {}, {}, "tokenizer.json");
  const s = new Tokenizer(vocabularyOf(new Metadata(entriesOf(strips), "tokenizer.json")));
  const ids = (text: string) => s.encode(text, { special: true, add: false });
  assert.deepEqual([ids("a <|end|>\n b"), ids("a \n</s> b")], [ids("a <|end|>b"), ids("a</s> b")]);
  assert.notDeepEqual(ids("a <|end|>b"), ids("a<|end|>b"));
  assert.throws(
    () => tokenizerValues({ model: { type: "Unigram" } }, {}, {}, "x"),
    /its model is Unigram; BPE is read/,
  );
  assert.throws(
    () => tokenizerValues({ ...json, pre_tokenizer: { type: "Odd" } }, {}, {}, "x"),
    /its pre-tokenizer Odd is not known/,
  );
});

for (const name of ["llama", "gemma2"]) {
  Deno.test(`folders: ${name} of Hugging Face's has llama.cpp's logits`, async () => {
    await inFolder(async (folder) => {
      const contents = randomModel(name), names = hfNames(name, 3), dict: Record<string, Tensor> = {};
      for (const [key, t] of Object.entries(contents.tensors as Record<string, Tensor>)) {
        // rows of queries and keys stand in another order there, and norms of Gemma are 1 less
        const rows = name === "llama" && /attn_[qk]\.weight/.test(key)
          ? t.reshape([-1, 8, 2, 64]).transpose(1, 2).reshape(t.shape)
          : name === "gemma2" && /norm\.weight$/.test(key)
          ? t.sub(1)
          : t;
        dict[names.get(key) ?? key] = rows;
      }
      await state.safeSave(dict, `${folder}/model.safetensors`);
      const config = {
        model_type: name,
        num_hidden_layers: 3,
        hidden_size: 64,
        intermediate_size: 96,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 16,
        max_position_embeddings: 32,
        rms_norm_eps: 1e-5,
        rope_theta: 10000,
        tie_word_embeddings: name === "gemma2",
        ...name === "gemma2"
          ? { sliding_window: 5, attn_logit_softcapping: 2, final_logit_softcapping: 3 }
          : { rope_scaling: null },
      };
      const write = (file: string, value: unknown) => Deno.writeTextFile(`${folder}/${file}`, JSON.stringify(value));
      await write("config.json", config);
      await assert.rejects(() => readHfFolder(folder), /tokenizer\.json: the folder has no such file/);
      await write("tokenizer.json", tokenizerJson(VOCABULARIES["llama-bpe"](), LLAMA3));
      const got = await ourLogits(await readHfFolder(folder, { device: "DISK" }), name, "WASM");
      const check = (got: readonly Float32Array[]) =>
        (fixture("logits")[name] as number[][]).forEach((want, i) =>
          want.forEach((x, k) =>
            assert.ok(Math.abs(x - got[i][k]) <= (name === "llama" ? 1e-4 : 0.01), `token ${i}: ${got[i][k]}, not ${x}`)
          )
        );
      check(got);
      // written as GGUF it is what llama.cpp would make of the folder: it has the same logits there
      const file = await readHfFolder(folder);
      await writeGguf(`${folder}/model.gguf`, file);
      assert.deepEqual([...file.metadata.keys()].filter((key) => key.startsWith("dinograd.")), []);
      const entry = (key: string) => file.metadata.get(key)!;
      assert.equal(entry("tokenizer.ggml.pre").value, "llama3");
      const types = ["block_count", "rope.freq_base", "attention.layer_norm_rms_epsilon"].map((k) =>
        entry(`${name}.${k}`)
      );
      assert.deepEqual(types.map((e) => e.type), ["uint32", "float32", "float32"]);
      check(await ourLogits(await readGguf(`${folder}/model.gguf`), name, "WASM"));
      const q = (t: Tensor) => t.data() as Promise<Float32Array>, key = "blk.1.attn_k.weight";
      assert.deepEqual(
        await q(file.tensors.get(key)!.load()),
        await q((contents.tensors as Record<string, Tensor>)[key]),
      );
      await write("config.json", { ...config, model_type: "cat" });
      await assert.rejects(
        () => readHfFolder(folder),
        (e: unknown) => e instanceof FormatError && /its model_type is "cat"; known are/.test(e.message),
      );
      await write("config.json", { ...config, rope_scaling: { rope_type: "odd" } });
      await assert.rejects(() => readHfFolder(folder), /its rope_scaling is "odd"/);
    });
  });
}
