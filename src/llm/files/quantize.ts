/**
 * Blocks of numbers: the other direction of `block_formats.ts`, on the host, for files that are written. Rounding and the
 * choice of scales follow ggml's reference functions, so that the bytes are the same; scales of super-blocks are searched
 * (quantize_k.ts).
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import type { FormatName } from "./block_formats.ts";
import { furthest, half, packAffine, packQ6K } from "./quantize_k.ts";

/** Fills one block: the elements `x` to the bytes `out`, of which `view` is the same. */
type Pack = (x: Float32Array, out: Uint8Array, view: DataView) => void;

const f = Math.fround;

/** Whole numbers from 0 to `limit`: x * id + shift, cut off. */
function levels(x: Float32Array, least: number, id: number, shift: number, limit: number): Uint8Array {
  return Uint8Array.from(x, (v) => Math.min(limit, Math.trunc(f(f(f(v - least) * id) + shift))));
}
/** Low nibbles of elements 0-15, high ones of 16-31. */
function putNibbles(q: Uint8Array, out: Uint8Array, at: number): void {
  for (let j = 0; j < 16; j++) out[at + j] = (q[j] & 15) | (q[j + 16] & 15) << 4;
}
/** The fifth bits, 32 of them. */
function putHigh(q: Uint8Array, view: DataView, at: number): void {
  let bits = 0;
  for (let j = 0; j < 32; j++) bits |= (q[j] >> 4 & 1) << j;
  view.setUint32(at, bits >>> 0, true);
}
function inverse(d: number): number {
  return d === 0 ? 0 : f(1 / d);
}
/** A scale with its sign, so that the furthest element becomes the least level. */
function centered(bits: number): Pack {
  const middle = 1 << bits - 1;
  return (x, out, view) => {
    const d = f(furthest(x) / -middle), q = levels(x, 0, inverse(d), middle + 0.5, 2 * middle - 1);
    half(view, 0, d);
    if (bits === 5) putHigh(q, view, 2);
    putNibbles(q, out, bits === 5 ? 6 : 2);
  };
}
/** A scale and the least element. */
function between(bits: number): Pack {
  return (x, out, view) => {
    const least = x.reduce((a, b) => Math.min(a, b)), most = x.reduce((a, b) => Math.max(a, b));
    const d = f(f(most - least) / ((1 << bits) - 1)), q = levels(x, least, inverse(d), 0.5, (1 << bits) - 1);
    half(view, 0, d);
    half(view, 2, least);
    if (bits === 5) putHigh(q, view, 4);
    putNibbles(q, out, bits === 5 ? 8 : 4);
  };
}
function packQ8(x: Float32Array, out: Uint8Array, view: DataView): void {
  const d = f(Math.abs(furthest(x)) / 127), id = inverse(d);
  half(view, 0, d);
  for (let j = 0; j < 32; j++) {
    const v = f(x[j] * id);
    out[2 + j] = v < 0 ? -Math.floor(0.5 - v) : Math.floor(v + 0.5); // halves go away from 0
  }
}
/** Twice the values of E2M1, and the order in which ties are decided. */
const E2M1 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
function packMxfp4(x: Float32Array, out: Uint8Array): void {
  const most = Math.abs(furthest(x)), e = most > 0 ? Math.floor(f(Math.log2(most))) - 2 + 127 : 0;
  const exponent = Math.max(0, Math.min(254, e)), d = 2 ** (exponent - 128);
  out[0] = exponent;
  const nearest = (v: number): number => {
    let best = 0;
    for (let k = 1; k < 16; k++) if (Math.abs(f(E2M1[k] * d - v)) < Math.abs(f(E2M1[best] * d - v))) best = k;
    return best;
  };
  putNibbles(Uint8Array.from(x, nearest), out, 1);
}

const PACKS: Partial<Record<FormatName, readonly [elements: number, nbytes: number, pack: Pack]>> = {
  Q8_0: [32, 34, packQ8],
  Q4_0: [32, 18, centered(4)],
  Q4_1: [32, 20, between(4)],
  Q5_0: [32, 22, centered(5)],
  Q5_1: [32, 24, between(5)],
  MXFP4: [32, 17, packMxfp4],
  Q4_K: [256, 144, packAffine(4)],
  Q5_K: [256, 176, packAffine(5)],
  Q6_K: [256, 210, packQ6K],
};

/** The formats that {@linkcode quantize} makes. */
export const QUANTIZED: readonly string[] = Object.keys(PACKS);

/**
 * The bytes of blocks of `format` that stand for `x`.
 *
 * @throws {ArgumentError} for a format that is only read, or elements that do not fill whole blocks
 */
export function quantize(x: Float32Array, format: FormatName): Uint8Array<ArrayBuffer> {
  const row = PACKS[format], action = `quantize to ${format}`;
  if (row === undefined) {
    throw new ArgumentError(action, { reason: `it is only read; written are ${QUANTIZED.join(", ")}` });
  }
  const [elements, nbytes, pack] = row;
  if (x.length % elements !== 0) {
    throw new ArgumentError(action, { reason: `${x.length} elements are no whole blocks of ${elements}` });
  }
  const out = new Uint8Array(x.length / elements * nbytes);
  for (let i = 0; i * elements < x.length; i++) {
    const block = out.subarray(i * nbytes, (i + 1) * nbytes);
    pack(x.subarray(i * elements, (i + 1) * elements), block, new DataView(out.buffer, i * nbytes, nbytes));
  }
  return out;
}
