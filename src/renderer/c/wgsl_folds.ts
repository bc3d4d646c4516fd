/**
 * What a driver of a GPU may fold though it changes the value: in, a float operation; out, which operand is to be hidden
 * from it. WGSL lets a compiler take floats for real numbers, without NaN, infinities and rounding: a - a is 0 to it,
 * (a + b) - a is b, a + 3e38 - 3e38 is a, a + b < a says b < 0, sqrt(a)² is |a|, a b + a c is a (b + c). Each of these sees
 * one value on both sides of an operation, or a constant beside a chain of the same: where that is so, one side is hidden.
 *
 * @module
 */
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";

/** So many operations deep are patterns that are looked for. */
const DEPTH = 3;

/** What only puts a value elsewhere: the value itself, else undefined. */
function moved(u: UOp): UOp | undefined {
  const { op, src } = u;
  if (op === Ops.BROADCAST || op === Ops.NEG) return src[0];
  if (op === Ops.CAST) return src[0].dtype.isFloat ? src[0] : undefined;
  return op === Ops.EXTRACT && src[0].op === Ops.VECTORIZE ? src[0].src[argOf(u, Ops.EXTRACT)] : undefined;
}

/** The values that `u` is made of by sums and products, itself too, but for constants. */
function termsOf(u: UOp, depth: number, out: UOp[]): UOp[] {
  if (u.op === Ops.CONST) return out;
  const below = moved(u);
  if (below !== undefined) return termsOf(below, depth, out);
  out.push(u);
  const { op, src } = u;
  const isMade = op === Ops.ADD || op === Ops.SUB || op === Ops.MUL || op === Ops.MULACC || op === Ops.FDIV;
  if ((isMade && depth > 0) || op === Ops.VECTORIZE) { for (const s of src) termsOf(s, depth - 1, out); }
  return out;
}

function share(a: readonly UOp[], b: readonly UOp[]): boolean {
  return a.some((x) => b.includes(x));
}

const isConstant = (u: UOp): boolean => u.op === Ops.CONST || (u.op === Ops.BROADCAST && u.src[0].op === Ops.CONST);

/** What `u` is, wherever it was put. */
function whole(u: UOp): UOp {
  const below = moved(u);
  return below === undefined ? u : whole(below);
}
/** Whether `u` is a sum, or else a product, in any of its lanes. */
function isMadeBy(u: UOp, isSum: boolean): boolean {
  const { op, src } = whole(u);
  if (op === Ops.VECTORIZE) return src.some((s) => isMadeBy(s, isSum));
  if (isSum) return op === Ops.ADD || op === Ops.SUB || op === Ops.MULACC;
  return (op === Ops.MUL || op === Ops.FDIV) && src.some(isConstant);
}

/**
 * Which of two operands is to be hidden, if they have something in common: that which is made of the other one, since what
 * is a part may be hidden elsewhere, too, and would be the same again. What reads the result sees the same in it.
 */
function madeOfOther(a: UOp, b: UOp): number {
  const left = termsOf(a, DEPTH, []), right = termsOf(b, DEPTH, []);
  if (!share(left, right)) return -1;
  return right.includes(whole(a)) ? 1 : 0;
}

/** The position of the operand of `u`, an operation on floats, that a driver must not see through; -1 where it may see all. */
export function hiddenOperand(u: UOp): number {
  const { op, src } = u, [a, b] = src;
  const constant = isConstant(b) ? 1 : isConstant(a) ? 0 : -1;
  switch (op) {
    case Ops.ADD:
    case Ops.SUB:
      if (constant >= 0) return isMadeBy(src[1 - constant], true) ? 1 - constant : -1;
      return madeOfOther(a, b);
    case Ops.MULACC: {
      if (isConstant(src[2])) return whole(src[2]).value === 0 ? 2 : a === b && a.op === Ops.SQRT ? 1 : -1;
      const factors = termsOf(b, DEPTH - 1, termsOf(a, DEPTH - 1, []));
      return share(factors, termsOf(src[2], DEPTH, [])) ? 2 : -1;
    }
    case Ops.MUL:
      if (constant >= 0) return isMadeBy(src[1 - constant], false) ? 1 - constant : -1;
      if (a === b) return a.op === Ops.SQRT ? 1 : -1;
      return a.op === Ops.FDIV && a.src[1] === b ? 0 : b.op === Ops.FDIV && b.src[1] === a ? 1 : -1;
    case Ops.FDIV:
      if (isConstant(a) && whole(a).value === 0) return 0;
      if (b.op === Ops.FDIV) return 1;
      return a.op === Ops.MUL && a.src.includes(b) ? 0 : -1;
    case Ops.CMPLT:
    case Ops.CMPEQ:
    case Ops.CMPNE:
      return constant < 0 ? madeOfOther(a, b) : -1;
  }
  return -1;
}
