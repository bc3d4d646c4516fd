/**
 * What is done to gradients between `backward()` and `step()`: clipping, and loss scaling for float16. All of it is
 * lazy, part of the schedule of the step, and reads nothing back: it works under jit.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../../helpers/options.ts";
import { noteMultiple, noteNorm } from "../../tensor/gradients/backward.ts";
import { endGraphs } from "../../tensor/gradients/origins.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import { tensorList } from "../../tensor/handle/dims.ts";
import { wholly } from "../../tensor/realize.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { checkOptimizer, checkRange, type Optimizer, type OptimizerGroup, type StepOptions } from "./optimizer.ts";

/** The gradients of parameters; at least one. */
function gradients(action: string, params: readonly Tensor[]): Tensor[] {
  const found = (tensorList(action, Array.isArray(params) ? params : null, "it") as Tensor[]).flatMap((p) =>
    p.grad ? [p.grad] : []
  );
  if (found.length > 0) return found;
  throw new ArgumentError(action, { reason: "no parameter has a gradient; call loss.backward() before it" });
}

/** Puts another value in place of a gradient: the handle, which knows its losses, stays. */
function setGrad(grad: Tensor, value: Tensor): void {
  grad.replace(value.cast(grad.dtype));
}

/** Options of norms of several tensors. */
export interface TotalNormOptions {
  /** 2 unless given; Infinity is the largest magnitude. */
  readonly normType?: number;
}

/** The norm of tensors. */
function totalNorm(action: string, tensors: readonly Tensor[], options: TotalNormOptions): Tensor {
  checkOptions(action, options, ["normType"]);
  const { normType = 2 } = options;
  if (!(normType > 0)) throw new ArgumentError(action, { reason: `normType is ${normType}; it must be positive` });
  const device = tensors[0].device;
  const parts = tensors.map((g) => {
    const x = g.float().abs();
    const part = normType === Infinity ? x.max() : normType === 2 ? x.square().sum() : x.pow(normType).sum();
    return part.to(device);
  });
  const all = Tensor.stack(parts);
  return normType === Infinity ? all.max() : normType === 2 ? all.sum().sqrt() : all.sum().pow(1 / normType);
}

/** The norm of `tensors`, taken as one vector: a float32 scalar, lazily. @throws {ArgumentError} where there are none */
export function getTotalNorm(tensors: readonly Tensor[], options: TotalNormOptions = {}): Tensor {
  const action = "take the norm of tensors", list = tensorList(action, Array.isArray(tensors) ? tensors : null, "it");
  if (list.length === 0) throw new ArgumentError(action, { reason: "there are none" });
  return totalNorm(action, list as Tensor[], options);
}

/** Scales the gradients of `params`, whose norm is `totalNorm`, so that it is at most `maxNorm`. @throws {ArgumentError} */
export function clipGradsWithNorm(params: readonly Tensor[], maxNorm: number, totalNorm: Tensor): void {
  const action = "clip gradients";
  checkNumber(action, "maxNorm", maxNorm);
  if (!(maxNorm > 0)) throw new ArgumentError(action, { reason: `maxNorm is ${maxNorm}; it must be positive` });
  const factor = checkTensor(action, "totalNorm", totalNorm).add(1e-6).reciprocal().mul(maxNorm).minimum(1);
  for (const g of gradients(action, params)) setGrad(g, g.float().mul(factor.to(g.device)));
}

/**
 * Scales the gradients of `params` so that their norm, taken as one vector, is at most `maxNorm`. Returns the norm
 * before, a float32 scalar, lazily; the optimizer's step computes it, too, so that it can be read after that. `normType`
 * is 2 unless given; Infinity is the largest magnitude.
 *
 * ```ts
 * import { nn, Tensor } from "../../../mod.ts";
 * const w = new Tensor([1, 2], { requiresGrad: true });
 * w.mul(new Tensor([3, 4])).sum().backward();
 * console.log(await nn.utils.clipGradNorm([w], 1).item()); // 5
 * ```
 *
 * @throws {ArgumentError} for a maxNorm or normType that is not positive, or where no parameter has a gradient
 */
export function clipGradNorm(
  params: readonly Tensor[] | Tensor,
  maxNorm: number,
  options: TotalNormOptions = {},
): Tensor {
  const action = "clip gradients", list = params instanceof Tensor ? [params] : params;
  checkOptions(action, options, ["normType"]);
  const { normType = 2 } = options;
  checkNumber(action, "maxNorm", maxNorm);
  if (!(maxNorm > 0) || !(normType > 0)) {
    throw new ArgumentError(action, {
      reason: `maxNorm is ${maxNorm} and normType ${normType}; both must be positive`,
    });
  }
  const grads = gradients(action, list), norm = totalNorm(action, grads, options);
  clipGradsWithNorm(list, maxNorm, norm);
  noteNorm(grads, norm);
  return norm;
}

/** Clamps the gradients of `params` to [-clipValue, clipValue]. @throws {ArgumentError} as {@linkcode clipGradNorm} */
export function clipGradValue(params: readonly Tensor[] | Tensor, clipValue: number): void {
  const action = "clip gradients";
  checkNumber(action, "clipValue", clipValue);
  if (!(clipValue > 0)) throw new ArgumentError(action, { reason: `clipValue is ${clipValue}; it must be positive` });
  for (const g of gradients(action, params instanceof Tensor ? [params] : params)) {
    setGrad(g, g.clamp(-clipValue, clipValue));
  }
}

/** Options of {@linkcode GradScaler}. */
export interface GradScalerOptions {
  /** The first scale; 65536 unless given. */
  readonly initScale?: number;
  /** What the scale grows by; 2 unless given. */
  readonly growthFactor?: number;
  /** What the scale shrinks by after a step whose gradients overflowed; 0.5 unless given. */
  readonly backoffFactor?: number;
  /** Sound steps after which the scale grows; 2000 unless given. */
  readonly growthInterval?: number;
}

/**
 * Loss scaling for float16 (Micikevicius et al., arXiv 1710.03740): gradients are computed of a multiple of the loss, so
 * that small ones do not vanish; where one overflows, the step is left out and the scale shrinks. Scale and count are
 * tensors: nothing is read back, and a captured step goes on scaling.
 *
 * ```ts ignore files
 * import { jit, nn, state, Tensor } from "../../../mod.ts";
 * const model = new nn.Linear(8, 2), optimizer = new nn.optim.SGD(state.getParameters(model), { lr: 0.1 });
 * const scaler = new nn.optim.GradScaler();
 * const step = jit((x: Tensor, y: Tensor) => Tensor.train(() => {
 *   optimizer.zeroGrad();
 *   const loss = scaler.backward(model.call(x).float().crossEntropy(y));
 *   scaler.unscale(optimizer);            // only where gradients are looked at or clipped before the step
 *   scaler.step(optimizer);
 *   return loss;
 * }));
 * await step(Tensor.rand([4, 8]), Tensor.zeros([4], { dtype: "int32" })).item();
 * ```
 */
export class GradScaler {
  /** float32 `[1]`. */
  readonly scaleFactor: Tensor;
  /** Sound steps since the scale changed: int32 `[1]`. */
  readonly growthTracker: Tensor;
  readonly growthFactor: number;
  readonly backoffFactor: number;
  readonly growthInterval: number;
  /** Whether the gradients of this step are sound, once they are unscaled. */
  #sound: { readonly of: Optimizer | OptimizerGroup; readonly flag: Tensor } | undefined;

  /** @throws {ArgumentError} for an unknown option or one out of range */
  constructor(options: GradScalerOptions = {}) {
    const what = "GradScaler";
    checkOptions(`make ${what}`, options, ["initScale", "growthFactor", "backoffFactor", "growthInterval"]);
    const initial = checkRange(what, "initScale", options.initScale ?? 65536, 1e-30, 1e30);
    this.growthFactor = checkRange(what, "growthFactor", options.growthFactor ?? 2, 1, Infinity);
    this.backoffFactor = checkRange(what, "backoffFactor", options.backoffFactor ?? 0.5, 0, 1);
    this.growthInterval = checkInteger(`make ${what}`, "growthInterval", options.growthInterval ?? 2000, 1);
    this.scaleFactor = new Tensor([initial], { dtype: "float32", requiresGrad: false }).realize();
    this.growthTracker = new Tensor([0], { dtype: "int32", requiresGrad: false }).realize();
  }

  /**
   * `loss` times the scale, as PyTorch's; the loss itself can be read after the step. {@linkcode GradScaler.backward} needs
   * no scaled loss.
   */
  scale(loss: Tensor): Tensor {
    const scaled = checkTensor("scale a loss", "the loss", loss).mul(this.scaleFactor.reshape([]).to(loss.device));
    noteMultiple(scaled, loss);
    return scaled;
  }
  /** `loss.backward()` of the scaled loss; returns the loss itself, in float32, unscaled. */
  backward(loss: Tensor): Tensor {
    // a float16 loss cannot hold the scale: its gradient starts in float32
    const wide = checkTensor("scale a loss", "the loss", loss).dtype === dtypes.float16 ? loss.float() : loss;
    return wide.backward(this.scaleFactor.reshape([]).cast(wide.dtype).to(loss.device));
  }

  /** Divides the gradients by the scale, and notes whether all are finite. `step` does it where this was not called. */
  unscale(optimizer: Optimizer | OptimizerGroup): void {
    const grads = gradients("unscale gradients", checkOptimizer("unscale gradients", optimizer).params),
      device = grads[0].device;
    const inverse = this.scaleFactor.reshape([]).reciprocal();
    let flag: Tensor | undefined;
    for (const g of grads) {
      const value = g.float().mul(inverse.to(g.device)), finite = value.isfinite().all().to(device);
      flag = flag === undefined ? finite : flag.bitwiseAnd(finite);
      // float32 holds what float16 could not
      if (g.dtype === dtypes.float16) (g as Tensor).replace(value);
      else setGrad(g, value);
    }
    this.#sound = { of: optimizer, flag: flag! };
  }

  /**
   * `optimizer.step()` where all gradients are finite, and nothing else; then the scale grows or shrinks. One schedule.
   * @throws {ArgumentError} where no parameter has a gradient
   */
  step(optimizer: Optimizer | OptimizerGroup, options: Pick<StepOptions, "also"> = {}): void {
    checkOptions("step a GradScaler", options, ["also"]);
    checkOptimizer("step a GradScaler", optimizer);
    const also = tensorList("step a GradScaler", options.also ?? [], "also") as Tensor[];
    if (this.#sound?.of !== optimizer) this.unscale(optimizer);
    const { flag } = this.#sound!, { scaleFactor: scale, growthTracker: tracker } = this;
    this.#sound = undefined;
    const here = flag.to(scale.device).reshape([1]), next = tracker.add(1), grows = next.ge(this.growthInterval);
    const grown = grows.where(scale.mul(this.growthFactor), scale), kept = grows.where(0, next);
    wholly(() => {
      endGraphs([scale]); // gradients of scaled losses are of this step, as those of the weights
      scale.assign(here.where(grown, scale.mul(this.backoffFactor)));
      tracker.assign(here.where(kept, 0).cast(tracker.dtype));
      optimizer.step({ when: flag, also: [scale, tracker, ...also] });
    });
  }

  /** Nothing: `step` has let the scale grow or shrink. Loops as PyTorch has them call it. */
  update(): void {}
}
