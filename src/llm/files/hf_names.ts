/**
 * How Hugging Face's folders call what GGUF files call otherwise: architectures, values of config.json, and weights.
 *
 * @module
 */

/** Architectures by `model_type`. */
export const HF_ARCHITECTURES: Readonly<Record<string, string>> = {
  llama: "llama",
  mistral: "llama",
  smollm3: "smollm3",
  granite: "granite",
  qwen2: "qwen2",
  qwen3: "qwen3",
  gemma: "gemma",
  gemma2: "gemma2",
  gemma3_text: "gemma3",
  phi3: "phi3",
  olmo2: "olmo2",
};
/** Those whose norms leave out the 1 that is added to their weights. */
export const NORMS_WITHOUT_ONE: ReadonlySet<string> = new Set(["gemma", "gemma2", "gemma3"]);

/** Values by key: counts, and those that are real numbers in GGUF files whatever they are here. */
export const HF_VALUES: readonly (readonly [hf: string, gguf: string, type?: "float32"])[] = [
  ["num_hidden_layers", "block_count"],
  ["max_position_embeddings", "context_length"],
  ["hidden_size", "embedding_length"],
  ["intermediate_size", "feed_forward_length"],
  ["num_attention_heads", "attention.head_count"],
  ["num_key_value_heads", "attention.head_count_kv"],
  ["head_dim", "attention.key_length"],
  ["sliding_window", "attention.sliding_window"],
  ["rms_norm_eps", "attention.layer_norm_rms_epsilon", "float32"],
  ["rope_theta", "rope.freq_base", "float32"],
  ["rope_local_base_freq", "rope.freq_base_swa", "float32"],
  ["attn_logit_softcapping", "attn_logit_softcapping", "float32"],
  ["final_logit_softcapping", "final_logit_softcapping", "float32"],
  ["embedding_multiplier", "embedding_scale", "float32"],
  ["residual_multiplier", "residual_scale", "float32"],
  ["attention_multiplier", "attention.scale", "float32"],
  ["logits_scaling", "logit_scale", "float32"],
];

const TOP: Readonly<Record<string, string>> = {
  "model.embed_tokens.weight": "token_embd.weight",
  "model.norm.weight": "output_norm.weight",
  "lm_head.weight": "output.weight",
};
const IN_LAYER: Readonly<Record<string, string>> = {
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  "self_attn.qkv_proj": "attn_qkv",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "input_layernorm": "attn_norm",
  "post_attention_layernorm": "ffn_norm",
  "pre_feedforward_layernorm": "ffn_norm",
  "post_feedforward_layernorm": "post_ffw_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
  "mlp.gate_up_proj": "ffn_up",
};
/** Architectures with a norm after attention as well: there the one of that name is it. */
const NORM_AFTER: ReadonlySet<string> = new Set(["gemma2", "gemma3", "olmo2"]);

/** The name of a weight in GGUF files, if it is known. */
export function ggufName(name: string, architecture: string): string | undefined {
  if (Object.hasOwn(TOP, name)) return TOP[name];
  const m = /^model\.layers\.(\d+)\.(.+)\.(weight|bias)$/.exec(name);
  if (m === null) return undefined;
  const [, layer, part, kind] = m, after = part === "post_attention_layernorm" && NORM_AFTER.has(architecture);
  const found = after ? "post_attention_norm" : Object.hasOwn(IN_LAYER, part) ? IN_LAYER[part] : undefined;
  return found && `blk.${layer}.${found}.${kind}`;
}

/** The name in Hugging Face's folders of a weight of a Llama, if it has one. */
export function hfName(name: string): string | undefined {
  for (const [hf, gguf] of Object.entries(TOP)) if (gguf === name) return hf;
  const [, layer, part, kind] = /^blk\.(\d+)\.(.+)\.(weight|bias)$/.exec(name) ?? [];
  for (const [hf, gguf] of Object.entries(IN_LAYER)) if (gguf === part) return `model.layers.${layer}.${hf}.${kind}`;
  return undefined;
}
