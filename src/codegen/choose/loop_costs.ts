/**
 * What a choice for loops on a CPU costs, in cycles: instructions (machine/cost_model.ts) or the lines that are fetched
 * (machine/memory_cost.ts), whichever is more, region by region, and the share of the thread with most tiles.
 *
 * @module
 */
import { ceilDiv, rangeOf, sum } from "../../helpers/math.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import type { Access, Region } from "../machine/access.ts";
import { copiesOn, type CostModel, type Tile } from "../machine/cost_model.ts";
import { type MemoryCost, MemoryModel, Nest } from "../machine/memory_cost.ts";
import { Kernel } from "../opt/kernel.ts";
import type { Opt } from "../opt/opt.ts";
import { type Candidate, LoopCandidates, NO_TILE } from "./loop_candidates.ts";

/** Cycles of the model that are worth a second thread: some 15 microseconds, a few times what waking it takes. */
export const THREAD_COST: number = 60_000;
/** Part of what takes less time that is not hidden behind what takes more. */
const NOT_HIDDEN = 0.1;

/** What takes `cost` in one thread, where it is long enough for several of which one takes `uneven` times the mean. */
export function spread(cost: number, uneven: number): number {
  return cost < THREAD_COST ? cost : cost * uneven;
}

/** Does a tile have an axis of a region? */
export function touches(tile: Tile, r: Region): boolean {
  for (let t = 0; t < tile.length; t++) if (r.axes[tile[t][0]]) return true;
  return false;
}

/** Costs of the choices for one kernel. */
export class LoopCosts {
  private readonly model: CostModel;
  private readonly memory: MemoryModel;
  /** Memo of `stageTile`, by reduce and lanes. */
  private readonly stageTiles = new Map<string, Tile>();
  /** What `memoryCost` works on, kept from call to call. */
  private readonly extents: number[] = [];
  private readonly nest = new Nest();

  constructor(private readonly loops: LoopCandidates) {
    this.model = loops.model;
    this.memory = new MemoryModel(loops.regions, loops.sizes, loops.caps);
  }

  /** The cost of a region, with the tile along output axes given, and the best along those of a STAGE around it; exact below `most`. */
  regionCost(r: Region, lane: number, lanes: number, tile: Tile, most: number = Infinity): number {
    const inner = this.stageTile(r, lane, lanes);
    const all = inner.length === 0 ? tile : [...tile, ...inner];
    return this.model.cost(r, lane, lanes, all, most) + this.model.combining(r, lane, lanes, all);
  }

  /** The cost of the region at `k` that has `cost` without what memory costs. */
  wholeCost(r: Region, k: number, cost: number, plan: Candidate): number {
    const { stream, jumps } = this.memoryCost(r, plan.regionLanes[k], plan);
    const last = this.model.combining(r, plan.regionLanes[k], plan.lanes, plan.tile), issued = cost - last;
    return Math.max(issued, stream) + NOT_HIDDEN * Math.min(issued, stream) + jumps + last;
  }

  /** What the memory costs in a region, with the output axes in `order`. */
  private memoryCost(r: Region, lane: number, plan: Candidate): MemoryCost {
    const { lanes, tile, blocks, order, packed } = plan;
    const { extents, nest } = this, { sizes, outputs } = this.loops;
    for (let i = 0; i < sizes.length; i++) extents[i] = (i === lane && r.axes[i] ? lanes : 1) * copiesOn(tile, i);
    nest.clear();
    for (let k = 0; k < sizes.length; k++) {
      const i = k < outputs ? order[k] : k;
      if (r.axes[i] && !r.own.includes(i)) nest.add(i, sizes[i], Math.max(extents[i], copiesOn(blocks, i)));
    }
    for (let t = 0; t < order.length && blocks.length > 0; t++) {
      const i = order[t], block = copiesOn(blocks, i);
      if (r.axes[i] && block > 1) nest.add(i, block, extents[i]);
    }
    for (let i = 0; i < sizes.length; i++) if (r.axes[i] && r.own.includes(i)) nest.add(i, sizes[i], extents[i]);
    const copies = packed.filter((a) => r.accesses.includes(a));
    return this.memory.cost(
      r,
      extents,
      nest,
      copies.map((a) => ({ access: a, tile: this.model.packedTile(a, r, extents) })),
    );
  }

  /** The cost of all regions in one thread, where each axis has so many lanes. */
  costOf(plan: Omit<Candidate, "vector" | "lanes">, lanes: readonly number[]): number {
    return sum(this.loops.regions.map((r, k) => {
      const lane = plan.regionLanes[k], here = { ...plan, vector: lane, lanes: lanes[lane] ?? 1 };
      const cost = this.model.cost(r, lane, here.lanes, plan.tile) +
        this.model.combining(r, lane, here.lanes, plan.tile);
      return this.wholeCost(r, k, cost, here);
    }));
  }

  /** How much longer the thread with most tiles takes than the mean, where the best of the axes is split. */
  imbalance(tile: Tile, blocks: Tile, vector: number, lanes: number): number {
    const { caps: { threads }, outputs, sizes } = this.loops;
    let best = threads;
    for (let i = 0; i < outputs && threads > 1; i++) {
      const piece = Math.max(copiesOn(blocks, i), copiesOn(tile, i) * (i === vector ? lanes : 1));
      const n = ceilDiv(sizes[i], piece);
      best = Math.min(best, ceilDiv(n, threads) * threads / n);
    }
    return best;
  }

  /** The reduction that costs most. */
  mainRegion(regionLanes: readonly number[], lanes: number): Region | undefined {
    let main: Region | undefined, most = -1;
    this.loops.regions.forEach((r, k) => {
      if (r.kind !== "reduce") return;
      const c = this.regionCost(r, regionLanes[k], lanes, []);
      if (c > most) [main, most] = [r, c];
    });
    return main;
  }

  /** The register tile of a reduce in a STAGE, along the axes of the STAGE: where not all that it reads depends on them. */
  stageTile(r: Region, lane: number, lanes: number): Tile {
    if (r.kind !== "reduce" || this.loops.stages.length === 0) return NO_TILE;
    const axes = this.loops.axes.flatMap((a, i) => a.role === "stage" && r.axes[i] ? [i] : []);
    if (axes.length === 0 || r.accesses.every((a) => axes.every((i) => a.depends[i]))) return NO_TILE;
    const key = `${this.loops.regions.indexOf(r)} ${lane} ${lanes}`;
    let best = this.stageTiles.get(key);
    if (best !== undefined) return best;
    best = [];
    let least = this.model.cost(r, lane, lanes, []);
    for (const tile of this.loops.tilesOf(r, axes, lane, lanes)) {
      const cost = this.model.cost(r, lane, lanes, tile);
      if (cost < least * 0.995) [best, least] = [tile, cost];
    }
    this.stageTiles.set(key, best);
    return best;
  }
}

/** What the model says that a kernel takes under opts on loops, in the time of about a cycle; undefined for grids. */
export function estimateOf(ast: UOp, caps: Capabilities, opts: readonly Opt[]): number | undefined {
  if (caps.hasGrid) return undefined;
  const loops = new LoopCandidates(new Kernel(ast), caps), costs = new LoopCosts(loops), kernel = new Kernel(ast);
  const order = rangeOf(loops.outputs), blocks: [number, number][] = [], inputs: number[] = [];
  for (const o of opts) {
    kernel.apply(o);
    if (o.op === "STAGE") inputs.push(o.input);
    else if (o.op === "PADTO" && o.axis < loops.outputs) blocks.push([o.axis, o.size]);
    else if (o.op === "SWAP") {
      const i = order.indexOf(o.axis), j = order.indexOf(o.other);
      [order[i], order[j]] = [order[j], order[i]];
    }
  }
  const pieces = (i: number, kind: AxisKind): number =>
    kernel.axes[i].pieces.reduce((n, p) => p.kind === kind ? n * p.size : n, 1);
  const axes = rangeOf(kernel.axes.length), tile = axes.map((i) => [i, pieces(i, AxisKind.UPCAST)] as const);
  const lanes = axes.map((i) => pieces(i, AxisKind.VECTOR));
  const isPacked = ({ node }: Access): boolean => {
    const base = node.src[0].src[0];
    return base.op === Ops.PARAM && inputs.includes(argOf(base, Ops.PARAM).slot);
  };
  return costs.costOf({
    regionLanes: loops.regions.map((r) => axes.findIndex((i) => r.axes[i] && lanes[i] > 1)),
    tile: tile.filter(([, k]) => k > 1),
    blocks,
    order,
    packed: loops.regions.flatMap((r) => r.kind === "reduce" ? r.accesses.filter(isPacked) : []),
  }, lanes);
}
