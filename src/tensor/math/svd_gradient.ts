/**
 * The gradient of the singular value decomposition A = U S Vᵀ by formula (Townsend, "Differentiating the singular value
 * decomposition", 2016; PyTorch's). Differentiating the rotations that found it would take hundreds of kernels, and divide
 * by the length of columns that are zero.
 *
 * With E_ij = s_j² - s_i², and X - Xᵀ as skew(X), A's gradient is
 * U (skew(Uᵀ gU) / E S + S skew(Vᵀ gV) / E + diag gS) Vᵀ + (1 - U Uᵀ) gU S⁻¹ Vᵀ + U S⁻¹ gVᵀ (1 - V Vᵀ).
 *
 * Singular values have one wherever they differ from 0 or each other or not; vectors where the values differ.
 *
 * @module
 */
import { broadcastTo, reshape } from "../../uop/core/build_movement.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { along, first, isDiagonal, minus, times, turned } from "./matrix_nodes.ts";

/** `U` `[..., m, k or m]`, `S` `[..., k]`, `Vᵀ` `[..., k or n, n]`. */
export interface Decomposed {
  readonly u: UOp;
  readonly s: UOp;
  readonly vt: UOp;
}

/** skew(x) / E; 0 on the diagonal, where `x` is anything. */
function overGaps(x: UOp, s: UOp): UOp {
  const square = s.mul(s), zero = constant(0, s.dtype), own = isDiagonal(x);
  const gaps = own.where(constant(1, s.dtype), minus(along(square, "column"), along(square, "row")));
  return own.where(zero, minus(x, turned(x)).fdiv(gaps));
}

/** x / s, a value a column. */
function overColumns(x: UOp, s: UOp): UOp {
  const shape = shapeOf(x), k = shape[shape.length - 1];
  return x.fdiv(broadcastTo(reshape(s, [...shape.slice(0, -2), 1, k]), shape));
}

/** `g` of the first `k` vectors alone: of those that complete a basis there is no gradient. */
const VALUES = new GradientArg((g, [, u, vt]) => {
  const k = shapeOf(g)[shapeOf(g).length - 1], left = first(u, -1, k), shape = shapeOf(left);
  const scaled = left.mul(broadcastTo(reshape(g, [...shape.slice(0, -2), 1, k]), shape));
  return [times(scaled, first(vt, -2, k)), undefined, undefined];
});

const LEFT = new GradientArg((g, [, s, vt], whole) => {
  const k = shapeOf(s)[shapeOf(s).length - 1], u = first(whole, -1, k), own = first(g, -1, k), v = first(vt, -2, k);
  const inner = times(turned(u), own), core = times(u, overGaps(inner, s).mul(along(s, "column")));
  if (shapeOf(u)[shapeOf(u).length - 2] === k) return [times(core, v), undefined, undefined];
  return [times(core.add(overColumns(minus(own, times(u, inner)), s)), v), undefined, undefined];
});

const RIGHT = new GradientArg((g, [, u, s], whole) => {
  const k = shapeOf(s)[shapeOf(s).length - 1], left = first(u, -1, k), v = turned(first(whole, -2, k));
  const own = turned(first(g, -2, k)), inner = times(turned(v), own);
  const core = times(left, overGaps(inner, s).mul(along(s, "row")));
  const made = times(core, turned(v));
  if (shapeOf(v)[shapeOf(v).length - 2] === k) return [made, undefined, undefined];
  const rest = minus(own, times(v, inner));
  return [made.add(times(left, turned(overColumns(rest, s)))), undefined, undefined];
});

/** A decomposition of `a`, with the gradient by formula; also that of the gradient. */
export function differentiable(a: UOp, { u, s, vt }: Decomposed): Decomposed {
  const around = (d: Decomposed): Decomposed => ({
    u: withGradient(u, [a, d.s, d.vt], LEFT),
    s: withGradient(s, [a, d.u, d.vt], VALUES),
    vt: withGradient(vt, [a, d.u, d.s], RIGHT),
  });
  return around(around({ u, s, vt }));
}
