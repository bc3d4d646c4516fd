/**
 * Cascades: a reduce whose terms wait for the result of another one over the same axes. By algebra both are one reduce with
 * a tuple for a carrier, in one pass over what they read:
 *
 * - moments: the sum of (f - mean f) * (g - mean g). Partial sums about partial means are merged by what the means differ
 *   (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
 * - rescale: the sum of terms with a factor exp2(a * (f - max f)). Partial sums are scaled by exp2 of what the maxima differ
 *   (Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867).
 * - select: a reduce of g where f = max f. What belongs to a smaller maximum is dropped.
 *
 * In: a REDUCE of the tensor graph. Out: what it waits for, and the carrier. Nothing is known here of what a graph is for.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { sameArray } from "../../helpers/math.ts";
import { vmin } from "../../uop/algebra/bounds.ts";
import { type ReduceArg, reduceOf } from "../../uop/core/args.ts";
import { expand } from "../../uop/core/build_movement.ts";
import { type CarrierArg, identityOf, momentsCarrier, rescaleCarrier, selectCarrier } from "../../uop/core/carrier.ts";
import { isAlu, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf, sameExtent } from "../../uop/graph/extent.ts";

/** Nodes below one that are looked at to decide on it: more than a softmax or a norm has, few enough to search a list. */
export const MAX_LOOKED_AT: number = 96;

/** Two reduces over the same axes, of which the second waits for the first. */
export interface Cascade {
  readonly kind: "moments" | "rescale" | "select";
  readonly carrier: CarrierArg;
  readonly first: UOp;
  readonly second: UOp;
  /** Elements that are reduced to one. */
  readonly count: number;
  /** What the second reduce takes of an element where the first one takes nothing else; moments: 0. */
  readonly term: UOp;
  /** Rescale: does the second reduce itself see to it that a maximum of -infinity is no exponent? */
  readonly guarded: boolean;
}

function isSum(u: UOp, axes: readonly number[]): boolean {
  return u.op === Ops.REDUCE && reduceOf(u).op === Ops.ADD && sameArray(reduceOf(u).axes, axes);
}

/** The sum whose mean is subtracted from what it sums: `u` is f - sum(f) / count. */
function centered(u: UOp, axes: readonly number[], count: number): UOp | undefined {
  if (u.op !== Ops.ADD) return undefined;
  for (const [x, negated] of [[u.src[0], u.src[1]], [u.src[1], u.src[0]]]) {
    if (negated.op !== Ops.MUL || !negated.src[1].isConst(-1) || negated.src[0].op !== Ops.EXPAND) continue;
    const mean = negated.src[0].src[0];
    if (mean.op !== Ops.FDIV && mean.op !== Ops.MUL) continue;
    const [sum, by] = mean.src;
    if (!isSum(sum, axes) || sum.src[0] !== x || by.op !== Ops.CONST) continue;
    if (mean.op === Ops.FDIV ? by.value === count : by.value === Math.fround(1 / count) || by.value === 1 / count) {
      return sum;
    }
  }
  return undefined;
}

/** The reduces over `axes` that `u` reads repeated along them. Undefined where there are too many nodes to look at. */
function waitsFor(u: UOp, axes: readonly number[]): UOp[] | undefined {
  const found: UOp[] = [], seen = [u]; // so few that a list is as quick as a Set
  for (let k = 0; k < seen.length; k++) {
    const { op, arg, src } = seen[k];
    if (op === Ops.REDUCE) {
      if (sameArray((arg as ReduceArg).axes, axes)) found.push(seen[k]);
    } else if (isAlu(op) || op === Ops.EXPAND) {
      for (let i = 0; i < src.length; i++) {
        if (seen.includes(src[i])) continue;
        if (seen.length === MAX_LOOKED_AT) return undefined;
        seen.push(src[i]);
      }
    }
  }
  return found;
}

/** `r`, or `r` where it is finite and 0 elsewhere, under an EXPAND. */
function isReference(u: UOp, r: UOp): boolean {
  if (u.op !== Ops.EXPAND) return false;
  const v = u.src[0];
  return v === r || (v.op === Ops.WHERE && v.src[1] === r && v.src[2].isConst(0));
}

/** The factor of `r` in `u`, which must be linear in it; undefined where it is not. */
function slopeIn(u: UOp, r: UOp): number | undefined {
  if (isReference(u, r)) return 1;
  if (u.op === Ops.ADD) {
    const a = slopeIn(u.src[0], r), b = slopeIn(u.src[1], r);
    return a === undefined || b === undefined ? undefined : a + b;
  }
  if (u.op === Ops.MUL && u.src[1].op === Ops.CONST) {
    const a = slopeIn(u.src[0], r);
    return a === undefined ? undefined : a * u.src[1].value;
  }
  return reads(u, r) ? undefined : 0;
}

/** `u` where reduce `r` is over one element only, so that it is what it reduces there. */
function alone(u: UOp, r: UOp): UOp {
  if (!reads(u, r)) return u;
  const f = r.src[0], shape = shapeOf(f);
  const below = (v: UOp): UOp => {
    if (v === r) return f;
    if (shapeOf(v).length === 0) return v;
    return isAlu(v.op) && reads(v, r) ? uop(v.op, v.dtype, v.src.map(below), v.arg) : expand(v, shape);
  };
  if (u.op === Ops.EXPAND) return below(u.src[0]);
  return uop(u.op, u.dtype, u.src.map((s) => alone(s, r)), u.arg);
}

/** Is `r` itself, infinite or not, subtracted somewhere in `u`? */
function isBare(u: UOp, r: UOp): boolean {
  if (u.op === Ops.EXPAND) return u.src[0] === r;
  return isAlu(u.op) && reads(u, r) && u.src.some((s) => isBare(s, r));
}

function reads(u: UOp, r: UOp): boolean {
  return waitsFor(u, reduceOf(r).axes)?.includes(r) ?? true;
}

/** a, where `u` is g * exp2(a * (f - r)) and g does not know r: undefined for anything else. */
function exponentIn(u: UOp, r: UOp): number | undefined {
  if (u.op === Ops.EXP2) return slopeIn(u.src[0], r);
  if (u.op === Ops.MUL || u.op === Ops.FDIV) {
    const [x, y] = u.src;
    if (!reads(y, r)) return exponentIn(x, r);
    return u.op === Ops.MUL && !reads(x, r) ? exponentIn(y, r) : undefined;
  }
  return undefined;
}

/** Does `c` say that f is the maximum `r` of all f, or no number? */
function isMaximum(c: UOp, r: UOp): boolean {
  const f = r.src[0];
  const equal = (u: UOp): boolean => {
    const at = u.op === Ops.CMPEQ ? u.src.indexOf(f) : -1;
    return at >= 0 && u.src[1 - at].op === Ops.EXPAND && u.src[1 - at].src[0] === r;
  };
  const isNaN = (u: UOp): boolean => u.op === Ops.CMPNE && u.src[0] === f && u.src[1] === f;
  if (!f.dtype.isFloat) return equal(c);
  return c.op === Ops.OR && ((equal(c.src[0]) && isNaN(c.src[1])) || (equal(c.src[1]) && isNaN(c.src[0])));
}

/** The cascade that ends in `u`, if it is one that a carrier can hold. */
export function cascadeOf(u: UOp): Cascade | undefined {
  const { op, axes } = reduceOf(u);
  const term = u.src[0], shape = shapeOf(term);
  const count = axes.reduce((n, a) => n * shape[a], 1), extents = extentsOf(term);
  if (count < 2 || count >= 2 ** 31) return undefined;
  const wide = u.dtype === dtypes.float32 || u.dtype === dtypes.float64;
  if (op === Ops.ADD && wide && term.op === Ops.MUL && extents === null) {
    const f = centered(term.src[0], axes, count), g = centered(term.src[1], axes, count);
    if (f !== undefined && f === g) {
      const carrier = momentsCarrier(u.dtype);
      return { kind: "moments", carrier, first: f, second: u, count, term: constant(0, u.dtype), guarded: true };
    }
  }
  const waits = waitsFor(term, axes);
  if (waits?.length !== 1) return undefined;
  const [first] = waits;
  if (reduceOf(first).op !== Ops.MAX) return undefined;
  // one loop over both
  const other = extentsOf(first.src[0]);
  if (axes.some((a) => !sameExtent(extents?.[a], other?.[a]))) return undefined;
  if (op === Ops.ADD && wide && first.dtype === u.dtype) {
    const a = exponentIn(term, first);
    if (a !== undefined && a < 0) {
      const carrier = rescaleCarrier(u.dtype, a), guarded = !isBare(term, first);
      return { kind: "rescale", carrier, first, second: u, count, term: alone(term, first), guarded };
    }
  }
  if (term.op === Ops.WHERE && isMaximum(term.src[0], first) && !reads(term.src[1], first)) {
    const [, g, rest] = term.src;
    if (rest.op !== Ops.CONST) return undefined;
    if (rest.value !== identityOf(op, u.dtype) && !(op === Ops.MAX && vmin(g) >= rest.value)) return undefined;
    const carrier = selectCarrier(first.dtype, op as Ops, u.dtype);
    return { kind: "select", carrier, first, second: u, count, term: g, guarded: true };
  }
  return undefined;
}
