/**
 * What the demo needs on the host: seeded randomness, batches, distortions of training images, output, and the device of ranks.
 *
 * @module
 */
import { Device } from "../mod.ts";

const SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10;
/** How far training images are distorted: pixels moved, degrees turned, relative size and slant. */
const SHIFT = 1, DEGREES = 12, STRETCH = 0.15;

/** Uniform numbers in [0, 1) from a seed (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b1);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** 0 to n - 1 in random order (Fisher and Yates). */
export function permutation(n: number, random: () => number): number[] {
  const out = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [out[i], out[j]] = [out[j], out[i]];
  }
  return out;
}

/** The pixels of the images `rows`, one after the other. */
export function gather(pixels: Float32Array, rows: readonly number[]): Float32Array {
  const out = new Float32Array(rows.length * PIXELS);
  rows.forEach((row, i) => out.set(pixels.subarray(row * PIXELS, (row + 1) * PIXELS), i * PIXELS));
  return out;
}

/** Each image of `rows` a little turned, stretched, slanted and moved; sampled bilinearly, black outside. */
export function augment(pixels: Float32Array, rows: readonly number[], random: () => number): Float32Array {
  const out = new Float32Array(rows.length * PIXELS);
  const vary = (by: number) => (random() * 2 - 1) * by;
  const center = (SIDE - 1) / 2;
  rows.forEach((row, k) => {
    const at = row * PIXELS;
    const pixel = (y: number, x: number) => y < 0 || x < 0 || y >= SIDE || x >= SIDE ? 0 : pixels[at + y * SIDE + x];
    const angle = vary(DEGREES) * Math.PI / 180, scale = 1 + vary(STRETCH), wide = scale * (1 + vary(STRETCH));
    const slant = vary(STRETCH), moveX = vary(SHIFT), moveY = vary(SHIFT);
    const cos = Math.cos(angle), sin = Math.sin(angle);
    for (let y = 0; y < SIDE; y++) {
      for (let x = 0; x < SIDE; x++) {
        const u = x - center, v = y - center;
        const sx = cos * wide * u + (slant - sin * scale) * v + moveX + center;
        const sy = sin * wide * u + cos * scale * v + moveY + center;
        const x0 = Math.floor(sx), y0 = Math.floor(sy), fx = sx - x0, fy = sy - y0;
        out[k * PIXELS + y * SIDE + x] = (1 - fy) * ((1 - fx) * pixel(y0, x0) + fx * pixel(y0, x0 + 1)) +
          fy * ((1 - fx) * pixel(y0 + 1, x0) + fx * pixel(y0 + 1, x0 + 1));
      }
    }
  });
  return out;
}

/** A table of how often each digit (a row) was taken for each digit (a column); zeros are dots. */
export function confusionMatrix(truth: readonly number[], predicted: readonly number[]): string {
  const counts = Array.from({ length: CLASSES }, () => new Array<number>(CLASSES).fill(0));
  truth.forEach((digit, i) => counts[digit][predicted[i]]++);
  const cell = (x: number | string) => String(x).padStart(4);
  return [
    "confusion (rows: the digit, columns: the prediction)",
    "    " + counts.map((_, i) => cell(i)).join(""),
    ...counts.map((row, i) => cell(i) + row.map((n) => cell(n === 0 ? "·" : n)).join("")),
  ].join("\n");
}

/** Images side by side in shades, each with its prediction and, where that is wrong, the truth. */
export function drawDigits(
  pixels: Float32Array,
  rows: readonly number[],
  predicted: readonly number[],
  truth: readonly number[],
): string {
  const shades = " ░▒▓█";
  const lines: string[] = [];
  for (let y = 0; y < SIDE; y++) {
    lines.push(
      rows.map((row) => {
        let line = "";
        for (let x = 0; x < SIDE; x++) {
          line += shades[Math.min(4, Math.floor(pixels[row * PIXELS + y * SIDE + x] * 5))].repeat(2);
        }
        return line;
      }).join("  "),
    );
  }
  const labels = predicted.map((p, i) => (p === truth[i] ? `is a ${p}` : `a ${p}, in truth ${truth[i]}`).padEnd(16));
  return [...lines, labels.join("  ")].join("\n");
}

/** The device of ranks that share this machine: a card would be one rank's alone. DEV says otherwise. */
export function deviceOfRanks(): string {
  const named = Deno.env.get("DEV");
  if (named) return named;
  return Device.list().some(({ name, available }) => name === "CLANG" && available) ? "CLANG" : "WASM";
}
