/**
 * The model of what a kernel costs on a grid: microseconds of a plan (grid_plan.ts), from its accesses and the numbers of the
 * device. Nothing is compiled. What no device tells (latencies, work of a loop, price of a spill) stands below as constants of
 * a large card, set by hand from random kernels that were measured on one.
 *
 * Each region of the kernel asks for issue slots, requests to the first-level cache, sectors of 32 bytes from the second,
 * and bytes of memory; the largest of these is its time. What a warp asks for at once is found by looking at its lanes. What
 * is read again comes from the nearest cache that holds all that is touched in between. Memory is as fast as the bytes that
 * are on their way allow. What waits for other things is added: iterations that follow each other, reductions among threads,
 * the launch.
 *
 * @module
 */
import { ceilDiv } from "../../helpers/math.ts";
import { MOST_REGISTERS } from "../../renderer/lanes.ts";
import type { Capabilities, GridCaps } from "../../renderer/renderer.ts";
import { AxisKind } from "../../uop/core/args.ts";
import { type CarrierArg, carrierOf } from "../../uop/core/carrier.ts";
import { isAlu, Ops, opWork } from "../../uop/core/ops.ts";
import { dependsOn } from "../../uop/core/ranges.ts";
import { range, toposort, type UOp } from "../../uop/core/uop.ts";
import type { Region } from "./access.ts";
import { type GridAxis, type GridPlan, isInside, type PlanAxis } from "./grid_plan.ts";
import { AccessTraffic, type Digit, SECTOR } from "./grid_traffic.ts";
import { CLOCK, LANES, LAUNCH, QUOTIENT_WORK } from "./grid_rates.ts";
import { hopPlaces } from "./group_hops.ts";

/** Of a unit and clock: bytes of memory, and from the second-level cache. */
const UNIT_MEMORY = 18.5, UNIT_L2 = 32;
/** Microseconds that a read from memory takes under load; that threads take to combine. */
const LOADED = 0.6, COMBINE = 0.25;
/** Microseconds that a read alone takes from the nearest cache, and more from the other one, and from memory. */
const NEAR = 0.03, MIDDLE = 0.2, FAR = 0.7;
/** Threads of a unit that keep its arithmetic busy. */
const BUSY_THREADS = 768;
/** Lane operations of a loop's iteration, of an access, of an element that a gate may leave out. */
const LOOP_WORK = 4, ACCESS_WORK = 3, GATE_WORK = 1;
/** Microseconds of an iteration that reads nothing. */
const ITERATION = 0.02;
/** Copies along an axis, at most. */
const MOST_COPIES = 256;
/** Bytes of the first-level cache that a group finds again, and of a second-level cache that is not told of. */
const L1 = 50 << 10, OTHER_CACHE = 16 << 20;
/** Share of the second-level cache that is there for what is read again. */
const CACHE_SHARE = 0.5;
/** Registers of a thread beside the values that it has. */
const OTHER_REGISTERS = 26;
/** Times that a byte goes to the second-level cache and back where there is no register for it. */
const SPILL = 12;
/** Iterations of a reduction from which threads do not all do it (opt/kernel.ts). */
const REPEATED_REDUCE = 256;
/** Second-level misses of what other groups read too, at about the same time. */
const MISSES = 0.2;

/** Microseconds of a plan, and what they come from. */
export interface GridEstimate {
  readonly time: number;
  /** By resource: arithmetic, requests to the first-level cache, the second-level cache, memory; and what waits. */
  readonly lanes: number;
  readonly requests: number;
  readonly l2: number;
  readonly memory: number;
  readonly chain: number;
  /** Registers of a thread, groups that a unit has at a time, how often all units are filled, bytes on their way. */
  readonly registers: number;
  readonly resident: number;
  readonly waves: number;
  readonly flight: number;
}

/** What one region asks of the device, by all groups. */
interface Demand {
  /** Lane operations, requests in clocks, bytes from the second-level cache. */
  lanes: number;
  requests: number;
  l2: number;
  /** Loop iterations of a thread, bytes that it has on their way in one. */
  iterations: number;
  flight: number;
  registers: number;
  /** Microseconds that an iteration waits for what it reads. */
  readonly wait: number;
  /** Results that a thread has a part of. */
  readonly results: number;
}

/** Arithmetic of a region that depends on the same axes and reads the same. */
interface Work {
  work: number;
  readonly depends: readonly boolean[];
  /** The access that it reads alone; -1 where it reads several, or none. */
  readonly access: number;
  /** Is it that of its index? Then neighbors that one access reads share it. */
  readonly isQuotient: boolean;
}

/** The arithmetic of a region's body, by what it depends on. */
function worksOf(r: Region, ranges: readonly UOp[]): Work[] {
  const out = new Map<string, Work>(), reads = new Map<UOp, number>();
  const roots = r.kind === "store" ? [r.root.src[1]] : r.root.src.slice(0, r.lanes);
  // -2 for nothing
  const visit = (u: UOp): number => {
    const known = reads.get(u);
    if (known !== undefined) return known;
    let access = -2;
    if (u.op === Ops.LOAD) access = r.accesses.findIndex((a) => a.node === u);
    else if (u.op === Ops.REDUCE) access = -1;
    else {for (const s of u.src) {
        const one = visit(s);
        if (one !== -2) access = access === -2 || access === one ? one : -1;
      }}
    reads.set(u, access);
    if (isAlu(u.op) && u.op !== Ops.LOAD) {
      const depends = ranges.map((x) => dependsOn(u, x)), key = `${access} ${depends.map(Number).join("")}`;
      // what only loops decide is mostly known where they are unrolled, and shared by many
      const work = access === -2 ? 0.3 : opWork[u.op];
      const same = out.get(key);
      if (same === undefined) out.set(key, { work, depends, access, isQuotient: false });
      else same.work += work;
    }
    return access;
  };
  for (const u of roots) visit(u);
  indexWorks(r, ranges, out);
  return [...out.values()];
}

/** Adds what indices and gates compute beside steps along axes: quotients and conditions, each once in a region. */
function indexWorks(r: Region, ranges: readonly UOp[], out: Map<string, Work>): void {
  const seen = new Set<UOp>(), divided = new Map<UOp, UOp>();
  r.accesses.forEach(({ node }, access) => {
    for (const u of toposort(node.src[0].src.slice(1), (x) => !seen.has(x))) {
      const isQuotient = u.op === Ops.FLOORDIV || u.op === Ops.FLOORMOD, [of, by] = u.src;
      if (seen.has(u)) continue;
      seen.add(u);
      if (!isQuotient && !(u.dtype.isBool && u.op !== Ops.CONST)) continue;
      // a power of two takes a shift, a remainder beside its quotient a product
      const isQuick = !isQuotient || divided.get(of) === by || (by.op === Ops.CONST && Math.log2(by.value) % 1 === 0);
      const work = isQuick ? 1 : QUOTIENT_WORK, depends = ranges.map((x) => dependsOn(u, x));
      if (isQuotient) divided.set(of, by);
      const key = `${isQuotient ? access : "gate"} ${depends.map(Number).join("")}`, same = out.get(key);
      if (same !== undefined) same.work += work;
      else if (depends.includes(true)) out.set(key, { work, depends, access: isQuotient ? access : -1, isQuotient });
    }
  });
}

/** Microseconds of resources that are used side by side: those of the busiest, and more where others are busy too. */
function together(times: readonly number[]): number {
  return Math.cbrt(times.reduce((sum, t) => sum + t * t * t, 0));
}

const carrierWork = new Map<string, number>();

/** Operations that combine two partial results. */
function workOfCarrier(c: CarrierArg): number {
  const key = `${c.key} ${c.dtypes.map((d) => d.id)}`;
  let work = carrierWork.get(key);
  if (work !== undefined) return work;
  work = c.lanes;
  if (c.lanes > 1) {
    const values = (of: number): UOp[] => c.dtypes.map((d, i) => range(8, of + i, AxisKind.LOOP).cast(d));
    work = toposort(c.combine(values(0), values(c.lanes))).reduce((n, u) => n + (isAlu(u.op) ? opWork[u.op] : 0), 0);
    // several at once take about four operations a lane each
    if (c.join !== undefined) work = Math.min(work, 4 * c.lanes);
  }
  carrierWork.set(key, work);
  return work;
}

/** A region of a kernel, and what it reads and writes. */
interface RegionCost {
  readonly region: Region;
  readonly accesses: readonly AccessTraffic[];
  readonly works: readonly Work[];
  /** Operations that combine two of its results. */
  readonly combine: number;
}

/** How the threads of a plan stand. */
interface Grouping {
  /** Output axes that are loops of each thread, because a reduction in front does not depend on them. */
  readonly serial: readonly boolean[];
  readonly threads: number;
  /** Those, and lanes without a thread, which wait with the others of their warp. */
  readonly whole: number;
  readonly groups: number;
  /** Iterations of each axis that one group does. */
  readonly counts: readonly number[];
}

/** Estimates of the plans of one kernel. Axes by their position, output axes first. */
export class GridModel {
  private readonly grid: GridCaps;
  private readonly costs: readonly RegionCost[];
  private readonly touched: number;

  /** How many axes are of the output. */
  private readonly outputs: number;
  private readonly sizes: readonly number[];

  constructor(
    private readonly regions: readonly Region[],
    private readonly axes: readonly GridAxis[],
    private readonly caps: Capabilities,
  ) {
    const ranges = axes.map((a) => a.range), sizes = axes.map((a) => a.size), inner = axes.map((a) => a.inner);
    this.outputs = axes.filter((a) => a.role === "output").length;
    this.sizes = sizes;
    this.grid = caps.grid!;
    this.costs = regions.map((region) => ({
      region,
      accesses: region.accesses.map((a) => new AccessTraffic(a, region, ranges, sizes, caps.vectorBytes, inner)),
      works: worksOf(region, ranges),
      combine: region.kind === "reduce" ? workOfCarrier(carrierOf(region.root)) : 0,
    }));
    this.touched = this.touchedBytes();
  }

  /** Microseconds that no plan is below: what is touched, once. */
  get floor(): number {
    return LAUNCH + this.touched / (UNIT_MEMORY * this.grid.units * CLOCK);
  }

  /** Bytes of all buffers that the kernel touches. */
  private touchedBytes(): number {
    const touched = new Map<UOp, number>();
    for (const { accesses } of this.costs) {
      for (const { base, whole } of accesses) touched.set(base, Math.max(touched.get(base) ?? 0, whole));
    }
    let bytes = 0;
    for (const n of touched.values()) bytes += n;
    return bytes;
  }

  /** Microseconds that a plan is not below: what is touched by the units that have groups, and its iterations. */
  private leastOf(axes: readonly PlanAxis[], serial: readonly boolean[], groups: number): number {
    const busy = Math.min(UNIT_MEMORY * this.grid.units, groups * SECTOR);
    let chain = 0;
    for (const r of this.regions) chain += this.loopsOf(r, axes, serial) * ITERATION;
    return LAUNCH + Math.max(this.touched / (busy * CLOCK), chain);
  }

  /** What a plan costs; undefined where the device cannot run it, or where it takes more than `most` microseconds. */
  estimate(plan: GridPlan, most: number = Infinity): GridEstimate | undefined {
    const { grid, outputs, regions, costs } = this, { axes } = plan, { units } = grid;
    let group = 1;
    for (let i = outputs; i < axes.length; i++) group = Math.max(group, axes[i].threads);
    for (let i = 0; i < axes.length; i++) if (axes[i].copies > MOST_COPIES) return undefined;
    // the axis of each reduction that threads share
    const own = regions.map((r) => group === 1 ? -1 : r.own.findIndex((i) => axes[i].threads > 1));
    const serial = this.serialAxes(axes, group > 1);
    // threads of the group: those of reductions, and of axes around them
    const around: Digit[] = [], after: Digit[] = [];
    let threads = group, groups = 1, left = 1;
    for (let i = outputs - 1; i >= 0; i--) {
      if (!serial[i]) groups *= axes[i].rest;
      if (axes[i].threads === 1) continue;
      const isAfter = group > 1 && !regions.some((r, k) => own[k] >= 0 && r.axes[i]);
      for (const p of axes[i].pieces) if (p.isThread) (isAfter ? after : around).push({ axis: i, ...p });
      if (isAfter) left *= axes[i].threads;
      else threads *= axes[i].threads;
    }
    if (threads > grid.maxGroupThreads || left > group) return undefined;
    if (most < Infinity && this.leastOf(axes, serial, groups) >= most) return undefined;
    const counts = axes.map((a, i) => i >= outputs || serial[i] ? a.size : a.copies * a.threads);
    const warp = Math.max(1, grid.warp), whole = ceilDiv(threads, warp) * warp;
    const grouping = { serial, threads, whole, groups, counts };
    const sharing = regions.map((r, k): Digit | undefined => {
      if (own[k] < 0) return undefined;
      const axis = r.own[own[k]];
      return { axis, ...axes[axis].pieces.find((p) => p.isThread)! };
    });
    const first = own.findIndex((i) => i >= 0);
    const isApart = first >= 0 && this.readsNeighbors(costs[first], sharing[first]!, around);
    const kept = new Map<UOp, number>(), alone: Digit[] = group > 1 ? [{ axis: -1, size: group, stride: 0 }] : [];
    const demands = costs.map((c, k) => {
      const { kind, axes: here } = c.region, mine = sharing[k];
      const inner = mine !== undefined ? [mine] : kind === "store" && after.some((d) => here[d.axis]) ? after : alone;
      return this.demand(c, axes, grouping, isApart ? [...around, ...inner] : [...inner, ...around], kept);
    });
    const available = Math.min(MOST_REGISTERS, Math.floor(grid.unitRegisters / whole));
    let values = 0, flying = 0;
    for (const d of demands) {
      values = Math.max(values, d.registers);
      flying = Math.max(flying, d.flight);
      // what does not fit goes to memory and comes back in each iteration; the nearest cache has some of it
      const spilled = 4 * Math.max(0, OTHER_REGISTERS + d.registers - available), far = spilled - L1 / threads;
      d.lanes += 2 * spilled * d.iterations * threads * groups;
      d.l2 += SPILL * Math.max(0, far) * d.iterations * threads * groups;
    }
    // what threads that share a reduction hand to each other: of each warp, or of each thread in two hops
    let shared = 0;
    costs.forEach(({ region }, k) => {
      if (own[k] < 0) return;
      const nbytes = carrierOf(region.root).dtypes.reduce((n, d) => n + Math.max(4, d.itemsize), 0);
      const { results } = demands[k], places = hopPlaces(group, isApart ? 1 : grid.warp, results);
      shared += results * nbytes * places * threads / group;
    });
    if (shared > grid.sharedBytes) return undefined;
    const registers = OTHER_REGISTERS + values, held = Math.min(available, ceilDiv(registers, 8) * 8);
    const fitting = Math.min(
      Math.floor(grid.unitThreads / whole),
      Math.floor(grid.unitRegisters / (whole * held)),
      32,
      Math.floor(grid.unitShared / shared),
    );
    const resident = Math.max(1, fitting),
      busy = Math.min(units, groups),
      here = Math.min(resident, ceilDiv(groups, units));
    const flight = flying * threads * here, issue = Math.min(1, whole * here / BUSY_THREADS);
    const passes = this.readAgain(axes, grouping, Math.min(groups, units * here));
    let sum = 0, lanes = 0, requests = 0, l2 = 0, memory = 0, chain = 0;
    demands.forEach((d, k) => {
      const [loaded, stored] = passes[k], peak = UNIT_MEMORY * units, some = busy * SECTOR;
      // all of it, and what waits for reads: the larger, rounded off
      const moved = (loaded + stored) / (Math.min(peak, some) * CLOCK);
      const waiting = flight > 0 ? loaded / (busy * flight / LOADED) : 0;
      const t = [
        d.lanes / (LANES * busy * CLOCK * issue),
        d.requests / (busy * CLOCK),
        d.l2 / (UNIT_L2 * busy * CLOCK),
        (moved ** 4 + waiting ** 4) ** 0.25,
      ];
      sum += together(t);
      lanes += t[0];
      requests += t[1];
      l2 += t[2];
      memory += t[3];
      chain += d.iterations * Math.max(d.wait, ITERATION) + (own[k] >= 0 ? COMBINE + threads / 4096 : 0);
    });
    // one group waits for itself, several for the slowest unit
    const work = here > 1 ? together([lanes, requests, l2, memory]) : sum;
    const waves = groups / (units * resident);
    const tail = waves > 1 && waves < 4 ? 1 + (Math.ceil(waves) / waves - 1) / 2 : 1;
    const time = LAUNCH + ((work * tail) ** 8 + (chain * Math.ceil(waves)) ** 8) ** 0.125 + 0.1 * chain;
    return { time, lanes, requests, l2, memory, chain, registers, resident, waves, flight };
  }

  /** Bytes that the second-level cache keeps for what is read again. */
  private get cacheBytes(): number {
    return this.caps.l2 > 0 ? this.caps.l2 * CACHE_SHARE : OTHER_CACHE;
  }

  private serialAxes(axes: readonly PlanAxis[], isGrouped: boolean): readonly boolean[] {
    const serial = new Array<boolean>(this.outputs).fill(false), { regions } = this;
    const workOf = (r: Region): number => r.own.reduce((n, i) => axes[i].isOpen ? Infinity : n * axes[i].size, 1);
    for (const r of regions) {
      if (r.kind === "store") continue;
      const work = workOf(r);
      if (!isGrouped && work <= REPEATED_REDUCE) continue;
      // inside of another one
      if (r.axes.some((here, i) => here && isInside(this.axes[i]) && !r.own.includes(i))) continue;
      for (let i = 0; i < this.outputs; i++) {
        if (r.axes[i]) continue;
        serial[i] ||= !(isGrouped && regions.some((x) => x.kind === "reduce" && x.axes[i] && workOf(x) >= work));
      }
    }
    const isUseful = isGrouped || serial.some((s, i) => !s && axes[i].size !== 1);
    return isUseful ? serial : serial.fill(false);
  }

  /** Do neighbors around a shared reduction read neighboring elements, rather than those that share it? */
  private readsNeighbors({ accesses }: RegionCost, own: Digit, around: readonly Digit[]): boolean {
    return accesses.some(({ strides }) => {
      const step = Math.abs(strides[own.axis]) * own.stride;
      return step > 0 && around.some((d) => {
        const other = Math.abs(strides[d.axis]) * d.stride;
        return other > 0 && other < step;
      });
    });
  }

  /** Iterations of a thread's loops over the axes of a region that something depends on; all where one is the region's own. */
  private timesOf(
    r: Region,
    depends: readonly boolean[],
    axes: readonly PlanAxis[],
    serial: readonly boolean[],
    all: number,
  ): number {
    let times = 1;
    for (let i = 0; i < axes.length; i++) {
      if (!r.axes[i] || !depends[i] || (i < this.outputs && !serial[i])) continue;
      times *= axes[i].rest;
      if (axes[i].rest > 1 && r.own.includes(i)) return all;
    }
    return times;
  }

  /** Copies of what depends on these axes. */
  private copiesOf(r: Region, depends: readonly boolean[], axes: readonly PlanAxis[]): number {
    let own = 1;
    for (let i = 0; i < axes.length; i++) if (r.axes[i] && depends[i]) own *= axes[i].copies;
    return own;
  }

  /** Iterations of a thread's loops in a region. */
  private loopsOf(r: Region, axes: readonly PlanAxis[], serial: readonly boolean[]): number {
    let loops = 1;
    for (let i = 0; i < axes.length; i++) if (r.axes[i] && (i >= this.outputs || serial[i])) loops *= axes[i].rest;
    return loops;
  }

  /** What a region asks for. */
  private demand(
    { region: r, accesses, works, combine }: RegionCost,
    axes: readonly PlanAxis[],
    { serial, threads, whole, groups, counts }: Grouping,
    digits: readonly Digit[],
    kept: Map<UOp, number>,
  ): Demand {
    const loops = this.loopsOf(r, axes, serial), warps = ceilDiv(threads, Math.max(32, this.grid.warp));
    let copies = 1, around = 1;
    for (let i = 0; i < axes.length; i++) {
      if (!r.axes[i]) continue;
      copies *= axes[i].copies;
      if (!r.own.includes(i)) around *= axes[i].copies;
    }
    let lanes = loops * (copies * combine + LOOP_WORK), requests = 0, l2 = 0, flight = 0, wait = 0;
    const cache = this.cacheBytes;
    // results that stand side by side already are all computed from all that is read
    let values = r.kind === "reduce"
      ? around * r.lanes
      : this.axes.some((a) => a.role === "copies") && r.kind === "store"
      ? around * r.root.src[1].dtype.itemsize / 4
      : 0;
    const each: number[] = [];
    const shares = accesses.map((a) => {
      const { width, count, elements } = a.ofThread(axes), own = this.copiesOf(r, a.depends, axes);
      each.push(count);
      // without loops it is in registers already
      if (!a.isStore && loops === 1) {
        if (kept.get(a.base) === own) return elements / own;
        kept.set(a.base, own);
      }
      const times = this.timesOf(r, a.depends, axes, serial, loops), { sectors, clocks } = a.ofWarp(digits, width);
      requests += times * count * clocks * warps * groups;
      lanes += times *
        (count * ACCESS_WORK + (a.isGated ? GATE_WORK * elements : 0));
      if (!a.isStore) {
        values += elements * a.itemsize / 4 + (loops === 1 && a.brokenAxes > 0 ? count : 0);
        flight += elements * a.itemsize;
      }
      const once = count * sectors * SECTOR * warps, bytes = this.l2Bytes(a, r, axes, counts, times, once);
      l2 += bytes * groups;
      // what a thread waits for is in the nearest cache already, or further away
      if (!a.isStore) {
        wait = Math.max(wait, NEAR + Math.min(1, bytes / (times * once)) * (a.nbytes <= cache ? MIDDLE : FAR));
      }
      return elements / own;
    });
    for (const w of works) {
      const times = this.timesOf(r, w.depends, axes, serial, loops), copies = this.copiesOf(r, w.depends, axes);
      if (w.isQuotient) lanes += times * Math.min(copies, each[w.access]) * w.work;
      else lanes += times * copies * w.work * (w.access < 0 ? 1 : shares[w.access]);
    }
    return {
      lanes: lanes * groups * whole,
      requests,
      l2,
      iterations: loops,
      flight,
      wait,
      registers: values,
      results: around,
    };
  }

  /** Bytes that a group gets from the second-level cache. `once`: those of one iteration, each request by itself. */
  private l2Bytes(
    a: AccessTraffic,
    r: Region,
    axes: readonly PlanAxis[],
    counts: readonly number[],
    times: number,
    once: number,
  ): number {
    const all = times * once, unique = a.uniqueBytes(counts);
    if (a.isStore) return Math.max(all, 2 * all - unique); // parts of sectors are put together there
    if (all <= unique) return all;
    if (unique <= L1) return unique;
    // what is left of a sector is read by the next iteration
    let least = times;
    for (const i of r.own) if (!a.depends[i]) least /= axes[i].rest;
    return once <= L1 ? Math.max(unique, unique * times / Math.max(1, least)) : all;
  }

  /** Bytes of memory by region: what an earlier region read is in registers, or in a cache, or is read again. */
  private readAgain(
    axes: readonly PlanAxis[],
    { serial, groups, counts }: Grouping,
    together: number,
  ): (readonly [loaded: number, stored: number])[] {
    const cache = this.cacheBytes;
    const seen = new Map<UOp, { readonly whole: number; readonly isKept: boolean }>();
    return this.costs.map(({ region, accesses }) => {
      const isKept = this.loopsOf(region, axes, serial) === 1;
      let loaded = 0, stored = 0;
      const now = new Map<UOp, readonly [whole: number, unique: number]>();
      for (const a of accesses) {
        const unique = a.uniqueBytes(counts), whole = Math.min(unique * groups, a.whole);
        // what other groups read too is mostly in the cache
        const some = whole <= cache ? whole : whole + MISSES * Math.max(0, unique * groups - whole);
        const all = a.nbytes <= cache ? some : some * a.pieceCost(counts, this.sizes);
        if (a.isStore) stored += all;
        else if (all > (now.get(a.base)?.[0] ?? 0)) now.set(a.base, [all, unique]);
      }
      for (const [base, [whole, unique]] of now) {
        const before = seen.get(base);
        if (before !== undefined && before.whole >= whole) {
          // without loops in both it is one read
          if ((before.isKept && isKept) || unique * together <= cache) continue;
        }
        loaded += whole;
        seen.set(base, { whole, isKept });
      }
      return [loaded, stored];
    });
  }
}
