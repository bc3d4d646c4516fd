/**
 * Discrete Fourier transforms. Complex numbers are pairs: a last axis of size 2, real and imaginary part. A length is
 * split into factors of up to 64 (Cooley and Tukey, "An algorithm for the machine calculation of complex Fourier
 * series", Math. Comp. 19, 1965); each is a product with a matrix of roots of unity. Lengths with a larger prime factor
 * are convolutions (Bluestein, 1970). The roots are computed in double precision.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { rangeOf } from "../../helpers/math.ts";
import { checkInteger, checkOptions, describe } from "../../helpers/options.ts";
import { broadcastTo, flip, permute, reshape, shrink } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { resolveAxis } from "../handle/axes.ts";
import { TensorBase } from "../handle/base.ts";
import { hostNode } from "../handle/creation.ts";
import { constantAxis } from "../handle/dims.ts";
import { packHost } from "../nodes/host.ts";
import { catNodes, filled, iotaAlong, padConstant } from "../nodes/movement_nodes.ts";
import { floatConst } from "../nodes/numeric.ts";
import { castNode } from "../nodes/scalars.ts";
import { sumLast } from "./linalg.ts";

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

/** cos and sin of -2 pi k / n, exact at quarters of a turn. */
function root(k: number, n: number): Pair {
  const r = ((k % n) + n) % n;
  const quarter = Math.floor((4 * r) / n), rest = 2 * Math.PI * ((4 * r - quarter * n) / (4 * n));
  const c = Math.cos(rest), s = Math.sin(rest);
  const [x, y] = [[c, s], [-s, c], [-c, -s], [s, -c]][quarter];
  return [x + 0, -y + 0];
}

/** The largest factor of `n` up to 64, or 1 if it has none. */
function factorOf(n: number): number {
  for (let f = Math.min(LARGEST, n); f > 1; f--) if (n % f === 0) return f;
  return 1;
}

/** Transforms with the tables of one dtype and device. */
class Transform {
  constructor(private readonly dtype: DType, private readonly device: string | undefined) {}

  table(values: readonly number[], shape: readonly number[]): UOp {
    return hostNode(packHost(values, this.dtype), this.dtype, shape, this.device);
  }

  /** The transform of `[..., n, 2]` over n. */
  run(x: UOp): UOp {
    const shape = shapeOf(x), n = shape[shape.length - 2];
    if (n <= 1) return x;
    const n1 = n <= LARGEST ? n : factorOf(n), n2 = n / n1;
    if (n1 === 1) return this.bluestein(x);
    const lead = shape.slice(0, -2), l = lead.length, front = rangeOf(l);
    // Element n2 i1 + i2 as [i2, i1]: a product over i1 with the roots of n1.
    const apart = permute(reshape(x, [...lead, n1, n2, 2]), [...front, l + 1, l, l + 2]);
    const y = this.product(apart, n1);
    if (n2 === 1) return reshape(y, shape);
    const twiddle = rangeOf(n2).flatMap((i2) => rangeOf(n1).flatMap((k1) => root(i2 * k1, n)));
    const turned = complexProduct(y, this.table(twiddle, [n2, n1, 2]));
    // [k1, i2] over i2, then k1 + n1 k2.
    const z = this.run(permute(turned, [...front, l + 1, l, l + 2]));
    return reshape(permute(z, [...front, l + 1, l, l + 2]), shape);
  }

  /** `[..., i, 2]` to `[..., k, 2]`: complex products as real ones of twice the length. */
  private product(x: UOp, n: number): UOp {
    const shape = shapeOf(x), lead = shape.slice(0, -2), m = 2 * n;
    const values = new Array<number>(m * m);
    for (let k = 0; k < n; k++) {
      for (let i = 0; i < n; i++) {
        const [c, s] = root(i * k, n), at = 2 * k * m + 2 * i;
        [values[at], values[at + 1], values[at + m], values[at + m + 1]] = [c, -s, s, c];
      }
    }
    return matrixProduct(reshape(x, [...lead, m]), this.table(values, [m, m]), shape);
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

/** `first` at real parts and `second` at imaginary ones, under `shape`. */
function byPart(first: number, second: number, shape: readonly number[], d: DType): UOp {
  const rank = shape.length, imaginary = iotaAlong(2, rank - 1, rank).eq(constant(1, dtypes.int32));
  return broadcastTo(imaginary.where(floatConst(second, d), floatConst(first, d)), shape);
}

/** Pairs of reals `[..., 1]`. */
function paired(real: UOp): UOp {
  const shape = [...shapeOf(real).slice(0, -1), 2];
  return broadcastTo(real, shape).mul(byPart(1, 0, shape, real.dtype));
}

/** Products of pairs, `b` broadcast to `a`: a re(b) + i a im(b), where i swaps the parts. */
function complexProduct(a: UOp, b: UOp): UOp {
  const to = shapeOf(a), last = to.length - 1;
  const turned = broadcastTo(part(b, 1), to).mul(byPart(-1, 1, to, a.dtype));
  return a.mul(broadcastTo(part(b, 0), to)).add(flip(a, [last]).mul(turned));
}

function conjugate(x: UOp): UOp {
  return x.mul(byPart(1, -1, shapeOf(x), x.dtype));
}

/** `x` `[..., i]` by `matrix` `[k, i]` over i, under `shape`. */
function matrixProduct(x: UOp, matrix: UOp, shape: readonly number[]): UOp {
  const from = shapeOf(x), lead = from.slice(0, -1), [k, i] = shapeOf(matrix), full = [...lead, k, i];
  const product = broadcastTo(reshape(x, [...lead, 1, i]), full).mul(broadcastTo(matrix, full));
  return uop(Ops.CONTIGUOUS, x.dtype, [reshape(sumLast(product, 1), shape)]);
}

const OPTIONS = ["n", "norm"];

/** Tensors with Fourier transforms. */
export abstract class FourierTensor extends TensorBase {
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
    if (norm !== "backward" && norm !== "forward" && norm !== "ortho") {
      throw new ArgumentError(action, {
        reason: `unknown norm ${describe(norm)}; known are backward, forward, ortho`,
      });
    }
    if (pairs ? shape.length < 2 || shape[shape.length - 1] !== 2 : shape.length < 1) {
      throw new ShapeError(action, {
        shapes: [shape],
        reason: pairs
          ? "it takes pairs: a last axis of size 2, real and imaginary part"
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
   * The discrete Fourier transform of pairs along `dim`: `[..., n, 2]` to the same shape; `dim` counts the axes without
   * that of the pairs. Float32, float64 for float64. Lengths with large prime factors cost a few times more.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * console.log(await new Tensor([[1, 0], [0, 0]]).fft().tolist()); // [[1, 0], [1, 0]]
   * ```
   *
   * @throws {ShapeError} without pairs @throws {ArgumentError} for another norm
   */
  fft(dim = -1, options: FourierOptions = {}): this {
    return this.transformed("fft", dim, options, true, false, (n) => n, (x, t, n) => t.run(fit(x, n, true)), true);
  }

  /** The inverse of {@linkcode fft}: `[..., n, 2]` to the same shape. @throws {ShapeError} without pairs */
  ifft(dim = -1, options: FourierOptions = {}): this {
    const inverse = (x: UOp, t: Transform, n: number) => conjugate(t.run(conjugate(fit(x, n, true))));
    return this.transformed("ifft", dim, options, true, true, (n) => n, inverse, true);
  }

  /**
   * The first half of the transform of real values along `dim`: `[..., n]` to `[..., n / 2 + 1, 2]`, rounded down. The
   * rest is the conjugate of it.
   *
   * @throws {ShapeError} for scalars and empty axes
   */
  rfft(dim = -1, options: FourierOptions = {}): this {
    const half = (x: UOp, t: Transform, n: number) => {
      const whole = t.run(paired(reshape(fit(x, n, false), [...shapeOf(x).slice(0, -1), n, 1])));
      return fit(whole, Math.floor(n / 2) + 1, true);
    };
    return this.transformed("rfft", dim, options, false, false, (n) => n, half, true);
  }

  /**
   * The inverse of {@linkcode rfft}: `[..., m, 2]` to real `[..., n]`, by default n = 2 (m - 1).
   *
   * @throws {ShapeError} without pairs
   */
  irfft(dim = -1, options: FourierOptions = {}): this {
    const real = (x: UOp, t: Transform, n: number) => {
      const half = fit(x, Math.floor(n / 2) + 1, true), shape = shapeOf(half), m = shape[shape.length - 2];
      const l = shape.length - 2, mirrored = n - m;
      // The imaginary parts of the first and, for even n, the middle element do not count.
      const inner = shrink(half, shape.map((s, i): Pair => i === l ? [1, 1 + mirrored] : [0, s]));
      const plain = (at: number) =>
        paired(part(shrink(half, shape.map((s, i): Pair => i === l ? [at, at + 1] : [0, s])), 0));
      const middle = n % 2 === 0 ? [plain(m - 1)] : [];
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
