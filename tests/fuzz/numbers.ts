/**
 * Random numbers through one operation: pairs of dtypes, scalars of every size (three in a row, so that constants become
 * arguments), casts. The oracle computes in bigint, and rounds floats once by a rational; all is compared exactly.
 *
 * Run: `deno run -A tests/fuzz/numbers.ts --count 1000 --seed 1 --device WASM`; `--case 17` runs only that one.
 */
import { parseArgs } from "@std/cli/parse-args";
import { type DType, DTYPES, dtypes, leastInt, mostInt, smallFloatOf } from "../../src/dtype/dtype.ts";
import { finfo } from "../../src/dtype/limits.ts";
import { holdsWhole, isWhole, promote, promoteScalar } from "../../src/dtype/promotion.ts";
import { Device, Tensor } from "../../mod.ts";
import { Random } from "../support/random.ts";

/** Of a float a number, of an integer or bool a bigint. */
type Value = number | bigint;

const bytes = new DataView(new ArrayBuffer(8));
/** A finite number in units of 2^-1074. */
function unitsOf(x: Value): bigint {
  if (typeof x === "bigint") return x << 1074n;
  bytes.setFloat64(0, x);
  const bits = bytes.getBigUint64(0), e = (bits >> 52n) & 2047n, f = bits & ((1n << 52n) - 1n);
  const size = e === 0n ? f : (f | (1n << 52n)) << (e - 1n);
  return bits >> 63n === 1n ? -size : size;
}

/** The nearest value of a float dtype, ties to even. */
export function nearest(d: DType, x: Value): number {
  if (typeof x === "number" && (d.bits === 64 || x === 0 || x !== x)) return x;
  const small = smallFloatOf(d) ??
    { mantissa: d.bits === 32 ? 23 : 52, bias: d.bits === 32 ? 127 : 1023, hasInfinity: true };
  const saturates = d.bits === 8, most = finfo(d).max;
  if (typeof x === "number" && !Number.isFinite(x)) return small.hasInfinity ? x : Math.sign(x) * most;
  const units = unitsOf(x), size = units < 0n ? -units : units;
  if (size === 0n) return 0;
  const e = Math.max(size.toString(2).length - 1075, 1 - small.bias), drop = BigInt(e - small.mantissa + 1074);
  let q = drop <= 0n ? size << -drop : size >> drop;
  if (drop > 0n) {
    const rest = size - (q << drop), half = 1n << (drop - 1n);
    if (rest > half || (rest === half && (q & 1n) === 1n)) q++;
  }
  const value = Number(q) * 2 ** (e - small.mantissa), sign = units < 0n ? -1 : 1;
  return sign * (value > most ? saturates ? most : Infinity : value);
}

const wrap = (d: DType, x: bigint): bigint => d.isUnsigned ? BigInt.asUintN(d.bits, x) : BigInt.asIntN(d.bits, x);
const within = (x: number, d: DType): bigint =>
  x !== x
    ? 0n
    : x >= Number(mostInt(d))
    ? BigInt(mostInt(d))
    : x <= Number(leastInt(d))
    ? BigInt(leastInt(d))
    : BigInt(Math.trunc(x));

/** A value in another dtype, as `cast` documents it. */
export function castTo(d: DType, x: Value): Value {
  if (d.isBool) return x == 0 ? 0n : 1n;
  if (d.isFloat) return nearest(d, x);
  if (typeof x === "bigint") return wrap(d, x);
  if (d === dtypes.uint64) return x < 0 ? wrap(d, within(x, dtypes.int64)) : within(x, d);
  return wrap(d, within(x, d.bits === 64 || d === dtypes.uint32 ? dtypes.int64 : dtypes.int32));
}

const rest = (a: number, b: number): number => a % b;
/** The exact whole quotient of integers or floats, toward zero; undefined where no test says what it is. */
function quotient(a: Value, b: Value): number | bigint | undefined {
  if (typeof a === "bigint") return b === 0n ? undefined : a / (b as bigint);
  const q = a / (b as number);
  if (!Number.isFinite(a) || !Number.isFinite(b as number) || b === 0 || Math.abs(q) >= 2 ** 24) return undefined;
  const whole = unitsOf(a) / unitsOf(b);
  const isNegative = (x: number) => x < 0 || Object.is(x, -0);
  return whole !== 0n ? Number(whole) : isNegative(a) === isNegative(b as number) ? 0 : -0;
}
const other = (r: Value, b: Value): boolean => r != 0 && (r < 0) !== (b < 0);

type Fold = (a: Value, b: Value, d: DType) => Value | boolean | undefined;
const arithmetic =
  (f: (a: number, b: number) => number, g: (a: bigint, b: bigint) => bigint | undefined): Fold => (a, b, d) => {
    if (typeof a === "number") return nearest(d, f(a, b as number)); // in float64 first: innocuous up to float32
    const r = g(a, b as bigint);
    return r === undefined ? undefined : d.isBool ? r === 0n ? 0n : 1n : wrap(d, r);
  };

/** Operations of two operands by name: what they give; undefined where that is not told here. */
const BINARY: Readonly<Record<string, readonly [call: (a: Tensor, b: never) => Tensor, on: string, Fold]>> = {
  add: [(a, b) => a.add(b), "fib", arithmetic((a, b) => a + b, (a, b) => a + b)],
  sub: [(a, b) => a.sub(b), "fi", arithmetic((a, b) => a - b, (a, b) => a - b)],
  mul: [(a, b) => a.mul(b), "fib", arithmetic((a, b) => a * b, (a, b) => a * b)],
  fmod: [(a, b) => a.fmod(b), "fi", arithmetic(rest, (a, b) => b === 0n ? undefined : a % b)],
  mod: [
    (a, b) => a.mod(b),
    "fi",
    arithmetic((a, b) => {
      const r = rest(a, b);
      return other(r, b) ? r + b : r;
    }, (a, b) => b === 0n ? undefined : other(a % b, b) ? a % b + b : a % b),
  ],
  trunc: [(a, b) => a.div(b, { roundingMode: "trunc" }), "fi", (a, b, d) => {
    const q = quotient(a, b);
    return q === undefined ? q : castTo(d, q);
  }],
  floorDiv: [(a, b) => a.floorDiv(b), "fi", (a, b, d) => {
    const q = quotient(a, b);
    if (q === undefined) return undefined;
    const r = typeof a === "bigint" ? a % (b as bigint) : rest(a, b as number);
    return castTo(d, other(r, b) ? typeof q === "bigint" ? q - 1n : q - 1 : q);
  }],
  maximum: [
    (a, b) => a.maximum(b),
    "fib",
    (a, b) => a == 0 && b == 0 ? undefined : a !== a ? a : b !== b ? b : a > b ? a : b,
  ],
  minimum: [
    (a, b) => a.minimum(b),
    "fib",
    (a, b) => a == 0 && b == 0 ? undefined : a !== a ? a : b !== b ? b : a < b ? a : b,
  ],
  bitwiseAnd: [(a, b) => a.bitwiseAnd(b), "ib", (a, b) => (a as bigint) & (b as bigint)],
  bitwiseOr: [(a, b) => a.bitwiseOr(b), "ib", (a, b) => (a as bigint) | (b as bigint)],
  bitwiseXor: [(a, b) => a.bitwiseXor(b), "ib", (a, b) => (a as bigint) ^ (b as bigint)],
  where: [(a, b) => a.eq(a).where(b, a), "fib", (a, b) => a !== a ? a : b],
  lt: [(a, b) => a.lt(b), "fib", (a, b) => a < b],
  le: [(a, b) => a.le(b), "fib", (a, b) => a <= b],
  gt: [(a, b) => a.gt(b), "fib", (a, b) => a > b],
  ge: [(a, b) => a.ge(b), "fib", (a, b) => a >= b],
  eq: [(a, b) => a.eq(b), "fib", (a, b) => a === b],
  ne: [(a, b) => a.ne(b), "fib", (a, b) => a !== b],
};
const COMPARES = ["lt", "le", "gt", "ge", "eq", "ne"];
const LIMITS = ["maximum", "minimum"];

/** Of one: those that give the dtype they take. */
const UNARY: Readonly<
  Record<string, readonly [call: (a: Tensor) => Tensor, on: string, (a: Value, d: DType) => Value]>
> = {
  neg: [(a) => a.neg(), "fi", (a, d) => typeof a === "bigint" ? wrap(d, -a) : -a],
  abs: [(a) => a.abs(), "fi", (a, d) => typeof a === "bigint" ? wrap(d, a < 0n ? -a : a) : Math.abs(a)],
  sign: [(a) => a.sign(), "fi", (a) => typeof a === "number" ? Math.sign(a) : a < 0n ? -1n : a > 0n ? 1n : 0n],
  trunc: [(a) => a.trunc(), "fi", (a) => typeof a === "number" ? Math.trunc(a) : a],
  floor: [(a) => a.floor(), "f", (a) => Math.floor(a as number)],
  ceil: [(a) => a.ceil(), "f", (a) => Math.ceil(a as number)],
  square: [(a) => a.square(), "fi", (a, d) => typeof a === "bigint" ? wrap(d, a * a) : nearest(d, a * a)],
  bitwiseNot: [(a) => a.bitwiseNot(), "ib", (a, d) => d.isBool ? 1n - (a as bigint) : wrap(d, ~(a as bigint))],
};

const kindOf = (d: DType): string => d.isFloat ? "f" : d.isBool ? "b" : "i";

/** A number where things go wrong: next to a power of two, subnormal, not finite, -0. */
function edge(r: Random): number {
  const sign = r.next() < 0.5 ? -1 : 1, kind = r.next();
  if (kind < 0.25) return sign * r.int(0, 9);
  if (kind < 0.5) return sign * (2 ** r.pick([7, 8, 15, 16, 23, 24, 31, 32, 40, 52]) + r.int(-1, 1));
  if (kind < 0.6) return r.pick([-0, 0, NaN, Infinity, -Infinity, 2 ** 53, 2 ** 63, -(2 ** 63), 2 ** 64, -(2 ** 31)]);
  if (kind < 0.7) return sign * r.next() * 2 ** r.pick([-1074, -149, -133, -126, -24, -14, -9, -6]) * r.int(1, 99);
  if (kind < 0.8) return sign * (1 + (r.int(0, 255) + 0.5) * 2 ** -r.int(3, 11)) * 2 ** r.int(-20, 30);
  return sign * r.next() * 2 ** r.int(-30, 60);
}

/** A value of a dtype. */
function valueOf(r: Random, d: DType): Value {
  if (d.isFloat) return nearest(d, edge(r));
  if (d.isBool) return BigInt(r.int(0, 1));
  const x = edge(r), big = Number.isFinite(x) ? BigInt(Math.trunc(x)) : BigInt(r.pick([leastInt(d), mostInt(d)]));
  return r.next() < 0.2 ? BigInt(mostInt(d)) - BigInt(r.int(0, 2)) : wrap(d, big);
}

/** Whether a device may take this for 0. */
const isSubnormal = (x: Value | boolean | undefined): boolean =>
  typeof x === "number" && x !== 0 && Math.abs(x) < 2 ** -126;

/** What went wrong in a program. */
export class Finding extends Error {}

const N = 24;

/** Runs program number `seed` on a device. @throws {Finding} */
export async function runNumbers(seed: number, device: string): Promise<void> {
  const r = new Random(seed * 7919 + 1), gpu = device === "WEBGPU";
  const known = DTYPES.filter((d) => d !== dtypes.void && !(gpu && d === dtypes.float64));
  const pick = (on: string) => r.pick(known.filter((d) => on.includes(kindOf(d))));
  const values = (d: DType): Value[] => Array.from({ length: N }, () => valueOf(r, d));
  const tensor = (d: DType, x: readonly Value[]): Tensor =>
    new Tensor(x.map((v) => d.isBool ? v === 1n : v), { dtype: d, device }).realize();
  const compare = async (
    text: string,
    got: Tensor,
    dtype: DType,
    want: readonly (Value | boolean | undefined)[],
    of: (i: number) => string,
  ) => {
    if (got.dtype !== dtype) throw new Finding(`${text}: dtype ${got.dtype}, expected ${dtype}`);
    const data = await got.tolist() as (number | bigint | boolean)[];
    want.forEach((w, i) => {
      if (w === undefined) return;
      const g = data[i],
        x = dtype.isBool ? Boolean(w) : dtype.isFloat ? w : Number(w),
        exact = typeof g === "bigint" ? w : x;
      if (!Object.is(g, exact)) throw new Finding(`${text}: ${of(i)} is ${Object.is(g, -0) ? "-0" : g}, expected ${w}`);
    });
  };
  const flushed = (...xs: (Value | boolean | undefined)[]): boolean => gpu && xs.some(isSubnormal);
  const form = r.next();
  if (form < 0.2) {
    const from = pick("fib"), to = pick("fib"), x = values(from);
    const want = x.map((v) => flushed(v, castTo(to, v)) ? undefined : castTo(to, v));
    return await compare(`${from} to ${to}`, tensor(from, x).cast(to), to, want, (i) => String(x[i]));
  }
  if (form < 0.35) {
    const [name, [call, on, fold]] = r.pick(Object.entries(UNARY)), d = pick(on), x = values(d);
    const want = x.map((v) => flushed(v, fold(v, d)) ? undefined : fold(v, d));
    return await compare(`${name} of ${d}`, call(tensor(d, x)), d, want, (i) => String(x[i]));
  }
  const [name, [call, on, fold]] = r.pick(Object.entries(BINARY)), p = pick(on), isCompare = COMPARES.includes(name);
  const widened = (d: DType) =>
    d.isBool && !isCompare && !LIMITS.includes(name) && ["fmod", "mod", "trunc", "floorDiv"].includes(name)
      ? dtypes.int32
      : d;
  const wantOf = (d: DType, x: Value, y: Value) => {
    const a = castTo(d, x), b = castTo(d, y), w = fold(a, b, d);
    return flushed(a, b, w) ? undefined : w;
  };
  if (form < 0.65) {
    const q = pick(on), d = widened(promote(p, q)), x = values(p), y = values(q);
    if (!on.includes(kindOf(d))) return; // bits of uint64 and a signed integer
    const want = x.map((v, i) => wantOf(d, v, y[i])), text = `${name} of ${p} and ${q}`;
    return await compare(
      text,
      call(tensor(p, x), tensor(q, y) as never),
      isCompare ? dtypes.bool : d,
      want,
      (i) => `${x[i]}, ${y[i]}`,
    );
  }
  const x = values(p), t = tensor(p, x);
  for (let k = 0; k < 3; k++) {
    const c = r.next() < 0.1 && !p.isBool ? BigInt(r.int(-99, 99)) : r.next() < 0.5 ? r.int(1, 200) / 8 : edge(r);
    if (typeof c === "bigint" && p.isInt && !holdsWhole(p, c)) continue;
    const whole = typeof c === "bigint" || isWhole(c),
      exactly = p.isInt && whole && (isCompare || LIMITS.includes(name));
    // beside 32 bits or fewer whole numbers from 2^31 to 2^32 are words, as JavaScript's & has them
    const isWord = name.startsWith("bitwise") && typeof c === "number" && whole && c >= 2 ** 31 && c < 2 ** 32 &&
      !p.isFloat && p.bits <= 32 && p !== dtypes.uint32;
    const d = isWord ? dtypes.int32 : exactly && !isCompare ? p : widened(promoteScalar(p, c));
    if (!on.includes(kindOf(d))) continue;
    const scalar: Value = isWord ? BigInt(c | 0) : whole && !d.isFloat ? BigInt(c) : c;
    const limited = exactly && !isCompare && !holdsWhole(p, c) ? BigInt(c < 0 ? leastInt(p) : mostInt(p)) : scalar;
    const want = x.map((v) => exactly && isCompare ? fold(v, BigInt(c), p) : wantOf(d, v, limited));
    await compare(
      `${name} of ${p} and ${Object.is(c, -0) ? "-0" : c} (value ${k})`,
      call(t, c as never),
      isCompare ? dtypes.bool : d,
      want,
      (i) => String(x[i]),
    );
  }
}

if (import.meta.main) {
  const { device = "WASM", count = 1000, seed = 1, case: only } = parseArgs(Deno.args, {
    string: ["device", "count", "seed", "case"],
  });
  await Device.open(device);
  const first = Number(seed) * 1000000;
  let found = 0;
  const start = performance.now();
  for (const n of only === undefined ? Array.from({ length: Number(count) }, (_, i) => first + i) : [Number(only)]) {
    try {
      await runNumbers(n, device);
    } catch (error) {
      found++;
      console.log(`case ${n}: ${error instanceof Finding ? error.message : (error as Error).stack}`);
    }
  }
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${count} programs on ${device}, ${found} findings, ${seconds} s`);
  if (found > 0) Deno.exit(1);
}
