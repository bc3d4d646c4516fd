/**
 * Models with something wrong, made at random of a good one: bytes that are changed, cut off or overwritten, values and
 * weights that do not fit each other. Each is loaded and writes a token, or is a FormatError.
 */
import assert from "node:assert/strict";
import { Device, FormatError, Tensor } from "../../mod.ts";
import { encodeGguf, type GgufValue, LanguageModel, readGguf } from "../../src/llm/llm.ts";
import { inFolder } from "../support/folder.ts";
import { Random } from "../support/random.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url);
/** Bytes of counts, names and values before those of weights. */
const HEAD = 20_000;

/** What is said of a file: that it was read, or why not. */
async function tried(path: string, what: string): Promise<string> {
  try {
    using model = await LanguageModel.load(path, { context: 16 });
    await model.complete("Once", { maxTokens: 1 });
    return "read";
  } catch (e) {
    assert.ok(e instanceof FormatError, `${what}: ${e instanceof Error ? e.stack : e}`);
    return e.message;
  }
}

Deno.test("spoiled models: bytes that were changed or cut off are read or refused, and nothing else", async () => {
  const good = await Deno.readFile(STORIES), random = new Random(11);
  const seen = { read: 0, refused: 0 };
  await inFolder(async (folder) => {
    for (let i = 0; i < 80; i++) {
      const kind = i % 4, bytes = kind === 0 ? good.slice(0, random.below(good.length)) : good.slice();
      if (kind === 3) {
        // counts and sizes that are the least or the most
        const at = random.below(HEAD);
        bytes.fill(random.pick([0xff, 0, 0x80, 0x7f]), at, at + random.pick([1, 2, 4, 8]));
      } else if (kind > 0) {
        for (let n = random.int(1, 3); n > 0; n--) bytes[random.below(kind === 1 ? good.length : HEAD)] ^= 1 << i % 8;
      }
      await Deno.writeFile(`${folder}/m.gguf`, bytes);
      seen[await tried(`${folder}/m.gguf`, `case ${i}`) === "read" ? "read" : "refused"]++;
    }
  });
  assert.ok(seen.read > 5 && seen.refused > 30, JSON.stringify(seen));
});

const SCALARS: readonly (readonly [string, GgufValue])[] = [
  ...[0, 1, 3, 2 ** 31, 2 ** 32 - 1].map((n) => ["uint32", n] as const),
  ...[["int32", -1], ["uint64", 2n ** 63n], ["uint64", 2 ** 53 - 1], ["bool", true]] as const,
  ...[NaN, -1, Infinity, 0.5].map((x) => ["float32", x] as const),
  ...["", "x", "gpt2", "llama4", "{% for i in range(10 ** 9) %}x{% endfor %}"].map((s) => ["string", s] as const),
];
const LISTS: readonly (readonly [string, GgufValue])[] = [
  ...[["string", []], ["string", ["a"]], ["int32", []], ["int32", [-1, 5]], ["float32", [NaN]]] as const,
  ["uint32", [2 ** 31]],
];
const MORE = [
  ...["llama.rope.scaling.type", "llama.rope.scaling.factor", "llama.expert_count", "llama.attention.key_length"],
  ...["llama.attention.sliding_window", "llama.vocab_size", "tokenizer.chat_template"],
];
const good = await readGguf(STORIES);
async function write(path: string, metadata: object, tensors: Record<string, Tensor>): Promise<void> {
  await Deno.writeFile(path, await encodeGguf({ metadata: metadata as Record<string, never>, tensors }));
}
function parts(): [Record<string, unknown>, Record<string, Tensor>] {
  return [
    Object.fromEntries(good.metadata),
    Object.fromEntries([...good.tensors].map(([name, t]) => [name, t.load()])),
  ];
}

Deno.test("spoiled models: values and weights that do not fit are told by name", async () => {
  const random = new Random(12);
  await inFolder(async (folder) => {
    const path = `${folder}/m.gguf`;
    for (let i = 0; i < 120; i++) {
      const [metadata, tensors] = parts(), done: string[] = [];
      for (let n = random.int(1, 2); n > 0; n--) {
        const kind = random.below(10), name = random.pick(Object.keys(tensors));
        const key = random.pick([...Object.keys(metadata), ...MORE]);
        done.push(`${kind} ${name} ${key}`);
        if (kind === 0) delete tensors[name];
        else if (kind === 1) tensors[name] = tensors[random.pick(Object.keys(tensors))];
        else if (kind === 2) delete metadata[key];
        else {
          const list = kind === 3, [type, value] = random.pick(list ? LISTS : SCALARS);
          metadata[key] = { type, list, value };
        }
      }
      await write(path, metadata, tensors);
      await tried(path, done.join(", "));
    }
    const cases: readonly (readonly [(m: Record<string, unknown>, t: Record<string, Tensor>) => void, RegExp])[] = [
      [(_, t) => delete t["blk.2.ffn_up.weight"], /it has no tensor "blk\.2\.ffn_up\.weight"/],
      [
        (_, t) => t["blk.3.ffn_norm.weight"] = t["blk.2.ffn_up.weight"],
        /"blk\.3\.ffn_norm\.weight" has shape \[172, 64\], not \[64\]/,
      ],
      [
        (_, t) => t["output_norm.weight"] = Tensor.ones([63]),
        /"output_norm\.weight" has shape \[63\], not \[64\]/,
      ],
      [
        (_, t) => t["blk.1.ffn_down.weight"] = t["blk.4.attn_q.weight"],
        /"blk\.1\.ffn_down\.weight" has shape \[64, 64\], not \[64, 172\]/,
      ],
      [
        (m) => m["llama.block_count"] = { type: "uint64", list: false, value: 2 ** 53 - 1 },
        /said to have 9007199254740991 layers, and it has \d+ tensors/,
      ],
    ];
    for (const [spoil, why] of cases) {
      const [metadata, tensors] = parts();
      spoil(metadata, tensors);
      await write(path, metadata, tensors);
      assert.match(await tried(path, String(why)), why);
    }
  });
});

Deno.test("spoiled models: files whose rows lie as an early version wrote them are refused, and told how to make them anew", async () => {
  const [metadata, tensors] = parts();
  await inFolder(async (folder) => {
    const path = `${folder}/m.gguf`;
    await write(path, { ...metadata, "dinograd.rope": "halves" }, tensors);
    assert.match(
      await tried(path, "halves"),
      /the rows of its queries and keys lie as an early dinograd wrote them \("dinograd.rope"\).*writeGguf\(path, await readHfFolder\(folder\)\)/,
    );
    await write(path, { ...metadata, "dinograd.rope": "pairs" }, tensors);
    assert.equal(await tried(path, "pairs"), "read");
  });
});
