/**
 * Higher functions: the gamma function's family, the inverse of the error function, divisors, neighbors. Promotion and
 * broadcasting are those of elementwise.ts.
 *
 * @module
 */
import { defaultFloat } from "../../dtype/promotion.ts";
import { DTypeError } from "../../helpers/errors.ts";
import { checkCount } from "../../helpers/options.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { type Operand, TensorBase } from "../handle/base.ts";
import { asFloats } from "../handle/weak_numbers.ts";
import { negNode } from "../nodes/compare_nodes.ts";
import { intDivide } from "../nodes/division.ts";
import {
  digammaNode,
  erfinvNode,
  gcdNode,
  lgammaNode,
  nextafterNode,
  polygammaNode,
  sincNode,
} from "./higher_nodes.ts";
import { install, installUnary, ofReals, type Rows, type UnaryRow } from "./rows.ts";
import type { SpecialTensor } from "./special.ts";

/** The families that it is written in, and what stands in rows. */
export interface HigherTensor extends SpecialTensor {
  /** Inverse of the error function; infinite at -1 and 1, NaN beyond. */
  erfinv(): this;
  /** Logarithm of |Gamma(x)|; infinite at 0 and at negative integers. */
  lgamma(): this;
  /** Derivative of {@linkcode lgamma}; NaN at negative integers. */
  digamma(): this;
  /** sin(pi x) / (pi x), and 1 at 0. */
  sinc(): this;
  /** The greatest common divisor. @throws {DTypeError} for floats and bools */
  gcd(x: Operand): this;
  /** The least common multiple, at least 0 where it does not wrap. @throws {DTypeError} for floats and bools */
  lcm(x: Operand): this;
}

/** Functions of one argument. */
export const HIGHER_FUNCTIONS: Rows<UnaryRow> = {
  erfinv: ofReals(erfinvNode, -1, 1),
  lgamma: ofReals(lgammaNode, 0),
  digamma: ofReals(digammaNode, 0),
  sinc: ofReals(sincNode),
};

/** Functions of two. */
export const BINARY_HIGHER: Rows<(a: UOp, b: UOp) => UOp> = {
  gcd: (a, b) => gcdNode(integer("gcd", a), b),
  lcm: (a, b) => {
    const d = integer("lcm", a).dtype, zero = constant(0, d), divisor = gcdNode(a, b);
    const product = intDivide(a, divisor.eq(zero).where(constant(1, d), divisor), "trunc").mul(b);
    return d.isUnsigned ? product : product.lt(zero).where(negNode(product), product);
  },
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

  /** The nth derivative of `digamma`: infinite at 0 and at negative integers. @throws {ArgumentError} unless n is 0 to 170 */
  polygamma(n: number): this {
    checkCount("polygamma", "n", n, 0, 170); // n! is finite
    return this.floating((x) => polygammaNode(n, x));
  }
}
