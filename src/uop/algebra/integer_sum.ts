/**
 * The normal form of integer arithmetic: a sum of factors times constants plus a constant, with terms in a fixed order
 * (what depends on outer loops first, so that prefixes can be hoisted). Sums are equal as integers modulo the width, so
 * when the interval of the true sum fits the dtype, the true sum is the value.
 *
 * @module
 */
import { truncateTo } from "../../dtype/convert.ts";
import { type DType, dtypeMax, dtypeMin, DTYPES } from "../../dtype/dtype.ts";
import { argOf } from "../core/args.ts";
import { Ops } from "../core/ops.ts";
import { compareRanges, rangesOf } from "../core/ranges.ts";
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
      return (a.arg as string) < (b.arg as string) ? -1 : 1;
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
    // Without ranges only named leaves are ordered: others may be tensors.
    return isIndexLike(a) && isIndexLike(b) ? structural(a, b, 0) : 0;
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
