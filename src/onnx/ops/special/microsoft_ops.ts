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

const ms = (name: string, run: OpRow["run"], host: OpRow["host"] = []): OpRow =>
  op(name, run, host, 1, "com.microsoft");

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
/** Words, positions and segments looked up, added and normalized. */
function embedNorm(c: Call): Result {
  const ids = c.x(0),
    [b, s] = ids.shape,
    rows = (table: Tensor, at: Tensor) => table.indexSelect(0, at.reshape([-1])).reshape([b, s, -1]);
  const position = c.has(8)
    ? rows(c.x(3), c.x(8).expand([b, s]))
    : c.x(3).shrink([[0, s], [0, c.shape(3)[1]]]).unsqueeze(0);
  let sum = rows(c.x(2), ids).add(position);
  if (c.has(1) && c.has(4)) sum = sum.add(rows(c.x(4), c.x(1)));
  const lengths = c.has(7) ? c.x(7).cast(dtypes.int32).sum(1).cast(dtypes.int32) : ids.mul(0).sum(1).cast(dtypes.int32);
  return [normalized(sum, c.x(5), c.x(6), c.float("epsilon", 1e-12), false), lengths, sum];
}

/** The weighted values of `[B, H, S, D]`. */
function attend(c: Call, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | undefined): Tensor {
  const scale = c.float("scale", 0) || 1 / Math.sqrt(q.shape[3]),
    scores = q.matmul(k.transpose(2, 3)).float().mul(scale);
  return (bias === undefined ? scores : scores.add(bias)).softmax(-1).cast(q.dtype).matmul(v);
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

function attention(c: Call): Result {
  const x = c.x(0),
    heads = c.int("num_heads"),
    sizes = c.hasAttribute("qkv_hidden_sizes")
      ? [...c.ints("qkv_hidden_sizes")]
      : new Array<number>(3).fill(c.shape(1)[1] / 3);
  const plain = x.matmul(c.x(1)), all = c.has(2) ? plain.add(c.x(2)) : plain;
  const [q, k0, v0] = all.split(sizes, 2).map((t) => parted(t, heads));
  const past = c.opt(4),
    k = past === undefined ? k0 : past.at(0).cat([k0], 2),
    v = past === undefined ? v0 : past.at(1).cat([v0], 2);
  const total = k.shape[2], seen = c.int("unidirectional", 0) === 1 ? causal(q.shape[2], total) : undefined;
  const y = attend(c, q, k, v, both(both(seen, maskBias(c, 3, total)), c.opt(5)?.float()));
  return [merged(y), c.wants(1) ? k.stack([v], 0) : undefined];
}
function multiHead(c: Call): Result {
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
/** Queries that share keys and values in groups, over a cache; the past's length is that of its tensor. */
function groupQuery(c: Call): Result {
  const heads = c.int("num_heads"), groups = c.int("kv_num_heads"), x = c.x(0), [b, s] = x.shape;
  let q: Tensor, k: Tensor, v: Tensor;
  if (c.has(1)) [q, k, v] = [parted(x, heads), parted(c.x(1), groups), parted(c.x(2), groups)];
  else {
    const d = x.shape[2] / (heads + 2 * groups);
    [q, k, v] = x.split([heads * d, groups * d, groups * d], 2).map((t, i) => parted(t, i === 0 ? heads : groups));
  }
  const past = c.has(3) ? c.shape(3)[2] : 0;
  if (c.int("do_rotary", 0) === 1) {
    const at = Tensor.arange(s).add(past).unsqueeze(0).expand([b, s]),
      by = (t: Tensor) => turned(c, t, c.x(7), c.x(8), at, "rotary_interleaved");
    [q, k] = [by(q), by(k)];
  }
  if (past > 0) [k, v] = [c.x(3).cat([k], 2), c.x(4).cat([v], 2)];
  const total = k.shape[2];
  const window = c.int("local_window_size", -1), seen = causal(s, total);
  const near = window <= 0 ? seen : seen.add(
    Tensor.arange(total).unsqueeze(0).gt(Tensor.arange(s).unsqueeze(1).add(total - s - window)).where(0, -Infinity),
  );
  const used = c.opt(5)?.cast(dtypes.int32).reshape([-1, 1, 1, 1]);
  const padded = used === undefined || b === 1 ? near : near.add(Tensor.arange(total).le(used).where(0, -Infinity));
  return [merged(attend(c, q, shared(k, heads), shared(v, heads), padded)), k, v];
}
function fusedMatmul(c: Call): Result {
  const flip = (x: Tensor, name: string) => c.int(name, 0) === 1 ? x.transpose(-2, -1) : x;
  return c.like(flip(c.x(0), "transA").matmul(flip(c.x(1), "transB")).mul(c.float("alpha", 1)));
}
function activated(c: Call, x: Tensor): Tensor {
  const name = c.text("activation", ""), [a, b] = c.floats("activation_params", []);
  if (name === "") return x;
  if (name === "Relu") return x.relu();
  if (name === "Tanh") return x.tanh();
  if (name === "Sigmoid") return x.sigmoid();
  if (name === "LeakyRelu") return x.leakyRelu(a ?? c.float("leaky_relu_alpha", 0.01));
  if (name === "Clip") return x.clamp(a, b);
  if (name === "HardSigmoid") return x.mul(a).add(b).clamp(0, 1);
  throw c.fail(`activation "${name}" is not known`);
}

/** The rows of this family. */
export const MICROSOFT: readonly OpRow[] = [
  ms("Gelu", (c) => c.like(c.x(0).gelu())),
  ms("QuickGelu", (c) => c.like(c.x(0).mul(c.x(0).mul(c.float("alpha", 1.702)).sigmoid()))),
  ms("FastGelu", (c) => c.like((c.has(1) ? c.x(0).add(c.x(1)) : c.x(0)).gelu({ approximate: "tanh" }))),
  ms("BiasGelu", (c) => c.like(c.x(0).add(c.x(1)).gelu())),
  ms("BiasSoftmax", (c) => c.like(c.x(0).add(c.x(1)).softmax(-1))),
  ms("SkipLayerNormalization", (c) => skipNorm(c, false)),
  ms("SkipSimplifiedLayerNormalization", (c) => skipNorm(c, true)),
  ms("EmbedLayerNormalization", embedNorm),
  op("SimplifiedLayerNormalization", (c) => normalized(c.x(0), c.x(1), undefined, c.float("epsilon", 1e-5), true)),
  ms("Attention", attention),
  ms("MultiHeadAttention", multiHead),
  ms("GroupQueryAttention", groupQuery),
  ms("RotaryEmbedding", (c) => {
    const input = c.x(0),
      flat = input.ndim === 3,
      cos = c.x(2),
      n = c.int("num_heads", 0) || input.shape[2] / (2 * cos.shape[1]);
    const x = flat ? parted(input, n) : input, [b, , s] = x.shape, at = c.x(1);
    const places = at.numel() === 1 ? Tensor.arange(s).unsqueeze(0).add(at.reshape([1, 1])).expand([b, s]) : at;
    const y = turned(c, x, cos, c.x(3), places, "interleaved");
    return c.like(flat ? merged(y) : y);
  }),
  ms("FusedMatMul", fusedMatmul),
  ms("FusedGemm", (c) => {
    const flip = (x: Tensor, name: string) => c.int(name, 0) === 1 ? x.transpose(0, 1) : x;
    const y = flip(c.x(0), "transA").matmul(flip(c.x(1), "transB")).mul(c.float("alpha", 1));
    return c.like(activated(c, c.has(2) ? y.add(c.x(2).mul(c.float("beta", 1))) : y));
  }),
  ms("FusedConv", (c) => {
    const y = convolve(c, c.x(0), c.x(1), c.opt(2));
    return c.like(activated(c, c.has(3) ? y.add(c.x(3)) : y));
  }),
  ms("Inverse", (c) => c.like(c.x(0).inv())),
  ms("Trilu", (c) => c.like(c.int("upper", 1) === 1 ? c.x(0).triu(c.number(1, 0)) : c.x(0).tril(c.number(1, 0))), [1]),
];
