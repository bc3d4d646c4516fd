/**
 * What the accesses of a region cost beyond the first cache, in cycles: lines that are fetched, each at the price of where
 * it comes from and of how many lie side by side before the address jumps.
 *
 * The nest of loops is walked from inside: what its inner loops touch stays in a cache as long as it fits there, and is
 * fetched anew by each iteration of the loops outside of that (Low et al. 2016; Li et al., ASPLOS 2021). Rows a power of
 * two apart share few sets of a cache, so fewer of them fit.
 *
 * @module
 */
import { ceilDiv } from "../../helpers/math.ts";
import { cacheShare, type Capabilities } from "../../renderer/renderer.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { type Access, alignmentOf, LINE, type Region } from "./access.ts";

/** Part of a cache that what is read again may take, beside all else that passes through. */
const SHARE = 1 / 2, LAST_SHARE = 1 / 3;
/** Lines that share a set in the first and the second cache, and sets of the first one. */
const WAYS = [12, 16], FIRST_SETS = 64;
/** The last cache, which no device tells; the first and the second where they are not told. */
const LAST_BYTES = 32 << 20, FIRST_BYTES = 1 << 15, SECOND_BYTES = 1 << 19;
/** Runs of lines that hardware follows at once. */
const STREAMS = 8;

/**
 * Cycles a line: in a long run, and what each begin of a run adds, where hardware foresees it (in the same page), where it
 * does not, and in rows a multiple of a page apart.
 */
interface LineCost {
  readonly stream: number;
  readonly near: number;
  readonly jump: number;
  readonly crowded: number;
}
/**
 * By where a line comes from: walks over rows of 16 KB, and of 64 bytes more, on Zen 5 at 4.28 GHz, in runs of 1 to 256
 * lines (0.61 to 2.3 ns a line from the last cache, 1.5 to 9.8 ns from memory); the second cache gives 205 to 270 GB/s.
 */
const SECOND_LINE = 1.2;
const LAST: LineCost = { stream: 2.6, near: 0.3, jump: 7.4, crowded: 7.4 };
const LAST_STORE: LineCost = { stream: 2.6, near: 2.6, jump: 7.4, crowded: 18 };
const MEMORY: LineCost = { stream: 6.4, near: 3, jump: 9, crowded: 36 };
/** Stride whose rows meet in the same sets; rows that are not half of it apart are foreseen. */
const PAGE = 4096;
/** Bytes between copies of a kernel's own memory. */
const APART = 2 ** 40 + LINE;

/** Loops around a tile, outermost first. One is filled anew for each candidate: thousands are asked for. */
export class Nest {
  length = 0;
  readonly axes: number[] = [];
  readonly counts: number[] = [];
  /** Elements of the axis from one iteration to the next. */
  readonly steps: number[] = [];

  clear(): void {
    this.length = 0;
  }

  /** Adds a loop over `size` elements inside of those before; none where that is one iteration. */
  add(axis: number, size: number, step: number): void {
    const count = ceilDiv(size, step), at = this.length;
    if (count <= 1) return;
    this.axes[at] = axis;
    this.counts[at] = count;
    this.steps[at] = step;
    this.length++;
  }
}

/** The bytes that some inner loops touch: rows of `run` bytes at the strides of `rows`. */
class Footprint {
  run = 0;
  rows = 0;
  /** Bytes at multiples of which runs begin. */
  private aligned = LINE;
  private readonly strides: number[] = [];
  private readonly counts: number[] = [];

  start(nbytes: number, aligned: number): void {
    this.run = nbytes;
    this.rows = 0;
    this.aligned = aligned;
  }

  /** A loop of `count` iterations that are `stride` bytes apart; runs with less than a line between them are one. */
  add(stride: number, count: number): void {
    if (stride === 0 || count <= 1) return;
    const { strides, counts, rows } = this;
    if (stride < this.run + LINE) {
      this.run += stride * (count - 1);
      let kept = 0;
      for (let k = 0; k < rows; k++) {
        const s = strides[k], n = counts[k];
        if (s < this.run + LINE) {
          this.run = Math.max(this.run, s * (n - 1) + this.run);
          continue;
        }
        strides[kept] = s;
        counts[kept++] = n;
      }
      this.rows = kept;
      return;
    }
    for (let k = 0; k < rows; k++) {
      if (stride < strides[k] || stride > strides[k] * counts[k] || stride % strides[k] !== 0) continue;
      counts[k] += stride / strides[k] * (count - 1);
      return;
    }
    strides[rows] = stride;
    counts[rows] = count;
    this.rows++;
  }

  /** Lines of its runs: one that begins anywhere has a part of one more. */
  get lines(): number {
    let n = Math.max(1, (this.run + LINE - this.aligned) / LINE);
    for (let k = 0; k < this.rows; k++) n *= this.counts[k];
    return n;
  }

  /** Bytes of a cache with so many sets, a power of two, that its `n` lines take. */
  bytes(n: number, sets: number, ways: number): number {
    if (n <= ways) return n * LINE;
    let used = sets;
    for (let k = 0; k < this.rows; k++) {
      const s = this.strides[k] / LINE;
      if (!Number.isInteger(s)) continue;
      const within = s % sets, places = within === 0 ? 1 : sets / (within & -within);
      if (this.counts[k] > places) used = Math.min(used, places * Math.max(1, this.run / LINE));
    }
    return n * LINE * (n > used * ways ? sets / used : 1);
  }

  /** What the begin of a run adds. */
  jumpOf(cost: LineCost): number {
    let most = 0;
    for (let k = 0; k < this.rows; k++) {
      const s = this.strides[k];
      most = Math.max(most, s % PAGE === 0 ? cost.crowded : 2 * s < PAGE ? cost.near : cost.jump);
    }
    return most;
  }
}

/** What is accessed: a PARAM or STAGE. */
function baseOf({ node }: Access): UOp {
  return node.op === Ops.STAGE ? node : node.src[0].src[0];
}

/** The access that fills a STAGE: its ranges in the order of memory. */
function filling(r: Region, sizes: readonly number[]): Access {
  const strides = sizes.map(() => 0), none = sizes.map(() => false);
  let n = 1;
  for (let k = r.own.length - 1; k >= 0; k--) {
    strides[r.own[k]] = n;
    n *= sizes[r.own[k]];
  }
  const { dtype } = r.root,
    zeros = sizes.map(() => 0),
    place = { strides, offset: 0, periods: zeros, placeWork: zeros };
  return { node: r.root, isStore: true, dtype, depends: r.axes, gated: none, ...place };
}

/** Bytes of all buffers of a kernel that regions access. */
function bytesOf(regions: readonly Region[]): number {
  const seen = new Set<UOp>();
  let sum = 0;
  for (const r of regions) {
    for (const a of r.accesses) {
      const base = baseOf(a);
      if (base.op !== Ops.PARAM || seen.has(base)) continue;
      seen.add(base);
      sum += argOf(base, Ops.PARAM).size * base.dtype.itemsize;
    }
  }
  return sum;
}

/** An access with what no tile changes. */
interface Walk {
  readonly access: Access;
  /** Does it lie in memory of the kernel, of which each copy has its own? */
  readonly isKept: boolean;
  /** Bytes from one iteration of an axis to the next. */
  readonly strides: readonly number[];
  /** The axes that it depends on, by stride. */
  readonly order: readonly number[];
  /** By axis: does a region before share the loop that reads or writes the same? undefined where there is no such region. */
  readonly shared: readonly boolean[] | undefined;
  readonly aligned: number;
}

function walkOf(access: Access, isKept: boolean, before: Region | undefined): Walk {
  const { depends, dtype } = access;
  const strides = access.strides.map((s) => s !== s ? PAGE + LINE : Math.abs(s) * dtype.itemsize);
  const order = depends.flatMap((d, i) => d ? [i] : []).sort((i, j) => strides[i] - strides[j]);
  const shared = before?.axes.map((d, i) => d && !before.own.includes(i));
  return { access, isKept, strides, order, shared, aligned: alignmentOf(access) };
}

/** Cycles of the memory: of lines that follow each other, and of jumps, which arithmetic does not hide. */
export interface MemoryCost {
  readonly stream: number;
  readonly jumps: number;
}

/** A tile of an operand that is copied into memory of the kernel, and where it is read from then. */
export interface Packed {
  readonly access: Access;
  readonly tile: Access;
}

/** The memory of a machine, as the regions of one kernel use it. */
export class MemoryModel {
  private readonly first: number;
  private readonly second: number;
  private readonly secondSets: number;
  /** Where the buffers come from: beyond the second cache, beyond the last one. */
  private readonly isFar: boolean;
  private readonly isFarther: boolean;
  /** By region: its accesses, with the filling of a STAGE. */
  private readonly walks = new Map<Region, readonly Walk[]>();
  /** What `cost` works on, kept from call to call: by access, and by access and level. */
  private readonly footprints: Footprint[] = [];
  private readonly lines: number[] = [];
  private readonly runs: number[] = [];
  private readonly jumps: number[] = [];
  private readonly fartherJumps: number[] = [];

  constructor(regions: readonly Region[], sizes: readonly number[], caps: Capabilities) {
    const second = cacheShare(caps, 1, SECOND_BYTES);
    this.first = (caps.l1 || FIRST_BYTES) * SHARE;
    this.second = second * SHARE;
    this.secondSets = 2 ** Math.round(Math.log2(second / LINE / WAYS[1]));
    const nbytes = bytesOf(regions);
    this.isFar = nbytes > this.second;
    this.isFarther = nbytes > LAST_BYTES * LAST_SHARE;
    const seen = new Map<UOp, Region>();
    // what stands inside comes later in the list, and runs earlier
    for (const r of [...regions].reverse()) {
      const accesses = r.kind === "stage" ? [...r.accesses, filling(r, sizes)] : r.accesses;
      this.walks.set(r, accesses.map((a) => walkOf(a, baseOf(a).op === Ops.STAGE, seen.get(baseOf(a)))));
      for (const a of r.accesses) seen.set(baseOf(a), r);
      while (this.footprints.length < accesses.length) this.footprints.push(new Footprint());
    }
  }

  /**
   * What a region costs whose body touches `extents` elements along each axis, in these loops.
   * @param packed the accesses that read copies instead
   */
  cost(r: Region, extents: readonly number[], nest: Nest, packed: readonly Packed[]): MemoryCost {
    const { lines, runs, jumps, fartherJumps, isFar, isFarther } = this, n = nest.length, levels = n + 1;
    let walks = this.walks.get(r)!;
    for (const { access, tile } of packed) {
      walks = walks.map((w) => w.access === access ? { ...walkOf(tile, true, undefined), shared: w.shared } : w);
    }
    for (let k = 0; k < walks.length; k++) {
      this.begin(k, walks[k], extents);
      jumps[k] = -1;
    }
    // the most inner loops whose data a cache holds: levels beyond the first that none holds are not asked for
    let one = -1, two = isFar ? -1 : 0, three = isFarther ? -1 : 0, level = 0;
    for (;; level++) {
      let first = 0, second = 0, last = 0;
      for (let k = 0; k < walks.length; k++) {
        const f = this.footprints[k], at = k * levels + level, count = f.lines;
        lines[at] = count;
        runs[at] = f.run;
        if (one < 0) first += f.bytes(count, FIRST_SETS, WAYS[0]);
        if (two < 0) second += f.bytes(count, this.secondSets, WAYS[1]);
        last += count * LINE;
        if (isFar) this.noteJump(k, walks[k]);
      }
      if (level > 0) {
        if (one < 0 && first > this.first) one = level - 1;
        if (two < 0 && second > this.second) two = level - 1;
        if (three < 0 && last > LAST_BYTES * LAST_SHARE) three = level - 1;
      }
      if (level === n || (one >= 0 && two >= 0 && three >= 0)) break;
      for (let k = 0; k < walks.length; k++) this.enter(k, walks[k], nest, level);
    }
    if (one < 0) one = n;
    if (two < 0) two = n;
    if (three < 0) three = n;
    let stream = 0, jumped = 0;
    for (let k = 0; k < walks.length; k++) {
      const w = walks[k], { shared } = w, at = k * levels;
      // loops that a region before does not share read again what it has just fetched
      let inner = Infinity;
      if (shared !== undefined) {
        inner = n;
        for (let j = 0; j < n; j++) if (shared[nest.axes[j]]) inner--;
      }
      if (one < inner) stream += fetches(lines, at, one, nest) * SECOND_LINE;
      if (w.isKept || !isFar || two >= inner) continue;
      const within = runs[at + Math.min(n, one + 1)] / LINE, beyond = runs[at + Math.min(n, two + 1)] / LINE;
      const length = Math.max(1, Math.min(beyond, STREAMS * Math.max(1, within)));
      const far = fetches(lines, at, two, nest);
      const farther = isFarther ? Math.min(far, fetches(lines, at, three, nest)) : 0;
      stream += farther * MEMORY.stream + (far - farther) * LAST.stream;
      for (let j = level; j < n && jumps[k] < 0; j++) {
        this.enter(k, w, nest, j);
        this.noteJump(k, w);
      }
      if (jumps[k] >= 0) jumped += (farther * fartherJumps[k] + (far - farther) * jumps[k]) / length;
    }
    return { stream, jumps: jumped };
  }

  /** The bytes of the tile itself. */
  private begin(k: number, { access, isKept, strides, order, aligned }: Walk, extents: readonly number[]): void {
    const f = this.footprints[k];
    f.start(access.dtype.itemsize, aligned);
    for (let i = 0; i < order.length; i++) {
      const axis = order[i];
      if (extents[axis] > 1) f.add(strides[axis], extents[axis]);
    }
    if (!isKept) return;
    // copies of a kernel's own memory lie apart, and loops around it use it again
    let copies = 1;
    for (let i = 0; i < order.length; i++) if (access.strides[order[i]] === 0) copies *= extents[order[i]];
    f.add(APART, copies);
  }

  /** Adds the loop around `level` others. */
  private enter(k: number, { access, strides }: Walk, nest: Nest, level: number): void {
    const at = nest.length - 1 - level, axis = nest.axes[at];
    if (access.depends[axis]) this.footprints[k].add(strides[axis] * nest.steps[at], nest.counts[at]);
  }

  /** The innermost loop that leaves the run says how far it goes. */
  private noteJump(k: number, { access, isKept }: Walk): void {
    const f = this.footprints[k];
    if (isKept || this.jumps[k] >= 0 || f.rows === 0) return;
    this.jumps[k] = f.jumpOf(access.isStore ? LAST_STORE : LAST);
    this.fartherJumps[k] = f.jumpOf(MEMORY);
  }
}

/** Lines that are fetched where a cache holds what `level` inner loops touch; `lines` from `at` on are those of an access. */
function fetches(lines: readonly number[], at: number, level: number, { length, counts }: Nest): number {
  let times = lines[at + Math.min(length, level + 1)];
  for (let j = level + 1; j < length; j++) times *= counts[length - 1 - j];
  return times;
}
