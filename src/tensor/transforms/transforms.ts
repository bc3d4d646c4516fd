/**
 * Functions of functions: `grad`, `valueAndGrad`, `jvp`, `vmap` and `checkpoint`. Each calls the function it is given once,
 * on stand-ins, and works on the graph that comes out; so they nest, and what they give is lazy like everything else.
 * Arguments and results are tensors or trees of objects, arrays and maps with tensors.
 *
 * @module
 */
import { defaultFloat } from "../../dtype/promotion.ts";
import { cutsGradients, withContext } from "../../helpers/env.ts";
import { ArgumentError, DTypeError, ShapeError, TRACED } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { checkFunction, checkInteger, checkOptions, describe } from "../../helpers/options.ts";
import { leavesOf, mapLeaves } from "../../helpers/tree.ts";
import { ReduceArg, Storage } from "../../uop/core/args.ts";
import { broadcastTo, permute, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { bufferNode, constant, nodesMade, type UOp, uop } from "../../uop/core/uop.ts";
import { batchGraph } from "../../uop/graph/batch.ts";
import { computeGradient } from "../../uop/graph/gradient.ts";
import { bare, fromPairs, shapedLike } from "../../uop/graph/complex.ts";
import { resolve } from "../../uop/graph/resolve.ts";
import { checkLost, lostBelow } from "../gradients/lineage.ts";
import { checkIntegers } from "../handle/axes.ts";
import { internals, TensorBase } from "../handle/base.ts";
import { noGradient } from "../handle/weak_numbers.ts";
import { materializeShape } from "../handle/broadcast.ts";
import { Tensor } from "../tensor.ts";

/** Options of {@linkcode grad} and {@linkcode valueAndGrad}. */
export interface GradOptions<N extends Argnums = Argnums, H extends boolean = boolean> {
  /** Which arguments to differentiate with respect to. Default 0; a list gives a list of gradients. */
  readonly argnums?: N;
  /** The function gives `[value, aux]`, and aux is passed through. Default false. */
  readonly hasAux?: H;
}

/** The number of an argument, from 0, or a list of them. */
export type Argnums = number | readonly number[];

/** The gradient by an argument: in its form, a tensor for a number. */
export type Gradient<X> = X extends number ? Tensor : X;

/** Gradients by the arguments that are named: one, or a list. */
export type Gradients<A extends unknown[], N extends Argnums> = N extends readonly number[]
  ? { -readonly [K in keyof N]: N[K] extends number ? Gradient<A[N[K]]> : never }
  : N extends number ? Gradient<A[N]>
  : never;

/** Options of {@linkcode vmap}. */
export interface VmapOptions {
  /** The axis of each argument to map over, for all tensors in it; null for an argument that is not mapped. Default 0. */
  readonly inAxes?: number | null | readonly (number | null)[];
  /** Where the new axis stands in the results. Default 0. */
  readonly outAxes?: number;
}

/** A function of tensors, or of trees of them. */
export type TensorFunction<A extends unknown[] = never[], R = unknown> = (...args: A) => R;

const isTensor = (x: unknown): x is TensorBase => x instanceof TensorBase;

const { wrap } = internals;

/** How many functions run on stand-ins now, one within another. */
let depth = 0;

/** Whether a function runs on stand-ins, whose graph is to be seen: a jit function within it is called. */
export function isTransformed(): boolean {
  return depth > 0;
}

function call(action: string, fn: TensorFunction<never[]>, args: readonly unknown[]): unknown {
  checkFunction(action, "fn", fn);
  let result: unknown;
  depth++;
  try {
    result = (fn as (...a: unknown[]) => unknown)(...args);
  } finally {
    depth--;
  }
  if (result instanceof Promise) {
    result.catch(() => {});
    throw new ArgumentError(action, { reason: "the function is asynchronous; make it return tensors, not a promise" });
  }
  return result;
}

/** Stand-ins for the tensors of a tree: the same values, as nodes that nothing else can be. */
function tracers(tree: unknown, first: number): { tree: unknown; nodes: UOp[]; tensors: TensorBase[] } {
  const nodes: UOp[] = [], tensors: TensorBase[] = [];
  const made = mapLeaves(tree, isTensor, (t) => {
    const node = uop(Ops.CONTIGUOUS_BACKWARD, t.dtype, [materializeShape(t.uop, t.shape)], first + nodes.length);
    nodes.push(node);
    tensors.push(t);
    return wrap(t, node);
  });
  return { tree: made, nodes, tensors };
}

/** A number that stands for an argument, as a scalar of floats; all else as it is. */
function scalarOf(x: unknown): unknown {
  return typeof x === "number" ? new Tensor(x, { dtype: defaultFloat() }) : x;
}

/** Throws for an argument in which there is nothing to differentiate by, but something that was meant so. */
function checkArgument(action: string, n: number, x: unknown): void {
  const isTree = typeof x === "object" && x !== null && !ArrayBuffer.isView(x);
  if (isTree && leavesOf(x, (v) => typeof v === "number").length === 0) return;
  throw new ArgumentError(action, {
    reason: `argument ${n} is ${describe(x)}, in which there is no tensor; make its numbers tensors of floats, as ` +
      'new Tensor([1, 2], { dtype: "float32" })',
  });
}

function checkFloats(action: string, tensors: readonly TensorBase[]): void {
  for (const t of tensors) {
    if (t.dtype.isFloat) continue;
    throw new DTypeError(`${action} with respect to a tensor of dtype`, {
      dtypes: [t.dtype],
      reason: noGradient(t),
    });
  }
}

function zerosLike(t: TensorBase): UOp {
  return materializeShape(constant(0, t.dtype), t.shape);
}

/** Throws unless there is a function, and argnums names arguments by number. @throws {ArgumentError} */
export function checkArgnums(
  action: string,
  fn: unknown,
  options: GradOptions,
  known: readonly string[] = ["argnums", "hasAux"],
): readonly number[] {
  checkFunction(action, "fn", fn);
  const { argnums = 0 } = checkOptions(action, options, known);
  const list = typeof argnums === "number" ? [argnums] : checkIntegers(action, "argnums", argnums);
  for (const n of list) checkInteger(action, "argnums", n, 0);
  return list;
}

/** Runs `body`, which differentiates something that it computes itself: in `Tensor.noGrad`, too. */
function withGradients<T>(action: string, body: () => T): T {
  return cutsGradients() ? withContext(action, { GRAD: 1 }, body) : body();
}

function differentiate(action: string, fn: TensorFunction<never[]>, options: GradOptions, args: readonly unknown[]) {
  return withGradients(action, () => differentiated(action, fn, options, args));
}

function differentiated(action: string, fn: TensorFunction<never[]>, options: GradOptions, args: readonly unknown[]) {
  const several = Array.isArray(options.argnums);
  const argnums = several ? options.argnums as readonly number[] : [(options.argnums as number | undefined) ?? 0];
  const given = args.map((x, i) => argnums.includes(i) ? scalarOf(x) : x), stand = [...given];
  const parts = new Map<number, ReturnType<typeof tracers>>();
  let count = 0;
  for (const n of argnums) {
    if (!Number.isInteger(n) || n < 0 || n >= args.length) {
      throw new ArgumentError(action, {
        reason: `argnums names argument ${describe(n)}, and ${args.length} are given`,
      });
    }
    const part = tracers(given[n], count);
    count += part.nodes.length;
    checkFloats(action, part.tensors);
    if (part.tensors.length === 0) checkArgument(action, n, given[n]);
    parts.set(n, part);
    stand[n] = part.tree;
  }
  const start = nodesMade(), result = call(action, fn, stand);
  if (options.hasAux && !Array.isArray(result)) {
    throw new ArgumentError(action, {
      reason: `with hasAux the function must give [value, aux], not ${describe(result)}`,
    });
  }
  const [value, aux] = options.hasAux ? result as [unknown, unknown] : [result, undefined];
  if (!isTensor(value)) {
    throw new ArgumentError(action, { reason: `the function gives ${describe(value)}, not a tensor` });
  }
  if (value.numel() !== 1 || !value.isFloatingPoint()) {
    throw new ShapeError(`${action} of a function whose value is ${value.dtype} of`, {
      shapes: [value.shape],
      reason: "the value must be a floating-point scalar; reduce it",
    });
  }
  const root = resolve(value.uop), memo = new Map<UOp, UOp>();
  const targets = [...parts.values()].flatMap((p) => p.nodes.map((n) => bare(resolve(n, memo))));
  const found = computeGradient(root, materializeShape(constant(1, value.dtype), value.shape), targets);
  const lost = lostBelow(root, [], start);
  const grads = argnums.map((n) => {
    const { nodes, tensors } = parts.get(n)!;
    const at = (u: UOp): UOp | undefined => found.get(bare(memo.get(u)!));
    for (const u of nodes) checkLost(lost, u, n, at(u) !== undefined);
    return mapLeaves(given[n], isTensor, (t, i) => {
      const g = at(nodes[i]);
      if (g === undefined) return wrap(t, zerosLike(tensors[i]));
      const shape = shapeOf(bare(t.uop)), whole = materializeShape(g, shape);
      return wrap(t, t.dtype.isComplex ? fromPairs(whole) : whole);
    });
  });
  return { value: options.hasAux ? [value, aux] : value, gradients: several ? grads : grads[0] };
}

/**
 * The gradient of `fn`, a function with a floating-point scalar value, as a function of the same arguments. It gives the
 * gradient in the form of the argument (`argnums`; a list of them for a list), zeros where the value does not depend on
 * a tensor. An argument that is a number is a scalar tensor of floats to `fn`, as is its gradient. What `fn` closes over is a constant. Nests: `grad(x => grad(f)(x).sum())`.
 *
 * ```ts
 * import { grad, Tensor } from "../../../mod.ts";
 * const slope = grad((x: Tensor) => x.pow(3).sum());
 * console.log(await slope(new Tensor([1.0, 2.5])).tolist()); // [3, 18.75]
 * ```
 *
 * @throws {ShapeError} if the value is no floating-point scalar
 * @throws {DTypeError} for an argument that is not floating-point
 * @throws {ArgumentError} for an argument that is not there, a function that gives no tensor, and one that goes on with
 * what it has read or realized
 */
export function grad<
  A extends unknown[] = Tensor[],
  R = unknown,
  const N extends Argnums = 0,
  const H extends boolean = false,
>(
  fn: TensorFunction<A, R>,
  options?: GradOptions<N, H>,
): TensorFunction<
  A,
  H extends true ? [Gradients<A, N>, R extends readonly [unknown, infer X] ? X : unknown] : Gradients<A, N>
>;
export function grad<A extends unknown[]>(fn: TensorFunction<A>, options: GradOptions = {}): TensorFunction<A> {
  checkArgnums("compute grad", fn, options);
  return (...args: A) => {
    const { value, gradients } = differentiate("compute grad", fn, options, args);
    return options.hasAux ? [gradients, (value as unknown[])[1]] : gradients;
  };
}

/** As {@linkcode grad}, giving `[value, gradient]`; with `hasAux` `[[value, aux], gradient]`. @throws as grad */
export function valueAndGrad<A extends unknown[] = Tensor[], R = unknown, const N extends Argnums = 0>(
  fn: TensorFunction<A, R>,
  options: GradOptions<N> = {},
): TensorFunction<A, [R, Gradients<A, N>]> {
  checkArgnums("compute valueAndGrad", fn, options);
  return (...args: A) => {
    const { value, gradients } = differentiate("compute valueAndGrad", fn, options, args);
    return [value as R, gradients as Gradients<A, N>];
  };
}

/** A node of this shape that stands for a tensor and has no memory: it must not be left in what is realized. */
function placeholder(t: TensorBase, shape: readonly number[]): { node: UOp; leaf: UOp } {
  const { real, isComplex } = t.dtype, own = isComplex ? [...shape, 2] : shape;
  const storage = new Storage(t.device, real, own.reduce((a, b) => a * b, 1));
  storage.disposedAt = TRACED;
  const leaf = bufferNode(storage), node = reshape(leaf, own);
  return { node: isComplex ? fromPairs(node) : node, leaf };
}

/**
 * The value of `fn` at `primals` and its derivative along `tangents`: `[value, tangent]`, in the form of the value. By
 * differentiating the reverse-mode gradient with respect to its seed (J. Townsend, "A new trick for calculating Jacobian
 * vector products", 2017): the same table of rules serves both modes, and the dead part is never computed.
 *
 * ```ts
 * import { jvp, Tensor } from "../../../mod.ts";
 * const [y, dy] = jvp((x: Tensor) => x.mul(x), [new Tensor([1.5])], [new Tensor([2.5])]);
 * console.log(await y.tolist(), await dy.tolist()); // [2.25] [7.5]
 * ```
 *
 * @param primals the arguments; numbers are scalars of floats @param tangents as many, of the same form, shapes and dtypes
 * @throws {ShapeError} if a tangent has another shape than its primal @throws {DTypeError} for tensors that are no floats
 */
export function jvp<A extends unknown[], R>(fn: TensorFunction<A, R>, primals: A, tangents: A): [value: R, tangent: R] {
  return withGradients("jvp()", () => pushed(fn, primals, tangents));
}

function pushed<A extends unknown[], R>(fn: TensorFunction<A, R>, primals: A, tangents: A): [value: R, tangent: R] {
  const action = "compute jvp";
  if (!Array.isArray(primals) || !Array.isArray(tangents)) {
    throw new ArgumentError(action, { reason: "primals and tangents are lists of arguments" });
  }
  const inputs = tracers(primals.map(scalarOf), 0);
  const directions = leavesOf(tangents.map(scalarOf), isTensor);
  if (inputs.tensors.length === 0) primals.forEach((x, i) => checkArgument(action, i, x));
  checkFloats(action, inputs.tensors);
  if (directions.length !== inputs.tensors.length) {
    throw new ArgumentError(action, {
      reason: `there are ${inputs.tensors.length} tensors in primals and ${directions.length} in tangents`,
    });
  }
  inputs.tensors.forEach((p, i) => {
    if (sameArray(p.shape, directions[i].shape)) return;
    throw new ShapeError(action, {
      shapes: [p.shape, directions[i].shape],
      reason: `primal ${i} and its tangent must have one shape`,
    });
  });
  const value = call(action, fn, inputs.tree as unknown[]);
  const memo = new Map<UOp, UOp>();
  const targets = inputs.nodes.map((n) => bare(resolve(n, memo)));
  const along = directions.map((d, i) => {
    const t = inputs.tensors[i], u = resolve(d.uop, memo).cast(t.dtype);
    return t.dtype.isComplex ? bare(materializeShape(u, t.shape)) : u;
  });
  const tangent = mapLeaves(value, isTensor, (y) => {
    if (!y.dtype.isFloat) return wrap(y, zerosLike(y));
    const seed = placeholder(y, y.shape);
    const pulled = computeGradient(bare(resolve(y.uop, memo)), bare(seed.node), targets);
    // the sum over inputs of <gradient, tangent>: linear in the seed, and its derivative is the tangent of y
    let sum: UOp | undefined;
    targets.forEach((t, i) => {
      const g = pulled.get(t);
      if (g === undefined) return;
      const part = total(g.mul(materializeShape(along[i], shapeOf(g)))).cast(y.dtype.real);
      sum = sum === undefined ? part : sum.add(part);
    });
    const back = sum === undefined
      ? undefined
      : computeGradient(sum, constant(1, y.dtype.real), [seed.leaf]).get(seed.leaf);
    return wrap(y, back === undefined ? zerosLike(y) : shapedLike(y.uop, back));
  });
  return [value as R, tangent as R];
}

/** The sum of all elements, as a scalar. */
function total(x: UOp): UOp {
  const shape = shapeOf(x);
  if (shape.length === 0) return x;
  return reshape(uop(Ops.REDUCE, x.dtype, [x], new ReduceArg(Ops.ADD, shape.map((_, i) => i))), []);
}

function normalizeAxis(action: string, axis: unknown, rank: number, shape: readonly number[]): number {
  if (typeof axis !== "number") {
    throw new ArgumentError(action, { reason: `an axis must be an integer, not ${describe(axis)}` });
  }
  if (Number.isInteger(axis) && axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  throw new ShapeError(action, { shapes: [shape], axis, reason: `axis ${axis} is outside of [${-rank}, ${rank})` });
}

/**
 * `fn`, a function of single examples, as a function of batches: `fn` is called once, on stand-ins without the mapped axis,
 * and its graph is given the axis back. Arguments with axis null, and what `fn` closes over, are shared by all examples, as
 * are random numbers that `fn` draws. `setAt` in `fn` writes to a copy for each example. A `gradFxn` in `fn` is kept, as a
 * function of single examples.
 *
 * ```ts
 * import { Tensor, vmap } from "../../../mod.ts";
 * const dot = (a: Tensor, b: Tensor) => a.mul(b).sum();
 * const rows = vmap(dot, { inAxes: [0, null] });
 * console.log(await rows(new Tensor([[1, 2], [3, 4]]), new Tensor([1, 10])).tolist()); // [21, 43]
 * ```
 *
 * @throws {ShapeError} for an axis that is not there, or mapped axes of several sizes
 * @throws {ArgumentError} if nothing is mapped, or a custom kernel reads or writes what is
 */
export function vmap<A extends unknown[] = Tensor[], R = unknown>(
  fn: TensorFunction<A, R>,
  options: VmapOptions = {},
): TensorFunction<A, R> {
  const action = "vmap";
  checkOptions(action, options, ["inAxes", "outAxes"]);
  checkFunction(action, "fn", fn);
  return (...args: A): R => {
    const { inAxes = 0, outAxes = 0 } = options;
    if (Array.isArray(inAxes) && inAxes.length !== args.length) {
      throw new ArgumentError(action, { reason: `inAxes has ${inAxes.length} axes for ${args.length} arguments` });
    }
    const leaves = new Map<UOp, UOp>();
    let size = -1, first: number[] = [];
    const memo = new Map<UOp, UOp>();
    const stand = args.map((arg, i) => {
      const axis = Array.isArray(inAxes) ? inAxes[i] as number | null : inAxes as number | null;
      if (axis === null) return arg;
      return mapLeaves(arg, isTensor, (t) => {
        const shape = t.shape, at = normalizeAxis(`${action} over argument ${i}`, axis, shape.length, shape);
        if (size >= 0 && shape[at] !== size) {
          throw new ShapeError(action, {
            shapes: [first, shape],
            reason: `they are mapped over ${size} and ${shape[at]}`,
          });
        }
        if (size < 0) [size, first] = [shape[at], shape];
        const inner = shape.filter((_, a) => a !== at);
        const { node, leaf } = placeholder(t, inner);
        const front = permute(materializeShape(resolve(t.uop, memo), shape), [
          at,
          ...shape.map((_, a) => a).filter((a) => a !== at),
        ]);
        leaves.set(leaf, reshape(bare(front), [size, ...shapeOf(leaf)]));
        return wrap(t, node);
      });
    });
    if (size < 0) {
      throw new ArgumentError(action, { reason: "no argument is mapped: inAxes names no axis of a tensor" });
    }
    const value = call(action, fn, stand);
    return mapLeaves(value, isTensor, (y) => {
      const root = resolve(y.uop, memo), shape = y.shape;
      const [batched] = batchGraph([bare(root)], leaves, size), isPairs = batched !== undefined && y.dtype.isComplex;
      const u = isPairs ? fromPairs(batched) : batched ?? broadcastTo(materializeShape(root, shape), [size, ...shape]);
      const to = normalizeAxis(`${action} to outAxes`, outAxes, shape.length + 1, shape);
      const order = shape.map((_, a) => a + 1);
      order.splice(to, 0, 0);
      return wrap(y, permute(u, order));
    }) as R;
  };
}

/**
 * `fn`, whose backward pass computes its intermediates again from the arguments instead of keeping them: less memory for
 * one more forward pass (T. Chen et al., "Training deep nets with sublinear memory cost", 2016). Values and gradients are
 * the same; random numbers that `fn` draws are drawn again equal.
 *
 * ```ts
 * import { checkpoint, Tensor } from "../../../mod.ts";
 * const block = checkpoint((x: Tensor) => x.sin().exp());
 * const x = new Tensor([1, 2], { requiresGrad: true });
 * block(x).sum().backward();
 * console.log((await x.grad!.tolist() as number[]).map((g) => g.toFixed(3))); // ["1.253", "-1.033"]
 * ```
 */
export function checkpoint<A extends unknown[] = Tensor[], R = unknown>(
  fn: TensorFunction<A, R>,
): TensorFunction<A, R> {
  checkFunction("checkpoint", "fn", fn);
  return (...args: A): R => {
    const inputs = tracers(args, 0);
    const value = call("checkpoint", fn, inputs.tree as unknown[]);
    const floats = inputs.nodes.map(bare);
    return mapLeaves(value, isTensor, (y) => {
      if (!y.dtype.isFloat) return y;
      return wrap(y, uop(Ops.CHECKPOINT, y.dtype, [materializeShape(y.uop, y.shape), ...floats]));
    }) as R;
  };
}
