/**
 * ONNX: signals: Fourier transforms, spectra over time, windows, mel filters.
 *
 * @module
 */
import { Tensor } from "../../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../../values/node_call.ts";
import { knownValue, valueOf } from "../../values/value.ts";
import { DOUBLE, FLOAT } from "../../wire/element_types.ts";

/** The last axis as a pair: imaginary parts are zeros where there are none. */
function pairs(x: Tensor): Tensor {
  if (x.shape[x.ndim - 1] === 2) return x;
  return x.pad(x.shape.map((_, i): [number, number] => [0, i === x.ndim - 1 ? 1 : 0]));
}
/** An axis cut or padded with zeros to a size. */
function fitted(x: Tensor, axis: number, n: number): Tensor {
  const have = x.shape[axis];
  if (have === n) return x;
  return x.pad(x.shape.map((_, i): [number, number] => [0, i === axis ? n - have : 0]));
}
function part(x: Tensor, axis: number, from: number, to: number): Tensor {
  return x.shrink(x.shape.map((n, i): [number, number] => i === axis ? [from, to] : [0, n]));
}

function dft(c: Call): Result {
  const x = c.x(0), rank = x.ndim, inverse = c.int("inverse", 0) === 1, half = c.int("onesided", 0) === 1;
  const axis = c.axis(c.version >= 20 ? c.number(2, -2) : c.int("axis", 1), rank), have = x.shape[axis];
  const n = c.list(c.has(1) ? c.number(1) : inverse && half ? 2 * (have - 1) : have);
  if (inverse && half) {
    // the other half is the mirror's conjugate, and the result is real
    const m = Math.floor(n / 2) + 1,
      known = fitted(pairs(x), axis, m),
      mirror = part(known, axis, 1, n - m + 1).flip([axis]);
    const sign = new Tensor(Float32Array.of(1, -1), { device: c.device as "JS" });
    const whole = known.cat([mirror.mul(sign)], axis);
    return c.like(part(whole.ifft(axis), rank - 1, 0, 1));
  }
  const y = fitted(pairs(x), axis, n), z = inverse ? y.ifft(axis) : y.fft(axis);
  return c.like(half ? part(z, axis, 0, Math.floor(n / 2) + 1) : z);
}

function stft(c: Call): Result {
  const x = c.x(0), step = c.number(1), window = c.opt(2), length = c.has(3) ? c.number(3) : window?.shape[0];
  if (length === undefined) throw c.fail("it has neither a window nor a frame length");
  const signal = x.ndim === 2 ? x.unsqueeze(2) : x, frames = pairs(signal).unfold(1, length, step).transpose(2, 3);
  const y = (window === undefined ? frames : frames.mul(window.reshape([1, 1, -1, 1]))).fft(2);
  return c.like(c.int("onesided", 1) === 1 ? part(y, 2, 0, Math.floor(length / 2) + 1) : y);
}

/** A window as a sum of cosines. */
const window = (name: string, terms: readonly number[]): OpRow =>
  op(name, (c) => {
    const n = c.number(0), type = c.int("output_datatype", FLOAT), length = c.int("periodic", 1) === 1 ? n : n - 1;
    const values = Array.from({ length: c.list(n) }, (_, i) =>
      terms.reduce((sum, a, k) => sum + (k % 2 === 0 ? a : -a) * Math.cos(2 * Math.PI * k * i / length), 0));
    const known = knownValue(type === DOUBLE ? DOUBLE : FLOAT, [n], type === DOUBLE ? values : values.map(Math.fround));
    return type === DOUBLE || type === FLOAT ? known : valueOf(known.tensor(c.device).cast(c.dtype(type)), type);
  }, [0]);

/** Triangles on the mel scale, as `[frequencies, bins]`. */
function melWeights(c: Call): Result {
  const [bins, length, rate, low, high] = [0, 1, 2, 3, 4].map((i) => c.number(i)), rows = Math.floor(length / 2) + 1;
  const mel = (hz: number) => 2595 * Math.log10(1 + hz / 700), from = mel(low), step = (mel(high) - from) / (bins + 2);
  c.list(rows * bins);
  const edges = Array.from(
    { length: c.list(bins + 2) },
    (_, i) => Math.floor((length + 1) * (700 * (10 ** ((i * step + from) / 2595) - 1)) / rate),
  );
  const out = new Array<number>(rows * bins).fill(0), type = c.int("output_datatype", FLOAT);
  for (let i = 0; i < bins; i++) {
    const [a, b, d] = edges.slice(i, i + 3);
    if (b === a) out[b * bins + i] = 1;
    else for (let j = a; j <= b; j++) out[j * bins + i] = (j - a) / (b - a);
    for (let j = b; j < d; j++) out[j * bins + i] = (d - j) / (d - b);
  }
  return valueOf(knownValue(DOUBLE, [rows, bins], out).tensor(c.device).cast(c.dtype(type)), type);
}

/** The rows of this family. */
export const SIGNALS: readonly OpRow[] = [
  op("DFT", dft, [1, 2]),
  op("STFT", stft, [1, 3]),
  window("HannWindow", [0.5, 0.5]),
  window("HammingWindow", [25 / 46, 21 / 46]),
  window("BlackmanWindow", [0.42, 0.5, 0.08]),
  op("MelWeightMatrix", melWeights, [0, 1, 2, 3, 4]),
];
