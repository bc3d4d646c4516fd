/**
 * Attention over sequences that are divided among devices.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../helpers/errors.ts";
import { checkOptions } from "../helpers/options.ts";
import { promote, sumDType } from "../dtype/promotion.ts";
import { checkShards } from "../engine/front/engine.ts";
import { checkTensor } from "../tensor/handle/base.ts";
import { rotated } from "../tensor/shard.ts";
import { Tensor } from "../tensor/tensor.ts";

/** Options of {@linkcode ringAttention}. */
export interface RingAttentionOptions {
  /** Whether a position attends to itself and those before it alone; false unless given. */
  readonly isCausal?: boolean;
  /** What scores are multiplied with; 1 / sqrt(E) unless given. */
  readonly scale?: number;
}

const action = "attend in a ring";

/** The sequence of `t`, `[..., L@axis, E]`, in blocks: `[..., n@axis, L / n, E]`. */
function inBlocks(t: Tensor, n: number): Tensor {
  const { shape } = t, [length, width] = shape.slice(-2);
  return t.reshape([...shape.slice(0, -2), n, length / n, width]);
}

/**
 * `softmax(query @ keyᵀ * scale) @ value` of `[..., L@axis, E]`, `[..., L@axis, E]` and `[..., L@axis, V]`, all divided
 * along the sequence on one axis of a mesh, giving `[..., L@axis, V]`. Keys and values go round the devices in blocks, each
 * of which attends to the block that it has; sums and maxima are kept as in Liu et al., "Ring Attention" (arXiv 2310.01889).
 * No device ever has the whole sequence, and the result is that of `scaledDotProductAttention` but for the order of
 * additions. Scores are computed in at least float32. Gradients go round the other way.
 *
 * ```ts
 * import { Tensor } from "../../mod.ts";
 * import { Mesh, ringAttention } from "./dist.ts";
 * const mesh = Mesh.of({ seq: 2 }, { devices: ["JS", "JS:1"] });
 * const x = Tensor.ones([1, 6, 4]).shard(mesh, [null, "seq", null]); // batch, positions, width
 * console.log(ringAttention(x, x, x, { isCausal: true }).sharding); // float32[1, 6@seq, 4]
 * ```
 * @throws {ArgumentError} where the sequence of the queries is not divided
 * @throws {ShapeError} where keys or values are divided otherwise, or parts are of several sizes
 */
export function ringAttention(query: Tensor, key: Tensor, value: Tensor, options: RingAttentionOptions = {}): Tensor {
  const { isCausal = false, scale } = checkOptions(action, options, ["isCausal", "scale"]);
  const all = { query, key, value }, [length, width] = checkTensor(action, "query", query).shape.slice(-2);
  const { mesh, axes } = checkShards(query.uop), axis = axes.at(-2) ?? null;
  if (mesh === undefined || axis === null) {
    throw new ArgumentError(action, {
      reason:
        `the sequence of the queries, dimension -2 of ${query.sharding}, is not divided: shard it along an axis of ` +
        "a mesh, or use query.scaledDotProductAttention(key, value)",
    });
  }
  const n = mesh.sizeOf(axis), block = length / n;
  for (const [name, t] of Object.entries(all)) {
    const own = checkTensor(action, name, t).shape, isSame = checkShards(t.uop).axes.at(-2) === axis;
    if (isSame && own.at(-2) === length && length % n === 0) continue;
    throw new ShapeError(action, {
      shapes: [query.shape, own],
      reason: length % n === 0
        ? `${name} is ${t.sharding}; its dimension -2 must have ${length} positions, divided along ${axis}`
        : `${length} positions do not divide into ${n} parts: pad them to ${Math.ceil(length / n) * n}`,
    });
  }
  const dtype = sumDType(promote(query.dtype, key.dtype)), factor = scale ?? 1 / Math.sqrt(width);
  const q = inBlocks(query.cast(dtype).mul(factor), n);
  let k = inBlocks(key, n), v = inBlocks(value, n);
  let most: Tensor | undefined, sum: Tensor | undefined, out: Tensor | undefined;
  for (let step = 0; step < n; step++) {
    if (step > 0) [k, v] = [rotated(k, mesh, axis, 1), rotated(v, mesh, axis, 1)];
    let scores = q.matmul(k.cast(dtype).transpose(-2, -1));
    if (isCausal) scores = seen(n, block, step, query.device).where(scores, -Infinity);
    // the own block comes first: each row has seen a key, and its maximum is finite
    const peak = scores.max(-1, { keepdim: true }).detach(), next = most === undefined ? peak : most.maximum(peak);
    const weights = scores.sub(next).exp(), here = weights.matmul(v.cast(dtype));
    const kept: Tensor | undefined = most?.sub(next).exp();
    const added = weights.sum(-1, { keepdim: true });
    sum = sum === undefined ? added : sum.mul(kept!).add(added);
    out = out === undefined ? here : out.mul(kept!).add(here);
    most = next;
  }
  return out!.div(sum!).cast(query.dtype).reshape([...query.shape.slice(0, -1), value.shape.at(-1)!]);
}

/** Which keys the queries of each block see after `step` rotations: bool `[n, block, block]`. */
function seen(n: number, block: number, step: number, device: string): Tensor {
  const along = (size: number, shape: number[]): Tensor => Tensor.arange(size).to(device).reshape(shape);
  const rank = along(n, [n, 1, 1]), from = rank.add(n - step).mod(n);
  const at = rank.mul(block).add(along(block, [1, block, 1])), key = from.mul(block).add(along(block, [1, 1, block]));
  return key.le(at);
}
