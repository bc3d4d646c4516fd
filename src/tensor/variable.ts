/**
 * Variables: named integers with bounds that kernels take as arguments, so that a graph is compiled once for all values.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { ArgumentError } from "../helpers/errors.ts";
import { Ops } from "../uop/ops.ts";
import { constant, type UOp, uop, variable } from "../uop/uop.ts";
import { Tensor } from "./tensor.ts";

/**
 * An integer argument of kernels. A bound one is a rank-0 int32 tensor: an operand, or an index for `at`.
 *
 * ```ts
 * import { Tensor, Variable } from "../../mod.ts";
 * const row = new Variable("row", 0, 2);
 * const table = new Tensor([10, 20, 30]);
 * console.log(await table.at(row.bind(0)).item()); // 10
 * console.log(await table.at(row.bind(2)).item()); // 30
 * ```
 */
export class Variable {
  /** Letters, digits and underscores. */
  readonly name: string;
  /** The least value. */
  readonly min: number;
  /** The largest value. */
  readonly max: number;
  private readonly node: UOp;

  /**
   * Values from `min` to `max`, both included.
   *
   * @throws {ArgumentError} for a bad name, or bounds that are no int32 or are crossed
   */
  constructor(name: string, min: number, max: number) {
    const action = `make the variable ${String(name)}`;
    if (typeof name !== "string" || !/^[A-Za-z_]\w*$/.test(name)) {
      throw new ArgumentError(action, { reason: "a name is letters, digits and underscores" });
    }
    if ([min, max].some((x) => (x | 0) !== x) || min > max) {
      throw new ArgumentError(action, { reason: `its bounds [${min}, ${max}] are not two int32 in order` });
    }
    this.name = name;
    this.min = min;
    this.max = max;
    this.node = variable(name, min, max);
  }

  /** This variable with a value: a rank-0 int32 tensor. @throws {ArgumentError} outside of the bounds */
  bind(value: number): Tensor {
    if (!Number.isInteger(value) || value < this.min || value > this.max) {
      throw new ArgumentError(`bind ${this.name} to ${value}`, {
        reason: `it takes integers from ${this.min} to ${this.max}`,
      });
    }
    return new Tensor(uop(Ops.BIND, dtypes.int32, [this.node, constant(value, dtypes.int32)]));
  }

  /** "row[0, 2]" */
  toString(): string {
    return `${this.name}[${this.min}, ${this.max}]`;
  }
}
