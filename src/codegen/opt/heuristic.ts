/**
 * Chooses opts for loops on CPUs, from the device's capabilities and a model of cost. Deterministic.
 *
 * Which axis carries the lanes, and how many copies along which output axes make the register tile, is found by trying
 * the few candidates there are: an iteration costs its arithmetic, its loads (one a vector where the stride is 1, half
 * one for a scalar that is broadcast, one a lane otherwise) and, in a reduction, the latency of too few accumulators.
 * Then small reduce axes are unrolled, loops ordered so that panels are reused from the cache, and threads assigned.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { prod } from "../../helpers/math.ts";
import type { Capabilities, Renderer } from "../../renderer/renderer.ts";
import { type Access, type DTypeSet, type Region, regionsOf } from "./access.ts";
import type { Axis, Kernel } from "./kernel.ts";

/** Accumulators that hide the latency of an addition: two units, four cycles. */
const LATENCY_ACCUMULATORS = 8;
/** Work worth a second thread, in operations. */
const THREAD_WORK = 60_000;
/** Copies of a reduction's body that unrolling may make. */
const UNROLL_COPIES = 64;
/** Sizes of register tiles that are tried along an axis. */
const TILE_SIZES = [1, 2, 3, 4, 6, 8, 12];

/** Copies along output axes: the register tile. */
type Tile = readonly (readonly [axis: number, copies: number])[];

/** How a kernel is vectorized and tiled. */
interface Plan {
  readonly cost: number;
  /** Output axis with the lanes; -1 where none has. */
  readonly vector: number;
  readonly lanes: number;
  /** By region: the reduce axis with the lanes; -1 where none has. */
  readonly reduceVectors: readonly number[];
  readonly tile: Tile;
}

/** Lanes for the values of a kernel: the fewest that any vectorizable dtype of them has. */
function lanesFor(values: DTypeSet, caps: Capabilities): number {
  let lanes = Infinity;
  for (const d of values) {
    for (const e of effective(d, caps)) {
      const n = caps.vectorLanes(e);
      if (n > 1) lanes = Math.min(lanes, n);
    }
  }
  return lanes === Infinity ? 1 : lanes;
}

/** The dtypes in which a value of `d` is kept and computed. */
function effective(d: DType, caps: Capabilities): DType[] {
  if (caps.computeDTypes.includes(d) || (d !== dtypes.float16 && d !== dtypes.bfloat16)) return [d];
  return [dtypes.float32, caps.storageDTypes.includes(d) ? d : dtypes.uint16];
}

class Chooser {
  private readonly axes: readonly Axis[];
  private readonly sizes: number[];
  private readonly outputs: number;
  private readonly regions: readonly Region[];
  private readonly lanes: number;

  constructor(private readonly kernel: Kernel, private readonly caps: Capabilities) {
    this.axes = kernel.axes;
    this.outputs = kernel.outputAxes.length;
    this.sizes = this.axes.map((a) => a.size === 0 ? 16 : a.size);
    const { regions, dtypes } = regionsOf(kernel.ast, this.axes);
    this.regions = regions;
    this.lanes = lanesFor(dtypes, caps);
  }

  // ---- model

  /** Instructions for one execution of an access, for a lane axis (or -1). */
  private accessCost(a: Access, lane: number, lanes: number): number {
    if (lane < 0 || !a.depends[lane]) return 0.5;
    // a gate that differs by lane: a branch for loads, a store a lane
    if (a.gated[lane]) return a.strides[lane] === 1 && !a.isStore ? 2 : 2 * lanes;
    return a.strides[lane] === 1 ? (a.isStore ? 1.5 : 1) : 1.25 * lanes;
  }

  /** Useful part of the iterations when an axis of `size` is cut in pieces of `k`. */
  private efficiency(size: number, k: number): number {
    return size / (Math.ceil(size / k) * k);
  }

  private regionCost(r: Region, lane: number, lanes: number, tile: Tile): number {
    let iterations = 1;
    for (let i = 0; i < this.sizes.length; i++) if (r.axes[i]) iterations *= this.sizes[i];
    let copies = 1;
    if (lane >= 0) {
      iterations /= this.isReduce(lane) ? lanes : lanes * this.efficiency(this.sizes[lane], lanes);
      if (this.isReduce(lane) && this.sizes[lane] < lanes) return Infinity;
    }
    for (const [axis, k] of tile) {
      if (!r.axes[axis]) continue;
      copies *= k;
      const n = axis === lane ? Math.ceil(this.sizes[axis] / lanes) : this.sizes[axis];
      iterations /= this.efficiency(n, k);
    }
    let loads = 0;
    for (const a of r.accesses) {
      let each = this.accessCost(a, lane, lanes);
      for (const [axis, k] of tile) if (a.depends[axis]) each *= k;
      // what does not depend on the reduced axes stands outside of their loops
      if (r.own.length > 0 && !r.own.some((i) => a.depends[i])) {
        each /= r.own.reduce((n, i) => n * this.sizes[i] / (i === lane ? lanes : 1), 1);
      }
      loads += each;
    }
    const arithmetic = Math.max(1, r.work - (r.own.length > 0 && this.caps.hasMulAcc ? 1 : 0)) * copies / 2;
    let body = Math.max(arithmetic, loads) + 0.1 * (arithmetic + loads);
    if (r.own.length > 0) {
      // unrolling supplies accumulators where lanes are on the reduced axis
      const chains = copies * r.lanes;
      const unrolled = lane >= 0 && this.isReduce(lane) ? 4 : 1;
      body = Math.max(body, 4 * Math.min(1, LATENCY_ACCUMULATORS / (chains * unrolled * 2)));
    }
    let total = iterations / copies * body;
    if (lane >= 0 && this.isReduce(lane)) {
      // one combination of the lanes for each result
      let results = 1;
      for (let i = 0; i < this.outputs; i++) if (r.axes[i]) results *= this.sizes[i];
      total += results * lanes * r.lanes;
    }
    return total;
  }

  private isReduce(axis: number): boolean {
    return axis >= this.outputs;
  }

  /** The best lanes of each region's reduce axes, given the output axis with lanes; and the cost of everything. */
  private evaluate(vector: number, lanes: number, tile: Tile): { cost: number; reduceVectors: number[] } {
    let cost = 0;
    const chosen: number[] = vector >= 0 ? [vector] : [];
    const reduceVectors = this.regions.map((r) => {
      // a region inside of another: it has the other's lanes already
      const outer = chosen.find((i) => r.axes[i]);
      if (outer !== undefined) {
        cost += this.regionCost(r, outer, lanes, tile);
        return r.own.includes(outer) ? outer : -1;
      }
      let best = this.regionCost(r, -1, 1, tile), axis = -1;
      // the last axis of a reduction, or the only one that is long
      for (const i of r.own) {
        if (this.axes[i].size < lanes || lanes === 1) continue;
        const c = this.regionCost(r, i, lanes, tile);
        if (c < best) [best, axis] = [c, i];
      }
      cost += best;
      if (axis >= 0) chosen.push(axis);
      return axis;
    });
    return { cost, reduceVectors };
  }

  /** Accumulators that fit the registers beside operands. */
  private get budget(): number {
    const { registers, vectorBytes } = this.caps;
    // an engine that compiles in one pass (WebAssembly) spills sooner than a C compiler
    return registers >= 32 ? 24 : vectorBytes <= 16 ? Math.max(4, Math.floor(registers * 0.57)) : 12;
  }

  private plan(): Plan {
    const { lanes } = this;
    let best: Plan | undefined;
    const consider = (vector: number, n: number, tile: Tile): void => {
      const { cost, reduceVectors } = this.evaluate(vector, n, tile);
      if (best === undefined || cost < best.cost * 0.995) best = { cost, vector, lanes: n, reduceVectors, tile };
    };
    const hasReduce = this.regions.some((r) => r.own.length > 0);
    const vectors: [number, number][] = [[-1, lanes]];
    if (lanes > 1) {
      for (let v = 0; v < this.outputs; v++) {
        for (let n = lanes; n >= 2 && n >= lanes / 4; n /= 2) {
          if (!this.canSplit(v, n)) continue;
          vectors.push([v, n]);
          if (this.axes[v].size % n === 0) break;
        }
      }
    }
    for (const [v, n] of vectors) {
      consider(v, n, []);
      if (!hasReduce) continue;
      for (const tile of this.tiles(v, n)) consider(v, n, tile);
    }
    return best!;
  }

  /** Can `k` be split off output axis `i`? */
  private canSplit(i: number, k: number): boolean {
    const { size } = this.axes[i];
    return size >= k && (size % k === 0 || this.kernel.mayOverlap);
  }

  /** Register tiles of one or two axes that the largest reduction depends on. */
  private tiles(vector: number, lanes: number): Tile[] {
    const out: Tile[] = [];
    const cost = this.regions.map((r) => r.own.length === 0 ? 0 : this.regionCost(r, -1, 1, []));
    const main = this.regions[cost.indexOf(Math.max(...cost))];
    const limit = Math.floor(this.budget / main.lanes);
    const options: [number, number][] = [];
    for (let i = 0; i < this.outputs; i++) {
      if (!main.axes[i] || this.axes[i].size === 0) continue;
      const n = i === vector ? Math.ceil(this.axes[i].size / lanes) : this.axes[i].size;
      for (const k of TILE_SIZES) {
        if (k === 1 || k > limit || k > n) continue;
        if (n % k !== 0 && !this.kernel.mayOverlap) continue;
        if (i === vector && this.axes[i].size % (k * lanes) !== 0 && this.axes[i].size < k * lanes) continue;
        options.push([i, k]);
      }
    }
    for (let a = 0; a < options.length; a++) {
      out.push([options[a]]);
      for (let b = a + 1; b < options.length; b++) {
        if (options[a][0] !== options[b][0] && options[a][1] * options[b][1] <= limit) {
          out.push([options[a], options[b]]);
        }
      }
    }
    return out;
  }

  // ---- application

  run(): void {
    const { kernel } = this;
    if (this.axes.some((a) => a.size === 0)) return this.threads(this.totalWork(), []);
    const plan = this.plan();
    if (plan.vector >= 0) {
      const copies = plan.tile.find(([i]) => i === plan.vector)?.[1] ?? this.elementwiseCopies(plan);
      this.vectorize(plan.vector, plan.lanes, copies);
    }
    for (const [i, k] of plan.tile) if (i !== plan.vector) kernel.apply({ op: "UPCAST", axis: i, arg: k });
    const done = new Set<number>();
    plan.reduceVectors.forEach((i) => {
      if (i < 0 || done.has(i)) return;
      done.add(i);
      kernel.apply({ op: "VECTOR", axis: i, arg: plan.lanes });
    });
    this.unroll(plan);
    const order = this.order(plan);
    this.threads(plan.cost, order);
  }

  /** Copies for independent work where nothing is reduced along the lanes' axis. */
  private elementwiseCopies(plan: Plan): number {
    const region = this.regions.find((r) => r.axes[plan.vector] && r.own.length > 0);
    if (region !== undefined) return 1;
    const work = this.regions.reduce((n, r) => n + (r.axes[plan.vector] ? r.work + r.accesses.length : 0), 0);
    return work <= 12 ? 4 : work <= 40 ? 2 : 1;
  }

  private vectorize(axis: number, lanes: number, copies: number): void {
    const { kernel } = this;
    const { size } = this.axes[axis];
    for (; copies > 1; copies--) {
      const tile = lanes * copies;
      if (size % tile === 0 || (kernel.mayOverlap && size >= tile)) break;
    }
    const tile = lanes * copies;
    if (size % tile !== 0) kernel.apply({ op: "PADTO", axis, arg: tile });
    kernel.apply({ op: "VECTOR", axis, arg: lanes });
    if (copies > 1) kernel.apply({ op: "UPCAST", axis, arg: copies });
  }

  /** Unrolls reduce axes: short ones whole, others for accumulators. */
  private unroll(plan: Plan): void {
    const { kernel } = this;
    const unrolled = new Map<number, number>();
    this.regions.forEach((r, region) => {
      if (r.own.length === 0) return;
      const here = plan.tile.reduce((n, [i, k]) => r.axes[i] ? n * k : n, 1);
      let body = here * Math.max(1, r.accesses.length / 2);
      const lane = plan.reduceVectors[region];
      if (lane >= 0) {
        const left = Math.floor(this.axes[lane].size / plan.lanes);
        const want = Math.max(1, Math.floor(LATENCY_ACCUMULATORS / (here * r.lanes)));
        const k = divisorUpTo(left, want);
        if (k > 1 && !unrolled.has(lane)) {
          unrolled.set(lane, k);
          kernel.apply({ op: "UNROLL", axis: lane - this.outputs, arg: k });
        }
        return;
      }
      for (const i of [...r.own].reverse()) {
        const { size } = this.axes[i];
        if (unrolled.has(i)) continue;
        const whole = size <= 8 && size * body <= UNROLL_COPIES;
        const k = whole ? size : divisorUpTo(size, Math.min(4, Math.floor(LATENCY_ACCUMULATORS / here)));
        if (k < 2) break;
        unrolled.set(i, k);
        kernel.apply({ op: "UNROLL", axis: i - this.outputs, arg: k });
        if (!whole) break;
        body *= size;
      }
    });
  }

  /** Moves the lanes' axis outside of the other tiled axis where its panel is worth keeping in the cache. Loop order. */
  private order(plan: Plan): number[] {
    const order = Array.from({ length: this.outputs }, (_, i) => i);
    const v = plan.vector;
    const other = plan.tile.find(([i]) => i !== v)?.[0] ?? -1;
    if (v < 0 || other < 0 || other > v) return order;
    const cache = this.caps.l2 || 1 << 19;
    for (const r of this.regions) {
      if (r.own.length === 0 || !r.axes[v] || !r.axes[other]) continue;
      let bytes = 0;
      for (const a of r.accesses) {
        if (!a.depends[v] || a.depends[other]) continue;
        bytes += prod(this.sizes.map((n, i) => a.depends[i] && (i === v || this.isReduce(i)) ? n : 1)) *
          a.dtype.itemsize;
      }
      if (bytes > cache / 2) {
        this.kernel.apply({ op: "SWAP", axis: other, arg: v });
        order[order.indexOf(v)] = other;
        order[other] = v;
        break;
      }
    }
    return order;
  }

  private totalWork(): number {
    return this.regions.reduce((n, r) => n + this.regionCost(r, -1, 1, []), 0);
  }

  /** Splits an outer axis over threads where there is enough to do. */
  private threads(work: number, order: readonly number[]): void {
    const { threads } = this.caps;
    if (threads < 2 || work < THREAD_WORK) return;
    let best = -1, bestBalance = 0.5;
    const list = order.length > 0 ? order : Array.from({ length: this.outputs }, (_, i) => i);
    for (const i of list) {
      const a = this.axes[i];
      const n = a.size === 0 ? 0 : a.tiled ? a.outer : a.rest;
      if (n < 2 || this.regions.some((r) => r.own.length === 0 && !r.axes[i])) continue;
      const balance = n / (Math.ceil(n / threads) * threads);
      // outer axes first: inner ones only where they balance clearly better
      if (balance > bestBalance + (best < 0 ? 0 : 0.15)) [best, bestBalance] = [i, balance];
    }
    if (best >= 0) this.kernel.apply({ op: "THREAD", axis: best, arg: 0 });
  }
}

/** The largest divisor of `n` that is at most `limit`. */
function divisorUpTo(n: number, limit: number): number {
  for (let k = Math.min(n, limit); k > 1; k--) if (n % k === 0) return k;
  return 1;
}

/** Applies the opts that suit the device to a kernel. Does nothing for scalar machines. */
export function heuristic(kernel: Kernel, renderer: Renderer): void {
  const { caps } = renderer;
  if (caps.hasGrid || (caps.vectorBytes === 0 && caps.threads < 2)) return;
  new Chooser(kernel, caps).run();
}
