/**
 * Dropout as layers: of elements, of whole channels, and one that keeps mean and variance behind SELU.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkNumber } from "../../helpers/options.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import { SELU_ALPHA, SELU_GAMMA } from "../../tensor/ops/activation.ts";
import { Tensor } from "../../tensor/tensor.ts";

/** Zeroes each element with probability `p` inside `Tensor.train`, and scales the rest by 1 / (1 - p). */
export class Dropout {
  readonly p: number;

  /** @throws {ArgumentError} unless 0 <= p <= 1 */
  constructor(p = 0.5) {
    checkNumber("make Dropout", "p", p);
    if (!(p >= 0 && p <= 1)) throw new ArgumentError("make Dropout", { reason: `p is ${p}, outside [0, 1]` });
    this.p = p;
  }

  /** The identity outside training. */
  call(x: Tensor): Tensor {
    return checkTensor("dropout", "x", x).dropout(this.p);
  }
}

/** {@linkcode Dropout} of whole channels of `[N, C, ...]`: each of them is zeroed or kept (Tompson et al., arXiv 1411.4280). */
export class Dropout2d extends Dropout {
  /** The identity outside training. @throws {ShapeError} for a tensor without channels */
  override call(x: Tensor): Tensor {
    return checkTensor("dropout2d", "x", x).dropout2d(this.p);
  }
}

/** {@linkcode Dropout2d} of `[N, C, L]`. */
export class Dropout1d extends Dropout2d {}
/** {@linkcode Dropout2d} of `[N, C, D, H, W]`. */
export class Dropout3d extends Dropout2d {}

/** What SELU gives far below 0. */
const LOW = -SELU_ALPHA * SELU_GAMMA;

/** Dropout that keeps mean 0 and variance 1 of what SELU gives: elements become its lowest value (Klambauer et al., arXiv 1706.02515). */
export class AlphaDropout extends Dropout {
  /** The identity outside training. */
  override call(x: Tensor): Tensor {
    const { p } = this;
    if (checkTensor("dropout", "x", x) && (!Tensor.training || p === 0)) return x;
    if (p === 1) return x.mul(0);
    const kept = x.onesLike().dropout(p), scale = 1 / Math.sqrt((1 - p) * (1 + p * LOW * LOW));
    return kept.ne(0).where(x, LOW).mul(scale).sub(scale * LOW * p);
  }
}
