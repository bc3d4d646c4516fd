/**
 * A Llama that has learned nothing yet: random weights and the metadata of its file. It is trained by
 * `Decoder.forward`, as every model that was loaded can be.
 *
 * @module
 */
import type { DeviceName } from "../../device/device.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { checkInteger, checkOptions } from "../../helpers/options.ts";
import { Tensor } from "../../tensor/tensor.ts";
import type { Gguf, GgufTensor } from "../files/gguf.ts";
import { type GgufInput, typed } from "../files/gguf_write.ts";
import { entriesOf, plainTensor } from "../files/llama2c.ts";

/** The sizes of a Llama. */
export interface LlamaShape {
  /** How many blocks follow each other. */
  readonly layers: number;
  /** Elements of an embedding. */
  readonly dim: number;
  /** Of queries: a divisor of `dim`. */
  readonly heads: number;
  /** Of keys and values: a divisor of `heads`, and those unless given. */
  readonly kvHeads?: number;
  /** Inner elements of the feed-forward; 8/3 of `dim`, rounded up to 32, unless given. */
  readonly ffn?: number;
  /** How many tokens a text may have. */
  readonly context: number;
  /** What angles of positions are made of; 10000 unless given. */
  readonly ropeBase?: number;
}

const ACTION = "make a Llama";

/**
 * Random weights: normal with a deviation of 0.02, that of what is added to the residual stream smaller with depth (GPT-2).
 * The embedding is also the output. `tokenizer` are the values of a vocabulary, as `trainBpe` gives them.
 *
 * @throws {ArgumentError} for sizes that do not fit each other
 */
export function newLlama<N extends string = string>(
  shape: LlamaShape,
  tokenizer: Readonly<Record<string, GgufInput>>,
  options: { readonly name?: string; readonly device?: DeviceName<N> } = {},
): Gguf {
  const sizes = checkOptions(ACTION, shape, ["layers", "dim", "heads", "kvHeads", "ffn", "context", "ropeBase"]);
  checkOptions(ACTION, options, ["name", "device"]);
  const { layers, dim, heads, context, kvHeads = heads, ropeBase = 10000 } = sizes;
  for (const [name, n] of Object.entries({ layers, dim, heads, kvHeads, context })) checkInteger(ACTION, name, n, 1);
  if (dim % (2 * heads) !== 0 || heads % kvHeads !== 0) {
    throw new ArgumentError(ACTION, {
      reason: `${dim} elements do not make ${heads} heads of an even size, or ${kvHeads} do not divide those`,
    });
  }
  const ffn = shape.ffn ?? Math.ceil(dim * 8 / 3 / 32) * 32, kv = dim / heads * kvHeads;
  checkInteger(ACTION, "ffn", ffn, 1);
  const tokens = Object(tokenizer)["tokenizer.ggml.tokens"] as GgufInput | undefined,
    { device, name = "llama" } = options;
  if (!Array.isArray(tokens)) throw new ArgumentError(ACTION, { reason: "the tokenizer has no tokens" });
  const tensors = new Map<string, GgufTensor>(), where = device === undefined ? {} : { device };
  const put = (key: string, t: Tensor) => tensors.set(key, plainTensor(key, t.contiguous().realize(), t.device));
  const matrix = (key: string, m: number, n: number, deviation = 0.02) =>
    put(`${key}.weight`, Tensor.randn([m, n], where).mul(deviation));
  matrix("token_embd", tokens.length, dim);
  put("output_norm.weight", Tensor.ones([dim], where));
  for (let i = 0; i < layers; i++) {
    const at = `blk.${i}.`, added = 0.02 / Math.sqrt(2 * layers);
    put(`${at}attn_norm.weight`, Tensor.ones([dim], where));
    matrix(`${at}attn_q`, dim, dim);
    matrix(`${at}attn_k`, kv, dim);
    matrix(`${at}attn_v`, kv, dim);
    matrix(`${at}attn_output`, dim, dim, added);
    put(`${at}ffn_norm.weight`, Tensor.ones([dim], where));
    matrix(`${at}ffn_gate`, ffn, dim);
    matrix(`${at}ffn_up`, ffn, dim);
    matrix(`${at}ffn_down`, dim, ffn, added);
  }
  const counts = {
    block_count: layers,
    context_length: context,
    embedding_length: dim,
    feed_forward_length: ffn,
    "attention.head_count": heads,
    "attention.head_count_kv": kvHeads,
    "rope.dimension_count": dim / heads,
    vocab_size: tokens.length,
  };
  const metadata = entriesOf({
    "general.architecture": "llama",
    "general.name": name,
    ...Object.fromEntries(Object.entries(counts).map(([key, n]) => [`llama.${key}`, typed("uint32", n)])),
    "llama.attention.layer_norm_rms_epsilon": typed("float32", 1e-5),
    "llama.rope.freq_base": typed("float32", ropeBase),
    ...tokenizer,
  });
  return { version: 0, metadata, tensors };
}
