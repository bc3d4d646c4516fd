/**
 * Reduces that look at all terms and take some: of a sum over r of `where(r == e, body, 0)` the term at e, of one over r of
 * `where(t == e(r), body, 0)` those that go to t. In: what a REDUCE lifts. Out: its conditions, and what they say of ranges.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { Ops } from "../core/ops.ts";
import { dependsOn } from "../core/ranges.ts";
import { constant, type UOp, uop } from "../core/uop.ts";
import { rebuild } from "../rewrite/walk.ts";
import { andGate } from "./movement_index.ts";

function stripCast(u: UOp): UOp {
  while (u.op === Ops.CAST && u.dtype.isInt && u.src[0].dtype.isInt) u = u.src[0];
  return u;
}

/** The range of `ranges` that `u` is, or is but for what is added to it, and what that is: `r + start`. */
function startsAt(u: UOp, ranges: readonly UOp[]): { r: UOp; start?: UOp } | undefined {
  const r = stripCast(u);
  if (r.op === Ops.RANGE && ranges.includes(r)) return { r };
  if (u.op !== Ops.ADD || !u.dtype.isInt) return undefined;
  for (const [a, b] of [[u.src[0], u.src[1]], [u.src[1], u.src[0]]]) {
    const inner = startsAt(a, ranges);
    if (inner !== undefined && !dependsOn(b, inner.r)) {
      return { r: inner.r, start: inner.start === undefined ? b : inner.start.add(b) };
    }
  }
  return undefined;
}

/** If `c` says r + start == e for a range r of `ranges`, and e and start free of r: r, and what it equals. */
export function selects(c: UOp, ranges: readonly UOp[]): { r: UOp; e: UOp } | undefined {
  let eq = c;
  if (
    eq.op === Ops.CMPNE && eq.src[1].isConst(1) && eq.src[0].op === Ops.CMPNE && eq.src[0].dtype === dtypes.bool &&
    !eq.src[0].src[0].dtype.isBool
  ) {
    eq = uop(Ops.CMPEQ, dtypes.bool, eq.src[0].src);
  }
  if (eq.op !== Ops.CMPEQ) return undefined;
  for (const [a, b] of [[eq.src[0], eq.src[1]], [eq.src[1], eq.src[0]]]) {
    const s = startsAt(a, ranges);
    if (s !== undefined && !dependsOn(b, s.r)) return { r: s.r, e: s.start === undefined ? b : b.sub(s.start) };
  }
  return undefined;
}

/** A value, and the condition under which it counts. */
export interface Conditional {
  readonly condition: UOp;
  readonly value: UOp;
}

/** The value and its condition, from `where(c, x, 0)` or `x * cast(c)`. */
export function conditional(lift: UOp): Conditional | undefined {
  const exact = exactly(lift);
  if (exact?.other.isConst(0)) return exact;
  if (lift.op === Ops.WHERE && lift.src[1].isConst(0)) {
    return { condition: lift.src[0].ne(1), value: lift.src[2] };
  }
  if (lift.op === Ops.MUL) {
    for (const [a, b] of [[lift.src[0], lift.src[1]], [lift.src[1], lift.src[0]]]) {
      if (a.op === Ops.CAST && a.src[0].dtype.isBool) return { condition: a.src[0], value: b };
      const inner = a.op === Ops.WHERE ? conditional(a) : undefined;
      if (inner !== undefined && inner.value.isConst(1)) return { condition: inner.condition, value: b };
    }
  }
  if (lift.op === Ops.CAST) {
    const inner = conditional(lift.src[0]);
    if (inner !== undefined) return { condition: inner.condition, value: inner.value.cast(lift.dtype) };
  }
  return undefined;
}

/** A value that is the constant `other` where its condition does not hold: exactly so, NaN and infinities included. */
export function exactly(lift: UOp): Conditional & { readonly other: UOp } | undefined {
  const [a, b, c] = lift.src;
  switch (lift.op) {
    case Ops.WHERE:
      if (c.op === Ops.CONST) return { condition: a, value: b, other: c };
      return b.op === Ops.CONST ? { condition: a.ne(1), value: c, other: b } : undefined;
    case Ops.CAST: {
      if (a.dtype.isBool) return { condition: a, value: constant(1, lift.dtype), other: constant(0, lift.dtype) };
      const inner = exactly(a);
      if (inner === undefined || !inner.other.isConst(0)) return undefined;
      return { ...inner, value: inner.value.cast(lift.dtype), other: constant(0, lift.dtype) };
    }
  }
  return undefined;
}

/** `u` with range `r` replaced by `e`, its loads gated by `gate` too. */
export function substituteGated(u: UOp, r: UOp, e: UOp, gate: UOp): UOp {
  return rebuild(u, (v, src) => {
    if (v === r) return e;
    if (v.op !== Ops.INDEX || !dependsOn(v, r)) return undefined;
    return v.withSrc([src[0], src[1], andGate(src[2], gate)!]);
  }, (v) => dependsOn(v, r));
}
