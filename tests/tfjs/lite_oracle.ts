/**
 * Quantized operators of TensorFlow Lite one number at a time, as its reference kernels define them: what files of bytes are
 * compared with. Multipliers, shifts and their rounding are written from gemmlowp's definitions, in BigInt.
 *
 * @module
 */

/** A tensor of bytes: its numbers, and what they stand for. */
export interface LiteBytes {
  readonly shape: readonly number[];
  readonly data: readonly number[];
  readonly scale: number;
  readonly zero: number;
}
/** What a result is rounded to. */
export interface LiteResult {
  readonly scale: number;
  readonly zero: number;
  readonly least: number;
  readonly most: number;
  readonly activation: number;
}

/** A factor as a number of 31 bits behind the point, and a shift to the left. */
function quantizeMultiplier(factor: number): [bigint, number] {
  let shift = Math.floor(Math.log2(factor)) + 1;
  if (factor / 2 ** shift >= 1) shift++;
  let fixed = BigInt(Math.round(factor / 2 ** shift * 2 ** 31));
  if (fixed === 1n << 31n) {
    fixed /= 2n;
    shift++;
  }
  return shift < -31 ? [0n, 0] : [fixed, shift];
}
function highMul(a: bigint, b: bigint): bigint {
  const ab = a * b, nudge = ab >= 0n ? 1n << 30n : 1n - (1n << 30n);
  return (ab + nudge) / (1n << 31n); // BigInt divides towards zero
}
function divideByPowerOfTwo(x: bigint, exponent: number): bigint {
  const mask = (1n << BigInt(exponent)) - 1n, rest = x & mask, threshold = (mask >> 1n) + (x < 0n ? 1n : 0n);
  return (x >> BigInt(exponent)) + (rest > threshold ? 1n : 0n);
}
/** A whole number times a factor. */
export function timesFactor(x: number, factor: number): number {
  const [fixed, shift] = quantizeMultiplier(factor);
  return Number(divideByPowerOfTwo(highMul(BigInt(x) << BigInt(Math.max(0, shift)), fixed), Math.max(0, -shift)));
}

/** With the zero of the result, cut off where its activation and its type end. */
export function finish(x: number, { scale, zero, least, most, activation }: LiteResult): number {
  const byte = (v: number): number => {
    const q = Math.fround(v / scale);
    return zero + Math.sign(q) * Math.floor(Math.abs(q) + 0.5);
  };
  const low = activation === 2 ? byte(-1) : activation === 0 ? least : byte(0);
  const high = activation === 2 ? byte(1) : activation === 3 ? byte(6) : most;
  return Math.min(Math.min(most, high), Math.max(Math.max(least, low), x + zero));
}

/** A convolution of [1, h, w, c]: weights [out, kh, kw, in] of a group each. */
export function convolution(
  x: LiteBytes,
  weights: {
    readonly shape: readonly number[];
    readonly data: readonly number[];
    readonly scale: readonly number[];
    readonly zero: number;
  },
  bias: readonly number[],
  y: LiteResult,
  o: {
    readonly same: boolean;
    readonly stride: readonly number[];
    readonly dilation: readonly number[];
    readonly groups: number;
  },
): { readonly shape: number[]; readonly data: number[] } {
  const [, h, w, c] = x.shape, [out, kh, kw, inside] = weights.shape, size = [h, w], kernel = [kh, kw];
  const reach = kernel.map((k, i) => (k - 1) * o.dilation[i] + 1);
  const result = size.map((n, i) => o.same ? Math.ceil(n / o.stride[i]) : Math.floor((n - reach[i]) / o.stride[i]) + 1);
  const before = size.map((n, i) =>
    o.same ? Math.floor(Math.max(0, (result[i] - 1) * o.stride[i] + reach[i] - n) / 2) : 0
  );
  const data: number[] = [];
  for (let r = 0; r < result[0]; r++) {
    for (let s = 0; s < result[1]; s++) {
      for (let k = 0; k < out; k++) {
        const group = Math.floor(k / (out / o.groups));
        let sum = bias[k];
        for (let a = 0; a < kh; a++) {
          for (let b = 0; b < kw; b++) {
            const row = r * o.stride[0] - before[0] + a * o.dilation[0],
              column = s * o.stride[1] - before[1] + b * o.dilation[1];
            if (row < 0 || row >= h || column < 0 || column >= w) continue;
            for (let i = 0; i < inside; i++) {
              const weight = weights.data[((k * kh + a) * kw + b) * inside + i] - weights.zero;
              sum += weight * (x.data[(row * w + column) * c + group * inside + i] - x.zero);
            }
          }
        }
        const factor = x.scale * (weights.scale[k] ?? weights.scale[0]) / y.scale;
        data.push(finish(timesFactor(sum, factor), y));
      }
    }
  }
  return { shape: [1, ...result, out], data };
}

/** A sum, or a difference, of bytes of one shape. */
export function sumOf(a: LiteBytes, b: LiteBytes, sign: number, y: LiteResult): number[] {
  const twice = 2 * Math.max(a.scale, b.scale);
  const part = (t: LiteBytes, i: number): number => timesFactor((t.data[i] - t.zero) * 2 ** 20, t.scale / twice);
  return a.data.map((_, i) => finish(timesFactor(part(a, i) + sign * part(b, i), twice / (2 ** 20 * y.scale)), y));
}
/** A product of bytes of one shape. */
export function productOf(a: LiteBytes, b: LiteBytes, y: LiteResult): number[] {
  const factor = Math.fround(Math.fround(a.scale * b.scale) / y.scale);
  return a.data.map((v, i) => finish(timesFactor((v - a.zero) * (b.data[i] - b.zero), factor), y));
}
/** Means of windows of a stride as long as they are, as many as begin in the picture; what lies around is not counted. */
export function averages(x: LiteBytes, window: readonly number[], y: LiteResult): number[] {
  const [, h, w, c] = x.shape, data: number[] = [], [kh, kw] = window;
  const before = (n: number, k: number): number => Math.floor((Math.ceil(n / k) * k - n) / 2);
  for (let r = -before(h, kh); r < h; r += kh) {
    for (let s = -before(w, kw); s < w; s += kw) {
      for (let k = 0; k < c; k++) {
        let sum = 0, count = 0;
        for (let a = Math.max(0, r); a < Math.min(h, r + kh); a++) {
          for (let b = Math.max(0, s); b < Math.min(w, s + kw); b++, count++) sum += x.data[(a * w + b) * c + k];
        }
        const half = Math.floor(count / 2);
        data.push(finish(Math.trunc((sum > 0 ? sum + half : sum - half) / count) - y.zero, y));
      }
    }
  }
  return data;
}
