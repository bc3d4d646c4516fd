/**
 * Index arithmetic of movement ops: given the indices at which a movement node is read, the indices at which it reads
 * its source, and the condition under which there is a source at all (PAD). No movement op costs a kernel.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { SpecError } from "../../helpers/errors.ts";
import { mix } from "../../helpers/hash.ts";
import { axisGroups, prod, sameArray, stridesOf } from "../../helpers/math.ts";
import { vmax, vmin } from "../algebra/bounds.ts";
import { simplify } from "../algebra/symbolic.ts";
import { argOf, AxisKind } from "../core/args.ts";
import { opName, Ops } from "../core/ops.ts";
import { rangesOf } from "../core/ranges.ts";
import { shapeOf } from "../core/shape.ts";
import { constant, generation, index, int, INT32_MAX, type UOp } from "../core/uop.ts";
import { isRecording } from "../rewrite/record.ts";
import { extentOf, extentsOf } from "./extent.ts";

/** Whether all values of an interval are int32. */
function isNarrow(low: number, high: number): boolean {
  return low >= -INT32_MAX - 1 && high <= INT32_MAX;
}

/** An index in 64 bits. */
function widen(x: UOp): UOp {
  return x.op === Ops.CONST ? constant(x.value, dtypes.int64) : x.cast(dtypes.int64);
}

/** a + b, folding constants; in 64 bits where 32 may not hold it. */
export function addIndex(a: UOp, b: UOp | number): UOp {
  if (typeof b === "number") {
    if (b === 0) return a;
    if (a.op === Ops.CONST) return int(a.value + b);
    return (isNarrow(vmin(a) + b, vmax(a) + b) ? a : widen(a)).add(b);
  }
  if (b.op === Ops.CONST) return addIndex(a, b.value);
  if (a.op === Ops.CONST) return addIndex(b, a.value);
  if (a.dtype === b.dtype && isNarrow(vmin(a) + vmin(b), vmax(a) + vmax(b))) return a.add(b);
  return widen(a).add(widen(b));
}

/** a * c, folding constants; in 64 bits where 32 may not hold it. */
export function mulIndex(a: UOp, c: number): UOp {
  if (c === 1) return a;
  if (c === 0) return int(0);
  if (a.op === Ops.CONST) return int(a.value * c);
  const p = vmin(a) * c, q = vmax(a) * c;
  return (isNarrow(Math.min(p, q), Math.max(p, q)) ? a : widen(a)).mul(c);
}

/** a < b. */
function lessIndex(a: UOp, b: UOp | number): UOp {
  if (typeof b === "number") return (isNarrow(b, b) ? a : widen(a)).lt(b);
  return a.dtype === b.dtype ? a.lt(b) : widen(a).lt(widen(b));
}

/** An index into an axis of `size`, in 32 bits where they count so far: what is beyond is not read. */
function fitted(x: UOp, size: number): UOp {
  if (x.dtype !== dtypes.int64 || size > INT32_MAX) return x;
  if (x.op === Ops.CONST) return int(x.value);
  return isNarrow(vmin(x), vmax(x)) ? simplify(x.cast(dtypes.int32)) : x;
}

/** Whether a range is a loop over results. */
export function isLoop(r: UOp): boolean {
  return argOf(r, Ops.RANGE).kind === AxisKind.LOOP;
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
  return isOutputOnly(idx) ? dependence(idx) : undefined;
}

/** Whether indices depend on no range being reduced. */
export function isOutputOnly(idx: readonly UOp[]): boolean {
  for (let i = 0; i < idx.length; i++) {
    const ranges = rangesOf(idx[i]);
    for (let k = 0; k < ranges.length; k++) if (!isLoop(ranges[k])) return false;
  }
  return true;
}

/** Row-major position of `idx` in `shape`; int64 where int32 cannot count the elements. */
export function flatIndex(shape: readonly number[], idx: readonly UOp[]): UOp {
  const wide = prod(shape) > INT32_MAX, strides = stridesOf(shape);
  let flat = int(0);
  for (let i = 0; i < shape.length; i++) {
    if (shape[i] === 1) continue;
    flat = addIndex(flat, mulIndex(wide ? widen(idx[i]) : idx[i], strides[i]));
  }
  return flat;
}

/** An element of a buffer of `size` elements by its position, where `gate` holds: in 32 bits where they count so far. */
export function element(base: UOp, size: number, at: UOp, gate?: UOp): UOp {
  const is32 = at.dtype === dtypes.int64 && size <= INT32_MAX;
  return index(base, is32 ? simplify(at.cast(dtypes.int32)) : at, gate);
}

/** Indices under `to` of the element that has indices `idx` under `from`; both shapes hold as many elements. */
function reshapeIndex(from: readonly number[], to: readonly number[], idx: readonly UOp[]): UOp[] {
  const zero = int(0), out = new Array<UOp>(to.length);
  for (let k = 0; k < to.length; k++) out[k] = zero;
  if (to.includes(0)) return out; // of no element
  for (const { i0, i1, j0, j1 } of axisGroups(from, to)) {
    // how many axes are longer than 1, and the first of them
    let sources = 0, targets = 0, source = 0, target = 0;
    for (let k = i1 - 1; k >= i0; k--) {
      if (from[k] === 1) continue;
      sources++;
      source = k;
    }
    for (let k = j1 - 1; k >= j0; k--) {
      if (to[k] === 1) continue;
      targets++;
      target = k;
    }
    if (targets === 0) continue;
    if (targets === 1 && sources === 1) {
      out[target] = idx[source];
      continue;
    }
    const made = regrouped(from.slice(i0, i1), to.slice(j0, j1), idx.slice(i0, i1));
    for (let t = target; t < j1; t++) if (to[t] !== 1) out[t] = made[t - j0];
  }
  return out;
}

/** Indices of one group of axes under other axes. */
interface Regrouped {
  readonly from: readonly number[];
  readonly to: readonly number[];
  readonly idx: readonly UOp[];
  readonly made: readonly UOp[];
}

/** By hash, what {@linkcode regrouped} made in this generation: parts of a graph that are alike ask for the same. */
const known = new Map<number, Regrouped[]>();
let knownIn = -1;

/** As {@linkcode regroup}, each once, but where a record is to show how it is simplified. */
function regrouped(from: readonly number[], to: readonly number[], idx: readonly UOp[]): readonly UOp[] {
  if (isRecording()) return regroup(from, to, idx);
  if (knownIn !== generation()) known.clear();
  knownIn = generation();
  let hash = from.length;
  for (let i = 0; i < from.length; i++) hash = mix(mix(hash, from[i]), idx[i].hash);
  for (let i = 0; i < to.length; i++) hash = mix(hash, to[i]);
  let list = known.get(hash);
  if (list === undefined) known.set(hash, list = []);
  for (let i = 0; i < list.length; i++) {
    const k = list[i];
    if (sameArray(k.idx, idx) && sameArray(k.from, from) && sameArray(k.to, to)) return k.made;
  }
  const made = regroup(from, to, idx);
  list.push({ from, to, idx, made });
  return made;
}

/** Indices under `to` of the element that has indices `idx` under `from`, by its position; 0 for axes of size 1. */
function regroup(from: readonly number[], to: readonly number[], idx: readonly UOp[]): UOp[] {
  const made = to.map(() => int(0)), flat = simplify(flatIndex(from, idx)), first = to.findIndex((n) => n !== 1);
  for (let t = to.length - 1, stride = 1; t >= first; t--) {
    if (to[t] === 1) continue;
    let x = stride === 1 ? flat : flat.floorDiv(stride);
    if (t > first) x = x.floorMod(to[t]);
    stride *= to[t];
    x = simplify(x);
    made[t] = x.dtype === dtypes.int64 && to[t] <= INT32_MAX ? simplify(x.cast(dtypes.int32)) : x;
  }
  return made;
}

/** `idx` with 0 for the axes of size 1. */
function atStart(idx: readonly UOp[], shape: readonly number[]): UOp[] {
  const zero = int(0), out = new Array<UOp>(idx.length);
  for (let i = 0; i < idx.length; i++) out[i] = shape[i] === 1 ? zero : idx[i];
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

/**
 * Whether `size` elements from `start` are within `e`, so far as bounds tell: for each term of a maximum that starts, and
 * for some term of a minimum, which is written as the negative of a maximum, that sizes. A size of 0 reads nothing.
 */
function holds(e: UOp, start: UOp, size: UOp): boolean {
  if (start.op === Ops.MAX) return start.src.every((s) => holds(e, s, size));
  if (size.op === Ops.MAX) return size.src.every((s) => s.isConst(0) || holds(e, start, s));
  if (size.op === Ops.MUL && size.src[0].op === Ops.MAX && size.src[1].isConst(-1)) {
    return size.src[0].src.some((s) => holds(e, start, simplify(s.mul(-1))));
  }
  return vmin(simplify(e.add(start.mul(-1)).add(size.mul(-1)))) >= 0;
}

/** The source's indices for a movement node read at `idx`. */
export function sourceIndex(u: UOp, idx: readonly UOp[]): SourceIndex {
  const from = shapeOf(u.src[0]);
  switch (u.op) {
    case Ops.RESHAPE:
      return { idx: reshapeIndex(shapeOf(u), from, idx), valid: undefined };
    case Ops.EXPAND:
      return { idx: atStart(idx, from), valid: undefined };
    case Ops.PERMUTE: {
      const { axes } = argOf(u, Ops.PERMUTE), out = new Array<UOp>(idx.length);
      for (let i = 0; i < axes.length; i++) out[axes[i]] = idx[i];
      return { idx: out, valid: undefined };
    }
    case Ops.FLIP: {
      const { axes } = argOf(u, Ops.FLIP);
      return {
        idx: idx.map((x, i) => {
          if (!axes.includes(i)) return x;
          const e = extentsOf(u.src[0])?.[i];
          return e === undefined ? addIndex(mulIndex(x, -1), from[i] - 1) : addIndex(mulIndex(x, -1), addIndex(e, -1));
        }),
        valid: undefined,
      };
    }
    case Ops.WINDOW: {
      const { axis } = argOf(u, Ops.WINDOW), [, start, size] = u.src, e = extentOf(u.src[0], axis);
      const at = simplify(addIndex(idx[axis], start));
      let valid: UOp | undefined;
      // an index is less than the size: what is known of the bounds decides whether it can leave the source
      if (vmin(start) < 0 && vmin(at) < 0) valid = at.lt(0).ne(1);
      if (vmax(at) >= vmin(e) && !holds(e, start, size)) valid = andGate(valid, lessIndex(at, e));
      return { idx: idx.map((x, i) => i === axis ? at : x), valid };
    }
    case Ops.SHRINK: {
      const { pairs } = argOf(u, Ops.SHRINK);
      return {
        idx: idx.map((x, i) => from[i] === 1 ? int(0) : fitted(simplify(addIndex(x, pairs[i][0])), from[i])),
        valid: undefined,
      };
    }
    case Ops.UNSKEW: {
      const { axis, kernelAxis, stride, dilation } = argOf(u, Ops.UNSKEW);
      const at = addIndex(mulIndex(idx[axis], stride), mulIndex(idx[kernelAxis], dilation));
      return { idx: idx.map((x, i) => i === axis ? at : x), valid: undefined };
    }
    case Ops.SKEW: {
      const { axis, kernelAxis, stride, dilation } = argOf(u, Ops.SKEW);
      const shifted = simplify(addIndex(idx[axis], mulIndex(idx[kernelAxis], -dilation)));
      let valid: UOp | undefined;
      if (vmin(shifted) < 0) valid = shifted.lt(0).ne(1);
      if (vmax(shifted) >= from[axis] * stride) valid = andGate(valid, lessIndex(shifted, from[axis] * stride));
      if (stride > 1) valid = andGate(valid, shifted.floorMod(stride).eq(0));
      const at = stride > 1 ? simplify(shifted.floorDiv(stride)) : shifted;
      return { idx: idx.map((x, i) => i === axis ? fitted(at, from[axis]) : x), valid };
    }
    case Ops.PAD: {
      const { pairs } = argOf(u, Ops.PAD);
      let valid: UOp | undefined;
      const out = idx.map((x, i) => {
        const [before, after] = pairs[i];
        if (before === 0 && after === 0) return x;
        if (before > 0 && vmin(x) < before) valid = andGate(valid, lessIndex(x, before).ne(1));
        const e = extentsOf(u.src[0])?.[i];
        if (after > 0 && e !== undefined) valid = andGate(valid, lessIndex(x, addIndex(e, before)));
        else if (after > 0 && vmax(x) >= before + from[i]) valid = andGate(valid, lessIndex(x, before + from[i]));
        return fitted(simplify(addIndex(x, -before)), from[i]);
      });
      return { idx: out, valid };
    }
    default:
      throw new SpecError(`${opName[u.op]} is no movement op`);
  }
}
