/**
 * Chooses opts for loops on CPUs, from the device's capabilities and a model of cost. Deterministic.
 *
 * Which axes carry the lanes, how many copies along which output axes make the register tile, and in which blocks matrices
 * are walked through, is found by trying the few candidates there are. What an iteration takes is its arithmetic and its
 * instructions for accesses (machine/cost_model.ts), or the lines that it fetches (machine/memory_cost.ts), whichever is
 * more. Rows are kept where that costs less than computing their elements again. Operands that are read in strides again and
 * again are packed (STAGE). Then small reduce axes are unrolled, loops ordered so that panels are reused from the cache, and
 * threads assigned.
 *
 * @module
 */
import { type DType, dtypes, smallFloatOf } from "../../dtype/dtype.ts";
import { ceilDiv } from "../../helpers/math.ts";
import type { Capabilities, Renderer } from "../../renderer/renderer.ts";
import { vmax } from "../../uop/algebra/bounds.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn as dependsOnRange } from "../../uop/core/ranges.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { indexForm, liesAlong } from "../../uop/algebra/linear_form.ts";
import { type Access, type DTypeSet, type Region, regionsOf } from "../machine/access.ts";
import { copiesOn, CostModel, EDGE_COST, LATENCY_ACCUMULATORS, type Tile } from "../machine/cost_model.ts";
import { type MemoryCost, MemoryModel, Nest } from "../machine/memory_cost.ts";
import type { Axis } from "../opt/axis.ts";
import { blockStage, stagesIn } from "../opt/blocks.ts";
import { inlineRows } from "../opt/inline_rows.ts";
import { Kernel } from "../opt/kernel.ts";
import { ungate } from "../ast/ungate.ts";

/** Cycles of the model that are worth a second thread: some 15 microseconds, a few times what waking it takes. */
const THREAD_COST = 60_000;
/** Copies of a reduction's body that unrolling a short axis may make: a window of 8 x 8; more are slow to compile. */
const UNROLL_COPIES = 64;
/** Sizes of register tiles that are tried along an axis: those whose products fill, but do not exceed, 16 or 32 registers. */
const TILE_SIZES = [2, 3, 4, 6, 8, 12];
/** Regions up to which their lanes are chosen together: the choices multiply. */
const JOINT_REGIONS = 6;
/** Vectors up to which the rest of a reduce axis is a vector under a mask instead of a loop: there it is a fifth or more. */
const MASKED_VECTORS = 4;

/** Sizes of blocks that are tried where accesses lie along different axes. */
const BLOCK_SIZES = [32, 64, 128, 256];
/** Part of the cost of the best that another candidate must come below: it has more copies. */
const TIE = 0.994;
/** Part of what takes less time that is not hidden behind what takes more. */
const NOT_HIDDEN = 0.1;

/** Leaves open what sums in another order may differ by. */
const ROUNDED = 1 - 1e-9;

const NO_TILE: Tile = [];

/** How a kernel may be vectorized and tiled. */
interface Candidate {
  /** Output axis with the lanes; -1 where none has. */
  readonly vector: number;
  readonly lanes: number;
  /** By region: the axis with the lanes, -1 where none has. */
  readonly regionLanes: readonly number[];
  readonly tile: Tile;
  /** Elements of blocks of output axes: what they hold is read and written before the next block. */
  readonly blocks: Tile;
  /** Output axes in the order of loops. */
  readonly order: readonly number[];
  /** The operand that is packed. */
  readonly packed: Access | undefined;
}

/** What has been chosen, and what it costs. */
interface Plan extends Candidate {
  readonly cost: number;
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
  if (caps.computeDTypes.includes(d) || smallFloatOf(d) === undefined) return [d];
  return [dtypes.float32, caps.storageDTypes.includes(d) ? d : d.bits === 8 ? dtypes.uint8 : dtypes.uint16];
}

/** The largest divisor of `n` that is at most `limit`. */
function divisorUpTo(n: number, limit: number): number {
  for (let k = Math.min(n, limit); k > 1; k--) if (n % k === 0) return k;
  return 1;
}

function sum(list: readonly number[]): number {
  let total = 0;
  for (const n of list) total += n;
  return total;
}

/** What takes `cost` in one thread, where it is long enough for several of which one takes `uneven` times the mean. */
function spread(cost: number, uneven: number): number {
  return cost < THREAD_COST ? cost : cost * uneven;
}

/** Does a tile have an axis of a region? */
function touches(tile: Tile, r: Region): boolean {
  for (let t = 0; t < tile.length; t++) if (r.axes[tile[t][0]]) return true;
  return false;
}

/** Vectors in a block of an axis that ends at a variable: half of the accumulators that hide the latency of an addition. */
const BLOCK_VECTORS = 4;

class Chooser {
  private readonly axes: readonly Axis[];
  private readonly sizes: readonly number[];
  /** Output axes come first. */
  private readonly outputs: number;
  private readonly regions: readonly Region[];
  private readonly lanes: number;
  private readonly model: CostModel;
  private readonly memory: MemoryModel;
  /** The output axes as they are. */
  private readonly inOrder: readonly number[];
  /** The regions of STAGEs. */
  private readonly stages: readonly Region[];
  /** Memo of `stageTile`, by reduce and lanes. */
  private readonly stageTiles = new Map<string, Tile>();
  /** What `memoryCost` works on, kept from call to call. */
  private readonly extents: number[] = [];
  private readonly nest = new Nest();

  constructor(private readonly kernel: Kernel, private readonly caps: Capabilities) {
    this.axes = kernel.axes;
    this.outputs = kernel.outputAxes.length;
    this.sizes = this.axes.map((a) => a.expected);
    const { regions, dtypes } = regionsOf(kernel.ast, this.axes);
    this.regions = regions;
    this.lanes = lanesFor(dtypes, caps);
    this.model = new CostModel(this.axes, this.sizes, this.outputs, caps);
    this.memory = new MemoryModel(regions, this.sizes, caps);
    this.stages = regions.filter((r) => r.kind === "stage");
    this.inOrder = Array.from({ length: this.outputs }, (_, i) => i);
  }

  // ---- model

  /** The cost of a region, with the tile along output axes given, and the best along those of a STAGE around it. */
  private regionCost(r: Region, lane: number, lanes: number, tile: Tile): number {
    const inner = this.stageTile(r, lane, lanes);
    const all = inner.length === 0 ? tile : [...tile, ...inner];
    return this.model.cost(r, lane, lanes, all) + this.model.combining(r, lane, lanes, all);
  }

  /** What the memory costs in a region, with the output axes in `order`. */
  private memoryCost(r: Region, lane: number, plan: Candidate): MemoryCost {
    const { lanes, tile, blocks, order, packed } = plan;
    const { extents, nest, sizes } = this;
    for (let i = 0; i < sizes.length; i++) extents[i] = (i === lane && r.axes[i] ? lanes : 1) * copiesOn(tile, i);
    nest.clear();
    for (let k = 0; k < sizes.length; k++) {
      const i = k < this.outputs ? order[k] : k;
      if (r.axes[i] && !r.own.includes(i)) nest.add(i, sizes[i], Math.max(extents[i], copiesOn(blocks, i)));
    }
    for (let t = 0; t < order.length && blocks.length > 0; t++) {
      const i = order[t], block = copiesOn(blocks, i);
      if (r.axes[i] && block > 1) nest.add(i, block, extents[i]);
    }
    for (let i = 0; i < sizes.length; i++) if (r.axes[i] && r.own.includes(i)) nest.add(i, sizes[i], extents[i]);
    const isHere = packed !== undefined && r.accesses.includes(packed);
    const copy = isHere ? { access: packed, tile: this.model.packedTile(packed, r, extents) } : undefined;
    return this.memory.cost(r, extents, nest, copy);
  }

  /** The lanes of each region, given the output axis with lanes, and the cost of everything. */
  private assign(vector: number, lanes: number): { cost: number; regionLanes: readonly number[] } {
    const { regions } = this;
    const taken: number[] = vector >= 0 ? [vector] : [];
    const current = new Array<number>(regions.length).fill(-1);
    let best = Infinity, bestLanes: readonly number[] = current.slice();
    const joint = regions.filter((r) => r.own.length > 0).length <= JOINT_REGIONS;
    const visit = (k: number, cost: number): void => {
      if (cost >= best) return;
      if (k === regions.length) {
        best = cost;
        bestLanes = current.slice();
        return;
      }
      const r = regions[k];
      // a region inside of another has the other's lanes already
      const outer = taken.find((i) => r.axes[i]);
      if (outer !== undefined) {
        current[k] = outer;
        visit(k + 1, cost + this.regionCost(r, outer, lanes, []));
        return;
      }
      const options: [cost: number, axis: number][] = [[this.regionCost(r, -1, 1, []), -1]];
      for (const i of r.own) {
        if (lanes > 1 && this.axes[i].size >= lanes) options.push([this.regionCost(r, i, lanes, []), i]);
      }
      options.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      for (const [c, i] of joint ? options : options.slice(0, 1)) {
        current[k] = i;
        if (i >= 0) taken.push(i);
        visit(k + 1, cost + c);
        if (i >= 0) taken.pop();
      }
    };
    visit(0, 0);
    return { cost: best, regionLanes: bestLanes };
  }

  /** Accumulators that fit the registers beside operands. */
  private get budget(): number {
    const { registers, vectorBytes } = this.caps;
    // an engine that compiles in one pass (WebAssembly) spills sooner than a C compiler
    return registers >= 32 ? 24 : vectorBytes <= 16 ? Math.max(4, Math.floor(registers * 0.57)) : 12;
  }

  /** The lanes, tile and blocks that cost least. */
  plan(): Plan {
    const { lanes, regions } = this;
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
    const costs: number[] = [], whole: number[] = [];
    let best: Plan | undefined;
    const candidates = vectors.map(([vector, n]) => ({ vector, n, ...this.assign(vector, n) }));
    candidates.sort((a, b) => a.cost - b.cost);
    for (const { vector, n, cost, regionLanes } of candidates) {
      if (cost === Infinity) continue;
      // no tile takes less arithmetic
      const least = sum(regions.map((r, k) => this.model.arithmeticCost(r, regionLanes[k], n)));
      if (least >= (best?.cost ?? Infinity) * TIE) continue;
      // what a tile does not touch costs the same
      const alone = regions.map((r, k) => this.regionCost(r, regionLanes[k], n, []));
      for (const tile of this.candidateTiles(regionLanes, vector, n)) {
        // what others must come below, and what instructions alone come to: reductions, which cost most, are last in the list
        const limit = best === undefined ? Infinity : best.cost * TIE;
        let bound = 0;
        for (let k = regions.length - 1; k >= 0 && bound < limit; k--) {
          costs[k] = touches(tile, regions[k]) ? this.regionCost(regions[k], regionLanes[k], n, tile) : alone[k];
          bound += costs[k];
        }
        if (bound >= limit) continue;
        let packed: Access | undefined, isAsked = false;
        for (const blocks of this.candidateBlocks(tile, vector, n)) {
          const uneven = this.imbalance(tile, blocks, vector, n);
          if (spread(bound, uneven) >= (best?.cost ?? Infinity) * TIE) continue;
          if (!isAsked) packed = this.packedAccess({ lanes: n, regionLanes, tile });
          isAsked = true;
          for (const order of this.candidateOrders(tile, vector, packed)) {
            const made = { vector, lanes: n, regionLanes, tile, blocks, order, packed };
            const most = (best?.cost ?? Infinity) * TIE;
            let rest = bound;
            for (let k = regions.length - 1; k >= 0 && spread(rest, uneven) * ROUNDED < most; k--) {
              whole[k] = this.wholeCost(regions[k], k, costs[k], made);
              rest += whole[k] - costs[k];
            }
            if (spread(rest, uneven) * ROUNDED >= most) continue;
            const cost = spread(sum(whole), uneven);
            if (best === undefined || cost < most) best = { ...made, cost };
          }
        }
      }
    }
    return best!;
  }

  /** The cost of the region at `k` that has `cost` without what memory costs. */
  private wholeCost(r: Region, k: number, cost: number, plan: Candidate): number {
    const { stream, jumps } = this.memoryCost(r, plan.regionLanes[k], plan);
    const last = this.model.combining(r, plan.regionLanes[k], plan.lanes, plan.tile), issued = cost - last;
    return Math.max(issued, stream) + NOT_HIDDEN * Math.min(issued, stream) + jumps + last;
  }

  /** How much longer the thread with most tiles takes than the mean, where the best of the axes is split. */
  private imbalance(tile: Tile, blocks: Tile, vector: number, lanes: number): number {
    const { threads } = this.caps;
    let best = threads;
    for (let i = 0; i < this.outputs && threads > 1; i++) {
      const piece = Math.max(copiesOn(blocks, i), copiesOn(tile, i) * (i === vector ? lanes : 1));
      const n = ceilDiv(this.sizes[i], piece);
      best = Math.min(best, ceilDiv(n, threads) * threads / n);
    }
    return best;
  }

  /** Tiles to try with these lanes: none first, then rows that are transposed, then those of the main reduction. */
  private candidateTiles(regionLanes: readonly number[], vector: number, lanes: number): Tile[] {
    const tiles: Tile[] = [this.plainTile(vector, lanes)], main = this.mainRegion(regionLanes, lanes);
    const rows = new Set<number>();
    for (const [k, r] of this.regions.entries()) {
      for (const a of r.accesses) rows.add(regionLanes[k] < 0 ? -1 : this.model.acrossAxis(a, regionLanes[k]));
    }
    for (const i of rows) {
      if (i < 0 || i >= this.outputs || i === vector) continue;
      for (let n = lanes; n >= Math.min(4, lanes); n /= 2) if (this.canSplit(i, n)) tiles.push([[i, n]]);
    }
    const plain = tiles[0], withPlain = (t: Tile): Tile => copiesOn(t, vector) > 1 ? t : [...t, ...plain];
    if (main !== undefined) tiles.push(...this.tiles(main, vector, lanes).map(withPlain));
    return tiles.filter((tile, k) => k === 0 || !this.copiesMemory(tile));
  }

  /** Copies along the lanes' axis for independent work, where nothing is reduced along it. */
  private plainTile(vector: number, lanes: number): Tile {
    if (vector < 0 || this.regions.some((r) => r.axes[vector] && r.own.length > 0)) return NO_TILE;
    const work = this.regions.reduce((n, r) => n + (r.axes[vector] ? r.work + r.accesses.length : 0), 0);
    const copies = this.wholeCopies(vector, lanes, work <= 12 ? 4 : work <= 40 ? 2 : 1);
    return copies > 1 ? [[vector, copies]] : NO_TILE;
  }

  /** Blocks to try: none, and where nothing is kept or reduced, blocks of all axes along which some access lies. */
  private candidateBlocks(tile: Tile, vector: number, lanes: number): Tile[] {
    const out: Tile[] = [NO_TILE], axes = new Set<number>();
    if (!this.kernel.mayOverlap || this.regions.some((r) => r.kind !== "store")) return out;
    for (const r of this.regions) {
      for (const a of r.accesses) a.strides.forEach((s, i) => Math.abs(s) === 1 && axes.add(i));
    }
    if (axes.size < 2 || [...axes].some((i) => this.axes[i].isOpen)) return out;
    for (const size of BLOCK_SIZES) {
      const blocks = [...axes].map((i): [number, number] => {
        const piece = copiesOn(tile, i) * (i === vector ? lanes : 1);
        return [i, Math.min(Math.floor(this.sizes[i] / piece) * piece, ceilDiv(size, piece) * piece)];
      });
      if (blocks.every(([, k]) => k > 1)) out.push(blocks);
      if (blocks.every(([i, k]) => 2 * k > this.sizes[i])) break;
    }
    return out;
  }

  /** The reduction that costs most. */
  private mainRegion(regionLanes: readonly number[], lanes: number): Region | undefined {
    let main: Region | undefined, most = -1;
    this.regions.forEach((r, k) => {
      if (r.kind !== "reduce") return;
      const c = this.regionCost(r, regionLanes[k], lanes, []);
      if (c > most) [main, most] = [r, c];
    });
    return main;
  }

  /** Can `k` be split off output axis `i`? */
  private canSplit(i: number, k: number): boolean {
    const { size } = this.axes[i];
    return size >= k && (size % k === 0 || this.kernel.mayOverlap);
  }

  /** Register tiles of one or two output axes that a reduction depends on. */
  private tiles(main: Region, vector: number, lanes: number): Tile[] {
    const axes = Array.from({ length: this.outputs }, (_, i) => i);
    return this.tilesOf(main, axes, vector, lanes);
  }

  /** Register tiles of one or two of `axes`. Those of a STAGE are cut in equal parts. */
  private tilesOf(main: Region, axes: readonly number[], vector: number, lanes: number): Tile[] {
    const out: Tile[] = [];
    const limit = Math.floor(this.budget / main.lanes);
    const options: [number, number][] = [];
    for (const i of axes) {
      if (!main.axes[i] || this.axes[i].size === 0) continue;
      const { size, isOpen } = this.axes[i], overlaps = i < this.outputs && !isOpen && this.kernel.mayOverlap;
      const n = i === vector ? ceilDiv(size, lanes) : size;
      for (const k of TILE_SIZES) {
        if (k > limit || k > n || (n % k !== 0 && !overlaps)) continue;
        if (i === vector && size % (k * lanes) !== 0 && size < k * lanes) continue;
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

  /** The register tile of a reduce in a STAGE, along the axes of the STAGE: where not all that it reads depends on them. */
  private stageTile(r: Region, lane: number, lanes: number): Tile {
    if (r.kind !== "reduce" || this.stages.length === 0) return NO_TILE;
    const axes = this.axes.flatMap((a, i) => a.role === "stage" && r.axes[i] ? [i] : []);
    if (axes.length === 0 || r.accesses.every((a) => axes.every((i) => a.depends[i]))) return NO_TILE;
    const key = `${this.regions.indexOf(r)} ${lane} ${lanes}`;
    let best = this.stageTiles.get(key);
    if (best !== undefined) return best;
    best = [];
    let least = this.model.cost(r, lane, lanes, []);
    for (const tile of this.tilesOf(r, axes, lane, lanes)) {
      const cost = this.model.cost(r, lane, lanes, tile);
      if (cost < least * 0.995) [best, least] = [tile, cost];
    }
    this.stageTiles.set(key, best);
    return best;
  }

  /** Would copies along output axes multiply what the kernel keeps beyond the first cache? */
  private copiesMemory(tile: Tile): boolean {
    let nbytes = 0, copies = 1;
    for (const r of this.stages) {
      let n = 1;
      for (let t = 0; t < tile.length; t++) if (r.axes[tile[t][0]]) n *= tile[t][1];
      copies = Math.max(copies, n);
      nbytes += r.own.reduce((p, i) => p * this.sizes[i], n * r.root.dtype.itemsize);
    }
    return copies > 1 && nbytes > (this.caps.l1 || 1 << 15);
  }

  // ---- application

  run(): void {
    const { kernel, caps } = this;
    const plan = this.plan();
    const copies = Array.from({ length: this.outputs }, (_, i) => copiesOn(plan.tile, i));
    const v = plan.vector;
    if (v >= 0) copies[v] = this.wholeCopies(v, plan.lanes, copies[v]);
    const tileOf = (i: number): number => copies[i] * (i === v ? plan.lanes : 1);
    // order of loops, and who is split over threads
    const { packed, order } = plan;
    let thread = -1;
    if (caps.threads > 1 && plan.cost >= THREAD_COST) thread = this.threadAxis(order, tileOf, packed);
    let chunk = -1;
    if (thread >= 0 && packed !== undefined && !packed.depends[thread]) {
      // a few long chunks, so that each fills its tiles rarely
      const tiles = ceilDiv(this.sizes[thread], tileOf(thread));
      const size = ceilDiv(tiles, caps.threads) * tileOf(thread);
      if (thread !== v && kernel.mayOverlap && size > 1 && size < this.sizes[thread]) {
        kernel.apply({ op: "PADTO", axis: thread, arg: size });
        chunk = thread;
      }
    }
    for (const [i, size] of plan.blocks) kernel.apply({ op: "PADTO", axis: i, arg: size });
    if (v >= 0) {
      const tile = tileOf(v);
      if (this.axes[v].size % tile !== 0 && plan.blocks.length === 0) kernel.apply({ op: "PADTO", axis: v, arg: tile });
      kernel.apply({ op: "VECTOR", axis: v, arg: plan.lanes });
    }
    for (let i = 0; i < this.outputs; i++) {
      if (copies[i] > 1) kernel.apply({ op: "UPCAST", axis: i, arg: copies[i] });
    }
    for (const i of new Set(plan.regionLanes)) {
      if (i < this.outputs) continue;
      if (this.masked(i, plan.lanes) > 0) kernel.apply({ op: "PADTO", axis: i, arg: plan.lanes });
      kernel.apply({ op: "VECTOR", axis: i, arg: plan.lanes });
    }
    // reductions of one STAGE share its axes: the first that wants a tile has it
    const tiled = new Set<number>();
    this.regions.forEach((r, k) => {
      const tile = this.stageTile(r, plan.regionLanes[k], plan.lanes);
      if (tile.some(([i]) => tiled.has(i))) return;
      for (const [i, n] of tile) {
        tiled.add(i);
        kernel.apply({ op: "UPCAST", axis: i, arg: n });
      }
    });
    this.unroll(plan);
    const now = Array.from({ length: this.outputs }, (_, i) => i);
    for (let i = 0; i < order.length; i++) {
      if (now[i] === order[i]) continue;
      kernel.apply({ op: "SWAP", axis: now[i], arg: order[i] });
      now[now.indexOf(order[i])] = now[i];
      now[i] = order[i];
    }
    if (thread >= 0) kernel.apply({ op: "THREAD", axis: thread, arg: 0 });
    if (packed !== undefined) {
      let loops = chunk >= 0 ? 1 : 0;
      for (const i of order) if (packed.depends[i] && i !== chunk && this.loopsOf(i) > 1) loops++;
      kernel.apply({ op: "STAGE", input: argOf(packed.node.src[0].src[0], Ops.PARAM).slot, loops });
    }
  }

  /** Iterations of the loop that an output axis has now. */
  private loopsOf(i: number): number {
    const a = this.axes[i];
    return a.tiled ? a.outer : a.rest;
  }

  /** At most `copies` vectors along an axis, so that they divide it or the last ones may overlap. */
  private wholeCopies(axis: number, lanes: number, copies: number): number {
    const { size } = this.axes[axis];
    for (; copies > 1; copies--) {
      const tile = lanes * copies;
      if (size % tile === 0 || (this.kernel.mayOverlap && size >= tile)) break;
    }
    return copies;
  }

  /** The operand to pack: the one where it gains most. */
  private packedAccess(plan: Pick<Plan, "lanes" | "regionLanes" | "tile">): Access | undefined {
    const { lanes, tile } = plan;
    let best: Access | undefined, most = 0.25;
    for (const [k, r] of this.regions.entries()) {
      const vector = plan.regionLanes[k];
      if (r.kind !== "reduce" || vector < 0 || r.own.includes(vector)) continue;
      for (const a of r.accesses) {
        const uses = a.depends[vector] ? this.model.packUses(a, r, vector, lanes, tile) : 0;
        if (uses === 0) continue;
        const contiguous = a.strides[vector] === 1;
        const plain = a.gated[vector]
          ? (contiguous ? EDGE_COST : 2 * lanes)
          : !contiguous
          ? 1.25 * lanes
          : this.model.crowded(a, r)
          ? 1.6
          : 1;
        const gain = plain - 1 - this.model.fillCost(a, vector, lanes) / uses;
        if (gain > most) [best, most] = [a, gain];
      }
    }
    return best;
  }

  /** Vectors of a short reduce axis whose last one is computed under a mask; 0 for other axes. */
  private masked(i: number, lanes: number): number {
    const size = this.sizes[i], vectors = ceilDiv(size, lanes);
    const { role, isOpen } = this.axes[i];
    if (this.caps.hasMaskedLoads !== true || role !== "reduce" || isOpen) return 0;
    return size % lanes > 1 && vectors <= MASKED_VECTORS ? vectors : 0;
  }

  /**
   * Unrolls reduce axes: short ones whole; others where that supplies accumulators. Long bodies are left alone: values of
   * several iterations at once would not fit the registers.
   */
  private unroll(plan: Plan): void {
    const { kernel } = this;
    const done = new Set<number>();
    this.regions.forEach((r, region) => {
      if (r.kind !== "reduce") return;
      const here = plan.tile.reduce((n, [i, k]) => r.axes[i] ? n * k : n, r.lanes);
      const want = Math.max(1, Math.floor(LATENCY_ACCUMULATORS / here));
      const lane = plan.regionLanes[region];
      const unroll = (i: number, k: number): void => {
        done.add(i);
        kernel.apply({ op: "UNROLL", axis: i - this.outputs, arg: k });
      };
      if (r.own.includes(lane)) {
        const vectors = this.masked(lane, plan.lanes);
        if (vectors > 0) {
          if (vectors > 1 && !done.has(lane)) unroll(lane, vectors);
          return;
        }
        const scalars = r.accesses.reduce((n, a) => this.model.isScattered(a, lane) ? n + plan.lanes : n, 1);
        const most = Math.max(1, Math.min(want, Math.floor(UNROLL_COPIES / scalars)));
        const k = divisorUpTo(Math.floor(this.axes[lane].size / plan.lanes), most);
        if (k > 1 && !done.has(lane)) unroll(lane, k);
        return;
      }
      let body = here * Math.max(1, r.accesses.length / 2);
      for (const a of r.accesses) {
        if (
          lane < 0 || !this.model.isScattered(a, lane) || this.model.packUses(a, r, lane, plan.lanes, plan.tile) > 0
        ) continue;
        body += plan.tile.reduce((n, [i, k]) => a.depends[i] ? n * k : n, plan.lanes);
      }
      for (const i of [...r.own].reverse()) {
        const { size } = this.axes[i];
        if (size === 0) break;
        if (done.has(i)) continue;
        const whole = size <= 8 && size * body <= UNROLL_COPIES;
        const k = whole ? size : divisorUpTo(size, Math.min(4, want));
        if (k < 2) break;
        unroll(i, k);
        if (!whole) break;
        body *= size;
      }
    });
  }

  /**
   * Loop orders of the output axes to try. With a packed operand: first the axes that it depends on. Else as they are, or the
   * lanes' axis outside of the other tiled axis, so that a panel along it is read again from the cache.
   */
  private candidateOrders(tile: Tile, vector: number, packed: Access | undefined): (readonly number[])[] {
    const order = this.inOrder;
    if (packed !== undefined) {
      return [[...order.filter((i) => packed.depends[i]), ...order.filter((i) => !packed.depends[i])]];
    }
    const other = tile.find(([i]) => i !== vector)?.[0] ?? -1;
    if (vector < 0 || other < 0 || other > vector) return [order];
    const isTiled = this.regions.some((r) => r.kind === "reduce" && r.axes[vector] && r.axes[other]);
    // what does not depend on the lanes' axis would be computed again and again inside of it
    const isAlone = this.regions.some((r) => r.axes[other] && !r.axes[vector]);
    if (!isTiled || isAlone) return [order];
    const swapped = order.slice();
    [swapped[vector], swapped[other]] = [other, vector];
    return [order, swapped];
  }

  /** The output axis to split over threads: outer ones first, inner ones only where they balance clearly better. */
  private threadAxis(order: readonly number[], tileOf: (i: number) => number, packed: Access | undefined): number {
    const { threads } = this.caps;
    let best = -1, bestBalance = 0.5;
    for (const i of order) {
      if (this.axes[i].size === 0 || this.regions.some((r) => r.kind === "store" && !r.axes[i])) continue;
      let n = ceilDiv(this.sizes[i], tileOf(i));
      if (n < 2) continue;
      // an axis that the packed operand does not depend on is cut in one chunk a thread
      if (packed !== undefined && !packed.depends[i]) n = ceilDiv(n, ceilDiv(n, threads));
      const balance = n / (ceilDiv(n, threads) * threads);
      if (balance > bestBalance + (best < 0 ? 0 : 0.15)) [best, bestBalance] = [i, balance];
    }
    return best;
  }
}

/** Does a STORE that has this range write what is next to each other along it? */
function isContiguous(ast: UOp, range: UOp): boolean {
  return ast.src.every((s) => !dependsOnRange(s, range) || liesAlong(indexForm(s.src[0].src[1]), range));
}

/** Cuts axes that end at variables in blocks of a few vectors: reductions, rows, and what is stored side by side. */
function blockAxes(kernel: Kernel, caps: Capabilities): void {
  const lanes = caps.vectorLanes(dtypes.float32);
  kernel.axes.forEach(({ size, role, range }, axis) => {
    if (size > 0 || lanes < 2 || (role === "output" && !isContiguous(kernel.ast, range))) return;
    if (role !== "stage" && stagesIn(kernel.ast, range)) return; // the rest would fill them in loops that it shares
    const most = vmax(range.src[0]);
    for (let k = BLOCK_VECTORS * lanes; k >= lanes; k /= 2) {
      if (2 * k > most || (role === "stage" && blockStage(kernel.ast, range, k) === undefined)) continue;
      kernel.apply({ op: "PADTO", axis, arg: k });
      return;
    }
  });
}

/** The chooser for a kernel, whose open axes are cut in blocks; undefined for scalar machines. */
function chooserFor(kernel: Kernel, caps: Capabilities): Chooser | undefined {
  if (caps.hasGrid || (caps.vectorBytes === 0 && caps.threads < 2)) return undefined;
  blockAxes(kernel, caps);
  return new Chooser(kernel, caps);
}

/** Computes the elements of rows where they are read, if that costs less than keeping the rows: by the model. */
export function cheaperRows(ast: UOp, { caps }: Renderer): UOp {
  const inlined = inlineRows(ast);
  if (inlined === ast) return ast;
  const [kept, computed] = [ast, inlined].map((u) => chooserFor(new Kernel(ungate(u)), caps)?.plan().cost ?? 0);
  return computed < kept ? inlined : ast;
}

/** Applies the opts that suit the device to a kernel. Does nothing for scalar machines. */
export function heuristic(kernel: Kernel, { caps }: Renderer): void {
  chooserFor(kernel, caps)?.run();
}
