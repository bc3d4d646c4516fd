/**
 * Automatic differentiation as a user sees it: `loss.backward()` fills `.grad` of the tensors that require it, and
 * `loss.gradient(targets)` returns gradients as tensors. Both only build graph; nothing runs.
 *
 * @module
 */
import { ArgumentError, DTypeError, ShapeError, StaleReadError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { checkOptions, describe } from "../../helpers/options.ts";
import { userLine } from "../../helpers/stack.ts";
import { broadcastTo, reshape } from "../../uop/core/build_movement.ts";
import { ShapeArg } from "../../uop/core/args.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { tied } from "../../uop/graph/given_gradient.ts";
import { computeGradient } from "../../uop/graph/gradient.ts";
import { fromPairs, partsOf } from "../../uop/graph/complex.ts";
import { latest, resolve } from "../../uop/graph/resolve.ts";
import { isMemory, noted, shown } from "../../uop/graph/writes.ts";
import { type Operand, requiring, TensorBase } from "../handle/base.ts";
import { copiedFrom } from "../handle/memory_of.ts";
import { noGradient } from "../handle/weak_numbers.ts";
import { isScalarLeaf, materializeShape } from "../handle/broadcast.ts";
import { placeOf } from "../handle/claims.ts";
import { placed } from "../handle/creation.ts";
import { dividedGradient } from "../handle/placed.ts";
import { detachNode } from "../nodes/numeric.ts";
import { reduceNode } from "../nodes/reduce_nodes.ts";
import { castNode } from "../nodes/scalars.ts";
import { checkLost, lostBelow } from "./lineage.ts";
import { forgetOrigin, hasOrigin, liveLeaves, targetsOf, type Ways, waysTo } from "./origins.ts";

/**
 * A loss whose `backward()` filled a gradient: a handle on its node, and whether the user's handle is still alive. A
 * WeakRef keeps its target until the running job ends, and with it a whole graph: so it is to a token of the handle.
 */
interface Loss {
  readonly alive: WeakRef<object>;
  readonly tensor: TensorBase;
}

/** What stands for a handle without keeping it alive. */
const tokens = new WeakMap<TensorBase, object>();

function tokenOf(t: TensorBase): object {
  let token = tokens.get(t);
  if (token === undefined) tokens.set(t, token = {});
  return token;
}

/** The losses of a gradient. They are no larger than its own graph. */
const losses = new WeakMap<TensorBase, readonly Loss[]>();

/** Of multiples of losses: the losses, which are remembered with them. */
const multiples = new WeakMap<TensorBase, BackwardTensor>();

/** Notes that a loss, which is what is read, is differentiated by a multiple of it. */
export function noteMultiple(multiple: TensorBase, loss: BackwardTensor): void {
  multiples.set(multiple, loss);
}

/** What a gradient was clipped by, which is read after the step like a loss. */
const norms = new WeakMap<TensorBase, TensorBase>();

/** Notes the norm that gradients were clipped by: a step realizes it with the losses. */
export function noteNorm(grads: readonly TensorBase[], norm: TensorBase): void {
  norms.set(grads[0], norm);
}

/** Handles that stand for losses, which nobody else has. */
const standIns = new WeakSet<TensorBase>();
/** Whether a handle stands for a loss that is remembered. */
export function isRememberedLoss(t: TensorBase): boolean {
  return standIns.has(t);
}

/**
 * The losses that filled these gradients and still exist, and norms that these were clipped by, each once: `opt.step()`
 * realizes them with the update.
 */
export function lossesOf(grads: readonly TensorBase[]): TensorBase[] {
  const found = new Set<TensorBase>();
  for (const g of grads) {
    for (const { alive, tensor } of losses.get(g) ?? []) if (alive.deref() !== undefined) found.add(tensor);
    const norm = norms.get(g);
    if (norm !== undefined) found.add(norm);
  }
  return [...found];
}

/** Forgets which losses filled these gradients, and their graphs. */
export function forgetLosses(grads: readonly TensorBase[]): void {
  for (const g of grads) {
    for (const { tensor } of losses.get(g) ?? []) forgetOrigin(tensor.uop);
    losses.delete(g);
    norms.delete(g);
  }
}

/** A target of differentiation: the node to ask for, and how its gradient becomes that of the tensor. */
interface Target {
  readonly node: UOp;
  readonly finish: (gradient: UOp) => UOp;
}

/**
 * Where a tensor is in a graph. Movement builders keep apart what tensors name, so that it is there as its own node, or not
 * at all. Those of complex numbers move pairs, which no tensor names: a shape of memory is asked for at that.
 */
function targetOf(u: UOp, graph: ReadonlySet<UOp>): Target | undefined {
  if (graph.has(u)) return { node: u, finish: (g) => g };
  if (u.op !== Ops.COMPLEX) return undefined;
  const [pairs] = u.src,
    shape = shapeOf(pairs),
    finish = (g: UOp) => fromPairs(materializeShape(reshape(g, shape), shape));
  let base = pairs;
  while (base.op === Ops.RESHAPE) base = base.src[0];
  for (const node of isMemory(base) ? [base, pairs] : [pairs]) if (graph.has(node)) return { node, finish };
  return undefined;
}

/** A node under another shape, of its own. */
function shaped(u: UOp, shape: readonly number[]): UOp {
  return sameArray(shapeOf(u), shape) ? u : uop(Ops.RESHAPE, u.dtype, [u], new ShapeArg(shape));
}

/** Lets a node that was built anew read what it was realized as. */
function settle(made: UOp, end: UOp): void {
  if (made !== end) made.becomes ??= end;
}

/** Throws for a target that a graph does not have, but may have been made from. @throws {ArgumentError} */
function checkUnused(target: UOp, graph: ReadonlySet<UOp>, i: number): void {
  if (target.op === Ops.COMPLEX) {
    if (!partsOf(target).some((x) => graph.has(x) && !isScalarLeaf(x))) return checkUnused(target.src[0], graph, i);
    throw new ArgumentError(`compute the gradient with respect to target ${i}`, {
      reason: "it is a complex number that was computed of two real ones, which the graph knows apart; compute from " +
        "z.contiguous(), and ask for that",
    });
  }
  let base = target, isPart = false;
  for (; isMovement(base.op); base = base.src[0]) isPart ||= graph.has(base.src[0]);
  if (!isPart && !isScalarLeaf(base)) return;
  throw new ArgumentError(`compute the gradient with respect to target ${i}`, {
    reason: isScalarLeaf(base)
      ? "it is a constant; make it with requiresGrad: true"
      : "it is a view, and the tensor was computed from what it views; compute from view.contiguous(), and ask for that",
  });
}

/**
 * Gradients of linear functions are no functions of the targets: they become so in name, so that a gradient of them is
 * zeros, and not an error.
 */
function tiedTo(targets: readonly UOp[], gradients: readonly UOp[]): UOp[] {
  const known = new Set(targets), depends = new Set<UOp>();
  for (const u of toposort(gradients)) {
    if (u.op !== Ops.DETACH && (known.has(u) || u.src.some((s) => s.dtype.isFloat && depends.has(s)))) depends.add(u);
  }
  return gradients.map((g) => depends.has(g) ? g : tied(g, targets));
}

/** A graph to differentiate, in which the realized nodes on the way to the targets are built anew. */
class Differentiable {
  private readonly memo = new Map<UOp, UOp>();
  private readonly ways: Ways;
  readonly root: UOp;

  constructor(root: UOp, targets: readonly TensorBase[], all: boolean) {
    const { memo } = this, { behind, unread } = this.ways = waysTo(root, targetsOf(targets), all);
    for (const [buffer, origin] of behind) {
      const made = resolve(origin, memo, unread);
      memo.set(buffer, buffer.op === Ops.BUFFER ? shaped(made, shapeOf(buffer)) : made);
    }
    for (const u of unread) resolve(u, memo, unread); // targets that are on the way
    this.root = resolve(root, memo, unread);
  }

  /** Whether any target is reached. */
  get open(): boolean {
    return this.ways.open;
  }

  /** What stands for `u` in the graph. */
  get(u: UOp): UOp {
    return resolve(u, this.memo);
  }

  /** Lets what has been built anew read what it was realized as: the values of the forward pass. */
  readAgain(): void {
    const { memo, ways } = this;
    for (const u of ways.unread) settle(memo.get(u)!, latest(u));
  }

  /** @throws {StaleReadError} if this reads an earlier value of a target */
  checkVersions(): void {
    const { overwritten } = this.ways;
    if (overwritten === undefined) return;
    throw new StaleReadError({
      writtenAt: String(overwritten.writtenAt || "an unknown line"),
      readAt: String(this.root.line ?? userLine()),
      action: "differentiate with respect to",
      wayOut: "call backward() before the write, or detach() what was computed before it",
    });
  }
}

/** The tensors that require gradients and that a gradient of one of these would reach. */
export function reachedLeaves(tensors: readonly TensorBase[]): TensorBase[] {
  const live = liveLeaves(), found = new Set<TensorBase>();
  for (const t of live.length === 0 ? [] : tensors) {
    if (!t.dtype.isFloat) continue;
    const it = new Differentiable(t.uop, live, true);
    if (!it.open) continue;
    const graph = new Set(toposort(it.root));
    for (const leaf of live) if (targetOf(it.get(leaf.uop), graph) !== undefined) found.add(leaf);
    it.readAgain();
  }
  return [...found];
}

/** Whether a node shows memory through which no gradient goes on: that of no leaf, and of nothing computed from one. */
function isConstant(u: UOp, leaves: ReadonlySet<unknown>): boolean {
  const { base } = shown(u);
  return base.op === Ops.BUFFER && !leaves.has(placeOf(base)) && !hasOrigin(base);
}

/** Tensors that can be differentiated. */
export abstract class BackwardTensor extends TensorBase {
  /**
   * Adds the gradient of this to `grad` of every tensor that this depends on and that requires gradients; returns this.
   * Lazy: nothing runs. `gradient` is that of something with respect to this, of this shape; a scalar's default is 1.
   * Reading or realizing a tensor, before or after something is built on it, changes no gradient; only `detach()` cuts.
   * What was computed before an optimizer's step is values after it, and so is what this fills: gradients that can be
   * differentiated again are those of {@linkcode BackwardTensor.gradient}.
   * @throws {ShapeError} if this is no scalar and `gradient` is missing, or has another shape
   * @throws {DTypeError} if this is not floating-point
   * @throws {ArgumentError} if nothing that this was computed from requires a gradient
   * @throws {StaleReadError} if this was computed from a value of such a tensor that has been assigned over since
   */
  backward(gradient?: Operand): this {
    if (this.dtype.isComplex) {
      this.realLoss(gradient, "backward from").backward();
      return this;
    }
    const seed = this.seed("backward from", gradient), live = liveLeaves();
    requiring.taken = true;
    const it = new Differentiable(this.uop, live, true), { root } = it;
    it.checkVersions();
    const graph = new Set(toposort(root));
    const leaves: [BackwardTensor, Target][] = [];
    for (const leaf of live) {
      const target = targetOf(it.get(leaf.uop), graph);
      if (target !== undefined) leaves.push([leaf as BackwardTensor, target]);
    }
    if (!it.open) {
      throw new ArgumentError("backward", {
        reason:
          "nothing that this was computed from requires a gradient; make tensors with requiresGrad: true, or the " +
          "optimizer first (a graph ends with the optimizer's step, with Tensor.noGrad, and with what jit() returns)",
      });
    }
    const gradients = computeGradient(root, seed, leaves.map(([, t]) => t.node));
    it.readAgain();
    noted.count++; // a replay that overwrites what these gradients read looks for them
    const read = multiples.get(this), all = read === undefined ? [this] : [this, read];
    const remembered = all.map((t) => t.remembered()), places = new Set(live.map((t) => placeOf(t.uop)));
    for (const [leaf, target] of leaves) {
      const g = gradients.get(target.node);
      if (g === undefined) continue;
      const before = leaf.grad ?? undefined;
      // of a sum it is a constant, which lives nowhere by itself
      const there = placed(materializeShape(target.finish(g), leaf.shape), leaf.device);
      const made = dividedGradient(leaf, there);
      const sum = before === undefined ? made : before.uop.add(made);
      const grad = leaf.wrap(isConstant(sum, places) ? sum : uop(Ops.DETACH, sum.dtype, [sum]));
      const known = before === undefined ? [] : losses.get(before) ?? [];
      losses.set(grad, [...known.filter((l) => l.alive.deref() !== undefined), ...remembered]);
      leaf.grad = grad;
    }
    return this;
  }

  /**
   * The gradients of this with respect to `targets`, as tensors of their shapes; fills no `grad`. They can be
   * differentiated again. `gradient` is that of something with respect to this; a scalar's default is 1. Of a target that
   * this does not depend on it is zeros. What is read or realized in between keeps its graph only where a tensor that it was
   * computed from requires a gradient. Equal constants (`Tensor.ones([2])` made twice) are one value to it; those made
   * with `requiresGrad` are two.
   * @throws {ShapeError} as {@linkcode backward} @throws {DTypeError} if this or a target is not floating-point
   * @throws {ArgumentError} for a target without requiresGrad from which something was computed and then read or realized
   * that this was computed from, for a constant, and for a part of a tensor that this was made from, of which the graph knows
   * the whole alone
   */
  gradient(targets: readonly this[], options: { readonly gradient?: Operand } = {}): this[] {
    checkOptions("compute a gradient", options, ["gradient"]);
    if (this.dtype.isComplex) return this.realLoss(options.gradient, "compute the gradient of").gradient(targets);
    if (!Array.isArray(targets)) {
      throw new ArgumentError("compute a gradient", { reason: `it takes a list of tensors, not ${describe(targets)}` });
    }
    targets = Array.from(targets); // holes of a list, too
    const seed = this.seed("compute the gradient of", options.gradient);
    const it = new Differentiable(this.uop, targets.filter((t) => t instanceof TensorBase), false), { root } = it;
    const graph = new Set(toposort(root));
    const found = targets.map((t: BackwardTensor, i) => {
      if (!(t instanceof TensorBase)) {
        throw new ArgumentError("compute a gradient", { reason: `target ${i} is no tensor but ${describe(t)}` });
      }
      if (!t.dtype.isFloat) {
        throw new DTypeError(`compute a gradient with respect to target ${i} of dtype`, {
          dtypes: [t.dtype],
          reason: noGradient(t),
        });
      }
      const u = it.get(t.uop), before = copiedFrom(t, t.uop), ways: Target[] = [];
      for (const node of before === undefined ? [u] : [u, it.get(before)]) {
        const target = isScalarLeaf(node) ? undefined : targetOf(node, graph);
        if (target !== undefined) ways.push(target);
      }
      if (ways.length === 0 && t.numel() > 0) checkUnused(u, graph, i);
      return ways;
    });
    const gradients = computeGradient(root, seed, found.flatMap((ways) => ways.map((t) => t.node)));
    it.readAgain();
    const lost = lostBelow(root, targets);
    const made = targets.map((t, i) => {
      const parts = found[i].flatMap(({ node, finish }) => {
        const g = gradients.get(node);
        return g === undefined ? [] : [finish(g)];
      });
      if (parts.length === 0 && t.numel() > 0) it.checkVersions();
      if (t.requiresGrad !== true && t.numel() > 0) checkLost(lost, t, i, parts.length > 0);
      return materializeShape(parts.length === 0 ? constant(0, t.dtype) : parts.reduce((a, b) => a.add(b)), t.shape);
    });
    const nodes = targets.map((t) => it.get(t.uop));
    return tiedTo(nodes, made).map((g) => this.wrap(g));
  }

  /** The real number whose gradients are those of this, complex, for the gradient `g` of it: Re(conj(g) z), summed. */
  private realLoss(g: Operand | undefined, action: string): this {
    if (g === undefined) {
      throw new DTypeError(`${action} a tensor of dtype`, {
        dtypes: [this.dtype],
        reason: "only a real scalar has an implicit gradient; take abs() or real() and sum it, or pass a gradient",
      });
    }
    const given = this.operand(g);
    this.checkSeed(action, given.shape);
    const [a, b] = partsOf(this.uop), [p, q] = partsOf(detachNode(castNode(given.uop, this.dtype)));
    const sum = a.mul(p).add(b.mul(q)), axes = shapeOf(sum).map((_, i) => i);
    return this.wrap(reshape(reduceNode(sum, Ops.ADD, axes), []));
  }

  /** This, for the gradients that it fills. */
  private remembered(): Loss {
    this.hold();
    const tensor = this.wrapNew(this.uop).borrow();
    standIns.add(tensor);
    return { alive: new WeakRef(tokenOf(this)), tensor };
  }

  /** Throws for a gradient of another shape than this. @throws {ShapeError} */
  private checkSeed(action: string, given: readonly number[]): void {
    const { shape } = this;
    if (sameArray(given, shape)) return;
    throw new ShapeError(`${action} a tensor with a gradient of`, {
      shapes: [shape, given],
      reason: "they must be equal",
    });
  }

  /** The gradient to begin with. */
  private seed(action: string, gradient: Operand | undefined): UOp {
    const shape = this.shape;
    if (!this.dtype.isFloat) {
      throw new DTypeError(`${action} a tensor of dtype`, {
        dtypes: [this.dtype],
        reason: noGradient(this),
      });
    }
    if (gradient === undefined) {
      if (this.numel() !== 1) {
        throw new ShapeError(`${action} a tensor of`, {
          shapes: [shape],
          reason: "only a scalar has an implicit gradient; reduce it, or pass a gradient of its shape",
        });
      }
      const one = constant(1, this.dtype);
      return shape.length === 0 ? one : broadcastTo(one, shape);
    }
    const given = this.operand(gradient);
    this.checkSeed(action, given.shape);
    return resolve(given.uop).cast(this.dtype);
  }
}
