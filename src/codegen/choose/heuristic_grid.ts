/**
 * Chooses opts for devices with a grid of threads, by arithmetic from the device's capabilities. Deterministic.
 *
 * Wide accesses first: the axis with stride 1 gives each thread 16 bytes. Then threads along it, so that a warp touches one
 * piece of memory; then more wide accesses a thread, so that enough bytes are in flight, while there are enough threads to
 * fill the device. Reductions along the axis with stride 1 are shared by neighboring threads, others by threads that each
 * have a column; the axis is that of the operand with most bytes. The same threads share all other reductions of the kernel,
 * and what is stored after them. An operand that several results have in common is read once for them, windows that overlap
 * too. A sum over several short axes becomes one over their product, so that there is enough to share. Transposed
 * copies have wide accesses on both sides. Rows that are read again after they were reduced stay in registers: their loops
 * are unrolled alike, and equal loads are one. Products of matrices have a file of their own, tile_candidates.ts.
 *
 * @module
 */
import { ceilDiv } from "../../helpers/math.ts";
import type { Capabilities, GridCaps, Renderer } from "../../renderer/renderer.ts";
import { AxisKind } from "../../uop/core/args.ts";
import { carrierOf } from "../../uop/core/carrier.ts";
import { type Access, type Region, regionsOf, wideAlong } from "../machine/access.ts";
import type { Axis } from "../opt/axis.ts";
import { applyMerges, type Kernel } from "../opt/kernel.ts";
import type { AxisOpt } from "../opt/opt.ts";
import { tileChain } from "./heuristic_chain.ts";
import { tileProduct } from "./tile_candidates.ts";

/** Threads of a group without reductions: 8 warps; every device has groups of so many, and 6 to 8 of them fill a unit. */
const GROUP_THREADS = 256;
/** Threads of a group where nothing is chosen: a warp or two of any device. */
const FEW_THREADS = 64;
/** Bytes that one thread should have on their way: with 2048 threads 128 KB a unit, which is well above latency times bandwidth. */
const BYTES_IN_FLIGHT = 64;
/** Elements of a row that a thread keeps in registers, at most: of the 255 that it may have most are for other things. */
const ROW_ELEMENTS = 32;
/** Elements of a row that a thread should have at least: two wide accesses of float32. */
const LEAST_ELEMENTS = 8;
/** Threads of the device for each row from which a thread has a row of its own where reductions are nested. */
const NESTED_SHARE = 4;
/** Results for which a thread reads an operand once, at most. */
const MOST_REUSED = 8;
/** Windows of one thread that overlap, at most. */
const REUSED_WINDOWS = 4;
/** Groups for each unit of the device that should be left where threads do more each: so many hide the latency of reads. */
const GROUPS_A_UNIT = 4;
/** Copies of a body, at most: more do not fit registers, and are slow to compile. */
const MOST_COPIES = 64;

/** Without opts: a thread for each output element, in groups of a few. */
export function spread(kernel: Kernel, caps: Capabilities): void {
  const { outputAxes } = kernel;
  for (let i = outputAxes.length - 1; i >= 0; i--) {
    const { size } = outputAxes[i];
    if (size < 2 || !kernel.isParallel(i)) continue;
    const threads = Math.min(size, FEW_THREADS, caps.grid!.maxGroupSize[0], caps.grid!.maxGroupThreads);
    kernel.apply({ op: "LOCAL", axis: i, arg: threads });
    return;
  }
}

function powerBelow(n: number): number {
  return 2 ** Math.floor(Math.log2(Math.max(1, n)));
}

/** Does a reduction take several elements at once? */
function isJoined({ root }: Region): boolean {
  return carrierOf(root).join !== undefined;
}

class GridChooser {
  private readonly axes: readonly Axis[];
  private readonly outputs: number;
  private readonly regions: readonly Region[];
  private readonly grid: GridCaps;
  private readonly sizes: number[];

  constructor(private readonly kernel: Kernel, private readonly caps: Capabilities) {
    this.axes = kernel.axes;
    this.outputs = kernel.outputAxes.length;
    this.regions = regionsOf(kernel.ast, this.axes).regions;
    this.grid = caps.grid!;
    this.sizes = this.axes.map((a) => a.size === 0 ? 16 : a.size);
  }

  /** Threads that the device holds at once. */
  private get resident(): number {
    return this.grid.units * this.grid.unitThreads;
  }
  /** Positions of the output axes of which `test` holds. */
  private outputsWhere(test: (axis: number) => boolean): number[] {
    return this.axes.slice(0, this.outputs).map((_, i) => i).filter(test);
  }
  /** Iterations of axes together. */
  private lengthOf(axes: readonly number[]): number {
    return axes.reduce((n, i) => n * this.sizes[i], 1);
  }
  /** The longest of axes, the first of several. */
  private longestOf(axes: readonly number[]): number {
    return axes.toSorted((a, b) => this.sizes[b] - this.sizes[a])[0];
  }
  private get most(): number {
    return Math.min(this.grid.maxGroupThreads, this.grid.maxGroupSize[0]);
  }

  /** Bytes that an access touches in all. */
  private bytesOf({ dtype, depends }: Access): number {
    return this.sizes.reduce((n, s, i) => depends[i] ? n * s : n, dtype.itemsize);
  }

  /** The axis along which most bytes are touched with stride 1; -1 where there is none. */
  private fastAxis(regions: readonly Region[], axes: readonly number[]): number {
    let best = -1, most = 0;
    for (const i of axes) {
      let bytes = 0;
      for (const r of regions) {
        for (const a of r.accesses) {
          if (!r.axes[i] || a.strides[i] !== 1) continue;
          bytes += this.bytesOf(a) * (a.isStore ? 1.5 : 1);
        }
      }
      if (bytes > most || (bytes === most && bytes > 0 && this.sizes[i] > this.sizes[best])) [best, most] = [i, bytes];
    }
    return best;
  }

  /** Elements of an axis that make accesses of up to 16 bytes, all of them aligned. */
  private width(axis: number, regions: readonly Region[]): number {
    return wideAlong(axis, this.sizes[axis], regions, this.caps.vectorBytes);
  }

  // ---- kernels without long reductions

  private elementwise(): void {
    const { kernel } = this;
    const parallel = this.outputsWhere((i) => kernel.isParallel(i));
    if (parallel.length === 0) return;
    let fast = this.fastAxis(this.regions, parallel);
    if (fast < 0) fast = parallel[parallel.length - 1];
    const total = this.lengthOf(parallel);
    const body = this.regions.reduce((n, r) => n + (r.axes[fast] ? r.work + r.accesses.length : 0), 0);
    const reads = this.regions.reduce(
      (n, r) => n + r.accesses.reduce((m, a) => m + (a.isStore || !a.depends[fast] ? 0 : a.dtype.itemsize), 0),
      0,
    );
    const isWhole = this.axes[fast].size > 0 && kernel.axes[fast].pieces.length === 0;
    let width = isWhole ? this.width(fast, this.regions) : 1;
    while (width > 1 && (total / width < this.resident / 2 || width * body > 4 * MOST_COPIES)) width /= 2;
    if (width > 1) kernel.apply({ op: "UPCAST", axis: fast, arg: width });
    let left = Math.min(GROUP_THREADS, this.most);
    const across = width > 1 ? this.acrossAxis(fast, width * body, parallel) : -1;
    const order = [
      fast,
      ...across < 0 ? [] : [across],
      ...parallel.filter((i) => i !== fast && i !== across).reverse(),
    ];
    for (const i of order) {
      if (across >= 0 && i === fast) {
        // of a transposed copy both sides are pieces of 128 bytes
        const k = powerBelow(Math.min(8, kernel.axes[i].rest));
        if (k > 1) kernel.apply({ op: "LOCAL", axis: i, arg: k });
        left = Math.floor(left / k);
        continue;
      }
      const n = kernel.axes[i].rest;
      if (left < 2 || n < 2 || this.axes[i].size === 0) continue;
      const k = n <= left ? n : i === fast || n > 4 * left ? left : powerBelow(left);
      if (k < 2) continue;
      kernel.apply({ op: "LOCAL", axis: i, arg: k });
      left = Math.floor(left / k);
    }
    // more of the same a thread, where plenty remain
    const copies = Math.min(4, powerBelow(BYTES_IN_FLIGHT / Math.max(4, reads * width)));
    const rest = kernel.axes[fast].rest;
    for (let k = across < 0 ? copies : 1; k > 1; k /= 2) {
      if (rest % k !== 0 || total / width / k < 4 * this.resident || k * width * body > 4 * MOST_COPIES) continue;
      if (this.axes[fast].size === 0) break;
      kernel.apply({ op: "UPCAST", axis: fast, arg: k });
      break;
    }
  }

  /** Cuts wide pieces off the axis along which a copy reads what it stores along `fast`; -1 where there is none. */
  private acrossAxis(fast: number, work: number, parallel: readonly number[]): number {
    const loads = this.regions.flatMap((r) => r.accesses.filter((a) => !a.isStore));
    const across = parallel.find((i) =>
      i !== fast && loads.some((a) => a.strides[i] === 1 && a.depends[fast] && a.strides[fast] !== 1)
    );
    if (across === undefined || this.axes[across].size === 0) return -1;
    const width = this.width(across, this.regions);
    if (width < 2 || width * work > 4 * MOST_COPIES) return -1;
    this.kernel.apply({ op: "UPCAST", axis: across, arg: width });
    return across;
  }

  // ---- reductions

  /** The reduction that reads most. */
  private mainReduce(): Region | undefined {
    let main: Region | undefined, most = 0;
    for (const r of this.regions) {
      if (r.kind !== "reduce" || r.accesses.length === 0) continue;
      const n = this.sizes.reduce((p, s, i) => r.axes[i] ? p * s : p, r.accesses.length);
      if (n > most) [main, most] = [r, n];
    }
    return main;
  }

  private reduction(main: Region): void {
    const { outputs } = this;
    if (main.own.some((i) => this.axes[i].size === 0)) return this.elementwise();
    const length = this.lengthOf(main.own);
    const rows = this.sizes.reduce((n, s, i) => i < outputs && main.axes[i] ? n * s : n, 1);
    const around = this.outputsWhere((i) => main.axes[i]);
    const isNested = main.axes.some((here, i) => here && i >= outputs && !main.own.includes(i));
    if (isNested && rows < this.resident / NESTED_SHARE) return this.nestedReduce(main);
    if (!isNested) this.unrollWindows(main, rows, length, around);
    if (isNested || length < LEAST_ELEMENTS || this.grid.maxGroupThreads < 32) return this.elementwise();
    const fast = this.fastAxis([main], [...around, ...main.own]);
    if (fast >= 0 && main.own.includes(fast)) {
      if (this.mergedReduce(main, fast, rows, length)) return;
      this.rowReduce(main, fast, rows / this.reuse(main, fast, rows, around), around);
    } else if (rows >= 2 * this.resident || fast < 0) this.elementwise();
    else this.columnReduce(main, fast, rows / this.reuse(main, fast, rows, around), length);
  }

  /**
   * Short windows that overlap: the loops over one are unrolled, and a thread has several results side by side, so that it
   * reads once what they share.
   */
  private unrollWindows(main: Region, rows: number, length: number, around: readonly number[]): void {
    const { kernel, outputs } = this;
    const meets = (a: Access, i: number, j: number): boolean =>
      a.strides[i] > 0 && a.strides[i] % a.strides[j] === 0 && a.strides[i] < a.strides[j] * this.sizes[j];
    const overlaps = (i: number) => main.accesses.some((a) => main.own.some((j) => meets(a, i, j)));
    const axis = around.find((i) => overlaps(i) && main.accesses.every((a) => a.strides[i] !== 1));
    if (axis === undefined || this.axes[axis].size === 0 || !kernel.isParallel(axis)) return;
    for (let k = REUSED_WINDOWS; k > 1; k--) {
      if (this.sizes[axis] % k !== 0 || k * length > MOST_COPIES || rows / k < this.resident) continue;
      for (const j of main.own) {
        if (this.sizes[j] > 1) kernel.apply({ op: "UNROLL", axis: j - outputs, arg: this.sizes[j] });
      }
      kernel.apply({ op: "UPCAST", axis, arg: k });
      return;
    }
  }

  /** What is read most is read once for several results that it is the same for; gives how many. */
  private reuse(main: Region, fast: number, rows: number, around: readonly number[]): number {
    const { kernel, sizes, grid } = this, loads = main.accesses.filter((a) => !a.isStore);
    const most = loads.reduce((x, a) => this.bytesOf(a) > this.bytesOf(x) ? a : x);
    const axis = around.find((i) => i !== fast && sizes[i] > 1 && !most.depends[i] && kernel.isParallel(i));
    if (axis === undefined) return 1;
    for (let k = MOST_REUSED; k > 1; k--) {
      if (sizes[axis] % k !== 0 || rows / k < GROUPS_A_UNIT * grid.units) continue;
      kernel.apply({ op: "UPCAST", axis, arg: k });
      return k;
    }
    return 1;
  }

  /** Reductions inside of another one: threads share the outer one. */
  private nestedReduce(main: Region): void {
    const { kernel, outputs } = this;
    const outer = this.regions.find((r) =>
      r.kind === "reduce" && r.own.some((i) => main.axes[i] && !main.own.includes(i)) &&
      r.axes.every((here, i) => !here || i < outputs || r.own.includes(i))
    );
    const longest = outer && this.longestOf(outer.own);
    const threads = longest === undefined ? 1 : powerBelow(Math.min(this.sizes[longest], GROUP_THREADS, this.most));
    if (threads < 2) return this.elementwise();
    kernel.apply({ op: "GROUP", axis: longest! - outputs, arg: threads });
    this.shareRest(threads);
  }

  /** Sums over several short axes are sums over one, where threads would find too little along the fastest. */
  private mergedReduce(main: Region, fast: number, rows: number, length: number): boolean {
    const { kernel, outputs, sizes } = this;
    const width = this.width(fast, this.regions);
    const wanted = Math.min(GROUP_THREADS, length / LEAST_ELEMENTS, this.resident / rows);
    if (main.own.length < 2 || !kernel.mayMerge || sizes[fast] / width >= wanted) return false;
    if (kernel.axes.some((a) => a.role === "stage" || a.size === 0)) return false;
    const opts: AxisOpt[] = [];
    // the longer the stride, the further out
    const load = main.accesses.find((a) => a.strides[fast] === 1) ?? main.accesses[0];
    const order = (axes: readonly number[]): number[] =>
      axes.toSorted((a, b) => (Math.abs(load.strides[b]) || 0) - (Math.abs(load.strides[a]) || 0) || a - b);
    const join = (axes: readonly number[]): void => {
      const last = axes[axes.length - 1];
      for (const i of axes.slice(0, -1).reverse()) opts.push({ op: "MERGE", axis: i, arg: last });
    };
    const seen = new Set<string>();
    for (const r of this.regions) {
      if (r.kind !== "reduce" || r.own.length < 2 || seen.has(r.own.toSorted().join())) continue;
      seen.add(r.own.toSorted().join());
      join(r === main ? order(r.own) : r.own);
    }
    const free = sizes.flatMap((_, i) => {
      return i < outputs && sizes[i] > 1 && this.regions.every((r) => r.axes[i] === (r.kind !== "reduce")) ? [i] : [];
    });
    if (free.length > 1) join(free);
    if (!applyMerges(kernel, opts)) return false;
    const next = new GridChooser(kernel, this.caps);
    const [now] = next.regions.filter((r) => r.kind === "reduce" && r.own.some((i) => next.sizes[i] === length));
    const around = next.outputsWhere((i) => now.axes[i]);
    next.rowReduce(now, now.own[0], rows, around, width);
    return true;
  }

  /** Neighboring threads share rows along an axis with stride 1. */
  private rowReduce(
    main: Region,
    fast: number,
    rows: number,
    around: readonly number[],
    width: number = this.width(fast, this.regions),
  ): void {
    const { kernel, outputs } = this;
    const size = this.sizes[fast];
    // loops over the same row: other reductions, and output axes that no reduction depends on
    const after = this.nextTo(size);
    const alike = this.axes.map((_, i) => i).filter((i) => {
      if (this.sizes[i] !== size || this.axes[i].role === "stage") return false;
      if (i < outputs) return i === after;
      return this.regions.every((r) => r.kind !== "reduce" || !r.own.includes(i) || r.own.length === 1);
    });
    const isKept = alike.length > 1;
    const chunks = ceilDiv(size, width);
    // few rows: as many threads as a group can have; many: as few as keep enough bytes in flight
    let threads = powerBelow(
      ceilDiv(chunks * width, rows * size >= this.resident * ROW_ELEMENTS ? 2 * LEAST_ELEMENTS : LEAST_ELEMENTS),
    );
    if (isKept && chunks * width / threads > ROW_ELEMENTS) threads = powerBelow(2 * chunks * width / ROW_ELEMENTS - 1);
    // what is joined is in registers together: small groups, so that some read while others combine
    const most = !isKept && isJoined(main) ? Math.min(GROUP_THREADS, this.most) : this.most;
    threads = Math.min(threads, powerBelow(chunks), powerBelow(most));
    // rather half the threads than a part of them idle
    for (let k = threads; k >= threads / 4 && k > 1; k /= 2) {
      if (chunks % k !== 0 || (isKept && chunks * width / k > ROW_ELEMENTS)) continue;
      threads = k;
      break;
    }
    if (threads < 2) return this.elementwise();
    const each = ceilDiv(chunks, threads);
    const axes = isKept ? alike : [fast];
    if (!axes.includes(fast)) axes.push(fast);
    const whole = isKept && each * width <= ROW_ELEMENTS;
    for (const i of axes) {
      const isOutput = i < outputs;
      const axis = isOutput ? i : i - outputs;
      if (chunks % threads !== 0 && (isOutput || kernel.axes[i].pieces.length === 0)) {
        kernel.apply({ op: "PADTO", axis: i, arg: width * threads });
      }
      if (width > 1) kernel.apply({ op: isOutput ? "UPCAST" : "UNROLL", axis, arg: width });
      kernel.apply({ op: isOutput ? "LOCAL" : "GROUP", axis, arg: threads });
      const rest = kernel.axes[i].rest;
      const unroll = whole ? rest : isOutput ? 1 : this.unrolling(rest, width * this.valuesOf(main, fast));
      if (unroll > 1) kernel.apply({ op: isOutput ? "UPCAST" : "UNROLL", axis, arg: unroll });
    }
    this.shareRest(threads);
    // other axes of the output that no reduction depends on share the threads too where they are all there is
    if (threads * 2 <= GROUP_THREADS / 2) this.localRows(around, Math.floor(GROUP_THREADS / 2 / threads));
  }

  /** The output axis over a row of `size` elements that the threads of its reduction go on with: no reduction depends on it. */
  private nextTo(size: number): number {
    const free = this.freeAxes().filter((i) => this.sizes[i] === size);
    if (free.length < 2) return free[0] ?? -1;
    const fast = this.fastAxis(this.regions.filter((r) => r.kind === "store"), free);
    return fast >= 0 ? fast : free[free.length - 1];
  }

  /** Several rows a group. */
  private localRows(around: readonly number[], count: number): void {
    const { kernel } = this;
    for (const i of [...around].reverse()) {
      const n = kernel.axes[i].rest;
      if (this.axes[i].size === 0 || n < 2) continue;
      let k = Math.min(count, n);
      while (k > 1 && n % k !== 0) k--;
      if (k < 2) return;
      kernel.apply({ op: "LOCAL", axis: i, arg: k });
      count = Math.floor(count / k);
      if (count < 2) return;
    }
  }

  /** Values that a thread has in registers for each iteration of a reduction along `axis`. */
  private valuesOf(main: Region, axis: number): number {
    return main.accesses.filter((a) => a.depends[axis]).length * (isJoined(main) ? 1 : main.lanes);
  }

  /** Copies of a loop's body that put enough bytes in flight. */
  private unrolling(rest: number, elements: number): number {
    for (let k = Math.min(8, Math.floor(ROW_ELEMENTS / elements)); k > 1; k--) if (rest % k === 0) return k;
    return 1;
  }

  /** Neighboring threads have neighboring columns; several threads share each. */
  private columnReduce(main: Region, fast: number, rows: number, length: number): void {
    const { kernel, outputs } = this;
    const columns = Math.min(32, this.sizes[fast]);
    if (columns < 2) return this.elementwise();
    let width = this.width(fast, [main]);
    // a warp reads 128 bytes at a time at least
    const sizes = main.accesses.filter((a) => a.strides[fast] === 1).map((a) => a.dtype.itemsize);
    const least = Math.max(1, 4 / Math.max(...sizes));
    while (width > least && rows / width < this.resident / 8) width /= 2;
    if (width > 1) kernel.apply({ op: "UPCAST", axis: fast, arg: width });
    const n = kernel.axes[fast].rest;
    if (n > 1) kernel.apply({ op: "LOCAL", axis: fast, arg: Math.min(columns, n) });
    const own = this.longestOf(main.own);
    let share = powerBelow(Math.min(this.most / columns, 32, length / LEAST_ELEMENTS, this.sizes[own]));
    while (share > 2 && rows * share / width > 2 * this.resident) share /= 2;
    if (share < 2) return;
    if (this.sizes[own] % share !== 0) kernel.apply({ op: "PADTO", axis: own, arg: share });
    kernel.apply({ op: "GROUP", axis: own - outputs, arg: share });
    const rest = kernel.axes[own].rest;
    const unroll = this.unrolling(rest, Math.max(4, width * this.valuesOf(main, own)));
    if (unroll > 1) kernel.apply({ op: "UNROLL", axis: own - outputs, arg: unroll });
    this.shareRest(share);
  }

  // ---- what stands beside the reduction that reads most

  /** The threads that share a reduction share all others of the kernel, and what is stored after them. */
  private shareRest(threads: number): void {
    const { kernel, outputs } = this;
    const has = (i: number, kind: AxisKind): boolean => kernel.axes[i].pieces.some((p) => p.kind === kind);
    for (const r of this.regions) {
      if (r.kind !== "reduce" || r.own.some((i) => has(i, AxisKind.GROUP_REDUCE) || this.axes[i].size === 0)) continue;
      if (r.axes.some((here, i) => here && i >= outputs && !r.own.includes(i))) continue; // it is inside of another one
      this.shareReduce(r, threads);
    }
    const afterAll = this.freeAxes();
    for (const s of this.regions) {
      if (s.kind !== "store") continue;
      const free = afterAll.filter((i) => s.axes[i]);
      const taken = free.flatMap((i) => kernel.axes[i].pieces).filter((p) => p.kind === AxisKind.LOCAL);
      if (taken.length === 0) this.shareStore(s, free, threads);
    }
  }

  /** Output axes that no reduction depends on. */
  private freeAxes(): number[] {
    return this.outputsWhere((i) =>
      this.sizes[i] > 1 && this.axes[i].size > 0 && this.regions.every((r) => r.kind !== "reduce" || !r.axes[i])
    );
  }

  private shareReduce(r: Region, threads: number): void {
    const { kernel, outputs, sizes } = this;
    if (this.lengthOf(r.own) < 2 * LEAST_ELEMENTS) return; // each thread does it for itself
    const fast = this.fastAxis([r], r.own), longest = this.longestOf(r.own);
    const width = fast < 0 || sizes[fast] < threads ? 1 : this.width(fast, [r]), axis = width > 1 ? fast : longest;
    if (sizes[axis] % (width * threads) !== 0) kernel.apply({ op: "PADTO", axis, arg: width * threads });
    if (width > 1) kernel.apply({ op: "UNROLL", axis: axis - outputs, arg: width });
    kernel.apply({ op: "GROUP", axis: axis - outputs, arg: threads });
    const unroll = this.unrolling(kernel.axes[axis].rest, Math.max(4, width * this.valuesOf(r, axis)));
    if (unroll > 1) kernel.apply({ op: "UNROLL", axis: axis - outputs, arg: unroll });
  }

  private shareStore(s: Region, free: readonly number[], threads: number): void {
    const { kernel } = this, fast = this.fastAxis([s], free);
    const width = fast < 0 ? 1 : this.width(fast, [s]);
    if (width > 1 && kernel.axes[fast].pieces.length === 0) kernel.apply({ op: "UPCAST", axis: fast, arg: width });
    let left = threads;
    for (const i of [...fast < 0 ? [] : [fast], ...free.filter((i) => i !== fast).reverse()]) {
      const k = Math.min(left, kernel.axes[i].rest);
      if (k < 2) continue;
      kernel.apply({ op: "LOCAL", axis: i, arg: k });
      left = Math.floor(left / k);
    }
  }

  run(): void {
    if (tileProduct(this.kernel, this.caps, this.regions, this.sizes) || tileChain(this.kernel, this.caps)) return;
    const main = this.mainReduce();
    if (main === undefined) return this.elementwise();
    this.reduction(main);
  }
}

/** Applies the opts that suit the device to a kernel. */
export function heuristicGrid(kernel: Kernel, renderer: Renderer): void {
  new GridChooser(kernel, renderer.caps).run();
}
