/**
 * Weighted sums whose weights are exponentials less their maximum: the maximum, the sum of the exponentials and the weighted
 * sums become one reduction (RescaleCarrier), by algebra: the sum over k of w(k) * v(k), where w(k) is
 * exp2(slope * (x(k) - max x)) / total, is the sum of exp2(...) * v(k), divided by the total. What a weight is rounded to, it
 * is rounded to before the division: it is at most 1. Weights that are not divided, but the sum is, are a case of it.
 *
 * In: a kernel AST, which computes x once for each of the reductions one after the other. Out: the AST with one REDUCE.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { carrierOf, getTuple, reduce, RescaleCarrier } from "../../uop/core/carrier.ts";
import { isCommutative, Ops } from "../../uop/core/ops.ts";
import { dependsOn } from "../../uop/core/ranges.ts";
import { constant, toposort, type UOp } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";

/** Are `a`, with range `from` for `to`, and `b` the same, whatever ranges their reductions have? */
function isSame(a: UOp, b: UOp, from: UOp, to: UOp): boolean {
  const ranges = new Map<UOp, UOp>([[from, to]]), seen = new Map<UOp, UOp>();
  const same = (x: UOp, y: UOp): boolean => {
    if (x === y) return !dependsOn(x, from);
    const known = ranges.get(x) ?? seen.get(x);
    if (known !== undefined) return known === y;
    if (x.op !== y.op || x.dtype !== y.dtype || x.src.length !== y.src.length || x.op === Ops.RANGE) return false;
    if (x.arg !== y.arg && !(typeof x.arg === "object" && typeof y.arg === "object" && x.arg.same(y.arg))) return false;
    if (x.op === Ops.REDUCE) {
      const first = carrierOf(x).lanes;
      for (let i = first; i < x.src.length; i++) {
        if (x.src[i].src[0] !== y.src[i].src[0]) return false;
        ranges.set(x.src[i], y.src[i]);
      }
    }
    const equal = x.src.every((s, i) => same(s, y.src[i])) ||
      (isCommutative(x.op) && same(x.src[0], y.src[1]) && same(x.src[1], y.src[0]));
    if (equal) seen.set(x, y);
    return equal;
  };
  return same(a, b);
}

/** The only range of a one-lane REDUCE by `key`. */
function ownRange(u: UOp, key: string): UOp | undefined {
  return u.op === Ops.REDUCE && carrierOf(u).key === key && u.src.length === 2 ? u.src[1] : undefined;
}

/** x of `x == from ? to : x`; anything else is itself. */
function guarded(u: UOp, from: number, to: number): UOp {
  if (u.op !== Ops.WHERE) return u;
  const [condition, a, b] = u.src, [x, other] = condition.op === Ops.CMPNE ? [a, b] : [b, a];
  const isTest = condition.op === Ops.CMPNE || condition.op === Ops.CMPEQ;
  return isTest && condition.src[0] === x && condition.src[1].isConst(from) && other.isConst(to) ? x : u;
}

/** `u` as slope * x + rest * max, where `max` is that of all x. */
function exponentOf(u: UOp, max: UOp, k: UOp): { x: UOp; slope: number; rest: number } | undefined {
  if (guarded(u, -Infinity, 0) === max) return { x: u, slope: 0, rest: 1 };
  if (isSame(max.src[0], u, max.src[1], k)) return { x: u, slope: 1, rest: 0 };
  if (u.op === Ops.MUL && u.src[1].op === Ops.CONST) {
    const e = exponentOf(u.src[0], max, k), c = u.src[1].value;
    return e && { x: e.x, slope: e.slope * c, rest: e.rest * c };
  }
  if (u.op !== Ops.ADD) return undefined;
  const [a, b] = u.src.map((s) => exponentOf(s, max, k));
  if (a === undefined || b === undefined) return undefined;
  return { x: a.slope !== 0 ? a.x : b.x, slope: a.slope + b.slope, rest: a.rest + b.rest };
}

/** A weight: its exponent, what it is divided by, what it is rounded to. */
interface Weight {
  readonly x: UOp;
  readonly slope: number;
  readonly power: UOp;
  /** undefined where it is not divided. */
  readonly total: UOp | undefined;
  readonly dtype: DType;
  /** Whether it is 0 where all x are -Infinity. */
  readonly isGuarded: boolean;
}

/** Is `u`, over range `own`, the sum of `power` over k? */
function isTotal(u: UOp, power: UOp, k: UOp): boolean {
  const own = ownRange(u, "ADD");
  return own !== undefined && !dependsOn(u, k) && isSame(u.src[0], power, own, k);
}

function weightOf(u: UOp, max: UOp, k: UOp): Weight | undefined {
  if (u.op !== Ops.CAST || u.src[0].op !== Ops.CAST || u.src[0].src[0].dtype !== u.dtype) return undefined;
  const { dtype, src: [value] } = u.src[0];
  const [power, divisor] = value.op === Ops.FDIV ? value.src : [value];
  const e = dtype.isFloat ? exponentialOf(power, max, k) : undefined;
  if (e === undefined) return undefined;
  const { x, slope } = e;
  if (divisor === undefined) {
    return { x, slope, power, total: undefined, dtype, isGuarded: isKnown(power, max) };
  }
  const total = guarded(divisor, 0, 1);
  return isTotal(total, power, k) ? { x, slope, power, total, dtype, isGuarded: total !== divisor } : undefined;
}

/** Is what exponential `power` is less than 0 where `max` is -Infinity? */
function isKnown(power: UOp, max: UOp): boolean {
  return toposort(power.src[0]).every((s) => s.op === Ops.REDUCE || s.op === Ops.WHERE || isApart(s, max));
}

/** Does `u` not read `max`, but to compare it? */
function isApart(u: UOp, max: UOp): boolean {
  return u.op === Ops.CMPNE || u.op === Ops.CMPEQ || !u.src.includes(max);
}

/** x as y times a positive constant, with the constant out of a choice between a value and -infinity. */
function scaleOf(x: UOp): [y: UOp, scale: number] {
  if (x.op === Ops.MUL && x.src[1].op === Ops.CONST && x.src[1].value > 0 && x.src[1].value < Infinity) {
    const [y, c] = scaleOf(x.src[0]);
    return [y, c * x.src[1].value];
  }
  if (x.op === Ops.WHERE && x.src[2].isConst(-Infinity)) {
    const [y, c] = scaleOf(x.src[1]);
    return [x.withSrc([x.src[0], y, x.src[2]]), c];
  }
  return [x, 1];
}

/** Exponentials less their maximum: what of, with the factor in the exponent that is positive. */
function exponentialOf(u: UOp, max: UOp, k: UOp): { x: UOp; slope: number } | undefined {
  const e = u.op === Ops.EXP2 && !dependsOn(max, k) ? exponentOf(u.src[0], max, k) : undefined;
  if (e === undefined || !(e.slope > 0) || e.slope !== -e.rest) return undefined;
  return e;
}

/** The kernel with one REDUCE for a maximum and the sum of exponentials less it; undefined where there is none. */
function joinTotal(store: UOp, nodes: readonly UOp[], maxima: readonly UOp[]): UOp | undefined {
  for (const u of nodes) {
    const k = ownRange(u, "ADD");
    if (k === undefined || u.dtype !== dtypes.float32) continue;
    for (const max of maxima) {
      const e = exponentialOf(u.src[0], max, k);
      if (e === undefined) continue;
      const [x, scale] = scaleOf(e.x), carrier = new RescaleCarrier(u.dtype, Math.fround(e.slope * scale), 1);
      const all = reduce(carrier, [x, constant(1, u.dtype)], [k]), top = getTuple(all, 0);
      // subtracted from itself, an infinite maximum is no number
      const total = getTuple(all, 1).add(top.add(top.mul(-1))), own = scale === 1 ? top : top.mul(scale);
      const known = isKnown(u.src[0], max) ? top.eq(-Infinity).where(constant(0, u.dtype), total) : total;
      return substitute(store, new Map([[max, own], [u, known]]));
    }
  }
  return undefined;
}

/**
 * The kernel with one REDUCE for the maximum, the total and the sum of products in one of `inputs`, or for the first two;
 * undefined where there are none.
 */
export function joinRescaled(store: UOp, inputs: readonly DType[]): UOp | undefined {
  const nodes = toposort(store), maxima = nodes.filter((u) => ownRange(u, "MAX") !== undefined);
  if (maxima.length === 0) return undefined;
  for (const u of nodes) {
    const k = ownRange(u, "ADD"), [product] = u.src;
    if (k === undefined || product.op !== Ops.MUL || u.dtype !== dtypes.float32) continue;
    for (const [a, v] of [product.src, product.src.toReversed()]) {
      for (const max of maxima) {
        const w = weightOf(a, max, k);
        if (w === undefined || !inputs.includes(w.dtype)) continue;
        const [x, scale] = scaleOf(w.x),
          carrier = new RescaleCarrier(u.dtype, Math.fround(w.slope * scale), 2, w.dtype);
        const all = reduce(carrier, [x, constant(1, u.dtype), v], [k]), top = getTuple(all, 0);
        // subtracted from itself, an infinite maximum is no number
        const none = top.add(top.mul(-1)), total = getTuple(all, 1).add(none);
        const sum = w.total === undefined ? getTuple(all, 2).add(none) : getTuple(all, 2).fdiv(total);
        const isNone = top.eq(-Infinity), known = w.isGuarded ? isNone.where(constant(0, u.dtype), sum) : sum;
        // what else is made of them
        const map = new Map([[u, known]]), isZero = w.total === undefined && w.isGuarded;
        for (const r of nodes) {
          if (r === max) map.set(r, scale === 1 ? top : top.mul(scale));
          else if (isTotal(r, w.power, k)) map.set(r, isZero ? isNone.where(constant(0, u.dtype), total) : total);
        }
        return substitute(store, map);
      }
    }
  }
  return joinTotal(store, nodes, maxima);
}
