/**
 * Floor division and modulo of index arithmetic: folding by bounds, nesting, congruence and common factors, and putting
 * quotient and remainder together again. Everything holds for negative numbers too, and nothing is folded where the
 * true sum could leave its dtype.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { gcd } from "../../helpers/math.ts";
import { Ops } from "../core/ops.ts";
import { constant, type UOp } from "../core/uop.ts";
import { vmax, vmin } from "./bounds.ts";
import {
  addLinear,
  addTerm,
  buildLinear,
  copyLinear,
  emptyLinear,
  fitsDType,
  inDType,
  type Linear,
  linearMax,
  linearMin,
  linearOf,
} from "./linear_form.ts";

/** The value of an integer CONST that is a safe integer; undefined otherwise. */
function constOrUndefined(u: UOp): number | undefined {
  return u.op === Ops.CONST && typeof u.arg === "number" ? u.arg : undefined;
}

function isPositiveDiv(u: UOp, op: Ops): number | undefined {
  if (u.op !== op) return undefined;
  const c = constOrUndefined(u.src[1]);
  return c !== undefined && c > 0 ? c : undefined;
}

/** The simpler form of a FLOORDIV or FLOORMOD of integers; undefined where there is none. */
export function foldDivMod(u: UOp): UOp | undefined {
  const [x, y] = u.src;
  const div = u.op === Ops.FLOORDIV;
  const c = constOrUndefined(y);
  if (c === undefined) return y.op === Ops.CONST ? undefined : foldSymbolic(u, x, y, div);
  if (c === 0) return undefined;
  if (c === 1) return div ? x : u.constLike(0);
  if (c < 0) {
    const plain = linearOf(x), minus = emptyLinear();
    if (plain === undefined || !fitsDType(plain, u.dtype) || u.dtype.isUnsigned || !inDType(-c, u.dtype)) {
      return undefined;
    }
    if (!addLinear(minus, x, -1) || !fitsDType(minus, u.dtype)) return undefined;
    const n = buildLinear(minus, u.dtype).alu(u.op, -c);
    return div ? n : n.neg(); // x // -c = -x // c; x % -c = -(-x % c)
  }
  const q = Math.floor(vmin(x) / c);
  if (q === Math.floor(vmax(x) / c)) return div ? u.constLike(q) : q === 0 ? x : offset(x, -q * c);
  const inner = isPositiveDiv(x, Ops.FLOORDIV);
  if (div && inner !== undefined) { // (z // a) // c = z // (a * c)
    if (inDType(inner * c, u.dtype)) return x.src[0].alu(Ops.FLOORDIV, inner * c);
    return undefined;
  }
  const m = isPositiveDiv(x, Ops.FLOORMOD);
  if (m !== undefined && m % c === 0) { // (z % (a * c)) // c = (z // c) % a; (z % (a * c)) % c = z % c
    return div ? x.src[0].alu(Ops.FLOORDIV, c).alu(Ops.FLOORMOD, m / c) : x.src[0].alu(Ops.FLOORMOD, c);
  }
  if (x.op !== Ops.ADD && x.op !== Ops.MUL) return undefined;
  const l = linearOf(x);
  if (l === undefined || !fitsDType(l, u.dtype)) return undefined;
  return div ? foldDiv(u, l, c) : foldMod(u, l, c);
}

function offset(x: UOp, k: number): UOp {
  const l = linearOf(x);
  if (l === undefined) return x.add(k);
  l.constant += k;
  return buildLinear(l, x.dtype);
}

/** Quotient and remainder of each coefficient by `c`, the remainders by `pick`. */
function divide(l: Linear, c: number, pick: (r: number) => number): [Linear, Linear] {
  const q = emptyLinear(Math.floor(l.constant / c));
  const r = emptyLinear(l.constant - q.constant * c);
  for (let i = 0; i < l.factors.length; i++) {
    const rest = pick(l.coefs[i] % c);
    addTerm(r, l.factors[i], rest);
    addTerm(q, l.factors[i], (l.coefs[i] - rest) / c);
  }
  return [q, r];
}

const keep = (r: number): number => r + 0;

/** As {@linkcode divide} with the rest not negative where `d` allows it: machines divide such numbers without correction. */
function divideUp(l: Linear, c: number, d: DType): [Linear, Linear] {
  const [q, r] = divide(l, c, keep);
  const low = linearMin(r), up = Math.ceil(-low / c);
  if (up > 0 && inDType(linearMax(r) + up * c, d)) {
    q.constant -= up;
    r.constant += up * c;
  }
  return [q, r];
}

/** `l` as quotient and rest such that the rest, divided by `c`, has one quotient only: then it is exact. */
function congruent(l: Linear, c: number): [Linear, Linear] | undefined {
  const smallest = (r: number): number => r * 2 > c ? r - c : r * 2 < -c ? r + c : r + 0;
  const positive = (r: number): number => r < 0 ? r + c : r + 0;
  const alternate = (r: number): number => r * 2 >= c ? r - c : r * 2 <= -c ? r + c : r + 0;
  for (const pick of [keep, smallest, positive, alternate]) {
    const [q, r] = divide(l, c, pick);
    const bucket = Math.floor(linearMin(r) / c);
    if (bucket !== Math.floor(linearMax(r) / c)) continue;
    q.constant += bucket;
    r.constant -= bucket * c;
    return [q, r];
  }
  return undefined;
}

/** Divisors to factor out: `l` = d * outer + rest with 0 <= rest < d, for a d that divides `c`; largest first. */
function* factored(l: Linear, c: number): Generator<{ d: number; outer: Linear; rest: Linear }> {
  const tried = new Set<number>();
  for (const a of l.coefs) tried.add(gcd(a, c));
  for (const d of [...tried].sort((a, b) => b - a)) {
    if (d <= 1 || d >= c) continue;
    const outer = emptyLinear(Math.floor(l.constant / d)), rest = emptyLinear(l.constant - outer.constant * d);
    for (let i = 0; i < l.factors.length; i++) {
      if (l.coefs[i] % d === 0) addTerm(outer, l.factors[i], l.coefs[i] / d);
      else addTerm(rest, l.factors[i], l.coefs[i]);
    }
    const bucket = Math.floor(linearMin(rest) / d);
    if (bucket !== Math.floor(linearMax(rest) / d)) continue;
    outer.constant += bucket;
    rest.constant -= bucket * d;
    yield { d, outer, rest };
  }
}

function foldDiv(u: UOp, l: Linear, c: number): UOp | undefined {
  const d = u.dtype;
  const exact = congruent(l, c);
  if (exact !== undefined) return buildLinear(exact[0], d);
  if (l.factors.length === 1 && l.coefs[0] === 1) { // (z // a + k) // c = (z + k * a) // (a * c)
    const a = isPositiveDiv(l.factors[0], Ops.FLOORDIV);
    const n = a === undefined ? undefined : linearOf(l.factors[0].src[0]);
    if (a !== undefined && n !== undefined && inDType(a * c, d) && fitsDType(n, d)) {
      n.constant += l.constant * a;
      if (fitsDType(n, d)) return buildLinear(n, d).alu(Ops.FLOORDIV, a * c);
    }
  }
  const [q, r] = divideUp(l, c, d);
  if (q.factors.length > 0 || q.constant !== 0) { // (q * c + r) // c = q + r // c
    if (fitsDType(r, d)) {
      addTerm(q, buildLinear(r, d).alu(Ops.FLOORDIV, c), 1);
      return buildLinear(q, d);
    }
  }
  for (const { d: by, outer } of factored(l, c)) { // (y * d + rest) // (a * d) = y // a
    return buildLinear(outer, d).alu(Ops.FLOORDIV, c / by);
  }
  return undefined;
}

function foldMod(u: UOp, l: Linear, c: number): UOp | undefined {
  const d = u.dtype;
  const flat = withoutInnerMods(l, c);
  if (flat !== undefined && fitsDType(flat, d)) return buildLinear(flat, d).alu(Ops.FLOORMOD, c);
  const exact = congruent(l, c);
  if (exact !== undefined && fitsDType(exact[1], d)) return buildLinear(exact[1], d);
  const [q, r] = divideUp(l, c, d);
  if ((q.factors.length > 0 || q.constant !== 0) && fitsDType(r, d)) { // (q * c + r) % c = r % c
    return buildLinear(r, d).alu(Ops.FLOORMOD, c);
  }
  for (const { d: by, outer, rest } of factored(l, c)) { // (y * d + rest) % (a * d) = (y % a) * d + rest
    addTerm(rest, buildLinear(outer, d).alu(Ops.FLOORMOD, c / by), by);
    return buildLinear(rest, d);
  }
  return undefined;
}

/** Inside % c, a term k * (z % m) with c | k * m is k * z. */
function withoutInnerMods(l: Linear, c: number): Linear | undefined {
  let out: Linear | undefined;
  for (let i = 0; i < l.factors.length; i++) {
    const m = isPositiveDiv(l.factors[i], Ops.FLOORMOD);
    if (m === undefined || (l.coefs[i] * m) % c !== 0) continue;
    const inner = linearOf(l.factors[i].src[0]);
    if (inner === undefined || !fitsDType(inner, l.factors[i].dtype)) continue;
    out ??= copyLinear(l);
    addTerm(out, l.factors[i], -l.coefs[i]);
    if (!addLinear(out, l.factors[i].src[0], l.coefs[i])) return undefined;
  }
  return out;
}

function foldSymbolic(u: UOp, x: UOp, y: UOp, div: boolean): UOp | undefined {
  const positive = vmin(y) > 0;
  if (x === y && (positive || vmax(y) < 0)) return u.constLike(div ? 1 : 0);
  // 0 <= r < end; a loop that runs at all has end > 0.
  if (x.op === Ops.RANGE && x.src[0] === y) return div ? u.constLike(0) : x;
  if (!positive) return undefined;
  if (vmin(x) >= 0 && vmax(x) < vmin(y)) return div ? u.constLike(0) : x;
  if (x.op !== Ops.ADD && x.op !== Ops.MUL) return undefined;
  const l = linearOf(x);
  if (l === undefined || !fitsDType(l, u.dtype)) return undefined;
  const q = emptyLinear(), r = emptyLinear(l.constant);
  for (let i = 0; i < l.factors.length; i++) {
    const f = l.factors[i];
    if (f === y) q.constant += l.coefs[i];
    else if (f.op === Ops.MUL && f.src[0] === y) addTerm(q, f.src[1], l.coefs[i]);
    else if (f.op === Ops.MUL && f.src[1] === y) addTerm(q, f.src[0], l.coefs[i]);
    else addTerm(r, f, l.coefs[i]);
  }
  if ((q.factors.length === 0 && q.constant === 0) || !fitsDType(r, u.dtype)) return undefined;
  // Factors of products must not have wrapped in the product.
  for (let i = 0; i < q.factors.length; i++) {
    const f = q.factors[i];
    const ends = [vmin(f) * vmin(y), vmin(f) * vmax(y), vmax(f) * vmin(y), vmax(f) * vmax(y)];
    if (!ends.every((e) => inDType(e, u.dtype))) return undefined;
  }
  const rest = buildLinear(r, u.dtype);
  if (!div) return rest.isConst(0) ? rest : rest.alu(Ops.FLOORMOD, y);
  if (!rest.isConst(0)) addTerm(q, rest.alu(Ops.FLOORDIV, y), 1);
  return buildLinear(q, u.dtype);
}

/** True when `u` is `x // a`, also where `x` is itself a quotient and the two were merged. */
function isQuotient(u: UOp, x: UOp, a: number): boolean {
  const d = isPositiveDiv(u, Ops.FLOORDIV);
  if (d === undefined) return false;
  if (u.src[0] === x) return d === a;
  const e = isPositiveDiv(x, Ops.FLOORDIV);
  return e !== undefined && u.src[0] === x.src[0] && d === e * a;
}

/**
 * Puts quotients and remainders in `l` together, in place: `(x % a) * s + (x // a) * (a * s)` is `x * s`, and
 * `(x % a) * s + ((x // a) % b) * (a * s)` is `(x % (a * b)) * s`. True when something changed.
 */
export function recombine(l: Linear): boolean {
  for (let i = 0; i < l.factors.length; i++) {
    const a = isPositiveDiv(l.factors[i], Ops.FLOORMOD);
    if (a === undefined) continue;
    const rem = l.factors[i], x = rem.src[0], s = l.coefs[i];
    const whole = foldDivMod(x.alu(Ops.FLOORDIV, a)); // what x // a has been simplified to
    for (let j = 0; j < l.factors.length; j++) {
      const f = l.factors[j];
      if (l.coefs[j] !== a * s) continue;
      if (isQuotient(f, x, a) || f === whole) {
        addTerm(l, f, -a * s);
        addTerm(l, rem, -s);
        addLinear(l, x, s);
        return true;
      }
      const b = isPositiveDiv(f, Ops.FLOORMOD);
      if (b === undefined || !inDType(a * b, f.dtype)) continue;
      if (isQuotient(f.src[0], x, a) || f.src[0] === whole) {
        addTerm(l, f, -a * s);
        addTerm(l, rem, -s);
        addTerm(l, x.alu(Ops.FLOORMOD, a * b), s);
        return true;
      }
    }
  }
  return false;
}

/** Divisors (as gcds with the other coefficients) that take a comparison apart; see {@linkcode foldLess}. */
function lessParts(l: Linear, bound: number): [Linear, number] | undefined {
  const tried = new Set<number>(l.coefs.map((c) => Math.abs(c)));
  for (const d of [...tried].sort((a, b) => b - a)) {
    if (d <= 1) continue;
    const outer = emptyLinear(), rest = emptyLinear();
    for (let i = 0; i < l.factors.length; i++) {
      if (l.coefs[i] % d === 0) addTerm(outer, l.factors[i], l.coefs[i] / d);
      else addTerm(rest, l.factors[i], l.coefs[i]);
    }
    if (rest.factors.length === 0) continue;
    const low = linearMin(rest), high = linearMax(rest);
    const bucket = Math.floor(low / d);
    if (bucket !== Math.floor(high / d)) continue;
    const t = bound - bucket * d, q = Math.floor(t / d), s = t - q * d;
    if (s === 0 || low - bucket * d >= s) return [outer, q];
    if (high - bucket * d < s) return [outer, q + 1];
  }
  return undefined;
}

function not(u: UOp): UOp {
  return u.alu(Ops.CMPNE, 1);
}

/**
 * The normal form of `a < b` for integers: one constant, on the right, divided by what the coefficients share; terms
 * with positive coefficients on the left. `c < x` becomes `!(x < c + 1)`. undefined where it is normal already.
 */
export function foldLess(u: UOp): UOp | undefined {
  const [a, b] = u.src;
  const d = a.dtype;
  const left = linearOf(a), right = linearOf(b);
  if (left === undefined || right === undefined || !fitsDType(left, d) || !fitsDType(right, d)) return undefined;
  let l = left;
  for (let i = 0; i < right.factors.length; i++) if (!addTerm(l, right.factors[i], -right.coefs[i])) return undefined;
  let bound = right.constant - l.constant; // sum of terms < bound
  l.constant = 0;
  if (l.factors.length === 0) return constant(0 < bound ? 1 : 0, u.dtype);
  let g = 0;
  for (const c of l.coefs) g = gcd(g, c);
  if (g > 1) {
    for (let i = 0; i < l.coefs.length; i++) l.coefs[i] /= g;
    bound = Math.ceil(bound / g);
  }
  let negate = false;
  if (l.coefs.every((c) => c < 0)) { // -s < bound is s > -bound is !(s < 1 - bound)
    for (let i = 0; i < l.coefs.length; i++) l.coefs[i] = -l.coefs[i];
    bound = 1 - bound;
    negate = true;
  }
  if (l.coefs.every((c) => c > 0)) {
    for (let parts = lessParts(l, bound); parts !== undefined; parts = lessParts(l, bound)) [l, bound] = parts;
    if (bound === 1 && l.factors.every((f) => vmin(f) >= 0)) l.coefs.fill(1); // a sum of parts >= 0 is 0 or not
    const by = l.factors.length === 1 && l.coefs[0] === 1 ? isPositiveDiv(l.factors[0], Ops.FLOORDIV) : undefined;
    if (by !== undefined && inDType(bound * by, d)) { // x // c < k is x < k * c
      const r = l.factors[0].src[0].alu(Ops.CMPLT, bound * by);
      return negate ? not(r) : r;
    }
  }
  const isLess = linearMax(l) < bound || linearMax(atEnds(l, 1)) < bound;
  if (isLess || linearMin(l) >= bound || linearMin(atEnds(l, -1)) >= bound) {
    return constant(isLess !== negate ? 1 : 0, u.dtype);
  }
  const pos = emptyLinear(), neg = emptyLinear(bound);
  for (let i = 0; i < l.factors.length; i++) {
    if (l.coefs[i] > 0) addTerm(pos, l.factors[i], l.coefs[i]);
    else addTerm(neg, l.factors[i], -l.coefs[i]);
  }
  if (!fitsDType(pos, d) || !fitsDType(neg, d)) return undefined;
  const r = buildLinear(pos, d).alu(Ops.CMPLT, buildLinear(neg, d));
  if (r === u) return undefined;
  return negate ? not(r) : r;
}

/**
 * A sum with loops that end at a variable in their last iteration, where their coefficients have a sign. What stands before a
 * loop that may not run must not rely on it.
 */
function atEnds(l: Linear, sign: number): Linear {
  const isOpen = (f: UOp): boolean => f.op === Ops.RANGE && f.src[0].op !== Ops.CONST && vmin(f.src[0]) > 0;
  if (!l.factors.some(isOpen)) return l;
  const ends = emptyLinear(l.constant);
  const isSum = l.factors.every((f, i) => {
    const c = l.coefs[i], isAtEnd = isOpen(f) && c * sign > 0;
    if (isAtEnd) ends.constant -= c;
    return isAtEnd ? addLinear(ends, f.src[0], c) : addTerm(ends, f, c);
  });
  return isSum ? ends : l;
}

/** The normal form of `a == b` or `a != b` for integers: terms on one side where the other is constant. */
export function foldEqual(u: UOp): UOp | undefined {
  const [a, b] = u.src;
  const d = a.dtype;
  if (b.op !== Ops.CONST || (a.op !== Ops.ADD && a.op !== Ops.MUL)) return undefined;
  const l = linearOf(a), right = constOrUndefined(b);
  if (l === undefined || right === undefined || !fitsDType(l, d) || l.factors.length === 0) return undefined;
  let k = right - l.constant, g = 0;
  l.constant = 0;
  for (const c of l.coefs) g = gcd(g, c);
  if (k % g !== 0) return constant(u.op === Ops.CMPNE ? 1 : 0, u.dtype);
  if (l.coefs.every((c) => c < 0)) g = -g;
  k = k / g + 0;
  for (let i = 0; i < l.coefs.length; i++) l.coefs[i] /= g;
  if (!fitsDType(l, d)) return undefined;
  if (!inDType(k, d)) return constant(u.op === Ops.CMPNE ? 1 : 0, u.dtype);
  const r = buildLinear(l, d).alu(u.op, k);
  return r === u ? undefined : r;
}
