/**
 * Weights as one function of what rows keep: exp2((x - a) * c) / b, of rows' a and b, is exp2(x * c - (a * c + log2(b))). A
 * chain of products that computes such weights again then reads one number of each row, in place of two, and divides by none:
 * of a softmax it is the logarithm of the sum of exponentials.
 *
 * In: a tensor graph and its chains of products. Out: the weights of those that read rows from memory, and what they become.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { reduceOf } from "../../uop/core/args.ts";
import { numelOf, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { moveLike } from "../../uop/graph/resolve.ts";

/** The rows below an EXPAND. */
function rowsOf(u: UOp): UOp | undefined {
  return u.op === Ops.EXPAND && numelOf(u.src[0]) < numelOf(u) ? u.src[0] : undefined;
}

/** x and the rows a of x - a. */
function difference(u: UOp): { x: UOp; a: UOp; like: UOp } | undefined {
  if (u.op !== Ops.ADD) return undefined;
  for (const [x, y] of [u.src, u.src.toReversed()]) {
    if (y.op !== Ops.MUL || !y.src[1].isConst(-1)) continue;
    const a = rowsOf(y.src[0]);
    if (a !== undefined) return { x, a, like: y.src[0] };
  }
}

/** Exponential `u` of x - a, divided by rows `b`. */
function divided(u: UOp, b: UOp): UOp | undefined {
  if (u.op !== Ops.EXP2 || u.dtype !== dtypes.float32) return undefined;
  const [power] = u.src, isScaled = power.op === Ops.MUL && power.src[1].op === Ops.CONST;
  const d = difference(isScaled ? power.src[0] : power), c = isScaled ? power.src[1] : constant(1, u.dtype);
  if (d === undefined || numelOf(b) !== numelOf(d.a)) return undefined;
  const row = d.a.mul(c).add(reshape(b, shapeOf(d.a)).alu(Ops.LOG2));
  return d.x.mul(c).add(moveLike(d.like, row).mul(-1)).alu(Ops.EXP2);
}

/** What a quotient is by weights of one number a row: a weight itself, or a sum over weights that is divided for all of them. */
export function rowWeight(u: UOp): UOp | undefined {
  if (u.op !== Ops.FDIV) return undefined;
  const [a, by] = u.src, b = rowsOf(by);
  if (a.op !== Ops.REDUCE) return b && divided(a, b);
  const [term] = a.src;
  if (reduceOf(a).op !== Ops.ADD || term.op !== Ops.MUL) return undefined;
  for (const [x, y] of [term.src, term.src.toReversed()]) {
    const weight = divided(y, by);
    if (weight !== undefined) return a.withSrc([x.mul(weight)]);
  }
}
