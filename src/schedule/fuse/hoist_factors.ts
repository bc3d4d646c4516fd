/**
 * Hoisting in the tensor graph: a sum over k of h * g(k), where h does not depend on k, is h times the sum of g(k). Done
 * where h is made of a reduction, which the sum would otherwise have to wait for: the denominator of a softmax leaves the
 * product with the values, the norm of a row the product with its weights, and one pass over k is left.
 *
 * Only for sums in float32 and float64, and never through a cast: what is small after division may be large before.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { axisGroups } from "../../helpers/math.ts";
import { argOf, reduceOf } from "../../uop/core/args.ts";
import { broadcastTo, expand, numelOf, reshape } from "../../uop/core/build_movement.ts";
import { isAlu, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { mayHave, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf } from "../../uop/graph/extent.ts";
import { wantsNotes } from "../../uop/core/notes.ts";
import { note } from "../../uop/rewrite/record.ts";
import { moveLike } from "../../uop/graph/resolve.ts";

/** A factor that left a product: what is left is multiplied with it or divided by it. */
interface Factor {
  readonly op: typeof Ops.MUL | typeof Ops.FDIV;
  /** Of size 1 along the axes. */
  readonly by: UOp;
}

/** `inner` combined with the factors, the last one last. */
interface Product {
  readonly inner: UOp;
  readonly factors: readonly Factor[];
}

/** Nodes between a sum and the factors that are looked at. */
const MAX_DEPTH = 12;

/** Elements of a reduction that is done once for all that are alike, and how many these are, at least. */
const LEAST_REPEATED = 1 << 26, LEAST_REPEATS = 16;

/** `shape` with size 1 along `axes`. */
function flat(shape: readonly number[], axes: readonly number[]): number[] {
  return shape.map((n, i) => axes.includes(i) ? 1 : n);
}

/** Whether `shape` has size 1 along `axes`. */
function isFlat(shape: readonly number[], axes: readonly number[]): boolean {
  for (let i = 0; i < axes.length; i++) if (shape[axes[i]] !== 1) return false;
  return true;
}

/** Where RESHAPE `u` maps whole groups of axes onto each other: the source axes that `axes` are; undefined elsewhere. */
function reshapedAxes(u: UOp, axes: readonly number[]): number[] | undefined {
  const to = shapeOf(u), from = shapeOf(u.src[0]);
  const out: number[] = [];
  if (to.includes(0)) return undefined;
  for (const { i0, i1, j0, j1 } of axisGroups(to, from)) {
    let inside = 0, real = 0;
    for (let k = i0; k < i1; k++) {
      if (to[k] === 1) continue;
      real++;
      if (axes.includes(k)) inside++;
    }
    if (inside === 0) continue;
    if (inside < real) return undefined;
    for (let k = j0; k < j1; k++) if (from[k] !== 1) out.push(k);
  }
  return out;
}

/** The axes of the source of movement node `u` that `axes` are; undefined where they are none. */
function sourceAxes(u: UOp, axes: readonly number[]): number[] | undefined {
  switch (u.op) {
    case Ops.RESHAPE:
      return reshapedAxes(u, axes);
    case Ops.EXPAND:
      return axes.slice();
    case Ops.PERMUTE:
      return axes.map((a) => argOf(u, Ops.PERMUTE).axes[a]);
    default:
      return undefined;
  }
}

/** Movement node `u` of another source, which has size 1 along the axes that are `axes` in `u`. */
function moveFlat(u: UOp, source: UOp, axes: readonly number[]): UOp {
  const shape = flat(shapeOf(u), axes);
  switch (u.op) {
    case Ops.RESHAPE:
      return reshape(source, shape);
    case Ops.EXPAND:
      return expand(source, shape);
    default:
      return moveLike(u, source);
  }
}

/** Tells whether a reduction is computed below `u`, without passing storage. */
function reducesBelow(u: UOp, depth = MAX_DEPTH): boolean {
  if (u.op === Ops.REDUCE) return true;
  if (depth === 0 || !mayHave(u, Ops.REDUCE) || !(isAlu(u.op) || moves(u.op))) return false;
  const { src } = u;
  for (let i = 0; i < src.length; i++) if (reducesBelow(src[i], depth - 1)) return true;
  return false;
}

function moves(op: Ops): boolean {
  return op === Ops.RESHAPE || op === Ops.EXPAND || op === Ops.PERMUTE;
}

/** `u` with size 1 along `axes`, if it is the same everywhere along them. */
function constantAlong(u: UOp, axes: readonly number[], depth: number): UOp | undefined {
  const shape = shapeOf(u);
  if (shape.length === 0 || isFlat(shape, axes)) return u;
  if (depth === 0) return undefined;
  if (u.op === Ops.EXPAND && isFlat(shapeOf(u.src[0]), axes)) return expand(u.src[0], flat(shape, axes));
  if (moves(u.op)) {
    const below = sourceAxes(u, axes);
    const source = below && constantAlong(u.src[0], below, depth - 1);
    return source && moveFlat(u, source, axes);
  }
  if (!isAlu(u.op) || u.op === Ops.BITCAST) return undefined;
  const src: UOp[] = [];
  for (let i = 0; i < u.src.length; i++) {
    const c = constantAlong(u.src[i], axes, depth - 1);
    if (c === undefined) return undefined;
    src.push(c);
  }
  return uop(u.op, u.dtype, src, u.arg);
}

/** `u` as a product whose factors do not change along `axes`; undefined where it has none that a reduction makes. */
function split(u: UOp, axes: readonly number[], depth: number): Product | undefined {
  if (depth === 0) return undefined;
  if (moves(u.op)) {
    const below = sourceAxes(u, axes);
    const p = below && split(u.src[0], below, depth - 1);
    if (p === undefined) return undefined;
    // a scalar has no axes to move
    const inner = shapeOf(p.inner).length === 0 ? p.inner : moveLike(u, p.inner);
    return { inner, factors: p.factors.map(({ op, by }) => ({ op, by: moveFlat(u, by, axes) })) };
  }
  if (u.op !== Ops.MUL && u.op !== Ops.FDIV) return undefined;
  const [a, b] = u.src;
  const factor = (x: UOp): UOp | undefined => reducesBelow(x) ? constantAlong(x, axes, depth - 1) : undefined;
  const right = factor(b);
  if (right !== undefined) {
    const p = split(a, axes, depth - 1) ?? { inner: a, factors: [] };
    return { inner: p.inner, factors: [...p.factors, { op: u.op, by: right }] };
  }
  const left = split(a, axes, depth - 1);
  if (u.op === Ops.FDIV) {
    return left && { inner: uop(Ops.FDIV, u.dtype, [left.inner, b]), factors: left.factors };
  }
  const whole = left === undefined ? factor(a) : undefined;
  if (whole !== undefined) return { inner: b, factors: [{ op: Ops.MUL, by: whole }] };
  const other = split(b, axes, depth - 1);
  if (left === undefined && other === undefined) return undefined;
  const inner = uop(Ops.MUL, u.dtype, [left?.inner ?? a, other?.inner ?? b]);
  return { inner, factors: [...left?.factors ?? [], ...other?.factors ?? []] };
}

/** The dtype to which what is scaled is narrowed before it is summed over `axes`; undefined where nothing is. */
function narrowedBefore(u: UOp, axes: readonly number[], depth: number): DType | undefined {
  if (depth === 0) return undefined;
  if (moves(u.op)) {
    const below = sourceAxes(u, axes);
    return below && narrowedBefore(u.src[0], below, depth - 1);
  }
  if (u.op === Ops.MUL) return narrowedBefore(u.src[0], axes, depth - 1) ?? narrowedBefore(u.src[1], axes, depth - 1);
  if (u.op !== Ops.CAST) return undefined;
  const [x] = u.src;
  return x.dtype.isFloat && u.dtype.itemsize < x.dtype.itemsize && split(x, axes, depth - 1) !== undefined
    ? u.dtype
    : narrowedBefore(x, axes, depth - 1);
}

/** Sum over k of h * g(k), where h waits for a reduction -> h * sum over k of g(k). */
export function hoistFactors(u: UOp): UOp | undefined {
  const { op, axes } = reduceOf(u);
  if (op !== Ops.ADD || (u.dtype !== dtypes.float32 && u.dtype !== dtypes.float64)) return undefined;
  const p = split(u.src[0], axes, MAX_DEPTH);
  if (p === undefined) {
    const narrow = wantsNotes() ? narrowedBefore(u.src[0], axes, MAX_DEPTH) : undefined;
    if (narrow !== undefined) {
      note("missed", u, `a sum waits for what its terms are scaled by: in ${narrow} they may be too large before`);
    }
    return undefined;
  }
  const factors = p.factors.length;
  note("passed", u, "a sum is scaled as a whole, not each of its terms: it does not wait for what scales it", {
    factors,
  });
  const shape = shapeOf(u);
  const inner = shapeOf(p.inner).length === 0 ? broadcastTo(p.inner, shapeOf(u.src[0])) : p.inner;
  let out = uop(Ops.REDUCE, u.dtype, [inner], u.arg);
  for (const { op, by } of p.factors) {
    out = uop(op, u.dtype, [out, shapeOf(by).length === 0 ? by : broadcastTo(by, shape)]);
  }
  return out;
}

/** A reduce of what is the same along other axes -> the same for all of them, where that saves much. */
export function reduceOnce(u: UOp): UOp | undefined {
  const [x] = u.src, { axes } = reduceOf(u), shape = shapeOf(u);
  if (!mayHave(x, Ops.EXPAND) || numelOf(x) < LEAST_REPEATED || extentsOf(u) !== null) return undefined;
  const same = shape.flatMap((n, i) => n > 1 && !axes.includes(i) && constantAlong(x, [i], MAX_DEPTH) ? [i] : []);
  const repeats = same.reduce((n, i) => n * shape[i], 1);
  if (repeats < LEAST_REPEATS) return undefined;
  const once = constantAlong(x, same, MAX_DEPTH);
  if (once === undefined) return undefined;
  note("passed", u, `a reduction that is the same ${repeats} times is done once`, { repeats });
  return expand(uop(Ops.REDUCE, u.dtype, [once], u.arg), shape);
}
