/**
 * Index expressions as sums: constant + coefficient * atom + ... An atom is a node that is no sum: a RANGE, a quotient,
 * a loaded value. Index arithmetic does not overflow, so casts to a wider integer distribute.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { gcd } from "../../helpers/math.ts";
import { vmin } from "../../uop/algebra/bounds.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";

/** constant + sum of coefficient * atom. */
export interface LinearForm {
  readonly terms: ReadonlyMap<UOp, number>;
  readonly constant: number;
}

const memo = new WeakMap<UOp, LinearForm>();

function scaled(f: LinearForm, k: number): LinearForm {
  if (k === 1) return f;
  const terms = new Map<UOp, number>();
  if (k !== 0) { for (const [u, c] of f.terms) terms.set(u, c * k); }
  return { terms, constant: f.constant * k };
}

/** The sum that the integer expression `u` is. */
export function linearOf(u: UOp): LinearForm {
  if (u.op === Ops.CONST && typeof u.arg === "number") return { terms: NONE, constant: u.arg };
  if (u.src.length === 0 || u.op === Ops.RANGE) return { terms: new Map([[u, 1]]), constant: 0 };
  let f = memo.get(u);
  if (f === undefined) memo.set(u, f = derive(u));
  return f;
}

const NONE: ReadonlyMap<UOp, number> = new Map();

function derive(u: UOp): LinearForm {
  const [a, b] = u.src;
  switch (u.op) {
    case Ops.ADD: {
      if (!u.dtype.isInt) break;
      const x = linearOf(a), y = linearOf(b);
      if (y.terms.size === 0) return { terms: x.terms, constant: x.constant + y.constant };
      const terms = new Map(x.terms);
      for (const [t, c] of y.terms) {
        const sum = (terms.get(t) ?? 0) + c;
        if (sum === 0) terms.delete(t);
        else terms.set(t, sum);
      }
      return { terms, constant: x.constant + y.constant };
    }
    case Ops.MUL:
      if (!u.dtype.isInt) break;
      if (b.op === Ops.CONST && typeof b.arg === "number") return scaled(linearOf(a), b.arg);
      if (a.op === Ops.CONST && typeof a.arg === "number") return scaled(linearOf(b), a.arg);
      break;
    case Ops.SHL:
      if (u.dtype.isInt && b.op === Ops.CONST) return scaled(linearOf(a), 2 ** b.value);
      break;
    case Ops.CAST:
      if (u.dtype === dtypes.int64 && a.dtype === dtypes.int32) {
        const f = linearOf(a);
        const terms = new Map<UOp, number>();
        for (const [t, c] of f.terms) terms.set(t.dtype === dtypes.int32 ? t.cast(u.dtype) : t, c);
        return { terms, constant: f.constant };
      }
  }
  return { terms: new Map([[u, 1]]), constant: 0 };
}

/** The RANGE that an atom is, through a cast; undefined for other atoms. */
export function rangeOfAtom(atom: UOp): UOp | undefined {
  const x = atom.op === Ops.CAST ? atom.src[0] : atom;
  return x.op === Ops.RANGE ? x : undefined;
}

/**
 * How much `u` grows a step of `lane`, for lane values 0 <= lane < n: a number where that is the same for all of them,
 * else undefined. `depends` says whether a node depends on the lane.
 */
export function slopeOf(u: UOp, lane: UOp, n: number, depends: (u: UOp) => boolean): number | undefined {
  if (!depends(u)) return 0;
  const form = linearOf(u);
  let slope = 0;
  for (const [atom, c] of form.terms) {
    if (!depends(atom)) continue;
    if (rangeOfAtom(atom) === lane) slope += c;
    else {
      const s = atom === u && form.terms.size === 1 && c === 1
        ? quotientSlope(atom, lane, n, depends)
        : slopeOf(atom, lane, n, depends);
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
  const form = linearOf(u.src[0]);
  let g = divisor, slope = 0;
  for (const [atom, c] of form.terms) {
    if (rangeOfAtom(atom) === lane) slope += c;
    else if (depends(atom)) return undefined;
    else g = gcd(g, c);
  }
  const first = ((form.constant % g) + g) % g, last = first + slope * (n - 1);
  if (divisor <= 0 || Math.min(first, last) < 0 || Math.max(first, last) >= g) return undefined;
  return quotient ? 0 : slope;
}
