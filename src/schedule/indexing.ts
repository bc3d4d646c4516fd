/**
 * Index arithmetic of movement ops: given the indices at which a movement node is read, the indices at which it reads
 * its source, and the condition under which there is a source at all (PAD). No movement op costs a kernel.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { SpecError } from "../helpers/errors.ts";
import { prod, stridesOf } from "../helpers/math.ts";
import { type AxesArg, AxisKind, type PairsArg, type RangeArg, type SkewArg, type WindowArg } from "../uop/args.ts";
import { vmax, vmin } from "../uop/bounds.ts";
import { extentOf, extentsOf } from "../uop/extent.ts";
import { opName, Ops } from "../uop/ops.ts";
import { rangesOf } from "../uop/ranges.ts";
import { shapeOf } from "../uop/shape.ts";
import { simplify } from "../uop/symbolic.ts";
import { constant, int, type UOp } from "../uop/uop.ts";

const INT32_MAX = 2 ** 31 - 1;

/** a + b, folding constants. */
export function addIndex(a: UOp, b: UOp | number): UOp {
  if (typeof b === "number") return b === 0 ? a : a.op === Ops.CONST ? a.constLike(a.value + b) : a.add(b);
  if (b.op === Ops.CONST) return addIndex(a, b.value);
  if (a.op === Ops.CONST) return addIndex(b, a.value);
  return a.add(b);
}

/** a * c, folding constants. */
export function mulIndex(a: UOp, c: number): UOp {
  if (c === 1) return a;
  if (c === 0) return a.constLike(0);
  return a.op === Ops.CONST ? a.constLike(a.value * c) : a.mul(c);
}

/** Iterations of loops. */
export function iterationsOf(ranges: readonly UOp[]): number {
  return ranges.reduce((n, r) => n * r.src[0].value, 1);
}

/** Whether a range is a loop over results. */
export function isLoop(r: UOp): boolean {
  return (r.arg as RangeArg).kind === AxisKind.LOOP;
}

/** All ranges that indices depend on. */
export function dependence(idx: readonly UOp[]): UOp[] {
  const found: UOp[] = [];
  for (let i = 0; i < idx.length; i++) {
    const ranges = rangesOf(idx[i]);
    for (let k = 0; k < ranges.length; k++) if (!found.includes(ranges[k])) found.push(ranges[k]);
  }
  return found;
}

/** The LOOP ranges that indices depend on, or undefined where they depend on a range being reduced. */
export function outputDependence(idx: readonly UOp[]): UOp[] | undefined {
  const found = dependence(idx);
  return found.every(isLoop) ? found : undefined;
}

/** Row-major position of `idx` in `shape`; int64 where int32 cannot count the elements. */
export function flatIndex(shape: readonly number[], idx: readonly UOp[]): UOp {
  const wide = prod(shape) > INT32_MAX;
  const strides = stridesOf(shape);
  let flat = wide ? constant(0, dtypes.int64) : int(0);
  for (let i = 0; i < shape.length; i++) {
    if (shape[i] === 1) continue;
    flat = addIndex(flat, mulIndex(wide ? idx[i].cast(dtypes.int64) : idx[i], strides[i]));
  }
  return flat;
}

/** Indices under `to` of the element that has indices `idx` under `from`; both shapes hold as many elements. */
function reshapeIndex(from: readonly number[], to: readonly number[], idx: readonly UOp[]): UOp[] {
  const out = new Array<UOp>(to.length).fill(int(0));
  if (to.includes(0)) return out; // of no element
  let i = 0, j = 0;
  while (i < from.length || j < to.length) {
    // the smallest groups of axes from[i0..i) and to[j0..j) of equal size
    const i0 = i, j0 = j;
    let a = 1, b = 1;
    if (i < from.length) a = from[i++];
    if (j < to.length) b = to[j++];
    while (a !== b) {
      if (a < b) a *= from[i++];
      else b *= to[j++];
    }
    const source = [];
    for (let k = i0; k < i; k++) if (from[k] !== 1) source.push(k);
    const target = [];
    for (let k = j0; k < j; k++) if (to[k] !== 1) target.push(k);
    if (target.length === 0) continue;
    if (target.length === 1 && source.length === 1) {
      out[target[0]] = idx[source[0]];
      continue;
    }
    const flat = simplify(flatIndex(source.map((k) => from[k]), source.map((k) => idx[k])));
    let stride = 1;
    for (let t = target.length - 1; t >= 0; t--) {
      let x = stride === 1 ? flat : flat.floorDiv(stride);
      if (t > 0) x = x.floorMod(to[target[t]]);
      stride *= to[target[t]];
      x = simplify(x);
      out[target[t]] = x.dtype === dtypes.int64 && to[target[t]] <= INT32_MAX ? simplify(x.cast(dtypes.int32)) : x;
    }
  }
  return out;
}

/** `a and b`; undefined is true. */
export function andGate(a: UOp | undefined, b: UOp | undefined): UOp | undefined {
  if (a === undefined) return b;
  return b === undefined || a === b ? a : a.and(b);
}

/** Where a movement node reads its source. */
export interface SourceIndex {
  readonly idx: readonly UOp[];
  /** The value is the source's where this holds, else zero; undefined: always. */
  readonly valid: UOp | undefined;
}

/** The source's indices for a movement node read at `idx`. */
export function sourceIndex(u: UOp, idx: readonly UOp[]): SourceIndex {
  const from = shapeOf(u.src[0]);
  switch (u.op) {
    case Ops.RESHAPE:
      return { idx: reshapeIndex(shapeOf(u), from, idx), valid: undefined };
    case Ops.EXPAND:
      return { idx: idx.map((x, i) => from[i] === 1 ? int(0) : x), valid: undefined };
    case Ops.PERMUTE: {
      const out = new Array<UOp>(idx.length);
      (u.arg as AxesArg).axes.forEach((axis, i) => out[axis] = idx[i]);
      return { idx: out, valid: undefined };
    }
    case Ops.FLIP: {
      const { axes } = u.arg as AxesArg;
      return {
        idx: idx.map((x, i) => {
          if (!axes.includes(i)) return x;
          const e = extentsOf(u.src[0])?.[i];
          return e === undefined ? addIndex(mulIndex(x, -1), from[i] - 1) : addIndex(mulIndex(x, -1), e.add(-1));
        }),
        valid: undefined,
      };
    }
    case Ops.WINDOW: {
      const { axis } = u.arg as WindowArg, [, start, size] = u.src, e = extentOf(u.src[0], axis);
      const at = simplify(addIndex(idx[axis], start.cast(idx[axis].dtype)));
      let valid: UOp | undefined;
      // an index is less than the size: what is known of the bounds decides whether it can leave the source
      if (vmin(start) < 0 && vmin(at) < 0) valid = at.lt(0).ne(1);
      const room = simplify(e.add(start.mul(-1)).add(size.mul(-1)));
      if (vmin(room) < 0 && vmax(at) >= vmin(e)) valid = andGate(valid, at.lt(e.cast(at.dtype)));
      return { idx: idx.map((x, i) => i === axis ? at : x), valid };
    }
    case Ops.SHRINK: {
      const { pairs } = u.arg as PairsArg;
      return { idx: idx.map((x, i) => from[i] === 1 ? int(0) : simplify(addIndex(x, pairs[i][0]))), valid: undefined };
    }
    case Ops.UNSKEW: {
      const { axis, kernelAxis, stride, dilation } = u.arg as SkewArg;
      const at = addIndex(mulIndex(idx[axis], stride), mulIndex(idx[kernelAxis], dilation));
      return { idx: idx.map((x, i) => i === axis ? at : x), valid: undefined };
    }
    case Ops.SKEW: {
      const { axis, kernelAxis, stride, dilation } = u.arg as SkewArg;
      const shifted = simplify(addIndex(idx[axis], mulIndex(idx[kernelAxis], -dilation)));
      let valid: UOp | undefined;
      if (vmin(shifted) < 0) valid = shifted.lt(0).ne(1);
      if (vmax(shifted) >= from[axis] * stride) valid = andGate(valid, shifted.lt(from[axis] * stride));
      if (stride > 1) valid = andGate(valid, shifted.floorMod(stride).eq(0));
      const at = stride > 1 ? simplify(shifted.floorDiv(stride)) : shifted;
      return { idx: idx.map((x, i) => i === axis ? at : x), valid };
    }
    case Ops.PAD: {
      const { pairs } = u.arg as PairsArg;
      let valid: UOp | undefined;
      const out = idx.map((x, i) => {
        const [before, after] = pairs[i];
        if (before === 0 && after === 0) return x;
        if (before > 0 && vmin(x) < before) valid = andGate(valid, x.lt(before).ne(1));
        const e = extentsOf(u.src[0])?.[i];
        if (after > 0 && e !== undefined) valid = andGate(valid, x.lt(addIndex(e, before)));
        else if (after > 0 && vmax(x) >= before + from[i]) valid = andGate(valid, x.lt(before + from[i]));
        return simplify(addIndex(x, -before));
      });
      return { idx: out, valid };
    }
    default:
      throw new SpecError(`${opName[u.op]} is no movement op`);
  }
}
