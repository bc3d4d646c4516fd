/**
 * Models of llama2.c (https://github.com/karpathy/llama2.c): one file of float32 weights behind seven numbers, and one of
 * tokens with scores. They are read as if they were a GGUF file.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { FILES } from "../../device/files.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { prod } from "../../helpers/math.ts";
import { isInMemory, type Loadable, placeOf, type PlaceOptions, type Source, withSource } from "../../state/source.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { BLOCK_FORMATS } from "./block_formats.ts";
import type { Gguf, GgufEntry, GgufTensor } from "./gguf.ts";
import { entryOf, type GgufInput, typed } from "./gguf_write.ts";

/** Values as entries of metadata. */
export function entriesOf(values: Readonly<Record<string, GgufInput>>): Map<string, GgufEntry> {
  return new Map(Object.entries(values).map(([key, value]) => [key, entryOf(key, value)]));
}

/** A tensor that is plain elements, wherever it comes from. */
export function plainTensor(name: string, tensor: Tensor, place: string): GgufTensor {
  const format = [...BLOCK_FORMATS.values()].find((f) => f.plain === tensor.dtype) ?? BLOCK_FORMATS.get("F32")!;
  const typedTensor = format.plain === tensor.dtype ? tensor : tensor.cast(dtypes.float32);
  const raw = () => place === FILES || typedTensor.device === place ? typedTensor : typedTensor.to(place);
  return { name, format, shape: tensor.shape, nbytes: tensor.nbytes(), raw, load: raw };
}

/** The seven numbers of a file. */
function headerOf(source: Source): readonly number[] {
  const bytes = source.read(0, 28),
    view = new DataView(bytes.buffer),
    n = Array.from({ length: 7 }, (_, i) => view.getInt32(4 * i, true));
  const fine = n.every((x, i) => i === 5 ? x !== 0 : x > 0) && n[0] % n[3] === 0 && n[3] % n[4] === 0 &&
    Math.max(...n.map(Math.abs)) < 1 << 24;
  if (!fine) throw source.bad(`its numbers ${n.join(", ")} are no model of llama2.c`);
  return n;
}

/** The tokens of a file of them, and their scores. */
function tokensOf(source: Source, count: number): readonly [tokens: string[], scores: number[]] {
  const bytes = source.read(0, source.size),
    view = new DataView(bytes.buffer),
    tokens: string[] = [],
    scores: number[] = [];
  for (let at = 4, i = 0; i < count; i++) {
    const size = at + 8 > bytes.length ? -1 : view.getInt32(at + 4, true);
    if (size < 0 || at + 8 + size > bytes.length) {
      throw source.bad(`it is truncated: token ${i} of ${count} at byte ${at} is not whole`);
    }
    scores.push(view.getFloat32(at, true));
    tokens.push(new TextDecoder().decode(bytes.subarray(at + 8, at + 8 + size)).replaceAll(" ", "\u2581"));
    at += 8 + size;
  }
  return [["<unk>", "<s>", "</s>", ...tokens.slice(3)], scores];
}

/**
 * Reads a model of llama2.c, float32 weights (version 0) and its tokenizer.
 *
 * @throws {FormatError} for files that are truncated, or are none of those
 */
export async function readLlama2c<N extends string = string>(
  weights: Loadable,
  tokenizer: Loadable,
  options: Checked<PlaceOptions, N> = {},
): Promise<Gguf> {
  const place = placeOf(options), where = (from: Loadable) => ({ device: isInMemory(from) ? place : FILES });
  const file = await withSource(weights, where(weights), (source) => {
    const [dim, ffn, layers, heads, kvHeads, signed, context] = headerOf(source), vocab = Math.abs(signed);
    const kv = dim / heads * kvHeads, tensors = new Map<string, GgufTensor>();
    let at = 28;
    const take = (name: string, shape: readonly number[]): void => {
      tensors.set(name, plainTensor(name, source.tensor(at, dtypes.float32, shape), place));
      at += prod(shape) * 4;
    };
    const each = (name: string, shape: readonly number[]): void => {
      for (let i = 0; i < layers; i++) take(`blk.${i}.${name}.weight`, shape);
    };
    take("token_embd.weight", [vocab, dim]);
    each("attn_norm", [dim]);
    each("attn_q", [dim, dim]);
    each("attn_k", [kv, dim]);
    each("attn_v", [kv, dim]);
    each("attn_output", [dim, dim]);
    each("ffn_norm", [dim]);
    each("ffn_gate", [ffn, dim]);
    each("ffn_down", [dim, ffn]);
    each("ffn_up", [ffn, dim]);
    take("output_norm.weight", [dim]);
    at += context * dim / heads * 4; // tables of angles, which are computed instead
    if (signed < 0) take("output.weight", [vocab, dim]);
    return {
      tensors,
      vocab,
      metadata: {
        "general.architecture": "llama",
        "llama.block_count": layers,
        "llama.context_length": context,
        "llama.embedding_length": dim,
        "llama.feed_forward_length": ffn,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kvHeads,
        "llama.attention.layer_norm_rms_epsilon": typed("float32", 1e-5),
      },
    };
  });
  const [tokens, scores] = await withSource(tokenizer, where(tokenizer), (source) => tokensOf(source, file.vocab));
  const kinds = tokens.map((t, i) => i === 0 ? 2 : i < 3 ? 3 : /^<0x[0-9A-F]{2}>$/.test(t) ? 6 : 1);
  const metadata = entriesOf({
    ...file.metadata,
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": tokens,
    "tokenizer.ggml.scores": typed("float32", scores),
    "tokenizer.ggml.token_type": typed("int32", kinds),
  });
  return { version: 0, metadata, tensors: file.tensors };
}
