/**
 * Folders as Hugging Face's hub has them: config.json, one or several safetensors files, tokenizer.json. They are read as
 * if they were a GGUF file; weights stay in their files until they are used.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { FILES } from "../../device/files.ts";
import { fileErrorCode, hostFiles, NO_FILES } from "../../device/host_files.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { FormatError } from "../../helpers/errors.ts";
import { pathOf, placeOf, type PlaceOptions } from "../../state/source.ts";
import { safeLoad } from "../../state/safetensors.ts";
import { Tensor } from "../../tensor/tensor.ts";
import type { Gguf, GgufTensor } from "./gguf.ts";
import { type GgufInput, typed } from "./gguf_write.ts";
import { ggufName, HF_ARCHITECTURES, HF_VALUES, NORMS_WITHOUT_ONE } from "./hf_names.ts";
import { entriesOf, plainTensor } from "./llama2c.ts";
import { ARCHITECTURES } from "../model/model_spec.ts";
import { type JsonObject, tokenizerValues } from "./tokenizer_json.ts";

function readJson(folder: string, name: string, needed: true): JsonObject;
function readJson(folder: string, name: string, needed: boolean): JsonObject | undefined;
function readJson(folder: string, name: string, needed: boolean): JsonObject | undefined {
  const files = hostFiles(),
    path = `${folder}/${name}`,
    bad = (reason: string) => new FormatError("load", { file: path, reason });
  if (files === undefined) throw bad(NO_FILES);
  let text: string;
  try {
    text = files.readTextFileSync(path);
  } catch (error) {
    if (fileErrorCode(error) !== "ENOENT") throw error;
    if (needed) throw bad("the folder has no such file");
    return undefined;
  }
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  } catch (error) {
    throw bad(`it is no JSON (${(error as Error).message})`);
  }
  throw bad("it is no JSON object");
}

/** Rows of queries and keys in the order of pairs, as GGUF files have them, of those in the order of halves. */
function pairsOf(t: Tensor, heads: number): Tensor {
  const [rows, ...rest] = t.shape;
  if (rows % (2 * heads) !== 0) return t; // what is wrong with it is told where it is used
  return t.reshape([heads, 2, rows / heads / 2, ...rest]).transpose(1, 2).reshape(t.shape).contiguous();
}

/** What divides the angles of pairs in Llama 3.1 and later: slow ones by the factor, fast ones by 1. */
function llama3Factors(scaling: JsonObject, base: number, headDim: number): Float32Array<ArrayBuffer> {
  const of = (key: string, fallback: number) => typeof scaling[key] === "number" ? scaling[key] as number : fallback;
  const factor = of("factor", 8),
    low = of("low_freq_factor", 1),
    high = of("high_freq_factor", 4),
    old = of("original_max_position_embeddings", 8192);
  return Float32Array.from({ length: headDim / 2 }, (_, i) => {
    const turns = old / (2 * Math.PI * base ** (2 * i / headDim)),
      part = Math.min(1, Math.max(0, (turns - low) / (high - low)));
    return 1 / ((1 - part) / factor + part);
  });
}

/**
 * Reads a folder of Hugging Face's. Needs read permission.
 *
 * @throws {FormatError} for a file that is missing or damaged, or a model that is not known
 */
export async function readHfFolder<N extends string = string>(
  path: string | URL,
  options: Checked<PlaceOptions, N> = {},
): Promise<Gguf> {
  const place = placeOf(options),
    folder = pathOf("load a folder", path).replace(/[/\\]$/, ""),
    file = `${folder}/config.json`;
  const config = readJson(folder, "config.json", true), kind = String(config.model_type), arch = HF_ARCHITECTURES[kind];
  const bad = (reason: string) => new FormatError("load", { file, reason });
  if (arch === undefined || !Object.hasOwn(HF_ARCHITECTURES, kind)) {
    throw bad(`its model_type is "${kind}"; known are ${Object.keys(HF_ARCHITECTURES).join(", ")}`);
  }
  const values: Record<string, GgufInput> = {
    "general.architecture": arch,
    "general.name": folder.split(/[/\\]/).at(-1)!,
  };
  for (const [hf, gguf, type] of HF_VALUES) {
    const value = config[hf];
    if (typeof value === "number") values[`${arch}.${gguf}`] = type === undefined ? value : typed(type, value);
  }
  const headDim = Number(config.head_dim ?? Number(config.hidden_size) / Number(config.num_attention_heads));
  const turned = config.partial_rotary_factor;
  if (typeof turned === "number") values[`${arch}.rope.dimension_count`] = Math.floor(headDim * turned);
  const index = readJson(folder, "model.safetensors.index.json", false);
  const dict = await safeLoad(`${folder}/model.safetensors${index === undefined ? "" : ".index.json"}`, {
    device: FILES,
  });
  const inPairs = ARCHITECTURES[arch].rope === "pairs", heads = Number(config.num_attention_heads);
  /** How many heads have their rows in another order in GGUF files. */
  const turnedHeads = (name: string): number =>
    !inPairs || !/attn_[qk]\.(weight|bias)$/.test(name)
      ? 0
      : name.includes("attn_q")
      ? heads
      : Number(config.num_key_value_heads ?? heads);
  const tensors = new Map<string, GgufTensor>(), tied = config.tie_word_embeddings === true;
  for (const [name, tensor] of Object.entries(dict)) {
    if (tied && name === "lm_head.weight" || name.endsWith(".rotary_emb.inv_freq")) continue;
    const known = ggufName(name, arch);
    if (known === undefined) throw bad(`the weight "${name}" of ${kind} is not known`);
    const plusOne = NORMS_WITHOUT_ONE.has(arch) && /norm\.weight$/.test(known);
    const here = () => tensor.to(place === FILES ? placeOf({}) : place), count = turnedHeads(known);
    const w = plusOne ? here().cast(dtypes.float32).add(1) : count > 0 ? pairsOf(here(), count) : tensor;
    tensors.set(known, plainTensor(known, w, place));
  }
  const scaling = config.rope_scaling as JsonObject | null | undefined, type = scaling?.rope_type ?? scaling?.type;
  if (type === "llama3") {
    const factors = new Tensor(llama3Factors(scaling!, Number(config.rope_theta ?? 10000), headDim), {
      device: place === FILES ? placeOf({}) : place,
    });
    tensors.set("rope_freqs.weight", plainTensor("rope_freqs.weight", factors, place));
  } else if (type === "linear" || type === "yarn") {
    values[`${arch}.rope.scaling.type`] = type;
    values[`${arch}.rope.scaling.factor`] = typed("float32", Number(scaling!.factor));
    const old = scaling!.original_max_position_embeddings;
    if (typeof old === "number") values[`${arch}.rope.scaling.original_context_length`] = old;
  } else if (type !== undefined && type !== "default") {
    throw bad(`its rope_scaling is "${String(type)}"; known are linear, yarn, llama3`);
  }
  const settings = readJson(folder, "tokenizer_config.json", false) ?? {};
  Object.assign(
    values,
    tokenizerValues(readJson(folder, "tokenizer.json", true), settings, config, `${folder}/tokenizer.json`),
  );
  return { version: 0, metadata: entriesOf(values), tensors };
}
