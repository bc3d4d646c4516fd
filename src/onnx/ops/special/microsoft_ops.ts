/**
 * ONNX: operators of com.microsoft that optimized and exported models have: fused activations, normalizations, products
 * and attention.
 *
 * @module
 */
import { dtypes } from "../../../dtype/dtype.ts";
import { Tensor } from "../../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../../values/node_call.ts";
import { heads as parted, merged, rotated, shared } from "../attention_ops.ts";
import { convolve } from "../window_ops.ts";

/** A row; the attributes that it heeds are words. */
export function ms(name: string, heeds: string, run: OpRow["run"], host: OpRow["host"] = []): OpRow {
  return { ...op(name, run, host, 1, "com.microsoft"), heeds: heeds.split(" ") };
}

/** Layer or root-mean-square normalization over the last axis. */
function normalized(x: Tensor, scale: Tensor, bias: Tensor | undefined, epsilon: number, simple: boolean): Tensor {
  const wide = x.float(), centered = simple ? wide : wide.sub(wide.mean(-1, { keepdim: true }));
  const y = centered.mul(centered.square().mean(-1, { keepdim: true }).add(epsilon).rsqrt()).mul(scale.float());
  return (bias === undefined ? y : y.add(bias.float())).cast(x.dtype);
}
function skipNorm(c: Call, simple: boolean): Result {
  const plain = c.x(0).add(c.x(1)), extra = c.opt(simple ? 3 : 4), sum = extra === undefined ? plain : plain.add(extra);
  const y = normalized(sum, c.x(2), simple ? undefined : c.opt(3), c.float("epsilon", 1e-12), simple);
  return [y, undefined, undefined, sum];
}
/** What words, positions and segments are looked up in, and what they are normalized by. */
export interface Tables {
  readonly words: Tensor;
  readonly positions: Tensor;
  readonly segments: Tensor | undefined;
  readonly scale: Tensor;
  readonly bias: Tensor;
}
/** Words, positions and segments looked up, added and normalized; inputs of the mask and of the positions. */
export function embedded(c: Call, tables: Tables, mask: number, at: number): Result {
  const ids = c.x(0),
    [b, s] = ids.shape,
    rows = (table: Tensor, at: Tensor) => table.indexSelect(0, at.reshape([-1])).reshape([b, s, -1]);
  const position = c.has(at)
    ? rows(tables.positions, c.x(at).expand([b, s]))
    : tables.positions.shrink([[0, s], [0, tables.positions.shape[1]]]).unsqueeze(0);
  let sum = rows(tables.words, ids).add(position);
  if (c.has(1) && tables.segments !== undefined) sum = sum.add(rows(tables.segments, c.x(1)));
  const flags = c.has(mask) ? c.x(mask).cast(dtypes.int32) : ids.mul(0), lengths = flags.sum(1).cast(dtypes.int32);
  return [normalized(sum, tables.scale, tables.bias, c.float("epsilon", 1e-12), false), lengths, sum];
}

/** Throws where one of these inputs is given: others would compute something else with it. */
function without(c: Call, inputs: Readonly<Record<number, string>>): void {
  for (const [i, name] of Object.entries(inputs)) {
    if (c.has(Number(i))) throw c.fail(`its input ${i}, ${name}, is not taken`);
  }
}
/** The weighted values of `[B, H, S, D]`. */
function attend(c: Call, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | undefined): Tensor {
  const scale = c.float("scale", 0) || 1 / Math.sqrt(q.shape[3]), cap = c.float("softcap", 0);
  const raw = q.matmul(k.transpose(2, 3)).float().mul(scale), scores = cap > 0 ? raw.div(cap).tanh().mul(cap) : raw;
  const seen = bias === undefined ? scores : scores.add(bias), isQuery = c.node.op === "GroupQueryAttention";
  const sinks = isQuery && c.has(11) ? c.x(11).float().reshape([1, -1, 1, 1]) : undefined;
  if (sinks === undefined && c.int("smooth_softmax", 0) !== 1) return seen.softmax(-1).cast(q.dtype).matmul(v);
  // one more score, of a head or zero, that takes weight and has no value
  const [n, h, rows, total] = seen.shape, sink = (sinks ?? Tensor.zeros([1, 1, 1, 1])).expand([n, h, rows, 1]);
  return seen.cat([sink], 3).softmax(-1).at("...", [0, total]).cast(q.dtype).matmul(v);
}
/** What the past alone may be seen of. */
function causal(length: number, total: number): Tensor {
  const row = Tensor.arange(length).unsqueeze(1).add(total - length);
  return Tensor.arange(total).unsqueeze(0).le(row).where(0, -Infinity);
}
/** A mask of keys, `[B]` lengths or `[B, S]` and wider flags, as what is added. */
function maskBias(c: Call, i: number, total: number): Tensor | undefined {
  const mask = c.opt(i);
  if (mask === undefined) return undefined;
  const low = c.float("mask_filter_value", -10000), flags = mask.cast(dtypes.int32);
  if (mask.ndim === 1) {
    return Tensor.arange(total).unsqueeze(0).lt(flags.unsqueeze(1)).where(0, low).reshape([-1, 1, 1, total]);
  }
  const shape = mask.ndim === 2
    ? [mask.shape[0], 1, 1, total]
    : mask.ndim === 3
    ? [mask.shape[0], 1, ...mask.shape.slice(1)]
    : mask.shape;
  return flags.ne(0).where(0, low).reshape(shape);
}
const both = (a: Tensor | undefined, b: Tensor | undefined): Tensor | undefined =>
  a === undefined ? b : b === undefined ? a : a.add(b);

/** Attention of queries, keys and values beside each other, `[B, S, 3 * H * D]`; inputs of the mask and of the past. */
export function attendPacked(c: Call, all: Tensor, sizes: readonly number[], mask: number, before: number): Result {
  const [q, k0, v0] = all.split([...sizes], 2).map((t) => parted(t, c.int("num_heads"))), past = c.opt(before);
  const k = past === undefined ? k0 : past.at(0).cat([k0], 2), v = past === undefined ? v0 : past.at(1).cat([v0], 2);
  const total = k.shape[2], seen = c.int("unidirectional", 0) === 1 ? causal(q.shape[2], total) : undefined;
  const extra = mask === 3 && before === 4 ? c.opt(5)?.float() : undefined;
  const y = attend(c, q, k, v, both(both(seen, maskBias(c, mask, total)), extra));
  return [merged(y), c.wants(1) ? k.stack([v], 0) : undefined];
}
function attention(c: Call): Result {
  without(c, { 6: "past_sequence_length" });
  const x = c.x(0),
    sizes = c.hasAttribute("qkv_hidden_sizes")
      ? [...c.ints("qkv_hidden_sizes")]
      : new Array<number>(3).fill(c.shape(1)[1] / 3);
  const plain = x.matmul(c.x(1)), all = c.has(2) ? plain.add(c.x(2)) : plain;
  return attendPacked(c, all, sizes, 3, 4);
}
function multiHead(c: Call): Result {
  without(c, { 8: "past_sequence_length", 9: "cache_indirection" });
  const heads = c.int("num_heads"), bias = c.opt(3);
  let q: Tensor, k: Tensor, v: Tensor;
  if (!c.has(1)) { // packed: [B, S, H, 3, D]
    const x = c.x(0);
    [q, k, v] = [0, 1, 2].map((i) => x.select(3, i).permute([0, 2, 1, 3]));
  } else {
    const parts = bias === undefined ? undefined : bias.split(
      [c.shape(0)[2], c.shape(0)[2], bias.shape[0] - 2 * c.shape(0)[2]],
      0,
    );
    const plus = (t: Tensor, i: number) => parted(parts === undefined || t.ndim !== 3 ? t : t.add(parts[i]), heads);
    if (!c.has(2)) throw c.fail("packed keys and values are not taken: give both");
    [q, k, v] = [plus(c.x(0), 0), plus(c.x(1), 1), plus(c.x(2), 2)];
  }
  if (c.has(6)) [k, v] = [c.x(6).cat([k], 2), c.x(7).cat([v], 2)];
  const total = k.shape[2], seen = c.int("unidirectional", 0) === 1 ? causal(q.shape[2], total) : undefined;
  return [merged(attend(c, q, k, v, both(both(seen, maskBias(c, 4, total)), c.opt(5)?.float()))), k, v];
}
function turned(c: Call, x: Tensor, cos: Tensor, sin: Tensor, at: Tensor, name: string): Tensor {
  const rows = (t: Tensor) =>
    t.indexSelect(0, at.reshape([-1])).reshape([at.shape[0], at.shape[1], t.shape[1]]).unsqueeze(1);
  return rotated(x, rows(cos), rows(sin), 2 * cos.shape[1], c.int(name, 0) === 1);
}
/** Keys or values `[B, H, P, D]` with those of new positions from `from` on, `[B, 1, 1, 1]`, in room for `total`. */
function written(past: Tensor, added: Tensor, from: Tensor, total: number): Tensor {
  const [b, h, p, d] = past.shape, at = Tensor.arange(total).reshape([1, 1, total, 1]), place = at.sub(from);
  const index = place.clamp(0, added.shape[2] - 1).expand([b, h, total, d]);
  const room = past.pad([[0, 0], [0, 0], [0, Math.max(0, total - p)], [0, 0]]);
  return place.ge(0).logicalAnd(place.lt(added.shape[2])).where(added.gather(2, index), room);
}
/**
 * Queries that share keys and values in groups, over a cache. The past is as long as its tensor; where the cache has room
 * for more, or sequences of a batch are of unlike lengths, as long as `seqlens_k` says.
 */
function groupQuery(c: Call): Result {
  without(c, { 12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight" });
  const heads = c.int("num_heads"), groups = c.int("kv_num_heads"), x = c.x(0), [b, s] = x.shape;
  let q: Tensor, k: Tensor, v: Tensor;
  if (c.has(1)) [q, k, v] = [parted(x, heads), parted(c.x(1), groups), parted(c.x(2), groups)];
  else {
    const d = x.shape[2] / (heads + 2 * groups);
    [q, k, v] = x.split([heads * d, groups * d, groups * d], 2).map((t, i) => parted(t, i === 0 ? heads : groups));
  }
  const past = c.has(3) ? c.shape(3)[2] : 0, all = c.has(6) ? c.value(6).numbers?.[0] ?? past + s : past + s;
  const hasRoom = past > 0 && c.has(5) && (b > 1 || all !== past + s), total = hasRoom ? Math.max(past, all) : past + s;
  const from = hasRoom && all > s
    ? c.x(5).cast(dtypes.int32).reshape([-1, 1, 1, 1]).add(1 - s)
    : Tensor.full([1, 1, 1, 1], hasRoom ? 0 : past, { dtype: dtypes.int32 });
  const row = Tensor.arange(s).reshape([1, 1, s, 1]).add(from), column = Tensor.arange(total);
  if (c.int("do_rotary", 0) === 1) {
    const at = c.has(9) ? c.x(9).expand([b, s]) : row.reshape([-1, s]).expand([b, s]),
      by = (t: Tensor) => turned(c, t, c.x(7), c.x(8), at, "rotary_interleaved");
    [q, k] = [by(q), by(k)];
  }
  if (hasRoom) [k, v] = [written(c.x(3), k, from, total), written(c.x(4), v, from, total)];
  else if (past > 0) [k, v] = [c.x(3).cat([k], 2), c.x(4).cat([v], 2)];
  const window = c.int("local_window_size", -1), unseen = (t: Tensor): Tensor => t.where(-Infinity, 0);
  let bias: Tensor | undefined = c.int("causal", 1) === 1 ? unseen(column.gt(row)) : undefined;
  if (window > 0) bias = both(bias, unseen(column.le(row.sub(window))));
  if (c.has(10)) bias = both(bias, c.x(10).float().at("...", [0, total]));
  return [merged(attend(c, q, shared(k, heads), shared(v, heads), bias)), k, v];
}
function fusedMatmul(c: Call): Result {
  // batch axes stand behind the rows where the batch is transposed: [rows, ..., columns]
  const side = (i: number, name: string): Tensor => {
    const x = c.int(`transBatch${name}`, 0) === 1 ? c.x(i).movedim(0, -2) : c.x(i);
    return c.int(`trans${name}`, 0) === 1 ? x.transpose(-2, -1) : x;
  };
  return c.like(side(0, "A").matmul(side(1, "B")).mul(c.float("alpha", 1)));
}
function activated(c: Call, x: Tensor): Tensor {
  const name = c.text("activation", ""), one = (n: string) => c.hasAttribute(n) ? c.float(n) : undefined;
  const [a, b] = c.hasAttribute("activation_params")
    ? c.floats("activation_params")
    : [one("activation_alpha"), one("activation_beta")];
  if (name === "") return x;
  if (name === "Relu") return x.relu();
  if (name === "Tanh") return x.tanh();
  if (name === "Sigmoid") return x.sigmoid();
  if (name === "LeakyRelu") return x.leakyRelu(a ?? 0.01);
  if (name === "Clip") return x.clamp(a, b);
  if (name === "HardSigmoid") return x.mul(a ?? 0.2).add(b ?? 0.5).clamp(0, 1);
  throw c.fail(`activation "${name}" is not known`);
}

/** The rows of this family. */
export const MICROSOFT: readonly OpRow[] = [
  ms("Gelu", "", (c) => c.like(c.x(0).gelu())),
  ms("QuickGelu", "alpha", (c) => c.like(c.x(0).mul(c.x(0).mul(c.float("alpha", 1.702)).sigmoid()))),
  ms("FastGelu", "", (c) => c.like((c.has(1) ? c.x(0).add(c.x(1)) : c.x(0)).gelu({ approximate: "tanh" }))),
  ms("BiasGelu", "", (c) => c.like(c.x(0).add(c.x(1)).gelu())),
  ms("BiasSoftmax", "axis is_inner_broadcast", (c) => {
    const x = c.x(0), axis = c.axis(c.int("axis", 1), x.ndim);
    return c.like(x.add(c.x(1)).flatten(axis).softmax(-1).reshape(x.shape));
  }),
  ms("SkipLayerNormalization", "epsilon", (c) => skipNorm(c, false)),
  ms("SkipSimplifiedLayerNormalization", "epsilon", (c) => skipNorm(c, true)),
  ms("EmbedLayerNormalization", "epsilon mask_index_type", (c) => {
    const tables = { words: c.x(2), positions: c.x(3), segments: c.opt(4), scale: c.x(5), bias: c.x(6) };
    return embedded(c, tables, 7, 8);
  }),
  op("SimplifiedLayerNormalization", (c) => normalized(c.x(0), c.x(1), undefined, c.float("epsilon", 1e-5), true)),
  ms("Attention", "mask_filter_value num_heads qkv_hidden_sizes scale unidirectional", attention),
  ms("MultiHeadAttention", "mask_filter_value num_heads scale unidirectional", multiHead),
  ms(
    "GroupQueryAttention",
    "causal do_rotary kv_num_heads local_window_size num_heads rotary_interleaved scale smooth_softmax softcap",
    groupQuery,
  ),
  ms("RotaryEmbedding", "interleaved num_heads rotary_embedding_dim scale", (c) => {
    if (c.float("scale", 1) !== 1) throw c.fail("a scale is not taken");
    const input = c.x(0),
      flat = input.ndim === 3,
      cos = c.x(2),
      n = c.int("num_heads", 0) || input.shape[2] / (2 * cos.shape[1]);
    const x = flat ? parted(input, n) : input, [b, , s] = x.shape, at = c.x(1);
    const places = at.numel() === 1 ? Tensor.arange(s).unsqueeze(0).add(at.reshape([1, 1])).expand([b, s]) : at;
    const y = turned(c, x, cos, c.x(3), places, "interleaved");
    return c.like(flat ? merged(y) : y);
  }),
  ms("FusedMatMul", "alpha transA transB transBatchA transBatchB", fusedMatmul),
  ms("FusedGemm", "activation activation_alpha activation_beta alpha beta transA transB", (c) => {
    const flip = (x: Tensor, name: string) => c.int(name, 0) === 1 ? x.transpose(0, 1) : x;
    const y = flip(c.x(0), "transA").matmul(flip(c.x(1), "transB")).mul(c.float("alpha", 1));
    return c.like(activated(c, c.has(2) ? y.add(c.x(2).mul(c.float("beta", 1))) : y));
  }),
  ms("FusedConv", "activation activation_params auto_pad dilations group kernel_shape pads strides", (c) => {
    const y = convolve(c, c.x(0), c.x(1), c.opt(2));
    return c.like(activated(c, c.has(3) ? y.add(c.x(3)) : y));
  }),
  ms("Inverse", "", (c) => c.like(c.x(0).inv())),
  ms(
    "Trilu",
    "upper",
    (c) => c.like(c.int("upper", 1) === 1 ? c.x(0).triu(c.number(1, 0)) : c.x(0).tril(c.number(1, 0))),
    [1],
  ),
];
