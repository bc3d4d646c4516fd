/**
 * The oracle with error bounds: next to each value of the reference stands how far a correct device may be from it, by
 * running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, section 3.3). Each operation adds the
 * rounding of its dtype to what its operands bring along; where an operand's error could turn a comparison or a
 * truncation, or where the result is unspecified (a cast out of range), the bound is infinite and nothing is claimed. So
 * that random programs need no tolerances of their own: integers and moved values must agree exactly, long sums of
 * small floats nearly.
 */
import { type DType, dtypeEpsilon, DTYPES, dtypes } from "../../../src/dtype/dtype.ts";
import { finfo, type FloatInfo } from "../../../src/dtype/limits.ts";
import { prod, stridesOf } from "../../../src/helpers/math.ts";
import type { ReduceArg } from "../../../src/uop/core/args.ts";
import { isAlu, isMovement, Ops } from "../../../src/uop/core/ops.ts";
import { resolve } from "../../../src/uop/graph/resolve.ts";
import { shapeOf } from "../../../src/uop/core/shape.ts";
import { toposort, type UOp } from "../../../src/uop/core/uop.ts";
import { after, compute, movement, type ReadStorage, readStorage, type Value } from "../../reference.ts";

/** A value, and for each element how far from it is still right; Infinity where nothing is known. */
export interface Tracked extends Value {
  readonly error: readonly number[];
  /** Of an evaluation's results: no value on the way to any of them was infinite or NaN. */
  readonly finite?: boolean;
}

const FLOATS = new Map(DTYPES.filter((d) => d.isFloat).map((d) => [d, finfo(d)]));
const limitsOf = (d: DType): FloatInfo => FLOATS.get(d)!;

/** The error of a result `v` of floats: what the operands bring, `ulps` of rounding, unknown near overflow. */
function rounded(v: number, brought: number, ulps: number, d: DType): number {
  const { max, tiny } = limitsOf(d);
  const e = brought + ulps * dtypeEpsilon(d) * Math.abs(v) + (brought > 0 || ulps > 0 ? tiny : 0);
  return Math.abs(v) + e >= max ? Infinity : e;
}

/** Whether an operand is known well enough that a result that is no finite number is sure. */
const sure = (v: number, e: number): boolean => e === 0 || Math.abs(v) > e;

function unaryError(u: UOp, a: number, ea: number, v: number): number {
  if (!u.dtype.isFloat) return ea;
  if (ea === Infinity) return Infinity;
  if (!Number.isFinite(a)) return 0;
  const d = u.dtype;
  switch (u.op) {
    case Ops.NEG:
      return ea;
    case Ops.EXP2: // 2^a is at most 2^e - 1 of itself away
      return v === Infinity
        ? a - ea > 1100 || d !== dtypes.float64 && a - ea > 130 ? 0 : Infinity
        : rounded(v, v * Math.expm1(ea * Math.LN2), 4, d);
    case Ops.LOG2:
      if (ea === 0 && a <= 0) return 0;
      return a <= ea ? Infinity : rounded(v, -Math.log1p(-ea / a) / Math.LN2, 4, d);
    case Ops.SIN:
    case Ops.COS:
      return Math.min(rounded(v, ea, 4, d), 4);
    case Ops.SQRT:
      if (ea === 0) return a < 0 ? 0 : rounded(v, 0, 1, d);
      return a <= ea
        ? (a < 0 ? Infinity : a - ea < 0 ? Infinity : Math.sqrt(a + ea))
        : rounded(v, ea / Math.sqrt(a - ea), 1, d);
    case Ops.TRUNC:
      return Math.trunc(a + ea) - Math.trunc(a - ea);
  }
  return Infinity;
}

function compareError(a: number, ea: number, b: number, eb: number): number {
  const e = ea + eb;
  return e === 0 || Math.abs(a - b) > e || Number.isNaN(a) || Number.isNaN(b) ? 0 : Infinity;
}

function binaryError(u: UOp, operands: DType, a: number, ea: number, b: number, eb: number, v: number): number {
  if (!operands.isFloat) {
    if (ea === 0 && eb === 0) return 0;
    // one known operand may decide alone
    if (u.op === Ops.MUL || u.op === Ops.AND) return (ea === 0 && a === 0) || (eb === 0 && b === 0) ? 0 : Infinity;
    return Infinity;
  }
  if (ea === Infinity || eb === Infinity) return Infinity;
  const d = u.dtype;
  switch (u.op) {
    case Ops.CMPLT:
    case Ops.CMPNE:
    case Ops.CMPEQ:
      return compareError(a, ea, b, eb);
    case Ops.MAX:
      return Math.max(ea, eb);
  }
  if (!Number.isFinite(a) || !Number.isFinite(b)) {
    if (u.op === Ops.ADD || u.op === Ops.SUB) return 0;
    return sure(a, ea) && sure(b, eb) ? 0 : Infinity;
  }
  switch (u.op) {
    case Ops.ADD:
    case Ops.SUB:
      if (v === a && b === 0 && eb === 0) return ea;
      return v === b && a === 0 && ea === 0 ? eb : rounded(v, ea + eb, 1, d);
    case Ops.MUL:
      if (eb === 0 && (b === 0 || b === 1 || b === -1)) return ea * Math.abs(b);
      if (ea === 0 && (a === 0 || a === 1 || a === -1)) return eb * Math.abs(a);
      return rounded(v, Math.abs(a) * eb + Math.abs(b) * ea + ea * eb, 1, d);
    case Ops.FDIV: {
      // the sign of a zero is nobody's promise, so neither is that of what it divides
      if (Math.abs(b) <= eb) return a === 0 && ea === 0 && eb === 0 ? 0 : Infinity;
      const e = (Math.abs(a) * eb + Math.abs(b) * ea) / (Math.abs(b) * (Math.abs(b) - eb));
      return rounded(v, e, 2, d);
    }
  }
  return Infinity;
}

function castError(from: DType, to: DType, a: number, ea: number, v: number): number {
  if (!from.isFloat) {
    if (ea !== 0) return ea;
    return to.isFloat ? rounded(v, 0, Math.abs(a) * dtypeEpsilon(to) > 1 ? 1 : 0, to) : 0;
  }
  if (to.isFloat) {
    if (ea === Infinity) return Infinity;
    if (!Number.isFinite(a)) return 0;
    return rounded(v, ea, dtypeEpsilon(to) > dtypeEpsilon(from) ? 1 : 0, to);
  }
  if (to.isBool) return ea === 0 || Math.abs(a) > ea || (Number.isNaN(a) && ea < Infinity) ? 0 : Infinity;
  const low = Math.trunc(a - ea), high = Math.trunc(a + ea);
  const [min, max] = to.isUnsigned ? [0, 2 ** to.bits] : [-(2 ** (to.bits - 1)), 2 ** (to.bits - 1)];
  return low === high && low >= min && high < max ? 0 : Infinity;
}

function aluErrors(u: UOp, src: readonly Tracked[], out: Value): number[] {
  const [a, b, c] = src;
  const at = (t: Tracked, i: number): [number, number] => {
    const j = t.shape.length === 0 ? 0 : i;
    return [Number(t.data[j]), t.error[j]];
  };
  return Array.from(out.data, (x, i) => {
    const v = Number(x), [p, ep] = at(a, i);
    if (u.op === Ops.CAST) return castError(a.dtype, u.dtype, p, ep, v);
    if (src.length === 1) return unaryError(u, p, ep, v);
    const [q, eq] = at(b, i);
    if (u.op === Ops.WHERE) {
      const [r, er] = at(c, i);
      if (ep === 0) return p ? eq : er;
      if (!u.dtype.isFloat) return q === r && eq === 0 && er === 0 ? 0 : Infinity;
      const apart = Math.abs(q - r);
      return Number.isFinite(apart) ? apart + Math.max(eq, er) : Object.is(q, r) ? Math.max(eq, er) : Infinity;
    }
    return binaryError(u, a.dtype, p, ep, q, eq, v);
  });
}

function reduceErrors(u: UOp, x: Tracked, out: Value): number[] {
  const { op, axes } = u.arg as ReduceArg;
  const d = u.dtype, shape = shapeOf(u), n = prod(shape);
  const strides = stridesOf(shape).map((s, axis) => axes.includes(axis) ? 0 : s);
  const error = new Array<number>(n).fill(0), size = new Array<number>(n).fill(op === Ops.MUL ? 1 : 0);
  const special = new Array<boolean>(n).fill(false), largest = new Array<number>(n).fill(1); // of products in any order
  const index = new Array<number>(x.shape.length).fill(0);
  let count = 1;
  for (const axis of axes) count *= x.shape[axis];
  // more digits while adding small floats, one rounding at the end
  const step = d.isFloat ? dtypeEpsilon(d) * (d.itemsize <= 2 ? 2 ** -10 : 1) : 0;
  for (let i = 0; i < x.data.length; i++) {
    let o = 0;
    for (let axis = 0; axis < index.length; axis++) o += index[axis] * strides[axis];
    const v = Math.abs(Number(x.data[i])), e = x.error[i];
    if (op === Ops.MAX) error[o] = Math.max(error[o], e);
    else if (!d.isFloat) error[o] += e;
    else if (!Number.isFinite(v)) {
      special[o] = true;
      error[o] += op === Ops.MUL || e === Infinity ? Infinity : 0;
    } else if (op === Ops.ADD) {
      error[o] += e;
      size[o] += v;
    } else {
      error[o] = (error[o] + size[o]) * (v + e) - size[o] * v;
      size[o] *= v;
      largest[o] *= Math.max(v + e, 1);
      if (largest[o] >= limitsOf(d).max) error[o] = Infinity; // may be infinite before it meets 0
    }
    for (let axis = index.length - 1; axis >= 0 && ++index[axis] === x.shape[axis]; axis--) index[axis] = 0;
  }
  if (!d.isFloat || op === Ops.MAX) return error;
  return error.map((e, i) => {
    if (special[i]) return e === Infinity || size[i] >= limitsOf(d).max ? Infinity : 0;
    if (size[i] + e >= limitsOf(d).max) return Infinity; // some order of the terms may overflow
    const v = Number(out.data[i]);
    return rounded(
      v,
      e + step * Math.min(count, 4096) * size[i] + count * (op === Ops.MUL ? limitsOf(d).tiny : 0),
      1,
      d,
    );
  });
}

/** A value that holds the errors of another. */
const errorsOf = (t: Tracked): Value => ({ shape: t.shape, dtype: dtypes.float64, data: [...t.error] });

function errors(u: UOp, values: ReadonlyMap<UOp, Tracked>, out: Value): readonly number[] {
  const src = u.src.map((s) => values.get(s)!);
  switch (u.op) {
    case Ops.BIND:
      return src[1].error;
    case Ops.CONTIGUOUS:
    case Ops.CONTIGUOUS_BACKWARD:
    case Ops.DETACH:
    case Ops.CHECKPOINT:
    case Ops.COPY:
      return src[0].error;
    case Ops.REDUCE:
      return reduceErrors(u, src[0], out);
    case Ops.BITCAST: {
      const zero = (x: number | bigint) => u.src[0].dtype.isFloat && Number(x) === 0; // of either sign
      const known = src[0].error.every((e) => e === 0) && !src[0].data.some(zero) && !src[0].data.some(Number.isNaN);
      return out.data.map(() => known ? 0 : Infinity);
    }
    case Ops.AFTER: {
      if (u.src.some((s) => s.op === Ops.BITCAST || s.src[0]?.op === Ops.BITCAST)) return out.data.map(() => 0);
      const held = new Map<UOp, Value>();
      for (const [v, t] of values) held.set(v, errorsOf(t));
      return after(u, held).map(Number);
    }
  }
  if (isMovement(u.op)) return movement(u, errorsOf(src[0])).map(Number);
  if (isAlu(u.op)) return aluErrors(u, src, out);
  return out.data.map(() => 0); // leaves
}

/**
 * Values and error bounds of tensor-graph nodes, as one evaluation. With `onlyFinite` nothing is claimed of what an
 * infinity or a NaN on the way may have touched: WGSL may assume that there are none.
 */
export function evaluateTracked(
  roots: readonly UOp[],
  read: ReadStorage = readStorage,
  onlyFinite: boolean = false,
): Tracked[] {
  const values = new Map<UOp, Tracked>(), resolved = roots.map((u) => resolve(u));
  let finite = true;
  for (const u of toposort(resolved)) {
    if (u.op === Ops.STORE || u.op === Ops.VARIABLE) continue; // no value of their own
    const out: Value = { shape: shapeOf(u), dtype: u.dtype, data: compute(u, values, read) };
    const known = !u.dtype.isFloat || out.data.every((x) => Number.isFinite(x)), error = errors(u, values, out);
    const lost = onlyFinite && !known;
    values.set(u, { ...out, error: lost ? error.map((e, i) => Number.isFinite(out.data[i]) ? e : Infinity) : error });
    finite &&= known;
  }
  return resolved.map((u) => ({ ...values.get(u)!, finite }));
}

/** Why what a device computed is wrong, or undefined; and how many elements could be compared. */
export function compareTracked(
  got: ArrayLike<number | bigint>,
  want: Tracked,
): { readonly why: string | undefined; readonly compared: number } {
  if (got.length !== want.data.length) {
    return { why: `${got.length} elements, want ${want.data.length}`, compared: 0 };
  }
  let compared = 0;
  for (let i = 0; i < got.length; i++) {
    const error = want.error[i];
    if (!(error < Infinity)) continue;
    compared++;
    const a = got[i], b = want.data[i];
    if (a === b) continue;
    const x = Number(a), y = Number(b);
    if (Number.isNaN(x) && Number.isNaN(y)) continue;
    if (error > 0 && Math.abs(x - y) <= 2 * error) continue;
    return { why: `element ${i} is ${a}, want ${b}${error > 0 ? ` ± ${(2 * error).toPrecision(2)}` : ""}`, compared };
  }
  return { why: undefined, compared };
}
