/**
 * What the reduces of a tensor graph are: products, in tiles or not, and elements that an index selects.
 *
 * @module
 */
import { reduceOf } from "../../uop/core/args.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";

/** Terms from which a sum of products is long: its lanes then weigh more than what is done once for each result. */
export const LONG_PRODUCT = 64;
/** Rows and columns from which a product is computed in tiles. */
const TILE_SIDE = 16;

/** Products that an element of `u` is the sum of, or the sum of sums of; 0 where it is something else. */
export function termsOf(u: UOp): number {
  let terms = 1;
  for (;; u = u.src[0]) {
    if (u.op === Ops.REDUCE && reduceOf(u).op === Ops.ADD) {
      terms *= numelOf(u.src[0]) / Math.max(1, numelOf(u));
    } else if (!isMovement(u.op)) return u.op === Ops.MUL ? terms : 0;
  }
}

/** Is a sum one element of each row, at a position that an index says? Its kernel loads that (kernels/collapse.ts). */
export function isSelection(u: UOp): boolean {
  if (reduceOf(u).op !== Ops.ADD || u.src[0].op !== Ops.WHERE || !u.src[0].src[2].isConst(0)) return false;
  let [c] = u.src[0].src;
  if (c.op === Ops.CMPNE && c.src[1].isConst(1)) [c] = c.src;
  if (c.op !== Ops.CMPNE && c.op !== Ops.CMPEQ) return false;
  const length = numelOf(u.src[0]) / numelOf(u);
  return c.src.some((x) => {
    while (isMovement(x.op) || x.op === Ops.CAST) x = x.src[0];
    return x.op === Ops.IOTA && numelOf(x) === length;
  });
}

/** A product of two operands, of each element of which there are many uses, at least `uses`? */
export function isProduct(u: UOp, uses = 0): boolean {
  return u.op === Ops.MUL && u.src.every((s) => {
    const all = numelOf(s);
    while (isMovement(s.op) && s.op !== Ops.EXPAND) s = s.src[0];
    return s.op === Ops.EXPAND && all >= uses * numelOf(s.src[0]);
  });
}

/** A sum of products whose operands each serve so many results that a grid computes it in tiles. */
export function isTiledProduct(u: UOp): boolean {
  return u.op === Ops.REDUCE && reduceOf(u).op === Ops.ADD && termsOf(u) >= LONG_PRODUCT &&
    isProduct(u.src[0], TILE_SIDE);
}
