/**
 * Tokenizers against llama.cpp: small vocabularies of each kind on texts that are hard to cut (fixtures/tokens.json, by
 * llama_cpp.ts); decoding, and streams that never split a character.
 */
import assert from "node:assert/strict";
import { Device, FormatError, Tensor } from "../../mod.ts";
import { encodeGguf, type GgufContents, type GgufValue, type Tokenizer, typed } from "../../src/llm/llm.ts";
import { FUZZED, fuzzHash, hashes, TEXTS, tokenizerOf, VOCABULARIES } from "./vocabularies.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const IDS = JSON.parse(Deno.readTextFileSync(new URL("fixtures/tokens.json", import.meta.url))) as Record<
  string,
  string[]
>;
const load = async (contents: GgufContents): Promise<Tokenizer> =>
  await tokenizerOf(new Tensor(await encodeGguf(contents)));

for (const [name, make] of Object.entries(VOCABULARIES)) {
  Deno.test(`tokenizer: ${name} has llama.cpp's ids`, async () => {
    const t = await load(make()),
      rows = TEXTS.map((text) => [t.encode(text, { add: false }), t.encode(text, { special: true })]);
    hashes(rows).forEach((got, i) =>
      assert.equal(got, IDS[name][i], `${JSON.stringify(TEXTS[i])}: ${rows[i].join(" | ")}`)
    );
  });
}

Deno.test("tokenizer: random texts have llama.cpp's ids, with each pre-tokenizer by each of its names", async () => {
  const want = JSON.parse(Deno.readTextFileSync(new URL("fixtures/fuzz.json", import.meta.url))) as Record<
    string,
    string
  >;
  assert.deepEqual(Object.keys(FUZZED), Object.keys(want));
  for (const [name, make] of Object.entries(FUZZED)) {
    const t = await load(make());
    const got = fuzzHash(name, t, (text, on) => t.encode(text, { special: on, add: on }));
    assert.equal(got, want[name], `${name}: llama_cpp.ts fuzz --only '^${name}$' --seed 5 shows the texts`);
  }
});

Deno.test("tokenizer: tokens that files have under wrong kinds, and white space beside tokens, are as llama.cpp has them", async () => {
  const base = VOCABULARIES.pieces(), metadata = base.metadata as Record<string, GgufValue | readonly GgufValue[]>;
  const made = (texts: readonly string[], more: Record<string, unknown> = {}) => {
    const tokens = [...metadata["tokenizer.ggml.tokens"] as string[], ...texts], n = tokens.length;
    return load({
      metadata: {
        ...metadata,
        ...more,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": typed("float32", tokens.map((_, i) => -i)),
        "tokenizer.ggml.token_type": typed("int32", tokens.map((_, i) => i >= n - texts.length ? 1 : i < 3 ? 3 : 1)),
      },
      tensors: {},
    } as GgufContents);
  };
  const harmony = await made(["<|end|>", "<|return|>", "<|call|>", "<|channel|>", "<|message|>"]);
  const id = (text: string) => harmony.idOf(text)!;
  assert.deepEqual(["<|return|>", "<|call|>", "<|end|>"].map((t) => harmony.isEnd(id(t))), [true, true, false]);
  const answer = ["<|channel|>", "<|message|>", "<|end|>", "<|return|>"].map(id);
  assert.equal(harmony.decode(answer), "<|channel|><|message|><|end|>");
  const plain = await made(["<|end|>"]);
  assert.ok(plain.isEnd(plain.idOf("<|end|>")!), "alone it ends an answer");
  assert.equal(plain.decode([plain.idOf("<|end|>")!]), "");
  const phi = await made(["<|end|>"], { "general.name": "Phi-3 mini" }), end = phi.idOf("<|end|>")!;
  const two = phi.encode("<|end|> \n <|end|>a", { special: true, add: false });
  assert.deepEqual(two.slice(0, 2), [end, end]);
  assert.deepEqual(
    phi.encode("a <|end|>", { special: true, add: false }).length,
    phi.encode("a ", { add: false }).length + 1,
  );
  const page = await made(["<|tool_response>"], { "tokenizer.ggml.eos_token_id": 1 });
  assert.ok(!page.isEnd(2) && page.isEnd(page.idOf("<|tool_response>")!));
});

Deno.test("tokenizer: byte-level and SentencePiece ids are the text again, whole and in streams", async () => {
  for (const name of ["gpt-2", "llama-bpe", "pieces"]) {
    const t = await load(VOCABULARIES[name]());
    for (const text of TEXTS) {
      if (name === "pieces" && text.includes("<|user|>")) continue; // it begins anew behind a special token, with a space
      const ids = t.encode(text, { add: false });
      assert.equal(t.decode(ids), text, `${name} ${JSON.stringify(text)}`);
      const stream = t.stream(), parts = [...ids.map((id) => stream.push(id)), stream.end()];
      assert.equal(parts.join(""), text);
      assert.ok(parts.every((p) => p.isWellFormed() && (text.includes("\ufffd") || !p.includes("\ufffd"))));
    }
  }
  const t = await load(VOCABULARIES["gpt-2"]()), [first, ...more] = t.encode("世", { add: false });
  const stream = t.stream();
  assert.equal(stream.push(first), "");
  assert.equal(stream.end(), "\ufffd", "half a character is told at the end");
  assert.equal(more.length, 2);
});

Deno.test("tokenizer: special tokens are texts of users only where that is asked for", async () => {
  const t = await load(VOCABULARIES["llama-bpe"]());
  assert.deepEqual(t.encode("<|end|>", { special: true, add: false }), [2]);
  assert.ok(!t.encode("<|end|>", { add: false }).includes(2));
  assert.deepEqual(t.encode("", {}), [0], "a begin token");
  assert.equal(t.decode([0, 2, 1]), "");
  assert.equal(t.decode([0, 2, 1], { special: true }), "<s><|end|></s>");
  assert.ok(t.isEnd(2) && t.isEnd(1) && !t.isEnd(0));
});

Deno.test("tokenizer: what cannot be is told by name", async () => {
  const t = await load(VOCABULARIES["gpt-2"]());
  assert.throws(() => t.encode(5 as unknown as string), /Cannot encode a text: it is 5/);
  assert.throws(() => t.decode([1e6]), /Cannot decode token 1000000: tokens are 0 to/);
  const { metadata } = VOCABULARIES["gpt-2"]() as { metadata: Record<string, unknown> };
  const changed = (key: string, value: unknown) =>
    load({ metadata: { ...metadata, [`tokenizer.ggml.${key}`]: value }, tensors: {} } as GgufContents);
  for (
    const [key, value, why] of [
      ["model", "rwkv", /its tokenizer is "rwkv"; known are llama, gpt2/],
      ["pre", "dog", /its pre-tokenizer is "dog"; known are default, llama3/],
      ["token_type", typed("int32", [1]), /\d+ scores and 1 kinds of tokens/],
      ["eos_token_id", 1e6, /its token "eos_token_id" is 1000000, beyond/],
      ["merges", "x", /"tokenizer\.ggml\.merges" is no list of texts/],
    ] as const
  ) {
    await assert.rejects(() => changed(key, value), (e: unknown) => {
      assert.ok(e instanceof FormatError, String(e));
      assert.match(e.message, why);
      return true;
    });
  }
});
