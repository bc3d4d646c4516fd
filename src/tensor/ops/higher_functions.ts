/**
 * Higher functions: the gamma function's family, the inverse of the error function, divisors, neighbors. Promotion and
 * broadcasting are those of elementwise.ts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { defaultFloat, promote } from "../../dtype/promotion.ts";
import { DTypeError } from "../../helpers/errors.ts";
import { checkCount } from "../../helpers/options.ts";
import { broadcastTo, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { type Operand, TensorBase } from "../handle/base.ts";
import { asFloats } from "../handle/weak_numbers.ts";
import { negNode } from "../nodes/compare_nodes.ts";
import { intDivide } from "../nodes/division.ts";
import { iotaAlong } from "../nodes/movement_nodes.ts";
import { floatConst, scale, shift } from "../nodes/numeric.ts";
import { reduceNode } from "../nodes/reduce_nodes.ts";
import {
  airyNode,
  j0Node,
  j1Node,
  k0eNode,
  k0Node,
  k1eNode,
  k1Node,
  sphericalJ0Node,
  y0Node,
  y1Node,
  zetaNode,
} from "./bessel_nodes.ts";
import { igammacNode, igammaNode } from "./gamma_nodes.ts";
import {
  cbrtNode,
  digammaNode,
  erfinvNode,
  frexpNodes,
  gcdNode,
  lgammaNode,
  nextafterNode,
  polygammaNode,
  sincNode,
} from "./higher_nodes.ts";
import {
  entrNode,
  erfcxValue,
  i0eNode,
  i0Node,
  i1eNode,
  i1Node,
  logNdtrNode,
  ndtriNode,
  ndtrNode,
  xlog1pyNode,
} from "./distribution_nodes.ts";
import { castNode } from "../nodes/scalars.ts";
import { install, installUnary, ofReals, type Rows, type UnaryRow } from "./rows.ts";
import { ofPairs, type SpecialTensor } from "./special.ts";

/** So many terms stand in a kernel one by one; more are summed along an axis. */
const FEW_TERMS = 8;

/** The families that it is written in, and what stands in rows. */
export interface HigherTensor extends SpecialTensor {
  /** The real cube root, with the sign of what it is of; its slope at 0 is infinite. */
  cbrt(): this;
  /** Inverse of the error function; infinite at -1 and 1, NaN beyond. @example new Tensor([0, 0.5]).erfinv() */
  erfinv(): this;
  /** Logarithm of |Gamma(x)|; infinite at 0 and at negative integers. @example new Tensor([1, 5]).lgamma() */
  lgamma(): this;
  /** Derivative of {@linkcode lgamma}; NaN at negative integers. @example new Tensor([1, 5]).digamma() */
  digamma(): this;
  /** sin(pi x) / (pi x), and 1 at 0. @example new Tensor([0, 0.5]).sinc() */
  sinc(): this;
  /** erfc(x) e^(x^2), with digits where erfc(x) is tiny. @example new Tensor([0, 10]).erfcx() */
  erfcx(): this;
  /** The share of a standard normal distribution below x. @example new Tensor([0, 1.5]).ndtr() */
  ndtr(): this;
  /** Inverse of {@linkcode ndtr}: infinite at 0 and 1, NaN outside. @example new Tensor([0.5, 0.975]).ndtri() */
  ndtri(): this;
  /** The logarithm of {@linkcode ndtr}, also where that is 0. @example new Tensor([0, -20]).logNdtr() */
  logNdtr(): this;
  /** -x log(x): 0 at 0, -infinity below. @example new Tensor([0, 0.5]).entr() */
  entr(): this;
  /** The modified Bessel function of the first kind of order 0. @example new Tensor([0, 1]).i0() */
  i0(): this;
  /** {@linkcode i0} times e^-|x|. @example new Tensor([0, 100]).i0e() */
  i0e(): this;
  /** The modified Bessel function of the first kind of order 1. @example new Tensor([0, 1]).i1() */
  i1(): this;
  /** {@linkcode i1} times e^-|x|. @example new Tensor([0, 100]).i1e() */
  i1e(): this;
  /** {@linkcode i0}. @example new Tensor([0.5, 10]).modifiedBesselI0() */
  modifiedBesselI0(): this;
  /** {@linkcode i1}. @example new Tensor([0.5, 10]).modifiedBesselI1() */
  modifiedBesselI1(): this;
  /** The modified Bessel function of the second kind of order 0: infinite at 0, NaN below. */
  modifiedBesselK0(): this;
  /** The modified Bessel function of the second kind of order 1: infinite at 0, NaN below. */
  modifiedBesselK1(): this;
  /** {@linkcode modifiedBesselK0} times e^x. @example new Tensor([0.5, 10]).scaledModifiedBesselK0() */
  scaledModifiedBesselK0(): this;
  /** {@linkcode modifiedBesselK1} times e^x. @example new Tensor([0.5, 10]).scaledModifiedBesselK1() */
  scaledModifiedBesselK1(): this;
  /** The Bessel function of the first kind of order 0. It has a gradient, as all of these, which in PyTorch have none. */
  besselJ0(): this;
  /** The Bessel function of the first kind of order 1. @example new Tensor([0.5, 10]).besselJ1() */
  besselJ1(): this;
  /** The Bessel function of the second kind of order 0: -infinity at 0, NaN below. */
  besselY0(): this;
  /** The Bessel function of the second kind of order 1: -infinity at 0, NaN below. */
  besselY1(): this;
  /** The spherical Bessel function of order 0, sin(x) / x, which is 1 at 0. */
  sphericalBesselJ0(): this;
  /** Airy's function Ai. @example new Tensor([0.5, 10]).airyAi() */
  airyAi(): this;
  /**
   * Hurwitz's zeta function of the order in this: the sum of (x + k)^-this over k from 0. Infinite for the order 1 and where a
   * term is, NaN for orders below 1 and for other x below 0. Its gradient is by x alone, as PyTorch's.
   */
  zeta(x: Operand): this;
  /** this log(1 + x), which is 0 where this is 0, unless x is NaN. */
  xlog1py(x: Operand): this;
  /**
   * The regularized lower incomplete gamma function P(a, x) of the order a in this: the integral of t^(a - 1) e^-t from 0 to
   * x over the whole. NaN below 0. It has a gradient by x, and as in PyTorch none by a.
   */
  igamma(x: Operand): this;
  /** The regularized upper incomplete gamma function, 1 - P(a, x), with digits where it is tiny. See {@linkcode igamma}. */
  igammac(x: Operand): this;
  /** {@linkcode igamma}. @example new Tensor([0.5, 3]).gammainc(2) */
  gammainc(x: Operand): this;
  /** {@linkcode igammac}. @example new Tensor([0.5, 3]).gammaincc(2) */
  gammaincc(x: Operand): this;
  /** The greatest common divisor. @throws {DTypeError} for floats and bools */
  gcd(x: Operand): this;
  /** The least common multiple, at least 0 where it does not wrap. @throws {DTypeError} for floats and bools */
  lcm(x: Operand): this;
}

/** Functions of one argument. */
export const HIGHER_FUNCTIONS: Rows<UnaryRow> = {
  cbrt: ofReals(cbrtNode, -9, 9),
  erfinv: ofReals(erfinvNode, -1, 1),
  lgamma: ofReals(lgammaNode, 0),
  digamma: ofReals(digammaNode, 0),
  sinc: ofReals(sincNode),
  erfcx: ofReals(erfcxValue),
  ndtr: ofReals(ndtrNode),
  ndtri: ofReals(ndtriNode, 0, 1),
  logNdtr: ofReals(logNdtrNode),
  entr: ofReals(entrNode, 0),
  i0: ofReals(i0Node),
  i0e: ofReals(i0eNode),
  i1: ofReals(i1Node),
  i1e: ofReals(i1eNode),
  modifiedBesselI0: ofReals(i0Node),
  modifiedBesselI1: ofReals(i1Node),
  modifiedBesselK0: ofReals(k0Node, 0),
  modifiedBesselK1: ofReals(k1Node, 0),
  scaledModifiedBesselK0: ofReals(k0eNode, 0),
  scaledModifiedBesselK1: ofReals(k1eNode, 0),
  besselJ0: ofReals(j0Node),
  besselJ1: ofReals(j1Node),
  besselY0: ofReals(y0Node, 0),
  besselY1: ofReals(y1Node, 0),
  sphericalBesselJ0: ofReals(sphericalJ0Node),
  airyAi: ofReals(airyNode),
};

/** Functions of two. */
export const BINARY_HIGHER: Rows<(a: UOp, b: UOp) => UOp> = {
  gcd: (a, b) => gcdNode(integer("gcd", a), b),
  lcm: (a, b) => {
    const d = integer("lcm", a).dtype, zero = constant(0, d), divisor = gcdNode(a, b);
    const product = intDivide(a, divisor.eq(zero).where(constant(1, d), divisor), "trunc").mul(b);
    return d.isUnsigned ? product : product.lt(zero).where(negNode(product), product);
  },
  igamma: ofPairs(igammaNode),
  igammac: ofPairs(igammacNode),
  gammainc: ofPairs(igammaNode),
  gammaincc: ofPairs(igammacNode),
  xlog1py: ofPairs(xlog1pyNode),
  zeta: ofPairs(zetaNode),
};

function integer(action: string, x: UOp): UOp {
  if (x.dtype.isInt) return x;
  throw new DTypeError(`${action} of dtype`, { dtypes: [x.dtype], reason: "only integers have divisors" });
}

/** Tensors with higher functions. */
export abstract class HigherTensor extends TensorBase {
  static {
    installUnary(HigherTensor, HIGHER_FUNCTIONS);
    install(HigherTensor, BINARY_HIGHER, (node, name) =>
      function (x: Operand) {
        return this.wrap(node(...this.broadcasted(name, x)));
      });
  }

  /** The next number after this in the direction of x; not of fp8. The gradient is 0. @throws {DTypeError} for integers */
  nextafter(x: Operand): this {
    const [a, b] = this.broadcasted("nextafter", x);
    if (a.dtype.isFloat && a.dtype.bits >= 16) return this.wrap(nextafterNode(a, b));
    const floats = asFloats(this, defaultFloat());
    if (floats !== this) return floats.nextafter(x);
    throw new DTypeError("nextafter of dtype", { dtypes: [a.dtype], reason: "it takes floats of 16 bits or more" });
  }

  /**
   * The logarithm of the multivariate gamma function of dimension `p`: log(pi) p (p - 1) / 4 plus the sum of lgamma(x - k / 2),
   * k below p. NaN unless all of these x - k / 2 are above 0.
   *
   * @throws {ArgumentError} unless p is an integer from 1 to 65536
   */
  mvlgamma(p: number): this {
    checkCount("mvlgamma", "p", p, 1, 2 ** 16);
    return this.floating((x) => {
      let sum = floatConst(Math.log(Math.PI) * p * (p - 1) / 4, x.dtype);
      if (p <= FEW_TERMS) { for (let k = 0; k < p; k++) sum = sum.add(lgammaNode(shift(x, -k / 2))); }
      else {
        const shape = shapeOf(x), rank = shape.length, full = [...shape, p];
        const half = broadcastTo(scale(castNode(iotaAlong(p, rank, rank + 1), x.dtype), -0.5), full);
        const terms = lgammaNode(broadcastTo(reshape(x, [...shape, 1]), full).add(half));
        sum = sum.add(reshape(reduceNode(terms, Ops.ADD, [rank]), shape));
      }
      return floatConst((p - 1) / 2, x.dtype).lt(x).where(sum, floatConst(NaN, x.dtype));
    });
  }

  /**
   * Mantissas in [1/2, 1) with the sign of this, and exponents of two, int32: this is mantissa 2^exponent. Of 0, infinity and
   * NaN the mantissa is that, and the exponent 0.
   *
   * @throws {DTypeError} unless of floats
   */
  frexp(): [mantissa: this, exponent: this] {
    const d = this.dtype;
    if (!d.isFloat || d.isComplex) {
      const floats = asFloats(this, defaultFloat());
      if (floats !== this) return floats.frexp();
      throw new DTypeError("frexp of dtype", { dtypes: [d], reason: "only floats have mantissas" });
    }
    const [mantissa, exponent] = frexpNodes(castNode(this.uop, promote(d, dtypes.float32)));
    return [this.wrap(castNode(mantissa, d)), this.wrap(exponent)];
  }

  /** The nth derivative of `digamma`: infinite at 0 and at negative integers. @throws {ArgumentError} unless n is 0 to 170 */
  polygamma(n: number): this {
    checkCount("polygamma", "n", n, 0, 170); // n! is finite
    return this.floating((x) => polygammaNode(n, x));
  }
}
