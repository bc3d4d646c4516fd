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
import type { UOp } from "../../uop/core/uop.ts";
import { internals, type TensorBase } from "../handle/base.ts";

/** A method that takes nothing and computes each element from one. */
export interface UnaryRow {
  /** The result. */
  readonly node: (x: UOp) => UOp;
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

/** The row of a rounding: integers stay as they are. */
export function rounding(f: (x: UOp) => UOp): UnaryRow {
  return { node: (x) => x.dtype.isFloat ? f(x) : x };
}

/** Rows by the names of their methods. */
export type Rows<R> = Readonly<Record<string, R>>;

/** Puts a method for each row on a family. */
export function install<T, R>(
  family: { readonly prototype: T },
  rows: Rows<R>,
  make: (row: R, name: string) => (this: T, ...args: never[]) => T,
): void {
  for (const [name, row] of Object.entries(rows)) {
    const value = make(row, name);
    Object.defineProperty(value, "name", { value: name });
    Object.defineProperty(family.prototype, name, { value, configurable: true, writable: true });
  }
}

/** Puts methods that take nothing on a family. */
export function installUnary(family: { readonly prototype: TensorBase }, rows: Rows<UnaryRow>): void {
  install(family, rows, ({ node }) =>
    function () {
      return internals.wrap(this, node(this.uop));
    });
}
