/**
 * Training: tokenizers against a scalar model that counts all pairs anew, gradients against differences, the example in its
 * smallest setting, adapters, and the files that are left.
 */
import assert from "node:assert/strict";
import { Device, jit, nn, Tensor, vmap } from "../../mod.ts";
import {
  Decoder,
  encodeGguf,
  type GgufInput,
  LanguageModel,
  loadLora,
  lora,
  Metadata,
  quantizeModel,
  readGguf,
  Tokenizer,
  trainBpe,
  vocabularyOf,
} from "../../src/llm/llm.ts";
import { entriesOf } from "../../src/llm/files/llama2c.ts";
import { inFolder } from "../support/folder.ts";
import { Random } from "../support/random.ts";
import { runDeno } from "../system/subprocess.ts";
import { ourLogits } from "./our_logits.ts";
import { randomModel, TOKENS } from "./random_models.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url);

/** Merges of words of ASCII, by the book: all pairs are counted before each. */
function slowMerges(words: readonly string[], count: number): string[] {
  const ids = new Map<string, number>(), merges: string[] = [], parts = words.map((w) => [...w]);
  const id = (s: string) => ids.get(s) ?? s.charCodeAt(0);
  while (merges.length < count) {
    const counts = new Map<string, number>();
    for (const p of parts) {
      for (let i = 0; i + 1 < p.length; i++) {
        counts.set(`${p[i]} ${p[i + 1]}`, (counts.get(`${p[i]} ${p[i + 1]}`) ?? 0) + 1);
      }
    }
    const order = (pair: string) => pair.split(" ").map(id);
    const [best] = [...counts].sort(([a, m], [b, n]) =>
      n - m || order(a)[0] - order(b)[0] || order(a)[1] - order(b)[1]
    );
    if (best === undefined || best[1] < 2) break;
    const [left, right] = best[0].split(" ");
    for (const p of parts) {
      for (let i = 0; i + 1 < p.length; i++) if (p[i] === left && p[i + 1] === right) p.splice(i, 2, left + right);
    }
    ids.set(left + right, 256 + merges.length);
    merges.push(best[0]);
  }
  return merges;
}

Deno.test("training: tokenizers merge what is most frequent, and texts come back", () => {
  const r = new Random(3);
  for (let round = 0; round < 12; round++) {
    const words = Array.from(
      { length: 40 },
      () => Array.from({ length: r.int(1, 9) }, () => "abcd"[r.int(0, 3)]).join(""),
    );
    const values = trainBpe(words, { size: 257 + 30 }) as Record<string, GgufInput>;
    assert.deepEqual(values["tokenizer.ggml.merges"], slowMerges(words, 30));
    const tokenizer = new Tokenizer(vocabularyOf(new Metadata(entriesOf(values), "test")), "test");
    for (const text of [...words, words.join(" "), "né\n 漢字 \ud83d\ude00  x"]) {
      assert.equal(tokenizer.decode(tokenizer.encode(text)), text);
    }
    assert.equal(tokenizer.encode("")[0], tokenizer.vocabulary.begin);
  }
  assert.throws(() => trainBpe(["a"], { size: 256 }), /size/);
  assert.throws(() => trainBpe(["a"], { size: 300, pre: "none" }), /"none" is no pre-tokenizer of bytes; known are/);
});

Deno.test("training: a model without a cache computes as one with it, also in batches", async () => {
  for (const name of ["qwen2moe", "deepseek2"]) {
    const file = await readGguf(new Tensor(await encodeGguf(randomModel(name)))),
      decoder = new Decoder(file, name, "WASM");
    const want = await ourLogits(file, name, "WASM"),
      ids = new Tensor(Int32Array.from([...TOKENS, ...TOKENS])).reshape([2, -1]);
    const got = await vmap((t: Tensor) => decoder.forward(t))(ids).data() as Float32Array, n = decoder.vocabulary;
    want.forEach((row, i) =>
      row.forEach((x, k) => {
        for (const b of [0, 1]) {
          assert.ok(Math.abs(got[(b * TOKENS.length + i) * n + k] - x) < 1e-4, `${name}, token ${i}`);
        }
      })
    );
  }
});

Deno.test("training: gradients are what differences say", async () => {
  const decoder = new Decoder(await readGguf(new Tensor(await encodeGguf(randomModel("llama")))), "llama", "WASM");
  const [ids, want] = [TOKENS.slice(0, 6), TOKENS.slice(1, 7)].map((x) => new Tensor(Int32Array.from(x)));
  const loss = () => decoder.forward(ids).crossEntropy(want);
  for (const name of ["token_embd", "blk.0.attn_q", "blk.2.ffn_norm"]) {
    const w = decoder.weights.get(`${name}.weight`)!.memory;
    w.requiresGrad = true;
    Tensor.train(() => loss().backward());
    const grad = w.grad!, direction = grad.div(grad.square().sum().sqrt()).detach().realize(), h = 0.01;
    const before = w.clone().detach().realize(),
      at = async (k: number) => {
        w.assign(before.add(direction.mul(k * h))).realize();
        return await Tensor.noGrad(loss).item();
      };
    const slope = (await at(1) - await at(-1)) / (2 * h), size = await grad.square().sum().sqrt().item();
    w.assign(before).realize();
    w.requiresGrad = false;
    w.grad = undefined;
    assert.ok(size > 1e-4 && Math.abs(slope / size - 1) < 0.02, `${name}: ${slope}, gradient ${size}`);
  }
});

Deno.test("training: the example learns, goes on where it stopped, and leaves files that load alike", async () => {
  await inFolder(async (folder) => {
    const text = `${folder}/text.txt`,
      run = async (out: string, ...args: string[]) => {
        const all = [
          "run",
          "-A",
          "--no-check",
          "examples/train_llm.ts",
          text,
          "--out",
          `${folder}/${out}`,
          "--size",
          "tiny",
        ];
        const { code, stdout, stderr } = await runDeno([
          ...all,
          "--device",
          "WASM",
          "--every",
          "20",
          "--lr",
          "0.02",
          ...args,
        ]);
        assert.equal(code, 0, stdout + stderr);
        return [...stdout.matchAll(/^step (\d+) {2}loss ([\d.]+) {2}held ([\d.]+)/gm)].map((m) =>
          m.slice(1).map(Number)
        );
      };
    Deno.writeTextFileSync(text, "the cat sat on the mat and the dog sat on the log.\n".repeat(200));
    const rows = await run("a", "--steps", "40");
    assert.deepEqual(rows.map(([step]) => step), [20, 40]);
    assert.ok(rows[0][1] < 3 && rows[1][2] < 0.8 && rows[1][2] < rows[0][2] / 2, JSON.stringify(rows));
    assert.deepEqual((await run("a", "--steps", "60", "--resume")).map(([step]) => step), [60]);
    assert.equal(Deno.readTextFileSync(`${folder}/a/log.csv`).trim().split("\n").length, 4);
    assert.match(Deno.readTextFileSync(`${folder}/a/curves.svg`), /^<svg[^]*heldLoss/);
    using gguf = await LanguageModel.load(`${folder}/a/model.gguf`, { device: "WASM" });
    using other = await LanguageModel.load(`${folder}/a/huggingface`, { device: "WASM" });
    const ids = gguf.tokenizer.encode("the cat sat");
    assert.deepEqual(other.tokenizer.encode("the cat sat"), ids);
    const [a, b] = await Promise.all(
      [gguf, other].map((m) => m.decoder.forward(new Tensor(Int32Array.from(ids))).data()),
    );
    (a as Float32Array).forEach((x, i) => assert.ok(Math.abs(x - Number(b[i])) < 0.05, `${x}, ${b[i]}`));
    assert.match((await gguf.complete("the cat sat on", { maxTokens: 12 })).text, /^ the /);
  });
});

Deno.test("training: the model in the repository knows its text", async () => {
  const path = new URL("../../examples/models/kjv5m-q4_k_m.gguf", import.meta.url);
  using model = await LanguageModel.load(path, { device: "WASM", context: 64 });
  const loss = async (words: readonly string[]): Promise<number> => {
    const ids = Int32Array.from(model.tokenizer.encode(words.join(" "), { add: false })), x = new Tensor(ids);
    return await model.decoder.forward(x.at([0, -1])).crossEntropy(x.at([1, null])).item();
  };
  const text =
    "And the earth was without form, and void; and darkness was upon the face of the deep. And the Spirit of " +
    "God moved upon the face of the waters.\nAnd God said, Let there be light: and there was light.";
  // tokens are of 2048: by chance it would be 7.6
  const words = text.split(" "), known = await loss(words), backwards = await loss([...words].reverse());
  assert.ok(known < 3 && backwards > known + 1.5, `${known}, backwards ${backwards}`);
});

Deno.test("training: adapters learn what the model has not, and can be merged, written, and taken off", async () => {
  const load = async () =>
    await LanguageModel.load(new Tensor(await encodeGguf(quantizeModel(await readGguf(STORIES), "Q8_0"))), {
      device: "WASM",
      context: 48,
    });
  using model = await load();
  const story = (m: LanguageModel) => m.complete("Once upon a time", { maxTokens: 8 });
  const plain = (await story(model)).text,
    adapters = lora(model, { rank: 4, targets: ["attn_v", "ffn_down"] });
  assert.equal((await story(model)).text, plain);
  const params = Object.values(adapters.parameters), optimizer = new nn.optim.Adam(params, { lr: 0.05 });
  const ids = model.tokenizer.encode("Once upon a time zebras ate big red cakes."),
    x = new Tensor(Int32Array.from(ids));
  const step = jit(() =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = model.decoder.forward(x.at([0, -1])).crossEntropy(x.at([1, null]));
      loss.backward();
      optimizer.step();
      return loss.detach();
    })
  );
  const first = await step().item();
  for (let i = 0; i < 80; i++) step();
  const after = await step().item();
  assert.ok(first > 2 && after < 0.2, `${first} to ${after}`);
  model.reset();
  const learned = (await story(model)).text;
  assert.ok(" zebras ate big red cakes.".startsWith(learned), learned);
  const written = await encodeGguf(adapters.contents());
  using again = await load();
  loadLora(again, await readGguf(new Tensor(written)));
  assert.equal((await story(again)).text, learned);
  assert.throws(() => lora(model, { rank: 2 }), /it has adapters already; merge them or detach them first/);
  adapters.detach();
  assert.equal((await story(model)).text, plain);
  loadLora(model, await readGguf(new Tensor(written))).merge();
  assert.equal((await story(model)).text, learned);
  assert.equal(model.decoder.file().tensors.get("blk.0.attn_v.weight")!.format.name, "F32");
  assert.equal(model.decoder.file().tensors.get("blk.0.attn_k.weight")!.format.name, "Q8_0");
  assert.throws(() => lora(model, { targets: ["attn_x"] }), /it has no weights "attn_x"; targets may be attn_q/);
  assert.throws(() => loadLora(model, model.decoder.file()), /it holds no adapters/);
});
