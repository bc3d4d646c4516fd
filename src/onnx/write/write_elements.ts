/**
 * Functions of elements as nodes of ONNX, one by one. In: a node, and the values of its operands; out: the value, in
 * which what ONNX has for some types alone is computed in another one.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { codeOf } from "../wire/element_types.ts";
import type { OnnxGraph, Value } from "./onnx_graph.ts";
import type { Shape } from "./traced_sizes.ts";

/** Operators of the same name for each op. */
const NAMES: Readonly<Record<number, string>> = {
  [Ops.SIN]: "Sin",
  [Ops.COS]: "Cos",
  [Ops.SQRT]: "Sqrt",
  [Ops.NEG]: "Neg",
  [Ops.ADD]: "Add",
  [Ops.SUB]: "Sub",
  [Ops.MUL]: "Mul",
  [Ops.FDIV]: "Div",
  [Ops.MAX]: "Max",
  [Ops.FLOORMOD]: "Mod",
};
/** Operators on integers and on bools. */
const BITWISE: Readonly<Record<number, readonly [integers: string, bools: string]>> = {
  [Ops.AND]: ["BitwiseAnd", "And"],
  [Ops.OR]: ["BitwiseOr", "Or"],
  [Ops.XOR]: ["BitwiseXor", "Xor"],
};
/** Operators on bools that stand for arithmetic. */
const OF_BOOLS: Readonly<Record<number, string>> = {
  [Ops.ADD]: "Or",
  [Ops.MAX]: "Or",
  [Ops.MUL]: "And",
  [Ops.CMPNE]: "Xor",
};

/** Writes one node and its operands' types. */
class Elementwise {
  constructor(private readonly g: OnnxGraph, private readonly broadcast: (values: readonly Value[]) => Shape) {}

  op(name: string, values: readonly Value[], dtype: DType = values[0].dtype, attributes = {}): Value {
    return this.g.node(name, values, this.broadcast(values), dtype, attributes);
  }
  int(x: number, dtype: DType): Value {
    return this.g.cast(this.g.ints([x], 0), dtype);
  }

  /** The quotient rounded down: what is left by the remainder divides. */
  floorDiv(a: Value, b: Value): Value {
    return this.op("Div", [this.op("Sub", [a, this.op("Mod", [a, b])]), b]);
  }
  /** Toward zero: that of the magnitude, with the sign. */
  trunc(x: Value): Value {
    return this.op("Mul", [this.op("Sign", [x]), this.op("Floor", [this.op("Abs", [x])])]);
  }
  compare(name: string, a: Value, b: Value): Value {
    const isWide = a.dtype.isFloat || a.dtype.isInt && a.dtype.itemsize >= 4 && !a.dtype.isUnsigned;
    const as = isWide || name === "Equal" && a.dtype.isBool ? a.dtype : a.dtype.itemsize < 4 ? dtypes.int32 : a.dtype;
    return this.op(name, [this.g.cast(a, as), this.g.cast(b, as)], dtypes.bool);
  }
  where(c: Value, a: Value, b: Value): Value {
    if (!a.dtype.isBool) return this.op("Where", [c, a, b], a.dtype);
    return this.op("Or", [this.op("And", [c, a]), this.op("And", [this.op("Not", [c]), b])]);
  }
  /** Shifts: ONNX has them for numbers without a sign; to the right, those below zero are turned around before and after. */
  shift(u: UOp, x: Value, by: Value): Value {
    const { g } = this, { dtype } = u, isLeft = u.op === Ops.SHL, direction = isLeft ? "LEFT" : "RIGHT";
    const unsigned = UNSIGNED[dtype.itemsize], raw = (v: Value): Value => g.cast(v, unsigned);
    const shifted = (v: Value): Value => this.op("BitShift", [raw(v), raw(by)], unsigned, { direction });
    if (isLeft || dtype.isUnsigned) return g.cast(shifted(x), dtype);
    const isBelow = this.compare("Less", x, this.int(0, dtype)), flip = (v: Value): Value => this.op("BitwiseNot", [v]);
    const made = g.cast(shifted(this.where(isBelow, flip(x), x)), dtype);
    return this.where(isBelow, flip(made), made);
  }

  lower(u: UOp, values: readonly Value[]): Value | undefined {
    const [a, b, c] = values, isBool = a.dtype.isBool;
    switch (u.op) {
      case Ops.CAST:
        return this.op("Cast", [a], u.dtype, { to: codeOf(u.dtype) });
      case Ops.BITCAST:
        return a.dtype === u.dtype ? a : undefined;
      case Ops.EXP2:
        return this.op("Exp", [this.op("Mul", [a, this.float(Math.LN2, a.dtype)])]);
      case Ops.LOG2:
        return this.op("Div", [this.op("Log", [a]), this.float(Math.LN2, a.dtype)]);
      case Ops.TRUNC:
        return this.trunc(a);
      case Ops.FLOORDIV:
        return this.floorDiv(a, b);
      case Ops.CDIV: // of floats what the remainder leaves is divided, which is whole but for its rounding
        if (!a.dtype.isFloat) return this.op("Div", [a, b]);
        return this.op("Round", [
          this.op("Div", [this.op("Sub", [a, this.op("Mod", [a, b], a.dtype, { fmod: 1 })]), b]),
        ]);
      case Ops.CMOD:
        return this.op("Mod", [a, b], a.dtype, { fmod: 1 });
      case Ops.CMPLT:
        return this.compare("Less", a, b);
      case Ops.CMPEQ:
        return this.compare("Equal", a, b);
      case Ops.CMPNE:
        return isBool ? this.op("Xor", [a, b]) : this.op("Not", [this.compare("Equal", a, b)]);
      case Ops.SHL:
      case Ops.SHR:
        return this.shift(u, a, b);
      case Ops.WHERE:
        return this.where(a, b, c);
      case Ops.MULACC:
        return this.op("Add", [this.op("Mul", [a, b]), c]);
    }
    const bits = BITWISE[u.op];
    if (bits !== undefined) return this.op(bits[isBool ? 1 : 0], values);
    const name = isBool ? OF_BOOLS[u.op] : NAMES[u.op];
    return name === undefined ? undefined : this.op(name, values, u.dtype);
  }
  private float(x: number, dtype: DType): Value {
    const bytes = new Uint8Array(Float64Array.of(x).buffer);
    return this.g.cast(this.g.scalar(dtypes.float64, bytes), dtype);
  }
}

const UNSIGNED: Readonly<Record<number, DType>> = {
  1: dtypes.uint8,
  2: dtypes.uint16,
  4: dtypes.uint32,
  8: dtypes.uint64,
};

/** An ALU node as nodes of ONNX; undefined for one without a form. */
export function lowerElementwise(
  g: OnnxGraph,
  u: UOp,
  values: readonly Value[],
  broadcast: (values: readonly Value[]) => Shape,
): Value | undefined {
  return new Elementwise(g, broadcast).lower(u, values);
}
