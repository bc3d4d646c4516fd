/**
 * Random numbers without state on any device: element i of a draw is a hash (threefry2x32) of a key, which is the seed,
 * and of the counter c + i, where each draw takes its c from one counter on the host when it is created. The same on
 * every device, in any order of realization. Key and counter are bound variables: kernels do not depend on them, and a
 * captured graph can be replayed with others.
 *
 * Bits are those of JAX's partitionable form: `jax.random.bits` with `jax_threefry_partitionable`.
 *
 * @module
 */
import { roundFloat } from "../../dtype/convert.ts";
import { type DType, dtypes, smallFloatOf } from "../../dtype/dtype.ts";
import { ArgumentError, DTypeError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { checkInteger, describe, describeList } from "../../helpers/options.ts";
import { broadcastTo, reshape, shrink } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, iota, UOp, uop, variable } from "../../uop/core/uop.ts";
import { fromParts } from "../../uop/graph/complex.ts";
import type { HostArray } from "./host.ts";
import { logNode, scale, shift } from "./numeric.ts";
import { extentsOf, withExtents } from "../../uop/graph/extent.ts";

const WORD = 2 ** 32;
/** Values known on the host up to which weights are checked. */
const CHECKED = 65536;

/** Names of the variables that random draws bind: low and high word of the counter, and the two words of the key. */
export const RANDOM_VARIABLES: readonly string[] = ["rng", "rngHigh", "rngKey0", "rngKey1"];

let seed = BigInt(Date.now());
let counter = 0;

/** Sets the seed (of up to 64 bits) and starts the counter anew; without a seed, the time. */
export function setSeed(value?: number | bigint): void {
  if (value !== undefined && typeof value !== "bigint" && !Number.isSafeInteger(value)) {
    throw new ArgumentError("set the seed", { reason: `it must be an integer, not ${describe(value)}` });
  }
  seed = BigInt.asUintN(64, value === undefined ? BigInt(Date.now()) : BigInt(value));
  counter = 0;
}

/** Where random draws are: enough to go on with the same numbers. Plain data, which JSON holds. */
export interface RngState {
  /** The seed, of 64 bits, in decimal. */
  readonly seed: string;
  /** How many values were drawn since it was set. */
  readonly counter: number;
}

/** What `Tensor.getRngState` gives. */
export function rngState(): RngState {
  return { seed: String(seed), counter };
}

/** Goes on from there. @throws {ArgumentError} for what is no such state */
export function setRngState(state: RngState): void {
  const { seed: text, counter: at } = (state ?? {}) as Partial<RngState>;
  if (typeof text !== "string" || !/^\d{1,20}$/.test(text) || !Number.isSafeInteger(at) || (at as number) < 0) {
    throw new ArgumentError("set the state of random numbers", {
      reason: `it must be what Tensor.getRngState() gave, not ${describe(state)}`,
    });
  }
  seed = BigInt.asUintN(64, BigInt(text));
  counter = at as number;
}

/** The counter that the next draw takes. */
export function currentCounter(): number {
  return counter;
}

/**
 * Takes `n` values off the counter and gives the first. A draw never straddles a multiple of 2^32 (the counter skips
 * to it), so that its high word is one number.
 */
export function reserveCounter(n: number): number {
  if (n <= WORD && Math.floor(counter / WORD) !== Math.floor((counter + n - 1) / WORD) && n > 0) {
    counter = Math.ceil(counter / WORD) * WORD;
  }
  const start = counter;
  counter += n;
  return start;
}

/** A bound uint32 variable. */
function bound(name: string, value: number): UOp {
  return uop(Ops.BIND, dtypes.uint32, [
    variable(name, 0, WORD - 1, dtypes.uint32),
    constant(value, dtypes.uint32),
  ]);
}

/** The two words of the seed, high first, as bound variables. */
export function seedKey(): readonly [UOp, UOp] {
  return [bound("rngKey0", Number(seed >> 32n)), bound("rngKey1", Number(seed & 0xffffffffn))];
}

const ROTATIONS = [[13, 15, 26, 6], [17, 29, 16, 24]] as const;

/**
 * Threefry-2x32 with 20 rounds: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
 * All nodes are uint32.
 */
export function threefryNode(key: readonly [UOp, UOp], x: readonly [UOp, UOp]): [UOp, UOp] {
  const parity = constant(0x1bd11bda, dtypes.uint32);
  const ks = [key[0], key[1], key[0].xor(key[1]).xor(parity)];
  const rotate = (u: UOp, by: number) => u.shl(by).or(u.shr(32 - by));
  let a = x[0].add(ks[0]), b = x[1].add(ks[1]);
  for (let round = 0; round < 5; round++) {
    for (const by of ROTATIONS[round % 2]) {
      a = a.add(b);
      b = rotate(b, by).xor(a);
    }
    a = a.add(ks[(round + 1) % 3]);
    b = b.add(ks[(round + 2) % 3].add(constant(round + 1, dtypes.uint32)));
  }
  return [a, b];
}

/** The next 32 random bits, on the host: what shuffling begins with. Takes one counter. */
export function drawWord(): number {
  const c = reserveCounter(1), key = [Number(seed >> 32n), Number(seed & 0xffffffffn)];
  const ks = [key[0], key[1], key[0] ^ key[1] ^ 0x1bd11bda];
  let a = (Math.floor(c / WORD) + ks[0]) | 0, b = (c % WORD + ks[1]) | 0;
  for (let round = 0; round < 5; round++) {
    for (const by of ROTATIONS[round % 2]) {
      a = (a + b) | 0;
      b = ((b << by) | (b >>> (32 - by))) ^ a;
    }
    a = (a + ks[(round + 1) % 3]) | 0;
    b = (b + ks[(round + 2) % 3] + round + 1) | 0;
  }
  return (a ^ b) >>> 0;
}

/** 32 random bits for each counter in [c, c + n): shape [n], uint32. The counter's words are scalars. */
function randomBitsNode(
  key: readonly [UOp, UOp],
  counter: readonly [high: UOp, low: UOp],
  n: number,
  carries: boolean,
): [UOp, UOp] {
  const place = iota(n), at = place.cast(dtypes.uint32);
  const low = at.add(counter[1]);
  const one = constant(1, dtypes.uint32), zero = constant(0, dtypes.uint32);
  // A zero per element gives the high word real axes; where the low word wrapped it is one more.
  const above = n > WORD ? place.floorDiv(WORD).cast(dtypes.uint32) : at.mul(zero);
  const high = (carries ? low.lt(counter[1]).where(one, zero).add(above) : above).add(counter[0]);
  return threefryNode(key, [high, low]);
}

/**
 * `num` words of the stream of `key`, a node of two words or two numbers, high first, from `counter` on: a number, or a node
 * of one word, or two, low first.
 *
 * @throws {ArgumentError} for other keys and counters
 */
export function streamNode(key: unknown, counter: UOp | number | bigint, num: number): UOp {
  const action = "draw random bits", isNode = key instanceof UOp;
  checkInteger(action, "num", num, 0);
  if (!isNode && !(Array.isArray(key) && key.length === 2 && Array.from(key).every((x) => Number.isSafeInteger(x)))) {
    throw new ArgumentError(action, { reason: `the key must have two words, not ${describeList(key)}` });
  }
  const word = (u: UOp, i: number): UOp => broadcastTo(shrink(u, [[i, i + 1]]), [num]);
  const value = (x: bigint): UOp => constant(Number(BigInt.asUintN(32, x)), dtypes.uint32);
  const ofKey = (i: number): UOp => isNode ? word(key, i) : value(BigInt((key as readonly number[])[i]));
  let high: UOp, low: UOp;
  if (counter instanceof UOp) {
    low = word(counter, 0);
    high = prod(shapeOf(counter)) > 1 ? word(counter, 1) : value(0n);
  } else {
    if (typeof counter !== "bigint") checkInteger(action, "the counter", counter, 0);
    low = value(BigInt(counter));
    high = value(BigInt(counter) >> 32n);
  }
  const [a, b] = randomBitsNode([ofKey(0), ofKey(1)], [high, low], num, true);
  return num === 0 ? broadcastTo(value(0n), [0]) : a.xor(b);
}

/** The words of two outputs for the next `n` draws. */
function drawWords(n: number): [UOp, UOp] {
  const c = reserveCounter(n);
  const words = [bound("rngHigh", Math.floor(c / WORD)), bound("rng", c % WORD)] as const;
  return randomBitsNode(seedKey(), words, n, n > WORD);
}

/** The next `n` draws of 32 bits, shape [n]. */
export function drawBits(n: number): UOp {
  const [a, b] = drawWords(n);
  return a.xor(b);
}

/**
 * Uniform in [0, 1) in a float dtype: random bits fill the mantissa of a number in [1, 2), minus 1. Takes one counter
 * an element.
 */
export function drawUniform(shape: readonly number[], dtype: DType): UOp {
  if (!dtype.isFloat) {
    throw new DTypeError("draw uniform numbers of dtype", { dtypes: [dtype], reason: "it must be a float" });
  }
  const n = prod(shape);
  let x: UOp;
  if (dtype === dtypes.float64) { // 52 bits: all of one word, 20 of the other
    const [a, b] = drawWords(n);
    x = scale(a.cast(dtype), 2 ** -32).add(scale(b.shr(12).cast(dtype), 2 ** -52));
  } else if (dtype === dtypes.float32) {
    x = shift(drawBits(n).shr(9).or(0x3f800000).bitcast(dtype), -1);
  } else { // the low 16 bits; m / 2^bits is exact in the small floats
    const bits = bitsOf(dtype);
    const m = drawBits(n).and(0xffff).shr(16 - bits);
    x = scale(m.cast(dtypes.int32).cast(dtypes.float32), 2 ** -bits).cast(dtype);
  }
  return reshape(x, shape);
}

/** Bits of a draw of a float dtype: the largest is 1 less 2 to minus these. */
function bitsOf(d: DType): number {
  return d === dtypes.float64 ? 52 : d === dtypes.float32 ? 23 : smallFloatOf(d)!.mantissa;
}

/** The largest value of a float dtype that is less than `x`, which is in its range. */
function largestBelow(d: DType, x: number): number {
  const near = roundFloat(d, x);
  let value = near, step = Math.max(Math.abs(near) * 2 ** (-bitsOf(d) - 3), Number.MIN_VALUE);
  for (; value >= x; step *= 2) value = roundFloat(d, near - step);
  return value;
}

/**
 * Uniform in [low, high) in a float dtype. Where the rounding of a large draw would reach `high` it is the largest value
 * below.
 *
 * @throws {ArgumentError} where an end or their distance is beyond the dtype
 */
export function drawBetween(shape: readonly number[], low: number, high: number, dtype: DType): UOp {
  const u = drawUniform(shape, dtype), round = (x: number) => roundFloat(dtype, x);
  const span = round(high - low), from = round(low);
  if (!Number.isFinite(span) || !Number.isFinite(from) || !Number.isFinite(round(high))) {
    throw new ArgumentError(`draw uniform numbers of dtype ${dtype}`, {
      reason: `low, high and their distance must be finite in it, not ${low} and ${high}`,
    });
  }
  const most = (1 - 2 ** -bitsOf(dtype)) * span;
  const x = u.mul(constant(span, dtype)).add(constant(from, dtype));
  // with the product rounded or, in one step with the sum, not
  const reached = Math.max(round(most + from), round(round(most) + from)) >= high;
  if (!reached) return x;
  const top = constant(largestBelow(dtype, high), dtype);
  return x.lt(top).where(x, top);
}

/**
 * Throws where the host knows weights of rows of `n`, and they are no distribution from which `count` positions can be
 * drawn.
 *
 * @throws {ArgumentError}
 */
export function checkWeights(action: string, values: HostArray | undefined, n: number, count: number): void {
  if (values === undefined || values.length > CHECKED) return;
  for (let i = 0, some = 0; i < values.length; i++) {
    const weight = Number(values[i]);
    if (!(weight >= 0 && weight < Infinity)) {
      throw new ArgumentError(action, { reason: `weights must be finite and at least 0, not ${weight}` });
    }
    if (i % n === 0) some = 0;
    if (weight > 0) some++;
    if (i % n < n - 1 || some >= count) continue;
    const row = Math.floor(i / n);
    throw new ArgumentError(action, {
      reason: `${count} of the weights must be above 0, and ${some} are${values.length > n ? ` in row ${row}` : ""}`,
    });
  }
}

/**
 * Standard normal numbers, computed in float32 (float64 for float64) by Box and Muller, "A note on the generation of
 * random normal deviates" (1958). Takes two counters an element.
 */
export function drawNormal(shape: readonly number[], dtype: DType): UOp {
  if (!dtype.isFloat) {
    throw new DTypeError("draw normal numbers of dtype", { dtypes: [dtype], reason: "it must be a float" });
  }
  const wide = dtype === dtypes.float64 ? dtype : dtypes.float32;
  const angle = drawUniform(shape, wide), u = drawUniform(shape, wide);
  const radius = scale(logNode(shift(scale(u, -1), 1)), -2).sqrt();
  return scale(angle, 2 * Math.PI).cos().mul(radius).cast(dtype);
}

/** A draw in the shape of a node: of symbolic axes as many as they have. */
export function drawnLike(x: UOp, draw: (shape: readonly number[], dtype: DType) => UOp, dtype: DType): UOp {
  return withExtents(draw(shapeOf(x), dtype), extentsOf(x));
}

/** A draw of a dtype, or, of complex numbers, one of each part. */
export function ofParts(dtype: DType, draw: (dtype: DType) => UOp): UOp {
  return dtype.isComplex ? fromParts([draw(dtype.real), draw(dtype.real)]) : draw(dtype);
}
