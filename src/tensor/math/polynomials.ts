/**
 * Classical orthogonal polynomials (DLMF 18) of a degree that is a number, by their recurrences.
 *
 * @module
 */
import { checkCount } from "../../helpers/options.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { TensorBase } from "../handle/base.ts";
import { floatConst, scale, shift } from "../nodes/numeric.ts";
import type { FunctionTensor } from "../ops/functions.ts";
import { install, type Rows } from "../ops/rows.ts";

/** The most that a degree may be: a polynomial is that many steps of a kernel. */
const MOST = 128;

/** Polynomials: that of degree 1, and how p of degree k + 1 comes of those of k and k - 1. */
interface PolynomialRow {
  readonly first: (x: UOp) => UOp;
  readonly next: (x: UOp, k: number, p: UOp, before: UOp) => UOp;
}

function minus(a: UOp, b: UOp): UOp {
  return a.add(scale(b, -1));
}
/** Chebyshev's, of which all kinds differ in that of degree 1; of x, or of 2x - 1. */
function chebyshev(factor: number, offset: number, shifted = false): PolynomialRow {
  const at = (x: UOp): UOp => shifted ? shift(scale(x, 2), -1) : x;
  return {
    first: (x) => shift(scale(at(x), factor), offset),
    next: (x, _, p, before) => minus(scale(at(x).mul(p), 2), before),
  };
}

/** All of them. */
export const POLYNOMIALS: Rows<PolynomialRow> = {
  chebyshevPolynomialT: chebyshev(1, 0),
  chebyshevPolynomialU: chebyshev(2, 0),
  chebyshevPolynomialV: chebyshev(2, -1),
  chebyshevPolynomialW: chebyshev(2, 1),
  shiftedChebyshevPolynomialT: chebyshev(1, 0, true),
  shiftedChebyshevPolynomialU: chebyshev(2, 0, true),
  shiftedChebyshevPolynomialV: chebyshev(2, -1, true),
  shiftedChebyshevPolynomialW: chebyshev(2, 1, true),
  hermitePolynomialH: {
    first: (x) => scale(x, 2),
    next: (x, k, p, before) => scale(minus(x.mul(p), scale(before, k)), 2),
  },
  hermitePolynomialHe: { first: (x) => x, next: (x, k, p, before) => minus(x.mul(p), scale(before, k)) },
  laguerrePolynomialL: {
    first: (x) => shift(scale(x, -1), 1),
    next: (x, k, p, before) => scale(minus(shift(scale(x, -1), 2 * k + 1).mul(p), scale(before, k)), 1 / (k + 1)),
  },
  legendrePolynomialP: {
    first: (x) => x,
    next: (x, k, p, before) => scale(minus(scale(x.mul(p), 2 * k + 1), scale(before, k)), 1 / (k + 1)),
  },
};

/** The families that it is written in, and what stands in rows: float dtypes stay, others become float32. */
export interface PolynomialTensor extends FunctionTensor {
  /** Chebyshev's polynomial of the first kind of degree `n`. @throws {ArgumentError} unless n is 0 to 128 */
  chebyshevPolynomialT(n: number): this;
  /** Chebyshev's polynomial of the second kind of degree `n`. @throws {ArgumentError} unless n is 0 to 128 */
  chebyshevPolynomialU(n: number): this;
  /** Chebyshev's polynomial of the third kind of degree `n`. @throws {ArgumentError} unless n is 0 to 128 */
  chebyshevPolynomialV(n: number): this;
  /** Chebyshev's polynomial of the fourth kind of degree `n`. @throws {ArgumentError} unless n is 0 to 128 */
  chebyshevPolynomialW(n: number): this;
  /** {@linkcode chebyshevPolynomialT} of 2x - 1. @throws {ArgumentError} unless n is 0 to 128 */
  shiftedChebyshevPolynomialT(n: number): this;
  /** {@linkcode chebyshevPolynomialU} of 2x - 1. @throws {ArgumentError} unless n is 0 to 128 */
  shiftedChebyshevPolynomialU(n: number): this;
  /** {@linkcode chebyshevPolynomialV} of 2x - 1. @throws {ArgumentError} unless n is 0 to 128 */
  shiftedChebyshevPolynomialV(n: number): this;
  /** {@linkcode chebyshevPolynomialW} of 2x - 1. @throws {ArgumentError} unless n is 0 to 128 */
  shiftedChebyshevPolynomialW(n: number): this;
  /** Hermite's polynomial of physics of degree `n`. @throws {ArgumentError} unless n is 0 to 128 */
  hermitePolynomialH(n: number): this;
  /** Hermite's polynomial of statistics of degree `n`. @throws {ArgumentError} unless n is 0 to 128 */
  hermitePolynomialHe(n: number): this;
  /** Laguerre's polynomial of degree `n`. @throws {ArgumentError} unless n is 0 to 128 */
  laguerrePolynomialL(n: number): this;
  /** Legendre's polynomial of degree `n`. @throws {ArgumentError} unless n is 0 to 128 */
  legendrePolynomialP(n: number): this;
}
/** Tensors with orthogonal polynomials. */
export abstract class PolynomialTensor extends TensorBase {
  static {
    install(PolynomialTensor, POLYNOMIALS, ({ first, next }, name) =>
      function (n: number) {
        checkCount(name, "n", n, 0, MOST);
        const made = this.floating((x) => {
          let before = floatConst(1, x.dtype), p = n === 0 ? x : first(x);
          for (let k = 1; k < n; k++) [p, before] = [next(x, k, p, before), p];
          return p;
        });
        return n === 0 ? made.constLike(1) : made;
      });
  }
}
