/**
 * Elementwise arithmetic on two or three operands, comparisons, bits, selection and casts. Operands are promoted to one
 * dtype and broadcast to one shape; scalars of JavaScript are weak. Unary functions are in functions.ts.
 *
 * @module
 */
import { type DType, type DTypeLike, dtypes, leastInt, mostInt, toDType } from "../../dtype/dtype.ts";
import { defaultFloat, floatOf, holdsWhole, isWhole, promote, promoteScalar } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { checkChoice, checkNumber, checkOptions, checkScalar } from "../../helpers/options.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { flat, GradientArg, withGradient, zerosLike } from "../../uop/graph/given_gradient.ts";
import { checkTensor, isTensor, type Operand, TensorBase, type TensorLike } from "../handle/base.ts";
import { CAST_COPY } from "../handle/memory_of.ts";
import { broadcastNodes, checkSameDevice } from "../handle/broadcast.ts";
import { placed } from "../handle/creation.ts";
import { eqNode, leNode, maxNode, minNode, negNode, notNode } from "../nodes/compare_nodes.ts";
import { constantPowerComplex, magnitudeNode, powComplex } from "../nodes/complex_nodes.ts";
import { intDivide, remainder, wholeQuotient } from "../nodes/division.ts";
import { flattenNested, isList } from "../nodes/host.ts";
import { floatConst, logaddexpNode } from "../nodes/numeric.ts";
import { constantPower, intPower, powNode } from "../nodes/power.ts";
import { castNode, checkFits, inferDType, scalarConst } from "../nodes/scalars.ts";
import type { MovementTensor } from "./movement.ts";
import { inFloat, install, installUnary, type Rows, type UnaryRow } from "./rows.ts";
import { broadcastTo } from "../../uop/core/build_movement.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { extentsOf, withExtents } from "../../uop/graph/extent.ts";

/** Whether something is a whole number whose 32 bits an int32 or an uint32 has. */
function isWord(x: unknown): boolean {
  return typeof x === "number" && Number.isInteger(x) && x >= -(2 ** 31) && x < 2 ** 32;
}

function isScalar(x: Operand): x is number | boolean | bigint {
  return typeof x === "number" || typeof x === "boolean" || typeof x === "bigint";
}

/** Options of binary operators. */
export interface BinaryOptions {
  /** Swaps the operands: `t.sub(1, { reverse: true })` is 1 - t. */
  readonly reverse?: boolean;
}
/** Options of {@linkcode ElementwiseTensor.div}. */
export interface DivOptions extends BinaryOptions {
  /** Rounds the quotient toward zero ("trunc") or down ("floor"); ints then stay ints. */
  readonly roundingMode?: "trunc" | "floor";
}
/** Options of {@linkcode ElementwiseTensor.isclose}. */
export interface CloseOptions {
  /** Relative to the other value. Default 1e-5. */
  readonly rtol?: number;
  /** Absolute. Default 1e-8. */
  readonly atol?: number;
  /** Whether NaN is close to NaN. Default false. */
  readonly equalNan?: boolean;
}

const REVERSE = ["reverse"];

/** The families that it is written in, and what stands in rows. */
export interface ElementwiseTensor extends MovementTensor {
  /** As float32. */
  float(): this;
  /** As float16. */
  half(): this;
  /** As bfloat16. */
  bfloat16(): this;
  /** As float64. */
  double(): this;
  /** As int32. */
  int(): this;
  /** As int64. */
  long(): this;
  /** As int16. */
  short(): this;
  /** As bool: nonzero is true. */
  bool(): this;

  /** Sum, broadcast and promoted; bools are or-ed. @throws {ShapeError} if the shapes do not broadcast */
  add(x: Operand, options?: BinaryOptions): this;
  /** Difference. @throws {DTypeError} for two bools */
  sub(x: Operand, options?: BinaryOptions): this;
  /** Product; bools are and-ed. */
  mul(x: Operand, options?: BinaryOptions): this;
  /** Quotient rounded down, as Python's `//`; integers give integers. The gradient is 0. */
  floorDiv(x: Operand, options?: BinaryOptions): this;
  /**
   * Remainder with the sign of the divisor, as Python's `%`; of floats a remainder of 0 has the sign of the dividend, as in
   * PyTorch: `-4 mod 2` is -0.
   */
  mod(x: Operand, options?: BinaryOptions): this;
  /** Remainder with the sign of the dividend, as C's fmod. */
  fmod(x: Operand): this;
  /**
   * The larger of both; NaN if either is. Gradient: half to each where they are equal. A whole number that an integer dtype
   * does not hold counts as the nearest that it does.
   */
  maximum(x: Operand): this;
  /** The smaller of both; NaN if either is. Whole numbers as in {@linkcode maximum}. */
  minimum(x: Operand): this;
  /** log(e^this + e^x) without overflow. */
  logaddexp(x: Operand): this;
  /** this < x, as bool. */
  lt(x: Operand): this;
  /** this <= x, as bool. */
  le(x: Operand): this;
  /** this > x, as bool. */
  gt(x: Operand): this;
  /** this >= x, as bool. */
  ge(x: Operand): this;
  /** this == x elementwise, as bool; NaN equals nothing. */
  eq(x: Operand): this;
  /** this != x elementwise, as bool. */
  ne(x: Operand): this;
  /** Bits in both. @throws {DTypeError} for floats */
  bitwiseAnd(x: Operand, options?: BinaryOptions): this;
  /** Bits in either. @throws {DTypeError} for floats */
  bitwiseOr(x: Operand, options?: BinaryOptions): this;
  /** Bits in one of both. @throws {DTypeError} for floats */
  bitwiseXor(x: Operand, options?: BinaryOptions): this;

  /** Negation; logical not for bools. */
  neg(): this;
  /** -1, 0 or 1; NaN stays NaN. The gradient is 0. */
  sign(): this;
  /** True where this is zero or false. */
  logicalNot(): this;
}

/** Casts under another name, and what to. */
export const CASTS: Rows<DType> = {
  float: dtypes.float32,
  half: dtypes.float16,
  bfloat16: dtypes.bfloat16,
  double: dtypes.float64,
  int: dtypes.int32,
  long: dtypes.int64,
  short: dtypes.int16,
  bool: dtypes.bool,
};

/** What takes nothing. */
export const UNARY: Rows<UnaryRow> = {
  neg: { node: (x) => x.dtype.isBool ? notNode(x) : negNode(x), complex: negNode },
  sign: { node: (x) => flat(signValue(x), [x]) },
  logicalNot: { node: isFalse, complex: isFalse },
};

function isFalse(x: UOp): UOp {
  return notNode(castNode(x, dtypes.bool));
}

/** How operands come: "promoted" to one dtype, as others are, or "reversible"; a number "limited" to integers or "compared"
 * exactly, also by order ("ordered"); or as "words" of bits. */
type Sides = "promoted" | "reversible" | "limited" | "compared" | "ordered" | "words";

/** An operator: its operands, the result of two of one dtype and shape, and what an error calls it, if not by its name. */
export type BinaryRow = readonly [sides: Sides, node: (a: UOp, b: UOp) => UOp, action?: string];

/** What takes two operands. */
export const BINARY: Rows<BinaryRow> = {
  add: ["reversible", (a, b) => a.dtype.isBool ? a.or(b) : a.add(b)],
  sub: ["reversible", difference, "subtract"],
  mul: ["reversible", (a, b) => a.dtype.isBool ? a.and(b) : a.mul(b), "multiply"],
  floorDiv: [
    "reversible",
    (a, b) => a.dtype.isFloat ? flat(wholeQuotient(a, b, "floor"), [a, b]) : intDivide(a, b, "floor"),
  ],
  mod: ["reversible", (a, b) => rest(a, b, true)],
  fmod: ["promoted", (a, b) => rest(a, b, false)],
  maximum: ["limited", maxNode],
  minimum: ["limited", minNode],
  logaddexp: ["promoted", logOfSum],
  lt: ["ordered", (a, b) => a.lt(b), "compare"],
  le: ["ordered", leNode, "compare"],
  gt: ["ordered", (a, b) => b.lt(a), "compare"],
  ge: ["ordered", (a, b) => leNode(b, a), "compare"],
  eq: ["compared", eqNode, "compare"],
  ne: ["compared", (a, b) => a.dtype.isBool ? a.xor(b) : a.ne(b), "compare"],
  bitwiseAnd: ["words", (a, b) => a.and(b)],
  bitwiseOr: ["words", (a, b) => a.or(b)],
  bitwiseXor: ["words", (a, b) => a.xor(b)],
};

function difference(a: UOp, b: UOp): UOp {
  if (a.dtype.isBool) {
    throw new DTypeError("subtract dtypes", { dtypes: [a.dtype, b.dtype], reason: "use bitwiseXor or logicalNot" });
  }
  return a.add(b.op === Ops.CONST && typeof b.arg === "number" ? scalarConst(-b.arg, b.dtype) : negNode(b));
}

function rest(a: UOp, b: UOp, floored: boolean): UOp {
  const value = remainder(a, b, floored);
  return a.dtype.isFloat ? withGradient(value, [a, b], floored ? MOD : FMOD) : value;
}

function logOfSum(p: UOp, q: UOp): UOp {
  const d = floatOf(p.dtype), wide = d.bits < 32 ? dtypes.float32 : d;
  return logaddexpNode(castNode(p, wide), castNode(q, wide)).cast(d);
}

/** Methods on one shape and dtype: arithmetic, comparisons, bits, selection, casts. */
export abstract class ElementwiseTensor extends TensorBase {
  static {
    install(ElementwiseTensor, CASTS, (dtype) =>
      function () {
        return this.cast(dtype);
      });
    installUnary(ElementwiseTensor, UNARY);
    install(ElementwiseTensor, BINARY, ([sides, node, action], name) =>
      function (x: Operand, options?: BinaryOptions) {
        const [a, b] = this[sides](action ?? name, x, options);
        return this.wrap(node(a, b));
      });
  }

  // ---- dtypes

  /**
   * In another dtype (a DType or its name). Floats are rounded to the nearest, ties to even; NaN and nonzero are true.
   *
   * Floats are cut toward zero to integers, alike on every device: NaN gives 0, int32 and int64 saturate; narrower dtypes
   * take the low bits of that int32, uint32 those of the int64; uint64 saturates above, and wraps below 0. Integers wrap.
   */
  cast<N extends string>(dtype: DTypeLike<N>): this {
    const u = castNode(this.uop, toDType(dtype));
    if (u === this.uop) return this.wrapView(u);
    return u.op === Ops.CAST ? this.wrap(u) : this.wrapCopy(u, ...CAST_COPY);
  }

  /**
   * The same bits as another dtype. Where the sizes differ the last axis is rescaled.
   *
   * @throws {ShapeError} if the last axis does not divide
   */
  bitcast<N extends string>(dtype: DTypeLike<N>): this {
    const to = toDType(dtype), from = this.dtype, shape = this.shape;
    if (to === from) return this.wrapView(this.uop);
    const bytes = (shape[shape.length - 1] ?? 1) * from.itemsize;
    if (to.itemsize !== from.itemsize && (shape.length === 0 || bytes % to.itemsize !== 0)) {
      throw new ShapeError(`bitcast ${from} to ${to}`, {
        shapes: [shape],
        axis: shape.length - 1,
        reason: shape.length === 0
          ? "a scalar has no axis to rescale"
          : `${bytes} bytes of axis ${shape.length - 1} are no multiple of ${to.itemsize}`,
      });
    }
    return this.wrapView(this.uop.bitcast(to));
  }

  // ---- arithmetic

  /** Both sides, promoted and broadcast, in the order that `options` ask for. */
  private reversible(action: string, x: Operand, options: BinaryOptions | undefined): [UOp, UOp] {
    checkOptions(action, options, REVERSE);
    return this.broadcasted(action, x, options?.reverse);
  }

  /**
   * True division: floats. With `roundingMode` the quotient is rounded, and integers give integers.
   *
   * @throws {ArgumentError} for another rounding mode
   */
  div(x: Operand, options: DivOptions = {}): this {
    checkOptions("divide", options, ["reverse", "roundingMode"]);
    const mode = options.roundingMode ?? undefined;
    if (mode !== undefined) checkChoice("divide", "roundingMode", mode, ["trunc", "floor"]);
    const [a, b] = this.broadcasted("divide", x, options.reverse);
    if (!a.dtype.isFloat) {
      if (mode !== undefined) return this.wrap(intDivide(a, b, mode));
      return this.wrap(castNode(a, defaultFloat()).fdiv(castNode(b, defaultFloat())));
    }
    return this.wrap(mode === undefined ? a.fdiv(b) : flat(wholeQuotient(a, b, mode), [a, b]));
  }

  /**
   * Power. Whole constant exponents become products, other ones and tensors go by logarithms in double length: of float32
   * and float64 the error is below a unit in the last place (x * x * x for 3, and 1 / (x * x) for -2, round twice). 0^0
   * is 1; a negative base with a fractional exponent gives NaN.
   *
   * @throws {ArgumentError} for an integer tensor to a negative constant
   */
  pow(x: Operand, options?: BinaryOptions): this {
    if (typeof x === "number" && !options?.reverse) {
      checkOptions("pow", options, REVERSE);
      return this.wrap(this.constantPower(x));
    }
    const [a, b] = this.reversible("pow", x, options);
    if (!a.dtype.isFloat) return this.wrap(integerPower(a, b));
    if (a.dtype.isComplex) return this.wrap(powComplex(a, b));
    const wide = a.dtype.bits < 32 ? dtypes.float32 : a.dtype;
    return this.wrap(powNode(a.cast(wide), b.cast(wide)).cast(a.dtype));
  }

  /** This to a constant power, by multiplications where it can be. */
  private constantPower(exponent: number): UOp {
    const x = this.uop;
    if (!x.dtype.isFloat && Number.isInteger(exponent)) {
      if (exponent < 0) {
        throw new ArgumentError(`raise a tensor of dtype ${x.dtype} to ${exponent}`, {
          reason: "integers have no negative powers; cast to a float first",
        });
      }
      const base = x.dtype.isBool ? x.cast(dtypes.int32) : x;
      return exponent === 0 ? this.onesNode(base.dtype) : intPower(base, exponent);
    }
    if (x.dtype.isComplex) return constantPowerComplex(x, exponent);
    return inFloat(x, (u) => exponent === 0 ? flat(this.onesNode(u.dtype), [u]) : constantPower(u, exponent));
  }

  /** Ones of this shape. */
  private onesNode(dtype: DType): UOp {
    return this.broadcastConst(scalarConst(1, dtype));
  }
  /** The constant `c` under this shape. */
  protected broadcastConst(c: UOp): UOp {
    return withExtents(broadcastTo(c, shapeOf(this.uop)), extentsOf(this.uop));
  }

  /**
   * Limits values to [min, max]; either may be missing, both may be tensors. Where min > max the result is max; where one
   * is NaN, NaN. The gradient is that of this within the bounds and at them, else of the bound. A whole number that an
   * integer dtype does not hold counts as the nearest that it does: `uint8.clamp(-1, 300)` changes nothing.
   *
   * @throws {ArgumentError} without any bound
   */
  clamp(min?: Operand | null, max?: Operand | null): this {
    if ((min ?? undefined) === undefined && (max ?? undefined) === undefined) {
      throw new ArgumentError("clamp", { reason: "it needs min, max or both" });
    }
    const low = min === undefined || min === null ? this : this.bounded(min, false);
    return max === undefined || max === null ? low : low.bounded(max, true);
  }

  /** This, not above or not below `limit`. */
  private bounded(limit: Operand, above: boolean): this {
    const [a, b] = this.limited("clamp", limit);
    const isOut = above ? b.lt(a) : a.lt(b);
    const isSure = !b.dtype.isFloat || (b.op === Ops.CONST && b.value === b.value);
    return this.wrap((isSure ? isOut : isOut.or(b.ne(b))).where(b, a));
  }

  /** Both sides, promoted and broadcast. */
  private promoted(action: string, x: Operand): [UOp, UOp] {
    return this.broadcasted(action, x);
  }

  /** This and a limit: a whole number stays within the dtype of integers. */
  private limited(action: string, x: Operand): [UOp, UOp] {
    const d = this.dtype;
    if (typeof x !== "number" || !isWhole(x) || !d.isInt || holdsWhole(d, x)) return this.broadcasted(action, x);
    return [this.uop, scalarConst(x < 0 ? leastInt(d) : mostInt(d), d)];
  }

  /** Alias of {@linkcode clamp}. */
  clip(min?: Operand | null, max?: Operand | null): this {
    return this.clamp(min, max);
  }

  /**
   * this + (end - this) * weight; exactly `end` where the weight is 1. Integers are floats first; between those of uint8 a
   * tensor of weights gives uint8, rounded.
   */
  lerp(end: Operand, weight: Operand): this {
    const d = this.dtype;
    if (!d.isFloat && !d.isComplex) {
      const made = this.float().lerp(end, weight), isByte = (t: unknown) => t instanceof TensorBase && t.dtype === d;
      const rounds = d === dtypes.uint8 && isByte(end) && weight instanceof TensorBase;
      return rounds ? made.add(0.5).cast(d) as this : made;
    }
    const to = this.operandLike(end, "lerp"), way = to.sub(this) as this;
    const part = typeof weight === "number" ? weight : this.operandLike(weight, "lerp");
    const first = () => this.add(way.mul(part));
    const last = () => to.sub(way.mul(typeof part === "number" ? 1 - part : part.sub(1, { reverse: true }))) as this;
    if (typeof part === "number") return part < 0.5 ? first() : last();
    return part.lt(0.5).where(first(), last()) as this;
  }

  /** Magnitude of this with the sign of `other`; the sign of -0 counts. The gradient is ±1, at 0 it is 0; of `other` 0. */
  copysign(other: Operand): this {
    const [a, b] = this.broadcasted("copysign", other);
    if (!a.dtype.isFloat) return this.float().copysign(other);
    const zero = constant(0, a.dtype), minus = constant(-1, a.dtype);
    const magnitude = a.mul(a.lt(zero).or(constant(1, a.dtype).fdiv(a).lt(zero)).where(minus, constant(1, a.dtype)));
    const negative = b.lt(zero).or(constant(1, b.dtype).fdiv(b).lt(zero));
    return this.wrap(withGradient(negative.where(negNode(magnitude), magnitude), [a, b], COPYSIGN));
  }

  /** A scalar or tensor of this dtype. */
  private operandLike(x: Operand, action: string): this {
    return (x instanceof TensorBase ? x : this.operand(x, action)) as this;
  }

  // ---- comparisons

  /** Both sides of a comparison. A whole number beside integers is compared exactly, whatever its size. */
  private compared(action: string, x: Operand): [UOp, UOp] {
    const d = this.dtype;
    if (d.isInt && (typeof x === "bigint" || (typeof x === "number" && isWhole(x)))) {
      if (holdsWhole(d, x)) return [this.uop, scalarConst(x, d)];
      return [this.uop.and(scalarConst(0, d)).cast(dtypes.int32), constant(x < 0 ? -1 : 1, dtypes.int32)]; // all are beyond
    }
    const [a, b] = this.broadcasted(action, x);
    return [a, b];
  }

  /** Both sides of a comparison of order. */
  private ordered(action: string, x: Operand): [UOp, UOp] {
    const [a, b] = this.compared(action, x);
    return a.dtype.isBool ? [castNode(a, dtypes.int32), castNode(b, dtypes.int32)] : [a, b];
  }

  /**
   * |this - other| <= atol + rtol |other|, elementwise; infinities only where equal.
   *
   * @throws {ArgumentError} for a negative tolerance, or NaN
   */
  isclose(other: Operand, options: CloseOptions = {}): this {
    checkOptions("isclose", options, ["rtol", "atol", "equalNan"]);
    for (const name of ["rtol", "atol"] as const) {
      const value = checkNumber("isclose", name, options[name] ?? 0);
      if (!(value >= 0)) throw new ArgumentError("isclose", { reason: `${name} must be at least 0, not ${value}` });
    }
    const [p, q] = this.broadcasted("isclose", other);
    const wide = p.dtype.real === dtypes.float64 ? dtypes.float64 : dtypes.float32, { isComplex } = p.dtype;
    const a = isComplex ? p : castNode(p, wide), b = isComplex ? q : castNode(q, wide), zero = constant(0, wide);
    const absolute = (x: UOp) => x.dtype.isComplex ? magnitudeNode(x) : x.lt(zero).where(negNode(x), x);
    const bound = absolute(b).mul(floatConst(options.rtol ?? 1e-5, wide)).add(floatConst(options.atol ?? 1e-8, wide));
    const finite = absolute(b).lt(constant(Infinity, wide));
    let close = p.eq(q).or(leNode(absolute(a.add(negNode(b))), bound).and(finite));
    if (p.dtype.isBool) close = eqNode(p, q);
    if (options.equalNan) close = close.or(a.ne(a).and(b.ne(b)));
    return this.wrap(close);
  }

  // ---- bits

  /** What is combined with 32 bits or fewer: whole numbers from 2^31 to 2^32 are int32, as JavaScript's `&` has them. */
  private asBits(action: string, x: Operand): Operand {
    const d = this.dtype, isHigh = (v: unknown): boolean => typeof v === "number" && v >= 2 ** 31 && isWord(v);
    if (d.isFloat || d.bits > 32 || d === dtypes.uint32) return x;
    if (typeof x === "number" && isHigh(x)) return d === dtypes.int32 ? x | 0 : this.wrap(scalarConst(x, dtypes.int32));
    if (d !== dtypes.int32 || !Array.isArray(x)) return x;
    const { flat } = flattenNested(action, x, isTensor);
    return flat.some(isHigh) && flat.every(isWord) ? this.fromList(x, d) : x;
  }

  /** Both sides of an operation on bits, whole numbers beside 32 of them as JavaScript has them. */
  private words(action: string, x: Operand, options?: BinaryOptions): [UOp, UOp] {
    return this.bits(action, this.asBits(action, x), options);
  }

  /** Both sides of a bitwise operation. @throws {DTypeError} for floats */
  private bits(action: string, x: Operand, options?: BinaryOptions): [UOp, UOp] {
    const [a, b] = this.reversible(action, x, options);
    if (a.dtype.isFloat) {
      const isFar = isScalar(x) && !this.dtype.isFloat && Number.isInteger(x);
      throw new DTypeError(`${action} on dtypes`, {
        dtypes: [this.dtype, x instanceof TensorBase ? x.dtype : a.dtype],
        reason: isFar
          ? `${x} is beyond the bits of ${this.dtype}; t.long() has 64, and bigints are its values`
          : "only integers and bools have bits to combine",
      });
    }
    return [a, b];
  }

  /** All bits inverted; logical not for bools. @throws {DTypeError} for floats */
  bitwiseNot(): this {
    if (this.dtype.isFloat) {
      throw new DTypeError("bitwiseNot on dtype", {
        dtypes: [this.dtype],
        reason: "only integers and bools have bits",
      });
    }
    return this.wrap(this.uop.xor(scalarConst(this.dtype.isBool ? 1 : -1, this.dtype)));
  }
  /** Bits shifted left; all out from the width of the dtype on. @throws {DTypeError} for floats and bools */
  lshift(x: Operand, options?: BinaryOptions): this {
    return this.shifted("lshift", Ops.SHL, x, options);
  }
  /** Bits shifted right; signed dtypes keep the sign. @throws {DTypeError} for floats and bools */
  rshift(x: Operand, options?: BinaryOptions): this {
    return this.shifted("rshift", Ops.SHR, x, options);
  }

  /** This shifted by `x` bits. */
  private shifted(action: string, op: Ops, x: Operand, options?: BinaryOptions): this {
    const isAmount = !options?.reverse && this.dtype.isInt;
    if (isAmount && (typeof x === "bigint" || (typeof x === "number" && isWhole(x)))) { // exact, whatever its size
      if (x < 0) throw new ArgumentError(action, { reason: `the amount must be at least 0, not ${x}` });
      if (x >= this.dtype.bits) x = this.dtype.bits;
    }
    const [a, b] = this.bits(action, x, options);
    const d = a.dtype;
    if (d.isBool) throw new DTypeError(`${action} on dtypes`, { dtypes: [d, b.dtype], reason: "only integers shift" });
    if (b.isConst() && b.value < 0) {
      throw new ArgumentError(action, { reason: `the amount must be at least 0, not ${b.value}` });
    }
    const last = scalarConst(d.bits - 1, d), zero = scalarConst(0, d);
    if (b.isConst() && b.value < d.bits) return this.wrap(a.alu(op, b));
    const inside = b.lt(scalarConst(d.bits, d));
    const amount = inside.where(b, last);
    const keepsSign = op === Ops.SHR && !d.isUnsigned;
    const r = a.alu(op, amount);
    return this.wrap(keepsSign ? r : inside.where(r, zero));
  }

  // ---- selection

  /**
   * `x` where this is true (nonzero), else `y`; broadcast and promoted, scalars are weak.
   *
   * @throws {ShapeError} if the shapes do not broadcast @throws {DTypeError} for a bigint beyond an integer dtype
   */
  where(x: Operand, y: Operand): this {
    const [u, v] = [x, y].map((z) => isScalar(z) ? undefined : this.operand(z, "where").uop);
    const dtype = isScalar(x)
      ? isScalar(y) ? inferDType([x, y]) : promoteScalar(v!.dtype, x)
      : isScalar(y)
      ? promoteScalar(u!.dtype, y)
      : promote(u!.dtype, v!.dtype);
    const [a, b] = [x, y].map((z, i) => {
      if (!isScalar(z)) return castNode([u, v][i]!, dtype);
      checkFits(z, dtype, "where");
      return scalarConst(z, dtype);
    });
    for (const u of [a, b]) checkSameDevice("where", this.uop, u);
    checkSameDevice("where", a, b);
    const [c, p, q] = broadcastNodes("where", [castNode(this.uop, dtypes.bool), a, b]);
    return this.wrap(c.where(p, q));
  }

  /** The tensor that an argument is, or that a list makes. @throws {ArgumentError} for anything else */
  protected tensorOf(action: string, name: string, x: TensorLike): this {
    return (isList(x) ? this.fromList(x) : checkTensor(action, name, x)) as this;
  }

  /** `value` where `mask` is true, else this. */
  maskedFill(mask: Operand, value: Operand): this {
    const m = this.operand(mask, "maskedFill") as this;
    checkSameDevice("maskedFill", this.uop, m.uop);
    if (value instanceof TensorBase) checkSameDevice("maskedFill", this.uop, value.uop);
    return m.where(value, this) as this;
  }

  /** This shape filled with a constant, in this dtype unless another is given. */
  constLike<N extends string>(
    value: number | boolean | bigint,
    options: { readonly dtype?: DTypeLike<N> } = {},
  ): this {
    checkOptions("constLike", options, ["dtype"]);
    checkScalar("constLike", "the value", value);
    const dtype = options.dtype === undefined ? this.dtype : toDType(options.dtype);
    return this.wrap(placed(this.broadcastConst(scalarConst(value, dtype)), this.device));
  }
}

/** -1, 0 or 1; zeros (and NaN) are passed on. Not to be differentiated. */
export function signValue(x: UOp): UOp {
  const d = x.dtype;
  if (d.isBool) return x;
  const zero = scalarConst(0, d), one = scalarConst(1, d);
  const rest = zero.lt(x).where(one, d.isFloat ? x : zero);
  return d.isUnsigned ? rest : x.lt(zero).where(scalarConst(-1, d), rest);
}

/** a - b floor(a / b), and with a quotient cut toward zero: steps do not count. */
const MOD: GradientArg = new GradientArg((g, [a, b]) => [g, () => g.mul(negNode(wholeQuotient(a, b, "floor")))], true);
const FMOD: GradientArg = new GradientArg((g, [a, b]) => [g, () => g.mul(negNode(wholeQuotient(a, b, "trunc")))], true);

/** The sign of the result by that of this: result / this, but 0 at 0. */
const COPYSIGN = new GradientArg((g, [a, b], y) => {
  const zero = constant(0, a.dtype);
  return [() => a.eq(zero).where(zero, g.mul(y.fdiv(a))), () => zerosLike(b)];
}, true);

/** Integers to integers: squaring, one step a bit of the exponent; negative exponents give 0 unless the base is ±1. */
function integerPower(a: UOp, b: UOp): UOp {
  if (a.dtype.isBool) {
    a = castNode(a, dtypes.int32);
    b = castNode(b, dtypes.int32);
  }
  const d = a.dtype, c = (v: number) => scalarConst(v, d);
  const steps = d.bits - (d.isUnsigned ? 0 : 1);
  let result: UOp | undefined, square = a;
  for (let i = 0; i < steps; i++) {
    const set = b.shr(c(i)).and(c(1)).ne(c(0));
    result = result === undefined ? set.where(square, c(1)) : set.where(result.mul(square), result);
    if (i < steps - 1) square = square.mul(square);
  }
  if (d.isUnsigned) return result!;
  const odd = b.and(c(1)).ne(c(0));
  const inverse = a.eq(c(1)).where(c(1), a.eq(c(-1)).where(odd.where(c(-1), c(1)), c(0)));
  return b.lt(c(0)).where(inverse, result!);
}
