/**
 * Methods that are alike stand in tables, a row a method. What a row leaves open (what it is called, what it takes and gives,
 * its documentation) stands in the interface of its family. In: a table. Out: methods on the family's prototype. Tests read
 * the same rows: a method that is added as one is tried in random programs and on wrong arguments without being named there,
 * and what the interface declares without a row, or the other way round, is found.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf } from "../../dtype/promotion.ts";
import { DTypeError } from "../../helpers/errors.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { internals, type TensorBase } from "../handle/base.ts";
import { expectMany } from "../handle/members.ts";

/** A method that takes nothing and computes each element from one. */
export interface UnaryRow {
  /** The result. */
  readonly node: (x: UOp) => UOp;
  /** The result of complex numbers, if it has one. */
  readonly complex?: (x: UOp) => UOp;
  /** Of floats where it has values, if not everywhere. */
  readonly domain?: readonly [least: number, greatest: number];
}

/** float16 and bfloat16 are computed in float32 by `f` and rounded once; integers in the default float. */
export function inFloat(x: UOp, f: (x: UOp) => UOp): UOp {
  const d = floatOf(x.dtype);
  if (d.bits >= 32) return f(x.cast(d));
  return f(x.cast(dtypes.float32)).cast(d);
}

/** The row of a function of reals. */
export function ofReals(f: (x: UOp) => UOp, least: number = -Infinity, greatest: number = Infinity): UnaryRow {
  return { node: (x) => inFloat(x, f), domain: [least, greatest] };
}

/** The row of a function of reals that complex numbers have, too. */
export function ofNumbers(
  f: (x: UOp) => UOp,
  complex: (x: UOp) => UOp,
  least?: number,
  greatest?: number,
): UnaryRow {
  return { ...ofReals(f, least, greatest), complex };
}

/** The row of a rounding: integers stay as they are. */
export function rounding(f: (x: UOp) => UOp): UnaryRow {
  return { node: (x) => x.dtype.isFloat ? f(x) : x };
}

/** Rows by the names of their methods. */
export type Rows<R> = Readonly<Record<string, R>>;

/** Puts a method for each row on a family. */
export function install<T extends object, R>(
  family: { readonly prototype: T },
  rows: Rows<R>,
  make: (row: R, name: string) => (this: T, ...args: never[]) => T,
): void {
  expectMany(family.prototype);
  for (const [name, row] of Object.entries(rows)) {
    const value = make(row, name);
    Object.defineProperty(value, "name", { value: name });
    Object.defineProperty(family.prototype, name, { value, configurable: true, writable: true });
  }
}

/** Puts methods that take nothing on a family. */
export function installUnary(family: { readonly prototype: TensorBase }, rows: Rows<UnaryRow>): void {
  install(family, rows, ({ node, complex }, name) =>
    function () {
      const x = this.uop;
      return internals.wrap(this, !x.dtype.isComplex ? node(x) : (complex ?? refuseComplex(name))(x));
    });
}

/** A function that complex numbers have not. */
function refuseComplex(name: string): (x: UOp) => never {
  return ({ dtype }) => {
    throw new DTypeError(`apply ${name} to dtype`, {
      dtypes: [dtype],
      reason: "it is not defined for complex numbers; take abs(), real() or imag() first",
    });
  };
}
