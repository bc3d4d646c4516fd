/**
 * The blocks of a decoder, made of its description and the weights that there are: attention with a cache of keys and
 * values, feed-forward, experts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { hasWindow, type ModelSpec } from "./model_spec.ts";
import { type RopeTable, turn } from "./rope_tables.ts";
import type { Weight, WeightStore } from "./weight_store.ts";

/** Keys and values of a layer: `[heads, context, dim]`. */
export interface LayerCache {
  readonly keys: Tensor;
  readonly values: Tensor;
}

/** Where in the sequence a call is. */
export interface Place {
  /** The position of the first token, a bound variable. */
  readonly start: Tensor;
  /** The position behind the last token: how many keys there are. */
  readonly end: Tensor;
  /** Angles of the positions, for layers without and with a window. */
  readonly angles: RopeTable;
  readonly windowAngles: RopeTable;
}

/** A function of activations `[T, n]`. */
type Layer = (x: Tensor) => Tensor;

/** A norm by the name of its weight. */
export function normLayer(
  spec: ModelSpec,
  store: WeightStore,
  name: string,
  size: number = spec.dim,
): Layer | undefined {
  const weight = store.maybe(`${name}.weight`), bias = store.maybe(`${name}.bias`);
  if (weight === undefined && !(spec.architecture === "olmo" && /norm$/.test(name))) return undefined;
  return (x) => {
    const centered = spec.norm === "layer" ? x.sub(x.mean(-1, { keepdim: true })) : x;
    const y = centered.mul(centered.square().mean(-1, { keepdim: true }).add(spec.eps).rsqrt());
    const w = weight?.values();
    const scaled = w === undefined ? y : y.mul(w.numel() === size ? w : w.reshape([-1, size]));
    return bias === undefined ? scaled : scaled.add(bias.values());
  };
}

/** A product by the name of its weight `[m, n]`, with its bias if there is one. */
function linear(store: WeightStore, name: string, m: number, n: number): Layer | undefined {
  const weight = store.maybe(`${name}.weight`, [m, n]), bias = store.maybe(`${name}.bias`, [m]);
  if (weight === undefined) return undefined;
  return (x) => {
    const y = weight.product(x);
    return bias === undefined ? y : y.add(bias.values());
  };
}
function needed(store: WeightStore, name: string, m: number, n: number): Layer {
  store.get(`${name}.weight`, [m, n]);
  return linear(store, name, m, n)!;
}

/** Queries, keys and values of a layer, `[T, heads, dim]`, of one weight or of three. */
function projections(spec: ModelSpec, store: WeightStore, at: string): (x: Tensor) => [Tensor, Tensor, Tensor] {
  const { dim, heads, kvHeads, headDim, valueDim } = spec;
  const sizes = [heads * headDim, kvHeads * headDim, kvHeads * valueDim], [a, b, c] = sizes;
  const cut = (x: Tensor, h: number) => x.reshape([x.shape[0], h, -1]);
  const together = linear(store, `${at}attn_qkv`, a + b + c, dim);
  if (together !== undefined) {
    return (x) => {
      const [q, k, v] = together(x).split(sizes, 1);
      return [cut(q, heads), cut(k, kvHeads), cut(v, kvHeads)];
    };
  }
  const [q, k, v] = ["attn_q", "attn_k", "attn_v"].map((name, i) => needed(store, at + name, sizes[i], dim));
  return (x) => [cut(q(x), heads), cut(k(x), kvHeads), cut(v(x), kvHeads)];
}

/** Weights of keys `[KV, G, T, S]` from scores, with a logit of each head that takes part and has no value. */
function withSinks(scores: Tensor, sinks: Tensor): Tensor {
  const most = scores.max(-1, { keepdim: true }).maximum(sinks), e = scores.sub(most).exp();
  return e.div(e.sum(-1, { keepdim: true }).add(sinks.sub(most).exp()));
}

/** Attention over all keys so far; it writes its own into the cache. */
export function attention(
  spec: ModelSpec,
  store: WeightStore,
  layer: number,
): (x: Tensor, p: Place, c: LayerCache) => Tensor {
  const { heads, kvHeads, headDim, valueDim, dim, rope } = spec, at = `blk.${layer}.`, groups = heads / kvHeads;
  const project = projections(spec, store, at), out = needed(store, `${at}attn_output`, dim, heads * valueDim);
  const normOf = (name: string, h: number) =>
    normLayer(spec, store, at + name, spec.wideHeadNorm ? h * headDim : headDim);
  const qNorm = normOf("attn_q_norm", heads), kNorm = normOf("attn_k_norm", kvHeads);
  const sinks = store.maybe(`${at}attn_sinks.weight`, [heads]) ?? store.maybe(`${at}attn_sinks`, [heads]);
  const window = hasWindow(spec, layer),
    turned = rope.kind !== "none" && !(rope.skipEvery > 0 && (layer + 1) % rope.skipEvery === 0);
  const heed = (x: Tensor, norm: Layer | undefined): Tensor => {
    if (norm === undefined) return x;
    return spec.wideHeadNorm ? norm(x.reshape([x.shape[0], -1])).reshape(x.shape) : norm(x);
  };
  return (x, place, cache) => {
    const [t] = x.shape, { start, end } = place;
    let [q, k, v] = project(x);
    [q, k] = [heed(q, qNorm), heed(k, kNorm)];
    if (turned) {
      const angles = window ? place.windowAngles : place.angles, kind = rope.kind as "pairs" | "halves";
      [q, k] = [turn(q, kind, angles), turn(k, kind, angles)];
    }
    cache.keys.setAt([":", [start, end]], k.transpose(0, 1));
    cache.values.setAt([":", [start, end]], v.transpose(0, 1));
    const keys = cache.keys.at(":", [0, end]).cast(dtypes.float32),
      values = cache.values.at(":", [0, end]).cast(dtypes.float32);
    const mine = q.mul(spec.attentionScale).reshape([t, kvHeads, groups, headDim]).permute([1, 2, 0, 3]);
    let scores = mine.reshape([kvHeads, groups * t, headDim]).matmul(keys.transpose(1, 2)); // [KV, G T, S]
    if (spec.attentionCap > 0) scores = scores.div(spec.attentionCap).tanh().mul(spec.attentionCap);
    if (t > 1 || window) {
      const key = keysFrom(end, x), query = keysFrom(t, x).add(start).unsqueeze(1);
      let seen = key.le(query);
      if (window) seen = seen.bitwiseAnd(key.gt(query.sub(spec.window)));
      scores = seen.repeat([groups, 1]).where(scores, -Infinity); // [G T, S]
    }
    const weights = sinks === undefined ? scores.softmax(-1) : withSinks(
      scores,
      sinks.values().reshape([kvHeads, groups, 1]).expand([kvHeads, groups, t]).reshape([kvHeads, groups * t, 1]),
    );
    const mixed = weights.matmul(values).reshape([kvHeads, groups, t, valueDim]).permute([2, 0, 1, 3]);
    return out(mixed.reshape([t, heads * valueDim]));
  };
}

/** 0, 1 ... below `n`, where `like` is. */
function keysFrom(n: number | Tensor, like: Tensor): Tensor {
  const make = like.constructor as unknown as typeof Tensor;
  return make.arange(n as number, { dtype: dtypes.int32, device: like.device });
}

/** The gate's function times what it lets through. */
function gated(activation: ModelSpec["activation"], gate: Tensor, up: Tensor): Tensor {
  if (activation === "clampedSwiglu") {
    const g = gate.minimum(7), u = up.clamp(-7, 7);
    return g.mul(g.mul(1.702).sigmoid()).mul(u.add(1));
  }
  return act(activation, gate).mul(up);
}
function act(activation: ModelSpec["activation"], x: Tensor): Tensor {
  switch (activation) {
    case "gelu":
      return x.gelu({ approximate: "tanh" });
    case "geluErf":
      return x.gelu();
    case "relu2":
      return x.relu().square();
    default:
      return x.silu();
  }
}

/** A feed-forward of `size` inner elements: gated where it has a gate, or twice the rows. */
function feedForward(spec: ModelSpec, store: WeightStore, at: string, suffix = ""): Layer {
  const { dim, activation } = spec, upWeight = store.get(`${at}ffn_up${suffix}.weight`), [rows] = upWeight.shape;
  const gate = linear(store, `${at}ffn_gate${suffix}`, rows, dim),
    up = needed(store, `${at}ffn_up${suffix}`, rows, dim);
  const [, inner] = store.get(`${at}ffn_down${suffix}.weight`).shape,
    down = needed(store, `${at}ffn_down${suffix}`, dim, inner);
  if (gate !== undefined) return (x) => down(gated(activation, gate(x), up(x)));
  if (inner * 2 === rows) {
    return (x) => {
      const [g, u] = up(x).split([inner, inner], 1);
      return down(gated(activation, g, u));
    };
  }
  return (x) => down(act(activation, up(x)));
}

/** Experts: of each token the chosen ones, mixed by their weights, and one for all where there is one. */
function expertLayer(spec: ModelSpec, store: WeightStore, at: string): Layer {
  const { dim, activation } = spec, e = spec.experts!, router = needed(store, `${at}ffn_gate_inp`, e.count, dim);
  const chosenBias = store.maybe(`${at}exp_probs_b.bias`, [e.count]);
  const part = (name: string): readonly [Weight, Weight | undefined] => [
    store.get(`${at}${name}_exps.weight`),
    store.maybe(`${at}${name}_exps.bias`),
  ];
  const [gate, up, down] = ["ffn_gate", "ffn_up", "ffn_down"].map(part);
  const shared = store.maybe(`${at}ffn_up_shexp.weight`) && feedForward(spec, store, at, "_shexp");
  const sharedGate = store.maybe(`${at}ffn_gate_inp_shexp.weight`);
  /** `[T, K, m]` of x `[T, K or 1, n]` by the weights `[E, m, n]` of the chosen. */
  const apply = ([weight, bias]: readonly [Weight, Weight | undefined], x: Tensor, chosen: Tensor): Tensor => {
    const y = weight.rows(chosen).mul(x.unsqueeze(2)).sum(-1);
    return bias === undefined ? y : y.add(bias.rows(chosen));
  };
  return (x) => {
    const scores = router(x),
      all = e.gating === "softmax" ? scores.softmax(-1) : e.gating === "sigmoid" ? scores.sigmoid() : scores;
    const [, chosen] = (chosenBias === undefined ? all : all.add(chosenBias.values())).topk(e.used, -1);
    let weights = all.gather(1, chosen);
    if (e.gating === "softmaxOfChosen") weights = weights.softmax(-1);
    if (e.normalized) weights = weights.div(weights.sum(-1, { keepdim: true }).maximum(6.103515625e-5));
    const each = x.unsqueeze(1), inner = gated(activation, apply(gate, each, chosen), apply(up, each, chosen));
    const y = apply(down, inner, chosen).mul(weights.mul(e.scale).unsqueeze(-1)).sum(1);
    if (shared === undefined) return y;
    const other = shared(x);
    return y.add(
      sharedGate === undefined
        ? other
        : other.mul(x.mul(sharedGate.values().reshape([1, dim])).sum(-1, { keepdim: true }).sigmoid()),
    );
  };
}

/** One layer of a decoder: `[T, dim]` to `[T, dim]`. */
export function decoderLayer(
  spec: ModelSpec,
  store: WeightStore,
  layer: number,
): (x: Tensor, place: Place, cache: LayerCache) => Tensor {
  const at = `blk.${layer}.`, norm = (name: string) => normLayer(spec, store, at + name), same: Layer = (x) => x;
  const attend = attention(spec, store, layer);
  const experts = store.maybe(`${at}ffn_gate_inp.weight`) !== undefined && spec.experts !== undefined;
  const feed = experts ? expertLayer(spec, store, at) : feedForward(spec, store, at);
  // some files call the norm before the feed-forward that after attention
  const before = norm("attn_norm") ?? same, afterName = norm("post_attention_norm"), feedName = norm("ffn_norm");
  const ownAfter = feedName !== undefined || spec.postOnly, after = ownAfter ? afterName ?? same : same;
  const beforeFeed = feedName ?? (ownAfter ? same : afterName ?? same), afterFeed = norm("post_ffw_norm") ?? same;
  const add = (x: Tensor, y: Tensor) => x.add(spec.residualScale === 1 ? y : y.mul(spec.residualScale));
  if (spec.parallel) {
    return (x, place, cache) => {
      const h = before(x);
      return add(add(x, attend(h, place, cache)), feed(feedName === undefined ? h : feedName(x)));
    };
  }
  return (x, place, cache) => {
    const y = add(x, after(attend(before(x), place, cache)));
    return add(y, afterFeed(feed(beforeFeed(y))));
  };
}
