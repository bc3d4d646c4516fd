/**
 * Models with random weights in the shapes of real ones, in memory of the device: what speed is measured with where no
 * file is at hand. Any block format, or a mix: "110m-q8_0", "1b-q4_k_m".
 *
 * @module
 */
import { Tensor } from "../mod.ts";
import {
  BLOCK_FORMATS,
  type BlockFormat,
  dequantize,
  type FormatName,
  formatsOf,
  type Gguf,
  type GgufEntry,
  type GgufTensor,
  type MixName,
  typed,
} from "../src/llm/llm.ts";

/** A Llama. */
interface Shape {
  readonly layers: number;
  readonly dim: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly ffn: number;
  readonly vocabulary: number;
  readonly context: number;
  /** Whether the embedding is also the output. */
  readonly tied: boolean;
}
const shape = (
  [layers, dim, heads, kvHeads, headDim, ffn]: readonly number[],
  vocabulary: number,
  context: number,
  tied = true,
): Shape => ({ layers, dim, heads, kvHeads, headDim, ffn, vocabulary, context, tied });

/** By name: stories15M and stories110M of llama2.c, Llama 3.2 1B, Llama 3.1 8B; "tiny" is for tests. */
export const SHAPES: Readonly<Record<string, Shape>> = {
  tiny: shape([2, 256, 4, 2, 64, 256], 320, 128),
  "15m": shape([6, 288, 6, 6, 48, 768], 32000, 1024),
  "110m": shape([12, 768, 12, 12, 64, 2048], 32000, 2048),
  "1b": shape([16, 2048, 32, 8, 64, 8192], 128256, 8192),
  "8b": shape([32, 4096, 32, 8, 128, 14336], 128256, 8192, false),
};

/** The weights and their shapes. */
function weightsOf({ layers, dim, heads, kvHeads, headDim, ffn, vocabulary, tied }: Shape): Map<string, number[]> {
  const out = new Map<string, number[]>([["token_embd.weight", [vocabulary, dim]], ["output_norm.weight", [dim]]]);
  if (!tied) out.set("output.weight", [vocabulary, dim]);
  for (let i = 0; i < layers; i++) {
    const put = (name: string, ...sizes: number[]) => out.set(`blk.${i}.${name}.weight`, sizes);
    put("attn_norm", dim);
    put("attn_q", heads * headDim, dim);
    put("attn_k", kvHeads * headDim, dim);
    put("attn_v", kvHeads * headDim, dim);
    put("attn_output", dim, heads * headDim);
    put("ffn_norm", dim);
    put("ffn_gate", ffn, dim);
    put("ffn_up", ffn, dim);
    put("ffn_down", dim, ffn);
  }
  return out;
}

/** Blocks that are repeated, of how many they are chosen, and the largest element that blocks of weights have. */
const POOL = 32, TRIES = 8192, USUAL = 0.05;

/** Bytes of some blocks like those of weights: of many random ones, those whose largest element is near the usual. */
async function randomBlocks(format: BlockFormat): Promise<Uint8Array<ArrayBuffer>> {
  const raw = new Uint8Array(TRIES * format.nbytes);
  for (let i = 0; i < raw.length; i += 65536) crypto.getRandomValues(raw.subarray(i, i + 65536));
  const blocks = new Tensor(raw, { device: "WASM" }).reshape([TRIES, format.nbytes]);
  const most = await dequantize(blocks, format).abs().max(-1).data() as Float32Array;
  const far = (i: number) => Math.abs(Math.log(most[i] / USUAL));
  const best = [...most.keys()].filter((i) => Number.isFinite(far(i))).sort((a, b) => far(a) - far(b));
  const out = new Uint8Array(POOL * format.nbytes);
  best.slice(0, POOL).forEach((from, i) =>
    out.set(raw.subarray(from * format.nbytes, (from + 1) * format.nbytes), i * format.nbytes)
  );
  return out;
}

/**
 * Elements of `shape` and `format`, in memory of the device when they are read, or its blocks there: those of the pool again
 * and again.
 */
function filled(format: BlockFormat, pool: Tensor, [m, n]: readonly number[], device: string): Tensor {
  if (format.plain !== undefined) return Tensor.randn([m, n], { device }).mul(0.02).cast(format.plain).contiguous();
  const row = n / format.elements * format.nbytes, size = m * row, times = Math.ceil(size / pool.numel());
  const all = pool.reshape([1, pool.numel()]).expand([times, pool.numel()]).reshape([times * pool.numel()]);
  return all.at([0, size]).reshape([m, row]).contiguous().realize();
}

/** Metadata, with a vocabulary of names that mean nothing, of which none ends a text. */
function metadataOf(name: string, s: Shape): Map<string, GgufEntry> {
  const own = {
    block_count: s.layers,
    context_length: s.context,
    embedding_length: s.dim,
    feed_forward_length: s.ffn,
    "attention.head_count": s.heads,
    "attention.head_count_kv": s.kvHeads,
    "attention.key_length": s.headDim,
    "attention.value_length": s.headDim,
  };
  return new Map<string, GgufEntry>([
    ["general.architecture", typed("string", "llama")],
    ["general.name", typed("string", name)],
    ...Object.entries(own).map(([key, value]) => [`llama.${key}`, typed("uint32", value)] as const),
    ["llama.attention.layer_norm_rms_epsilon", typed("float32", 1e-5)],
    ["llama.rope.freq_base", typed("float32", 500000)],
    ["tokenizer.ggml.model", typed("string", "llama")],
    ["tokenizer.ggml.tokens", typed("string", Array.from({ length: s.vocabulary }, (_, i) => `▁t${i}`))],
    ["tokenizer.ggml.eos_token_id", typed("uint32", 0xffffffff)],
  ]);
}

/**
 * The model of a name as "110m-q8_0": a key of {@linkcode SHAPES}, and a format or a mix.
 *
 * @throws {Error} for a name that is not known, telling which are
 */
export async function syntheticModel(name: string, device: string): Promise<Gguf> {
  const [, size, mix] = /^([^-]+)-(.+)$/.exec(name) ?? [], s = SHAPES[size];
  if (s === undefined) {
    throw new Error(`no model "${name}"; known are ${Object.keys(SHAPES).join(", ")}, then - and a format`);
  }
  const shapes = weightsOf(s), formats = formatsOf(mix.toUpperCase() as MixName, shapes);
  const pools = new Map<FormatName, Tensor>(), tensors = new Map<string, GgufTensor>();
  for (const [weight, sizes] of shapes) {
    const format = BLOCK_FORMATS.get(formats.get(weight) ?? (sizes.length > 1 ? mix.toUpperCase() : "F32"))!;
    if (format.plain === undefined && !pools.has(format.name)) {
      pools.set(format.name, new Tensor(await randomBlocks(format), { device }).realize());
    }
    // elements are others each time that they are read
    const isMade = format.plain !== undefined && sizes.length > 1;
    const make = () => filled(format, pools.get(format.name)!, sizes, device);
    const made = sizes.length === 1 ? Tensor.ones(sizes, { device }).contiguous().realize() : make();
    const raw = () => isMade ? make() : made;
    const load = () => format.plain === undefined ? dequantize(raw(), format) : raw();
    tensors.set(weight, { name: weight, format, shape: sizes, nbytes: raw().nbytes(), raw, load, isMade });
  }
  return { version: 0, metadata: metadataOf(name, s), tensors };
}
