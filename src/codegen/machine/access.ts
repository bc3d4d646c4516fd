/**
 * What a kernel reads and writes, by region: the body of each REDUCE, of each STAGE and of each STORE, with the strides of its accesses
 * along the axes. The models of cost work on this.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { gcd } from "../../helpers/math.ts";
import { indexForm, rangeOfFactor } from "../../uop/algebra/linear_form.ts";
import { carrierOf } from "../../uop/core/carrier.ts";
import { FUNCTION, isAlu, isComparison, opFlags, Ops, opWork } from "../../uop/core/ops.ts";
import { ownRanges, rangesOf } from "../../uop/core/ranges.ts";
import { mayHave, toposort, type UOp } from "../../uop/core/uop.ts";
import { descend } from "../../uop/rewrite/walk.ts";
import { guardedProduct } from "../ast/ungate.ts";
import type { Axis } from "../opt/axis.ts";

/** One LOAD or STORE. Axes by their position in the list given to {@linkcode regionsOf}. */
export interface Access {
  readonly node: UOp;
  readonly isStore: boolean;
  readonly dtype: DType;
  /** Does it depend on the axis at all (by index or gate)? */
  readonly depends: readonly boolean[];
  /** Elements from one iteration of the axis to the next; NaN where that is not constant. */
  readonly strides: readonly number[];
  /** The constant part of its index. */
  readonly offset: number;
  /** Does its gate depend on the axis? */
  readonly gated: readonly boolean[];
  /**
   * Elements along the axis after which the quotients in its index and gate go on as they began, so that where a tile has
   * them all they are constants of its copies; 0 where there are no such quotients, or other axes are in them.
   */
  readonly periods: readonly number[];
  /** Operations along the axis that find one element's place, where it has quotients or a gate: 0 of others. */
  readonly placeWork: readonly number[];
}

/** Is an access of `n` elements side by side along an axis, of `size`, always whole, ungated and at a multiple of `n`? */
function isAligned(a: Access, axis: number, size: number, n: number): boolean {
  return size % n === 0 && !a.gated[axis] && a.offset % n === 0 &&
    a.strides.every((s, i) => i === axis || s !== s || s % n === 0);
}

/** An axis, as far as accesses go along it. */
export type AxisRange = Pick<Axis, "range">;

/** Bytes of a line of a cache. */
export const LINE = 64;

/** Bytes, at most a line, at multiples of which the rows of an access begin. */
export function alignmentOf({ strides, depends, offset, dtype: { itemsize } }: Access): number {
  let bytes = gcd(LINE, Math.abs(offset) * itemsize);
  for (let i = 0; i < strides.length; i++) {
    const stride = Math.abs(strides[i]) * itemsize;
    if (depends[i] && stride > LINE) bytes = gcd(bytes, stride);
  }
  return bytes;
}

/** The body of a REDUCE, of a STAGE or of a STORE. `own` are the axes that the first two close. */
export interface Region {
  readonly kind: "reduce" | "stage" | "store";
  readonly root: UOp;
  /** Axes of its loops: those around it and its own. */
  readonly axes: readonly boolean[];
  readonly own: readonly number[];
  readonly accesses: readonly Access[];
  /** Arithmetic of one iteration, functions weighted. */
  readonly work: number;
  /** The same by the dtype that it is computed in. */
  readonly works: ReadonlyMap<DType, number>;
  /** The part of it that functions take, by function. */
  readonly functions: ReadonlyMap<Ops, number>;
  /** The floats that are selected by conditions. */
  readonly selects: number;
  /** Values accumulated. */
  readonly lanes: number;
  /** Axes that the condition of a sum depends on which adds products under one; absent for others. */
  readonly guard?: readonly boolean[];
}

/** Most elements of one access of a thread. */
const MOST_WIDE = 8;

/** How many elements side by side along an axis, of `size`, one access takes, aligned: of `most`, a power of two, and its halves. */
export function wideOf(a: Access, axis: number, size: number, most: number): number {
  let n = most;
  while (n > 1 && !isAligned(a, axis, size, n)) n /= 2;
  return n;
}

/** Elements of an axis that make accesses of up to `nbytes`, all of them aligned: narrow ones of neighboring threads are better. */
export function wideAlong(axis: number, size: number, regions: readonly Region[], nbytes: number): number {
  const accesses = regions.flatMap((r) => r.axes[axis] ? r.accesses : []).filter((a) => a.strides[axis] === 1);
  const most = Math.min(MOST_WIDE, Math.max(1, ...accesses.map((a) => Math.floor(nbytes / a.dtype.itemsize))));
  return Math.min(most, ...accesses.map((a) => wideOf(a, axis, size, most)));
}

/** Dtypes of the values of a kernel: what it loads, computes and stores, without its index arithmetic. */
export type DTypeSet = Set<DType>;

class Reader {
  readonly regions: Region[] = [];
  readonly dtypes: DTypeSet = new Set();
  private readonly seen = new Set<UOp>();

  private readonly noPeriods: readonly number[];

  constructor(private readonly axes: readonly AxisRange[], private readonly at: ReadonlyMap<UOp, number>) {
    this.noPeriods = axes.map(() => 0);
  }

  private flags(u: UOp): boolean[] {
    const out = new Array<boolean>(this.axes.length).fill(false);
    for (const r of rangesOf(u)) {
      const i = this.at.get(r);
      if (i !== undefined) out[i] = true;
    }
    return out;
  }

  private access(place: UOp, node: UOp): Access {
    const [, idx, gate] = place.src as readonly (UOp | undefined)[];
    const strides = new Array<number>(this.axes.length).fill(0);
    const form = indexForm(idx!);
    form.factors.forEach((f, k) => {
      const r = rangeOfFactor(f);
      if (r !== undefined) {
        const i = this.at.get(r);
        if (i !== undefined) strides[i] += form.coefs[k];
      } else for (const r of rangesOf(f)) if (this.at.has(r)) strides[this.at.get(r)!] = NaN;
    });
    const isStore = node.op === Ops.STORE, places = gate === undefined ? [idx!] : [idx!, gate];
    return {
      node,
      isStore,
      dtype: place.dtype,
      depends: this.flags(place),
      strides,
      offset: form.constant,
      gated: gate === undefined ? new Array<boolean>(this.axes.length).fill(false) : this.flags(gate),
      periods: this.periods(places),
      placeWork: gate !== undefined || strides.some(Number.isNaN) ? this.placeWork(places) : this.noPeriods,
    };
  }

  /** By axis: see {@linkcode Access.placeWork}. */
  private placeWork(places: readonly UOp[]): readonly number[] {
    const work = this.noPeriods.slice();
    for (const u of new Set(places.flatMap((p) => toposort(p)))) {
      if (!isAlu(u.op)) continue;
      for (const r of rangesOf(u)) if (this.at.has(r)) work[this.at.get(r)!]++;
    }
    return work;
  }

  /** By axis: see {@linkcode Access.periods}. */
  private periods(places: readonly UOp[]): readonly number[] {
    if (!places.some((p) => mayHave(p, Ops.FLOORDIV) || mayHave(p, Ops.FLOORMOD))) return this.noPeriods;
    const periods = this.noPeriods.slice(), isMixed = this.noPeriods.slice();
    for (const q of new Set(places.flatMap((p) => toposort(p)))) {
      if (q.op !== Ops.FLOORDIV && q.op !== Ops.FLOORMOD) continue;
      const form = indexForm(q.src[0]), by = q.src[1].op === Ops.CONST ? Math.abs(q.src[1].value) : 0;
      for (const r of rangesOf(q)) {
        const i = this.at.get(r);
        if (i === undefined) continue;
        // what other terms add must be whole periods
        const isOwn = by > 0 &&
          form.factors.every((f, k) => f === r || (form.coefs[k] % by === 0 && !rangesOf(f).includes(r)));
        if (!isOwn) isMixed[i] = 1;
        else {
          const coef = form.coefs[form.factors.indexOf(r)], period = by / gcd(by, coef);
          periods[i] = periods[i] === 0 ? period : periods[i] / gcd(periods[i], period) * period;
        }
      }
    }
    return periods.map((n, i) => isMixed[i] === 1 ? 0 : n);
  }

  /** Reads one region; REDUCEs and STAGEs below it become regions of their own. */
  region(root: UOp): void {
    const kind = root.op === Ops.REDUCE ? "reduce" : root.op === Ops.STAGE ? "stage" : "store";
    const values = kind === "reduce" ? carrierOf(root).lanes : 1;
    const own = ownRanges(root).map((r) => this.at.get(r)).filter((i) => i !== undefined); // the rests of axes that are cut in blocks are no axes
    const axes = this.flags(root);
    for (const i of own) axes[i] = true;
    const accesses: Access[] = [];
    const inner: UOp[] = [];
    const works = new Map<DType, number>(kind === "reduce" ? [[root.src[0].dtype, values]] : []);
    const functions = new Map<Ops, number>();
    let selects = 0;
    const guarded = guardedProduct(root); // its condition is outside of the copies
    const roots = kind === "store" ? [root.src[1]] : guarded !== undefined ? [guarded] : root.src.slice(0, values);
    if (kind === "store") accesses.push(this.access(root.src[0], root));
    descend(roots, (u) => {
      if (u.op === Ops.REDUCE) {
        inner.push(u);
        return [];
      }
      if (u.dtype.kind !== "void" && !u.dtype.isBool && u.op !== Ops.CONST) this.dtypes.add(u.dtype);
      if (u.op === Ops.LOAD) {
        accesses.push(this.access(u.src[0], u));
        if (u.src[0].src[0].op === Ops.STAGE) inner.push(u.src[0].src[0]);
        return u.src.slice(1, 2);
      }
      // what divides by a constant is mostly of indices, shared by neighbors and moved out of loops
      if (opFlags[u.op] & FUNCTION) functions.set(u.op, (functions.get(u.op) ?? 0) + opWork[u.op]);
      if (u.op === Ops.WHERE && u.dtype.isFloat) selects++;
      const d = isComparison(u.op) ? u.src[0].dtype : u.dtype;
      works.set(d, (works.get(d) ?? 0) + (u.dtype.isInt && u.src[1]?.op === Ops.CONST ? 1 : opWork[u.op]));
      return u.src;
    });
    if (kind === "store") this.dtypes.add(root.src[0].dtype);
    const guard = guarded === undefined ? undefined : this.flags(root.src[0].src[0]);
    let work = 0;
    for (const n of works.values()) work += n;
    this.regions.push({ kind, root, axes, own, accesses, work, works, functions, selects, lanes: values, guard });
    for (const r of inner) {
      if (this.seen.has(r)) continue;
      this.seen.add(r);
      this.region(r);
    }
  }
}

/** The regions of a kernel, and the dtypes of its values. */
export function regionsOf(ast: UOp, axes: readonly AxisRange[]): { regions: Region[]; dtypes: DTypeSet } {
  const at = new Map<UOp, number>();
  axes.forEach((a, i) => at.set(a.range, i));
  const reader = new Reader(axes, at);
  for (const s of ast.src) reader.region(s);
  return { regions: reader.regions, dtypes: reader.dtypes };
}
