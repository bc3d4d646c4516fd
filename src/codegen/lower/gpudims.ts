/**
 * Where the threads of a grid stand: each GLOBAL, LOCAL, WARP and GROUP_REDUCE range becomes an expression of the hardware
 * indices gidx0..2 and lidx0..2, within the device's limits. In: a kernel AST with its opts applied. Out: the AST with
 * gates around what not every thread stores, and the expressions, which replace the ranges once the AST is expanded.
 *
 * Inner ranges go to low dimensions, so that neighboring threads touch neighboring elements. Threads that share a reduction
 * (GROUP_REDUCE) are neighbors, at lidx0, unless a LOCAL range around them reads neighboring elements. The same threads
 * share the work after it: LOCAL ranges that no such reduction depends on. STOREs that have no range in common are computed
 * side by side, each by the first threads.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError, SpecError } from "../../helpers/errors.ts";
import { ceilDiv, prod } from "../../helpers/math.ts";
import type { Capabilities, GridCaps } from "../../renderer/renderer.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { ownRanges, rangesOf } from "../../uop/core/ranges.ts";
import { index, int, positionDType, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { vmax } from "../../uop/algebra/bounds.ts";
import { indexForm, strideAlong } from "../../uop/algebra/linear_form.ts";
import { compareLoops, isGroup, isThreadKind, kindOf } from "../ast/range_facts.ts";

/** A kernel AST whose ranges have their places. */
export interface Placement {
  /** The AST; ranges are still in it. */
  readonly sink: UOp;
  /** What replaces each range of threads and groups. */
  readonly places: ReadonlyMap<UOp, UOp>;
  /** Neighbors that can exchange values among the threads that share a reduction. */
  readonly warp: number;
}

/** A hardware index of `size`; 0 where there is only one. */
function hardware(prefix: "gidx" | "lidx", dimension: number, size: UOp): UOp {
  if (size.isConst(1)) return int(0);
  const end = size.dtype === dtypes.int32 ? size : size.cast(dtypes.int32);
  return uop(Ops.SPECIAL, dtypes.int32, [end], `${prefix}${dimension}`);
}

/** How many there are: of what ends at a variable, only a run knows. */
type Count = number | UOp;

function countOf(r: UOp): Count {
  return r.src[0].op === Ops.CONST ? r.src[0].value : r.src[0];
}
function times(a: Count, b: Count): Count {
  if (typeof a === "number") return typeof b === "number" ? a * b : a === 1 ? b : times(b, a);
  const dtype = positionDType(mostOf(a) * mostOf(b));
  return a.cast(dtype).mul(typeof b === "number" ? b : b.cast(dtype));
}
/** The larger of two. */
function larger(a: Count, b: Count): Count {
  if (typeof a === "number") return typeof b === "number" ? Math.max(a, b) : larger(b, a);
  const dtype = positionDType(Math.max(mostOf(a), mostOf(b))), x = a.cast(dtype);
  return x.alu(Ops.MAX, typeof b === "number" ? x.constLike(b) : b.cast(dtype));
}
function mostOf(n: Count): number {
  return typeof n === "number" ? n : vmax(n);
}
/** All indices of ranges. */
function allOf(ranges: Ranges): Count {
  return ranges.map(countOf).reduce(times, 1);
}
function counted(n: Count): UOp {
  return typeof n === "number" ? int(n) : n;
}

/** Ranges as digits of one number, innermost first: the digit of each. */
function digits(flat: UOp, ranges: Ranges): UOp[] {
  const { dtype } = flat, by = (n: Count): Count => typeof n === "number" ? n : n.cast(dtype);
  let stride: Count = 1;
  return ranges.map((r, i) => {
    const n = countOf(r), shifted = stride === 1 ? flat : flat.floorDiv(by(stride));
    stride = times(stride, n);
    if (n === 1) return int(0);
    return i === ranges.length - 1 ? shifted : shifted.floorMod(by(n));
  });
}

/** How far an index moves by a step along a range, where it is not held at a limit; 0 also where that is not known. */
function stepAlong(u: UOp, r: UOp): number {
  const form = indexForm(u);
  return form.factors.reduce((step, f, i) => {
    const isHeld = f.op === Ops.WHERE && f.src[2].op === Ops.CONST;
    return isHeld ? step + form.coefs[i] * stepAlong(f.src[1], r) : step;
  }, strideAlong(form, r));
}

/** One number from 0 to `total` - 1, or beyond, out of up to three dimensions. */
function flatIndex(prefix: "gidx" | "lidx", total: Count, limits: readonly number[]): { flat: UOp; count: Count } {
  if (typeof total !== "number") return openIndex(prefix, total, limits);
  let [x, y, z] = [total, 1, 1];
  if (x > limits[0]) {
    const least = ceilDiv(total, limits[0]);
    y = least;
    while (y <= limits[1] && y < 2 * least && total % y !== 0) y++;
    if (total % y === 0 && y <= limits[1]) x = total / y;
    else {
      x = 2 ** Math.floor(Math.log2(limits[0]));
      if (ceilDiv(total, x) > limits[1] * limits[2]) x = limits[0];
      y = ceilDiv(total, x);
    }
  }
  if (y > limits[1]) {
    z = ceilDiv(y, limits[1]);
    y = ceilDiv(y, z);
  }
  if (z > limits[2]) throw new SpecError(`A grid of ${total} threads or groups is too large for the device`);
  const count = x * y * z, wide = (u: UOp): UOp => u.cast(positionDType(count));
  let flat = wide(hardware(prefix, 0, int(x)));
  if (y > 1) flat = wide(hardware(prefix, 1, int(y))).mul(x).add(flat);
  if (z > 1) flat = wide(hardware(prefix, 2, int(z))).mul(x * y).add(flat);
  return { flat, count };
}
/** As {@linkcode flatIndex}, of a number that only a run knows. */
function openIndex(prefix: "gidx" | "lidx", total: UOp, limits: readonly number[]): { flat: UOp; count: Count } {
  const most = vmax(total), dtype = positionDType(most), x = 2 ** Math.floor(Math.log2(limits[0]));
  if (most <= limits[0]) return { flat: hardware(prefix, 0, total).cast(dtype), count: total };
  if (ceilDiv(most, x) > limits[1]) {
    throw new SpecError(`A grid of up to ${most} threads or groups is too large for the device`);
  }
  const y = total.add(x - 1).floorDiv(x), high = hardware(prefix, 1, y).cast(dtype);
  return { flat: high.mul(x).add(hardware(prefix, 0, int(x)).cast(dtype)), count: x * ceilDiv(most, x) };
}

/** Ranges of one component of stores, innermost first. */
type Ranges = readonly UOp[];

/** Runs of neighboring ranges, a dimension each from `first` to `end` - 1; undefined where they do not fit. */
function dimensionsOf(ranges: Ranges, limits: readonly number[], first: number, end: number): UOp[][] | undefined {
  const out: UOp[][] = [];
  const left = end - first;
  let size = 1;
  ranges.forEach((r, i) => {
    const n = mostOf(countOf(r));
    const last = out[out.length - 1];
    const mustMerge = ranges.length - i > left - out.length;
    if (last !== undefined && mustMerge && size * n <= limits[first + out.length - 1]) {
      last.push(r);
      size *= n;
    } else {
      out.push([r]);
      size = n;
    }
  });
  if (out.length > left) return undefined;
  return out.every((list, d) => mostOf(allOf(list)) <= limits[first + d]) ? out : undefined;
}

class Placer {
  private readonly places = new Map<UOp, UOp>();
  /** By STORE: what must hold for it to be executed. */
  private readonly gates = new Map<UOp, UOp[]>();
  private readonly stores: readonly UOp[];
  private readonly ranges: readonly UOp[];
  private readonly nodes: readonly UOp[];

  constructor(private readonly sink: UOp, private readonly grid: GridCaps, private readonly threads: number) {
    this.nodes = toposort(sink);
    this.stores = sink.src;
    this.ranges = this.nodes.filter((u) => u.op === Ops.RANGE && isThreadKind(kindOf(u))).sort(compareLoops).reverse();
    for (const s of this.stores) this.gates.set(s, []);
  }

  /** Ranges of a kind that STOREs depend on, innermost first, by component: stores that share some, with those. */
  private components(kinds: readonly AxisKind[], skip: ReadonlySet<UOp>): { stores: UOp[]; ranges: UOp[] }[] {
    const out: { stores: UOp[]; ranges: Set<UOp> }[] = [];
    for (const s of this.stores) {
      const mine = rangesOf(s).filter((r) => kinds.includes(kindOf(r)) && !skip.has(r));
      const joined = out.filter((c) => mine.some((r) => c.ranges.has(r)));
      const made = { stores: [s], ranges: new Set(mine) };
      for (const c of joined) {
        made.stores.unshift(...c.stores);
        for (const r of c.ranges) made.ranges.add(r);
        out.splice(out.indexOf(c), 1);
      }
      out.push(made);
    }
    return out.map(({ stores, ranges }) => ({ stores, ranges: this.ranges.filter((r) => ranges.has(r)) }));
  }

  private put(range: UOp, value: UOp): void {
    this.places.set(range, value.dtype === range.dtype ? value : value.cast(range.dtype));
  }

  /** Places the ranges of all components in dimensions from `first` to `end` - 1; gives their sizes. */
  private place(
    prefix: "gidx" | "lidx",
    kinds: readonly AxisKind[],
    skip: ReadonlySet<UOp>,
    first: number,
    end = 3,
  ): number[] {
    const limits = prefix === "gidx" ? this.grid.maxGroups : this.grid.maxGroupSize;
    const all = this.components(kinds, skip);
    const parts = all.filter((c) => c.ranges.length > 0);
    const used: number[] = [];
    if (parts.length === 1) {
      const dims = dimensionsOf(parts[0].ranges, limits, first, end);
      if (dims !== undefined) {
        dims.forEach((list, d) => {
          const all = allOf(list), at = hardware(prefix, first + d, counted(all));
          used.push(mostOf(all));
          if (list.length === 1) this.put(list[0], at);
          else digits(at, list).forEach((v, i) => this.put(list[i], v));
        });
      } else this.placeFlat(prefix, parts, limits, first, used);
    } else if (parts.length > 1) this.placeFlat(prefix, parts, limits, first, used);
    // a STORE without some of the ranges is for the first index of those
    for (const c of all) {
      for (const s of c.stores) {
        const own = rangesOf(s);
        const others = parts.length === 0 ? [] : c.ranges.length > 0 ? c.ranges : parts[0].ranges;
        for (const r of others) if (!own.includes(r)) this.gates.get(s)!.push(this.places.get(r)!.eq(0));
      }
    }
    return used;
  }

  /** All ranges of a component as digits of one number; each component of its own. */
  private placeFlat(
    prefix: "gidx" | "lidx",
    parts: readonly { stores: UOp[]; ranges: UOp[] }[],
    limits: readonly number[],
    first: number,
    used: number[],
  ): void {
    const totals = parts.map((c) => allOf(c.ranges)), largest = totals.reduce(larger);
    let flat: UOp, count: Count;
    if (first > 0) {
      flat = hardware(prefix, first, counted(largest));
      count = largest;
    } else ({ flat, count } = flatIndex(prefix, largest, limits));
    used.push(mostOf(count));
    parts.forEach((c, i) => {
      const total = totals[i];
      let mine = flat;
      if (total !== count && !(typeof total === "number" && typeof count === "number" && total >= count)) {
        const inside = flat.lt(typeof total === "number" ? total : total.cast(flat.dtype));
        for (const s of c.stores) this.gates.get(s)!.push(inside);
        // what is outside reads what the last one reads, or where their number is not known, the first
        mine = inside.where(flat, typeof total === "number" ? flat.constLike(total - 1) : flat.constLike(0));
      }
      digits(mine, c.ranges).forEach((v, k) => this.put(c.ranges[k], v));
    });
  }

  /** The threads of a group that does phases have the same numbers in each of them. */
  private placePhases(): Placement {
    const thread = hardware("lidx", 0, int(this.threads));
    this.place("gidx", [AxisKind.GLOBAL], new Set(), 0);
    for (const r of this.ranges) if (kindOf(r) === AxisKind.LOCAL) this.put(r, thread);
    return { sink: this.gated(), places: this.places, warp: 1 };
  }

  run(): Placement {
    if (this.threads > 0) return this.placePhases();
    const reduces = this.nodes.filter((u) => u.op === Ops.REDUCE && ownRanges(u).some((r) => isGroup(r)));
    const groups = this.ranges.filter(isGroup);
    const size = groups.length === 0 ? 1 : groups[0].src[0].value;
    if (groups.some((r) => r.src[0].value !== size)) {
      throw new SpecError("Reductions shared by different numbers of threads");
    }
    // threads of a reduction go on with the loops after it
    const after = new Set<UOp>(), fills = new Set<UOp>();
    for (const u of this.nodes) {
      if (u.op !== Ops.STAGE || argOf(u, Ops.STAGE).scope !== "shared") continue;
      for (const r of u.src.slice(1)) if (r.op === Ops.RANGE && kindOf(r) === AxisKind.LOCAL) fills.add(r);
    }
    if (size > 1) {
      for (const r of this.ranges) {
        if (kindOf(r) === AxisKind.LOCAL && !fills.has(r) && !reduces.some((u) => rangesOf(u).includes(r))) {
          after.add(r);
        }
      }
    }
    this.place("gidx", [AxisKind.GLOBAL], new Set(), 0);
    const isApart = size > 1 && this.readsNeighbors(reduces);
    const skip = new Set([...after, ...fills]);
    const dims = this.place(
      "lidx",
      [AxisKind.LOCAL, AxisKind.WARP],
      skip,
      size > 1 && !isApart ? 1 : 0,
      isApart ? 2 : 3,
    );
    const own = size > 1 ? hardware("lidx", isApart ? dims.length : 0, int(size)) : undefined;
    if (own !== undefined) {
      for (const r of groups) this.put(r, own);
      for (const s of this.stores) {
        const mine = this.ranges.filter((r) => after.has(r) && rangesOf(s).includes(r));
        const n = allOf(mine);
        if (typeof n !== "number") throw new SpecError("Threads of variable number");
        // opts that count on what indices depend on before they are simplified
        if (n > size) {
          throw new ArgumentError("place threads", {
            reason: `${n} threads go on after a reduction that ${size} threads share`,
          });
        }
        // what only some threads go on with, but all reduce for themselves, stays inside for the others
        const isReduced = n < size &&
          this.nodes.some((u) => u.op === Ops.REDUCE && rangesOf(u).some((r) => after.has(r)));
        const at = isReduced ? own.lt(n).where(own, own.constLike(n - 1)) : own;
        digits(at, mine).forEach((v, i) => this.put(mine[i], v));
        if (n < size) this.gates.get(s)!.push(n === 1 ? own.eq(0) : own.lt(n));
      }
    }
    const all = size === 1 ? dims : isApart ? [...dims, size] : [size, ...dims];
    this.placeFills(fills, all);
    return { sink: this.gated(), places: this.places, warp: isApart ? 1 : this.grid.warp };
  }

  /** Do neighbors along a LOCAL range around a shared reduction read neighboring elements, and its own threads do not? */
  private readsNeighbors(reduces: readonly UOp[]): boolean {
    const [u] = reduces;
    const around = rangesOf(u).filter((r) => kindOf(r) === AxisKind.LOCAL);
    const least = (ranges: readonly UOp[], at: UOp): number =>
      Math.min(...ranges.map((r) => Math.abs(stepAlong(at, r)) || Infinity));
    const own = u.src.filter(isGroup);
    for (const x of toposort(u)) {
      if (x.op !== Ops.LOAD || x.src[0].src[0].op !== Ops.PARAM) continue;
      const at = x.src[0].src[1], threads = least(own, at);
      if (threads < Infinity && least(around, at) < threads) return true;
    }
    return false;
  }

  /** The threads that fill a STAGE are all of the group, in order. */
  private placeFills(fills: ReadonlySet<UOp>, dims: readonly number[]): void {
    if (fills.size === 0) return;
    const threads = prod(dims);
    let flat: UOp = int(0), stride = 1;
    dims.forEach((n, d) => {
      const at = hardware("lidx", d, int(n));
      const term = stride === 1 ? at : at.mul(stride);
      flat = flat.isConst(0) ? term : term.isConst(0) ? flat : term.add(flat);
      stride *= n;
    });
    for (const r of fills) {
      if (r.src[0].value !== threads) {
        throw new ArgumentError("place threads", {
          reason: "a STAGE is filled by another number of threads than there are",
        });
      }
      this.put(r, flat);
    }
  }

  private gated(): UOp {
    let changed = false;
    const stores = this.stores.map((s) => {
      const gates = this.gates.get(s)!;
      if (gates.length === 0) return s;
      changed = true;
      const at = s.src[0];
      let gate = at.src[2] as UOp | undefined;
      for (const g of gates) gate = gate === undefined ? g : gate.and(g);
      return s.withSrc([index(at.src[0], at.src[1], gate), s.src[1]]);
    });
    return changed ? this.sink.withSrc(stores) : this.sink;
  }
}

/**
 * Finds the place of every range of threads and groups, and gates what not all of them store.
 * @param threads of a group that does several phases
 */
export function placeThreads(sink: UOp, caps: Capabilities, threads = 0): Placement {
  return new Placer(sink, caps.grid!, threads).run();
}
