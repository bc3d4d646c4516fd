/**
 * Small encoders with random weights, and the texts that they are asked about. @module
 */
import { Tensor } from "../../mod.ts";
import { type GgufContents, type GgufInput, typed } from "../../src/llm/llm.ts";
import { Random } from "../support/random.ts";

/** Texts for encoders, of the letters in their vocabulary. */
export const ENCODED: readonly string[] = ["abc", "a", "cab dab bad", "d c b a abba", "abcd ".repeat(9)];

const DIM = 32, HEADS = 4, FFN = 48, CONTEXT = 64;
const LETTERS = [..."abcdefgh"];
const VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ...LETTERS.map((c) => `▁${c}`), ...LETTERS, "▁ab", "ba"];

/** Encoders by name: architecture, how texts are pooled, whether positions are turned. */
export const ENCODER_VARIANTS: Readonly<Record<string, { architecture: string; pooling: number }>> = {
  bert: { architecture: "bert", pooling: 1 },
  "bert by its first token": { architecture: "bert", pooling: 2 },
  "nomic-bert": { architecture: "nomic-bert", pooling: 1 },
};

/** The contents of the file of an encoder. */
export function randomEncoder(name: string): GgufContents {
  const { architecture: arch, pooling } = ENCODER_VARIANTS[name], r = new Random(23), nomic = arch === "nomic-bert";
  const tensors: Record<string, Tensor> = {},
    put = (key: string, shape: number[], size: number, center = 0): void => {
      const n = shape.reduce((a, b) => a * b, 1);
      const values = Float32Array.from({ length: n }, () => center + size * (2 * r.int(0, 1 << 20) / (1 << 20) - 1));
      tensors[key] = new Tensor(values, { device: "WASM" }).reshape(shape);
    };
  const matrix = (key: string, m: number, n: number) => {
    put(`${key}.weight`, [m, n], 1.6 / Math.sqrt(n));
    if (!nomic) put(`${key}.bias`, [m], 0.3);
  };
  const norm = (key: string) => {
    put(`${key}.weight`, [DIM], 0.4, 1);
    put(`${key}.bias`, [DIM], 0.2);
  };
  put("token_embd.weight", [VOCAB.length, DIM], 0.8);
  put("token_types.weight", [2, DIM], 0.3);
  if (!nomic) put("position_embd.weight", [CONTEXT, DIM], 0.5);
  norm("token_embd_norm");
  for (let i = 0; i < 2; i++) {
    const at = `blk.${i}.`;
    if (nomic) matrix(`${at}attn_qkv`, 3 * DIM, DIM);
    else for (const key of ["attn_q", "attn_k", "attn_v"]) matrix(at + key, DIM, DIM);
    matrix(`${at}attn_output`, DIM, DIM);
    norm(`${at}attn_output_norm`);
    if (nomic) matrix(`${at}ffn_gate`, FFN, DIM);
    matrix(`${at}ffn_up`, FFN, DIM);
    matrix(`${at}ffn_down`, DIM, FFN);
    norm(`${at}layer_output_norm`);
  }
  const own: Record<string, GgufInput> = {
    block_count: 2,
    context_length: CONTEXT,
    embedding_length: DIM,
    feed_forward_length: FFN,
    "attention.head_count": HEADS,
    "attention.layer_norm_epsilon": typed("float32", 1e-12),
    "attention.causal": false,
    pooling_type: pooling,
    "rope.freq_base": typed("float32", 1000),
  };
  const at = "tokenizer.ggml.",
    metadata: Record<string, GgufInput> = {
      "general.architecture": arch,
      "general.name": name,
      ...Object.fromEntries(Object.entries(own).map(([key, value]) => [`${arch}.${key}`, value])),
      [`${at}model`]: "bert",
      [`${at}tokens`]: VOCAB,
      [`${at}token_type`]: typed("int32", VOCAB.map((_, i) => i < 4 ? 3 : 1)),
      [`${at}token_type_count`]: 2,
      [`${at}unknown_token_id`]: 1,
      [`${at}cls_token_id`]: 2,
      [`${at}bos_token_id`]: 2,
      [`${at}seperator_token_id`]: 3,
      [`${at}padding_token_id`]: 0,
    };
  return { metadata, tensors };
}
