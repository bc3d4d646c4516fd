/**
 * `jit`: the first call runs, the second is captured, later calls replay the captured launches with the inputs swapped
 * and fresh outputs: no scheduling, no compilation. Tensors and bound variables may sit in nested objects and arrays;
 * every other leaf of the arguments, and the shape, dtype and device of each tensor, says which capture it is. How calls
 * go is in jit_calls.ts, what is captured in jit_capture.ts, finish_capture.ts and captured.ts.
 *
 * @module
 */
import type { Tensor } from "../tensor.ts";
import { needParts } from "../../device/parts.ts";
import { currentCapture, useLog } from "../../engine/front/listening.ts";
import { ArgumentError, JitError } from "../../helpers/errors.ts";
import { checkFunction, checkOptions, describe } from "../../helpers/options.ts";
import { nodesMade } from "../../uop/core/uop.ts";
import { handlesMade } from "../handle/base.ts";
import { isTransformed } from "../transforms/transforms.ts";
import { leavesOfTree } from "./jit_arguments.ts";
import type { Captured } from "./captured.ts";
import { copyState } from "./jit_places.ts";

/** Options of {@linkcode jit}. */
export interface JitOptions {
  /** Replays write their outputs into the same memory each time: an earlier result changes. Default false. */
  readonly reuseOutputs?: boolean;
  /**
   * Positions of arguments that the caller gives away, or true for all: their tensors are disposed of after each call, and replays write
   * results into their memory where they can. For state that goes in and comes out: a step that takes the parameters and
   * returns the next ones then needs memory for them once.
   */
  readonly donate?: readonly number[] | boolean;
}

/** What a jit function has done so far. */
export interface JitStats {
  /** Calls in all. */
  readonly calls: number;
  /** Calls that ran the function as it is: the first of each form of the arguments. */
  readonly eager: number;
  /** Calls that were captured. */
  readonly captures: number;
  /** Calls that were replayed. */
  readonly replays: number;
  /**
   * Calls that began anew because an argument that is no tensor, the shape, dtype or device of one that is, or what the
   * function closes over, had changed.
   */
  readonly retraces: number;
  /** Kernels of the last capture, after what is not needed was left out. */
  readonly kernels: number;
  /** Bytes of intermediates that the last capture keeps. */
  readonly arenaBytes: number;
}

/** Told to the type checker: a function that gives a promise is not one that `jit` can capture. */
export type Synchronous<R> = R extends PromiseLike<unknown> ? "jit takes no async function: read values outside of it"
  : unknown;

/** A function made by {@linkcode jit}. */
export interface JitFunction<A extends unknown[], R> {
  (...args: A): R;
  /** Forgets all captures and frees what they keep: the next call runs, the one after it is captured. */
  reset(): void;
  /** What it has done so far. */
  readonly stats: JitStats;
}

/** A function of anything. */
export type AnyFunction = (...args: unknown[]) => unknown;

/** Calls of one function. */
export interface JitCalls {
  call(args: unknown[]): unknown;
  reset(): void;
  readonly stats: JitStats;
  /** The newest capture. */
  readonly last: Captured | undefined;
}

let makeCalls: ((fn: AnyFunction, options: JitOptions) => JitCalls) | undefined;

/** Sets what calls functions: the class of jit_calls.ts, which in pages may come later (src/device/parts.ts). */
export function setJitCalls(make: (fn: AnyFunction, options: JitOptions) => JitCalls): void {
  makeCalls = make;
}

const NO_CALLS: JitStats = { calls: 0, eager: 0, captures: 0, replays: 0, retraces: 0, kernels: 0, arenaBytes: 0 };

/** That `jit` takes no function which gives a promise. */
export function asyncError(): JitError {
  return new JitError("capture an async function", {
    reason: "jit() takes a synchronous function; await its results outside",
  });
}

/** Calls a function as a part of another one: its results are values, but not real yet. */
function callInside(fn: AnyFunction, args: unknown[]): unknown {
  const start = nodesMade(), handles = handlesMade(), result = fn(...args);
  if (result instanceof Promise) return result;
  return copyState(result, start, handles, leavesOfTree(args, "call a jit function").tensors);
}

/** The states of jit functions. */
const states = new WeakMap<object, () => JitCalls | undefined>();

/** The last capture of a jit function; undefined where it has none. For those who write it down. */
export function captureOf(fn: object): Captured | undefined {
  return states.get(fn)?.()?.last;
}

/**
 * A function that captures the kernels `fn` runs and replays them. Tensors among the arguments are inputs, in objects of
 * any class, arrays, maps and sets; bound variables are numbers that may differ in each call; anything else is part of
 * the key (another value captures anew, as tensors of another shape, dtype or device do). A list of whole numbers without
 * a dtype is taken as floats where floats were captured. What `fn` closes over is state: replays read and write it where
 * it is now, after what has been assigned to it outside, and elsewhere from what they overwrite. State is the tensors,
 * not the variables that hold them: `w.assign(x)`, `w.replace(x)` and `w.requiresGrad = false` are followed; a variable or property that is given another tensor
 * (`model.w = x`) is not once it is captured, unless the model is an argument: assign, or call `reset()`. Where it is given
 * one from call to call, as state is in `h = cell(h)`, each call runs as it is, which is told once. An argument that `fn` assigns to is written in each call, as the
 * caller's tensor, and comes back as that, a slice as a part of its tensor (where `fn` closes over that, no call is captured); arguments that are one tensor, or one that `fn` closes over, are that inside,
 * too (where what is shared is written, a call that shares otherwise is captured anew). What `fn` writes is written when
 * the call ends, whether it realizes it or not. Results are fresh each time, copies where they are state, and values alone:
 * a gradient is computed inside, none goes through a result; one that goes through an argument to what that was computed from is right, and not captured. Within another jit function, and under `grad`,
 * `valueAndGrad`, `vmap`, `jvp` and `checkpoint`, `fn` is called as if it were no jit function (but results that are state
 * are copies): `jit(grad(f))` is fast, and `grad(jit(f))` right. With `JIT=0` each call is as the first.
 *
 * `fn` is called twice for each form of the arguments, and not in later calls that share memory alike: what it does besides
 * computing tensors (printing, counting, putting a tensor that it made into a variable) is not repeated. The gradients of tensors that require them are an
 * exception: they are filled and added to as without jit. `JIT_CHECK=1` compares each replay with a call.
 *
 * ```ts
 * import { jit, Tensor } from "../../../mod.ts";
 * const double = jit((x: Tensor) => x.mul(2));
 * const results = [1, 2, 3, 4].map((i) => double(new Tensor([i])));
 * console.log(await results[3].tolist(), double.stats.replays); // [8] 2
 * ```
 *
 * @throws {JitError} for async functions, and functions that read values, realize nothing, or dispose of an argument
 */
export function jit<A extends unknown[] = Tensor[], R = unknown>(
  fn: ((...args: A) => R) & Synchronous<R>,
  options: JitOptions = {},
): JitFunction<A, R> {
  checkOptions("make a jit function", options, ["reuseOutputs", "donate"]);
  const donate: unknown = options.donate === undefined ? false : options.donate;
  if (
    typeof donate !== "boolean" &&
    !(Array.isArray(donate) && Array.from(donate).every((i) => Number.isInteger(i) && i >= 0))
  ) {
    throw new ArgumentError("make a jit function", {
      reason: `donate is true or a list of positions of arguments, not ${describe(donate)}`,
    });
  }
  if (typeof fn !== "function") {
    throw new ArgumentError("make a jit function", { reason: `it takes a function, not ${describe(fn)}` });
  }
  checkFunction("make a jit function", "it", fn);
  if (fn.constructor.name === "AsyncFunction") throw asyncError();
  let calls: JitCalls | undefined;
  const call = (args: unknown[]): unknown => {
    if (calls === undefined) {
      if (makeCalls === undefined) needParts("call a jit function");
      calls = makeCalls!(fn as unknown as AnyFunction, options);
    }
    return calls.call(args);
  };
  const made = (...args: A): R => {
    // a part of another one, or of a graph that grad, vmap, jvp or checkpoint works on
    const isInside = currentCapture() !== undefined || useLog.listener !== undefined || isTransformed();
    return (isInside ? callInside(fn as unknown as AnyFunction, args) : call(args)) as R;
  };
  states.set(made, () => calls);
  return Object.defineProperties(made, {
    name: { value: fn.name === "" ? "jit" : fn.name },
    reset: { value: (): void => calls?.reset() },
    stats: { get: (): JitStats => ({ ...(calls?.stats ?? NO_CALLS) }) },
  }) as unknown as JitFunction<A, R>;
}
