/**
 * Writing folders as Hugging Face's hub has them: config.json, model.safetensors, tokenizer.json, for Llamas with a
 * tokenizer of byte-level BPE.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { safeBytes } from "../../state/safetensors.ts";
import { pathOf } from "../../state/source.ts";
import { writeFiles } from "../../state/write.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { checkGguf } from "./given_arguments.ts";
import { modelSpec } from "../model/model_spec.ts";
import { TokenKind } from "../text/known_tokens.ts";
import { Metadata, vocabularyOf } from "../text/vocabulary.ts";
import type { Gguf } from "./gguf.ts";
import { HF_VALUES, hfName } from "./hf_names.ts";

const ACTION = "write a folder";

/** Rows of queries and keys in the order of halves, of those in the order of pairs. */
function halvesOf(t: Tensor, heads: number): Tensor {
  const [rows, n] = t.shape;
  return t.reshape([heads, rows / heads / 2, 2, n]).transpose(1, 2).reshape([rows, n]);
}

/** tokenizer.json of a vocabulary of byte-level BPE. */
function tokenizerJson(meta: Metadata): Record<string, unknown> {
  const v = vocabularyOf(meta);
  if (v.kind !== "bpe" || v.pre !== "gpt-2") {
    throw new ArgumentError(ACTION, {
      reason: `the tokenizer is ${v.kind} with "${v.pre}"; written is bpe with "gpt-2"`,
    });
  }
  const special = (id: number) => v.kinds[id] === TokenKind.CONTROL, ids = [...v.tokens.keys()];
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  return {
    version: "1.0",
    added_tokens: ids.filter(special).map((id) => ({ id, content: v.tokens[id], special: true, normalized: false })),
    normalizer: null,
    pre_tokenizer: byteLevel,
    decoder: byteLevel,
    post_processor: null,
    model: {
      type: "BPE",
      vocab: Object.fromEntries(ids.filter((id) => !special(id)).map((id) => [v.tokens[id], id])),
      merges: v.merges,
    },
  };
}

/**
 * Writes a model as a folder that `transformers` and {@linkcode LanguageModel.load} read: float32, or what plain dtype the
 * weights have. Needs write permission.
 *
 * @throws {ArgumentError} for another architecture than llama, or another tokenizer than byte-level BPE
 */
export async function writeHfFolder(path: string | URL, file: Gguf): Promise<void> {
  checkGguf(ACTION, file);
  const folder = pathOf(ACTION, path).replace(/[/\\]$/, ""), meta = new Metadata(file.metadata, folder);
  const spec = modelSpec(file.metadata, folder), { architecture, heads, kvHeads, rope } = spec;
  if (architecture !== "llama" || spec.experts !== undefined) {
    throw new ArgumentError(ACTION, { reason: `the model is ${architecture}; written are Llamas without experts` });
  }
  const tokenizer = tokenizerJson(meta),
    config: Record<string, unknown> = {
      architectures: ["LlamaForCausalLM"],
      model_type: "llama",
      hidden_act: "silu",
      vocab_size: meta.texts("tokenizer.ggml.tokens").length,
      tie_word_embeddings: !file.tensors.has("output.weight"),
      rope_theta: rope.base,
      head_dim: spec.headDim,
    };
  for (const [hf, gguf] of HF_VALUES) {
    if (meta.has(`llama.${gguf}`)) config[hf] = meta.number(`llama.${gguf}`);
  }
  const { begin, end, tokens } = vocabularyOf(meta),
    settings: Record<string, unknown> = {
      tokenizer_class: "PreTrainedTokenizerFast",
      add_bos_token: true,
      ...begin === undefined ? {} : { bos_token: tokens[begin] },
      ...end === undefined ? {} : { eos_token: tokens[end] },
    };
  const dict: Record<string, Tensor> = {};
  for (const [name, t] of file.tensors) {
    const known = hfName(name),
      w = t.load(),
      count = /attn_q\./.test(name) ? heads : /attn_k\./.test(name) ? kvHeads : 0;
    if (known === undefined) throw new ArgumentError(ACTION, { reason: `the weight "${name}" has no name there` });
    dict[known] = (count > 0 && rope.kind === "pairs" ? halvesOf(w, count) : w).contiguous();
  }
  const utf8 = new TextEncoder(), json = (x: unknown) => utf8.encode(JSON.stringify(x, null, 1) + "\n");
  const files = {
    "config.json": json({ ...config, bos_token_id: begin, eos_token_id: end }),
    "tokenizer_config.json": json(settings),
    "tokenizer.json": json(tokenizer),
    "model.safetensors": await safeBytes(dict, { metadata: { format: "pt" } }),
  };
  await writeFiles(Object.entries(files).map(([name, bytes]) => [`${folder}/${name}`, async (to) => await to(bytes)]));
}
