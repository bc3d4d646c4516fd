/**
 * Functions of tensors with a gradient of their own, and what else of the graph is open to users: constants without
 * memory, single ops, sums and products of lists.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { promoteAll } from "../../dtype/promotion.ts";
import { fitsTensor } from "../../engine/front/engine.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { prod, sameArray } from "../../helpers/math.ts";
import { checkFunction, checkOptions, describe, describeList } from "../../helpers/options.ts";
import { isAlu, isComparison, opArity, opName, Ops } from "../../uop/core/ops.ts";
import { uop } from "../../uop/core/uop.ts";
import { GradientArg } from "../../uop/graph/given_gradient.ts";
import { resolve } from "../../uop/graph/resolve.ts";
import { checkTensor, type Operand, TensorBase } from "../handle/base.ts";
import { broadcastNodes, materializeShape } from "../handle/broadcast.ts";
import { placed } from "../handle/creation.ts";
import { castNode } from "../nodes/scalars.ts";
import type { ElementwiseTensor } from "../ops/elementwise.ts";

/** What is no op of the tensor graph by itself: the methods that make what it stands for. */
const METHODS: ReadonlyMap<Ops, string> = new Map<Ops, string>([
  [Ops.CAST, "cast(dtype)"],
  [Ops.BITCAST, "bitcast(dtype)"],
  [Ops.NEG, "neg()"],
  [Ops.SUB, "sub(x)"],
  [Ops.MULACC, "mul(x).add(y)"],
]);

/** Options of {@linkcode CallTensor.call}. */
export interface CallOptions<T> {
  /**
   * The gradients of something with respect to each input (undefined for none), given that with respect to the result
   * and the inputs.
   */
  readonly gradFxn?: (gradient: T, ...inputs: T[]) => readonly (T | undefined)[];
}

/** The families that it is written in. */
export interface CallTensor extends ElementwiseTensor {}
/** Tensors that functions can be applied to. */
export abstract class CallTensor extends TensorBase {
  /**
   * `fxn` of this and `lst`. With `gradFxn` its gradient is what that says, and what `fxn` does is not differentiated.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * const x = new Tensor([-1, 2], { requiresGrad: true });
   * // Rounds, and passes the gradient on as if it had not.
   * const y = x.call([], (t) => t.round(), { gradFxn: (g) => [g] });
   * console.log(await y.sum().gradient([x])[0].tolist()); // [1, 1]
   * ```
   *
   * @throws {ArgumentError} unless `fxn` gives a tensor
   */
  call(lst: readonly this[], fxn: (...inputs: this[]) => this, options: CallOptions<this> = {}): this {
    const action = "call a function";
    checkOptions(action, options, ["gradFxn"]);
    const given: unknown = lst;
    if (
      !Array.isArray(given) || !Array.from(given).every((t) => t instanceof TensorBase) || typeof fxn !== "function"
    ) {
      throw new ArgumentError(action, { reason: "it takes a list of tensors and a function of tensors" });
    }
    checkFunction(action, "fxn", fxn);
    const inputs: this[] = [this, ...lst], result: unknown = fxn(...inputs);
    if (!(result instanceof TensorBase)) {
      throw new ArgumentError(action, { reason: `it must give a tensor, not ${describe(result)}` });
    }
    const { gradFxn } = options;
    if (gradFxn === undefined) return result as this;
    return this.differentiated(result as this, inputs, gradFxn);
  }

  /** `result` with a gradient that `gradFxn` gives. */
  protected differentiated(
    result: this,
    inputs: readonly this[],
    gradFxn: NonNullable<CallOptions<this>["gradFxn"]>,
  ): this {
    const rule = new GradientArg((g, nodes) => {
      const found = gradFxn(this.wrap(g), ...nodes.map((u) => this.wrap(u)));
      if (!Array.isArray(found) || !found.every((t) => t === undefined || t instanceof TensorBase)) {
        throw new ArgumentError("take gradients from gradFxn", {
          reason: `it must give a list of tensors (undefined for none), not ${describeList(found)}`,
        });
      }
      return nodes.map((u, i) => {
        const t = found[i], { shape } = inputs[i];
        if (t === undefined) return undefined;
        if (!sameArray(t.shape, shape)) {
          throw new ShapeError("take from gradFxn a gradient of", {
            shapes: [t.shape, shape],
            reason: `it must have the shape of input ${i}`,
          });
        }
        return materializeShape(resolve(t.uop), shape).cast(u.dtype);
      });
    });
    const nodes = [result, ...inputs].map((t) => materializeShape(t.uop, t.shape));
    return this.wrap(uop(Ops.CHECKPOINT, result.dtype, nodes, rule));
  }

  /**
   * One op of the graph on this and `src`, promoted and broadcast. @throws {ArgumentError} unless it is elementwise
   * @throws {DTypeError} for dtypes that it does not take
   */
  alu(op: Ops, ...src: Operand[]): this {
    const name = (typeof op === "number" ? opName[op] : undefined) ?? describe(op), action = `apply ${name}`;
    const method = typeof op === "number" ? METHODS.get(op) : undefined;
    if (typeof op !== "number" || !isAlu(op) || method !== undefined) {
      throw new ArgumentError("apply an op", {
        reason: method === undefined ? `${name} is not elementwise` : `${name} is made by t.${method}`,
      });
    }
    if (src.length + 1 !== opArity[op]) {
      throw new ArgumentError(action, { reason: `it takes ${opArity[op]} operands, not ${src.length + 1}` });
    }
    const given = [this.uop, ...src.map((x) => this.operand(x, action).uop)], values = op === Ops.WHERE ? 1 : 0;
    const dtype = promoteAll(given.slice(values).map((u) => u.dtype));
    const nodes = broadcastNodes(action, given.map((u, i) => i < values ? u : castNode(u, dtype)));
    const made = uop(op, isComparison(op) ? dtypes.bool : dtype, nodes), fits = fitsTensor(action, made);
    if (fits !== true) {
      throw new DTypeError(`${action} to dtype${given.length > 1 ? "s" : ""}`, {
        dtypes: given.map((u) => u.dtype),
        reason: fits,
      });
    }
    return this.wrap(made);
  }
  /** A number, list or tensor as a tensor that fits beside this: scalars take the dtype that they would have here. */
  ufix(x: Operand): this {
    const t = this.operand(x) as this;
    return t === x ? t : this.wrap(placed(t.uop, this.device));
  }
  /** The sum of this and `others`, added pairwise. */
  usum(others: readonly Operand[]): this {
    return balanced([this, ...listOf("add up", others).map((x) => this.ufix(x))], (a, b) => a.add(b));
  }
  /** The product of this and `others`, multiplied pairwise; bools are and-ed. */
  uprod(others: readonly Operand[]): this {
    return balanced([this, ...listOf("multiply up", others).map((x) => this.ufix(x))], (a, b) => a.mul(b));
  }

  /** The functions of `layers` applied in turn. @throws {ArgumentError} unless they are functions */
  sequential(layers: readonly ((x: this) => this)[]): this {
    const given: unknown = layers;
    if (!Array.isArray(given)) {
      throw new ArgumentError("apply layers", { reason: `they must be a list of functions, not ${describe(given)}` });
    }
    for (const f of given) checkFunction("apply layers", "each", f);
    return layers.reduce((x, f) => checkTensor("apply layers", "what a layer gives", f(x)), this as this);
  }

  /** The shape: sizes are numbers here, and bounds of themselves. */
  get maxShape(): number[] {
    return this.shape;
  }
  /** Elements of {@linkcode maxShape}. */
  get maxNumel(): number {
    return prod(this.maxShape);
  }
  /** The size of axis 0, as of an array. @throws {ShapeError} for a scalar */
  get length(): number {
    if (this.ndim === 0) throw new ShapeError("take the length of", { shapes: [[]], reason: "a scalar has none" });
    return this.shape[0];
  }
}

function listOf(action: string, others: readonly Operand[]): readonly Operand[] {
  if (Array.isArray(others)) return Array.from(others);
  throw new ArgumentError(action, { reason: `it takes a list of operands, not ${describe(others)}` });
}

function balanced<T>(list: readonly T[], f: (a: T, b: T) => T): T {
  if (list.length === 1) return list[0];
  const half = list.length >> 1;
  return f(balanced(list.slice(0, half), f), balanced(list.slice(half), f));
}
