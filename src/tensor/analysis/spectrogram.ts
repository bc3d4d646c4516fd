/**
 * Spectra over time: the short-time Fourier transform, and its inverse by overlapping windows that are added. In: signals
 * `[..., length]`. Out: complex `[..., frequencies, frames]`, and back. Definitions are PyTorch's.
 *
 * @module
 */
import { floatOf } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { ceilDiv, prod, rangeOf } from "../../helpers/math.ts";
import { checkBoolean, checkChoice, checkInteger, checkOptions } from "../../helpers/options.ts";
import { broadcastTo } from "../../uop/core/build_movement.ts";
import { constant } from "../../uop/core/uop.ts";
import { maybeTensor, TensorBase } from "../handle/base.ts";
import type { PadMode } from "../nodes/movement_nodes.ts";
import type { ComplexTensor } from "../ops/complex_parts.ts";
import type { FourierTensor } from "../math/fourier.ts";

/** Options of {@linkcode SpectrogramTensor.stft} and its inverse. */
export interface SpectrogramOptions {
  /** From one frame to the next. Default: a quarter of nFft. */
  readonly hopLength?: number;
  /** The size of the window, in the middle of a frame. Default nFft. */
  readonly winLength?: number;
  /** What frames are multiplied by, `[winLength]`. Default: ones. */
  readonly window?: TensorBase;
  /** Whether frames are around their places: the signal is padded by half of one on both sides. Default true. */
  readonly center?: boolean;
  /** Whether results are divided by the root of nFft. Default false. */
  readonly normalized?: boolean;
  /** Whether frequencies below 0, conjugates of those above, are left out. Default: for reals. */
  readonly onesided?: boolean;
}
/** Options of {@linkcode SpectrogramTensor.stft}. */
export interface StftOptions extends SpectrogramOptions {
  /** How a signal is padded for `center`. Default "reflect". */
  readonly padMode?: PadMode;
  /** Whether spectra are complex numbers, or else pairs of reals in a last axis. Default true. */
  readonly returnComplex?: boolean;
}
/** Options of {@linkcode SpectrogramTensor.istft}. */
export interface IstftOptions extends SpectrogramOptions {
  /** The length of the signal; default: as far as frames reach. */
  readonly length?: number;
  /** Whether the signal is complex. Default false. */
  readonly returnComplex?: boolean;
}

const COMMON = ["hopLength", "winLength", "window", "center", "normalized", "onesided"];

/** The families that it is written in. */
export interface SpectrogramTensor extends ComplexTensor, FourierTensor {}
/** Tensors with spectra over time. */
export abstract class SpectrogramTensor extends TensorBase {
  /** Options that both directions have, checked; the window is of nFft values. */
  private frames(action: string, nFft: number, options: SpectrogramOptions): [hop: number, window: this | undefined] {
    checkInteger(action, "nFft", nFft, 1);
    const hop = checkInteger(action, "hopLength", options.hopLength ?? Math.max(nFft >> 2, 1), 1);
    const size = checkInteger(action, "winLength", options.winLength ?? nFft, 1);
    for (const name of ["center", "normalized", "onesided"] as const) {
      if (options[name] !== undefined) checkBoolean(action, name, options[name]);
    }
    if (size > nFft) throw new ArgumentError(action, { reason: `winLength ${size} must be at most nFft, ${nFft}` });
    const given = maybeTensor(action, "window", options.window) as this | undefined;
    if (given === undefined && size === nFft) return [hop, undefined];
    if (given !== undefined && (given.ndim !== 1 || given.shape[0] !== size)) {
      throw new ShapeError(action, { shapes: [given.shape], reason: `the window must have shape [${size}]` });
    }
    const one = this.wrap(broadcastTo(constant(1, floatOf(this.dtype).real), [size]));
    const window = given ?? one;
    const left = (nFft - size) >> 1;
    return [hop, window.pad([left, nFft - size - left])];
  }

  /**
   * Spectra of windows of `nFft` values along the last axis, one each `hopLength`: `[..., length]` to complex
   * `[..., nFft / 2 + 1, frames]` of real signals, and to all `nFft` frequencies of complex ones or without `onesided`.
   *
   * ```ts
   * import { Tensor, windows } from "../../../mod.ts";
   * const x = Tensor.arange(1600).mul(0.3).sin();
   * const z = x.stft(400, { hopLength: 160, window: windows.hann(400) });
   * console.log(z.shape, z.dtype.name); // [201, 11] complex64
   * ```
   *
   * @throws {ShapeError} for a signal shorter than a frame, and a window of another size @throws {ArgumentError}
   */
  stft(nFft: number, options: StftOptions = {}): this {
    const action = "stft";
    checkOptions(action, options, [...COMMON, "padMode", "returnComplex"]);
    const [hop, window] = this.frames(action, nFft, options), { isComplex } = this.dtype;
    const { center = true, padMode = "reflect", normalized = false, onesided = !isComplex } = options;
    checkChoice(action, "padMode", padMode, ["constant", "reflect", "replicate", "circular"]);
    if (onesided && isComplex) {
      throw new DTypeError("stft, one-sided, dtype", {
        dtypes: [this.dtype],
        reason: "spectra of complex signals have no symmetry; leave onesided out",
      });
    }
    if (this.ndim === 0) throw new ShapeError(action, { shapes: [[]], reason: "a scalar has no axis to transform" });
    const half = nFft >> 1, lead = this.ndim - 1;
    // modes other than constant take axes before the last two for granted
    const rows = this.reshape([prod(this.shape.slice(0, lead)), 1, this.shape[lead]]);
    if (center && padMode === "reflect" && this.shape[lead] <= half) {
      throw new ShapeError(action, {
        shapes: [this.shape],
        axis: lead,
        reason: `a reflection of ${half} values takes ${half + 1} or more; give { center: false } or another padMode`,
      });
    }
    const signal = center ? rows.pad([half, half], { mode: padMode }) : rows;
    const n = signal.shape[2];
    if (n < nFft) {
      throw new ShapeError(action, { shapes: [this.shape], axis: lead, reason: `${n} values are no frame of ${nFft}` });
    }
    const cut = signal.unfold(2, nFft, hop), framed = window === undefined ? cut : cut.mul(window) as this;
    const spectrum = onesided
      ? framed.rfft().viewAsComplex()
      : (framed.dtype.isComplex ? framed : framed.cast(framed.dtype.bits === 64 ? "complex128" : "complex64")).fft();
    const scaled = normalized ? spectrum.mul(nFft ** -0.5) : spectrum, [, , frames, count] = scaled.shape;
    const spectra = scaled.transpose(-1, -2).reshape([...this.shape.slice(0, lead), count, frames]) as this;
    return options.returnComplex === false ? spectra.viewAsReal() as this : spectra;
  }

  /**
   * The signal of spectra that {@linkcode stft} gave with the same options: frames times the window, added where they
   * overlap, over the sum of its squares. Where windows leave gaps it is NaN.
   *
   * @throws {DTypeError} for real numbers @throws {ShapeError} for another number of frequencies, and a window of another size
   */
  istft(nFft: number, options: IstftOptions = {}): this {
    const action = "istft";
    checkOptions(action, options, [...COMMON, "length", "returnComplex"]);
    if (!this.dtype.isComplex) {
      throw new DTypeError("istft dtype", { dtypes: [this.dtype], reason: "it takes complex numbers" });
    }
    const [hop, window] = this.frames(action, nFft, options), shape = this.shape, lead = shape.length - 2;
    const { center = true, normalized = false, returnComplex = false } = options;
    const onesided = options.onesided ?? shape[lead] !== nFft, count = onesided ? (nFft >> 1) + 1 : nFft;
    if (lead < 0 || shape[lead] !== count) {
      throw new ShapeError(action, {
        shapes: [shape],
        reason: `the last axes must be ${count} frequencies and the frames`,
      });
    }
    if (onesided && returnComplex) {
      throw new ArgumentError(action, {
        reason: "a complex signal has frequencies of both signs: give onesided: false",
      });
    }
    if (shape[lead + 1] === 0) {
      throw new ShapeError(action, { shapes: [shape], axis: lead + 1, reason: "it has no frames" });
    }
    const size = options.winLength ?? nFft;
    if (hop > size) {
      throw new ArgumentError(action, {
        reason: `windows of ${size} values each ${hop} leave gaps; hopLength must be at most winLength`,
      });
    }
    const spectra = this.reshape([prod(shape.slice(0, lead)), count, shape[lead + 1]]).transpose(-1, -2);
    const cut = onesided ? spectra.irfft(-1, { n: nFft }) : returnComplex ? spectra.ifft() : spectra.ifft().real();
    const scaled = normalized ? cut.mul(nFft ** 0.5) as this : cut as this;
    const ones = this.wrap(broadcastTo(constant(1, this.dtype.real), [nFft])), frames = shape[lead + 1];
    const by = (window ?? ones).reshape([1, 1, nFft]);
    const added = overlap(scaled.mul(by) as this, hop);
    const weight = overlap(by.mul(by).expand([1, frames, nFft]) as this, hop), total = added.shape[1];
    const start = center ? nFft >> 1 : 0;
    const end = options.length === undefined
      ? total - start
      : start + checkInteger(action, "length", options.length, 1);
    const cutTo = (x: this): this => x.shrink([null, [start, Math.min(end, total)]]); // windows may end in zeros
    const kept = cutTo(added).div(cutTo(weight));
    return kept.pad([0, Math.max(end - total, 0)]).reshape([...shape.slice(0, lead), end - start]);
  }
}

/** Frames `[b, frames, size]`, each `hop` behind the one before it, added: `[b, (frames - 1) hop + size]`. */
function overlap<T extends SpectrogramTensor>(x: T, hop: number): T {
  const [b, frames, size] = x.shape, parts = ceilDiv(size, hop), total = (frames - 1) * hop + size;
  const whole = x.pad([0, parts * hop - size]).reshape([b, frames, parts, hop]) as T;
  const sum = rangeOf(parts).map((i) => {
    const part = whole.shrink([null, null, [i, i + 1], null]).reshape([b, frames, hop]) as T;
    return part.pad([[0, 0], [i, parts - 1 - i], [0, 0]]) as T;
  }).reduce((p, q) => p.add(q) as T);
  return sum.reshape([b, (frames + parts - 1) * hop]).shrink([null, [0, total]]) as T;
}
