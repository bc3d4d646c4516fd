/**
 * Gradients of what elimination and reflections find, by formula: that of their steps would be many times as many kernels,
 * and divide by pivots that are 0. With g for the gradient of the result:
 *
 * - Y = A⁻¹: -Yᵀ g Yᵀ. A X = B: for B it is h with Aᵀ h = g, for A it is -h Xᵀ.
 * - A = L Lᵀ: L⁻ᵀ Φ(Lᵀ g) L⁻¹, symmetrized, where Φ takes the lower triangle and half of the diagonal (I. Murray,
 *   "Differentiation of the Cholesky decomposition", 2016).
 * - A = Q R: (g_Q + Q S(triu(g_R Rᵀ - Qᵀ g_Q))) R⁻ᵀ, where S mirrors the upper triangle (M. Seeger et al.,
 *   "Auto-differentiating linear algebra", 2017). Columns that only complete Q turn with the others; columns of A beyond its
 *   rows are Q times those of R.
 * - det A: its cofactors (cofactors.ts); of complex numbers det A A⁻ᵀ, which singular matrices have not.
 *
 * @module
 */
import { broadcastTo, pad } from "../../uop/core/build_movement.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import type { Pair } from "../nodes/movement_nodes.ts";
import { columnsOf, first, minus, times, triangle, turned } from "./matrix_nodes.ts";

/** Results with gradients of their own, of nodes: square matrices, and right sides with as many axes. */
export interface Systems {
  readonly inverse: (a: UOp) => UOp;
  readonly solve: (a: UOp, b: UOp) => UOp;
}

/** The formulas. */
export class MatrixGradients {
  /** Of the inverse; the input is the matrix. */
  readonly inverse: GradientArg = new GradientArg((g, _, y) => {
    const back = turned(y);
    return [times(times(back, g), back).mul(-1)];
  });

  /** Of the solution of a system; the inputs are the matrix and the right side. */
  readonly solution: GradientArg;
  /** Of the lower triangle; the input is the symmetric matrix. */
  readonly cholesky: GradientArg;
  /** Of the determinant of complex numbers, where it is not 0; the input is the matrix. */
  readonly determinant: GradientArg;
  private readonly q: GradientArg;
  private readonly r: GradientArg;

  constructor(systems: Systems) {
    this.solution = new GradientArg((g, [a], x) => {
      const right = systems.solve(turned(a), g);
      return [() => times(right, turned(x)).mul(-1), right];
    });
    this.determinant = new GradientArg((g, [a], y) => {
      return [turned(systems.inverse(a)).mul(broadcastTo(g.mul(y), shapeOf(a)))];
    });
    this.cholesky = new GradientArg((g, _, l) => {
      const inverse = systems.inverse(l), inner = triangle(times(turned(l), g), false, 0.5);
      const made = times(times(turned(inverse), inner), inverse);
      return [made.add(turned(made)).mul(0.5)];
    });
    /** X R⁻ᵀ for an upper triangle R. */
    const over = (x: UOp, r: UOp): UOp => turned(systems.solve(r, turned(x)));
    const mirrored = (x: UOp): UOp => triangle(x, true, 0.5).add(turned(triangle(x, true, 0.5)));
    /** Of the first columns of Q. */
    const ofBasis = (g: UOp, q: UOp, r: UOp): UOp => over(minus(g, times(q, mirrored(times(turned(q), g)))), r);
    this.q = new GradientArg((g, [a, whole], full) => {
      const [m, n] = shapeOf(a).slice(-2), k = Math.min(m, n);
      const q = first(full, -1, k), r = first(first(whole, -2, k), -1, k);
      let own = first(g, -1, k);
      if (shapeOf(full)[shapeOf(full).length - 1] > k) {
        own = minus(own, times(columnsOf(full, n, m), times(turned(columnsOf(g, n, m)), q)));
      }
      return [wide(ofBasis(own, q, r), n), undefined];
    });
    this.r = new GradientArg((g, [a, full], whole) => {
      const [m, n] = shapeOf(a).slice(-2), k = Math.min(m, n);
      const q = first(full, -1, k), rows = first(whole, -2, k), own = first(g, -2, k), r = first(rows, -1, k);
      const square = over(times(q, mirrored(times(first(own, -1, k), turned(r)))), r);
      if (m >= n) return [square, undefined];
      const rest = columnsOf(own, m, n), basis = ofBasis(times(columnsOf(a, m, n), turned(rest)), q, r);
      return [join(square.add(basis), times(q, rest)), undefined];
    });
  }

  /** The factors of `a` with their gradients; also those of the gradients. */
  decomposed(a: UOp, q: UOp, r: UOp): [q: UOp, r: UOp] {
    const around = (q: UOp, r: UOp): [UOp, UOp] => [withGradient(q, [a, r], this.q), withGradient(r, [a, q], this.r)];
    return around(...around(q, r));
  }
}

/** `x` with columns of zeros behind it: `n` in all. */
function wide(x: UOp, n: number): UOp {
  const shape = shapeOf(x), last = shape.length - 1;
  return shape[last] === n ? x : pad(x, shape.map((k, i): Pair => [0, i === last ? n - k : 0]));
}

/** The columns of two matrices, side by side. */
function join(a: UOp, b: UOp): UOp {
  const shape = shapeOf(b), last = shape.length - 1, before = shapeOf(a)[last];
  return wide(a, before + shape[last]).add(pad(b, shape.map((_, i): Pair => [i === last ? before : 0, 0])));
}
