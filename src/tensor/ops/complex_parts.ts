/**
 * Complex tensors: making them of real ones, taking them apart, and what only they have. All other methods compute on them
 * where that has a meaning, and refuse them by name where it has none: see uop/graph/complex.ts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { DTypeError, ShapeError } from "../../helpers/errors.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { flat } from "../../uop/graph/given_gradient.ts";
import { bare, conjugateNode, fromPairs, fromParts, partsOf } from "../../uop/graph/complex.ts";
import { type Operand, TensorBase } from "../handle/base.ts";
import { placed } from "../handle/creation.ts";
import { angleNode, directionNode } from "../nodes/complex_nodes.ts";
import { floatConst } from "../nodes/numeric.ts";
import { castNode } from "../nodes/scalars.ts";
import { type ElementwiseTensor, signValue } from "./elementwise.ts";
import { inFloat } from "./rows.ts";

/** The families that it is written in. */
export interface ComplexTensor extends ElementwiseTensor {}

/** Tensors with complex numbers. */
export abstract class ComplexTensor extends TensorBase {
  /** Whether the dtype is complex64 or complex128. */
  isComplex(): boolean {
    return this.dtype.isComplex;
  }

  /**
   * The real part, a view: what is written to it is written here. A real tensor itself.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * const z = new Tensor([{ re: 3, im: 4 }, { re: 0, im: -2 }]);
   * console.log(await z.real().tolist(), await z.abs().tolist()); // [3, 0] [5, 2]
   * ```
   */
  real(): this {
    return this.wrapView(partsOf(this.uop)[0]);
  }

  /** The imaginary part, a view. @throws {DTypeError} for a real tensor, as PyTorch */
  imag(): this {
    if (!this.dtype.isComplex) {
      throw new DTypeError("take the imaginary part of dtype", {
        dtypes: [this.dtype],
        reason: "it is real; zerosLike() is what it would be",
      });
    }
    return this.wrapView(partsOf(this.uop)[1]);
  }

  /** The conjugate; a real tensor itself. */
  conj(): this {
    return this.dtype.isComplex ? this.wrap(conjugateNode(this.uop)) : this.wrapView(this.uop);
  }

  /** The angle, real: in [-π, π]; of real numbers 0 or π. NaN stays. */
  angle(): this {
    if (this.dtype.isComplex) return this.wrap(angleNode(this.uop));
    return this.wrap(inFloat(this.uop, (x) => {
      const zero = constant(0, x.dtype);
      return flat(x.ne(x).where(x, x.lt(zero).where(floatConst(Math.PI, x.dtype), zero)), [x]);
    }));
  }

  /** z / |z|, and 0 at 0; the sign of a real tensor. */
  sgn(): this {
    return this.wrap(this.dtype.isComplex ? directionNode(this.uop) : flat(signValue(this.uop), [this.uop]));
  }

  /** Whether the imaginary part is 0: true everywhere of a real tensor. */
  isreal(): this {
    if (!this.dtype.isComplex) return this.wrap(placed(this.broadcastConst(constant(1, dtypes.bool)), this.device));
    const [, im] = partsOf(this.uop);
    return this.wrap(im.eq(0));
  }

  /**
   * Real and imaginary part as a last axis of size 2: a view of a complex tensor.
   *
   * @throws {DTypeError} for a real tensor
   */
  viewAsReal(): this {
    if (!this.dtype.isComplex) {
      throw new DTypeError("view as pairs of reals dtype", {
        dtypes: [this.dtype],
        reason: "it is real already",
      });
    }
    return this.wrapView(bare(this.uop));
  }

  /**
   * Pairs of float32 or float64, a last axis of size 2, as complex numbers: a view.
   *
   * @throws {DTypeError} for another dtype @throws {ShapeError} for another last axis
   */
  viewAsComplex(): this {
    const { shape, dtype } = this;
    if (dtype.isComplex || !dtype.isFloat || dtype.bits < 32) {
      throw new DTypeError("view as complex numbers dtype", { dtypes: [dtype], reason: "it takes float32 or float64" });
    }
    if (shape.at(-1) !== 2) {
      throw new ShapeError("view as complex numbers", {
        shapes: [shape],
        reason: "the last axis must be of size 2: real and imaginary part",
      });
    }
    return this.wrapView(fromPairs(this.uop));
  }

  /** This as the real part, and `im` as the imaginary one. @throws {DTypeError} for complex parts @throws {ShapeError} */
  protected withImaginary(im: Operand): this {
    const [a, b] = this.realPair("make complex numbers", im);
    return this.wrap(fromParts([a, b]));
  }

  /** This as magnitudes, and `angle`. @throws {DTypeError} for complex parts @throws {ShapeError} */
  protected atAngle(angle: Operand): this {
    const [r, phi] = this.realPair("make complex numbers", angle);
    return this.wrap(fromParts([r.mul(phi.cos()), r.mul(phi.sin())]));
  }

  /** This and another real tensor, in the float dtype of parts. */
  private realPair(action: string, x: Operand): [UOp, UOp] {
    const [a, b] = this.broadcasted(action, x), d = a.dtype;
    if (d.isComplex) {
      throw new DTypeError(`${action} of parts of dtype`, { dtypes: [d], reason: "parts are real numbers" });
    }
    const wide = d === dtypes.float64 ? d : dtypes.float32;
    return [castNode(a, wide), castNode(b, wide)];
  }
}
