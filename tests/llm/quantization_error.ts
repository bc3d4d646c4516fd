/**
 * How far blocks are from the numbers that they stand for, and the numbers that they are asked about. @module
 */
import { Tensor } from "../../mod.ts";
import { BLOCK_FORMATS, dequantize, type FormatName } from "../../src/llm/llm.ts";
import { Random } from "../support/random.ts";

/** Formats whose scales are searched: bytes may be others than ggml's, errors may not be larger. */
export const SEARCHED: readonly FormatName[] = ["Q4_K", "Q5_K", "Q6_K"];

/** 64 super-blocks of each kind: bell-shaped, even, all of one sign, and with a few large ones. */
export function samples(): Record<string, Float32Array<ArrayBuffer>> {
  const r = new Random(5), even = () => r.int(0, 1 << 20) / (1 << 20);
  const bell = () => even() + even() + even() + even() - 2;
  const of = (f: () => number) => Float32Array.from({ length: 64 * 256 }, f);
  return {
    bell: of(() => bell() * 0.02),
    even: of(() => even() * 2 - 1),
    above: of(() => 0.5 + 3 * even()),
    wild: of(() => bell() ** 5),
  };
}

/** The root of the sum of squares of what is missing, as a part of that of `x`. */
export async function quantizationError(
  x: Float32Array,
  bytes: Uint8Array<ArrayBuffer>,
  format: FormatName,
): Promise<number> {
  const raw = new Tensor(bytes, { device: "WASM" }).reshape([1, bytes.length]);
  const got = await dequantize(raw, BLOCK_FORMATS.get(format)!).data() as Float32Array;
  const sum = (f: (v: number, i: number) => number) => x.reduce((s, v, i) => s + f(v, i) ** 2, 0);
  return Math.sqrt(sum((v, i) => v - got[i]) / sum((v) => v));
}
