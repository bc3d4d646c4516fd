/**
 * Normalization layers: over the batch (BatchNorm), over groups of channels (GroupNorm, InstanceNorm), over the last
 * axes (LayerNorm, RMSNorm). Scales and shifts require gradients; running statistics do not.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { promote } from "../../dtype/promotion.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { prod, sameArray } from "../../helpers/math.ts";
import { checkBoolean, checkInteger, checkOptions } from "../../helpers/options.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { named, sizesOf } from "./init.ts";

function ones(shape: number[]): Tensor {
  return Tensor.ones(shape, { requiresGrad: true });
}
function zeros(shape: number[]): Tensor {
  return Tensor.zeros(shape, { requiresGrad: true });
}

/** Memory of its own (constants are shared, and statistics are written to), without a gradient. */
function statistic(initial: Tensor): Tensor {
  const t = initial.clone();
  t.requiresGrad = false;
  return t;
}

/** What a layer with running statistics keeps. */
interface Running {
  runningMean: Tensor | undefined;
  runningVar: Tensor | undefined;
  numBatchesTracked: Tensor | undefined;
}
/** What it begins with. */
function statistics(track: boolean, size: number): Running {
  return {
    runningMean: track ? statistic(Tensor.zeros([size])) : undefined,
    runningVar: track ? statistic(Tensor.ones([size])) : undefined,
    numBatchesTracked: track ? statistic(Tensor.zeros([1], { dtype: dtypes.int32 })) : undefined,
  };
}
/** Moves running statistics by a share of those of a batch. */
function follow({ runningMean, runningVar }: Running, mean: Tensor, variance: Tensor, share: number): void {
  for (const [old, now] of [[runningMean!, mean], [runningVar!, variance]]) {
    old.assign(old.mul(1 - share).add(now.detach().mul(share)));
  }
}

/** Options of {@linkcode BatchNorm}. */
export interface BatchNormOptions {
  /** Added to the variance; 1e-5 unless given. */
  readonly eps?: number;
  /** Whether there are a scale and a shift; true unless given. */
  readonly affine?: boolean;
  /** Whether to keep running statistics, used outside training; true unless given. */
  readonly trackRunningStats?: boolean;
  /** Weight of a new batch in the running statistics; 0.1 unless given. */
  readonly momentum?: number;
}

/**
 * Batch normalization (Ioffe and Szegedy, arXiv 1502.03167) over all axes but 1: by the statistics of the batch inside
 * `Tensor.train`, by the running statistics outside. The running variance is the unbiased one, as in PyTorch.
 * The update of the running statistics is an assignment: `opt.step()` does it with the weights.
 */
export class BatchNorm {
  /** `[size]` ones, or undefined. */
  weight: Tensor | undefined;
  /** `[size]` zeros, or undefined. */
  bias: Tensor | undefined;
  /** `[size]`, no gradient. */
  declare runningMean: Tensor | undefined;
  /** `[size]`, no gradient. */
  declare runningVar: Tensor | undefined;
  /** Batches seen in training: int32 `[1]`. */
  declare numBatchesTracked: Tensor | undefined;
  readonly eps: number;
  readonly momentum: number;

  /** @throws {ArgumentError} for an unknown option */
  constructor(size: number, options: BatchNormOptions = {}) {
    checkOptions("make BatchNorm", options, ["eps", "affine", "trackRunningStats", "momentum"]);
    checkInteger("make BatchNorm", "size", size, 1);
    const affine = options.affine ?? true, track = options.trackRunningStats ?? true;
    this.eps = options.eps ?? 1e-5;
    this.momentum = options.momentum ?? 0.1;
    this.weight = affine ? ones([size]) : undefined;
    this.bias = affine ? zeros([size]) : undefined;
    Object.assign(this, statistics(track, size));
  }

  /** Mean and biased variance by channel, shape `[size]` each: of the batch in training, else the running ones. */
  calcStats(x: Tensor): [mean: Tensor, variance: Tensor] {
    checkTensor("normalize a batch", "x", x);
    if (!Tensor.training && this.runningMean !== undefined) return [this.runningMean, this.runningVar!];
    const axes = otherAxes(x.ndim), shape = channelShape(x);
    const mean = x.mean(axes);
    // The variance does not depend on the mean to first order, so no gradient is lost by detaching it.
    const centered = x.sub(mean.detach().reshape(shape));
    return [mean, centered.square().mean(axes)];
  }

  /** @throws {ShapeError} if axis 1 of `x` is not `size` */
  call(x: Tensor): Tensor {
    const size = (this.weight ?? this.runningMean)?.shape[0];
    checkTensor("normalize a batch", "x", x);
    if (x.ndim < 2 || (size !== undefined && x.shape[1] !== size)) {
      throw new ShapeError("normalize a batch of", {
        shapes: [x.shape],
        axis: 1,
        reason: `axis 1 must have ${size ?? "the"} channels`,
      });
    }
    const [mean, variance] = this.calcStats(x);
    if (Tensor.training && this.runningMean !== undefined) this.track(x, mean.detach(), variance.detach());
    return x.batchnorm(this.weight, this.bias, mean, variance.add(this.eps).rsqrt());
  }

  private track(x: Tensor, mean: Tensor, variance: Tensor): void {
    const n = otherAxes(x.ndim).reduce<number | Tensor>((n, axis) => {
      const size = x.symbolicShape[axis];
      return typeof n === "number" && typeof size === "number" ? n * size : Tensor.ones([]).mul(n).mul(size);
    }, 1);
    const unbiased = typeof n === "number" ? n / Math.max(n - 1, 1) : n.div(n.sub(1).maximum(1));
    follow(this, mean, variance.mul(unbiased), this.momentum);
    this.numBatchesTracked!.assign(this.numBatchesTracked!.add(1));
  }
}

/** {@linkcode BatchNorm}: axis 1 are the channels whatever the number of axes. */
export const BatchNorm2d: typeof BatchNorm = BatchNorm;
/** The type of {@linkcode BatchNorm2d}. */
export type BatchNorm2d = BatchNorm;

/** All axes but 1. */
function otherAxes(ndim: number): number[] {
  const axes = [0];
  for (let i = 2; i < ndim; i++) axes.push(i);
  return axes;
}

/** `[1, C, 1, ...]`. */
function channelShape(x: Tensor): number[] {
  return x.shape.map((n, i) => i === 1 ? n : 1);
}

/** Options of {@linkcode LayerNorm}. */
export interface LayerNormOptions {
  /** Added to the variance; 1e-5 unless given. */
  readonly eps?: number;
  /** Whether there are a scale and a shift; true unless given. */
  readonly elementwiseAffine?: boolean;
  /** Whether there is a shift, where there is a scale; true unless given. */
  readonly bias?: boolean;
}

/** The last axes of `x`, counted from the end, which must have these sizes. @throws {ShapeError} */
function lastAxes(x: Tensor, sizes: readonly number[]): number[] {
  const n = sizes.length, tail = x.shape.slice(Math.max(x.ndim - n, 0));
  if (!sameArray(tail, sizes)) {
    throw new ShapeError("normalize a layer of", {
      shapes: [x.shape],
      reason: `the last axes must be [${sizes.join(", ")}]`,
    });
  }
  return sizes.map((_, i) => i - n);
}

/** Layer normalization (Ba et al., arXiv 1607.06450) over the last axes, `normalizedShape`. Keeps the shape. */
export class LayerNorm {
  readonly normalizedShape: readonly number[];
  readonly eps: number;
  /** `normalizedShape` ones, or undefined. */
  weight: Tensor | undefined;
  /** `normalizedShape` zeros, or undefined. */
  bias: Tensor | undefined;

  /** @throws {ArgumentError} for an unknown option */
  constructor(normalizedShape: number | readonly number[], options: LayerNormOptions = {}) {
    checkOptions("make LayerNorm", options, ["eps", "elementwiseAffine", "bias"]);
    this.normalizedShape = sizesOf("make LayerNorm", "normalizedShape", normalizedShape, 1, 1);
    this.eps = options.eps ?? 1e-5;
    const affine = options.elementwiseAffine ?? true;
    this.weight = affine ? ones([...this.normalizedShape]) : undefined;
    this.bias = affine && (options.bias ?? true) ? zeros([...this.normalizedShape]) : undefined;
  }

  /** @throws {ShapeError} if `x` does not end in normalizedShape */
  call(x: Tensor): Tensor {
    let y = checkTensor("normalize a layer", "x", x).layernorm(lastAxes(x, this.normalizedShape), { eps: this.eps });
    if (this.weight !== undefined) y = y.mul(this.weight);
    return this.bias === undefined ? y : y.add(this.bias);
  }
}

/** {@linkcode LayerNorm} of the channels of `[N, C, H, W]`. */
export class LayerNorm2d extends LayerNorm {
  override call(x: Tensor): Tensor {
    if (checkTensor("normalize a layer", "x", x).ndim !== 4) {
      throw new ShapeError("normalize a layer of", { shapes: [x.shape], reason: "it takes [N, C, H, W]" });
    }
    return super.call(x.permute([0, 2, 3, 1])).permute([0, 3, 1, 2]);
  }
}

/** Options of {@linkcode GroupNorm} and {@linkcode InstanceNorm}. */
export interface GroupNormOptions {
  /** Added to the variance; 1e-5 unless given. */
  readonly eps?: number;
  /** Whether there are a scale and a shift by channel; true unless given. */
  readonly affine?: boolean;
}

/** Group normalization (Wu and He, arXiv 1803.08494): each sample over groups of channels. Keeps the shape. */
export class GroupNorm {
  readonly groups: number;
  readonly channels: number;
  readonly eps: number;
  /** `[channels]` ones, or undefined. */
  weight: Tensor | undefined;
  /** `[channels]` zeros, or undefined. */
  bias: Tensor | undefined;

  /** @throws {ArgumentError} for an unknown option, or channels that do not divide into the groups */
  constructor(groups: number, channels: number, options: GroupNormOptions = {}) {
    checkOptions("make GroupNorm", options, ["eps", "affine"]);
    checkInteger("make GroupNorm", "groups", groups, 1);
    checkInteger("make GroupNorm", "channels", channels, 1);
    if (channels % groups !== 0) {
      throw new ArgumentError("make GroupNorm", {
        reason: `${channels} channels do not divide into ${groups} groups`,
      });
    }
    this.groups = groups;
    this.channels = channels;
    this.eps = options.eps ?? 1e-5;
    const affine = options.affine ?? true;
    this.weight = affine ? ones([channels]) : undefined;
    this.bias = affine ? zeros([channels]) : undefined;
  }

  /** `x`, if it has the channels. @throws {ShapeError} */
  protected checked(x: Tensor): Tensor {
    if (checkTensor("normalize groups", "x", x).ndim >= 2 && x.shape[1] === this.channels) return x;
    throw new ShapeError("normalize groups of", {
      shapes: [x.shape],
      axis: 1,
      reason: `axis 1 must have ${this.channels} channels`,
    });
  }

  /** @throws {ShapeError} if axis 1 of `x` is not `channels` */
  call(x: Tensor): Tensor {
    this.checked(x);
    const rest = x.numel() > 0 ? -1 : prod(x.shape.slice(1)) / this.groups; // nothing tells of a size that is left out
    let y = x.reshape([x.shape[0], this.groups, rest]).layernorm(-1, { eps: this.eps }).reshape(x.shape);
    if (this.weight !== undefined) y = y.mul(this.weight.reshape(channelShape(x)));
    return this.bias === undefined ? y : y.add(this.bias.reshape(channelShape(x)));
  }
}

/** Options of {@linkcode InstanceNorm}. */
export interface InstanceNormOptions extends GroupNormOptions {
  /** Whether to keep running statistics, used outside training; false unless given. */
  readonly trackRunningStats?: boolean;
  /** Weight of a new batch in the running statistics; 0.1 unless given. */
  readonly momentum?: number;
}

/**
 * Instance normalization (Ulyanov et al., arXiv 1607.08022): {@linkcode GroupNorm} with a group a channel. With
 * `trackRunningStats` means and unbiased variances of instances are averaged in training, and used outside, as in PyTorch.
 */
export class InstanceNorm extends GroupNorm {
  /** `[size]`, no gradient; undefined unless tracked. */
  declare runningMean: Tensor | undefined;
  /** `[size]`, no gradient; undefined unless tracked. */
  declare runningVar: Tensor | undefined;
  /** 0: PyTorch's layer has it, and does not count. */
  declare numBatchesTracked: Tensor | undefined;
  /** Weight of a new batch in the running statistics. */
  readonly momentum: number;

  /** @throws {ArgumentError} for an unknown option */
  constructor(size: number, options: InstanceNormOptions = {}) {
    const { trackRunningStats = false, momentum = 0.1, ...rest } = checkOptions(
      "make InstanceNorm",
      options,
      INSTANCE_NORM,
    );
    super(size, size, rest);
    this.momentum = momentum;
    Object.assign(this, statistics(checkBoolean("make InstanceNorm", "trackRunningStats", trackRunningStats), size));
  }

  override call(x: Tensor): Tensor {
    const { runningMean, runningVar } = this;
    if (runningMean === undefined) return super.call(x);
    if (!Tensor.training) {
      return this.checked(x).batchnorm(this.weight, this.bias, runningMean, runningVar!.add(this.eps).rsqrt());
    }
    const y = super.call(x), axes = otherAxes(x.ndim).slice(1);
    follow(this, x.mean(axes).mean(0), x.var(axes).mean(0), this.momentum);
    return y;
  }
}
const INSTANCE_NORM = ["eps", "affine", "trackRunningStats", "momentum"];

/** {@linkcode InstanceNorm} as PyTorch has it: of samples of `rank` axes behind the channels, one or a batch, not affine unless asked. */
function instanceNorm(name: string, rank: number): typeof InstanceNorm {
  const made = class extends InstanceNorm {
    constructor(size: number, options: InstanceNormOptions = {}) {
      checkOptions(`make ${name}`, options, INSTANCE_NORM);
      super(size, { ...options, affine: options.affine ?? false });
    }
    override call(x: Tensor): Tensor {
      const { ndim, shape } = checkTensor("normalize groups", "x", x);
      if (ndim === rank + 1) return super.call(x.unsqueeze(0)).squeeze(0);
      if (ndim === rank + 2) return super.call(x);
      throw new ShapeError("normalize groups of", {
        shapes: [shape],
        reason: `${name} takes ${rank} axes behind the channels: [N, C, ...] or [C, ...]`,
      });
    }
  };
  return named(made, name);
}
/** {@linkcode InstanceNorm} of `[N, C, L]` or `[C, L]`; without scale and shift unless `affine` is true, as in PyTorch. */
export const InstanceNorm1d: typeof InstanceNorm = /* @__PURE__ */ instanceNorm("InstanceNorm1d", 1);
/** {@linkcode InstanceNorm} of `[N, C, H, W]` or `[C, H, W]`; without scale and shift unless `affine` is true, as in PyTorch. */
export const InstanceNorm2d: typeof InstanceNorm = /* @__PURE__ */ instanceNorm("InstanceNorm2d", 2);
/** {@linkcode InstanceNorm} of `[N, C, D, H, W]` or `[C, D, H, W]`; without scale and shift unless `affine` is true, as in PyTorch. */
export const InstanceNorm3d: typeof InstanceNorm = /* @__PURE__ */ instanceNorm("InstanceNorm3d", 3);

/** Options of {@linkcode RMSNorm}. */
export interface RMSNormOptions {
  /** Added to the mean of squares; 1e-6 unless given. */
  readonly eps?: number;
  /** Whether there is a scale; true unless given. */
  readonly elementwiseAffine?: boolean;
}

/** Root mean square normalization (Zhang and Sennrich, arXiv 1910.07467) of the last axis or axes, in at least float32. Keeps shape and dtype. */
export class RMSNorm {
  readonly eps: number;
  /** The sizes of the axes that are normalized. */
  readonly normalizedShape: readonly number[];
  /** `[dim]` ones (of several axes as many), or undefined. */
  weight: Tensor | undefined;

  /** @throws {ArgumentError} for an unknown option */
  constructor(dim: number | readonly number[], options: RMSNormOptions = {}) {
    checkOptions("make RMSNorm", options, ["eps", "elementwiseAffine"]);
    this.normalizedShape = sizesOf("make RMSNorm", "dim", dim, 1, 1);
    this.eps = options.eps ?? 1e-6;
    this.weight = options.elementwiseAffine ?? true ? ones([...this.normalizedShape]) : undefined;
  }

  /** @throws {ShapeError} if `x` does not end in normalizedShape */
  call(x: Tensor): Tensor {
    const wide = checkTensor("normalize", "x", x).cast(promote(x.dtype, dtypes.float32));
    const squares = wide.square().mean(lastAxes(x, this.normalizedShape), { keepdim: true });
    const y = wide.mul(squares.add(this.eps).rsqrt()).cast(x.dtype);
    return this.weight === undefined ? y : y.mul(this.weight);
  }
}
