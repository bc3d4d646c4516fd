/**
 * EXP2, LOG2, SIN, COS and TRUNC from arithmetic that vectorizes, for devices without them: no table, no branch, the same
 * for scalars and vectors. Accuracy is 1 to 2 units in the last place; NaN, infinities, zeros and denormals are right.
 *
 * Methods: argument reduction and polynomials as in S. Moshier's Cephes library and P. Tang, "Table-lookup algorithms for
 * elementary functions" (1991); reduction by parts of pi/2 after Cody and Waite (1980), of large arguments after Payne
 * and Hanek (1983). Coefficients are Chebyshev interpolants computed for this project in 60 digits.
 *
 * @module
 */
import { type DType, dtypes } from "../../../dtype/dtype.ts";
import { naturalExponent } from "../../../renderer/natural.ts";
import type { Capabilities } from "../../../renderer/renderer.ts";
import { vmax, vmin } from "../../../uop/algebra/bounds.ts";
import { Int64 } from "../../../uop/core/args.ts";
import { Ops } from "../../../uop/core/ops.ts";
import { constant, type UOp } from "../../../uop/core/uop.ts";
import { PatternMatcher, rule } from "../../../uop/rewrite/matcher.ts";
import { graphRewrite } from "../../../uop/rewrite/rewrite.ts";
import { UPat } from "../../../uop/rewrite/upat.ts";
import { decomposeFloatDivision } from "./remainder.ts";

/** Polynomial with the constant term first, by Horner's rule. */
function polynomial(x: UOp, coefficients: readonly number[]): UOp {
  let p = x.constLike(coefficients[coefficients.length - 1]);
  for (let i = coefficients.length - 2; i >= 0; i--) p = p.mul(x).add(coefficients[i]);
  return p;
}

/** Integers with as many bits and lanes as the float `d`. */
function intLike(d: DType): DType {
  return (d.bits === 64 ? dtypes.int64 : dtypes.int32).vec(d.count);
}

/** The nearest integer to a small float, as int32. */
function nearest(x: UOp): UOp {
  return x.add(x.lt(0).where(x.constLike(-0.5), x.constLike(0.5))).cast(dtypes.int32.vec(x.dtype.count));
}

/** 2^k as `d` for an int32 in the range of normal exponents; 0 for the one below. */
function powerOfTwo(k: UOp, d: DType): UOp {
  if (d.bits === 64) return k.add(1023).cast(intLike(d)).shl(52).bitcast(d);
  return k.add(127).shl(23).bitcast(d);
}

// (2^x - 1) / x for |x| <= 1/2
const EXP2_F32 = [
  0.6931471824645996,
  0.24022650718688965,
  0.055503569543361664,
  0.009618083015084267,
  0.0013390863314270973,
  0.00015453163359779865,
];
const EXP2_F64 = [
  0.6931471805599453,
  0.24022650695910072,
  0.055504108664821625,
  0.00961812910762848,
  0.001333355814640647,
  0.00015403530393370734,
  1.5252733841556773e-05,
  1.3215486808705563e-06,
  1.0178057087733941e-07,
  7.0548973041554995e-09,
  4.4558179083360645e-10,
  2.5729324177362305e-11,
];

/**
 * 2^x: the nearest integer goes to the exponent in two steps, so that denormals round once. What is least is twice the
 * exponent of 0, so that minus infinity gives a product with 0: one that is too small to be normal takes 100 cycles and
 * more on some processors.
 */
export function exp2(x: UOp): UOp {
  const d = x.dtype, wide = d.bits === 64;
  const hi = wide ? 1025 : 129, lo = wide ? -2046 : -254;
  const below = x.lt(hi).where(x, x.constLike(hi)); // also for NaN
  const c = below.lt(lo).where(x.constLike(lo), below);
  const n = nearest(c);
  const f = c.sub(n.cast(d));
  const p = f.mul(polynomial(f, wide ? EXP2_F64 : EXP2_F32)).add(1);
  const half = n.shr(1);
  const value = p.mul(powerOfTwo(half, d)).mul(powerOfTwo(n.sub(half), d));
  return x.ne(x).where(x, value);
}

/** ln 2 in two parts, of which the first times an exponent is exact (Cody and Waite; the parts of Cephes). */
const LN2_F32 = [0.693359375, -2.12194440e-4], LN2_F64 = [6.93145751953125e-1, 1.42860682030941723212e-6];

/** e^y for 2^(y * log2(e)): the remainder is taken before the product is rounded, so that large |y| keep their digits. */
export function exp(y: UOp): UOp {
  const d = y.dtype, wide = d.bits === 64;
  const [high, low] = wide ? LN2_F64 : LN2_F32;
  const hi = wide ? 710.5 : 89.5, lo = wide ? -1418 : -176; // exponents of -2046 and -254
  const below = y.lt(hi).where(y, y.constLike(hi)); // also for NaN
  const c = below.lt(lo).where(y.constLike(lo), below);
  const log2e = wide ? Math.LOG2E : Math.fround(Math.LOG2E);
  const n = nearest(c.mul(log2e)), k = n.cast(d);
  const f = c.add(k.mul(-high)).add(k.mul(-low)).mul(log2e);
  const p = f.mul(polynomial(f, wide ? EXP2_F64 : EXP2_F32)).add(1);
  const half = n.shr(1);
  const value = p.mul(powerOfTwo(half, d)).mul(powerOfTwo(n.sub(half), d));
  return y.ne(y).where(y, value);
}

// log2(1 + x) / x for sqrt(1/2) - 1 <= x <= sqrt(2) - 1
const LOG2_F32 = [
  1.4426950216293335,
  -0.7213473320007324,
  0.48089852929115295,
  -0.36069655418395996,
  0.28855255246162415,
  -0.23960812389850616,
  0.20485764741897583,
  -0.19138838350772858,
  0.18476033210754395,
  -0.10749789327383041,
];
// log2((1 + s) / (1 - s)) / s as a polynomial of s^2
const LOG2_F64 = [
  2.8853900817779268,
  0.9617966939259756,
  0.5770780163555842,
  0.4121985831116246,
  0.3205988978670979,
  0.2623082029071164,
  0.22195203610200445,
  0.1924089043266122,
  0.16831839104465415,
  0.17379588014298886,
];

/** Base-2 logarithm: exponent plus that of a mantissa between sqrt(1/2) and sqrt(2). */
function log2(x: UOp): UOp {
  const d = x.dtype, wide = d.bits === 64, ints = intLike(d);
  const tiny = x.lt(wide ? 2 ** -1022 : 2 ** -126);
  const bits = tiny.where(x.mul(wide ? 2 ** 54 : 2 ** 25), x).bitcast(ints);
  const root = constant(wide ? new Int64(0x3fe6a09e, 0x667f3bcd) : 0x3f3504f3, ints); // sqrt(1/2)
  const digits = wide ? 52 : 23;
  const e = bits.sub(root).shr(digits);
  const f = bits.sub(e.shl(digits)).bitcast(d).add(-1);
  let mantissa: UOp;
  if (wide) {
    const s = f.fdiv(f.add(2));
    mantissa = s.mul(polynomial(s.mul(s), LOG2_F64));
  } else mantissa = f.mul(polynomial(f, LOG2_F32));
  const exponent = e.cast(d).add(tiny.where(x.constLike(wide ? -54 : -25), x.constLike(0)));
  const value = x.lt(Infinity).where(exponent.add(mantissa), x);
  return x.constLike(0).lt(x).where(value, x.eq(0).where(x.constLike(-Infinity), x.constLike(NaN)));
}

// (sin r - r) / r^3 and (cos r - 1 + r^2 / 2) / r^4 as polynomials of r^2, |r| <= pi/4
const SIN_F32 = [-0.1666666716337204, 0.008333331905305386, -0.00019840063760057092, 2.7246869649388827e-06];
const COS_F32 = [0.0416666641831398, -0.0013888290850445628, 2.454541936458554e-05];
const SIN_F64 = [
  -0.16666666666666666,
  0.008333333333330827,
  -0.0001984126983657571,
  2.755731600817155e-06,
  -2.5051112272573243e-08,
  1.5916726193889336e-10,
];
const COS_F64 = [
  0.041666666666666664,
  -0.0013888888888887322,
  2.4801587298651292e-05,
  -2.755731721268659e-07,
  2.0876134024090145e-09,
  -1.1381754653662937e-11,
];
// pi/2 in parts with trailing zeros, so that a small integer times a part is exact
const HALF_PI_F32 = [1.5703125, 0.00048351287841796875, 3.1385570764541626e-07, 6.07709993438732e-11];
const HALF_PI_F64 = [1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32];
/** Up to here the reduction by parts is exact enough. */
const BIG_F32 = 8192, BIG_F64 = 2 ** 20;

/** |x| modulo pi/2, between -pi/4 and pi/4, and the quadrant. */
function reduceByParts(x: UOp): [r: UOp, quadrant: UOp] {
  const wide = x.dtype.bits === 64;
  const q = nearest(x.mul(2 / Math.PI));
  const n = q.cast(x.dtype);
  let r = x;
  for (const part of wide ? HALF_PI_F64 : HALF_PI_F32) r = r.sub(n.mul(part));
  return [r, q];
}

/** Bits of 2/pi after 32 zeros. */
const TWO_OVER_PI = [0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab];

/** Upper half of the product of a 24-bit integer and a 32-bit one. */
function mulHigh(m: UOp, a: UOp): UOp {
  const m0 = m.and(0xffff), m1 = m.shr(16), a0 = a.and(0xffff), a1 = a.shr(16);
  const cross = m0.mul(a1);
  const middle = m1.mul(a0).add(m0.mul(a0).shr(16)).add(cross.and(0xffff));
  return m1.mul(a1).add(cross.shr(16)).add(middle.shr(16));
}

/** |x| modulo pi/2 for large float32: the mantissa times a window of the bits of 2/pi, in fixed point. */
function reduceBits(x: UOp): [r: UOp, quadrant: UOp] {
  const n = x.dtype.count, uint = dtypes.uint32.vec(n), int = dtypes.int32.vec(n);
  const bits = x.bitcast(uint);
  const m = bits.and(0x7fffff).or(0x800000);
  // x = m * 2^(e - 150); bits of 2/pi that make multiples of 4 are left out
  const start = bits.shr(23).and(255).sub(uintConst(120, uint));
  const word = start.shr(5), shift = start.and(31);
  const back = shift.xor(31);
  const words: UOp[] = [];
  for (let i = 0; i < 4; i++) {
    let w = uintConst(TWO_OVER_PI[i], uint);
    for (let k = 1; i + k < TWO_OVER_PI.length && k <= 4; k++) {
      w = word.eq(k).where(uintConst(TWO_OVER_PI[i + k], uint), w);
    }
    words.push(w);
  }
  const window = [0, 1, 2].map((i) => words[i].shl(shift).or(words[i + 1].shr(1).shr(back)));
  const low = mulHigh(m, window[2]);
  const middle = m.mul(window[1]).add(low);
  const carry = middle.lt(low).where(uintConst(1, uint), uintConst(0, uint));
  const top = m.mul(window[0]).add(mulHigh(m, window[1])).add(carry);
  const quadrant = top.add(uintConst(0x20000000, uint)).shr(30);
  const fraction = top.shl(2).or(middle.shr(30)).bitcast(int);
  const rest = middle.shl(2).shr(8).bitcast(int); // 24 bits: exact
  const turns = fraction.cast(x.dtype).mul(2 ** -32).add(rest.cast(x.dtype).mul(2 ** -56));
  return [turns.mul(Math.PI / 2), quadrant.bitcast(int)];
}

/** Bits of 2/pi after 64 zeros, as hexadecimal words. */
const TWO_OVER_PI_64: readonly bigint[] = [
  0n,
  0xa2f9836e4e441529n,
  0xfc2757d1f534ddc0n,
  0xdb6295993c439041n,
  0xfe5163abdebbc561n,
  0xb7246e3a424dd2e0n,
  0x06492eea09d1921cn,
  0xfe1deb1cb129a73en,
  0xe88235f52ebb4484n,
  0xe99c7026b45f7e41n,
  0x3991d639835339f4n,
  0x9c845f8bbdf9283bn,
  0x1ff897ffde05980fn,
  0xef2f118b5a0a6d1fn,
  0x6d367ecf27cb09b7n,
  0x4f463f669e5fea2dn,
  0x7527bac7ebe5f17bn,
  0x3d0739f78a5292ean,
  0x6bfb5fb11f8d5d08n,
  0x56033046fc7b6babn,
];

/** Upper half of the product of a 53-bit integer and a 64-bit one, as uint64. */
function mulHighWide(m: UOp, a: UOp): UOp {
  const low = constant(0xffffffff, m.dtype);
  const m0 = m.and(low), m1 = m.shr(32), a0 = a.and(low), a1 = a.shr(32);
  const cross = m0.mul(a1);
  const middle = m1.mul(a0).add(m0.mul(a0).shr(32)).add(cross.and(low));
  return m1.mul(a1).add(cross.shr(32)).add(middle.shr(32));
}

/** |x| modulo pi/2 for large float64, as {@linkcode reduceBits}; the window of words is found by the bits of its place. */
function reduceWide(x: UOp): [r: UOp, quadrant: UOp] {
  const n = x.dtype.count, uint = dtypes.uint64.vec(n), int = dtypes.int64.vec(n);
  const word = (v: bigint) => constant(Int64.fromBigInt(BigInt.asIntN(64, v)), uint);
  const bits = x.bitcast(uint);
  const m = bits.and(word((1n << 52n) - 1n)).or(word(1n << 52n));
  // x = m * 2^(e - 1075); bits of 2/pi that make multiples of 4 are left out
  const start = bits.shr(52).and(2047).add(word(-1013n));
  const shift = start.and(63), back = shift.xor(63);
  let words = TWO_OVER_PI_64.map(word);
  for (const [by, keep] of [[16, 19], [8, 11], [4, 7], [2, 5], [1, 4]]) {
    const moves = start.and(64 * by).ne(uintConst(0, uint));
    words = words.slice(0, keep).map((w, i) => i + by < words.length ? moves.where(words[i + by], w) : w);
  }
  const window = [0, 1, 2].map((i) => words[i].shl(shift).or(words[i + 1].shr(1).shr(back)));
  const low = mulHighWide(m, window[2]);
  const middle = m.mul(window[1]).add(low);
  const carry = middle.lt(low).where(uintConst(1, uint), uintConst(0, uint));
  const top = m.mul(window[0]).add(mulHighWide(m, window[1])).add(carry);
  const quadrant = top.add(word(1n << 61n)).shr(62);
  const fraction = top.shl(2).or(middle.shr(62)).bitcast(int);
  const rest = middle.shl(2).shr(11).bitcast(int); // 53 bits: exact
  const turns = fraction.cast(x.dtype).mul(2 ** -64).add(rest.cast(x.dtype).mul(2 ** -117));
  return [turns.mul(Math.PI / 2), quadrant.cast(dtypes.int32.vec(n))];
}

function uintConst(v: number, d: DType): UOp {
  return constant(v, d);
}

/** An upper bound of |x|, where one can be seen from the expression. */
function maxAbs(x: UOp, depth = 8): number {
  if (x.op === Ops.CONST) return Math.abs(x.value);
  if (depth === 0) return Infinity;
  const of = (i: number): number => maxAbs(x.src[i], depth - 1);
  switch (x.op) {
    case Ops.CAST: {
      const s = x.src[0];
      return s.dtype.isFloat ? of(0) : Math.max(Math.abs(vmin(s)), Math.abs(vmax(s)));
    }
    case Ops.BITCAST: {
      const s = x.src[0];
      if (x.dtype.scalar !== dtypes.float32 || vmin(s) < 0 || vmax(s) >= 0x7f800000) return Infinity;
      const view = new DataView(new ArrayBuffer(4));
      view.setInt32(0, vmax(s));
      return view.getFloat32(0);
    }
    case Ops.ADD:
    case Ops.SUB:
      return of(0) + of(1);
    case Ops.MULACC: {
      const p = of(0) * of(1) + of(2);
      return p === p ? p : Infinity;
    }
    case Ops.MUL: {
      const p = of(0) * of(1);
      return p === p ? p : Infinity;
    }
    case Ops.SIN:
    case Ops.COS:
      return 1;
    case Ops.MAX:
      return Math.max(of(0), of(1));
    case Ops.WHERE:
      return Math.max(of(1), of(2));
    case Ops.NEG:
    case Ops.BROADCAST:
    case Ops.EXTRACT:
    case Ops.TRUNC:
      return of(0);
  }
  return Infinity;
}

/** Sine. */
export function sin(x: UOp): UOp {
  return x.eq(0).where(x, circular(x, 0)); // keeps -0
}

/** Cosine: the sine a quadrant further. */
function cos(x: UOp): UOp {
  return circular(x, 1);
}

/** sin(x + ahead pi/2). */
function circular(x: UOp, ahead: 0 | 1): UOp {
  const d = x.dtype, wide = d.bits === 64;
  const a = x.lt(0).where(x.mul(-1), x);
  let small = a;
  const isBig = x.constLike(wide ? BIG_F64 : BIG_F32).lt(a);
  const mayBeBig = maxAbs(x) > (wide ? BIG_F64 : BIG_F32);
  if (mayBeBig) {
    const limit = x.constLike(wide ? BIG_F64 : BIG_F32);
    small = a.lt(limit).where(a, limit); // keeps the conversion to int in range, also for NaN
  }
  let [r, quadrant] = reduceByParts(small);
  if (mayBeBig) {
    const [r2, q2] = wide ? reduceWide(a) : reduceBits(a);
    r = isBig.where(r2, r);
    quadrant = isBig.where(q2, quadrant);
  }
  const z = r.mul(r);
  const s = z.mul(r).mul(polynomial(z, wide ? SIN_F64 : SIN_F32)).add(r);
  const c = z.mul(z).mul(polynomial(z, wide ? COS_F64 : COS_F32)).add(z.mul(-0.5)).add(1);
  const value = quadrant.and(1).eq(0).where(...ahead === 0 ? [s, c] as const : [c, s] as const);
  const low = (ahead === 0 ? quadrant : quadrant.add(1)).and(2).ne(0);
  const negative = ahead === 0 ? low.ne(x.lt(0)) : low; // the cosine is even
  const signed = negative.where(value.mul(-1), value);
  return mayBeBig ? a.lt(Infinity).where(signed, x.constLike(NaN)) : signed;
}

/** Rounds toward zero by way of int32, where a fraction is possible at all. */
function trunc(x: UOp): UOp {
  const limit = x.dtype.bits === 64 ? 2 ** 52 : 2 ** 23;
  const a = x.lt(0).where(x.mul(-1), x);
  const inside = a.lt(limit);
  const t = inside.where(x, x.constLike(0)).cast(intLike(x.dtype)).cast(x.dtype);
  return inside.where(x.lt(0).where(t.lt(0).where(t, x.constLike(-0)), t), x);
}

/** `f` of a float16 or bfloat16 is computed in float32. */
function inFloat(x: UOp, f: (x: UOp) => UOp): UOp {
  return x.dtype.bits >= 32 ? f(x) : f(x.cast(dtypes.float32.vec(x.dtype.count))).cast(x.dtype);
}

/** An EXP2: 2^x, or e^y. */
function exponential(u: UOp): UOp {
  const y = naturalExponent(u);
  return y === undefined ? inFloat(u.src[0], exp2) : exp(y);
}

const x = UPat.var("x");

const rules = new Map(
  [
    // with an arg it is an instruction
    [
      Ops.EXP2,
      rule(UPat.op(Ops.EXP2, { name: "u" }), ({ u }) => u.arg === undefined ? exponential(u) : undefined),
    ],
    [Ops.LOG2, rule(x.log2(), ({ x }) => inFloat(x, log2))],
    [Ops.SIN, rule(x.sin(), ({ x }) => inFloat(x, sin))],
    [Ops.COS, rule(x.cos(), ({ x }) => inFloat(x, cos))],
    [Ops.TRUNC, rule(x.trunc(), ({ x }) => x.dtype.isFloat ? inFloat(x, trunc) : x)],
  ] as const,
);

const matchers = new Map<string, PatternMatcher>();

/** The rules for a device: one for each of the functions that it does not have. Stage P. */
function transcendentalRules(caps: Capabilities): PatternMatcher {
  const missing = [...rules.keys()].filter((op) => !caps.nativeOps.includes(op));
  const key = missing.join();
  let pm = matchers.get(key);
  if (pm === undefined) matchers.set(key, pm = new PatternMatcher("functions", missing.map((op) => rules.get(op)!)));
  return pm;
}

/** Replaces the functions that a device does not have. */
export function decomposeTranscendentals(sink: UOp, caps: Capabilities): UOp {
  const pm = transcendentalRules(caps);
  if (!caps.nativeOps.includes(Ops.CMOD)) sink = decomposeFloatDivision(sink);
  return pm.rules.length === 0 ? sink : graphRewrite(sink, pm);
}
