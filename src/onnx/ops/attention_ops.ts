/**
 * ONNX: attention: with masks, caches and heads in groups, with functions of the scores; linear attention with its state;
 * rotary embeddings.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result, type Steps } from "../values/node_call.ts";
import { Value, valueOf } from "../values/value.ts";

/** `[B, S, H * D]` as `[B, H, S, D]`. */
export function heads(x: Tensor, count: number): Tensor {
  if (x.ndim === 4) return x;
  const [b, s, n] = x.shape;
  return x.reshape([b, s, count, n / count]).permute([0, 2, 1, 3]);
}
/** The inverse. */
export function merged(x: Tensor): Tensor {
  const [b, h, s, d] = x.shape;
  return x.permute([0, 2, 1, 3]).reshape([b, s, h * d]);
}
/** Each head of keys or values for the queries that share it. */
export function shared(x: Tensor, count: number): Tensor {
  const [b, h, s, d] = x.shape;
  if (h === count) return x;
  return x.unsqueeze(2).expand([b, h, count / h, s, d]).reshape([b, count, s, d]);
}

/** What is added to scores: of a mask, of the past alone, of padding. */
function biasOf(c: Call, length: number, total: number, past: number): Tensor | undefined {
  const blocked = (taken: Tensor): Tensor => taken.where(0, -Infinity);
  let bias = c.opt(3);
  if (bias?.dtype === dtypes.bool) bias = blocked(bias);
  if (bias !== undefined) {
    const short = total - bias.shape[bias.ndim - 1];
    if (short > 0) {
      bias = bias.pad(bias.shape.map((_, i): [number, number] => [0, i === bias!.ndim - 1 ? short : 0]), {
        value: -Infinity,
      });
    }
    bias = bias.float();
  }
  const add = (b: Tensor): void => void (bias = bias?.add(b) ?? b);
  const used = c.opt(6), column = Tensor.arange(total).unsqueeze(0);
  if (c.int("is_causal", 0) === 1) {
    const row = Tensor.arange(length).unsqueeze(1);
    const shift = used === undefined ? past : used.cast(dtypes.int32).sub(length).reshape([-1, 1, 1, 1]);
    add(blocked(column.le(row.add(shift))));
  }
  if (used !== undefined) add(blocked(column.lt(used.cast(dtypes.int32).reshape([-1, 1, 1, 1]))));
  return bias;
}

function attention(c: Call): Result {
  const flat = c.shape(0).length === 3, q = heads(c.x(0), flat ? c.int("q_num_heads") : 0);
  let k = heads(c.x(1), flat ? c.int("kv_num_heads") : 0), v = heads(c.x(2), flat ? c.int("kv_num_heads") : 0);
  const past = c.has(4) ? c.shape(4)[2] : 0;
  if (c.has(4)) [k, v] = [c.x(4).cat([k], 2), c.x(5).cat([v], 2)];
  const [, count, length, size] = q.shape, total = k.shape[2], keys = shared(k, count), values = shared(v, count);
  const root = Math.sqrt(c.float("scale", 1 / Math.sqrt(size)));
  const raw = q.mul(root).matmul(keys.mul(root).transpose(2, 3)), cap = c.float("softcap", 0);
  const capped = cap > 0 ? raw.float().div(cap).tanh().mul(cap) : raw.float(), bias = biasOf(c, length, total, past);
  const scores = bias === undefined ? capped : capped.add(bias), plain = scores.softmax(-1);
  // a row that may see nothing has no weights
  const weights = bias === undefined ? plain : bias.max(-1, { keepdim: true }).eq(-Infinity).where(0, plain);
  const y = weights.cast(q.dtype).matmul(values);
  const told = [raw, capped, scores, weights][c.int("qk_matmul_output_mode", 0)];
  return [c.like(flat ? merged(y) : y), c.like(k, 1), c.like(v, 2), c.wants(3) ? c.like(told) : undefined];
}

/** Attention whose scores and weights are changed by graphs of its own. */
function* flexAttention(c: Call): Steps<Result> {
  const q = c.x(0), count = q.shape[1], k = shared(c.x(1), count), v = shared(c.x(2), count);
  const root = Math.sqrt(c.float("scale", 1 / Math.sqrt(q.shape[3]))),
    wide = q.dtype === dtypes.float64 ? q.dtype : dtypes.float32;
  let scores = q.mul(root).matmul(k.mul(root).transpose(2, 3)).cast(wide);
  const changed = function* (name: string, t: Tensor): Steps<Tensor> {
    if (!c.hasAttribute(name)) return t;
    const [out] = yield* c.run(c.graph(name), [valueOf(t)]);
    if (!(out instanceof Value)) throw c.fail(`its ${name} gives no tensor`);
    return out.tensor(c.device);
  };
  scores = yield* changed("score_mod", scores);
  const weights = yield* changed("prob_mod", scores.softmax(-1));
  return c.like(weights.cast(q.dtype).matmul(v));
}

/** A state `[B, H, dk, dv]` that each step decays, corrects and adds to, and each query reads. */
function linearAttention(c: Call): Result {
  const query = c.x(0), hq = c.int("q_num_heads"), hkv = c.int("kv_num_heads"), [b, length] = query.shape;
  const rule = c.text("update_rule", "gated_delta"),
    split = (x: Tensor, n: number) => x.float().reshape([b, length, n, x.shape[2] / n]);
  const q = split(query, hq), k = split(c.x(1), hkv), v = split(c.x(2), hkv), dk = k.shape[3], dv = v.shape[3];
  const decay = c.has(4) ? split(c.x(4), hkv) : undefined, beta = c.has(5) ? c.x(5).float().unsqueeze(3) : undefined;
  const given = c.float("scale", 0), scale = given === 0 ? 1 / Math.sqrt(dk) : given;
  let state = c.opt(3)?.float() ?? Tensor.zeros([b, hkv, dk, dv]);
  const outs: Tensor[] = [];
  for (let t = 0; t < length; t++) {
    const kt = k.select(1, t).unsqueeze(3);
    let vt = v.select(1, t);
    if (rule.includes("gated") && decay !== undefined) state = state.mul(decay.select(1, t).exp().unsqueeze(3));
    if (rule.includes("delta")) {
      vt = vt.sub(state.transpose(2, 3).matmul(kt).squeeze(3));
      if (beta !== undefined) vt = vt.mul(beta.select(1, t));
    }
    state = state.add(kt.mul(vt.unsqueeze(2)));
    outs.push(q.select(1, t).unsqueeze(2).matmul(shared(state, hq)).squeeze(2).mul(scale));
  }
  const y = outs[0].stack(outs.slice(1), 1).reshape([b, length, hq * dv]);
  return [c.like(y), c.has(3) ? c.like(state, 3) : c.like(state)];
}

/** Pairs of a part of each head turned by angles: halves of it, or neighbors. */
export function rotated(x: Tensor, cos: Tensor, sin: Tensor, size: number, interleaved: boolean): Tensor {
  const part = x.at("...", [0, size]),
    rest = x.shape[3] === size ? undefined : x.at("...", [size, null]),
    half = size / 2;
  const a = interleaved ? part.at("...", [0, null, 2]) : part.at("...", [0, half]);
  const b = interleaved ? part.at("...", [1, null, 2]) : part.at("...", [half, size]);
  const real = a.mul(cos).sub(b.mul(sin)), imaginary = a.mul(sin).add(b.mul(cos));
  const y = interleaved ? real.stack([imaginary], -1).reshape(part.shape) : real.cat([imaginary], -1);
  return rest === undefined ? y : y.cat([rest], -1);
}
function rotaryEmbedding(c: Call): Result {
  const input = c.x(0), flat = input.ndim === 3, x = heads(input, flat ? c.int("num_heads") : 0);
  const size = c.int("rotary_embedding_dim", 0) || x.shape[3], half = size / 2;
  const angles = (i: number): Tensor => {
    const cache = c.x(i), at = c.opt(3);
    const found = at === undefined
      ? cache
      : cache.indexSelect(0, at.reshape([-1])).reshape([...at.shape, cache.shape[1]]);
    return found.at("...", [0, half]).unsqueeze(1);
  };
  const y = rotated(x, angles(1), angles(2), size, c.int("interleaved", 0) === 1);
  return c.like(flat ? merged(y) : y);
}

/** The rows of this family. */
export const ATTENTION: readonly OpRow[] = [
  op("Attention", attention),
  op("FlexAttention", flexAttention, [], 1, "ai.onnx.preview"),
  op("LinearAttention", linearAttention),
  op("RotaryEmbedding", rotaryEmbedding),
];
