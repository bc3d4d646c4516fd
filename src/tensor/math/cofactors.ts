/**
 * The cofactors of square matrices, which are the gradient of the determinant, and the gradient of the cofactors: right for
 * singular matrices too, where the formula by the inverse divides 0 by 0.
 *
 * All but one row are eliminated (Gauss-Jordan, pivots the largest of what is left): N A = T, where T is the identity but
 * for one column, c with u at its end e. With v = e - c, P = 1 - e eᵀ and b the product of the pivots with its sign,
 * det A = b u, and the cofactors are b Nᵀ (u P + e vᵀ). The second derivative of det in directions X and G, with Y = N X and
 * Z = N G, is b times u (tr PY tr PZ - tr PYPZ) + tr PY (eᵀZv) + (eᵀYv) tr PZ - eᵀZPYv - eᵀYPZv: nothing is divided by u.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { broadcastTo } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import type { GatherTensor } from "../index/gather.ts";
import type { IndexingTensor } from "../index/indexing.ts";
import { iotaAlong } from "../nodes/movement_nodes.ts";
import type { LinalgTensor } from "./linalg.ts";

/** What stands for a pivot of 0: what is divided by it vanishes in the end, or is multiplied by it. */
const TINY = 2 ** -60;

/** What formulas on matrices are written in. */
interface Matrix extends GatherTensor, IndexingTensor, LinalgTensor {}
/** A tensor of a node. */
export type Maker = (u: UOp) => Matrix;

/** A matrix whose rows but one are eliminated; the letters are those above. */
interface Eliminated {
  readonly N: Matrix;
  /** `[..., 1, n]`: 1 at the last column. */
  readonly e: Matrix;
  readonly v: Matrix;
  readonly u: Matrix;
  readonly b: Matrix;
  /** The same with {@linkcode TINY} for pivots of 0. */
  readonly near: Matrix;
}

/** The graph is one for each matrix: what is kept is computed once. */
function eliminated(a: UOp, of: Maker): Eliminated {
  const shape = shapeOf(a), rank = shape.length, n = shape[rank - 1], lead = shape.slice(0, -2), d = a.dtype;
  const kept = (t: Matrix): Matrix => of(uop(Ops.CONTIGUOUS, t.dtype, [t.uop]));
  const whole = (value: number, sizes: readonly number[], dtype = d): Matrix =>
    of(broadcastTo(constant(value, dtype), [...lead, ...sizes]));
  const rows = of(iotaAlong(n, rank - 2, rank)), columns = of(iotaAlong(n, rank - 1, rank));
  let w = kept(of(a).cat([rows.eq(columns).where(whole(1, [n, n]), 0)], -1)); // A over N
  let columnOf = whole(-1, [n, 1], dtypes.int32), isUsed = whole(0, [1, n], dtypes.bool);
  let b = whole(1, [1, 1]), near = b;
  for (let k = 0; k < n - 1; k++) {
    const left = w.at("...", [0, n]), taken = columnOf.ge(0).bitwiseOr(isUsed);
    const at = kept(taken.where(-1, left.abs()).reshape([...lead, n * n]).argmax(-1).reshape([...lead, 1, 1]));
    const row = at.floorDiv(n), column = at.mod(n), isRow = rows.eq(row);
    const top = w.gather(-2, row.expand([...lead, 1, 2 * n])), pivot = top.gather(-1, column);
    const safe = pivot.eq(0).where(TINY, pivot), own = top.div(safe);
    const others = w.sub(w.gather(-1, column.expand([...lead, n, 1])).mul(own));
    w = kept(isRow.where(own, others));
    columnOf = kept(isRow.where(column, columnOf));
    isUsed = kept(isUsed.bitwiseOr(columns.eq(column)));
    [b, near] = [kept(b.mul(pivot)), kept(near.mul(safe))];
  }
  const last = isUsed.where(0, columns).sum(-1, { keepdim: true }), e = columns.eq(last).where(whole(1, [1, n]), 0);
  const place = kept(columnOf.lt(0).where(last, columnOf)); // [..., n, 1]: where each row goes
  const later = rows.lt(columns).bitwiseAnd(place.gt(place.transpose(-1, -2)));
  const isOdd = later.cast(dtypes.int32).sum([-2, -1], { keepdim: true }).mod(2).eq(1);
  const signed = (x: Matrix): Matrix => isOdd.where(x.neg(), x);
  const from = place.eq(columns).where(rows, 0).sum(-2, { keepdim: true }).transpose(-1, -2);
  const ordered = kept(w.gather(-2, from.expand([...lead, n, 2 * n])));
  const c = ordered.at("...", [0, n]).gather(-1, last.expand([...lead, n, 1])).transpose(-1, -2); // [..., 1, n]
  return {
    N: ordered.at("...", [n, null]),
    e,
    v: kept(e.gt(0).where(1, c.neg())),
    u: kept(c.mul(e).sum(-1, { keepdim: true })),
    b: signed(b),
    near: signed(near),
  };
}

/** The transposed matrix. */
function turned(x: Matrix): Matrix {
  return x.transpose(-1, -2);
}

/** Cofactors with their gradient, and the gradient of determinants: formulas for tensors that `make` makes. */
export class Cofactors {
  /** Of the determinant, `[..., 1, 1]`; the input is the matrix. */
  readonly determinant: GradientArg = new GradientArg((g, [a]) => [this.make(g).mul(this.make(this.of(a))).uop]);
  /** Of the cofactors; the input is the matrix. */
  private readonly second: GradientArg;

  constructor(private readonly make: Maker) {
    this.second = new GradientArg((g, [a]) => {
      const { N, e, v, u, near } = eliminated(a, make), Z = N.dot(make(g)), column = turned(e), isLast = e.gt(0);
      const above = isLastRow(e).where(0, Z), square = isLast.where(0, above); // P Z, P Z P
      const rank = shapeOf(a).length, n = shapeOf(a)[rank - 1];
      const P = make(iotaAlong(n, rank - 2, rank)).eq(make(iotaAlong(n, rank - 1, rank))).where(e.sub(1).neg(), 0);
      const trace = above.mul(P).sum([-2, -1], { keepdim: true }), row = e.dot(Z), corner = row.dot(turned(v));
      const inner = u.mul(trace.mul(P).sub(turned(square))).add(corner.mul(P)).add(trace.mul(column).mul(v))
        .sub(turned(isLast.where(0, row)).mul(v)).sub(column.mul(turned(above.dot(turned(v)))));
      return [near.mul(turned(N).dot(inner)).uop];
    });
  }

  /** The cofactors of a matrix. */
  of(a: UOp): UOp {
    const { N, e, v, u, b } = eliminated(a, this.make);
    const made = u.mul(isLastRow(e).where(0, N)).add(turned(v).mul(e.dot(N))); // transposed
    return withGradient(b.mul(turned(made)).uop, [a], this.second);
  }
}

/** `[..., n, 1]`: true at the last row. */
function isLastRow(e: Matrix): Matrix {
  return turned(e).gt(0);
}
