/**
 * Attention with a cache of keys and values. Keys and values are those of heads, or what they are made of: a latent
 * vector that all heads share (multi-head latent attention, DeepSeek-V2, https://arxiv.org/abs/2405.04434), whose
 * products with the heads' own matrices are moved to the queries and to what comes out.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type CacheHalf, type LayerCache, readCache, writeCache } from "./cache_memory.ts";
import { type Layer, linear, needed, normLayer, type Place, products, rmsNorm } from "./linear_layers.ts";
import { hasPositions, hasWindow, type ModelSpec } from "./model_spec.ts";
import { UNIT_ROWS, unitDType } from "./quantized_products.ts";
import { turn } from "./rope_tables.ts";
import type { WeightStore } from "./weight_store.ts";

/** Queries, keys and values `[T, heads, dim]` with their positions, and what of the mixed values goes on. */
interface Heads {
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  /** `[T, n]` of mixed values `[T, heads, dim]`. */
  readonly finish: Layer;
}
type Projection = (x: Tensor, place: Place) => Heads;

function joined(x: Tensor): Tensor {
  return x.reshape([x.shape[0], -1]);
}

/** Queries, keys and values of one weight or of three, before positions. */
export function threeProducts(spec: ModelSpec, store: WeightStore, at: string): (x: Tensor) => Tensor[] {
  const { dim, heads, kvHeads, headDim, valueDim } = spec;
  const sizes = [heads * headDim * (spec.gatedAttention ? 2 : 1), kvHeads * headDim, kvHeads * valueDim],
    counts = [heads, kvHeads, kvHeads];
  const cut = (x: Tensor, i: number) => x.reshape([x.shape[0], counts[i], -1]);
  const together = linear(store, `${at}attn_qkv`, sizes.reduce((a, b) => a + b), dim);
  if (together !== undefined) return (x) => together(x).split(sizes, 1).map(cut);
  const each = products(store, ["attn_q", "attn_k", "attn_v"].map((name) => at + name), sizes, dim);
  return (x) => each(x).map(cut);
}

/** How much sharper queries of late positions are: `[T, 1, 1]`. */
function sharpness(place: Place, x: Tensor, { scale, length }: { scale: number; length: number }): Tensor {
  const [t] = x.shape, position = positionsOf(place, x).cast(dtypes.float32);
  return position.add(1).div(length).floor().add(1).log().mul(scale).add(1).reshape([t, 1, 1]);
}

/** Each head with keys and values of its own, or of a group's. */
function headProjection(spec: ModelSpec, store: WeightStore, layer: number): Projection {
  const { heads, kvHeads, headDim, rope } = spec, at = `blk.${layer}.`, project = threeProducts(spec, store, at);
  const normOf = (name: string, h: number) =>
    normLayer(spec, store, at + name, spec.wideHeadNorm ? h * headDim : headDim, h);
  const qNorm = normOf("attn_q_norm", heads), kNorm = normOf("attn_k_norm", kvHeads);
  const heed = (x: Tensor, norm: Layer | undefined): Tensor => {
    if (norm === undefined) return x;
    return spec.wideHeadNorm ? norm(joined(x)).reshape(x.shape) : norm(x);
  };
  const turned = hasPositions(spec, layer), window = hasWindow(spec, layer);
  return (x, place) => {
    let [q, k, v] = project(x), finish = joined;
    if (spec.gatedAttention) {
      const [own, gate] = q.split([headDim, headDim], 2);
      [q, finish] = [own, (mixed) => joined(mixed).mul(joined(gate).sigmoid())];
    }
    [q, k] = [heed(q, qNorm), heed(k, kNorm)];
    if (turned) {
      const angles = window ? place.windowAngles : place.angles, kind = rope.kind as "pairs" | "halves";
      [q, k] = [q, k].map((y) => turn(y, kind, angles));
      if (spec.normAfterRope) [q, k] = [q, k].map((y) => rmsNorm(y, spec.eps));
    } else if (spec.sharpening !== undefined) q = q.mul(sharpness(place, x, spec.sharpening));
    return { q, k, v, finish };
  };
}

/** One latent vector for keys and values of all heads. */
function latentProjection(spec: ModelSpec, store: WeightStore, layer: number): Projection {
  const { dim, heads, rope, eps } = spec, { rank, queryRank, keyDim, valueDim } = spec.latent!, at = `blk.${layer}.`;
  const plain = keyDim - rope.dim, kind = rope.kind as "pairs" | "halves";
  const down = queryRank > 0 ? needed(store, `${at}attn_q_a`, queryRank, dim) : undefined;
  const norm = (name: string, size: number) => {
    const weight = store.get(`${at}${name}.weight`, [size]);
    return (x: Tensor) => rmsNorm(x, eps).mul(weight.values());
  };
  const queryNorm = queryRank > 0 ? norm("attn_q_a_norm", queryRank) : undefined;
  const query = needed(store, at + (queryRank > 0 ? "attn_q_b" : "attn_q"), heads * keyDim, queryRank || dim);
  const shared = needed(store, `${at}attn_kv_a_mqa`, rank + rope.dim, dim);
  const latentNorm = norm("attn_kv_a_norm", rank);
  const keys = store.get(`${at}attn_k_b.weight`, [heads, rank, plain]);
  const values = store.get(`${at}attn_v_b.weight`, [heads, valueDim, rank]);
  /** `[T, H, m]` of `[T, H, n]` by `[H, m, n]`. */
  const byHead = (x: Tensor, w: Tensor) => x.transpose(0, 1).matmul(w.transpose(1, 2)).transpose(0, 1);
  return (x, { angles }) => {
    const [t] = x.shape, q = query(down === undefined ? x : queryNorm!(down(x))).reshape([t, heads, keyDim]);
    const [own, placed] = q.split([plain, rope.dim], 2), [latent, key] = shared(x).split([rank, rope.dim], 1);
    const v = latentNorm(latent).reshape([t, 1, rank]);
    return {
      q: byHead(own, keys.values()).cat([turn(placed, kind, angles)], 2),
      k: v.cat([turn(key.reshape([t, 1, rope.dim]), kind, angles)], 2),
      v,
      finish: (mixed) => joined(byHead(mixed, values.values())),
    };
  };
}

/** Weights of keys `[KV, G T, S]` from scores, with a logit of each head that takes part and has no value. */
function withSinks(scores: Tensor, sinks: Tensor): Tensor {
  const most = scores.max(-1, { keepdim: true }).maximum(sinks), e = scores.sub(most).exp();
  return e.div(e.sum(-1, { keepdim: true }).add(sinks.sub(most).exp()));
}

/** 0, 1 ... below `n`, where `like` is. */
function countTo(n: number | Tensor, like: Tensor): Tensor {
  return Tensor.arange(n, { dtype: dtypes.int32, device: like.device });
}

/** Where the rows of `x` stand: int32 `[T]`. */
function positionsOf({ start, rows }: Place, x: Tensor): Tensor {
  return rows?.positions ?? countTo(x.shape[0], x).add(start);
}

/** Which keys `[T, S]` the queries of `x` `[T, n]` see. */
function seenKeys(spec: ModelSpec, place: Place, x: Tensor, window: boolean): Tensor {
  const key = countTo(place.end, x), query = positionsOf(place, x).unsqueeze(1), past = key.le(query);
  if (!window) return past;
  if (spec.windowKind === "chunk") return past.bitwiseAnd(key.ge(query.sub(query.mod(spec.window))));
  return past.bitwiseAnd(key.gt(query.sub(spec.window)));
}

const HALVES: readonly CacheHalf[] = ["keys", "values"];

/** Keys and values `[KV, S, dim]` of all positions so far: of the cache, into which the new ones are written, in `dtype`. */
function allSoFar(
  { k, v }: Heads,
  { start, end }: Place,
  cache: LayerCache | undefined,
  dtype: DType | undefined,
): [Tensor, Tensor] {
  const [keys, values] = [k, v].map((x) => x.transpose(0, 1));
  if (cache === undefined) return [keys, values];
  writeCache(cache, "keys", [":", [start, end]], keys);
  writeCache(cache, "values", [":", [start, end]], values);
  return HALVES.map((half) => readCache(cache, half, [":", [0, end]], dtype)) as [Tensor, Tensor];
}

/** Keys and values `[B, KV, S, dim]` of several sequences, into whose caches the new ones `[B, KV, dim]` are written. */
function allOfRows({ k, v }: Heads, { rows, end }: Place, cache: LayerCache): [Tensor, Tensor] {
  const { starts } = rows!;
  return HALVES.map((half) => {
    const x = half === "keys" ? k : v;
    starts.forEach((s, i) => writeCache(cache, half, [i, ":", [s, s.add(1)]], x.at(i).unsqueeze(1)));
    return readCache(cache, half, [[0, starts.length], ":", [0, end]]);
  }) as [Tensor, Tensor];
}

/** Attention over all keys so far: those in the cache, or where there is none, the own ones. */
export function attention(
  spec: ModelSpec,
  store: WeightStore,
  layer: number,
): (x: Tensor, p: Place, c?: LayerCache) => Tensor {
  const { heads, kvHeads, headDim, valueDim, dim } = spec, at = `blk.${layer}.`, groups = heads / kvHeads;
  const project = (spec.latent === undefined ? headProjection : latentProjection)(spec, store, layer);
  const out = needed(store, `${at}attn_output`, dim, heads * (spec.latent?.valueDim ?? valueDim));
  const sinks = store.maybe(`${at}attn_sinks.weight`, [heads]) ?? store.maybe(`${at}attn_sinks`, [heads]);
  const window = hasWindow(spec, layer), { format } = store.get(`${at}attn_output.weight`);
  return (x, place, cache) => {
    const [t] = x.shape, made = project(x, place), apart = place.rows !== undefined;
    // a chunk of a text: matrix units round it, as they do in products with weights
    const isChunk = cache !== undefined && !apart && t >= UNIT_ROWS;
    const unit = isChunk ? unitDType(x.device, format) : undefined;
    const multiply = (a: Tensor, b: Tensor): Tensor =>
      unit === undefined ? a.matmul(b) : a.cast(unit).matmul(b.cast(unit), { dtype: dtypes.float32 });
    const [keys, values] = apart ? allOfRows(made, place, cache!) : allSoFar(made, place, cache, unit);
    const scaled = made.q.mul(spec.attentionScale).reshape([t, kvHeads, groups, headDim]);
    // [KV, G T, dim], or where rows are apart [T, KV, G, dim]
    const mine = apart ? scaled : scaled.permute([1, 2, 0, 3]).reshape([kvHeads, groups * t, headDim]);
    let scores = multiply(mine, keys.transpose(-2, -1)); // [..., S]
    if (spec.attentionCap > 0) scores = scores.div(spec.attentionCap).tanh().mul(spec.attentionCap);
    if (apart || t > 1 || window) {
      const seen = seenKeys(spec, place, x, window);
      scores = (apart ? seen.unsqueeze(1).unsqueeze(1) : seen.repeat([groups, 1])).where(scores, -Infinity);
    }
    const sink = sinks?.values().reshape([kvHeads, groups, 1]);
    const weights = sink === undefined ? scores.softmax(-1) : withSinks(
      scores,
      apart ? sink : sink.expand([kvHeads, groups, t]).reshape([kvHeads, groups * t, 1]),
    );
    const all = multiply(weights, values);
    const mixed = apart ? all : all.reshape([kvHeads, groups, t, valueDim]).permute([2, 0, 1, 3]);
    const done = made.finish(mixed.reshape([t, heads, valueDim]));
    return out(unit === undefined ? done : done.cast(unit).contiguous()); // rows in order, as matrix units read them
  };
}
