/**
 * Functions of two and three operands beside arithmetic: angles and lengths, logic, extremes without NaN, products that are
 * added, and functions of statistics with parameters. Promotion and broadcasting are those of elementwise.ts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { finfo } from "../../dtype/limits.ts";
import { floatOf } from "../../dtype/promotion.ts";
import { envNumber } from "../../helpers/env.ts";
import { ShapeError } from "../../helpers/errors.ts";
import { checkNumber, checkOptions, checkValue } from "../../helpers/options.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { fromParts, partsOf } from "../../uop/graph/complex.ts";
import { flat } from "../../uop/graph/given_gradient.ts";
import { resolveAxis } from "../handle/axes.ts";
import { checkTensor, type Operand, TensorBase } from "../handle/base.ts";
import { leNode, maxNode, minNode } from "../nodes/compare_nodes.ts";
import { floatConst, logaddexpNode, scale } from "../nodes/numeric.ts";
import { drawUniform } from "../nodes/random.ts";
import { castNode } from "../nodes/scalars.ts";
import { atan2Node, hypotNode, logitNode, signBit, xlogyNode } from "../nodes/special_nodes.ts";
import type { ActivationTensor } from "./activation.ts";
import { install, type Rows } from "./rows.ts";
import { constantAxis } from "../handle/dims.ts";

/** Options of {@linkcode SpecialTensor.nanToNum}. */
export interface NanToNumOptions {
  /** What stands for NaN. Default 0. */
  readonly nan?: number;
  /** What stands for infinity. Default: the largest number of the dtype. */
  readonly posinf?: number;
  /** What stands for -infinity. Default: the least number of the dtype. */
  readonly neginf?: number;
}

/** The families that it is written in, and what stands in rows. */
export interface SpecialTensor extends ActivationTensor {
  /** The angle of the point (x, this), in [-pi, pi]; signs of zeros count. */
  atan2(x: Operand): this;
  /** sqrt(this^2 + x^2) without overflow. */
  hypot(x: Operand): this;
  /** this log(x), which is 0 where this is 0, unless x is NaN. */
  xlogy(x: Operand): this;
  /** log2(2^this + 2^x) without overflow. */
  logaddexp2(x: Operand): this;
  /** The larger of both; NaN only where both are. */
  fmax(x: Operand): this;
  /** The smaller of both; NaN only where both are. */
  fmin(x: Operand): this;
  /** Whether both are true (nonzero). */
  logicalAnd(x: Operand): this;
  /** Whether one or both are true (nonzero). */
  logicalOr(x: Operand): this;
  /** Whether one of both is true (nonzero), and the other is not. */
  logicalXor(x: Operand): this;
  /** 0 below 0, 1 above, and x at 0; of NaN 0. The gradient is 0. */
  heaviside(x: Operand): this;
}

/** What takes another operand. */
export const BINARY_SPECIAL: Rows<(a: UOp, b: UOp) => UOp> = {
  atan2: ofPairs(atan2Node),
  hypot: ofPairs(hypotNode),
  xlogy: ofPairs(xlogyNode),
  logaddexp2: ofPairs((a, b) => scale(logaddexpNode(scale(a, Math.LN2), scale(b, Math.LN2)), Math.LOG2E)),
  fmax: (a, b) => a.dtype.isFloat ? b.ne(b).or(leNode(b, a)).where(a, b) : maxNode(a, b),
  fmin: (a, b) => a.dtype.isFloat ? b.ne(b).or(leNode(a, b)).where(a, b) : minNode(a, b),
  logicalAnd: (a, b) => truth(a).and(truth(b)),
  logicalOr: (a, b) => truth(a).or(truth(b)),
  logicalXor: (a, b) => truth(a).xor(truth(b)),
  heaviside: (a, b) => {
    const d = a.dtype;
    if (d.isBool) return a.or(b);
    const c = (v: number) => constant(v, d), step = a.eq(c(0)).where(b, c(0).lt(a).where(c(1), c(0)));
    return flat(step, [a, b]);
  },
};

/** A function of floats: integers as the default float, small ones computed in float32. */
export function ofPairs(f: (a: UOp, b: UOp) => UOp): (a: UOp, b: UOp) => UOp {
  return (a, b) => {
    const d = floatOf(a.dtype), wide = d.bits < 32 ? dtypes.float32 : d;
    return f(castNode(a, wide), castNode(b, wide)).cast(d);
  };
}

function truth(x: UOp): UOp {
  return castNode(x, dtypes.bool);
}

/** Tensors with functions of several operands. */
export abstract class SpecialTensor extends TensorBase {
  static {
    install(SpecialTensor, BINARY_SPECIAL, (node, name) =>
      function (x: Operand) {
        return this.wrap(node(...this.broadcasted(name, x)));
      });
  }

  /** Whether the sign is negative, that of -0 and NaN too. */
  signbit(): this {
    const x = this.uop, d = x.dtype;
    if (!d.isFloat) return this.lt(0);
    if (d.bits < 32) return this.float().signbit();
    const int = d.bits === 64 ? dtypes.int64 : dtypes.int32;
    return this.wrap(x.ne(x).where(x.bitcast(int).lt(constant(0, int)), signBit(x)));
  }

  /**
   * this + value tensor1 tensor2. @throws {ShapeError} where they do not broadcast
   */
  addcmul(tensor1: Operand, tensor2: Operand, options: { readonly value?: number } = {}): this {
    const { value = 1 } = checkOptions("addcmul", options, ["value"]);
    checkValue("addcmul", "value", value);
    const product = (this.operand(tensor1, "addcmul") as this).mul(tensor2);
    return this.add(value === 1 ? product : product.mul(value));
  }

  /** this + value tensor1 / tensor2. @throws {ShapeError} where they do not broadcast */
  addcdiv(tensor1: Operand, tensor2: Operand, options: { readonly value?: number } = {}): this {
    const { value = 1 } = checkOptions("addcdiv", options, ["value"]);
    checkValue("addcdiv", "value", value);
    const quotient = (this.operand(tensor1, "addcdiv") as this).div(tensor2);
    return this.add(value === 1 ? quotient : quotient.mul(value));
  }

  /** Numbers in place of NaN (0; also given alone) and infinities (the largest). Integers stay as they are. */
  nanToNum(options: number | NanToNumOptions = {}): this {
    const given: NanToNumOptions = typeof options === "number" ? { nan: options } : options;
    checkOptions("nanToNum", given, ["nan", "posinf", "neginf"]);
    const x = this.uop, d = x.dtype;
    if (!d.isFloat) return this.wrap(x);
    if (d.isComplex) {
      const [re, im] = partsOf(x).map((u) => this.wrap(u).nanToNum(given).uop);
      return this.wrap(fromParts([re, im]));
    }
    const { max, min } = finfo(d), { nan = 0, posinf = max, neginf = min } = given;
    const c = (v: number): UOp => floatConst(v, d);
    const high = x.eq(c(Infinity)).where(c(posinf), x.eq(c(-Infinity)).where(c(neginf), x));
    return this.wrap(x.ne(x).where(c(nan), high));
  }

  /** log(x / (1 - x)), of x limited to [eps, 1 - eps] where there is an eps. */
  logit(eps?: number): this {
    if (eps !== undefined) checkNumber("logit", "eps", eps);
    const x = eps === undefined ? this : this.clamp(eps, 1 - eps);
    return x.floating(logitNode);
  }

  /** this to the power x, in float64. */
  floatPower(x: Operand): this {
    const power = this.operand(x, "floatPower") as this;
    return this.double().pow(power.double());
  }

  /** this times 2^x. */
  ldexp(x: Operand): this {
    return this.mul((this.operand(x, "ldexp") as this).exp2());
  }

  /** x above `threshold`, else `value`. */
  threshold(threshold: number, value: number): this {
    checkNumber("threshold", "threshold", threshold);
    checkValue("threshold", "value", value);
    return this.le(threshold).where(this.constLike(value), this) as this;
  }

  /** The first half of axis `dim` times the sigmoid of the second. @throws {ShapeError} unless its size is even */
  glu(dim = -1): this {
    const shape = this.shape, axis = resolveAxis("glu", dim, shape), n = shape[axis] ?? 1;
    constantAxis("glu", this.uop, axis, "at([...]) takes halves of any");
    if (n % 2 !== 0) {
      throw new ShapeError("glu", { shapes: [shape], axis, reason: `axis ${axis} of size ${n} has no halves` });
    }
    const half = (start: number): this =>
      this.shrink(shape.map((s, i) => i === axis ? [start, start + n / 2] as const : [0, s] as const));
    return half(0).mul(half(n / 2).sigmoid());
  }

  /** x, and below 0 weight x, of one weight or one a channel (axis 1). @throws {ShapeError} for another number of them */
  prelu(weight: this): this {
    const w = checkTensor("prelu", "weight", weight), count = w.numel(), shape = this.shape;
    const channels = shape.length < 2 ? 1 : shape[1];
    if (w.ndim > 1 || (count !== 1 && count !== channels)) {
      throw new ShapeError("prelu", {
        shapes: [shape, w.shape],
        reason: `it takes one weight, or ${channels}, one a channel`,
      });
    }
    const slope = w.reshape(count === 1 ? [] : shape.map((_, i) => i === 1 ? count : 1));
    return this.gt(0).where(this, this.mul(slope)) as this;
  }

  /**
   * x, and below 0 x times a slope: (lower + upper) / 2, or in training (inside `Tensor.train`) one drawn for each element from
   * [lower, upper). By default they are 1/8 and 1/3.
   */
  rrelu(options: { readonly lower?: number; readonly upper?: number; readonly training?: boolean } = {}): this {
    checkOptions("rrelu", options, ["lower", "upper", "training"]);
    const { lower = 1 / 8, upper = 1 / 3, training = envNumber("TRAINING") !== 0 } = options;
    checkNumber("rrelu", "upper", upper);
    const slope = training
      ? this.wrap(drawUniform(this.shape, dtypes.float32)).mul(upper - lower).add(lower).cast(floatOf(this.dtype))
      : (lower + upper) / 2;
    return this.gt(0).where(this, this.mul(slope)) as this;
  }
}
