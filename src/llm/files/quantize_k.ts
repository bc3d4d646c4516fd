/**
 * Super-blocks of 256 elements: Q4_K, Q5_K and Q6_K. A sub-block has a scale of a few bits, those have a common one in half
 * precision. Scales are searched: for each of some first guesses elements are rounded, the scale is fitted to the rounded
 * ones by least squares, and the one of the least error is kept; errors of large elements count more.
 *
 * @module
 */
import { f16Bits, f16Value } from "../../dtype/float16.ts";

const BLOCK = 256;
/** First guesses: by how many levels the range of a sub-block is wider or narrower than all levels. */
const GUESSES: readonly number[] = Array.from({ length: 16 }, (_, i) => -1.2 + i * 0.15);

/** A scale, what is taken away, and the error: `x` is about `scale * q - least`. */
interface Fit {
  scale: number;
  least: number;
  error: number;
}

/** How much the error of each element counts: the root of the mean square, and its own size. */
function weightsOf(x: Float32Array): Float32Array {
  const rms = Math.sqrt(x.reduce((s, v) => s + v * v, 0) / x.length);
  return x.map((v) => rms + Math.abs(v));
}

function clamp(x: number, min: number, max: number): number {
  return x < min ? min : x > max ? max : x;
}
/** The levels of elements from `low` to `high`, and the weighted squared error. */
function roundAll(
  x: Float32Array,
  w: Float32Array,
  { scale, least }: { scale: number; least: number },
  [low, high]: readonly [number, number],
  q: Int8Array,
): number {
  const inverse = scale === 0 ? 0 : 1 / scale, steps = high - low;
  let error = 0;
  for (let i = 0; i < x.length; i++) {
    const step = (x[i] + least) * inverse - low + 0.5 | 0, level = low + (step < 0 ? 0 : step > steps ? steps : step);
    const off = scale * level - least - x[i];
    q[i] = level;
    error += w[i] * off * off;
  }
  return error;
}

/** Scale and least by weighted least squares for levels that are given; neither may be below 0. */
function refit(x: Float32Array, w: Float32Array, q: Int8Array): { scale: number; least: number } {
  let sw = 0, sx = 0, sq = 0, sqq = 0, sxq = 0;
  for (let i = 0; i < x.length; i++) {
    const v = w[i], a = v * q[i];
    sw += v;
    sx += v * x[i];
    sq += a;
    sqq += a * q[i];
    sxq += a * x[i];
  }
  const det = sw * sqq - sq * sq, scale = det > 0 ? (sw * sxq - sq * sx) / det : 0;
  const least = det > 0 ? (sq * sxq - sqq * sx) / det : 0;
  if (least >= 0) return { scale: Math.max(scale, 0), least };
  return { scale: sqq > 0 ? Math.max(sxq / sqq, 0) : 0, least: 0 };
}

/** The best of the guesses for levels from 0 to `high`. */
function fitAffine(x: Float32Array, w: Float32Array, high: number, q: Int8Array): Fit {
  const min = Math.min(0, x.reduce((a, b) => Math.min(a, b))), max = x.reduce((a, b) => Math.max(a, b));
  const best: Fit = { scale: 0, least: -min, error: Infinity };
  if (max <= min) return { ...best, error: 0 };
  for (const more of GUESSES) {
    roundAll(x, w, { scale: (max - min) / (high + more), least: -min }, [0, high], q);
    const fit = refit(x, w, q), error = roundAll(x, w, fit, [0, high], q);
    if (error < best.error) Object.assign(best, fit, { error });
  }
  return best;
}

/** The best of the guesses for levels from `-middle` to `middle - 1`. The scale has a sign. */
function fitCentered(x: Float32Array, w: Float32Array, middle: number, q: Int8Array): number {
  const most = furthest(x), range = [-middle, middle - 1] as const;
  let best = 0, least = Infinity;
  if (most === 0) return 0;
  for (const more of GUESSES) {
    roundAll(x, w, { scale: -most / (middle + more), least: 0 }, range, q);
    let sqq = 0, sxq = 0;
    for (let i = 0; i < x.length; i++) {
      sqq += w[i] * q[i] * q[i];
      sxq += w[i] * q[i] * x[i];
    }
    const scale = sqq > 0 ? sxq / sqq : 0, error = roundAll(x, w, { scale, least: 0 }, range, q);
    if (error < least) [best, least] = [scale, error];
  }
  return best;
}

/** The element furthest from 0. */
export function furthest(x: ArrayLike<number>): number {
  let most = 0, value = 0;
  for (let i = 0; i < x.length; i++) {
    if (Math.abs(x[i]) > most) {
      most = Math.abs(x[i]);
      value = x[i];
    }
  }
  return value;
}
/** Writes a number in half precision; gives the value that it has there. */
export function half(view: DataView, at: number, x: number): number {
  const bits = f16Bits(x);
  view.setUint16(at, bits, true);
  return f16Value(bits);
}
/** The whole numbers around `x / unit` that are from `min` to `max`. */
function around(x: number, unit: number, min: number, max: number): number[] {
  const n = unit === 0 ? 0 : Math.round(x / unit);
  return [...new Set([n, n - 1, n + 1].map((k) => clamp(k, min, max)))];
}

/** Scales and minima of six bits in 12 bytes. */
function putScales(scales: Uint8Array, minima: Uint8Array, out: Uint8Array): void {
  for (let j = 0; j < 4; j++) {
    out[j] = scales[j] | scales[j + 4] >> 4 << 6;
    out[j + 4] = minima[j] | minima[j + 4] >> 4 << 6;
    out[j + 8] = scales[j + 4] & 15 | (minima[j + 4] & 15) << 4;
  }
}
/** Low nibbles of 32 elements, high ones of the next 32, four times. */
function putNibbles(q: Int8Array, out: Uint8Array): void {
  for (let i = 0; i < 128; i++) {
    const at = (i >> 5) * 64 + (i & 31);
    out[i] = q[at] & 15 | (q[at + 32] & 15) << 4;
  }
}

/** Q4_K or Q5_K: eight sub-blocks of 32 with a scale and a minimum each. */
export function packAffine(bits: 4 | 5): (x: Float32Array, out: Uint8Array, view: DataView) => void {
  const high = (1 << bits) - 1, q = new Int8Array(BLOCK), scales = new Uint8Array(8), minima = new Uint8Array(8);
  const part = <T extends Float32Array | Int8Array>(a: T, j: number) => a.subarray(j * 32, j * 32 + 32) as T;
  return (x, out, view) => {
    const weights = Array.from({ length: 8 }, (_, j) => weightsOf(part(x, j)));
    const fits = weights.map((w, j) => fitAffine(part(x, j), w, high, part(q, j)));
    const d = half(view, 0, Math.max(...fits.map((f) => f.scale)) / 63);
    const m = half(view, 2, Math.max(...fits.map((f) => f.least)) / 63);
    fits.forEach((fit, j) => {
      let least = Infinity;
      for (const s of around(fit.scale, d, 0, 63)) {
        for (const n of around(fit.least, m, 0, 63)) {
          const error = roundAll(part(x, j), weights[j], { scale: d * s, least: m * n }, [0, high], part(q, j));
          if (error < least) [least, scales[j], minima[j]] = [error, s, n];
        }
      }
      roundAll(part(x, j), weights[j], { scale: d * scales[j], least: m * minima[j] }, [0, high], part(q, j));
    });
    putScales(scales, minima, out.subarray(4, 16));
    if (bits === 5) {
      for (let i = 0; i < 32; i++) {
        out[16 + i] = 0;
        for (let j = 0; j < 8; j++) out[16 + i] |= (q[j * 32 + i] >> 4 & 1) << j;
      }
    }
    putNibbles(q, out.subarray(bits === 5 ? 48 : 16));
  };
}

/** Q6_K: sixteen sub-blocks of 16 with a signed scale each. */
export function packQ6K(x: Float32Array, out: Uint8Array, view: DataView): void {
  const q = new Int8Array(BLOCK), range = [-32, 31] as const;
  const part = <T extends Float32Array | Int8Array>(a: T, j: number) => a.subarray(j * 16, j * 16 + 16) as T;
  const weights = Array.from({ length: 16 }, (_, j) => weightsOf(part(x, j)));
  const fits = weights.map((w, j) => fitCentered(part(x, j), w, 32, part(q, j)));
  const d = half(view, 208, furthest(fits) / -128);
  fits.forEach((fit, j) => {
    let least = Infinity, scale = 0;
    for (const s of around(fit, d, -128, 127)) {
      const error = roundAll(part(x, j), weights[j], { scale: d * s, least: 0 }, range, part(q, j));
      if (error < least) [least, scale] = [error, s];
    }
    roundAll(part(x, j), weights[j], { scale: d * scale, least: 0 }, range, part(q, j));
    view.setInt8(192 + j, scale);
  });
  out.fill(0, 0, 192);
  for (let i = 0; i < BLOCK; i++) {
    const level = q[i] + 32, side = i >> 7, at = i & 127;
    out[side * 64 + (at & 63)] |= (level & 15) << (at >> 6) * 4;
    out[128 + side * 32 + (at & 31)] |= level >> 4 << (at >> 5) * 2;
  }
}
