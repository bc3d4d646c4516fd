/**
 * Random choices of the host: which items come when. In: a seed of 32 bits; out: numbers and orders that depend on it
 * alone, so that an epoch can be told, saved and gone on with by its seed.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkInteger, describe } from "../../helpers/options.ts";
import { drawWord } from "../../tensor/nodes/random.ts";

/** Uniform numbers in [0, 1) of a seed: mulberry32. */
export function uniformOf(seed: number): () => number {
  let state = Math.imul(seed, 0x9e3779b1) ^ (seed >>> 15);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The integers below n in an order of a seed: Fisher and Yates. @throws {ArgumentError} for more than 32 bits hold */
export function permutationOf(n: number, seed: number): Int32Array {
  if (n >= 2 ** 31) {
    throw new ArgumentError("order items at random", {
      reason: `there are ${n}, and a permutation has at most 2^31 - 1; draw them with { replacement: true }`,
    });
  }
  const order = Int32Array.from({ length: n }, (_, i) => i), random = uniformOf(seed);
  for (let i = n - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1)), x = order[i];
    order[i] = order[j];
    order[j] = x;
  }
  return order;
}

/** The seed of an epoch: of the seed that the user gave, else the next random word, as `Tensor.manualSeed` has them. */
export function epochSeed(seed: number | undefined, epoch: number): number {
  if (seed === undefined) return drawWord();
  let h = (Math.imul(seed | 0, 0x85ebca6b) ^ Math.imul(Math.floor(seed / 2 ** 32) + epoch + 1, 0xc2b2ae35)) | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  return (h ^ (h >>> 13)) >>> 0;
}

/** A seed that a user gave, or none. @throws {ArgumentError} */
export function checkSeed(action: string, seed: number | undefined): number | undefined {
  return seed === undefined ? undefined : checkInteger(action, "seed", seed, 0);
}

/** The value, if it is an object to iterate over. @throws {ArgumentError} */
export function checkIterable<T>(action: string, name: string, value: T): T {
  if (
    typeof value === "object" && value !== null &&
    typeof (value as Partial<Iterable<unknown>>)[Symbol.iterator] === "function"
  ) return value;
  throw new ArgumentError(action, { reason: `${name} must be iterable, not ${describe(value)}` });
}
