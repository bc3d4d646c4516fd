/**
 * Nodes whose gradient is written down: a CHECKPOINT of a value and the nodes that it depends on, with a formula in place
 * of the rules. Differentiating an approximation, or a value that is selected, is inexact or wrong where the formula is
 * neither. The scheduler sees only the value.
 *
 * @module
 */
import type { ArgRecord } from "../core/args.ts";
import { broadcastTo } from "../core/build_movement.ts";
import { Ops } from "../core/ops.ts";
import { shapeOf } from "../core/shape.ts";
import { constant, type UOp, uop } from "../core/uop.ts";

let nextGradient = 1;

/**
 * That of each input (undefined for none; a function is called only where it is wanted), in the input's shape and dtype,
 * of the gradient `g` of `value`: linear in `g`, and built of nodes that have gradients themselves.
 */
export type Gradients = (g: UOp, inputs: readonly UOp[], value: UOp) => readonly (UOp | (() => UOp) | undefined)[];

/** The arg of a CHECKPOINT whose gradient is not that of its value. One a formula, not one a node: it is part of the graph's key. */
export class GradientArg implements ArgRecord {
  readonly hash: number = nextGradient++;
  /**
   * @param gradients the formula
   * @param pointwise whether it is elementwise, so that it is that of inputs of any shape
   */
  constructor(readonly gradients: Gradients, readonly pointwise: boolean = false) {}
  same(other: ArgRecord): boolean {
    return this === other;
  }
  toString(): string {
    return this.pointwise ? "gradient by a slope" : "gradient by a formula";
  }
}

/** `value`, whose gradient with respect to `inputs` is that of `formula`, and which has no other. */
export function withGradient(value: UOp, inputs: readonly UOp[], formula: GradientArg): UOp {
  return uop(Ops.CHECKPOINT, value.dtype, [value, ...inputs], formula);
}

/** The formula of a function of one number: g times its slope, by the number and the value there. */
export function slope(of: (x: UOp, y: UOp) => UOp): GradientArg {
  return new GradientArg((g, [x], y) => [g.mul(of(x, y))], true);
}

/** Zeros in the shape and dtype of `x`, without a path to it. */
export function zerosLike(x: UOp): UOp {
  const shape = shapeOf(x), zero = constant(0, x.dtype);
  return shape.length === 0 ? zero : broadcastTo(zero, shape);
}

const FLAT = new GradientArg((_, inputs) => inputs.map((x) => () => zerosLike(x)), true);

/** `value`, of steps: its gradient with respect to `inputs` is zero, and it depends on them. */
export function flat(value: UOp, inputs: readonly UOp[]): UOp {
  return value.dtype.isFloat ? withGradient(value, inputs, FLAT) : value;
}

/** The value is the first input itself; on the others it depends in name only. */
const TIED = new GradientArg((g, inputs) => inputs.map((x, i) => i === 0 ? g : () => zerosLike(x)), true);

/** `value`, as one that was made from `inputs` of any shapes: gradients with respect to them are zeros beside what it gives. */
export function tied(value: UOp, inputs: readonly UOp[]): UOp {
  const floats = inputs.flatMap((x) => !x.dtype.isFloat ? [] : x.op === Ops.COMPLEX ? x.src : [x]);
  return floats.length === 0 || !value.dtype.isFloat ? value : withGradient(value, [value, ...floats], TIED);
}
