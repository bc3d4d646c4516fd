/**
 * The arithmetic surface that nodes (UOp) and patterns (UPat) share: `a.add(b).mul(3).lt(c)` builds either.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { Ops } from "./ops.ts";

/** Methods that build ALU nodes. `T` is what they take and return. Numbers become constants of the receiver's dtype. */
export abstract class Arithmetic<T> {
  /** Applies `op` to this and `src`; numbers are made constants of this dtype. */
  abstract alu(op: Ops, ...src: (T | number)[]): T;
  /** The value in another dtype. */
  abstract cast(dtype: DType): T;
  /** The bits in another dtype of the same size. */
  abstract bitcast(dtype: DType): T;

  /** Sum. */
  add(x: T | number): T {
    return this.alu(Ops.ADD, x);
  }
  /** Product. */
  mul(x: T | number): T {
    return this.alu(Ops.MUL, x);
  }
  /** `this + x * -1`: the canonical difference. */
  sub(x: Arithmetic<T> | number): T {
    return this.alu(Ops.ADD, typeof x === "number" ? -x : x.mul(-1));
  }
  /** Times -1. */
  neg(): T {
    return this.alu(Ops.MUL, -1);
  }
  /** Quotient of floats. */
  fdiv(x: T | number): T {
    return this.alu(Ops.FDIV, x);
  }
  /** The larger one; NaN if one is. */
  max(x: T | number): T {
    return this.alu(Ops.MAX, x);
  }
  /** Quotient of integers, rounded down. */
  floorDiv(x: T | number): T {
    return this.alu(Ops.FLOORDIV, x);
  }
  /** What `floorDiv` leaves: the sign of the divisor. */
  floorMod(x: T | number): T {
    return this.alu(Ops.FLOORMOD, x);
  }
  /** Quotient of integers, rounded toward zero. */
  cdiv(x: T | number): T {
    return this.alu(Ops.CDIV, x);
  }
  /** What `cdiv` leaves: the sign of the dividend. */
  cmod(x: T | number): T {
    return this.alu(Ops.CMOD, x);
  }
  /** Less than; bool. */
  lt(x: T | number): T {
    return this.alu(Ops.CMPLT, x);
  }
  /** Not equal; bool. */
  ne(x: T | number): T {
    return this.alu(Ops.CMPNE, x);
  }
  /** Equal; bool. */
  eq(x: T | number): T {
    return this.alu(Ops.CMPEQ, x);
  }
  /** Bitwise and. */
  and(x: T | number): T {
    return this.alu(Ops.AND, x);
  }
  /** Bitwise or. */
  or(x: T | number): T {
    return this.alu(Ops.OR, x);
  }
  /** Bitwise exclusive or. */
  xor(x: T | number): T {
    return this.alu(Ops.XOR, x);
  }
  /** Shifted left. */
  shl(x: T | number): T {
    return this.alu(Ops.SHL, x);
  }
  /** Shifted right, with the sign. */
  shr(x: T | number): T {
    return this.alu(Ops.SHR, x);
  }
  /** This as the condition. `a` must be a node or pattern: it gives the dtype. */
  where(a: T, b: T): T {
    return this.alu(Ops.WHERE, a, b);
  }
  /** Two to this power. */
  exp2(): T {
    return this.alu(Ops.EXP2);
  }
  /** The logarithm to base two. */
  log2(): T {
    return this.alu(Ops.LOG2);
  }
  /** The sine. */
  sin(): T {
    return this.alu(Ops.SIN);
  }
  /** The cosine. */
  cos(): T {
    return this.alu(Ops.COS);
  }
  /** The square root. */
  sqrt(): T {
    return this.alu(Ops.SQRT);
  }
  /** Rounded toward zero. */
  trunc(): T {
    return this.alu(Ops.TRUNC);
  }
}
