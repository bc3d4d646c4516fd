/**
 * Variables: named integers with bounds that kernels take as arguments, so that a graph is compiled once for all values.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { needEngine } from "../engine/front/engine.ts";
import { ArgumentError } from "../helpers/errors.ts";
import { CALLED, describe, describeList } from "../helpers/options.ts";
import { Ops } from "../uop/core/ops.ts";
import { constant, type UOp, uop, variable } from "../uop/core/uop.ts";
import { RANDOM_VARIABLES } from "./nodes/random.ts";
import { Tensor } from "./tensor.ts";

/**
 * An integer argument of kernels. A bound one is a rank-0 int32 tensor: an operand, an index, and, as integer arithmetic of
 * it is, a size or an end of a slice wherever a number may be one: in `at`, `setAt`, `shrink`, `pad` (with a constant),
 * `reshape`, `expand`, `split`, `repeat`, `roll`, `topk`, `oneHot`, as the diagonal of `tril` and `triu`, start, stop and
 * step of `Tensor.arange`, value of `full`, and in the shapes of `Tensor.zeros`, `rand` and their like. Slices of `at` and
 * `setAt`, of numbers or variables, are cut off at the ends of a symbolic axis as Python does; `shrink` refuses what may
 * be outside.
 * There it counts exactly, also beyond 2^31; as a value of a tensor it is int32, and wraps.
 * An axis of such a size is symbolic: one kernel, and one capture of `jit`, serve all values. Sorts and scans along it take
 * the time of the largest value, all else that of the present one; random draws take as many numbers as the largest has. The `shape` of a tensor has
 * the largest value, which is how much memory it takes; `boundShape` the present one, which is what is computed and read
 * back; `symbolicShape` the variable itself.
 *
 * ```ts
 * import { Tensor, Variable } from "../../mod.ts";
 * const row = new Variable("row", 0, 2);
 * const table = new Tensor([10, 20, 30]);
 * console.log(await table.at(row.bind(0)).item()); // 10
 * console.log(await table.at(row.bind(2)).item()); // 30
 * const n = new Variable("n", 1, 3);
 * const part = table.at([0, n.bind(2)]);
 * console.log(await part.tolist(), await part.mean().item()); // [10, 20] 15
 * console.log(part.shape, part.boundShape); // [3] [2]
 * ```
 */
export class Variable {
  static {
    /** How errors call a variable where a value is meant: what may stand there is one that is bound. */
    const get = function (this: Variable): string {
      return `the variable ${this.name}, not bound by ${this.name}.bind(...)`;
    };
    Object.defineProperty(this.prototype, CALLED, { get });
  }

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
   * @throws {ArgumentError} for a bad name, or bounds that are no int32 or are crossed; {DeviceError} in a page with the
   * light entry, before anything was awaited
   */
  constructor(name: string, min: number, max: number) {
    const action = typeof name === "string" ? `make the variable ${name}` : "make a variable";
    if (typeof name !== "string" || !/^[A-Za-z_]\w*$/.test(name)) {
      throw new ArgumentError(action, {
        reason: `a name is letters, digits and underscores${typeof name === "string" ? "" : `, not ${describe(name)}`}`,
      });
    }
    if (RANDOM_VARIABLES.includes(name)) {
      throw new ArgumentError(action, { reason: "random draws use that name; take another" });
    }
    if ([min, max].some((x) => typeof x !== "number" || (x | 0) !== x) || min > max) {
      throw new ArgumentError(action, { reason: `its bounds ${describeList([min, max])} are not two int32 in order` });
    }
    this.name = name;
    this.min = min;
    this.max = max;
    this.node = variable(name, min, max);
    needEngine(action);
  }

  /** This variable with a value: a rank-0 int32 tensor. @throws {ArgumentError} outside of the bounds */
  bind(value: number): Tensor {
    if (!Number.isInteger(value) || value < this.min || value > this.max) {
      throw new ArgumentError(`bind ${this.name} to ${describe(value)}`, {
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
