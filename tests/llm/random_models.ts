/**
 * Small models with random weights, one for each architecture, as GGUF contents: the same for everybody, so that logits of
 * llama.cpp which were written down (fixtures/logits.json, by llama_cpp.ts) can be asked of ours.
 *
 * @module
 */
import { Tensor } from "../../mod.ts";
import { type FormatName, type GgufContents, type GgufInput, type GgufTensorInput, typed } from "../../src/llm/llm.ts";
import { Random } from "../support/random.ts";

/** The tokens that are given to every model. */
export const TOKENS: readonly number[] = [3, 17, 60, 4, 4, 33, 9, 51, 22, 1, 47, 12];

const LAYERS = 3, DIM = 64, HEADS = 4, KV = 2, FFN = 96, VOCAB = 64, EXPERTS = 4, EXPERT_FFN = 32;

/** Sizes of latent attention. */
const LATENT = { rank: 32, queryRank: 24, key: 24, value: 20, turned: 8 };

/** Sizes of the gated delta rule. */
const STATE = { conv: 4, inner: 64, key: 16, heads: 4, groups: 2 };

/** What makes a model different from a Llama. */
interface Variant {
  readonly architecture: string;
  readonly headDim?: number;
  readonly kv?: number;
  readonly layers?: number;
  readonly meta?: Readonly<Record<string, GgufInput>>;
  /** Norms have biases, and what norms there are. */
  readonly layerNorm?: boolean;
  readonly qkvBias?: boolean;
  readonly allBias?: boolean;
  readonly headNorm?: "head" | "wide";
  readonly postNorms?: boolean;
  readonly postOnly?: boolean;
  readonly fusedQkv?: boolean;
  readonly fusedGate?: boolean;
  readonly noGate?: boolean;
  readonly noFeedNorm?: boolean;
  readonly feedNormName?: string;
  readonly experts?: boolean;
  readonly expertBias?: boolean;
  readonly sharedExpert?: "gated" | "plain";
  readonly routeBias?: boolean;
  /** Layers in front that have no experts. */
  readonly dense?: number;
  /** Keys and values of a latent vector, and queries too. */
  readonly latent?: "keys" | "queries";
  /** A state instead of attention. */
  readonly recurrent?: "mamba" | "delta";
  readonly sinks?: boolean;
  readonly tied?: boolean;
  readonly outputBias?: boolean;
  readonly ropeFactors?: "freqs" | "long";
  /** Elements of an embedding, and of the inner layer of the feed-forward. */
  readonly dim?: number;
  readonly ffn?: number;
  /** Of the large weights. */
  readonly format?: FormatName;
}

const swa = { "attention.sliding_window": 5 };
const yarn = {
  "rope.scaling.type": "yarn",
  "rope.scaling.factor": typed("float32", 4),
  "rope.scaling.original_context_length": 16,
};

/** The models by name. */
export const VARIANTS: Readonly<Record<string, Variant>> = {
  llama: { architecture: "llama" },
  "llama tied, of one key head": { architecture: "llama", tied: true, kv: 1 },
  "llama with wide heads": { architecture: "llama", headDim: 32 },
  "llama 3 frequencies": {
    architecture: "llama",
    ropeFactors: "freqs",
    meta: { "rope.freq_base": typed("float32", 5e5) },
  },
  "llama linear": {
    architecture: "llama",
    meta: { "rope.scaling.type": "linear", "rope.scaling.factor": typed("float32", 2) },
  },
  "llama yarn": { architecture: "llama", meta: yarn },
  "llama of whole super-blocks": { architecture: "llama", dim: 256, ffn: 512, headDim: 64 },
  "llama F16": { architecture: "llama", format: "F16" },
  "llama BF16": { architecture: "llama", format: "BF16" },
  mixtral: { architecture: "llama", experts: true },
  smollm3: { architecture: "smollm3", layers: 4 },
  granite: {
    architecture: "granite",
    meta: {
      "attention.scale": typed("float32", 0.1),
      embedding_scale: typed("float32", 3),
      residual_scale: typed("float32", 0.5),
      logit_scale: typed("float32", 4),
    },
  },
  "command-r": {
    architecture: "command-r",
    layerNorm: true,
    noFeedNorm: true,
    tied: true,
    meta: { logit_scale: typed("float32", 0.25) },
  },
  qwen2: { architecture: "qwen2", qkvBias: true },
  qwen3: { architecture: "qwen3", headNorm: "head", headDim: 32 },
  qwen2moe: { architecture: "qwen2moe", qkvBias: true, experts: true, sharedExpert: "gated" },
  qwen3moe: { architecture: "qwen3moe", headNorm: "head", experts: true },
  llama4: {
    architecture: "llama4",
    layers: 5,
    experts: true,
    sharedExpert: "plain",
    meta: { interleave_moe_layer_step: 1 },
  },
  glm4: {
    architecture: "glm4",
    qkvBias: true,
    fusedGate: true,
    postNorms: true,
    meta: { "rope.dimension_count": 8 },
  },
  glm4moe: {
    architecture: "glm4moe",
    qkvBias: true,
    headNorm: "head",
    experts: true,
    sharedExpert: "plain",
    routeBias: true,
    dense: 1,
    feedNormName: "post_attention_norm",
    meta: {
      "rope.dimension_count": 8,
      leading_dense_block_count: 1,
      expert_shared_count: 1,
      expert_weights_norm: true,
      expert_weights_scale: typed("float32", 1.5),
    },
  },
  "deepseek2 lite": {
    architecture: "deepseek2",
    latent: "keys",
    experts: true,
    sharedExpert: "plain",
    dense: 1,
    layers: 26,
    meta: { leading_dense_block_count: 1, expert_shared_count: 1 },
  },
  deepseek2: {
    architecture: "deepseek2",
    latent: "queries",
    experts: true,
    sharedExpert: "plain",
    routeBias: true,
    dense: 1,
    meta: {
      ...yarn,
      "rope.scaling.yarn_log_multiplier": typed("float32", 0.1),
      leading_dense_block_count: 1,
      expert_shared_count: 1,
      expert_group_count: 2,
      expert_group_used_count: 1,
      expert_gating_func: 2,
      expert_weights_norm: true,
      expert_weights_scale: typed("float32", 2.5),
    },
  },
  qwen3next: {
    architecture: "qwen3next",
    layers: 4,
    headNorm: "head",
    experts: true,
    sharedExpert: "gated",
    recurrent: "delta",
    feedNormName: "post_attention_norm",
    meta: {
      "rope.dimension_count": 8,
      "ssm.conv_kernel": STATE.conv,
      "ssm.inner_size": STATE.inner,
      "ssm.state_size": STATE.key,
      "ssm.time_step_rank": STATE.heads,
      "ssm.group_count": STATE.groups,
    },
  },
  mamba: {
    architecture: "mamba",
    recurrent: "mamba",
    meta: {
      "attention.head_count": 0,
      "attention.head_count_kv": 0,
      "ssm.conv_kernel": 4,
      "ssm.inner_size": 2 * DIM,
      "ssm.state_size": 16,
      "ssm.time_step_rank": 4,
    },
  },
  stablelm: { architecture: "stablelm", layerNorm: true },
  starcoder2: { architecture: "starcoder2", layerNorm: true, allBias: true, qkvBias: true, noGate: true },
  phi2: {
    architecture: "phi2",
    layerNorm: true,
    allBias: true,
    qkvBias: true,
    noGate: true,
    noFeedNorm: true,
    kv: 4,
    outputBias: true,
    meta: { "rope.dimension_count": 8 },
  },
  phi3: {
    architecture: "phi3",
    fusedQkv: true,
    fusedGate: true,
    ropeFactors: "long",
    meta: { "rope.scaling.attn_factor": typed("float32", 1.2), "rope.scaling.original_context_length": 16 },
  },
  olmo2: { architecture: "olmo2", headNorm: "wide", postNorms: true, postOnly: true },
  olmoe: { architecture: "olmoe", headNorm: "wide", kv: 4, experts: true },
  gemma: { architecture: "gemma", tied: true },
  gemma2: {
    architecture: "gemma2",
    tied: true,
    postNorms: true,
    meta: { ...swa, attn_logit_softcapping: typed("float32", 2), final_logit_softcapping: typed("float32", 3) },
  },
  gemma3: {
    architecture: "gemma3",
    tied: true,
    postNorms: true,
    headNorm: "head",
    layers: 7,
    meta: { ...swa, "rope.freq_base": typed("float32", 1e6) },
  },
  "gpt-oss": {
    architecture: "gpt-oss",
    qkvBias: true,
    allBias: true,
    experts: true,
    expertBias: true,
    sinks: true,
    feedNormName: "post_attention_norm",
    meta: { ...swa, ...yarn },
  },
};

/** The contents of the file of a model. */
export function randomModel(name: string): GgufContents {
  const v = VARIANTS[name], { architecture: arch } = v, r = new Random(11), head = v.headDim ?? 16, kv = v.kv ?? KV;
  const dim = v.dim ?? DIM, ffn = v.ffn ?? FFN;
  const layers = v.layers ?? LAYERS, tensors: Record<string, GgufTensorInput> = {};
  const put = (key: string, shape: number[], size: number, center = 0): void => {
    const n = shape.reduce((a, b) => a * b, 1);
    const values = Float32Array.from({ length: n }, () => center + size * (2 * r.int(0, 1 << 20) / (1 << 20) - 1));
    const t = new Tensor(values, { device: "WASM" }).reshape(shape);
    tensors[key] = shape.length > 1 && v.format !== undefined ? { tensor: t, format: v.format } : t;
  };
  const matrix = (key: string, rows: number, columns: number, bias = false): void => {
    put(`${key}.weight`, [rows, columns], 1.6 / Math.sqrt(columns));
    if (bias) put(`${key}.bias`, [rows], 0.3);
  };
  const norm = (key: string, size = dim): void => {
    put(`${key}.weight`, [size], 0.4, 1);
    if (v.layerNorm && arch !== "command-r") put(`${key}.bias`, [size], 0.2);
  };
  put("token_embd.weight", [VOCAB, dim], 0.8);
  norm("output_norm");
  if (!v.tied) matrix("output", VOCAB, dim, v.outputBias);
  if (v.ropeFactors === "freqs") put("rope_freqs.weight", [head / 2], 0.9, 2);
  if (v.ropeFactors === "long") {
    put("rope_factors_long.weight", [head / 2], 0.9, 3);
    put("rope_factors_short.weight", [head / 2], 0.2, 1.2);
  }
  for (let i = 0; i < layers; i++) {
    const at = `blk.${i}.`, sizes = [HEADS * head, kv * head, kv * head];
    if (!v.postOnly) norm(`${at}attn_norm`);
    if (v.recurrent === "mamba") {
      const inner = 2 * dim;
      matrix(`${at}ssm_in`, 2 * inner, dim);
      put(`${at}ssm_conv1d.weight`, [inner, 4], 0.6);
      put(`${at}ssm_conv1d.bias`, [inner], 0.2);
      matrix(`${at}ssm_x`, 4 + 2 * 16, inner);
      matrix(`${at}ssm_dt`, inner, 4, true);
      put(`${at}ssm_a`, [inner, 16], 0.9, -1);
      put(`${at}ssm_d`, [inner], 0.5, 1);
      matrix(`${at}ssm_out`, dim, inner);
      continue;
    }
    const stateful = v.recurrent === "delta" && (i + 1) % 4 !== 0;
    if (stateful) {
      const { inner, key, heads, groups, conv } = STATE, all = 2 * key * groups + inner;
      matrix(`${at}attn_qkv`, all, dim);
      matrix(`${at}attn_gate`, inner, dim);
      put(`${at}ssm_conv1d.weight`, [all, conv], 0.8);
      put(`${at}ssm_dt.bias`, [heads], 0.5);
      put(`${at}ssm_a`, [heads], 0.4, -0.5);
      matrix(`${at}ssm_ba`, 2 * heads, dim);
      norm(`${at}ssm_norm`, inner / heads);
      matrix(`${at}ssm_out`, dim, inner);
    }
    if (v.recurrent === "delta" && !stateful) sizes[0] *= 2;
    if (stateful) { /* its own weights stand above */ }
    else if (v.latent !== undefined) {
      const { rank, queryRank, key, value, turned } = LATENT, queries = v.latent === "queries";
      if (queries) {
        matrix(`${at}attn_q_a`, queryRank, dim);
        norm(`${at}attn_q_a_norm`, queryRank);
      }
      matrix(queries ? `${at}attn_q_b` : `${at}attn_q`, HEADS * key, queries ? queryRank : dim);
      matrix(`${at}attn_kv_a_mqa`, rank + turned, dim);
      norm(`${at}attn_kv_a_norm`, rank);
      put(`${at}attn_k_b.weight`, [HEADS, rank, key - turned], 1.6 / Math.sqrt(key - turned));
      put(`${at}attn_v_b.weight`, [HEADS, value, rank], 1.6 / Math.sqrt(rank));
    } else if (v.fusedQkv) matrix(`${at}attn_qkv`, sizes[0] + 2 * sizes[1], dim);
    else ["attn_q", "attn_k", "attn_v"].forEach((key, k) => matrix(at + key, sizes[k], dim, v.qkvBias));
    if (v.headNorm !== undefined && !stateful) {
      norm(`${at}attn_q_norm`, v.headNorm === "wide" ? sizes[0] : head);
      norm(`${at}attn_k_norm`, v.headNorm === "wide" ? sizes[1] : head);
    }
    if (v.sinks) put(`${at}attn_sinks.weight`, [HEADS], 1);
    if (!stateful) matrix(`${at}attn_output`, dim, HEADS * (v.latent === undefined ? head : LATENT.value), v.allBias);
    if (v.postNorms) norm(`${at}post_attention_norm`);
    if (!v.noFeedNorm && !v.postOnly) norm(at + (v.feedNormName ?? "ffn_norm"));
    if (v.experts && i >= (v.dense ?? 0)) {
      matrix(`${at}ffn_gate_inp`, EXPERTS, dim, v.expertBias);
      if (v.routeBias) put(`${at}exp_probs_b.bias`, [EXPERTS], 0.5);
      for (
        const [key, m, n] of [["gate", EXPERT_FFN, dim], ["up", EXPERT_FFN, dim], ["down", dim, EXPERT_FFN]] as const
      ) {
        put(`${at}ffn_${key}_exps.weight`, [EXPERTS, m, n], 1.6 / Math.sqrt(n));
        if (v.expertBias) put(`${at}ffn_${key}_exps.bias`, [EXPERTS, m], 0.3);
      }
      if (v.sharedExpert !== undefined) {
        if (v.sharedExpert === "gated") put(`${at}ffn_gate_inp_shexp.weight`, [dim], 0.2);
        matrix(`${at}ffn_gate_shexp`, EXPERT_FFN, dim);
        matrix(`${at}ffn_up_shexp`, EXPERT_FFN, dim);
        matrix(`${at}ffn_down_shexp`, dim, EXPERT_FFN);
      }
    } else {
      if (!v.noGate && !v.fusedGate) matrix(`${at}ffn_gate`, ffn, dim);
      matrix(`${at}ffn_up`, v.fusedGate ? 2 * ffn : ffn, dim, v.allBias);
      matrix(`${at}ffn_down`, dim, ffn, v.allBias);
    }
    if (v.postNorms) norm(`${at}post_ffw_norm`);
  }
  const own: Record<string, GgufInput> = {
    block_count: layers,
    context_length: v.meta?.["rope.scaling.type"] === "yarn" ? 64 : 32,
    embedding_length: dim,
    feed_forward_length: v.experts && v.dense === undefined && arch !== "qwen2moe" && arch !== "llama"
      ? EXPERT_FFN
      : ffn,
    "attention.head_count": HEADS,
    "attention.head_count_kv": kv,
    "attention.key_length": head,
    "attention.value_length": head,
    "rope.dimension_count": head,
    "rope.freq_base": typed("float32", 10000),
    [`attention.layer_norm_${v.layerNorm ? "" : "rms_"}epsilon`]: typed("float32", 1e-5),
    vocab_size: VOCAB,
    ...v.experts
      ? {
        expert_count: EXPERTS,
        expert_used_count: 2,
        expert_feed_forward_length: EXPERT_FFN,
        expert_shared_feed_forward_length: EXPERT_FFN,
      }
      : {},
    ...v.latent === undefined ? {} : {
      "attention.head_count_kv": 1,
      "attention.key_length": LATENT.rank + LATENT.turned,
      "attention.value_length": LATENT.rank,
      "attention.key_length_mla": LATENT.key,
      "attention.value_length_mla": LATENT.value,
      "attention.kv_lora_rank": LATENT.rank,
      ...v.latent === "queries" ? { "attention.q_lora_rank": LATENT.queryRank } : {},
      "rope.dimension_count": LATENT.turned,
    },
    ...v.meta,
  };
  if (arch === "llama" && v.experts) own.feed_forward_length = EXPERT_FFN;
  const metadata: Record<string, GgufInput> = {
    "general.architecture": arch,
    "general.name": name,
    ...Object.fromEntries(Object.entries(own).map(([key, value]) => [`${arch}.${key}`, value])),
    "tokenizer.ggml.model": "no_vocab",
  };
  return { metadata, tensors };
}
