/**
 * Builds ALU nodes as codegen copies and vectorizes them: scalars meet vectors by BROADCAST, and what has become
 * constant folds at once, so that a copy costs no second pass. Floats are left alone.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { foldConst } from "../../uop/algebra/eval.ts";
import { isComparison, Ops } from "../../uop/core/ops.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";

/** `x` as a vector of `n` lanes, all alike; itself where it is one already. */
export function broadcast(x: UOp, n: number): UOp {
  if (x.dtype.count === n) return x;
  if (x.op === Ops.CONST) return uop(Ops.CONST, x.dtype.vec(n), [], x.arg);
  return uop(Ops.BROADCAST, x.dtype.vec(n), [x]);
}

/** Lane `l` of `x`; `x` itself where it is a scalar. */
export function extract(x: UOp, l: number): UOp {
  if (x.dtype.count === 1) return x;
  if (x.op === Ops.CONST) return uop(Ops.CONST, x.dtype.scalar, [], x.arg);
  if (x.op === Ops.BROADCAST) return x.src[0];
  if (x.op === Ops.VECTORIZE) return x.src[l];
  return uop(Ops.EXTRACT, x.dtype.scalar, [x], l);
}

function allAre(lanes: readonly UOp[], x: UOp): boolean {
  for (let l = 0; l < lanes.length; l++) if (lanes[l] !== x) return false;
  return true;
}

/** The vector of these scalars. */
export function vectorize(lanes: readonly UOp[]): UOp {
  const first = lanes[0];
  if (lanes.length === 1) return first;
  if (allAre(lanes, first)) return broadcast(first, lanes.length);
  if (first.op === Ops.EXTRACT && first.src[0].dtype.count === lanes.length) {
    const whole = first.src[0];
    if (lanes.every((x, l) => x.op === Ops.EXTRACT && x.src[0] === whole && x.arg === l)) return whole;
  }
  return uop(Ops.VECTORIZE, first.dtype.vec(lanes.length), lanes);
}

/**
 * What a scalar op comes to when a copy of it has constants for sources: the few rules of the algebra that copies need, before
 * the node is made. All others have been applied to what is copied.
 */
function foldScalar(op: Ops, dtype: DType, src: readonly UOp[]): UOp | undefined {
  const [a, b] = src;
  switch (op) {
    case Ops.ADD:
      if (dtype.isBool) return undefined;
      if (a.op === Ops.CONST) return b.op === Ops.CONST ? undefined : add(b, a);
      return b.op === Ops.CONST ? add(a, b) : undefined;
    case Ops.MUL: {
      const [x, c] = a.op === Ops.CONST ? [b, a] : [a, b];
      if (c.op !== Ops.CONST) return undefined;
      return c.arg === 0 ? c : c.arg === 1 ? x : undefined;
    }
    case Ops.AND:
    case Ops.OR: {
      if (a === b) return a;
      if (!dtype.isBool) return undefined;
      const [x, c] = a.op === Ops.CONST ? [b, a] : [a, b];
      if (c.op !== Ops.CONST) return undefined;
      return (c.arg === 1) === (op === Ops.AND) ? x : c;
    }
    case Ops.CMPNE:
      // not (not x)
      if (b.isConst(1) && a.op === Ops.CMPNE && a.src[1] === b) return a.src[0];
      break;
  }
  if (isComparison(op) && !a.dtype.isFloat && a.dtype.bits < 64) {
    const known = uop(op, dtype, src);
    const lo = vmin(known);
    if (lo === vmax(known)) return constant(lo, dtype);
    if (op === Ops.CMPLT) return compared(dtype, a, b);
  }
  return undefined;
}

/** A sum without the constant in it, and that. */
function apart(u: UOp): [rest: UOp, constant: number] {
  if (u.op === Ops.CONST) return [constant(0, u.dtype), u.value];
  if (u.op !== Ops.ADD) return [u, 0];
  const [[a, c], [b, d]] = u.src.map(apart);
  return c === 0 && d === 0 ? [u, 0] : [buildAlu(Ops.ADD, u.dtype, [a, b]), c + d];
}

/** x + c < b as x < b - c: copies that differ by constants share x. Of indices, which do not overflow. */
function compared(dtype: DType, a: UOp, b: UOp): UOp | undefined {
  if (a.op !== Ops.ADD || b.op === Ops.CONST || a.dtype !== dtypes.int32) return undefined;
  const [x, c] = apart(a), [y, d] = apart(b);
  const fits = (u: UOp, d: number): boolean => vmin(u) + d >= -(2 ** 31) && vmax(u) + d < 2 ** 31;
  if (c === 0 || ![[x, 0], [x, c], [y, 0], [y, d], [y, d - c]].every(([u, n]) => fits(u as UOp, n as number))) {
    return undefined;
  }
  return uop(Ops.CMPLT, dtype, [x, buildAlu(Ops.ADD, y.dtype, [y, constant(d - c, y.dtype)])]);
}

/** x + c, merged with a constant already there. */
function add(x: UOp, c: UOp): UOp | undefined {
  if (c.arg === 0) return x;
  if (x.op === Ops.SUB && x.src[0].op === Ops.CONST) { // (c - y) + d -> (c + d) - y
    const sum = foldConst(Ops.ADD, c.dtype, [x.src[0], c]);
    if (sum === undefined) return undefined;
    return sum.arg === 0 ? uop(Ops.NEG, x.dtype, [x.src[1]]) : uop(Ops.SUB, x.dtype, [sum, x.src[1]]);
  }
  if (x.op !== Ops.ADD || x.src[1].op !== Ops.CONST) return undefined;
  const sum = foldConst(Ops.ADD, c.dtype, [x.src[1], c]);
  if (sum === undefined) return undefined;
  return sum.arg === 0 ? x.src[0] : uop(Ops.ADD, x.dtype, [x.src[0], sum]);
}

/** `op` of `src`: `dtype` is the scalar result; one vector source makes it a vector. */
export function buildAlu(op: Ops, dtype: DType, src: UOp[]): UOp {
  let n = 1;
  for (let i = 0; i < src.length; i++) n = Math.max(n, src[i].dtype.count);
  if (op === Ops.WHERE) {
    if (src[0].op === Ops.CONST) return broadcastLike(src[src[0].arg === 0 ? 2 : 1], n);
    if (src[1] === src[2]) return broadcastLike(src[1], n);
  }
  // copies of a comparison may compare a value with itself; of floats x < x is false of NaN, too, and x != x tells it
  if (isComparison(op) && src[0] === src[1] && (op === Ops.CMPLT || !src[0].dtype.isFloat)) {
    return broadcast(constant(op === Ops.CMPEQ ? 1 : 0, dtype.scalar), n);
  }
  if (n === 1) {
    if (!dtype.isFloat && !src[0].dtype.isFloat) {
      const folded = foldConst(op, dtype, src) ?? foldScalar(op, dtype, src);
      if (folded !== undefined) return folded;
    }
    return uop(op, dtype, src);
  }
  let isUniform = true;
  for (let i = 0; i < src.length; i++) {
    const s = src[i] = broadcast(src[i], n);
    if (s.op !== Ops.BROADCAST && s.op !== Ops.CONST) isUniform = false;
  }
  if (isUniform) {
    return broadcast(buildAlu(op, dtype.scalar, src.map((s) => extract(s, 0))), n);
  }
  return uop(op, dtype.vec(n), src);
}

/** `x` times `k`, an index. */
export function times(x: UOp, k: number): UOp {
  if (k === 1) return x;
  return x.op === Ops.CONST ? foldConst(Ops.MUL, x.dtype, [x, constant(k, x.dtype)])! : x.mul(k);
}

/** The sum of `a`, where there is one, and `b`, both indices. */
export function plus(a: UOp | undefined, b: UOp): UOp {
  return a === undefined || a.isConst(0) ? b : buildAlu(Ops.ADD, b.dtype, [a, b]);
}

function broadcastLike(x: UOp, n: number): UOp {
  return n === 1 ? x : broadcast(x, n);
}
