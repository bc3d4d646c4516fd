/**
 * The plans that a kernel on a grid may have, from its axes and accesses alone: which axis neighboring threads lie along, how
 * many elements a thread takes at once, how many threads share a reduction, how many copies of a body a thread has. All
 * reductions of a kernel are shared by the same threads, and so is what is stored after them. Products in tiles are not here
 * (tile_candidates.ts).
 *
 * @module
 */
import { prod } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { type Access, type Region, wideAlong } from "../machine/access.ts";
import { type GridAxis, GridPlan, isInside, isSplit } from "../machine/grid_plan.ts";
import { SECTOR } from "../machine/grid_traffic.ts";
import type { PairOpt } from "../opt/opt.ts";

/** Lane axes that are considered, at most. */
const MOST_LANE_AXES = 3;
/** Copies of a body, at most: more do not fit registers. */
const MOST_COPIES = 64;
/** Iterations of reductions that are unrolled as a whole, at most. */
const MOST_UNROLLED = 32;
/** Iterations of a reduction's short axes that a thread does beside those of a long one, at most. */
const MOST_BESIDE = 8;
/** Threads of a group without reductions. */
const GROUP_SIZES: readonly number[] = [256, 64];
/** Elements that a reduction must have for threads to share it. */
const LEAST_SHARED = 16;

/** The kernel that candidates are for. */
export interface GridKernel {
  readonly regions: readonly Region[];
  readonly axes: readonly GridAxis[];
  readonly caps: Capabilities;
  /** May the iterations of an output axis be threads and groups, while no reduction is shared? */
  readonly isParallel: (axis: number) => boolean;
}

function powersTo(most: number, from = 1): number[] {
  const out: number[] = [];
  for (let k = from; k <= most; k *= 2) out.push(k);
  return out;
}

/** Makes the plans of one kernel. */
export class GridCandidates {
  private readonly plans: GridPlan[] = [];
  private readonly most: number;
  /** Copies of a body, at most, beside those that there are already. */
  private readonly copies: number;

  /** Iterations of the axes. */
  private readonly sizes: readonly number[];

  constructor(private readonly k: GridKernel) {
    const grid = k.caps.grid!;
    this.sizes = k.axes.map(({ size }) => size);
    this.most = Math.min(grid.maxGroupThreads, grid.maxGroupSize[0]);
    this.copies = Math.max(1, MOST_COPIES / prod(k.axes.map((a) => a.role === "copies" ? a.size : 1)));
  }

  /** All of them. */
  all(): readonly GridPlan[] {
    const { sizes, k: { regions } } = this;
    this.elementwise();
    let main: Region | undefined, most = 0;
    for (const r of regions) {
      if (r.kind !== "reduce" || r.accesses.length === 0) continue;
      const n = sizes.reduce((p, s, i) => r.axes[i] ? p * s : p, r.accesses.length);
      if (n > most) [main, most] = [r, n];
    }
    if (main === undefined) return this.plans;
    if (this.isNested(main)) this.nested(main);
    else this.reductions(main);
    return this.plans;
  }

  /**
   * Axes that may become one, in several ways: those of each reduction, the longer their stride in what is read most the
   * further out, alone or with the output axes that no reduction depends on.
   */
  merges(): PairOpt[][] {
    const { sizes, k: { regions, caps } } = this, opts: PairOpt[] = [], some: PairOpt[] = [], seen = new Set<string>();
    const isAlone = (i: number): boolean => !isSplit(this.k.axes[i]) || this.isOpen(i);
    const join = (axes: readonly number[], into: PairOpt[] = opts): void => {
      const last = axes[axes.length - 1];
      for (const i of axes.slice(0, -1).reverse()) into.push({ op: "MERGE", axis: i, other: last });
    };
    for (const r of regions) {
      const own = r.own.filter((i) => sizes[i] > 1), key = own.toSorted().join();
      if (r.kind !== "reduce" || own.length < 2 || own.some(isAlone) || seen.has(key)) continue;
      seen.add(key);
      const bytes = (a: Access): number => sizes.reduce((n, s, i) => a.depends[i] ? n * s : n, a.dtype.itemsize);
      const [load] = r.accesses.filter((a) => !a.isStore).sort((a, b) => bytes(b) - bytes(a));
      const step = (i: number): number => load === undefined ? 0 : Math.abs(load.strides[i]) || 0;
      const order = own.toSorted((a, b) => step(b) - step(a) || a - b);
      // what lies apart is found sooner by two indices than by quotients, unless one axis alone has too few threads
      const longest = Math.max(...own.map((i) => sizes[i]));
      const results = sizes.reduce((n, s, i) => r.axes[i] && !r.own.includes(i) ? n * s : n, 1);
      const isFew = results * longest < caps.grid!.units * caps.grid!.unitThreads;
      if (isFew || step(order[order.length - 1]) === 1) join(order);
      // bits of what is read together: threads take all of them, and neighbors read neighbors
      const moving = order.filter((i) => step(i) > 0);
      if (moving.length < order.length && step(moving[moving.length - 1]) === 1) join(moving, some);
    }
    const out = [opts, some].filter((list) => list.length > 0).map((list) => list.slice());
    if (opts.length === 0) return out;
    const free = this.freeAxes();
    if (free.length > 1 && !free.some(isAlone)) {
      join(free);
      out.push(opts);
    }
    return out;
  }

  private plan(): GridPlan {
    return new GridPlan(this.k.axes);
  }
  /** Is a reduction inside of another one? */
  private isNested(r: Region): boolean {
    return r.axes.some((here, i) => here && isInside(this.k.axes[i]) && !r.own.includes(i));
  }
  private isOutput(i: number): boolean {
    return this.k.axes[i]?.role === "output";
  }
  private isOpen(i: number): boolean {
    return this.k.axes[i].isOpen;
  }

  /** Axes along which neighbors share sectors of something, most bytes first. */
  private laneAxes(axes: readonly number[], regions: readonly Region[]): number[] {
    const { sizes } = this;
    const bytes = (i: number): number =>
      regions.reduce(
        (n, r) =>
          n + (r.axes[i] ? r.accesses : []).reduce((m, { strides, depends, dtype: { itemsize } }) => {
            const step = Math.abs(strides[i]), isNear = step > 0 && step * itemsize < SECTOR;
            return isNear ? m + sizes.reduce((p, s, j) => depends[j] ? p * s : p, itemsize / step) : m;
          }, 0),
        0,
      );
    const some = axes.filter((i) => sizes[i] > 1).map((i) => ({ i, n: bytes(i) }));
    const found = some.filter(({ n }) => n > 0).sort((a, b) => b.n - a.n || b.i - a.i).slice(0, MOST_LANE_AXES);
    return found.map(({ i }) => i);
  }

  /** Elements of an axis that make accesses of up to 16 bytes, all of them aligned. */
  private widthOf(axis: number, regions: readonly Region[]): number {
    return this.isOpen(axis) ? 1 : wideAlong(axis, this.k.axes[axis].inner, regions, this.k.caps.vectorBytes);
  }

  /** Are `n` iterations of an axis pieces of `k`? */
  private isWholeIn(axis: number, n: number, k: number): boolean {
    return this.isOpen(axis) || n % k === 0;
  }

  // ---- a thread for some elements

  /** Threads of a group over axes in this order; what does not fit stays groups. */
  private fill(plan: GridPlan, order: readonly number[], left: number): void {
    for (const i of order) {
      const n = plan.axes[i].rest;
      if (left < 2 || n < 2) continue;
      let k = Math.min(n, left);
      // rather a divisor than threads that do nothing
      if (n > left) {
        for (let d = left; d > left / 2; d--) {
          if (n % d === 0) {
            k = d;
            break;
          }
        }
      }
      if (n > left && i !== order[0] && n % k !== 0) k = 2 ** Math.floor(Math.log2(k));
      if (k < 2 || !plan.share(i, k)) continue;
      left = Math.floor(left / k);
    }
  }

  private elementwise(): void {
    const { k, sizes } = this;
    const parallel = sizes.map((_, i) => i).filter((i) => this.isOutput(i) && sizes[i] > 1 && k.isParallel(i));
    const unrolls = this.unrolls();
    if (parallel.length === 0) {
      for (const unrolled of unrolls) {
        const plan = this.plan();
        if (unrolled.every(([i, k]) => plan.copy(i, k))) this.plans.push(plan);
      }
      return;
    }
    const lanes = this.laneAxes(parallel, k.regions);
    if (lanes.length === 0) lanes.push(parallel[parallel.length - 1]);
    for (const fast of lanes) {
      const others = parallel.filter((i) => i !== fast).reverse();
      for (const width of powersTo(this.widthOf(fast, k.regions))) {
        for (const across of [-1, ...lanes.filter((i) => i !== fast)]) {
          const wide = across < 0 ? 1 : this.widthOf(across, k.regions);
          for (const [axis, copies] of this.copiesBeside(fast, across, others)) {
            for (const unrolled of unrolls) {
              if (unrolled.reduce((n, [, k]) => n * k, width * wide * copies) > this.copies) continue;
              for (const size of GROUP_SIZES) {
                if (size > this.most) continue;
                const plan = this.plan();
                if (!unrolled.every(([i, k]) => plan.copy(i, k))) continue;
                if (!plan.copy(fast, width) || (across >= 0 && !plan.copy(across, wide))) continue;
                if (axis !== fast && !plan.copy(axis, copies)) continue;
                if (across < 0) this.fill(plan, [fast, ...others], size);
                else {
                  // of a transposed copy both sides are pieces of 128 bytes
                  const few = Math.min(8, plan.axes[fast].rest);
                  if (!plan.share(fast, few)) continue;
                  this.fill(plan, [across, ...others.filter((i) => i !== across)], Math.floor(size / few));
                }
                if (axis === fast && copies > 1 && (plan.axes[fast].rest % copies !== 0 || !plan.copy(fast, copies))) {
                  continue;
                }
                this.plans.push(plan);
              }
            }
          }
        }
      }
    }
  }

  /** Iterations of reductions that a thread may do at once, by axis: what they read is on its way together. */
  private unrolls(): (readonly [axis: number, copies: number])[][] {
    const { sizes, k: { regions } } = this, out: [number, number][][] = [[]];
    const inner = regions.filter((r) => r.kind === "reduce").flatMap((r) => r.own).filter((i) => sizes[i] > 1);
    const count = (some: readonly number[]): number => some.reduce((n, i) => n * sizes[i], 1);
    const whole = (some: readonly number[]): [number, number][] => some.map((i) => [i, sizes[i]]);
    if (inner.length === 0) return out;
    const closed = inner.filter((i) => !this.isOpen(i));
    if (closed.length === inner.length && count(inner) <= MOST_UNROLLED) out.push(whole(inner));
    else {
      const longest = inner.reduce((a, b) => sizes[b] > sizes[a] ? b : a), short = closed.filter((i) => i !== longest);
      const few = count(short) <= MOST_UNROLLED / 2 ? short : [];
      if (few.length > 0) out.push(whole(few));
      for (const n of [4, 8]) {
        if (this.isWholeIn(longest, sizes[longest], n) && count(few) * n <= 2 * MOST_UNROLLED) {
          out.push([...whole(few), [longest, n]]);
        }
      }
    }
    return out;
  }

  /** Axes that a thread may have several results along, and how many. */
  private copiesBeside(fast: number, across: number, others: readonly number[]): [axis: number, copies: number][] {
    const out: [number, number][] = [[fast, 1]], { sizes } = this;
    for (const n of [2, 4]) out.push([fast, n]);
    for (const i of others.filter((i) => i !== across).slice(0, 3)) {
      for (const n of new Set([2, 4, ...sizes[i] < 8 ? [sizes[i]] : []])) {
        if (this.isWholeIn(i, sizes[i], n)) out.push([i, n]);
      }
    }
    return out;
  }

  // ---- threads share reductions

  /** Threads share the reduction around another one. */
  private nested(main: Region): void {
    const { sizes, k: { regions } } = this;
    const outer = regions.find((r) =>
      r.kind === "reduce" && !this.isNested(r) && r.own.some((i) => main.axes[i] && !main.own.includes(i))
    );
    if (outer === undefined) return;
    for (const axis of outer.own) {
      for (const threads of powersTo(Math.min(this.most, sizes[axis]), 8)) {
        const plan = this.plan();
        if (plan.share(axis, threads) && this.shareRest(plan, threads)) this.plans.push(plan);
      }
    }
  }

  private reductions(main: Region): void {
    const { k, sizes } = this;
    const length = main.own.reduce((n, i) => n * sizes[i], 1);
    if (length < LEAST_SHARED || this.most < 32) return;
    const around = sizes.map((_, i) => i).filter((i) => this.isOutput(i) && main.axes[i]);
    const lanes = this.laneAxes([...around, ...main.own], [main]);
    if (!lanes.some((i) => this.isOutput(i))) {
      lanes.push(...this.laneAxes(around, k.regions.filter((r) => r.kind === "store")).slice(0, 1));
    }
    if (lanes.length === 0) lanes.push(...around.slice(-1), main.own.toSorted((a, b) => sizes[b] - sizes[a])[0]);
    for (const fast of lanes) {
      if (main.own.includes(fast)) this.rows(main, fast, around);
      else this.columns(main, fast, around);
    }
  }

  /** Loops over the same row: other reductions along such an axis, and the output axis that goes on with it. */
  private alike(main: Region, own: number): number[] {
    const { sizes, k: { regions } } = this;
    const free = this.freeAxes().filter((i) => sizes[i] === sizes[own]);
    const after = free.length < 2
      ? free[0]
      : this.laneAxes(free, regions.filter((r) => r.kind === "store"))[0] ?? free[free.length - 1];
    return sizes.flatMap((s, i) => {
      if (i === own || s !== sizes[own]) return [];
      if (this.isOutput(i)) return i === after ? [i] : [];
      return regions.some((r) => r !== main && r.own.includes(i)) &&
          regions.every((r) => !r.own.includes(i) || r.own.length === 1)
        ? [i]
        : [];
    });
  }

  /** Output axes that no reduction depends on. */
  private freeAxes(): number[] {
    const { sizes, k: { regions } } = this;
    return sizes.map((_, i) => i).filter((i) =>
      this.isOutput(i) && sizes[i] > 1 && regions.every((r) => r.kind !== "reduce" || !r.axes[i])
    );
  }

  /** Ways to read what is the same for several results once. */
  private reuses(main: Region, fast: number, around: readonly number[]): [axis: number, copies: number][] {
    const { sizes } = this, out: [number, number][] = [[-1, 1]];
    const loads = main.accesses.filter((a) => !a.isStore);
    for (const i of around) {
      if (i === fast || sizes[i] < 2 || loads.every((a) => a.depends[i])) continue;
      for (const n of new Set([2, 4, 8, ...sizes[i] < 8 ? [sizes[i]] : []])) {
        if (this.isWholeIn(i, sizes[i], n)) out.push([i, n]);
      }
    }
    return out;
  }

  private rows(main: Region, fast: number, around: readonly number[]): void {
    const { sizes, k: { regions } } = this, size = sizes[fast], widest = this.widthOf(fast, regions);
    const others = this.alike(main, fast), short = this.shortBeside(main, fast);
    for (const width of widest > 1 ? [widest, widest / 2] : [1]) {
      const chunks = Math.ceil(size / width);
      for (const threads of powersTo(Math.min(this.most, 2 * chunks), 2)) {
        // a row of a thread or two only where it is short
        if (chunks > 32 * threads * LEAST_SHARED && 2 * threads <= this.most) continue;
        const each = Math.ceil(chunks / threads), padded = chunks % threads !== 0;
        for (const unroll of new Set([1, 4, 8, ...this.isOpen(fast) ? [] : [each]])) {
          if (unroll > each || !this.isWholeIn(fast, each, unroll) || unroll * width > this.copies) continue;
          for (const [axis, copies] of this.reuses(main, fast, around)) {
            const whole = short.reduce((n, i) => n * sizes[i], 1);
            for (const beside of short.length === 0 ? [[]] : [[], short]) {
              if (copies * unroll * width * (beside.length > 0 ? whole : 1) > this.copies) continue;
              for (const rows of new Set([1, Math.max(1, 128 / threads)])) {
                const plan = this.plan();
                if (!plan.copy(axis, copies) || !beside.every((i) => plan.copy(i, sizes[i]))) continue;
                let isMade = true;
                for (const i of [...others, fast]) {
                  if (padded && !plan.pad(i, width * threads)) isMade = false;
                  isMade &&= plan.copy(i, width) && plan.share(i, threads);
                  if (!isMade) break;
                  const rest = plan.axes[i].rest, n = this.isOutput(i) && unroll !== each ? 1 : unroll;
                  if (this.isWholeIn(i, rest, n)) isMade = plan.copy(i, n);
                }
                if (!isMade) continue;
                if (!this.shareRest(plan, threads) || (rows > 1 && !this.shareRows(plan, around, rows))) continue;
                this.plans.push(plan);
              }
            }
          }
        }
      }
    }
  }

  /** Short axes of a reduction beside one of it, all of which a thread may do at once. */
  private shortBeside(main: Region, fast: number): number[] {
    const { sizes, k: { axes } } = this;
    const some = main.own.filter((i) => i !== fast && sizes[i] > 1 && !axes[i].isOpen && isSplit(axes[i]));
    return some.reduce((n, i) => n * sizes[i], 1) <= MOST_BESIDE ? some : [];
  }

  /** Several rows a group. */
  private shareRows(plan: GridPlan, around: readonly number[], count: number): boolean {
    for (const i of [...around].reverse()) {
      const n = plan.axes[i].rest;
      if (this.isWholeIn(i, n, count) && n > 1 && plan.share(i, count)) return true;
    }
    return false;
  }

  private columns(main: Region, fast: number, around: readonly number[]): void {
    const { sizes } = this, widest = this.widthOf(fast, [main]);
    const longest = main.own.toSorted((a, b) => sizes[b] - sizes[a])[0], size = sizes[longest];
    const others = this.alike(main, longest),
      isRow = !this.isOpen(longest) && main.own.every((i) => i === longest || sizes[i] === 1);
    for (const width of powersTo(widest)) {
      const rest = Math.ceil(sizes[fast] / width);
      for (
        const lanes of new Set([...powersTo(Math.min(64, this.most), 4).filter((n) => n <= rest), Math.min(rest, 32)])
      ) {
        // what is shared is worth a step of each thread and more
        for (const share of powersTo(size < LEAST_SHARED ? 1 : Math.min(this.most / lanes, size))) {
          const each = Math.ceil(size / share);
          if (lanes * share < 32 && size > LEAST_SHARED) continue;
          for (const unroll of new Set([1, 8, 16, ...isRow && each <= this.copies ? [each] : []])) {
            if (
              unroll > each || unroll * width > this.copies || (unroll > 1 && !this.isWholeIn(longest, each, unroll))
            ) {
              continue;
            }
            for (const [axis, copies] of this.reuses(main, fast, around)) {
              if (copies * unroll * width > this.copies) continue;
              const plan = this.plan(), isWhole = unroll === each && isRow;
              if (!plan.copy(axis, copies) || !plan.copy(fast, width) || (lanes > 1 && !plan.share(fast, lanes))) {
                continue;
              }
              let isMade = true;
              for (const i of share > 1 || isWhole ? [...others, longest] : [longest]) {
                if (this.isOutput(i) && share < 2) continue;
                if (size % share !== 0 && !plan.pad(i, share)) isMade = false;
                isMade &&= plan.share(i, share);
                if (isMade && (isWhole || !this.isOutput(i))) isMade = plan.copy(i, unroll);
                if (!isMade) break;
              }
              if (!isMade || (share > 1 && !this.shareRest(plan, share))) continue;
              this.plans.push(plan);
            }
          }
        }
      }
    }
  }

  /** The threads that share a reduction share all others of the kernel, and what is stored after them. */
  private shareRest(plan: GridPlan, threads: number): boolean {
    const { sizes, k: { regions } } = this;
    for (const r of regions) {
      if (r.kind !== "reduce" || r.own.some((i) => plan.axes[i].threads > 1)) continue;
      if (this.isNested(r)) continue;
      const length = r.own.reduce((n, i) => n * sizes[i], 1);
      if (length < LEAST_SHARED) continue; // each thread does it for itself
      const longest = r.own.toSorted((a, b) => sizes[b] - sizes[a])[0], [fast = -1] = this.laneAxes(r.own, [r]);
      const width = fast < 0 || sizes[fast] < threads ? 1 : this.widthOf(fast, [r]), axis = width > 1 ? fast : longest;
      if (sizes[axis] % (width * threads) !== 0 && !plan.pad(axis, width * threads)) return false;
      if (!plan.copy(axis, width) || !plan.share(axis, threads)) return false;
      const rest = plan.axes[axis].rest;
      for (let n = Math.floor(16 / width); n > 1; n--) {
        if (!this.isWholeIn(axis, rest, n)) continue;
        plan.copy(axis, n);
        break;
      }
    }
    const afterAll = this.freeAxes();
    for (const s of regions) {
      if (s.kind !== "store") continue;
      const free = afterAll.filter((i) => s.axes[i]);
      if (free.some((i) => plan.axes[i].threads > 1)) continue;
      const [fast = -1] = this.laneAxes(free, [s]);
      if (fast >= 0 && plan.axes[fast].pieces.length === 0) plan.copy(fast, this.widthOf(fast, [s]));
      let left = threads;
      for (const i of [...fast < 0 ? [] : [fast], ...free.filter((i) => i !== fast).reverse()]) {
        const n = Math.min(left, plan.axes[i].rest);
        if (n < 2) continue;
        plan.share(i, n);
        left = Math.floor(left / n);
      }
    }
    return true;
  }
}
