/**
 * What one access of a kernel asks of a grid's memory under a plan (grid_plan.ts): how many accesses of how many elements a
 * thread makes for its copies, which sectors a warp touches at once, what a group touches in all and in which pieces. Numbers
 * for the model of grid_model.ts.
 *
 * @module
 */
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import type { Access, Region } from "./access.ts";
import type { PlanAxis } from "./grid_plan.ts";

/** Bytes that caches exchange at least, and that they find at once. */
export const SECTOR = 32;
const LINE = 128;
/** Lanes that access memory together. */
const WARP = 32;
/** Copies of a body, at most, whose accesses are looked at one by one. */
const MOST_COPIES = 256;
/** Sectors at both ends of a piece that others touch too, and what such a sector costs to store. */
const SHARED_ENDS = 0.5, STORED_IN_PART = 12;
/** How much longer pieces of one sector take than long ones. */
const SHORT_PIECE = 0.4;

/** Accesses of one thread for its copies of a body. */
export interface ThreadAccess {
  /** Elements of an access. */
  readonly width: number;
  readonly count: number;
  /** Elements of all, each once. */
  readonly elements: number;
}

/** What a warp touches at once. */
export interface WarpRequest {
  readonly sectors: number;
  /** Clocks that the first-level cache takes for it. */
  readonly clocks: number;
}

/** A digit of the number of a thread: which axis (-1 for none), how many, how far apart in iterations. */
export interface Digit {
  readonly axis: number;
  readonly size: number;
  readonly stride: number;
}

const ONE: ThreadAccess = { width: 1, count: 1, elements: 1 };

/** A number for a list of whole numbers, from that of the list before and one more; no step of it is rounded. */
function keyOf(key: number, n: number): number {
  return (key * 1000003 + n % 4294967291 * 7919 + 12345) % 4294967291;
}

/** The value of an index where `range` has a value and others 0; NaN where it is loaded. Each node is looked at once. */
function valueAt(index: UOp, range: UOp, value: number): number {
  const values = new Map<UOp, number>();
  for (const u of toposort(index, (v) => v.op !== Ops.LOAD)) values.set(u, valueOf(u, values, u === range ? value : 0));
  return values.get(index)!;
}

/** The value of one node from those of its sources. */
function valueOf(u: UOp, values: ReadonlyMap<UOp, number>, position: number): number {
  const { op, src } = u;
  if (op === Ops.RANGE) return position;
  if (op === Ops.CONST) return Number(u.value);
  if (op === Ops.CAST) return values.get(src[0])!;
  if (src.length !== 2) return NaN;
  const a = values.get(src[0])!, b = values.get(src[1])!;
  switch (op) {
    case Ops.ADD:
      return a + b;
    case Ops.MUL:
      return a * b;
    case Ops.FLOORDIV:
      return Math.floor(a / b);
    case Ops.FLOORMOD:
      return a - b * Math.floor(a / b);
    default:
      return NaN;
  }
}

/** How far an access moves from the first iteration of an axis to the second; NaN where its index is loaded. */
export function stepOf({ node }: Access, range: UOp): number {
  const index = node.src[0].src[1];
  return valueAt(index, range, 1) - valueAt(index, range, 0);
}

/** One access of a kernel. Axes by their position in the plan. */
export class AccessTraffic {
  readonly isStore: boolean;
  readonly itemsize: number;
  readonly depends: readonly boolean[];
  readonly isGated: boolean;
  /** Elements from one iteration to the next; the first two where they differ, NaN where it is loaded. */
  readonly strides: readonly number[];
  /** The buffer, and its bytes. */
  readonly base: UOp;
  readonly nbytes: number;
  /** Bytes of what all groups touch. */
  readonly whole: number;
  /** The axis along which elements lie side by side; -1 for none. */
  private readonly fast: number;
  /** Axes of the region that it depends on, the smallest step first; those without a constant one last. */
  private readonly order: readonly number[];
  /** By axis: iterations that its stride holds for. What follows lies elsewhere, where axes were merged. */
  private readonly inner: readonly number[];
  private readonly copies = new Map<number, ThreadAccess>();
  private readonly requests = new Map<number, WarpRequest>();
  private readonly offset: number;

  constructor(
    a: Access,
    r: Region,
    ranges: readonly UOp[],
    sizes: readonly number[],
    private readonly vectorBytes: number,
    inner: readonly number[],
  ) {
    this.inner = a.strides.map((s, i) => s === s ? Infinity : inner[i]);
    this.isStore = a.isStore;
    this.itemsize = a.dtype.itemsize;
    this.depends = a.depends.map((d, i) => d && r.axes[i]);
    this.isGated = a.gated.includes(true);
    this.strides = a.strides.map((s, i) => s === s ? s : stepOf(a, ranges[i]));
    this.offset = a.offset;
    this.base = a.node.src[0].src[0];
    this.nbytes = this.base.op === Ops.PARAM ? argOf(this.base, Ops.PARAM).size * this.itemsize : Infinity;
    const key = (i: number): number => Math.abs(this.strides[i]) || Infinity;
    this.order = sizes.map((_, i) => i).filter((i) => this.depends[i]).sort((i, j) => key(i) < key(j) ? -1 : 1);
    this.fast = this.strides.findIndex((s, i) => s === 1 && r.axes[i]);
    this.whole = this.uniqueBytes(sizes);
  }

  /** Axes along which its index has quotients. */
  get brokenAxes(): number {
    return this.inner.reduce((n, k) => k < Infinity ? n + 1 : n, 0);
  }

  /** How many accesses of how many elements a thread makes for its copies: neighbors are one, and equal ones too. */
  ofThread(axes: readonly PlanAxis[]): ThreadAccess {
    const { strides, depends } = this;
    let own = 1, most = Math.min(this.vectorBytes / this.itemsize, 8), key = 0;
    for (let i = 0; i < axes.length; i++) {
      if (!depends[i]) continue;
      const { copies, pieces, size } = axes[i], s = strides[i];
      own *= copies;
      for (let k = 0; k < pieces.length && copies > 1; k++) {
        if (!pieces[k].isThread) key = keyOf(keyOf(key, pieces[k].size), s === s ? s * pieces[k].stride : -1);
      }
      if (copies >= size) continue;
      // where all threads and iterations begin
      const first = pieces.length > 0 && !pieces[0].isThread ? pieces[0].size : 1;
      while (most > 1 && !(s * first % most === 0)) most /= 2;
    }
    if (own === 1) return ONE;
    if (own > MOST_COPIES) return { width: 1, count: own, elements: own };
    while (most > 1 && this.offset % most !== 0) most /= 2;
    key = keyOf(key, most);
    let made = this.copies.get(key);
    if (made === undefined) this.copies.set(key, made = this.copiesOf(axes, own, most));
    return made;
  }

  private copiesOf(axes: readonly PlanAxis[], own: number, most: number): ThreadAccess {
    let offsets = [0];
    for (let i = 0; i < axes.length; i++) {
      if (!this.depends[i] || axes[i].copies === 1) continue;
      const s = this.strides[i];
      if (s !== s) return { width: 1, count: own, elements: own };
      for (const p of axes[i].pieces) {
        if (p.isThread) continue;
        const next: number[] = [];
        for (let k = 0; k < p.size; k++) for (const o of offsets) next.push(o + k * p.stride * s);
        offsets = next;
      }
    }
    const all = new Set(offsets), blocks = new Map<number, number>();
    for (const o of all) {
      const block = Math.floor(o / most);
      blocks.set(block, (blocks.get(block) ?? 0) + 1);
    }
    let count = 0;
    for (const n of blocks.values()) count += n === most ? 1 : Math.min(n, 2);
    return { width: 2 ** Math.round(Math.log2(Math.max(1, all.size / count))), count, elements: all.size };
  }

  /** What a warp touches at once, whose threads have these digits, the fastest first. */
  ofWarp(digits: readonly Digit[], width: number): WarpRequest {
    let key = width, seen = 1;
    for (let d = 0; d < digits.length && seen < WARP; d++) {
      const { axis, size, stride } = digits[d], s = axis < 0 ? 0 : this.strides[axis];
      seen *= size;
      key = keyOf(keyOf(key, size), s === s ? s * stride : -stride);
    }
    let made = this.requests.get(key);
    if (made === undefined) this.requests.set(key, made = this.requestOf(digits, width));
    return made;
  }

  private requestOf(digits: readonly Digit[], width: number): WarpRequest {
    const { itemsize } = this, bytes = width * itemsize, least = bytes * WARP / LINE;
    const [first] = digits;
    if (first !== undefined && first.size >= WARP) {
      // all along one axis, whose threads are so far apart
      const s = first.axis < 0 ? 0 : this.strides[first.axis],
        step = s === s ? Math.abs(s) * first.stride * itemsize : LINE;
      const of = (piece: number): number =>
        step < piece ? Math.ceil((step * (WARP - 1) + bytes) / piece) : WARP * Math.ceil(bytes / piece);
      return { sectors: of(SECTOR), clocks: Math.max(of(LINE) / 2, least) };
    }
    const sectors = new Set<number>(), lines = new Set<number>();
    for (let lane = 0; lane < WARP; lane++) {
      let left = lane, at = 0;
      for (const { axis, size, stride } of digits) {
        const k = left % size, s = axis < 0 ? 0 : this.strides[axis];
        left = (left - k) / size;
        // a loaded index is somewhere else
        at += k * stride * (s === s ? s : 4099);
      }
      if (left > 0) break;
      const first = Math.floor(at * itemsize / SECTOR), last = Math.floor(((at + width) * itemsize - 1) / SECTOR);
      for (let x = first; x <= last; x++) {
        sectors.add(x);
        lines.add(Math.floor(x * SECTOR / LINE));
      }
    }
    return { sectors: sectors.size, clocks: Math.max(lines.size / 2, least) };
  }

  /** Bytes in whole sectors of what is touched, by so many iterations of each axis. */
  uniqueBytes(counts: readonly number[]): number {
    const { itemsize } = this;
    // from the smallest step on: elements, from the first to the last of them, and how many of those are side by side
    let n = 1, span = 1, run = 0, gap = SECTOR, apart = 1;
    for (const i of this.order) {
      const count = Math.min(counts[i], this.inner[i]), step = Math.abs(this.strides[i]);
      apart *= Math.ceil(counts[i] / count);
      if (count === 1) continue;
      if (run === 0 && !(step <= span && n === span)) {
        run = n;
        gap = step > 0 ? step : SECTOR;
      }
      if (!(step > 0)) n *= count;
      else {
        span += step * (count - 1);
        n = Math.min(n * count, span);
      }
    }
    const row = (run === 0 ? n : run) * itemsize, sector = Math.min(SECTOR, Math.max(gap * itemsize, row));
    const each = Math.max(1, (run === 0 ? SECTOR / 2 : sector) / row);
    return Math.min(n * itemsize * each * apart, Math.max(SECTOR, this.nbytes));
  }

  /** How much longer memory takes for the pieces that a group touches than for long ones. */
  pieceCost(counts: readonly number[], sizes: readonly number[]): number {
    const { fast, itemsize, strides } = this;
    if (fast < 0) return 1;
    let run = Math.min(counts[fast], this.inner[fast]);
    if (run >= Math.min(sizes[fast], this.inner[fast])) {
      // whole rows: those behind each other are one piece
      for (const j of this.order) if (j !== fast && Math.abs(strides[j]) <= run) run *= counts[j];
    }
    const bytes = run * itemsize;
    const short = Math.max(1, SECTOR / bytes) * (1 + SHORT_PIECE * (SECTOR / Math.max(SECTOR, bytes)) ** 2);
    for (let j = 0; j < strides.length; j++) {
      const s = Math.abs(strides[j]);
      if (j === fast || !(s >= run && s * itemsize % SECTOR > 0)) continue;
      return short * (1 + (this.isStore ? STORED_IN_PART : SHARED_ENDS) * SECTOR / Math.max(SECTOR, bytes));
    }
    return short;
  }
}
