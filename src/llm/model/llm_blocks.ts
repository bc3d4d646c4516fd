/**
 * The layers of a decoder, made of its description and the weights that there are.
 *
 * @module
 */
import type { Tensor } from "../../tensor/tensor.ts";
import { attention } from "./cached_attention.ts";
import { expertLayer, feedForward } from "./feed_forward.ts";
import type { LayerCache } from "./cache_memory.ts";
import { type Layer, normLayer, type Place } from "./linear_layers.ts";
import { isRecurrent, type ModelSpec } from "./model_spec.ts";
import { recurrentLayer } from "./recurrent_layers.ts";
import type { WeightStore } from "./weight_store.ts";

/** One layer of a decoder: `[T, dim]` to `[T, dim]`. */
export function decoderLayer(
  spec: ModelSpec,
  store: WeightStore,
  layer: number,
): (x: Tensor, place: Place, cache?: LayerCache) => Tensor {
  const at = `blk.${layer}.`, norm = (name: string) => normLayer(spec, store, at + name), same: Layer = (x) => x;
  const attend = (isRecurrent(spec, layer) ? recurrentLayer : attention)(spec, store, layer);
  const experts = store.maybe(`${at}ffn_gate_inp.weight`) !== undefined && spec.experts !== undefined;
  const feeds = experts || spec.recurrent?.kind !== "mamba";
  const feed = experts ? expertLayer(spec, store, at) : feeds ? feedForward(spec, store, at) : same;
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
    if (!feeds) return y;
    return add(y, afterFeed(feed(beforeFeed(y))));
  };
}
