/**
 * What the reduces of a tensor graph are: products, in tiles or not, and elements that an index selects.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { reduceOf } from "../../uop/core/args.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { isLeaf } from "./fusion_plan.ts";

/** Terms from which a sum of products is long: its lanes then weigh more than what is done once for each result. */
export const LONG_PRODUCT = 64;
/** Rows and columns from which a product is computed in tiles. */
const TILE_SIDE = 16;
/** What is known without memory. */
const NO_READS: readonly Ops[] = [Ops.CONST, Ops.IOTA, Ops.VARIABLE, Ops.BIND];

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
  return c.src.some((x) => isPositions(x, length));
}

/** Are these the numbers of `length` places, perhaps from another one than 0 on, as where a device has some of many? */
function isPositions(u: UOp, length: number): boolean {
  while (isMovement(u.op) || u.op === Ops.CAST) [u] = u.src;
  if (u.op === Ops.ADD) return u.src.some((x) => isPositions(x, length));
  return u.op === Ops.IOTA && numelOf(u) === length;
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

/** Does a sum multiply what matrix units do, widened? */
export function isOfUnits(u: UOp, cores: readonly { readonly input: DType }[]): boolean {
  return u.src[0].src.every((s) => {
    while (isMovement(s.op)) s = s.src[0];
    return s.op === Ops.CAST && cores.some(({ input }) => input === s.src[0].dtype);
  });
}

/** Is `u` an operand of a product, as it is or moved and cast? */
export function isOperandOf(u: UOp, product: UOp): boolean {
  return product.src[0].src.some((s) => {
    while (s !== u && (isMovement(s.op) || s.op === Ops.CAST)) s = s.src[0];
    return s === u;
  });
}

/** How many reads elementwise work is made of: of memory, of what is kept there, and of reduces. */
export function readsOf(u: UOp, kept: ReadonlySet<UOp>): number {
  const isIn = (v: UOp): boolean => (isAlu(v.op) || isMovement(v.op)) && !kept.has(v), reads = new Set<UOp>();
  for (const v of toposort([u], isIn)) {
    if (!isAlu(v.op) || kept.has(v)) continue;
    for (const s of v.src) {
      let from = s;
      while (isMovement(from.op) && !kept.has(from)) [from] = from.src;
      if (!isIn(from) && !NO_READS.includes(from.op)) reads.add(s);
    }
  }
  return reads.size;
}

/** Elements that a reduce is made of: of storage, of what is `kept` there and of other reduces. */
export function elementsBelow(u: UOp, kept: ReadonlySet<UOp>): number {
  const isEnd = (v: UOp): boolean => isLeaf(v) || kept.has(v) || v.op === Ops.REDUCE;
  let elements = 0;
  for (const v of toposort(u.src, (v) => !isEnd(v))) {
    if (v.op !== Ops.CONST && v.op !== Ops.IOTA && isEnd(v)) elements += numelOf(v);
  }
  return elements;
}
