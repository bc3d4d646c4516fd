/**
 * The arithmetic surface that nodes (UOp) and patterns (UPat) share: `a.add(b).mul(3).lt(c)` builds either.
 *
 * @module
 */
import type { DType } from "../dtype/dtype.ts";
import { Ops } from "./ops.ts";

/** Methods that build ALU nodes. `T` is what they take and return. Numbers become constants of the receiver's dtype. */
export abstract class Arithmetic<T> {
  /** Applies `op` to this and `src`; numbers are made constants of this dtype. */
  abstract alu(op: Ops, ...src: (T | number)[]): T;
  abstract cast(dtype: DType): T;
  abstract bitcast(dtype: DType): T;

  add(x: T | number): T {
    return this.alu(Ops.ADD, x);
  }
  mul(x: T | number): T {
    return this.alu(Ops.MUL, x);
  }
  /** `this + x * -1`: the canonical difference. */
  sub(x: Arithmetic<T> | number): T {
    return this.alu(Ops.ADD, typeof x === "number" ? -x : x.mul(-1));
  }
  neg(): T {
    return this.alu(Ops.MUL, -1);
  }
  fdiv(x: T | number): T {
    return this.alu(Ops.FDIV, x);
  }
  max(x: T | number): T {
    return this.alu(Ops.MAX, x);
  }
  floorDiv(x: T | number): T {
    return this.alu(Ops.FLOORDIV, x);
  }
  floorMod(x: T | number): T {
    return this.alu(Ops.FLOORMOD, x);
  }
  cdiv(x: T | number): T {
    return this.alu(Ops.CDIV, x);
  }
  cmod(x: T | number): T {
    return this.alu(Ops.CMOD, x);
  }
  lt(x: T | number): T {
    return this.alu(Ops.CMPLT, x);
  }
  ne(x: T | number): T {
    return this.alu(Ops.CMPNE, x);
  }
  eq(x: T | number): T {
    return this.alu(Ops.CMPEQ, x);
  }
  and(x: T | number): T {
    return this.alu(Ops.AND, x);
  }
  or(x: T | number): T {
    return this.alu(Ops.OR, x);
  }
  xor(x: T | number): T {
    return this.alu(Ops.XOR, x);
  }
  shl(x: T | number): T {
    return this.alu(Ops.SHL, x);
  }
  shr(x: T | number): T {
    return this.alu(Ops.SHR, x);
  }
  /** This as the condition. `a` must be a node or pattern: it gives the dtype. */
  where(a: T, b: T): T {
    return this.alu(Ops.WHERE, a, b);
  }
  exp2(): T {
    return this.alu(Ops.EXP2);
  }
  log2(): T {
    return this.alu(Ops.LOG2);
  }
  sin(): T {
    return this.alu(Ops.SIN);
  }
  sqrt(): T {
    return this.alu(Ops.SQRT);
  }
  trunc(): T {
    return this.alu(Ops.TRUNC);
  }
}
