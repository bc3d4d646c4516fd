/**
 * Unary functions, elementwise: powers, exponentials, trigonometry, rounding and tests. Functions that are real-valued
 * take integers as the default float; half floats are computed in float32. The graphs are built by numeric.ts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { defaultFloat } from "../../dtype/promotion.ts";
import { checkInteger, checkOptions } from "../../helpers/options.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { partsOf } from "../../uop/graph/complex.ts";
import { TensorBase } from "../handle/base.ts";
import { negNode } from "../nodes/compare_nodes.ts";
import {
  acosComplex,
  acoshComplex,
  asinComplex,
  asinhComplex,
  atanComplex,
  atanhComplex,
  cosComplex,
  coshComplex,
  expComplex,
  expm1Complex,
  inverseNode,
  log1pComplex,
  logComplex,
  magnitudeNode,
  sinComplex,
  sinhComplex,
  sqrtComplex,
  tanComplex,
  tanhComplex,
} from "../nodes/complex_nodes.ts";
import {
  absNode,
  acoshNode,
  acosNode,
  asinhNode,
  asinNode,
  atanhNode,
  atanNode,
  ceilNode,
  coshNode,
  erfNode,
  expNode,
  floatConst,
  floorNode,
  isNanNode,
  logNode,
  roundNode,
  scale,
  sinhNode,
  tanhNode,
  tanNode,
} from "../nodes/numeric.ts";
import { erfcValue, expm1Value, log1pValue } from "../nodes/special_nodes.ts";
import { type ElementwiseTensor, signValue } from "./elementwise.ts";
import { inFloat, installUnary, ofNumbers, ofReals, rounding, type Rows, type UnaryRow } from "./rows.ts";

/** The families that it is written in, and its functions. */
export interface FunctionTensor extends ElementwiseTensor {
  /** |x|: real of complex numbers, too. Gradient 0 at 0. @example new Tensor([-1.5, 2]).abs() */
  abs(): this;
  /** x * x. @example new Tensor([-3, 2]).square() */
  square(): this;
  /** Square root; NaN below 0. @example new Tensor([4, 9]).sqrt() */
  sqrt(): this;
  /** 1 / sqrt(x). @example new Tensor([4, 16]).rsqrt() */
  rsqrt(): this;
  /** 1 / x. @example new Tensor([4, 0.5]).reciprocal() */
  reciprocal(): this;
  /** e^x. @example new Tensor([0, 1]).exp() */
  exp(): this;
  /** 2^x. @example new Tensor([0, 3]).exp2() */
  exp2(): this;
  /** Natural logarithm; -Infinity at 0, NaN below. @example new Tensor([1, 10]).log() */
  log(): this;
  /** Logarithm to base 2. @example new Tensor([1, 8]).log2() */
  log2(): this;
  /** Logarithm to base 10. @example new Tensor([1, 1000]).log10() */
  log10(): this;
  /** Sine, of radians. @example new Tensor([0, 1]).sin() */
  sin(): this;
  /** Cosine. @example new Tensor([0, 1]).cos() */
  cos(): this;
  /** Tangent. @example new Tensor([0, 1]).tan() */
  tan(): this;
  /** Inverse sine; NaN outside [-1, 1]. @example new Tensor([0, 1]).asin() */
  asin(): this;
  /** Inverse cosine; NaN outside [-1, 1]. @example new Tensor([1, 0]).acos() */
  acos(): this;
  /** Inverse tangent. @example new Tensor([0, 1]).atan() */
  atan(): this;
  /** Hyperbolic sine. @example new Tensor([0, 1]).sinh() */
  sinh(): this;
  /** Hyperbolic cosine. @example new Tensor([0, 1]).cosh() */
  cosh(): this;
  /** Hyperbolic tangent. @example new Tensor([0, 1]).tanh() */
  tanh(): this;
  /** Inverse hyperbolic sine. @example new Tensor([0, 1]).asinh() */
  asinh(): this;
  /** Inverse hyperbolic cosine; NaN below 1. @example new Tensor([1, 2]).acosh() */
  acosh(): this;
  /** Inverse hyperbolic tangent; NaN outside [-1, 1]. @example new Tensor([0, 0.5]).atanh() */
  atanh(): this;
  /** The error function. @example new Tensor([0, 1]).erf() */
  erf(): this;
  /** 1 - erf(x), with digits where it is small. @example new Tensor([0, 1]).erfc() */
  erfc(): this;
  /** log(1 + x), with digits near 0. @example new Tensor([0, 1e-6]).log1p() */
  log1p(): this;
  /** e^x - 1, with digits near 0. @example new Tensor([0, 1e-6]).expm1() */
  expm1(): this;
  /** Degrees as radians. @example new Tensor([0, 180]).deg2rad() */
  deg2rad(): this;
  /** Radians as degrees. @example new Tensor([0, Math.PI]).rad2deg() */
  rad2deg(): this;
  /** x without its whole part: x - trunc(x). @example new Tensor([1.25, -1.25]).frac() */
  frac(): this;
  /** Toward zero; integers stay as they are. @example new Tensor([1.7, -1.7]).trunc() */
  trunc(): this;
  /** Down to an integer; integers stay as they are. @example new Tensor([1.7, -1.7]).floor() */
  floor(): this;
  /** Up to an integer; integers stay as they are. @example new Tensor([1.2, -1.7]).ceil() */
  ceil(): this;
}

/** A row each. */
export const FUNCTIONS: Rows<UnaryRow> = {
  abs: { node: magnitude, complex: magnitudeNode },
  square: { node: (x) => x.dtype.isBool ? x.and(x) : x.mul(x), complex: (z) => z.mul(z) },
  sqrt: ofNumbers((x) => x.sqrt(), sqrtComplex, 0),
  rsqrt: ofNumbers((x) => floatConst(1, x.dtype).fdiv(x.sqrt()), (z) => inverseNode(sqrtComplex(z)), 0),
  reciprocal: ofNumbers((x) => floatConst(1, x.dtype).fdiv(x), inverseNode),
  exp: ofNumbers(expNode, expComplex),
  exp2: ofNumbers((x) => x.exp2(), (z) => expComplex(scale(z, Math.LN2))),
  log: ofNumbers(logNode, logComplex, 0),
  log2: ofNumbers((x) => x.log2(), (z) => scale(logComplex(z), Math.LOG2E), 0),
  log10: ofNumbers(
    (x) => scale(x.log2(), Math.LOG10E / Math.LOG2E),
    (z) => scale(logComplex(z), Math.LOG10E),
    0,
  ),
  sin: ofNumbers((x) => x.sin(), sinComplex),
  cos: ofNumbers((x) => x.cos(), cosComplex),
  tan: ofNumbers(tanNode, tanComplex),
  asin: ofNumbers(asinNode, asinComplex, -1, 1),
  acos: ofNumbers(acosNode, acosComplex, -1, 1),
  atan: ofNumbers(atanNode, atanComplex),
  sinh: ofNumbers(sinhNode, sinhComplex),
  cosh: ofNumbers(coshNode, coshComplex),
  tanh: ofNumbers(tanhNode, tanhComplex),
  asinh: ofNumbers(asinhNode, asinhComplex),
  acosh: ofNumbers(acoshNode, acoshComplex, 1),
  atanh: ofNumbers(atanhNode, atanhComplex, -1, 1),
  erf: ofReals(erfNode),
  erfc: ofReals(erfcValue),
  log1p: ofNumbers(log1pValue, log1pComplex, -0.5),
  expm1: ofNumbers(expm1Value, expm1Complex),
  deg2rad: ofReals((x) => scale(x, Math.PI / 180)),
  rad2deg: ofReals((x) => scale(x, 180 / Math.PI)),
  frac: { node: (x) => x.dtype.isFloat ? x.add(negNode(x.trunc())) : constant(0, x.dtype).mul(x) },
  trunc: rounding((x) => x.trunc()),
  floor: rounding(floorNode),
  ceil: rounding(ceilNode),
};

function magnitude(x: UOp): UOp {
  const d = x.dtype;
  if (d.isBool || d.isUnsigned) return x;
  return d.isFloat ? absNode(x, x.mul(signValue(x))) : x.lt(constant(0, d)).where(negNode(x), x);
}

/** Tensors with unary functions. */
export abstract class FunctionTensor extends TensorBase {
  static {
    installUnary(FunctionTensor, FUNCTIONS);
  }
  /** Applies a function of float nodes; integers are promoted, half floats computed in float32. */
  protected floating(f: (x: UOp) => UOp): this {
    return this.wrap(inFloat(this.uop, f));
  }

  /**
   * To the nearest integer, halves to the even one, or to as many `decimals`: 0 unless given, of which negative ones are
   * places before the point. Integers become floats.
   */
  round(options: { readonly decimals?: number } = {}): this {
    const { decimals = 0 } = checkOptions("round", options, ["decimals"]);
    if (checkInteger("round", "decimals", decimals) === 0 || !this.dtype.isFloat) {
      return this.dtype.isFloat ? this.wrap(roundNode(this.uop)) : this.cast(defaultFloat());
    }
    const power = 10 ** Math.abs(decimals), over = (x: UOp): UOp => x.fdiv(floatConst(power, x.dtype));
    return this.floating((x) => decimals > 0 ? over(roundNode(scale(x, power))) : scale(roundNode(over(x)), power));
  }

  /** What `test` says of both parts of complex numbers, joined. */
  private ofParts(test: (x: this) => this, join: (a: UOp, b: UOp) => UOp): this {
    const [a, b] = partsOf(this.uop).map((x) => test(this.wrap(x)).uop);
    return this.wrap(join(a, b));
  }

  /** True for NaN; of complex numbers where either part is. */
  isnan(): this {
    if (this.dtype.isComplex) return this.ofParts((x) => x.isnan(), (a, b) => a.or(b));
    return this.wrap(this.dtype.isFloat ? isNanNode(this.uop) : this.broadcastConst(constant(0, dtypes.bool)));
  }
  /** True for infinities; each sign can be left out. */
  isinf(options: { readonly detectPositive?: boolean; readonly detectNegative?: boolean } = {}): this {
    checkOptions("isinf", options, ["detectPositive", "detectNegative"]);
    if (this.dtype.isComplex) return this.ofParts((x) => x.isinf(options), (a, b) => a.or(b));
    const x = this.uop, d = x.dtype;
    const { detectPositive = true, detectNegative = true } = options;
    if (!d.isFloat || (!detectPositive && !detectNegative)) {
      return this.wrap(this.broadcastConst(constant(0, dtypes.bool)));
    }
    const plus = x.eq(constant(Infinity, d)), minus = x.eq(constant(-Infinity, d));
    return this.wrap(detectPositive && detectNegative ? plus.or(minus) : detectPositive ? plus : minus);
  }
  /** True for what is neither infinite nor NaN. */
  isfinite(): this {
    if (this.dtype.isComplex) return this.ofParts((x) => x.isfinite(), (a, b) => a.and(b));
    const x = this.uop, d = x.dtype;
    if (!d.isFloat) return this.wrap(this.broadcastConst(constant(1, dtypes.bool)));
    return this.wrap(x.lt(constant(Infinity, d)).and(constant(-Infinity, d).lt(x)));
  }
}
