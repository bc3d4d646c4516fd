/**
 * Feed-forward layers: for all tokens alike, or of experts that are chosen for each.
 *
 * @module
 */
import type { Tensor } from "../../tensor/tensor.ts";
import { type Layer, needed, products } from "./linear_layers.ts";
import type { ExpertSpec, ModelSpec } from "./model_spec.ts";
import type { Weight, WeightStore } from "./weight_store.ts";

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
export function feedForward(spec: ModelSpec, store: WeightStore, at: string, suffix = ""): Layer {
  const { dim, activation } = spec, upWeight = store.get(`${at}ffn_up${suffix}.weight`), [rows] = upWeight.shape;
  const isGated = store.maybe(`${at}ffn_gate${suffix}.weight`) !== undefined;
  const [, given] = store.get(`${at}ffn_down${suffix}.weight`).shape;
  // without a gate of its own, the first half of the rows may be one
  const inner = !isGated && given * 2 === rows ? given : rows,
    down = needed(store, `${at}ffn_down${suffix}`, dim, inner);
  if (isGated) {
    const both = products(store, [`${at}ffn_gate${suffix}`, `${at}ffn_up${suffix}`], [rows, rows], dim);
    return (x) => {
      const [g, u] = both(x);
      return down(gated(activation, g, u));
    };
  }
  const up = needed(store, `${at}ffn_up${suffix}`, rows, dim);
  if (inner * 2 === rows) {
    return (x) => {
      const [g, u] = up(x).split([inner, inner], 1);
      return down(gated(activation, g, u));
    };
  }
  return (x) => down(act(activation, up(x)));
}

/** What scores of experts `[T, E]` weigh. */
function probabilities(gating: ExpertSpec["gating"], scores: Tensor): Tensor {
  return gating === "softmax" ? scores.softmax(-1) : gating === "sigmoid" ? scores.sigmoid() : scores;
}
/** -Infinity for experts outside of the groups `[T, E]` whose two best together are the best. */
function openGroups(scores: Tensor, groups: number, used: number): Tensor {
  const [t, e] = scores.shape, cut = scores.reshape([t, groups, e / groups]);
  const [best] = cut.topk(2, -1),
    of = best.sum(-1),
    [ranked] = of.topk(used, -1),
    least = ranked.at(":", [used - 1, used]);
  return of.ge(least).unsqueeze(-1).where(cut, -Infinity).reshape([t, e]);
}

/** Experts: of each token the chosen ones, mixed by their weights, and one for all where there is one. */
export function expertLayer(spec: ModelSpec, store: WeightStore, at: string): Layer {
  const { dim, activation } = spec, e = spec.experts!, router = needed(store, `${at}ffn_gate_inp`, e.count, dim);
  const chosenBias = store.maybe(`${at}exp_probs_b.bias`, [e.count]);
  const part = (name: string): readonly [Weight, Weight | undefined] => [
    store.get(`${at}${name}_exps.weight`),
    store.maybe(`${at}${name}_exps.bias`),
  ];
  const [gate, up, down] = ["ffn_gate", "ffn_up", "ffn_down"].map(part), [, inner] = up[0].shape;
  for (const [name, m, n] of [["gate", inner, dim], ["up", inner, dim], ["down", dim, inner]] as const) {
    store.get(`${at}ffn_${name}_exps.weight`, [e.count, m, n]);
  }
  const shared = store.maybe(`${at}ffn_up_shexp.weight`) && feedForward(spec, store, at, "_shexp");
  const sharedGate = store.maybe(`${at}ffn_gate_inp_shexp.weight`);
  /** `[T, K, m]` of x `[T, K or 1, n]` by the weights `[E, m, n]` of the chosen. */
  const apply = ([weight, bias]: readonly [Weight, Weight | undefined], x: Tensor, chosen: Tensor): Tensor => {
    const y = weight.rows(chosen).mul(x.unsqueeze(2)).sum(-1);
    return bias === undefined ? y : y.add(bias.rows(chosen));
  };
  return (x) => {
    const scores = router(x), all = probabilities(e.gating, scores), [t] = x.shape;
    let open = chosenBias === undefined ? all : all.add(chosenBias.values());
    if (e.groups > 1) open = openGroups(open, e.groups, e.groupsUsed);
    const [, chosen] = open.topk(e.used, -1);
    let weights = all.gather(1, chosen);
    if (e.gating === "softmaxOfChosen") weights = weights.softmax(-1);
    if (e.normalized) weights = weights.div(weights.sum(-1, { keepdim: true }).maximum(6.103515625e-5));
    weights = weights.mul(e.scale).unsqueeze(-1);
    const each = x.unsqueeze(1), before = e.weighsInput ? each.expand([t, e.used, dim]).mul(weights) : each;
    const inner = gated(activation, apply(gate, before, chosen), apply(up, before, chosen));
    const outer = apply(down, inner, chosen), y = (e.weighsInput ? outer : outer.mul(weights)).sum(1);
    if (shared === undefined) return y;
    const other = shared(x);
    return y.add(
      sharedGate === undefined
        ? other
        : other.mul(x.mul(sharedGate.values().reshape([1, dim])).sum(-1, { keepdim: true }).sigmoid()),
    );
  };
}
