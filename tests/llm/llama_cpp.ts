/**
 * llama.cpp's own libraries, of npm's `@node-llama-cpp/linux-x64` (MIT), through FFI: the oracle of the language model
 * tests. It runs where the package can be fetched: `deno run -A tests/llm/llama_cpp.ts blocks` checks all block formats
 * on random bytes, `... errors` how far quantized numbers are off, `... logits` our decoders on small random models; `--write` also writes what the suite reads, in
 * tests/llm/fixtures.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import {
  BLOCK_FORMATS,
  dequantize,
  EmbeddingModel,
  encodeGguf,
  type FormatName,
  LanguageModel,
  lora,
  quantize,
  QUANTIZED,
  quantizeModel,
  readGguf,
  writeGguf,
} from "../../src/llm/llm.ts";
import { Tensor } from "../../mod.ts";
import { Random } from "../support/random.ts";
import { hashOf } from "./hash_of.ts";
import { ourLogits } from "./our_logits.ts";
import { quantizationError, samples, SEARCHED } from "./quantization_error.ts";
import { shortest } from "./random_texts.ts";
import { ENCODED, ENCODER_VARIANTS, randomEncoder } from "./random_encoders.ts";
import { randomModel, TOKENS, VARIANTS } from "./random_models.ts";
import { FUZZED, fuzzHash, fuzzText, hashes, isBeyond, TEXTS, tokenizerOf, VOCABULARIES } from "./vocabularies.ts";

const LIBRARY: string = "npm:@node-llama-cpp/linux-x64@3.22.1";

/** The folder of the libraries. Throws where the package cannot be fetched. */
export async function libraries(): Promise<string> {
  const { getBinsDir } = await import(LIBRARY) as { getBinsDir: () => { binsDir: string } };
  return `${getBinsDir().binsDir}/linux-x64`;
}

/** How ggml calls a format in its functions. */
function ggmlName(name: FormatName): string {
  return name.toLowerCase().replace(/_k$/, "_K").replace(/^iq(\d)(xxs|xs|s|m|nl)$/, "iq$1_$2");
}

/** A function `(in, out, count)` of libggml-base. */
function rowFunction(folder: string, name: string): (from: Uint8Array, to: Uint8Array, count: number) => void {
  const parameters = ["buffer", "buffer", "i64"] as const;
  const { symbols } = Deno.dlopen(`${folder}/libggml-base.so`, { [name]: { parameters, result: "void" } } as const);
  return (from, to, count) => {
    symbols[name](from as Uint8Array<ArrayBuffer>, to as Uint8Array<ArrayBuffer>, BigInt(count));
  };
}

function random(n: number): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(n);
  for (let i = 0; i < n; i += 65536) crypto.getRandomValues(out.subarray(i, i + 65536));
  return out;
}

/** Compares all formats on `count` random blocks each. Gives cases for the suite. */
async function checkBlocks(count: number): Promise<Record<string, unknown>> {
  const folder = await libraries(), cases: Record<string, unknown> = {};
  for (const format of BLOCK_FORMATS.values()) {
    if (format.plain !== undefined) continue;
    const read = rowFunction(folder, `dequantize_row_${ggmlName(format.name)}`), n = count * format.elements;
    const raw = random(count * format.nbytes), want = new Float32Array(n);
    read(raw, new Uint8Array(want.buffer), n);
    const got = await dequantize(new Tensor(raw).reshape([1, raw.length]), format).data() as Float32Array;
    const bad = want.findIndex((x, i) => !(Object.is(x, got[i]) || x === 0 && got[i] === 0));
    if (bad >= 0) throw new Error(`${format.name}: element ${bad} is ${got[bad]}, not ${want[bad]}`);
    const kept: number[] = [], values: number[] = [];
    for (let i = 0; i < count && kept.length < 2 * format.nbytes; i++) {
      const part = want.subarray(i * format.elements, (i + 1) * format.elements);
      if (!part.every(Number.isFinite)) continue;
      kept.push(...raw.subarray(i * format.nbytes, (i + 1) * format.nbytes));
      values.push(...part);
    }
    const row: Record<string, unknown> = {
      raw: btoa(String.fromCharCode(...kept)),
      first: values.slice(0, 4),
      hash: hashOf(new Float32Array(values)),
    };
    if (QUANTIZED.includes(format.name) && !SEARCHED.includes(format.name)) {
      const write = rowFunction(folder, `quantize_row_${ggmlName(format.name)}_ref`);
      const x = Float32Array.from({ length: n }, (_, i) => i < 64 ? 0 : (Math.random() * 2 - 1) * 10 ** (i % 7 - 3));
      const packed = new Uint8Array(count * format.nbytes);
      write(new Uint8Array(x.buffer), packed, n);
      const ours = quantize(x, format.name), at = packed.findIndex((b, i) => b !== ours[i]);
      if (at >= 0) throw new Error(`${format.name}: byte ${at} written is ${ours[at]}, not ${packed[at]}`);
      const y = Float32Array.from({ length: 96 }, (_, i) => Math.fround(Math.sin(i * i) * (i % 5)));
      const bytes = new Uint8Array(3 * format.nbytes);
      write(new Uint8Array(y.buffer), bytes, 96);
      row.written = btoa(String.fromCharCode(...bytes));
    }
    cases[format.name] = row;
    console.log(`${format.name}: ${n} elements are equal`);
  }
  return cases;
}

/** The errors of ggml's own blocks where scales are searched, and how ours compare. */
async function checkErrors(): Promise<Record<string, unknown>> {
  const folder = await libraries(), cases: Record<string, Record<string, number>> = {};
  for (const name of SEARCHED) {
    const write = rowFunction(folder, `quantize_row_${ggmlName(name)}_ref`), { nbytes } = BLOCK_FORMATS.get(name)!;
    cases[name] = {};
    for (const [kind, x] of Object.entries(samples())) {
      const packed = new Uint8Array(x.length / 256 * nbytes);
      write(new Uint8Array(x.buffer), packed, x.length);
      const theirs = await quantizationError(x, packed, name),
        ours = await quantizationError(x, quantize(x, name), name);
      console.log(`${name}, ${kind}: error ${ours.toFixed(5)}, ggml's ${theirs.toFixed(5)}`);
      cases[name][kind] = Number(theirs.toFixed(6));
    }
  }
  return cases;
}

/** A struct that is passed by value: its words. */
const words = (nbytes: number) => ({ struct: Array(nbytes / 8).fill("u64") as "u64"[] });
const MODEL_PARAMS = 80, CONTEXT_PARAMS = 160, BATCH = 56;
const SYMBOLS = {
  llama_backend_init: { parameters: [], result: "void" },
  llama_log_set: { parameters: ["pointer", "pointer"], result: "void" },
  llama_model_default_params: { parameters: [], result: words(MODEL_PARAMS) },
  llama_context_default_params: { parameters: [], result: words(CONTEXT_PARAMS) },
  llama_model_load_from_file: { parameters: ["buffer", words(MODEL_PARAMS)], result: "pointer" },
  llama_init_from_model: { parameters: ["pointer", words(CONTEXT_PARAMS)], result: "pointer" },
  llama_batch_get_one: { parameters: ["buffer", "i32"], result: words(BATCH) },
  llama_decode: { parameters: ["pointer", words(BATCH)], result: "i32" },
  llama_get_logits_ith: { parameters: ["pointer", "i32"], result: "pointer" },
  llama_model_get_vocab: { parameters: ["pointer"], result: "pointer" },
  llama_vocab_n_tokens: { parameters: ["pointer"], result: "i32" },
  llama_tokenize: { parameters: ["pointer", "buffer", "i32", "buffer", "i32", "bool", "bool"], result: "i32" },
  llama_vocab_is_eog: { parameters: ["pointer", "i32"], result: "bool" },
  llama_token_to_piece: { parameters: ["pointer", "i32", "buffer", "i32", "i32", "bool"], result: "i32" },
  llama_adapter_lora_init: { parameters: ["pointer", "buffer"], result: "pointer" },
  llama_set_adapters_lora: { parameters: ["pointer", "buffer", "usize", "buffer"], result: "i32" },
  llama_set_embeddings: { parameters: ["pointer", "bool"], result: "void" },
  llama_get_embeddings_seq: { parameters: ["pointer", "i32"], result: "pointer" },
  llama_free: { parameters: ["pointer"], result: "void" },
  llama_model_free: { parameters: ["pointer"], result: "void" },
} as const;

/** libllama. */
export class LlamaCpp {
  private constructor(private readonly lib: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"]) {}

  /** Loads it. Its messages are dropped. */
  static async open(): Promise<LlamaCpp> {
    const folder = await libraries();
    const ggml = Deno.dlopen(
      `${folder}/libggml.v0.5.0.so`,
      {
        ggml_backend_load_all_from_path: { parameters: ["buffer"], result: "void" },
      } as const,
    );
    const { symbols } = Deno.dlopen(`${folder}/libllama.v0.5.0.so`, SYMBOLS);
    const drop = new Deno.UnsafeCallback(
      { parameters: ["i32", "pointer", "pointer"], result: "void" } as const,
      () => {},
    );
    symbols.llama_log_set(drop.pointer, null);
    ggml.symbols.ggml_backend_load_all_from_path(cText(folder));
    symbols.llama_backend_init();
    return new LlamaCpp(symbols);
  }
  private load(path: string, vocabularyOnly: boolean): Deno.PointerObject {
    const params = this.lib.llama_model_default_params();
    params[72] = vocabularyOnly ? 1 : 0;
    const model = this.lib.llama_model_load_from_file(cText(path), params);
    if (model === null) throw new Error(`llama.cpp does not load ${path}`);
    return model;
  }

  /** Puts adapters of a file beside the weights. */
  private adapt(model: Deno.PointerObject, context: Deno.PointerObject, path: string): void {
    const adapter = this.lib.llama_adapter_lora_init(model, cText(path));
    if (adapter === null) throw new Error(`llama.cpp does not load ${path}`);
    const list = BigUint64Array.of(Deno.UnsafePointer.value(adapter));
    this.lib.llama_set_adapters_lora(
      context,
      new Uint8Array(list.buffer),
      1n,
      new Uint8Array(Float32Array.of(1).buffer),
    );
  }

  /** The logits behind each of `tokens`, given one by one; keys and values are float32. */
  logits(path: string, tokens: readonly number[], adapters?: string): Float32Array[] {
    const { lib } = this, model = this.load(path, false), params = lib.llama_context_default_params();
    const view = new DataView(params.buffer, params.byteOffset);
    for (const at of [0, 4, 8]) view.setUint32(at, 64, true); // context, batches
    view.setInt32(28, 1, true);
    view.setInt32(32, 1, true);
    view.setInt32(52, 0, true); // no flash attention
    view.setInt32(104, 0, true);
    view.setInt32(108, 0, true);
    const context = lib.llama_init_from_model(model, params);
    if (context === null) throw new Error(`llama.cpp makes no context for ${path}`);
    if (adapters !== undefined) this.adapt(model, context, adapters);
    const n = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model));
    const out = tokens.map((t) => {
      const token = Int32Array.of(t), failed = lib.llama_decode(context, lib.llama_batch_get_one(token, 1));
      if (failed !== 0) throw new Error(`llama_decode says ${failed}`);
      const values = new Float32Array(n), pointer = lib.llama_get_logits_ith(context, -1)!;
      new Deno.UnsafePointerView(pointer).copyInto(values);
      return values;
    });
    lib.llama_free(context);
    lib.llama_model_free(model);
    return out;
  }

  /** The pooled vectors, of `dim` elements, of texts of tokens. */
  embeddings(path: string, texts: readonly (readonly number[])[], dim: number): Float32Array[] {
    const { lib } = this, model = this.load(path, false);
    const out = texts.map((tokens) => {
      const context = lib.llama_init_from_model(model, lib.llama_context_default_params());
      if (context === null) throw new Error(`llama.cpp makes no context for ${path}`);
      lib.llama_set_embeddings(context, true);
      const ids = Int32Array.from(tokens), failed = lib.llama_decode(context, lib.llama_batch_get_one(ids, ids.length));
      if (failed !== 0) throw new Error(`llama_decode says ${failed}`);
      const values = new Float32Array(dim);
      new Deno.UnsafePointerView(lib.llama_get_embeddings_seq(context, 0)!).copyInto(values);
      lib.llama_free(context);
      return values;
    });
    lib.llama_model_free(model);
    return out;
  }

  /** What makes ids of texts, with the vocabulary of a file. */
  tokenizer(path: string): (text: string, special: boolean, add: boolean) => number[] {
    const { lib } = this, vocabulary = lib.llama_model_get_vocab(this.load(path, true));
    return (text, special, add) => {
      const bytes = new TextEncoder().encode(text), out = new Int32Array(bytes.length + 16);
      const n = lib.llama_tokenize(vocabulary, cText(text), bytes.length, out, out.length, add, special);
      if (n < 0) throw new Error(`llama_tokenize says ${n}`);
      return [...out.subarray(0, n)];
    };
  }

  /** Whether tokens end a text, of the vocabulary of a file. */
  ends(path: string): (id: number) => boolean {
    const { lib } = this, vocabulary = lib.llama_model_get_vocab(this.load(path, true));
    return (id) => lib.llama_vocab_is_eog(vocabulary, id);
  }

  /** The bytes of tokens, of the vocabulary of a file. */
  pieces(path: string): (id: number) => Uint8Array {
    const { lib } = this, vocabulary = lib.llama_model_get_vocab(this.load(path, true)), out = new Uint8Array(4096);
    return (id) => out.slice(0, lib.llama_token_to_piece(vocabulary, id, out, out.length, 0, true));
  }
}

function cText(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text + "\0");
}

/** The logits of llama.cpp for all random models, and how far ours are from them. */
async function checkLogits(only: RegExp): Promise<Record<string, unknown>> {
  const llama = await LlamaCpp.open(), cases: Record<string, unknown> = {};
  const folder = await Deno.makeTempDir();
  for (const name of Object.keys(VARIANTS)) {
    if (!only.test(name)) continue;
    const path = `${folder}/model.gguf`;
    await writeGguf(path, randomModel(name));
    try {
      const want = llama.logits(path, TOKENS), got = await ourLogits(await readGguf(path), name, "CLANG");
      const far = want.map((w, i) => Math.max(...w.map((x, k) => Math.abs(x - got[i][k]))));
      console.log(
        `${name}: logits to ${Math.max(...want[0]).toFixed(3)}, furthest ${Math.max(...far).toExponential(1)}`,
      );
      cases[name] = want.map((w) => [...w.subarray(0, 6)].map((x) => Number(x.toFixed(5))));
    } catch (error) {
      console.log(`${name}: ${String(error).slice(0, 300)}`);
    }
  }
  await Deno.remove(folder, { recursive: true });
  return cases;
}

/** Whether llama.cpp loads what we quantize, and computes the same with it; its activations have eight bits there. */
async function checkMixes(): Promise<Record<string, unknown>> {
  const llama = await LlamaCpp.open(), folder = await Deno.makeTempDir(), path = `${folder}/model.gguf`;
  const plain = new Tensor(await encodeGguf(randomModel("llama of whole super-blocks")));
  for (const mix of ["Q8_0", "Q4_0", "Q5_1", "Q6_K", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M"] as const) {
    await writeGguf(path, quantizeModel(await readGguf(plain), mix));
    const want = llama.logits(path, TOKENS), got = await ourLogits(await readGguf(path), mix, "CLANG");
    let off = 0, all = 0;
    want.forEach((w, i) => w.forEach((x, k) => [off, all] = [off + (x - got[i][k]) ** 2, all + x * x]));
    const error = Math.sqrt(off / all);
    console.log(`${mix}: ${error.toFixed(4)} of the logits' size apart`);
    if (!(error < 0.04)) throw new Error(`${mix}: logits are not llama.cpp's`);
  }
  await Deno.remove(folder, { recursive: true });
  return {};
}

/** The vectors of llama.cpp for texts by all random encoders, and how far ours are from them. */
async function checkEncoders(): Promise<Record<string, unknown>> {
  const llama = await LlamaCpp.open(), folder = await Deno.makeTempDir(), path = `${folder}/model.gguf`;
  const cases: Record<string, unknown> = {};
  for (const name of Object.keys(ENCODER_VARIANTS)) {
    await writeGguf(path, randomEncoder(name));
    const model = await EmbeddingModel.load(path, { device: "CLANG" }), { dim } = model.encoder.spec;
    const ids = llama.tokenizer(path), tokens = ENCODED.map((text) => ids(text, true, true));
    ENCODED.forEach((text, i) => {
      if (model.tokenizer.encode(text).join() !== tokens[i].join()) throw new Error(`"${text}" is ${tokens[i]}`);
    });
    const want = llama.embeddings(path, tokens, dim), got = await model.embed(ENCODED, { normalize: false });
    const far = Math.max(...want.flatMap((w, i) => [...w].map((x, k) => Math.abs(x - got[i][k]))));
    console.log(`${name}: elements to ${Math.max(...want[0]).toFixed(3)}, furthest ${far.toExponential(1)}`);
    cases[name] = want.map((w) => [...w.subarray(0, 6)].map((x) => Number(x.toFixed(5))));
  }
  await Deno.remove(folder, { recursive: true });
  return cases;
}

/** Whether llama.cpp computes with the adapters that we write as we do. */
async function checkAdapters(): Promise<Record<string, unknown>> {
  const llama = await LlamaCpp.open(), folder = await Deno.makeTempDir(), stories = "examples/models/stories260K.gguf";
  using model = await LanguageModel.load(stories, { device: "CLANG", context: 64 });
  const adapters = lora(model, { rank: 4, targets: ["attn_q", "attn_v", "ffn_up", "ffn_down"] });
  for (const t of Object.values(adapters.parameters)) {
    t.assign(Tensor.randn(t.shape, { device: t.device }).mul(0.3)).realize();
  }
  await writeGguf(`${folder}/adapter.gguf`, adapters.contents());
  const want = llama.logits(stories, TOKENS, `${folder}/adapter.gguf`).at(-1)!;
  const got =
    (await model.decoder.forward(new Tensor(Int32Array.from(TOKENS), { device: "CLANG" })).data() as Float32Array)
      .subarray(-want.length);
  const far = Math.max(...want.map((x, i) => Math.abs(x - got[i])));
  console.log(`adapters: logits to ${Math.max(...want).toFixed(3)}, furthest ${far.toExponential(1)}`);
  if (!(far < 1e-3)) throw new Error("logits are not llama.cpp's");
  await Deno.remove(folder, { recursive: true });
  return {};
}

/** Ids of all texts with the small vocabularies: without and with special tokens. */
async function checkTokens(): Promise<Record<string, unknown>> {
  const llama = await LlamaCpp.open(), cases: Record<string, unknown> = {}, folder = await Deno.makeTempDir();
  for (const [name, make] of Object.entries(VOCABULARIES)) {
    const path = `${folder}/${name}.gguf`;
    await writeGguf(path, make());
    const theirs = llama.tokenizer(path), ours = await tokenizerOf(path);
    const rows = TEXTS.map((t) => [theirs(t, false, false), theirs(t, true, true)]);
    let wrong = 0;
    rows.forEach(([plain, special], i) => {
      const got = [ours.encode(TEXTS[i], { add: false }), ours.encode(TEXTS[i], { special: true })];
      if (got[0].join() === plain.join() && got[1].join() === special.join()) return;
      if (wrong++ < 3) {
        console.log(`${name} ${JSON.stringify(TEXTS[i])}: ${got.join(" | ")}, not ${plain} | ${special}`);
      }
    });
    console.log(`${name}: ${wrong} of ${rows.length} texts differ`);
    cases[name] = hashes(rows);
  }
  await Deno.remove(folder, { recursive: true });
  return cases;
}

/** Ids of a llama.cpp tree's golden texts (models/*.inp and *.out) with its vocabularies. */
async function checkGoldens(models: string): Promise<Record<string, unknown>> {
  for (const { name } of Deno.readDirSync(models)) {
    if (!name.endsWith(".gguf.inp")) continue;
    const path = `${models}/${name.slice(0, -4)}`, ours = await tokenizerOf(path);
    const texts = Deno.readTextFileSync(`${path}.inp`).split("\n__ggml_vocab_test__\n");
    const want = Deno.readTextFileSync(`${path}.out`).split("\n");
    const wrong = texts.filter((t, i) => ours.encode(t, { add: false }).join(" ") !== want[i].trim());
    console.log(`${name}: ${wrong.length} of ${texts.length} texts differ`);
  }
  return {};
}

/** Ids of random texts, and texts of random ids, with the small vocabularies and those in a folder. */
async function fuzzTokens(
  count: number,
  seed: number,
  only: RegExp,
  models?: string,
): Promise<Record<string, unknown>> {
  const llama = await LlamaCpp.open(), folder = await Deno.makeTempDir(), cases: Record<string, unknown> = {};
  const paths: [name: string, path: string][] = [];
  for (const [name, make] of Object.entries(FUZZED)) {
    if (!only.test(name)) continue;
    paths.push([name, `${folder}/${name}.gguf`]);
    await writeGguf(paths.at(-1)![1], make());
  }
  for (const { name } of models === undefined ? [] : Deno.readDirSync(models)) {
    if (name.endsWith(".gguf") && only.test(name)) paths.push([name, `${models}/${name}`]);
  }
  let all = 0;
  for (const [name, path] of paths) {
    const theirs = llama.tokenizer(path), ours = await tokenizerOf(path), { tokens } = ours.vocabulary;
    const r = new Random(seed);
    const differs = (text: string): boolean =>
      [false, true].some((on) =>
        ours.encode(text, { special: on, add: on }).join() !== theirs(text.toWellFormed(), on, on).join()
      );
    let wrong = 0;
    for (let i = 0; i < count; i++) {
      const text = fuzzText(r, ours);
      if (isBeyond(name, text) || !differs(text) || wrong++ >= 5) continue;
      const least = shortest(text, differs),
        on = ours.encode(least, { add: false }).join() === theirs(least.toWellFormed(), false, false).join();
      const [a, b] = [ours.encode(least, { special: on, add: on }), theirs(least.toWellFormed(), on, on)];
      const told = (ids: readonly number[]) => ids.map((id) => `${id} ${JSON.stringify(tokens[id])}`).join(", ");
      const points = Array.from(least, (c) => c.codePointAt(0)!.toString(16)).join(" ");
      console.log(`${name} ${JSON.stringify(least)} (${points}): ${told(a)}; not ${told(b)}`);
    }
    const pieces = llama.pieces(path), isEnd = llama.ends(path);
    const bad = tokens.findIndex((_, id) => {
      const bytes = pieces(id), isOdd = new TextDecoder().decode(bytes).startsWith("[UNK_BYTE"); // characters that are no bytes
      return !isOdd && ours.bytesOf(id, true).join() !== bytes.join();
    });
    const end = tokens.findIndex((_, id) => ours.isEnd(id) !== isEnd(id));
    if (end >= 0) console.log(`${name}: token ${end} ${tokens[end]} ends a text: ${isEnd(end)}`);
    if (bad >= 0) console.log(`${name}: token ${bad} ${tokens[bad]} is ${ours.bytesOf(bad, true)}, not ${pieces(bad)}`);
    console.log(`${name}: ${wrong} of ${count} texts differ`);
    if (name in FUZZED) cases[name] = fuzzHash(name, ours, (text, on) => theirs(text.toWellFormed(), on, on));
    all += wrong + (bad >= 0 ? 1 : 0) + (end >= 0 ? 1 : 0);
  }
  await Deno.remove(folder, { recursive: true });
  if (all > 0) throw new Error(`${all} texts or tokens differ`);
  return cases;
}

if (import.meta.main) {
  const { _: [what], write, count, only, models, seed } = parseArgs(Deno.args, {
    boolean: ["write"],
    string: ["count", "only", "models", "seed"],
  });
  const kinds: Readonly<Record<string, () => Promise<Record<string, unknown>>>> = {
    blocks: () => checkBlocks(Number(count ?? 300)),
    errors: checkErrors,
    mixes: checkMixes,
    adapters: checkAdapters,
    encoders: checkEncoders,
    logits: () => checkLogits(new RegExp(only ?? "")),
    tokens: checkTokens,
    fuzz: () => fuzzTokens(Number(count ?? 300), Number(seed ?? 1), new RegExp(only ?? ""), models),
    goldens: () => checkGoldens(models ?? "models"),
  };
  if (kinds[what] === undefined) {
    throw new Error(
      "usage: llama_cpp.ts blocks|errors|mixes|adapters|encoders|logits|tokens|fuzz|goldens [--count N] [--seed N] [--only REGEX] [--models DIR] [--write]",
    );
  }
  const cases = await kinds[what]();
  if (write) {
    const path = new URL(`fixtures/${what}.json`, import.meta.url);
    await Deno.writeTextFile(path, JSON.stringify(cases, null, 1) + "\n");
  }
}
