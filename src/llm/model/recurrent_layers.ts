/**
 * Layers that keep a state instead of keys and values: Mamba (https://arxiv.org/abs/2312.00752) and the gated delta rule
 * (https://arxiv.org/abs/2412.06464). Tokens of a call are taken some at a time: within those a token sees the others by
 * products, and the state goes on behind them. A short convolution stands before, whose last inputs are state as well.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { Tensor } from "../../tensor/tensor.ts";
import type { LayerCache } from "./cache_memory.ts";
import { needed, type Place, rmsNorm } from "./linear_layers.ts";
import type { ModelSpec, RecurrentSpec } from "./model_spec.ts";
import type { WeightStore } from "./weight_store.ts";

/** Tokens that are taken together: so few that the powers of what they are to each other stay small. */
const TOGETHER = 8;

/** `[T, dim]` of `[T, dim]`: reads the state and writes the next one. */
type Recurrence = (x: Tensor, place: Place, cache?: LayerCache) => Tensor;

/** Shapes of what a layer keeps: the last inputs of the convolution, and the state. */
export function stateShapes({ kind, conv, inner, state, heads, groups }: RecurrentSpec): [number[], number[]] {
  if (kind === "mamba") return [[conv - 1, inner], [inner, state]];
  return [[conv - 1, inner + 2 * groups * state], [heads, state, inner / heads]];
}

/** What is kept from before the call: nothing at the first position. */
function before(kept: Tensor | undefined, shape: readonly number[], x: Tensor, { start }: Place): Tensor {
  if (kept === undefined || typeof start === "number") return Tensor.zeros([...shape], { device: x.device });
  return start.gt(0).where(kept, 0);
}
/** 1 for tokens `[T]` of the text, 0 for those that fill the call. */
function isText(t: number, { count }: Place, x: Tensor): Tensor | undefined {
  if (count === t) return undefined;
  return Tensor.arange(t, { dtype: dtypes.int32, device: x.device }).lt(count).cast(dtypes.float32);
}
/** Convolution over the last inputs `[T, channels]`, with SiLU; keeps the last ones of the text. */
function shortConvolution(store: WeightStore, at: string, channels: number, { conv }: RecurrentSpec) {
  const weight = store.get(`${at}ssm_conv1d.weight`, [channels, conv]),
    bias = store.maybe(`${at}ssm_conv1d.bias`, [channels]);
  return (x: Tensor, place: Place, cache: LayerCache | undefined): Tensor => {
    const [t] = x.shape, all = before(cache?.keys, [conv - 1, channels], x, place).cat([x], 0), w = weight.values();
    const { count } = place, last = all.at([count, typeof count === "number" ? count + conv - 1 : count.add(conv - 1)]);
    let y = all.at([0, t]).mul(w.at(":", 0));
    for (let i = 1; i < conv; i++) y = y.add(all.at([i, i + t]).mul(w.at(":", i)));
    cache?.keys.assign(last.reshape([conv - 1, channels]));
    return (bias === undefined ? y : y.add(bias.values())).silu();
  };
}
/** Whether `s` of `[T, S]` is at `t` or before; before alone if `strict`. */
function past(t: number, x: Tensor, strict: boolean): Tensor {
  const i = Tensor.arange(t, { dtype: dtypes.int32, device: x.device });
  return strict ? i.unsqueeze(1).gt(i) : i.unsqueeze(1).ge(i);
}
/** Calls `f` with ranges of tokens, one after the other, and joins what it gives along axis `axis`. */
function inParts(t: number, axis: number, f: (from: number, to: number) => Tensor): Tensor {
  const parts: Tensor[] = [];
  for (let i = 0; i < t; i += TOGETHER) parts.push(f(i, Math.min(t, i + TOGETHER)));
  return parts.length === 1 ? parts[0] : Tensor.cat(parts, axis);
}

/** Mamba: each channel has a state, which decays by what the token says. */
function mamba(spec: ModelSpec, r: RecurrentSpec, store: WeightStore, at: string): Recurrence {
  const { dim, eps } = spec, { inner, state, heads: rank } = r;
  const input = needed(store, `${at}ssm_in`, 2 * inner, dim), convolve = shortConvolution(store, at, inner, r);
  const choose = needed(store, `${at}ssm_x`, rank + 2 * state, inner), step = needed(store, `${at}ssm_dt`, inner, rank);
  const a = store.get(`${at}ssm_a`, [inner, state]), d = store.get(`${at}ssm_d`, [inner]);
  const out = needed(store, `${at}ssm_out`, dim, inner), heed = (x: Tensor) => r.normalized ? rmsNorm(x, eps) : x;
  return (x, place, cache) => {
    const [t] = x.shape, [u, z] = input(x).split([inner, inner], 1), y = convolve(u, place, cache);
    const [low, b, c] = choose(y).split([rank, state, state], 1).map(heed),
      text = isText(t, place, x),
      decay = a.values();
    const delta = step(low).softplus(), dt = text === undefined ? delta : delta.mul(text.unsqueeze(1));
    let h = before(cache?.values, [inner, state], x, place);
    const mixed = inParts(t, 0, (from, to) => {
      const n = to - from, of = (v: Tensor) => v.at([from, to]), sum = of(dt).cumsum(0), seen = past(n, x, false);
      const apart = seen.unsqueeze(2).where(sum.unsqueeze(1).sub(sum.unsqueeze(0)), 0).unsqueeze(3).mul(decay).exp();
      const added = of(dt).mul(of(y)).unsqueeze(2).mul(of(b).unsqueeze(1)); // [n, inner, state]
      const own = seen.reshape([n, n, 1, 1]).where(apart.mul(added.unsqueeze(0)), 0).sum(1);
      const states = sum.unsqueeze(2).mul(decay).exp().mul(h).add(own);
      h = states.at(n - 1);
      return states.mul(of(c).unsqueeze(1)).sum(2);
    });
    cache?.values.assign(h);
    return out(mixed.add(y.mul(d.values())).mul(z.silu()));
  };
}

/** Some tokens `[H, T, ...]` of the gated delta rule: what they read of the state `[H, dk, dv]`, and the next state. */
function deltaRule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, gate: Tensor, s: Tensor): [Tensor, Tensor] {
  const [h, t] = q.shape, sum = gate.cumsum(1), since = sum.exp().unsqueeze(2), seen = past(t, q, false);
  const apart = seen.where(sum.unsqueeze(2).sub(sum.unsqueeze(1)), 0).exp().mul(seen.cast(dtypes.float32));
  const keys = k.transpose(1, 2), b = beta.unsqueeze(2);
  let change = b.mul(v.sub(since.mul(k.matmul(s))));
  if (t > 1) {
    // (I + L) change = b by the powers of -L, which is below the diagonal
    let power = past(t, q, true).where(b.mul(k.matmul(keys)).mul(apart), 0).neg();
    for (let n = 1; n < t; n *= 2) {
      change = change.add(power.matmul(change));
      if (2 * n < t) power = power.matmul(power);
    }
  }
  const read = since.mul(q.matmul(s)).add(q.matmul(keys).mul(apart).matmul(change));
  const whole = sum.at(":", [t - 1, t]), left = whole.sub(sum).exp().unsqueeze(2);
  return [read, whole.exp().reshape([h, 1, 1]).mul(s).add(k.mul(left).transpose(1, 2).matmul(change))];
}

/** The gated delta rule: a state that is corrected by what it gives for a key. */
function deltaNet(spec: ModelSpec, r: RecurrentSpec, store: WeightStore, at: string): Recurrence {
  const { dim, eps } = spec,
    { inner, state, heads, groups } = r,
    key = groups * state,
    share = heads / groups,
    valueDim = inner / heads;
  const input = needed(store, `${at}attn_qkv`, 2 * key + inner, dim),
    gateOf = needed(store, `${at}attn_gate`, inner, dim);
  const convolve = shortConvolution(store, at, 2 * key + inner, r), both = needed(store, `${at}ssm_ba`, 2 * heads, dim);
  const bias = store.get(`${at}ssm_dt.bias`, [heads]), a = store.get(`${at}ssm_a`, [heads]);
  const norm = store.get(`${at}ssm_norm.weight`, [valueDim]), out = needed(store, `${at}ssm_out`, dim, inner);
  const unit = (x: Tensor) => x.mul(x.square().sum(-1, { keepdim: true }).add(eps).rsqrt());
  return (x, place, cache) => {
    const [t] = x.shape, [q0, k0, v0] = convolve(input(x), place, cache).split([key, key, inner], 1);
    const byHead = (y: Tensor) => unit(y.reshape([t, groups, state])).transpose(0, 1).repeatInterleave(share, 0);
    const q = byHead(q0).mul(1 / Math.sqrt(state)),
      k = byHead(k0),
      v = v0.reshape([t, heads, valueDim]).transpose(0, 1);
    const [b, alpha] = both(x).reshape([t, groups, 2 * share]).split([share, share], 2).map((y) =>
      y.reshape([t, heads])
    );
    const text = isText(t, place, x),
      only = (y: Tensor) => (text === undefined ? y : y.mul(text.unsqueeze(1))).transpose(0, 1);
    const beta = only(b.sigmoid()), gate = only(alpha.add(bias.values()).softplus().mul(a.values()));
    let s = before(cache?.values, [heads, state, valueDim], x, place);
    const read = inParts(t, 1, (from, to) => {
      const of = (y: Tensor) => y.at(":", [from, to]),
        [part, next] = deltaRule(of(q), of(k), of(v), of(beta), of(gate), s);
      s = next;
      return part;
    });
    cache?.values.assign(s);
    const normed = rmsNorm(read.transpose(0, 1), eps).mul(norm.values()); // [T, H, dv]
    return out(normed.reshape([t, inner]).mul(gateOf(x).silu()));
  };
}

/** The layer that stands where attention does. */
export function recurrentLayer(spec: ModelSpec, store: WeightStore, layer: number): Recurrence {
  const r = spec.recurrent!;
  return (r.kind === "mamba" ? mamba : deltaNet)(spec, r, store, `blk.${layer}.`);
}
