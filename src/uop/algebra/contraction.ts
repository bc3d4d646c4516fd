/**
 * Sums of products. In: a REDUCE, of a kernel or of the tensor graph. Out: what it multiplies, and which axes belong to
 * which of the two operands: rows to one, columns to the other, sums to both. Who asks says what counts as an operand (a
 * factor, a read, what a matrix unit takes) and what as an axis (a range, a position in a list).
 *
 * @module
 */
import { reduceOf } from "../core/args.ts";
import { CarrierArg } from "../core/carrier.ts";
import { Ops } from "../core/ops.ts";
import type { UOp } from "../core/uop.ts";

/** The axes of a contraction of two operands, each list in the order that it was given in. */
export interface Contraction<Axis> {
  /** Axes of the result that only one operand depends on. */
  readonly rows: readonly Axis[];
  /** Those of the other: the last column is inside of the last row, where the result lies side by side. */
  readonly columns: readonly Axis[];
  /** Summed axes that both depend on. */
  readonly sums: readonly Axis[];
}

/** The factors of what a REDUCE sums, perhaps without conditions: `lift`. undefined where it is no sum of products. */
export function factorsOf(u: UOp, lift: UOp = u.src[0]): readonly [UOp, UOp] | undefined {
  if (u.op !== Ops.REDUCE || lift.op !== Ops.MUL) return undefined;
  const isSum = u.arg instanceof CarrierArg ? u.arg.key === "ADD" : reduceOf(u).op === Ops.ADD;
  return isSum ? [lift.src[0], lift.src[1]] : undefined;
}

/** The axes of two operands; undefined where the result has none that belong to one of them alone. */
export function contraction<Axis>(
  outputs: readonly Axis[],
  closed: readonly Axis[],
  isInA: (axis: Axis) => boolean,
  isInB: (axis: Axis) => boolean,
): Contraction<Axis> | undefined {
  const a = outputs.filter((x) => isInA(x) && !isInB(x)), b = outputs.filter((x) => isInB(x) && !isInA(x));
  if (a.length === 0 || b.length === 0) return undefined;
  const [rows, columns] = outputs.lastIndexOf(a[a.length - 1]) < outputs.lastIndexOf(b[b.length - 1]) ? [a, b] : [b, a];
  return { rows, columns, sums: closed.filter((x) => isInA(x) && isInB(x)) };
}
