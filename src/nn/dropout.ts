/**
 * Dropout as a layer.
 *
 * @module
 */
import { ArgumentError } from "../helpers/errors.ts";
import { checkNumber } from "../helpers/options.ts";
import { checkTensor } from "../tensor/handle/base.ts";
import type { Tensor } from "../tensor/tensor.ts";

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
