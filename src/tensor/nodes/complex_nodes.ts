/**
 * Functions of complex numbers as graphs of real ones. In: complex nodes (uop/graph/complex.ts). Out: complex nodes, or
 * real ones for magnitude and angle. Branch cuts are those of C99's Annex G, and so PyTorch's and NumPy's. Inverse
 * functions are those of W. Kahan, "Branch cuts for complex elementary functions" (1987). Gradients go by derivatives,
 * not through the branches that a value is computed by.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { fromParts, type Holomorphic, holomorphic, type Parts, partsOf, withSlopes } from "../../uop/graph/complex.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import {
  asinhNode,
  coshNode,
  expm1Node,
  expNode,
  floatConst,
  log1pNode,
  logNode,
  lt,
  scale,
  shift,
  sinhNode,
  tanNode,
} from "./numeric.ts";
import { intPower } from "./power.ts";
import { atan2Node, hypotNode, signBit } from "./special_nodes.ts";

/** A real constant beside complex nodes. */
function real(value: number, dtype: DType): UOp {
  return constant(value, dtype);
}

function negative(x: UOp): UOp {
  return scale(x, -1);
}

function sizeOf(x: UOp): UOp {
  return signBit(x).where(negative(x), x);
}

/** `size` with the sign of `x`. */
function withSign(size: UOp, x: UOp): UOp {
  return signBit(x).where(negative(size), size);
}

function isInfinite(x: UOp): UOp {
  return sizeOf(x).eq(floatConst(Infinity, x.dtype));
}

/** x y, and 0 where a factor is 0, whatever the other one is. */
function product(x: UOp, y: UOp): UOp {
  const zero = floatConst(0, x.dtype);
  return x.eq(zero).where(withSign(zero, x.mul(withSign(floatConst(1, x.dtype), y))), y.eq(zero).where(y, x.mul(y)));
}

/** The larger and the smaller of two sizes; where one is NaN either may be. */
function sorted(p: UOp, q: UOp): Parts {
  const isLess = p.lt(q);
  return [isLess.where(q, p), isLess.where(p, q)];
}

/** d |z| = Re(conj(z) dz) / |z|, and 0 at 0. */
const MAGNITUDE = new GradientArg((g, [a, b], h) => {
  const zero = floatConst(0, a.dtype), isZero = h.eq(zero), by = isZero.where(floatConst(1, a.dtype), h);
  return [() => isZero.where(zero, g.mul(a.fdiv(by))), () => isZero.where(zero, g.mul(b.fdiv(by)))];
}, true);

/** d arg z = Im(conj(z) dz) / |z|^2, and 0 at 0. */
const ANGLE = new GradientArg((g, [a, b]) => {
  const square = a.mul(a).add(b.mul(b)), zero = floatConst(0, a.dtype), isZero = square.eq(zero);
  const by = isZero.where(floatConst(1, a.dtype), square);
  return [
    () => isZero.where(zero, g.mul(negative(b).fdiv(by))),
    () => isZero.where(zero, g.mul(a.fdiv(by))),
  ];
}, true);

/** |z|: real. */
export function magnitudeNode(z: UOp): UOp {
  const [a, b] = partsOf(z);
  return withGradient(hypotNode(a, b), [a, b], MAGNITUDE);
}

/** |z|^2: real. */
export function squaredMagnitude(z: UOp): UOp {
  const [a, b] = partsOf(z);
  return a.mul(a).add(b.mul(b));
}

/** The angle of z: real. */
export function angleNode(z: UOp): UOp {
  const [a, b] = partsOf(z);
  return withGradient(atan2Node(b, a), [a, b], ANGLE);
}

/** z / |z|, and 0 at 0. */
export function directionNode(z: UOp): UOp {
  const h = magnitudeNode(z), [a, b] = partsOf(z), zero = floatConst(0, h.dtype), isZero = h.eq(zero);
  const by = isZero.where(floatConst(1, h.dtype), h);
  return fromParts([isZero.where(zero, a.fdiv(by)), isZero.where(zero, b.fdiv(by))]);
}

/** i z. */
function turned(z: UOp): UOp {
  const [a, b] = partsOf(z);
  return fromParts([negative(b), a]);
}

/** -i z. */
function turnedBack(z: UOp): UOp {
  const [a, b] = partsOf(z);
  return fromParts([b, negative(a)]);
}

/** 1 / z. */
export function inverseNode(z: UOp): UOp {
  return real(1, z.dtype).fdiv(z);
}

/** A function of one complex number: its value by parts, and its derivative. */
function analytic(value: (a: UOp, b: UOp) => Parts, slope: (z: UOp) => UOp): (z: UOp) => UOp {
  const rule: Holomorphic = holomorphic(([z]) => [() => slope(z)]);
  return (z) => {
    const [a, b] = partsOf(z);
    return withSlopes(value(a, b), [z], rule);
  };
}

/** e^z. */
export const expComplex: (z: UOp) => UOp = analytic((a, b) => {
  const e = expNode(a), zero = floatConst(0, a.dtype), isNone = e.eq(zero), c = b.cos();
  const isFar = b.eq(zero).or(isInfinite(e).and(c.ne(c)));
  return [
    isNone.where(zero, isFar.where(e, e.mul(c))),
    isNone.where(zero, b.eq(zero).where(b, e.mul(b.sin()))),
  ];
}, (z) => expComplex(z));

/** The natural logarithm, of an angle in [-pi, pi]. */
export const logComplex: (z: UOp) => UOp = analytic((a, b) => {
  const d = a.dtype, one = floatConst(1, d), [most, least] = sorted(sizeOf(a), sizeOf(b));
  const isPlain = floatConst(0, d).lt(most).and(most.lt(floatConst(Infinity, d)));
  const ratio = isPlain.where(least, floatConst(0, d)).fdiv(isPlain.where(most, one));
  const plain = logNode(isPlain.where(most, one)).add(scale(log1pNode(ratio.mul(ratio)), 0.5));
  return [isPlain.where(plain, logNode(hypotNode(a, b))), atan2Node(b, a)];
}, inverseNode);

/** log(1 + z), with digits near 0. */
export const log1pComplex: (z: UOp) => UOp = analytic((a, b) => {
  const right = shift(a, 1), near = lt(hypotNode(a, b), 0.5), small = near.where(a, floatConst(0, a.dtype));
  const low = near.where(b, floatConst(0, a.dtype));
  const square = small.mul(shift(small, 2)).add(low.mul(low));
  return [near.where(scale(log1pNode(square), 0.5), logNode(hypotNode(right, b))), atan2Node(b, right)];
}, (z) => inverseNode(shift(z, 1)));

/** e^z - 1, with digits near 0. */
export const expm1Complex: (z: UOp) => UOp = analytic((a, b) => {
  const half = scale(b, 0.5).sin();
  return [product(expm1Node(a), b.cos()).sub(scale(half.mul(half), 2)), product(b.sin(), expNode(a))];
}, (z) => expComplex(z));

/** The root whose real part is not negative. */
export const sqrtComplex: (z: UOp) => UOp = analytic((a, b) => {
  const d = a.dtype, zero = floatConst(0, d), infinity = floatConst(Infinity, d);
  const w = scale(hypotNode(a, b), 0.5).add(scale(sizeOf(a), 0.5)).sqrt(), isNone = w.eq(zero);
  const other = scale(sizeOf(b), 0.5).fdiv(isNone.where(floatConst(1, d), w)), isLeft = signBit(a);
  const steep = isInfinite(b), low = isInfinite(a).and(b.eq(b)).where(zero, other);
  return [
    steep.where(infinity, isLeft.where(low, w)),
    steep.where(b, withSign(isLeft.where(w, low), b)),
  ];
}, (z) => inverseNode(sqrtComplex(z)).mul(real(0.5, z.dtype)));

/** The hyperbolic sine. */
export const sinhComplex: (z: UOp) => UOp = analytic(
  (a, b) => [product(sinhNode(a), b.cos()), product(b.sin(), coshNode(a))],
  (z) => coshComplex(z),
);

/** The hyperbolic cosine. */
export const coshComplex: (z: UOp) => UOp = analytic(
  (a, b) => [coshNode(a).mul(b.cos()), product(sinhNode(a), b.sin())],
  (z) => sinhComplex(z),
);

/** The hyperbolic tangent. */
export const tanhComplex: (z: UOp) => UOp = analytic((a, b) => {
  const d = a.dtype, limit = floatConst(d === dtypes.float64 ? 20 : 9, d), isFar = limit.lt(sizeOf(a));
  const near = isFar.where(floatConst(0, d), a), t = tanNode(b), beta = shift(t.mul(t), 1), s = sinhNode(near);
  const divisor = shift(beta.mul(s).mul(s), 1);
  const far = product(expNode(scale(sizeOf(a), -2)), scale(b.sin().mul(b.cos()), 4));
  return [
    isFar.where(
      withSign(floatConst(1, d), a),
      product(s, beta.mul(coshNode(near))).fdiv(s.eq(floatConst(0, d)).where(floatConst(1, d), divisor)),
    ),
    isFar.where(far, t.fdiv(divisor)),
  ];
}, (z) => {
  const y = tanhComplex(z);
  return real(1, z.dtype).add(y.mul(y).mul(-1));
});

/** The sine. */
export const sinComplex: (z: UOp) => UOp = analytic(
  (a, b) => [product(a.sin(), coshNode(b)), product(sinhNode(b), a.cos())],
  (z) => cosComplex(z),
);

/** The cosine. */
export const cosComplex: (z: UOp) => UOp = analytic(
  (a, b) => [a.cos().mul(coshNode(b)), negative(product(a.sin(), sinhNode(b)))],
  (z) => sinComplex(z).mul(-1),
);

/** The tangent. */
export function tanComplex(z: UOp): UOp {
  return turnedBack(tanhComplex(turned(z)));
}

/** sqrt(1 - z) and sqrt(1 + z), by parts. */
function roots(a: UOp, b: UOp): [Parts, Parts] {
  const root = (x: UOp, y: UOp): Parts => partsOf(sqrtComplex(fromParts([x, y])));
  return [root(shift(negative(a), 1), negative(b)), root(shift(a, 1), b)];
}

/** 1 / sqrt(1 - z^2) */
function arcSlope(z: UOp): UOp {
  const one = real(1, z.dtype);
  return inverseNode(sqrtComplex(one.add(z.mul(-1))).mul(sqrtComplex(one.add(z))));
}

/** The inverse sine. */
export const asinComplex: (z: UOp) => UOp = analytic((a, b) => {
  const [[p, q], [r, s]] = roots(a, b);
  return [atan2Node(a, product(p, r).sub(product(q, s))), asinhNode(product(p, s).sub(product(q, r)))];
}, arcSlope);

/** The inverse cosine. */
export const acosComplex: (z: UOp) => UOp = analytic((a, b) => {
  const [[p, q], [r, s]] = roots(a, b);
  return [scale(atan2Node(p, r), 2), asinhNode(product(r, q).sub(product(s, p)))];
}, (z) => arcSlope(z).mul(-1));

/** The inverse hyperbolic sine. */
export function asinhComplex(z: UOp): UOp {
  return turnedBack(asinComplex(turned(z)));
}

/** The inverse hyperbolic cosine. */
export const acoshComplex: (z: UOp) => UOp = analytic((a, b) => {
  const root = (by: number): Parts => partsOf(sqrtComplex(fromParts([shift(a, by), b])));
  const [p, q] = root(-1), [r, s] = root(1);
  return [asinhNode(product(p, r).add(product(q, s))), scale(atan2Node(q, r), 2)];
}, (z) => {
  const one = real(1, z.dtype);
  return inverseNode(sqrtComplex(z.add(one.mul(-1))).mul(sqrtComplex(z.add(one))));
});

/** The inverse hyperbolic tangent; where squares are lost, beside ±1, by the logarithm of the distance. */
export const atanhComplex: (z: UOp) => UOp = analytic((a, b) => {
  const less = shift(negative(a), 1), gap = shift(negative(sizeOf(a)), 1), far = hypotNode(gap, b);
  const re = scale(log1pNode(scale(sizeOf(a), 4).fdiv(gap.mul(gap).add(b.mul(b)))), 0.25);
  const beside = scale(shift(negative(logNode(far)), Math.LN2), 0.5);
  const im = scale(atan2Node(scale(b, 2), less.mul(shift(a, 1)).sub(b.mul(b))), 0.5);
  const isFar = gap.mul(gap).add(b.mul(b)).eq(floatConst(Infinity, a.dtype));
  return [
    withSign(isFar.where(floatConst(0, a.dtype), lt(far, 2 ** -26).where(beside, re)), a),
    isFar.where(withSign(floatConst(Math.PI / 2, a.dtype), b), im),
  ];
}, (z) => inverseNode(real(1, z.dtype).add(z.mul(z).mul(-1))));

/** The inverse tangent. */
export function atanComplex(z: UOp): UOp {
  return turnedBack(atanhComplex(turned(z)));
}

/** d z^w = w z^(w-1) dz + z^w log(z) dw; of the exponent none where the base is 0. */
const POWER = holomorphic(([z, w]) => [
  () => w.mul(powComplex(z, w.add(real(-1, w.dtype)))),
  () => {
    const none = z.eq(real(0, z.dtype));
    return none.where(real(0, z.dtype), powComplex(z, w).mul(logComplex(z)));
  },
]);

/** z^w = e^(w log z); 0^0 is 1, and 0 to what has a positive real part 0. */
export function powComplex(z: UOp, w: UOp): UOp {
  const [a, b] = partsOf(z), [c, e] = partsOf(w), d = a.dtype, zero = floatConst(0, d);
  const [re, im] = partsOf(expComplex(w.mul(logComplex(z))));
  const isZero = a.eq(zero).and(b.eq(zero)), isNone = c.eq(zero).and(e.eq(zero));
  const atZero = zero.lt(c).where(zero, floatConst(NaN, d));
  return withSlopes(
    [
      isNone.where(floatConst(1, d), isZero.where(atZero, re)),
      isNone.where(zero, isZero.where(atZero, im)),
    ],
    [z, w],
    POWER,
  );
}

/** z to a real power: whole ones up to 16 by products. */
export function constantPowerComplex(z: UOp, exponent: number): UOp {
  const n = Math.abs(exponent);
  if (exponent === 0.5) return sqrtComplex(z);
  if (n === 0 || !Number.isInteger(n) || n > 16) return powComplex(z, real(exponent, z.dtype));
  return exponent < 0 ? inverseNode(intPower(z, n)) : intPower(z, n);
}
