/**
 * Fourier transforms as functions on complex numbers, with PyTorch's and NumPy's names, along one axis, two or many; the
 * order and the frequencies of what they give; and windows. In: tensors, real ones taken as complex where a transform is
 * of such. Out: complex tensors, or real ones where the name says so.
 *
 * @module
 */
import type { Checked } from "../device/device.ts";
import { complexOf, toDType } from "../dtype/dtype.ts";
import { defaultFloat } from "../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../helpers/errors.ts";
import { rangeOf } from "../helpers/math.ts";
import { checkBoolean, checkCount, checkInteger, checkNumber, checkOptions, describe } from "../helpers/options.ts";
import { type Axes, resolveAxes } from "./handle/axes.ts";
import { checkTensor } from "./handle/base.ts";
import { TENSOR_OPTIONS, type TensorOptions } from "./handle/creation.ts";
import type { FourierNorm, FourierOptions } from "./math/fourier.ts";
import { Tensor } from "./tensor.ts";

/** Options of transforms along several axes. */
export interface FourierAxesOptions {
  /** The lengths transformed, by axis: each is cut or padded with zeros; -1 leaves one as it is. Default: their sizes. */
  readonly s?: readonly number[];
  /** Where the result is divided. Default "backward". */
  readonly norm?: FourierNorm;
}
/** Options of frequencies: the spacing of samples, and those of a tensor. */
export interface FrequencyOptions extends TensorOptions {
  /** How far apart samples are. Default 1. */
  readonly d?: number;
}
/** Options of windows. */
export interface WindowOptions extends TensorOptions {
  /** Whether the window is one of n + 1 points without the last, for spectra; false: symmetric, for filters. Default true. */
  readonly periodic?: boolean;
}

function complexInput(action: string, x: Tensor): Tensor {
  checkTensor(action, "x", x);
  return x.dtype.isComplex ? x : x.cast(complexOf(x.dtype));
}

function realInput(action: string, x: Tensor): Tensor {
  checkTensor(action, "x", x);
  if (!x.dtype.isComplex) return x;
  throw new DTypeError(`${action} dtype`, { dtypes: [x.dtype], reason: "it takes real numbers; take real() first" });
}

/** The norm whose division is the other direction's. */
function swapped(norm: FourierNorm = "backward"): FourierNorm {
  return norm === "backward" ? "forward" : norm === "forward" ? "backward" : norm;
}

/** Axes of a transform along several, and the length of each. */
function axesOf(
  action: string,
  x: Tensor,
  dim: Axes | undefined,
  { s }: FourierAxesOptions,
): [axis: number, n: number | undefined][] {
  if (s !== undefined && !Array.isArray(s)) {
    throw new ArgumentError(action, { reason: `s must be a list of lengths, not ${describe(s)}` });
  }
  const last = dim ?? (s === undefined ? undefined : rangeOf(s.length).map((i) => i - s.length));
  const axes = last === undefined ? rangeOf(x.ndim) : resolveAxes(action, last, x.shape);
  if (axes.length === 0) throw new ShapeError(action, { shapes: [x.shape], reason: "there is no axis to transform" });
  if (s !== undefined && s.length !== axes.length) {
    throw new ArgumentError(action, { reason: `s has ${s.length} lengths for ${axes.length} axes` });
  }
  return axes.map((a, i) => {
    if (s !== undefined) checkInteger(action, "each of s", s[i], -1);
    return [a, s === undefined || s[i] === -1 ? undefined : s[i]];
  });
}

/** A transform along one axis after the other. */
function along(
  x: Tensor,
  axes: readonly [axis: number, n: number | undefined][],
  norm: FourierNorm | undefined,
  name: "fft" | "ifft",
): Tensor {
  return axes.reduce((z, [axis, n]) => z[name](axis, { n, norm }), x);
}

const SEVERAL = ["s", "norm"], LAST_TWO: Axes = [-2, -1];

/** The transform along several axes, by default all: `[...]` complex or real to complex. @throws {ShapeError} */
function fftn(x: Tensor, dim?: Axes, options: FourierAxesOptions = {}, action = "fftn"): Tensor {
  checkOptions(action, options, SEVERAL);
  const z = complexInput(action, x);
  return along(z, axesOf(action, z, dim, options), options.norm, "fft");
}
/** The inverse of {@linkcode fftn}. @throws {ShapeError} */
function ifftn(x: Tensor, dim?: Axes, options: FourierAxesOptions = {}, action = "ifftn"): Tensor {
  checkOptions(action, options, SEVERAL);
  const z = complexInput(action, x);
  return along(z, axesOf(action, z, dim, options), options.norm, "ifft");
}
/** The transform of real numbers along several axes, the first half of the last of them. @throws {DTypeError} for complex ones */
function rfftn(x: Tensor, dim?: Axes, options: FourierAxesOptions = {}, action = "rfftn"): Tensor {
  checkOptions(action, options, SEVERAL);
  const axes = axesOf(action, realInput(action, x), dim, options), [axis, n] = axes[axes.length - 1];
  return along(x.rfft(axis, { n, norm: options.norm }).viewAsComplex(), axes.slice(0, -1), options.norm, "fft");
}
/** The inverse of {@linkcode rfftn}: real. By default the last axis is of even size. @throws {ShapeError} */
function irfftn(x: Tensor, dim?: Axes, options: FourierAxesOptions = {}, action = "irfftn"): Tensor {
  checkOptions(action, options, SEVERAL);
  const z = complexInput(action, x), axes = axesOf(action, z, dim, options), [axis, n] = axes[axes.length - 1];
  return along(z, axes.slice(0, -1), options.norm, "ifft").irfft(axis, { n, norm: options.norm });
}

/** Positions moved by half of each axis. */
function shifted(action: string, x: Tensor, dim: Axes | undefined, by: (n: number) => number): Tensor {
  checkTensor(action, "x", x);
  const axes = dim === undefined ? rangeOf(x.ndim) : resolveAxes(action, dim, x.shape);
  return axes.length === 0 ? x : x.roll(axes.map((a) => by(x.shape[a])), axes);
}

/** The frequencies of n places, from `first` on. */
function frequencies(action: string, n: number, wraps: boolean, spacing: number | FrequencyOptions): Tensor {
  checkCount(action, "n", n, 1);
  const options = typeof spacing === "number" ? { d: spacing } : spacing;
  checkOptions(action, options, ["d", ...TENSOR_OPTIONS]);
  const { d = 1, ...rest } = options;
  checkNumber(action, "d", d);
  if (d === 0 || !Number.isFinite(d)) {
    throw new ArgumentError(action, { reason: `d is ${d}; it must be finite, not 0` });
  }
  const at = rangeOf(wraps ? n : Math.floor(n / 2) + 1).map((i) => wraps && i >= Math.ceil(n / 2) ? i - n : i);
  return new Tensor(at.map((i) => i / (n * d)), { ...rest, dtype: rest.dtype ?? defaultFloat() });
}

/**
 * Fourier transforms of complex tensors, as PyTorch's `torch.fft`: `fft.rfft(x)` is complex where the method `x.rfft()`
 * gives pairs of reals.
 *
 * ```ts
 * import { fft, Tensor } from "../../mod.ts";
 * const x = new Tensor([1, 2, 3, 4], { dtype: "float32" });
 * console.log(await fft.fft(x).tolist()); // [{ re: 10, im: 0 }, { re: -2, im: 2 }, { re: -2, im: 0 }, { re: -2, im: -2 }]
 * console.log(await fft.irfft(fft.rfft(x)).tolist()); // [1, 2, 3, 4]
 * ```
 */
export const fft: Readonly<{
  /** The transform along `dim` of `n` numbers. @throws {ShapeError} */
  fft(x: Tensor, dim?: number, options?: FourierOptions): Tensor;
  /** Its inverse. @throws {ShapeError} */
  ifft(x: Tensor, dim?: number, options?: FourierOptions): Tensor;
  /** The first half of that of real numbers. @throws {DTypeError} for complex ones */
  rfft(x: Tensor, dim?: number, options?: FourierOptions): Tensor;
  /** Its inverse: real, by default of an even length. @throws {ShapeError} */
  irfft(x: Tensor, dim?: number, options?: FourierOptions): Tensor;
  /** The real transform of the first half of what is its own conjugate mirrored. @throws {ShapeError} */
  hfft(x: Tensor, dim?: number, options?: FourierOptions): Tensor;
  /** Its inverse: the first half. @throws {DTypeError} for complex numbers */
  ihfft(x: Tensor, dim?: number, options?: FourierOptions): Tensor;
  /** Along two axes, by default the last. @throws {ShapeError} */
  fft2(x: Tensor, dim?: Axes, options?: FourierAxesOptions): Tensor;
  /** Its inverse. @throws {ShapeError} */
  ifft2(x: Tensor, dim?: Axes, options?: FourierAxesOptions): Tensor;
  /** That of real numbers. @throws {DTypeError} for complex ones */
  rfft2(x: Tensor, dim?: Axes, options?: FourierAxesOptions): Tensor;
  /** Its inverse: real. @throws {ShapeError} */
  irfft2(x: Tensor, dim?: Axes, options?: FourierAxesOptions): Tensor;
  /** Along several axes, by default all. @throws {ShapeError} */
  fftn(x: Tensor, dim?: Axes, options?: FourierAxesOptions): Tensor;
  /** Its inverse. @throws {ShapeError} */
  ifftn(x: Tensor, dim?: Axes, options?: FourierAxesOptions): Tensor;
  /** That of real numbers, the last axis halved. @throws {DTypeError} for complex ones */
  rfftn(x: Tensor, dim?: Axes, options?: FourierAxesOptions): Tensor;
  /** Its inverse: real. @throws {ShapeError} */
  irfftn(x: Tensor, dim?: Axes, options?: FourierAxesOptions): Tensor;
  /** Frequency 0 moved to the middle of `dim`, by default of all axes. @throws {ShapeError} */
  fftshift(x: Tensor, dim?: Axes): Tensor;
  /** The inverse of `fftshift`. @throws {ShapeError} */
  ifftshift(x: Tensor, dim?: Axes): Tensor;
  /**
   * The frequency of each place of a transform of n samples: positive ones, then negative ones; a number alone is `d`.
   *
   * @throws {ArgumentError}
   */
  fftfreq<N extends string>(n: number, options?: number | Checked<FrequencyOptions, N>): Tensor;
  /** Those of `rfft`. @throws {ArgumentError} */
  rfftfreq<N extends string>(n: number, options?: number | Checked<FrequencyOptions, N>): Tensor;
}> = Object.freeze({
  fft: (x: Tensor, dim = -1, options: FourierOptions = {}) => complexInput("fft", x).fft(dim, options),
  ifft: (x: Tensor, dim = -1, options: FourierOptions = {}) => complexInput("ifft", x).ifft(dim, options),
  rfft: (x: Tensor, dim = -1, options: FourierOptions = {}) => realInput("rfft", x).rfft(dim, options).viewAsComplex(),
  irfft: (x: Tensor, dim = -1, options: FourierOptions = {}) => complexInput("irfft", x).irfft(dim, options),
  hfft: (x: Tensor, dim = -1, options: FourierOptions = {}) =>
    complexInput("hfft", x).conj().irfft(dim, {
      ...checkOptions("hfft", options, ["n", "norm"]),
      norm: swapped(options.norm),
    }),
  ihfft: (x: Tensor, dim = -1, options: FourierOptions = {}) =>
    realInput("ihfft", x).rfft(dim, { ...checkOptions("ihfft", options, ["n", "norm"]), norm: swapped(options.norm) })
      .viewAsComplex().conj(),
  fft2: (x: Tensor, dim: Axes = LAST_TWO, options: FourierAxesOptions = {}) => fftn(x, dim, options, "fft2"),
  ifft2: (x: Tensor, dim: Axes = LAST_TWO, options: FourierAxesOptions = {}) => ifftn(x, dim, options, "ifft2"),
  rfft2: (x: Tensor, dim: Axes = LAST_TWO, options: FourierAxesOptions = {}) => rfftn(x, dim, options, "rfft2"),
  irfft2: (x: Tensor, dim: Axes = LAST_TWO, options: FourierAxesOptions = {}) => irfftn(x, dim, options, "irfft2"),
  fftn: (x: Tensor, dim?: Axes, options: FourierAxesOptions = {}) => fftn(x, dim, options),
  ifftn: (x: Tensor, dim?: Axes, options: FourierAxesOptions = {}) => ifftn(x, dim, options),
  rfftn: (x: Tensor, dim?: Axes, options: FourierAxesOptions = {}) => rfftn(x, dim, options),
  irfftn: (x: Tensor, dim?: Axes, options: FourierAxesOptions = {}) => irfftn(x, dim, options),
  fftshift: (x: Tensor, dim?: Axes) => shifted("fftshift", x, dim, (n) => n >> 1),
  ifftshift: (x: Tensor, dim?: Axes) => shifted("ifftshift", x, dim, (n) => (n + 1) >> 1),
  fftfreq: (n: number, options: number | FrequencyOptions = {}) => frequencies("fftfreq", n, true, options),
  rfftfreq: (n: number, options: number | FrequencyOptions = {}) => frequencies("rfftfreq", n, false, options),
});

/** A window of n points, computed in double precision: `at` of places from -1 to 1. */
function windowOf(
  action: string,
  n: number,
  options: WindowOptions,
  at: (x: number) => number,
  more: readonly string[] = [],
): Tensor {
  checkCount(action, "n", n);
  checkOptions(action, options, ["periodic", ...more, ...TENSOR_OPTIONS]);
  const { periodic = true, dtype = defaultFloat(), device, requiresGrad } = options;
  checkBoolean(action, "periodic", periodic);
  const d = toDType(dtype);
  if (!d.isFloat || d.isComplex) {
    throw new DTypeError(`${action} of dtype`, { dtypes: [d], reason: "it must be a float" });
  }
  const last = periodic ? n : n - 1;
  const values = rangeOf(n).map((i) => n === 1 ? 1 : at(2 * i / last - 1));
  return new Tensor(values, { dtype: d, device, requiresGrad });
}

/** The modified Bessel function of order 0, by its power series. */
function bessel(x: number): number {
  let sum = 1, term = 1;
  for (let k = 1; term > sum * 2 ** -54; k++) sum += term *= (x / (2 * k)) ** 2;
  return sum;
}

/** Windows for spectra and filters, as PyTorch's `torch.hann_window` and its like; float32 unless a dtype is given. */
export const windows: Readonly<{
  /** cos^2(pi x / 2) for x from -1 to 1. @throws {ArgumentError} */
  hann<N extends string>(n: number, options?: Checked<WindowOptions, N>): Tensor;
  /** 0.54 + 0.46 cos(pi x). @throws {ArgumentError} */
  hamming<N extends string>(n: number, options?: Checked<WindowOptions, N>): Tensor;
  /** 0.42 + 0.5 cos(pi x) + 0.08 cos(2 pi x). @throws {ArgumentError} */
  blackman<N extends string>(n: number, options?: Checked<WindowOptions, N>): Tensor;
  /** 1 - |x|. @throws {ArgumentError} */
  bartlett<N extends string>(n: number, options?: Checked<WindowOptions, N>): Tensor;
  /** I0(beta sqrt(1 - x^2)) / I0(beta), beta 12. @throws {ArgumentError} */
  kaiser<N extends string>(n: number, options?: Checked<WindowOptions, N> & { readonly beta?: number }): Tensor;
}> = Object.freeze({
  hann: (n: number, options: WindowOptions = {}) =>
    windowOf("make a Hann window", n, options, (x) => 0.5 + 0.5 * Math.cos(Math.PI * x)),
  hamming: (n: number, options: WindowOptions = {}) =>
    windowOf("make a Hamming window", n, options, (x) => 0.54 + 0.46 * Math.cos(Math.PI * x)),
  blackman: (n: number, options: WindowOptions = {}) =>
    windowOf(
      "make a Blackman window",
      n,
      options,
      (x) => 0.42 + 0.5 * Math.cos(Math.PI * x) + 0.08 * Math.cos(2 * Math.PI * x),
    ),
  bartlett: (n: number, options: WindowOptions = {}) =>
    windowOf("make a Bartlett window", n, options, (x) => 1 - Math.abs(x)),
  kaiser: (n: number, options: WindowOptions & { readonly beta?: number } = {}) => {
    const { beta = 12 } = options;
    checkNumber("make a Kaiser window", "beta", beta);
    return windowOf("make a Kaiser window", n, options, (x) => {
      return bessel(beta * Math.sqrt(Math.max(1 - x * x, 0))) / bessel(beta);
    }, ["beta"]);
  },
});
