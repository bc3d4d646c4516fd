/**
 * Products: matmul, linear, einsum, attention. Every product is the same graph: both operands broadcast to
 * `[..., m, n, k]`, multiplied, and summed over the last axis, in the accumulator's dtype.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { type DType, type DTypeLike, toDType } from "../../dtype/dtype.ts";
import { defaultFloat, promote, promoteAll, sumDType, sumOf } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { checkInteger, checkNumber, checkOptions, checkText, describe, isPlain } from "../../helpers/options.ts";
import { ReduceArg } from "../../uop/core/args.ts";
import { broadcastTo, permute, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf, namedShape } from "../../uop/graph/extent.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { checkTensor, isTensor, maybeTensor, type Operand, TensorBase } from "../handle/base.ts";
import { broadcastShape, checkSameDevice } from "../handle/broadcast.ts";
import { listNeeded } from "../handle/dims.ts";
import { asFloats } from "../handle/weak_numbers.ts";
import type { ActivationTensor } from "../ops/activation.ts";
import type { ReduceTensor } from "../ops/reduce.ts";

/** Options of products: `dtype` of the result; sums are at least as wide. */
export interface ProductOptions {
  /** In which the products are summed. */
  readonly dtype?: DTypeLike;
}

/** Options of {@linkcode LinalgTensor.scaledDotProductAttention}. */
export interface AttentionOptions {
  /** Share of the weights to drop, in training only. */
  readonly dropoutP?: number;
  /** Each query sees keys up to its own position only. */
  readonly isCausal?: boolean;
  /** What products are multiplied by before the softmax. Default 1 / sqrt(E). */
  readonly scale?: number;
  /** Fewer key and value heads (axis -3) than query heads, each serving several. */
  readonly enableGqa?: boolean;
}

/** Sum over the last `count` axes, which vanish; `x` is already in the accumulator's dtype. */
export function sumLast(x: UOp, count: number): UOp {
  const shape = shapeOf(x), keep = shape.length - count;
  const axes = shape.slice(keep).map((_, i) => keep + i);
  const sum = count === 0 ? x : uop(Ops.REDUCE, x.dtype, [x], new ReduceArg(Ops.ADD, axes));
  return reshape(sum, shape.slice(0, keep));
}

/** The matrix product of two nodes of one dtype, in that dtype. */
function matmulNodes(a: UOp, b: UOp, shapes: readonly (readonly number[])[]): UOp {
  const [sa, sb] = shapes;
  const batchA = sa.slice(0, -2), batchB = sb.slice(0, -2);
  const k = sa[sa.length - 1];
  const rows = sa.length > 1 ? [sa[sa.length - 2]] : [], columns = sb.length > 1 ? [sb[sb.length - 1]] : [];
  const kAxis = Math.max(sb.length - 2, 0);
  if (sb[kAxis] !== k) {
    throw new ShapeError("matmul", {
      shapes,
      axis: kAxis,
      reason: `axis ${sa.length - 1} of the first has size ${k}, axis ${kAxis} of the second ${sb[kAxis]}`,
    });
  }
  let batch: number[] = [];
  if (batchA.length + batchB.length > 0) {
    try {
      batch = broadcastShape("matmul", [batchA, batchB]);
    } catch (error) {
      if (!(error instanceof ShapeError)) throw error;
      throw new ShapeError("matmul", { shapes, axis: error.axis, reason: "the batch axes do not broadcast" });
    }
  }
  const full = [...batch, rows[0] ?? 1, columns[0] ?? 1, k];
  const left = reshape(a, [...batchA, rows[0] ?? 1, 1, k]);
  const turned = sb.length > 1 ? permute(b, swapLast(sb.length)) : b;
  const right = reshape(turned, [...batchB, 1, columns[0] ?? 1, k]);
  const product = broadcastTo(left, full).mul(broadcastTo(right, full));
  return reshape(sumLast(product, 1), [...batch, ...rows, ...columns]);
}

/** The order that swaps the last two of `n` axes. */
function swapLast(n: number): number[] {
  const order = Array.from({ length: n }, (_, i) => i);
  [order[n - 2], order[n - 1]] = [n - 1, n - 2];
  return order;
}

/** The families that it is written in. */
export interface LinalgTensor extends ActivationTensor, ReduceTensor {}
/** Tensors with linear algebra. */
export abstract class LinalgTensor extends TensorBase {
  /**
   * The product of the last axis of this with the second to last of `w` (its only one in 1-D); the axes before broadcast.
   * `[..., m, k]` and `[..., k, n]` give `[..., m, n]`. Small floats are accumulated in float32, small integers in 32
   * bits, and cast back to the promoted dtype, or to `dtype`.
   * @throws {ShapeError} for scalars, and where k or the batch axes differ
   */
  dot<N extends string>(w: Operand, options: Checked<ProductOptions, N> = {}): this {
    checkOptions("matmul", options, ["dtype"]);
    const other = this.operand(w, "matmul"), shapes = [this.shape, other.shape];
    checkSameDevice("matmul", this.uop, other.uop);
    if (shapes[0].length === 0 || shapes[1].length === 0) {
      throw new ShapeError("matmul", { shapes, reason: "a scalar has no axis to multiply over" });
    }
    const out = options.dtype === undefined ? promote(this.dtype, other.dtype) : toDType(options.dtype);
    const wide = sumDType(out);
    return this.wrap(matmulNodes(this.uop.cast(wide), other.uop.cast(wide), shapes).cast(out));
  }

  /** The matrix product, as {@linkcode dot}; `reverse` gives `x` times this. */
  matmul<N extends string>(
    x: Operand,
    options: Checked<ProductOptions, N> & { readonly reverse?: boolean } = {},
  ): this {
    checkOptions("matmul", options, ["reverse", "dtype"]);
    const product = { dtype: options.dtype };
    return options.reverse ? (this.operand(x) as this).dot<string>(this, product) : this.dot<string>(x, product);
  }

  /**
   * `this @ weight + bias`; `weight` is `[in, out]`, not transposed. A 1-D weight multiplies elementwise. With `dtype`
   * all three are cast to it.
   * @throws {ShapeError} as {@linkcode dot}
   */
  linear<N extends string>(weight: Operand, bias?: Operand | null, options: Checked<ProductOptions, N> = {}): this {
    checkOptions("apply linear", options, ["dtype"]);
    const w = this.operand(weight, "apply linear") as this, from = this.shape, to = w.shape;
    if (w.ndim === 2 && from.length > 0 && from[from.length - 1] !== to[0]) {
      throw new ShapeError("apply linear to", {
        shapes: [from, to],
        axis: from.length - 1,
        reason: `the last axis has ${from[from.length - 1]} features, and the weight, [in, out], takes ${to[0]}`,
      });
    }
    const x = options.dtype === undefined ? this : this.wrap(this.uop.cast(toDType(options.dtype)));
    const product = w.ndim === 1
      ? x.mul(this.wrap(w.uop.cast(options.dtype === undefined ? w.dtype : x.dtype)))
      : x.dot<string>(w, options);
    if (bias === undefined || bias === null) return product;
    const added = this.operand(bias, "apply linear");
    return product.add(options.dtype === undefined ? added : this.wrap(added.uop.cast(product.dtype)));
  }

  /**
   * Sums of products by index letters: `Tensor.einsum("ij,jk->ik", [a, b])`. Knows `...`, repeated letters within an
   * operand (diagonals) and formulas without `->` (letters that occur once, in alphabetical order). Operands are
   * contracted from left to right, so no intermediate holds more letters than it must. Bools and small integers widen as
   * in a sum. Lists of numbers beside a tensor are tensors.
   * @throws {ArgumentError} for a malformed formula @throws {ShapeError} where sizes of a letter differ
   */
  static einsum<T extends LinalgTensor, N extends string = string>(
    formula: string,
    operands: readonly T[],
    options?: Checked<ProductOptions, N>,
  ): T;
  /** Lists and numbers beside a tensor. */
  static einsum<T extends LinalgTensor, N extends string = string>(
    formula: string,
    operands: readonly [T, ...Operand[]],
    options?: Checked<ProductOptions, N>,
  ): T;
  /** Sums of products by index letters, the operands as arguments, as PyTorch has them. */
  static einsum<T extends LinalgTensor>(formula: string, ...operands: readonly [T, ...T[]]): T;
  /** The operands as arguments, then options. */
  static einsum<T extends LinalgTensor, N extends string = string>(
    formula: string,
    ...operands: readonly [T, ...T[], Checked<ProductOptions, N>]
  ): T;
  static einsum<T extends LinalgTensor>(formula: string, ...rest: readonly unknown[]): T {
    checkText("evaluate an einsum", "the formula", formula);
    const action = `evaluate einsum "${formula}"`, last = rest[rest.length - 1];
    const isList = Array.isArray(rest[0]),
      options = (isList ? rest[1] : isPlain(last) ? last : undefined) as ProductOptions;
    if (isList && rest.length > 2) {
      throw new ArgumentError(action, { reason: "it takes one list of tensors, then options" });
    }
    checkOptions(action, options, ["dtype"]);
    const given: readonly Operand[] = Array.from(
      isList ? rest[0] as Operand[] : rest.filter((x) => x !== undefined && x !== options) as Operand[],
    );
    const home = given.find(isTensor);
    if (home === undefined) throw listNeeded(action, given, "it", "at least one tensor");
    const operands = given.map((x) => (home as T).operand(x, action) as T);
    const { inputs, output } = parseEinsum(formula, operands);
    const out = options?.dtype === undefined ? sumOf(promoteAll(operands.map((t) => t.dtype))) : toDType(options.dtype);
    const result = contract(formula, inputs, output, sumDType(out));
    return operands[0].wrapView(result.cast(out));
  }

  /**
   * Newton-Schulz iteration: drives the singular values of the last two axes towards 1 by `steps` odd polynomials
   * `sum_i params[i] (G Gᵀ)^i G`, starting from this over its Frobenius norm plus `eps`.
   * @throws {ShapeError} below two axes
   */
  newtonSchulz(steps: number, params: readonly number[], eps = 1e-7): this {
    const shape = this.shape, n = shape.length;
    checkInteger("orthogonalize", "steps", steps, 0);
    checkNumber("orthogonalize", "eps", eps);
    if (!Array.isArray(params) || params.length === 0) {
      throw new ArgumentError("orthogonalize", { reason: `params must be a list of numbers, not ${describe(params)}` });
    }
    for (const p of params) checkNumber("orthogonalize", "each of params", p);
    if (n < 2) {
      throw new ShapeError("orthogonalize", { shapes: [shape], reason: "it takes matrices, of two axes or more" });
    }
    if (shape[n - 2] > shape[n - 1]) {
      return this.transpose(-2, -1).newtonSchulz(steps, params, eps).transpose(-2, -1);
    }
    let g = this.div(this.square().sum([-2, -1], { keepdim: true }).sqrt().add(eps));
    for (let step = 0; step < steps; step++) {
      const square = g.dot(g.transpose(-2, -1));
      let power = g, next = g.mul(params[0]);
      for (const p of params.slice(1)) {
        power = square.dot(power);
        next = next.add(power.mul(p));
      }
      g = next;
    }
    return g;
  }

  /**
   * `softmax(this @ keyᵀ / √E + mask) @ value` (or times `scale`) over `[..., L, E]`, `[..., S, E]` and `[..., S, V]`, giving `[..., L, V]`.
   * `attnMask` broadcasts to `[..., L, S]`: bool (true takes part) or added to the scores. Scores are computed in at
   * least float32, and so is the softmax; the weights are cast back to the dtype of this, and what reaches the scores of
   * gradients is rounded to that of queries and keys together. A row to which the mask leaves no key gives zeros, as in PyTorch, and has zeros for
   * gradients.
   * @throws {ArgumentError} for a mask together with `isCausal` @throws {ShapeError} as {@linkcode dot}
   */
  scaledDotProductAttention(key: this, value: this, attnMask?: this, options: AttentionOptions = {}): this {
    checkOptions("attend", options, ["dropoutP", "isCausal", "scale", "enableGqa"]);
    const { dropoutP = 0, isCausal = false, scale, enableGqa = false } = options;
    for (const [name, t] of [["key", key], ["value", value]] as const) checkTensor("attend", name, t);
    const mask = maybeTensor("attend", "attnMask", attnMask);
    if (isCausal && mask !== undefined) {
      throw new ArgumentError("attend with attnMask and isCausal", { reason: "give one of them" });
    }
    if (!this.dtype.isFloat) {
      const floats = asFloats(this, defaultFloat());
      if (floats !== this) return floats.scaledDotProductAttention(key, value, attnMask, options);
      throw new DTypeError("attend with queries of dtype", { dtypes: [this.dtype], reason: "a softmax needs floats" });
    }
    let k = key, v = value;
    if (enableGqa) [k, v] = [this.shareHeads(key), this.shareHeads(value)];
    const common = promote(this.dtype, k.dtype), wide = sumDType(common);
    const product = this.dot(k.transpose(-2, -1), { dtype: wide });
    let scores = this.wrap(roundedBack(product.uop, common)).mul(scale ?? this.rootOfWidth(wide));
    const dtype = scores.dtype, never = this.wrap(constant(-Infinity, dtype));
    if (isCausal) {
      const [l, s] = scores.shape.slice(-2);
      scores = this.wrap(causalMask(l, s, scores.shape)).where(scores, never);
    } else if (mask !== undefined) {
      scores = mask.dtype.isBool ? mask.where(scores, never) : scores.add(mask);
    }
    const weights = (attnMask === undefined ? scores.softmax(-1) : scores.maskedSoftmax()).cast(this.dtype);
    return (dropoutP > 0 ? weights.dropout(dropoutP) : weights).dot(v);
  }

  /** 1 / sqrt(E), of a symbolic E a tensor. */
  private rootOfWidth(dtype: DType): number | this {
    const axis = this.ndim - 1, e = extentsOf(this.uop)?.[axis];
    return e === undefined ? 1 / Math.sqrt(this.shape[axis]) : this.wrap(constant(1, dtype).fdiv(e.cast(dtype).sqrt()));
  }
  /** `kv` with its heads (axis -3) repeated to as many has. */
  private shareHeads(kv: this): this {
    const heads = this.shape[this.ndim - 3], shape = kv.shape, axis = shape.length - 3;
    const have = shape[axis];
    if (heads === undefined || have === undefined || have === 0 || heads % have !== 0) {
      throw new ShapeError("share key and value heads of", {
        shapes: [this.shape, shape],
        axis: -3,
        reason: `${heads} query heads are no multiple of ${have}`,
      });
    }
    const apart = [...shape.slice(0, axis + 1), 1, ...shape.slice(axis + 1)], wide = [...apart];
    wide[axis + 1] = heads / have;
    const out = [...shape];
    out[axis] = heads;
    return this.wrap(reshape(broadcastTo(reshape(kv.uop, apart), wide), out));
  }
}

const roundings = new Map<DType, GradientArg>();

/** `x`, a sum of products of `dtype`, whose gradient is rounded to it, as that of a product which is not widened would be. */
function roundedBack(x: UOp, dtype: DType): UOp {
  if (x.dtype === dtype) return x;
  let rule = roundings.get(dtype);
  if (rule === undefined) roundings.set(dtype, rule = new GradientArg((g) => [g.cast(dtype).cast(g.dtype)], true));
  return withGradient(x, [x], rule);
}

/** True where key position <= query position, broadcast to `shape`, which ends in `[l, s]`. */
function causalMask(l: number, s: number, shape: readonly number[]): UOp {
  const dtype = toDType("int32");
  const row = reshape(uop(Ops.IOTA, dtype, [], l), [l, 1]), column = reshape(uop(Ops.IOTA, dtype, [], s), [1, s]);
  return broadcastTo(column, shape).lt(broadcastTo(row, shape).add(1));
}

/** An operand of an einsum: its node, and the letter of each axis. */
interface Lettered {
  readonly node: UOp;
  readonly letters: readonly string[];
}

function parseEinsum(formula: string, operands: readonly LinalgTensor[]): { inputs: Lettered[]; output: string[] } {
  const fail = (reason: string) => new ArgumentError(`evaluate einsum "${formula}"`, { reason });
  const [left, right, extra] = formula.replaceAll(" ", "").split("->");
  const terms = left.split(",");
  if (extra !== undefined) throw fail("there is more than one ->");
  if (operands.length === 0) throw fail("there are no operands");
  if (terms.length !== operands.length) {
    throw fail(`it names ${terms.length} operands, and there are ${operands.length}`);
  }
  const spell = (term: string, ellipsis: number) => {
    const parts = term.split("...");
    if (parts.length > 2) throw fail(`"${term}" has more than one ellipsis`);
    if (!/^[A-Za-z]*$/.test(parts.join(""))) throw fail(`"${term}" has something else than letters`);
    const dots = parts.length === 2 ? Array.from({ length: ellipsis }, (_, i) => `.${ellipsis - i}`) : [];
    return [...parts[0], ...dots, ...(parts[1] ?? "")];
  };
  let widest = 0;
  const inputs = operands.map((t, i): Lettered => {
    const named = terms[i].replace("...", "").length, hidden = t.ndim - named;
    if (hidden < 0 || (hidden > 0 && !terms[i].includes("..."))) {
      throw fail(`"${terms[i]}" does not fit shape [${t.shape.join(", ")}]`);
    }
    if (terms[i].includes("...")) widest = Math.max(widest, hidden);
    let letters = spell(terms[i], hidden), x: LinalgTensor = t;
    for (let at = 0; at < letters.length; at++) { // a repeated letter: the diagonal, appended as the last axis
      const again = letters.indexOf(letters[at], at + 1);
      if (again < 0) continue;
      if (x.shape[at] !== x.shape[again]) {
        throw new ShapeError(`evaluate einsum "${formula}" on`, {
          shapes: [t.shape],
          reason: `letter ${letters[at]} has sizes ${x.shape[at]} and ${x.shape[again]}`,
        });
      }
      x = x.diagonal({ dim1: at, dim2: again });
      letters = [...letters.filter((_, j) => j !== at && j !== again), letters[at]];
      at = -1;
    }
    return { node: x.uop, letters };
  });
  if (right !== undefined) {
    const output = spell(right, widest);
    if (new Set(output).size !== output.length) throw fail("the output repeats a letter");
    const known = new Set(inputs.flatMap((x) => x.letters));
    const unknown = output.find((c) => !known.has(c));
    if (unknown !== undefined) throw fail(`letter ${unknown} of the output is in no operand`);
    return { inputs, output };
  }
  const count = new Map<string, number>();
  for (const c of terms.flatMap((t) => spell(t, widest))) count.set(c, (count.get(c) ?? 0) + 1);
  const once = [...count.keys()].filter((c) => c.startsWith(".") || count.get(c) === 1).sort((a, b) =>
    a.startsWith(".") && b.startsWith(".") ? Number(b.slice(1)) - Number(a.slice(1)) : a < b ? -1 : 1
  );
  return { inputs, output: once };
}

/** Multiplies operands pairwise, summing each letter out as soon as nothing later needs it; result in `output` order. */
function contract(formula: string, inputs: readonly Lettered[], output: readonly string[], wide: DType): UOp {
  const sizes = new Map<string, number>();
  for (const { node, letters } of inputs) {
    letters.forEach((c, i) => {
      const n = shapeOf(node)[i], known = sizes.get(c) ?? 1;
      if (n !== known && n !== 1 && known !== 1) {
        throw new ShapeError(`evaluate einsum "${formula}" on`, {
          shapes: inputs.map((x) => namedShape(x.node)),
          reason: `letter ${c} has sizes ${known} and ${n}`,
        });
      }
      sizes.set(c, n === 1 ? known : n);
    });
  }
  let done: Lettered | undefined;
  for (let i = 0; i < inputs.length; i++) {
    const later = new Set([...output, ...inputs.slice(i + 1).flatMap((x) => x.letters)]);
    const next: Lettered = { node: inputs[i].node.cast(wide), letters: inputs[i].letters };
    const all = [...new Set([...(done?.letters ?? []), ...next.letters])];
    const kept = all.filter((c) => later.has(c)), summed = all.filter((c) => !later.has(c));
    const order = [...kept, ...summed], shape = order.map((c) => sizes.get(c)!);
    const a = align(next, order, shape);
    const product = done === undefined ? a : align(done, order, shape).mul(a);
    done = { node: sumLast(product, summed.length), letters: kept };
  }
  return permute(done!.node, output.map((c) => done!.letters.indexOf(c)));
}

/** An operand with its axes in `order`, broadcast to `shape`. */
function align(x: Lettered, order: readonly string[], shape: readonly number[]): UOp {
  const present = order.filter((c) => x.letters.includes(c));
  const turned = permute(x.node, present.map((c) => x.letters.indexOf(c)));
  const from = shapeOf(turned);
  return broadcastTo(reshape(turned, order.map((c) => present.includes(c) ? from[present.indexOf(c)] : 1)), shape);
}
