/**
 * What a decoder is made of, in numbers and choices: one description for all architectures, read from the metadata of a
 * GGUF file. Which weights there are decides the rest: biases, norms of queries and keys, norms after blocks, experts.
 *
 * @module
 */
import type { GgufEntry } from "../files/gguf.ts";
import { Metadata } from "../text/vocabulary.ts";

/** How positions turn queries and keys: neighbors are pairs, or an element and the one half of the turned part later. */
export type RopeKind = "none" | "pairs" | "halves";

/** How the states of a text's tokens become one vector: their mean, or that of the first or the last. */
export type Pooling = "mean" | "first" | "last";
/** By the number in files, as llama.cpp has them. */
export const POOLINGS: readonly (Pooling | undefined)[] = [undefined, "mean", "first", "last"];

/** The angles of positions. */
export interface RopeSpec {
  readonly kind: RopeKind;
  /** How many elements of a head are turned. */
  readonly dim: number;
  readonly base: number;
  /** Of layers with a window. */
  readonly windowBase: number;
  readonly scaling: "none" | "linear" | "yarn" | "longrope";
  readonly factor: number;
  /** Of layers with a window. */
  readonly windowFactor: number;
  readonly originalContext: number;
  readonly attentionFactor: number;
  /** How much of the growth of queries and keys by YaRN is a part of the attention's scale; 0 for nothing. */
  readonly logMultiplier: number;
  readonly betaFast: number;
  readonly betaSlow: number;
  /** Layers without positions: every one whose number, from 1, is a multiple; 0 for none. */
  readonly skipEvery: number;
}

/** Layers of experts. */
export interface ExpertSpec {
  readonly count: number;
  readonly used: number;
  /** How weights come of the scores: of all, of the chosen, or each for itself. */
  readonly gating: "softmax" | "sigmoid" | "softmaxOfChosen";
  /** Whether the weights of the chosen are made to sum up to 1. */
  readonly normalized: boolean;
  readonly scale: number;
  /** Whether weights multiply what experts read, not what they give. */
  readonly weighsInput: boolean;
  /** Experts stand in so many groups, of which so many are open to a token; 1 of 1 where they do not. */
  readonly groups: number;
  readonly groupsUsed: number;
}

/** Keys and values of all heads as one vector. */
export interface LatentSpec {
  /** Elements of the vector, without those that positions turn. */
  readonly rank: number;
  /** Of the vector that queries are made of; 0 where they are made of the activations. */
  readonly queryRank: number;
  /** Elements of a key and of a value that a head would have. */
  readonly keyDim: number;
  readonly valueDim: number;
}

/** Layers that keep a state. */
export interface RecurrentSpec {
  readonly kind: "mamba" | "delta";
  /** Inputs that the convolution sees. */
  readonly conv: number;
  /** Channels, or all elements of values. */
  readonly inner: number;
  /** Elements of the state of a channel, or of a key. */
  readonly state: number;
  /** Of values; of mamba the elements of what steps are made of. */
  readonly heads: number;
  /** Heads of queries and keys. */
  readonly groups: number;
  /** Whether what a token chooses is normalized. */
  readonly normalized: boolean;
  /** Of how many layers the last is attention; 0 where none is. */
  readonly every: number;
}

/** The choices of an architecture. */
export interface BlockSpec {
  readonly rope: RopeKind;
  readonly norm: "rms" | "layer";
  readonly activation: "silu" | "gelu" | "geluErf" | "relu2" | "clampedSwiglu";
  /** Whether attention and feed-forward read the same input, and are added together. */
  readonly parallel: boolean;
  /** Whether embeddings are multiplied by the root of their size. */
  readonly scaledEmbedding: boolean;
  /** Whether norms stand only after attention and feed-forward. */
  readonly postOnly: boolean;
  /** Whether queries and keys are normalized before they are cut into heads. */
  readonly wideHeadNorm: boolean;
  /** Of how many layers the last has no window; 0 where none has one, 1 where all have. */
  readonly windowEvery: number;
  /** What a window is: so many positions back, or those of a chunk. */
  readonly windowKind: "sliding" | "chunk";
  readonly gating: ExpertSpec["gating"];
  readonly normalized: boolean;
  readonly weighsInput: boolean;
  /** Whether queries and keys of layers with positions are normalized behind them, without weights. */
  readonly normAfterRope: boolean;
  /** Whether queries bring a gate for what attention gives. */
  readonly gatedAttention: boolean;
  /** What stands where attention would. */
  readonly recurrence: RecurrentSpec["kind"] | undefined;
  /** Of layers without positions: how queries grow, by the logarithm of how many such lengths stand before. */
  readonly sharpening: { readonly scale: number; readonly length: number } | undefined;
  readonly skipRopeEvery: number;
  readonly windowBase: number | undefined;
  /** What files of the first kind leave out: how far a window reaches, and where attention and logits are capped; 0 for none. */
  readonly defaults: { readonly window: number; readonly attentionCap: number; readonly logitCap: number };
  /** Of so many layers, attention is scaled by the width of the model over its heads; 0 for none. */
  readonly wideLayers: number;
  /** Whether the number in the file divides the logits; else it multiplies them. */
  readonly dividesLogits: boolean;
}

/** Choices that the metadata may change, or that become numbers. */
type OfFiles =
  | ("rope" | "gating" | "normalized" | "weighsInput" | "skipRopeEvery" | "windowBase")
  | ("recurrence" | "defaults" | "wideLayers" | "dividesLogits");
/** A decoder. */
export interface ModelSpec extends Omit<BlockSpec, OfFiles> {
  /** A key of {@linkcode ARCHITECTURES}. */
  readonly architecture: string;
  /** How many blocks follow each other. */
  readonly layers: number;
  /** Elements of an embedding. */
  readonly dim: number;
  /** Of queries, a layer. */
  readonly heads: number;
  /** Of keys and values: a divisor of `heads`. */
  readonly kvHeads: number;
  /** Elements of a query and a key of a head. */
  readonly headDim: number;
  /** Elements of a value of a head. */
  readonly valueDim: number;
  /** How many tokens a text may have. */
  readonly context: number;
  /** What norms add to the variance. */
  readonly eps: number;
  /** How positions are told. */
  readonly rope: RopeSpec;
  /** Of feed-forward layers; undefined where each is one for all tokens. */
  readonly experts: ExpertSpec | undefined;
  /** Undefined where all layers are attention. */
  readonly recurrent: RecurrentSpec | undefined;
  /** Undefined where heads have keys and values. */
  readonly latent: LatentSpec | undefined;
  /** How many positions back a key may be, or positions of a chunk; 0 for any number. */
  readonly window: number;
  /** What scores are multiplied with. */
  readonly attentionScale: number;
  /** The bound that scores approach, by tanh; 0 for none. */
  readonly attentionCap: number;
  /** The bound that logits approach, by tanh; 0 for none. */
  readonly logitCap: number;
  /** What embeddings are multiplied with. */
  readonly embeddingScale: number;
  /** What attention and feed-forward are multiplied with before they are added. */
  readonly residualScale: number;
  /** What logits are multiplied with. */
  readonly logitScale: number;
}

const LLAMA: BlockSpec = {
  rope: "pairs",
  norm: "rms",
  activation: "silu",
  parallel: false,
  scaledEmbedding: false,
  postOnly: false,
  wideHeadNorm: false,
  windowEvery: 0,
  windowKind: "sliding",
  gating: "softmax",
  normalized: true,
  weighsInput: false,
  normAfterRope: false,
  gatedAttention: false,
  recurrence: undefined,
  sharpening: undefined,
  skipRopeEvery: 0,
  windowBase: undefined,
  defaults: { window: 0, attentionCap: 0, logitCap: 0 },
  wideLayers: 0,
  dividesLogits: false,
};
const QWEN: BlockSpec = { ...LLAMA, rope: "halves" };
const GEMMA: BlockSpec = { ...QWEN, activation: "gelu", scaledEmbedding: true };

/** Architectures by the name in the file: what differs from Llama. */
export const ARCHITECTURES: Readonly<Record<string, BlockSpec>> = {
  llama: LLAMA,
  mistral3: LLAMA,
  internlm2: LLAMA,
  granite: { ...LLAMA, dividesLogits: true },
  granitemoe: { ...LLAMA, dividesLogits: true },
  smollm3: { ...LLAMA, skipRopeEvery: 4 },
  arcee: { ...LLAMA, activation: "relu2" },
  "ernie4_5": LLAMA,
  olmo: { ...LLAMA, norm: "layer" },
  "command-r": { ...LLAMA, norm: "layer", parallel: true },
  llama4: {
    ...LLAMA,
    windowEvery: 4,
    windowKind: "chunk",
    skipRopeEvery: 4,
    gating: "sigmoid",
    normalized: false,
    weighsInput: true,
    normAfterRope: true,
    sharpening: { scale: 0.1, length: 8192 },
    defaults: { window: 8192, attentionCap: 0, logitCap: 0 },
  },
  deepseek2: { ...LLAMA, normalized: false },
  glm4: LLAMA,
  glm4moe: { ...QWEN, gating: "sigmoid" },
  baichuan: LLAMA,
  xverse: LLAMA,
  chatglm: LLAMA,
  qwen2: QWEN,
  qwen3: QWEN,
  qwen2moe: { ...QWEN, normalized: false },
  qwen3moe: QWEN,
  qwen3next: { ...QWEN, gatedAttention: true, recurrence: "delta" },
  mamba: { ...LLAMA, rope: "none", recurrence: "mamba" },
  "seed_oss": QWEN,
  exaone: QWEN,
  orion: { ...QWEN, norm: "layer" },
  stablelm: { ...QWEN, norm: "layer" },
  starcoder2: { ...QWEN, norm: "layer", activation: "gelu" },
  phi2: { ...QWEN, norm: "layer", activation: "gelu", parallel: true },
  phi3: QWEN,
  olmo2: { ...QWEN, postOnly: true, wideHeadNorm: true },
  olmoe: { ...QWEN, wideHeadNorm: true, normalized: false },
  "hunyuan-dense": QWEN,
  gemma: GEMMA,
  gemma2: {
    ...GEMMA,
    windowEvery: 2,
    defaults: { window: 4096, attentionCap: 50, logitCap: 30 },
    wideLayers: 46,
  },
  gemma3: { ...GEMMA, windowEvery: 6, windowBase: 10000, wideLayers: 62 },
  "gpt-oss": { ...QWEN, activation: "clampedSwiglu", windowEvery: 2, gating: "softmaxOfChosen", normalized: false },
};

/** Encoders: texts to vectors, by the name in the file. */
export const ENCODERS: Readonly<Record<string, BlockSpec>> = {
  bert: { ...LLAMA, rope: "none", norm: "layer", activation: "geluErf" },
  "nomic-bert": { ...QWEN, norm: "layer" },
};

function ropeOf(meta: Metadata, at: string, block: BlockSpec, headDim: number, context: number): RopeSpec {
  const kind = meta.text(`${at}rope.scaling.type`, "none"), factor = meta.number(`${at}rope.scaling.factor`, 1);
  const scaling = kind === "yarn" || kind === "longrope" ? kind : kind === "linear" || factor !== 1 ? "linear" : "none";
  const base = meta.number(`${at}rope.freq_base`, 10000);
  // files that dinograd wrote of folders of Hugging Face's before they were llama.cpp's, too
  if (meta.text("dinograd.rope", block.rope) !== block.rope) {
    const reason =
      'the rows of its queries and keys lie as an early dinograd wrote them ("dinograd.rope"), and would be ' +
      "read in the wrong pairs; write it anew: writeGguf(path, await readHfFolder(folder))";
    throw meta.bad(reason);
  }
  return {
    kind: block.rope,
    dim: meta.count(`${at}rope.dimension_count`, headDim),
    base,
    windowBase: meta.number(`${at}rope.freq_base_swa`, block.windowBase ?? base),
    scaling,
    factor,
    windowFactor: block.windowBase === undefined ? factor : 1,
    originalContext: meta.count(`${at}rope.scaling.original_context_length`, context),
    attentionFactor: meta.number(`${at}rope.scaling.attn_factor`, 1),
    // files of this kind hold a tenth of it
    logMultiplier: meta.number(`${at}rope.scaling.yarn_log_multiplier`, 0) * (at === "deepseek2." ? 10 : 1),
    betaFast: meta.number(`${at}rope.scaling.yarn_beta_fast`, 32),
    betaSlow: meta.number(`${at}rope.scaling.yarn_beta_slow`, 1),
    skipEvery: block.skipRopeEvery,
  };
}

/** A count that may be given for each layer: all must be the same. */
function same(meta: Metadata, values: ReadonlyMap<string, GgufEntry>, key: string, fallback?: number): number {
  if (values.get(key)?.list !== true) return meta.count(key, fallback);
  const all = meta.numbers(key), [first] = all;
  if (!all.every((n) => n === first)) {
    throw meta.bad(`its value "${key}" differs from layer to layer, which is not supported`);
  }
  return first;
}

function expertsOf(meta: Metadata, at: string, block: BlockSpec): ExpertSpec | undefined {
  const count = meta.count(`${at}expert_count`, 0), gating = meta.count(`${at}expert_gating_func`, 0);
  if (count === 0) return undefined;
  const used = meta.count(`${at}expert_used_count`), groups = meta.count(`${at}expert_group_count`, 1) || 1;
  const groupsUsed = meta.count(`${at}expert_group_used_count`, groups);
  if (used < 1 || used > count) throw meta.bad(`it uses ${used} of ${count} experts`);
  if (count % groups !== 0 || groupsUsed < 1 || groupsUsed > groups || used > groupsUsed * count / groups) {
    throw meta.bad(`it uses ${used} of ${count} experts in ${groupsUsed} of ${groups} groups`);
  }
  return {
    count,
    used,
    groups,
    groupsUsed,
    gating: ([block.gating, "softmax", "sigmoid", "softmaxOfChosen"] as const)[gating] ?? block.gating,
    normalized: meta.flag(`${at}expert_weights_norm`, block.normalized),
    weighsInput: block.weighsInput,
    scale: meta.number(`${at}expert_weights_scale`, 1) || 1,
  };
}

function recurrentOf(meta: Metadata, at: string, kind: RecurrentSpec["kind"] | undefined): RecurrentSpec | undefined {
  if (kind === undefined) return undefined;
  const own = `${at}ssm.`,
    [conv, inner, state, heads] = ["conv_kernel", "inner_size", "state_size", "time_step_rank"]
      .map((key) => meta.count(own + key));
  const groups = meta.count(`${own}group_count`, 1), delta = kind === "delta";
  if (conv < 2 || inner < 1 || state < 1 || heads < 1 || delta && (inner % heads !== 0 || heads % groups !== 0)) {
    throw meta.bad(`a state of ${state} for ${inner} elements in ${heads} heads and ${groups} groups is none`);
  }
  const every = delta ? meta.count(`${at}full_attention_interval`, 4) : 0;
  return { kind, conv, inner, state, heads, groups, every, normalized: meta.flag(`${own}dt_b_c_rms`, false) };
}

function latentOf(meta: Metadata, at: string): LatentSpec | undefined {
  const rank = meta.count(`${at}attention.kv_lora_rank`, 0);
  if (rank === 0) return undefined;
  return {
    rank,
    queryRank: meta.count(`${at}attention.q_lora_rank`, 0),
    keyDim: meta.count(`${at}attention.key_length_mla`),
    valueDim: meta.count(`${at}attention.value_length_mla`),
  };
}

/** What scores of latent keys are multiplied with. */
function latentScale({ scaling, factor, logMultiplier }: RopeSpec, { keyDim }: LatentSpec): number {
  const grown = scaling === "yarn" ? 1 + 0.1 * logMultiplier * Math.log(factor) : 1;
  return grown ** 2 / Math.sqrt(keyDim);
}

/**
 * The decoder that the metadata describes, or the encoder, by another table.
 *
 * @throws {FormatError} for an architecture that is not known, or sizes that do not fit each other
 */
export function modelSpec(
  values: ReadonlyMap<string, GgufEntry>,
  file: string,
  table: Readonly<Record<string, BlockSpec>> = ARCHITECTURES,
): ModelSpec {
  const meta = new Metadata(values, file), architecture = meta.text("general.architecture"), at = `${architecture}.`;
  const block = table[architecture];
  if (block === undefined) {
    if (table !== ENCODERS && architecture in ENCODERS) {
      throw meta.bad(`its architecture is "${architecture}", an encoder of texts; EmbeddingModel loads it`);
    }
    const known = `its architecture is "${architecture}"; known are ${Object.keys(table).join(", ")}`;
    const way = table === ENCODERS && architecture in ARCHITECTURES
      ? "; of decoders LanguageModel.embed gives vectors"
      : "";
    throw meta.bad(known + way);
  }
  const layers = meta.count(`${at}block_count`) - meta.count(`${at}nextn_predict_layers`, 0),
    dim = meta.count(`${at}embedding_length`);
  // where there is no attention, files say that there are no heads
  const heads = same(meta, values, `${at}attention.head_count`) || (block.recurrence === "mamba" ? 1 : 0);
  const kvHeads = same(meta, values, `${at}attention.head_count_kv`, heads) || heads,
    context = meta.count(`${at}context_length`);
  if (layers < 1 || dim < 1 || heads < 1 || kvHeads < 1 || context < 1 || heads % kvHeads !== 0) {
    throw meta.bad(`${layers} layers of ${dim} with ${heads} heads and ${kvHeads} of keys and values are no model`);
  }
  const headDim = meta.count(`${at}attention.key_length`, Math.floor(dim / heads)),
    rope = ropeOf(meta, at, block, headDim, context);
  if (headDim < 1 || rope.dim > headDim || rope.dim % 2 !== 0) {
    throw meta.bad(`heads of ${headDim}, of which ${rope.dim} are turned by the position, are no heads`);
  }
  const experts = expertsOf(meta, at, block), latent = latentOf(meta, at);
  const window = block.windowEvery > 0 ? meta.count(`${at}attention.sliding_window`, block.defaults.window) : 0;
  const wide = block.wideLayers === layers;
  return {
    ...block,
    architecture,
    layers,
    dim,
    heads,
    kvHeads,
    headDim,
    valueDim: meta.count(`${at}attention.value_length`, headDim),
    context,
    eps: meta.number(`${at}attention.layer_norm_${block.norm === "rms" ? "rms_" : ""}epsilon`, 1e-5),
    rope,
    experts,
    latent,
    recurrent: recurrentOf(meta, at, block.recurrence),
    // the largest of these models does without
    normAfterRope: block.normAfterRope && experts?.count !== 128,
    window,
    attentionScale: meta.number(`${at}attention.scale`, 0) ||
      (latent === undefined ? 1 / Math.sqrt(wide ? dim / heads : headDim) : latentScale(rope, latent)),
    attentionCap: meta.number(`${at}attn_logit_softcapping`, block.defaults.attentionCap),
    logitCap: meta.number(`${at}final_logit_softcapping`, block.defaults.logitCap),
    embeddingScale: block.scaledEmbedding ? Math.sqrt(dim) : meta.number(`${at}embedding_scale`, 1),
    residualScale: meta.number(`${at}residual_scale`, 1),
    logitScale: meta.number(`${at}logit_scale`, 1) ** (block.dividesLogits ? -1 : 1),
  };
}

/** Whether a layer keeps a state instead of keys and values. */
export function isRecurrent({ recurrent }: ModelSpec, layer: number): boolean {
  return recurrent !== undefined && (recurrent.every === 0 || (layer + 1) % recurrent.every !== 0);
}

/** Whether queries and keys of a layer are turned by their positions. */
export function hasPositions({ rope }: ModelSpec, layer: number): boolean {
  return rope.kind !== "none" && !(rope.skipEvery > 0 && (layer + 1) % rope.skipEvery === 0);
}

/** Whether keys of a layer are looked at through the window. */
export function hasWindow(spec: ModelSpec, layer: number): boolean {
  return spec.window > 0 && (spec.windowEvery === 1 || layer % spec.windowEvery < spec.windowEvery - 1);
}
