/**
 * Complex numbers. A node of a complex dtype is a COMPLEX: pairs of floats along a last axis of size 2, as NumPy, PyTorch
 * and safetensors have them in memory, seen without that axis. It stands on top of a graph alone: whoever asks for another
 * complex node (`uop` does) gets real ones, made here, and a COMPLEX over them. In: an op, a dtype and sources, some of
 * them complex. Out: a node.
 *
 * Why here. Methods that take both parts apart would be each method twice, and its gradient, too; rules over a graph with
 * complex nodes would be a pass for everybody, and gradients, captures and realized values would know nodes that pass no
 * pass. As nodes are made, all that is built of adds, products, sums and movement is complex by itself; derivatives are
 * those of real functions of the parts, which is PyTorch's convention: dL/dre + i dL/dim. Kernels, schedules and backends
 * see floats. For others it is one check a node.
 *
 * @module
 */
import { complexOf as complexDType, type DType, dtypes } from "../../dtype/dtype.ts";
import { DTypeError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { type Arg, argOf, type AxesArg, type PairsArg, reduceOf, type ShapeArg } from "../core/args.ts";
import { broadcastTo, expand, flip, pad, permute, reshape, shrink } from "../core/build_movement.ts";
import { isMovement, opName, Ops } from "../core/ops.ts";
import { shapeOf } from "../core/shape.ts";
import { constant, iota, pairs, type UOp, uop } from "../core/uop.ts";
import { GradientArg, withGradient } from "./given_gradient.ts";

/** Real and imaginary part. */
export type Parts = readonly [re: UOp, im: UOp];

/** Pairs of floats, `[..., 2]`, as complex numbers: `[...]`. */
export function fromPairs(x: UOp): UOp {
  return uop(Ops.COMPLEX, complexDType(x.dtype), [x]);
}

/** What a complex node is pairs of: `[..., 2]`; any other node itself. */
export function bare(u: UOp): UOp {
  return u.op === Ops.COMPLEX ? u.src[0] : u;
}

/** Memory of elements, or another node of as many, as what is like `u`: under its shape, and complex where that is. */
export function shapedLike(u: UOp, x: UOp): UOp {
  if (u.op === Ops.COMPLEX) return fromPairs(reshape(x, shapeOf(u.src[0])));
  // most often memory under the shape of other memory, whose arg there is already
  const isOther = u.op === Ops.RESHAPE && x.op === Ops.BUFFER && !sameArray(shapeOf(x), shapeOf(u));
  return isOther ? uop(Ops.RESHAPE, x.dtype, [x], u.arg) : reshape(x, shapeOf(u));
}

/** Two real nodes of one float dtype and shape (one may be rank 0) as complex numbers. */
export function fromParts([re, im]: Parts): UOp {
  const shape = shapeOf(re).length > 0 ? shapeOf(re) : shapeOf(im), both = [...shape, 2];
  const half = (u: UOp): UOp => expand(reshape(broadcastTo(u, shape), [...shape, 1]), both);
  const first = reshape(iota(2), [...shape.map(() => 1), 2]).lt(1);
  return fromPairs(expand(first, both).where(half(re), half(im)));
}

/** The parts of a complex node; of a real one itself and 0. */
export function partsOf(u: UOp): Parts {
  if (u.op !== Ops.COMPLEX) return [u, constant(0, u.dtype)];
  return [partOf(u.src[0], 0), partOf(u.src[0], 1)];
}

/** One part of pairs: what they were joined of, where that can be seen, else every other element. */
function partOf(x: UOp, which: 0 | 1): UOp {
  const shape = shapeOf(x), last = shape.length - 1, out = shape.slice(0, -1);
  if (x.becomes === undefined && (isMovement(x.op) || x.op === Ops.WHERE) && joinsBelow(x)) return joined(x, which);
  return reshape(shrink(x, shape.map((n, i) => i === last ? [which, which + 1] : [0, n])), out);
}

/** Whether a node is pairs that were joined of two nodes, moved as wholes. */
function joinsBelow(x: UOp): boolean {
  for (; x.becomes === undefined && isMovement(x.op); x = x.src[0]) if (!keepsPairs(x)) return false;
  return x.becomes === undefined && x.op === Ops.WHERE && isJoin(x);
}

/** Of what {@linkcode joinsBelow}: a part. */
function joined(x: UOp, which: 0 | 1): UOp {
  const shape = shapeOf(x), out = shape.slice(0, -1);
  if (x.op === Ops.WHERE) return reshape(expand(x.src[1 + which].src[0], [...out, 1]), out);
  return moved(x.op, joined(x.src[0], which), x.src.slice(1), x.arg, true);
}

/** Whether a WHERE is what `fromParts` makes: one node at the first element of the last axis, another at the second. */
function isJoin({ src: [at, re, im] }: UOp): boolean {
  if (re.op !== Ops.EXPAND || im.op !== Ops.EXPAND || at.dtype.count > 1) return false;
  for (const half of [re, im]) if (half.becomes !== undefined || shapeOf(half.src[0]).at(-1) !== 1) return false;
  while (at.op === Ops.EXPAND || at.op === Ops.RESHAPE) at = at.src[0];
  if (at.op !== Ops.CMPLT || !at.src[1].isConst(1)) return false;
  const [position] = at.src, [below] = position.op === Ops.RESHAPE ? position.src : [position];
  return below.op === Ops.IOTA && below.arg === 2 && shapeOf(position).at(-1) === 2;
}

/** Whether a movement leaves the last axis, of size 2, as it is. */
function keepsPairs(u: UOp): boolean {
  const from = shapeOf(u.src[0]), last = from.length - 1;
  if (from[last] !== 2 || shapeOf(u).at(-1) !== 2) return false;
  switch (u.op) {
    case Ops.RESHAPE:
    case Ops.EXPAND:
      return true;
    case Ops.PERMUTE:
      return argOf(u, Ops.PERMUTE).axes[last] === last;
    case Ops.PAD:
      return argOf(u, Ops.PAD).pairs[last].every((n) => n === 0);
    case Ops.SHRINK:
      return true; // it leaves both
    case Ops.FLIP:
      return !argOf(u, Ops.FLIP).axes.includes(last);
    case Ops.UNSKEW:
    case Ops.SKEW:
      return argOf(u, Ops.SKEW).axis !== last && argOf(u, Ops.SKEW).kernelAxis !== last;
    case Ops.WINDOW:
      return argOf(u, Ops.WINDOW).axis !== last;
  }
  return false;
}

/**
 * The movement `op` of `arg`, with sources `rest`, on `x`. It is that of complex numbers, and `x` has one axis more, of
 * pairs; or, where `isPart`, the other way round.
 */
function moved(op: Ops, x: UOp, rest: readonly UOp[], arg: Arg, isPart = false): UOp {
  const fit = <T>(list: readonly T[], last: T): T[] => isPart ? list.slice(0, -1) : [...list, last];
  switch (op) {
    case Ops.RESHAPE:
      return reshape(x, fit((arg as ShapeArg).shape, 2));
    case Ops.EXPAND:
      return expand(x, fit((arg as ShapeArg).shape, 2));
    case Ops.PERMUTE:
      return permute(x, fit((arg as AxesArg).axes, shapeOf(x).length - 1));
    case Ops.PAD:
      return pad(x, fit((arg as PairsArg).pairs, [0, 0]));
    case Ops.SHRINK:
      return shrink(x, fit((arg as PairsArg).pairs, [0, 2]));
    case Ops.FLIP:
      return flip(x, [...(arg as AxesArg).axes]);
  }
  return uop(op, x.dtype, [x, ...rest], arg);
}

function isZero(u: UOp): boolean {
  while (isMovement(u.op) && u.becomes === undefined) u = u.src[0];
  return u.isConst(0);
}

/** -x. */
function negative(x: UOp): UOp {
  return x.mul(-1);
}

/** Products; a real factor scales both parts, so that infinite ones stay apart from NaN. */
function times([a, b]: Parts, [c, d]: Parts): Parts {
  if (isZero(d)) return [a.mul(c), isZero(b) ? b : b.mul(c)];
  if (isZero(b)) return [c.mul(a), d.mul(a)];
  return [a.mul(c).sub(b.mul(d)), a.mul(d).add(b.mul(c))];
}

function plus(a: UOp, b: UOp): UOp {
  return isZero(b) ? a : isZero(a) ? b : a.add(b);
}

/**
 * Gradients of a complex function by its derivatives with respect to each complex input, for a gradient of its real and
 * of its imaginary part.
 */
export interface Holomorphic {
  readonly re: GradientArg;
  readonly im: GradientArg;
}

/** Those of a function that has derivatives: one by each input, called only where it is wanted. */
export function holomorphic(slopes: (inputs: readonly UOp[]) => readonly (() => UOp)[]): Holomorphic {
  const rule = (of: (g: UOp, p: UOp, q: UOp) => Parts): GradientArg =>
    new GradientArg((g, x) => {
      const inputs: UOp[] = [];
      for (let i = 0; i < x.length; i += 2) inputs.push(fromParts([x[i], x[i + 1]]));
      return slopes(inputs).flatMap((slope) => {
        let both: Parts | undefined;
        const made = (): Parts => both ??= of(g, ...partsOf(slope()));
        return [() => made()[0], () => made()[1]];
      });
    }, true);
  return {
    re: rule((g, p, q) => [g.mul(p), negative(g.mul(q))]),
    im: rule((g, p, q) => [g.mul(q), g.mul(p)]),
  };
}

/** A complex value of complex inputs, with gradients by its derivatives. */
export function withSlopes([re, im]: Parts, inputs: readonly UOp[], { re: ofRe, im: ofIm }: Holomorphic): UOp {
  const all = inputs.flatMap((x) => partsOf(x)), shape = shapeOf(re);
  const known = all.map((x) => broadcastTo(x, shape));
  return fromParts([withGradient(re, known, ofRe), withGradient(im, known, ofIm)]);
}

/** By formula, and by which inputs are complex: the formula of pairs. */
const formulas = new WeakMap<GradientArg, Map<string, GradientArg>>();

/**
 * The formula of a function that has derivatives, written for reals, as that of pairs: it is linear in the gradient g, and
 * that of complex numbers is the conjugate of what it gives for the conjugate of g.
 */
function ofComplex(formula: GradientArg, isComplex: readonly boolean[]): GradientArg {
  const key = isComplex.map(Number).join(""), known = formulas.get(formula) ?? new Map<string, GradientArg>();
  formulas.set(formula, known);
  let rule = known.get(key);
  if (rule === undefined) {
    const back = (u: UOp, i: number, x: UOp): UOp => {
      const [re, im] = partsOf(conjugateNode(u)), whole = (p: UOp): UOp => broadcastTo(p, shapeOf(x).slice(0, -1));
      return isComplex[i] ? bare(fromParts([whole(re), whole(im)])) : re;
    };
    rule = new GradientArg((g, inputs, value) => {
      const given = formula.gradients(
        conjugateNode(fromPairs(g)),
        inputs.map((x, i) => isComplex[i] ? fromPairs(x) : x),
        fromPairs(value),
      );
      return given.map((u, i) => u && (() => back(typeof u === "function" ? u() : u, i, inputs[i])));
    }, formula.pointwise);
    known.set(key, rule);
  }
  return rule;
}

/** The conjugate of a complex node. */
export function conjugateNode(z: UOp): UOp {
  const [a, b] = partsOf(z);
  return fromParts([a, negative(b)]);
}

/** d (z / w) = dz / w - z / w^2 dw */
const QUOTIENT = holomorphic(([z, w]) => [
  () => fromParts([constant(1, w.dtype.real), constant(0, w.dtype.real)]).alu(Ops.FDIV, w),
  () => z.alu(Ops.FDIV, w).alu(Ops.FDIV, w).mul(-1),
]);

/** z / w by the larger part of w: R. L. Smith, "Algorithm 116: Complex division", Comm. ACM 5 (1962). */
function quotient(z: UOp, w: UOp): UOp {
  const [a, b] = partsOf(z), [c, d] = partsOf(w);
  if (isZero(d)) return fromParts([a.fdiv(c), isZero(b) ? b : b.fdiv(c)]);
  const zero = constant(0, c.dtype), size = (x: UOp): UOp => x.lt(zero).where(negative(x), x);
  const isFlat = size(c).lt(size(d)), high = isFlat.where(d, c), low = isFlat.where(c, d);
  // both are 0: the quotient of each part by 0
  const ratio = high.eq(zero).where(zero, low.fdiv(high)), divisor = high.add(low.mul(ratio));
  const re = isFlat.where(a.mul(ratio).add(b), a.add(b.mul(ratio)));
  const im = isFlat.where(b.mul(ratio).sub(a), b.sub(a.mul(ratio)));
  return withSlopes([re.fdiv(divisor), im.fdiv(divisor)], [z, w], QUOTIENT);
}

/** The product along `axes`, which stay with size 1: halves by halves. */
function productAlong(x: UOp, axes: readonly number[]): UOp {
  for (const axis of axes) {
    const cut = (u: UOp, from: number, to: number): UOp =>
      shrink(u, shapeOf(u).map((n, i) => i === axis ? [from, to] : [0, n]));
    for (let step = 1, n = shapeOf(x)[axis]; n > 1; n = Math.ceil(n / 2), step++) {
      const half = n >> 1, product = cut(x, 0, half).mul(cut(x, half, 2 * half));
      if (n % 2 === 0) x = product;
      else {
        const none = shapeOf(x).map((): [number, number] => [0, 0]), rest = cut(x, n - 1, n);
        x = pad(product, none.with(axis, [0, 1])).add(pad(rest, none.with(axis, [half, 0])));
      }
      if (step % 3 === 0) x = uop(Ops.CONTIGUOUS, x.dtype, [x]);
    }
  }
  return x;
}

function refuse(op: Ops, dtype: DType): never {
  const isOrder = op === Ops.CMPLT || op === Ops.MAX;
  throw new DTypeError(`${isOrder ? "order" : `apply ${opName[op]} to`} dtype`, {
    dtypes: [dtype],
    reason: isOrder
      ? "complex numbers have no order; take abs(), real() or imag() first"
      : "it is not defined for complex numbers; take abs(), real() or imag() first",
  });
}

/** Values in a complex dtype. */
function toComplex(x: UOp, dtype: DType): UOp {
  if (x.op === Ops.COMPLEX) return fromPairs(x.src[0].cast(dtype.real));
  const re = x.cast(dtype.real);
  return fromParts([re, constant(0, dtype.real)]);
}

function convert(op: Ops, dtype: DType, x: UOp): UOp {
  if (op === Ops.BITCAST) {
    // pairs are the last axis, and a complex number's bits are those of two floats
    const real = x.op === Ops.COMPLEX ? x.src[0] : x.bitcast(dtype.real), shape = shapeOf(real);
    if (dtype.isComplex) {
      const own = real.bitcast(dtype.real), to = shapeOf(own);
      return fromPairs(x.op === Ops.COMPLEX ? own : reshape(own, [...to.slice(0, -1), to.at(-1)! / 2, 2]));
    }
    const flat = shape.length > 1 ? [...shape.slice(0, -2), shape.at(-2)! * 2] : shape;
    return reshape(real, flat).bitcast(dtype);
  }
  if (dtype.isComplex) return toComplex(x, dtype);
  const [re, im] = partsOf(x);
  if (dtype.isBool) return re.ne(0).or(im.ne(0));
  throw new DTypeError(`cast ${x.dtype} to`, {
    dtypes: [dtype],
    reason: "the imaginary part would be lost; take real(), imag() or abs() first",
  });
}

pairs.node = (op, dtype, src, arg) => {
  if (isMovement(op)) return fromPairs(moved(op, src[0].src[0], src.slice(1), arg));
  switch (op) {
    case Ops.CONST: {
      const d = dtype.real, value = Number(arg);
      return fromParts([constant(d === dtypes.float32 ? Math.fround(value) : value, d), constant(0, d)]);
    }
    case Ops.CONTIGUOUS:
    case Ops.CONTIGUOUS_BACKWARD:
    case Ops.COPY:
    case Ops.DETACH:
      return fromPairs(uop(op, dtype.real, [bare(src[0])], arg));
    case Ops.CHECKPOINT: {
      const own = arg instanceof GradientArg ? ofComplex(arg, src.slice(1).map((s) => s.op === Ops.COMPLEX)) : arg;
      return fromPairs(uop(op, dtype.real, src.map(bare), own));
    }
    case Ops.REDUCE: {
      const { op: combine, axes } = reduceOf({ arg });
      if (combine === Ops.MUL) return productAlong(src[0], axes);
      if (combine !== Ops.ADD) return refuse(combine as Ops, dtype);
      const [re, im] = partsOf(src[0]).map((x) => uop(op, x.dtype, [x], arg));
      return fromParts([re, im]);
    }
    case Ops.CAST:
    case Ops.BITCAST:
      return convert(op, dtype, src[0]);
    case Ops.FDIV:
      return quotient(src[0], src[1]);
    case Ops.WHERE: {
      const [a, b] = partsOf(src[1]), [c, d] = partsOf(src[2]);
      return fromParts([src[0].where(a, c), isZero(b) && isZero(d) ? b : src[0].where(b, d)]);
    }
    case Ops.ADD: {
      const [a, b] = partsOf(src[0]), [c, d] = partsOf(src[1]);
      return fromParts([a.add(c), plus(b, d)]);
    }
    case Ops.MUL:
      return fromParts(times(partsOf(src[0]), partsOf(src[1])));
    case Ops.CMPEQ:
    case Ops.CMPNE: {
      const [a, b] = partsOf(src[0]), [c, d] = partsOf(src[1]);
      return op === Ops.CMPEQ ? a.eq(c).and(b.eq(d)) : a.ne(c).or(b.ne(d));
    }
  }
  return refuse(op, src.find((s) => s.dtype.isComplex)?.dtype ?? dtype);
};
