/**
 * Discrete Fourier transforms. Complex numbers are pairs: a last axis of size 2, real and imaginary part. A length is
 * split into factors of up to 64 (Cooley and Tukey, "An algorithm for the machine calculation of complex Fourier
 * series", Math. Comp. 19, 1965); each is a product with a matrix of roots of unity. Powers of two beyond that are split
 * into factors of up to 16, each a kernel of steps along axes of size 2. Lengths with a larger prime factor are
 * convolutions (Bluestein, 1970). The roots are computed in double precision. Real values of an even length are taken as
 * complex ones of half of it, whose transform has that of the even and that of the odd ones as its symmetric parts.
 *
 * Real and imaginary parts stand apart, and results of one factor in front of those of the next ones (Stockham), so that
 * neighbors in memory are of different sums: what is done for one is done for all of them.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { DTypeError, ShapeError } from "../../helpers/errors.ts";
import { ceilDiv, rangeOf } from "../../helpers/math.ts";
import { checkChoice, checkInteger, checkOptions } from "../../helpers/options.ts";
import { broadcastTo, flip, permute, reshape, shrink } from "../../uop/core/build_movement.ts";
import { ReduceArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { bare, fromPairs } from "../../uop/graph/complex.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { resolveAxis } from "../handle/axes.ts";
import { TensorBase } from "../handle/base.ts";
import { hostNode } from "../handle/creation.ts";
import { constantAxis } from "../handle/dims.ts";
import { negNode } from "../nodes/compare_nodes.ts";
import { packHost } from "../nodes/host.ts";
import { catNodes, filled, iotaAlong, padConstant, pairNodes } from "../nodes/movement_nodes.ts";
import { floatConst } from "../nodes/numeric.ts";
import { castNode } from "../nodes/scalars.ts";

/** Which direction of a transform is divided by n: "backward" the inverse, "forward" the other, "ortho" both by its root. */
export type FourierNorm = "backward" | "forward" | "ortho";
/** Options of Fourier transforms. */
export interface FourierOptions {
  /** The length transformed: the axis is cut or padded with zeros. Default: its size. */
  readonly n?: number;
  /** Where the result is divided. Default "backward". */
  readonly norm?: FourierNorm;
}

type Pair = [number, number];
const LARGEST = 64;
/** Steps along axes of size 2 that one kernel does: of 16 complex numbers. */
const MOST_STEPS = 4;
/** Of lengths that are longer factors are at most so large: more kernels, of fewer products. */
const LONG = 4096, LARGEST_OF_LONG = 16;
/** From this even length on real values are half as many complex ones. */
const HALVED = 256;
/** Up to so many roots of unity are one table. */
const MOST_ROOTS = 1 << 13;

/** The divisor of n next to its square root, from below; n itself where there is none but 1. */
function nearRoot(n: number): number {
  let d = Math.floor(Math.sqrt(n));
  while (n % d !== 0) d--;
  return d === 1 ? n : d;
}

/** cos and sin of -2 pi k / n, exact at quarters of a turn. */
function root(k: number, n: number): Pair {
  const r = ((k % n) + n) % n;
  const quarter = Math.floor((4 * r) / n), rest = 2 * Math.PI * ((4 * r - quarter * n) / (4 * n));
  const c = Math.cos(rest), s = Math.sin(rest);
  const [x, y] = [[c, s], [-s, c], [-c, -s], [s, -c]][quarter];
  return [x + 0, -y + 0];
}

function isPower(n: number): boolean {
  return (n & (n - 1)) === 0;
}

/** The factors that a length is transformed by, one after the other; undefined where one is a large prime. */
function factorsOf(n: number): number[] | undefined {
  if (n > LARGEST && isPower(n)) {
    const bits = Math.log2(n), passes = ceilDiv(bits, MOST_STEPS);
    return rangeOf(passes).map((i) => 2 ** (Math.floor((bits + i) / passes)));
  }
  const found: number[] = [], largest = n > LONG ? LARGEST_OF_LONG : LARGEST;
  while (n > 1) {
    let f = Math.min(largest, n);
    while (n % f !== 0) f--;
    if (f === 1) return undefined;
    found.push(f);
    n /= f;
  }
  return found;
}

/** A difference times the root that its place along `inner` axes of size 2 asks for. */
function turn(re: UOp, im: UOp, inner: readonly number[], shape: readonly number[], d: DType): [UOp, UOp] {
  const n = 2 ** inner.length;
  const at = (axis: number): UOp => broadcastTo(iotaAlong(2, axis, shape.length).lt(1), shape);
  if (n === 1) return [re, im];
  if (n === 2) return [at(inner[0]).where(re, im), at(inner[0]).where(im, negNode(re))]; // by 1 or -i
  const choose = (part: 0 | 1, from: number, axes: readonly number[]): UOp => {
    if (axes.length === 0) return broadcastTo(floatConst(root(from, 2 * n)[part], d), shape);
    const [axis, ...rest] = axes;
    return at(axis).where(choose(part, from, rest), choose(part, from + 2 ** rest.length, rest));
  };
  const c = choose(0, 0, inner), s = choose(1, 0, inner);
  return [re.mul(c).add(negNode(im.mul(s))), im.mul(c).add(re.mul(s))];
}

/** It is its own transpose. */
const FOURIER = new GradientArg((g) => [turnedBack(g)]),
  REAL_FOURIER = new GradientArg((g) => [part(turnedBack(g), 0)]);

/** The transpose of a transform applied to a gradient: parts are reals, so both are conjugated. */
function turnedBack(g: UOp): UOp {
  return conjugate(new Transform(g.dtype, deviceOf(g) ?? undefined).run(conjugate(g)));
}

/** Transforms with the tables of one dtype and device. */
class Transform {
  constructor(private readonly dtype: DType, private readonly device: string | undefined) {}

  table(values: ArrayLike<number>, shape: readonly number[]): UOp {
    return hostNode(packHost(values, this.dtype), this.dtype, shape, this.device);
  }

  /** The transform of `[..., n, 2]` over n, of real numbers `[..., n, 1]` where `isReal`. */
  run(x: UOp, isReal = false): UOp {
    const shape = shapeOf(x), n = shape[shape.length - 2], l = shape.length - 2;
    const pairs = isReal ? paired(x) : x;
    if (n <= 1) return pairs;
    const factors = factorsOf(n);
    if (factors === undefined) return this.bluestein(pairs);
    const apart = [...rangeOf(l), l + 1, l], lead = shape.slice(0, l), inSteps = n > LARGEST && isPower(n);
    let now = permute(inSteps ? x : pairs, apart), rest = n;
    for (const f of factors) {
      const view = [...lead, shapeOf(now)[l], f, rest / f, n / rest];
      now = reshape(inSteps ? this.steps(now, view) : this.product(now, view), [...lead, 2, n]);
      rest /= f;
    }
    return withGradient(permute(now, apart), [x], isReal ? REAL_FOURIER : FOURIER);
  }

  /**
   * Roots of unity by which result k of factor f at place b is turned: `[f, b]` of each part. Of many, products of those
   * of two digits of b: two small tables for one that would be as large as what is transformed.
   */
  private twiddles(f: number, rest: number): [UOp, UOp] {
    const n = f * rest, low = n > MOST_ROOTS ? nearRoot(rest) : rest;
    if (low === rest) return this.roots(f, rest, 1, n);
    const high = rest / low, to = [f, high, low];
    const spread = (u: UOp, shape: readonly number[]): UOp => broadcastTo(reshape(u, shape), to);
    const [c, s] = this.roots(f, high, low, n).map((u) => spread(u, [f, high, 1]));
    const [p, q] = this.roots(f, low, 1, n).map((u) => spread(u, [f, 1, low]));
    return [reshape(c.mul(p).add(negNode(s.mul(q))), [f, rest]), reshape(c.mul(q).add(s.mul(p)), [f, rest])];
  }

  /** The k b step-th of n roots of unity, `[f, count]` of each part. */
  private roots(f: number, count: number, step: number, n: number): [UOp, UOp] {
    const values = new Float64Array(2 * f * count), half = f * count;
    for (let k = 0; k < f; k++) {
      for (let b = 0; b < count; b++) {
        const at = k * count + b;
        [values[at], values[half + at]] = root(k * b * step, n);
      }
    }
    const table = this.table(values, [2, f, count]);
    const of = (i: number): UOp => reshape(shrink(table, [[i, i + 1], [0, f], [0, count]]), [f, count]);
    return [of(0), of(1)];
  }

  /**
   * The transform over f of `[..., parts, f, rest, done]`, turned for those over the rest: `[..., 2, rest, f, done]`. A step
   * takes sums and differences along one of the axes of size 2 that f is made of, each of which ends as one of the result.
   */
  private steps(x: UOp, view: readonly number[]): UOp {
    const l = view.length - 4, [f, rest, done] = view.slice(l + 1), d = this.dtype, bits = Math.log2(f);
    const axes = rangeOf(bits).map((i) => l + 1 + i), behind = l + 1 + bits;
    const whole = reshape(x, [...view.slice(0, l + 1), ...axes.map(() => 2), rest, done]),
      to = shapeOf(whole).with(l, 1);
    const pick = (u: UOp, axis: number, i: number): UOp => {
      return shrink(u, shapeOf(u).map((n, a): Pair => a === axis ? [i, i + 1] : [0, n]));
    };
    let re = pick(whole, l, 0), im = view[l] === 1 ? broadcastTo(constant(0, d), to) : pick(whole, l, 1);
    axes.forEach((axis, step) => {
      const split = (u: UOp): [UOp, UOp] => {
        const a = pick(u, axis, 0), b = pick(u, axis, 1);
        return [a.add(b), a.add(negNode(b))];
      };
      const [sumRe, lessRe] = split(re), [sumIm, lessIm] = split(im);
      const [turnedRe, turnedIm] = turn(lessRe, lessIm, axes.slice(step + 1), to.with(axis, 1), d);
      [re, im] = [pairNodes(sumRe, turnedRe, axis), pairNodes(sumIm, turnedIm, axis)];
    });
    if (rest > 1) {
      // the first axis of the result is the last of its place
      const order = [...rangeOf(bits).reverse(), bits];
      const spread = (u: UOp): UOp => {
        const table = permute(reshape(u, [...axes.map(() => 2), rest]), order);
        return broadcastTo(reshape(table, [...axes.map(() => 2), rest, 1]), to);
      };
      const [c, s] = this.twiddles(f, rest).map(spread);
      [re, im] = [re.mul(c).add(negNode(im.mul(s))), im.mul(c).add(re.mul(s))];
    }
    const order = [...rangeOf(l + 1), behind, ...axes.toReversed(), behind + 1];
    return uop(Ops.CONTIGUOUS, d, [permute(pairNodes(re, im, l), order)]);
  }

  /** The same by a product with a matrix. */
  private product(x: UOp, view: readonly number[]): UOp {
    const l = view.length - 4, lead = view.slice(0, l), [f, rest, done] = view.slice(l + 1);
    const roots = rangeOf(f).flatMap((k) => rangeOf(f).map((i) => root(k * i, f)));
    // [part, k] of the result by [part, i]
    const values = [0, 1].flatMap((p) =>
      rangeOf(f).flatMap((k) =>
        [0, 1].flatMap((q) => rangeOf(f).map((i) => roots[k * f + i][p === q ? 0 : 1] * (p < q ? -1 : 1)))
      )
    );
    const full = [...lead, 2 * f, 2 * f, rest * done];
    const matrix = broadcastTo(reshape(this.table(values, [2 * f, 2 * f]), [2 * f, 2 * f, 1]), full);
    const product = broadcastTo(reshape(x, [...lead, 1, 2 * f, rest * done]), full).mul(matrix);
    const sum = uop(Ops.REDUCE, x.dtype, [product], new ReduceArg(Ops.ADD, [l + 1]));
    const y = reshape(uop(Ops.CONTIGUOUS, x.dtype, [sum]), [...lead, 2, f, rest, done]);
    if (rest === 1) return y;
    const [c, s] = this.twiddles(f, rest).map((u) => reshape(u, [1, f, rest, 1]));
    const to = shapeOf(y), order = [...rangeOf(l + 1), l + 2, l + 1, l + 3];
    const signed = broadcastTo(s, to).mul(byPart(-1, 1, l, to, x.dtype));
    return permute(y.mul(broadcastTo(c, to)).add(flip(y, [l]).mul(signed)), order);
  }

  /** The first half of the transform of reals `[..., n]`, `[..., n / 2 + 1, 2]`. */
  runReal(x: UOp): UOp {
    const shape = shapeOf(x), n = shape[shape.length - 1], lead = shape.slice(0, -1), half = n >> 1;
    if (n % 2 === 1 || n < HALVED) return fit(this.run(reshape(x, [...shape, 1]), true), half + 1, true);
    const z = this.run(reshape(x, [...lead, half, 2])), [re, im, backRe, backIm] = this.mirrored(this.closed(z));
    const [c, s] = this.halfTurn(half, shapeOf(re)), by = floatConst(0.5, this.dtype);
    // z = even + i odd; even is half of a + conj(b), odd half of a - conj(b) over i
    const [evenRe, evenIm, oddRe, oddIm] = [re.add(backRe), im.sub(backIm), im.add(backIm), backRe.sub(re)];
    return pairNodes(
      evenRe.add(oddRe.mul(c)).sub(oddIm.mul(s)).mul(by),
      evenIm.add(oddRe.mul(s)).add(oddIm.mul(c)).mul(by),
      lead.length + 1,
    );
  }

  /** Undoes {@linkcode runReal}, times n, of an even n: pairs `[..., n / 2 + 1, 2]`, real at both ends, to `[..., n]`. */
  runToReal(x: UOp): UOp {
    const shape = shapeOf(x), lead = shape.slice(0, -2), half = shape[lead.length] - 1;
    const [re, im, backRe, backIm] = this.mirrored(x), [c, s] = this.halfTurn(half, shapeOf(re));
    const [evenRe, evenIm, lessRe, lessIm] = [re.add(backRe), im.sub(backIm), re.sub(backRe), im.add(backIm)];
    const oddRe = lessRe.mul(c).add(lessIm.mul(s)), oddIm = lessIm.mul(c).sub(lessRe.mul(s));
    const z = pairNodes(evenRe.sub(oddIm), evenIm.add(oddRe), lead.length + 1), all = lead.map((n): Pair => [0, n]);
    const kept = uop(Ops.CONTIGUOUS, this.dtype, [shrink(z, [...all, [0, half], [0, 2]])]);
    return reshape(conjugate(this.run(conjugate(kept))), [...lead, 2 * half]);
  }

  /** Pairs `[..., n, 2]` with the first again behind the last. */
  private closed(z: UOp): UOp {
    const shape = shapeOf(z), l = shape.length - 2;
    return catNodes([z, shrink(z, shape.map((n, i): Pair => i === l ? [0, 1] : [0, n]))], l);
  }
  /** The parts of pairs `[..., n, 2]`, `[..., n, 1]`, and those from the end. */
  private mirrored(z: UOp): [re: UOp, im: UOp, backRe: UOp, backIm: UOp] {
    const l = shapeOf(z).length - 2, [re, im] = [part(z, 0), part(z, 1)];
    return [re, im, flip(re, [l]), flip(im, [l])];
  }
  /** The roots of unity of half a turn, from 1 to -1 in `half` steps, under `[..., half + 1, 1]`. */
  private halfTurn(half: number, shape: readonly number[]): [UOp, UOp] {
    const last = [-1, 0].map((x) => broadcastTo(floatConst(x, this.dtype), [1]));
    const [c, s] = this.twiddles(2, half).map((u, i) => {
      const own = reshape(shrink(u, [[1, 2], [0, half]]), [half]);
      return broadcastTo(reshape(catNodes([own, last[i]], 0), [half + 1, 1]), shape);
    });
    return [c, s];
  }

  /** A prime length: ik = (i^2 + k^2 - (k - i)^2) / 2 makes it a convolution, of a length that is a power of two. */
  private bluestein(x: UOp): UOp {
    const shape = shapeOf(x), n = shape[shape.length - 2], lead = shape.slice(0, -2);
    const m = 2 ** Math.ceil(Math.log2(2 * n - 1));
    const chirp = rangeOf(n).map((i) => root((i * i) % (2 * n), 2 * n));
    const factor = this.table(chirp.flat(), [n, 2]);
    const kernel = new Array<number>(2 * m).fill(0);
    chirp.forEach(([c, s], i) => {
      for (const at of i === 0 ? [0] : [i, m - i]) [kernel[2 * at], kernel[2 * at + 1]] = [c, -s];
    });
    const none = lead.map((): Pair => [0, 0]), all = lead.map((s): Pair => [0, s]);
    const long = padConstant(complexProduct(x, factor), [...none, [0, m - n], [0, 0]], 0);
    const both = complexProduct(this.run(long), this.run(this.table(kernel, [m, 2])));
    const back = conjugate(this.run(conjugate(both)));
    const cut = shrink(back, [...all, [0, n], [0, 2]]);
    return complexProduct(cut.mul(floatConst(1 / m, this.dtype)), factor);
  }
}

/** One part of pairs, `[..., 1]`. */
function part(x: UOp, which: 0 | 1): UOp {
  const shape = shapeOf(x);
  return shrink(x, shape.map((n, i): Pair => i === shape.length - 1 ? [which, which + 1] : [0, n]));
}

/** `first` at real parts and `second` at imaginary ones along `axis`, under `shape`. */
function byPart(first: number, second: number, axis: number, shape: readonly number[], d: DType): UOp {
  const imaginary = iotaAlong(2, axis, shape.length).eq(constant(1, dtypes.int32));
  return broadcastTo(imaginary.where(floatConst(second, d), floatConst(first, d)), shape);
}

/** Pairs of reals `[..., 1]`. */
function paired(real: UOp): UOp {
  const shape = [...shapeOf(real).slice(0, -1), 2];
  return broadcastTo(real, shape).mul(byPart(1, 0, shape.length - 1, shape, real.dtype));
}

/** Products of pairs, `b` broadcast to `a`: a re(b) + i a im(b), where i swaps the parts. */
function complexProduct(a: UOp, b: UOp): UOp {
  const to = shapeOf(a), last = to.length - 1;
  const turned = broadcastTo(part(b, 1), to).mul(byPart(-1, 1, last, to, a.dtype));
  return a.mul(broadcastTo(part(b, 0), to)).add(flip(a, [last]).mul(turned));
}

function conjugate(x: UOp): UOp {
  const shape = shapeOf(x);
  return x.mul(byPart(1, -1, shape.length - 1, shape, x.dtype));
}

const OPTIONS = ["n", "norm"];

/** Tensors with Fourier transforms. */
export abstract class FourierTensor extends TensorBase {
  /** What a transform of pairs makes of complex numbers: complex ones again, or reals. */
  private ofPairs(transform: (pairs: this) => this, gives = true): this {
    const u = transform(this.wrap(bare(this.uop))).uop;
    return this.wrap(gives ? fromPairs(u) : u);
  }
  /** Checks, moves `dim` last and fits it to `n`; hands it to `f`, divides, and moves it back. */
  private transformed(
    action: string,
    dim: number,
    options: FourierOptions,
    pairs: boolean,
    inverse: boolean,
    length: (n: number) => number,
    f: (x: UOp, transform: Transform, n: number) => UOp,
    gives: boolean,
  ): this {
    checkOptions(action, options, OPTIONS);
    const shape = this.shape, norm = options.norm ?? "backward";
    checkChoice(action, "norm", norm, ["backward", "forward", "ortho"]);
    if (pairs ? shape.length < 2 || shape[shape.length - 1] !== 2 : shape.length < 1) {
      throw new ShapeError(action, {
        shapes: [shape],
        reason: pairs
          ? `it takes complex numbers, or pairs (a last axis of size 2, real and imaginary part); of real numbers: ` +
            `${action === "fft" ? "rfft(), or " : ""}cast("complex64").${action}()`
          : "a scalar has no axis to transform",
      });
    }
    const signal = pairs ? shape.slice(0, -1) : shape;
    const axis = resolveAxis(action, dim, signal);
    if (options.n === undefined) constantAxis(action, this.uop, axis, "give the length n, up to which zeros count");
    const n = options.n === undefined ? length(signal[axis]) : checkInteger(action, "n", options.n, 1);
    if (n < 1) throw new ShapeError(action, { shapes: [shape], axis, reason: `axis ${axis} is empty` });
    const d = promote(floatOf(this.dtype), dtypes.float32), rest = rangeOf(signal.length).filter((a) => a !== axis);
    const tail = pairs ? [signal.length] : [];
    const x = permute(castNode(filled(this.uop, axis), d), [...rest, axis, ...tail]);
    const transform = new Transform(d, deviceOf(this.uop) ?? undefined);
    const y = f(x, transform, n);
    const divisor = norm === "ortho" ? Math.sqrt(n) : (norm === "backward") === inverse ? n : 1;
    const scaled = divisor === 1 ? y : y.mul(floatConst(1 / divisor, d));
    const back = [...rangeOf(signal.length - 1).toSpliced(axis, 0, signal.length - 1), ...gives ? [signal.length] : []];
    return this.wrap(permute(scaled, back));
  }

  /**
   * The discrete Fourier transform along `dim`: of complex numbers `[..., n]`, or of pairs of reals `[..., n, 2]`, to the
   * same shape and dtype; `dim` counts the axes without that of the pairs. Lengths with large prime factors cost a few
   * times more. Those of PyTorch's module of that name, complex of reals too, are functions of {@linkcode fft}.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * console.log(await new Tensor([[1, 0], [0, 0]]).fft().tolist()); // [[1, 0], [1, 0]]
   * console.log(await new Tensor([{ re: 0, im: 1 }, { re: 0, im: 0 }]).fft().tolist()); // [{ re: 0, im: 1 }, { re: 0, im: 1 }]
   * ```
   *
   * @throws {ShapeError} without pairs @throws {ArgumentError} for another norm
   */
  fft(dim = -1, options: FourierOptions = {}): this {
    if (this.dtype.isComplex) return this.ofPairs((x) => x.fft(dim, options));
    return this.transformed("fft", dim, options, true, false, (n) => n, (x, t, n) => t.run(fit(x, n, true)), true);
  }

  /** The inverse of {@linkcode fft}, of complex numbers or of pairs. @throws {ShapeError} without pairs */
  ifft(dim = -1, options: FourierOptions = {}): this {
    if (this.dtype.isComplex) return this.ofPairs((x) => x.ifft(dim, options));
    const inverse = (x: UOp, t: Transform, n: number) => conjugate(t.run(conjugate(fit(x, n, true))));
    return this.transformed("ifft", dim, options, true, true, (n) => n, inverse, true);
  }

  /**
   * The first half of the transform of real values along `dim`: `[..., n]` to pairs `[..., n / 2 + 1, 2]`, rounded down,
   * of which `viewAsComplex()` is the complex form. The rest is the conjugate of it.
   *
   * @throws {ShapeError} for scalars and empty axes @throws {DTypeError} for complex numbers
   */
  rfft(dim = -1, options: FourierOptions = {}): this {
    if (this.dtype.isComplex) {
      throw new DTypeError("rfft dtype", { dtypes: [this.dtype], reason: "it takes real numbers; use fft()" });
    }
    const half = (x: UOp, t: Transform, n: number) => t.runReal(fit(x, n, false));
    return this.transformed("rfft", dim, options, false, false, (n) => n, half, true);
  }

  /**
   * The inverse of {@linkcode rfft}: complex `[..., m]`, or pairs `[..., m, 2]`, to real `[..., n]`, by default n = 2 (m - 1).
   *
   * @throws {ShapeError} without pairs
   */
  irfft(dim = -1, options: FourierOptions = {}): this {
    if (this.dtype.isComplex) return this.ofPairs((x) => x.irfft(dim, options), false);
    const real = (x: UOp, t: Transform, n: number) => {
      const half = fit(x, Math.floor(n / 2) + 1, true), shape = shapeOf(half), m = shape[shape.length - 2];
      const l = shape.length - 2, mirrored = n - m;
      // The imaginary parts of the first and, for even n, the middle element do not count.
      const inner = shrink(half, shape.map((s, i): Pair => i === l ? [1, 1 + mirrored] : [0, s]));
      const plain = (at: number) =>
        paired(part(shrink(half, shape.map((s, i): Pair => i === l ? [at, at + 1] : [0, s])), 0));
      const middle = n % 2 === 0 ? [plain(m - 1)] : [];
      if (n % 2 === 0 && n >= HALVED) return t.runToReal(catNodes([plain(0), inner, ...middle], l));
      const conjugates = mirrored > 0 ? [flip(conjugate(inner), [l])] : [];
      const full = catNodes([plain(0), ...mirrored > 0 ? [inner] : [], ...middle, ...conjugates], l);
      const y = part(t.run(conjugate(full)), 0);
      return reshape(y, shapeOf(y).slice(0, -1));
    };
    return this.transformed("irfft", dim, options, true, true, (m) => 2 * (m - 1), real, false);
  }
}

/** The transformed axis, last or before the pairs, cut or padded to `n`. */
function fit(x: UOp, n: number, pairs: boolean): UOp {
  const shape = shapeOf(x), axis = shape.length - (pairs ? 2 : 1), have = shape[axis];
  if (have === n) return x;
  if (have > n) return shrink(x, shape.map((s, i): Pair => i === axis ? [0, n] : [0, s]));
  return padConstant(x, shape.map((_, i): Pair => i === axis ? [0, n - have] : [0, 0]), 0);
}
