/**
 * Reverse-mode differentiation of the tensor graph by one table of rules. In: a root, the gradient of something with
 * respect to it, and targets below it. Out: nodes of the same graph, one gradient a target, so that gradients can be
 * differentiated again. Only nodes on a path to a target are visited; constants, integers and comparisons have none.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { sumDType } from "../../dtype/promotion.ts";
import { ArgumentError, SpecError } from "../../helpers/errors.ts";
import { simplifySize } from "../algebra/sizes.ts";
import { argOf, ReduceArg, reduceOf, SkewArg } from "../core/args.ts";
import { CollectiveArg } from "../core/sharding.ts";
import { broadcastTo, expand, flip, pad, permute, reshape, shrink, skew, unskew } from "../core/build_movement.ts";
import { isMovement, opName, Ops } from "../core/ops.ts";
import { deviceOf, shapeOf } from "../core/shape.ts";
import { constant, floatConst, int, iota, toposort, type UOp, uop } from "../core/uop.ts";
import { extentOf, extentsOf, label, window, withExtents } from "./extent.ts";
import { GradientArg, zerosLike } from "./given_gradient.ts";
import { moveLike } from "./resolve.ts";

/** Adds to the gradient of a node; `make` is called only where somebody wants it. */
type Accumulate = (node: UOp, make: () => UOp) => void;
/** Hands the gradient `g` of node `u` on to its sources. `g` has the shape and dtype of `u`. */
type Rule = (u: UOp, g: UOp, add: Accumulate) => void;

/** Whether a node is zeros, whatever is computed. */
function isZeros(u: UOp): boolean {
  while (u.op === Ops.RESHAPE || u.op === Ops.EXPAND) u = u.src[0];
  return u.isConst(0);
}

/** Sum over `axes`, kept as size 1; small floats are accumulated in float32. */
function sumOver(x: UOp, axes: readonly number[]): UOp {
  if (axes.length === 0) return x;
  const shape = shapeOf(x);
  if (axes.some((a) => shape[a] === 0)) {
    return broadcastTo(constant(0, x.dtype), shape.map((n, i) => axes.includes(i) ? 1 : n));
  }
  const wide = x.cast(sumDType(x.dtype));
  return uop(Ops.REDUCE, wide.dtype, [wide], new ReduceArg(Ops.ADD, axes)).cast(x.dtype);
}

/** d max(a, b) / da: all where a is larger, half of it where they are equal. */
function maxShare(a: UOp, b: UOp, g: UOp): UOp {
  const zero = constant(0, g.dtype);
  return a.lt(b).where(zero, a.eq(b).where(g.mul(0.5), g));
}

function reduceRule(u: UOp, g: UOp, add: Accumulate): void {
  const [x] = u.src, shape = shapeOf(x);
  const { op, axes } = reduceOf(u);
  if (op === Ops.ADD) return add(x, () => expand(g, shape));
  const zero = constant(0, x.dtype);
  if (op === Ops.MAX) { // divided among the maxima
    return add(x, () => {
      const isMax = x.eq(expand(u, shape));
      const count = sumOver(isMax.cast(sumDType(x.dtype)), axes).cast(x.dtype);
      // of NaN there is no maximum among the elements: NaN is not hidden
      return isMax.where(
        expand(g.fdiv(count), shape),
        expand(count.eq(zero).where(constant(NaN, x.dtype), zero), shape),
      );
    });
  }
  add(x, () => expand(g, shape).mul(productOfOthers(x, axes)));
}

/** Of each element of `x` the product of all others over `axes`, also where some are zero. */
function productOfOthers(x: UOp, axes: readonly number[]): UOp {
  const shape = shapeOf(x), wide = sumDType(x.dtype), zero = constant(0, x.dtype);
  const isZero = x.eq(zero), rest = isZero.where(constant(1, x.dtype), x);
  const zeroCount = expand(sumOver(isZero.cast(wide), axes), shape);
  const product = expand(uop(Ops.REDUCE, x.dtype, [rest], new ReduceArg(Ops.MUL, axes)), shape);
  const others = isZero.where(
    zeroCount.eq(constant(1, wide)).where(product, zero),
    zeroCount.eq(constant(0, wide)).where(product.fdiv(rest), zero),
  );
  if (extentsOf(x) !== null || shape.includes(0)) return others;
  return uop(Ops.CHECKPOINT, x.dtype, [others, x], othersGradient(axes)); // selects by zeros hide how it changes there
}

const othersGradients = new Map<string, GradientArg>();

/** The gradient of {@linkcode productOfOthers}: for each element the sum over the others of g times what is left without both. */
function othersGradient(axes: readonly number[]): GradientArg {
  const known = othersGradients.get(String(axes));
  if (known !== undefined) return known;
  const made = new GradientArg((g, [x]) => {
    const sizes = shapeOf(x), order = [...sizes.keys()].filter((a) => !axes.includes(a)), rank = order.length;
    const lead = order.map((a) => sizes[a]), n = axes.reduce((p, a) => p * sizes[a], 1), square = [...lead, n, n];
    order.push(...axes);
    /** Repeats `u` for each element that is left out. */
    const repeated = (u: UOp) => expand(reshape(permute(u, order), [...lead, 1, n]), square);
    const position = (axis: number) => broadcastTo(reshape(iota(n), square.map((_, i) => i === axis ? n : 1)), square);
    const own = position(rank).eq(position(rank + 1));
    const left = productOfOthers(own.where(constant(1, x.dtype), repeated(x)), [rank + 1]);
    const sums = sumOver(own.where(constant(0, x.dtype), repeated(g).mul(left)), [rank + 1]);
    const inverse: number[] = [];
    order.forEach((a, i) => inverse[a] = i);
    return [permute(reshape(sums, order.map((a) => sizes[a])), inverse)];
  });
  othersGradients.set(String(axes), made);
  return made;
}

/** The chain of movement nodes from `u` down to what they move, outermost first. */
function chainOf(u: UOp): { chain: UOp[]; base: UOp } {
  const chain: UOp[] = [];
  while (isMovement(u.op)) {
    chain.push(u);
    u = u.src[0];
  }
  return { chain, base: u };
}

/** What the contents of storage say after writes: the values own their regions, the old contents the rest. */
function afterRule(u: UOp, g: UOp, add: Accumulate): void {
  const own = chainOf(u.src[0]);
  if (own.chain.some((m) => m.op !== Ops.RESHAPE)) throw new SpecError("AFTER of a view that is no reshape");
  let rest = reshape(g, shapeOf(own.base));
  for (const write of u.src.slice(1).reverse()) {
    if (write.op === Ops.CUSTOM) {
      throw new ArgumentError("compute a gradient through a custom kernel", {
        reason: "it has none; give it a gradFxn",
      });
    }
    if (write.op !== Ops.STORE) continue;
    const [target, value] = write.src;
    const { chain, base } = chainOf(target);
    if (base !== own.base) throw new SpecError("STORE into another storage than that of its AFTER");
    const whole = rest;
    add(value, () => chain.reduceRight((part, m) => moveLike(m, part), whole));
    const shape = shapeOf(target), yes = constant(1, dtypes.bool);
    let written = shape.length === 0 ? yes : broadcastTo(yes, shape);
    for (const m of chain) written = unmove(m, written);
    rest = broadcastTo(written, shapeOf(rest)).where(constant(0, rest.dtype), rest);
  }
  add(u.src[0], () => reshape(rest, shapeOf(u.src[0])));
}

/** The transpose of movement `m`, applied to `g` of its shape. */
function unmove(m: UOp, g: UOp): UOp {
  const shape = shapeOf(m.src[0]);
  switch (m.op) {
    case Ops.RESHAPE:
      return reshape(g, shape);
    case Ops.PERMUTE: {
      const { axes } = argOf(m, Ops.PERMUTE), inverse: number[] = [];
      axes.forEach((a, i) => inverse[a] = i);
      return permute(g, inverse);
    }
    case Ops.PAD: {
      const { pairs } = argOf(m, Ops.PAD), extents = extentsOf(m.src[0]);
      extents?.forEach((e, i) => g = e === undefined ? g : window(g, i, int(pairs[i][0]), e, shape[i]));
      const inner = pairs.map(([before], i) =>
        extents?.[i] !== undefined ? [0, shape[i]] as const : [before, before + shape[i]] as const
      );
      return shrink(g, inner);
    }
    case Ops.SHRINK:
      return pad(g, argOf(m, Ops.SHRINK).pairs.map(([start, stop], i) => [start, shape[i] - stop] as const));
    case Ops.FLIP:
      return flip(g, [...argOf(m, Ops.FLIP).axes]);
    case Ops.UNSKEW:
    case Ops.SKEW: {
      const { axis, kernelAxis, stride, dilation } = argOf(m, Ops.SKEW);
      const back = new SkewArg(axis, kernelAxis, stride, dilation, shape[axis]);
      return m.op === Ops.UNSKEW ? skew(g, back) : unskew(g, back);
    }
    case Ops.WINDOW: {
      const { axis } = argOf(m, Ops.WINDOW), [x, start, size] = m.src;
      return window(label(g, axis, size), axis, simplifySize(start.mul(-1)), extentOf(x, axis), shape[axis]);
    }
    case Ops.EXPAND: {
      const out = shapeOf(m);
      return sumOver(g, out.flatMap((n, i) => n !== shape[i] ? [i] : []));
    }
  }
  throw new SpecError(`${opName[m.op]} is no movement`);
}

const moved: Rule = (u, g, add) => add(u.src[0], () => unmove(u, g));
const same: Rule = (u, g, add) => add(u.src[0], () => g);

/** The rules, but for movement. Ops that are absent pass nothing on: DETACH, BITCAST, comparisons, leaves. */
const RULES: { readonly [op: number]: Rule } = {
  [Ops.CAST]: (u, g, add) => add(u.src[0], () => g.cast(u.src[0].dtype)),
  [Ops.EXP2]: (u, g, add) => add(u.src[0], () => g.mul(u).mul(floatConst(Math.LN2, u.dtype))), // d 2^x = 2^x ln 2
  [Ops.LOG2]: (u, g, add) => add(u.src[0], () => g.fdiv(u.src[0].mul(floatConst(Math.LN2, u.dtype)))), // d log2 x = 1 / (x ln 2)
  [Ops.SIN]: (u, g, add) => add(u.src[0], () => g.mul(u.src[0].cos())),
  [Ops.COS]: (u, g, add) => add(u.src[0], () => g.mul(u.src[0].sin()).mul(-1)),
  [Ops.SQRT]: (u, g, add) => add(u.src[0], () => g.fdiv(u.mul(2))), // d √x = 1 / (2 √x)
  [Ops.TRUNC]: (u, _, add) => add(u.src[0], () => zerosLike(u)),
  [Ops.ADD]: (u, g, add) => {
    add(u.src[0], () => g);
    add(u.src[1], () => g);
  },
  [Ops.MUL]: ({ src: [a, b] }, g, add) => {
    add(a, () => g.mul(b));
    add(b, () => g.mul(a));
  },
  [Ops.FDIV]: (u, g, add) => { // d (a/b) = da / b - (a/b) db / b
    const [a, b] = u.src;
    add(a, () => g.fdiv(b));
    add(b, () => g.mul(u.fdiv(b)).mul(-1));
  },
  [Ops.CDIV]: ({ src: [a, b] }, _, add) => { // a step function
    add(a, () => zerosLike(a));
    add(b, () => zerosLike(b));
  },
  [Ops.CMOD]: ({ src: [a, b] }, g, add) => { // d (a - q b) = da - q db
    add(a, () => g);
    add(b, () => g.mul(a.cdiv(b)).mul(-1));
  },
  [Ops.MAX]: ({ src: [a, b] }, g, add) => {
    add(a, () => maxShare(a, b, g));
    add(b, () => maxShare(b, a, g));
  },
  [Ops.WHERE]: (u, g, add) => {
    const [condition, a, b] = u.src, zero = constant(0, u.dtype);
    add(a, () => condition.where(g, zero));
    add(b, () => condition.where(zero, g));
  },
  [Ops.REDUCE]: reduceRule,
  [Ops.CONTIGUOUS]: same,
  [Ops.CHECKPOINT]: same, // for paths: computeGradient has its own way
  [Ops.CONTIGUOUS_BACKWARD]: (u, g, add) =>
    add(u.src[0], () => u.arg === undefined ? uop(Ops.CONTIGUOUS, g.dtype, [g]) : g),
  [Ops.COPY]: (u, g, add) => {
    const home = deviceOf(u.src[0]);
    add(u.src[0], () => home === null || home === u.arg ? g : uop(Ops.COPY, g.dtype, [g], home));
  },
  [Ops.SHARD]: (u, g, add) => {
    const home = deviceOf(u.src[0]);
    add(u.src[0], () => home === null || home === deviceOf(u) ? g : uop(Ops.COPY, g.dtype, [g], home));
  },
  // of what shards are made of, only these are in graphs of tensors
  [Ops.COLLECTIVE]: (u, g, add) => {
    const { kind, mesh, axes, op, device, shift } = argOf(u, Ops.COLLECTIVE);
    if (kind !== "permute") return;
    add(u.src[0], () => uop(Ops.COLLECTIVE, g.dtype, [g], new CollectiveArg(kind, mesh, axes, op, device, -shift)));
  },
  [Ops.AFTER]: afterRule,
};

/** The rule of an op, where it has one. */
function ruleOf(op: Ops): Rule | undefined {
  return isMovement(op) ? moved : RULES[op];
}

/**
 * The value of a CHECKPOINT computed again from copies of its inputs. The copies keep the two computations apart: else they
 * would be one, and its intermediates kept from the forward to the backward pass. `original` gets the node that each new
 * one repeats.
 */
function recompute(u: UOp, original: Map<UOp, UOp>): UOp {
  const [value, ...inputs] = u.src;
  const made = new Map<UOp, UOp>();
  inputs.forEach((x, i) => {
    const copy = uop(Ops.CONTIGUOUS, x.dtype, [x], -1 - i);
    made.set(x, copy);
    original.set(copy, x);
  });
  for (const n of toposort(value)) {
    if (made.has(n) || !n.src.some((s) => made.has(s))) continue;
    const src = n.src.map((s) => made.get(s) ?? s);
    const again = isMovement(n.op) ? moveLike(n, src[0]) : uop(n.op, n.dtype, src, n.arg);
    made.set(n, again);
    if (!original.has(again)) original.set(again, n);
  }
  return made.get(value) ?? value;
}

/** Nodes at or above a target, by which a gradient can reach it. */
function pathsTo(targets: ReadonlySet<UOp>, order: readonly UOp[]): Set<UOp> {
  const paths = new Set<UOp>();
  for (let i = 0; i < order.length; i++) {
    const u = order[i], { src } = u;
    const hasRule = u.op === Ops.STORE || u.op === Ops.CUSTOM || (u.dtype.isFloat && ruleOf(u.op) !== undefined);
    let passes = u.dtype.isFloat && targets.has(u);
    // of a write the value alone
    for (let k = u.op === Ops.STORE ? 1 : 0; k < src.length && hasRule && !passes; k++) passes = paths.has(src[k]);
    if (passes) paths.add(u);
  }
  return paths;
}

/**
 * Gradients of `root` with respect to each of `targets`, given the gradient `rootGrad` with respect to `root` (of its
 * shape and dtype). A target that `root` does not depend on has no entry. Works on one interned generation: resolve
 * graphs with realized nodes first.
 */
export function computeGradient(root: UOp, rootGrad: UOp, targets: readonly UOp[]): Map<UOp, UOp> {
  const wanted = new Set(targets), order = toposort(root), paths = pathsTo(wanted, order);
  const gradients = new Map<UOp, UOp>(), found = new Map<UOp, UOp>();
  /** Nodes computed again for a CHECKPOINT, by the node that they repeat. */
  const original = new Map<UOp, UOp>();
  const add: Accumulate = (node, make) => {
    if (!paths.has(original.get(node) ?? node)) return;
    const before = gradients.get(node), made = withExtents(make(), extentsOf(node));
    gradients.set(node, before === undefined || isZeros(before) ? made : isZeros(made) ? before : before.add(made));
  };
  const visit = (u: UOp): void => {
    const g = gradients.get(u);
    if (g === undefined) return;
    if (wanted.has(u)) found.set(u, g);
    gradients.delete(u);
    if (u.op === Ops.CHECKPOINT && u.arg instanceof GradientArg) {
      const inputs = u.src.slice(1);
      u.arg.gradients(g, inputs, u).forEach((x, i) => {
        if (x !== undefined) add(inputs[i], typeof x === "function" ? x : () => x);
      });
    } else if (u.op === Ops.CHECKPOINT) {
      const again = recompute(u, original);
      add(again, () => g);
      // nodes that do not depend on the inputs are visited later, with the graph that they belong to
      for (const n of toposort(again).reverse()) if (original.has(n)) visit(n);
    } else if (original.has(u) && u.op === Ops.CONTIGUOUS && u.src[0] === original.get(u)) add(u.src[0], () => g);
    else ruleOf(u.op)?.(u, g, add);
  };
  add(root, () => rootGrad);
  for (let i = order.length - 1; i >= 0; i--) visit(order[i]);
  return found;
}
