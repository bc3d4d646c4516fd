/**
 * Unary functions, elementwise: powers, exponentials, trigonometry, rounding and tests. Functions that are real-valued
 * take integers as the default float; half floats are computed in float32. The graphs are built by numeric.ts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { defaultFloat } from "../../dtype/promotion.ts";
import { checkOptions } from "../../helpers/options.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { TensorBase } from "../handle/base.ts";
import { negNode } from "../nodes/compare_nodes.ts";
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
import { type ElementwiseTensor, inFloat, signValue } from "./elementwise.ts";

/** The families that it is written in. */
export interface FunctionTensor extends ElementwiseTensor {}
/** Tensors with unary functions. */
export abstract class FunctionTensor extends TensorBase {
  /** Applies a function of float nodes; integers are promoted, half floats computed in float32. */
  protected floating(f: (x: UOp) => UOp): this {
    return this.wrap(inFloat(this.uop, f));
  }

  /** |x|. Gradient 0 at 0. */
  abs(): this {
    const x = this.uop, d = x.dtype;
    if (d.isBool || d.isUnsigned) return this.wrap(x);
    if (d.isFloat) return this.wrap(absNode(x, x.mul(signValue(x))));
    return this.wrap(x.lt(constant(0, d)).where(negNode(x), x));
  }
  /** x * x. */
  square(): this {
    return this.mul(this);
  }
  /** Square root; NaN below 0. */
  sqrt(): this {
    return this.floating((x) => x.sqrt());
  }
  /** 1 / sqrt(x). */
  rsqrt(): this {
    return this.floating((x) => floatConst(1, x.dtype).fdiv(x.sqrt()));
  }
  /** 1 / x. */
  reciprocal(): this {
    return this.floating((x) => floatConst(1, x.dtype).fdiv(x));
  }

  /** e^x. */
  exp(): this {
    return this.floating(expNode);
  }
  /** 2^x. */
  exp2(): this {
    return this.floating((x) => x.exp2());
  }
  /** Natural logarithm; -Infinity at 0, NaN below. */
  log(): this {
    return this.floating(logNode);
  }
  /** Logarithm to base 2. */
  log2(): this {
    return this.floating((x) => x.log2());
  }
  /** Logarithm to base 10. */
  log10(): this {
    return this.floating((x) => scale(x.log2(), Math.LOG10E / Math.LOG2E));
  }

  /** Sine, of radians. */
  sin(): this {
    return this.floating((x) => x.sin());
  }
  /** Cosine. */
  cos(): this {
    return this.floating((x) => x.cos());
  }
  /** Tangent. */
  tan(): this {
    return this.floating(tanNode);
  }
  /** Inverse sine; NaN outside [-1, 1]. */
  asin(): this {
    return this.floating(asinNode);
  }
  /** Inverse cosine; NaN outside [-1, 1]. */
  acos(): this {
    return this.floating(acosNode);
  }
  /** Inverse tangent. */
  atan(): this {
    return this.floating(atanNode);
  }
  /** Hyperbolic sine. */
  sinh(): this {
    return this.floating(sinhNode);
  }
  /** Hyperbolic cosine. */
  cosh(): this {
    return this.floating(coshNode);
  }
  /** Hyperbolic tangent. */
  tanh(): this {
    return this.floating(tanhNode);
  }
  /** Inverse hyperbolic sine. */
  asinh(): this {
    return this.floating(asinhNode);
  }
  /** Inverse hyperbolic cosine; NaN below 1. */
  acosh(): this {
    return this.floating(acoshNode);
  }
  /** Inverse hyperbolic tangent; NaN outside [-1, 1]. */
  atanh(): this {
    return this.floating(atanhNode);
  }
  /** The error function. */
  erf(): this {
    return this.floating(erfNode);
  }

  /** A rounding; integers stay as they are. */
  private rounded(f: (x: UOp) => UOp): this {
    return this.dtype.isFloat ? this.wrap(f(this.uop)) : this.wrap(this.uop);
  }
  /** Toward zero; integers stay as they are. */
  trunc(): this {
    return this.rounded((x) => x.trunc());
  }
  /** Down to an integer; integers stay as they are. */
  floor(): this {
    return this.rounded(floorNode);
  }
  /** Up to an integer; integers stay as they are. */
  ceil(): this {
    return this.rounded(ceilNode);
  }
  /** To the nearest integer, halves to the even one. Integers become floats. */
  round(): this {
    return this.dtype.isFloat ? this.wrap(roundNode(this.uop)) : this.cast(defaultFloat());
  }

  /** True for NaN. */
  isnan(): this {
    return this.wrap(this.dtype.isFloat ? isNanNode(this.uop) : this.broadcastConst(constant(0, dtypes.bool)));
  }
  /** True for infinities; each sign can be left out. */
  isinf(options: { readonly detectPositive?: boolean; readonly detectNegative?: boolean } = {}): this {
    checkOptions("isinf", options, ["detectPositive", "detectNegative"]);
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
    const x = this.uop, d = x.dtype;
    if (!d.isFloat) return this.wrap(this.broadcastConst(constant(1, dtypes.bool)));
    return this.wrap(x.lt(constant(Infinity, d)).and(constant(-Infinity, d).lt(x)));
  }
}
