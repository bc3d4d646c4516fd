/**
 * Decompositions of ops that devices do not have: floor division and remainder become shifts, masks or truncating
 * division with a correction. And the late rules that introduce SUB, NEG and MULACC, for stage P only.
 *
 * @module
 */
import type { Capabilities } from "../../../renderer/renderer.ts";
import { vmax, vmin } from "../../../uop/algebra/bounds.ts";
import { Ops } from "../../../uop/core/ops.ts";
import { type UOp, uop } from "../../../uop/core/uop.ts";
import { PatternMatcher, rule } from "../../../uop/rewrite/matcher.ts";
import { UPat } from "../../../uop/rewrite/upat.ts";

const x = UPat.var("x"), y = UPat.var("y"), z = UPat.var("z");

/** log2 of a constant that is a power of two; -1 for anything else. */
function exponentOf(u: UOp): number {
  if (u.op !== Ops.CONST || typeof u.arg !== "number" || u.arg < 1) return -1;
  const k = Math.round(Math.log2(u.arg));
  return 2 ** k === u.arg ? k : -1;
}

/** The divisor made safe: 1 where it is 0, so that no device traps. */
function safe(d: UOp): UOp {
  if (d.op === Ops.WHERE || vmin(d) > 0 || vmax(d) < 0) return d;
  return d.eq(0).where(d.constLike(1), d);
}

/** True where x / d can overflow: the least integer by -1. */
function overflows(d: UOp): boolean {
  return !d.dtype.isUnsigned && d.op !== Ops.CONST && vmin(d) <= -1 && vmax(d) >= -1;
}

/** x / d toward zero, for any divisor. */
function truncDiv(a: UOp, d: UOp): UOp {
  if (!overflows(d)) return uop(Ops.CDIV, a.dtype, [a, safe(d)]);
  const minus = d.eq(-1);
  return minus.where(a.mul(-1), uop(Ops.CDIV, a.dtype, [a, minus.where(d.constLike(1), safe(d))]));
}

function truncMod(a: UOp, d: UOp): UOp {
  if (!overflows(d)) return uop(Ops.CMOD, a.dtype, [a, safe(d)]);
  const minus = d.eq(-1);
  return minus.where(a.constLike(0), uop(Ops.CMOD, a.dtype, [a, minus.where(d.constLike(1), safe(d))]));
}

/** True where the quotient was rounded up: a remainder of the other sign than the divisor. */
function roundedUp(rest: UOp, d: UOp): UOp {
  if (vmin(d) > 0) return rest.lt(0);
  if (vmax(d) < 0) return rest.constLike(0).lt(rest);
  return rest.ne(0).and(rest.lt(0).ne(d.lt(0)));
}

function floorDiv(a: UOp, d: UOp): UOp {
  if (d.isConst(1)) return a;
  const k = exponentOf(d);
  if (k > 0) return uop(Ops.SHR, a.dtype, [a, d.constLike(k)]);
  if (a.dtype.isUnsigned || (vmin(a) >= 0 && vmin(d) > 0)) return truncDiv(a, d);
  const q = truncDiv(a, d);
  return roundedUp(truncMod(a, d), d).where(q.add(-1), q);
}

function floorMod(a: UOp, d: UOp): UOp {
  if (d.isConst(1)) return a.constLike(0);
  if (exponentOf(d) > 0) return a.and(d.constLike(d.value - 1));
  if (a.dtype.isUnsigned || (vmin(a) >= 0 && vmin(d) > 0)) return truncMod(a, d);
  const r = truncMod(a, d);
  return roundedUp(r, d).where(r.add(d), r);
}

function guard(u: UOp, whole: (a: UOp, d: UOp) => UOp): UOp | undefined {
  const d = u.src[1];
  if (d.dtype.isFloat) return undefined;
  if (d.op === Ops.WHERE || vmin(d) > 0 || (vmax(d) < 0 && !overflows(d))) return undefined;
  return whole(u.src[0], d);
}

/** Floor division and remainder; divisors that may be 0 or overflow. Stage K indices and stage P. */
export const pmDivision: PatternMatcher = new PatternMatcher("division", [
  rule(x.floorDiv(y), ({ x, y }) => floorDiv(x, y)), // x // 2^k -> x >> k; by sign x cdiv y, or with a correction
  rule(x.floorMod(y), ({ x, y }) => floorMod(x, y)), // x % 2^k -> x & (2^k - 1)
  rule(UPat.op(Ops.CDIV, { name: "u" }), ({ u }) => guard(u, truncDiv)),
  rule(UPat.op(Ops.CMOD, { name: "u" }), ({ u }) => guard(u, truncMod)),
]);

function isSigned(u: UOp): boolean {
  return u.dtype.kind === "float" || u.dtype.kind === "int";
}

/** SUB and NEG. Stage P, last. */
const pmLate: PatternMatcher = new PatternMatcher("late", [
  rule(x.mul(-1), ({ x }) => isSigned(x) ? uop(Ops.NEG, x.dtype, [x]) : undefined), // x * -1 -> -x
  rule(x.add(UPat.op(Ops.NEG, { src: [y] })), ({ x, y }) => uop(Ops.SUB, x.dtype, [x, y])), // x + -y -> x - y
]).settles();

/** MULACC, where the device fuses it. Stage P, last. */
const pmMulAcc: PatternMatcher = new PatternMatcher("mulacc", [
  rule(x.mul(y).add(z), ({ x, y, z }) => x.dtype.isFloat ? uop(Ops.MULACC, x.dtype, [x, y, z]) : undefined), // x*y + z
]);

/** What is added to a DOT is where that begins. Stage P, last. */
const pmDots: PatternMatcher = new PatternMatcher("dots", [
  rule(x.add(UPat.op(Ops.DOT, { src: [y, z, UPat.const(0)] })), ({ x, y, z }) => uop(Ops.DOT, x.dtype, [y, z, x])),
]).settles();

function shiftedNegation(x: UOp, n: UOp): UOp | undefined {
  if (x.dtype.isUnsigned) return undefined;
  return uop(Ops.XOR, x.dtype, [uop(Ops.SHR, x.dtype, [x.add(-1), n]), x.constLike(-1)]);
}

/** Shifts of negated integers, where the device's compiler gets them wrong. Stage P, last. */
const pmShiftedNegation: PatternMatcher = new PatternMatcher("shifted negation", [
  rule(UPat.op(Ops.SHR, { src: [UPat.op(Ops.NEG, { src: [x] }), y] }), ({ x, y }) => shiftedNegation(x, y)), // -x >> n -> ~((x - 1) >> n)
]);

const pmLateFused = pmLate.concat(pmMulAcc).settles();
const pmLateDots = pmLateFused.concat(pmDots).settles(), pmLateUnfusedDots = pmLate.concat(pmDots).settles();
const pmLateAvoiding = pmLateFused.concat(pmShiftedNegation).settles();

/** The late rules for a device. */
export function lateRules(caps: Capabilities): PatternMatcher {
  if (caps.avoidsShiftedNegations) return pmLateAvoiding;
  if (caps.hasDots) return caps.hasMulAcc ? pmLateDots : pmLateUnfusedDots;
  return caps.hasMulAcc ? pmLateFused : pmLate;
}
