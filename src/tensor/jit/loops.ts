/**
 * Functions of functions that run them many times: `jacobian` and `hessian`, by one mapped gradient; `scan` and `whileLoop`,
 * whose step is captured once and replayed. In: functions of tensors, or of trees of them.
 *
 * @module
 */
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { checkBoolean, checkFunction, checkInteger, checkOptions, describe } from "../../helpers/options.ts";
import { sameArray } from "../../helpers/math.ts";
import { leavesOf, mapLeaves } from "../../helpers/tree.ts";
import { constantAxis } from "../handle/dims.ts";
import { isWeak } from "../handle/weak_numbers.ts";
import { Tensor } from "../tensor.ts";
import {
  type Argnums,
  checkArgnums,
  grad,
  isTransformed,
  type TensorFunction,
  vmap,
} from "../transforms/transforms.ts";
import { jit } from "./jit.ts";
import { reachedBy, type Step, withScanGradient } from "./scan_gradient.ts";

/** Options of {@linkcode jacobian} and {@linkcode hessian}. */
export interface JacobianOptions<N extends Argnums = Argnums> {
  /** Which arguments, tensors of floats, to differentiate with respect to. Default 0; a list gives a list. */
  readonly argnums?: N;
}

/** Jacobians by the arguments that are named: a tensor, or a list. */
export type Jacobians<N extends Argnums> = N extends readonly number[] ? { -readonly [K in keyof N]: Tensor } : Tensor;

/** Second derivatives by the arguments that are named: a tensor, or for a list a row an argument. */
export type Hessians<N extends Argnums> = N extends readonly number[] ? { -readonly [K in keyof N]: Jacobians<N> }
  : Tensor;

/** Options of {@linkcode scan}. */
export interface ScanOptions {
  /** From the last to the first. Default false. */
  readonly reverse?: boolean;
  /** One graph of all steps in place of a captured step. Within transforms always. Default false. */
  readonly unroll?: boolean;
  /** How many steps, where there are no `xs`. */
  readonly length?: number;
}

const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;

/** The tensor that an argument is. @throws {ArgumentError} */
function argument(action: string, args: readonly unknown[], n: number): Tensor {
  const x = args[n];
  if (isTensor(x)) return x;
  throw new ArgumentError(action, { reason: `argument ${n} must be a tensor of floats, not ${describe(x)}` });
}

/** The function of argument `n` alone, beside the others. */
function ofOne<A extends unknown[], R>(fn: TensorFunction<A, R>, args: A, n: number): (own: Tensor) => R {
  return (own) => fn(...args.with(n, own) as A);
}

/** All derivatives of the value of `fn` at `x`. */
function slopesAt(action: string, fn: (x: Tensor) => unknown, x: Tensor): Tensor {
  const value = fn(x);
  if (!isTensor(value)) {
    throw new ArgumentError(action, { reason: `the function gives ${describe(value)}, not a tensor` });
  }
  if (!value.dtype.isFloat) {
    throw new DTypeError(`${action} of a value of dtype`, { dtypes: [value.dtype], reason: "it must be of floats" });
  }
  const shape = value.shape, count = value.numel();
  const slope = (seed: Tensor): Tensor => grad((own: Tensor) => (fn(own) as Tensor).mul(seed).sum())(x);
  if (count === 0) return Tensor.zeros([...shape, ...x.shape], { dtype: value.dtype, device: x.device });
  const seeds = Tensor.eye(count, { dtype: value.dtype, device: x.device }).reshape([count, ...shape]);
  return vmap(slope)(seeds).reshape([...shape, ...x.shape]);
}

/**
 * All derivatives of `fn`, whose value is a tensor of floats of shape S, by an argument of shape X: a function of the same
 * arguments that gives a tensor of shape `[...S, ...X]`, or of several arguments a list of them. By reverse mode, mapped
 * over the elements of the value.
 *
 * ```ts
 * import { jacobian, Tensor } from "../../../mod.ts";
 * const slopes = jacobian((x: Tensor) => x.mul(x));
 * console.log(await slopes(new Tensor([1, 2.5])).tolist()); // [[2, 0], [0, 5]]
 * const both = jacobian((x: Tensor, y: Tensor) => x.mul(y), { argnums: [0, 1] });
 * const [byX, byY] = both(new Tensor([1, 2.5]), new Tensor([3.5, 4]));
 * console.log(await byX.tolist(), await byY.tolist()); // [[3.5, 0], [0, 4]] [[1, 0], [0, 2.5]]
 * ```
 *
 * @throws {ArgumentError} for an argument or a value that is no tensor @throws {DTypeError} where one is not of floats
 */
export function jacobian<A extends unknown[] = Tensor[], const N extends Argnums = 0>(
  fn: TensorFunction<A, Tensor>,
  options: JacobianOptions<N> = {},
): TensorFunction<A, Jacobians<N>> {
  const action = "compute jacobian", list = checkArgnums(action, fn, options, ["argnums"]);
  return (...args: A) => {
    const found = list.map((n) => slopesAt(action, ofOne(fn, args, n), argument(action, args, n)));
    return (typeof options.argnums === "object" ? found : found[0]) as Jacobians<N>;
  };
}

/**
 * All second derivatives of `fn`, whose value is a scalar of floats, by an argument of shape X: `[...X, ...X]`. Of several
 * arguments a row each of those by it and then by each, `[...X, ...Y]`.
 *
 * ```ts
 * import { hessian, Tensor } from "../../../mod.ts";
 * const second = hessian((x: Tensor) => x.prod());
 * console.log(await second(new Tensor([2.5, 3, 4])).tolist()); // [[0, 4, 3], [4, 0, 2.5], [3, 2.5, 0]]
 * ```
 *
 * @throws {ShapeError} unless the value is a scalar @throws as {@linkcode jacobian}
 */
export function hessian<A extends unknown[] = Tensor[], const N extends Argnums = 0>(
  fn: TensorFunction<A, Tensor>,
  options: JacobianOptions<N> = {},
): TensorFunction<A, Hessians<N>> {
  const action = "compute hessian", list = checkArgnums(action, fn, options, ["argnums"]);
  return (...args: A) => {
    const found = list.map((n) => {
      const slope = (...own: A): Tensor => grad(ofOne(fn, own, n))(own[n] as Tensor);
      return list.map((m) => slopesAt(action, ofOne(slope, args, m), argument(action, args, m)));
    });
    return (typeof options.argnums === "object" ? found : found[0][0]) as Hessians<N>;
  };
}

/** Whole numbers without a dtype, as the floats that a step makes of them; undefined where there are none of the kind. */
function asFloats(init: unknown, next: unknown): unknown {
  const after = leavesOf(next, isTensor), dtypeOf = (t: Tensor, k: number) => after[k]?.dtype ?? t.dtype;
  const isMeant = (t: Tensor, k: number): boolean => isWeak(t) && dtypeOf(t, k).isFloat;
  if (!leavesOf(init, isTensor).some(isMeant)) return undefined;
  return mapLeaves(init, isTensor, (t, k) => isMeant(t, k) ? t.cast(dtypeOf(t, k)) : t);
}

/** Throws unless a carry is as the one before it. @throws {ShapeError} @throws {DTypeError} @throws {ArgumentError} */
function checkCarry(action: string, carry: unknown, next: unknown): void {
  const before = leavesOf(carry, isTensor), after = leavesOf(next, isTensor), form = "a carry keeps its form";
  if (before.length !== after.length) {
    throw new ArgumentError(action, { reason: `${form}: it has ${before.length} tensors, and then ${after.length}` });
  }
  for (const [k, t] of before.entries()) {
    if (!sameArray(t.shape, after[k].shape)) {
      throw new ShapeError(action, {
        shapes: [t.shape, after[k].shape],
        reason: `${form}, and a step changed its shape`,
      });
    }
    if (t.dtype === after[k].dtype) continue;
    throw new DTypeError(`${action} with carries of`, {
      dtypes: [t.dtype, after[k].dtype],
      reason: `${form}, and a step changed its dtype; cast init, or what the step gives`,
    });
  }
}

/**
 * Runs `[carry, y] = fn(carry, x)` for each part of `xs` along its first axis, from `init` on: the last carry, and all `y`,
 * stacked. Carry, `x` and `y` are tensors or trees of them; carries keep their shapes and dtypes. The step is captured once
 * and replayed, so that `xs` may be long. Where something requires gradients, the carries are kept, and a captured gradient
 * of the step runs backward over them; a step that draws random numbers, and gradients within `grad` and the like, take one
 * graph of all steps, as with `unroll`, which has derivatives of any order.
 *
 * ```ts
 * import { scan, Tensor } from "../../../mod.ts";
 * const step = (sum: Tensor, x: Tensor): [Tensor, Tensor] => [sum.add(x), sum.mul(x)];
 * const [sum, products] = scan(step, new Tensor(0.5), new Tensor([1, 2, 3.5]));
 * console.log(await sum.item(), await products.tolist()); // 7 [0.5, 3, 12.25]
 * ```
 *
 * @throws {ShapeError} where first axes differ, or a step changes the shape of a carry @throws {DTypeError} where it changes
 * its dtype @throws {ArgumentError} without `xs` or a length, or for a step that gives no pair
 */
export function scan<C, X, Y>(
  fn: (carry: C, x: X) => readonly [C, Y],
  init: C,
  xs: X,
  options: ScanOptions = {},
): [carry: C, ys: Y] {
  const action = "scan",
    { reverse = false, unroll = false, length } = checkOptions(action, options, ["reverse", "unroll", "length"]);
  checkFunction(action, "fn", fn);
  checkBoolean(action, "reverse", reverse);
  checkBoolean(action, "unroll", unroll);
  const parts = leavesOf(xs, isTensor), sizes = parts.map((t) => t.shape[0]);
  const steps = sizes[0] ?? length;
  if (steps === undefined) {
    throw new ArgumentError(action, { reason: "xs must be tensors with a first axis, or give { length }" });
  }
  const cure = "padTo(shape) gives it one, and carries stay as they are beyond a length by where(...)";
  for (const t of parts) constantAxis(action, t.uop, 0, cure);
  if (length !== undefined) checkInteger(action, "length", length, 0);
  if (sizes.some((n) => n !== steps) || (length !== undefined && length !== steps)) {
    throw new ShapeError(action, {
      shapes: parts.map((t) => t.shape),
      axis: 0,
      reason: `all must have ${steps} parts`,
    });
  }
  const body = (carry: C, x: X): [C, Y] => {
    const made: unknown = fn(carry, x);
    if (Array.isArray(made) && made.length === 2) return made as unknown as [C, Y];
    throw new ArgumentError(action, { reason: `a step must give [carry, y], not ${describe(made)}` });
  };
  if (steps === 0) {
    const part = mapLeaves(xs, isTensor, (t) => Tensor.zeros(t.shape.slice(1), { dtype: t.dtype, device: t.device }));
    const none = (t: Tensor): Tensor => Tensor.zeros([0, ...t.shape], { dtype: t.dtype, device: t.device });
    return [init, mapLeaves(body(init, part as X)[1], isTensor, none) as Y];
  }
  let isGraph = unroll || isTransformed();
  const reached = isGraph || !Tensor.isGradEnabled() ? undefined : reachedBy(body as Step, init, xs);
  isGraph ||= reached?.draws === true;
  const act = isGraph ? body : jit(body) as unknown as typeof body;
  // gradients go around captured steps, and not through what they are given
  const alone = (t: Tensor): Tensor => reached === undefined ? t : t.detach();
  let carry = isGraph ? init : mapLeaves(init, isTensor, (t) => alone(t).contiguous()) as C;
  const ys: Y[] = [], carries: unknown[] = [], given: unknown[] = [];
  for (let i = 0; i < steps; i++) {
    const at = reverse ? steps - 1 - i : i,
      x = mapLeaves(xs, isTensor, (t) => isGraph ? t.at(at) : alone(t.at(at)).contiguous());
    if (reached !== undefined) {
      carries.push(carry);
      given.push(x);
    }
    const [next, y] = act(carry, x as X);
    const floats = i === 0 ? asFloats(init, next) : undefined;
    if (floats !== undefined) return scan(fn, floats as C, xs, options);
    checkCarry(action, carry, next);
    // kept, so that no step is computed in the next one again
    carry = isGraph ? mapLeaves(next, isTensor, (t) => t.contiguous()) as C : next;
    ys.push(y);
  }
  if (reverse) ys.reverse();
  const all = ys.map((y) => leavesOf(y, isTensor));
  const stacked = mapLeaves(ys[0], isTensor, (t, k) => t.stack(all.slice(1).map((leaves) => leaves[k]), 0)) as Y;
  if (isGraph || reached === undefined) return [carry, stacked];
  const trace = { carries, parts: given };
  return withScanGradient([carry, stacked], carry, body as Step, trace, [init, xs, reached.own], reverse);
}

/**
 * Runs `carry = body(carry)` from `init` on while `condition(carry)`, a scalar, is true; it is read before each step. Both are
 * captured once and replayed; carries keep their shapes and dtypes, but for whole numbers without a dtype, which are floats
 * where a step makes them so. At most `maxSteps` steps, if given.
 *
 * ```ts
 * import { Tensor, whileLoop } from "../../../mod.ts";
 * const x = await whileLoop((x: Tensor) => x.lt(100), (x: Tensor) => x.mul(3), new Tensor(2.5));
 * console.log(await x.item()); // 202.5
 * ```
 *
 * @throws {ArgumentError} for a condition that gives no scalar @throws {ShapeError} where a step changes the shape of a carry
 * @throws {DTypeError} where it changes its dtype
 */
export async function whileLoop<C>(
  condition: (carry: C) => Tensor,
  body: (carry: C) => C,
  init: C,
  options: { readonly maxSteps?: number } = {},
): Promise<C> {
  const action = "run a while loop", { maxSteps = Infinity } = checkOptions(action, options, ["maxSteps"]);
  checkFunction(action, "condition", condition);
  checkFunction(action, "body", body);
  if (maxSteps !== Infinity) checkInteger(action, "maxSteps", maxSteps, 0);
  if (leavesOf(init, isTensor).length === 0) {
    throw new ArgumentError(action, { reason: `init must be a tensor, or a tree with some, not ${describe(init)}` });
  }
  const test = jit((carry: C): Tensor => {
      const made: unknown = condition(carry);
      if (isTensor(made) && made.numel() === 1) return made.ne(0);
      throw new ArgumentError(action, { reason: `the condition must give a scalar, not ${describe(made)}` });
    }),
    act = jit(body as (carry: C) => Tensor) as unknown as (carry: C) => C;
  let carry = mapLeaves(init, isTensor, (t) => t.contiguous()) as C;
  for (let i = 0; i < maxSteps && await test(carry).item(); i++) {
    const next = act(carry), floats = i === 0 ? asFloats(init, next) : undefined;
    if (floats !== undefined) return whileLoop(condition, body, floats as C, options);
    checkCarry(action, carry, next);
    carry = next;
  }
  return carry;
}
