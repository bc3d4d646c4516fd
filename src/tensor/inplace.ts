/**
 * Operators that write their result back: each is `assign` of the functional form, lazily. The forms are rows: their names.
 *
 * @module
 */
import { type Operand, TensorBase } from "./handle/base.ts";
import type { LinalgTensor } from "./math/linalg.ts";
import { install, type Rows } from "./ops/rows.ts";
import type { RealizeTensor } from "./realize.ts";

/** The families that it is written in, and the operators. */
export interface InPlaceTensor extends LinalgTensor, RealizeTensor {
  /** this += x. @throws {ShapeError} or {DTypeError} if the result does not fit */
  addInPlace(x: Operand): this;
  /** this -= x. */
  subInPlace(x: Operand): this;
  /** this *= x. */
  mulInPlace(x: Operand): this;
  /** this /= x. */
  divInPlace(x: Operand): this;
  /** this = floor(this / x). */
  floorDivInPlace(x: Operand): this;
  /** this = this mod x. */
  modInPlace(x: Operand): this;
  /** this = this to the power x. */
  powInPlace(x: Operand): this;
  /** this = this matmul x. */
  matmulInPlace(x: Operand): this;
  /** this &= x. */
  bitwiseAndInPlace(x: Operand): this;
  /** this |= x. */
  bitwiseOrInPlace(x: Operand): this;
  /** this ^= x. */
  bitwiseXorInPlace(x: Operand): this;
  /** this <<= x. */
  lshiftInPlace(x: Operand): this;
  /** this >>= x. */
  rshiftInPlace(x: Operand): this;
}

const OPERATORS = [
  "add",
  "sub",
  "mul",
  "div",
  "floorDiv",
  "mod",
  "pow",
  "matmul",
  "bitwiseAnd",
  "bitwiseOr",
  "bitwiseXor",
  "lshift",
  "rshift",
] as const;

/** The name of each, and of what it writes back. */
export const IN_PLACE: Rows<(typeof OPERATORS)[number]> = Object.fromEntries(
  OPERATORS.map((name) => [`${name}InPlace`, name]),
);

/** Tensors with operators in place. The result must fit this shape and, but for precision, this dtype. */
export abstract class InPlaceTensor extends TensorBase {
  static {
    install(InPlaceTensor, IN_PLACE, (name) =>
      function (x: Operand) {
        this.refresh(); // a view is read as it is now
        const result = this[name](x), from = result.dtype, to = this.dtype;
        const fits = from !== to && ((from.isFloat && to.isFloat) || (from.isInt && to.isInt));
        return this.assign(fits ? result.cast(to) : result); // in this precision
      });
  }
}
