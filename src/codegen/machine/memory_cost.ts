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
import { cacheShare, type Capabilities } from "../../renderer/renderer.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import type { Access, Region } from "./access.ts";

/** Bytes of a line. */
const LINE = 64;
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

/** A loop around a tile: iterations, and elements of its axis from one to the next. */
export interface Loop {
  readonly axis: number;
  readonly count: number;
  readonly step: number;
}

/** The bytes that some inner loops touch: rows of `run` bytes at the strides of `rows`. */
class Footprint {
  run = 0;
  readonly strides: number[] = [];
  readonly counts: number[] = [];

  start(nbytes: number): void {
    this.run = nbytes;
    this.strides.length = this.counts.length = 0;
  }

  /** A loop of `count` iterations that are `stride` bytes apart. */
  add(stride: number, count: number): void {
    if (stride === 0 || count <= 1) return;
    const { strides, counts } = this;
    if (stride <= Math.max(this.run, LINE)) {
      this.run += stride * (count - 1);
      for (let k = 0; k < strides.length; k++) {
        if (strides[k] > this.run) continue;
        this.run = Math.max(this.run, strides[k] * (counts[k] - 1) + this.run);
        strides.splice(k, 1);
        counts.splice(k--, 1);
      }
      return;
    }
    for (let k = 0; k < strides.length; k++) {
      if (stride < strides[k] || stride > strides[k] * counts[k] || stride % strides[k] !== 0) continue;
      counts[k] += stride / strides[k] * (count - 1);
      return;
    }
    strides.push(stride);
    counts.push(count);
  }

  get lines(): number {
    let n = Math.max(1, this.run / LINE);
    for (let k = 0; k < this.counts.length; k++) n *= this.counts[k];
    return n;
  }

  /** Bytes of a cache with so many sets that it takes. */
  bytes(sets: number, ways: number): number {
    const n = this.lines;
    let used = sets;
    for (let k = 0; k < this.strides.length; k++) {
      const s = this.strides[k] / LINE;
      if (!Number.isInteger(s)) continue;
      const places = sets / gcd(s, sets);
      if (this.counts[k] > places) used = Math.min(used, places * Math.max(1, this.run / LINE));
    }
    return n * LINE * (n > used * ways ? sets / used : 1);
  }

  /** What the begin of a run adds. */
  jumpOf(cost: LineCost): number {
    let most = 0;
    for (const s of this.strides) {
      most = Math.max(most, s % PAGE === 0 ? cost.crowded : 2 * s < PAGE ? cost.near : cost.jump);
    }
    return most;
  }
}

function gcd(a: number, b: number): number {
  while (b !== 0) [a, b] = [b, a % b];
  return a;
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
  return { node: r.root, isStore: true, dtype: r.root.dtype, depends: r.axes, strides, offset: 0, gated: none };
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
  /** By region: buffers that a region before it reads or writes, and that region. */
  private readonly known = new Map<Region, ReadonlyMap<UOp, Region>>();
  /** By region: its accesses, with the filling of a STAGE. */
  private readonly accesses = new Map<Region, readonly Access[]>();
  private readonly footprint = new Footprint();

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
      this.known.set(r, new Map(seen));
      for (const a of r.accesses) seen.set(baseOf(a), r);
      this.accesses.set(r, r.kind === "stage" ? [...r.accesses, filling(r, sizes)] : r.accesses);
    }
  }

  /**
   * What a region costs whose body touches `extents` elements along each axis, in these loops, outermost first.
   * @param packed the access that reads a copy instead
   */
  cost(r: Region, extents: readonly number[], loops: readonly Loop[], packed: Packed | undefined): MemoryCost {
    const accesses = this.accesses.get(r)!.map((a) => a === packed?.access ? packed.tile : a),
      n = loops.length,
      known = this.known.get(r)!;
    const levels = n + 1, lines = new Float64Array(levels * accesses.length), runs = new Float64Array(lines.length);
    const first = new Float64Array(levels), second = new Float64Array(levels), last = new Float64Array(levels);
    const jumps: number[][] = [];
    accesses.forEach((a, k) => {
      const f = this.footprint, size = a.dtype.itemsize, isKept = baseOf(a).op === Ops.STAGE || a === packed?.tile;
      const stride = (axis: number): number => {
        const s = a.strides[axis];
        return s !== s ? PAGE + LINE : Math.abs(s) * size;
      };
      // copies of a kernel's own memory lie apart, and loops around it use it again
      const copies = isKept ? extents.reduce((n, k, i) => a.depends[i] && a.strides[i] === 0 ? n * k : n, 1) : 1;
      f.start(size);
      const tiled: number[] = [];
      for (let i = 0; i < extents.length; i++) if (extents[i] > 1 && a.depends[i]) tiled.push(i);
      tiled.sort((i, j) => stride(i) - stride(j));
      for (const i of tiled) f.add(stride(i), extents[i]);
      f.add(APART, copies);
      for (let level = 0;; level++) {
        const at = k * levels + level;
        lines[at] = f.lines;
        runs[at] = f.run;
        first[level] += f.bytes(FIRST_SETS, WAYS[0]);
        second[level] += f.bytes(this.secondSets, WAYS[1]);
        last[level] += lines[at] * LINE;
        // the innermost loop that leaves the run says how far it goes
        if (f.strides.length > 0) jumps[k] ??= [LAST, LAST_STORE, MEMORY].map((cost) => f.jumpOf(cost));
        if (level === n) break;
        const { axis, count, step } = loops[n - 1 - level];
        if (a.depends[axis]) f.add(stride(axis) * step, count);
      }
    });
    // the most inner loops whose data a cache holds
    const held = (bytes: Float64Array, share: number): number => {
      let level = 0;
      while (level < n && bytes[level + 1] <= share) level++;
      return level;
    };
    const one = held(first, this.first), two = held(second, this.second), three = held(last, LAST_BYTES * LAST_SHARE);
    let stream = 0, jumped = 0;
    accesses.forEach((a, k) => {
      const fetches = (level: number): number => {
        let times = lines[k * levels + Math.min(n, level + 1)];
        for (let j = level + 1; j < n; j++) times *= loops[n - 1 - j].count;
        return times;
      };
      // loops that a region before does not share read again what it has just fetched
      const base = baseOf(a), before = known.get(base);
      const isShared = ({ axis }: Loop): boolean => before!.axes[axis] && !before!.own.includes(axis);
      const inner = before === undefined ? Infinity : n - loops.filter(isShared).length;
      if (one < inner) stream += fetches(one) * SECOND_LINE;
      if (base.op !== Ops.PARAM || a === packed?.tile || !this.isFar || two >= inner) return;
      const run = (level: number): number => runs[k * levels + Math.min(n, level)] / LINE;
      const length = Math.max(1, Math.min(run(two + 1), STREAMS * Math.max(1, run(one + 1))));
      const far = fetches(two), farther = this.isFarther ? Math.min(far, fetches(three)) : 0;
      stream += farther * MEMORY.stream + (far - farther) * LAST.stream;
      if (jumps[k] !== undefined) {
        jumped += (farther * jumps[k][2] + (far - farther) * jumps[k][a.isStore ? 1 : 0]) / length;
      }
    });
    return { stream, jumps: jumped };
  }
}
