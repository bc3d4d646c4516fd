/**
 * Attention with several heads, as PyTorch's layer.
 *
 * @module
 */
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { checkInteger, checkOptions } from "../../helpers/options.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { xavierUniform } from "./init.ts";
import { Linear } from "./linear.ts";

/** Options of {@linkcode MultiHeadAttention}. */
export interface MultiHeadAttentionOptions {
  /** Share of the weights that is dropped in training; 0 unless given. */
  readonly dropout?: number;
  /** Whether projections have biases; true unless given. */
  readonly bias?: boolean;
  /** Features of keys, and of values; embedDim unless given. */
  readonly kdim?: number;
  readonly vdim?: number;
  /** Whether sequences are `[N, L, E]` instead of `[L, N, E]`; false unless given. */
  readonly batchFirst?: boolean;
}

/** Options of {@linkcode MultiHeadAttention.call}. */
export interface AttentionCallOptions {
  /** `[L, S]` or `[N * heads, L, S]`: true where a query must not see a key; a float mask is added to the scores. */
  readonly attnMask?: Tensor;
  /** `[N, S]`: true for keys to be ignored; a float mask is added to the scores. */
  readonly keyPaddingMask?: Tensor;
  /** Whether a query sees keys up to its own position only; false unless given. */
  readonly isCausal?: boolean;
  /** Whether to return the weights; false unless given (PyTorch's default is true, which is slower). */
  readonly needWeights?: boolean;
  /** Whether the weights returned are the mean of all heads'; true unless given. */
  readonly averageAttnWeights?: boolean;
}

/** A mask as something to add to scores: what is true there becomes minus infinity. */
function additive(mask: Tensor, what: string): Tensor {
  if (mask.dtype.isBool) return mask.where(-Infinity, Tensor.zeros([], { device: mask.device }));
  if (mask.dtype.isFloat) return mask;
  throw new DTypeError("attend with a mask of dtype", {
    dtypes: [mask.dtype],
    reason: `${what} is bool, or a float that is added`,
  });
}

/** Attention with several heads (Vaswani et al., arXiv 1706.03762). Its weights are named and laid out as PyTorch's. */
export class MultiHeadAttention {
  /** `[3 * embedDim, embedDim]`: queries, keys, values; undefined where keys or values have other sizes. */
  inProjWeight: Tensor | undefined;
  /** Each on its own where keys or values have other sizes, else undefined. */
  qProjWeight: Tensor | undefined;
  kProjWeight: Tensor | undefined;
  vProjWeight: Tensor | undefined;
  /** `[3 * embedDim]`, or undefined. */
  inProjBias: Tensor | undefined;
  /** Of the heads' outputs. */
  outProj: Linear;
  readonly embedDim: number;
  readonly numHeads: number;
  readonly dropout: number;
  readonly batchFirst: boolean;

  /** @throws {ArgumentError} for an unknown option, or features that do not divide into the heads */
  constructor(embedDim: number, numHeads: number, options: MultiHeadAttentionOptions = {}) {
    const what = "make MultiHeadAttention";
    checkOptions(what, options, ["dropout", "bias", "kdim", "vdim", "batchFirst"]);
    this.embedDim = checkInteger(what, "embedDim", embedDim, 1);
    this.numHeads = checkInteger(what, "numHeads", numHeads, 1);
    if (embedDim % numHeads !== 0) {
      throw new ArgumentError(what, { reason: `${embedDim} features do not divide into ${numHeads} heads` });
    }
    const kdim = checkInteger(what, "kdim", options.kdim ?? embedDim, 1);
    const vdim = checkInteger(what, "vdim", options.vdim ?? embedDim, 1);
    this.dropout = options.dropout ?? 0;
    if (!(this.dropout >= 0 && this.dropout <= 1)) {
      throw new ArgumentError(what, { reason: `dropout is ${this.dropout}, outside [0, 1]` });
    }
    this.batchFirst = options.batchFirst ?? false;
    const same = kdim === embedDim && vdim === embedDim, bias = options.bias ?? true;
    this.inProjWeight = same ? xavierUniform([3 * embedDim, embedDim]) : undefined;
    this.qProjWeight = same ? undefined : xavierUniform([embedDim, embedDim]);
    this.kProjWeight = same ? undefined : xavierUniform([embedDim, kdim]);
    this.vProjWeight = same ? undefined : xavierUniform([embedDim, vdim]);
    this.inProjBias = bias ? Tensor.zeros([3 * embedDim], { requiresGrad: true }) : undefined;
    this.outProj = new Linear(embedDim, embedDim, { bias });
    if (bias) this.outProj.bias = Tensor.zeros([embedDim], { requiresGrad: true });
  }

  /** Queries, keys and values of `[N, L, features]`, projected. */
  private project(inputs: readonly [Tensor, Tensor, Tensor]): Tensor[] {
    const weights = this.inProjWeight?.chunk(3, 0) ?? [this.qProjWeight!, this.kProjWeight!, this.vProjWeight!];
    const biases = this.inProjBias?.chunk(3, 0);
    if (inputs.every((x) => x === inputs[0]) && this.inProjWeight !== undefined) {
      return inputs[0].linear(this.inProjWeight.transpose(), this.inProjBias).chunk(3, -1);
    }
    return inputs.map((x, i) => x.linear(weights[i].transpose(), biases?.[i]));
  }

  /** The sum of all masks, `[N | 1, heads | 1, L | 1, S]`; undefined without any. */
  private maskOf(n: number, length: number, keys: number, options: AttentionCallOptions): Tensor | undefined {
    const masks: Tensor[] = [], { attnMask, keyPaddingMask } = options;
    if (attnMask !== undefined) {
      const wanted = attnMask.ndim === 3 ? [n * this.numHeads, length, keys] : [length, keys];
      checkMask("attnMask", attnMask, wanted);
      const mask = additive(attnMask, "attnMask");
      masks.push(attnMask.ndim === 3 ? mask.reshape([n, this.numHeads, length, keys]) : mask);
    }
    if (keyPaddingMask !== undefined) {
      checkMask("keyPaddingMask", keyPaddingMask, [n, keys]);
      masks.push(additive(keyPaddingMask, "keyPaddingMask").reshape([n, 1, 1, keys]));
    }
    // with other masks, or where weights are wanted, the causal one is added, too
    if (options.isCausal && (masks.length > 0 || options.needWeights)) {
      const seen = Tensor.ones([length, keys], { dtype: "bool" }).tril();
      masks.push(additive(seen.logicalNot(), "isCausal"));
    }
    return masks.length === 0 ? undefined : masks.reduce((a, b) => a.add(b));
  }

  /**
   * Attends with `query` `[L, N, embedDim]` to `key` `[S, N, kdim]` and `value` `[S, N, vdim]` (`query` and `key` unless
   * given); without N, to one sequence. Gives the output, of the query's shape, and the weights where they are wanted:
   * `[N, L, S]`, or `[N, heads, L, S]`.
   * @throws {ShapeError} {DTypeError} for masks of another shape or dtype
   */
  call(
    query: Tensor,
    key: Tensor = query,
    value: Tensor = key,
    options: AttentionCallOptions = {},
  ): [output: Tensor, weights: Tensor | undefined] {
    checkOptions("attend", options, ["attnMask", "keyPaddingMask", "isCausal", "needWeights", "averageAttnWeights"]);
    const { attnMask, keyPaddingMask } = options;
    for (const [name, t] of Object.entries({ query, key, value })) checkTensor("attend", name, t);
    for (const [name, t] of Object.entries({ attnMask, keyPaddingMask })) {
      if (t !== undefined) checkTensor("attend", name, t);
    }
    const batched = query.ndim === 3;
    if (!batched && query.ndim !== 2 || key.ndim !== query.ndim || value.ndim !== query.ndim) {
      throw new ShapeError("attend with", {
        shapes: [query.shape, key.shape, value.shape],
        reason: "each needs three axes, or each two",
      });
    }
    const inward = (x: Tensor) => !batched ? x.unsqueeze(0) : this.batchFirst ? x : x.transpose(0, 1);
    const q0 = inward(query), k0 = key === query ? q0 : inward(key), v0 = value === key ? k0 : inward(value);
    const [n, length] = q0.shape, keys = k0.shape[1], { numHeads, embedDim } = this;
    const [q, k, v] = this.project([q0, k0, v0]).map((x) =>
      x.reshape([n, x.shape[1], numHeads, embedDim / numHeads]).transpose(1, 2)
    );
    const padding = options.keyPaddingMask;
    const mask = this.maskOf(n, length, keys, {
      ...options,
      keyPaddingMask: padding !== undefined && !batched && padding.ndim === 1 ? padding.unsqueeze(0) : padding,
    });
    let out: Tensor, weights: Tensor | undefined;
    if (options.needWeights) {
      let scores = q.matmul(k.transpose(-2, -1)).mul(1 / Math.sqrt(embedDim / numHeads));
      if (mask !== undefined) scores = scores.add(mask);
      const all = scores.softmax(-1).dropout(this.dropout);
      out = all.matmul(v);
      weights = options.averageAttnWeights ?? true ? all.mean(1) : all;
      if (!batched) weights = weights.squeeze(0);
    } else {
      const isCausal = (options.isCausal ?? false) && mask === undefined;
      out = q.scaledDotProductAttention(k, v, mask, { dropoutP: this.dropout, isCausal });
    }
    const joined = this.outProj.call(out.transpose(1, 2).reshape([n, length, embedDim]));
    return [!batched ? joined.squeeze(0) : this.batchFirst ? joined : joined.transpose(0, 1), weights];
  }
}

function checkMask(name: string, mask: Tensor, wanted: readonly number[]): void {
  if (mask.shape.join() === wanted.join()) return;
  throw new ShapeError("attend with", {
    shapes: [mask.shape],
    reason: `${name} must have shape [${wanted.join(", ")}]`,
  });
}

/** {@linkcode MultiHeadAttention}, as PyTorch spells it. */
export const MultiheadAttention: typeof MultiHeadAttention = MultiHeadAttention;
/** The type of {@linkcode MultiheadAttention}. */
export type MultiheadAttention = MultiHeadAttention;
