/**
 * Activation functions of neural networks, and dropout. Elementwise; each names its formula. Half floats are computed
 * in float32, integers as the default float.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { envNumber } from "../../helpers/env.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { checkNumber, checkOptions, describe } from "../../helpers/options.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { flat, GradientArg, slope, withGradient } from "../../uop/graph/given_gradient.ts";
import { TensorBase } from "../handle/base.ts";
import { leNode } from "../nodes/compare_nodes.ts";
import { expComplex, inverseNode } from "../nodes/complex_nodes.ts";
import {
  absNode,
  expm1Node,
  expNode,
  floatConst,
  geluNode,
  scale,
  shift,
  sigmoidNode,
  softplusNode,
  tanhNode,
} from "../nodes/numeric.ts";
import { drawUniform } from "../nodes/random.ts";
import { scalarConst } from "../nodes/scalars.ts";
import type { FunctionTensor } from "./functions.ts";
import { install, installUnary, ofNumbers, ofReals, type Rows, type UnaryRow } from "./rows.ts";

/** Options of {@linkcode ActivationTensor.gelu}. */
export interface GeluOptions {
  /** "tanh" approximates, "none" is exact. Default "none". */
  readonly approximate?: "none" | "tanh";
}

/** The constants of SELU: Klambauer et al., "Self-Normalizing Neural Networks" (2017). */
export const SELU_ALPHA = 1.6732632423543772, SELU_GAMMA = 1.0507009873554805;

/** 0 where x <= 0, else x; NaN stays. Gradient 0 at 0. */
function reluNode(x: UOp): UOp {
  const zero = scalarConst(0, x.dtype);
  return leNode(x, zero).where(zero, x);
}

/** 1 / (1 + e^-z) of complex numbers. */
function logistic(z: UOp): UOp {
  return inverseNode(shift(expComplex(scale(z, -1)), 1));
}

/** Limits to [low, high] between constants. */
function limit(x: UOp, low: number, high: number): UOp {
  const a = floatConst(low, x.dtype), b = floatConst(high, x.dtype);
  const above = leNode(x, a).where(a, x);
  return leNode(b, above).where(b, above);
}

/** Of alpha (e^(x / width) - 1) where x <= 0, else of x: the inputs are alpha / width and 1 / width. At 0 it has no slope. */
const ELU = new GradientArg((g, [x, height, inverse]) => {
  const zero = constant(0, x.dtype), below = x.lt(zero).where(x, zero);
  return [g.mul(leNode(x, zero).where(expNode(below.mul(inverse)).mul(height), floatConst(1, x.dtype)))];
}, true);

/** alpha (e^(x / width) - 1) where x <= 0, else x. */
function eluNode(x: UOp, alpha: number, width = 1): UOp {
  const zero = constant(0, x.dtype);
  const negative = leNode(x, zero);
  const below = negative.where(x, zero);
  const value = negative.where(scale(expm1Node(width === 1 ? below : scale(below, 1 / width)), alpha), x);
  return withGradient(value, [x, floatConst(alpha / width, x.dtype), floatConst(1 / width, x.dtype)], ELU);
}

/** 1 + |x| */
function beyondOne(x: UOp): UOp {
  return shift(absNode(x), 1);
}

/** d x / (1 + |x|) = 1 / (1 + |x|)^2, and NaN where the value is. */
const SOFTSIGN = slope((x, y) => {
  const r = floatConst(1, x.dtype).fdiv(beyondOne(x));
  return y.ne(y).where(y, r.mul(r));
});

/** Of x limited on both sides: alpha between the ends, 0 at and beyond them, however alpha x + beta is rounded. */
const HARD_SIGMOID = new GradientArg((g, [x, low, high, alpha]) => {
  const isOut = leNode(x, low).or(leNode(high, x));
  return [() => isOut.where(constant(0, x.dtype), g.mul(alpha))];
}, true);

/** The families that it is written in, and its functions. */
export interface ActivationTensor extends FunctionTensor {
  /** 1 / (1 + e^-x). @example new Tensor([0, 2]).sigmoid() */
  sigmoid(): this;
  /** log(sigmoid(x)). @example new Tensor([0, 2]).logsigmoid() */
  logsigmoid(): this;
  /** x relu6(x + 3) / 6. @example new Tensor([-4, 0, 1, 4]).hardswish() */
  hardswish(): this;
  /** x sigmoid(x). @example new Tensor([0, 2]).silu() */
  silu(): this;
  /** Alias of {@linkcode silu}. @example new Tensor([0, 2]).swish() */
  swish(): this;
  /** x sigmoid(1.702 x). @example new Tensor([0, 2]).quickGelu() */
  quickGelu(): this;
  /** x tanh(softplus(x)). @example new Tensor([0, 2]).mish() */
  mish(): this;
  /** x / (1 + |x|). @example new Tensor([-1, 0, 3]).softsign() */
  softsign(): this;
  /** x - tanh(x). @example new Tensor([0, 2]).tanhshrink() */
  tanhshrink(): this;
  /** x, and negSlope x below 0; the gradient at 0 is negSlope. @example new Tensor([-10, 5]).leakyRelu(0.1) */
  leakyRelu(negSlope?: number): this;
  /** x, and alpha (e^x - 1) below 0. @example new Tensor([-1, 2]).elu() */
  elu(alpha?: number): this;
  /** x, and alpha (e^(x / alpha) - 1) below 0. @throws {ArgumentError} for alpha 0 */
  celu(alpha?: number): this;
  /** x, and 0 within lambd of 0. @example new Tensor([-1, 0.25, 2]).hardshrink() */
  hardshrink(lambd?: number): this;
  /** x, closer to 0 by lambd, and 0 within it. @example new Tensor([-1, 0.25, 2]).softshrink() */
  softshrink(lambd?: number): this;
  /** log(1 + e^(beta x)) / beta. @throws {ArgumentError} for beta 0 @example new Tensor([0, 2]).softplus() */
  softplus(beta?: number): this;
}

/** A method that takes one number: what that is called and is unless given, the result, and what the number must be. */
export type ParameterRow = readonly [
  parameter: string,
  usual: number,
  node: (x: UOp, parameter: number) => UOp,
  must?: "not be 0" | "be at least 0",
];

/** What takes nothing. */
export const ACTIVATIONS: Rows<UnaryRow> = {
  sigmoid: ofNumbers(sigmoidNode, logistic),
  logsigmoid: ofReals((x) => scale(softplusNode(scale(x, -1)), -1)),
  hardswish: ofReals((x) => scale(x.mul(limit(shift(x, 3), 0, 6)), 1 / 6)),
  silu: ofNumbers((x) => x.mul(sigmoidNode(x)), (z) => z.mul(logistic(z))),
  swish: ofNumbers((x) => x.mul(sigmoidNode(x)), (z) => z.mul(logistic(z))),
  quickGelu: ofReals((x) => x.mul(sigmoidNode(scale(x, 1.702)))),
  mish: ofReals((x) => x.mul(tanhNode(softplusNode(x)))),
  tanhshrink: ofReals((x) => x.add(scale(tanhNode(x), -1))),
  softsign: ofReals((x) => withGradient(x.fdiv(beyondOne(x)), [x], SOFTSIGN)),
};

/** What takes a number. */
export const PARAMETRIC: Rows<ParameterRow> = {
  leakyRelu: ["negSlope", 0.01, (x, slope) => constant(0, x.dtype).lt(x).where(x, scale(x, slope))],
  elu: ["alpha", 1, eluNode],
  celu: ["alpha", 1, (x, alpha) => eluNode(x, alpha, alpha), "not be 0"],
  hardshrink: ["lambd", 0.5, (x, by) => {
    const inside = leNode(floatConst(-by, x.dtype), x).and(leNode(x, floatConst(by, x.dtype)));
    return inside.where(constant(0, x.dtype), x);
  }],
  softshrink: ["lambd", 0.5, (x, by) => {
    const upper = floatConst(by, x.dtype), lower = floatConst(-by, x.dtype);
    const inside = leNode(lower, x).and(leNode(x, upper));
    return inside.where(constant(0, x.dtype), x.lt(lower).where(shift(x, by), shift(x, -by)));
  }, "be at least 0"],
  softplus: ["beta", 1, (x, b) => b === 1 ? softplusNode(x) : scale(softplusNode(scale(x, b)), 1 / b), "not be 0"],
};

/** Tensors with activation functions. */
export abstract class ActivationTensor extends TensorBase {
  static {
    installUnary(ActivationTensor, ACTIVATIONS);
    install(
      ActivationTensor,
      PARAMETRIC,
      ([parameter, usual, node, must], name) =>
        function (value: number = usual) {
          checkNumber(name, parameter, value);
          if (must === "not be 0" ? value === 0 : must === "be at least 0" && value < 0) {
            throw new ArgumentError(name, {
              reason: `${parameter} must ${must}${value === 0 ? "" : `, not ${value}`}`,
            });
          }
          return this.floating((x) => node(x, value));
        },
    );
  }

  /** max(x, 0); the gradient at 0 is 0. */
  relu(): this {
    if (this.dtype.isBool) return this.cast(dtypes.int32);
    return this.dtype.isUnsigned ? this.wrap(this.uop) : this.wrap(reluNode(this.uop));
  }
  /** Limited to [0, 6]; integers stay integers. */
  relu6(): this {
    return this.dtype.isInt ? this.clamp(0, 6) : this.floating((x) => limit(x, 0, 6));
  }
  /** alpha x + beta, limited to [0, 1]. */
  hardsigmoid(options: { readonly alpha?: number; readonly beta?: number } = {}): this {
    checkOptions("hardsigmoid", options, ["alpha", "beta"]);
    const { alpha = 1 / 6, beta = 0.5 } = options;
    const ends = [-beta / alpha, (1 - beta) / alpha].sort((a, b) => a - b);
    return this.floating((x) => {
      const value = limit(shift(scale(x, alpha), beta), 0, 1);
      return alpha === 0 ? flat(value, [x]) : withGradient(
        value,
        [x, ...[...ends, alpha].map((c) => floatConst(c, x.dtype))],
        HARD_SIGMOID,
      );
    });
  }
  /**
   * Limited to [minVal, maxVal], by default [-1, 1]; integers stay integers where the limits are such.
   * @throws {ArgumentError} where minVal is larger
   */
  hardtanh(options: { readonly minVal?: number; readonly maxVal?: number } = {}): this {
    checkOptions("hardtanh", options, ["minVal", "maxVal"]);
    const { minVal = -1, maxVal = 1 } = options;
    if (!(minVal <= maxVal)) {
      throw new ArgumentError("hardtanh", { reason: `minVal ${minVal} must not be larger than maxVal ${maxVal}` });
    }
    return this.dtype.isInt ? this.clamp(minVal, maxVal) : this.floating((x) => limit(x, minVal, maxVal));
  }
  /** gamma times elu, with the constants of Klambauer et al., "Self-Normalizing Neural Networks" (2017). */
  selu(options: { readonly alpha?: number; readonly gamma?: number } = {}): this {
    checkOptions("selu", options, ["alpha", "gamma"]);
    const { alpha = SELU_ALPHA, gamma = SELU_GAMMA } = options;
    return this.floating((x) => scale(eluNode(x, alpha), gamma));
  }
  /**
   * x times the normal distribution function of x: exact by erf, or with `approximate: "tanh"` as in Hendrycks and
   * Gimpel, "Gaussian Error Linear Units" (2016).
   *
   * @throws {ArgumentError} for another approximation
   */
  gelu(options: GeluOptions = {}): this {
    checkOptions("gelu", options, ["approximate"]);
    const approximate = options.approximate ?? "none";
    if (approximate === "none") return this.floating(geluNode);
    if (approximate !== "tanh") {
      throw new ArgumentError("gelu", {
        reason: `unknown approximation ${describe(approximate)}; known are none and tanh`,
      });
    }
    // (1 + tanh(u)) / 2 is sigmoid(2u).
    const root = 2 * Math.sqrt(2 / Math.PI);
    return this.floating((x) => x.mul(sigmoidNode(x.mul(shift(scale(x.mul(x), root * 0.044715), root)))));
  }

  /**
   * Inside `Tensor.train`: each element is 0 with probability `p`, the others are scaled by 1 / (1 - p); the mask is
   * drawn anew at each call. Outside, the tensor itself.
   *
   * @throws {ArgumentError} unless 0 <= p <= 1
   */
  dropout(p = 0.5): this {
    checkNumber("dropout", "p", p);
    if (!(p >= 0 && p <= 1)) throw new ArgumentError("dropout", { reason: `p must lie in [0, 1], not ${p}` });
    if (p === 0 || envNumber("TRAINING") === 0) return this;
    if (p === 1) return this.wrap(flat(this.constLike(0).uop, [this.uop]));
    return this.floating((x) => {
      const keep = leNode(floatConst(p, dtypes.float32), drawUniform(this.shape, dtypes.float32));
      return keep.where(scale(x, 1 / (1 - p)), constant(0, x.dtype));
    });
  }
}
