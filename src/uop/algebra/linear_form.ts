/**
 * Integer arithmetic as sums: factors times constants, plus a constant. A factor is no sum: a RANGE, a quotient, a loaded
 * value. There is one record, {@linkcode Linear}, and two ways to read it:
 *
 * - {@linkcode linearOf} is exact, for the simplifier: sums are equal as integers modulo the width, so when the interval
 *   of the true sum fits the dtype, the true sum is the value. {@linkcode buildLinear} is the normal form, with terms in a
 *   fixed order (what depends on outer loops first, so that prefixes can be hoisted).
 * - {@linkcode indexForm} is for indices, which do not overflow: widening casts, differences and shifts are taken apart
 *   too. Strides, alignment and what lies side by side are read off it.
 *
 * @module
 */
import { truncateTo } from "../../dtype/convert.ts";
import { type DType, dtypeMax, dtypeMin, DTYPES, dtypes } from "../../dtype/dtype.ts";
import { floorMod, gcd } from "../../helpers/math.ts";
import { argOf } from "../core/args.ts";
import { Ops } from "../core/ops.ts";
import { compareRanges, dependsOn, rangesOf } from "../core/ranges.ts";
import { constant, type UOp } from "../core/uop.ts";
import { vmax, vmin } from "./bounds.ts";

/** `coefs[0] * factors[0] + ... + constant`. Factors are distinct and no sums; coefficients are safe integers, not 0. */
export interface Linear {
  readonly factors: UOp[];
  readonly coefs: number[];
  constant: number;
}

/** Terms beyond which a sum is left as it is. */
const MAX_TERMS = 48;

const SAFE = Number.MAX_SAFE_INTEGER;
const MIN = DTYPES.map(dtypeMin), MAX = DTYPES.map(dtypeMax);

/** Adds `coef * factor`; false when the coefficient is no safe integer any more. */
export function addTerm(l: Linear, factor: UOp, coef: number): boolean {
  const i = l.factors.indexOf(factor);
  if (i < 0) {
    if (coef !== 0) {
      l.factors.push(factor);
      l.coefs.push(coef);
    }
    return Math.abs(coef) <= SAFE;
  }
  const c = l.coefs[i] + coef;
  if (c === 0) {
    l.factors.splice(i, 1);
    l.coefs.splice(i, 1);
  } else l.coefs[i] = c;
  return Math.abs(c) <= SAFE;
}

/** Adds `scale * u` to `l`, taking sums and constant multiples apart; false where that is not possible. */
export function addLinear(l: Linear, u: UOp, scale: number): boolean {
  if (u.op !== Ops.ADD && u.op !== Ops.MUL && u.op !== Ops.CONST) return addTerm(l, u, scale);
  const nodes: UOp[] = [u], scales: number[] = [scale];
  while (nodes.length > 0) {
    const n = nodes.pop()!, s = scales.pop()!;
    if (n.op === Ops.ADD) {
      nodes.push(n.src[1], n.src[0]);
      scales.push(s, s);
      if (l.factors.length + nodes.length > MAX_TERMS) return false;
    } else if (n.op === Ops.CONST) {
      if (typeof n.arg !== "number") return false;
      l.constant += n.arg * s;
      if (!(Math.abs(l.constant) <= SAFE)) return false;
    } else if (n.op === Ops.MUL && n.src[1].op === Ops.CONST && typeof n.src[1].arg === "number") {
      nodes.push(n.src[0]);
      scales.push(s * n.src[1].arg);
    } else if (n.op === Ops.MUL && n.src[0].op === Ops.CONST && typeof n.src[0].arg === "number") {
      nodes.push(n.src[1]);
      scales.push(s * n.src[0].arg);
    } else if (!addTerm(l, n, s)) return false;
  }
  return true;
}

/** An empty sum. */
export function emptyLinear(constant: number = 0): Linear {
  return { factors: [], coefs: [], constant };
}

/** The sum that `u` is; undefined where numbers get too large or terms too many. */
export function linearOf(u: UOp): Linear | undefined {
  const l = emptyLinear();
  return addLinear(l, u, 1) ? l : undefined;
}

/** Smallest value of the true sum; may be -Infinity. */
export function linearMin(l: Linear): number {
  let s = l.constant;
  for (let i = 0; i < l.factors.length; i++) {
    s += l.coefs[i] * (l.coefs[i] > 0 ? vmin(l.factors[i]) : vmax(l.factors[i]));
  }
  return s;
}

/** Largest value of the true sum. */
export function linearMax(l: Linear): number {
  let s = l.constant;
  for (let i = 0; i < l.factors.length; i++) {
    s += l.coefs[i] * (l.coefs[i] > 0 ? vmax(l.factors[i]) : vmin(l.factors[i]));
  }
  return s;
}

/** True when the true sum is always a value of `d` (and a safe integer), so that no wrap-around can show. */
export function fitsDType(l: Linear, d: DType): boolean {
  return inDType(linearMin(l), d) && inDType(linearMax(l), d);
}

/** True for a safe integer that `d` can hold. */
export function inDType(x: number, d: DType): boolean {
  return x >= -SAFE && x <= SAFE && x >= MIN[d.id] && x <= MAX[d.id];
}

/** True for a term that only loops, hardware indices and variables make: index arithmetic. */
export function isIndexLike(u: UOp): boolean {
  return u.op === Ops.VARIABLE || u.op === Ops.SPECIAL || rangesOf(u).length > 0;
}

function structural(a: UOp, b: UOp, depth: number): number {
  if (a === b) return 0;
  if (a.op !== b.op) return a.op - b.op;
  if (a.dtype !== b.dtype) return a.dtype.id - b.dtype.id || a.dtype.count - b.dtype.count;
  switch (a.op) {
    case Ops.RANGE:
      return compareRanges(a, b);
    case Ops.VARIABLE: {
      const x = argOf(a, Ops.VARIABLE).name, y = argOf(b, Ops.VARIABLE).name;
      return x < y ? -1 : x > y ? 1 : 0;
    }
    case Ops.SPECIAL:
      return argOf(a, Ops.SPECIAL) < argOf(b, Ops.SPECIAL) ? -1 : 1;
    case Ops.CONST:
      return typeof a.arg === "number" && typeof b.arg === "number" ? a.arg - b.arg : 0;
  }
  if (a.src.length !== b.src.length) return a.src.length - b.src.length;
  if (depth === 0) return 0;
  for (let i = 0; i < a.src.length; i++) {
    const c = structural(a.src[i], b.src[i], depth - 1);
    if (c !== 0) return c;
  }
  return 0;
}

/**
 * Order of terms: by the innermost range they depend on (none first), then by how many, then by structure. It is 0 also
 * for some different nodes (those keep their order): it never looks at what differs between runs, as buffer numbers.
 */
export function compareTerms(a: UOp, b: UOp): number {
  if (a === b) return 0;
  const x = rangesOf(a), y = rangesOf(b);
  if (x.length === 0 || y.length === 0) {
    if (x.length !== y.length) return x.length - y.length;
    // Without ranges only named leaves are ordered, before all others: these may be tensors.
    const isNamed = isIndexLike(a);
    return isNamed !== isIndexLike(b) ? (isNamed ? -1 : 1) : isNamed ? structural(a, b, 0) : 0;
  }
  const p = argOf(x[x.length - 1], Ops.RANGE), q = argOf(y[y.length - 1], Ops.RANGE);
  return p.id - q.id || p.sub - q.sub || x.length - y.length || structural(a, b, 6);
}

/** The node of a sum: terms in order, the constant last, constants wrapped to `dtype`. */
export function buildLinear(l: Linear, dtype: DType): UOp {
  const order = l.factors.map((_, i) => i);
  if (order.length > 1) order.sort((i, j) => compareTerms(l.factors[i], l.factors[j]) || i - j);
  let sum: UOp | undefined;
  for (const i of order) {
    const c = truncateTo(dtype, l.coefs[i]);
    if (c === 0) continue;
    const term = c === 1 ? l.factors[i] : l.factors[i].alu(Ops.MUL, constant(c, dtype));
    sum = sum === undefined ? term : sum.alu(Ops.ADD, term);
  }
  const k = truncateTo(dtype, l.constant) + 0;
  if (sum === undefined) return constant(k, dtype);
  return k === 0 ? sum : sum.alu(Ops.ADD, constant(k, dtype));
}

/** A copy to change. */
export function copyLinear(l: Linear): Linear {
  return { factors: l.factors.slice(), coefs: l.coefs.slice(), constant: l.constant };
}

/** The factor of a term: `f` of `f * c`. */
export function factorOf(term: UOp): UOp {
  return term.op === Ops.MUL && term.src[1].op === Ops.CONST ? term.src[0] : term;
}

const indexForms = new WeakMap<UOp, Linear>();

/** The sum that an index is, of any number of terms; what is no integer is its own factor. */
export function indexForm(u: UOp): Readonly<Linear> {
  let l = indexForms.get(u);
  if (l === undefined) {
    l = emptyLinear();
    addIndex(l, u, 1, undefined);
    if (u.src.length > 0) indexForms.set(u, l);
  }
  return l;
}

/** Adds `scale * u` to `l`, each factor cast to `wide` where that is given. */
function addIndex(l: Linear, u: UOp, scale: number, wide: DType | undefined): void {
  const [a, b] = u.src, isInt = u.dtype.isInt;
  switch (u.op) {
    case Ops.CONST:
      if (typeof u.arg !== "number") break;
      l.constant += scale * u.arg;
      return;
    case Ops.ADD:
    case Ops.SUB:
      if (!isInt) break;
      addIndex(l, a, scale, wide);
      return addIndex(l, b, u.op === Ops.SUB ? -scale : scale, wide);
    case Ops.NEG:
      if (!isInt) break;
      return addIndex(l, a, -scale, wide);
    case Ops.MUL: {
      const [x, c] = a.op === Ops.CONST ? [b, a] : [a, b];
      if (!isInt || c.op !== Ops.CONST || typeof c.arg !== "number") break;
      return addIndex(l, x, scale * c.arg, wide);
    }
    case Ops.SHL:
      if (!isInt || b.op !== Ops.CONST) break;
      return addIndex(l, a, scale * 2 ** b.value, wide);
    case Ops.CAST:
      if (u.dtype !== dtypes.int64 || a.dtype !== dtypes.int32) break;
      return addIndex(l, a, scale, u.dtype);
  }
  addTerm(l, wide === undefined ? u : u.cast(wide), scale);
}

/** The RANGE that a factor of an index is, through a cast; undefined for others. */
export function rangeOfFactor(u: UOp): UOp | undefined {
  const x = u.op === Ops.CAST ? u.src[0] : u;
  return x.op === Ops.RANGE ? x : undefined;
}

/** How far an index moves by a step along a range, as far as that is no matter of quotients: see {@linkcode slopeOf}. */
export function strideAlong(l: Readonly<Linear>, r: UOp): number {
  let stride = 0;
  for (let i = 0; i < l.factors.length; i++) if (rangeOfFactor(l.factors[i]) === r) stride += l.coefs[i];
  return stride;
}

/** Do neighbors along `r` lie side by side, so that each row of them begins at a multiple of `n`? */
export function liesAlong(l: Readonly<Linear>, r: UOp, n: number = 1): boolean {
  return strideAlong(l, r) === 1 && l.constant % n === 0 &&
    l.factors.every((f, i) => rangeOfFactor(f) === r || (l.coefs[i] % n === 0 && !dependsOn(f, r)));
}

/** The largest number that divides `most` and every value of an index, by its coefficients. */
export function divisorOf(l: Readonly<Linear>, most: number): number {
  return l.coefs.reduce(gcd, gcd(most, l.constant));
}

/**
 * How much `u` grows a step of `lane`, for lane values 0 <= lane < n: a number where that is the same for all of them,
 * else undefined. `depends` says whether a node depends on the lane.
 */
export function slopeOf(u: UOp, lane: UOp, n: number, depends: (u: UOp) => boolean): number | undefined {
  if (!depends(u)) return 0;
  const { factors, coefs } = indexForm(u);
  let slope = 0;
  for (let i = 0; i < factors.length; i++) {
    const f = factors[i], c = coefs[i];
    if (!depends(f)) continue;
    if (rangeOfFactor(f) === lane) slope += c;
    else {
      const isWhole = f === u && factors.length === 1 && c === 1;
      const s = isWhole ? quotientSlope(f, lane, n, depends) : slopeOf(f, lane, n, depends);
      if (s === undefined) return undefined;
      slope += s * c;
    }
  }
  return slope;
}

/** Quotients and remainders in which the lanes do not carry: (8 * x + lane) // 16 for 8 lanes. */
function quotientSlope(u: UOp, lane: UOp, n: number, depends: (u: UOp) => boolean): number | undefined {
  if (u.op === Ops.CAST && u.dtype.isInt && u.src[0].dtype.isInt) return slopeOf(u.src[0], lane, n, depends);
  if (u.src.length !== 2 || u.src[1].op !== Ops.CONST) return undefined;
  let divisor = u.src[1].value, quotient: boolean;
  if ((u.op === Ops.CDIV || u.op === Ops.CMOD) && vmin(u.src[0]) < 0) return undefined;
  switch (u.op) {
    case Ops.FLOORDIV:
    case Ops.CDIV:
      quotient = true;
      break;
    case Ops.FLOORMOD:
    case Ops.CMOD:
      quotient = false;
      break;
    case Ops.SHR:
      divisor = 2 ** divisor;
      quotient = true;
      break;
    case Ops.AND:
      divisor++;
      if (divisor <= 0 || (divisor & (divisor - 1)) !== 0) return undefined;
      quotient = false;
      break;
    default:
      return undefined;
  }
  const { factors, coefs, constant } = indexForm(u.src[0]);
  let g = divisor, slope = 0;
  for (let i = 0; i < factors.length; i++) {
    if (rangeOfFactor(factors[i]) === lane) slope += coefs[i];
    else if (depends(factors[i])) return undefined;
    else g = gcd(g, coefs[i]);
  }
  const first = floorMod(constant, g), last = first + slope * (n - 1);
  if (divisor <= 0 || Math.min(first, last) < 0 || Math.max(first, last) >= g) return undefined;
  return quotient ? 0 : slope;
}
