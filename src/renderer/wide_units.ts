/**
 * Products of units that read shared memory, side by side: three of 64 columns that have their left operand in common, and
 * whose right ones lie behind each other, are one instruction of 192 columns, which reads the left operand once. In and out:
 * the nodes of a program in lanes.
 *
 * Units of 64 columns read 128 bytes of shared memory in a clock, which is all that there is; one of 192 reads 85.
 *
 * @module
 */
import { isAlu, Ops } from "../uop/core/ops.ts";
import { indexForm } from "../uop/algebra/linear_form.ts";
import { type UOp, uop } from "../uop/core/uop.ts";
import { baseOf } from "../uop/rewrite/walk.ts";
import { MOST_COLUMNS, readsShared, SWIZZLED_ROW, type TensorCore, unitOf } from "./tensor_core_table.ts";

/** Elements from the right operand of a unit to that of the one beside it. */
function stepOf({ n, shared, input: { itemsize } }: TensorCore): number {
  const [, { isAlong, block }] = shared!, row = SWIZZLED_ROW / itemsize;
  return isAlong ? n / row * block / itemsize : n * row;
}

/** Of a product in lanes: what it is of, but for its right operand and its sums; that; and where the sums begin. */
function partsOf(
  u: UOp,
): { readonly left: readonly UOp[]; readonly right: UOp; readonly adds: UOp; readonly at: number } {
  const at = u.src.length - unitOf(u).sums;
  return { left: u.src.slice(0, at - 2), right: u.src[at - 2], adds: u.src[at - 1], at };
}

/** Does product `v` stand `i` to the right of product `u`? */
function isBeside(u: UOp, v: UOp, i: number): boolean {
  const a = partsOf(u), b = partsOf(v);
  if (unitOf(u) !== unitOf(v) || a.adds !== b.adds || a.left.some((x, k) => x !== b.left[k])) return false;
  if (baseOf(a.right) !== baseOf(b.right) || a.right.src.length > 2 || b.right.src.length > 2) return false;
  const from = indexForm(a.right.src[1]), to = indexForm(b.right.src[1]);
  return to.constant - from.constant === i * stepOf(unitOf(u)) && to.factors.length === from.factors.length &&
    to.factors.every((f, k) => f === from.factors[k] && to.coefs[k] === from.coefs[k]);
}

/** What may stand between products that become one, beside arithmetic: it has no effect, or goes on by itself as they do. */
const BETWEEN: readonly Ops[] = [Ops.CONST, Ops.INDEX, Ops.ACC, Ops.ASYNC_COPY];

/** The products of `row` as one. */
function joined(row: readonly UOp[]): UOp {
  const [first] = row, more = row.slice(1).flatMap((u) => u.src.slice(partsOf(u).at));
  return uop(Ops.WMMA, first.dtype, [...first.src, ...more], unitOf(first).beside(row.length));
}

/** The program with products side by side as one, where the last of them was. */
export function joinUnits(uops: readonly UOp[]): readonly UOp[] {
  if (!uops.some(readsShared)) return uops;
  const out: UOp[] = [];
  /** The products that are to be one so far, and what stands behind them. */
  let row: UOp[] = [], behind: UOp[] = [];
  const close = (): void => {
    if (row.length > 0) out.push(row.length > 1 ? joined(row) : row[0], ...behind);
    [row, behind] = [[], []];
  };
  for (const u of uops) {
    if (readsShared(u)) {
      const fits = row.length > 0 && unitOf(u).n * (row.length + 1) <= MOST_COLUMNS && isBeside(row[0], u, row.length);
      if (!fits) close();
      out.push(...behind);
      behind = [];
      row.push(u);
    } else if (row.length > 0 && (isAlu(u.op) || BETWEEN.includes(u.op))) behind.push(u);
    else {
      close();
      out.push(u);
    }
  }
  close();
  return out;
}
