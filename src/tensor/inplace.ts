/**
 * Operators that write their result back: each is `assign` of the functional form, lazily.
 *
 * @module
 */
import { type Operand, TensorBase } from "./handle/base.ts";
import type { LinalgTensor } from "./math/linalg.ts";
import type { RealizeTensor } from "./realize.ts";

/** The families that it is written in. */
export interface InPlaceTensor extends LinalgTensor, RealizeTensor {}
/** Tensors with operators in place. The result must fit this shape and, but for precision, this dtype. */
export abstract class InPlaceTensor extends TensorBase {
  /** Assigns `result`, in this precision where both are floats, or both integers. */
  private keep(make: () => this): this {
    this.refresh(); // a view is read as it is now
    const result = make(), from = result.dtype, to = this.dtype;
    const fits = from !== to && ((from.isFloat && to.isFloat) || (from.isInt && to.isInt));
    return this.assign(fits ? result.cast(to) : result);
  }
  /** this += x. @throws {ShapeError} or {DTypeError} if the result does not fit */
  addInPlace(x: Operand): this {
    return this.keep(() => this.add(x));
  }
  /** this -= x. */
  subInPlace(x: Operand): this {
    return this.keep(() => this.sub(x));
  }
  /** this *= x. */
  mulInPlace(x: Operand): this {
    return this.keep(() => this.mul(x));
  }
  /** this /= x. */
  divInPlace(x: Operand): this {
    return this.keep(() => this.div(x));
  }
  /** this = floor(this / x). */
  floorDivInPlace(x: Operand): this {
    return this.keep(() => this.floorDiv(x));
  }
  /** this = this mod x. */
  modInPlace(x: Operand): this {
    return this.keep(() => this.mod(x));
  }
  /** this = this to the power x. */
  powInPlace(x: Operand): this {
    return this.keep(() => this.pow(x));
  }
  /** this = this matmul x. */
  matmulInPlace(x: Operand): this {
    return this.keep(() => this.matmul(x));
  }
  /** this &= x. */
  bitwiseAndInPlace(x: Operand): this {
    return this.keep(() => this.bitwiseAnd(x));
  }
  /** this |= x. */
  bitwiseOrInPlace(x: Operand): this {
    return this.keep(() => this.bitwiseOr(x));
  }
  /** this ^= x. */
  bitwiseXorInPlace(x: Operand): this {
    return this.keep(() => this.bitwiseXor(x));
  }
  /** this <<= x. */
  lshiftInPlace(x: Operand): this {
    return this.keep(() => this.lshift(x));
  }
  /** this >>= x. */
  rshiftInPlace(x: Operand): this {
    return this.keep(() => this.rshift(x));
  }
}
